"""Download of a file: an interrupted one is resumed, and the digest is checked before the file gets its name.

A server may be hostile, or somebody may answer in its place: the size is limited, a redirect leads to no other scheme
and not from the internet into a private network, and nothing of an answer is printed as it is.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import socket
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Any, BinaryIO

from rich.console import Console
from rich.progress import wrap_file

from prorec._core.errors import DownloadError
from prorec.data.formats import open_decompressed

_log = logging.getLogger(__name__)

_TRIES = 3
_TIMEOUT_S = 30
_CHUNK = 1 << 20
_MAX_BYTES = 100_000_000
"""Largest size of a download; every data set is smaller."""


@dataclass(frozen=True)
class RemoteFile:
    """A file on a server, with its digest."""

    address: str
    """Address of the file."""
    digest: str
    """`md5:` or `sha256:` and the hexadecimal digest."""

    @property
    def name(self) -> str:
        """The file's name, which is the last part of its address."""
        return self.address.rpartition("/")[2]


def download(remote: RemoteFile, folder: Path) -> Path:
    """Download a file unless it is in the folder already.

    An interrupted download leaves a file with `.part` behind its name, and the next call continues it.

    Parameters
    ----------
    remote : RemoteFile
        The file on the server.
    folder : Path
        The folder to write to; it is made if it does not exist.

    Returns
    -------
    Path
        The file in the folder, with the expected digest.

    Raises
    ------
    DownloadError
        If the server cannot be reached or redirects to where it should not, if the file is too large, or if it has
        another digest; the file is deleted then.
    """
    target = folder / remote.name
    if target.exists() and _has_raw_digest(target, remote.digest):
        return target
    _log.info("downloading %s to %s", remote.address, folder)
    folder.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    for attempt in range(1, _TRIES + 1):
        try:
            _continue_download(remote, part)
            break
        except DownloadError:
            part.unlink(missing_ok=True)
            raise
        except (urllib.error.URLError, HTTPException, OSError, ValueError) as error:
            if attempt == _TRIES or isinstance(error, urllib.error.HTTPError):
                raise DownloadError(f"{remote.address} could not be downloaded: {_describe(error)}") from error
    if not _has_raw_digest(part, remote.digest):
        part.unlink()
        raise DownloadError(f"{remote.address}: the downloaded file does not have the expected {remote.digest}")
    part.replace(target)
    return target


def has_digest(path: Path, digest: str) -> bool:
    """Return whether a file has a digest.

    Parameters
    ----------
    path : Path
        The file; of a gzipped one the decompressed content counts.
    digest : str
        Algorithm and hexadecimal digest, such as "md5:0e33…".

    Returns
    -------
    bool
    """
    with open_decompressed(path) as file:
        return _is_digest(file, digest)


def _has_raw_digest(path: Path, digest: str) -> bool:
    """Return whether a file has a digest as it is: what a stranger sent is not decompressed."""
    with path.open("rb") as file:
        return _is_digest(file, digest)


def _is_digest(file: BinaryIO, digest: str) -> bool:
    algorithm, _, expected = digest.partition(":")
    hasher = hashlib.new(algorithm)
    while chunk := file.read(_CHUNK):
        hasher.update(chunk)
    return hasher.hexdigest() == expected


def _continue_download(remote: RemoteFile, part: Path) -> None:
    """Append to a file the bytes that it lacks, or write all if the server cannot continue."""
    n_bytes = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(remote.address, headers={"Range": f"bytes={n_bytes}-"} if n_bytes else {})
    try:
        response: HTTPResponse = urllib.request.build_opener(_Redirects).open(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        return  # the file has no more bytes; the digest decides whether it is complete
    text = response.headers.get("Content-Length", "0")
    length = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0
    console = Console(stderr=True)
    with (
        response,
        part.open("ab" if response.status == 206 else "wb") as file,
        wrap_file(
            response, length, description=remote.name, console=console, disable=not console.is_terminal
        ) as source,
    ):
        start = file.tell()
        _copy(source, file, start + length, remote.address)
        n_received = file.tell() - start
    if n_received < length:
        raise OSError(f"the connection broke off after {n_received:,} of {length:,} bytes")


def _copy(source: BinaryIO, file: IO[bytes], announced: int, address: str) -> None:
    """Copy what the server sends, up to the largest size."""
    while announced <= _MAX_BYTES and (chunk := source.read(_CHUNK)):
        announced = max(announced, file.tell() + len(chunk))
        if announced <= _MAX_BYTES:
            file.write(chunk)
    if announced > _MAX_BYTES:
        raise DownloadError(f"{address}: a download must have at most {_MAX_BYTES:,} bytes; this has {announced:,}")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow a redirect only to the same scheme, and only to a host of the same kind."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Return the request to the new address, or raise DownloadError."""
        check_redirect(req.full_url, newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def check_redirect(address: str, target: str) -> None:
    """Refuse a redirect to another scheme, or to a host of another kind.

    Parameters
    ----------
    address, target : str
        Address that was asked for, and the one that the server names instead.

    Raises
    ------
    DownloadError
        If the scheme differs, or if only one of the hosts is on the internet, in a private network, or this machine.

    Examples
    --------
    >>> check_redirect("http://8.8.8.8", "http://8.8.4.4/b")
    >>> check_redirect("http://8.8.8.8", "http://10.0.0.1/b")
    Traceback (most recent call last):
    prorec._core.errors.DownloadError: http://8.8.8.8: a server may not redirect from the internet to a private network
    """
    old, new = urllib.parse.urlsplit(address), urllib.parse.urlsplit(target)
    if old.scheme != new.scheme:
        raise DownloadError(f"{address}: a server may not redirect from {old.scheme} to {_printable(new.scheme)}")
    kinds = [_host_kind(each.hostname or "") for each in (old, new)]
    if kinds[0] != kinds[1]:
        raise DownloadError(f"{address}: a server may not redirect from {kinds[0]} to {kinds[1]}")


def _host_kind(host: str) -> str:
    """Return where a host is; one with several addresses is where the least public of them is."""
    addresses = [ipaddress.ip_address(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    if any(each.is_loopback or each.is_unspecified for each in addresses):
        return "this machine"
    return "the internet" if all(each.is_global for each in addresses) else "a private network"


def _describe(error: Exception) -> str:
    """Return an error in words of ours: a server chooses the text of its own."""
    if isinstance(error, urllib.error.HTTPError):
        known = error.code in {each.value for each in HTTPStatus}
        return f"the server answered {error.code}{f' ({HTTPStatus(error.code).phrase})' if known else ''}"
    return _printable(str(error)) or type(error).__name__


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text[:200])

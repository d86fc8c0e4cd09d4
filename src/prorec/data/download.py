"""Download of a file: an interrupted one is resumed, and the digest is checked before the file gets its name."""

from __future__ import annotations

import hashlib
import logging
import shutil
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from rich.console import Console
from rich.progress import wrap_file

from prorec._core.errors import DownloadError
from prorec.data.formats import open_decompressed

_log = logging.getLogger(__name__)

_TRIES = 3
_TIMEOUT_S = 30
_CHUNK = 1 << 20


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
        The file in the folder.

    Raises
    ------
    DownloadError
        If the server cannot be reached, or the file has another digest; it is deleted then.
    """
    target = folder / remote.name
    if target.exists():
        return target
    _log.info("downloading %s to %s", remote.address, folder)
    folder.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    for attempt in range(1, _TRIES + 1):
        try:
            _continue_download(remote, part)
            break
        except (urllib.error.URLError, HTTPException, OSError) as error:
            if attempt == _TRIES or isinstance(error, urllib.error.HTTPError):
                raise DownloadError(f"{remote.address} could not be downloaded: {error}") from error
    if not has_digest(part, remote.digest):
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
    algorithm, _, expected = digest.partition(":")
    hasher = hashlib.new(algorithm)
    with open_decompressed(path) as file:
        while chunk := file.read(_CHUNK):
            hasher.update(chunk)
    return hasher.hexdigest() == expected


def _continue_download(remote: RemoteFile, part: Path) -> None:
    """Append to a file the bytes that it lacks, or write all if the server cannot continue."""
    n_bytes = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(remote.address, headers={"Range": f"bytes={n_bytes}-"} if n_bytes else {})
    try:
        response: HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        return  # the file has no more bytes; the digest decides whether it is complete
    length = int(response.headers.get("Content-Length", 0))
    console = Console(stderr=True)
    with (
        response,
        part.open("ab" if response.status == 206 else "wb") as file,
        wrap_file(
            response, length, description=remote.name, console=console, disable=not console.is_terminal
        ) as source,
    ):
        start = file.tell()
        shutil.copyfileobj(source, file, _CHUNK)
        n_received = file.tell() - start
    if n_received < length:
        raise OSError(f"the connection broke off after {n_received:,} of {length:,} bytes")

"""Fetching a file: resumed where it broke off, checked before it is believed, whole or not there at all."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from prorec._core.errors import DownloadError
from prorec.data.formats import open_decompressed

_TRIES = 3
_TIMEOUT_S = 30
_CHUNK = 1 << 20


@dataclass(frozen=True)
class RemoteFile:
    """A file at an address, and the digest that proves it."""

    address: str
    digest: str
    """`md5:` or `sha256:` and the hexadecimal digest."""

    @property
    def name(self) -> str:
        """The file's name, the last part of its address."""
        return self.address.rpartition("/")[2]


def download(remote: RemoteFile, folder: Path) -> Path:
    """Download into a folder, unless the file is there already; return where it is.

    What a broken download got so far stays beside it under `.part`, and the next try goes on from there.
    """
    target = folder / remote.name
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    for attempt in range(1, _TRIES + 1):
        try:
            _go_on(remote, part)
            break
        except (urllib.error.URLError, HTTPException, OSError) as error:
            if attempt == _TRIES or isinstance(error, urllib.error.HTTPError):
                raise DownloadError(f"{remote.address} could not be downloaded: {error}") from error
    if not has_digest(part, remote.digest):
        part.unlink()
        raise DownloadError(f"{remote.address}: what was downloaded does not have the expected {remote.digest}")
    part.replace(target)
    return target


def has_digest(path: Path, digest: str) -> bool:
    """Whether a file has a digest, written `algorithm:hexadecimal`; of a gzipped one, what is in it."""
    algorithm, _, expected = digest.partition(":")
    digest_so_far = hashlib.new(algorithm)
    with open_decompressed(path) as file:
        while chunk := file.read(_CHUNK):
            digest_so_far.update(chunk)
    return digest_so_far.hexdigest() == expected


def _go_on(remote: RemoteFile, part: Path) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(remote.address, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response: HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        return  # nothing comes after what is there; the digest will tell whether that is all of it
    with (
        response,
        Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            console=Console(stderr=True),
            disable=not Console(stderr=True).is_terminal,
        ) as progress,
    ):
        resumed = response.status == 206
        length = int(response.headers.get("Content-Length", 0))
        done = have if resumed else 0
        task = progress.add_task(remote.name, total=done + length if length else None, completed=done)
        with part.open("ab" if resumed else "wb") as file:
            received = 0
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                received += len(chunk)
                progress.update(task, advance=len(chunk))
        if received < length:
            raise OSError(f"the connection broke off after {received:,} of {length:,} bytes")

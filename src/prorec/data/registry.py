"""The data sets that are known by name: their files, where to find or download them, and how to load them.

The entries are in `datasets.toml`, the parsers of their files in `parsers.py`.
"""

from __future__ import annotations

import os
import sys
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from prorec._core.checks import safe_repr
from prorec._core.errors import DownloadError, InputError
from prorec._core.files import atomic_write, prefix_errors
from prorec.data import parsers
from prorec.data.cinema import make_cinema
from prorec.data.download import RemoteFile, download, has_digest
from prorec.data.formats import find_plain_or_gzipped
from prorec.interactions import Interactions


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set: its origin, its terms of use, its size and its files."""

    name: str
    """Name for `load_dataset`."""
    title: str
    """Description in one line."""
    homepage: str
    """Address of the page that publishes it; empty for generated data."""
    license: str
    """Terms of use, in one sentence."""
    citation: str
    """Publication to cite."""
    counts: tuple[int, int, int]
    """Numbers of users, items and interactions after loading with the default `min_rating`."""
    counts_are_certain: bool = True
    """Whether the counts were checked against the data."""
    min_rating: float | None = None
    """Smallest rating that counts as an interaction by default; None for all."""
    files: dict[str, str]
    """Files that the parser reads, each with its digest; an empty digest is not checked."""
    download_folder: str = ""
    """Address of the folder from which the files can be downloaded."""
    archive: str = ""
    """Address of a zip archive with the files."""
    archive_digest: str = ""
    """Digest of the archive."""

    @property
    def remotes(self) -> tuple[RemoteFile, ...]:
        """The files or the archive to download; none if that needs an agreement."""
        if self.archive:
            return (RemoteFile(self.archive, self.archive_digest),)
        files = self.files.items() if self.download_folder else ()
        return tuple(RemoteFile(f"{self.download_folder}/{file}", digest) for file, digest in files)


def _read_entries() -> dict[str, DataSet]:
    entries = tomllib.loads(Path(__file__).with_name("datasets.toml").read_text(encoding="utf-8"))
    return {name: DataSet(name=name, **entry | {"counts": tuple(entry["counts"])}) for name, entry in entries.items()}


DATASETS = _read_entries()
"""The data sets by name."""

_PARSERS: dict[str, Callable[[Path], Interactions]] = {
    "ml-100k": parsers.parse_movielens_100k,
    "ml-1m": parsers.parse_movielens_1m,
    "amusic": partial(parsers.parse_amazon, name="AMusic"),
    "atoy": partial(parsers.parse_amazon, name="AToy"),
    "gowalla": parsers.parse_gowalla,
    "yahoo-r1": parsers.parse_yahoo_r1,
    "cinema": lambda _: make_cinema().interactions,
}


def load_dataset(name: str, *, min_rating: float | Literal["default"] | None = "default") -> Interactions:
    """Load a data set by name.

    Its files are searched in `$PROREC_DATA/<name>`, then in the cache folder, and otherwise downloaded to the cache
    folder. The cinema has no files: it is generated.

    Parameters
    ----------
    name : {"ml-100k", "ml-1m", "amusic", "atoy", "gowalla", "yahoo-r1", "cinema"}
        Name of the data set.
    min_rating : float, "default" or None, default "default"
        Smallest rating that counts as an interaction; None for all. The default is that of the data set, such as 4
        for MovieLens.

    Returns
    -------
    Interactions

    Raises
    ------
    DownloadError
        If files are missing and cannot be downloaded; the message says which files to put where.
    InputError
        If the name is unknown, or files are not the published ones.

    Examples
    --------
    >>> load_dataset("cinema")
    Interactions(1,000 users × 800 items, 51,753 interactions, with timestamp and origin)
    """
    if not isinstance(name, str) or name not in DATASETS:
        raise InputError(f"no data set is called {safe_repr(name)}; there are {', '.join(DATASETS)}")
    entry = DATASETS[name]
    folder = fetch_files(entry)
    for file, digest in entry.files.items():
        path = find_plain_or_gzipped(folder, file)
        with prefix_errors(path):
            if digest and not has_digest(path, digest):
                raise InputError(
                    f"this is not the published file of {name}, or it is incomplete: its digest is not {digest}. "
                    "Delete it to download it again"
                )
    interactions = _PARSERS[name](folder)
    threshold = entry.min_rating if min_rating == "default" else min_rating
    if threshold is not None:
        if "rating" not in interactions.columns:
            raise InputError(f"{name} has no ratings, so min_rating must be left out; got {safe_repr(threshold)}")
        interactions = interactions.filter_by_rating(threshold)
    counts = (interactions.n_users, interactions.n_items, len(interactions))
    if threshold == entry.min_rating and counts != entry.counts and entry.counts_are_certain:
        expected, actual = (
            "{:,} users, {:,} items and {:,} interactions".format(*each) for each in (entry.counts, counts)
        )
        raise InputError(f"{name} should have {expected}, but these files have {actual}")
    return interactions


def find_files(entry: DataSet) -> Path | None:
    """Find the files of a data set on this machine.

    Parameters
    ----------
    entry : DataSet
        The data set.

    Returns
    -------
    Path or None
        The folder that has all of its files, plain or gzipped.
    """
    return next((folder for folder in _search_folders(entry) if _has_files(folder, entry)), None)


def fetch_files(entry: DataSet) -> Path:
    """Find the files of a data set on this machine, or download them.

    Parameters
    ----------
    entry : DataSet
        The data set.

    Returns
    -------
    Path
        The folder with its files.

    Raises
    ------
    DownloadError
        If they cannot be downloaded.
    """
    if folder := find_files(entry):
        return folder
    folders = _search_folders(entry)
    remedy = (
        f"{entry.name} is not on this machine. Put {', '.join(entry.files)} into "
        f"{' or '.join(map(str, folders))}"
        f"{'' if len(folders) > 1 else f' (or set PROREC_DATA to the folder that contains {entry.name}/)'}. "
        f"They come from {entry.homepage}"
    )
    if len(folders) > 1 and _has_files(folders[0].parent, entry):
        remedy = f"PROREC_DATA is the folder of {entry.name} itself; set it to the folder above. {remedy}"
    if not entry.remotes:
        raise DownloadError(f"{remedy}, which asks you to sign up first")
    try:
        for remote in entry.remotes:
            path = download(remote, folders[-1])
            if path.suffix == ".zip":
                _extract_files(path, entry.files, folders[-1])
    except (DownloadError, OSError, zipfile.BadZipFile) as error:
        raise DownloadError(f"{error}. {remedy}") from error
    return folders[-1]


def cache_folder() -> Path:
    """Return the folder of downloads.

    Returns
    -------
    Path
        `$PROREC_CACHE`, or the platform's usual folder for caches.
    """
    if folder := os.environ.get("PROREC_CACHE"):
        return Path(folder)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "prorec" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "prorec"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prorec"


def _search_folders(entry: DataSet) -> list[Path]:
    """Return the folders to search, first to last; downloads go to the last."""
    folder = os.environ.get("PROREC_DATA")
    return ([Path(folder) / entry.name] if folder else []) + [cache_folder() / entry.name]


def _has_files(folder: Path, entry: DataSet) -> bool:
    return all(find_plain_or_gzipped(folder, file).is_file() for file in entry.files)


def _extract_files(archive: Path, files: dict[str, str], folder: Path) -> None:
    """Extract some files of an archive, each checked before it gets its name, and delete the archive."""
    with zipfile.ZipFile(archive) as zipped:
        members = {Path(member).name: member for member in zipped.namelist()}
        for file, digest in files.items():
            if file not in members:
                raise DownloadError(f"{archive.name} has no {file} in it")
            with atomic_write(folder / file) as temporary:
                temporary.write_bytes(zipped.read(members[file]))
                if not has_digest(temporary, digest):
                    raise DownloadError(f"{file} in {archive.name} does not have the expected {digest}")
    archive.unlink()

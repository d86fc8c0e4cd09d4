"""The data sets that are known by name."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from prorec._core.errors import DownloadError, InputError
from prorec._core.files import atomic_write, prefix_errors
from prorec.data import parsers
from prorec.data.cinema import make_cinema
from prorec.data.download import RemoteFile, download, has_digest
from prorec.data.formats import find_plain_or_gzipped
from prorec.interactions import Interactions


@dataclass(frozen=True)
class DataSet:
    """What is known of a data set: where it comes from, what may be done with it, what is in it."""

    name: str
    title: str
    homepage: str
    licence: str
    citation: str
    counts: tuple[int, int, int]
    """Users, items and interactions after loading with the default `min_rating`."""
    min_rating: float | None
    """Ratings from here on count as interactions; None: all of them."""
    files: dict[str, str]
    """The files the parser reads, each with its digest (empty where none is published)."""
    remotes: tuple[RemoteFile, ...]
    """Where they can be downloaded from: the files themselves, or one zip archive that has them."""
    parse: Callable[[Path], Interactions]
    counts_are_certain: bool = True
    """False where the published counts could not be checked against the data."""


_MOVIELENS_LICENCE = "Research use; no redistribution without permission; no commercial use (GroupLens README)"
_DEEPCF = "https://raw.githubusercontent.com/familyld/DeepCF/master/Data"
_LIGHTGCNPP = (
    "https://raw.githubusercontent.com/geon0325/LightGCNpp/a18af1e1f65dc4b6a432ce5aeaae5bbe75ac1c2e/data/gowalla"
)
_AMAZON_LICENCE = "No licence is stated; derived from Amazon product reviews, for research"
_AMAZON_CITATION = (
    "Z.-H. Deng, L. Huang, C.-D. Wang, J.-H. Lai, P. S. Yu. DeepCF: A Unified Framework of Representation Learning "
    "and Matching Function Learning in Recommender System. AAAI 2019"
)


def _amazon(name: str, title: str, file: str, counts: tuple[int, int, int], train: str, test: str) -> DataSet:
    files = {f"{file}.train.rating": f"sha256:{train}", f"{file}.test.rating": f"sha256:{test}"}
    return DataSet(
        name=name,
        title=title,
        homepage="https://github.com/familyld/DeepCF/tree/master/Data",
        licence=_AMAZON_LICENCE,
        citation=_AMAZON_CITATION,
        counts=counts,
        min_rating=None,
        files=files,
        remotes=tuple(RemoteFile(f"{_DEEPCF}/{path}", digest) for path, digest in files.items()),
        parse=partial(parsers.parse_amazon, name=file),
    )


_GOWALLA_FILES = {
    "train.txt": "sha256:d47e01d060624f389956c0b2f89a1ed8c453ea158631cd2b5320c241f3e1a073",
    "valid.txt": "sha256:ddc22c1cd9a7d14fd5cd0c98b1473b614f4323038fef74ae0d28cc9c92a08ba2",
    "test.txt": "sha256:099a2a73924e4b754dc6efd730d764f492321b53c38eb93298850c83acf57be3",
}

DATASETS = {
    entry.name: entry
    for entry in (
        DataSet(
            name="ml-100k",
            title="MovieLens 100K, ratings of 4 and 5",
            homepage="https://grouplens.org/datasets/movielens/100k/",
            licence=_MOVIELENS_LICENCE,
            citation="F. M. Harper, J. A. Konstan. The MovieLens Datasets: History and Context. ACM TiiS 5(4), 2015",
            counts=(942, 1_447, 55_375),
            min_rating=4,
            files={
                "u.data": "sha256:06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
                "u.item": "sha256:553841ebc7de3a0fd0d6b62a204ea30c1e651aacfb2814c7a6584ac52f2c5701",
                "u.genre": "sha256:9757e0d3e6b298159a80dd48eaf938114690e911e39af97a76949ef1663610bb",
            },
            remotes=(
                RemoteFile(
                    "https://files.grouplens.org/datasets/movielens/ml-100k.zip",
                    "md5:0e33842e24a9c977be4e0107933c0723",
                ),
            ),
            parse=parsers.parse_movielens_100k,
        ),
        DataSet(
            name="ml-1m",
            title="MovieLens 1M, ratings of 4 and 5",
            homepage="https://grouplens.org/datasets/movielens/1m/",
            licence=_MOVIELENS_LICENCE,
            citation="F. M. Harper, J. A. Konstan. The MovieLens Datasets: History and Context. ACM TiiS 5(4), 2015",
            counts=(6_038, 3_533, 575_281),
            min_rating=4,
            files={
                "ratings.dat": "sha256:506d64ca44484487c11dc2d9a28de5c54948213e6b96285e298afe28d6ea4e0f",
                "movies.dat": "sha256:0140fc2356357c1a851d0f52e893a1e4d3696df632c4141cea8d5bc3d621f0b9",
            },
            remotes=(
                RemoteFile(
                    "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
                    "md5:c4d9eecfca2ab87c1945afe126590906",
                ),
            ),
            parse=parsers.parse_movielens_1m,
        ),
        _amazon(
            "amusic",
            "Amazon Music",
            "AMusic",
            (1_776, 12_929, 46_087),
            train="7e7aa977b152a99e706c581f8feaa73a9c490b3c9f88b81a0aa1da3272bd3a98",
            test="e6d556349b628eaeae94170a96e183db899e1947664bb17dbe30c31962b5def1",
        ),
        _amazon(
            "atoy",
            "Amazon Toys",
            "AToy",
            (3_137, 33_953, 84_642),
            train="03abd02341cbe87295fc333c2553614f024d453fcbe037f58d8bd90d4fafea72",
            test="532639c8bbe3aa0451ac4000998c3fccc38ca463006335fb815a75c8ad577d71",
        ),
        DataSet(
            name="gowalla",
            title="Gowalla check-ins, as the LightGCN family of papers has them",
            homepage="https://github.com/geon0325/LightGCNpp",
            licence="No licence is stated; derived from SNAP's Gowalla check-ins, for research",
            citation="E. Cho, S. A. Myers, J. Leskovec. Friendship and Mobility: User Movement in Location-Based "
            "Social Networks. KDD 2011; split of G. Lee, K. Kim, K. Shin. Revisiting LightGCN. RecSys 2024",
            counts=(29_858, 40_981, 1_027_370),
            min_rating=None,
            files=_GOWALLA_FILES,
            remotes=tuple(RemoteFile(f"{_LIGHTGCNPP}/{path}", digest) for path, digest in _GOWALLA_FILES.items()),
            parse=parsers.parse_gowalla,
        ),
        DataSet(
            name="yahoo-r1",
            title="Yahoo! Music user ratings of artists (Webscope R1), ratings above 50",
            homepage="https://webscope.sandbox.yahoo.com/catalog.php?datatype=r",
            licence="Webscope agreement: academic research only, no redistribution",
            citation="Yahoo! Webscope dataset R1, Yahoo! Music User Ratings of Musical Artists, version 1.0",
            counts=(1_948_882, 46_110, 48_817_561),
            min_rating=51,
            files={parsers.YAHOO_FILE: ""},
            remotes=(),
            parse=parsers.parse_yahoo_r1,
            counts_are_certain=False,
        ),
        DataSet(
            name="cinema",
            title="The cinema, a synthetic film club with planted truth",
            homepage="",
            licence="Made by prorec; yours",
            citation="none needed",
            counts=(1_000, 800, 51_753),
            min_rating=None,
            files={},
            remotes=(),
            parse=lambda _: make_cinema().interactions,
        ),
    )
}


def load_dataset(name: str, *, min_rating: float | Literal["default"] | None = "default") -> Interactions:
    """Load a data set by name: ml-100k, ml-1m, amusic, atoy, gowalla, yahoo-r1 or cinema.

    Its files are looked for in `$PROREC_DATA/<name>`, then in the cache folder, and then downloaded to it. The cinema
    has none: it is generated.

    Parameters
    ----------
    min_rating : ratings from here on count as interactions; None keeps them all; by default, what the
        data set's entry says

    Raises
    ------
    DownloadError : where files are missing and cannot be fetched
    InputError : where they are not the published ones
    """
    if not isinstance(name, str) or name not in DATASETS:
        raise InputError(f"no data set is called {name!r}; there are {', '.join(DATASETS)}")
    entry = DATASETS[name]
    folder = fetch_files(entry)
    for file, digest in entry.files.items():
        path = find_plain_or_gzipped(folder, file)
        with prefix_errors(path):
            if digest and not has_digest(path, digest):
                raise InputError(f"this is not the published file of {name}, or not whole: its digest is not {digest}")
    everything = entry.parse(folder)
    threshold = entry.min_rating if min_rating == "default" else min_rating
    if threshold is not None and "rating" not in everything.columns:
        raise InputError(f"{name} has no ratings, so min_rating must be left out; got {threshold!r}")
    loaded = everything if threshold is None else everything.filter_by_rating(threshold)
    counts = (loaded.n_users, loaded.n_items, len(loaded))
    if threshold == entry.min_rating and counts != entry.counts and entry.counts_are_certain:
        raise InputError(f"{name} should have {_counted(entry.counts)}, but these files have {_counted(counts)}")
    return loaded


def find_files(entry: DataSet) -> Path | None:
    """The folder that has all of the data set's files, plain or gzipped, if there is one."""
    for folder in _folders(entry):
        if all(find_plain_or_gzipped(folder, file).is_file() for file in entry.files):
            return folder
    return None


def fetch_files(entry: DataSet) -> Path:
    """The folder with the data set's files, downloaded if need be."""
    if found := find_files(entry):
        return found
    folders = _folders(entry)
    cached = folders[-1]
    wanted = (
        f"{entry.name} is not on this machine. Put {', '.join(entry.files)} into "
        f"{' or '.join(str(folder) for folder in folders)}"
        f"{'' if len(folders) > 1 else f' (or set PROREC_DATA to the folder that has {entry.name}/ in it)'}. "
        f"They come from {entry.homepage}"
    )
    if len(folders) > 1 and all(find_plain_or_gzipped(folders[0].parent, file).is_file() for file in entry.files):
        wanted = f"PROREC_DATA is the folder of {entry.name} itself; set it to the folder above. {wanted}"
    if not entry.remotes:
        raise DownloadError(f"{wanted}, which asks you to sign up first")
    try:
        for remote in entry.remotes:
            fetched = download(remote, cached)
            if fetched.suffix == ".zip":
                _unzip(fetched, entry.files, cached)
    except (DownloadError, OSError, zipfile.BadZipFile) as error:
        raise DownloadError(f"{error}. {wanted}") from error
    return cached


def _folders(entry: DataSet) -> list[Path]:
    """Where to look, first to last; downloads go to the last."""
    given = os.environ.get("PROREC_DATA")
    return ([Path(given) / entry.name] if given else []) + [cache_folder() / entry.name]


def cache_folder() -> Path:
    """Where downloads are kept: `$PROREC_CACHE`, or the platform's usual place."""
    if given := os.environ.get("PROREC_CACHE"):
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "prorec" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "prorec"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prorec"


def _unzip(archive: Path, files: dict[str, str], folder: Path) -> None:
    """Take the wanted files out of an archive, each checked before it gets its name, and drop the archive."""
    with zipfile.ZipFile(archive) as zipped:
        inside = {Path(member).name: member for member in zipped.namelist()}
        for file, digest in files.items():
            if file not in inside:
                raise DownloadError(f"{archive.name} has no {file} in it")
            with atomic_write(folder / file) as temporary:
                temporary.write_bytes(zipped.read(inside[file]))
                if not has_digest(temporary, digest):
                    raise DownloadError(f"{file} in {archive.name} does not have the expected {digest}")
    archive.unlink()


def _counted(counts: tuple[int, int, int]) -> str:
    return "{:,} users, {:,} items and {:,} interactions".format(*counts)

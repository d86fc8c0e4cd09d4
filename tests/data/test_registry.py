from __future__ import annotations

import gzip
import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prorec import DownloadError, InputError, load_dataset
from prorec.data import registry
from prorec.data.download import RemoteFile
from prorec.data.registry import DATASETS, fetch_files

REAL = [pytest.param(name, marks=pytest.mark.real_data(name)) for name, entry in DATASETS.items() if entry.files]


@pytest.mark.parametrize("name", REAL)
def test_counts_are_the_published_ones(name: str) -> None:
    data = load_dataset(name)
    assert (data.n_users, data.n_items, len(data)) == DATASETS[name].counts
    assert data.activity.all()
    assert data.popularity.all()


@pytest.mark.real_data("amusic")
def test_gzipped_files_are_as_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = load_dataset("amusic")
    (tmp_path / "amusic").mkdir()
    for file in DATASETS["amusic"].files:
        content = (fetch_files(DATASETS["amusic"]) / file).read_bytes()
        (tmp_path / "amusic" / f"{file}.gz").write_bytes(gzip.compress(content))
    monkeypatch.setenv("PROREC_DATA", str(tmp_path))
    assert load_dataset("amusic").equals(plain)
    monkeypatch.setenv("PROREC_DATA", str(tmp_path / "amusic"))
    monkeypatch.setattr(registry, "download", _offline)
    with pytest.raises(DownloadError, match="PROREC_DATA is the folder of amusic itself; set it to the folder above"):
        load_dataset("amusic")


@pytest.mark.real_data("ml-100k")
def test_movielens_100k() -> None:
    data = load_dataset("ml-100k")
    assert data.item_names is not None
    assert data.item_categories is not None
    at = data.item_positions([50])[0]
    assert data.item_names[at] == "Star Wars (1977)"
    assert data.item_categories[at] == ("Action", "Adventure", "Romance", "Sci-Fi", "War")
    # The second line of u.data: user 186, item 302, rating 3, which is no like.
    user, item = data.user_positions([186])[0], data.item_positions([302])[0]
    assert data.disliked is not None
    assert data.disliked[user, item]
    assert len(load_dataset("ml-100k", min_rating=None)) == 100_000
    assert load_dataset("ml-100k", min_rating=5).columns["rating"].min() == 5


@pytest.mark.real_data("ml-1m")
def test_movielens_1m() -> None:
    data = load_dataset("ml-1m", min_rating=None)
    assert (data.n_users, data.n_items, len(data)) == (6_040, 3_706, 1_000_209)
    # The first line of ratings.dat: 1::1193::5::978300760.
    at = data.matrix.indptr[0] + np.searchsorted(data.item_codes[: data.activity[0]], data.item_positions([1193])[0])
    assert data.columns["rating"][at] == 5
    assert data.columns["timestamp"][at] == 978300760
    assert data.item_names is not None
    assert data.item_names[data.item_codes[at]] == "One Flew Over the Cuckoo's Nest (1975)"


YAHOO = (
    "u\ta\t90\nu\tb\t255\nu\tc\t50\nv\ta\t30\nv\ta\t100\nv\tc\t51\nw\tb\t0\n".replace("u", "1")
    .replace("v", "2")
    .replace("w", "3")
    .replace("a", "-100")
    .replace("b", "7")
    .replace("c", "8")
)


@pytest.mark.parametrize("zipped", [False, True])
def test_yahoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zipped: bool) -> None:
    folder = tmp_path / "yahoo-r1"
    folder.mkdir()
    name = "ydata-ymusic-user-artist-ratings-v1_0.txt"
    (folder / (name + ".gz" * zipped)).write_bytes(gzip.compress(YAHOO.encode()) if zipped else YAHOO.encode())
    monkeypatch.setenv("PROREC_DATA", str(tmp_path))
    data = load_dataset("yahoo-r1")
    # 255 is "never play again", 50 is not above 50, of 30 and 100 for one pair the higher counts.
    assert data.users.tolist() == [1, 2]
    assert data.items.tolist() == [-100, 8]
    assert data.matrix.toarray().tolist() == [[1, 0], [1, 1]]
    assert data.columns["rating"].tolist() == [90, 100, 51]
    assert data.disliked is not None
    assert data.disliked.toarray().tolist() == [[False, True], [False, False]]
    everything = load_dataset("yahoo-r1", min_rating=None)
    assert len(everything) == 6
    assert sorted(everything.columns["rating"]) == [0, 0, 50, 51, 90, 100]
    assert load_dataset("yahoo-r1", min_rating=90).matrix.toarray().tolist() == [[1], [1]]


def test_yahoo_ratings_out_of_range_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "yahoo-r1").mkdir()
    (tmp_path / "yahoo-r1" / "ydata-ymusic-user-artist-ratings-v1_0.txt").write_text("1\t2\t101\n")
    monkeypatch.setenv("PROREC_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"v1_0\.txt: line 1: the rating 101 is not one of 0–100 or 255"):
        load_dataset("yahoo-r1")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(InputError, match=r"no data set is called 'ml-100'; there are ml-100k, .*cinema"):
        load_dataset("ml-100")


def test_every_entry_says_where_it_comes_from() -> None:
    for name, entry in DATASETS.items():
        assert entry.name == name
        assert entry.homepage.startswith("https://") or not entry.files
        assert entry.license
        assert entry.citation
        assert all(remote.digest.split(":")[0] in ("md5", "sha256") for remote in entry.remotes)


def _offline(remote: RemoteFile, folder: Path) -> Path:
    raise DownloadError(f"{remote.address} could not be downloaded: no route to host")


def test_without_the_files_the_error_says_what_to_put_where(no_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "download", _offline)
    with pytest.raises(DownloadError) as caught:
        load_dataset("amusic")
    words = str(caught.value)
    assert "no route to host" in words
    assert "Put AMusic.train.rating, AMusic.test.rating into" in words
    assert str(no_data / "amusic") in words
    assert "https://github.com/familyld/DeepCF" in words
    with pytest.raises(DownloadError, match="asks you to sign up first"):
        load_dataset("yahoo-r1")


def test_the_given_folder_comes_before_the_cache(
    no_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = DATASETS["amusic"]
    for folder in (no_data / "amusic", tmp_path / "mine" / "amusic"):
        folder.mkdir(parents=True)
        for file in entry.files:
            (folder / file).touch()
    assert fetch_files(entry) == no_data / "amusic"
    monkeypatch.setenv("PROREC_DATA", str(tmp_path / "mine"))
    assert fetch_files(entry) == tmp_path / "mine" / "amusic"


def test_files_that_are_not_the_published_ones_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "amusic").mkdir()
    for part in ("train", "test"):
        (tmp_path / "amusic" / f"AMusic.{part}.rating").write_text(f"1\t{len(part)}\t5\n")
    monkeypatch.setenv("PROREC_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"AMusic\.train\.rating: this is not the published file of amusic"):
        load_dataset("amusic")


def _served(tmp_path: Path, files: dict[str, bytes], digest: str | None = None) -> registry.DataSet:
    """ml-100k as if its archive lay on the server: already fetched, so that only the unpacking is left."""
    archive = tmp_path / "cache" / "ml-100k" / "ml-100k.zip"
    archive.parent.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w") as zipped:
        for name, content in files.items():
            zipped.writestr(f"ml-100k/{name}", content)
    digests = {name: f"sha256:{digest or hashlib.sha256(content).hexdigest()}" for name, content in files.items()}
    archive_digest = f"sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}"
    return replace(DATASETS["ml-100k"], files=digests, archive_digest=archive_digest)


def test_an_archive_is_unpacked_and_checked(no_data: Path, tmp_path: Path) -> None:
    entry = _served(tmp_path, {"u.data": b"1\t1\t5\t1\n", "u.genre": b"Drama|0\n"})
    folder = fetch_files(entry)
    assert sorted(path.name for path in folder.iterdir()) == ["u.data", "u.genre"]
    assert (folder / "u.data").read_bytes() == b"1\t1\t5\t1\n"


def test_a_wrong_file_in_an_archive_never_gets_its_name(no_data: Path, tmp_path: Path) -> None:
    entry = _served(tmp_path, {"u.data": b"1\t1\t5\t1\n"}, digest="00")
    with pytest.raises(DownloadError, match=r"u\.data in ml-100k\.zip does not have the expected sha256:00"):
        fetch_files(entry)
    assert not (no_data / "ml-100k" / "u.data").exists()


def test_the_cinema_is_always_there(no_data: Path) -> None:
    data = load_dataset("cinema")
    assert (data.n_users, data.n_items, len(data)) == DATASETS["cinema"].counts
    with pytest.raises(InputError, match="cinema has no ratings, so min_rating must be left out; got 4"):
        load_dataset("cinema", min_rating=4)
    assert set(np.unique(data.columns["origin"])) == {0, 1, 2}

"""Atomic writes: the whole file or the earlier one, and never anything else in the folder."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from prorec import InputError
from prorec._core.files import atomic_write


def test_a_file_is_replaced_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_earlier_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")

    def write() -> None:
        with atomic_write(path) as temporary:
            temporary.write_text("ne")
            raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        write()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_unfinished_file_can_be_in_another_folder(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with atomic_write(tmp_path / "table.csv", other) as temporary:
        temporary.write_text("new")
        assert temporary.parent == other
    assert (tmp_path / "table.csv").read_text() == "new"
    assert list(other.iterdir()) == []


def test_a_folder_in_place_of_the_file_or_no_folder_at_all(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="this is a directory"), atomic_write(tmp_path):
        pass
    missing = tmp_path / "missing" / "table.csv"
    with pytest.raises(InputError, match=r"the folder .*missing does not exist"), atomic_write(missing):
        pass


def test_a_file_that_appeared_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"

    def write(*, appearing: str) -> None:
        with atomic_write(path, overwrite=False) as temporary:
            temporary.write_text("new")
            path.write_text(appearing)

    with pytest.raises(InputError, match="this file exists already; pass overwrite=True to replace it"):
        write(appearing="precious")
    assert path.read_text() == "precious"
    write(appearing="new")  # as when a run was killed just after it had written the file
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not hasattr(os, "link"), reason="needs links")
@pytest.mark.parametrize("appears", [False, True])
def test_file_systems_without_links(appears: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "table.csv"

    def write() -> None:
        with atomic_write(path, overwrite=False) as temporary:
            temporary.write_text("new")
            if appears:
                path.write_text("precious")

    if appears:
        with pytest.raises(InputError, match="this file exists already"):
            write()
    else:
        write()
    assert path.read_text() == ("precious" if appears else "new")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs links and pipes")
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("kind", ["a symbolic link", "a dangling link", "a pipe"])
def test_nothing_but_a_regular_file_is_replaced(kind: str, overwrite: bool, tmp_path: Path) -> None:
    target, path = tmp_path / "target", tmp_path / "table.csv"
    if kind == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(target)
    if kind == "a symbolic link":
        target.write_text("precious")
    found = "a pipe" if kind == "a pipe" else "a symbolic link, which is not followed"
    with pytest.raises(InputError, match=f"this is {found}"), atomic_write(path, overwrite=overwrite) as temporary:
        temporary.write_text("new")
    assert path.is_fifo() if kind == "a pipe" else path.is_symlink()
    assert target.exists() == (kind == "a symbolic link")


def test_a_link_among_the_folders_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    with atomic_write(tmp_path / "link" / "table.csv") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "real" / "table.csv").read_text() == "new"


@pytest.mark.skipif(os.name == "nt", reason="Windows has other modes")
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")
    path.chmod(0o640)
    with atomic_write(path) as temporary:
        temporary.write_text("new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(os.name == "nt", reason="Windows does not sync folders")
@pytest.mark.parametrize("overwrite", [False, True])
def test_content_and_name_are_on_the_disk(overwrite: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    sync, link, replace = os.fsync, os.link, Path.replace

    def record_sync(descriptor: int) -> None:
        steps.append("sync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "link", lambda *paths: (steps.append("name"), link(*paths)))
    monkeypatch.setattr(Path, "replace", lambda *paths: (steps.append("name"), replace(*paths)))
    with atomic_write(tmp_path / "table.csv", overwrite=overwrite) as temporary:
        temporary.write_text("new")
    assert steps == ["sync file", "name", "sync folder"]


def test_names_as_long_as_the_system_allows(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    with atomic_write(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new"

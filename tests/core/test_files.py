"""Atomic writes: the whole file or the earlier one, and never anything else in the folder."""

from __future__ import annotations

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

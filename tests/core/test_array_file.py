"""Files of arrays: what was written is read, and what a stranger made is refused before memory is taken for it."""

from __future__ import annotations

import copy
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from prorec import InputError
from prorec._core.array_file import check_digests, digest_arrays, read_arrays, write_arrays
from prorec._core.array_rules import ArrayRule, check_arrays
from prorec._core.errors import DamagedFileError
from prorec._core.files import open_regular, read_small_text


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int32).reshape(2, 3),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.array(True),
        np.array(2.5, dtype=np.float32),
        np.empty((0, 4), dtype=np.float32),
        np.array([-1, 7], dtype=np.int8),
        np.arange(300_000, dtype=np.int64),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_written_arrays_are_read(array: NDArray[Any], tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.npz", {"one": array, "two.x": array[..., None]})
    read = read_arrays(tmp_path / "a.npz")
    assert list(read) == ["one", "two.x"]
    np.testing.assert_array_equal(read["one"], array)
    assert read["one"].dtype == array.dtype
    assert read["one"].flags.writeable
    check_digests(read, digest_arrays({"one": array, "two.x": array[..., None]}))


def test_a_small_file_takes_little_memory(tmp_path: Path) -> None:
    zeros = np.zeros(20_000_000)
    np.savez_compressed(tmp_path / "bomb.npz", zeros=zeros)
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (20000000,), }\n"
    claim = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(80)
    with zipfile.ZipFile(tmp_path / "claim.npz", "w") as archive:
        archive.writestr("zeros.npy", claim)
    with zipfile.ZipFile(tmp_path / "overlap.npz", "w") as archive:
        archive.writestr("a.npy", bytes(100_000))
        for number in range(1000):
            twin = copy.copy(archive.filelist[0])
            twin.filename = f"a{number}.npy"
            archive.filelist.append(twin)
    del zeros
    for name, message in (
        ("bomb", "neither compressed nor encrypted|bytes, but says that it holds"),
        ("claim", "must have 160,000,075 bytes for its shape"),
        ("overlap", "bytes, but says that it holds 100,100,000"),
    ):
        tracemalloc.start()
        with pytest.raises(DamagedFileError, match=message):
            read_arrays(tmp_path / f"{name}.npz")
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([{}], dtype=object), "array of numbers"),
        (np.array([1.0], dtype=">f8"), "array of numbers"),
        (np.array([1.0], dtype=np.longdouble), "array of numbers"),
        (np.array(["text"]), "array of numbers"),
        (np.zeros(2, dtype=[("a", "f4")]), "array of numbers"),
        (np.array([1j]), "array of numbers"),
    ],
    ids=lambda each: str(getattr(each, "dtype", "")),
)
def test_other_types_are_refused(array: NDArray[Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", allow_pickle=True, a=array)
    with pytest.raises(DamagedFileError, match=message):
        read_arrays(tmp_path / "a.npz")


def edit_members(path: Path, change: Callable[[zipfile.ZipFile], None]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        with archive.open("a.npy", "w") as file:
            np.lib.format.write_array(file, np.arange(3.0))
        change(archive)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda archive: setattr(archive.filelist[0], "flag_bits", 1), "encrypted"),
        (lambda archive: setattr(archive.filelist[0], "compress_type", zipfile.ZIP_LZMA), "compressed"),
        (lambda archive: archive.writestr("readme.txt", "hello"), "readme.txt"),
        (lambda archive: archive.filelist.append(archive.filelist[0]), "more than one of the same name"),
        (lambda archive: setattr(archive.filelist[0], "CRC", 7), "Bad CRC"),
        (lambda archive: setattr(archive.filelist[0], "header_offset", 9), "damaged"),
    ],
)
def test_odd_members_are_refused(change: Callable[[zipfile.ZipFile], None], message: str, tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError, match=message):
        read_arrays(edit_members(tmp_path / "a.npz", change))


def test_changed_arrays_are_named() -> None:
    arrays = {"one": np.arange(3), "two": np.ones(2)}
    digests = digest_arrays(arrays)
    with pytest.raises(DamagedFileError, match="two must have the digest"):
        check_digests(arrays | {"two": np.zeros(2)}, digests)
    wrong: Any
    for wrong in (None, [], {"one": digests["one"]}, {**digests, "three": ""}):
        with pytest.raises(DamagedFileError, match="digests must be those"):
            check_digests(arrays, wrong)


RULES = {
    "users": ArrayRule((4, "rank")),
    "items": ArrayRule((3, "rank")),
    "codes": ArrayRule(("codes",), "int32", 0, 3),
    "is_odd": ArrayRule((2,), "bool", is_optional=True),
}
GOOD: dict[str, Any] = {
    "users": np.ones((4, 2), np.float32),
    "items": np.ones((3, 2), np.float32),
    "codes": np.array([0, 3], np.int32),
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"users": None}, "users is missing"),
        ({"other": np.ones(3)}, "'other' is not one of its arrays"),
        ({"items": np.ones((3, 1), np.float32)}, r"items is float32 of shape \(3, 1\), but must be .* \(3, 2\)"),
        ({"items": np.ones((3, 2))}, "items is float64"),
        ({"items": np.ones(3, np.float32)}, "items is float32 of shape"),
        ({"users": np.full((4, 2), np.nan, np.float32)}, "users has values from nan"),
        ({"users": np.full((4, 2), -np.inf, np.float32)}, "users has values from -inf"),
        ({"codes": np.array([0, 4], np.int32)}, "codes has values from 0 to 4"),
        ({"codes": np.array([-1], np.int32)}, "codes has values from -1 to -1"),
        ({"is_odd": np.array([1, 2], np.uint8).view(bool)}, "is_odd has values from 1 to 2"),
    ],
)
def test_rules(changes: dict[str, Any], message: str) -> None:
    check_arrays(GOOD, RULES, "the model")
    check_arrays(GOOD | {"is_odd": np.array([True, False])}, RULES, "the model")
    changed = {name: array for name, array in (GOOD | changes).items() if array is not None}
    with pytest.raises(DamagedFileError, match=f"the model is .*damaged: {message}"):
        check_arrays(changed, RULES, "the model")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "endless").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    for path, kind in (
        (tmp_path / "link", "a symbolic link"),
        (tmp_path / "endless", "a symbolic link"),
        (tmp_path / "pipe", "a pipe"),
        (tmp_path, "a folder"),
        (Path("/dev/zero"), "a device"),
    ):
        with pytest.raises(InputError, match=f"regular file is required here, but this is {kind}"), open_regular(path):
            pass
    assert read_small_text(tmp_path / "file", 4) == "text"
    with pytest.raises(InputError, match="at most 3 bytes"):
        read_small_text(tmp_path / "file", 3)
    (tmp_path / "file").write_bytes(b"\xff")
    with pytest.raises(InputError, match="UTF-8"):
        read_small_text(tmp_path / "file", 4)

"""Files of arrays: npz without compression and without pickle.

A file may come from a stranger. It is read in parts whose sizes are compared with the size of the file before memory
is taken for them, and by a parser that knows only what `numpy.savez` writes for arrays of numbers.
"""

from __future__ import annotations

import errno
import math
import os
import re
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from prorec._core.array_rules import Arrays
from prorec._core.checks import safe_repr
from prorec._core.digest import digest
from prorec._core.errors import DamagedFileError, MemoryLimitError
from prorec._core.files import open_regular

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(r"\{'descr': '([^']{2,8})', 'fortran_order': (True|False), 'shape': \(([0-9, ]*)\), \} *\n")
_DTYPES = {np.dtype(name).str: np.dtype(name) for name in "bool int8 uint8 int32 int64 float32 float64".split()}
"""Types of arrays, by their name in a file; others, such as objects, have no use in a model."""
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    struct.error,
    OSError,
    ValueError,
    OverflowError,
    EOFError,
    RuntimeError,  # an encrypted member
    NotImplementedError,
)
"""Exceptions that zipfile and numpy may raise for a damaged file."""
_MAX_MEMBERS = 10_000
_CHUNK = 1 << 20


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays of numbers into a file.

    Parameters
    ----------
    path : Path
        The file to write.
    arrays : mapping of str to array
        Arrays by name.
    """
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def read_arrays(path: Path) -> Arrays:
    """Read a file that `write_arrays` wrote, or a stranger says so.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    dict of str to array
        The file's arrays, whatever their shapes and values are: see `array_rules`.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    InputError
        If it is not a regular file, is damaged, or holds anything but uncompressed arrays of numbers.
    """
    with open_regular(path) as file:
        try:
            return _read_members(file)
        except _ZIP_ERRORS as error:
            if isinstance(error, DamagedFileError) or getattr(error, "errno", None) in (errno.EACCES, errno.EIO):
                raise
            raise DamagedFileError(f"the file of arrays is damaged ({error})") from None
        except MemoryError:
            raise MemoryLimitError("the arrays of this file do not fit into memory") from None


def digest_arrays(arrays: Mapping[str, NDArray[Any]]) -> dict[str, str]:
    """Return the digest of each array.

    Parameters
    ----------
    arrays : mapping of str to array
        Arrays by name.

    Returns
    -------
    dict of str to str
    """
    return {name: digest(array) for name, array in arrays.items()}


def check_digests(arrays: Mapping[str, NDArray[Any]], digests: Any) -> None:
    """Refuse arrays that are not those of some digests.

    Parameters
    ----------
    arrays : mapping of str to array
        Arrays by name.
    digests : Any
        Result of `digest_arrays` as the file has it, which may be anything.

    Raises
    ------
    DamagedFileError
        If an array is missing, added or changed.
    """
    if not isinstance(digests, dict) or digests.keys() != arrays.keys():
        raise DamagedFileError("the digests must be those of the arrays in the file, but are of others")
    for name, array in arrays.items():
        if digest(array) != digests[name]:
            raise DamagedFileError(f"{name} must have the digest that was saved with it, but has been changed")


def _read_members(file: BinaryIO) -> Arrays:
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        names = [member.filename.removesuffix(".npy") for member in members]
        if len(set(names)) != len(names) or len(names) > _MAX_MEMBERS:
            raise DamagedFileError(f"the file of arrays has {len(names):,} members, more than one of the same name")
        # Members that overlap would be read several times.
        total, size = sum(member.file_size for member in members), os.fstat(file.fileno()).st_size
        if total > size:
            raise DamagedFileError(f"the file of arrays has {size:,} bytes, but says that it holds {total:,}")
        arrays = {}
        for name, member in zip(names, members, strict=True):
            is_plain = member.compress_type == zipfile.ZIP_STORED and member.compress_size == member.file_size
            if not is_plain or member.flag_bits & 0x1 or not member.filename.endswith(".npy"):
                raise DamagedFileError(
                    f"{safe_repr(name)} must be an array that is neither compressed nor encrypted, as numpy.savez "
                    "writes it"
                )
            with archive.open(member) as opened:
                arrays[name] = _read_array(name, opened, member.file_size)
        return arrays


def _read_array(name: str, file: IO[bytes], n_bytes: int) -> NDArray[Any]:
    """Return the array of a member of so many bytes."""
    begin = file.read(len(_MAGIC) + 2)
    length = int.from_bytes(begin[len(_MAGIC) :], "little")
    header = _HEADER.fullmatch(file.read(length).decode("latin-1"))
    if not begin.startswith(_MAGIC) or header is None or header[1] not in _DTYPES:
        raise DamagedFileError(f"{safe_repr(name)} must be an array of numbers of this machine's byte order")
    dtype, shape = _DTYPES[header[1]], tuple(int(each) for each in header[3].split(",") if each.strip())
    wanted = len(begin) + length + math.prod(shape) * dtype.itemsize
    if wanted != n_bytes:
        raise DamagedFileError(
            f"{safe_repr(name)} must have {wanted:,} bytes for its shape {shape}, but has {n_bytes:,}"
        )
    is_fortran = header[2] == "True"
    array = np.empty(shape[::-1] if is_fortran else shape, dtype)
    content = array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
    position = 0
    while position < len(content):
        chunk = file.read(min(_CHUNK, len(content) - position))
        if not chunk:
            raise DamagedFileError(f"{safe_repr(name)} is cut short")
        content[position : position + len(chunk)] = chunk
        position += len(chunk)
    file.read(1)  # the end of the member, at which its checksum is compared
    return array.T if is_fortran else array

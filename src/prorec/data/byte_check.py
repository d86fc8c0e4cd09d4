"""A check of a text file's bytes for what a fast csv reader would change without a word."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prorec._core.compilation import njit
from prorec.data.encoding import open_as_utf8

_CHUNK = 1 << 22
_LF, _CR, _TAB, _SPACE, _QUOTE = (np.uint8(code) for code in b'\n\r\t "')
_PLUS, _MINUS, _ZERO, _NINE, _X, _SMALL_X = (np.uint8(code) for code in b"+-09Xx")


@dataclass(frozen=True)
class ByteCheck:
    """Findings about the bytes of a text file."""

    has_odd_integers: bool
    """Whether a field starts like 007, 0x7, -0 or +7, or has blanks around it, all of which an integer would lose."""
    n_quotes: int
    """Number of quotation marks."""


def check_bytes(path: Path, separator: str) -> ByteCheck:
    """Check all bytes of a text file.

    Parameters
    ----------
    path : Path
        The file, plain or gzipped.
    separator : str
        The character between columns.

    Returns
    -------
    ByteCheck
    """
    has_odd, n_quotes = False, 0
    buffer = np.full(_CHUNK + 2, _LF, dtype=np.uint8)
    separator_byte = np.uint8(ord(separator))
    with open_as_utf8(path) as file:
        # The last two bytes of a chunk are checked with the next one, so that no field is missed between them.
        # Line ends stand before the first byte and after the last.
        while size := file.readinto(buffer[2:]):  # type: ignore[attr-defined]
            n_quotes += int(np.count_nonzero(buffer[2 : size + 2] == _QUOTE))
            triples = buffer[:size], buffer[1 : size + 1], buffer[2 : size + 2]
            has_odd = has_odd or bool(_has_odd_integers(*triples, separator_byte))
            buffer[:2] = buffer[size : size + 2]
    end = buffer[:1], buffer[1:2], np.array([_LF])
    return ByteCheck(has_odd or bool(_has_odd_integers(*end, separator_byte)), n_quotes)


@njit(cache=True, nogil=True, error_model="numpy")
def _has_odd_integers(
    before: NDArray[np.uint8], here: NDArray[np.uint8], after: NDArray[np.uint8], separator: np.uint8
) -> bool:
    # Three views and no branches let the compiler check many bytes at once.
    result = False
    for at in range(len(here)):
        left, this, right = before[at], here[at], after[at]
        at_start = (left == separator) | (left == _LF) | (left == _CR) | (left == _QUOTE)
        at_end = (right == separator) | (right == _LF) | (right == _CR) | (right == _QUOTE)
        zero = (this == _ZERO) & (((right >= _ZERO) & (right <= _NINE)) | (right == _X) | (right == _SMALL_X))
        sign = (this == _PLUS) | ((this == _MINUS) & (right == _ZERO))
        blank = ((this == _SPACE) | (this == _TAB)) & (this != separator)
        result |= (at_start & (zero | sign | blank)) | (at_end & blank)
    return result

"""One look at the bytes of a text file, for what a fast parser would pass over in silence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numba import njit
from numpy.typing import NDArray

from prorec.data.formats import open_decompressed

_CHUNK = 1 << 22
_LF, _CR, _TAB, _SPACE, _QUOTE = (np.uint8(code) for code in b'\n\r\t "')
_PLUS, _MINUS, _ZERO, _NINE, _X, _SMALL_X = (np.uint8(code) for code in b"+-09Xx")


@dataclass(frozen=True)
class Look:
    """What was seen."""

    has_odd_integers: bool
    """Whether any field begins like 007, 0x7, -0 or +7, or has blanks around it: read as a number, that is lost."""
    n_quotes: int
    """How many quotation marks there are."""


def look_at(path: Path, separator: str) -> Look:
    """Go through the whole file once."""
    has_odd, n_quotes = False, 0
    buffer = np.full(_CHUNK + 2, _LF, dtype=np.uint8)
    mark = np.uint8(ord(separator))
    with open_decompressed(path) as file:
        # Two bytes of each chunk stay for the next, so that nothing is missed where they meet; beyond the file's
        # ends there are line ends.
        while got := file.readinto(buffer[2:]):  # type: ignore[attr-defined]
            n_quotes += int(np.count_nonzero(buffer[2 : got + 2] == _QUOTE))
            has_odd = has_odd or bool(_has_odd(buffer[:got], buffer[1 : got + 1], buffer[2 : got + 2], mark))
            buffer[:2] = buffer[got : got + 2]
    end = np.array([buffer[0], buffer[1], _LF], dtype=np.uint8)
    return Look(has_odd or bool(_has_odd(end[:1], end[1:2], end[2:], mark)), n_quotes)


@njit(cache=True, nogil=True, error_model="numpy")
def _has_odd(before: NDArray[np.uint8], here: NDArray[np.uint8], after: NDArray[np.uint8], separator: np.uint8) -> bool:
    # Three views in step, no branches: so the compiler looks at many bytes at once.
    found = False
    for at in range(len(here)):
        left, this, right = before[at], here[at], after[at]
        begins = (left == separator) | (left == _LF) | (left == _CR) | (left == _QUOTE)
        ends = (right == separator) | (right == _LF) | (right == _CR) | (right == _QUOTE)
        zero = (this == _ZERO) & (((right >= _ZERO) & (right <= _NINE)) | (right == _X) | (right == _SMALL_X))
        sign = (this == _PLUS) | ((this == _MINUS) & (right == _ZERO))
        blank = ((this == _SPACE) | (this == _TAB)) & (this != separator)
        found |= (begins & (zero | sign | blank)) | (ends & blank)
    return found

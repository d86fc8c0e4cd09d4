"""Compares what an example printed with what it prints now.

Processors round differently, so numbers may differ in their last digits; the words between them may not.
"""

from __future__ import annotations

import re

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


def last_digit(number: str) -> float:
    """Return the value of one unit in the last digit of a printed number."""
    mantissa, _, exponent = number.partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def is_close(after: str, before: str) -> bool:
    """Return whether two printed numbers differ by at most 1% (counts: 5%) or two units in the last digit."""
    new, old = (float(number.replace(",", "")) for number in (after, before))
    share = 0.01 if "." in before else 0.05  # a count changes by each click that crosses a limit
    return abs(new - old) <= 1.001 * max(share * old, 2 * last_digit(before))


def prints_the_same(after: str, before: str) -> bool:
    """Return whether two texts have the same words, and close numbers between them."""
    words = [[" ".join(piece.split()) for piece in _NUMBER.split(text)] for text in (after, before)]
    numbers = zip(_NUMBER.findall(after), _NUMBER.findall(before), strict=False)
    return words[0] == words[1] and all(is_close(*pair) for pair in numbers)

"""Numbers that differ by rounding are the same, and others are not."""

from __future__ import annotations

import pytest

from tests.printed_numbers import prints_the_same


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("rate:  9.9% (7.8% to 13.2%), p = 2e-09, 1,900 of 36,682", True),
        ("rate: 10.0% (7.6% to 13.0%), p = 2e-09, 1,834 of 36,682", False),
        ("rate: 10.0% (7.9% to 13.0%), p = 2e-08, 1,834 of 36,682", False),
        ("rate: 10.0% (7.9% to 13.0%), p = 2e-09, 1,930 of 36,682", False),
        ("rate: -10.0% (7.9% to 13.0%), p = 2e-09, 1,834 of 36,682", False),
        ("rate: 10.0% (7.9% to 13.0%), p = 2e-09, 1,834", False),
    ],
)
def test_a_different_number_or_word_is_noticed(after: str, expected: bool) -> None:
    assert prints_the_same(after, "rate: 10.0% (7.9% to 13.0%), p = 2e-09, 1,834 of 36,682") is expected

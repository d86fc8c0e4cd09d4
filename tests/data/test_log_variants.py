"""Logs as they come are read as the manual says, or refused as it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from prorec import InputError
from tests.data.log_variants import MARKS, VARIANTS, Variant, make_table

PAGE = Path(__file__).parents[2] / "docs" / "data-formats.md"


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.title)
def test_variant(variant: Variant, tmp_path: Path) -> None:
    result, messages = variant.read(tmp_path)
    if variant.refusal:
        assert isinstance(result, InputError)
        assert variant.refusal in str(result)
        return
    assert not isinstance(result, InputError), result
    assert (tuple(result.users), tuple(result.items)) == (variant.users, variant.items)
    assert set(result.columns) == set(variant.columns)
    assert [variant.warning in each for each in messages] == [True] * bool(variant.warning)


def test_the_manual_has_the_table() -> None:
    text = PAGE.read_text().partition(MARKS[0])[2].partition(MARKS[1])[0]
    assert text.strip() == make_table(), "run python -m tests.data.log_variants"

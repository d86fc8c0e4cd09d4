"""The paper's claim, with the controls that it lacks."""

from __future__ import annotations

import numpy as np
import pytest

from reproduction.untuned_gain import SEEDS, measure_gains


@pytest.mark.real_data("amusic")
def test_nce_gains_on_amusic_and_more_than_by_smaller_weights() -> None:
    found = [by_name for _, by_name in map(measure_gains, SEEDS)]
    means = {name: np.mean([each[name] for each in found]) for name in found[0]}
    ours = means.pop("NCE + ProRec")
    assert ours >= 0.05
    assert len(means) == 2
    for control in means.values():
        assert ours >= control + 0.03

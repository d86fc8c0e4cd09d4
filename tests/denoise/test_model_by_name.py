"""A model by name, as on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import prorec
from prorec import NoiseFinder, ProRec, make_cinema
from prorec.denoise.controls import make_control
from prorec.models import NCE, SVD, WRMF

CLUB = make_cinema(120, 48, seed=5).interactions


@pytest.mark.parametrize(("name", "model"), [("nce", NCE(rank=12)), ("SVD", SVD(rank=12)), ("wrmf", WRMF(rank=12))])
@pytest.mark.parametrize("weighting", ["auto", "plan"])
def test_the_model_of_a_name_has_a_rank_that_suits_the_data(name: str, model: Any, weighting: Any) -> None:
    finder = NoiseFinder(folds=3)
    by_name = ProRec(name, noise_method=finder, weighting=weighting).fit(CLUB)
    by_class = ProRec(model, noise_method=finder, weighting=weighting).fit(CLUB)
    assert by_name.model_.rank == 12  # type: ignore[attr-defined] # a quarter of 48 items
    np.testing.assert_array_equal(by_name.weights_.data, by_class.weights_.data)
    for key, array in by_class.model_.arrays_.items():
        np.testing.assert_array_equal(by_name.model_.arrays_[key], array)
    control = make_control(by_name).fit(CLUB)
    assert type(control.model_) is type(model)


def test_the_name_stays_a_parameter(tmp_path: Path) -> None:
    denoiser = ProRec("nce", noise_method="plan")
    assert repr(denoiser).startswith("ProRec(model='nce', ")
    assert denoiser.get_params()["model"] == "nce"
    assert clone(denoiser) == denoiser
    assert "nce" in denoiser._repr_html_()
    assert ProRec(SVD()).set_params(model="nce").model == "nce"
    denoiser.fit(CLUB)
    assert denoiser.model == "nce"
    denoiser.save(tmp_path / "model")
    loaded = prorec.load(tmp_path / "model")
    assert isinstance(loaded, ProRec)
    assert loaded.model == NCE(rank=12)
    np.testing.assert_array_equal(loaded.weights_.data, denoiser.weights_.data)
    np.testing.assert_array_equal(loaded.recommend([1], 5).item_positions, denoiser.recommend([1], 5).item_positions)
    assert loaded.fit(CLUB).recommend([1], 5).items.tolist() == denoiser.recommend([1], 5).items.tolist()


def test_unknown_names_are_refused_with_the_closest_one() -> None:
    with pytest.raises(prorec.InputError, match="there is no model called 'nec'; did you mean 'nce'"):
        ProRec("nec").fit(CLUB)
    with pytest.raises(prorec.InputError, match="there is no model called 'nec'"):
        NoiseFinder("nec").fit(CLUB)
    with pytest.raises(prorec.InputError, match="'model__rank' is not a parameter"):
        ProRec("nce").set_params(model__rank=3)


def test_base_models_by_name() -> None:
    by_name, by_class = NoiseFinder("svd", folds=3).fit(CLUB), NoiseFinder(SVD(rank=12), folds=3).fit(CLUB)
    np.testing.assert_array_equal(by_name.noise_probability_, by_class.noise_probability_)

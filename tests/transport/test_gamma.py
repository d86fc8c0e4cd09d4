"""The automatic γ grows with the scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec import Factors, InputError, ProRec
from prorec.models import NCE, Popularity
from prorec.transport.gamma import estimate_gamma
from tests.models.helpers import clicks


def scores_and_clicks(n_users: int = 40, n_items: int = 30) -> tuple[NDArray[Any], csr_array]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n_users, n_items)), csr_array((rng.random((n_users, n_items)) < 0.2).astype(np.float32))


def by_definition(scores: NDArray[Any]) -> float:
    return 0.2 * float(np.sqrt(np.mean((scores.max(axis=1) - scores.mean(axis=1)) ** 2)))


def test_by_definition() -> None:
    scores, observed = scores_and_clicks()
    scores[7] += 100.0  # of somebody without clicks, who does not count
    observed = csr_array(observed.toarray() * (np.arange(40) != 7)[:, None])
    wanted = by_definition(np.delete(scores, 7, axis=0))
    assert estimate_gamma(Factors(np.eye(40), scores.T), observed) == pytest.approx(wanted)
    assert estimate_gamma(lambda rows: scores[rows], observed) == pytest.approx(wanted)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("shift", [0.0, 5.0])
def test_scores_of_another_size_give_the_same_plan(scale: float, shift: float) -> None:
    scores, observed = scores_and_clicks()
    base = estimate_gamma(lambda rows: scores[rows], observed)
    assert estimate_gamma(lambda rows: scale * (scores[rows] + shift), observed) == pytest.approx(scale * base)


def test_a_sample_of_many_users_is_about_right() -> None:
    scores, observed = scores_and_clicks(3000, 50)
    assert estimate_gamma(lambda rows: scores[rows], observed) == pytest.approx(by_definition(scores), rel=0.05)


def test_a_multiple_of_it() -> None:
    half, whole, twice = (
        ProRec(NCE(rank=4), gamma=gamma, noise_method="plan").fit(clicks()) for gamma in (".5 auto", "auto", "2auto")
    )
    assert [half.gamma_, twice.gamma_] == pytest.approx([0.5 * whole.gamma_, 2 * whole.gamma_])
    assert not np.array_equal(half.weights_.data, whole.weights_.data)


@pytest.mark.parametrize("wrong", ["", "x", "-1 auto", "0 auto", "auto 2", "1e3 auto", "inf auto", "nan auto", 0, None])
def test_bad_gamma(wrong: object) -> None:
    with pytest.raises(InputError, match="gamma must be"):
        ProRec(NCE(), gamma=wrong, noise_method="plan").check_settings()  # type: ignore[arg-type]


def test_no_spread() -> None:
    _, observed = scores_and_clicks()
    assert estimate_gamma(lambda rows: np.full((len(rows), 30), 7.0), observed) == 1.0
    assert np.isfinite(ProRec(Popularity(), noise_method="plan").fit(clicks()).weights_.data).all()

"""Natural noise: the ceiling by hand, and the tables in small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

import prorec
from prorec import InputError, Interactions
from prorec.evaluation import detection_metrics
from reproduction import natural_noise
from reproduction.baselines import popularity, random
from reproduction.natural_noise import _factorize, _fit_effects, is_low, left_out_rating, make_detection_table


def rate(clicks: Interactions, ratings: Any) -> Interactions:
    """Return the same interactions with ratings."""
    return Interactions.from_table(
        pa.table({"user": clicks.user_codes, "item": clicks.item_codes, "rating": ratings}), rating_col="rating"
    )


@pytest.fixture(scope="module")
def clicks() -> Interactions:
    """A small cinema in which half of the films of each category are disliked, by all users."""
    log = prorec.make_cinema(150, 100, seed=1).interactions
    return rate(log, np.where(log.item_codes % 2 == 0, 5, 2))


def test_effects_of_two_users_by_hand() -> None:
    users, items = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    mean, by_user, by_item = _fit_effects(users, items, np.array([5.0, 3.0, 3.0, 1.0]), (2, 2))
    assert mean == 3
    # Two ratings 1 above the mean, damped by 10: 2·1/12.
    np.testing.assert_allclose(by_user, [1 / 6, -1 / 6])
    np.testing.assert_allclose(by_item, [1 / 6, -1 / 6])


def test_factors_solve_the_ridge_regression() -> None:
    rng = np.random.default_rng(0)
    rest = csr_array(rng.normal(size=(12, 9)) * (rng.random((12, 9)) < 0.7))
    left, right = _factorize(rest, 0)
    stored = (rest != 0).toarray()
    for item in range(9):  # the items were solved last
        own = left[stored[:, item]]
        expected = np.linalg.solve(own.T @ own + 10 * np.eye(8), own.T @ rest.toarray()[stored[:, item], item])
        np.testing.assert_allclose(right[item], expected, atol=1e-12)


def test_ratings_of_others_tell_disliked_items_but_not_moods(clicks: Interactions) -> None:
    assert detection_metrics(left_out_rating(clicks, 0), is_low(clicks, 2))["auroc"] > 0.99
    moods = rate(clicks, np.random.default_rng(0).choice([2, 5], len(clicks)))
    assert abs(detection_metrics(left_out_rating(moods, 0), is_low(moods, 2))["auroc"] - 0.5) < 0.05


def test_detection_table(clicks: Interactions) -> None:
    table = make_detection_table({"cinema": clicks}, {"popularity": popularity, "random": random}, 2, 1)
    expected = detection_metrics(popularity(clicks, 0), clicks.columns["rating"] == 2)
    assert f"| popularity | {expected['auroc']:.3f} / {expected['ap']:.3f} |" in table


def test_removing_disliked_items_helps(
    clicks: Interactions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(natural_noise, "SCORERS", {"random": random})
    monkeypatch.setattr(natural_noise, "MODELS", {"NCE": prorec.models.NCE(rank=8)})
    monkeypatch.setattr(prorec, "load_dataset", lambda name, min_rating: clicks)
    natural_noise.main("ml-100k", 2, 1)
    detection, _, recommendation = capsys.readouterr().out.partition("NDCG@10")
    assert "| random |" in detection
    assert "| ratings of other clicks |" in detection
    gain = recommendation.splitlines()[-1].split("|")[3].strip()
    assert gain.startswith("+")


@pytest.mark.parametrize(
    ("logs", "worst", "message"), [("gowalla", 2, "logs must be one of"), ("ml-100k", 4, "worst must be from 1 to 3")]
)
def test_bad_input(logs: str, worst: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        natural_noise.main(logs, worst, 1)

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from prorec import InputError, detection_metrics

SCORES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.5001, 1.0]), st.booleans()), min_size=2, max_size=40
)


@given(SCORES.filter(lambda rows: 0 < sum(noise for _, noise in rows) < len(rows)))
def test_equals_scikit_learn_ties_included(rows: list[tuple[float, bool]]) -> None:
    scores, truth = np.array([score for score, _ in rows]), np.array([noise for _, noise in rows])
    metrics = detection_metrics(scores, truth)
    assert metrics["auroc"] == pytest.approx(roc_auc_score(truth, scores))
    assert metrics["ap"] == pytest.approx(average_precision_score(truth, scores))
    assert all(np.isfinite(value) for value in metrics.values())
    # Where nothing is tied with the cut, plain counting.
    order = np.argsort(-scores, kind="stable")
    n_noise = truth.sum()
    if n_noise == len(scores) or scores[order[n_noise - 1]] != scores[order[n_noise]]:
        assert metrics["precision_at_budget"] == pytest.approx(truth[order[:n_noise]].mean())


def test_by_hand() -> None:
    scores = [0.9, 0.8, 0.7, 0.6, 0.2, 0.1]
    truth = [1, 0, 1, 0, 0, 0]
    metrics = detection_metrics(scores, truth, budget=3, at_hit_ratio=1.0, bins=2)
    assert metrics["auroc"] == pytest.approx(7 / 8)
    assert metrics["ap"] == pytest.approx((1 + 2 / 3) / 2)
    assert metrics["precision_at_budget"] == pytest.approx(2 / 3)
    assert metrics["hit_ratio"] == 1
    assert metrics["base_rate"] == pytest.approx(1 / 3)
    assert metrics["lift"] == pytest.approx(2)
    assert metrics["false_flag_rate"] == pytest.approx(1 / 4), "to catch both, the one at .8 is flagged too"
    # Upper bin: |3.0 − 2| of 4; lower bin: |.3 − 0| of 2; (1.0 + .3) / 6.
    assert metrics["calibration_error"] == pytest.approx(1.3 / 6)


def test_ties_at_the_budget_are_broken_at_random_on_average() -> None:
    metrics = detection_metrics([0.9, 0.5, 0.5, 0.5, 0.5], [1, 1, 0, 0, 0], budget=2)
    assert metrics["precision_at_budget"] == pytest.approx((1 + 1 / 4) / 2)
    # A constant score knows nothing.
    blind = detection_metrics(np.full(100, 0.3), np.arange(100) < 20)
    assert blind["auroc"] == 0.5
    assert blind["lift"] == pytest.approx(1)
    assert blind["false_flag_rate"] == 1


def test_scores_that_are_no_probabilities_have_no_calibration() -> None:
    assert "calibration_error" not in detection_metrics([5.0, -2], [True, False])


def test_calibrated_scores_have_a_small_error() -> None:
    rng = np.random.default_rng(0)
    probability = rng.random(100_000)
    truth = rng.random(100_000) < probability
    assert detection_metrics(probability, truth)["calibration_error"] < 0.01
    assert detection_metrics(probability**3, truth)["calibration_error"] > 0.2


@pytest.mark.parametrize(
    ("scores", "truth", "options", "message"),
    [
        ([0.1, np.nan], [0, 1], {}, r"must be finite; noise_probability\[1\] is nan"),
        ([0.1], [0, 1], {}, "same length"),
        ([0.1, 0.2], [0, 0], {}, "0 of 2 are noise"),
        ([0.1, 0.2], [1, 1], {}, "2 of 2 are noise"),
        ([0.1, 0.2], [0, 2], {}, "true or false"),
        (["a", "b"], [0, 1], {}, "noise_probability must be an array of numbers"),
        (
            [0.1, 0.2],
            [0, 1],
            {"budget": 3},
            "budget must be a whole number from 1 to the number of interactions, 2; got 3",
        ),
        ([0.1, 0.2], [0, 1], {"at_hit_ratio": 1.1}, "at_hit_ratio"),
        ([0.1, 0.2], [0, 1], {"bins": 0}, "bins must be a whole number from 1 to 1000000; got 0"),
    ],
)
def test_bad_input_is_refused(scores: list[float], truth: list[int], options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        detection_metrics(scores, truth, **options)

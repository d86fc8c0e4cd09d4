from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from prorec import InputError, compare
from prorec.evaluation import Evaluation, bootstrap_interval, holm


def evaluation(values: np.ndarray, users: int | None = None) -> Evaluation:
    per_user = {"ndcg@5": values, "recall@5": values**2}
    mean = {name: float(each.mean()) for name, each in per_user.items()}
    return Evaluation(np.arange(users or len(values)), per_user, mean, "standard")


def test_p_values_are_scipys() -> None:
    rng = np.random.default_rng(0)
    base, other = rng.random(80), rng.random(80) + 0.1
    rows = compare({"a": evaluation(base), "b": evaluation(other)}, "a")
    assert [(row.model, row.metric) for row in rows] == [("b", "ndcg@5"), ("b", "recall@5")]
    for row, (one, two) in zip(rows, [(other, base), (other**2, base**2)], strict=True):
        assert row.p_t == pytest.approx(stats.ttest_rel(one, two).pvalue, rel=1e-9)
        assert row.p_wilcoxon == pytest.approx(stats.wilcoxon(one, two).pvalue, rel=1e-9)
        assert row.difference == pytest.approx((one - two).mean())
        assert row.low < row.difference < row.high
        assert row.mean - row.baseline_mean == pytest.approx(row.difference)
    assert [row.p_t_holm for row in rows] == holm([row.p_t for row in rows])
    assert [row.p_wilcoxon_holm for row in rows] == holm([row.p_wilcoxon for row in rows])
    narrow = compare({"a": evaluation(base), "b": evaluation(other)}, "a", level=0.5)
    assert narrow[0].high - narrow[0].low < 0.6 * (rows[0].high - rows[0].low)


def test_models_that_cannot_be_told_apart_never_give_nan() -> None:
    same = np.array([0.2, 0.4, 0.9])
    for other, expected in ((same, 1.0), (same + 0.1, 0.0)):
        row = compare({"a": evaluation(same), "b": evaluation(other)}, "a", metrics=["ndcg@5"])[0]
        assert row.p_t == expected
        assert 0 <= row.p_wilcoxon <= 1
        assert row.low == pytest.approx(row.high)
    one = compare({"a": evaluation(same[:1]), "b": evaluation(same[1:2])}, "a", metrics=["ndcg@5"])[0]
    assert one.p_t == 1.0, "one user proves nothing"
    assert one.p_wilcoxon == 1.0


def test_holm_by_hand() -> None:
    # Sorted: .005 × 4 = .02, .01 × 3 = .03, .03 × 2 = .06, .04 × 1 → not below .06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1, 1]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_properties(p_values: list[float]) -> None:
    corrected = holm(p_values)
    assert all(p <= c <= 1 for p, c in zip(p_values, corrected, strict=True))
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(np.array(corrected)[order]) >= 0).all()
    # Where the smallest is rejected at a level is where Bonferroni rejects it.
    assert min(corrected) == pytest.approx(min(1, min(p_values) * len(p_values)))


def test_the_bootstrap_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(400):
        low, high = bootstrap_interval((rng.random(100) < 0.3).astype(float), level=0.9, samples=500, seed=trial)
        covered += low <= 0.3 <= high
    assert 0.85 < covered / 400 < 0.94


def test_the_bootstrap_is_scipys() -> None:
    values = np.random.default_rng(1).exponential(size=200)
    few = np.random.default_rng(1).integers(0, 3, size=200) / 2
    expected = stats.bootstrap((few,), np.mean, n_resamples=20_000, method="percentile", rng=0).confidence_interval
    np.testing.assert_allclose(bootstrap_interval(few, samples=20_000), expected, rtol=0.02)
    ours = bootstrap_interval(values, samples=20_000)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=20_000, method="percentile", rng=0).confidence_interval
    np.testing.assert_allclose(ours, theirs, rtol=0.02)
    assert bootstrap_interval(values) == bootstrap_interval(values), "the same seed gives the same interval"


def test_bad_input_is_refused() -> None:
    fine = evaluation(np.array([0.1, 0.2]))
    with pytest.raises(InputError, match="baseline must be one of the results, a; got 'z'"):
        compare({"a": fine}, "z")
    with pytest.raises(InputError, match="nothing to compare"):
        compare({"a": fine}, "a")
    with pytest.raises(InputError, match="same users"):
        compare({"a": fine, "b": evaluation(np.array([0.1, 0.2, 0.3]))}, "a")
    other_family = replace(fine, family="paper")
    with pytest.raises(InputError, match="metric family"):
        compare({"a": fine, "b": other_family}, "a")
    with pytest.raises(InputError, match=r"metric must be one of .*; got 'mrr@5'"):
        compare({"a": fine, "b": fine}, "a", metrics=["mrr@5"])
    with pytest.raises(InputError, match="p_values"):
        holm([float("nan")])
    with pytest.raises(InputError, match="at least one value"):
        bootstrap_interval(np.array([]))
    for bad in (["a"], [[0.1]]):
        with pytest.raises(InputError, match="must be"):
            holm(bad)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="must be"):
            bootstrap_interval(bad)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="finite ones"):
        bootstrap_interval(np.array([1.7e308, 1.7e308]))
    with pytest.raises(InputError, match="samples must be a whole number"):
        bootstrap_interval(np.array([1.0]), samples=0)
    with pytest.raises(InputError, match="at least one value, and finite ones"):
        bootstrap_interval(np.array([np.nan]))
    with pytest.raises(InputError, match="level must be a finite number from 0 to 1; got 95"):
        bootstrap_interval(np.array([1.0]), level=95)

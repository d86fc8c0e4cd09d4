"""Each step of noise finding, against brute force or a case with a known answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from prorec import Factors, InputError
from prorec.noise.cross_fitting import assign_folds, drop_entries, sample_negatives
from prorec.noise.density_ratio import fit_density_ratio, fit_out_of_user_ratio
from prorec.noise.flagging import flag_interactions
from prorec.noise.pair_features import rank_within_groups
from prorec.noise.plan_ranks import Pairs, Transport, rank_in_plan
from prorec.noise.posterior import calibrate, fit_calibration
from prorec.transport import Marginals, relaxed

RNG = np.random.default_rng


def some_clicks(seed: int, n_users: int = 7, n_items: int = 11) -> csr_array:
    return csr_array((RNG(seed).random((n_users, n_items)) < 0.4).astype(np.float32))


@given(st.integers(0, 1000), st.integers(2, 6))
def test_folds_spread_each_users_clicks_evenly(seed: int, n_folds: int) -> None:
    matrix = some_clicks(seed)
    folds = assign_folds(matrix, n_folds, RNG(seed))
    for row in range(matrix.shape[0]):
        counts = np.bincount(folds[matrix.indptr[row] : matrix.indptr[row + 1]], minlength=n_folds)
        assert counts.max() - counts.min() <= 1
    for fold in range(n_folds):
        train = drop_entries(matrix, folds == fold)
        dense = matrix.toarray()
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        dense[rows[folds == fold], matrix.indices[folds == fold]] = 0
        np.testing.assert_array_equal(train.toarray(), dense)


def test_negatives_are_sampled_uniformly_from_unobserved_items() -> None:
    matrix = csr_array(np.array([[1, 0, 0, 1, 0, 1, 0], [1, 1, 1, 1, 1, 1, 1]], dtype=np.float32))
    users = np.array([0] * 40_000 + [1], dtype=np.int32)
    items, exists = sample_negatives(matrix, users, RNG(0).random(len(users)))
    assert exists[:-1].all()
    assert not exists[-1], "a user who clicked on everything has no negatives"
    counts = np.bincount(items[:-1], minlength=7)
    assert (counts[[0, 3, 5]] == 0).all()
    np.testing.assert_allclose(counts[[1, 2, 4, 6]] / 40_000, 0.25, atol=0.015)


@pytest.mark.parametrize("memory", [256e6, 2e3])
@pytest.mark.parametrize("transport", ["relaxed-users", "relaxed", "sinkhorn"])
def test_percentile_rank_is_among_unobserved_items(transport: Transport, memory: float) -> None:
    rng, matrix = RNG(3), some_clicks(3)
    scores = Factors(rng.normal(size=(7, 3)).round(1), rng.normal(size=(11, 3)).round(1))
    users, items = (side.ravel().astype(np.int32) for side in np.indices(matrix.shape))
    order = rng.permutation(len(users))
    pairs = Pairs(users[order], items[order])
    ranks = rank_in_plan(scores, matrix, pairs, matrix, transport, memory)
    is_observed = matrix.toarray() > 0
    for user, item, value, percentile_rank in zip(*pairs, *ranks, strict=True):
        others = [j for j in range(11) if not is_observed[user, j] and j != item]
        values = {j: ranks.values[(pairs.users == user) & (pairs.items == j)][0] for j in others}
        above = sum(other > value for other in values.values()) + 0.5 * sum(o == value for o in values.values())
        assert percentile_rank == pytest.approx((above + 0.5) / (len(others) + 1), abs=1e-6)
    if transport == "relaxed":
        from prorec.transport.gamma import estimate_gamma

        plan = relaxed(scores, Marginals.popularity(matrix), estimate_gamma(scores, matrix)).to_dense()
        for user in range(7):
            is_own = pairs.users == user
            difference = np.log(plan[user, pairs.items[is_own]]) - ranks.values[is_own]
            np.testing.assert_allclose(difference, difference[0], atol=1e-4)


def test_percentile_ranks_of_a_user_with_many_clicks() -> None:
    """Hundreds of pairs of one user are ranked by sorting, with the same result as by counting."""
    rng = RNG(5)
    scores = Factors(rng.normal(size=(2, 2)), rng.normal(size=(1500, 2)).round(1))
    clicked = np.sort(rng.choice(1500, 700, replace=False))
    matrix = csr_array((np.ones(703, dtype=np.float32), np.append(clicked, [1, 5, 9]), [0, 700, 703]), (2, 1500))
    everything = np.indices((2, 1500)).reshape(2, -1).astype(np.int32)
    values, percentile_ranks = rank_in_plan(scores, matrix, Pairs(*everything), matrix, "relaxed-users", 1e6)
    for user in range(2):
        own = values.reshape(2, -1)[user]
        is_unobserved = np.ones(1500, dtype=bool)
        is_unobserved[matrix.indices[matrix.indptr[user] : matrix.indptr[user + 1]]] = False
        above = (own[is_unobserved] > own[:, None]).sum(axis=1) + 0.5 * (own[is_unobserved] == own[:, None]).sum(axis=1)
        expected = (above - 0.5 * is_unobserved + 0.5) / (is_unobserved.sum() - is_unobserved + 1)
        np.testing.assert_allclose(percentile_ranks.reshape(2, -1)[user], expected, rtol=1e-6)


@given(st.integers(0, 1000))
def test_rank_within_groups_is_counting(seed: int) -> None:
    rng = RNG(seed)
    indptr = np.append(0, np.cumsum(rng.integers(0, 5, size=4)))
    values = rng.integers(0, 4, size=indptr[-1]).astype(np.float32)
    groups = rng.integers(0, 4, size=9).astype(np.int32)
    queries = rng.integers(0, 4, size=9).astype(np.float32)
    members = [values[indptr[group] : indptr[group + 1]] for group in groups]
    excluded = np.array([rng.choice(each) if len(each) and rng.random() < 0.5 else np.nan for each in members])
    log_odds = rank_within_groups(values, indptr, groups, queries, excluded.astype(np.float32))
    for index, others in enumerate(members):
        compared = others.tolist()
        if not np.isnan(excluded[index]):
            compared.remove(excluded[index])
        above = sum(each > queries[index] for each in compared) + 0.5 * sum(each == queries[index] for each in compared)
        rank = (above + 0.5) / (len(compared) + 1)
        assert log_odds[index] == pytest.approx(np.log(rank / (1 - rank)))


def test_density_ratio_of_two_normals() -> None:
    """The log ratio of N(1, 1) to N(0, 1) is x − ½, also with three times as many negatives as clicks."""
    rng = RNG(0)
    clicks, negatives = rng.normal(1, 1, size=(20_000, 1)), rng.normal(0, 1, size=(60_000, 1))
    is_click = np.arange(80_000) < 20_000
    ratio = fit_density_ratio(np.vstack([clicks, negatives]), is_click)
    x = np.linspace(-1.5, 2.5, 9)[:, None]
    np.testing.assert_allclose(ratio.log_ratio(x), x[:, 0] - 0.5, atol=0.1)


def test_density_ratio_of_constant_features_is_one() -> None:
    ratio = fit_density_ratio(np.ones((50, 2)), np.arange(50) < 10)
    np.testing.assert_allclose(ratio.log_ratio(np.ones((3, 2))), 0, atol=1e-6)


def test_calibration_rises_and_agrees_with_the_truth() -> None:
    rng = RNG(2)
    log_odds = rng.normal(size=40_000)
    is_noise = rng.random(40_000) < 1 / (1 + np.exp(-log_odds))
    calibration = fit_calibration(log_odds, log_odds[is_noise], np.ones(is_noise.sum()))
    queries = np.linspace(-2, 2, 200)
    probability = calibrate(queries, calibration)
    assert (np.diff(probability) > 0).all(), "no two are equal"
    np.testing.assert_allclose(probability, 1 / (1 + np.exp(-queries)), atol=0.05)


def test_a_ratio_of_other_users_does_not_rank_clicks_up_by_chance() -> None:
    """All features are random. A ratio that was fitted to the same pairs separates them by chance."""
    rng = RNG(3)
    features, users = rng.normal(size=(600, 20)), rng.integers(0, 60, size=600)
    is_click = np.arange(600) < 200
    own = fit_density_ratio(features, is_click).log_ratio(features)
    other = fit_out_of_user_ratio(features, users, is_click, 60, rng).log_ratio(features, users)

    def auc(values: np.ndarray) -> float:
        return float((values[is_click][:, None] > values[~is_click]).mean())

    assert auc(own) > 0.75
    assert auc(other) == pytest.approx(0.5, abs=0.08)


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=30), st.floats(0.01, 0.99))
def test_flags_by_false_discovery_rate(values: list[float], fdr: float) -> None:
    probability = np.array(values, dtype=np.float32)
    flags = flag_interactions(probability, fdr=fdr)
    assert (1 - probability[flags].astype(np.float64)).sum() <= fdr * flags.sum() + 1e-6
    if flags.any():
        assert probability[flags].min() > probability[~flags].max(initial=-1), "ties stay together"
    for cutoff in np.unique(probability):  # no larger set with whole ties keeps to the rate
        larger = probability >= cutoff
        if larger.sum() > flags.sum():
            assert (1 - probability[larger].astype(np.float64)).sum() > fdr * larger.sum() - 1e-6


def test_flags_by_budget_and_by_probability() -> None:
    probability = np.array([0.9, 0.2, 0.8, 0.8, 0.1], dtype=np.float32)
    assert flag_interactions(probability, n=1).tolist() == [True, False, False, False, False]
    assert flag_interactions(probability, n=2).sum() == 1, "two are tied at the cut-off"
    assert flag_interactions(probability, n=99).all()
    assert not flag_interactions(probability, n=0).any()
    assert flag_interactions(probability, fraction=0.6).sum() == 3
    assert flag_interactions(probability, threshold=0.5).sum() == 3
    for wrong in ({}, {"fdr": 0.1, "n": 3}, {"fdr": 0.0}, {"fdr": 1.0}, {"fdr": -1}, {"n": -1}, {"fraction": 2.0}):
        with pytest.raises(InputError):
            flag_interactions(probability, **wrong)


def test_a_ratio_does_not_depend_on_where_its_fit_starts() -> None:
    """The penalized likelihood has one maximum."""
    rng = RNG(5)
    features, is_click = rng.normal(size=(3_000, 3)), np.arange(3_000) < 1_000
    features[is_click] += [0.5, 0, -1]
    cold = fit_density_ratio(features, is_click)
    far = replace(cold, coefficients=rng.normal(size=len(cold.coefficients)))
    warm = fit_density_ratio(features, is_click, far)
    np.testing.assert_allclose(warm.log_ratio(features), cold.log_ratio(features), atol=1e-4)


def test_a_ratio_is_a_piecewise_linear_function_of_each_feature() -> None:
    """Against the expanded columns, written out."""
    rng = RNG(6)
    features, is_click = rng.normal(size=(200, 2)), np.arange(200) < 80
    ratio = fit_density_ratio(features, is_click)
    columns = [
        [own, *(max(own - knot, 0) for knot in knots)]
        for row in features
        for own, knots in zip(row, ratio.knots, strict=True)
    ]
    expanded = np.array(columns).reshape(200, -1)
    standardized = (expanded - ratio.center) * ratio.inverse_scale
    expected = ratio.coefficients[0] + standardized @ ratio.coefficients[1:]
    np.testing.assert_allclose(ratio.log_ratio(features), expected, atol=1e-9)
    # At the maximum, the penalized gradient of the log-likelihood is 0.
    weights = np.where(is_click, 0.5 / 0.4, 0.5 / 0.6)
    residual = weights * (is_click - 1 / (1 + np.exp(-expected)))
    np.testing.assert_allclose(standardized.T @ residual, ratio.coefficients[1:], atol=1e-3)
    assert residual.sum() == pytest.approx(0, abs=1e-3)

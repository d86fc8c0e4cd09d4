"""The parts of noise finding, each against brute force or a case whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from prorec import Factors, InputError
from prorec.noise.controls import drawn
from prorec.noise.evidence import Pairs, evidence
from prorec.noise.flagging import flag_interactions
from prorec.noise.folds import dealt, without
from prorec.noise.interval import Interval, by_counting
from prorec.noise.level import Level, level_in
from prorec.noise.noise_rate import Noise, NoiseRateEstimate, Seen, noise_in, settled
from prorec.noise.probability import Calibration
from prorec.noise.ratio import DensityRatio
from prorec.noise.standing import standing
from prorec.transport import Marginals, relaxed

RNG = np.random.default_rng


def some_clicks(seed: int, n_users: int = 7, n_items: int = 11) -> csr_array:
    return csr_array((RNG(seed).random((n_users, n_items)) < 0.4).astype(np.float32))


@given(st.integers(0, 1000), st.integers(2, 6))
def test_folds_deal_each_users_clicks_evenly(seed: int, n_folds: int) -> None:
    matrix = some_clicks(seed)
    folds = dealt(matrix, n_folds, RNG(seed))
    for row in range(matrix.shape[0]):
        counts = np.bincount(folds[matrix.indptr[row] : matrix.indptr[row + 1]], minlength=n_folds)
        assert counts.max() - counts.min() <= 1
    for fold in range(n_folds):
        left = without(matrix, folds == fold)
        dense = matrix.toarray()
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        dense[rows[folds == fold], matrix.indices[folds == fold]] = 0
        np.testing.assert_array_equal(left.toarray(), dense)


def test_controls_are_drawn_evenly_from_what_was_not_clicked() -> None:
    matrix = csr_array(np.array([[1, 0, 0, 1, 0, 1, 0], [1, 1, 1, 1, 1, 1, 1]], dtype=np.float32))
    users = np.array([0] * 40_000 + [1], dtype=np.int32)
    items, there = drawn(matrix, users, RNG(0).random(len(users)))
    assert there[:-1].all()
    assert not there[-1], "who has clicked on everything has no controls"
    counts = np.bincount(items[:-1], minlength=7)
    assert (counts[[0, 3, 5]] == 0).all()
    np.testing.assert_allclose(counts[[1, 2, 4, 6]] / 40_000, 0.25, atol=0.015)


@pytest.mark.parametrize("memory", [256e6, 2e3])
@pytest.mark.parametrize("how", ["relaxed-users", "relaxed", "sinkhorn"])
def test_evidence_is_the_place_among_unobserved_items(how: str, memory: float) -> None:
    rng, matrix = RNG(3), some_clicks(3)
    scores = Factors(rng.normal(size=(7, 3)).round(1), rng.normal(size=(11, 3)).round(1))
    users, items = (side.ravel().astype(np.int32) for side in np.indices(matrix.shape))
    order = rng.permutation(len(users))
    pairs = Pairs(users[order], items[order])
    found = evidence(scores, matrix, pairs, matrix, how, memory)  # type: ignore[arg-type]
    seen = matrix.toarray() > 0
    for user, item, value, percentile in zip(*pairs, *found, strict=True):
        others = [j for j in range(11) if not seen[user, j] and j != item]
        values = {j: found.values[(pairs.users == user) & (pairs.items == j)][0] for j in others}
        above = sum(other > value for other in values.values()) + 0.5 * sum(o == value for o in values.values())
        assert percentile == pytest.approx((above + 0.5) / (len(others) + 1), abs=1e-6)
    if how == "relaxed":
        from prorec.transport.gamma import estimate_gamma

        plan = relaxed(scores, Marginals.popularity(matrix), estimate_gamma(scores, matrix)).to_dense()
        for user in range(7):
            of_user = pairs.users == user
            apart = np.log(plan[user, pairs.items[of_user]]) - found.values[of_user]
            np.testing.assert_allclose(apart, apart[0], atol=1e-4)


def test_evidence_of_somebody_with_many_clicks() -> None:
    """Who has hundreds of pairs is judged by sorting; the answer is that of counting."""
    rng = RNG(5)
    scores = Factors(rng.normal(size=(2, 2)), rng.normal(size=(1500, 2)).round(1))
    clicked = np.sort(rng.choice(1500, 700, replace=False))
    matrix = csr_array((np.ones(703, dtype=np.float32), np.append(clicked, [1, 5, 9]), [0, 700, 703]), (2, 1500))
    everything = np.indices((2, 1500)).reshape(2, -1).astype(np.int32)
    values, percentiles = evidence(scores, matrix, Pairs(*everything), matrix, "relaxed-users", 1e6)
    for user in range(2):
        own = values.reshape(2, -1)[user]
        is_free = np.ones(1500, dtype=bool)
        is_free[matrix.indices[matrix.indptr[user] : matrix.indptr[user + 1]]] = False
        above = (own[is_free] > own[:, None]).sum(axis=1) + 0.5 * (own[is_free] == own[:, None]).sum(axis=1)
        expected = (above - 0.5 * is_free + 0.5) / (is_free.sum() - is_free + 1)
        np.testing.assert_allclose(percentiles.reshape(2, -1)[user], expected, rtol=1e-6)


@given(st.integers(0, 1000))
def test_standing_is_counting(seed: int) -> None:
    rng = RNG(seed)
    begins = np.append(0, np.cumsum(rng.integers(0, 5, size=4)))
    values = rng.integers(0, 4, size=begins[-1]).astype(np.float32)
    groups = rng.integers(0, 4, size=9).astype(np.int32)
    asked = rng.integers(0, 4, size=9).astype(np.float32)
    members = [values[begins[group] : begins[group + 1]] for group in groups]
    left_out = np.array([rng.choice(each) if len(each) and rng.random() < 0.5 else np.nan for each in members])
    got = standing(values, begins, groups, asked, left_out.astype(np.float32))
    for place, others in enumerate(members):
        kept = others.tolist()
        if not np.isnan(left_out[place]):
            kept.remove(left_out[place])
        above = sum(each > asked[place] for each in kept) + 0.5 * sum(each == asked[place] for each in kept)
        share = (above + 0.5) / (len(kept) + 1)
        assert got[place] == pytest.approx(np.log(share / (1 - share)))


def test_density_ratio_of_two_normals() -> None:
    """Of N(1, 1) to N(0, 1) it is x − ½; and it does not matter that there are three times as many of one kind."""
    rng = RNG(0)
    clicks, controls = rng.normal(1, 1, size=(20_000, 1)), rng.normal(0, 1, size=(60_000, 1))
    is_click = np.arange(80_000) < 20_000
    ratio = DensityRatio.fitted(np.vstack([clicks, controls]), is_click)
    x = np.linspace(-1.5, 2.5, 9)[:, None]
    np.testing.assert_allclose(ratio.log_ratio(x), x[:, 0] - 0.5, atol=0.1)


def test_density_ratio_without_anything_to_tell_by() -> None:
    ratio = DensityRatio.fitted(np.ones((50, 2)), np.arange(50) < 10)
    np.testing.assert_allclose(ratio.log_ratio(np.ones((3, 2))), 0, atol=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.2, 0.5])
@pytest.mark.parametrize("by_popularity", [False, True])
def test_noise_rate_of_a_mixture_that_is_known(share: float, by_popularity: bool) -> None:
    """True clicks have x ~ N(2, 1), controls and noise N(0, 1), so log f/f₀ is known, up to the mixture."""
    rng = RNG(1)
    n = 60_000
    of_control = rng.gamma(1.0, 20.0, size=2 * n)
    of_noise = rng.gamma(2.0 if by_popularity else 1.0, 20.0, size=n)  # Γ(2) is Γ(1), in proportion to popularity
    is_noise = rng.random(n) < share
    popularity = np.concatenate([np.where(is_noise, of_noise, rng.gamma(2.0, 20.0, size=n)), of_control])
    x = np.concatenate([rng.normal(np.where(is_noise, 0.0, 2.0)), rng.normal(size=2 * n)])
    genuine = popularity / 20 * np.exp(2 * x - 2)  # of true clicks to controls
    h = share * (popularity / 20 if by_popularity else 1.0)
    users = rng.integers(0, 500, size=3 * n).astype(np.int32)
    is_click = np.arange(3 * n) < n
    seen = Seen(np.log((1 - share) * genuine + h + 1e-12), popularity, users, is_click)
    noise, estimated = noise_in(seen, np.bincount(users, minlength=500).astype(np.float64), RNG(0))
    # It is laid below most cells, so it leans low; by more where there is more noise.
    assert estimated.estimate == pytest.approx(share, abs=0.03, rel=0.2)
    assert estimated.low <= estimated.estimate <= estimated.high
    if 0 < share < 1:
        assert (noise.by_popularity > noise.even) == by_popularity


@pytest.mark.parametrize("share", [0.03, 0.2, 1.0])
@pytest.mark.parametrize("apart", [1.0, 8.0])
def test_the_worse_half_is_level_where_hardly_a_true_click_is_in_it(share: float, apart: float) -> None:
    """x is N(0, 1), of true clicks N(apart, 1); twenty more features mean nothing, and are not learned by heart."""
    rng, n = RNG(4), 3000
    is_noise, is_click = rng.random(n) < share, np.arange(3 * n) < n
    features = rng.normal(size=(3 * n, 21))
    features[:n, 0] += np.where(is_noise, 0.0, apart)
    level = level_in(features, rng.integers(0, 200, size=3 * n).astype(np.int32), is_click, rng)
    assert level.share.low < level.share.estimate < level.share.high
    assert level.is_level == level.may_be == (apart == 8.0 or share == 1.0)
    if level.is_level:
        assert level.share.low < is_noise.mean() < level.share.high


def test_a_level_of_next_to_nothing_is_not_known() -> None:
    level = level_in(np.ones((2, 1)), np.zeros(2, dtype=np.int32), np.array([True, False]), RNG(0))
    assert not level.is_level
    assert level.may_be


def test_the_line_or_the_level() -> None:
    line, share = Noise(0.0, 0.1, 5.0), NoiseRateEstimate(0.1, 0.08, 0.12)
    found = Interval(1.1, 0.9, 1.2)
    assert settled(line, share, Level(found, is_level=True, may_be=True)) == (
        Noise(1.0, 0.0, 5.0),
        NoiseRateEstimate(1.0, 0.9, 1.0),
    )
    assert settled(line, share, Level(found, is_level=False, may_be=True)) == (line, NoiseRateEstimate(0.1, 0.08, 1.0))
    assert settled(line, share, Level(found, is_level=False, may_be=False)) == (line, share)


@given(st.floats(0, 1), st.integers(1, 10_000))
def test_what_is_counted_may_be_off(rate: float, expected: int) -> None:
    found = by_counting(rate, expected)
    assert 0 <= found.low <= rate < found.high
    assert found.low < rate or rate * expected < 1e-2


def test_no_interval_without_width() -> None:
    """No click is in any tail: drawing users again gives 0 each time; a log that was longer might not."""
    is_click = np.arange(900) < 300
    seen = Seen(np.where(is_click, 5.0, -5.0), np.ones(900), np.arange(900, dtype=np.int32) % 30, is_click)
    _, share = noise_in(seen, np.full(30, 10.0), RNG(0))
    assert share.estimate == share.low == 0
    assert 0.01 < share.high < 0.2


def test_calibration_never_falls_and_says_what_is_so() -> None:
    rng = RNG(2)
    suspicion = rng.normal(size=40_000)
    chance = 1 / (1 + np.exp(-suspicion))
    is_noise = rng.random(40_000) < chance
    curve = Calibration.fitted(suspicion, suspicion[is_noise], np.ones(is_noise.sum()))
    asked = np.linspace(-2, 2, 200)
    found = curve(asked)
    assert (np.diff(found) > 0).all(), "and no two are equal"
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-asked)), atol=0.05)


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=30), st.floats(0.01, 0.99))
def test_flags_by_false_discovery_rate(values: list[float], fdr: float) -> None:
    probability = np.array(values, dtype=np.float32)
    flags = flag_interactions(probability, fdr=fdr)
    assert (1 - probability[flags].astype(np.float64)).sum() <= fdr * flags.sum() + 1e-6
    if flags.any():
        assert probability[flags].min() > probability[~flags].max(initial=-1), "the most suspicious, equals together"
    for level in np.unique(probability):  # nothing larger that is made of whole ties would do
        larger = probability >= level
        if larger.sum() > flags.sum():
            assert (1 - probability[larger].astype(np.float64)).sum() > fdr * larger.sum() - 1e-6


def test_flags_by_budget_and_by_probability() -> None:
    probability = np.array([0.9, 0.2, 0.8, 0.8, 0.1], dtype=np.float32)
    assert flag_interactions(probability, n=1).tolist() == [True, False, False, False, False]
    assert flag_interactions(probability, n=2).sum() == 1, "two are equal: rather none of them"
    assert flag_interactions(probability, n=99).all()
    assert not flag_interactions(probability, n=0).any()
    assert flag_interactions(probability, fraction=0.6).sum() == 3
    assert flag_interactions(probability, threshold=0.5).sum() == 3
    for wrong in ({}, {"fdr": 0.1, "n": 3}, {"fdr": 0.0}, {"fdr": 1.0}, {"fdr": -1}, {"n": -1}, {"fraction": 2.0}):
        with pytest.raises(InputError):
            flag_interactions(probability, **wrong)

"""Bounds of log-sums hold against brute force in double precision, and save work where factors differ in length."""

from __future__ import annotations

import itertools
import math
import sys
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import logsumexp

from prorec import Factors, InputError
from prorec.transport import BoundedPlan, Marginals, bound_log_sums, relaxed
from prorec.transport.factors import Link
from prorec.transport.tail_bounds import _log_phi, _psi, bound_tails, make_shells
from tests.transport.problems import make_problem, relaxed_plan

Side = Literal["users", "items"]


def make_factors(
    n_users: int,
    n_items: int,
    width: int,
    *,
    seed: int = 0,
    scale: float = 0.3,
    spread: float = 1.0,
    bias: bool = False,
) -> Factors:
    """Make factors whose lengths are spread like those of trained models, around a mean that is not 0."""
    rng = np.random.default_rng(seed)
    users, items = (rng.normal(0.2, 1, size=(n, width)) for n in (n_users, n_items))
    users *= scale * rng.lognormal(0, spread, size=(n_users, 1))
    items *= rng.lognormal(0, spread, size=(n_items, 1))
    return Factors(users, items, rng.normal(2, 1, n_items) if bias else None)


def exact_log_sums(factors: Factors, gamma: float, side: Side = "users") -> NDArray[Any]:
    bias = 0.0 if factors.item_bias is None else factors.item_bias.astype(float)
    scores = (factors.users.astype(float) @ factors.items.astype(float).T + bias) / gamma
    return np.asarray(logsumexp(scores, axis=1 if side == "users" else 0))


@settings(max_examples=150, deadline=None)
@given(
    n_users=st.integers(1, 40),
    n_items=st.integers(1, 400),
    width=st.integers(0, 6),
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([0.0, 1e-6, 0.1, 1.0, 30.0, 1e5]),
    spread=st.sampled_from([0.0, 0.5, 1.5]),
    bias=st.booleans(),
    side=st.sampled_from(["users", "items"]),
    tolerance=st.sampled_from([1e-4, 0.01, 1.0]),
)
def test_exact_sums_are_between_the_bounds(
    n_users: int,
    n_items: int,
    width: int,
    seed: int,
    scale: float,
    spread: float,
    bias: bool,
    side: Side,
    tolerance: float,
) -> None:
    factors = make_factors(n_users, n_items, width, seed=seed, scale=scale, spread=spread, bias=bias)
    sums = bound_log_sums(factors, 0.7, side, tolerance=tolerance)
    exact = exact_log_sums(factors, 0.7, side)
    assert (sums.low <= exact).all()
    assert (exact <= sums.high).all()
    assert (sums.low <= sums.estimate).all()
    assert (sums.estimate <= sums.high).all()
    error = np.abs(np.expm1(sums.estimate - exact))
    assert (error <= sums.error_bounds * (1 + 1e-9)).all()
    assert sums.error_bounds.max() <= tolerance + 3e-4  # and rounding


@pytest.mark.parametrize("side", ["users", "items"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factors_of_uneven_length_take_few_pairs(side: Side, dtype: type) -> None:
    factors = make_factors(3000, 3000, 16, scale=0.01)
    factors = Factors(factors.users.astype(dtype), factors.items.astype(dtype))
    sums = bound_log_sums(factors, 1.0, side, tolerance=0.01)
    exact = exact_log_sums(factors, 1.0, side)
    assert sums.n_all_pairs == 3000 * 3000
    assert sums.n_pairs < 0.2 * sums.n_all_pairs
    assert ((sums.low <= exact) & (exact <= sums.high)).all()
    assert np.ptp(exact) > 0.5  # the sums differ, so a constant would not do
    np.testing.assert_allclose(sums.estimate, exact, atol=0.01)


def test_rows_that_cannot_be_bounded_are_exact() -> None:
    """All items are as long, and far apart for γ: nothing can be saved, and nothing is estimated."""
    rng = np.random.default_rng(0)
    items = rng.normal(size=(500, 5))
    items /= np.linalg.norm(items, axis=1, keepdims=True)
    factors = Factors(10 * rng.normal(size=(50, 5)), items)
    sums = bound_log_sums(factors, 0.1)
    assert sums.n_pairs >= sums.n_all_pairs
    np.testing.assert_allclose(sums.estimate, exact_log_sums(factors, 0.1), rtol=1e-6)


def test_a_smaller_tolerance_takes_more_pairs() -> None:
    factors = make_factors(500, 4000, 8)
    coarse, fine = (bound_log_sums(factors, 1.0, tolerance=tolerance) for tolerance in (0.1, 0.001))
    assert coarse.n_pairs < fine.n_pairs
    assert fine.error_bounds.max() < 0.0012 < coarse.error_bounds.max()
    assert "of the pairs" in repr(fine)


def test_little_memory_changes_nothing() -> None:
    factors = make_factors(300, 2000, 8)
    whole, in_blocks = (bound_log_sums(factors, 1.0, memory=memory) for memory in (256e6, 2000 * 400))
    np.testing.assert_allclose(in_blocks.estimate, whole.estimate, rtol=1e-5)


def test_moments_of_shells() -> None:
    rng = np.random.default_rng(0)
    columns, log_weights = rng.normal(1, 2, size=(1000, 3)), rng.normal(300, 2, size=1000)
    shells = make_shells(columns, log_weights)
    assert sorted(shells.order) == list(range(1000))
    assert (shells.starts[0], shells.starts[-1]) == (0, 1000)
    distance = np.linalg.norm(columns - columns.mean(axis=0), axis=1)[shells.order]
    assert (np.diff(distance) < 1e-5).all()
    for k, (start, stop) in enumerate(itertools.pairwise(shells.starts)):
        members = columns[shells.order[start:stop]].astype(float)
        weights = np.exp(log_weights[shells.order[start:stop]] - 300)
        assert shells.log_weights[k] == pytest.approx(300 + np.log(weights.sum()))
        mean = np.average(members, axis=0, weights=weights)
        np.testing.assert_allclose(shells.means[k], mean)
        np.testing.assert_allclose(shells.moments[k], np.cov(members.T, aweights=weights, bias=True), atol=1e-12)
        assert shells.radii[k] == pytest.approx(np.linalg.norm(members - mean, axis=1).max())
        third = shells.third_moments[k]
        assert (third is None) == (len(members) < 20 * 6)
        if third is not None:  # for any vector, the mean of (u·(v − c))³
            u = rng.normal(size=3)
            cubes = np.average(((members - mean) @ u) ** 3, weights=weights)
            products = [u[a] * u[b] for a in range(3) for b in range(a, 3)]
            assert np.array(products) @ third @ u == pytest.approx(cubes)


@pytest.mark.parametrize("tolerance", [1e-3, 0.1, 1.0])
def test_tails_are_between_their_bounds(tolerance: float) -> None:
    factors = make_factors(200, 3000, 6)
    rows, columns = factors.users.astype(float), factors.items.astype(float)
    log_weights = np.random.default_rng(1).normal(size=3000)
    shells = make_shells(columns, log_weights)
    tails = bound_tails(rows, shells, tolerance)
    assert len(np.unique(tails.head)) > 3
    for user, head in enumerate(tails.head):
        tail = shells.order[shells.starts[head] :]
        if not len(tail):
            assert tails.low[user] == tails.high[user] == -np.inf
            continue
        exact = logsumexp(columns[tail] @ rows[user] + log_weights[tail])
        assert tails.low[user] - 1e-12 <= exact <= tails.high[user] + 1e-12
        width = math.exp(tails.high[user]) - math.exp(tails.low[user])
        assert width <= tolerance * math.exp(logsumexp(columns @ rows[user] + log_weights)) * (1 + 1e-9)


@pytest.mark.parametrize("t", [-1e6, -50.0, -1.0, -0.0101, -0.0099, -1e-9, 0.0, 1e-9, 0.0099, 0.0101, 1.0, 29.9, 30.1])
def test_phi_by_its_series(t: float) -> None:
    """φ(t) = Σ_k t^k / (k + 2)!, in exact fractions; far below 0 by its formula."""
    if t < -100:
        wanted = math.log((-1 - t) / t**2)
    else:
        x, term, total = Fraction(t), Fraction(1, 2), Fraction(0)
        for k in range(3, 400):
            total += term
            term = Fraction(float(term * x / k)) if k > 40 else term * x / k  # keeps the fractions short
        wanted = math.log(total) if t > -30 else math.log((math.exp(t) - 1 - t) / t**2)
    assert _log_phi(np.array([t]))[0] == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("t", [0.0, 1e-9, 1e-3, 0.5, 1.0, 4.0])
def test_psi_by_its_series(t: float) -> None:
    """ψ(t) = Σ_k t^(k + 2) / (k + 4)!, in exact fractions."""
    wanted = sum(Fraction(t) ** (k + 2) / math.factorial(k + 4) for k in range(40))
    assert float(wanted) <= _psi(np.array([t]))[0] <= float(wanted) * (1 + 1e-11)


def test_a_third_moment_saves_pairs_where_scores_are_skewed() -> None:
    """Lengths alike and scores skewed, so that neither the head nor two moments bring the bounds together."""
    rng = np.random.default_rng(0)
    items = rng.exponential(0.25, size=(20_000, 4))
    items /= np.maximum(np.linalg.norm(items, axis=1, keepdims=True), 1)
    factors = Factors(rng.normal(0, 0.3, size=(400, 4)), items)
    sums = bound_log_sums(factors, 1.0)
    exact = exact_log_sums(factors, 1.0)
    assert ((sums.low <= exact) & (exact <= sums.high)).all()
    second = np.mean((items @ factors.users.T - (items @ factors.users.T).mean(axis=0)) ** 2, axis=0)
    normal = (items @ factors.users.T).mean(axis=0) + second / 2 + np.log(len(items))
    assert np.abs(sums.estimate - exact).max() < 0.5 * np.abs(normal - exact).max()


def test_very_large_scores_stay_finite() -> None:
    factors = Factors(np.array([[1e6], [-1e6], [0.0]]), np.linspace(-1, 1, 200)[:, None])
    sums = bound_log_sums(factors, 1.0)
    exact = exact_log_sums(factors, 1.0)
    assert np.isfinite(sums.low).all()
    assert np.isfinite(sums.high).all()
    assert ((sums.low <= exact) & (exact <= sums.high)).all()


def test_factors_far_from_1() -> None:
    """Only products matter, so factors of both sides may be as far apart as numbers go."""
    factors = make_factors(60, 2000, 4)
    wanted = bound_log_sums(factors, 1.0)
    for power in (-150, 150):
        scaled = Factors(factors.users * 2.0**power, factors.items * 2.0**-power)
        sums = bound_log_sums(scaled, 1.0)
        np.testing.assert_allclose(sums.low, wanted.low, rtol=1e-9)
        assert sums.n_pairs == wanted.n_pairs < sums.n_all_pairs
    with pytest.raises(InputError, match=r"factors over gamma must be at most 1e\+100.*scale the factors"):
        bound_log_sums(Factors(np.array([[1e200, 0.0]]), np.array([[1e-200, 1.0]])), 1.0)


def test_progress_reaches_its_total() -> None:
    reports: list[tuple[str, int, int]] = []
    bound_log_sums(make_factors(50, 1000, 4), 1.0, progress=lambda *report: reports.append(report))
    tasks = [task for task, _, _ in reports]
    assert sorted(set(tasks)) == ["Bounding the tails of sums", "Computing the heads of sums"]
    for task in set(tasks):
        last = [report for report in reports if report[0] == task][-1]
        assert last[1] == last[2] > 0


@pytest.mark.parametrize("side", ["both", "users", "items"])
@pytest.mark.parametrize("bias", [False, True])
def test_values_of_a_bounded_plan(side: Literal["both", "users", "items"], bias: bool) -> None:
    problem = make_problem(120, 700, bias=bias, scale=0.3)
    plan = relaxed(problem.factors, problem.marginals, 0.5, side, method="bounded", tolerance=0.05)
    assert isinstance(plan, BoundedPlan)
    assert (plan.user_sums is None, plan.item_sums is None) == (side == "items", side == "users")
    users, items = problem.observed.nonzero()
    dense = relaxed_plan(problem.scores, problem.marginals, 0.5, side)
    error = np.abs(plan.values(users, items) / dense[users, items] - 1)
    assert (error <= plan.error_bounds(users, items)).all()
    assert 1e-6 < error.max() < 0.052  # the sums are not exact, and the bounds say so
    np.testing.assert_allclose(plan.rows([3, 5]), dense[[3, 5]], rtol=0.052)
    shares = plan.match(problem.observed).row_shares
    exact = relaxed(problem.factors, problem.marginals, 0.5, side).match(problem.observed).row_shares
    np.testing.assert_allclose(shares, exact, rtol=0.11)


def lower_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[relaxed.__module__]
    monkeypatch.setattr(module, "_LARGE_CATALOGUE", 30)
    monkeypatch.setattr(module, "_MANY_PAIRS", 1000)


def test_an_exact_plan_of_a_large_catalogue_names_the_bounded_one(monkeypatch: pytest.MonkeyPatch) -> None:
    lower_limits(monkeypatch)
    problem = make_problem(50, 40)
    with pytest.warns(UserWarning, match='50 users × 40 items are 2e\\+03 pairs.*relaxed.*method="bounded"'):
        relaxed(problem.factors, problem.marginals, 0.5)


def test_no_warning_where_the_bounded_method_does_not_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    lower_limits(monkeypatch)
    problem = make_problem(50, 40, link="sigmoid")  # warnings are errors in tests
    relaxed(problem.factors, problem.marginals, 0.5)
    relaxed(lambda rows: problem.scores[rows], problem.marginals, 0.5)
    few = make_problem(20, 40)
    relaxed(few.factors, few.marginals, 0.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"factors": lambda rows: rows}, "must be Factors; got function"),
        ({"link": "sigmoid"}, "identity link; got sigmoid"),
        ({"gamma": 0}, "gamma must be above 0; got 0"),
        ({"gamma": float("nan")}, "gamma"),
        ({"gamma": 1e-13}, "larger gamma"),
        ({"side": "rows"}, "side"),
        ({"tolerance": 0}, "tolerance"),
        ({"tolerance": 2}, "tolerance"),
        ({"memory": 10}, "memory must be at least"),
        ({"progress": 3}, "progress"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    link: Link = arguments.pop("link", "identity")
    values = {"factors": Factors(np.ones((3, 2)), 9.0 * np.eye(2), link=link), "gamma": 1.0, **arguments}
    with pytest.raises(InputError, match=message):
        bound_log_sums(**values)


def test_a_bad_method() -> None:
    with pytest.raises(InputError, match="method"):
        relaxed(Factors(np.ones((1, 1)), np.ones((1, 1))), Marginals.uniform(1, 1), 1.0, method="fast")  # type: ignore[arg-type]

"""Plans of `sinkhorn` agree with those of POT."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from prorec import ConvergenceWarning, Factors, InputError
from prorec.transport import Marginals, relaxed, sinkhorn
from tests.transport.problems import Problem, make_problem


def solve_with_pot(problem: Problem, gamma: float) -> NDArray[Any]:
    users, items = problem.marginals.users, problem.marginals.items
    return np.asarray(ot.bregman.sinkhorn_log(users, items, -problem.scores, gamma, numItermax=100_000, stopThr=1e-13))


def with_mass_everywhere(problem: Problem) -> Problem:
    """Return the problem with mass on every user and item, which POT requires."""
    items, users = problem.marginals.items + 1e-3, problem.marginals.users + 1e-3
    return Problem(problem.factors, Marginals(items=items / items.sum(), users=users / users.sum()), problem.observed)


@pytest.mark.parametrize("options", [{}, {"bias": True}, {"link": "sigmoid"}])
@pytest.mark.parametrize(("scale", "gamma"), [(1, 0.1), (1, 5), (10, 1), (300, 10)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equals_pot(options: dict[str, Any], scale: float, gamma: float, dtype: type) -> None:
    problem = with_mass_everywhere(make_problem(60, 45, scale=scale, dtype=dtype, **options))
    wanted = solve_with_pot(problem, gamma)
    plan = sinkhorn(problem.factors, problem.marginals, gamma, tolerance=1e-10, max_iterations=20_000)
    assert plan.converged
    np.testing.assert_allclose(plan.to_dense(), wanted, atol=1e-6)
    np.testing.assert_allclose(plan.to_dense(), wanted, rtol=1e-4, atol=1e-12)
    quick = sinkhorn(problem.factors, problem.marginals, gamma)  # partly in single precision
    assert quick.converged
    assert np.abs(quick.to_dense() - wanted).sum() < 1e-3


def test_meets_both_marginals_and_knows_its_error() -> None:
    problem = make_problem(80, 50)
    plan = sinkhorn(problem.factors, problem.marginals, 0.1, tolerance=1e-7)
    errors = plan.marginal_errors()
    assert plan.converged
    assert plan.error <= 1e-7
    assert errors.users < 1e-12
    assert errors.items == pytest.approx(plan.error, rel=1e-5)
    quick = sinkhorn(problem.factors, problem.marginals, 0.1)
    errors = quick.marginal_errors()
    assert errors.users < 5e-6
    assert errors.items < 1.5e-5


def test_larger_tolerance_takes_fewer_iterations() -> None:
    problem = make_problem(80, 50, dtype=np.float64)
    rough, fine = (sinkhorn(problem.factors, problem.marginals, 0.05, tolerance=t) for t in (1e-2, 1e-6))
    assert rough.iterations < fine.iterations
    assert rough.error <= 1e-2
    assert rough.marginal_errors().items == pytest.approx(rough.error, rel=1e-3)


def test_warm_start() -> None:
    problem = make_problem(80, 50)
    plan = sinkhorn(problem.factors, problem.marginals, 0.05)
    again = sinkhorn(problem.factors, problem.marginals, 0.05, init_from=plan)
    assert again.iterations == 1 < plan.iterations
    moved = Factors(problem.factors.users * np.float32(1.01), problem.factors.items)
    cold, warm = (sinkhorn(moved, problem.marginals, 0.05, init_from=start) for start in (None, plan))
    assert warm.iterations < cold.iterations
    np.testing.assert_allclose(warm.to_dense(), cold.to_dense(), atol=1e-6)
    cold, warm = (sinkhorn(problem.factors, problem.marginals, 0.04, init_from=start) for start in (None, plan))
    assert warm.iterations < cold.iterations


def test_an_item_that_had_no_mass_at_the_start_gets_some() -> None:
    problem = make_problem(30, 4, density=1)
    none = sinkhorn(problem.factors, Marginals(items=np.array([0.5, 0.5, 0, 0]), users=problem.marginals.users), 0.5)
    some = sinkhorn(
        problem.factors,
        Marginals(items=np.array([0.2, 0.2, 0.3, 0.3]), users=problem.marginals.users),
        0.5,
        init_from=none,
    )
    assert some.to_dense().sum(axis=0) == pytest.approx([0.2, 0.2, 0.3, 0.3], abs=1e-5)


def test_stopping_early_warns() -> None:
    problem = make_problem(30, 20, scale=50)
    with pytest.warns(ConvergenceWarning, match=r"stopped after 3 iterations with an error of [\d.e-]+ in the item"):
        plan = sinkhorn(problem.factors, problem.marginals, 0.01, max_iterations=3)
    assert not plan.converged
    assert plan.iterations == 3
    assert plan.error > 1e-5
    assert plan.marginal_errors().items == pytest.approx(plan.error, rel=1e-3)


@pytest.mark.parametrize("scale", [1, 300])
def test_blocks_and_functions_change_nothing(scale: float) -> None:
    problem = make_problem(100, 40, scale=scale)
    whole = sinkhorn(problem.factors, problem.marginals, 5)
    scores = problem.scores
    for source in (problem.factors, lambda rows: scores[rows]):
        plan = sinkhorn(source, problem.marginals, 5, memory=40 * 300)
        assert len(plan.blocks.rows) > len(whole.blocks.rows)
        np.testing.assert_allclose(plan.to_dense(), whole.to_dense(), atol=1e-7)


@settings(max_examples=80)
@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.sampled_from([1e-4, 1e-2, 1, 1e3]),
    st.sampled_from([0, 1, 1e3, 1e6]),
    st.integers(0, 10**6),
)
def test_never_nan(n_users: int, n_items: int, gamma: float, largest: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    factors = Factors(largest * rng.uniform(-1, 1, (n_users, 1)), rng.uniform(-1, 1, (n_items, 1)))
    items, users = (rng.random(n) * (rng.random(n) < 0.7) for n in (n_items, n_users))
    items[rng.integers(n_items)], users[rng.integers(n_users)] = 1, 1
    marginals = Marginals(items=items / items.sum(), users=users / users.sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        plan = sinkhorn(factors, marginals, gamma, max_iterations=50)
    dense = plan.to_dense()
    assert np.isfinite(dense).all()
    np.testing.assert_allclose(dense.sum(axis=1), marginals.users, atol=1e-5)
    assert np.isfinite(plan.error)
    matching = plan.match(dense > -1)
    assert np.isfinite(matching.row_shares).all()


def test_progress_counts_blocks_of_all_iterations() -> None:
    problem = make_problem(20, 10)
    calls: list[tuple[str, int, int]] = []
    plan = sinkhorn(problem.factors, problem.marginals, 0.5, max_iterations=99, progress=lambda *now: calls.append(now))
    n_blocks = len(plan.blocks.rows)
    assert {task for task, *_ in calls} == {"Computing the transport plan"}
    counts = [call[1:] for call in calls]
    assert counts[:-1] == [(done, 99 * n_blocks) for done in range(1, plan.iterations * n_blocks + 1)]
    assert counts[-1] == (99 * n_blocks, 99 * n_blocks), "in the end, all is done"


def test_an_item_with_tiny_values_for_all_users() -> None:
    """In single precision its sum would vanish."""
    n_users, n_items = 4, 46_000
    scores = np.full((n_users, n_items), 39.0)
    scores[:, 7] = -39.0
    plan = sinkhorn(lambda rows: scores[rows], Marginals.uniform(n_users, n_items), 1.0)
    assert plan.converged
    np.testing.assert_allclose(plan.values([0, 3], [7, 8]), 1 / (n_users * n_items), rtol=1e-4)


@pytest.mark.parametrize("gamma", [0.0056, 6e-4, 2.25e-4])
def test_sigmoids_at_a_small_gamma(gamma: float) -> None:
    plan = sinkhorn(Factors(np.zeros((2, 1)), np.zeros((3, 1)), link="sigmoid"), Marginals.uniform(2, 3), gamma)
    np.testing.assert_allclose(plan.to_dense(), 1 / 6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 0}, "gamma must be above 0"),
        ({"gamma": 1, "tolerance": -1}, "tolerance must be"),
        ({"gamma": 1, "max_iterations": 0}, "max_iterations must be"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    problem = make_problem(3, 3)
    with pytest.raises(InputError, match=message):
        sinkhorn(problem.factors, problem.marginals, **options)


def test_bad_init_from() -> None:
    problem, other = make_problem(3, 3), make_problem(3, 4)
    with pytest.raises(InputError, match="init_from must be a plan for 3 items; got one for 4 items"):
        sinkhorn(problem.factors, problem.marginals, 1, init_from=sinkhorn(other.factors, other.marginals, 1))
    other_plan: Any = relaxed(problem.factors, problem.marginals, 1)
    with pytest.raises(InputError, match="init_from must be a plan of sinkhorn; got ScaledPlan"):
        sinkhorn(problem.factors, problem.marginals, 1, init_from=other_plan)

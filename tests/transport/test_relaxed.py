"""Relaxed plans against the dense formula, and against a generic solver."""

from __future__ import annotations

import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array
from threadpoolctl import threadpool_info

from prorec import Factors, InputError
from prorec.transport import Marginals, relaxed
from prorec.transport.block_step import match_block, sum_block
from prorec.transport.factors import Link
from prorec.transport.kernels import cpu
from prorec.transport.scores import ScaledFactors
from tests.transport.problems import Problem, make_problem, relaxed_plan, relaxed_shares
from tests.transport.test_row_split import split_by_sorting

Side = Literal["both", "users", "items"]
SIDES: tuple[Side, ...] = ("both", "users", "items")


def match_both_ways(
    problem: Problem, gamma: float, side: Side = "both", **options: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the row shares of the observed pairs by the dense formula, and by blocks."""
    shares = relaxed_shares(problem.scores, problem.marginals, gamma, side)
    rows, columns = problem.observed.nonzero()
    plan = relaxed(problem.factors, problem.marginals, gamma, side, **options)
    return shares[rows, columns], plan.match(problem.observed).row_shares


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("options", [{}, {"bias": True}, {"link": "sigmoid"}, {"link": "sigmoid", "bias": True}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("scale", "gamma"), [(1, 0.1), (1, 10), (30, 0.1), (300, 0.1)])
def test_equals_the_dense_formula(side: Side, options: dict[str, Any], dtype: type, scale: float, gamma: float) -> None:
    problem = make_problem(130, 70, scale=scale, dtype=dtype, **options)
    plan = relaxed(problem.factors, problem.marginals, gamma, side)
    dense = relaxed_plan(problem.scores, problem.marginals, gamma, side)
    np.testing.assert_allclose(plan.to_dense(), dense, rtol=1e-5)
    users, items = problem.observed.nonzero()
    np.testing.assert_allclose(plan.values(users, items), dense[users, items], rtol=1e-5)
    np.testing.assert_allclose(plan.rows([5, 3]), dense[[5, 3]], rtol=1e-5)
    shares = relaxed_shares(problem.scores, problem.marginals, gamma, side)
    np.testing.assert_allclose(plan.match(problem.observed).row_shares, shares[users, items], rtol=1e-5, atol=1e-30)


def test_small_and_large_scores_in_one_problem() -> None:
    problem = make_problem(300, 50, dtype=np.float64)
    factors = Factors(problem.factors.users * np.geomspace(1e-3, 1e5, 300)[:, None], problem.factors.items)
    problem = Problem(factors, problem.marginals, problem.observed)
    plan = relaxed(factors, problem.marginals, 0.1, memory=100_000)
    assert 0 < plan.blocks.scores.n_double < 300
    np.testing.assert_allclose(
        plan.to_dense(), relaxed_plan(problem.scores, problem.marginals, 0.1), rtol=1e-5, atol=1e-300
    )
    dense, streamed = match_both_ways(problem, 0.1, memory=100_000)
    np.testing.assert_allclose(streamed, dense, rtol=1e-5, atol=1e-30)


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")  # by the reference solver, before scipy 1.16
@pytest.mark.parametrize("side", ["users", "items"])
def test_solves_its_problem(side: Side) -> None:
    """Minimise Σ Mπ + γΣ π(log π − 1) with one marginal fixed (Eq. 5 and 6) with a generic solver."""
    problem = make_problem(4, 3, seed=3, density=1)
    marginals = Marginals(items=np.array([0.5, 0.3, 0.2]), users=np.array([0.4, 0.3, 0.2, 0.1]))
    cost, gamma = -problem.scores, 0.7

    def objective(flat: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        plan = flat.reshape(4, 3)
        value = (cost * plan).sum() + gamma * (plan * (np.log(plan) - 1)).sum()
        return value, (cost + gamma * np.log(plan)).ravel()

    axis, wanted = (1, marginals.users) if side == "users" else (0, marginals.items)
    solved = minimize(
        objective,
        np.full(12, 1 / 12),
        jac=True,
        method="SLSQP",
        bounds=[(1e-9, 1)] * 12,
        constraints={"type": "eq", "fun": lambda flat: flat.reshape(4, 3).sum(axis=axis) - wanted},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert solved.success
    plan = relaxed(problem.factors, marginals, gamma, side)
    np.testing.assert_allclose(plan.to_dense(), solved.x.reshape(4, 3), atol=1e-6)


def test_meets_the_marginal_it_is_for() -> None:
    problem = make_problem(90, 40)
    by_row = relaxed(problem.factors, problem.marginals, 0.3, "users").marginal_errors()
    by_column = relaxed(problem.factors, problem.marginals, 0.3, "items").marginal_errors()
    both = relaxed(problem.factors, problem.marginals, 0.3).marginal_errors()
    assert by_row.users < 1e-6 < by_row.items
    assert by_column.items < 1e-6 < by_column.users
    assert min(both.users, both.items) > 1e-3
    dense = relaxed_plan(problem.scores, problem.marginals, 0.3)
    assert both.users == pytest.approx(np.abs(dense.sum(axis=1) - problem.marginals.users).sum(), rel=1e-6)
    assert both.items == pytest.approx(np.abs(dense.sum(axis=0) - problem.marginals.items).sum(), rel=1e-6)


@pytest.mark.parametrize("scale", [1, 1000])
def test_blocks_and_functions_change_nothing(scale: float) -> None:
    problem = make_problem(200, 60, scale=scale)
    whole = relaxed(problem.factors, problem.marginals, 0.1)
    in_blocks = relaxed(problem.factors, problem.marginals, 0.1, memory=60 * 400)
    scores = problem.scores
    by_function = relaxed(lambda rows: scores[rows], problem.marginals, 0.1, memory=60 * 400)
    assert len(whole.blocks.rows) < len(in_blocks.blocks.rows)
    for plan in (in_blocks, by_function):
        np.testing.assert_allclose(plan.to_dense(), whole.to_dense(), rtol=1e-5, atol=1e-300)
        np.testing.assert_allclose(
            plan.match(problem.observed).row_shares, whole.match(problem.observed).row_shares, rtol=1e-5, atol=1e-30
        )
        users, items = problem.observed.nonzero()
        np.testing.assert_allclose(plan.values(users, items), whole.values(users, items), rtol=1e-5, atol=1e-300)


def test_two_runs_are_equal() -> None:
    problem = make_problem(3000, 300)
    first, second = (
        relaxed(problem.factors, problem.marginals, 0.1, memory=1e6).match(problem.observed) for _ in range(2)
    )
    assert np.array_equal(first.row_shares, second.row_shares)
    assert np.array_equal(first.kappa, second.kappa)


@pytest.mark.parametrize("scale", [1, 1000])
def test_thresholds_are_those_of_the_sorted_row(scale: float) -> None:
    problem = make_problem(150, 2000, scale=scale)
    plan = relaxed(problem.factors, problem.marginals, 0.1)
    personal, five = plan.match(problem.observed), plan.match(problem.observed, 5)
    shares = relaxed_shares(problem.scores, problem.marginals, 0.1)
    for user, row in enumerate(shares):
        # The streamed row differs from this one by rounding, which may move a split between two that are as good.
        values = np.sort(row)[::-1]
        kappa = personal.kappa[user]
        assert personal.threshold[user] == pytest.approx(values[kappa - 1], rel=1e-5)
        assert (
            squared_errors(values, kappa)
            <= squared_errors(values, split_by_sorting(row.astype(np.float32))[0]) * (1 + 1e-5)
            + 1e-12 * (values**2).sum()
        )
        assert five.kappa[user] == 5
        assert five.threshold[user] == pytest.approx(values[4], rel=1e-5)


def squared_errors(values: NDArray[Any], kappa: int) -> float:
    return float(kappa * values[:kappa].var() + (len(values) - kappa) * values[kappa:].var())


def test_top_of_fewer_items_is_all_of_them() -> None:
    problem = make_problem(10, 3)
    matching = relaxed(problem.factors, problem.marginals, 1.0).match(problem.observed, 25)
    assert (matching.kappa == 3).all()
    assert (matching.margins >= 0).all()


@settings(max_examples=150)
@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.sampled_from([1e-4, 1e-2, 1, 1e3]),
    st.sampled_from([0, 1e-6, 1, 1e3, 1e6]),
    st.sampled_from(SIDES),
    st.sampled_from(["identity", "sigmoid"]),
    st.integers(0, 10**6),
)
def test_never_nan(n_users: int, n_items: int, gamma: float, largest: float, side: Side, link: Link, seed: int) -> None:
    """γ from 1e-4 to 1e3, scores to ±1e6, users and items without mass, one user, one item."""
    rng = np.random.default_rng(seed)
    factors = Factors(largest * rng.uniform(-1, 1, (n_users, 8)) / 8, rng.uniform(-1, 1, (n_items, 8)), link=link)
    items, users = (rng.random(n) * (rng.random(n) < 0.7) for n in (n_items, n_users))
    items[rng.integers(n_items)], users[rng.integers(n_users)] = 1, 1
    marginals = Marginals(items=items / items.sum(), users=users / users.sum())
    plan = relaxed(factors, marginals, gamma, side)
    dense = plan.to_dense()
    assert np.isfinite(dense).all()
    assert dense.min() >= 0
    everything = csr_array(np.ones((n_users, n_items)))
    matching = plan.match(everything)
    assert ((matching.row_shares >= 0) & (matching.row_shares <= 1 + 1e-6)).all()
    assert ((matching.threshold >= 0) & (matching.threshold <= 1 + 1e-6)).all()
    assert ((matching.kappa >= 1) & (matching.kappa <= max(n_items - 1, 1))).all()
    np.testing.assert_allclose(matching.row_shares.reshape(n_users, n_items).sum(axis=1), 1, rtol=1e-5)
    wanted = relaxed_plan(Problem(factors, marginals, everything).scores, marginals, gamma, side)
    np.testing.assert_allclose(dense, wanted, rtol=2e-5, atol=1e-12)


def test_flat_rows_keep_their_order() -> None:
    """At a large γ all values of a row are nearly equal; what little differs must still decide."""
    problem = make_problem(20, 500, dtype=np.float64)
    plan = relaxed(problem.factors, problem.marginals, 1e3, "users")
    matching = plan.match(problem.observed)
    shares = relaxed_shares(problem.scores, problem.marginals, 1e3, "users")
    for user in range(20):
        values = np.sort(shares[user])[::-1]
        best = squared_errors(values, split_by_sorting((shares[user] / values[0]).astype(np.float32))[0])
        assert squared_errors(values, matching.kappa[user]) <= best * (1 + 1e-2)


def test_progress_is_reported_for_every_block() -> None:
    problem = make_problem(100, 30)
    calls: list[tuple[str, int, int]] = []
    plan = relaxed(problem.factors, problem.marginals, 0.1, memory=30 * 200, progress=lambda *now: calls.append(now))
    n_blocks = len(plan.blocks.rows)
    assert n_blocks > 5
    assert calls == [("Computing the transport plan", done, n_blocks) for done in range(1, n_blocks + 1)]
    calls.clear()
    plan.match(problem.observed, progress=lambda *now: calls.append(now))
    assert calls == [("Finding thresholds", done, n_blocks) for done in range(1, n_blocks + 1)]


def test_single_precision_is_not_used_above_its_limit() -> None:
    block = np.full((2, 3), cpu.MAX_SCORE, dtype=np.float32)
    assert cpu.log_sums(block) is not None
    assert cpu.log_sums(np.nextafter(block, np.float32(np.inf))) is None
    assert cpu.log_sums(-np.nextafter(block, np.float32(np.inf))) is None


def test_small_scores_of_very_unequal_factors() -> None:
    """Users' factors beyond single precision, items' as small; or γ; the scores themselves are ordinary."""
    problem = make_problem(6, 5, dtype=np.float64)
    marginals = Marginals.uniform(6, 5)
    wanted = relaxed_plan(problem.scores, marginals, 1.0)
    links: tuple[Link, ...] = ("identity", "sigmoid")
    for link in links:
        same = Problem(Factors(problem.factors.users, problem.factors.items, link=link), marginals, problem.observed)
        wanted = relaxed_plan(same.scores, marginals, 1.0)
        for power in (1e39, 1e-46, 1e150):
            factors = Factors(problem.factors.users * power, problem.factors.items / power, link=link)
            plan = relaxed(factors, marginals, 1.0)
            np.testing.assert_allclose(plan.to_dense(), wanted, rtol=1e-5)
            np.testing.assert_allclose(
                plan.match(problem.observed).row_shares,
                relaxed(same.factors, marginals, 1.0).match(problem.observed).row_shares,
                rtol=1e-5,
            )
    powers = 10.0 ** np.linspace(-160, 160, 8)
    for bias in (None, np.ones(5)):  # each factor in a unit of its own
        same = Problem(Factors(problem.factors.users, problem.factors.items, bias), marginals, problem.observed)
        unequal = Factors(problem.factors.users * powers, problem.factors.items / powers, bias)
        wanted = relaxed_plan(same.scores, marginals, 1.0)
        np.testing.assert_allclose(relaxed(unequal, marginals, 1.0).to_dense(), wanted, rtol=1e-5)
    with pytest.raises(InputError, match="scores over gamma must be at most"):
        relaxed(Factors(np.full((6, 1), 1e200), np.full((5, 1), 1e200), link="sigmoid"), marginals, 1.0)
    tiny = Factors(problem.factors.users * 1e-200, problem.factors.items)
    wanted = relaxed_plan(problem.scores, marginals, 1.0)
    np.testing.assert_allclose(relaxed(tiny, marginals, 1e-200).to_dense(), wanted, rtol=1e-5)


def test_shares_where_the_items_weights_are_worlds_apart() -> None:
    scores = np.array([[-39.0, 39.0]] * 3)
    marginals = Marginals(items=np.array([1 - 1e-10, 1e-10]), users=np.full(3, 1 / 3))
    matching = relaxed(lambda rows: scores[rows], marginals, 1.0, "items").match(csr_array(np.ones((3, 2))))
    np.testing.assert_allclose(matching.row_shares.reshape(3, 2), [[1 - 1e-10, 1e-10]] * 3, rtol=1e-5)


def test_block_steps_agree_on_partitions_of_users() -> None:
    """Partitions of users with factors of their own, as on Spark, give the same sums and row shares."""
    problem = make_problem(60, 40)
    plan = relaxed(problem.factors, problem.marginals, 0.1)
    wanted = plan.match(problem.observed)
    buffer = np.empty((25, 40), dtype=np.float32)
    by_item = np.full(40, -np.inf)
    for begin in (0, 25, 50):
        part = slice(begin, begin + 25)
        scores = ScaledFactors(Factors(problem.factors.users[part], problem.factors.items), 0.1)
        rows = np.arange(scores.shape[0])
        by_item = np.logaddexp(by_item, sum_block(scores, rows, buffer)[1])
        kappa, threshold, shares = match_block(
            scores, rows, buffer, plan.user_potential[part], plan.item_potential, 0, problem.observed[part]
        )
        entries = slice(problem.observed.indptr[begin], problem.observed.indptr[min(begin + 25, 60)])
        np.testing.assert_array_equal(kappa, wanted.kappa[part])
        np.testing.assert_allclose(threshold, wanted.threshold[part], rtol=1e-5)
        np.testing.assert_allclose(shares, wanted.row_shares[entries], rtol=1e-5)
    np.testing.assert_allclose(problem.marginals.log_items - by_item, plan.item_potential, rtol=1e-5)


def test_blas_gets_its_threads_back() -> None:
    """Also when two calls overlap, and when one fails half-way."""
    problem = make_problem(2000, 300)
    before = [library["num_threads"] for library in threadpool_info()]

    def slow(*_: object) -> None:
        time.sleep(0.01)

    def fail(*_: object) -> None:
        raise KeyError("stop")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(relaxed, problem.factors, problem.marginals, 0.1, memory=3e6, progress=slow)
        time.sleep(0.02)
        second = pool.submit(relaxed, problem.factors, problem.marginals, 0.1, memory=3e6, progress=slow)
    np.testing.assert_array_equal(first.result().item_potential, second.result().item_potential)
    with pytest.raises(KeyError, match="stop"):
        relaxed(problem.factors, problem.marginals, 0.1, memory=3e6, progress=fail)
    assert [library["num_threads"] for library in threadpool_info()] == before


def test_memory_stays_within_the_budget() -> None:
    for scale in (1, 1000):  # in single precision, in double
        problem = make_problem(2000, 3000, scale=scale, density=0.01)
        for memory in (3e6, 20e6):
            plan = relaxed(problem.factors, problem.marginals, 0.1, memory=memory)
            for work in (
                lambda problem=problem, memory=memory: relaxed(problem.factors, problem.marginals, 0.1, memory=memory),
                lambda problem=problem, plan=plan: plan.match(problem.observed),
            ):
                tracemalloc.start()
                work()
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
                assert peak < memory + 3e6  # factors and results


def test_a_score_functions_own_error_comes_through() -> None:
    def broken(rows: NDArray[Any]) -> NDArray[Any]:
        raise ValueError("the model is not fitted")

    with pytest.raises(ValueError, match="the model is not fitted") as caught:
        relaxed(broken, Marginals.uniform(5, 4), 1)
    assert not isinstance(caught.value, InputError)


def test_the_exponential() -> None:
    x = np.linspace(-87, 87, 100_001, dtype=np.float32)
    values = np.array([cpu._exp(each) for each in x[::10]])
    np.testing.assert_allclose(values, np.exp(x[::10].astype(float)), rtol=2e-7)


@pytest.mark.parametrize("gamma", [0, -1, np.nan, np.inf, "a", None, True])
def test_bad_gamma(gamma: object) -> None:
    problem = make_problem(3, 3)
    solve: Any = relaxed
    with pytest.raises(InputError, match="gamma must be"):
        solve(problem.factors, problem.marginals, gamma)


def test_bad_arguments() -> None:
    solve: Any = relaxed
    problem = make_problem(5, 4)
    marginals = problem.marginals
    with pytest.raises(InputError, match="side must be one of 'both', 'users', 'items', got 'row'"):
        solve(problem.factors, marginals, 1, "row")
    with pytest.raises(InputError, match="scores are for 5 users × 4 items, marginals for 4 × 5"):
        solve(problem.factors, Marginals.uniform(4, 5), 1)
    with pytest.raises(InputError, match="marginals must be Marginals"):
        solve(problem.factors, (marginals.items, marginals.users), 1)
    with pytest.raises(InputError, match="scores must be Factors or a function"):
        solve(np.ones((5, 4)), marginals, 1)
    with pytest.raises(InputError, match="memory must be at least 384 bytes, for one row of 4 items; got 10"):
        solve(problem.factors, marginals, 1, memory=10)
    with pytest.raises(InputError, match="memory must be a finite number"):
        solve(problem.factors, marginals, 1, memory=np.nan)
    with pytest.raises(InputError, match=r"at most 1e\+12; they may be inf"):
        solve(Factors(np.full((5, 1), 1e200), np.full((4, 1), 1e200)), marginals, 1)
    with pytest.raises(InputError, match="scores over gamma must be at most"):
        solve(lambda rows: np.full((len(rows), 4), 1e10), marginals, 1e-4)
    with pytest.raises(InputError, match="scores over gamma must be at most"):
        solve(Factors(np.ones((5, 1)), np.ones((4, 1)), link="sigmoid"), marginals, 1e-13)
    with pytest.raises(InputError, match="progress must be a function"):
        solve(problem.factors, marginals, 1, progress=3)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (lambda rows: np.ones((len(rows), 3)), r"must return 5 × 4 numbers|must return 1 × 4 numbers"),
        (lambda rows: np.full((len(rows), 4), np.nan), "must be finite"),
        (lambda rows: [["a"] * 4] * len(rows), "the result of scores must be an array of numbers"),
        (lambda rows: None, "must return 1 × 4 numbers|must return . × 4 numbers|array of numbers"),
    ],
)
def test_bad_score_functions(scores: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        relaxed(scores, Marginals.uniform(5, 4), 1)


def test_bad_arguments_of_plan_methods() -> None:
    problem = make_problem(5, 4)
    plan: Any = relaxed(problem.factors, problem.marginals, 1)
    with pytest.raises(InputError, match="users must be from 0 to 4; got 0 to 5"):
        plan.rows([0, 5])
    with pytest.raises(InputError, match="items must be from 0 to 3; got -1 to -1"):
        plan.values([0], [-1])
    with pytest.raises(InputError, match="come in pairs"):
        plan.values([0, 1], [1])
    with pytest.raises(InputError, match="whole numbers; got 1 dimensions of float64"):
        plan.rows([0.5])
    with pytest.raises(InputError, match="users must be an array of numbers"):
        plan.rows([0, [1]])
    for nonsense in (None, "abc", object()):
        with pytest.raises(InputError, match="observed must be a sparse matrix"):
            plan.match(nonsense)
    broken = problem.observed.copy()
    broken.indices[0] = 9
    with pytest.raises(InputError, match="observed: indices must be from 0 to 3; one is 9"):
        plan.match(broken)
    broken = problem.observed.copy()
    broken.indptr[-1] = 10**6
    with pytest.raises(InputError, match="index pointer"):
        plan.match(broken)
    with pytest.raises(InputError, match=r"\(5, 4\); got \(4, 5\)"):
        plan.match(csr_array((4, 5)))
    with pytest.raises(InputError, match=r"threshold must be .* got 'best'"):
        plan.match(problem.observed, "best")
    with pytest.raises(InputError, match="memory must be at least 160 bytes for a dense plan of 5 × 4; got 100"):
        plan.to_dense(memory=100)
    assert plan.rows([]).shape == (0, 4)
    assert plan.values([], []).shape == (0,)
    assert relaxed(lambda rows: np.ones((len(rows), 4)), problem.marginals, 1).values([], []).shape == (0,)
    assert repr(plan) == "ScaledPlan(5 users × 4 items)"

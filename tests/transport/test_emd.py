"""Exact plans against a linear program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from prorec import InputError
from prorec.transport import Marginals, emd
from tests.transport.problems import make_problem


def least_cost(cost: NDArray[Any], marginals: Marginals) -> float:
    n_users, n_items = cost.shape
    by_user = np.kron(np.eye(n_users), np.ones(n_items))
    by_item = np.kron(np.ones(n_users), np.eye(n_items))
    solved = linprog(
        cost.ravel(), A_eq=np.vstack([by_user, by_item]), b_eq=np.concatenate([marginals.users, marginals.items])
    )
    assert solved.success
    return float(solved.fun)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("marginal", ["popularity", "uniform"])
@pytest.mark.parametrize("options", [{}, {"bias": True, "link": "sigmoid"}])
def test_equals_a_linear_program(seed: int, marginal: str, options: dict[str, Any]) -> None:
    problem = make_problem(7, 9, seed=seed, density=0.6, **options)
    marginals = problem.marginals if marginal == "popularity" else Marginals.uniform(7, 9)
    plan = emd(problem.factors, marginals)
    dense = plan.to_dense()
    assert dense.min() >= 0
    errors = plan.marginal_errors()
    assert max(errors.users, errors.items) < 1e-12
    assert (-problem.scores * dense).sum() == pytest.approx(least_cost(-problem.scores, marginals), rel=1e-9)
    assert (dense > 0).sum() <= 7 + 9 - 1


def test_from_a_function() -> None:
    problem = make_problem(6, 5)
    scores = problem.scores
    by_function = emd(lambda rows: scores[rows], problem.marginals)
    np.testing.assert_allclose(by_function.to_dense(), emd(problem.factors, problem.marginals).to_dense(), atol=1e-9)


@pytest.mark.parametrize("offset", [-1000.0, 10.0, 1e5])
@pytest.mark.parametrize("scale", [1e-13, 1.0, 1e5])
def test_an_offset_or_a_unit_changes_nothing(offset: float, scale: float) -> None:
    problem = make_problem(12, 9, density=0.6, dtype=np.float64)
    scores = problem.scores.astype(np.float64)
    plan = emd(lambda rows: scale * (offset * 1e-5 + scores[rows]), problem.marginals)
    assert (-scores * plan.to_dense()).sum() == pytest.approx(least_cost(-scores, problem.marginals), rel=1e-6)


def test_ratings() -> None:
    """All scores above 3, say: POT by itself calls costs below −3 infeasible."""
    plan = emd(lambda rows: np.full((len(rows), 2), 3.0) + 0.1 * rows[:, None], Marginals.uniform(2, 2))
    assert plan.to_dense().sum() == pytest.approx(1)


def test_values_and_rows() -> None:
    problem = make_problem(30, 20, density=0.5)
    plan = emd(problem.factors, problem.marginals)
    dense = plan.to_dense()
    users, items = problem.observed.nonzero()
    np.testing.assert_array_equal(plan.values(users, items), dense[users, items])
    np.testing.assert_array_equal(plan.rows([3, 1]), dense[[3, 1]])
    assert plan.values([], []).shape == (0,)


def test_matching() -> None:
    problem = make_problem(30, 20, density=0.5)
    plan = emd(problem.factors, problem.marginals)
    dense = plan.to_dense()
    calls: list[tuple[str, int, int]] = []
    personal, three = (
        plan.match(problem.observed, progress=lambda *now: calls.append(now)),
        plan.match(problem.observed, 3),
    )
    mass = dense.sum(axis=1)
    users, items = problem.observed.nonzero()
    np.testing.assert_allclose(personal.row_shares, dense[users, items] / mass[users], rtol=1e-6)
    for user in np.flatnonzero(mass):
        values = np.sort(dense[user] / mass[user])[::-1]
        assert personal.threshold[user] == pytest.approx(values[personal.kappa[user] - 1], rel=1e-6)
        assert three.threshold[user] == pytest.approx(values[2], rel=1e-6)
    for user in np.flatnonzero(mass == 0):
        assert (personal.kappa[user], personal.threshold[user]) == (1, 0)
    assert calls == [("Finding thresholds", 1, 1)]


def test_too_large_is_refused_with_an_estimate() -> None:
    with pytest.raises(InputError, match=r"at least 51,391,\d+,\d+ bytes .* 29,858 × 40,981.*about 27 minutes"):
        emd(lambda rows: None, Marginals.uniform(29_858, 40_981))
    with pytest.raises(InputError, match=r"about 4 days"):
        emd(lambda rows: None, Marginals.uniform(200_000, 400_000))
    with pytest.raises(InputError, match="seconds"):
        emd(lambda rows: None, Marginals.uniform(1000, 1000), memory=1e6)


def test_bad_arguments() -> None:
    problem = make_problem(3, 4)
    with pytest.raises(InputError, match="scores are for 3 users × 4 items"):
        emd(problem.factors, Marginals.uniform(4, 3))
    with pytest.raises(InputError, match="marginals must be Marginals"):
        emd(problem.factors, None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="memory must be"):
        emd(problem.factors, problem.marginals, memory=-1)

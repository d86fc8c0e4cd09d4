"""Exact plans against a linear program."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from prorec import InputError
from prorec.transport import Marginals, emd
from tests.transport.problems import problem


def least_cost(cost: np.ndarray, marginals: Marginals) -> float:
    n_users, n_items = cost.shape
    by_user = np.kron(np.eye(n_users), np.ones(n_items))
    by_item = np.kron(np.ones(n_users), np.eye(n_items))
    solved = linprog(
        cost.ravel(), A_eq=np.vstack([by_user, by_item]), b_eq=np.concatenate([marginals.users, marginals.items])
    )
    assert solved.success
    return float(solved.fun)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["popularity", "uniform"])
@pytest.mark.parametrize("how", [{}, {"bias": True, "link": "sigmoid"}])
def test_equals_a_linear_program(seed: int, kind: str, how: dict) -> None:
    given = problem(7, 9, seed=seed, density=0.6, **how)
    marginals = given.marginals if kind == "popularity" else Marginals.uniform(7, 9)
    plan = emd(given.factors, marginals)
    dense = plan.to_dense()
    assert dense.min() >= 0
    errors = plan.marginal_errors()
    assert max(errors.users, errors.items) < 1e-12
    assert (-given.scores * dense).sum() == pytest.approx(least_cost(-given.scores, marginals), rel=1e-9)
    assert (dense > 0).sum() <= 7 + 9 - 1


def test_from_a_function() -> None:
    given = problem(6, 5)
    scores = given.scores
    by_function = emd(lambda rows: scores[rows], given.marginals)
    np.testing.assert_allclose(by_function.to_dense(), emd(given.factors, given.marginals).to_dense(), atol=1e-9)


@pytest.mark.parametrize("offset", [-1000.0, 10.0, 1e5])
@pytest.mark.parametrize("scale", [1e-13, 1.0, 1e5])
def test_an_offset_or_a_unit_changes_nothing(offset: float, scale: float) -> None:
    given = problem(12, 9, density=0.6, kind=np.float64)
    scores = given.scores.astype(np.float64)
    plan = emd(lambda rows: scale * (offset * 1e-5 + scores[rows]), given.marginals)
    assert (-scores * plan.to_dense()).sum() == pytest.approx(least_cost(-scores, given.marginals), rel=1e-6)


def test_ratings() -> None:
    """All scores above 3, say: POT by itself calls costs below −3 infeasible."""
    plan = emd(lambda rows: np.full((len(rows), 2), 3.0) + 0.1 * rows[:, None], Marginals.uniform(2, 2))
    assert plan.to_dense().sum() == pytest.approx(1)


def test_questions() -> None:
    given = problem(30, 20, density=0.5)
    plan = emd(given.factors, given.marginals)
    dense = plan.to_dense()
    users, items = given.observed.nonzero()
    np.testing.assert_array_equal(plan.values(users, items), dense[users, items])
    np.testing.assert_array_equal(plan.rows([3, 1]), dense[[3, 1]])
    assert plan.values([], []).shape == (0,)


def test_matching() -> None:
    given = problem(30, 20, density=0.5)
    plan = emd(given.factors, given.marginals)
    dense = plan.to_dense()
    calls: list[tuple[str, int, int]] = []
    personal, three = (
        plan.match(given.observed, progress=lambda *now: calls.append(now)),
        plan.match(given.observed, 3),
    )
    mass = dense.sum(axis=1)
    users, items = given.observed.nonzero()
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
    given = problem(3, 4)
    with pytest.raises(InputError, match="scores are for 3 users × 4 items"):
        emd(given.factors, Marginals.uniform(4, 3))
    with pytest.raises(InputError, match="marginals must be Marginals"):
        emd(given.factors, None)
    with pytest.raises(InputError, match="memory must be"):
        emd(given.factors, given.marginals, memory=-1)

"""Exact plans of POT and of SciPy's HiGHS, against a linear program, against each other, and worked by hand."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from prorec import InputError, MissingExtraError, ProRec
from prorec.models import SVD
from prorec.transport import Marginals, emd
from tests.models.helpers import clicks
from tests.transport.problems import make_problem


def hide_pot(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "ot"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ot", None)


@pytest.fixture(params=["POT", "HiGHS"])
def solver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test with POT and without it."""
    if request.param == "HiGHS":
        hide_pot(monkeypatch)
    elif importlib.util.find_spec("ot") is None:
        pytest.skip("POT is not installed")
    return str(request.param)


def least_cost(cost: NDArray[Any], marginals: Marginals) -> float:
    n_users, n_items = cost.shape
    by_user = np.kron(np.eye(n_users), np.ones(n_items))
    by_item = np.kron(np.ones(n_users), np.eye(n_items))
    solved = linprog(
        cost.ravel(), A_eq=np.vstack([by_user, by_item]), b_eq=np.concatenate([marginals.users, marginals.items])
    )
    assert solved.success
    return float(solved.fun)


@pytest.mark.usefixtures("solver")
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


@pytest.mark.usefixtures("solver")
def test_from_a_function() -> None:
    problem = make_problem(6, 5)
    scores = problem.scores
    by_function = emd(lambda rows: scores[rows], problem.marginals)
    np.testing.assert_allclose(by_function.to_dense(), emd(problem.factors, problem.marginals).to_dense(), atol=1e-9)


@pytest.mark.usefixtures("solver")
@pytest.mark.parametrize("offset", [-1000.0, 10.0, 1e5])
@pytest.mark.parametrize("scale", [1e-13, 1.0, 1e5])
def test_an_offset_or_a_unit_changes_nothing(offset: float, scale: float) -> None:
    problem = make_problem(12, 9, density=0.6, dtype=np.float64)
    scores = problem.scores.astype(np.float64)
    plan = emd(lambda rows: scale * (offset * 1e-5 + scores[rows]), problem.marginals)
    assert (-scores * plan.to_dense()).sum() == pytest.approx(least_cost(-scores, problem.marginals), rel=1e-6)


@pytest.mark.usefixtures("solver")
def test_ratings() -> None:
    """All scores above 3, say: POT by itself calls costs below −3 infeasible."""
    plan = emd(lambda rows: np.full((len(rows), 2), 3.0) + 0.1 * rows[:, None], Marginals.uniform(2, 2))
    assert plan.to_dense().sum() == pytest.approx(1)


@pytest.mark.usefixtures("solver")
def test_values_and_rows() -> None:
    problem = make_problem(30, 20, density=0.5)
    plan = emd(problem.factors, problem.marginals)
    dense = plan.to_dense()
    users, items = problem.observed.nonzero()
    np.testing.assert_array_equal(plan.values(users, items), dense[users, items])
    np.testing.assert_array_equal(plan.rows([3, 1]), dense[[3, 1]])
    assert plan.values([], []).shape == (0,)


@pytest.mark.usefixtures("solver")
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


@pytest.mark.usefixtures("solver")
@pytest.mark.parametrize("offset", [0.0, -7.0])
def test_a_plan_worked_by_hand(offset: float) -> None:
    """The second user gives all of its mass to the last item, because nobody else gains as little by the first one."""
    scores = np.array([[5.0, 4.0, 1.0], [4.0, 1.0, 3.0]]) + offset
    marginals = Marginals(users=np.array([0.6, 0.4]), items=np.array([0.5, 0.2, 0.3]))
    plan = emd(lambda rows: scores[rows], marginals).to_dense()
    np.testing.assert_allclose(plan, [[0.4, 0.2, 0.0], [0.1, 0.0, 0.3]], atol=1e-12)


@pytest.mark.usefixtures("solver")
def test_users_and_items_without_mass_and_single_ones() -> None:
    scores = np.arange(12.0).reshape(3, 4) % 5
    marginals = Marginals(users=np.array([0.0, 1.0, 0.0]), items=np.array([0.0, 0.25, 0.75, 0.0]))
    wanted = np.zeros((3, 4))
    wanted[1, 1:3] = [0.25, 0.75]
    np.testing.assert_allclose(emd(lambda rows: scores[rows], marginals).to_dense(), wanted)
    assert emd(lambda rows: np.ones((len(rows), 1)), Marginals.uniform(1, 1)).to_dense().tolist() == [[1.0]]


def test_highs_finds_the_plan_of_pot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with marginals that differ by five orders of magnitude."""
    pytest.importorskip("ot")
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(60, 90))
    users, items = np.geomspace(1, 1e5, 60), np.geomspace(1e5, 1, 90)
    marginals = Marginals(users=users / users.sum(), items=items / items.sum())
    by_pot = emd(lambda rows: scores[rows], marginals).to_dense()
    hide_pot(monkeypatch)
    by_highs = emd(lambda rows: scores[rows], marginals)
    np.testing.assert_allclose(by_highs.to_dense(), by_pot, rtol=1e-9, atol=1e-15)
    errors = by_highs.marginal_errors()
    assert max(errors.users, errors.items) < 1e-12


def test_without_pot_a_large_problem_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_pot(monkeypatch)
    message = r"1,000 × 501 has more than 500,000 pairs and needs POT, .*: pip install 'pot>=[\d.]+'$"
    with pytest.raises(MissingExtraError, match=message):
        emd(lambda rows: np.ones((len(rows), 501)), Marginals.uniform(1000, 501))
    with pytest.raises(InputError, match=r"at least 51,391,\d+,\d+ bytes"):  # POT would not help
        emd(lambda rows: None, Marginals.uniform(29_858, 40_981))
    with pytest.raises(InputError, match="at least 24,000,000 bytes"):  # HiGHS takes more memory than POT
        emd(lambda rows: None, Marginals.uniform(200, 100), memory=1e6)


def test_a_denoiser_without_pot(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ot")
    denoiser = ProRec(SVD(rank=2), noise_method="plan", transport="emd", rounds=2)
    weights = denoiser.fit(clicks()).weights_.data.copy()
    hide_pot(monkeypatch)
    np.testing.assert_allclose(denoiser.fit(clicks()).weights_.data, weights, rtol=1e-5)


def test_too_large_is_refused_with_an_estimate() -> None:
    with pytest.raises(InputError, match=r"at least 51,391,\d+,\d+ bytes .* 29,858 × 40,981.*about 27 minutes"):
        emd(lambda rows: None, Marginals.uniform(29_858, 40_981))
    with pytest.raises(InputError, match=r"about 4 days"):
        emd(lambda rows: None, Marginals.uniform(200_000, 400_000))
    with pytest.raises(InputError, match="seconds"):
        emd(lambda rows: None, Marginals.uniform(1000, 1000), memory=1e6)


@pytest.mark.usefixtures("solver")
def test_bad_arguments() -> None:
    problem = make_problem(3, 4)
    with pytest.raises(InputError, match="scores are for 3 users × 4 items"):
        emd(problem.factors, Marginals.uniform(4, 3))
    with pytest.raises(InputError, match="marginals must be Marginals"):
        emd(problem.factors, None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="memory must be"):
        emd(problem.factors, problem.marginals, memory=-1)

"""Passes on a device against the CPU's in double precision.

Where there is a GPU, the fused kernels run on it; elsewhere in Triton's interpreter, which takes seconds for what a GPU
does in no time. So problems are small here, and so is the room that kernels have: `benchmarks/device_step.py` repeats
the comparison at sizes that fill a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from prorec import Factors, InputError, ProRec, load, transport
from prorec._core import device
from prorec.models import NCE
from prorec.transport import Marginals, gpu_factors, gpu_thresholds
from prorec.transport import backend as passes_module
from prorec.transport import gpu_backend as on_device
from prorec.transport.backend import CpuBackend
from prorec.transport.blocks import DEFAULT_MEMORY, make_blocks
from prorec.transport.gpu_backend import GpuBackend
from prorec.transport.kernels import dense, optimality
from prorec.transport.kernels.optimality import Span, Surveyed
from tests.transport.problems import Problem, problem

triton = pytest.importorskip("triton")
# The interpreter computes with numpy, which warns where a GPU goes on with an infinity.
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
HERE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def _little_room(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A few samples and little room for each row, so that small problems go where large ones do."""
    monkeypatch.setattr(gpu_factors, "SAMPLED", 32)
    monkeypatch.setattr(gpu_thresholds, "ROOM", 8)
    return


@pytest.fixture(autouse=True)
def _sorting_is_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorting exchanges values by exclusive or, which the interpreter does pair by pair in Python: most of its time."""
    from triton.language import standard
    from triton.runtime.interpreter import ReduceOps

    plainly = ReduceOps.apply_impl

    def at_once(self: Any, given: Any) -> Any:
        if self.combine_fn is not standard._xor_combine or self.axis is None:
            return plainly(self, given)
        values = np.bitwise_xor.reduce(given[0].handle.data, axis=self.axis, keepdims=self.keep_dims)
        return self.to_tensor(values, given[0].dtype)

    monkeypatch.setattr(ReduceOps, "apply_impl", at_once)


def both(given: Problem, gamma: float, precision: Any = "high") -> tuple[GpuBackend, CpuBackend]:
    blocks = make_blocks(given.factors, given.marginals, gamma, DEFAULT_MEMORY)
    exact = CpuBackend(make_blocks(given.factors, given.marginals, gamma, DEFAULT_MEMORY, in_double=True))
    return GpuBackend(blocks, HERE, precision), exact


def potentials(given: Problem, exact: CpuBackend) -> tuple[Any, Any]:
    by_user, by_item = exact.log_sums()
    return given.marginals.log_users - by_user, given.marginals.log_items - by_item


def assert_same_plan(given: Problem, ours: GpuBackend, exact: CpuBackend, tolerance: float) -> None:
    of_users, of_items = potentials(given, exact)
    kappa, threshold, shares = ours.match(of_users, of_items, 0, given.observed)
    kappa_, threshold_, shares_ = exact.match(of_users, of_items, 0, given.observed)
    assert np.isfinite(threshold).all()
    np.testing.assert_allclose(shares, shares_, rtol=tolerance, atol=1e-30)
    np.testing.assert_array_equal(kappa, kappa_)
    np.testing.assert_allclose(threshold, threshold_, rtol=tolerance)


PROBLEMS = {
    "no multiple of a tile": (problem(11, 83, scale=8, seed=1), 0.5),
    "bias": (problem(7, 70, scale=8, seed=2, bias=True), 0.5),
    "sigmoid": (problem(7, 70, scale=8, seed=3, bias=True, link="sigmoid"), 0.2),
    "nearly flat": (problem(4, 60, scale=1, seed=4), 30.0),
    "concentrated": (problem(9, 100, scale=8, seed=5), 0.1),
    "one item": (problem(3, 1, seed=6), 1.0),
    "one user": (problem(1, 40, scale=8, seed=7), 1.0),
    "some in double precision": (problem(8, 50, scale=8, seed=8), 0.01),
    "wide factors": (problem(4, 50, scale=8, seed=9, width=130), 0.5),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_everything_agrees_with_double_precision(name: str) -> None:
    given, gamma = PROBLEMS[name]
    ours, exact = both(given, gamma)
    assert ours._fused
    for mine, right in zip(ours.log_sums(), exact.log_sums(), strict=True):
        np.testing.assert_allclose(mine, right, atol=2e-4)
    log_items = np.log(np.full(given.marginals.shape[1], 1 / given.marginals.shape[1]))
    both_sums = ours.scaled_log_sums(log_items, given.marginals.log_users)
    for mine, right in zip(both_sums, exact.scaled_log_sums(log_items, given.marginals.log_users), strict=True):
        np.testing.assert_allclose(mine, right, atol=2e-4)
    assert_same_plan(given, ours, exact, 5e-4)


def test_rows_that_single_precision_cannot_hold_are_told_by_their_sums() -> None:
    """The product of lengths is far below the limit, but a score over γ is not below that of an exponential."""
    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(6, 4)), rng.normal(size=(40, 4))
    users[2] *= 60
    given = problem(6, 40, seed=1)
    given.factors = Factors(users.astype(np.float32), items.astype(np.float32))
    ours, exact = both(given, 1.0)
    assert not ours._in_double.any()
    for mine, right in zip(ours.log_sums(), exact.log_sums(), strict=True):
        np.testing.assert_allclose(mine, right, atol=2e-4)
    assert ours._in_double[2]
    assert_same_plan(given, ours, exact, 5e-4)


@pytest.mark.parametrize("disliked", ["one item", "all items"])
def test_what_vanishes_in_single_precision_is_summed_in_double(disliked: str) -> None:
    """Scores over γ of −120, e to the power of which single precision takes for nothing."""
    given = problem(5, 30, seed=1)
    bias = np.zeros(30)
    bias[3 if disliked == "one item" else slice(None)] = -120
    given.factors = Factors(given.factors.users, given.factors.items, bias)
    ours, exact = both(given, 1.0)
    sums = ours.log_sums()
    for mine, right in zip(sums, exact.log_sums(), strict=True):
        np.testing.assert_allclose(mine, right, atol=2e-4)
    half = exact.scaled_log_sums(given.marginals.log_items, given.marginals.log_users)
    mine = ours.scaled_log_sums(given.marginals.log_items, given.marginals.log_users)
    for each, right in zip(mine, half, strict=True):
        np.testing.assert_allclose(each, right, atol=2e-4)
    assert_same_plan(given, ours, exact, 5e-4)


def test_factors_beyond_half_precision_behind_a_link() -> None:
    given = problem(4, 20, seed=1)
    users = 4e4 * given.factors.users
    given.factors = Factors(users, given.factors.items, link="sigmoid")
    ours, exact = both(given, 200.0)
    for mine, right in zip(ours.log_sums(), exact.log_sums(), strict=True):
        np.testing.assert_allclose(mine, right, atol=2e-4)
    assert_same_plan(given, ours, exact, 5e-4)


@pytest.mark.parametrize("precision", ["high", "double"])
def test_plain_pytorch_does_the_same(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_device, "HAS_TRITON", False)
    for given, gamma in PROBLEMS.values():
        ours, exact = both(given, gamma, precision)
        assert not ours._fused
        for mine, right in zip(ours.log_sums(), exact.log_sums(), strict=True):
            np.testing.assert_allclose(mine, right, atol=2e-4 if precision == "high" else 1e-9)
        assert_same_plan(given, ours, exact, 5e-4)


def test_equal_values_have_one_above_the_threshold() -> None:
    """All users and items alike: every row is flat, and so it is with a user who has no factors at all."""
    given = problem(5, 100, seed=1)
    given.factors = Factors(np.zeros((5, 3), dtype=np.float32), np.ones((100, 3), dtype=np.float32))
    given.marginals = Marginals.uniform(5, 100)
    ours, exact = both(given, 0.1)
    kappa, threshold, shares = ours.match(*potentials(given, exact), 0, given.observed)
    np.testing.assert_array_equal(kappa, 1)
    np.testing.assert_allclose(threshold, 0.01, rtol=1e-6)
    np.testing.assert_allclose(shares, 0.01, rtol=1e-6)


def test_the_same_number_for_all_users() -> None:
    given, gamma = PROBLEMS["bias"]
    ours, exact = both(given, gamma)
    mine = ours.match(*potentials(given, exact), 3, given.observed)
    for each, right in zip(mine, exact.match(*potentials(given, exact), 3, given.observed), strict=True):
        np.testing.assert_allclose(each, right, rtol=5e-4)


def test_one_product_instead_of_three_is_rougher_and_says_so() -> None:
    given, gamma = PROBLEMS["concentrated"]
    (fast, exact), (high, _) = both(given, gamma, "fast"), both(given, gamma)
    error, less = (np.abs(each.log_sums()[0] - exact.log_sums()[0]).max() for each in (fast, high))
    assert 10 * less < error < 0.05


def test_two_runs_are_the_same_to_the_last_bit() -> None:
    given, gamma = problem(4, 70, scale=8, seed=1), 0.5
    (first, exact), (second, _) = both(given, gamma), both(given, gamma)
    for mine, again in zip(first.log_sums(), second.log_sums(), strict=True):
        np.testing.assert_array_equal(mine, again)
    of = potentials(given, exact)
    for mine, again in zip(first.match(*of, 0, given.observed), second.match(*of, 0, given.observed), strict=True):
        np.testing.assert_array_equal(mine, again)


def test_users_that_come_from_the_host_chunk_by_chunk() -> None:
    given, gamma = PROBLEMS["no multiple of a tile"]
    ours, exact = both(given, gamma)
    at_once = ours.log_sums()
    ours._resident, ours._rows = None, 5
    for mine, right in zip(ours.log_sums(), at_once, strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-6)
    assert_same_plan(given, ours, exact, 5e-4)


def test_what_does_not_fit_is_tried_in_smaller_chunks() -> None:
    given, gamma = PROBLEMS["no multiple of a tile"]
    ours, exact = both(given, gamma)
    sizes = []
    whole = ours._sums_of_chunk

    def with_little_memory(begin: int, end: int, *rest: Any, **named: Any) -> Any:
        sizes.append(end - begin)
        if end - begin > 6:
            raise torch.OutOfMemoryError("no room")
        return whole(begin, end, *rest, **named)

    ours._sums_of_chunk = with_little_memory  # type: ignore[method-assign]
    for mine, right in zip(ours.log_sums(), exact.log_sums(), strict=True):
        np.testing.assert_allclose(mine, right, atol=2e-4)
    assert sizes == [11, 6, 5]


def test_a_row_that_does_not_fit_is_an_error_in_words() -> None:
    given, gamma = PROBLEMS["one user"]
    ours, _ = both(given, gamma)

    def never(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("no room")

    ours._sums_of_chunk = never  # type: ignore[method-assign]
    with pytest.raises(InputError, match="one user with 40 items does not fit"):
        ours.log_sums()


def test_solvers_and_the_denoiser_take_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    given = problem(5, 20, scale=8, seed=1, density=0.5)
    monkeypatch.setattr(passes_module, "device_for", lambda name, _: HERE if name == "here" else None)
    relaxed, sinkhorn = (
        [solver(given.factors, given.marginals, 0.5, device=where) for where in ("here", "cpu")]
        for solver in (transport.relaxed, transport.sinkhorn)
    )
    for here, there in (relaxed, sinkhorn):
        assert isinstance(here.backend, GpuBackend)
        assert isinstance(there.backend, CpuBackend)
        np.testing.assert_allclose(here.to_dense(), there.to_dense(), rtol=1e-3)
        mine, right = here.match(given.observed), there.match(given.observed)
        np.testing.assert_array_equal(mine.kappa, right.kappa)
    assert sinkhorn[0].iterations == sinkhorn[1].iterations
    denoised = [ProRec(NCE(rank=4), gamma=0.5).fit(given.observed).weights_.data]
    monkeypatch.setattr(passes_module, "device_for", lambda *_: HERE)
    denoised.append(ProRec(NCE(rank=4), gamma=0.5).fit(given.observed).weights_.data)
    np.testing.assert_allclose(*denoised, rtol=1e-3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"device": "cuda:99"}, "device"),
        ({"device": np.array(["auto", "cpu"])}, "device"),
        ({"precision": "low"}, "precision"),
    ],
)
def test_what_cannot_be_used_is_refused(wrong: dict[str, Any], message: str) -> None:
    given = problem(3, 4)
    for solver in (transport.relaxed, transport.sinkhorn):
        with pytest.raises(InputError, match=message):
            solver(given.factors, given.marginals, 0.5, **wrong)


def test_a_denoiser_refuses_a_device_before_it_fits() -> None:
    with pytest.raises(InputError, match="device must be"):
        ProRec(NCE(rank=2), device="abacus").fit(problem(8, 9, density=1).observed)


def test_a_denoiser_saved_on_a_gpu_is_loaded_elsewhere(tmp_path: Path) -> None:
    ProRec(NCE(rank=2)).fit(problem(8, 9, density=1).observed).save(tmp_path / "model")
    file = tmp_path / "model" / "model.json"
    file.write_text(file.read_text().replace('"device": "auto"', '"device": "cuda"'))
    assert file.read_text().count('"cuda"') == 2
    loaded = load(tmp_path / "model")
    assert loaded.device == loaded.model_.device == "auto"


def test_without_a_pytorch_that_works_everything_stays_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise OSError("libtorch_cuda.so: cannot open shared object file")

    device._has_gpu.cache_clear()
    monkeypatch.setattr(device, "find_spec", broken)
    assert device.resolve_device("auto", 1e12) is None
    device._has_gpu.cache_clear()


# ── the proof ───────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=200)
@drawn(
    st.integers(2, 200),
    st.sampled_from([0.01, 0.3, 1.0, 3.0]),
    st.integers(0, 2**32 - 1),
    st.lists(st.floats(0, 1), min_size=8, max_size=8),
)
def test_the_best_split_is_never_ruled_out(n: int, spread: float, seed: int, cuts: list[float]) -> None:
    """Whatever the cuts and the window: what is left open has the best split, unless the window has it."""
    rng = np.random.default_rng(seed)
    values = np.round(np.exp(spread * rng.normal(size=n)), rng.integers(1, 6)) + 1e-6
    ordered = np.sort(values)[::-1]
    count = np.arange(1, n)
    gains = (np.cumsum(ordered)[:-1] - count * values.mean()) ** 2 * n / (count * (n - count))
    kappa = int(np.argmax(gains)) + 1
    centre = float(np.float32(values.mean()))
    w = values - centre
    edges = np.sort(np.interp(cuts, [0, 1], [0, 1.1 * values.max()]))[::-1].astype(np.float32) - np.float32(centre)
    low, high = float(edges[5]), float(edges[3])
    inside = [k for k in range(1, n) if low <= ordered[k - 1] - centre < high or k == np.sum(w >= high)]
    best = max((gains[k - 1] for k in inside), default=0.0)

    def one(x: Any) -> torch.Tensor:
        return torch.tensor(np.asarray(x, dtype=np.float64)[None])

    distances = np.abs(w - edges[:, None]).sum(axis=1)
    surveyed = Surveyed(one(centre), one(edges), one(distances), one(w.sum()), one(w.max()), n)
    endless = one(np.inf)
    found = optimality.still_open(surveyed, Span(one(low), one(high)), Span(-endless, endless), one(best))
    assert float(found.best) <= gains.max() * (1 + 1e-9)
    if gains.max() > 0 and best < gains.max() * (1 - 1e-9):
        assert found.rows[0]
        # The split is between two values; one of them, or both, are within.
        assert ordered[kappa - 1] - centre >= float(found.span.low) - 1e-6
        assert ordered[min(kappa, n - 1)] - centre <= float(found.span.high) + 1e-6
        n_within = np.sum((w >= float(found.span.low)) & (w < float(found.span.high)))
        assert n_within <= float(found.n_values) + 1


def test_plain_split_is_that_of_the_cpu() -> None:
    rows = np.random.default_rng(0).lognormal(size=(50, 37)).astype(np.float32)
    rows[0] = 1
    rows[1] = np.round(rows[1])
    kappa, threshold = transport.find_row_thresholds(rows)
    mine = dense.split(torch.from_numpy(rows))
    np.testing.assert_array_equal(mine[0], kappa)
    np.testing.assert_array_equal(mine[1], threshold)

"""Passes on a GPU against passes on the CPU in double precision.

The fused kernels run on a GPU if there is one, and in Triton's interpreter otherwise, which takes seconds for what a
GPU does in no time. So problems and the kernels' buffers are small here. `benchmarks/device_step.py` repeats the
comparison at sizes that fill a GPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prorec import Factors, InputError, ProRec, load, transport
from prorec._core import device
from prorec.models import NCE
from prorec.transport import Marginals, gpu_factors, gpu_thresholds
from prorec.transport import backend as backend_module
from prorec.transport.backend import CpuBackend
from prorec.transport.blocks import DEFAULT_MEMORY, make_blocks
from prorec.transport.gpu_backend import GpuBackend
from prorec.transport.kernels import dense, optimality
from prorec.transport.kernels.optimality import Interval, Survey
from tests.transport.problems import Problem, make_problem

triton = pytest.importorskip("triton")
# The interpreter computes with numpy, which warns where a GPU goes on with an infinity.
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def _small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a small sample and small buffers, so that small problems take the branches that large ones do."""
    monkeypatch.setattr(gpu_factors, "SAMPLED", 32)
    monkeypatch.setattr(gpu_thresholds, "BUFFER_SIZE", 8)


@pytest.fixture(autouse=True)
def _fast_sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Speed up the interpreter's sort, which exchanges values by exclusive or, pair by pair in Python."""
    from triton.language import standard
    from triton.runtime.interpreter import ReduceOps

    original = ReduceOps.apply_impl

    def reduce_at_once(self: Any, operands: Any) -> Any:
        if self.combine_fn is not standard._xor_combine or self.axis is None:
            return original(self, operands)
        values = np.bitwise_xor.reduce(operands[0].handle.data, axis=self.axis, keepdims=self.keep_dims)
        return self.to_tensor(values, operands[0].dtype)

    monkeypatch.setattr(ReduceOps, "apply_impl", reduce_at_once)


def make_backends(problem: Problem, gamma: float, *, in_double: bool = False) -> tuple[GpuBackend, CpuBackend]:
    """Return a backend on the GPU or in the interpreter, and one on the CPU in double precision."""
    blocks = make_blocks(problem.factors, problem.marginals, gamma, DEFAULT_MEMORY)
    exact = CpuBackend(make_blocks(problem.factors, problem.marginals, gamma, DEFAULT_MEMORY, in_double=True))
    return GpuBackend(blocks, DEVICE, in_double=in_double), exact


def potentials(problem: Problem, exact: CpuBackend) -> tuple[Any, Any]:
    by_user, by_item = exact.log_sums()
    return problem.marginals.log_users - by_user, problem.marginals.log_items - by_item


def assert_same_plan(problem: Problem, ours: GpuBackend, exact: CpuBackend, tolerance: float) -> None:
    arguments = *potentials(problem, exact), 0, problem.observed
    kappa, threshold, shares = ours.match(*arguments)
    exact_kappa, exact_threshold, exact_shares = exact.match(*arguments)
    assert np.isfinite(threshold).all()
    np.testing.assert_allclose(shares, exact_shares, rtol=tolerance, atol=1e-30)
    np.testing.assert_array_equal(kappa, exact_kappa)
    np.testing.assert_allclose(threshold, exact_threshold, rtol=tolerance)


PROBLEMS = {
    "no multiple of a tile": (make_problem(11, 83, scale=8, seed=1), 0.5),
    "bias": (make_problem(7, 70, scale=8, seed=2, bias=True), 0.5),
    "sigmoid": (make_problem(7, 70, scale=8, seed=3, bias=True, link="sigmoid"), 0.2),
    "nearly flat": (make_problem(4, 60, scale=1, seed=4), 30.0),
    "concentrated": (make_problem(9, 100, scale=8, seed=5), 0.1),
    "one item": (make_problem(3, 1, seed=6), 1.0),
    "one user": (make_problem(1, 40, scale=8, seed=7), 1.0),
    "some in double precision": (make_problem(8, 50, scale=8, seed=8), 0.01),
    "wide factors": (make_problem(4, 50, scale=8, seed=9, width=130), 0.5),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_all_passes_agree_with_double_precision(name: str) -> None:
    problem, gamma = PROBLEMS[name]
    ours, exact = make_backends(problem, gamma)
    assert ours._fused
    for mine, right in zip(ours.log_sums(), exact.log_sums(), strict=True):
        np.testing.assert_allclose(mine, right, atol=2e-4)
    log_items = np.log(np.full(problem.marginals.shape[1], 1 / problem.marginals.shape[1]))
    both_sums = ours.scaled_log_sums(log_items, problem.marginals.log_users)
    for mine, right in zip(both_sums, exact.scaled_log_sums(log_items, problem.marginals.log_users), strict=True):
        np.testing.assert_allclose(mine, right, atol=2e-4)
    assert_same_plan(problem, ours, exact, 5e-4)


def test_sums_reveal_rows_that_single_precision_cannot_hold() -> None:
    """The product of lengths is below its limit, but a score over γ is too large for an exponential."""
    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(6, 4)), rng.normal(size=(40, 4))
    users[2] *= 60
    problem = make_problem(6, 40, seed=1)
    problem.factors = Factors(users.astype(np.float32), items.astype(np.float32))
    ours, exact = make_backends(problem, 1.0)
    assert not ours._in_double.any()
    for mine, right in zip(ours.log_sums(), exact.log_sums(), strict=True):
        np.testing.assert_allclose(mine, right, atol=2e-4)
    assert ours._in_double[2]
    assert_same_plan(problem, ours, exact, 5e-4)


@pytest.mark.parametrize("disliked", ["one item", "all items"])
def test_values_that_vanish_in_single_precision_are_summed_in_double(disliked: str) -> None:
    """Scores over γ are −120, and their exponentials are 0 in single precision."""
    problem = make_problem(5, 30, seed=1)
    bias = np.zeros(30)
    bias[3 if disliked == "one item" else slice(None)] = -120
    problem.factors = Factors(problem.factors.users, problem.factors.items, bias)
    ours, exact = make_backends(problem, 1.0)
    sums = ours.log_sums()
    for mine, right in zip(sums, exact.log_sums(), strict=True):
        np.testing.assert_allclose(mine, right, atol=2e-4)
    arguments = problem.marginals.log_items, problem.marginals.log_users
    for mine, right in zip(ours.scaled_log_sums(*arguments), exact.scaled_log_sums(*arguments), strict=True):
        np.testing.assert_allclose(mine, right, atol=2e-4)
    assert_same_plan(problem, ours, exact, 5e-4)


def test_factors_beyond_half_precision_behind_a_link() -> None:
    problem = make_problem(4, 20, seed=1)
    users = 4e4 * problem.factors.users
    problem.factors = Factors(users, problem.factors.items, link="sigmoid")
    ours, exact = make_backends(problem, 200.0)
    for mine, right in zip(ours.log_sums(), exact.log_sums(), strict=True):
        np.testing.assert_allclose(mine, right, atol=2e-4)
    assert_same_plan(problem, ours, exact, 5e-4)


@pytest.mark.parametrize("in_double", [False, True])
def test_plain_pytorch_agrees_too(in_double: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_factors, "HAS_TRITON", False)
    for problem, gamma in PROBLEMS.values():
        ours, exact = make_backends(problem, gamma, in_double=in_double)
        assert not ours._fused
        for mine, right in zip(ours.log_sums(), exact.log_sums(), strict=True):
            np.testing.assert_allclose(mine, right, atol=1e-9 if in_double else 2e-4)
        assert_same_plan(problem, ours, exact, 5e-4)


def test_equal_values_have_one_above_the_threshold() -> None:
    """All users and items alike: every row is flat, and so it is with a user who has no factors at all."""
    problem = make_problem(5, 100, seed=1)
    problem.factors = Factors(np.zeros((5, 3), dtype=np.float32), np.ones((100, 3), dtype=np.float32))
    problem.marginals = Marginals.uniform(5, 100)
    ours, exact = make_backends(problem, 0.1)
    kappa, threshold, shares = ours.match(*potentials(problem, exact), 0, problem.observed)
    np.testing.assert_array_equal(kappa, 1)
    np.testing.assert_allclose(threshold, 0.01, rtol=1e-6)
    np.testing.assert_allclose(shares, 0.01, rtol=1e-6)


def test_one_kappa_for_all_users() -> None:
    problem, gamma = PROBLEMS["bias"]
    ours, exact = make_backends(problem, gamma)
    arguments = *potentials(problem, exact), 3, problem.observed
    results: list[Any] = list(zip(ours.match(*arguments), exact.match(*arguments), strict=True))
    for mine, right in results:
        np.testing.assert_allclose(mine, right, rtol=5e-4)


def test_two_runs_are_equal_bit_for_bit() -> None:
    problem, gamma = make_problem(4, 70, scale=8, seed=1), 0.5
    (first, exact), (second, _) = make_backends(problem, gamma), make_backends(problem, gamma)
    for mine, again in zip(first.log_sums(), second.log_sums(), strict=True):
        np.testing.assert_array_equal(mine, again)
    arguments = *potentials(problem, exact), 0, problem.observed
    results: list[Any] = list(zip(first.match(*arguments), second.match(*arguments), strict=True))
    for one, other in results:
        np.testing.assert_array_equal(one, other)


def test_users_copied_from_the_host_in_chunks() -> None:
    problem, gamma = PROBLEMS["no multiple of a tile"]
    ours, exact = make_backends(problem, gamma)
    at_once = ours.log_sums()
    ours._users.resident, ours._users.n_rows = None, 5
    for mine, right in zip(ours.log_sums(), at_once, strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-6)
    assert_same_plan(problem, ours, exact, 5e-4)


def test_chunks_that_do_not_fit_are_halved() -> None:
    problem, gamma = PROBLEMS["no multiple of a tile"]
    ours, exact = make_backends(problem, gamma)
    sizes = []
    sum_chunk = ours._sum_chunk

    def run_out_of_memory(start: int, end: int, *rest: Any, **options: Any) -> Any:
        sizes.append(end - start)
        if end - start > 6:
            raise torch.OutOfMemoryError("out of memory")
        return sum_chunk(start, end, *rest, **options)

    ours._sum_chunk = run_out_of_memory  # type: ignore[method-assign]
    for mine, right in zip(ours.log_sums(), exact.log_sums(), strict=True):
        np.testing.assert_allclose(mine, right, atol=2e-4)
    assert sizes == [11, 6, 5]


def test_a_row_that_does_not_fit_is_an_input_error() -> None:
    problem, gamma = PROBLEMS["one user"]
    ours, _ = make_backends(problem, gamma)

    def fail(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("out of memory")

    ours._sum_chunk = fail  # type: ignore[method-assign]
    with pytest.raises(InputError, match="one user with 40 items does not fit"):
        ours.log_sums()


def test_solvers_and_the_denoiser_take_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem(5, 20, scale=8, seed=1, density=0.5)
    monkeypatch.setattr(backend_module, "resolve_device", lambda name, _: DEVICE if name == "gpu" else None)
    relaxed, sinkhorn = (
        [solver(problem.factors, problem.marginals, 0.5, device=device) for device in ("gpu", "cpu")]
        for solver in (transport.relaxed, transport.sinkhorn)
    )
    for on_gpu, on_cpu in (relaxed, sinkhorn):
        assert isinstance(on_gpu.backend, GpuBackend)
        assert isinstance(on_cpu.backend, CpuBackend)
        np.testing.assert_allclose(on_gpu.to_dense(), on_cpu.to_dense(), rtol=1e-3)
        mine, right = on_gpu.match(problem.observed), on_cpu.match(problem.observed)
        np.testing.assert_array_equal(mine.kappa, right.kappa)
    assert isinstance(sinkhorn[0], transport.SinkhornPlan)
    assert isinstance(sinkhorn[1], transport.SinkhornPlan)
    assert sinkhorn[0].iterations == sinkhorn[1].iterations
    denoised = [ProRec(NCE(rank=4), gamma=0.5, noise_method="plan").fit(problem.observed).weights_.data]
    monkeypatch.setattr(backend_module, "resolve_device", lambda *_: DEVICE)
    denoised.append(ProRec(NCE(rank=4), gamma=0.5, noise_method="plan").fit(problem.observed).weights_.data)
    np.testing.assert_allclose(denoised[0], denoised[1], rtol=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "cuda:99"}, "device"),
        ({"device": np.array(["auto", "cpu"])}, "device"),
        ({"precision": "low"}, "precision"),
        ({"precision": "fast"}, "precision"),
    ],
)
def test_bad_device_or_precision(options: dict[str, Any], message: str) -> None:
    problem = make_problem(3, 4)
    for solver in (transport.relaxed, transport.sinkhorn):
        with pytest.raises(InputError, match=message):
            solver(problem.factors, problem.marginals, 0.5, **options)


def test_a_denoiser_refuses_a_device_before_it_fits() -> None:
    with pytest.raises(InputError, match="device must be"):
        ProRec(NCE(rank=2), device="abacus", noise_method="plan").fit(make_problem(8, 9, density=1).observed)


def test_a_denoiser_saved_on_a_gpu_is_loaded_elsewhere(tmp_path: Path) -> None:
    ProRec(NCE(rank=2), noise_method="plan").fit(make_problem(8, 9, density=1).observed).save(tmp_path / "model")
    file = tmp_path / "model" / "model.json"
    file.write_text(file.read_text().replace('"device": "auto"', '"device": "cuda"'))
    assert file.read_text().count('"cuda"') == 2
    loaded: Any = load(tmp_path / "model")
    assert loaded.device == loaded.model_.device == "auto"


def test_broken_pytorch_means_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise OSError("libtorch_cuda.so: cannot open shared object file")

    device._has_gpu.cache_clear()
    monkeypatch.setattr(device, "find_spec", broken)
    assert device.resolve_device("auto", 1e12) is None
    device._has_gpu.cache_clear()


# ── the proof ───────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=200)
@given(
    st.integers(2, 200),
    st.sampled_from([0.01, 0.3, 1.0, 3.0]),
    st.integers(0, 2**32 - 1),
    st.lists(st.floats(0, 1), min_size=8, max_size=8),
)
def test_the_best_split_is_never_ruled_out(n: int, spread: float, seed: int, cuts: list[float]) -> None:
    """For any cuts and any window, the remaining interval has the best split, unless the window has it."""
    rng = np.random.default_rng(seed)
    values = np.round(np.exp(spread * rng.normal(size=n)), rng.integers(1, 6)) + 1e-6
    ordered = np.sort(values)[::-1]
    count = np.arange(1, n)
    gains = (np.cumsum(ordered)[:-1] - count * values.mean()) ** 2 * n / (count * (n - count))
    kappa = int(np.argmax(gains)) + 1
    center = float(np.float32(values.mean()))
    w = values - center
    edges = np.sort(np.interp(cuts, [0, 1], [0, 1.1 * values.max()]))[::-1].astype(np.float32) - np.float32(center)
    low, high = float(edges[5]), float(edges[3])
    inside = [k for k in range(1, n) if low <= ordered[k - 1] - center < high or k == np.sum(w >= high)]
    best = max((gains[k - 1] for k in inside), default=0.0)

    def one(x: Any) -> torch.Tensor:
        return torch.tensor(np.asarray(x, dtype=np.float64)[None])

    distances = np.abs(w - edges[:, None]).sum(axis=1)
    survey = Survey(one(center), one(edges), one(distances), one(w.sum()), one(w.max()), n)
    infinity = one(np.inf)
    searched, limits = Interval(one(low), one(high)), Interval(-infinity, infinity)
    remaining = optimality.find_remaining(survey, searched, limits, one(best))
    assert float(remaining.best_gain) <= gains.max() * (1 + 1e-9)
    if gains.max() > 0 and best < gains.max() * (1 - 1e-9):
        assert remaining.is_open[0]
        # The split is between two values, and at least one of them is in the interval.
        assert ordered[kappa - 1] - center >= float(remaining.interval.low) - 1e-6
        assert ordered[min(kappa, n - 1)] - center <= float(remaining.interval.high) + 1e-6
        n_within = np.sum((w >= float(remaining.interval.low)) & (w < float(remaining.interval.high)))
        assert n_within <= float(remaining.max_values) + 1


def test_plain_split_equals_that_of_the_cpu() -> None:
    rows = np.random.default_rng(0).lognormal(size=(50, 37)).astype(np.float32)
    rows[0] = 1
    rows[1] = np.round(rows[1])
    kappa, threshold = transport.find_row_thresholds(rows)
    mine = dense.split_rows(torch.from_numpy(rows))
    np.testing.assert_array_equal(mine[0], kappa)
    np.testing.assert_array_equal(mine[1], threshold)

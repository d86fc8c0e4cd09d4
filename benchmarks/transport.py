"""The transport step against the bare arithmetic, against sorting, and against POT."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from benchmarks.ratio import Ratio, time_ratio
from prorec import Factors, transport
from prorec._core.parallel import N_CORES
from prorec.transport.block_step import match_block

GAMMA, BETA, LAM = 0.1, 20, 0.5
LARGE = 29_858, 40_981, 1_027_370  # users, items and interactions of Gowalla
MEDIUM = 6_040, 3_706, 575_281  # of MovieLens-1M, ratings above 3

_MEASURE_PEAK = """
from pathlib import Path
from benchmarks.ratio import peak_memory
from benchmarks.transport import LARGE, denoise, make_problem
denoise(*make_problem(300, 400, 3000))  # loads the compiled code
problem = make_problem(*LARGE)
Path("/proc/self/clear_refs").write_text("5")  # resets the peak
before = peak_memory()
denoise(*problem)
print(peak_memory() - before)
"""

Problem = tuple[Factors, transport.Marginals, csr_array]


def measure() -> Iterator[Ratio]:
    """Measure time and memory of the relaxed step, and of both solvers against POT."""
    warnings.simplefilter("ignore")  # POT warns of numerical problems of its own solver
    large = make_problem(*LARGE)
    size = f"{LARGE[0]:,} × {LARGE[1]:,}"
    value = time_ratio(lambda: denoise(*large), lambda: bare_arithmetic(large[0]), rounds=5)
    yield Ratio(f"relaxed + thresholds + relabel, {size} / bare product and exp", value, 3.0)
    np.testing.assert_allclose(denoise(*large).data, denoise_by_sorting(*large).data, rtol=1e-5)
    value = time_ratio(lambda: denoise(*large), lambda: denoise_by_sorting(*large), rounds=1)
    yield Ratio(f"relaxed + thresholds + relabel, {size} / with full sorts", value, 0.25)
    command = [sys.executable, "-c", _MEASURE_PEAK]
    peak = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    yield Ratio(f"peak memory of that, {size} / dense plan", peak / (4 * LARGE[0] * LARGE[1]), 0.1)
    yield from measure_against_pot()


def measure_against_pot() -> Iterator[Ratio]:
    """Measure both solvers against POT; prorec starts from factors, POT from the dense cost matrix."""
    import ot

    factors, marginals, _ = make_problem(*MEDIUM)
    cost = -(factors.users.astype(float) @ factors.items.astype(float).T)
    size = f"{MEDIUM[0]:,} × {MEDIUM[1]:,}"
    value = time_ratio(
        lambda: transport.relaxed(factors, marginals, GAMMA),
        lambda: ot.sinkhorn(marginals.users, marginals.items, cost, GAMMA),
        rounds=5,
    )
    yield Ratio(f"relaxed, {size} / ot.sinkhorn", value, 0.2)
    plan = ot.bregman.sinkhorn_log(marginals.users, marginals.items, cost, GAMMA)
    error = float(np.abs(plan.sum(axis=0) - marginals.items).sum() + np.abs(plan.sum(axis=1) - marginals.users).sum())
    del plan
    ours = transport.sinkhorn(factors, marginals, GAMMA, tolerance=error)
    assert ours.converged
    value = time_ratio(
        lambda: transport.sinkhorn(factors, marginals, GAMMA, tolerance=error),
        lambda: ot.bregman.sinkhorn_log(marginals.users, marginals.items, cost, GAMMA),
        rounds=2,
    )
    yield Ratio(f"sinkhorn to the same error, {size} / ot.bregman.sinkhorn_log", value, 0.5)


def make_problem(n_users: int, n_items: int, n_observed: int) -> Problem:
    """Make factors of rank 64 with a few tastes per user and item, marginals, and clicks by activity and popularity.

    The scores resemble those of a trained model: most are near 0, some near 1, and active users have longer factors.
    """
    rng = np.random.default_rng(0)
    activity, popularity = (rng.lognormal(sigma=0.8, size=n) for n in (n_users, n_items))
    users, items = (rng.dirichlet(np.full(64, 0.1), n) for n in (n_users, n_items))
    users *= np.minimum(activity, 30)[:, None] ** 0.5
    users += 0.02 * rng.standard_normal(users.shape)
    items += 0.02 * rng.standard_normal(items.shape)
    rows = rng.choice(n_users, 2 * n_observed, p=activity / activity.sum())
    columns = rng.choice(n_items, 2 * n_observed, p=popularity / popularity.sum())
    pairs = rng.permutation(np.unique(rows * n_items + columns))[:n_observed]
    observed = csr_array(
        (np.ones(len(pairs), dtype=np.float32), (pairs // n_items, pairs % n_items)), shape=(n_users, n_items)
    )
    factors = Factors(users.astype(np.float32), items.astype(np.float32))
    return factors, transport.Marginals.popularity(observed), observed


def denoise(factors: Factors, marginals: transport.Marginals, observed: csr_array) -> csr_array:
    """Run the whole step, from factors to new weights."""
    plan = transport.relaxed(factors, marginals, GAMMA)
    return transport.relabel(observed, plan.match(observed), BETA, LAM)


def bare_arithmetic(factors: Factors) -> None:
    """Compute exp(U·Vᵀ) once, with the block size and the number of threads of prorec."""
    n_users, n_items = factors.shape
    rows = 512
    starts = range(0, n_users, rows)
    items = np.ascontiguousarray(factors.items.T)

    def work(first: int) -> None:
        buffer = np.empty((rows, n_items), dtype=np.float32)
        for start in starts[first::N_CORES]:
            users = factors.users[start : start + rows]
            block = buffer[: len(users)]
            np.matmul(users, items, out=block)
            np.exp(block, out=block)

    with threadpool_limits(1), ThreadPoolExecutor(N_CORES) as pool:
        list(pool.map(work, range(N_CORES)))


def denoise_by_sorting(factors: Factors, marginals: transport.Marginals, observed: csr_array) -> csr_array:
    """Run the step with the same first pass and the same blocks, but find thresholds by sorting every row."""
    plan = transport.relaxed(factors, marginals, GAMMA)
    kappa, threshold = np.empty(observed.shape[0], dtype=np.int64), np.empty(observed.shape[0], dtype=np.float32)
    shares = np.empty(observed.nnz, dtype=np.float32)
    entries = np.split(np.arange(observed.nnz), observed.indptr[1:-1])

    def step(rows: NDArray[np.intp], buffer: NDArray[np.float32]) -> tuple[NDArray[Any], ...]:
        potentials = plan.user_potential[rows], plan.item_potential
        _, _, block_shares = match_block(plan.blocks.scores, rows, buffer, *potentials, 1, observed[rows])
        values = buffer[: len(rows)]  # single precision leaves the plan's rows here
        splits = list(map(split_by_sorting, values))
        return np.array([split[0] for split in splits]), np.array([split[1] for split in splits]), block_shares

    for rows, result in plan.blocks.map(step):
        kappa[rows], threshold[rows], shares[np.concatenate([entries[row] for row in rows])] = result
    return transport.relabel(observed, transport.Matching.from_arrays(observed, kappa, threshold, shares), BETA, LAM)


def split_by_sorting(row: NDArray[np.float32]) -> tuple[int, float]:
    """Return κ and the threshold's share of the row, from the sorted row and its cumulated sums."""
    values = np.sort(row)[::-1]
    n = len(values)
    upper = np.cumsum(values, dtype=np.float64)
    total = upper[-1]
    kappa = np.arange(1, n)
    gain = upper[:-1] ** 2 / kappa + (total - upper[:-1]) ** 2 / (n - kappa)
    best = int(np.argmax(gain))
    return best + 1, values[best] / total

"""Times and memory of models on a GPU at the size of Yahoo! Music's ratings, with the time of each step.

    PYTHONPATH=src:. python3 benchmarks/device_models.py
    PYTHONPATH=src:. python3 benchmarks/device_models.py --users 200000 --clicks 5000000 --only nce,recommend

The clicks are synthetic, with few popular items and few active users. `--device cpu-torch` uses PyTorch's
CPU.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

import prorec
from prorec.models import (
    CDAE,
    EASE,
    NCE,
    SVD,
    VAE,
    WRMF,
    Model,
    _batches,
    _gpu_least_squares,
    _gpu_matrix,
    _gpu_top_k,
    _training,
    nce,
)
from prorec.models import model as model_module

MODELS = ("nce", "svd", "wrmf", "recommend", "cdae", "vae", "ease")


def main() -> None:
    """Print a table with the models named by --only."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--users", type=int, default=1_948_882)
    parser.add_argument("--items", type=int, default=46_110)
    parser.add_argument("--clicks", type=int, default=48_817_561)
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu-torch"))
    parser.add_argument("--only", default=",".join(MODELS[:-1]), help=f"comma-separated, of {', '.join(MODELS)}")
    arguments = parser.parse_args()
    if arguments.device == "cpu-torch":
        model_module.resolve_device = lambda *_: torch.device("cpu")  # type: ignore[attr-defined]
        _training._is_gpu = lambda _: True  # type: ignore[assignment]
    start = time.perf_counter()
    matrix = make_clicks(arguments.users, arguments.items, arguments.clicks, arguments.seed)
    clicks = prorec.Interactions.from_matrix(matrix)
    print(f"{clicks}, most active user {clicks.activity.max():,}, most popular item {clicks.popularity.max():,}")
    print(f"made in {time.perf_counter() - start:.1f} s; {describe_environment(arguments.device)}\n")
    on_gpu: dict[str, Any] = {"device": "cuda"}
    rank, batch_size = arguments.rank, arguments.batch_size
    one_epoch = {"epochs": 1, "batch_size": batch_size, **on_gpu}
    models: dict[str, Model] = {
        "nce": NCE(rank, **on_gpu),
        "svd": SVD(rank, **on_gpu),
        "wrmf": WRMF(rank, sweeps=10, **on_gpu),
        "cdae": CDAE(rank, **one_epoch),
        "vae": VAE(rank, hidden=None, **one_epoch),
        "ease": EASE(**on_gpu),
    }
    print(f"{'':<40}{'seconds':>9}{'peak GB':>9}")
    for name in arguments.only.split(","):
        rounds = arguments.rounds if name in ("nce", "svd", "wrmf", "recommend") else 1
        if name == "recommend":
            model = models["nce"].fit(clicks)
            print_times("top 10 for every user", lambda model=model: model.recommend(clicks.users, k=10), rounds)  # type: ignore[misc]
        else:
            model = models[name]
            label = f"{type(model).__name__}, rank {rank}" + (", one epoch" if name in ("cdae", "vae") else "")
            print_times(label, lambda model=model: model.fit(clicks), rounds)  # type: ignore[misc]


def print_times(label: str, work: Callable[[], object], rounds: int) -> None:
    """Time the steps of a first run, which also warms up, and print them below the median of the next runs."""
    with timed_steps() as steps:
        work()
    synchronize()
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        synchronize()
        seconds.append(time.perf_counter() - start)
    peak = torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else 0.0
    print(f"{label:<40}{statistics.median(seconds):>9.2f}{peak:>9.1f}")
    for step, (total, n_calls) in sorted(steps.items(), key=lambda entry: -entry[1][0]):
        if total >= 0.001:
            print(f"    {step:<36}{total:>9.3f}   {n_calls:,} ×")
    print("    (steps of the first run, which also warms up; each waits for the device)\n", flush=True)


StepTimes = dict[str, tuple[float, int]]
"""Seconds and number of calls by step."""


@contextmanager
def timed_steps() -> Iterator[StepTimes]:
    """Time the steps of models, each without the steps inside it."""
    times: StepTimes = {}
    inner_seconds: list[float] = []  # of the steps that are running, the outermost first

    def wrap(label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*args: Any, **options: Any) -> Any:
            synchronize()
            start = time.perf_counter()
            inner_seconds.append(0.0)
            try:
                return function(*args, **options)
            finally:
                synchronize()
                seconds = time.perf_counter() - start
                total, n_calls = times.get(label, (0.0, 0))
                times[label] = total + seconds - inner_seconds.pop(), n_calls + 1
                if inner_seconds:
                    inner_seconds[-1] += seconds

        return run

    matrix, ranker, model = _gpu_matrix.GpuMatrix, _gpu_top_k.GpuRanker, model_module.Model
    pattern, block = _gpu_matrix.SparsityPattern, _gpu_least_squares._RowBlock
    steps: list[tuple[Any, str, str]] = [
        (model_module, "as_interactions", "host: check of weights"),
        (model, "_set_result", "host: check of results"),
        (model, "_find_positions", "host: look-up of ids"),
        (model, "_popularity", "host: popularity"),
        (model_module, "row_sums", "host: sums of weights"),
        (_gpu_top_k, "check_scores", "host: check of scores"),
        (nce, "leading_right_vectors", "host: eigenvectors in the Krylov space"),
        (nce, "cho_solve", "host: ridge regression"),
        (_gpu_matrix, "to_tensor", "transfer: to the device"),
        (_gpu_top_k, "to_tensor", "transfer: to the device"),
        (_gpu_matrix, "to_host", "transfer: to the host"),
        (_gpu_top_k, "to_host", "transfer: to the host"),
        (pattern.transposed, "func", "device: transposition"),
        (pattern.segment_starts, "func", "device: segments"),
        (matrix, "times", "device: sparse × dense"),
        (matrix, "column_sums", "device: popularity"),
        (matrix, "scale_columns", "device: discount"),
        (matrix, "gram_on_device", "device: Gram matrix of items"),
        (_gpu_matrix, "dense_gram", "device: Gram matrix of factors"),
        (_gpu_least_squares, "dense_gram", "device: Gram matrix of factors"),
        (block, "__init__", "device: gathering factors of a block"),
        (block, "_apply", "device: left-hand side of equations"),
        (block, "_keep_rows", "device: removal of solved rows"),
        (block, "solve", "device: conjugate gradients, other"),
        (_gpu_top_k, "_take_rows", "host: users of the block"),
        (_gpu_top_k, "find_entries", "device: positions of seen items"),
        (_gpu_top_k, "_stable_top_k", "device: top k of keys"),
        (ranker, "_top_k", "device: candidates by group maxima"),
        (ranker, "_rank_block", "device: scores, mask"),
        (CDAE, "_make_network", "host: initial parameters"),
        (VAE, "_make_network", "host: initial parameters"),
        (CDAE, "_to_arrays", "host: hidden states of all users"),
        (VAE, "_to_arrays", "host: hidden states of all users"),
        (_batches.BatchMaker, "make", "training: batches"),
        (_training, "_compute_gradients", "training: loss, gradients"),
        (_training, "train", "training: Adam and other work"),
    ]
    originals = [(owner, name, owner.__dict__[name]) for owner, name, _ in steps]
    try:
        for owner, name, label in steps:
            setattr(owner, name, wrap(label, getattr(owner, name)))
        yield times
    finally:
        for owner, name, function in originals:
            setattr(owner, name, function)


def synchronize() -> None:
    """Wait for the device."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def describe_environment(device: str) -> str:
    """Return the device and the versions of PyTorch and numpy."""
    name = torch.cuda.get_device_name() if device == "cuda" else "PyTorch's CPU"
    return f"{name}, PyTorch {torch.__version__}, numpy {np.__version__}"


def make_clicks(n_users: int, n_items: int, n_clicks: int, seed: int) -> csr_array:
    """Make about `n_clicks` clicks in a few seconds, with skewed activity of users and popularity of items."""
    rng = np.random.default_rng(seed)
    activity = rng.lognormal(0, 1.2, n_users)
    lengths = np.clip(np.rint(activity * n_clicks / activity.sum()), 1, max(n_items // 4, 1)).astype(np.int64)
    indptr = np.concatenate(([0], lengths.cumsum()))
    indices = _choose_items(indptr, n_items, rng.random(int(indptr[-1]), dtype=np.float32))
    index_type = np.int32 if indptr[-1] < 2**31 else np.int64
    matrix = csr_array(
        (np.ones(len(indices), np.float32), indices, indptr.astype(index_type)), shape=(n_users, n_items)
    )
    matrix.has_canonical_format = True
    return matrix


@njit(cache=True)
def _choose_items(indptr: NDArray[np.int64], n_items: int, uniform: NDArray[np.float32]) -> NDArray[np.int32]:
    """Choose distinct items for each user, in order; items with small numbers are the popular ones."""
    columns = np.empty(len(uniform), np.int32)
    for row in range(len(indptr) - 1):
        start, n = indptr[row], indptr[row + 1] - indptr[row]
        last = -1
        for position in range(n):
            item = int(n_items * ((position + uniform[start + position]) / n) ** 2.2)
            last = min(max(item, last + 1), n_items - n + position)
            columns[start + position] = last
    return columns


if __name__ == "__main__":
    main()

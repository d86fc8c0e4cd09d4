"""How long models take on a GPU at the size of Yahoo! Music's ratings: seconds, memory, and where the time goes.

    PYTHONPATH=src:. python3 benchmarks/device_models.py
    PYTHONPATH=src:. python3 benchmarks/device_models.py --users 200000 --clicks 5000000 --only nce,recommend

Clicks are made up, with few popular items and few busy users. `--device cpu-torch` runs the same on PyTorch's CPU.
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
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--users", type=int, default=1_948_882)
    parser.add_argument("--items", type=int, default=46_110)
    parser.add_argument("--clicks", type=int, default=48_817_561)
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu-torch"))
    parser.add_argument("--only", default=",".join(MODELS[:-1]), help=f"of {', '.join(MODELS)}")
    given = parser.parse_args()
    if given.device == "cpu-torch":
        model_module.resolve_device = lambda *_: torch.device("cpu")  # type: ignore[attr-defined]
        _training._is_gpu = lambda _: True  # type: ignore[assignment]
    begin = time.perf_counter()
    matrix = made_up(given.users, given.items, given.clicks, given.seed)
    clicks = prorec.Interactions.from_matrix(matrix)
    print(f"{clicks}, busiest user {clicks.activity.max():,}, most popular item {clicks.popularity.max():,}")
    print(f"made in {time.perf_counter() - begin:.1f} s; {where(given.device)}\n")
    how = {"device": "cuda"}
    rank, batch_size = given.rank, given.batch_size
    networks = {"epochs": 1, "batch_size": batch_size, **how}
    fits: dict[str, Model] = {
        "nce": NCE(rank, **how),  # type: ignore[arg-type]
        "svd": SVD(rank, **how),  # type: ignore[arg-type]
        "wrmf": WRMF(rank, sweeps=10, **how),  # type: ignore[arg-type]
        "cdae": CDAE(rank, **networks),
        "vae": VAE(rank, hidden=None, **networks),
        "ease": EASE(**how),  # type: ignore[arg-type]
    }
    print(f"{'':<40}{'seconds':>9}{'peak GB':>9}")
    for name in given.only.split(","):
        rounds = given.rounds if name in ("nce", "svd", "wrmf", "recommend") else 1
        if name == "recommend":
            model = fits["nce"].fit(clicks)
            report("top 10 for every user", lambda model=model: model.recommend(clicks.users, k=10), rounds)  # type: ignore[misc]
        else:
            model = fits[name]
            what = f"{type(model).__name__}, rank {rank}" + (", one epoch" if name in ("cdae", "vae") else "")
            report(what, lambda model=model: model.fit(clicks), rounds)  # type: ignore[misc]


def report(name: str, work: Callable[[], object], rounds: int) -> None:
    """Once to warm up, which also says where the time goes, and then the median of some rounds."""
    with stages() as spent:
        work()
    synchronised()
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        synchronised()
        seconds.append(time.perf_counter() - begin)
    peak = torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else 0.0
    print(f"{name:<40}{statistics.median(seconds):>9.2f}{peak:>9.1f}")
    for stage, (total, times) in sorted(spent.items(), key=lambda each: -each[1][0]):
        if total >= 0.001:
            print(f"    {stage:<36}{total:>9.3f}   {times:,} ×")
    print("    (stages are of the first run, which also warms up; each waits for the device)\n", flush=True)


Stages = dict[str, tuple[float, int]]


@contextmanager
def stages() -> Iterator[Stages]:
    """Time the steps of models, each without the steps within it."""
    spent: Stages = {}
    open_steps: list[float] = []

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*args: Any, **how: Any) -> Any:
            synchronised()
            begin = time.perf_counter()
            open_steps.append(0.0)
            try:
                return function(*args, **how)
            finally:
                synchronised()
                took = time.perf_counter() - begin
                total, times = spent.get(name, (0.0, 0))
                spent[name] = total + took - open_steps.pop(), times + 1
                if open_steps:
                    open_steps[-1] += took

        return run

    matrix, ranker, model = _gpu_matrix.GpuMatrix, _gpu_top_k.GpuRanker, model_module.Model
    pattern, block = _gpu_matrix.SparsityPattern, _gpu_least_squares._RowBlock
    steps: list[tuple[Any, str, str]] = [
        (model_module, "as_interactions", "host: weights are checked"),
        (model, "_set_result", "host: results are checked"),
        (model, "_find_positions", "host: ids are looked up"),
        (model, "_popularity", "host: popularity"),
        (model_module, "row_sums", "host: users without any weight"),
        (_gpu_top_k, "check_scores", "host: scores are checked"),
        (nce, "leading_right_vectors", "Krylov space: dense, and eigenvectors"),
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
        (block, "__init__", "device: factors of a block, gathered"),
        (block, "_apply", "device: the equations' left-hand side"),
        (block, "_keep_rows", "device: solved rows, removed"),
        (block, "solve", "device: conjugate gradients, the rest"),
        (_gpu_top_k, "_take_rows", "host: users of the block"),
        (_gpu_top_k, "find_entries", "device: positions of seen items"),
        (_gpu_top_k, "_stable_top_k", "device: top k of keys"),
        (ranker, "_top_k", "device: largest of groups, candidates"),
        (ranker, "_rank_block", "device: scores, mask"),
        (CDAE, "_make_network", "host: initial parameters"),
        (VAE, "_make_network", "host: initial parameters"),
        (CDAE, "_to_arrays", "host: hidden states of all users"),
        (VAE, "_to_arrays", "host: hidden states of all users"),
        (_batches.BatchMaker, "make", "training: batches"),
        (_training, "_compute_gradients", "training: loss, gradients"),
        (_training, "train", "training: Adam, and everything else"),
    ]
    before = [(owner, name, owner.__dict__[name]) for owner, name, _ in steps if hasattr(owner, name)]
    try:
        for owner, name, label in steps:
            if hasattr(owner, name):
                setattr(owner, name, timed(label, getattr(owner, name)))
        yield spent
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def synchronised() -> None:
    """Wait for the device."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def where(device: str) -> str:
    """What this runs on."""
    name = torch.cuda.get_device_name() if device == "cuda" else "PyTorch's CPU"
    return f"{name}, PyTorch {torch.__version__}, numpy {np.__version__}"


def made_up(n_users: int, n_items: int, n_clicks: int, seed: int) -> csr_array:
    """About so many clicks in a few seconds: users of very different activity, items of very different popularity."""
    rng = np.random.default_rng(seed)
    activity = rng.lognormal(0, 1.2, n_users)
    lengths = np.clip(np.rint(activity * n_clicks / activity.sum()), 1, max(n_items // 4, 1)).astype(np.int64)
    indptr = np.concatenate(([0], lengths.cumsum()))
    indices = _columns(indptr, n_items, rng.random(int(indptr[-1]), dtype=np.float32))
    kind = np.int32 if indptr[-1] < 2**31 else np.int64
    matrix = csr_array((np.ones(len(indices), np.float32), indices, indptr.astype(kind)), shape=(n_users, n_items))
    matrix.has_canonical_format = True
    return matrix


@njit(cache=True)
def _columns(indptr: NDArray[np.int64], n_items: int, chance: NDArray[np.float32]) -> NDArray[np.int32]:
    """Items of each user in order, none twice: the further back, the rarer."""
    columns = np.empty(len(chance), np.int32)
    for row in range(len(indptr) - 1):
        begin, n = indptr[row], indptr[row + 1] - indptr[row]
        least = -1
        for place in range(n):
            item = int(n_items * ((place + chance[begin + place]) / n) ** 2.2)
            least = min(max(item, least + 1), n_items - n + place)
            columns[begin + place] = least
    return columns


if __name__ == "__main__":
    main()

"""The denoising step on a GPU: right first, then how long each kernel takes and how near it comes to the ceilings.

Run it on a machine with a GPU: `python -m benchmarks.device_step` (PyTorch with Triton; nothing of this is timed in
tests). Times are medians of several runs, between events on the device, after one that is thrown away.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from prorec import Factors, transport
from prorec.models import NCE
from prorec.transport import gpu_backend, gpu_factors, gpu_thresholds
from prorec.transport.backend import CpuBackend
from prorec.transport.blocks import DEFAULT_MEMORY, make_blocks
from prorec.transport.gpu_backend import GpuBackend
from reproduction.yahoo_shape import make_yahoo_shape

YAHOO = 1_948_882, 46_110, 48_817_561
GAMMA, BETA, LAM = 0.1, 20.0, 0.5
SUMS_TILES = (
    (128, 128, 8, 3),
    (128, 128, 8, 2),
    (128, 64, 4, 3),
    (64, 128, 4, 3),
    (64, 64, 4, 3),
    (128, 64, 8, 3),
    (64, 64, 4, 2),
    (256, 64, 8, 3),
    (128, 64, 4, 2),
)
SURVEY_TILES = (
    (64, 64, 4, 3),
    (128, 64, 8, 3),
    (64, 32, 4, 3),
    (128, 64, 8, 2),
    (64, 64, 4, 2),
    (128, 32, 8, 3),
    (128, 32, 4, 3),
)


def main() -> None:
    """Check, then measure, then print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--factors", choices=("nce", "made"), default="nce", help="of NCE on yahoo-shape, or made up")
    parser.add_argument("--users", type=int, default=YAHOO[0])
    parser.add_argument("--items", type=int, default=YAHOO[1])
    parser.add_argument("--clicks", type=int, default=YAHOO[2])
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tune", action="store_true", help="try other tiles")
    parser.add_argument("--unchecked", action="store_true", help="the kernels were checked before")
    given = parser.parse_args()
    device = torch.device("cuda")
    print(torch.cuda.get_device_name(), "torch", torch.__version__, flush=True)
    if not given.unchecked:
        check(device)
    ceilings = measured_ceilings(device)
    if given.factors == "nce":
        clicks = make_yahoo_shape(given.users / YAHOO[0]).interactions
        factors, observed = NCE(rank=given.width).fit(clicks).scores_, clicks.matrix
        given.users, given.items = observed.shape
    else:
        factors, observed = made(given.users, given.items, given.clicks, given.width, device)
    print(factors, f"{observed.nnz:,} interactions", flush=True)
    if given.tune:
        tune(factors, observed, device)  # type: ignore[arg-type]
    times = measure(factors, observed, device, given.runs)  # type: ignore[arg-type]
    pairs = float(given.users) * given.items
    for name, seconds, detail in rows(times, ceilings, pairs, given.width):
        print(f"{name:<44} {seconds:9.4f} s  {detail}")
    if given.out:
        given.out.write_text(json.dumps({"ceilings": ceilings, **times}, indent=1))


def check(device: torch.device) -> None:
    """The fused kernels against double precision on the CPU, on fresh random problems."""
    rng = np.random.default_rng(int(np.random.SeedSequence().entropy) % 2**32)  # type: ignore[arg-type]
    for n_users, n_items, width, gamma, bias, link in (
        (777, 9_001, 64, 0.1, False, "identity"),
        (300, 46_110, 64, 0.1, False, "identity"),
        (129, 1_237, 33, 0.3, True, "identity"),
        (200, 20_011, 100, 0.05, True, "sigmoid"),
        (65, 12_345, 200, 1.0, False, "identity"),
        (70, 30_000, 8, 10.0, False, "identity"),
        (3, 5, 2, 0.1, True, "identity"),
    ):
        users = rng.dirichlet(np.full(width, 0.1), n_users) * 1.5 + 0.02 * rng.standard_normal((n_users, width))
        items = rng.dirichlet(np.full(width, 0.1), n_items) + 0.02 * rng.standard_normal((n_items, width))
        users[0] = 0
        of_items = rng.normal(size=n_items) if bias else None
        factors = Factors(users.astype(np.float32), items.astype(np.float32), of_items, link)  # type: ignore[arg-type]
        is_observed = rng.random((n_users, n_items)) < 0.01
        is_observed[0, 0] = True
        observed = csr_array(is_observed.astype(np.float32))
        marginals = transport.Marginals.popularity(observed)
        blocks = make_blocks(factors, marginals, gamma, DEFAULT_MEMORY)
        exact = CpuBackend(make_blocks(factors, marginals, gamma, DEFAULT_MEMORY, in_double=True))
        fused = GpuBackend(blocks, device)
        by_user, by_item = exact.log_sums()
        sums = max(np.abs(a - b).max() for a, b in zip(fused.log_sums(), (by_user, by_item), strict=True))
        half = exact.scaled_log_sums(marginals.log_items, marginals.log_users)
        scaled = max(
            np.abs(a - b)[np.isfinite(b)].max()
            for a, b in zip(fused.scaled_log_sums(marginals.log_items, marginals.log_users), half, strict=True)
        )
        potentials = marginals.log_users - by_user, marginals.log_items - by_item
        kappa, threshold, shares = exact.match(*potentials, 0, observed)
        kappa_, threshold_, shares_ = fused.match(*potentials, 0, observed)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.nanmax(np.abs(shares_ / shares - 1))
            off = np.nanmax(np.abs(threshold_ / threshold - 1)[kappa == kappa_])
        print(
            f"{n_users} × {n_items}, width {width}, γ {gamma}{', bias' if bias else ''}, {link}: sums {sums:.1e}, "
            f"scaled sums {scaled:.1e}, shares {error:.1e}, κ equal {np.mean(kappa == kappa_):.4f}, "
            f"thresholds {off:.1e}",
            flush=True,
        )
        if not (sums < 1e-4 and scaled < 1e-4 and error < 1e-3 and np.mean(kappa == kappa_) > 0.99):
            sys.exit("the kernels are wrong")


def measured_ceilings(device: torch.device) -> dict[str, float]:
    """What this GPU reaches: products of 16-bit numbers, exponentials, bytes."""
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def exponentials(x, TIMES: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x + i)
        for _ in range(TIMES):
            value = tl.exp2(value) * -0.5
        tl.store(x + i, value)

    a = torch.randn(8192, 8192, device=device, dtype=torch.float16)
    flops = 2 * 8192**3 / median(lambda: a @ a)
    x, y = torch.randn(1 << 29, device=device), torch.empty(1 << 29, device=device)
    copied = 8 * x.numel() / median(lambda: y.copy_(x))
    z = torch.randn(132 * 64 * 1024, device=device)
    exps = 256 * z.numel() / median(lambda: exponentials[(132 * 64,)](z, TIMES=256, BLOCK=1024, num_warps=8))
    return {"16-bit products, per second": flops, "exponentials, per second": exps, "bytes copied, per second": copied}


def the_step(factors: Factors, observed: csr_array, device: torch.device) -> tuple[GpuBackend, Callable[[], None]]:
    """Plan, thresholds and relabelling, from factors to new weights on the device."""
    marginals = transport.Marginals.popularity(observed)
    backend = GpuBackend(make_blocks(factors, marginals, GAMMA, DEFAULT_MEMORY), device)
    weights = torch.from_numpy(observed.data).to(device)
    activity = torch.from_numpy(np.diff(observed.indptr)).to(device).long()

    def step() -> None:
        by_user, by_item = backend.log_sums()
        potentials = marginals.log_users - by_user, marginals.log_items - by_item
        for begin, end, (_, threshold, shares) in backend.match_chunks(*potentials, 0, observed):
            first, last = int(observed.indptr[begin]), int(observed.indptr[end])
            margin = shares - torch.repeat_interleave(threshold, activity[begin:end], output_size=last - first)
            weights[first:last] = LAM * weights[first:last] + (1 - LAM) * torch.sigmoid(BETA * margin)

    return backend, step


def step_of(factors: Factors, observed: csr_array, device: torch.device, runs: int = 3) -> tuple[float, int]:
    """Seconds of the step, and its peak memory."""
    _, step = the_step(factors, observed, device)
    torch.cuda.reset_peak_memory_stats()
    return median(step, runs), torch.cuda.max_memory_allocated()


def measure(factors: Factors, observed: csr_array, device: torch.device, runs: int) -> dict[str, Any]:
    """The step as a whole and in parts."""
    seconds: dict[str, Any] = {}
    backend, step = the_step(factors, observed, device)
    torch.cuda.reset_peak_memory_stats()
    seconds["step"] = median(step, runs)
    seconds["peak device memory, bytes"] = torch.cuda.max_memory_allocated()
    with count_rows() as counts:
        step()
    seconds["rows"] = dict(counts)
    seconds["kernels"] = kernel_times(step)
    marginals = transport.Marginals.popularity(observed)
    seconds["sums"] = median(lambda: backend.log_sums(), runs)
    by_user, by_item = backend.log_sums()
    potentials = marginals.log_users - by_user, marginals.log_items - by_item
    seconds["thresholds and shares"] = median(
        lambda: [None for _ in backend.match_chunks(*potentials, 0, observed)], runs
    )
    seconds["a Sinkhorn iteration"] = median(
        lambda: backend.scaled_log_sums(marginals.log_items, marginals.log_users), max(1, runs // 2)
    )
    return seconds


@contextmanager
def count_rows() -> Iterator[Counter[str]]:
    """Count the rows that are searched by the kernels, again if need be, and those that are sorted in the end."""
    counts: Counter[str] = Counter()
    search, match_dense = gpu_thresholds.RowSplits._search, GpuBackend._match_dense

    def counting_search(self: Any, rows: torch.Tensor, *arguments: Any) -> Any:
        counts["searched"] += len(rows)
        return search(self, rows, *arguments)

    def counting_match(self: Any, users: Any, *arguments: Any) -> Any:
        counts["sorted"] += len(users)
        return match_dense(self, users, *arguments)

    gpu_thresholds.RowSplits._search = counting_search  # type: ignore[method-assign, assignment]
    GpuBackend._match_dense = counting_match  # type: ignore[method-assign, assignment]
    try:
        yield counts
    finally:
        gpu_thresholds.RowSplits._search = search  # type: ignore[method-assign]
        GpuBackend._match_dense = match_dense  # type: ignore[method-assign]


def tune(factors: Factors, observed: csr_array, device: torch.device) -> None:
    """Each kernel with other tiles, on an eighth of the users."""
    n_users = len(factors.users) // 8
    factors = Factors(factors.users[:n_users], factors.items)
    observed = csr_array(observed[:n_users])
    marginals = transport.Marginals.popularity(observed)
    backend = GpuBackend(make_blocks(factors, marginals, GAMMA, DEFAULT_MEMORY), device)
    by_user, by_item = backend.log_sums()
    potentials = marginals.log_users - by_user, marginals.log_items - by_item
    usual = gpu_factors.choose_tiles

    def trial(kernel: str, label: str, work: Callable[[], Any]) -> None:
        try:
            work()
            found = kernel_times(work)
            print(label, {name: round(8 * seconds, 4) for name, seconds in found.items() if name == kernel}, flush=True)
        except Exception as error:  # too many registers or too much shared memory
            print(label, "cannot be:", str(error)[:100], flush=True)

    for users, items, warps, stages in SUMS_TILES:
        tiles = gpu_factors.Tiles(users, items, {"num_warps": warps, "num_stages": stages})
        gpu_backend.choose_tiles = lambda kernel, width, tiles=tiles: tiles  # type: ignore[attr-defined, misc]
        trial("compute_sums", f"compute_sums {tiles}", backend.log_sums)
    for users, items, warps, stages in SURVEY_TILES:
        tiles = gpu_factors.Tiles(users, items, {"num_warps": warps, "num_stages": stages})
        gpu_thresholds.choose_tiles = lambda kernel, width, tiles=tiles: tiles  # type: ignore[attr-defined, misc]
        trial("survey_rows", f"survey_rows {tiles}", lambda: list(backend.match_chunks(*potentials, 0, observed)))
    gpu_backend.choose_tiles = gpu_thresholds.choose_tiles = usual  # type: ignore[attr-defined]
    for step, warps in ((64, 4), (32, 4), (128, 4), (64, 2), (64, 8), (32, 2), (128, 8), (16, 1)):
        gpu_thresholds._STEP, gpu_thresholds._WARPS = step, warps
        trial(
            "split_window", f"split_window {step} {warps}", lambda: list(backend.match_chunks(*potentials, 0, observed))
        )
    gpu_thresholds._STEP, gpu_thresholds._WARPS = 32, 4


def kernel_times(work: Callable[[], Any]) -> dict[str, float]:
    """Seconds that each kernel takes in all."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as found:
        work()
        torch.cuda.synchronize()
    events = sorted(found.key_averages(), key=lambda event: -event.device_time_total)
    return {event.key[:60]: event.device_time_total / 1e6 for event in events[:12]}


def rows(
    times: dict[str, Any], ceilings: dict[str, float], pairs: float, width: int
) -> Iterator[tuple[str, float, str]]:
    """What to print of it."""
    products, exps = 3 * 2 * width * pairs, pairs
    for name, value in ceilings.items():
        print(f"{name:<44} {value:9.3g}")
    for name in ("step", "sums", "thresholds and shares", "a Sinkhorn iteration"):
        yield name, times[name], ""
    for name, seconds in times["kernels"].items():
        detail = ""
        if name in ("compute_sums", "survey_rows"):
            share = products / ceilings["16-bit products, per second"] / seconds
            of_exps = exps / ceilings["exponentials, per second"] / seconds
            detail = f"{share:.0%} of the product rate, {of_exps:.0%} of the exp rate, were it one pass"
        yield f"  {name}", seconds, detail
    print("rows", times["rows"], f"peak {times['peak device memory, bytes'] / 1e9:.2f} GB")


def median(work: Callable[[], Any], runs: int = 5) -> float:
    """Seconds on the device, warm."""
    work()
    torch.cuda.synchronize()
    seconds = []
    for _ in range(runs):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        seconds.append(begin.elapsed_time(end) / 1e3)
    return float(np.median(seconds))


def made(n_users: int, n_items: int, n_clicks: int, width: int, device: torch.device) -> tuple[Factors, csr_array]:
    """Factors like a trained model's (see `transport.made`) and clicks by activity and popularity, made on the GPU."""
    torch.manual_seed(0)
    draw = torch.Generator(device=device).manual_seed(0)
    activity, popularity = (torch.exp(0.8 * torch.randn(n, device=device, generator=draw)) for n in (n_users, n_items))
    vectors = []
    for n in (n_users, n_items):
        each = torch._standard_gamma(torch.full((n, width), 0.1, device=device))
        each /= each.sum(dim=1, keepdim=True)
        vectors.append(each)
    users, items = vectors
    users *= activity.clamp(max=30)[:, None] ** 0.5
    for each in vectors:
        each += 0.02 * torch.randn(each.shape, device=device, generator=draw)
    wanted = int(1.05 * n_clicks)
    up_to_user, up_to_item = (torch.cumsum(each.double() / each.double().sum(), 0) for each in (activity, popularity))
    keys = []
    for _ in range(8):
        at = torch.rand(2, wanted // 8 + 1, device=device, generator=draw, dtype=torch.float64)
        rows = torch.searchsorted(up_to_user, at[0]).clamp(max=n_users - 1)
        columns = torch.searchsorted(up_to_item, at[1]).clamp(max=n_items - 1)
        keys.append(rows * n_items + columns)
    pairs = torch.unique(torch.cat(keys))
    pairs = pairs[torch.randperm(len(pairs), device=device)[:n_clicks]].sort().values
    indptr = torch.zeros(n_users + 1, dtype=torch.int64, device=device)
    indptr[1:] = torch.cumsum(torch.bincount(pairs // n_items, minlength=n_users), 0)
    observed = csr_array(
        (
            np.ones(len(pairs), dtype=np.float32),
            (pairs % n_items).int().cpu().numpy(),
            indptr.cpu().numpy().astype(np.int32),
        ),
        shape=(n_users, n_items),
    )
    return Factors(users.cpu().numpy(), items.cpu().numpy()), observed


if __name__ == "__main__":
    main()

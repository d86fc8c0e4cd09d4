"""The denoising step on a GPU: correctness, time of each kernel, and shares of the device's peak rates.

Run `python -m benchmarks.device_step` on a machine with a GPU, PyTorch and Triton. Times are medians of several runs
between events on the device, after a run to warm up.
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
    """Check the kernels, measure them, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--factors", choices=("nce", "synthetic"), default="nce", help="NCE's on yahoo-shape, or synthetic"
    )
    parser.add_argument("--users", type=int, default=YAHOO[0])
    parser.add_argument("--items", type=int, default=YAHOO[1])
    parser.add_argument("--clicks", type=int, default=YAHOO[2])
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tune", action="store_true", help="also time other tile sizes")
    parser.add_argument("--unchecked", action="store_true", help="skip the check of the kernels")
    arguments = parser.parse_args()
    device = torch.device("cuda")
    print(torch.cuda.get_device_name(), "torch", torch.__version__, flush=True)
    if not arguments.unchecked:
        check(device)
    peak_rates = measure_peak_rates(device)
    if arguments.factors == "nce":
        clicks = make_yahoo_shape(arguments.users / YAHOO[0]).interactions
        factors, observed = NCE(rank=arguments.width).fit(clicks).scores_, clicks.matrix
        arguments.users, arguments.items = observed.shape
    else:
        factors, observed = make_problem(arguments.users, arguments.items, arguments.clicks, arguments.width, device)
    print(factors, f"{observed.nnz:,} interactions", flush=True)
    if arguments.tune:
        tune(factors, observed, device)  # type: ignore[arg-type]
    times = measure(factors, observed, device, arguments.runs)  # type: ignore[arg-type]
    pairs = float(arguments.users) * arguments.items
    for name, seconds, detail in format_rows(times, peak_rates, pairs, arguments.width):
        print(f"{name:<44} {seconds:9.4f} s  {detail}")
    if arguments.out:
        arguments.out.write_text(json.dumps({"peak rates": peak_rates, **times}, indent=1))


def check(device: torch.device) -> None:
    """Compare the fused kernels with double precision on the CPU, on random problems, and exit if they differ."""
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
        item_bias = rng.normal(size=n_items) if bias else None
        factors = Factors(users.astype(np.float32), items.astype(np.float32), item_bias, link)  # type: ignore[arg-type]
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
        fused_kappa, fused_threshold, fused_shares = fused.match(*potentials, 0, observed)
        with np.errstate(divide="ignore", invalid="ignore"):
            share_error = np.nanmax(np.abs(fused_shares / shares - 1))
            threshold_error = np.nanmax(np.abs(fused_threshold / threshold - 1)[kappa == fused_kappa])
        equal_kappa = np.mean(kappa == fused_kappa)
        print(
            f"{n_users} × {n_items}, width {width}, γ {gamma}{', bias' if bias else ''}, {link}: sums {sums:.1e}, "
            f"scaled sums {scaled:.1e}, shares {share_error:.1e}, κ equal {equal_kappa:.4f}, "
            f"thresholds {threshold_error:.1e}",
            flush=True,
        )
        if not (sums < 1e-4 and scaled < 1e-4 and share_error < 1e-3 and equal_kappa > 0.99):
            sys.exit("The kernels must agree with double precision on the CPU; the errors are in the line above.")


def measure_peak_rates(device: torch.device) -> dict[str, float]:
    """Measure the rates that this GPU reaches: products of 16-bit numbers, exponentials, bytes."""
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
    flops = 2 * 8192**3 / median_seconds(lambda: a @ a)
    x, y = torch.randn(1 << 29, device=device), torch.empty(1 << 29, device=device)
    copied = 8 * x.numel() / median_seconds(lambda: y.copy_(x))
    z = torch.randn(132 * 64 * 1024, device=device)
    exps = 256 * z.numel() / median_seconds(lambda: exponentials[(132 * 64,)](z, TIMES=256, BLOCK=1024, num_warps=8))
    return {"16-bit products, per second": flops, "exponentials, per second": exps, "bytes copied, per second": copied}


def make_step(factors: Factors, observed: csr_array, device: torch.device) -> tuple[GpuBackend, Callable[[], None]]:
    """Return the backend, and a function that computes new weights on the device from factors."""
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


def measure_step(factors: Factors, observed: csr_array, device: torch.device, runs: int = 3) -> tuple[float, int]:
    """Return the step's seconds and its peak memory in bytes."""
    _, step = make_step(factors, observed, device)
    torch.cuda.reset_peak_memory_stats()
    return median_seconds(step, runs), torch.cuda.max_memory_allocated()


def measure(factors: Factors, observed: csr_array, device: torch.device, runs: int) -> dict[str, Any]:
    """Measure the whole step and its parts; all values are seconds, unless the name says otherwise."""
    results: dict[str, Any] = {}
    backend, step = make_step(factors, observed, device)
    torch.cuda.reset_peak_memory_stats()
    results["step"] = median_seconds(step, runs)
    results["peak device memory, bytes"] = torch.cuda.max_memory_allocated()
    with count_rows() as counts:
        step()
    results["rows"] = dict(counts)
    results["kernels"] = profile_kernels(step)
    marginals = transport.Marginals.popularity(observed)
    results["sums"] = median_seconds(lambda: backend.log_sums(), runs)
    by_user, by_item = backend.log_sums()
    potentials = marginals.log_users - by_user, marginals.log_items - by_item
    results["thresholds and shares"] = median_seconds(
        lambda: [None for _ in backend.match_chunks(*potentials, 0, observed)], runs
    )
    results["a Sinkhorn iteration"] = median_seconds(
        lambda: backend.scaled_log_sums(marginals.log_items, marginals.log_users), max(1, runs // 2)
    )
    return results


@contextmanager
def count_rows() -> Iterator[Counter[str]]:
    """Count the rows that the kernels search, once for each search, and the rows that are sorted."""
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
    """Print the time of each kernel with other tiles, for an eighth of the users."""
    n_users = len(factors.users) // 8
    factors = Factors(factors.users[:n_users], factors.items)
    observed = csr_array(observed[:n_users])
    marginals = transport.Marginals.popularity(observed)
    backend = GpuBackend(make_blocks(factors, marginals, GAMMA, DEFAULT_MEMORY), device)
    by_user, by_item = backend.log_sums()
    potentials = marginals.log_users - by_user, marginals.log_items - by_item
    default = gpu_factors.choose_tiles

    def print_time(kernel: str, label: str, work: Callable[[], Any]) -> None:
        try:
            work()
            times = profile_kernels(work)
            print(label, {name: round(8 * seconds, 4) for name, seconds in times.items() if name == kernel}, flush=True)
        except Exception as error:  # too many registers or too much shared memory
            print(label, "does not run:", str(error)[:100], flush=True)

    for users, items, warps, stages in SUMS_TILES:
        tiles = gpu_factors.Tiles(users, items, {"num_warps": warps, "num_stages": stages})
        gpu_backend.choose_tiles = lambda kernel, width, tiles=tiles: tiles  # type: ignore[attr-defined, misc]
        print_time("compute_sums", f"compute_sums {tiles}", backend.log_sums)
    for users, items, warps, stages in SURVEY_TILES:
        tiles = gpu_factors.Tiles(users, items, {"num_warps": warps, "num_stages": stages})
        gpu_thresholds.choose_tiles = lambda kernel, width, tiles=tiles: tiles  # type: ignore[attr-defined, misc]
        print_time("survey_rows", f"survey_rows {tiles}", lambda: list(backend.match_chunks(*potentials, 0, observed)))
    gpu_backend.choose_tiles = gpu_thresholds.choose_tiles = default  # type: ignore[attr-defined]
    for step, warps in ((64, 4), (32, 4), (128, 4), (64, 2), (64, 8), (32, 2), (128, 8), (16, 1)):
        gpu_thresholds._STEP, gpu_thresholds._WARPS = step, warps
        print_time(
            "split_window", f"split_window {step} {warps}", lambda: list(backend.match_chunks(*potentials, 0, observed))
        )
    gpu_thresholds._STEP, gpu_thresholds._WARPS = 32, 4


def profile_kernels(work: Callable[[], Any]) -> dict[str, float]:
    """Return the total seconds of the twelve slowest kernels."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        work()
        torch.cuda.synchronize()
    events = sorted(profiler.key_averages(), key=lambda event: -event.device_time_total)
    return {event.key[:60]: event.device_time_total / 1e6 for event in events[:12]}


def format_rows(
    times: dict[str, Any], peak_rates: dict[str, float], pairs: float, width: int
) -> Iterator[tuple[str, float, str]]:
    """Print peak rates, counts and memory, and yield name, seconds and rates of each part."""
    products, exps = 3 * 2 * width * pairs, pairs
    for name, value in peak_rates.items():
        print(f"{name:<44} {value:9.3g}")
    for name in ("step", "sums", "thresholds and shares", "a Sinkhorn iteration"):
        yield name, times[name], ""
    for name, seconds in times["kernels"].items():
        detail = ""
        if name in ("compute_sums", "survey_rows"):
            product_rate = products / peak_rates["16-bit products, per second"] / seconds
            exp_rate = exps / peak_rates["exponentials, per second"] / seconds
            detail = f"{product_rate:.0%} of the product rate, {exp_rate:.0%} of the exp rate, counted as one pass"
        yield f"  {name}", seconds, detail
    print("rows", times["rows"], f"peak {times['peak device memory, bytes'] / 1e9:.2f} GB")


def median_seconds(work: Callable[[], Any], runs: int = 5) -> float:
    """Return the median seconds on the device, after a run to warm up."""
    work()
    torch.cuda.synchronize()
    seconds = []
    for _ in range(runs):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        seconds.append(start.elapsed_time(end) / 1e3)
    return float(np.median(seconds))


def make_problem(
    n_users: int, n_items: int, n_clicks: int, width: int, device: torch.device
) -> tuple[Factors, csr_array]:
    """Make factors and clicks as `transport.make_problem` does, on the GPU."""
    torch.manual_seed(0)
    generator = torch.Generator(device=device).manual_seed(0)
    activity, popularity = (
        torch.exp(0.8 * torch.randn(n, device=device, generator=generator)) for n in (n_users, n_items)
    )
    vectors = []
    for n in (n_users, n_items):
        tastes = torch._standard_gamma(torch.full((n, width), 0.1, device=device))
        tastes /= tastes.sum(dim=1, keepdim=True)
        vectors.append(tastes)
    users, items = vectors
    users *= activity.clamp(max=30)[:, None] ** 0.5
    for tastes in vectors:
        tastes += 0.02 * torch.randn(tastes.shape, device=device, generator=generator)
    n_samples = int(1.05 * n_clicks)  # some pairs are sampled twice
    user_cdf, item_cdf = (torch.cumsum(mass.double() / mass.double().sum(), 0) for mass in (activity, popularity))
    keys = []
    for _ in range(8):
        uniform = torch.rand(2, n_samples // 8 + 1, device=device, generator=generator, dtype=torch.float64)
        rows = torch.searchsorted(user_cdf, uniform[0]).clamp(max=n_users - 1)
        columns = torch.searchsorted(item_cdf, uniform[1]).clamp(max=n_items - 1)
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

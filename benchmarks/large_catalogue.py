"""Bounded log-sums for a million users and a million items, against exact sums of a sample of them.

python -m benchmarks.large_catalogue                  # made factors, 1,000,000 × 1,000,000, width 32
python -m benchmarks.large_catalogue --trained gowalla  # factors of models that are fitted to a data set
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

import prorec
from prorec import Factors, transport
from prorec.models import NCE, SVD, WRMF
from prorec.transport.gamma import gamma_from_squares, sum_squared_spread
from prorec.transport.scores import scale_scores

N_TASTES = 500
SPREADS = {"made, lengths as NCE's and SVD's": 0.9, "made, lengths as WRMF's": 0.55}
"""Standard deviation of the logarithm of a factor's length. On Gowalla it is .9 to 1 for NCE and SVD of rank 32, and .5
to .6 for WRMF."""


def main() -> None:
    """Measure and print a table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=1_000_000, help="number of users and of items (1,000,000)")
    parser.add_argument("--width", type=int, default=32, help="width of the factors (32)")
    parser.add_argument("--rows", type=int, default=2048, help="users or items whose sums are bounded (2,048)")
    parser.add_argument("--checked", type=int, default=128, help="of these, rows compared with exact sums (128)")
    parser.add_argument("--tolerance", type=float, nargs="+", default=[0.01, 0.02], help="tolerances (0.01 0.02)")
    parser.add_argument("--trained", metavar="DATA", help="fit models to this data set instead")
    options = parser.parse_args()
    problems = trained(options.trained, options.width) if options.trained else made(options.size, options.width)
    print("Errors and bounds are relative, at 50% / 99% / 100% of the rows. CPU hours are for all rows, extrapolated.")
    for name, factors, gamma in problems:
        print(f"{name}: {factors!r}, gamma {gamma:.3g}", flush=True)
        for side in ("users", "items"):
            for line in measure(factors, gamma, side, options.tolerance, options.rows, options.checked):
                print(f"  {side}, {line}", flush=True)


def measure(
    factors: Factors, gamma: float, side: str, tolerances: list[float], n_rows: int, n_checked: int
) -> Iterator[str]:
    """Bound the sums of some rows, and return a line for each tolerance."""
    rng = np.random.default_rng(1)
    rows, columns = (factors.users, factors.items) if side == "users" else (factors.items, factors.users)
    chosen = rng.choice(len(rows), min(n_rows, len(rows)), replace=False)
    block = Factors(rows[chosen], columns)
    sample = Factors(block.users[:n_checked], columns)
    exact = exact_log_sums(sample, gamma)
    n_few = len(chosen) // 4
    few, n_rest = Factors(block.users[:n_few], columns), len(chosen) - n_few
    # The difference of two numbers of rows leaves out what is done once, such as copies of the factors.
    marginals = [transport.Marginals.uniform(*part.shape) for part in (few, block)]
    times = [
        cpu_time(partial(transport.relaxed, part, each, gamma, device="cpu"))
        for part, each in zip((few, block), marginals, strict=True)
    ]
    exact_time = (times[1] - times[0]) / n_rest
    for tolerance in tolerances:
        few_time = cpu_time(partial(transport.bound_log_sums, few, gamma, tolerance=tolerance))
        start = time.process_time()
        sums = transport.bound_log_sums(block, gamma, tolerance=tolerance)
        row_time = (time.process_time() - start - few_time) / n_rest
        set_up = max(few_time - row_time * n_few, 0)
        checked = slice(0, len(exact))
        error = np.abs(np.expm1(sums.estimate[checked] - exact))
        broken = int(((exact < sums.low[checked]) | (exact > sums.high[checked])).sum())
        yield (
            f"tolerance {tolerance:g}: {sums.n_pairs / sums.n_all_pairs:.2%} of the pairs, "
            f"{sums.n_all_pairs / sums.n_pairs:.0f}× less work; errors {quantiles(error)}, "
            f"{(error <= 0.01).mean():.1%} within 1%; bounds {quantiles(sums.error_bounds)}, "
            f"{broken} of {len(exact)} broken; {(set_up + row_time * len(rows)) / 3600:.3f} CPU hours, "
            f"exact {exact_time * len(rows) / 3600:.3f}"
        )


def cpu_time(work: Callable[[], object]) -> float:
    """Return the processor time of some work, which other load on the machine changes little."""
    start = time.process_time()
    work()
    return time.process_time() - start


def quantiles(values: NDArray[np.float64]) -> str:
    """Show the median, the 99th percentile and the maximum."""
    return " / ".join(f"{q:.3%}" for q in np.quantile(values, [0.5, 0.99, 1]))


def exact_log_sums(factors: Factors, gamma: float) -> NDArray[np.float64]:
    """Compute log-sums by user in double precision, a few users at a time."""
    items = factors.items.astype(np.float64).T / gamma
    parts = np.array_split(factors.users.astype(np.float64), max(1, len(factors.users) // 16))
    return np.concatenate([logsumexp(part @ items, axis=1) for part in parts])


def made(size: int, width: int) -> Iterator[tuple[str, Factors, float]]:
    """Make factors with tastes, and with lengths that are spread as those of trained models."""
    for name, spread in SPREADS.items():
        rng = np.random.default_rng(0)
        tastes = rng.normal(size=(N_TASTES, width))
        both = []
        for _ in range(2):
            directions = tastes[rng.integers(N_TASTES, size=size)] + rng.normal(size=(size, width))
            directions *= rng.lognormal(0, spread, size)[:, None] / np.linalg.norm(directions, axis=1)[:, None]
            both.append(directions.astype(np.float32))
        factors = Factors(both[0], both[1])
        yield name, factors, automatic_gamma(factors)


def trained(name: str, width: int) -> Iterator[tuple[str, Factors, float]]:
    """Fit models to a data set."""
    clicks = prorec.load_dataset(name)
    for model in (NCE(rank=width), SVD(rank=width), WRMF(rank=width)):
        factors = model.fit(clicks).scores_
        assert isinstance(factors, Factors)
        yield f"{type(model).__name__} on {name}", factors, automatic_gamma(factors)


def automatic_gamma(factors: Factors) -> float:
    """Estimate γ as `gamma="auto"` does, from 300 users."""
    users = np.random.default_rng(2).choice(len(factors.users), min(300, len(factors.users)), replace=False)
    scores = scale_scores(factors, 1.0, transport.Marginals.uniform(*factors.shape))
    squares, largest = sum_squared_spread(scores, users)
    return gamma_from_squares(squares, len(users), largest)


if __name__ == "__main__":
    main()

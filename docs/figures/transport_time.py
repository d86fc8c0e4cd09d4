"""Draw time against the number of pairs, for our solvers and POT's: `make figures`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import ot

from benchmarks.transport import GAMMA, bare_arithmetic, denoise, make_problem
from prorec import transport

SIZES = [(150, 200), (470, 640), (1_500, 2_000), (4_700, 6_400), (15_000, 20_000), (29_858, 40_981)]
LIMIT = 40.0  # seconds: a solver that takes longer does not get the next size
DENSE = 35_000_000  # pairs: larger dense cost matrices of POT do not fit in memory


def main() -> None:
    """Write transport_time.png beside this file."""
    warnings.simplefilter("ignore")
    lines: dict[str, list[tuple[int, float]]] = {}
    slow: set[str] = set()
    unit = 0.0
    for n_users, n_items in SIZES:
        factors, marginals, observed = make_problem(n_users, n_items, min(n_users * 34, n_users * n_items // 20))
        pairs = n_users * n_items
        unit = best(lambda f=factors: bare_arithmetic(f)) / pairs * 1e6
        work: dict[str, Callable[[], object]] = {
            "relaxed + thresholds + relabel": lambda f=factors, m=marginals, o=observed: denoise(f, m, o),
            "sinkhorn": lambda f=factors, m=marginals: transport.sinkhorn(f, m, GAMMA),
        }
        if pairs <= DENSE:
            cost = -(factors.users.astype(float) @ factors.items.astype(float).T)
            p, q = marginals.items, marginals.users
            with_mass = np.ix_(q > 0, p > 0)
            work |= {
                "emd": lambda f=factors, m=marginals: transport.emd(f, m),
                "POT sinkhorn": lambda c=cost, p=p, q=q: ot.sinkhorn(q, p, c, GAMMA),
                "POT sinkhorn_log": lambda c=cost, p=p, q=q, at=with_mass: ot.bregman.sinkhorn_log(
                    q[q > 0], p[p > 0], c[at], GAMMA
                ),
                "POT emd": lambda c=cost, p=p, q=q: ot.emd(q, p, c, numItermax=2**31 - 1),
            }
        for name, task in work.items():
            if name not in slow:
                seconds = best(task)
                lines.setdefault(name, []).append((pairs, seconds))
                print(f"{n_users:>6} × {n_items:>6}  {name:<32} {seconds:10.4f} s", flush=True)
                if seconds > LIMIT:
                    slow.add(name)
    draw(lines, unit)


def best(work: Callable[[], object]) -> float:
    """Return the best of three times, or fewer if they take more than five seconds together."""
    times: list[float] = []
    while len(times) < 3 and sum(times) < 5:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def draw(lines: dict[str, list[tuple[int, float]]], unit: float) -> None:
    """Draw one line per solver: prorec's solid, POT's dashed, one colour per problem."""
    colours = {"relaxed": "#d1495b", "sinkhorn": "#00798c", "emd": "#edae49"}
    figure, axis = plt.subplots(figsize=(8.5, 4.6), layout="constrained")
    for name, points in lines.items():
        kind = name.removeprefix("POT ").split()[0].removesuffix("_log")
        is_ours = not name.startswith("POT")
        style = "-" if is_ours else ":" if name.endswith("_log") else "--"
        pairs, seconds = np.array(points).T
        axis.plot(pairs, seconds / unit, style, color=colours[kind], marker="o" if is_ours else "s", ms=4, label=name)
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="pairs, users × items",
        ylabel="time (1 = bare product and exp of 10⁶ pairs)",
        title="Time of one plan",
    )
    axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=120)


if __name__ == "__main__":
    main()

"""How the denoising step grows with users and items on a GPU, in time and memory.

python -m benchmarks.scaling --out build/scaling.json      # on a machine with a GPU
python -m benchmarks.scaling --plot build/scaling.json     # draws docs/figures/gpu_scaling.svg, anywhere
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "gpu_scaling.svg"
USERS = 10_000, 30_000, 100_000, 300_000, 1_000_000, 2_000_000
ITEMS = 1_000, 3_000, 10_000, 30_000, 100_000
OF_ITEMS, OF_USERS, A_USER = 46_110, 300_000, 25


def main() -> None:
    """Measure, or draw what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path)
    given = parser.parse_args()
    if given.plot:
        plot(json.loads(given.plot.read_text()))
        return
    found = measure()
    if given.out:
        given.out.write_text(json.dumps(found, indent=1))


def measure() -> dict[str, Any]:
    """RowTimes and bytes of the step for each size; factors are resident, 64 wide."""
    import torch

    from benchmarks.device_step import made, step_of

    device = torch.device("cuda")
    sizes = [(n, OF_ITEMS) for n in USERS] + [(OF_USERS, n) for n in ITEMS]
    rows = []
    for n_users, n_items in sizes:
        factors, observed = made(n_users, n_items, A_USER * n_users, 64, device)
        seconds, peak = step_of(factors, observed, device)
        rows.append({"users": n_users, "items": n_items, "seconds": seconds, "bytes": peak})
        print(f"{n_users:>9,} users × {n_items:>7,} items  {seconds:8.4f} s  {peak / 1e9:6.2f} GB", flush=True)
        del factors, observed
        torch.cuda.empty_cache()
    return {"device": torch.cuda.get_device_name(), "rows": rows}


def plot(found: dict[str, Any]) -> None:
    """Time by size, and memory by size, both on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "prorec"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for name, fixed, count, colour in (
        ("users", ("items", OF_ITEMS), "46,110 items", "#1b6ca8"),
        ("items", ("users", OF_USERS), "300,000 users", "#d1495b"),
    ):
        rows = sorted((row for row in found["rows"] if row[fixed[0]] == fixed[1]), key=lambda row: int(row[name]))
        pairs = [row["users"] * row["items"] for row in rows]
        label = f"more {name}, {count}"
        axes[0].loglog(pairs, [row["seconds"] for row in rows], "o-", color=colour, label=label)
        axes[1].loglog(pairs, [row["bytes"] / 1e9 for row in rows], "o-", color=colour, label=label)
    span = [row["users"] * row["items"] for row in found["rows"]]
    dense = sorted({min(span), max(span)})
    axes[1].loglog(dense, [4e-9 * n for n in dense], "--", color="#888888", label="a dense plan")
    axes[0].set(xlabel="pairs of a user and an item", ylabel="seconds", title="The step, on one GPU")
    axes[1].set(xlabel="pairs of a user and an item", ylabel="GB on the device", title="Its peak memory")
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=8)
    figure.savefig(FIGURE, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()

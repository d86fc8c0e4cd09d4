"""Growth of the denoising step's time and memory with users and items, on a GPU.

python -m benchmarks.scaling --out build/scaling.json      # on a machine with a GPU
python -m benchmarks.scaling --plot build/scaling.json     # draws docs/figures/gpu_scaling.svg, on any machine
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.figure import make_axes, save_svg

USERS = 10_000, 30_000, 100_000, 300_000, 1_000_000, 2_000_000
ITEMS = 1_000, 3_000, 10_000, 30_000, 100_000
N_ITEMS, N_USERS, CLICKS_PER_USER = 46_110, 300_000, 25


def main() -> None:
    """Measure, or draw an earlier measurement."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="measure, and write the results here")
    parser.add_argument("--plot", type=Path, help="draw the results in this file")
    arguments = parser.parse_args()
    if arguments.plot:
        plot(json.loads(arguments.plot.read_text()))
        return
    results = measure()
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1))


def measure() -> dict[str, Any]:
    """Return seconds and peak bytes of the step for each size; factors of rank 64 stay on the device."""
    import torch

    from benchmarks.device_step import make_problem, measure_step

    device = torch.device("cuda")
    sizes = [(n, N_ITEMS) for n in USERS] + [(N_USERS, n) for n in ITEMS]
    rows = []
    for n_users, n_items in sizes:
        factors, observed = make_problem(n_users, n_items, CLICKS_PER_USER * n_users, 64, device)
        seconds, peak = measure_step(factors, observed, device)
        rows.append({"users": n_users, "items": n_items, "seconds": seconds, "bytes": peak})
        print(f"{n_users:>9,} users × {n_items:>7,} items  {seconds:8.4f} s  {peak / 1e9:6.2f} GB", flush=True)
        del factors, observed
        torch.cuda.empty_cache()
    return {"device": torch.cuda.get_device_name(), "rows": rows}


def plot(results: dict[str, Any]) -> None:
    """Draw time and memory by size, on logarithmic axes."""
    figure, ((seconds_axis, memory_axis),) = make_axes(1, 2, (9, 3.4))
    for name, (fixed, size), fixed_label, color in (
        ("users", ("items", N_ITEMS), "46,110 items", "#1b6ca8"),
        ("items", ("users", N_USERS), "300,000 users", "#d1495b"),
    ):
        rows = sorted((row for row in results["rows"] if row[fixed] == size), key=lambda row: int(row[name]))
        pairs = [row["users"] * row["items"] for row in rows]
        label = f"more {name}, {fixed_label}"
        seconds_axis.loglog(pairs, [row["seconds"] for row in rows], "o-", color=color, label=label)
        memory_axis.loglog(pairs, [row["bytes"] / 1e9 for row in rows], "o-", color=color, label=label)
    span = [row["users"] * row["items"] for row in results["rows"]]
    dense = sorted({min(span), max(span)})
    memory_axis.loglog(dense, [4e-9 * n for n in dense], "--", color="#888888", label="a dense plan")
    seconds_axis.set(xlabel="pairs of a user and an item", ylabel="seconds", title="The step, on one GPU")
    memory_axis.set(xlabel="pairs of a user and an item", ylabel="GB on the device", title="Its peak memory")
    for axis in (seconds_axis, memory_axis):
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=8)
    save_svg(figure, "gpu_scaling")


if __name__ == "__main__":
    main()

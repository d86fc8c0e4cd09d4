"""Draw the cinema's activity and popularity curves beside MovieLens-100k's: `make figures`."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import prorec


def main() -> None:
    """Write cinema_curves.png beside this file."""
    sets = {"MovieLens-100k (≥ 4)": prorec.load_dataset("ml-100k"), "cinema": prorec.load_dataset("cinema")}
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for (name, clicks), colour in zip(sets.items(), ("#555555", "#d1495b"), strict=True):
        activity, popularity = (np.sort(values)[::-1] for values in (clicks.activity, clicks.popularity))
        axes[0].plot(np.linspace(0, 1, len(activity)), activity, color=colour, label=name)
        axes[1].plot(np.linspace(0, 1, len(popularity)), popularity / clicks.n_users, color=colour, label=name)
        share = np.cumsum(popularity) / popularity.sum()
        axes[2].plot(np.linspace(0, 1, len(share)), share, color=colour, label=name)
    axes[0].set(title="Activity", xlabel="users, most active first", ylabel="clicks of the user", yscale="log")
    axes[1].set(title="Popularity", xlabel="items, most popular first", ylabel="share of users", yscale="log")
    axes[2].set(title="Concentration", xlabel="items, most popular first", ylabel="share of all clicks")
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    axes[0].legend(frameon=False)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=120)


if __name__ == "__main__":
    main()

"""What came out of a run on Spark."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prorec._core.checks import check_int
from prorec.engines.spark.sizes import Sizes
from prorec.noise.noise_rate import NoiseRateEstimate
from prorec.report.row_selection import MAX_ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class RoundOnSpark:
    """What came of one round."""

    number: int
    gamma: float
    mass_kept: float
    below_threshold: float
    change: float


@dataclass(frozen=True)
class SparkResult:
    """What came out, as tables that Spark reads from the work folder; so they last as long as that is there."""

    frame: DataFrame
    """The table that was given, with weight, noise_probability and flagged."""
    users: DataFrame
    """user_id, user (its number), kappa, threshold."""
    sizes: Sizes
    history: tuple[RoundOnSpark, ...]
    seconds: float
    settings: dict[str, str]
    """What the denoiser was told, by name."""
    work_dir: str
    noise_rate: NoiseRateEstimate | None
    """How much of the log is noise, where that was looked for by cross-fitting."""
    _pairs: DataFrame

    def noise_table(self) -> DataFrame:
        """One row for each pair, most suspicious first.

        Columns: user, item, weight, noise_probability, flagged, share, threshold; and, where it is cross-fitted,
        percentile_rank and basis. In Spark, an order lasts until the next join: write it, or take the first of it.
        """
        return (
            self._pairs.drop("user", "item", "weight_before")
            .withColumnsRenamed({"user_id": "user", "item_id": "item"})
            .orderBy("noise_probability", ascending=False)
        )

    def summary(self) -> dict[str, Any]:
        """The same numbers as `prorec denoise` says in the end."""
        last = self.history[-1]
        return {
            "rows": self.sizes.rows,
            "users": self.sizes.users,
            "items": self.sizes.items,
            "interactions": self.sizes.pairs,
            "flagged_pairs": self._pairs.where("flagged").count(),
            "gamma": last.gamma,
            "rounds": last.number,
            "mass_kept": last.mass_kept,
            "below_threshold": last.below_threshold,
            "noise_rate": None if self.noise_rate is None else asdict(self.noise_rate),
        }

    def report(self, path: str | Path, *, title: str = "Which clicks are noise?", most: int = MAX_ROWS) -> None:
        """Write a page as `prorec.report.write_report` does, about a sample of users with so many interactions at most.

        The sample is by a hash of users, so it is the same every time. It is what comes to this machine. If nobody has
        so few, it is the user who has fewest.
        """
        from prorec.engines.spark.sample_report import write_sample

        write_sample(self, path, title, check_int("most", most, 1))

"""Results of a run on Spark: tables, rounds, the size of the log, and a report on a sample of users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from prorec._core.checks import check_int
from prorec.denoise.history import Round
from prorec.interactions import Interactions
from prorec.noise.flagging import FlagRule
from prorec.noise.noise_rate import NoiseRateEstimate
from prorec.report.findings import Findings
from prorec.report.page import check_report_path, write_page
from prorec.report.row_selection import MAX_ROWS

if TYPE_CHECKING:
    from prorec.engines.spark.cross_fit import CrossFit


_PAIRS_PER_BLOCK = 250_000


@dataclass(frozen=True)
class RunSize:
    """Size of a log and of the work on it."""

    rows: int
    """Number of rows of the table."""
    pairs: int
    """Number of distinct pairs of a user and an item."""
    users: int
    """Number of users."""
    items: int
    """Number of items."""
    rank: int
    """Width of the factors."""
    partitions: int
    """Number of partitions of users."""

    @property
    def als_blocks(self) -> int:
        """Number of blocks of users and of items for ALS; each step of a sweep runs a task for each."""
        return min(self.partitions, -(-self.pairs // _PAIRS_PER_BLOCK))

    def describe_costs(self, rounds: int, cross_fit: CrossFit | None, *, learns: bool) -> str:
        """Return the expected passes, multiplications and bytes of a run, as text.

        Parameters
        ----------
        rounds : int
            Maximum number of rounds.
        cross_fit : CrossFit or None
            Settings of cross-fitting, if the run does that.
        learns : bool
            Whether ALS learns the factors in each round.

        Returns
        -------
        str
            One line for the log, one for cross-fitting and one for the rounds.
        """
        n_all, n_bytes = self.users * self.items, 4 * self.items
        lines = [
            f"{self.rows:,} rows: {self.pairs:,} distinct interactions of {self.users:,} users with {self.items:,} "
            f"items, in {self.partitions} partitions of about {-(-self.users // self.partitions):,} users."
        ]
        if cross_fit is not None:
            ranks = [model.rank for model in cross_fit.base_models]
            lines.append(
                f"Each of {cross_fit.folds} folds: ALS of rank {' and '.join(map(str, ranks))}; "
                f"{len(ranks)} passes over {n_all:,} pairs, {1.0 * n_all * sum(ranks):.2g} multiplications; "
                f"{_format_bytes(n_bytes * sum(ranks))} of item factors to every executor."
            )
        lines.append(
            f"Each of at most {rounds} rounds: {'ALS' if learns else 'given factors'} of rank {self.rank}; "
            f"2 passes over {n_all:,} pairs, {2.0 * n_all * self.rank:.2g} multiplications; "
            f"{_format_bytes(n_bytes * (self.rank + 2))} of item factors to every executor, "
            f"{_format_bytes(2 * n_bytes * self.partitions)} of sums between executors, "
            f"{_format_bytes(4 * n_bytes)} to the driver; "
            f"about {_format_bytes(2 * self.users * (4 * self.rank + 12) + 12 * self.pairs)} shuffled."
        )
        return "\n".join(lines)


def _format_bytes(number: float) -> str:
    """Return a number of bytes in the largest unit that leaves at least 1."""
    power = min(int(np.log10(max(number, 1)) // 3), 4)
    return f"{number / 1000**power:,.0f} {('bytes', 'kB', 'MB', 'GB', 'TB')[power]}"


@dataclass(frozen=True)
class SparkResult:
    """Result of `SparkProRec.fit`. Its tables are read from the work directory, so they last as long as that does."""

    frame: DataFrame
    """The table that was given, with columns `weight`, `noise_probability` and `flagged`."""
    flag_column: str
    """Name of the column of flags: `flagged`, or `prorec_flagged` if the table already has such a column."""
    weight_column: str
    """Name of the column of weights to train on: `weight`, or `prorec_weight`."""
    users: DataFrame
    """One row per user: `user_id`, `user` (position), `kappa` and `threshold`."""
    size: RunSize
    """Numbers of rows, pairs, users and items."""
    history: tuple[Round, ...]
    """One entry for each round; losses and times are not measured."""
    seconds: float
    """Duration of the run."""
    settings: dict[str, str]
    """Settings of the denoiser, by name."""
    work_dir: str
    """Path of the work directory."""
    noise_rate: NoiseRateEstimate | None
    """Estimated noise rate of the log, if it was cross-fitted."""
    flag_rule: FlagRule
    """Rule by which interactions are flagged."""
    _pairs: DataFrame

    def noise_table(self) -> DataFrame:
        """Return one row per distinct pair, most suspicious first.

        Returns
        -------
        DataFrame
            Columns `user`, `item`, `weight`, `noise_probability`, `flagged`, `share` and `threshold`; with
            cross-fitting also `percentile_rank` and `basis`. Spark keeps the order until the next join.
        """
        return (
            self._pairs.drop("user", "item", "original_weight")
            .withColumnsRenamed({"user_id": "user", "item_id": "item"})
            .orderBy("noise_probability", ascending=False)
        )

    def summary(self) -> dict[str, Any]:
        """Return the main numbers of the run: those that `prorec denoise --json` prints.

        Returns
        -------
        dict
            Sizes, the number of flagged pairs, numbers of the last round, and the noise rate if it was estimated.
        """
        last = self.history[-1]
        return {
            "rows": self.size.rows,
            "users": self.size.users,
            "items": self.size.items,
            "interactions": self.size.pairs,
            "flagged_pairs": self._pairs.where("flagged").count(),
            "gamma": last.gamma,
            "rounds": last.number,
            "mass_kept": last.mass_kept,
            "below_threshold": last.below_threshold,
            "noise_rate": None if self.noise_rate is None else asdict(self.noise_rate),
        }

    def report(
        self,
        path: str | Path,
        *,
        title: str = "Which clicks are noise?",
        max_rows: int = MAX_ROWS,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a report on a sample of users, as `prorec.report.write_report` does for all.

        The sample is chosen by a hash of the users, so it is always the same. Only the sample comes to this machine.

        Parameters
        ----------
        path : str or Path
            The HTML file to write; an existing file is replaced.
        title : str
            Title of the page.
        max_rows : int
            Maximum number of interactions in the sample. If every user has more, it is the user with fewest.
        provenance : dict, optional
            See `prorec.report.write_report`.

        Raises
        ------
        InputError
            If the path is not that of an HTML file in an existing folder.
        """
        check_report_path(path)
        findings = self._collect_findings(self._sample_users(check_int("max_rows", max_rows, 1)))
        gain = "the gain is not measured on Spark"
        write_page(path, findings, gain, title=title, seconds=self.seconds, provenance=provenance)

    def _sample_users(self, max_rows: int) -> DataFrame:
        """Return users, in the order of a hash, with at most `max_rows` interactions in all; at least one user."""
        counts = self._pairs.groupBy("user").count()
        # Users with too many interactions come last, the smallest of them first. More than `max_rows` users never fit.
        order = F.greatest("count", F.lit(max_rows)), F.xxhash64("user"), "user"
        first = counts.orderBy(*order).limit(max_rows).toArrow()
        n_users = max(1, np.count_nonzero(np.cumsum(first["count"].to_numpy()) <= max_rows))
        return F.broadcast(counts.sparkSession.createDataFrame(first.select(["user"]).slice(0, n_users)))

    def _collect_findings(self, sample: DataFrame) -> Findings:
        """Collect the interactions of a sample of users, in the form that reports take."""
        user, item = "cast(user_id as string) as user", "cast(item_id as string) as item"
        others = [name for name in self._pairs.columns if name not in ("user", "item", "user_id", "item_id")]
        table = self._pairs.join(sample, "user").selectExpr(user, item, *others).toArrow()
        users = self.users.join(sample, "user").selectExpr(user, "kappa", "threshold").toArrow()
        interactions = Interactions.from_table(
            pa.table({"user": table["user"], "item": table["item"], "weight": table["original_weight"]})
        )
        # From the order in which rows arrived to that of the interactions.
        order = np.argsort(
            interactions.pair_positions(
                interactions.user_positions(table["user"].to_pylist()),
                interactions.item_positions(table["item"].to_pylist()),
            )
        )
        columns = {name: table[name].to_numpy(zero_copy_only=False)[order] for name in others}
        user_order = np.argsort(interactions.user_positions(users["user"].to_pylist()))
        settings, size = self.settings, self.size
        note = ""
        if len(interactions) < size.pairs:
            note = (
                f"This is a sample, all interactions of {interactions.n_users:,} of {size.users:,} users: counts, "
                f"popularity and pictures are the sample's. The whole log has {size.pairs:,} interactions with "
                f"{size.items:,} items."
            )
        return Findings(
            interactions=interactions,
            noise_probability=columns["noise_probability"],
            flagged=columns["flagged"],
            weights=columns["weight"],
            row_shares=columns["share"],
            kappa=users["kappa"].to_numpy()[user_order],
            thresholds=users["threshold"].to_numpy()[user_order],
            percentile_ranks=columns.get("percentile_rank"),
            noise_rate=self.noise_rate,
            flag_rule=self.flag_rule,
            lam=float(settings["lam"]),
            transport="relaxed",
            marginals=settings["marginals"],
            threshold=settings["threshold"],
            history=self.history,
            settings=settings,
            n_items=size.items,
            sample_note=note,
        )

"""One run of Algorithm 1 on Spark: the driver's side, which hands partitions of users to tasks.

Each step that takes long is written to the work directory. A lost executor costs its part of a step, and a lost
driver costs the step that it was at.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from prorec._core.errors import InputError
from prorec._core.progress import Progress
from prorec.denoise.history import Round
from prorec.engines.spark import block_tasks
from prorec.engines.spark.cross_fit import CrossFitResult, CrossFitRun
from prorec.engines.spark.flag_cutoff import find_cutoff
from prorec.engines.spark.interaction_table import (
    InteractionTable,
    UserLists,
    broadcast_if_small,
    choose_name,
    number_ids,
    quote,
    sort_ids,
)
from prorec.engines.spark.spark_factors import check_factor_values
from prorec.engines.spark.spark_result import RunSize, SparkResult
from prorec.engines.spark.task_arrays import ArrayBroadcast, ItemFactors
from prorec.engines.spark.work_directory import WorkDirectory
from prorec.noise.flagging import FlagRule, keeps_fdr
from prorec.noise.training_weights import POWER
from prorec.transport.blocks import check_memory
from prorec.transport.gamma import MAX_USERS, gamma_from_squares, parse_gamma

if TYPE_CHECKING:
    from prorec.engines.spark.spark_denoiser import SparkProRec


_PARTITIONS_PER_CORE = 4
_FEW_ROWS = 1_000_000


class SparkRun:
    """One run, from a table of interactions to a `SparkResult`.

    Parameters
    ----------
    table : InteractionTable
        The interactions.
    settings : SparkProRec
        Checked settings.
    factors : tuple of DataFrame or None
        Factors of users and items, if ALS is not to learn them.
    work_dir : str or None
        A directory that all executors reach; None for a temporary directory, if Spark runs on one machine.
    resume : bool
        Continue an interrupted run from its work directory.
    progress : Progress or None
        Called when a step starts and when it ends.

    Raises
    ------
    InputError
        If there is no work directory on a cluster, or it belongs to another run.
    """

    def __init__(
        self,
        table: InteractionTable,
        settings: SparkProRec,
        factors: tuple[DataFrame, DataFrame] | None,
        work_dir: str | None,
        resume: bool,
        progress: Progress | None,
    ) -> None:
        self.start = time.perf_counter()
        self.table, self.settings, self.factors = table, settings, factors
        spark = table.frame.sparkSession
        context = spark.sparkContext
        if work_dir is None:
            if not str(context.master).startswith("local"):
                raise InputError(
                    "work_dir must name a directory that all executors reach, such as one on hdfs: or s3a:; got None"
                )
            work_dir = tempfile.mkdtemp(prefix="prorec-spark-")
        self.n_partitions = settings.partitions or _PARTITIONS_PER_CORE * context.defaultParallelism
        # A table that was read from files is identified by their names, any other by its columns alone.
        frames = [table.frame, *(factors or ())]
        sources = json.dumps([[frame.schema.json(), sorted(frame.inputFiles())] for frame in frames])
        digest = hashlib.sha256(sources.encode()).hexdigest()
        identity = [str(settings), table.user, table.item, table.weight, digest]
        self.directory = WorkDirectory(spark, work_dir, identity, resume=resume, progress=progress)
        self.broadcast = ArrayBroadcast(spark, settings.memory)
        self.cross_fit_result: CrossFitResult | None = None

    def run(self, show_estimate: Callable[[str], object] | None) -> SparkResult:
        """Run all steps.

        Parameters
        ----------
        show_estimate : callable or None
            Called with the expected costs, as text, once the size of the log is known.

        Returns
        -------
        SparkResult

        Raises
        ------
        InputError
            If the interactions or the factors cannot be used.
        """
        settings = self.settings
        self._prepare()
        if show_estimate is not None:
            learns = self.factors is None
            show_estimate(self.size.describe_costs(settings.rounds, settings.cross_fit, learns=learns))
        if settings.cross_fit is not None:
            cross_fit = CrossFitRun(settings.cross_fit, self.lists, self.size, self.directory, self.broadcast)
            self.cross_fit_result = cross_fit.run(self._collect_lists(1))
        history = [self._run_round(1)]
        while history[-1].number < settings.rounds and history[-1].change > settings.tolerance:
            history.append(self._run_round(history[-1].number + 1))
        result = self._assemble(history)
        self.directory.start_step(None)
        return result

    # ── users and items by position ─────────────────────────────────────────────────────────────────

    def _prepare(self) -> None:
        """Check all values, give users and items their positions, and measure the log."""
        directory = self.directory
        # First, because a fault in the factors should not be found after an hour's work.
        rank = self.settings.model.rank if self.factors is None else check_factor_values(self.factors)
        n_rows = directory.cached_json("number of rows", self.table.count_rows)
        if self.settings.partitions is None and n_rows <= _FEW_ROWS:  # a task takes longer to start than to run
            self.n_partitions = max(2, self.n_partitions // _PARTITIONS_PER_CORE)
        pairs = directory.cached_table("distinct pairs", self.table.distinct_pairs)
        self.users, n_users = self._number("user", pairs)
        self.items, n_items = self._number("item", pairs)
        joined = pairs.join(self.users, "user_id").join(broadcast_if_small(self.items, n_items), "item_id")
        self.interactions = directory.cached_table(
            "interactions by position",
            lambda: joined.select("user", "item", "weight", "user_id", "item_id"),
        )
        n_pairs, self.total_weight, max_activity, self.n_active = directory.cached_json(
            "sums of weights", self._measure
        )
        if max_activity < 2:
            raise InputError(
                "every user has one interaction only, so there is nothing to compare it with; "
                "use a log in which some users have two or more"
            )
        self.lists = UserLists(self.n_partitions, max_activity)
        self.size = RunSize(n_rows, n_pairs, n_users, n_items, rank, self.n_partitions)
        check_memory(self.settings.memory, n_items)

    def _number(self, role: str, pairs: DataFrame) -> tuple[DataFrame, int]:
        """Return the positions of all users or items, and their number; those of given factors if there are any."""
        column, source = f"{role}_id", pairs
        if self.factors is not None:
            source = self.factors[("user", "item").index(role)].selectExpr(f"{role} as {column}")
        ids = self.directory.cached_table(f"{role} ids in order", lambda: sort_ids(source, column))
        table, count = number_ids(ids, column, role)
        if self.factors is not None:
            unknown = pairs.select(column).distinct().join(table, column, "left_anti").limit(1).collect()
            if unknown:
                raise InputError(f"factors must cover all {role}s of the table; {unknown[0][0]!r} has none. Add them.")
        return table, count

    def _measure(self) -> list[float]:
        """Return the number of pairs, the total weight, the largest activity, and the number of users with weight."""
        by_user = self.interactions.groupBy("user").agg({"*": "count", "weight": "sum"})
        totals = by_user.selectExpr(
            "sum(`count(1)`)", "sum(`sum(weight)`)", "max(`count(1)`)", "count_if(`sum(weight)` > 0)"
        ).first()
        assert totals is not None
        return [int(totals[0]), float(totals[1]), int(totals[2]), int(totals[3])]

    # ── one round ───────────────────────────────────────────────────────────────────────────────────

    def _run_round(self, number: int) -> Round:
        """Run one round: factors, sums over all pairs, thresholds and new weights."""
        step = f"round {number}"
        self.matched = self.directory.cached_table(f"{step}: thresholds and new weights", lambda: self._relabel(number))
        return Round.from_dict(
            self.directory.cached_json(f"{step}: history", lambda: self._summarize(number).to_dict())
        )

    def _relabel(self, number: int) -> DataFrame:
        """Return the thresholds, shares and new weights of all users (`block_tasks.MATCHED`)."""
        directory, settings, size, step = self.directory, self.settings, self.size, f"round {number}"
        users, items = self._make_factors(number)
        users = users.repartition(self.n_partitions, "user")
        directory.start_step(f"{step}: broadcast of item factors")
        item_factors = self.broadcast.send_factors(f"items-{number}", items, size.items, size.rank)
        gamma = directory.cached_json("gamma", lambda: self._choose_gamma(users, item_factors))
        sums = directory.cached_table(
            f"{step}: sums over all pairs",
            lambda: users.mapInArrow(
                partial(block_tasks.sum_scores, items=item_factors, gamma=gamma), block_tasks.SUMS
            ),
        )
        directory.start_step(f"{step}: sums by item")
        potential = self.broadcast.send(f"potential-{number}", self._compute_item_potential(sums))
        lists = self._collect_lists(number)
        if self.cross_fit_result is not None:
            found = self.cross_fit_result
            weight = F.pow(1 - F.col("noise_probability"), F.lit(POWER))
            pairs = found.pairs.withColumn("factor", weight if found.noise_rate.is_identified else F.lit(1.0))
            lists = lists.join(self.lists.collect(pairs, "factor", "factors").drop("items"), "user")
        # A merge join keeps all partitions. Other joins of a small table leave few, and the pass over all pairs would
        # then run on few cores.
        rows = users.join(sums.where("user is not null").select("user", "row_sum").hint("merge"), "user").join(
            lists.hint("merge"), "user", "left"
        )
        types = dict(lists.drop("user").dtypes)
        rows = rows.select(
            "user",
            "features",
            "row_sum",
            *(F.coalesce(name, F.array().cast(spark_type)).alias(name) for name, spark_type in types.items()),
        )
        task = partial(
            block_tasks.match_and_relabel,
            items=item_factors,
            gamma=gamma,
            item_potential=potential,
            total_weight=self.total_weight,
            n_users=size.users,
            settings=settings,
        )
        directory.start_step(f"{step}: thresholds and new weights")
        return rows.mapInArrow(task, block_tasks.MATCHED)

    def _make_factors(self, number: int) -> tuple[DataFrame, DataFrame]:
        """Return the factors of users and items of a round, by position."""
        if self.factors is not None:
            users, items = (
                self.directory.cached_table(f"factors of {role}s by position", partial(_replace_ids, table, ids, role))
                for role, table, ids in zip(("user", "item"), self.factors, (self.users, self.items), strict=True)
            )
            return users, items
        model = self.settings.model
        if number == 1:
            interactions = self.interactions.select("user", "item", "weight")
        else:
            interactions = self.lists.explode(self.matched, {"weights": "weight"})
        users, items = model.fit_cached(interactions, self.size.als_blocks, self.directory, f"round {number}")
        n_learned = self.n_active if number == 1 else users.count()
        if n_learned < self.size.users:  # a user without any weight has no factors
            users = model.fill_missing(self.users.select("user").join(users, "user", "left"))
        return users, items

    def _collect_lists(self, number: int) -> DataFrame:
        """Return one row per user: items in order, the weights before the round, and the original weights."""
        if number > 1:
            lists = self.matched.select("user", "items", "weights", "original_weights")
            return lists.repartition(self.n_partitions, "user")
        lists = self.lists.collect(self.interactions, "weight", "weights")
        return lists.withColumn("original_weights", F.col("weights"))

    def _choose_gamma(self, users: DataFrame, items: ItemFactors) -> float:
        """Return γ; the automatic one comes from the same users as on one machine."""
        multiple = parse_gamma(self.settings.gamma)
        if multiple is None:
            return float(self.settings.gamma)
        chosen = np.linspace(0, self.n_active - 1, min(MAX_USERS, self.n_active)).astype(np.intp).tolist()
        if self.n_active < self.size.users:  # positions among the users with weight are not positions among all
            active = self.interactions.where("weight > 0").select("user").distinct().sort("user").rdd
            wanted = set(chosen)
            chosen = active.zipWithIndex().filter(lambda row: row[1] in wanted).map(lambda row: row[0][0]).collect()
        spreads = users.where(users["user"].isin(chosen)).mapInArrow(
            partial(block_tasks.measure_spread, items=items), block_tasks.SPREADS
        )
        totals = spreads.selectExpr("sum(squares)", "sum(n_users)", "max(largest)").first()
        assert totals is not None
        return multiple * gamma_from_squares(float(totals[0]), int(totals[1]), float(totals[2]))

    def _compute_item_potential(self, sums: DataFrame) -> NDArray[np.float64]:
        """Return A_j = log p_j − C_j (Eq. 7). Only C and p come to the driver, one number for each item."""
        parts = sums.where("column_sums is not null").select("column_sums")
        width = self.n_partitions
        while width > 1:
            width = int(np.ceil(np.sqrt(width))) if width > 4 else 1
            parts = parts.repartition(width).mapInArrow(block_tasks.merge_column_sums, "column_sums binary")
        (row,) = parts.collect()
        column_sums = np.frombuffer(row["column_sums"])
        if self.settings.marginals == "uniform":
            return np.asarray(-np.log(self.size.items) - column_sums)
        popularity = self.interactions.groupBy("item").agg({"weight": "sum"}).toArrow()
        mass = np.zeros(self.size.items)
        mass[popularity.column("item").to_numpy()] = popularity.column("sum(weight)").to_numpy()
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(mass / mass.sum()) - column_sums)

    def _summarize(self, number: int) -> Round:
        """Return the record of a round, without losses and times, which Spark does not measure."""
        names = ("weight_after", "weight_before", "original_weight", "change", "n_below")
        quartiles = F.expr("percentile(kappa, array(0.25, 0.5, 0.75)) filter (where size(items) > 0)")
        totals = self.matched.agg(quartiles, *(F.sum(name) for name in names)).first()
        assert totals is not None
        after, before, original, change, n_below = totals[1:]
        return Round(
            number,
            loss_before=None,
            loss_relabeled=None,
            loss_refitted=None,
            gamma=self.directory.read_json("gamma"),
            mass_kept=after / original,
            below_threshold=n_below / self.size.pairs,
            kappa_quartiles=tuple(totals[0]),
            change=change / max(before, np.finfo(np.float64).tiny),
            transport_seconds=0.0,
            fit_seconds=0.0,
        )

    # ── the result ──────────────────────────────────────────────────────────────────────────────────

    def _assemble(self, history: list[Round]) -> SparkResult:
        """Put weights, noise probabilities and flags beside the ids, and join them to the caller's table."""
        directory, table = self.directory, self.table
        cutoff = directory.cached_json("cut-off of the flags", self._find_cutoff)
        names = {"weights": "weight", "original_weights": "original_weight", "shares": "share"}
        if self.cross_fit_result is None:
            names["noise_probabilities"] = "noise_probability"
        # Users get their ids while there is one row for each, so that no user's interactions meet in one task.
        pairs = self.lists.explode(self.matched.join(self.users, "user"), names, "threshold", "user_id")
        if self.cross_fit_result is not None:
            pairs = pairs.join(self.cross_fit_result.pairs, ["user", "item"])
        pairs = pairs.withColumn("flagged", F.col("noise_probability").cast("double") > F.lit(float(cutoff)))
        items = broadcast_if_small(self.items, self.size.items)
        pairs = directory.cached_table("results by id", partial(pairs.join, items, "item"))
        columns = table.frame.columns
        new = {name: choose_name(name, columns) for name in ("weight", "noise_probability", "flagged")}
        results = pairs.select(*(F.col(name).alias(f"__prorec_{name}") for name in ("user_id", "item_id", *new)))
        # A merge join, because the compressed files of this large table may look small enough to be broadcast.
        frame = table.frame.join(
            results.hint("merge"),
            (F.col(quote(table.user)) == F.col("__prorec_user_id"))
            & (F.col(quote(table.item)) == F.col("__prorec_item_id")),
        ).select(
            *(table.frame[quote(name)] for name in columns),
            *(F.col(f"__prorec_{name}").alias(new[name]) for name in new),
        )
        settings = {each.name: str(getattr(self.settings, each.name)) for each in fields(self.settings)}
        if self.factors is not None:
            settings["model"] = "given factors"
        return SparkResult(
            frame=frame,
            flag_column=new["flagged"],
            weight_column=new["weight"],
            users=self.matched.select("user", "kappa", "threshold").join(self.users, "user"),
            size=self.size,
            history=tuple(history),
            seconds=time.perf_counter() - self.start,
            settings=settings,
            work_dir=directory.path,
            noise_rate=None if self.cross_fit_result is None else self.cross_fit_result.noise_rate,
            flag_rule=self.flag_rule,
            _pairs=pairs,
        )

    @property
    def flag_rule(self) -> FlagRule:
        """Rule by which interactions are flagged."""
        return self.settings.flag_rule(is_cross_fitted=self.cross_fit_result is not None)

    def _find_cutoff(self) -> float:
        """Return the largest noise probability that is not flagged."""
        rule, found = self.flag_rule, self.cross_fit_result
        if found is None:
            probabilities = self.matched.select(F.explode("noise_probabilities").alias("noise_probability"))
        else:
            probabilities = found.pairs.select("noise_probability")
            if "fdr" in rule:
                low_ratio = found.noise_rate.low_ratio
                return find_cutoff(probabilities, lambda n, n_wrong: keeps_fdr(n, n_wrong, rule["fdr"], low_ratio))
        limit = int(rule["fraction"] * self.size.pairs)
        return find_cutoff(probabilities, lambda n, n_wrong: n <= limit)


def _replace_ids(factors: DataFrame, ids: DataFrame, role: str) -> DataFrame:
    """Return given factors with positions in place of ids, in single precision."""
    columns = factors.selectExpr(f"{role} as {role}_id", "cast(features as array<float>) as features")
    return columns.join(ids, f"{role}_id").select(role, "features")

"""One run of Algorithm 1 on Spark: the same block step, driven over partitions of users.

Everything that takes long is written to the work folder, whole or not at all, and read back: so an executor that is
lost costs its own part of a step, and a driver that is lost costs the step it was at.
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

from prorec._core.errors import InputError
from prorec.denoise.weighting import RANDOM_RATE, plan_noise_probability
from prorec.engines.spark import block_tasks
from prorec.engines.spark.broadcast_files import Shipping
from prorec.engines.spark.cross_fit import Judgement, cross_fitted
from prorec.engines.spark.flag_cutoff import cutoff
from prorec.engines.spark.interaction_table import Clicks, free_name, numbered, placed, quoted, small
from prorec.engines.spark.lists import Lists
from prorec.engines.spark.sizes import Sizes
from prorec.engines.spark.spark_result import RoundOnSpark, SparkResult
from prorec.engines.spark.work_directory import WorkDirectory
from prorec.transport.blocks import check_memory
from prorec.transport.gamma import MAX_USERS, gamma_from_squares, parse_gamma

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from prorec.engines.spark.spark_denoiser import SparkProRec

_FACTORS = 64e6  # bytes of item factors: of fewer, a task has copies that are multiplied faster, three times as large


class Run:
    """One run, from a table to a table."""

    def __init__(
        self,
        clicks: Clicks,
        settings: SparkProRec,
        given: tuple[DataFrame, DataFrame] | None,
        work_dir: str | None,
        resume: bool,
        show_estimate: Callable[[str], object] | None,
    ) -> None:
        self.clicks, self.settings, self.given, self.show_estimate = clicks, settings, given, show_estimate
        self.judgement: Judgement | None = None
        """What cross-fitting found, if that was asked for."""
        self.spark = clicks.frame.sparkSession
        context = self.spark.sparkContext
        if work_dir is None:
            if not str(context.master).startswith("local"):
                raise InputError("work_dir must name a folder that all executors reach, such as one on hdfs: or s3a:")
            work_dir = tempfile.mkdtemp(prefix="prorec-spark-")
        self.n_partitions = settings.partitions or 4 * context.defaultParallelism
        # Not every table comes from files; of one that does, those tell it from another of the same columns.
        frames = [clicks.frame, *(given or ())]
        sources = [[frame.schema.json(), sorted(frame.inputFiles())] for frame in frames]
        told_apart = hashlib.sha256(json.dumps(sources).encode()).hexdigest()
        identity = [str(settings), clicks.user, clicks.item, clicks.weight, told_apart]
        self.folder = WorkDirectory(self.spark, work_dir, identity, resume=resume)
        self.shipping = Shipping(self.spark)

    def go(self) -> SparkResult:
        """All of it."""
        self._begin = time.perf_counter()
        self._number()
        how = self.settings.cross_fit
        if how is not None:
            grouped = self._grouped(1)
            self.judgement = cross_fitted(
                how, grouped, self.lists, self.sizes, self.folder, self.shipping, self._shipped
            )
        history = [self._round(1)]
        while history[-1].number < self.settings.rounds and history[-1].change > self.settings.tolerance:
            history.append(self._round(history[-1].number + 1))
        return self._put_together(history)

    # ── users and items by number ───────────────────────────────────────────────────────────────────

    def _number(self) -> None:
        folder = self.folder
        # Before anything else: what is wrong with factors should not be found out an hour later.
        rank = self.settings.model.rank if self.given is None else self._given_rank()
        rows = folder.number("rows", "looking at every row", self.clicks.check_values)
        pairs = folder.table("pairs", "each pair once", self.clicks.pairs)
        sources = (pairs, pairs) if self.given is None else self._ids_of_factors()
        tables, counts = [], []
        for name, what, source in zip(("user", "item"), ("users", "items"), sources, strict=True):
            ids = folder.table(f"{what}-in-order", f"{what} in order", partial(placed, source, name))
            table, count = numbered(ids, name, what)
            tables.append(table)
            counts.append(count)
        self.users, self.items = tables
        if self.given is not None:
            self._check_known(pairs)
        joined = pairs.join(self.users, "user_id").join(small(self.items, counts[1]), "item_id")
        self.indexed = folder.table(
            "clicks", "clicks by number", lambda: joined.select("user", "item", "weight", "user_id", "item_id")
        )
        n_pairs, total, busiest, self.n_active = folder.number("total", "adding up weights", self._total)
        self.lists = Lists.of(self.n_partitions, busiest)
        if busiest < 2:
            raise InputError(
                "every user has one interaction only: there is nothing to compare it with, and a threshold of the "
                "user's own means nothing"
            )
        self.sizes = Sizes(rows, n_pairs, counts[0], counts[1], rank, self.n_partitions)
        self.total = total
        check_memory(self.settings.memory, counts[1])
        if self.show_estimate is not None:
            self.show_estimate(
                self.sizes.plan(self.settings.rounds, self.settings.cross_fit, learns=self.given is None)
            )

    def _total(self) -> list[float]:
        by_user = self.indexed.groupBy("user").agg({"*": "count", "weight": "sum"})
        found = by_user.selectExpr(
            "sum(`count(1)`)", "sum(`sum(weight)`)", "max(`count(1)`)", "count_if(`sum(weight)` > 0)"
        ).first()
        assert found is not None
        return [int(found[0]), float(found[1]), int(found[2]), int(found[3])]

    def _ids_of_factors(self) -> tuple[DataFrame, DataFrame]:
        assert self.given is not None
        users, items = self.given
        return users.selectExpr("user as user_id"), items.selectExpr("item as item_id")

    def _check_known(self, pairs: DataFrame) -> None:
        for name, table in (("user", self.users), ("item", self.items)):
            strangers = pairs.select(f"{name}_id").distinct().join(table, f"{name}_id", "left_anti").limit(1).collect()
            if strangers:
                raise InputError(f"there are {name}s without factors: {strangers[0][0]!r}, say")

    def _given_rank(self) -> int:
        assert self.given is not None
        widths = set()
        for name, frame in zip(("user", "item"), self.given, strict=True):
            found = frame.selectExpr(
                "min(size(features))",
                "max(size(features))",
                "count(*)",
                f"count(distinct {name})",
                # In single precision, as they are used.
                "count_if(coalesce(exists(features, x -> not coalesce(abs(float(x)) < float('inf'), false)), true))",
            )
            least, most, rows, kinds, lost = found.first() or (0, 0, 0, 0, 0)
            if lost:
                raise InputError(f"factors must be finite numbers; those of {lost:,} of {rows:,} {name}s are not")
            if rows != kinds:
                raise InputError(f"factors of {name}s have {rows:,} rows for {kinds:,} {name}s: each must have one")
            widths |= {least, most}
        if len(widths) != 1 or not all(widths) or min(widths) < 1:
            raise InputError(f"all factors must be of one width; got {', '.join(map(str, sorted(widths, key=str)))}")
        return int(widths.pop())

    # ── one round ───────────────────────────────────────────────────────────────────────────────────

    def _round(self, which: int) -> RoundOnSpark:
        folder = self.folder
        matched = folder.table(
            f"round-{which}/matched", f"round {which}: thresholds and new weights", partial(self._relabelled, which)
        )
        kept, below, change = folder.number(
            f"round-{which}/history",
            f"round {which}: adding up what is left",
            partial(self._what_changed, matched),
        )
        self.matched = matched
        return RoundOnSpark(which, folder.known("gamma"), kept, below, change)

    def _factors(self, which: int) -> tuple[DataFrame, DataFrame]:
        """(user, features) and (item, features), by number."""
        if self.given is not None:
            names = [f"round-{which}/factors-of-{what}" for what in ("users", "items")]
            tables = zip(names, self.given, (self.users, self.items), ("user", "item"), strict=True)
            users, items = (
                self.folder.table(
                    name,
                    f"factors of {kind}s by number",
                    lambda frame=frame, ids=ids, kind=kind: (
                        frame.selectExpr(  # type: ignore[misc]
                            f"{kind} as {kind}_id", "cast(features as array<float>) as features"
                        )
                        .join(ids, f"{kind}_id")
                        .select(kind, "features")
                    ),
                )
                for name, frame, ids, kind in tables
            )
            return users, items
        model = self.settings.model
        users, items = model.written(
            self._weighted(which), self.n_partitions, self.folder, f"round-{which}", f"round {which}"
        )
        if users.count() < self.sizes.users:  # somebody has no weight left
            users = model.filled(self.users.select("user").join(users, "user", "left"))
        return users, items

    def _weighted(self, which: int) -> DataFrame:
        """Clicks with the weights that this round begins with."""
        if which == 1:
            return self.indexed.select("user", "item", "weight")
        return self.lists.exploded(self.matched, ["weights"]).withColumnRenamed("weights", "weight")

    def _grouped(self, which: int) -> DataFrame:
        """One row for each user: items in order, weights now and in the beginning."""
        from pyspark.sql import functions as F

        if which > 1:
            return self.matched.select("user", "items", "weights", "originals").repartition(self.n_partitions, "user")
        rows = self.lists.grouped(self.indexed, "weight").withColumnRenamed("values", "weights")
        return rows.withColumn("originals", F.col("weights"))

    def _relabelled(self, which: int) -> DataFrame:
        """The plan, the thresholds, the new weights."""
        from pyspark.sql import functions as F

        folder, settings, sizes = self.folder, self.settings, self.sizes
        users, items = self._factors(which)
        users = users.repartition(self.n_partitions, "user")
        folder.say(f"round {which}: sending factors of items")
        names = self.shipping.send_factors(f"items-{which}", items, sizes.items, sizes.rank)
        gamma = folder.number("gamma", "choosing γ", lambda: self._gamma(self._shipped(names, sizes.rank), users))
        shipped = self._shipped(names, sizes.rank, gamma)
        sums = folder.table(
            f"round-{which}/sums",
            f"round {which}: sums over all pairs",
            lambda: users.mapInArrow(partial(block_tasks.sums, shipped=shipped), block_tasks.SUMS),
        )
        grouped = self._grouped(which)
        lists = [("items", "int"), ("weights", "float"), ("originals", "float")]
        if settings.weighting != "plan":
            grouped = grouped.join(self._trusted(), "user")
            lists.append(("trusted", "float"))
        potential = self.shipping.send(f"potential-{which}", self._item_potential(which, sums))
        everything = (
            # Merged: whatever else Spark does with a table that is small, it leaves fewer partitions, and the pass
            # over all pairs is then done by few cores.
            users.join(sums.where("user is not null").select("user", "row_sum").hint("merge"), "user")
            .join(grouped.hint("merge"), "user", "left")
            .select(
                "user",
                "features",
                "row_sum",
                *(F.coalesce(name, F.array().cast(f"array<{kind}>")).alias(name) for name, kind in lists),
            )
        )
        work = partial(
            block_tasks.matched,
            shipped=shipped,
            potential=potential,
            total=self.total if settings.marginals == "popularity" else None,
            n_users=sizes.users,
            threshold=settings.threshold,
            beta=settings.beta,
            lam=settings.lam,
            anchored=settings.relabel_from == "original",
            by=settings.weighting,
        )
        folder.say(f"round {which}: thresholds and new weights")
        return everything.mapInArrow(work, block_tasks.MATCHED)

    def _trusted(self) -> DataFrame:
        """One row for each user: 1 − the probability of noise, in the order of the items."""
        from pyspark.sql import functions as F

        assert self.judgement is not None, "the settings were checked"
        trusted = self.judgement.pairs.select("user", "item", (1 - F.col("noise_probability")).alias("trusted"))
        return self.lists.grouped(trusted, "trusted").select("user", F.col("values").alias("trusted"))

    def _shipped(self, names: tuple[str, ...], rank: int, gamma: float = 1.0) -> block_tasks.Shipped:
        """Item factors that have been sent, and how much of a product with them a task may hold."""
        return block_tasks.Shipped(names, gamma, self.settings.memory, max(1, int(_FACTORS / (4 * rank))))

    def _gamma(self, shipped: block_tasks.Shipped, users: DataFrame) -> float:
        """γ, or the automatic one: from the same users that one machine takes."""
        times = parse_gamma(self.settings.gamma)
        if times is None:
            return float(self.settings.gamma)
        chosen = np.linspace(0, self.n_active - 1, min(MAX_USERS, self.n_active)).astype(np.intp).tolist()
        if self.n_active < self.sizes.users:  # somebody has no interaction, or none that has any weight
            active = self.indexed.where("weight > 0").select("user").distinct()
            in_order = self.folder.table(
                "active", "users with interactions", lambda: placed(active.selectExpr("user as active_id"), "active")
            )
            table, _ = numbered(in_order, "active", "users")
            chosen = [int(row[0]) for row in table.where(table["active"].isin(chosen)).select("active_id").collect()]
        spread = users.where(users["user"].isin(chosen)).mapInArrow(
            partial(block_tasks.spread, shipped=shipped), block_tasks.SPREAD
        )
        found = spread.selectExpr("sum(squares)", "sum(users)", "max(largest)").first()
        assert found is not None
        return times * gamma_from_squares(float(found[0]), int(found[1]), float(found[2]))

    def _item_potential(self, which: int, sums: DataFrame) -> NDArray[np.float64]:
        """A_j = log p_j − C_j: the two vectors over items that come to the driver."""
        parts = sums.where("column_sums is not null").select("column_sums")
        width = self.n_partitions
        self.folder.say(f"round {which}: sums by item, up the tree")
        while width > 1:
            width = int(np.ceil(np.sqrt(width))) if width > 4 else 1
            parts = parts.repartition(width).mapInArrow(block_tasks.joined_sums, "column_sums binary")
        (row,) = parts.collect()
        by_item = np.frombuffer(row["column_sums"])
        if self.settings.marginals == "uniform":
            return np.asarray(-np.log(self.sizes.items) - by_item)
        popular = self.indexed.groupBy("item").agg({"weight": "sum"}).toArrow()
        mass = np.zeros(self.sizes.items)
        mass[popular.column("item").to_numpy()] = popular.column("sum(weight)").to_numpy()
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(mass / mass.sum()) - by_item)

    def _what_changed(self, matched: DataFrame) -> list[float]:
        """The weight kept, the share of pairs below their threshold, and the change against what came in."""
        from pyspark.sql import functions as F

        found = matched.agg(*(F.sum(name) for name in ("kept", "original", "before", "changed", "below"))).first()
        assert found is not None
        kept, original, before, changed, below = (float(each or 0) for each in found)
        return [kept / original, below / self.sizes.pairs, changed / max(before, np.finfo(np.float64).tiny)]

    # ── what comes out ──────────────────────────────────────────────────────────────────────────────

    def _cutoff(self) -> float:
        """The largest noise probability that is not flagged: by share, or, where it means something, by `fdr`."""
        sizes, settings = self.sizes, self.settings
        if self.judgement is not None:
            probabilities = self.judgement.pairs.select("noise_probability")
            return cutoff(probabilities, None, lambda number, wrong: wrong <= settings.fdr * number)
        probability = partial(plan_noise_probability, n_items=sizes.items)
        most = int(settings.flag_fraction * sizes.pairs)
        return cutoff(self.matched.select("shares"), probability, lambda number, wrong: number <= most)

    def _put_together(self, history: list[RoundOnSpark]) -> SparkResult:
        from pyspark.sql import functions as F

        folder, sizes, clicks = self.folder, self.sizes, self.clicks
        limit = folder.number("flags", "how suspicious is suspicious", self._cutoff)
        # Users have their ids again while there is one row for each: no user's interactions go to one place.
        rows = self.lists.exploded(
            self.matched.join(self.users, "user"), ["weights", "originals", "shares"], "threshold", "user_id"
        )
        pairs = rows.withColumnsRenamed({"weights": "weight", "originals": "weight_before", "shares": "share"})
        if self.judgement is None:
            # The same in single precision as one machine has it, so that what is flagged here is flagged there.
            likely = F.lit(1) / (
                F.lit(1) + F.lit((1 - RANDOM_RATE) / RANDOM_RATE) * sizes.items * F.col("share").cast("double")
            )
            pairs = pairs.withColumn("noise_probability", likely.cast("float"))
        else:
            pairs = pairs.join(self.judgement.pairs, ["user", "item"])
        pairs = pairs.withColumn("flagged", F.col("noise_probability").cast("double") > F.lit(float(limit)))
        named = pairs.join(small(self.items, sizes.items), "item")
        found = folder.table("found", "what was found, by id", lambda: named)
        taken = clicks.frame.columns
        own = {name: free_name(name, taken) for name in ("weight", "noise_probability", "flagged")}
        keyed = found.select(
            F.col("user_id").alias("__prorec_user"),
            F.col("item_id").alias("__prorec_item"),
            *(F.col(name).alias(f"__prorec_{name}") for name in own),
        )
        # Merged: as files, a table with a row for each pair may look small enough to be sent to every executor whole.
        frame = clicks.frame.join(
            keyed.hint("merge"),
            (F.col(quoted(clicks.user)) == F.col("__prorec_user"))
            & (F.col(quoted(clicks.item)) == F.col("__prorec_item")),
        ).select(
            *(clicks.frame[quoted(name)] for name in taken),
            *(F.col(f"__prorec_{name}").alias(own[name]) for name in own),
        )
        folder.say("writing the result")
        people = self.matched.select("user", "kappa", "threshold").join(self.users, "user")
        seconds = time.perf_counter() - self._begin
        told = {each.name: str(getattr(self.settings, each.name)) for each in fields(self.settings)}
        if self.given is not None:
            told["model"] = "factors that were given"
        share = None if self.judgement is None else self.judgement.share
        return SparkResult(frame, people, sizes, tuple(history), seconds, told, folder.path, share, found)

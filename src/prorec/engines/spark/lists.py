"""Interactions of each user as lists in one row, and back to one row for each: without a task for one user alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LONG = 20_000  # interactions: a list of a user's that is longer is made, and taken apart, by several tasks


@dataclass(frozen=True)
class Lists:
    """How lists are made of rows, and rows of lists."""

    n_partitions: int
    """Of users."""
    has_long: bool
    """Whether anybody's list is a long one."""

    @classmethod
    def of(cls, n_partitions: int, busiest: int) -> Self:
        """Where the user with most interactions has so many."""
        return cls(n_partitions, busiest > _LONG)

    def grouped(self, clicks: DataFrame, value: str) -> DataFrame:
        """One row for each user, (user, items, values): items in order, and a value of each; from (user, item, value).

        Who has half of all interactions would keep one task busy while all others wait: so some items each for a task,
        and the lists that come of that, one after the other.
        """
        from pyspark.sql import functions as F

        clicks = clicks.select("user", "item", value)
        # Pairs are sorted as a whole: an item before its value.
        pairs = F.sort_array(F.collect_list(F.struct("item", value))).alias("pairs")
        if self.has_long:
            long = clicks.groupBy("user").count().where(F.col("count") > _LONG).select("user", F.lit(1).alias("long"))
            some = F.when(F.col("long").isNull(), 0).otherwise(F.floor(F.col("item") / _LONG)).alias("some")
            parts = clicks.join(F.broadcast(long), "user", "left").groupBy("user", some).agg(pairs)
            in_order = F.sort_array(F.collect_list(F.struct("some", "pairs")))
            rows = parts.repartition(self.n_partitions, "user").groupBy("user").agg(in_order.alias("parts"))
            rows = rows.select("user", F.flatten("parts.pairs").alias("pairs"))
        else:
            rows = clicks.repartition(self.n_partitions, "user").groupBy("user").agg(pairs)
        return rows.select("user", F.col("pairs.item").alias("items"), F.col(f"pairs.{value}").alias("values"))

    def exploded(self, frame: DataFrame, lists: list[str], *others: str) -> DataFrame:
        """One row for each pair: user, item, and the values of some lists; and others, as they are."""
        from pyspark.sql import functions as F

        rows = frame.select("user", *others, "items", *lists)
        if self.has_long:
            rows = self._spread_out(rows, ["items", *lists])
        zipped = rows.select("user", *others, F.explode(F.arrays_zip("items", *lists)).alias("pair"))
        return zipped.select(
            "user", *others, F.col("pair.items").alias("item"), *(F.col(f"pair.{name}").alias(name) for name in lists)
        )

    def _spread_out(self, frame: DataFrame, lists: list[str]) -> DataFrame:
        """Rows of long lists as several rows, in several places."""
        from pyspark.sql import functions as F

        last = F.floor(F.size(lists[0]) / _LONG).cast("int")
        rows = frame.withColumn("some", F.explode(F.sequence(F.lit(0), last)))
        parts = (F.slice(name, F.col("some") * _LONG + 1, F.lit(_LONG)).alias(name) for name in lists)
        others = [name for name in frame.columns if name not in lists]
        return rows.select(*others, "some", *parts).repartition(self.n_partitions, "user", "some")

"""A Spark table of interactions: checks, positions for ids, and each user's interactions as lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from prorec._core.errors import InputError
from prorec.interactions.columns import ColumnRef, choose_columns

_NUMERIC_TYPES = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_TYPES_WITHOUT_ORDER = ("map", "array", "variant")
_MAX_BROADCAST = 5_000_000
"""Number of items up to which their ids are sent to every executor instead of being shuffled."""
_LONG = 20_000
"""Number of interactions beyond which a user's list is made, and taken apart, by several tasks."""
_BITS = 33
"""Bits in which `monotonically_increasing_id` counts the rows of a partition; the bits above number the partition."""


@dataclass(frozen=True)
class InteractionTable:
    """A table of interactions, and the names of its columns."""

    frame: DataFrame
    """One row per interaction; repeated pairs and further columns are allowed."""
    user: str
    """Name of the column of user ids."""
    item: str
    """Name of the column of item ids."""
    weight: str | None
    """Name of the column of weights, if there is one."""

    @classmethod
    def from_frame(
        cls, frame: Any, user_col: ColumnRef, item_col: ColumnRef, weight_col: ColumnRef
    ) -> InteractionTable:
        """Find the columns of a table and check their types, without running a job.

        Parameters
        ----------
        frame : DataFrame
            A Spark table.
        user_col, item_col, weight_col : str or int, optional
            Names or positions of columns that do not have the usual names.

        Raises
        ------
        InputError
            If this is no Spark table, a column is missing or ambiguous, or its type cannot be used.
        """
        if not isinstance(frame, DataFrame):
            raise InputError(f"df must be a Spark DataFrame; got {type(frame).__name__}")
        references = {"user": user_col, "item": item_col, "weight": weight_col}
        chosen = choose_columns(frame.columns, references, roles=("user", "item", "weight"))
        names = {role: frame.columns[position] for role, position in chosen.items()}
        types = dict(frame.dtypes)
        for role, name in names.items():
            if frame.columns.count(name) > 1:
                raise InputError(f"more than one column is called {name!r}; rename all but one of them")
            if role != "weight" and types[name].startswith(_TYPES_WITHOUT_ORDER):
                raise InputError(
                    f"column {name!r} has type {types[name]}, which cannot be the {role}; give it plain ids"
                )
        weight = names.get("weight")
        if weight is not None and not types[weight].startswith(_NUMERIC_TYPES):
            raise InputError(f"column {weight!r} must be numbers to be the weight; it has type {types[weight]}")
        return cls(frame, names["user"], names["item"], weight)

    def distinct_pairs(self) -> DataFrame:
        """Return one row per pair: `user_id`, `item_id` and the largest `weight` among its repetitions."""
        weight = F.lit(1.0) if self.weight is None else F.col(quote(self.weight))
        rows = self.frame.select(
            F.col(quote(self.user)).alias("user_id"),
            F.col(quote(self.item)).alias("item_id"),
            weight.cast("float").alias("weight"),
        )
        return rows.groupBy("user_id", "item_id").agg(F.max("weight").alias("weight"))

    def count_rows(self) -> int:
        """Check all values in one pass over the table, and return the number of rows.

        Raises
        ------
        InputError
            If the table is empty, an id or a weight is missing, a weight is not in [0, 1], or all weights are 0.
        """
        value = F.lit(1.0) if self.weight is None else F.col(quote(self.weight)).cast("double")
        columns = {"user": F.col(quote(self.user)), "item": F.col(quote(self.item)), "weight": value}
        counts = self.frame.select(
            F.count(F.lit(1)).alias("rows"),
            F.count_if(F.isnan(value) | (value < 0) | (value > 1)).alias("invalid"),
            F.sum(value).alias("total"),
            *(F.count_if(column.isNull()).alias(role) for role, column in columns.items()),
        ).first()
        assert counts is not None
        n_rows = int(counts["rows"])
        if not n_rows:
            raise InputError("the table must have at least one row; it has none")
        for role in columns:
            if counts[role]:
                raise InputError(
                    f"the {role} is missing in {counts[role]:,} of {n_rows:,} rows; fill it in or remove these rows"
                )
        if counts["invalid"]:
            raise InputError(
                f"weights must be from 0 to 1; those of {counts['invalid']:,} of {n_rows:,} rows are not. Rescale them."
            )
        if not counts["total"]:
            raise InputError("there is no interaction to learn from: all weights are 0")
        return n_rows


# ── positions for ids ───────────────────────────────────────────────────────────────────────────────


def sort_ids(ids: DataFrame, column: str) -> DataFrame:
    """Return the distinct ids in order, with the partition and the row of each in a column `row`.

    The result must be written before `number_ids` uses it, because a table that is sorted again may be divided into
    other partitions.
    """
    return ids.select(column).distinct().orderBy(column).withColumn("row", F.monotonically_increasing_id())


def number_ids(ids: DataFrame, column: str, position: str) -> tuple[DataFrame, int]:
    """Give each id its position in the order of all ids, as Spark can without a single task for all of them.

    Parameters
    ----------
    ids : DataFrame
        As `sort_ids` returns it, after it was written.
    column, position : str
        Name of the column of ids, and the name of the new column of positions.

    Returns
    -------
    tuple of DataFrame and int
        Both columns, and the number of ids.
    """
    partition = F.shiftright("row", _BITS).cast("int")
    sizes = ids.groupBy(partition.alias("partition")).count().orderBy("partition").collect()
    starts, total = [], 0
    for row in sizes:
        starts += [F.lit(int(row["partition"])), F.lit(total)]
        total += int(row["count"])
    start = F.create_map(*starts)[partition]
    row_in_partition = F.col("row").bitwiseAND((1 << _BITS) - 1)
    return ids.select(column, (start + row_in_partition).cast("int").alias(position)), total


def broadcast_if_small(items: DataFrame, n_items: int) -> DataFrame:
    """Let Spark send a table of items to every executor if it is small, so that no item's rows meet in one task."""
    return F.broadcast(items) if n_items <= _MAX_BROADCAST else items


def quote(name: str) -> str:
    """Return a column's name as Spark's expressions take it, whatever characters are in it."""
    return "`" + name.replace("`", "``") + "`"


def choose_name(name: str, existing: list[str]) -> str:
    """Return the name of a new column: with the prefix `prorec_` if the table has a column of that name.

    Raises
    ------
    InputError
        If both names exist.
    """
    prefixed = f"prorec_{name}"
    if name not in existing:
        return name
    if prefixed in existing:
        raise InputError(f"the table already has columns called {name!r} and {prefixed!r}; rename one of them")
    return prefixed


# ── lists ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class UserLists:
    """Conversion between one row per interaction and one row per user with lists.

    A user with half of all interactions would keep one task busy while all others wait. The lists of such users are
    made of several parts, each by a task of its own, and are taken apart in the same way.
    """

    n_partitions: int
    """Number of partitions of users."""
    max_activity: int
    """Largest number of interactions of any user."""

    def collect(self, interactions: DataFrame, value: str, name: str) -> DataFrame:
        """Collect each user's interactions into lists.

        Parameters
        ----------
        interactions : DataFrame
            Columns `user`, `item` and `value`.
        value : str
            Name of the column of values.
        name : str
            Name of the list column of values.

        Returns
        -------
        DataFrame
            Columns `user`, `items` (in ascending order) and `name` (the values in the order of the items).
        """
        rows = interactions.select("user", "item", value)
        # Structs are compared field by field, so this sorts by item.
        pairs = F.sort_array(F.collect_list(F.struct("item", value))).alias("pairs")
        if self.max_activity > _LONG:
            long = rows.groupBy("user").count().where(F.col("count") > _LONG).select("user", F.lit(1).alias("long"))
            part = F.when(F.col("long").isNull(), 0).otherwise(F.floor(F.col("item") / _LONG)).alias("part")
            parts = rows.join(F.broadcast(long), "user", "left").groupBy("user", part).agg(pairs)
            sorted_parts = F.sort_array(F.collect_list(F.struct("part", "pairs"))).alias("parts")
            lists = parts.repartition(self.n_partitions, "user").groupBy("user").agg(sorted_parts)
            lists = lists.select("user", F.flatten("parts.pairs").alias("pairs"))
        else:
            lists = rows.repartition(self.n_partitions, "user").groupBy("user").agg(pairs)
        return lists.select("user", F.col("pairs.item").alias("items"), F.col(f"pairs.{value}").alias(name))

    def explode(self, lists: DataFrame, names: dict[str, str], *others: str) -> DataFrame:
        """Return one row per interaction from one row per user.

        Parameters
        ----------
        lists : DataFrame
            Columns `user` and `items`, the list columns of `names`, and `others`.
        names : dict of str to str
            List columns, and the names of their values in the result.
        *others : str
            Columns that each of the user's rows repeats.

        Returns
        -------
        DataFrame
            Columns `user`, `others`, `item`, and the values.
        """
        columns = {"items": "item", **names}
        rows = lists.select("user", *others, *columns)
        if self.max_activity > _LONG:
            last_part = F.floor(F.size("items") / _LONG).cast("int")
            rows = rows.withColumn("part", F.explode(F.sequence(F.lit(0), last_part)))
            parts = (F.slice(name, F.col("part") * _LONG + 1, F.lit(_LONG)).alias(name) for name in columns)
            rows = rows.select("user", *others, "part", *parts).repartition(self.n_partitions, "user", "part")
        zipped = rows.select("user", *others, F.explode(F.arrays_zip(*columns)).alias("pair"))
        return zipped.select("user", *others, *(F.col(f"pair.{name}").alias(new) for name, new in columns.items()))

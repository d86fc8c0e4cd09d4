"""From a table of clicks to numbered users and items, and back: by Spark alone, whatever the ids are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prorec._core.errors import InputError
from prorec.interactions.columns import ColumnRef, choose_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_NO_IDS = ("map", "array", "variant")
_MOST = 2**31 - 1
_BROADCAST = 5_000_000  # items: a table of so many ids is handed to every executor rather than shuffled


@dataclass(frozen=True)
class Clicks:
    """A table, and which of its columns are what."""

    frame: DataFrame
    user: str
    item: str
    weight: str | None

    @classmethod
    def of(cls, frame: Any, user_col: ColumnRef, item_col: ColumnRef, weight_col: ColumnRef) -> Clicks:
        """Refuse what the schema shows to be wrong, before any job starts."""
        from pyspark.sql import DataFrame

        if not isinstance(frame, DataFrame):
            raise InputError(f"df must be a Spark DataFrame; got {type(frame).__name__}")
        wanted = {"user": user_col, "item": item_col, "weight": weight_col}
        chosen = choose_columns(frame.columns, wanted, roles=("user", "item", "weight"))
        names = {role: frame.columns[at] for role, at in chosen.items()}
        kinds = dict(frame.dtypes)
        for name in names.values():
            if frame.columns.count(name) > 1:
                raise InputError(f"more than one column is called {name!r}")
        for role in ("user", "item"):
            if kinds[names[role]].startswith(_NO_IDS):
                raise InputError(f"column {names[role]!r} is of type {kinds[names[role]]}, which cannot be the {role}")
        weight = names.get("weight")
        if weight is not None and not kinds[weight].startswith(_NUMBERS):
            raise InputError(f"column {weight!r} must be numbers to be the weight; it is of type {kinds[weight]}")
        return cls(frame, names["user"], names["item"], weight)

    def pairs(self) -> DataFrame:
        """One row for each pair: user_id, item_id, weight; of a pair that is repeated the largest weight counts."""
        from pyspark.sql import functions as F

        weight = F.lit(1.0) if self.weight is None else F.col(quoted(self.weight))
        chosen = self.frame.select(
            F.col(quoted(self.user)).alias("user_id"),
            F.col(quoted(self.item)).alias("item_id"),
            weight.cast("float").alias("weight"),
        )
        return chosen.groupBy("user_id", "item_id").agg(F.max("weight").alias("weight"))

    def check_values(self) -> int:
        """Refuse rows that cannot be read, in one pass over the table; how many rows there are."""
        from pyspark.sql import functions as F

        counts = [F.count(F.lit(1)).alias("rows")]
        counts += [
            F.count_if(F.col(quoted(getattr(self, role))).isNull()).alias(f"no_{role}") for role in ("user", "item")
        ]
        if self.weight is not None:
            weight = F.col(quoted(self.weight))
            value = weight.cast("double")
            counts += [
                F.count_if(weight.isNull()).alias("no_weight"),
                F.count_if(F.isnan(value) | (value < 0) | (value > 1)).alias("bad_weight"),
                F.sum(value).alias("total"),
            ]
        found = self.frame.select(counts).first()
        assert found is not None
        if not found["rows"]:
            raise InputError("the table has no rows")
        for role in ("user", "item", "weight"):
            missing = found.asDict().get(f"no_{role}")
            if missing:
                raise InputError(f"the {role} is missing in {missing:,} of {found['rows']:,} rows")
        if self.weight is not None and found["bad_weight"]:
            raise InputError(
                f"weights must be from 0 to 1; those of {found['bad_weight']:,} of {found['rows']:,} rows are not"
            )
        if self.weight is not None and not found["total"]:
            raise InputError("there is no interaction to learn from, or none that has any weight")
        return int(found["rows"])


def placed(ids: DataFrame, name: str) -> DataFrame:
    """Ids in their order: (name_id, at), where `at` has the partition and the place in it.

    To be written, and then numbered: a table that is sorted again may be cut into partitions elsewhere.
    """
    from pyspark.sql import functions as F

    column = f"{name}_id"
    return ids.select(column).distinct().orderBy(column).withColumn("at", F.monotonically_increasing_id())


def numbered(ids: DataFrame, name: str, what: str) -> tuple[DataFrame, int]:
    """What `placed` gave, with 0, 1, … for the ids: (name_id, name); and how many there are."""
    from pyspark.sql import functions as F

    # Its number: how many are in the partitions before, and its place in its own.
    place, partition = F.col("at").bitwiseAND((1 << 33) - 1), F.shiftright("at", 33)
    sizes = ids.groupBy(partition.cast("int").alias("partition")).count().orderBy("partition").collect()
    begins, total = [], 0
    for row in sizes:
        begins.append((int(row["partition"]), total))
        total += int(row["count"])
    if total > _MOST:
        raise InputError(f"there are {total:,} {what}; more than {_MOST:,} cannot be numbered")
    offset = F.create_map(*(F.lit(each) for pair in begins for each in pair))
    return ids.select(f"{name}_id", (offset[partition.cast("int")] + place).cast("int").alias(name)), total


def small(items: DataFrame, n_items: int) -> DataFrame:
    """A table with a row for each item, handed to every executor if it is small: no item's clicks go to one place."""
    from pyspark.sql import functions as F

    return F.broadcast(items) if n_items <= _BROADCAST else items


def quoted(name: str) -> str:
    """A column's name as Spark takes it, whatever signs are in it."""
    return "`" + name.replace("`", "``") + "`"


def free_name(name: str, taken: list[str]) -> str:
    """What a new column is called: as it should be, unless that is taken."""
    own = f"prorec_{name}" if name in taken else name
    if own in taken:
        raise InputError(f"the table has columns called {name!r} and {own!r} already: rename one of them")
    return own

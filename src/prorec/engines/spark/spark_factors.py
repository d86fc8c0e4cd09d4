"""Factors of users and items on Spark: learned by MLlib's ALS, or given by the caller."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.ml.recommendation import ALS as MLlibALS
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from scipy.sparse import coo_array, csr_array

from prorec._core.checks import check_float, check_int
from prorec._core.errors import InputError
from prorec.engines.spark.small_als import fit_small
from prorec.engines.spark.work_directory import WorkDirectory

_CHECKPOINT_INTERVAL = 4
"""Sweeps between two checkpoints of ALS. A longer lineage overflows Java's stack."""


@dataclass(frozen=True)
class ALS:
    """MLlib's implicit alternating least squares, the distributed form of `prorec.models.WRMF`.

    MLlib minimizes Σ c_ij·(x_ij − u_i·v_j)² over all pairs, where x is 1 on interactions and 0 elsewhere, and
    c = 1 + α·weight on interactions and 1 elsewhere. Its regularization grows with the number of interactions of each
    user and item, so `regularization` is not on the scale of `WRMF`'s.

    Examples
    --------
    >>> ALS(rank=20)
    ALS(rank=20, alpha=10.0, regularization=0.1, sweeps=10, seed=0)
    """

    rank: int = 64
    """Number of factors."""
    alpha: float = 10.0
    """α: additional confidence in an interaction, compared with an unobserved pair."""
    regularization: float = 0.1
    """Penalty on large factors, for each interaction of a user or an item."""
    sweeps: int = 10
    """Number of alternating passes over all users and all items."""
    seed: int = 0
    """Seed of the initial factors."""

    def check_settings(self) -> None:
        """Raise `InputError` unless all parameters are valid."""
        check_int("rank", self.rank, 1)
        check_float("alpha", self.alpha, 0)
        check_float("regularization", self.regularization, 0)
        check_int("sweeps", self.sweeps, 1)
        check_int("seed", self.seed, 0, 2**63 - 1)

    def fit(self, interactions: DataFrame, n_blocks: int) -> tuple[DataFrame, DataFrame]:
        """Learn factors from interactions.

        Parameters
        ----------
        interactions : DataFrame
            Columns `user` and `item` (positions) and `weight`. A weight of 0 is an unobserved pair.
        n_blocks : int
            Number of blocks into which MLlib divides users and items. With one, the driver learns the factors.

        Returns
        -------
        tuple of DataFrame
            Columns `user` and `features`, and columns `item` and `features`. Users and items without any weight have
            no row.
        """
        rows = interactions.select("user", "item", "weight").where("weight > 0")
        if n_blocks == 1:
            return self._fit_on_driver(rows)
        model = MLlibALS(
            rank=self.rank,
            maxIter=self.sweeps,
            regParam=self.regularization,
            implicitPrefs=True,
            alpha=self.alpha,
            seed=self.seed,
            numUserBlocks=n_blocks,
            numItemBlocks=n_blocks,
            userCol="user",
            itemCol="item",
            ratingCol="weight",
            checkpointInterval=_CHECKPOINT_INTERVAL,
        ).fit(rows)
        users, items = model.userFactors, model.itemFactors
        return users.withColumnRenamed("id", "user"), items.withColumnRenamed("id", "item")

    def _fit_on_driver(self, rows: DataFrame) -> tuple[DataFrame, DataFrame]:
        """Learn factors from few interactions, which all come to the driver."""
        log = rows.toArrow()
        sides = [np.unique(log.column(role).to_numpy(), return_inverse=True) for role in ("user", "item")]
        (user_ids, user_codes), (item_ids, item_codes) = sides
        entries = log.column("weight").to_numpy(), (user_codes, item_codes)
        matrix = csr_array(coo_array(entries, shape=(len(user_ids), len(item_ids))))
        learned = fit_small(matrix, self.rank, self.alpha, self.regularization, self.sweeps, self.seed)
        tables = []
        for role, ids, factors in zip(("user", "item"), (user_ids, item_ids), learned, strict=True):
            features = pa.FixedSizeListArray.from_arrays(pa.array(factors.reshape(-1)), self.rank)
            columns = {role: pa.array(ids.astype(np.int32)), "features": features.cast(pa.list_(pa.float32()))}
            tables.append(rows.sparkSession.createDataFrame(pa.table(columns)))
        return tables[0], tables[1]

    def fit_cached(
        self, interactions: DataFrame, n_blocks: int, directory: WorkDirectory, step: str
    ) -> tuple[DataFrame, DataFrame]:
        """Learn factors, or read them from the work directory if an interrupted run has left them there.

        Parameters
        ----------
        interactions : DataFrame
            As for `fit`.
        n_blocks : int
            As for `fit`.
        directory : WorkDirectory
            Receives the factors.
        step : str
            Name of the fit.

        Returns
        -------
        tuple of DataFrame
            As for `fit`.
        """

        @cache
        def fit() -> tuple[DataFrame, DataFrame]:
            directory.start_step(f"{step}: ALS")
            directory.set_checkpoint_dir()
            return self.fit(interactions, n_blocks)

        users = directory.cached_table(f"{step}: factors of users", lambda: fit()[0])
        return users, directory.cached_table(f"{step}: factors of items", lambda: fit()[1])

    def fill_missing(self, table: DataFrame, column: str = "features") -> DataFrame:
        """Put factors of 0 where a row has none, because nothing was learned about that user.

        Parameters
        ----------
        table : DataFrame
            Table with a column of factors.
        column : str, default "features"
            Name of that column.

        Returns
        -------
        DataFrame
        """
        zeros = F.array_repeat(F.lit(0.0).cast("float"), self.rank)
        return table.withColumn(column, F.coalesce(column, zeros))


def check_factor_schema(factors: Any) -> tuple[DataFrame, DataFrame]:
    """Check the columns of factors that the caller gives, without running a job.

    Parameters
    ----------
    factors : tuple of DataFrame
        Factors of users (columns `user` and `features`) and of items (columns `item` and `features`).

    Returns
    -------
    tuple of DataFrame
        The same two tables.

    Raises
    ------
    InputError
        If these are not two tables, or lack a column.
    """
    if not (isinstance(factors, tuple | list) and len(factors) == 2 and all(isinstance(f, DataFrame) for f in factors)):
        raise InputError(
            f"factors must be two Spark DataFrames, (user, features) and (item, features); got {type(factors).__name__}"
        )
    for role, table in zip(("user", "item"), factors, strict=True):
        types = dict(table.dtypes)
        if role not in types or not types.get("features", "").startswith(("array<float", "array<double")):
            raise InputError(
                f"factors of {role}s must have a column {role!r} and an array of numbers called 'features'; "
                f"got {', '.join(f'{column} ({name})' for column, name in types.items())}"
            )
    return factors[0], factors[1]


def check_factor_values(factors: tuple[DataFrame, DataFrame]) -> int:
    """Check the values of factors that the caller gives, in one job for each table, and return their width.

    Parameters
    ----------
    factors : tuple of DataFrame
        As `check_factor_schema` returns them.

    Returns
    -------
    int
        Rank: the width of all factors.

    Raises
    ------
    InputError
        If factors are not finite in single precision, if an id has two rows, or if the widths differ.
    """
    widths = set()
    for role, table in zip(("user", "item"), factors, strict=True):
        counts = table.selectExpr(
            "min(size(features))",
            "max(size(features))",
            "count(*)",
            f"count(distinct {role})",
            # Factors are used in single precision, so they must be finite there.
            "count_if(coalesce(exists(features, x -> not coalesce(abs(float(x)) < float('inf'), false)), true))",
        )
        smallest, largest, n_rows, n_ids, n_invalid = counts.first() or (0, 0, 0, 0, 0)
        if n_invalid:
            raise InputError(
                f"factors must be finite numbers; those of {n_invalid:,} of {n_rows:,} {role}s are not. "
                "Remove or replace them."
            )
        if n_rows != n_ids:
            raise InputError(f"factors of {role}s must have one row per {role}; got {n_rows:,} rows for {n_ids:,} ids")
        widths |= {smallest, largest}
    if len(widths) != 1 or not all(widths) or min(widths) < 1:
        raise InputError(f"all factors must have one width; got {', '.join(map(str, sorted(widths, key=str)))}")
    return int(widths.pop())

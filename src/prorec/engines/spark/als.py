"""Factors from MLlib's implicit ALS, the distributed form of WRMF."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prorec._core.checks import check_float, check_int

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from prorec.engines.spark.work_directory import WorkDirectory

_CHECKPOINT = 4  # sweeps: how a factor came about is remembered back to here, and what is longer overflows Java's stack


@dataclass(frozen=True)
class ALS:
    """The recommender that factors come from, unless they are handed in.

    MLlib minimises Σ c_ij·(1 − u_i·v_j)², c = 1 + α·weight on interactions and 1 on all other pairs (where 0 stands for
    1), with a regulariser that grows with each user's and item's number of interactions: so `regularization` is not
    that of `prorec.models.WRMF`.
    """

    rank: int = 64
    """Number of factors."""
    alpha: float = 10.0
    """α: how much more an interaction counts than its absence."""
    regularization: float = 0.1
    """For each interaction of a user or an item."""
    sweeps: int = 10
    """How often users and items take turns."""
    seed: int = 0

    def check(self) -> None:
        """Refuse parameters that make no sense."""
        check_int("rank", self.rank, 1)
        check_float("alpha", self.alpha, 0)
        check_float("regularization", self.regularization, 0)
        check_int("sweeps", self.sweeps, 1)
        check_int("seed", self.seed, 0, 2**63 - 1)

    def factors(self, clicks: DataFrame, n_blocks: int) -> tuple[DataFrame, DataFrame]:
        """User and item factors, (id, features), from clicks (user, item, weight); a weight of 0 is no interaction."""
        from pyspark.ml.recommendation import ALS as Mllib

        model = Mllib(
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
            checkpointInterval=_CHECKPOINT,
        ).fit(clicks.select("user", "item", "weight").where("weight > 0"))
        return model.userFactors, model.itemFactors

    def written(
        self, clicks: DataFrame, n_blocks: int, folder: WorkDirectory, place: str, step: str
    ) -> tuple[DataFrame, DataFrame]:
        """The same, (user, features) and (item, features), in the work folder: learned there once.

        Who has no interaction has no factors.
        """
        names = [f"{place}/factors-of-{kind}s" for kind in ("user", "item")]
        if not all(folder.has(name) for name in names):
            folder.say(f"{step}: ALS")
            folder.keep_checkpoints()
            for name, kind, table in zip(names, ("user", "item"), self.factors(clicks, n_blocks), strict=True):
                folder.say(f"{step}: factors of {kind}s")
                folder.write(name, table.select(table["id"].alias(kind), "features"))
        return folder.read(names[0]), folder.read(names[1])

    def filled(self, frame: DataFrame, column: str = "features") -> DataFrame:
        """Zeros for those who have no factors: nothing was learned of them."""
        from pyspark.sql import functions as F

        zeros = F.array_repeat(F.lit(0.0).cast("float"), self.rank)
        return frame.withColumn(column, F.coalesce(column, zeros))

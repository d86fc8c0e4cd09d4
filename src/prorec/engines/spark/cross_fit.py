"""Cross-fitting on Spark: every interaction is scored by models that were trained without it.

The steps are those of `prorec.NoiseFinder`. Folds and negatives come from a hash, so that a task that runs again
gives the same ones. The driver fits the density-ratio classifier, on as many interactions as one machine takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from prorec._core.checks import check_int
from prorec._core.errors import InputError
from prorec._core.random import make_generator
from prorec.engines.spark import cross_fit_tasks as tasks
from prorec.engines.spark.interaction_table import UserLists
from prorec.engines.spark.spark_factors import ALS
from prorec.engines.spark.spark_result import RunSize
from prorec.engines.spark.task_arrays import ArrayBroadcast
from prorec.engines.spark.work_directory import WorkDirectory
from prorec.noise.cross_fitting import MAX_TRAINING_CLICKS, NO_NEGATIVES
from prorec.noise.density_ratio import fit_out_of_user_ratio
from prorec.noise.noise_rate import NoiseRateEstimate
from prorec.noise.posterior import NoisePosterior, fit_posterior, label_pairs


@dataclass(frozen=True)
class CrossFit:
    """Settings of cross-fitting on Spark; `prorec.NoiseFinder` has them on one machine.

    Examples
    --------
    >>> CrossFit((ALS(rank=20),), folds=10).folds
    10
    """

    base_models: tuple[ALS, ...] = (
        ALS(rank=10, alpha=10.0, regularization=0.3),
        ALS(rank=40, alpha=1.0, regularization=0.1),
    )
    """Models that score the interactions. The two default models find almost as much noise as one machine's four."""
    folds: int = 5
    """Number of parts of the interactions; each is scored by models of the others. More folds take longer."""
    seed: int = 0
    """Seed of folds and negatives."""

    def check_settings(self) -> None:
        """Raise `InputError` unless all parameters are valid."""
        if not (isinstance(self.base_models, tuple | list) and self.base_models):
            raise InputError(f"base_models must have at least one ALS(…) in it; got {self.base_models!r}")
        for model in self.base_models:
            if not isinstance(model, ALS):
                raise InputError(f"base_models must be prorec.engines.spark.ALS(…); got {type(model).__name__}")
            model.check_settings()
        check_int("folds", self.folds, 2, 1000)
        check_int("seed", self.seed, 0, 2**63 - 1)


class CrossFitResult(NamedTuple):
    """Result of cross-fitting."""

    pairs: DataFrame
    """One row per interaction: user and item (positions), noise_probability, percentile_rank, basis."""
    noise_rate: NoiseRateEstimate
    """Estimated noise rate of the log."""


@dataclass(frozen=True)
class CrossFitRun:
    """One run of cross-fitting."""

    settings: CrossFit
    """Base models and folds."""
    lists: UserLists
    """Conversion from lists to single interactions."""
    size: RunSize
    """Size of the log."""
    directory: WorkDirectory
    """Receives the result of each step."""
    broadcast: ArrayBroadcast
    """Sends arrays to executors."""

    def run(self, interactions: DataFrame) -> CrossFitResult:
        """Estimate the noise probability of every interaction.

        Parameters
        ----------
        interactions : DataFrame
            One row per user: `user`, `items` and `weights`.

        Returns
        -------
        CrossFitResult

        Raises
        ------
        InputError
            If there are fewer interactions than folds, all weight is in one fold, or no user has an unobserved item.
        """
        directory, n_folds, n_pairs = self.directory, self.settings.folds, self.size.pairs
        if n_pairs < n_folds:
            raise InputError(f"folds must be at most {n_pairs}, the number of interactions; got {n_folds}")
        assign = partial(
            tasks.assign_folds_and_negatives,
            n_items=self.size.items,
            n_folds=n_folds,
            seed=self.settings.seed,
            sample_rate=min(1.0, MAX_TRAINING_CLICKS / n_pairs),
        )
        folds = directory.cached_table(
            "cross-fit: folds and negatives",
            lambda: interactions.select("user", "items", "weights").mapInArrow(assign, tasks.FOLDS),
        )
        clicks = self.lists.explode(folds, {"weights": "weight", "folds": "fold"})
        directory.cached_json("cross-fit: check of the folds", lambda: _check_folds(folds, clicks))
        scored = [
            directory.cached_table(
                f"cross-fit: fold {fold + 1}: scores", partial(self._score_fold, fold, folds, clicks)
            )
            for fold in range(n_folds)
        ]
        pairs = directory.cached_table(
            "cross-fit: features of pairs",
            lambda: self._compute_features(folds, clicks, reduce(DataFrame.unionByName, scored)),
        )
        ranks = directory.cached_table("cross-fit: ranks among the users of an item", lambda: _rank_by_activity(pairs))
        features = pairs.join(ranks, ["item", "activity"])
        arrays = directory.cached_json(
            "cross-fit: density-ratio classifier", lambda: _fit_posterior(features, self.settings.seed)
        )
        posterior = NoisePosterior.from_arrays({name: np.array(values) for name, values in arrays.items()})
        estimate = partial(tasks.estimate_probabilities, posterior=posterior)
        probabilities = directory.cached_table(
            "cross-fit: noise probabilities",
            lambda: features.where("is_click").mapInArrow(estimate, tasks.PROBABILITIES),
        )
        return CrossFitResult(probabilities, posterior.noise_rate)

    def _score_fold(self, fold: int, folds: DataFrame, clicks: DataFrame) -> DataFrame:
        """Fit all base models without one fold, and return their values of the pairs in that fold."""
        n_items, n_partitions, step = self.size.items, self.size.partitions, f"cross-fit: fold {fold + 1}"
        # The pass over all pairs runs in these partitions; a merge join keeps them.
        rows, item_factors = folds.repartition(n_partitions, "user"), []
        train = clicks.where(f"fold <> {fold}")
        for index, model in enumerate(self.settings.base_models):
            users, items = model.fit_cached(train, self.size.als_blocks, self.directory, f"{step}: model {index + 1}")
            item_factors.append(self.broadcast.send_factors(f"fold-{fold}-{index}", items, n_items, model.rank))
            column = f"features_{index}"
            joined = rows.join(users.withColumnRenamed("features", column).hint("merge"), "user", "left")
            rows = model.fill_missing(joined, column)
        self.directory.start_step(f"{step}: scores")
        task = partial(tasks.score_fold, base_models=tuple(item_factors), n_items=n_items, fold=fold)
        return rows.mapInArrow(task, tasks.SCORED)

    def _compute_features(self, folds: DataFrame, clicks: DataFrame, scored: DataFrame) -> DataFrame:
        """Return one row per pair with its features, from the values of all folds."""
        names = ("positions", "values", "percentile_ranks", "is_cold")
        # One struct for each fold keeps the four lists in the same order.
        parts = scored.groupBy("user").agg(F.collect_list(F.struct(*names)).alias("parts"))
        lists = (F.flatten(F.col(f"parts.{name}")).alias(name) for name in names)
        popularity = _count_outside(clicks, self.settings.folds, self.size.items)
        task = partial(
            tasks.compute_features,
            n_items=self.size.items,
            n_models=len(self.settings.base_models),
            popularity=self.broadcast.send("popularity", popularity),
        )
        return folds.join(parts, "user").select(*folds.columns, *lists).mapInArrow(task, tasks.FEATURES)


def _check_folds(folds: DataFrame, clicks: DataFrame) -> int:
    """Raise `InputError` if nothing can be learned from the folds; return the number of users with negatives."""
    weights = [row[1] for row in clicks.groupBy("fold").sum("weight").collect()]
    if max(weights) >= sum(weights):
        raise InputError(
            "at least two folds must have interactions with weight; all weight is in one fold, so that nothing is left "
            "to learn from. Use a longer log."
        )
    n_users = folds.where("size(negatives) > 0").count()
    if not n_users:
        raise InputError(NO_NEGATIVES)
    return n_users


def _count_outside(clicks: DataFrame, n_folds: int, n_items: int) -> NDArray[np.float32]:
    """Return folds × items: the number of interactions with the item outside the fold."""
    counts = np.zeros((n_folds, n_items), dtype=np.float32)
    for fold in range(n_folds):  # one at a time, because all counts may be more than the driver can hold as a table
        table = clicks.where(f"fold = {fold}").groupBy("item").count().toArrow()
        counts[fold, table["item"].to_numpy()] = table["count"].to_numpy()
    np.subtract(counts.sum(axis=0), counts, out=counts)
    return counts


def _rank_by_activity(pairs: DataFrame) -> DataFrame:
    """Count, for each item and activity of a user, the item's users who are more active and equally active.

    Interactions are counted by activity before anything is sorted, so an item may have millions of users.
    """
    counts = pairs.groupBy("item", "activity").agg(F.count_if("is_click").alias("n_equal"))
    item = Window.partitionBy("item")
    up_to = item.orderBy(F.desc("activity")).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return counts.select(
        "item",
        "activity",
        "n_equal",
        (F.sum("n_equal").over(up_to) - F.col("n_equal")).alias("n_above"),
        F.sum("n_equal").over(item).alias("n_users"),
    )


def _fit_posterior(features: DataFrame, seed: int) -> dict[str, Any]:
    """Fit the density-ratio classifier and the noise rate on the sample, and return their arrays as lists."""
    rows = features.where("is_sampled").toArrow()
    users, is_click = rows["user"].to_numpy(), rows["is_click"].to_numpy(zero_copy_only=False)
    pair_features = tasks.read_features(rows.combine_chunks().to_batches()[0])
    # Rows arrive in any order, on which sums must not depend. A negative may be there twice, with other features.
    order = np.lexsort((*pair_features.matrix.T, rows["item"].to_numpy(), ~is_click, users))
    _, positions = np.unique(users[order], return_inverse=True)
    pair_features, is_click = pair_features.at(order), is_click[order]
    n_users, rng = int(positions.max()) + 1, make_generator(seed)
    out_of_user = fit_out_of_user_ratio(pair_features.matrix, positions, is_click, n_users, rng)
    history = float(np.median(rows["activity"].to_numpy()[order][is_click]))
    labeled = label_pairs(pair_features, is_click, out_of_user.log_ratio(pair_features.matrix, positions))
    posterior = fit_posterior(pair_features, is_click, labeled, history, start=out_of_user.mean)
    return {name: array.tolist() for name, array in posterior.to_arrays().items()}

"""Cross-fitting on Spark: each click is judged by models that have not seen it, and gets a probability.

As in `prorec.NoiseFinder`, fold by fold. Clicks are dealt into folds by a hash, so that a step that is run again deals
them again alike. What tells clicks from controls is learned by the driver, from as many clicks as one machine takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import check_int
from prorec._core.errors import InputError
from prorec._core.random import make_generator
from prorec.engines.spark import cross_fit_tasks
from prorec.engines.spark.als import ALS
from prorec.engines.spark.block_tasks import Shipped
from prorec.engines.spark.lists import Lists
from prorec.noise.cross_fitting import MAX_TRAINING_CLICKS, NO_NEGATIVES
from prorec.noise.noise_rate import NoiseRateEstimate
from prorec.noise.posterior import NoisePosterior, fit_posterior

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from prorec.engines.spark.broadcast_files import Shipping
    from prorec.engines.spark.sizes import Sizes
    from prorec.engines.spark.work_directory import WorkDirectory

ShippedAs = Callable[[tuple[str, ...], int], Shipped]


@dataclass(frozen=True)
class CrossFit:
    """How noise is looked for by cross-fitting; what `prorec.NoiseFinder` is on one machine."""

    base_models: tuple[ALS, ...] = (
        ALS(rank=10, alpha=10.0, regularization=0.3),
        ALS(rank=40, alpha=1.0, regularization=0.1),
    )
    """Who votes: by default two coarse ones, which on MovieLens-100K find nearly what one machine's four do."""
    folds: int = 5
    """Each interaction is judged by models that learned from all folds but its own. More leave more to learn from, and
    cost more."""
    seed: int = 0
    """Of folds and controls."""

    def check(self) -> None:
        """Refuse parameters that make no sense."""
        if not (isinstance(self.base_models, tuple | list) and self.base_models):
            raise InputError("base_models must have at least one ALS(…) in it")
        for model in self.base_models:
            if not isinstance(model, ALS):
                raise InputError(f"base_models must be prorec.engines.spark.ALS(…); got {type(model).__name__}")
            model.check()
        check_int("folds", self.folds, 2, 1000)
        check_int("seed", self.seed, 0, 2**63 - 1)


class Judgement(NamedTuple):
    """What cross-fitting found."""

    pairs: DataFrame
    """One row for each click: user and item by number, noise_probability, percentile_rank, basis."""
    share: NoiseRateEstimate


def cross_fitted(
    how: CrossFit,
    grouped: DataFrame,
    lists: Lists,
    sizes: Sizes,
    folder: WorkDirectory,
    shipping: Shipping,
    shipped: ShippedAs,
) -> Judgement:
    """Judge every click.

    Parameters
    ----------
    how : models and folds
    grouped : one row for each user: user, items, weights
    lists : how those are taken apart
    sizes : of the log
    folder, shipping : where steps are written, and how arrays get to executors
    shipped : what executors get to know of item factors that were sent, and their width
    """
    if sizes.pairs < how.folds:
        raise InputError(f"folds must be at most {sizes.pairs}, the number of interactions; got {how.folds}")
    dealt = folder.table(
        "cross-fit/dealt",
        "cross-fit: dealing clicks into folds",
        lambda: grouped.select("user", "items", "weights").mapInArrow(
            partial(
                cross_fit_tasks.dealt,
                n_items=sizes.items,
                n_folds=how.folds,
                seed=how.seed,
                share=min(1.0, MAX_TRAINING_CLICKS / sizes.pairs),
            ),
            cross_fit_tasks.DEALT,
        ),
    )
    clicks = lists.exploded(dealt, ["weights", "folds"]).withColumnRenamed("weights", "weight")
    folder.number("cross-fit/checked", "cross-fit: looking at the folds", lambda: _checked(dealt, clicks))
    judged = [_judged_in(fold, how, dealt, clicks, sizes, folder, shipping, shipped) for fold in range(how.folds)]
    pairs = folder.table(
        "cross-fit/pairs",
        "cross-fit: clicks among clicks",
        lambda: _featured(
            dealt, judged, how, sizes, shipping.send("popularity", _outside(clicks, how.folds, sizes.items))
        ),
    )
    among = folder.table("cross-fit/among", "cross-fit: users among the item's users", lambda: _among(pairs))
    complete = pairs.join(among, ["item", "activity"])
    arrays = folder.number(
        "cross-fit/learned", "cross-fit: what tells clicks from controls", lambda: _learned(complete, how.seed)
    )
    learned = NoisePosterior.from_arrays({name: np.array(values) for name, values in arrays.items()})
    found = folder.table(
        "cross-fit/found",
        "cross-fit: how probable noise is",
        lambda: complete.where("is_click").mapInArrow(
            partial(cross_fit_tasks.concluded, learned=learned), cross_fit_tasks.FOUND
        ),
    )
    return Judgement(found, learned.noise_rate)


def _checked(dealt: DataFrame, clicks: DataFrame) -> int:
    """Refuse folds that nothing can be learned from, before the first model; how many users have controls."""
    weights = [row[1] for row in clicks.groupBy("folds").sum("weight").collect()]
    if max(weights) >= sum(weights):
        raise InputError("all weight is in one fold: there is nothing to judge its interactions by")
    number = dealt.where("size(controls) > 0").count()
    if not number:
        raise InputError(NO_NEGATIVES)
    return number


def _outside(clicks: DataFrame, n_folds: int, n_items: int) -> NDArray[np.float32]:
    """Folds × items: how many have the item in the part that is learned from."""
    inside = np.zeros((n_folds, n_items), dtype=np.float32)
    for fold in range(n_folds):  # one after the other: all at once may be more than the driver takes
        counts = clicks.where(f"folds = {fold}").groupBy("item").count().toArrow()
        inside[fold, counts["item"].to_numpy()] = counts["count"].to_numpy()
    np.subtract(inside.sum(axis=0), inside, out=inside)
    return inside


def _judged_in(
    fold: int,
    how: CrossFit,
    dealt: DataFrame,
    clicks: DataFrame,
    sizes: Sizes,
    folder: WorkDirectory,
    shipping: Shipping,
    shipped: ShippedAs,
) -> DataFrame:
    """What all models say of the pairs in one fold."""
    name, step = f"cross-fit/fold-{fold}", f"cross-fit, fold {fold + 1} of {how.folds}"

    def make() -> DataFrame:
        # As many partitions as were asked for, and merged: the pass over all pairs is done in these.
        everything, voters = dealt.repartition(sizes.partitions, "user"), []
        train = clicks.where(f"folds <> {fold}")
        for number, model in enumerate(how.base_models):
            users, items = model.written(
                train, sizes.partitions, folder, f"{name}/model-{number}", f"{step}, model {number + 1}"
            )
            names = shipping.send_factors(f"voter-{fold}-{number}", items, sizes.items, model.rank)
            voters.append(shipped(names, model.rank))
            column = f"features_{number}"
            own = users.withColumnRenamed("features", column).hint("merge")
            everything = model.filled(everything.join(own, "user", "left"), column)
        folder.say(f"{step}: judging its clicks")
        work = partial(cross_fit_tasks.judged, voters=tuple(voters), n_items=sizes.items, fold=fold)
        return everything.mapInArrow(work, cross_fit_tasks.JUDGED)

    return folder.table(f"{name}/judged", f"{step}: judging its clicks", make)


def _featured(dealt: DataFrame, judged: list[DataFrame], how: CrossFit, sizes: Sizes, popularity: str) -> DataFrame:
    from pyspark.sql import functions as F

    every = judged[0]
    for each in judged[1:]:
        every = every.unionByName(each)
    names = ("places", "values", "percentiles", "is_alone")
    # As one struct for each fold, so that the four lists stay in the same order.
    parts = every.groupBy("user").agg(F.collect_list(F.struct(*names)).alias("parts"))
    joined = dealt.join(parts, "user").select(
        *dealt.columns, *(F.flatten(F.col(f"parts.{name}")).alias(name) for name in names)
    )
    work = partial(cross_fit_tasks.featured, n_items=sizes.items, n_voters=len(how.base_models), popularity=popularity)
    return joined.mapInArrow(work, cross_fit_tasks.FEATURED)


def _among(pairs: DataFrame) -> DataFrame:
    """For each item and activity of a user, how many of the item's users are more active, and how many equally.

    Counts are added up before anything is put in order, so it does not matter that an item may have millions of users.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    counts = pairs.groupBy("item", "activity").agg(F.count_if("is_click").alias("equal"))
    of_item = Window.partitionBy("item")
    upwards = of_item.orderBy(F.desc("activity")).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return counts.select(
        "item",
        "activity",
        "equal",
        (F.sum("equal").over(upwards) - F.col("equal")).alias("above"),
        F.sum("equal").over(of_item).alias("others"),
    )


def _learned(complete: DataFrame, seed: int) -> dict[str, Any]:
    """What tells clicks from controls, how much noise there is: as lists of numbers."""
    rows = complete.where("is_learned_from").toArrow()
    users, is_click = rows["user"].to_numpy(), rows["is_click"].to_numpy(zero_copy_only=False)
    found = cross_fit_tasks.observed(rows.combine_chunks().to_batches()[0])
    # Rows come in any order; sums of them, and so the answer, must not depend on it. A control may be there twice.
    order = np.lexsort((*found.matrix.T, rows["item"].to_numpy(), ~is_click, users))
    found = found.at(order)
    _, first, numbers = np.unique(users[order], return_index=True, return_inverse=True)
    activity = rows["activity"].to_numpy()[order][first].astype(np.float64)
    learned = fit_posterior(found, numbers.astype(np.int32), is_click[order], activity, make_generator(seed))
    return {name: array.tolist() for name, array in learned.to_arrays().items()}

"""A page about a sample of what Spark found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from prorec.denoise.history import Round
from prorec.interactions import Interactions
from prorec.report.findings import Findings
from prorec.report.page import check_report_path, write_page

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from prorec.engines.spark.sizes import Sizes
    from prorec.engines.spark.spark_result import RoundOnSpark, SparkResult


def write_sample(found: SparkResult, path: str | Path, title: str, most: int) -> None:
    """Write a page about users, in the order of a hash of their numbers, who have so many interactions at most."""
    check_report_path(path)
    sizes = found.sizes
    chosen = _drawn(found, most)
    text = {"user": "cast(user_id as string) as user", "item": "cast(item_id as string) as item"}
    columns = ["weight", "weight_before", "noise_probability", "flagged", "share", "threshold"]
    if found.noise_rate is not None:
        columns.append("percentile_rank")
    rows = found._pairs.join(chosen, "user").selectExpr(*text.values(), *columns).toArrow()
    people = found.users.join(chosen, "user").selectExpr(text["user"], "kappa", "threshold").toArrow()
    known = Interactions.from_table(
        pa.table({"user": rows["user"], "item": rows["item"], "weight": rows["weight_before"]})
    )
    # From the order that rows came in to that of the interactions.
    at = known.pair_positions(
        known.user_positions(rows["user"].to_pylist()), known.item_positions(rows["item"].to_pylist())
    )
    order = np.argsort(at)
    ours = known.user_positions(people["user"].to_pylist())
    kappa, thresholds = np.zeros(known.n_users, dtype=np.int64), np.zeros(known.n_users, dtype=np.float32)
    here = ours >= 0  # users without interactions have a threshold, too
    kappa[ours[here]], thresholds[ours[here]] = people["kappa"].to_numpy()[here], people["threshold"].to_numpy()[here]
    quartiles = np.quantile(kappa, [0.25, 0.5, 0.75]).tolist()
    history = tuple(_round(each, (quartiles[0], quartiles[1], quartiles[2])) for each in found.history)
    told = found.settings
    findings = Findings(
        interactions=known,
        noise_probability=rows["noise_probability"].to_numpy()[order],
        flagged=rows["flagged"].to_numpy(zero_copy_only=False)[order],
        weights=rows["weight"].to_numpy()[order],
        row_shares=rows["share"].to_numpy()[order],
        kappa=kappa,
        thresholds=thresholds,
        percentile_ranks=None if found.noise_rate is None else rows["percentile_rank"].to_numpy()[order],
        noise_rate=found.noise_rate,
        fdr=float(told["fdr"]),
        flag_fraction=float(told["flag_fraction"]),
        lam=float(told["lam"]),
        transport="relaxed",
        marginals=told["marginals"],
        threshold=told["threshold"],
        history=history,
        settings=told,
        n_items=sizes.items,
        sample_note=_of_what(known, sizes),
    )
    write_page(path, findings, "the gain is not measured on Spark", title=title, seconds=found.seconds)


def _of_what(known: Interactions, sizes: Sizes) -> str:
    if len(known) == sizes.pairs:
        return ""
    return (
        f"This is a sample, all interactions of {known.n_users:,} of {sizes.users:,} users: counts, popularity and "
        f"pictures are the sample's. The whole log has {sizes.pairs:,} interactions with {sizes.items:,} items."
    )


def _drawn(found: SparkResult, most: int) -> DataFrame:
    """Users, (user), with so many interactions at most; one there is in any case."""
    from pyspark.sql import functions as F

    counts = found._pairs.groupBy("user").count()
    # More than `most` users never fit, each having one interaction at least.
    first = counts.where(F.col("count") <= most).orderBy(F.xxhash64("user"), "user").limit(most).toArrow()
    users = first["user"].to_numpy()[np.cumsum(first["count"].to_numpy()) <= most]
    if not len(users):
        smallest = counts.orderBy("count", "user").first()
        assert smallest is not None, "somebody has clicked on something"
        users = np.array([smallest["user"]], dtype=np.int32)
    return F.broadcast(counts.sparkSession.createDataFrame(pa.table({"user": pa.array(users, pa.int32())})))


def _round(each: RoundOnSpark, quartiles: tuple[float, float, float]) -> Round:
    """As on one machine, but for losses and seconds, which nobody measured."""
    kept, below = each.mass_kept, each.below_threshold
    return Round(each.number, None, None, None, each.gamma, kept, below, quartiles, each.change, 0.0, 0.0)

"""Scores of new interactions on Spark, by a denoiser that was trained on one machine."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkFiles
from pyspark.sql import DataFrame
from pyspark.sql.types import FloatType, StringType, StructType

from prorec._core.errors import InputError
from prorec._core.files import prefix_errors
from prorec._core.provenance import digest_file
from prorec.denoise import ProRec
from prorec.engines.spark.interaction_table import choose_name
from prorec.interactions.columns import ColumnRef, choose_columns
from prorec.models import load
from prorec.noise import NoiseFinder
from prorec.noise.later_interactions import score_rows
from prorec.noise.posterior import basis_names
from prorec.noise.ridge_scores import keep_inverses

_archives: dict[str, str] = {}
"""Models that were sent, by name; Spark refuses another file of the same name."""
_ID_TYPES = ("tinyint", "smallint", "int", "bigint", "string")


def score(df: DataFrame, model: str | Path, *, user_col: ColumnRef = None, item_col: ColumnRef = None) -> DataFrame:
    """Add the noise probability of new interactions to a table, also to one that is a stream.

    Every row is scored by itself, in bounded memory, so the result does not depend on the partitions. `prorec score`
    does the same for standard input. Each Python worker loads the model once.

    Parameters
    ----------
    df : DataFrame
        One row per interaction; a table or a stream of Structured Streaming.
    model : str or Path
        Folder that `ProRec.save` or `prorec train --denoise` wrote. Spark sends it to the executors.
    user_col, item_col : str or int, optional
        Names or positions of columns that do not have the usual names.

    Returns
    -------
    DataFrame
        The rows with `noise_probability` and `basis` (see `prorec.NoiseFinder.score`); both are null where an id is
        missing, and the probability where the item is unknown. A new column has the prefix `prorec_` if the table has a
        column of its name.

    Raises
    ------
    InputError
        If the columns are not found or are no ids, or the folder has no denoiser with a noise finder.
    """
    if not isinstance(df, DataFrame):
        raise InputError(f"df must be a Spark DataFrame; got {type(df).__name__}")
    names, types = df.columns, dict(df.dtypes)
    chosen = choose_columns(names, {"user": user_col, "item": item_col}, roles=("user", "item"))
    for role, position in chosen.items():
        if types[names[position]] not in _ID_TYPES:
            raise InputError(
                f"the column {names[position]!r} must be integers or text to be the {role}; it has type "
                f"{types[names[position]]}. Cast it"
            )
    folder = Path(model)
    _find_finder(folder)
    # As one file, because Spark sends no folders; under a name of its own, because it keeps the first of two.
    name = f"prorec-{digest_file(folder / 'model.json')}"
    if name not in _archives:
        place = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, place, ignore_errors=True)
        _archives[name] = shutil.make_archive(f"{place}/{name}", "zip", folder)
    df.sparkSession.sparkContext.addFile(_archives[name])
    added = [choose_name(name, names) for name in ("noise_probability", "basis")]
    schema = StructType([*df.schema.fields]).add(added[0], FloatType()).add(added[1], StringType())
    user, item, sent = chosen["user"], chosen["item"], Path(_archives[name]).name

    def score_batches(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        finder = _unpack_finder(SparkFiles.get(sent))
        with keep_inverses():
            for batch in batches:
                yield pa.RecordBatch.from_arrays(
                    [*batch.columns, *_score_batch(finder, batch.column(user), batch.column(item))],
                    names=[*batch.schema.names, *added],
                )

    return df.mapInArrow(score_batches, schema)


def _score_batch(finder: NoiseFinder, users: pa.Array, items: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return noise probability and basis of each row; null where an id is missing."""
    is_given = pc.and_(users.is_valid(), items.is_valid()).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(is_given)
    probability = np.full(len(users), np.nan, dtype=np.float32)
    names = np.full(len(users), None, dtype=object)
    if len(rows):
        probability[rows], basis = score_rows(finder, users.take(rows), items.take(rows))
        names[rows] = basis_names(basis).to_numpy(zero_copy_only=False)
    return pa.array(probability, mask=np.isnan(probability)), pa.array(names, pa.string())


@cache
def _unpack_finder(archive: str) -> NoiseFinder:
    """Return the noise finder that was sent to this worker."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.unpack_archive(archive, folder)
        return _find_finder(Path(folder))


def _find_finder(folder: Path) -> NoiseFinder:
    """Return the noise finder of a saved denoiser."""
    denoiser = load(folder)
    with prefix_errors(folder):
        if not isinstance(denoiser, ProRec):
            raise InputError(f"a denoiser is needed, and this is {type(denoiser).__name__} without one")
        return denoiser.finder_

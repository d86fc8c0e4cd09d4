"""`prorec train` and `prorec recommend`: a model on disk, and its recommendations."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from prorec._core.checks import check_int
from prorec._core.errors import DataWarning, InputError
from prorec.cli.command import as_command, refuse
from prorec.cli.exit_codes import blame_data
from prorec.cli.options import (
    AlgorithmSettings,
    ConsoleOptions,
    ForceOptions,
    LogOptions,
    ModelOptions,
    NoiseSettings,
    SavedModel,
    TableOutput,
    TimeOptions,
    load_model,
)
from prorec.cli.output_files import (
    check_distinct,
    check_formulas,
    check_model_folder,
    check_output,
    check_rejected,
    describe_formulas,
    rejected_outputs,
    write_rejected,
    write_rows,
)
from prorec.cli.provenance_file import describe_model, write_provenance
from prorec.data.source_table import SourceTable
from prorec.denoise import ProRec
from prorec.interactions import Interactions
from prorec.models.model import Model


@dataclass(frozen=True, kw_only=True)
class TrainOutput(ForceOptions):
    """The model to write."""

    out: Path = field(metadata={"short": "-o"})
    """Folder to write the model into."""
    denoise: bool = False
    """Train the model on denoised weights."""


@as_command
def train(
    output: TrainOutput,
    noise: NoiseSettings,
    console: ConsoleOptions,
    model: ModelOptions,
    log: LogOptions,
    times: TimeOptions,
    algorithm: AlgorithmSettings,
) -> None:
    """Train a recommender and write it into a folder, for `prorec recommend` and `prorec.load`.

    Parameters
    ----------
    output : TrainOutput
        The folder.
    noise, algorithm : dict
        Parameters of the denoiser.
    console : ConsoleOptions
        Output on the console.
    model : ModelOptions
        The recommender.
    log : LogOptions
        The interactions.
    times : TimeOptions
        Their times, by which a denoiser finds bursts.

    Raises
    ------
    InputError
        If the folder cannot be written, or an option or the log is refused.
    """
    started = time.perf_counter()
    recommender: Model | ProRec = model.make()
    if output.denoise:
        recommender = ProRec(recommender, **noise, **algorithm)
        recommender.check_settings()
    else:
        refuse([*noise, *algorithm, *times.given], "without --denoise")
    check_distinct(rejected_outputs(output.out, skip=log.skip_bad_rows), {"the log": log.log})
    check_model_folder(output.out, force=output.force)
    check_rejected(output.out, skip=log.skip_bad_rows, force=output.force)
    with console.progress() as progress:
        source = log.read(progress, times if output.denoise else None)
        clicks = source.interactions
        if isinstance(recommender, ProRec):
            recommender.model = model.cap_rank(recommender.model, clicks)
            recommender.check_parameters(clicks.matrix.shape)
            with blame_data():
                recommender.fit(clicks, progress=progress)
        else:
            recommender = model.cap_rank(recommender, clicks)
            recommender.check_parameters(clicks.matrix.shape)
            progress(f"Fitting {type(recommender).__name__}", 0, 1)
            with blame_data():
                recommender.fit(clicks)
            progress(f"Fitting {type(recommender).__name__}", 1, 1)
        recommender.save(output.out, overwrite=output.force)
        provenance = console.provenance(log=log.describe(source))
        write_provenance(provenance, output.out)
        skipped, text = write_rejected(source, output.out, force=output.force)
    result = {
        "model": str(recommender),
        "users": clicks.n_users,
        "items": clicks.n_items,
        "interactions": len(clicks),
        "out": str(output.out),
        "seconds": round(time.perf_counter() - started, 2),
        "provenance": provenance,
    } | skipped
    console.print_result(result, text + _describe(recommender, source, output.out))


def _describe(recommender: Model | ProRec, source: SourceTable, out: Path) -> str:
    """Return the result in words."""
    clicks, name, denoised = source.interactions, type(recommender).__name__, ""
    if isinstance(recommender, ProRec):
        name, last_round = type(recommender.model_).__name__, recommender.history_[-1]
        denoised = f" Denoised with γ = {last_round.gamma:.3g}; {last_round.mass_kept:.0%} of the weight is kept."
    weights = "" if source.weight_column is None else f" Weights come from the column {source.weight_column!r}."
    return (
        f"{name} trained on {len(clicks):,} interactions of {clicks.n_users:,} users with {clicks.n_items:,} items."
        f"{denoised}{weights}\nThe model is in {out}."
    )


@dataclass(frozen=True, kw_only=True)
class RecommendOptions(SavedModel):
    """A model on disk, and the users to recommend to."""

    k: int = field(default=10, metadata={"short": "-k"})
    """Number of items for each user."""
    user: tuple[str, ...] = field(default=(), metadata={"short": "-u"})
    """User to recommend to; may be repeated. By default all users."""
    format: str | None = None
    """Format of standard output: csv, tsv or parquet."""


@dataclass(frozen=True, kw_only=True)
class RecommendOutput(TableOutput):
    """The recommendations to write."""

    out: str = field(default="-", metadata={"short": "-o"})
    """File to write: .csv, .tsv, .inter or .parquet, also with .gz; or - for standard output."""


@as_command
def recommend(options: RecommendOptions, output: RecommendOutput, console: ConsoleOptions) -> None:
    """Write the best items for each user, without those that the user has interacted with.

    Parameters
    ----------
    options : RecommendOptions
        The model and the users.
    output : RecommendOutput
        The file to write.
    console : ConsoleOptions
        Output on the console.

    Raises
    ------
    InputError
        If no user is in the model, or k is larger than the number of items.
    """
    check_output(output.out, force=output.force)
    check_formulas(output, options.format)
    recommender = load_model(options.model)
    clicks = recommender.interactions_
    users, unknown = _find_users(options.user, clicks) if options.user else (clicks.users, [])
    k = check_int("k", options.k, 1, clicks.n_items, "the number of items")
    table = recommender.recommend(users, k).to_table("pyarrow")
    provenance = console.provenance(model=describe_model(options.model))
    n_formulas = write_rows(table, output, options.format, provenance=provenance)
    target = "standard output" if output.out == "-" else output.out
    text = f"{table.num_rows:,} recommendations for {len(users):,} users written to {target}."
    result = {"recommendations": table.num_rows, "users": len(users), "unknown_users": unknown, "out": output.out}
    result |= {"formula_cells": n_formulas, "provenance": provenance}
    console.print_result(result, describe_formulas(n_formulas) + text, out=output.out)


def _find_users(texts: tuple[str, ...], clicks: Interactions) -> tuple[NDArray[Any], list[str]]:
    """Return the ids of users as the model has them, and the texts that are no such id, with a warning."""
    positions = clicks.user_positions(list(texts))
    unknown = [text for text, position in zip(texts, positions, strict=True) if position < 0]
    if len(unknown) == len(texts):
        raise InputError(
            f"--user must be a user of the model; got {', '.join(texts)}. Look for a typing error, or train the model "
            "again on a log with this user"
        )
    if unknown:
        warnings.warn(
            f"no recommendations for {', '.join(unknown)}: the model does not know this user. Train it again on a log "
            "with this user",
            DataWarning,
            stacklevel=1,
        )
    return clicks.users[positions[positions >= 0]], unknown

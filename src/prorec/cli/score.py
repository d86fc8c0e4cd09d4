"""`prorec score`: how probable it is that clicks which came later are noise."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console
from rich.text import Text

from prorec._core.errors import InputError
from prorec._core.files import atomic_write, prefix_errors
from prorec.cli import options
from prorec.cli.streams import check_free, read, to_stdout
from prorec.data.formats import detect_format
from prorec.data.source_table import SourceTable
from prorec.data.writers import write_table
from prorec.denoise import ProRec
from prorec.models.model import load
from prorec.noise.basis import basis_names


def score(
    model: Annotated[Path, typer.Argument(help="A folder that prorec train --denoise --noise-method cross-fit wrote.")],
    log: Annotated[str, typer.Argument(help="A csv, tsv, parquet or .inter file of interactions, or - for a stream.")],
    out: Annotated[str, typer.Option("--out", "-o", help="The file to write, or - for a stream.")],
    user_col: options.UserColumn = None,
    item_col: options.ItemColumn = None,
    weight_col: options.WeightColumn = None,
    no_header: options.NoHeader = False,
    separator: options.Separator = None,
    text_ids: options.TextIds = False,
    format: options.Format = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
    config: options.Config = None,
) -> None:
    """Judge new interactions by what was learned before.

    Writes every row of the log as it came, in its order, with two more columns: noise_probability and basis.
    """
    begin = time.perf_counter()
    columns = options.columns_of(
        user_col, item_col, weight_col, no_header=no_header, separator=separator, text_ids=text_ids
    )
    if out != "-":
        check_free(Path(out), force=force)
    denoiser = load(model)
    if not isinstance(denoiser, ProRec):
        raise InputError(
            f"{model}: this is a {type(denoiser).__name__} without a denoiser; one that can score is made by prorec "
            "train --denoise --noise-method cross-fit"
        )
    with prefix_errors(model):
        finder = denoiser.finder_
    given = read(log, format, columns)
    probability, basis = finder.scored(given.interactions)
    kind = format if out == "-" else detect_format(Path(out))[0]
    table = _table(given, probability, basis, typed=kind == "parquet")
    if out == "-":
        to_stdout(table, format)
    else:
        path = Path(out)
        with prefix_errors(path), atomic_write(path) as temporary, temporary.open("wb") as file:
            write_table(table, file, path.name)
    of_rows = probability[given.positions]
    counts = Counter(basis_names(basis[given.positions]).to_pylist())
    about = {
        "rows": table.num_rows,
        "by": dict(counts),
        "mean_noise_probability": float(np.nanmean(of_rows)) if not np.isnan(of_rows).all() else None,
        "out": out,
        "seconds": round(time.perf_counter() - begin, 2),
    }
    if as_json:
        print(json.dumps(about), file=sys.stderr if out == "-" else sys.stdout)
    elif not quiet:
        _show(about, Console(stderr=out == "-"))


def _table(
    given: SourceTable, probability: np.ndarray[Any, Any], basis: np.ndarray[Any, Any], *, typed: bool
) -> pa.Table:
    # An empty cell, not a number that is none, where there is nothing to say.
    values = pa.array(probability, mask=np.isnan(probability))
    table = given.with_columns({"noise_probability": values, "basis": basis_names(basis)})
    return given.infer_types(table) if typed else table


def _show(about: dict[str, Any], console: Console) -> None:
    by = ", ".join(
        f"{count:,} by {name}" if name != "seen" else f"{count:,} seen before"
        for name, count in sorted(
            ((name.replace("unknown item", "nothing (unknown item)"), count) for name, count in about["by"].items()),
            key=lambda each: -each[1],
        )
    )
    mean = about["mean_noise_probability"]
    expected = f" On average they are noise with probability {mean:.3f}." if mean is not None else ""
    where = "the stream" if about["out"] == "-" else about["out"]
    console.print(
        Text(f"{about['rows']:,} rows judged: {by}.{expected} Written to {where} in {about['seconds']:.1f} s.")
    )

"""`prorec report`: a page about a log, or about a denoiser that was trained before."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from prorec._core.errors import InputError
from prorec._core.progress import ConsoleProgress
from prorec.cli import options
from prorec.cli.streams import check_report_free, described, read, title_of
from prorec.data.item_info import add_item_info
from prorec.denoise import ProRec
from prorec.models.factory import cap_rank, make_model, parse_parameters
from prorec.models.model import load
from prorec.report.page import write_report

_OF_A_LOG = (
    "model param noise_method fdr flag_fraction "
    "user_col item_col weight_col timestamp_col no_header separator text_ids format"
).split()


def report(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(help="A file of interactions, - for a stream, or a folder that prorec train --denoise wrote."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write, such as report.html.")],
    items: options.ItemsPath = None,
    model: options.ModelName = "nce",
    param: options.Parameters = None,
    noise_method: options.NoiseMethod = "cross-fit",
    flag_fraction: options.FlagFraction = 0.05,
    fdr: options.Fdr = 0.1,
    user_col: options.UserColumn = None,
    item_col: options.ItemColumn = None,
    weight_col: options.WeightColumn = None,
    timestamp_col: options.TimeColumn = None,
    no_header: options.NoHeader = False,
    separator: options.Separator = None,
    text_ids: options.TextIds = False,
    format: options.Format = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Write a page that shows which clicks are noise: one HTML file, to look at and to send around."""
    begin = time.perf_counter()
    title = "Which clicks are noise?"
    check_report_free(out, force=force)
    with ConsoleProgress(quiet=quiet) as progress:
        if source != "-" and Path(source).is_dir():
            options.refuse(ctx, _OF_A_LOG, "for a denoiser that has been trained")
            denoiser, seconds = _trained(Path(source), items), None
        else:
            parameters = parse_parameters(param or [])
            denoiser = ProRec(
                make_model(model, parameters), noise_method=noise_method, flag_fraction=flag_fraction, fdr=fdr
            )
            denoiser.check_settings()
            columns = options.columns_of(
                user_col, item_col, weight_col, no_header=no_header, separator=separator, text_ids=text_ids
            )
            progress("reading", 0, 1)
            given = read(source, format, columns)
            clicks = described(source, given, items, columns, timestamp_col)
            progress("reading", 1, 1)
            denoiser.model = cap_rank(denoiser.model, clicks.matrix.shape, parameters)
            denoiser.fit(clicks, progress=progress)
            seconds = time.perf_counter() - begin
            title = title_of(source)
        write_report(denoiser, out, title=title, seconds=seconds, progress=progress)
    if not quiet:
        noise_rate = denoiser.finder_.noise_rate_ if denoiser.noise_method != "plan" else None
        estimated = "" if noise_rate is None else f", noise estimated at {noise_rate}"
        n_flagged = int(denoiser.flagged_.sum())
        words = f"{n_flagged:,} of {len(denoiser.interactions_):,} different interactions flagged{estimated}. "
        if not n_flagged and noise_rate is not None:
            words += f"Of no group of them {1 - denoiser.fdr:.0%} are noise; a larger --fdr flags more. "
        Console().print(Text(f"{words}The report is in {out}."), soft_wrap=True)


def _trained(folder: Path, items: Path | None) -> ProRec:
    denoiser = load(folder)
    if not isinstance(denoiser, ProRec):
        raise InputError(f"{folder}: there is no denoiser in this model; prorec train --denoise makes one")
    if items is not None:
        denoiser.interactions_ = add_item_info(denoiser.interactions_, items)
    return denoiser

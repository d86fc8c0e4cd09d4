"""What several commands can be told, and a file to tell it from."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from prorec._core.errors import InputError
from prorec.denoise import ProRec
from prorec.models.model import Model
from prorec.transport.thresholds import Threshold


def _read_config(ctx: typer.Context, path: Path | None) -> Path | None:
    """Take what a TOML file says as defaults; what is typed goes before."""
    if path is None:
        return None
    try:
        everything = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not TOML that can be read: {error}") from None
    command = str(ctx.info_name)
    section = everything.get(command)
    if not isinstance(section, dict):
        raise InputError(f"{path}: there is no table [{command}] in it, with options of this command")
    known = {word.lstrip("-"): each for each in ctx.command.params for word in each.opts if word.startswith("-")}
    defaults: dict[str, Any] = {}
    for name, value in section.items():
        option = known.get(name.replace("_", "-"))
        if option is None or name == "config":
            close = difflib.get_close_matches(name, [each for each in known if each != "config"], 1, 0.5)
            guess = f"; did you mean {close[0]!r}?" if close else ""
            raise InputError(f"{path}: prorec {command} has no option called {name!r}{guess}")
        if isinstance(value, bool) != bool(getattr(option, "is_flag", False)):
            raise InputError(f"{path}: {name} cannot be {value!r}")
        if isinstance(value, dict):
            value = [f"{each}={_as_text(setting)}" for each, setting in value.items()]
        if getattr(option, "multiple", False) and not isinstance(value, list):
            value = [value]
        defaults[str(option.name)] = [str(each) for each in value] if isinstance(value, list) else value
    ctx.default_map = {**(ctx.default_map or {}), **defaults}
    return path


def _as_text(setting: Any) -> str:
    return setting if isinstance(setting, str) else repr(setting)


Config = Annotated[
    Path | None,
    typer.Option(
        help="A TOML file with options, in a table named like the command.", callback=_read_config, is_eager=True
    ),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace what is there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing unless something goes wrong.")]
Json = Annotated[bool, typer.Option("--json", help="Say it in JSON.")]
ModelName = Annotated[str, typer.Option("--model", "-m", help="nce, wrmf, svd, ease, cdae, vae or popularity.")]
Parameters = Annotated[
    list[str] | None, typer.Option("--param", "-p", help="A parameter of the model, as in -p rank=50; may be repeated.")
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="csv, tsv or parquet: of what goes through -, or a log whose name doesn't tell."),
]

# How the columns of a log are called.
UserColumn = Annotated[str | None, typer.Option("--user-col", help="Name of the user column, or its position from 0.")]
ItemColumn = Annotated[str | None, typer.Option("--item-col", help="Name of the item column, or its position from 0.")]
WeightColumn = Annotated[str | None, typer.Option("--weight-col", help="Name of a column of weights from 0 to 1.")]
TimeColumn = Annotated[
    str | None, typer.Option("--timestamp-col", help="For the report: name of the column of times, or its position.")
]
NoHeader = Annotated[bool, typer.Option("--no-header", help="The first line is data, not names.")]
Separator = Annotated[str | None, typer.Option("--separator", help="The character between columns.")]
TextIds = Annotated[bool, typer.Option("--text-ids", help="Take ids as text, whatever they look like.")]

# The report.
ReportPath = Annotated[
    Path | None, typer.Option("--report", help="Write a page about what was found, such as report.html.")
]
ItemsPath = Annotated[
    Path | None,
    typer.Option("--items", help="For the report: a file with item ids, and names or categories; may be the log."),
]

# Algorithm 1.
Transport = Annotated[str, typer.Option(help="How users and items are matched: relaxed, sinkhorn or emd.")]
ThresholdText = Annotated[
    str, typer.Option("--threshold", help="personal, none, or the number of items above the threshold of each user.")
]
Gamma = Annotated[str, typer.Option(help="How much the plan is spread: a number above 0, auto, or like '0.5 auto'.")]
Beta = Annotated[float, typer.Option(help="How steep the step around the threshold is.")]
Lam = Annotated[float, typer.Option(help="How much of the present weights is kept, from 0 to 1.")]
Rounds = Annotated[int, typer.Option(help="How often to relabel and learn again, at most.")]
RelabelFrom = Annotated[str, typer.Option(help="Weights that relabelling starts from: current or original.")]
MarginalsName = Annotated[str, typer.Option("--marginals", help="popularity or uniform.")]
WarmStart = Annotated[bool, typer.Option("--warm-start", help="Start each fit from the last, where the model can.")]
NoiseMethod = Annotated[
    str,
    typer.Option(
        "--noise-method", help="Where probabilities come from: plan, or cross-fit (calibrated, takes longer)."
    ),
]
FlagFraction = Annotated[float, typer.Option(help="With --noise-method plan: the share of interactions to flag.")]
Fdr = Annotated[
    float, typer.Option(help="With --noise-method cross-fit: the share of flags that may be wrong, between 0 and 1.")
]


def refuse(ctx: typer.Context, names: Iterable[str], why: str) -> None:
    """Refuse options that were given and mean nothing here."""
    for name in names:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name != "DEFAULT":
            raise InputError(f"--{name.replace('_', '-')} means nothing {why}")


def threshold_of(text: str) -> Threshold:
    """A threshold as it was typed.

    >>> threshold_of("10")
    10
    """
    if re.fullmatch(r"\d{1,9}", text.strip()):
        return int(text)
    if text in ("personal", "none"):
        return cast(Threshold, text)
    raise InputError(f"threshold must be personal, none or a number of items, as in 10; got {text!r}")


def gamma_of(text: str) -> Any:
    """γ as it was typed."""
    try:
        return text if text.endswith("auto") else float(text)
    except ValueError:
        raise InputError(f"gamma must be a number above 0, auto, or like '0.5 auto'; got {text!r}") from None


def columns_of(
    user: str | None, item: str | None, weight: str | None, *, no_header: bool, separator: str | None, text_ids: bool
) -> dict[str, Any]:
    """What a reader is told about the columns."""
    named = {"user_col": user, "item_col": item, "weight_col": weight}
    # Without names, columns can only go by position.
    given = {name: int(ref) if ref and no_header and ref.isdecimal() else ref for name, ref in named.items()}
    how = {"header": not no_header, "separator": _unescaped(separator), "ids": "text" if text_ids else "auto"}
    return given | how


def _unescaped(separator: str | None) -> str | None:
    return {"\\t": "\t", "tab": "\t"}.get(separator or "", separator)


def denoiser_of(
    model: Model,
    *,
    transport: str,
    threshold: str,
    gamma: str,
    beta: float,
    lam: float,
    rounds: int,
    relabel_from: str,
    marginals: str,
    warm_start: bool,
    noise_method: str = "plan",
    flag_fraction: float = 0.05,
    fdr: float = 0.1,
) -> ProRec:
    """The denoiser that was asked for; what is wrong with it is said before any work."""
    denoiser = ProRec(
        model,
        transport=transport,  # type: ignore[arg-type]  # checked below, with words
        threshold=threshold_of(threshold),
        gamma=gamma_of(gamma),
        beta=beta,
        lam=lam,
        rounds=rounds,
        relabel_from=relabel_from,  # type: ignore[arg-type]
        marginals=marginals,  # type: ignore[arg-type]
        warm_start=warm_start,
        noise_method=noise_method,
        flag_fraction=flag_fraction,
        fdr=fdr,
    )
    denoiser.check_settings()
    return denoiser

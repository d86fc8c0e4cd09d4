"""Options that several commands share."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

from prorec._core.checks import check_choice
from prorec._core.errors import InputError
from prorec._core.files import is_file
from prorec._core.progress import ConsoleProgress, Progress
from prorec._core.provenance import digest_file, make_provenance
from prorec.cli.command import FieldsOf, Options
from prorec.cli.config_file import read_config
from prorec.cli.console import print_plain
from prorec.cli.exit_codes import BadDataError, blame_data
from prorec.cli.messages import LogProgress, use_log_json, use_log_level, use_quiet, use_result_json
from prorec.data.column_values import check_time_format
from prorec.data.formats import format_suffix
from prorec.data.item_info import add_item_info
from prorec.data.readers import warn_about_skipped
from prorec.data.source_table import SourceTable, read_source_table
from prorec.denoise import ProRec
from prorec.interactions import Interactions
from prorec.models.factory import cap_rank, make_model, parse_parameters
from prorec.models.model import Model, load
from prorec.models.recommendations import FittedRecommender

FORMATS = ("csv", "tsv", "parquet")
"""Formats of streams."""
_SEPARATORS = {"csv": ",", "tsv": "\t"}
_SUFFIXES = (".csv", ".tsv", ".inter", ".parquet", ".pq")

_NOISE = ("noise_method", "flag_fraction", "fdr")

NoiseSettings = Annotated[dict[str, Any], FieldsOf(ProRec, include=_NOISE)]
"""Parameters of a denoiser that say how noise is found and flagged; only those that were given."""
AlgorithmSettings = Annotated[dict[str, Any], FieldsOf(ProRec, "Algorithm", exclude=("model", *_NOISE))]
"""The other parameters of a denoiser, without the model; only those that were given."""


@dataclass(frozen=True, kw_only=True)
class LogOptions(Options):
    """A log of interactions, and how to read it."""

    panel = "Columns of the log"

    log: str = field(metadata={"positional": True})
    """Log of interactions: a text file with one row on each line, or a parquet file; or - for standard input."""
    user_col: str | None = None
    """Name of the user column, or its position from 0."""
    item_col: str | None = None
    """Name of the item column, or its position from 0."""
    weight_col: str | None = None
    """Name of a column of weights from 0 to 1, or its position; none if a column of that name is something else."""
    no_header: bool = False
    """The first line is data, not names. By default prorec finds out."""
    separator: str | None = None
    """Character between the columns. By default prorec finds out."""
    text_ids: bool = False
    """Read ids as text, even if they look like numbers."""
    skip_bad_rows: bool = False
    """Leave out rows that cannot be used, and write them with the reasons into a file beside the output."""
    format: str | None = None
    """Format of standard input and output, or of a log without a known ending: csv, tsv or parquet."""

    def reader_arguments(self) -> dict[str, Any]:
        """Return the options as arguments of a reader.

        Returns
        -------
        dict
            Keyword arguments of `read_source_table`.
        """
        columns = {"user_col": self.user_col, "item_col": self.item_col, "weight_col": self.weight_col}
        # Without names, columns can only go by position. No file has columns enough for ten digits, and Python does not
        # read numbers of thousands of digits.
        references = {
            name: int(column) if column and self.no_header and column.isdecimal() and len(column) < 10 else column
            for name, column in columns.items()
        }
        separator = {"\\t": "\t", "tab": "\t"}.get(self.separator or "", self.separator)
        if separator is None and format_suffix(Path(self.log)) not in _SUFFIXES and self.log != "-":
            separator = _SEPARATORS.get(self.format or "")
        return references | {
            "header": False if self.no_header else "auto",
            "separator": separator,
            "ids": "text" if self.text_ids else "auto",
            "skip_bad_rows": self.skip_bad_rows,
        }

    def read(self, progress: Progress, times: TimeOptions | None = None) -> SourceTable:
        """Read the log.

        Parameters
        ----------
        progress : Progress
            Gets the bytes that are read, and the steps after that.
        times : TimeOptions, optional
            Column and format of times, if they are needed.

        Returns
        -------
        SourceTable

        Raises
        ------
        InputError
            If it is not a log that can be read.
        """
        self.check_format()
        arguments = self.reader_arguments()
        if times is not None:
            check_time_format(times.time_format)
            arguments |= {"timestamp_col": times.timestamp_col, "time_format": times.time_format, "with_times": True}
        with blame_data(), self._advise_check(), self.open() as path:
            source = read_source_table(path, **arguments, progress=progress)
            progress("Taking the digest of the log", 0, 1)
            source = replace(source, digest=digest_file(path))
            progress("Taking the digest of the log", 1, 1)
        warn_about_skipped("standard input" if self.log == "-" else self.log, source.skipped)
        return source

    @contextmanager
    def _advise_check(self) -> Iterator[None]:
        """Name the command that says everything about the log, where a block refuses it."""
        try:
            yield
        except InputError as error:
            if self.log == "-" or not is_file(self.log):
                raise
            advice = f"To see everything about this log at once, run: {shlex.join(['prorec', 'check', self.log])}"
            raise type(error)(f"{str(error).rstrip('.')}. {advice}") from error.__cause__

    def check_format(self) -> None:
        """Raise `InputError` if there is no such format."""
        if self.format is not None:
            check_choice("format", self.format, FORMATS)

    @contextmanager
    def open(self) -> Iterator[Path]:
        """Give the path of the log in a `with` block; that of a copy if it is standard input.

        Yields
        ------
        Path

        Raises
        ------
        InputError
            If the log cannot be used; it is called standard input if it is that.
        """
        with _standard_input(self.format) if self.log == "-" else nullcontext(Path(self.log)) as path:
            yield path

    def describe(self, source: SourceTable) -> dict[str, Any]:
        """Return name and digest of the log.

        Parameters
        ----------
        source : SourceTable
            The log, from `read`.

        Returns
        -------
        dict
            An input for `ConsoleOptions.provenance`.
        """
        return {"name": "standard input" if self.log == "-" else Path(self.log).name, "sha256": source.digest}

    @property
    def report_title(self) -> str:
        """Title of a report about the log."""
        return f"Which clicks in {'standard input' if self.log == '-' else Path(self.log).name} are noise?"


@contextmanager
def _standard_input(format: str | None) -> Iterator[Path]:
    """Yield a file with the content of standard input; call it that in errors."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"standard input.{format or 'csv'}"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield path
        except InputError as error:
            raise InputError(str(error).replace(str(path), "standard input")) from error.__cause__


@dataclass(frozen=True, kw_only=True)
class TimeOptions(Options):
    """The times of a log."""

    panel = "Columns of the log"

    timestamp_col: str | None = None
    """Name of the column of times, or its position; none for no times."""
    time_format: str | None = None
    """Format of times that are neither numbers nor ISO times, such as "%d.%m.%Y %H:%M"."""


@dataclass(frozen=True, kw_only=True)
class ItemOptions(TimeOptions):
    """Details of the log for a report."""

    panel = "Report"

    items: Path | None = None
    """File with item ids, and names or categories, for the report; may be the log."""

    def check(self) -> None:
        """Refuse a file of items that is not there, before the log is read.

        Raises
        ------
        BadDataError
            If there is no such file.
        """
        if self.items is not None and not is_file(self.items):
            raise BadDataError(f"{self.items}: there is no such file")

    def describe(self, options: LogOptions, source: SourceTable) -> Interactions:
        """Return the interactions of a log with names and categories.

        Parameters
        ----------
        options : LogOptions
            Options that the log was read with.
        source : SourceTable
            The log.

        Returns
        -------
        Interactions

        Raises
        ------
        InputError
            If the file of items cannot be used.
        """
        if self.items is None:
            return source.interactions
        is_log = options.log != "-" and self.items.resolve() == Path(options.log).resolve()
        arguments = options.reader_arguments()
        separator = arguments["separator"] if is_log else None
        with blame_data():
            return add_item_info(source.interactions, self.items, arguments["item_col"], separator)


@dataclass(frozen=True, kw_only=True)
class ModelOptions(Options):
    """A recommender and its parameters."""

    panel = "Model"

    model: str = field(default="nce", metadata={"short": "-m"})
    """Name of the recommender: nce, wrmf, svd, ease, cdae, vae or popularity."""
    param: tuple[str, ...] = field(default=(), metadata={"short": "-p"})
    """Parameter of the recommender, such as -p rank=50; may be repeated."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the model by name."""
        return parse_parameters(self.param)

    def make(self) -> Model:
        """Make the recommender.

        Returns
        -------
        Model
            Not fitted.

        Raises
        ------
        InputError
            If there is no such model or parameter; the message has the closest name.
        """
        return make_model(self.model, self.parameters)

    def cap_rank(self, model: Model, interactions: Interactions) -> Model:
        """Limit the rank of a model to one that suits the data.

        Parameters
        ----------
        model : Model
            From `make`.
        interactions : Interactions
            The data: the rank is at most a quarter of the smaller number of users and items.

        Returns
        -------
        Model
            The model itself if `--param` sets the rank.
        """
        return cap_rank(model, interactions.matrix.shape, self.parameters)


@dataclass(frozen=True, kw_only=True)
class SavedModel(Options):
    """A model on disk."""

    model: Path = field(metadata={"positional": True})
    """Folder that prorec train, or save, wrote."""


def load_model(folder: Path) -> FittedRecommender:
    """Load a model or a denoiser from a folder.

    Parameters
    ----------
    folder : Path
        Folder that `prorec train` wrote.

    Returns
    -------
    FittedRecommender

    Raises
    ------
    BadDataError
        If it is a file, or there is no model in it.
    """
    if is_file(folder):
        raise BadDataError(
            f"{folder}: a model is a folder, and this is a file; train one with prorec train {folder} --out model/"
        )
    with blame_data():
        return load(folder)


def load_denoiser(folder: Path) -> ProRec:
    """Load a denoiser from a folder.

    Parameters
    ----------
    folder : Path
        Folder that `prorec train --denoise` wrote.

    Returns
    -------
    ProRec

    Raises
    ------
    BadDataError
        If there is no model in the folder, or one without a denoiser.
    """
    denoiser = load_model(folder)
    if not isinstance(denoiser, ProRec):
        raise BadDataError(
            f"{folder}: a denoiser is needed, and this is {type(denoiser).__name__} without one; train it with "
            "prorec train --denoise"
        )
    return denoiser


@dataclass(frozen=True, kw_only=True)
class ConsoleOptions(Options):
    """Output on the console."""

    json: bool = field(default=False, metadata={"callback": use_result_json})
    """Print the result as JSON; an error too, on standard error."""
    quiet: bool = field(default=False, metadata={"short": "-q", "callback": use_quiet})
    """Print nothing but errors."""
    config: Path | None = field(default=None, metadata={"callback": read_config, "is_eager": True})
    """TOML file with options, in a table named like the command."""
    log_level: str | None = field(default=None, metadata={"callback": use_log_level})
    """Lowest level of log messages: debug, info, warning or error. By default warning, with --log-json info."""
    log_json: bool = field(default=False, metadata={"callback": use_log_json})
    """Write messages and progress as a log: one JSON object on each line of standard error."""

    def progress(self) -> ConsoleProgress | LogProgress:
        """Return a display of progress for a `with` block; beside JSON it shows nothing."""
        return LogProgress() if self.log_json else ConsoleProgress(quiet=self.quiet or self.json)

    def provenance(self, **inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Describe where the result of this command comes from.

        Parameters
        ----------
        **inputs : mapping
            Name and digest of each input.

        Returns
        -------
        dict
            Plain values for JSON; see `make_provenance`.
        """
        return make_provenance(inputs, self.settings)

    def print_result(self, result: Mapping[str, Any], text: str, *, out: str = "") -> None:
        """Print the result of a command.

        Parameters
        ----------
        result : dict
            The result, for JSON.
        text : str
            The result in words.
        out : str, default ""
            Output of the command; with "-", which is standard output, the result goes to standard error.
        """
        if self.json:
            print(json.dumps(result), file=sys.stderr if out == "-" else sys.stdout)
        elif not self.quiet:
            print_plain(Console(stderr=out == "-"), text)


@dataclass(frozen=True, kw_only=True)
class ForceOptions(Options):
    """Replacement of existing files."""

    force: bool = field(default=False, metadata={"short": "-f"})
    """Replace existing output."""


@dataclass(frozen=True, kw_only=True)
class FormulaOptions(ForceOptions):
    """A text file that a spreadsheet may open."""

    escape_formulas: bool = False
    """Put an apostrophe before text cells of csv and tsv that a spreadsheet takes for formulas, such as =1+1."""


@dataclass(frozen=True, kw_only=True)
class TableOutput(FormulaOptions):
    """A table to write."""

    out: str = field(metadata={"short": "-o"})
    """File to write: .csv, .tsv, .inter or .parquet, also with .gz; or - for standard output."""


@dataclass(frozen=True, kw_only=True)
class DenoiseOutput(TableOutput):
    """Files that `prorec denoise` writes."""

    drop: bool = False
    """Write only the rows that are not flagged."""
    report: Path | None = None
    """Also write a report, such as report.html."""
    resume: bool = False
    """Continue an interrupted run with the same options."""

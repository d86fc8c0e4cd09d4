"""Output of commands: checks before the work, and atomic writes that replace a file only with --force."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from prorec._core.errors import InputError
from prorec._core.files import atomic_write, check_replaceable, prefix_errors
from prorec._core.progress import Progress
from prorec.cli.options import TableOutput
from prorec.cli.provenance_file import is_provenance, provenance_path, write_provenance
from prorec.data.formats import detect_format, format_suffix
from prorec.data.source_table import SourceTable
from prorec.data.writers import write_table
from prorec.report.page import check_report_path


def check_output(out: str | Path, *, force: bool) -> None:
    """Refuse a table file that cannot be written, before any work is done for it.

    Parameters
    ----------
    out : str or Path
        The file; "-", which is standard output, is always accepted.
    force : bool
        Accept a file that exists.

    Raises
    ------
    InputError
        If the name has no known ending, the file exists, or its folder is missing or not writable.
    """
    if out == "-":
        return
    path = Path(out)
    with prefix_errors(path):
        if not path.name:
            raise InputError("--out must be the name of a file; got an empty text")
        detect_format(path)
        _check_new(path, force=force)
    with prefix_errors(provenance_path(path)):
        # That of an earlier table of this name is replaced, whatever became of the table.
        _check_new(provenance_path(path), force=force or is_provenance(provenance_path(path)))


def check_distinct(outputs: Mapping[str, str | Path | None], inputs: Mapping[str, str | Path | None]) -> None:
    """Refuse an output that would overwrite an input or another output.

    Parameters
    ----------
    outputs : mapping of str to path or None
        Files to write by option, such as "--out"; None and "-" do not count.
    inputs : mapping of str to path or None
        Files to read by what they are, such as "the log".

    Raises
    ------
    InputError
        If two of them are the same file.
    """
    taken = {_real_path(path): name for name, path in inputs.items() if path not in (None, "-")}
    for name, path in outputs.items():
        if path in (None, "-"):
            continue
        real = _real_path(path)
        if real in taken:
            raise InputError(f"{name} must be another file than {taken[real]}; got {path} for both")
        taken[real] = name


def _real_path(path: str | Path | None) -> Path:
    return Path(str(path)).resolve()


def rejected_path(out: str | Path) -> Path | None:
    """Return the file for rows that are left out, beside an output.

    Parameters
    ----------
    out : str or Path
        The output, a file or a folder.

    Returns
    -------
    Path or None
        None if the output is standard output.

    Examples
    --------
    >>> rejected_path("cleaned.csv.gz").name
    'cleaned.rejected.csv'
    """
    if str(out) == "-":
        return None
    path = Path(out)
    return path.parent / f"{Path(path.name.removesuffix('.gz')).stem}.rejected.csv"


def rejected_outputs(out: str | Path, *, skip: bool) -> dict[str, Path | None]:
    """Return the file for rows that are left out, as `check_distinct` takes it.

    Parameters
    ----------
    out : str or Path
        The output of the command.
    skip : bool
        Whether rows are left out at all.

    Returns
    -------
    dict
        Empty if there will be no such file.
    """
    return {"the file for rows that are left out": rejected_path(out)} if skip else {}


def check_rejected(out: str | Path, *, skip: bool, force: bool) -> Path | None:
    """Refuse a file for rows that are left out that cannot be written.

    Parameters
    ----------
    out : str or Path
        The output of the command.
    skip : bool
        Whether rows are left out at all.
    force : bool
        Accept a file that exists.

    Returns
    -------
    Path or None
        The file; None if there will be none.
    """
    path = rejected_path(out) if skip else None
    if path is not None:
        check_output(path, force=force)
    return path


def write_rejected(
    source: SourceTable, out: str | Path, *, force: bool, escape_formulas: bool = False
) -> tuple[dict[str, Any], str]:
    """Write the rows of a log that were left out, with the reasons.

    Parameters
    ----------
    source : SourceTable
        The log.
    out : str or Path
        The output of the command.
    force : bool
        Replace a file that exists.
    escape_formulas : bool, default False
        Escape cells that a spreadsheet takes for formulas.

    Returns
    -------
    result : dict
        Values for JSON: `rows_skipped`, and `rejected`, the file.
    text : str
        Sentences for the summary, on lines of their own; empty if no row was left out.
    """
    bad = source.skipped
    if bad is None:
        return {"rows_skipped": 0, "rejected": None}, ""
    path, text = rejected_path(out), ""
    if path is not None:
        write_rows(bad.to_table(), TableOutput(out=str(path), force=force, escape_formulas=escape_formulas), None)
        were = "1 row of the log was" if bad.n_bad == 1 else f"{bad.n_bad:,} rows of the log were"
        text = f"{were} left out, and written to {path} with the reason.\n"
    return {"rows_skipped": bad.n_bad, "rejected": None if path is None else str(path)}, text


def check_report(path: Path, *, force: bool) -> None:
    """Refuse a report that cannot be written, before any work is done for it.

    Parameters
    ----------
    path : Path
        The page.
    force : bool
        Accept a file that exists.

    Raises
    ------
    InputError
        If reports cannot be made, the file exists, or its folder is missing or not writable.
    """
    check_report_path(path)
    with prefix_errors(path):
        _check_new(path, force=force)


def check_model_folder(path: Path, *, force: bool) -> None:
    """Refuse a folder that a model cannot be saved in.

    Parameters
    ----------
    path : Path
        The folder, which need not exist.
    force : bool
        Accept a folder that is not empty.

    Raises
    ------
    InputError
        If the path is a file, a folder with other content, or not writable.
    """
    with prefix_errors(path):
        if (path.exists() or path.is_symlink()) and not path.is_dir():
            raise InputError("this is a file; a folder was expected")
        if path.is_dir():
            check_replaceable(path / "model.json")
        if path.is_dir() and any(path.iterdir()) and not force:
            raise InputError("this folder is not empty; pass --force to replace the model in it")
        check_writable(path if path.is_dir() else path.parent)


def check_writable(folder: Path) -> None:
    """Refuse a folder in which no file can be made.

    Parameters
    ----------
    folder : Path
        The folder.

    Raises
    ------
    InputError
        If it does not exist or is not writable.
    """
    if not folder.is_dir():
        raise InputError(f"the folder {folder} does not exist")
    probe = folder / f".prorec-{secrets.token_hex(4)}"
    try:
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise InputError(f"the folder {folder} is not writable ({error.strerror})") from None


def _check_new(path: Path, *, force: bool) -> None:
    """Refuse a file that exists, a path that is no regular file, and a folder that is not writable."""
    if check_replaceable(path) is not None and not force:
        raise InputError("this file exists already; pass --force to replace it")
    check_writable(path.parent)


def check_formulas(output: TableOutput, format: str | None = None) -> None:
    """Refuse --escape-formulas for files that no spreadsheet reads as text.

    Parameters
    ----------
    output : FormulaOptions
        The output.
    format : str or None
        Format of standard output; csv by default.

    Raises
    ------
    InputError
        If the option is given, and the file is neither csv nor tsv.
    """
    suffix = format_suffix(_name_of(output.out, format))
    if output.escape_formulas and suffix not in (".csv", ".tsv"):
        raise InputError(f"--escape-formulas is for csv and tsv, and the output is {suffix.lstrip('.')}; leave it out")


def describe_formulas(n_cells: int) -> str:
    """Return a line for the summary about cells that a spreadsheet takes for formulas.

    Parameters
    ----------
    n_cells : int
        Their number.

    Returns
    -------
    str
        Empty if there is none.
    """
    if not n_cells:
        return ""
    cells = "1 cell starts" if n_cells == 1 else f"{n_cells:,} cells start"
    return f"{cells} like a formula, and nothing was changed; for a spreadsheet, pass --escape-formulas.\n"


def write_rows(
    table: pa.Table,
    output: TableOutput,
    format: str | None,
    source: SourceTable | None = None,
    work: Path | None = None,
    *,
    provenance: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> int:
    """Write a table, whole or not at all, and then its provenance into a file beside it.

    Parameters
    ----------
    table : pyarrow.Table
        The rows.
    output : TableOutput
        The file, or "-" for standard output. With --force a file that exists is replaced, also one that appeared
        during the work.
    format : str or None
        Format of standard output; csv by default.
    source : SourceTable, optional
        Log that the table was made from: in parquet, columns of text that are plain numbers become numbers.
    work : Path, optional
        Folder for the unfinished file, so that a killed run leaves no other trace.
    provenance : mapping, optional
        Provenance of the table; standard output has none.
    progress : Progress, optional
        Gets the number of rows that are written, and of all.

    Returns
    -------
    int
        Number of cells in a csv or tsv file that a spreadsheet takes for a formula.

    Raises
    ------
    InputError
        If the file cannot be written or must not be replaced.
    """
    path = _name_of(output.out, format)
    if source is not None and detect_format(path)[0] == "parquet":
        if progress is not None:
            progress("Preparing the rows", 0, 1)  # the writer goes on with it
        table = source.infer_types(table)
    options: dict[str, Any] = {"escape_formulas": output.escape_formulas, "progress": progress}
    if output.out == "-":
        n_formulas = write_table(table, sys.stdout.buffer, path.name, **options)
        sys.stdout.buffer.flush()
        return n_formulas
    with (
        prefix_errors(path),
        atomic_write(path, work, overwrite=output.force) as temporary,
        temporary.open("wb") as file,
    ):
        n_formulas = write_table(table, file, path.name, **options)
    if provenance is not None:
        write_provenance(provenance, path)
    return n_formulas


def _name_of(out: str, format: str | None) -> Path:
    """Return the name of the output; that of standard output ends as its format does."""
    return Path(f"-.{format or 'csv'}" if out == "-" else out)

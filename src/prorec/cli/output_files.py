"""Output of commands: checks before the work, atomic writes, and the work directory that --resume continues from."""

from __future__ import annotations

import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from rich.console import Console

from prorec._core.errors import InputError
from prorec._core.files import atomic_write, prefix_errors
from prorec.cli.console import print_plain
from prorec.cli.provenance_file import provenance_path, write_provenance
from prorec.data.formats import detect_format
from prorec.data.source_table import SourceTable
from prorec.data.writers import write_table
from prorec.report.page import check_report_path

INTERRUPTED = "An interrupted run left its state here. Pass --resume to continue it, or --force to start again."
"""Message for an output that an earlier run was about to write."""


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
        if path.is_dir():
            raise InputError("this is a directory; a file was expected")
        _check_new(path, force=force)
    with prefix_errors(provenance_path(path)):
        _check_new(provenance_path(path), force=force)


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
    return path.with_name(f"{Path(path.name.removesuffix('.gz')).stem}.rejected.csv")


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


def write_rejected(source: SourceTable, out: str | Path) -> tuple[dict[str, Any], str]:
    """Write the rows of a log that were left out, with the reasons.

    Parameters
    ----------
    source : SourceTable
        The log.
    out : str or Path
        The output of the command.

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
        write_rows(bad.to_table(), str(path), None)
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
        if path.exists() and not path.is_dir():
            raise InputError("this is a file; a folder was expected")
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
    """Refuse a file that exists, or whose folder is not writable."""
    if path.exists() and not force:
        raise InputError("this file exists already; pass --force to replace it")
    check_writable(path.parent)


def write_rows(
    table: pa.Table,
    out: str,
    format: str | None,
    source: SourceTable | None = None,
    work: Path | None = None,
    *,
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Write a table, whole or not at all, and then its provenance into a file beside it.

    Parameters
    ----------
    table : pyarrow.Table
        The rows.
    out : str
        The file, or "-" for standard output.
    format : str or None
        Format of standard output; csv by default.
    source : SourceTable, optional
        Log that the table was made from: in parquet, columns of text that are plain numbers become numbers.
    work : Path, optional
        Folder for the unfinished file, so that a killed run leaves no other trace.
    provenance : mapping, optional
        Provenance of the table; standard output has none.
    """
    path = Path(f"-.{format or 'csv'}" if out == "-" else out)
    if source is not None and detect_format(path)[0] == "parquet":
        table = source.infer_types(table)
    if out == "-":
        write_table(table, sys.stdout.buffer, path.name)
        sys.stdout.buffer.flush()
        return
    with prefix_errors(path), atomic_write(path, work) as temporary, temporary.open("wb") as file:
        write_table(table, file, path.name)
    if provenance is not None:
        write_provenance(provenance, path)


class WorkDirectory:
    """The hidden folder beside an output file in which a run keeps its checkpoints.

    Parameters
    ----------
    out : str
        The output file.
    """

    def __init__(self, out: str) -> None:
        self.out = out
        self.path = Path(out).parent / f".{Path(out).name}.prorec"

    def has_state(self) -> bool:
        """Find out whether an interrupted run can be continued.

        Returns
        -------
        bool
            True if the folder has the checkpoint of a round or of a fit.
        """
        return any(self.path.glob("round.npz")) or any(self.path.glob("fit-*"))

    @contextmanager
    def open(self, *, resume: bool) -> Iterator[Path]:
        """Make the folder for this run alone, and delete it when the run ends or has nothing to continue from.

        Parameters
        ----------
        resume : bool
            Keep the checkpoints that are in the folder.

        Yields
        ------
        Path
            The folder.

        Raises
        ------
        InputError
            If another run uses the folder, or it has links, pipes or devices in it, which no run makes.
        """
        problem: InputError | None = None
        with prefix_errors(self.path):
            self.path.mkdir(exist_ok=True)
            self._refuse_links()
            with (self.path / "lock").open("w") as lock:
                _lock(lock, self.out)
                if not resume:
                    for path in self.path.iterdir():
                        if path.name != "lock":
                            shutil.rmtree(path) if path.is_dir() else path.unlink()
                try:
                    yield self.path
                except BaseException as error:
                    if not self.has_state():
                        shutil.rmtree(self.path)
                    elif isinstance(error, KeyboardInterrupt):
                        print_plain(Console(stderr=True), "Interrupted. Pass --resume to continue from here.")
                    if not isinstance(error, InputError):
                        raise
                    problem = error  # it is about the work, and not about this folder
                else:
                    shutil.rmtree(self.path)
        if problem is not None:
            raise problem

    def _refuse_links(self) -> None:
        """Refuse a folder that would lead the run to files of others."""
        for path in (self.path, *self.path.iterdir()):
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                raise InputError(
                    f"a work folder has only folders and regular files; {path.name} is a link, a pipe or a device. "
                    "Remove it"
                )


def _lock(file: IO[str], out: str) -> None:
    """Lock a file as long as it is open; the system unlocks the file of a killed process."""
    try:
        import fcntl
    except ModuleNotFoundError:  # not on Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"another run is writing {out}; wait for it, or choose another --out") from None

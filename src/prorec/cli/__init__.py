"""The command `prorec`: options, progress and exit codes. The work is done by the other packages."""

from __future__ import annotations

import atexit
import io
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.console import Console

from prorec import __version__
from prorec._core.interrupts import is_command
from prorec.cli.command import PlainCommand, PlainGroup
from prorec.cli.exit_codes import ExitCode
from prorec.cli.messages import has_json_errors, report_error, start_messages
from prorec.cli.streams import checked_streams, end_process

COMMANDS = {
    "demo": "Denoise a synthetic film club whose mistakes are known, and write a report. Nothing is downloaded.",
    "check": "Look at a log before using it: its columns, its bad rows, and the accounts that stand out.",
    "denoise": "Find the interactions that are noise.",
    "report": "Write a report that shows which clicks are noise: one HTML file, to read and to pass on.",
    "train": "Train a recommender and write it into a folder, for prorec recommend and prorec.load.",
    "recommend": "Write the best items for each user, without those that the user has interacted with.",
    "score": "Find the noise probability of new interactions with a trained denoiser.",
    "evaluate": "Compare recommenders on 30% of each user's interactions, after training on the other 70%.",
    "audit": "Check flagged rows by hand, and bound the share of wrong flags.",
    "datasets": "List and fetch data sets.",
}
"""Names and first lines of all commands. A command is in the module of its name, but for `_MODULES`."""
_MODULES = {"recommend": "train"}


def load_command(name: str) -> Any:
    """Import a command, or a group of commands.

    Parameters
    ----------
    name : str
        One of `COMMANDS`.

    Returns
    -------
    TyperCommand or TyperGroup
    """
    loaded = getattr(import_module(f"prorec.cli.{_MODULES.get(name, name)}"), name)
    if isinstance(loaded, typer.Typer):
        return typer.main.get_group(loaded)
    alone = typer.Typer(add_completion=False)
    alone.command(name, cls=PlainCommand)(loaded)
    return typer.main.get_command(alone)


class _LazyGroup(PlainGroup):
    """Commands that are imported when they run, because that takes a second; the help has their first lines."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the command and its arguments; see `click.Group.resolve_command`."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, name and load_command(name), rest


def _only_named() -> None:
    """Stand for a command that is not imported yet."""


app = typer.Typer(cls=_LazyGroup, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
for _name, _help in COMMANDS.items():
    app.command(_name, help=_help)(_only_named)


@checked_streams()
def main() -> None:
    """Run the command line, and exit.

    `ExitCode` has all exit codes.
    """
    if is_command():
        atexit.register(end_process)  # before libraries are imported, so that it comes after their functions
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode gets question marks, not a crash
    words = [word for word in sys.argv[1:] if word != "--debug"]  # --debug may stand anywhere
    start_messages(sys.argv[1:])
    try:
        # Typer prints errors of the command line itself, in colours, but not as JSON.
        code = app(words, standalone_mode=not has_json_errors()) or ExitCode.SUCCESS
        sys.exit(report_error(KeyboardInterrupt()) if code == ExitCode.INTERRUPTED else code)
    except BrokenPipeError:  # the reader of a pipe, such as head, has ended
        sys.stderr.close()
        sys.exit(ExitCode.FAILED_RUN)
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        sys.exit(report_error(error))


def _show_version(is_given: bool) -> None:
    """Print the version and exit, if --version is given."""
    if is_given:
        Console().print(f"prorec {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def prorec(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show log messages, and the traceback of an error.", metavar="")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.", metavar="")
    ] = False,
) -> None:
    """Find noisy clicks in interaction logs, and train recommenders that are not misled by them."""

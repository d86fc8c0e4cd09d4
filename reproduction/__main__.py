"""`python -m reproduction NAME`: the paper's tables and figures, the noise benchmark, and other studies."""

from __future__ import annotations

import sys

import typer
from rich.console import Console
from rich.text import Text

from prorec._core.errors import InputError, ProrecError
from reproduction import (
    accounts,
    arena,
    finder_promises,
    gowalla,
    natural_noise,
    published_results,
    recovery,
    untuned_gain,
)
from reproduction.benchmark_command import noise_benchmark
from reproduction.paper_commands import add_paper_commands, yahoo_times

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
add_paper_commands(app)
app.command("yahoo-times")(yahoo_times)
app.command("noise-benchmark")(noise_benchmark)
app.command("published-results")(published_results.main)
app.command("gowalla")(gowalla.main)
app.command("untuned-gain")(untuned_gain.main)
app.command("accounts")(accounts.main)
app.command("noise-promises")(finder_promises.main)
app.command("recovery")(recovery.main)
app.command("natural-noise")(natural_noise.main)
app.command("arena")(arena.main)


def main() -> None:
    """Run a command: exit 0 if it worked, 2 if the input was wrong, 1 if it failed otherwise."""
    try:
        app(prog_name="python -m reproduction")
    except ProrecError as error:
        Console(stderr=True).print(Text("reproduction: ", style="red") + Text(str(error)), soft_wrap=True)
        sys.exit(2 if isinstance(error, InputError) else 1)


if __name__ == "__main__":
    main()

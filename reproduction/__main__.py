"""`python -m reproduction`: the paper's results, the noise benchmark, and other studies, by name."""

from __future__ import annotations

import typer

from reproduction.benchmark_command import benchmark_noise
from reproduction.reproduce_command import reproduce

app = typer.Typer(no_args_is_help=True, add_completion=False)
app.command("paper")(reproduce)
app.command("noise-benchmark")(benchmark_noise)

if __name__ == "__main__":
    app()

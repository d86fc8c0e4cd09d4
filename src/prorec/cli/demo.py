"""`prorec demo`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from prorec.cli.streams import check_report_free
from prorec.demo import run_demo


def demo(
    seed: Annotated[int, typer.Option(help="Another seed makes another film club.")] = 0,
    report: Annotated[Path, typer.Option(help="Where to write the report; one that is there is replaced.")] = Path(
        "prorec-demo.html"
    ),
) -> None:
    """Denoise a synthetic film club whose mistakes are known, and write a report. Nothing is downloaded."""
    console = Console()
    if find_spec("jinja2") is None:
        run_demo(console, seed)
        console.print("There is a report at the end of this, with pip install 'prorec[report]'.", highlight=False)
        return
    check_report_free(report, force=True)
    run_demo(console, seed, report)

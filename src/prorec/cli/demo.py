"""`prorec demo`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from prorec.demo import run_demo


def demo(seed: Annotated[int, typer.Option(help="Another seed makes another film club.")] = 0) -> None:
    """Denoise a synthetic film club whose mistakes are known. Nothing is downloaded."""
    run_demo(Console(), seed)

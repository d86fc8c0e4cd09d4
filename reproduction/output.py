"""The output folder of a command, and the page that it writes there."""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Console
from rich.text import Text

from prorec._core.errors import InputError
from prorec._core.files import atomic_write, prefix_errors


def create_folder(out: Path) -> None:
    """Create a folder unless it exists.

    Raises
    ------
    InputError
        If the path is a file, or nothing can be written there.
    """
    with prefix_errors(out):
        if out.exists() and not out.is_dir():
            raise InputError("the output must be a folder, and this is a file; choose another name")
        folder = out if out.is_dir() else out.parent
        if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
            raise InputError(f"{folder} is not writable; choose another folder")
        out.mkdir(exist_ok=True)


def write_page(page: str, path: Path, *, quiet: bool) -> None:
    """Write a page into a file, and print it unless `quiet`."""
    with prefix_errors(path), atomic_write(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    if not quiet:
        Console().print(Text(page), soft_wrap=True)
        Console().print(Text(f"written to {path}"))

"""The notebooks of the manual are run again: what they print must be what is stored in them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.printed_numbers import prints_the_same

FOLDER = Path(__file__).parent.parent / "docs" / "notebooks"
NOTEBOOKS = [pytest.param("cinema"), pytest.param("movielens-100k", marks=pytest.mark.real_data("ml-100k"))]
# In a process of its own: what nbclient imports warns of its own future, which is no concern of ours.
_RUN = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=".")
nbformat.write(notebook, sys.argv[2])
"""


def code_cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def printed(cell: dict[str, Any]) -> str:
    """What a cell printed, and the value of its last line, in words."""
    pieces = []
    for output in cell["outputs"]:
        assert output["output_type"] in ("stream", "execute_result", "display_data"), output
        if output["output_type"] != "stream":
            pieces += output["data"].get("text/plain", [])
        elif output["name"] == "stdout":
            pieces += output["text"]
    return "".join(pieces)


def test_every_notebook_is_named() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == {str(each.values[0]) for each in NOTEBOOKS}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_is_fit_to_be_kept(path: Path) -> None:
    assert path.stat().st_size < 300_000
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1)), "run from top to bottom"
    assert not any(output.get("name") == "stderr" for cell in cells for output in cell["outputs"])
    assert not re.search(r"/(home|root|tmp|work|Users|usr|opt)/|[A-Z]:\\\\", path.read_text()), "a path of some machine"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_prints_what_is_stored(name: str, tmp_path: Path) -> None:
    stored, fresh = FOLDER / f"{name}.ipynb", tmp_path / "fresh.ipynb"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _RUN, str(stored), str(fresh)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for before, after in zip(code_cells(stored), code_cells(fresh), strict=True):
        assert prints_the_same(printed(after), printed(before)), f"{printed(after)}\nis not\n{printed(before)}"

"""The notebooks of the manual are run again: what they print must be what is stored in them.

Processors round differently, so numbers may differ in their last digits; the words between them may not.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


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


def last_digit(number: str) -> float:
    """Return the value of one unit in the last digit of a printed number."""
    mantissa, _, exponent = number.partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def is_close(after: str, before: str) -> bool:
    """Return whether two printed numbers differ by at most 1% (counts: 5%) or two units in the last digit."""
    new, old = (float(number.replace(",", "")) for number in (after, before))
    share = 0.01 if "." in before else 0.05  # a count changes by each click that crosses a limit
    return abs(new - old) <= 1.001 * max(share * old, 2 * last_digit(before))


def prints_the_same(after: str, before: str) -> bool:
    """Return whether two texts have the same words, and close numbers between them."""
    words = [[" ".join(piece.split()) for piece in _NUMBER.split(text)] for text in (after, before)]
    numbers = zip(_NUMBER.findall(after), _NUMBER.findall(before), strict=False)
    return words[0] == words[1] and all(is_close(*pair) for pair in numbers)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("rate:  9.9% (7.8% to 13.2%), p = 2e-09, 1,900 of 36,682", True),
        ("rate: 10.0% (7.6% to 13.0%), p = 2e-09, 1,834 of 36,682", False),
        ("rate: 10.0% (7.9% to 13.0%), p = 2e-08, 1,834 of 36,682", False),
        ("rate: 10.0% (7.9% to 13.0%), p = 2e-09, 1,930 of 36,682", False),
        ("rate: -10.0% (7.9% to 13.0%), p = 2e-09, 1,834 of 36,682", False),
        ("rate: 10.0% (7.9% to 13.0%), p = 2e-09, 1,834", False),
    ],
)
def test_a_different_number_or_word_is_noticed(after: str, expected: bool) -> None:
    assert prints_the_same(after, "rate: 10.0% (7.9% to 13.0%), p = 2e-09, 1,834 of 36,682") is expected


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

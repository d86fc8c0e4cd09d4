"""Every command in the README and the docs is run, page by page, in a folder of its own.

Examples in Python are doctests, which pytest finds by itself; here it is checked that all of them are.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

NOT_RUN = {
    "make test": "this is it",
    "make demo": "test_make_targets asks make what it would do",
    "pip install": "CI starts from nothing and installs",
    "python -c": "a million users take more than a minute",
    "make reproduce": "hours",
    "python -m reproduction published-results": "a minute, on data that not everybody has",
    "python -m reproduction untuned-gain": "tests/denoise/test_gain.py runs what it prints",
    "python -m reproduction overall": "tests/reproduction/test_command.py makes such a table",
    "python -m reproduction all --quick": "tests/reproduction/test_command.py runs it",
    "python -m reproduction yahoo-times --quick": "tests/reproduction/test_command.py, at half of that size",
    "python -m reproduction yahoo-times --out": "an hour without a GPU; tests/reproduction has a small one",
    "prorec demo": "tests/cli/test_command.py runs it and looks at what it says",
    "prorec report clicks.csv --out": "the README's is run, and tests/cli/test_report.py looks at what it writes",
    "prorec denoise clicks.csv --out cleaned.csv --report": "the same",
    "prorec evaluate clicks.csv --seeds 2": "tests/cli/test_train.py",
    "prorec datasets get amusic": "tests/cli/test_command.py, where the data is",
}


def blocks(page: Path) -> list[str]:
    return _BLOCK.findall(page.read_text())


def is_run(line: str) -> bool:
    return not any(line.startswith(start) for start in NOT_RUN)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def script_of(page: Path) -> str:
    return "\n".join(line for block in blocks(page) for line in block.splitlines() if is_run(line))


@pytest.mark.parametrize("page", [page for page in PAGES if script_of(page)], ids=name_of)
def test_commands(page: Path, tmp_path: Path) -> None:
    script = script_of(page)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_not_run_is_still_there() -> None:
    lines = [line for page in PAGES for block in blocks(page) for line in block.splitlines()]
    for start in NOT_RUN:
        assert any(line.startswith(start) for line in lines), f"{start} is in no page any more"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_examples_in_python_are_run(page: Path) -> None:
    text = page.read_text()
    assert "doctest: +SKIP" not in text
    for language, block in _FENCE.findall(text):
        if language.strip().lower() in ("python", "py", "pycon", "ipython"):
            assert language == "python", f"a block is marked {language!r}, not python"
            assert block.lstrip().startswith(">>> "), f"not a doctest, so it is not run:\n{block}"
            assert block.endswith("\n\n"), f"the last line of output runs into the end of the block:\n{block}"
        else:
            assert ">>> " not in block, f"run, but not marked as python:\n{block}"


def test_commands_are_in_blocks_where_they_are_run() -> None:
    for page in PAGES:
        outside = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        assert not re.search(r"^ {4}(\$ )?(prorec|make|pip|python) ", outside, flags=re.MULTILINE), page.name
        assert not re.search(r"^ {4}(\w+ = |import |from )", outside, flags=re.MULTILINE), page.name


def test_make_targets() -> None:
    named = {word for page in PAGES for word in re.findall(r"`?make ([a-z]+)\b`?", page.read_text())}
    for target in named & {"demo", "test", "docs", "bench", "figures"}:
        asked = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert asked.returncode == 0, asked.stderr
    assert {"demo", "test", "docs", "bench"} <= named

"""The README and the manual agree with the code: commands run, and files and names exist.

Python examples are doctests, which pytest collects itself; a test here checks that every example is one.
"""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.shell import run_script

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_CODE = re.compile(r"`([^`\n]+)`")
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_GET = re.compile(r"^prorec datasets get cinema --out (\S+)")
_ROWS = 10_000  # a fifth of the cinema: commands of many pages run, and their options do not depend on the size

NOT_RUN = {
    "make test": "runs this test",
    "make demo": "test_make_targets has make print its commands",
    "pip install": "CI installs into an empty environment",
    "python -c": "a million users take more than a minute",
    "make reproduce": "takes hours",
    "python -m reproduction published-results": "takes a minute, and its data may be missing",
    "python -m reproduction gowalla": "takes minutes, and its data may be missing",
    "python -m reproduction untuned-gain": "tests/denoise/test_gain.py makes its table",
    "python -m reproduction overall": "tests/reproduction/test_command.py makes a small one",
    "python -m reproduction all --quick": "tests/reproduction/test_command.py runs it",
    "python -m reproduction yahoo-times --quick": "tests/reproduction/test_command.py runs half the size",
    "python -m reproduction yahoo-times --out": "takes an hour without a GPU; tests/reproduction runs a small one",
    "prorec demo": "tests/cli/test_command.py runs it and checks its output",
    "prorec report clicks.csv --out": "the README's is run, and tests/cli/test_report.py checks the page",
    "prorec denoise clicks.csv --out cleaned.csv --report": "tests/cli/test_report.py checks the page",
    "prorec evaluate clicks.csv --seeds 2": "tests/cli/test_train.py runs it",
    "prorec datasets get amusic": "tests/cli/test_command.py runs it if the data is there",
}


def blocks(page: Path) -> list[str]:
    return _BLOCK.findall(page.read_text())


def is_run(line: str) -> bool:
    return not any(line.startswith(start) for start in NOT_RUN)


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def page_script(page: Path) -> str:
    """Return the commands of a page that are run, with a shorter log."""
    lines = []
    for line in (line for block in blocks(page) for line in block.splitlines() if is_run(line)):
        lines.append(line)
        if found := _GET.match(line):
            lines.append(f"sed -i.whole '{_ROWS + 2},$d' {found[1]}")
    return "\n".join(lines)


@pytest.mark.parametrize("page", [page for page in PAGES if page_script(page)], ids=page_name)
def test_commands(page: Path, tmp_path: Path) -> None:
    result = run_script(page_script(page), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr


def test_commands_that_are_not_run_are_in_a_page() -> None:
    lines = [line for page in PAGES for block in blocks(page) for line in block.splitlines()]
    for start in NOT_RUN:
        assert any(line.startswith(start) for line in lines), f"no page has {start}"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_python_examples_are_doctests(page: Path) -> None:
    text = page.read_text()
    assert "doctest: +SKIP" not in text
    for language, block in _FENCE.findall(text):
        if language.strip().lower() in ("python", "py", "pycon", "ipython"):
            assert language == "python", f"a block is marked {language!r}, not python"
            assert block.lstrip().startswith(">>> "), f"not a doctest, so it is not run:\n{block}"
            assert block.endswith("\n\n"), f"the last line of output runs into the end of the block:\n{block}"
        else:
            assert ">>> " not in block, f"run, but not marked as python:\n{block}"


def test_commands_are_in_marked_blocks() -> None:
    for page in PAGES:
        outside = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        assert not re.search(r"^ {4}(\$ )?(prorec|make|pip|python) ", outside, flags=re.MULTILINE), page.name
        assert not re.search(r"^ {4}(\w+ = |import |from )", outside, flags=re.MULTILINE), page.name


def test_make_targets() -> None:
    targets = {word for page in PAGES for word in re.findall(r"`?make ([a-z]+)\b`?", page.read_text())}
    for target in targets & {"demo", "test", "docs", "bench", "figures"}:
        printed = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert printed.returncode == 0, printed.stderr
    assert {"demo", "test", "docs", "bench"} <= targets


def test_contributing_names_existing_paths() -> None:
    """The map of changes is useful only while each of its paths exists."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    starts = ("src/", "tests/", "reproduction/", "benchmarks/", "docs/")
    paths = {code for code in _CODE.findall(text) if code.startswith(starts)}
    assert len(paths) > 50
    missing = sorted(path for path in paths if not (ROOT / path).exists())
    assert not missing, f"CONTRIBUTING.md names paths that do not exist: {missing}"


def glossary_code() -> list[str]:
    """Return the code spans of the last column of the glossary's tables."""
    rows = [line for line in (ROOT / "docs" / "glossary.md").read_text().splitlines() if line.startswith("| ")]
    return [code for row in rows for code in _CODE.findall(row.strip("| ").split("|")[-1])]


def defined_names() -> set[str]:
    """Return all names that the package and the reproduction define, and their short string constants."""
    names = set()
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "reproduction").rglob("*.py")]:
        names |= {path.stem, path.parent.name}
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.arg):
                names.add(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 30:
                names.add(node.value)
    return names


def test_glossary_names_existing_code() -> None:
    codes, names = glossary_code(), defined_names()
    assert len(codes) > 60
    words = {(code, word) for code in codes for word in re.split(r"[^\w-]+", code) if word}
    missing = sorted(f"{word} in {code}" for code, word in words if word not in names)
    assert not missing, f"docs/glossary.md names code that does not exist: {missing}"


@pytest.mark.parametrize("name", sorted({code for code in glossary_code() if re.fullmatch(r"[A-Z]\w+\.\w+", code)}))
def test_glossary_attributes_exist(name: str) -> None:
    """`Class.attribute` belongs to that very class."""
    class_name, attribute = name.split(".")
    packages = [importlib.import_module(f"prorec{each}") for each in ("", ".models", ".denoise", ".transport")]
    classes = [getattr(package, class_name) for package in packages if hasattr(package, class_name)]
    assert classes, f"no public package has a class {class_name}"
    assert hasattr(classes[0], attribute) or attribute in classes[0].__dataclass_fields__

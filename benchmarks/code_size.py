"""Lines of code and of docstrings by subpackage: `python -m benchmarks.code_size [COMMIT ...]`.

Code lines are all lines except blanks, comments and docstrings. Commits add columns before that of the working tree.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = Path("src/prorec")


def count_lines(source: str) -> Counter[str]:
    """Count the code, docstring and comment lines of one Python file; blank lines do not count."""
    docstring_lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            match statement:
                case ast.Expr(value=ast.Constant(value=str())):
                    docstring_lines |= set(range(statement.lineno, (statement.end_lineno or 0) + 1))
    return Counter(
        "docstring" if number in docstring_lines else "comment" if line.lstrip().startswith("#") else "code"
        for number, line in enumerate(source.splitlines(), 1)
        if line.strip()
    )


def read_working_tree() -> Iterator[tuple[Path, str]]:
    """Yield path and text of the package's Python files."""
    for path in (ROOT / PACKAGE).rglob("*.py"):
        yield path.relative_to(ROOT), path.read_text()


def read_commit(commit: str) -> Iterator[tuple[Path, str]]:
    """Yield path and text of the package's Python files at a commit."""
    archive = subprocess.run(["git", "archive", commit, str(PACKAGE)], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            content = files.extractfile(member)
            if content is not None and member.name.endswith(".py"):
                yield Path(member.name), content.read().decode()


def count_by_package(sources: Iterator[tuple[Path, str]]) -> dict[str, Counter[str]]:
    """Sum the lines of each subpackage, and of all."""
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for path, source in sources:
        name = path.relative_to(PACKAGE).parts[0]
        lines = count_lines(source)
        totals["(root)" if name.endswith(".py") else name] += lines
        totals["all"] += lines
    return totals


def main(commits: list[str]) -> None:
    """Print one row per subpackage, with the columns of each commit and of the working tree."""
    columns = {commit: count_by_package(read_commit(commit)) for commit in commits}
    columns["now"] = count_by_package(read_working_tree())
    print(f"| package | {' | '.join(f'{name}: code | docstrings' for name in columns)} |")
    print(f"| --- | {' | '.join(['---: | ---:'] * len(columns))} |")
    for package in sorted(
        {name for column in columns.values() for name in column}, key=lambda name: (name == "all", name)
    ):
        cells = (_format_cells(column[package]) if package in column else "– | –" for column in columns.values())
        print(f"| {package} | {' | '.join(cells)} |")


def _format_cells(lines: Counter[str]) -> str:
    return f"{lines['code']:,} | {lines['docstring'] / max(lines.total(), 1):.0%}"


if __name__ == "__main__":
    main(sys.argv[1:])

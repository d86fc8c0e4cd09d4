"""Print the coverage of each package as a table, from the data that `make coverage` leaves in .coverage."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

COUNTS = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def format_table(files: Mapping[str, Any]) -> str:
    """Return the table of the files in coverage's JSON report, by package, with the total in the last row."""
    packages: dict[str, Counter[str]] = defaultdict(Counter)
    for path, entry in files.items():
        package, slash, _ = path.replace("\\", "/").rpartition("/prorec/")[2].partition("/")
        for name in (f"`{package}/`" if slash else "files beside them", "total"):
            packages[name].update({count: entry["summary"][count] for count in COUNTS})
    lines = ["| package | lines | branches | covered |", "| --- | ---: | ---: | ---: |"]
    for name in sorted(packages, key=lambda name: (name == "total", not name.startswith("`"), name)):
        statements, covered, branches, covered_branches = (packages[name][count] for count in COUNTS)
        share = (covered + covered_branches) / max(statements + branches, 1)
        lines.append(f"| {name} | {statements:,} | {branches:,} | {share:.1%} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        subprocess.run([sys.executable, "-m", "coverage", "json", "-q", "--fail-under=0", "-o", path], check=True)
        print(format_table(json.loads(path.read_text(encoding="utf-8"))["files"]))


if __name__ == "__main__":
    main()

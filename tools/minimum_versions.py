"""Write constraints-minimum.txt: the lowest version of each dependency that pyproject.toml allows.

Run `python tools/minimum_versions.py` after a change of a lower bound; tests/test_release.py compares the two files.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "constraints-minimum.txt"
EXTRAS = ("emd", "plots", "report", "spark", "torch", "tune")
HEADER = """\
# The lowest versions that prorec is tested with: make test-minimum. Written by tools/minimum_versions.py.
"""


def minimum_versions() -> str:
    """Return the text of the file, from the lower bounds of the dependencies and of the extras for users.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If a dependency has no lower bound.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = [*project["dependencies"]]
    for extra in EXTRAS:
        requirements += project["optional-dependencies"][extra]
    lines = []
    for requirement in requirements:
        bound = re.match(r"([\w.-]+)>=([\w.]+)", requirement)
        if bound is None:
            raise ValueError(f"{requirement!r} in pyproject.toml must have a lower bound: write {requirement}>=VERSION")
        lines.append(f"{bound[1]}=={bound[2]}\n")
    return HEADER + "".join(sorted(lines, key=str.lower))


if __name__ == "__main__":
    TARGET.write_text(minimum_versions(), encoding="utf-8")

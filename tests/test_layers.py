"""The packages stand in layers: the linter holds the order, these tests hold what it cannot see."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "prorec"


def layers() -> list[str]:
    """Packages from the top down, as import-linter's contract has them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    return list(contract["layers"])


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Module and name of every `from module import name` in a file, lazy imports included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("prorec."):
            for alias in node.names:
                yield node.module, alias.name


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_pages_show_the_packages_in_the_linters_order(page: str) -> None:
    lines = (ROOT / page).read_text("utf-8").splitlines()
    shown = [
        line.split("`")[1].rstrip("/") for line in lines if line.startswith("| `") and line.split("`")[1].endswith("/")
    ]
    assert [name.split("/")[0] for name in shown] == layers()[::-1]


def test_files_that_the_architecture_names_exist() -> None:
    rows = re.findall(r"^\| `(.+/)` \|.*\| (.+) \|$", (ROOT / "docs/architecture.md").read_text("utf-8"), re.MULTILINE)
    named = [PACKAGE / package / name for package, names in rows for name in re.findall(r"`(.+?)`", names)]
    assert len(named) >= len(layers())
    assert [path for path in named if not path.exists()] == []


def test_no_package_uses_another_packages_private_names() -> None:
    offences = []
    for path in PACKAGE.rglob("*.py"):
        own = path.relative_to(PACKAGE).parts[0]
        for module, name in imports(path):
            package, *modules = module.split(".")[1:]
            private = [part for part in (*modules, name) if part.startswith("_") and not part.startswith("__")]
            if package != own and private:
                offences.append(f"{path.relative_to(PACKAGE)}: {module}.{name}")
    assert not offences


def test_no_two_modules_share_a_name() -> None:
    found = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        if path.name not in ("__init__.py", "__main__.py"):
            found[path.name].append(str(path.relative_to(PACKAGE)))
    assert not {name: paths for name, paths in found.items() if len(paths) > 1}

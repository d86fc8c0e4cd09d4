"""Promises about the package as a whole."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

import pytest

import prorec
from prorec.cli import COMMANDS

EXTRAS = "matplotlib torch optuna pyspark pandas polars sklearn ranx ot jinja2".split()
HEAVY = "numba scipy numpy pyarrow narwhals".split()
SLOW_PARTS = "scipy.stats scipy.optimize".split()


def find_loaded(code: str, modules: Iterable[str]) -> list[str]:
    """Return which of some modules Python has imported after it ran some code."""
    code += f"\nimport sys; print(*[name for name in {[*modules]} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stderr.split()


def test_importing_prorec_imports_nothing_heavy() -> None:
    assert find_loaded("import prorec", [*EXTRAS, *HEAVY, "rich", "typer"]) == []


def test_the_help_imports_no_command() -> None:
    code = (
        "import sys\nsys.argv = ['prorec', '--help']\nfrom prorec.cli import main\ntry: main()\nexcept SystemExit: pass"
    )
    modules = [*EXTRAS, *HEAVY, *(f"prorec.cli.{name}" for name in COMMANDS)]
    assert find_loaded(code, [*modules, "prorec.cli.command"]) == ["prorec.cli.command"]


def test_using_prorec_imports_no_extra() -> None:
    # Nor what draws: it is asked for when there is something to draw.
    code = "import prorec\nfor name in prorec.__all__: getattr(prorec, name)"
    assert find_loaded(code, [*EXTRAS, *SLOW_PARTS, "prorec.report", "prorec.noise"]) == ["prorec.noise"]


def test_a_new_process_loads_every_saved_model() -> None:
    folder = Path(__file__).parent / "models" / "saved" / "v2"
    for name in ("svd", "prorec", "prorec-cross-fit"):
        code = f"import prorec; print(type(prorec.load({str(folder / name)!r})).__name__)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == ("SVD" if name == "svd" else "ProRec")


def test_public_names_are_those_that_type_checkers_see() -> None:
    """A name is imported from the module that the type checker takes it from."""
    tree = ast.parse(Path(prorec.__file__).read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    seen = {alias.name: str(node.module) for node in imports for alias in node.names}
    for name in prorec.__all__:
        if name != "__version__":
            module = importlib.import_module(seen[name])
            assert getattr(prorec, name) is getattr(module, name), name


def test_packages_are_attributes_and_other_names_are_not() -> None:
    code = "import prorec\nprorec.noise.find_issues, prorec.report.write_report, prorec.evaluation.tuning.PAPER_GRIDS"
    assert find_loaded(code, ["prorec.noise"]) == ["prorec.noise"]
    assert {"ProRec", "noise", "models", "__version__"} <= set(dir(prorec))
    with pytest.raises(AttributeError, match="module 'prorec' has no attribute 'nonsense'"):
        prorec.nonsense  # type: ignore[attr-defined] # noqa: B018


def test_every_public_name_is_there_and_has_a_docstring() -> None:
    for name in prorec.__all__:
        thing = getattr(prorec, name)
        assert name == "__version__" or thing.__doc__, name


def test_the_package_is_typed_and_never_pickles() -> None:
    root = Path(str(files("prorec")))
    assert (root / "py.typed").exists()
    for path in root.rglob("*.py"):
        text = path.read_text()
        assert "import pickle" not in text
        assert "allow_pickle=True" not in text

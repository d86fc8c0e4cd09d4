"""Promises about the package as a whole."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import prorec

EXTRAS = ("matplotlib", "torch", "optuna", "pyspark", "pandas", "polars", "sklearn", "ranx")


def test_importing_prorec_imports_no_extra() -> None:
    # Nor what draws: it is asked for when there is something to draw.
    code = f"import prorec, sys; print([name for name in {(*EXTRAS, 'prorec.report')} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"


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

"""Break ten functions one at a time, and print which tests notice: `make mutation-check`.

Each mutation replaces one text in a copy of this tree. The tests of the mutated package run on the copy until one
fails: first those of `make test`, then the slow ones. A test that noticed must pass without the mutation. Tests of
other packages are not tried, so "no" in the table is a cautious answer. Exits with 1 unless `make test` catches nine
mutations, and `make test-all` all ten.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
MIN_CAUGHT_BY_TEST = 9


@dataclass(frozen=True)
class Mutation:
    """A small change that makes a function wrong."""

    function: str
    """Path in src/prorec, and name."""
    original: str
    replacement: str

    @property
    def path(self) -> str:
        """The file, from the root of the tree."""
        return "src/prorec/" + self.function.partition("::")[0]

    @property
    def tests(self) -> list[str]:
        """Tests and examples of the package."""
        package = self.function.split("/")[0]
        return [f"tests/{package.lstrip('_')}", f"src/prorec/{package}"]

    def apply(self, source: str) -> str:
        """Return the mutated source; raise `ValueError` unless it has the original text exactly once."""
        if (n := source.count(self.original)) != 1:
            raise ValueError(f"{self.path} must have the text {self.original!r} once, but has it {n} times")
        return source.replace(self.original, self.replacement)


MUTATIONS = [
    Mutation("_core/files.py::atomic_write", "temporary.unlink(missing_ok=True)", "pass"),
    Mutation("interactions/assembly.py::assemble_matrix", "is_first[indptr[indptr < len(order)]] = True", "pass"),
    Mutation("data/splits.py::_split_by_rank", "rank < n_test[user]", "rank <= n_test[user]"),
    Mutation("transport/relabeling.py::relabel", "probabilities * relabeled.data", "probabilities * weights.data"),
    Mutation("models/ease.py::_learn", "weights /= -weights.diagonal()", "weights /= -weights.diagonal()[:, None]"),
    Mutation("evaluation/significance.py::holm", "p[order] * np.arange(len(p), 0, -1)", "p[order] * len(p)"),
    Mutation("noise/flagging.py::flag_interactions", "> ranked[n_flags]", ">= ranked[n_flags]"),
    Mutation("denoise/weighting.py::typical_weight", "weights @ ratio", "weights.sum()"),
    Mutation("report/row_selection.py::select_rows", "activity[order] - per_user[order]", "activity[order]"),
    Mutation("engines/spark/flag_cutoff.py::find_cutoff", "is_allowed, n_flags, n_wrong)\n    #", "is_allowed)\n    #"),
]


def run_tests(tree: Path, *arguments: str) -> str | None:
    """Run pytest until a test fails, and return the id of that test; None if none fails or none is selected."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-rfE", "--tb=no", *arguments]
    variables = os.environ | {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=tree, env=variables, text=True, capture_output=True, check=False)
    if done.returncode in (0, 5):
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", done.stdout, re.MULTILINE)
    if done.returncode != 1 or failed is None:
        raise RuntimeError(f"pytest {' '.join(arguments)} could not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return failed[1]


def catch(mutation: Mutation, tree: Path) -> tuple[str | None, str | None]:
    """Return the ids of the tests that notice a mutation, of `make test` and of `make test-all`."""
    path = tree / mutation.path
    source = path.read_text(encoding="utf-8")
    path.write_text(mutation.apply(source), encoding="utf-8")
    quick = run_tests(tree, "-m", "not slow", *mutation.tests)
    caught = quick or run_tests(tree, "-m", "slow", *mutation.tests)
    path.write_text(source, encoding="utf-8")
    if caught and run_tests(tree, "--last-failed", "--last-failed-no-failures=none", *mutation.tests):
        raise RuntimeError(f"{caught} fails without the mutation of {mutation.function} too")
    return quick, caught


def main() -> int:
    """Print a row for each mutation, and return the exit status."""
    print("| function | original | mutation | `make test` | `make test-all` | first test that fails |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    n_quick = n_caught = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        ignored = shutil.ignore_patterns(".git", ".venv", "build", "dist", "results", "__pycache__", ".*_cache")
        shutil.copytree(ROOT, tree, ignore=ignored)
        for mutation in MUTATIONS:
            quick, caught = catch(mutation, tree)
            n_quick, n_caught = n_quick + bool(quick), n_caught + bool(caught)
            texts = (" ".join(text.rstrip("# \n").split()) for text in (mutation.original, mutation.replacement))
            cells = [mutation.function, *texts, *("yes" if found else "no" for found in (quick, caught)), caught or "–"]
            print("| " + " | ".join(cells) + " |", flush=True)
    print(f"\nmake test catches {n_quick} of {len(MUTATIONS)}, make test-all {n_caught}.")
    return int(n_quick < MIN_CAUGHT_BY_TEST or n_caught < len(MUTATIONS))


if __name__ == "__main__":
    sys.exit(main())

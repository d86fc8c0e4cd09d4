"""Check that this tree can be released: `make release-check`.

Builds the wheel and the sdist twice, looks into them, installs the wheel into a fresh virtual environment, and runs the
demo and the smoke tests of the unpacked sdist there. Prints one line for each check and exits with 1 if one fails. The
files that it checked are in dist/.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from pathlib import Path

from packaging.metadata import Metadata

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
TEST_PACKAGES = ("hypothesis", "pandas", "polars", "pytest")
IN_SDIST = """
    .github benchmarks docs examples reproduction src tests tools .pre-commit-config.yaml CHANGELOG.md CITATION.cff
    CODE_OF_CONDUCT.md CONTRIBUTING.md LICENSE Makefile README.md SECURITY.md conftest.py constraints.txt
    constraints-minimum.txt pyproject.toml
""".split()


class CheckError(Exception):
    """A release check that failed; the message says why."""


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    """Run a command and return its output; raise `CheckError` with the last lines of it if the command fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(
        command, cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode:
        raise CheckError(f"{Path(command[0]).name} failed:\n" + "\n".join(done.stdout.splitlines()[-15:]))
    return done.stdout


def require(holds: bool, message: str) -> None:
    """Raise `CheckError` with a message unless the condition holds."""
    if not holds:
        raise CheckError(message)


class ReleaseCheck:
    """All checks of one tree; each method is a check and returns a detail worth printing."""

    def __init__(self, scratch: Path) -> None:
        text = (ROOT / "src/prorec/__init__.py").read_text(encoding="utf-8")
        self.version = re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)[0]
        self.wheel = DIST / f"prorec-{self.version}-py3-none-any.whl"
        self.sdist = DIST / f"prorec-{self.version}.tar.gz"
        self.scratch = scratch
        self.bin = scratch / "venv" / ("Scripts" if sys.platform == "win32" else "bin")

    def check_changelog(self) -> str:
        """The changelog has an entry for this version; on a tag, the tag fits and the entry has a date."""
        changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
        dates = re.findall(rf"^## {re.escape(self.version)} \((.+)\)$", changelog, re.MULTILINE)
        require(len(dates) == 1, f"CHANGELOG.md needs one heading '## {self.version} (YYYY-MM-DD)'")
        tags = run("git", "tag", "--points-at", "HEAD").split() if (ROOT / ".git").exists() else []
        if tags:
            require(f"v{self.version}" in tags, f"the tag must be v{self.version}, but HEAD has {', '.join(tags)}")
            is_dated = re.fullmatch(r"\d{4}-\d\d-\d\d", dates[0]) is not None
            require(is_dated, f"the changelog must give the date of a release, but says ({dates[0]})")
            require(not run("git", "status", "--porcelain"), "the tree of a tag must have no uncommitted changes")
        return f"{self.version} ({dates[0]}), {'tag ' + tags[0] if tags else 'no tag'}"

    def check_build(self) -> str:
        """Two builds of wheel and sdist have the same bytes: in an environment of the build's own, and in this one."""
        epoch = run("git", "log", "-1", "--format=%ct").strip() if (ROOT / ".git").exists() else "1767225600"
        digests = []
        for folder, options in ((DIST, ()), (self.scratch / "again", ("--no-isolation",))):
            shutil.rmtree(folder, ignore_errors=True)
            run(
                sys.executable, "-m", "build", *options, "--outdir", folder, ROOT,
                SOURCE_DATE_EPOCH=epoch, PIP_CONSTRAINT=str(ROOT / "constraints.txt"),
            )  # fmt: skip
            digests.append([hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())])
        require(digests[0] == digests[1], "two builds differ; set SOURCE_DATE_EPOCH and look for times in the files")
        return f"wheel sha256 {digests[0][0][:16]}…, the same twice"

    def check_metadata(self) -> str:
        """The metadata are valid and complete."""
        with zipfile.ZipFile(self.wheel) as file:
            metadata = Metadata.from_email(file.read(f"prorec-{self.version}.dist-info/METADATA"), validate=True)
        require(str(metadata.version) == self.version, f"the wheel has version {metadata.version}, not {self.version}")
        for field in ("summary", "description", "license_expression", "license_files", "requires_python", "keywords"):
            require(bool(getattr(metadata, field)), f"pyproject.toml must give {field}")
        return f"Python {metadata.requires_python}, {len(metadata.classifiers or [])} classifiers"

    def check_wheel(self) -> str:
        """The wheel holds the files of src/prorec and nothing else."""
        with zipfile.ZipFile(self.wheel) as file:
            packed = {name for name in file.namelist() if ".dist-info/" not in name}
        source = {
            path for path in (ROOT / "src/prorec").rglob("*") if path.is_file() and path.parent.name != "__pycache__"
        }
        expected = {path.relative_to(ROOT / "src").as_posix() for path in source}
        require(packed == expected, f"the wheel and src/prorec differ: {sorted(packed ^ expected)[:5]}")
        require("prorec/py.typed" in packed, "prorec/py.typed is missing")
        return f"{len(packed)} files, {self.wheel.stat().st_size / 1000:.0f} kB"

    def check_sdist(self) -> str:
        """The sdist holds what its tests need."""
        with tarfile.open(self.sdist) as file:
            file.extractall(self.scratch, filter="data")
        missing = [name for name in IN_SDIST if not (self.scratch / f"prorec-{self.version}" / name).exists()]
        require(not missing, f"the sdist lacks {', '.join(missing)}; name them in pyproject.toml")
        return f"{self.sdist.stat().st_size / 1000:.0f} kB"

    def check_install(self) -> str:
        """The wheel installs into a fresh environment without extras, and the demo runs there."""
        venv.create(self.scratch / "venv", with_pip=True)
        self._install(self.wheel)
        version = run(self.bin / "prorec", "--version", cwd=self.scratch).strip()
        require(
            version == f"prorec {self.version}", f"prorec --version must print {self.version}, but prints {version}"
        )
        start = time.monotonic()
        run(self.bin / "prorec", "demo", cwd=self.scratch)
        return f"{version}, prorec demo in {time.monotonic() - start:.0f} s"

    def check_tests(self) -> str:
        """The smoke tests of the unpacked sdist pass against the installed wheel."""
        self._install(f"{self.wheel}[emd,report]", *TEST_PACKAGES)
        tree = self.scratch / f"prorec-{self.version}"
        where = run(self.bin / "python", "-c", "import prorec; print(prorec.__file__)", cwd=tree).strip()
        require("site-packages" in where, f"the tests must see the installed prorec, but see {where}")
        return run(self.bin / "python", "-m", "pytest", "-q", "@tests/smoke.txt", cwd=tree).splitlines()[-1]

    def _install(self, *packages: str | Path) -> None:
        options = ("-q", "--no-compile", "-c", ROOT / "constraints.txt")
        run(self.bin / "python", "-m", "pip", "install", *options, *packages)


def main() -> int:
    """Run all checks in order and return the exit status."""
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        checks = ReleaseCheck(Path(scratch))
        for name in ("changelog", "build", "metadata", "wheel", "sdist", "install", "tests"):
            try:
                state, detail = "ok", getattr(checks, f"check_{name}")()
            except (CheckError, OSError, ValueError, ExceptionGroup) as error:
                state, detail, failed = "FAILED", str(error), 1
            print(f"{name:<10} {state:<7} {detail}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())

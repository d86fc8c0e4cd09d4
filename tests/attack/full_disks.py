"""Disks that fill up, limits on the size of files, and folders that may not be written: one message, and no half file.

Small disks and read-only folders are mounted in a namespace of the process, so that nothing outside can fill up.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from functools import cache

import prorec
from prorec.cli.provenance_file import FILE_NAME as PROVENANCE
from prorec.models import SVD
from tests.attack.cases import Attack, BrokenPromise, Case
from tests.attack.fuzz_options import EXITS, check_exit
from tests.cli.shell import COMMAND

_JOBS = {
    "denoise": ("denoise", "clicks.csv", "-o", "disk/out.csv", "-m", "svd", "-p", "rank=4", "--noise-method", "plan"),
    "cross-fit": ("denoise", "clicks.csv", "-o", "disk/out.parquet", "-m", "svd", "-p", "rank=4"),
    "train": ("train", "clicks.csv", "-o", "disk/model", "-m", "svd", "-p", "rank=8"),
    "report": ("report", "clicks.csv", "-o", "disk/out.html", "-m", "svd", "-p", "rank=4", "--noise-method", "plan"),
    "recommend": ("recommend", "model", "-o", "disk/out.csv"),
}
_UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")


@cache
def can_mount() -> bool:
    """Return whether this machine lets a process mount a disk of its own."""
    command = [*_UNSHARE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def run_case(case: Case) -> str:
    """Run a command where it cannot write, or not enough."""
    (case.folder / "disk").mkdir()
    club = prorec.make_cinema(60, 45, seed=1).interactions
    prorec.write_interactions(club, case.folder / "clicks.csv")
    name = case.choose(*_JOBS)
    words = _JOBS[name]
    if name == "recommend":
        SVD(rank=2).fit(club).save(case.folder / "model")
    kind = case.choose("small disk", "small disk", "file limit", "read-only") if can_mount() else "file limit"
    case.counts["processes"] += 1
    case.counts[kind] += 1
    code, errors, left = _run(case, kind, words)
    check_exit(code, errors, [*words, f"({kind})"], EXITS)
    hidden = [each for each in left if each.startswith(".") and not each.endswith(".prorec")]
    names = {words[3].partition("/")[2]} if code in (0, 1) else set()  # provenance may not fit beside a whole table
    left = [each for each in left if not each.endswith(PROVENANCE)]
    if hidden or {each for each in left if not each.startswith(".")} - names:
        raise BrokenPromise("half-written files", f"{left} after exit {code} of {name} ({kind})")
    if code == 0 and not names <= set(left):
        raise BrokenPromise("exits that are not documented", f"0 of {name} ({kind}), but nothing is written")
    if code == 1 and "no space left" not in errors:
        raise BrokenPromise("exits that are not documented", f"1 of {name} ({kind}): {errors[-300:]}")
    return f"{kind}: exit {code}"


def _run(case: Case, kind: str, words: Sequence[str]) -> tuple[int, str, list[str]]:
    """Run a command under a limit; return its exit code, its messages, and the names that it left."""
    command = shlex.join([COMMAND, *words])
    listing = "code=$?; ls -A disk > left.txt; exit $code"
    if kind == "small disk":
        size = int(case.rng.choice([4, 8, 16, 32, 64, 128, 256]))
        script = f"mount -t tmpfs -o size={size}k tmpfs disk; {command}; {listing}"
    elif kind == "read-only":
        script = f"mount -t tmpfs -o size=1m,ro tmpfs disk; {command}; {listing}"
    else:
        script = f"(ulimit -f {int(case.rng.choice([0, 1, 4, 16, 64]))}; exec {command}); {listing}"
    prefix = _UNSHARE if kind != "file limit" else ()
    environment = os.environ | {"COLUMNS": "160", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [*prefix, "sh", "-c", script], cwd=case.folder, env=environment, capture_output=True, check=False
    )
    return done.returncode, done.stderr.decode(errors="replace"), (case.folder / "left.txt").read_text().split()


ATTACK = Attack("full-disks", run_case, n_cases=40, chunk=2, seconds=300)

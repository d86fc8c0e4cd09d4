"""Commands with options at random: each ends with a documented exit code and a short message, and keeps what is there.

The commands run in this process, in a folder with logs, models and other files. No option leads out of the folder.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import shutil
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

import prorec
from prorec.cli import load_command, main
from prorec.cli.provenance_file import FILE_NAME as PROVENANCE
from prorec.models import SVD, WRMF
from tests.attack.cases import Attack, BrokenPromise, Case
from tests.attack.fuzz_logs import check_message

ROOT = Path(__file__).parent.parent.parent
COMMANDS = ("check", "denoise", "report", "train", "recommend", "score", "evaluate", "audit draw", "audit read")
FILES = "clicks.csv clicks.parquet short.tsv bad.csv header.csv empty.csv denoised.csv marked.csv items.csv".split()
FILES += "options.toml odd.toml binary.csv model denoiser folder last.json".split()
_OUTPUTS = {
    "denoise": ["new.csv", "new.tsv", "new.parquet", "new.inter", "new.csv.gz", "-"],
    "report": ["new.html"],
    "train": ["new-model"],
    "recommend": ["new.csv", "new.parquet", "-"],
    "score": ["new.csv", "new.parquet", "-"],
    "audit draw": ["new.csv"],
}
_ODD_PATHS = [
    "",
    ".",
    "..",
    "folder",
    "nowhere/new.csv",
    "new",
    "new.html.csv",
    "x" * 300 + ".csv",
    "clicks.csv",
    "ü.csv",
]
_ODD_PATHS += [
    "clicks.csv/new.csv",
    "model",
    "-x.csv",
    "new.html",
    " ",
    "~",
    "[red].csv",
    "{0}.csv",
    "%s.parquet",
    "link.csv",
]
_WORDS = ["", "0", "1", "2", "3", "-1", "0.5", "1.0", "1e-3", "nan", "inf", "-inf", "1e400", "9" * 30, "9" * 5000, "x"]
_WORDS += [
    "none",
    "None",
    "true",
    "auto",
    "١",
    "１",
    " 1",
    "1_0",
    "0x1",
    "user",
    "item",
    "user_id",
    "weight",
    "👍",
    "--",
    "-",
]
_WORDS += [
    "[red]x[/red]",
    "a=b",
    "=",
    "rank=2",
    "rank=",
    "rank=0",
    "rank=1e9",
    "epochs=1",
    "\n",
    "\t",
    ",",
    ";",
    "%Y",
    "%",
    "%Q",
]
_VALUES: dict[str, list[str]] = {
    "--model": ["svd", "wrmf", "popularity", "ease", "nce", "SVD", "lightgcn", "nonsense", ""],
    "--models": ["popularity", "svd", "svd+prorec", "svd+", "nonsense", "popularity,svd", "wrmf+scaled", "", ","],
    "--noise-method": ["plan", "plan", "cross-fit", "x"],
    "--rounds": ["1", "2", "0", "x", "1.5"],
    "--seeds": ["1", "0", "x", "2"],
    "--param": [
        "rank=2",
        "rank=3",
        "rank=0",
        "sweeps=1",
        "epochs=1",
        "rank",
        "=1",
        "rank=x",
        "depth=3",
        "svd.rank=2",
        "rank=9999999",
    ],
    "--format": ["csv", "tsv", "parquet", "json", ""],
    "--separator": [",", ";", "tab", "\\t", ",,", "", "é", "\n", '"'],
    "--gamma": ["0.1", "auto", "1", "0", "-1", "nan", "x", "1e-30", "1e30"],
    "--device": ["cpu", "auto", "cpu", "tpu", "cuda:99"],
    "--memory": ["", "1", "0", "-1", "1e30", "500MB", "x", "1GB"],
    "--user-col": ["user", "0", "1", "nope", "", "none", "-1"],
    "--item-col": ["item", "0", "1", "nope", "", "none", "2"],
    "--weight-col": ["weight", "none", "2", "nope", "note"],
    "--timestamp-col": ["time", "none", "note", "3", "nope"],
    "--time-format": ["%Y-%m-%d", "%", "", "%Q", "%d.%m.%Y"],
    "--trusted-col": ["bought", "note", "nope", "user"],
    "--suspect-col": ["returned", "bought", "nope"],
    "--user": ["u1", "1", "nope", "", "x" * 400],
    "--transport": ["relaxed", "emd", "sinkhorn", "x"],
    "--metrics": ["paper", "standard", "x"],
    "--fdr": ["0.1", "0.5", "0", "1", "2", "nan"],
    "--flag-fraction": ["0.02", "0", "1", "1.5", "-1", "nan"],
    "--tolerance": ["0", "0.1", "1", "nan", "-1"],
    "-k": ["1", "3", "0", "-1", "100", "x"],
}
_NEVER = {"--engine", "--master", "--help"}
"""Spark takes seconds to start; it has tests of its own."""


def documented_exits() -> set[int]:
    """Return the exit codes that the manual lists."""
    page = (ROOT / "docs" / "command-line.md").read_text("utf-8").partition("## Exit codes")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| ([\d, ]+) \|", page, re.MULTILINE)
    return {int(code) for cell in cells for code in cell.split(",")}


EXITS = documented_exits()


def run_command(words: list[str], stdin: bytes = b"") -> tuple[int, bytes, str]:
    """Run a command in this process; return its exit code and what it printed."""
    streams = [io.TextIOWrapper(io.BytesIO(content), encoding="utf-8") for content in (stdin, b"", b"")]
    before = sys.stdin, sys.stdout, sys.stderr, sys.argv
    shown, handlers = warnings.showwarning, logging.root.handlers[:]
    sys.stdin, sys.stdout, sys.stderr = streams
    sys.argv = ["prorec", *words]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            main()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    finally:
        sys.stdin, sys.stdout, sys.stderr, sys.argv = before
        warnings.showwarning = shown
        logging.root.handlers[:] = handlers
    for stream in streams[1:]:
        with contextlib.suppress(ValueError):  # the command has closed it
            stream.flush()
    outputs = [b"" if stream.closed else stream.buffer.getvalue() for stream in streams[1:]]
    return code, outputs[0], outputs[1].decode("utf-8", "replace")


def check_exit(code: int, errors: str, words: list[str], exits: set[int]) -> None:
    """Break a promise if a command ended in another way than documented."""
    shown = " ".join(word if len(word) < 60 else f"{word[:50]}…" for word in words)
    if "Traceback (most recent" in errors or "(--debug shows where)" in errors:
        raise BrokenPromise("tracebacks", f"prorec {shown}: {errors[-500:]}")
    if code not in exits:
        raise BrokenPromise("exits that are not documented", f"{code} of prorec {shown}: {errors[-300:]}")
    if code == 2:
        if not errors.strip():
            raise BrokenPromise("exits that are not documented", f"no message with exit 2 of prorec {shown}")
        check_message(errors)


@cache
def prepare_folder(parent: Path) -> tuple[Path, dict[str, tuple[int, int, bytes]]]:
    """Make the files that the commands of this process work on, and return what they contain."""
    folder = parent / f"files-{os.getpid()}"
    folder.mkdir()
    clicks = prorec.make_cinema(60, 45, seed=1).interactions
    rows = [f"u{user},i{item}" for user, item in zip(clicks.user_codes, clicks.item_codes, strict=True)][:150]
    more = [f"{row},{at % 3 / 2},2024-05-{1 + at % 28:02},note {at}" for at, row in enumerate(rows)]
    texts = {
        "clicks.csv": ["user,item", *rows],
        "short.tsv": ["user\titem", "1\t7", "2\t9", "1\t9"],
        "bad.csv": ["user,item,weight,time,note", *more, ",i3,1,,", "u1,i2,7,x,y,z"],
        "header.csv": rows,
        "empty.csv": ["user,item"],
        "marked.csv": ["user,item,bought,returned", *(f"{r},{'no' if at else 'yes'},no" for at, r in enumerate(rows))],
        "denoised.csv": ["user,item,weight,noise_probability,flagged", *(f"{row},0.2,0.8,true" for row in rows)],
        "items.csv": ["item,title,genre", *(f"i{item},Title {item},Drama" for item in range(45))],
        "options.toml": ["[denoise]", 'model = "svd"', "param = {rank = 2}", "[report]", 'noise-method = "plan"'],
        "odd.toml": ["[denoise]", "rounds = [1, 2]", "quiet = 3", "[train]", "out = {a = 1}"],
        "last.json": ['{"verdict": 3, "alerts": []}'],
    }
    for name, lines in texts.items():
        (folder / name).write_text("\n".join(lines) + "\n", "utf-8")
    (folder / "binary.csv").write_bytes(bytes(range(256)) * 3)
    (folder / "folder").mkdir()
    (folder / "folder" / "precious.txt").write_text("precious")
    (folder / "link.csv").symlink_to("nowhere")
    log = prorec.Interactions.from_table(
        pa.table({"user": [row.split(",")[0] for row in rows], "item": [row.split(",")[1] for row in rows]})
    )
    prorec.write_interactions(log, folder / "clicks.parquet")
    WRMF(rank=2, sweeps=1).fit(log).save(folder / "model")
    prorec.ProRec(SVD(rank=2)).fit(log).save(folder / "denoiser")
    return folder, _contents(folder)


def _contents(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return size, change time and content of all files."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            status = path.stat()
            found[str(path.relative_to(folder))] = (status.st_mtime_ns, status.st_size, path.read_bytes())
    return found


@cache
def _options(command: str) -> list[Any]:
    """Return the parameters of a command."""
    name, _, sub = command.partition(" ")
    loaded = load_command(name)
    loaded = loaded.commands[sub] if sub else loaded
    return [each for each in loaded.params if not _NEVER & set(each.opts)]


def make_words(case: Case) -> list[str]:
    """Return a command line."""
    command = str(case.rng.choice(COMMANDS, p=[0.25, 0.2, 0.07, 0.14, 0.08, 0.08, 0.06, 0.06, 0.06]))
    words, options = command.split(), _options(command)
    for each in options:
        if each.param_type_name == "argument":
            words.append(_positional(case, each.name))
    if command in _OUTPUTS and not case.happens(0.05):
        out = case.choose(*_OUTPUTS[command]) if case.happens(0.8) else case.choose(*_ODD_PATHS)
        words += ["--out", out]
    if command in ("denoise", "train", "report") and case.happens(0.9):
        words += ["--model", case.choose("svd", "popularity", "wrmf"), "--noise-method", "plan"]
        if command == "train":
            del words[-2:]
        words += ["--gamma", "0.1"] if command != "train" and case.happens(0.7) else []
    if command == "evaluate":
        words += ["--models", case.choose("popularity", "svd"), "--seeds", "1"]
    named = [each for each in options if each.param_type_name == "option" and each.name not in ("out", "config")]
    for _ in range(int(case.rng.integers(4))):
        each = named[case.rng.integers(len(named))]
        flag = case.choose(*each.opts)
        if each.is_flag:
            words.append(flag)
        elif each.name in ("items", "compare", "report"):
            words += [flag, case.choose(*FILES, "new-report.html", *_ODD_PATHS)]
        elif case.happens(0.7) and each.opts[0] in _VALUES:
            words += [flag, case.choose(*_VALUES[each.opts[0]])]
        else:
            words += [flag, case.choose(*_WORDS)]
    if case.happens(0.1):
        words += ["--config", case.choose("options.toml", "odd.toml", "clicks.csv", "nowhere.toml", "folder", "")]
    if case.happens(0.03):
        words.insert(int(case.rng.integers(len(words) + 1)), case.choose(*_WORDS))
    if case.happens(0.03):
        del words[case.rng.integers(len(words))]
    return words


def _positional(case: Case, name: str) -> str:
    if case.happens(0.15):
        return case.choose(*FILES, *_ODD_PATHS, "-")
    if name == "model":
        return case.choose("model", "denoiser")
    if name in ("sample", "denoised"):
        return "denoised.csv"
    return case.choose("clicks.csv", "clicks.csv", "clicks.parquet", "bad.csv", "header.csv", "short.tsv", "marked.csv")


def run_case(case: Case) -> str:
    """Run a command, and look at its exit, its message and the files."""
    folder, before = prepare_folder(case.folder.parent)
    words = make_words(case)
    stdin = case.choose(b"", b"user,item\na,1\nb,2\n", b"\xff\xfe", b"\x00" * 10) if "-" in words else b""
    here = Path.cwd()
    os.chdir(folder)
    try:
        code, _, errors = run_command(words, stdin)
    finally:
        os.chdir(here)
    check_exit(code, errors, words, EXITS)
    try:
        _check_files(folder, before, words, code)
    finally:
        _clean(folder, before)
    return f"exit {code}"


def _check_files(folder: Path, before: dict[str, tuple[int, int, bytes]], words: list[str], code: int) -> None:
    """Break a promise if a file changed that the command was not told to replace."""
    after = _contents(folder)
    changed = [name for name, (_, _, content) in before.items() if name not in after or after[name][2] != content]
    may_replace = {"--force", "-f"} & set(words)
    if changed and not (may_replace and code == 0):
        raise BrokenPromise("overwritten files", f"{changed} by prorec {' '.join(words)[:300]}")
    new = [name for name in after if name not in before and not name.endswith(PROVENANCE)]
    outputs = {name: name.partition("/")[0].replace(".rejected", "") for name in new}
    left = [name for name, output in outputs.items() if output.startswith((".", "new")) and output.count(".") > 2]
    hidden = [name for name in after if name not in before and name.startswith(".")]
    if (code and hidden) or left:
        raise BrokenPromise("half-written files", f"{hidden or left} by prorec {' '.join(words)[:300]}")


def _clean(folder: Path, before: dict[str, tuple[int, int, bytes]]) -> None:
    """Remove what is new, and put back what was replaced."""
    for path in folder.iterdir():
        if path.is_dir() and path.name not in ("model", "denoiser", "folder"):
            shutil.rmtree(path)
    for name, (changed, _, _) in _stamps(folder).items():
        if name not in before or changed != before[name][0]:
            (folder / name).unlink()
    for name, (changed, _, content) in before.items():
        path = folder / name
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
            os.utime(path, ns=(changed, changed))


def _stamps(folder: Path) -> dict[str, tuple[int, int, None]]:
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            status = path.stat()
            found[str(path.relative_to(folder))] = (status.st_mtime_ns, status.st_size, None)
    return found


ATTACK = Attack("options", run_case, n_cases=6_000, chunk=250, prepare=prepare_folder)

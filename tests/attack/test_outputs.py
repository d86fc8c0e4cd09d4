"""Outputs that somebody else writes meanwhile, that are one file, or that are no regular files."""

from __future__ import annotations

import io
import os
import stat
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import prorec
from prorec.cli import main
from prorec.cli.provenance_file import provenance_path
from prorec.cli.work_folder import WorkDirectory
from prorec.models import SVD

Run = Callable[..., "Ended"]
_LOG = "user,item,weight,noise_probability,flagged\n"
SMALL = ("-m", "svd", "-p", "rank=2")


class Ended(NamedTuple):
    code: object
    stderr: str


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log, a denoised log, verdicts, and models."""
    folder = tmp_path_factory.mktemp("prepared")
    club = prorec.make_cinema(50, 45, seed=1).interactions
    prorec.write_interactions(club, folder / "log.csv")
    prorec.ProRec(SVD(rank=2)).fit(club).save(folder / "denoiser")
    SVD(rank=2).fit(club).save(folder / "recommender")
    rows = [f"u{number},i{number % 5},0.5,0.9,{str(number < 10).lower()}\n" for number in range(40)]
    (folder / "denoised.csv").write_text(_LOG + "".join(rows))
    (folder / "verdicts.csv").write_text("user,item,verdict\nu0,i0,noise\n")
    return folder


@pytest.fixture
def run_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in this process."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)

    def run(*words: str | Path) -> Ended:
        monkeypatch.setattr(sys, "argv", ["prorec", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        return Ended(stop.value.code or 0, capsys.readouterr().err)

    return run


COMMANDS = {
    "denoise": ("denoise", "log.csv", "-q", *SMALL),
    "denoise by the plan": ("denoise", "log.csv", "-q", "--noise-method", "plan", *SMALL),
    "report": ("report", "denoiser", "-q"),
    "train": ("train", "log.csv", "-q", *SMALL),
    "recommend": ("recommend", "recommender", "-q"),
    "score": ("score", "denoiser", "log.csv", "-q"),
    "audit draw": ("audit", "draw", "denoised.csv", "-n", "3", "-q"),
    "audit read": ("audit", "read", "verdicts.csv", "denoised.csv", "-q"),
    "datasets get": ("datasets", "get", "cinema"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_that_appears_during_the_work_stays(
    name: str, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_here: Run
) -> None:
    monkeypatch.chdir(prepared)
    out = tmp_path / {"report": "out.html", "train": "model"}.get(name, "out.csv")
    appearing = out / "model.json" if name == "train" else out
    sync = os.fsync

    def appear(descriptor: int) -> None:
        if not appearing.exists():
            appearing.write_text("precious")
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", appear)
        done = run_here(*COMMANDS[name], "--out", out)
    assert done.code == 2, done.stderr
    assert "this file exists already; pass --force to replace it" in done.stderr
    assert appearing.read_text() == "precious"
    assert sorted(path.name for path in out.parent.iterdir() if not path.name.endswith(".prorec")) == [out.name]
    if name == "train":
        assert [*out.iterdir()] == [appearing]
    state = [] if "plan" not in name and name != "denoise" else ["--resume"]
    appearing.chmod(0o640)
    assert run_here(*COMMANDS[name], "--out", out, "--force", *state).code == 0
    assert appearing.read_bytes() != b"precious"
    assert stat.S_IMODE(appearing.stat().st_mode) == 0o640
    assert sorted(path.name for path in out.parent.iterdir() if path != provenance_path(out)) == [out.name]


def test_what_a_killed_run_has_written_is_accepted_when_it_is_resumed(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_here: Run
) -> None:
    monkeypatch.chdir(prepared)
    words = (*COMMANDS["denoise"], "--out", tmp_path / "out.csv")
    with monkeypatch.context() as patch:  # killed between the output and the deletion of the work folder
        patch.setattr("prorec.cli.work_folder.shutil.rmtree", lambda *_, **__: sys.exit("killed"))
        run_here(*words)
    written = (tmp_path / "out.csv").read_bytes()
    assert WorkDirectory(str(tmp_path / "out.csv")).has_state()
    assert run_here(*words, "--resume").code == 0
    assert (tmp_path / "out.csv").read_bytes() == written
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "out.csv.provenance.json"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("denoise", "x.rejected.csv", "--out", "x.csv", "--skip-bad-rows"), "than the log"),
        (("score", "denoiser", "x.rejected.csv", "--out", "x.csv", "--skip-bad-rows"), "than the log"),
        (("train", "x.rejected.csv", "--out", "x", "--skip-bad-rows"), "than the log"),
        (("audit", "draw", "denoised.csv", "--out", "denoised.csv"), "--out must be another file than the log"),
        (("audit", "read", "verdicts.csv", "denoised.csv", "--out", "verdicts.csv"), "than the sample"),
        (("denoise", "log.csv", "--out", "x.csv", "--report", "./x.csv"), "than --out"),
        (("datasets", "get", "cinema", "--out", "x.csv", "--items", "x.csv"), "than --out"),
    ],
)
def test_two_files_that_are_one(
    words: tuple[str, ...], problem: str, prepared: Path, monkeypatch: pytest.MonkeyPatch, run_here: Run
) -> None:
    monkeypatch.chdir(prepared)
    Path("x.rejected.csv").write_bytes(Path("log.csv").read_bytes())
    before = {path: path.read_bytes() for path in Path().glob("*.csv")}
    done = run_here(*words, "--force")
    assert done.code == 2
    assert problem in done.stderr
    assert {path: path.read_bytes() for path in Path().glob("*.csv")} == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs links and pipes")
@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("train", "denoise by the plan")])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_outputs_that_are_no_files(
    name: str, kind: str, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_here: Run
) -> None:
    monkeypatch.chdir(prepared)
    out = tmp_path / ("out.html" if name == "report" else "out.csv")
    os.mkfifo(out) if kind == "pipe" else out.symlink_to(tmp_path / "nowhere")
    done = run_here(*COMMANDS[name], "--out", out, "--force")
    assert done.code == 2
    assert f"this is a {'pipe' if kind == 'pipe' else 'symbolic link'}" in done.stderr
    assert "Reading" not in done.stderr, "before any work"
    assert [*tmp_path.iterdir()] == [out]


def test_a_model_is_not_written_through_a_link(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_here: Run
) -> None:
    monkeypatch.chdir(prepared)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.json").symlink_to(tmp_path / "precious")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name, problem in (("model", "this is a symbolic link"), ("dangling", "a folder was expected")):
        done = run_here("train", "log.csv", "--out", tmp_path / name, "--force")
        assert done.code == 2
        assert problem in done.stderr
        assert "Reading" not in done.stderr, "before any work"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "model"]


def test_a_run_beside_another_is_told_so(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_here: Run
) -> None:
    pytest.importorskip("fcntl")
    monkeypatch.chdir(prepared)
    words = (*COMMANDS["denoise"], "--out", tmp_path / "out.csv")
    with WorkDirectory(str(tmp_path / "out.csv")).open(resume=False) as work:
        for state in (False, True):
            if state:
                (work / "fold-scores-0.npz").touch()
            for options in ((), ("--resume",), ("--force",)):
                done = run_here(*words, *options)
                assert done.code == 2
                assert "another run is writing" in done.stderr
                assert done.stderr.count("\n") == 1
        assert sorted(path.name for path in work.iterdir()) == ["fold-scores-0.npz", "lock"]
    assert run_here(*words).code == 0


def test_a_folder_that_is_deleted_while_it_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run ends between the opening of its lock and the locking."""
    first, second = WorkDirectory(str(tmp_path / "out.csv")), WorkDirectory(str(tmp_path / "out.csv"))
    lock, attempts = WorkDirectory._lock, []

    def end_first(directory: WorkDirectory, descriptor: int) -> None:
        attempts.append(descriptor)
        if len(attempts) == 1:
            (directory.path / "lock").unlink()
            directory.path.rmdir()
        lock(directory, descriptor)

    monkeypatch.setattr(WorkDirectory, "_lock", end_first)
    with first.open(resume=False) as work:
        assert [path.name for path in work.iterdir()] == ["lock"]
        assert len(attempts) == 2
        with pytest.raises(prorec.InputError, match="another run is writing"), second.open(resume=False):
            pass
    assert not work.exists()


def test_no_work_folder_is_left_behind(tmp_path: Path) -> None:
    for error in (KeyboardInterrupt, prorec.InputError, MemoryError):
        with pytest.raises(error), WorkDirectory(str(tmp_path / "out.csv")).open(resume=False):
            raise error
        assert not [*tmp_path.iterdir()]


def test_a_log_with_formulas(tmp_path: Path, run_here: Run) -> None:
    model, log = tmp_path / "model", tmp_path / "log.csv"
    club = prorec.make_cinema(50, 45, seed=1).interactions
    rows = zip(club.users[club.user_codes], club.items[club.item_codes], strict=True)
    log.write_text("user,item\n" + "".join(f"=u{user},{-item}\n" for user, item in rows))
    assert run_here("train", log, "--out", model, *SMALL).code == 0
    for name, escaped in (("kept.csv", ()), ("escaped.csv", ("--escape-formulas",)), ("table.parquet", ())):
        assert run_here("recommend", model, "-k", "1", "--out", tmp_path / name, *escaped).code == 0
    assert (tmp_path / "kept.csv").read_text().splitlines()[1].startswith("=u1,1,-")
    assert (tmp_path / "escaped.csv").read_text().splitlines()[1].startswith('"\'=u1",1,-')
    done = run_here("recommend", model, "--out", tmp_path / "other.parquet", "--escape-formulas")
    assert (done.code, done.stderr) == (
        2,
        "prorec: --escape-formulas is for csv and tsv, and the output is parquet; leave it out\n",
    )


@pytest.mark.parametrize("number", [0, 1])
def test_closed_and_full_streams(number: int, prepared: Path, monkeypatch: pytest.MonkeyPatch, run_here: Run) -> None:
    """0: closed; 1: full."""

    class Full(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, _: object, /) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.chdir(prepared)
    for words in (("datasets", "list"), ("recommend", "recommender"), ("check", "log.csv", "--json")):
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(Full())) if number else None)
        done = run_here(*words)
        assert done.code == 1, words
        problem = "No space left on device" if number else "standard output is closed"
        assert problem in done.stderr
        assert done.stderr.count("\n") == 1

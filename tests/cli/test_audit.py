"""`prorec audit draw` and `prorec audit read`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.shell import run

N_FLAGGED = 60


@pytest.fixture
def denoised(tmp_path: Path) -> Path:
    """A log as `prorec denoise` writes it, of text ids; the first pair has two rows."""
    lines = ["user,item,place,weight,noise_probability,flagged"]
    for row in [0, *range(200)]:
        is_flagged = row < N_FLAGGED
        lines.append(f"u{row:03},i{row % 7},p{row},0.5,{0.9 if is_flagged else 0.1},{str(is_flagged).lower()}")
    path = tmp_path / "denoised.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_verdicts(path: Path, verdicts: list[str]) -> None:
    rows = read_rows(path)
    for row, verdict in zip(rows, verdicts, strict=False):
        row["verdict"] = verdict
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def draw(denoised: Path, *words: str) -> Path:
    sample = denoised.with_name("sample.csv")
    done = run("audit", "draw", str(denoised), "--out", str(sample), *words)
    assert done.returncode == 0, done.stderr
    return sample


def test_draw(denoised: Path) -> None:
    rows = read_rows(draw(denoised, "-n", "29"))
    assert list(rows[0]) == ["user", "item", "place", "verdict"]
    assert len({row["user"] for row in rows}) == 29
    assert all(int(row["user"][1:]) < N_FLAGGED and row["verdict"] == "" for row in rows)
    assert all(row["place"] == f"p{int(row['user'][1:])}" for row in rows)
    assert [row["user"] for row in rows] != sorted(row["user"] for row in rows)


def test_draw_never_overwrites(denoised: Path) -> None:
    sample = draw(denoised)
    write_verdicts(sample, ["noise"])
    before = sample.read_bytes()
    done = run("audit", "draw", str(denoised), "--out", str(sample))
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert sample.read_bytes() == before
    draw(denoised, "--force", "--seed", "1")
    assert sample.read_bytes() != before


def test_none_wrong(denoised: Path) -> None:
    sample = draw(denoised)
    write_verdicts(sample, ["noise"] * 29)
    done = run("audit", "read", str(sample), str(denoised))
    assert done.returncode == 0, done.stderr
    assert "29 of 60 flagged rows looked at, none wrong: at most" in done.stdout
    result = json.loads(run("audit", "read", str(sample), str(denoised), "--json").stdout)
    assert (result["n_checked"], result["n_wrong"], result["n_flagged"]) == (29, 0, 60)
    assert 0 < result["bound"] < 0.0982


def test_recalibrated_log(denoised: Path) -> None:
    sample, out = draw(denoised, "-n", "20"), denoised.with_name("after.csv")
    write_verdicts(sample, ["noise", "genuine"] * 10)
    done = run("audit", "read", str(sample), str(denoised), "--out", str(out))
    assert done.returncode == 0, done.stderr
    verdicts = {row["user"]: row["verdict"] for row in read_rows(sample)}
    before, after = read_rows(denoised), read_rows(out)
    assert [row["user"] for row in after] == [row["user"] for row in before]
    for old, new in zip(before, after, strict=True):
        assert {name: old[name] for name in ("item", "place", "weight")} == {
            name: new[name] for name in ("item", "place", "weight")
        }
        verdict = verdicts.get(old["user"])
        if verdict is not None:
            assert float(new["noise_probability"]) == (verdict == "noise")
            assert new["flagged"] == str(verdict == "noise").lower()
        else:
            assert 0 < float(new["noise_probability"]) < float(old["noise_probability"])
            assert new["flagged"] == old["flagged"]
    # 10 of 20 verdicts and ten that agree with 0.9: the mean is 19/30.
    rest = [row for row in after if row["user"] not in verdicts and row["flagged"] == "true"]
    assert float(rest[0]["noise_probability"]) == pytest.approx(19 / 30, abs=1e-4)
    again = run("audit", "read", str(sample), str(denoised), "--out", str(out), "--fdr", "0.1", "--force", "--json")
    assert json.loads(again.stdout)["flagged_after"] == 10


def test_parquet(denoised: Path) -> None:
    table = pa.table(
        {"user": [1, 1, 2], "item": [1, 2, 1], "noise_probability": [0.9, 0.2, 0.8], "flagged": [True, False, True]}
    )
    log, sample = denoised.with_name("denoised.parquet"), denoised.with_name("sample.parquet")
    pq.write_table(table, log)
    assert run("audit", "draw", str(log), "--out", str(sample)).returncode == 0
    drawn = pq.read_table(sample)
    assert drawn["verdict"].to_pylist() == ["", ""]
    pq.write_table(drawn.set_column(2, "verdict", pa.array(["yes", "no"])), sample)
    out = denoised.with_name("after.parquet")
    done = run("audit", "read", str(sample), str(log), "--out", str(out))
    assert "50.0% of the flags are wrong" in done.stdout
    after = pq.read_table(out)
    assert after.schema.field("flagged").type == pa.bool_()
    assert sorted(after["flagged"].to_pylist()) == [False, False, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "user,item,verdict\nu000,i0,noise\nnobody,i0,noise\n",
            "line 3: user 'nobody' with item 'i0' is not in the log",
        ),
        ("user,item,verdict\nu000,i0,noise\nu000,i0,genuine\n", "line 3: this verdict contradicts"),
        ("user,item,verdict\nu000,i0,perhaps\n", "line 2: the verdict must be noise, yes, genuine, no or empty"),
        ("user,item,verdict\nu000,i0,\n", "no row has a verdict"),
        ("user,item\nu000,i0\n", "no column 'verdict'"),
    ],
)
def test_bad_verdicts(denoised: Path, text: str, message: str) -> None:
    sample, out = denoised.with_name("bad.csv"), denoised.with_name("after.csv")
    sample.write_text(text)
    done = run("audit", "read", str(sample), str(denoised), "--out", str(out))
    assert done.returncode == 3
    assert message in done.stderr
    assert "bad.csv" in done.stderr
    assert not out.exists()


def test_a_log_without_flags(denoised: Path) -> None:
    log = denoised.with_name("clicks.csv")
    log.write_text("user,item\n1,2\n")
    done = run("audit", "draw", str(log), "--out", str(denoised.with_name("sample.csv")))
    assert done.returncode == 3
    assert "no column 'flagged'" in done.stderr
    log.write_text("user,item,flagged\n1,2,false\n")
    done = run("audit", "draw", str(log), "--out", str(denoised.with_name("sample.csv")))
    assert done.returncode == 3
    assert "no interaction is flagged" in done.stderr


def test_a_log_whose_wrong_flags_were_removed_is_refused(denoised: Path) -> None:
    sample, out = draw(denoised), denoised.with_name("after.csv")
    write_verdicts(sample, ["noise", "genuine"])
    assert run("audit", "read", str(sample), str(denoised), "--out", str(out)).returncode == 0
    done = run("audit", "read", str(sample), str(out))
    assert done.returncode == 3
    assert "1 rows of the random sample are not flagged" in done.stderr


def test_options_without_effect(denoised: Path) -> None:
    done = run("audit", "read", str(denoised), str(denoised), "--fdr", "0.1")
    assert done.returncode == 2
    assert "--fdr has no effect without --out" in done.stderr

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from scipy.sparse import csr_array

from prorec import InputError, Interactions, make_cinema, read_interactions, write_interactions
from prorec.data import writers
from prorec.data.writers import write_table
from tests.strategies import interactions

ENDINGS = (".csv", ".tsv", ".parquet", ".inter", ".csv.gz", ".parquet.gz")


@pytest.mark.parametrize("ending", ENDINGS)
@given(data=interactions(min_size=1))
def test_writing_and_reading_give_the_same(ending: str, data: Interactions) -> None:
    data = data.drop_empty()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"log{ending}"
        write_interactions(data, path)
        read = read_interactions(path)
        assert [file.name for file in Path(folder).iterdir()] == [path.name], "nothing else is left behind"
    assert read.equals(data)


def test_ids_with_separators_and_quotes_survive(tmp_path: Path) -> None:
    odd = ["a,b", 'say "hi"', "tab\there", " space", "ünï"]
    data = Interactions.from_matrix(csr_array(np.eye(5)), users=sorted(odd))
    for ending in (".csv", ".tsv", ".parquet"):
        write_interactions(data, tmp_path / f"log{ending}")
        assert read_interactions(tmp_path / f"log{ending}").users.tolist() == sorted(odd)


def test_inter_is_what_recbole_reads(tmp_path: Path) -> None:
    when = pa.array([0, 1_500_000], pa.timestamp("us"))
    data = Interactions.from_table(
        pa.table({"user": [1, 2], "item": ["x", "y"], "weight": [1, 0.5], "timestamp": when})
    )
    write_interactions(data, tmp_path / "log.inter")
    lines = (tmp_path / "log.inter").read_text().splitlines()
    assert lines[0] == "user_id:token\titem_id:token\tweight:float\ttimestamp:float"
    frame = pd.read_csv(tmp_path / "log.inter", sep="\t")
    assert frame["timestamp:float"].tolist() == [0, 1.5]
    assert frame["weight:float"].tolist() == [1, 0.5]
    far = pa.array([253370764800000001, -14831769600000000], pa.timestamp("us"))
    data = Interactions.from_table(pa.table({"user": [1, 2], "item": ["x", "y"], "timestamp": far}))
    write_interactions(data, tmp_path / "far.inter")
    assert pd.read_csv(tmp_path / "far.inter", sep="\t")["timestamp:float"].tolist() == [253370764800.0, -14831769600.0]


def test_the_same_interactions_give_the_same_bytes(tmp_path: Path) -> None:
    data = make_cinema(60, 60).interactions
    for ending in ENDINGS:
        one, other = tmp_path / f"one{ending}", tmp_path / f"other{ending}"
        write_interactions(data, one)
        write_interactions(data, other)
        assert one.read_bytes() == other.read_bytes()


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Interactions.from_matrix(csr_array(np.eye(3)))
    path = tmp_path / "log.csv"
    path.write_text("precious")

    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("prorec.data.writers.pacsv.CSVWriter", fail)
    with pytest.raises(OSError, match="disk full"):
        write_interactions(data, path)
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


def test_bad_paths_are_refused(tmp_path: Path) -> None:
    data = Interactions.from_matrix(csr_array(np.eye(3)))
    (tmp_path / "folder.csv").mkdir()
    for name, message in (
        ("folder.csv", "this is a directory"),
        ("nowhere/log.csv", "the folder .* does not exist"),
        ("log.xyz", "cannot tell the format"),
    ):
        with pytest.raises(InputError, match=message):
            write_interactions(data, tmp_path / name)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".inter", ".parquet"])
def test_rows_are_written_in_parts_with_progress(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"user": ["=1", "b", "c", "=d", "e"], "item": [1, 2, 3, 4, 5], "=x": ["ü", "", ",", "-a", "1"]})
    calls: list[tuple[str, int, int]] = []
    results = []
    for size in (100, 2):
        monkeypatch.setattr(writers, "_PART", size)
        with (tmp_path / f"{size}{ending}").open("wb") as file:
            results.append(write_table(table, file, f"x{ending}", progress=lambda *call: calls.append(call)))
    assert results[0] == results[1] == (4 if "csv" in ending else 0)
    assert [call for call in calls if call[0] == "Writing the rows"][1:] == [
        ("Writing the rows", n, 5) for n in (2, 4, 5)
    ]
    whole, parts = (tmp_path / f"{size}{ending}" for size in (100, 2))
    if ending == ".parquet":
        assert pq.read_table(whole).equals(pq.read_table(parts))
    else:
        assert whole.read_bytes() == parts.read_bytes()

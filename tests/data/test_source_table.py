"""A log comes back as it was, with something beside every row."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prorec import DataWarning, InputError, make_cinema, write_interactions
from prorec.data.source_table import SourceTable, read_source_table
from prorec.data.writers import write_table

CSV = """When,user_id,item_id,note,rating,zip
2024-05-01,ann,tea,"hot, strong",4.0,00501
2024-05-02,bob,coffee,,3,10001
2024-05-03,ann,tea,again,5,00501
2024-05-01,ann,milk,"she said ""no\""",1,00501
"""


def to_bytes(table: pa.Table, name: str) -> bytes:
    file = io.BytesIO()
    write_table(table, file, name)
    return file.getvalue()


def add_positions(log: SourceTable) -> pa.Table:
    """Add the position of each interaction beside its rows."""
    return log.with_columns({"place": np.arange(len(log.interactions))})


def test_rows_columns_and_order_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(CSV)
    log = read_source_table(path)
    assert log.table.column_names == ["When", "user_id", "item_id", "note", "rating", "zip"]
    assert len(log.interactions) == 3
    assert log.positions.tolist() == [1, 2, 1, 0], "ann's milk, ann's tea, bob's coffee; tea twice"
    assert log.interactions.matrix.data.tolist() == [1, 1, 1], "a pair counts once"
    back = to_bytes(add_positions(log), "out.csv").decode()
    with_quotes = CSV.splitlines()
    for old, new, place in zip(with_quotes[1:], back.splitlines()[1:], log.positions, strict=True):
        assert new.replace('"', "") == f"{old},{place}".replace('"', "")
    assert '"hot, strong"' in back
    assert '"she said ""no"""' in back
    assert "00501" in back


def test_a_plain_file_comes_back_byte_for_byte(tmp_path: Path) -> None:
    text = "user,item,rating\n007,1,4.0\n7,2,3\n007,2,\n"
    path = tmp_path / "log.csv"
    path.write_text(text)
    log = read_source_table(path)
    assert to_bytes(log.table, "out.csv").decode() == text
    assert to_bytes(log.table, "out.tsv").decode() == text.replace(",", "\t")


def test_parquet_gets_numbers_where_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    columns = {
        "user": (["1", "2"], "int64"),
        "item": (["1.10", "1.1"], "string"),  # two items: ids are text, or whole numbers
        "rating": (["4.5", ""], "double"),
        "zip": (["00501", "10001"], "string"),
        "code": (["9", ""], "int64"),
        "note": (["nan", "1"], "string"),
        "exact": (["0.12345678901234567891", "1"], "string"),
        "power": (["1e5", "2"], "string"),
        "nothing": (["", ""], "string"),
    }
    rows = zip(*(values for values, _ in columns.values()), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(row) for row in rows)]) + "\n")
    log = read_source_table(path)
    table = log.infer_types(add_positions(log))
    assert [str(kind) for kind in table.schema.types[:-1]] == [kind for _, kind in columns.values()]
    assert table.column("rating").to_pylist() == [4.5, None]
    assert table.column("code").to_pylist() == [9, None]
    assert table.column("item").to_pylist() == ["1.10", "1.1"]
    as_text = read_source_table(path, ids="text")
    assert as_text.infer_types(as_text.table).column("user").to_pylist() == ["1", "2"]


def test_a_parquet_log_keeps_its_types(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    table = pa.table({"user": ["1", "2"], "item": ["1.10", "1.1"], "zip": ["1", "2"], "none": pa.array(["", None])})
    pq.write_table(table, path)
    log = read_source_table(path)
    assert log.infer_types(log.table).equals(table)


def test_unused_columns_are_never_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item,time,timestamp,rating,rating\n1,5,x,,good,\n1,6,,y,,\n")
    assert to_bytes(read_source_table(path).table, "out.csv").decode() == path.read_text()


def test_columns_by_position(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,user,item\n1,5,7\n1,6,8\n")
    assert read_source_table(path, user_col="1").interactions.users.tolist() == [5, 6]
    with pytest.raises(InputError, match="position 9"):
        read_source_table(path, user_col="9")


def test_categories_and_awkward_headers(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    kinds = pa.array(['a,"b"', "c"]).dictionary_encode()
    pq.write_table(pa.table({"user": [1, 1], "item": [2, 3], "kind": kinds, "a\rb": [1, 2]}), path)
    back = to_bytes(read_source_table(path).table, "out.csv").decode()
    assert '"a,""b"""' in back
    assert to_bytes(read_source_table(path).table, "out.inter").decode().splitlines()[0].startswith('"user_id:token"')
    times = pa.array([1, 2], pa.time32("ms"))
    pq.write_table(pa.table({"user": [1, 1], "item": [2, 3], "at": times}), path)
    with pytest.raises(InputError, match="can be written as text"):
        to_bytes(read_source_table(path).table, "out.inter")


def test_parquet_in(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    table = pa.table({"item": ["b", "a", "b"], "extra": [[1], [2], None], "user": [3, 3, 1]})
    pq.write_table(table, path)
    log = read_source_table(path)
    assert log.table.equals(table)
    assert log.positions.tolist() == [2, 1, 0]
    again = pq.read_table(io.BytesIO(to_bytes(add_positions(log), "out.parquet")))
    assert again.drop_columns(["place"]).equals(table)
    with pytest.raises(InputError, match="can be written as text"):
        to_bytes(add_positions(log), "out.csv")


def test_inter_and_gzip(tmp_path: Path) -> None:
    path = tmp_path / "log.inter.gz"
    path.write_bytes(gzip.compress(b"user_id:token\titem_id:token\tlabel:float\n5\t6\t1\n5\t7\t0\n"))
    log = read_source_table(path)
    assert to_bytes(add_positions(log), "out.inter").decode().splitlines()[0].split("\t") == [
        "user_id:token",
        "item_id:token",
        "label:float",
        "place:float",
    ]
    path.write_bytes(b"user_id:token\titem_id:token\tweight:float\n5\t6\t1\n5\t7\t0\n")
    table = read_source_table(path).with_columns({"weight": np.zeros(2)})
    assert table.column_names[-2:] == ["weight:float", "prorec_weight"]
    plain = to_bytes(add_positions(log), "out.csv")
    assert gzip.decompress(to_bytes(add_positions(log), "out.csv.gz")) == plain
    assert to_bytes(add_positions(log), "out.csv.gz") == to_bytes(add_positions(log), "out.csv.gz")


def test_numbers_of_a_text_log_are_floats_for_recbole(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item,rating,zip\n5,6,4.50,00501\n5,7,3,10001\n")
    header, first, _ = to_bytes(read_source_table(path).table, "out.inter").decode().splitlines()
    assert header.split("\t") == ["user_id:token", "item_id:token", "rating:float", "zip:token"]
    assert first.split("\t") == ["5", "6", "4.50", "00501"]


def test_no_header(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("5,6,x\n5,7,y\n")
    log = read_source_table(path, header=False)
    assert log.table.column_names == ["user", "item", "column 2"], "so that it can be read again"
    assert log.positions.tolist() == [0, 1]


def test_names_that_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item,weight,place\n1,2,0.5,x\n1,3,1,y\n")
    log = read_source_table(path)
    table = add_positions(log)
    assert table.column_names[-2:] == ["place", "prorec_place"]
    assert table.column("place").to_pylist() == ["x", "y"]
    path.write_text("user,item,place,prorec_place\n1,2,0.5,x\n")
    with pytest.raises(InputError, match="columns called 'place' and 'prorec_place' already"):
        add_positions(read_source_table(path))


def test_weights_of_repeated_pairs_are_not_summed(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item,weight\n1,2,0.5\n1,2,0.75\n1,3,1\n")
    assert read_source_table(path).interactions.matrix.data.tolist() == [0.75, 1]


def test_bad_rows_are_named_by_their_line(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item,weight\n1,2,0.5\n1,3,heavy\n")
    with pytest.raises(InputError, match=r"log\.csv: line 3: the weight 'heavy' is not a number"):
        read_source_table(path)
    path.write_text("user,item\n1,2\n,3\n")
    with pytest.raises(InputError, match=r"log\.csv: line 3: the user id is missing"):
        read_source_table(path)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=40))
def test_every_row_finds_its_pair(pairs: list[tuple[int, int]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        path.write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in pairs))
        log = read_source_table(path)
    clicks = log.interactions
    users, items = clicks.users[clicks.user_codes[log.positions]], clicks.items[clicks.item_codes[log.positions]]
    assert list(zip(users.tolist(), items.tolist(), strict=True)) == pairs


def test_times_are_the_latest_of_each_pair(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(CSV)
    assert "timestamp" not in read_source_table(path, with_times=True).interactions.columns  # no name suggests a time
    timed = read_source_table(path, with_times=True, timestamp_col="When").interactions
    found = {
        (timed.users[user], timed.items[item]): str(time)[:10]
        for user, item, time in zip(timed.user_codes, timed.item_codes, timed.columns["timestamp"], strict=True)
    }
    assert found == {("ann", "milk"): "2024-05-01", ("ann", "tea"): "2024-05-03", ("bob", "coffee"): "2024-05-02"}


def test_a_time_column_without_times_is_ignored_unless_requested(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item,time\na,x,noon\nb,y,later\n")
    with pytest.warns(DataWarning, match=r"'time' is not used as timestamp: it has values such as 'noon'.*time_format"):
        assert read_source_table(path, with_times=True).interactions.columns == {}
    assert read_source_table(path, with_times=True, timestamp_col="none").interactions.columns == {}
    with pytest.raises(InputError, match="noon"):
        read_source_table(path, with_times=True, timestamp_col="time")
    path.write_text("user,item,timestamp\na,x,12\na,x,11\nb,y,5\n")
    timed = read_source_table(path, with_times=True).interactions
    assert timed.columns["timestamp"].tolist() == [12, 5]


def test_a_column_of_other_weights_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item,Weight\n1,2,0.5\n1,3,12.4\n2,3,3\n")
    with pytest.warns(DataWarning, match=r"'Weight' is not used as weight: .*weight_col='none'"):
        log = read_source_table(path)
    assert log.weight_column is None
    assert read_source_table(path, weight_col="none").interactions.matrix.data.tolist() == [1, 1, 1]
    with pytest.raises(
        InputError, match=r"(?s)2 of 3 rows cannot be used.*the weight is not from 0 to 1 \(line 3: '12.4', line"
    ):
        read_source_table(path, weight_col="Weight")
    with pytest.raises(InputError, match="the user is required"):
        read_source_table(path, user_col="none")


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
def test_reading_shows_how_far_it_is(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"log{ending}"
    write_interactions(make_cinema(n_clicks=5_000).interactions, path)
    calls: list[tuple[str, int, int]] = []
    read_source_table(path, progress=lambda *call: calls.append(call))
    converting = [] if ending == ".parquet" else ["Converting the columns"]
    tasks = ["Reading the log", *converting, "Numbering users and items"]
    assert [*dict.fromkeys(task for task, _, _ in calls)] == tasks
    assert all((task, total, total) in calls for task, _, total in calls)
    of_reading = [(done, total) for task, done, total in calls if task == "Reading the log"]
    assert of_reading == sorted(of_reading)
    total = 1 if ending == ".parquet" else path.stat().st_size
    assert of_reading[-1] == (total, total)

"""Rows that cannot be used are all counted, and can be skipped."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prorec import DataWarning, InputError, read_interactions
from prorec.data import text_file
from prorec.data.source_table import read_source_table

FAULTS = {
    "the user id is missing": ",{item},0.5,3,5",
    "the item id is missing": "{user},NULL,0.5,3,5",
    "the weight is not a number": "{user},{item},half,3,5",
    "the weight is negative": "{user},{item},-1,3,5",
    "the weight is not a finite number": "{user},{item},inf,3,5",
    "the rating is missing": "{user},{item},0.5,,5",
    "the rating is not a number": "{user},{item},0.5,good,5",
    "the timestamp is missing": "{user},{item},0.5,3,",
    "the timestamp is not a number or a date": "{user},{item},0.5,3,soon",
    "4 columns instead of 5": "{user},{item},0.5,3",
    "6 columns instead of 5": "{user},{item},0.5,3,5,6",
}


def write_log(path: Path, n_rows: int, seed: int = 0) -> tuple[Counter[str], set[tuple[str, int]], int]:
    """Write a log with faults; return their number by reason, the good pairs, and the line of the first fault."""
    rng = random.Random(seed)
    counts: Counter[str] = Counter()
    good = set()
    lines, first = ["user,item,weight,rating,timestamp"], 0
    for row in range(n_rows):
        user, item = f"u{rng.randrange(40)}", rng.randrange(30)
        if rng.random() < 0.2:
            reason = rng.choice(list(FAULTS))
            counts[reason] += 1
            first = first or row + 2
            lines.append(FAULTS[reason].format(user=user, item=item))
        else:
            good.add((user, item))
            lines.append(f"{user},{item},0.5,3,{rng.randrange(10**9)}")
    text = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return counts, good, first


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
def test_all_bad_rows_are_counted_by_reason(name: str, tmp_path: Path) -> None:
    counts, _, first = write_log(tmp_path / name, 2000)
    with pytest.raises(InputError) as caught:
        read_interactions(tmp_path / name)
    first_line, *listed, remedy = str(caught.value).splitlines()
    assert first_line.endswith(f"{sum(counts.values())} of 2,000 rows cannot be used:")
    found = {" ".join(line.split()[1:]).partition(" (")[0]: int(line.split()[0]) for line in listed}
    assert found == dict(counts)
    numbers = [int(line.split()[0]) for line in listed]
    assert numbers == sorted(numbers, reverse=True), "the most frequent first"
    assert any(f"{first}" in line for line in listed), "with line numbers"
    assert remedy.startswith("Correct these rows, or pass skip_bad_rows=True to leave them out.")


@pytest.mark.parametrize("n_rows", [300, 40_000])
def test_skipping_reads_exactly_the_good_rows(n_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_file, "_HEAD_BYTES", 1 << 16)
    counts, good, _ = write_log(tmp_path / "log.csv", n_rows, seed=n_rows)
    with pytest.warns(DataWarning, match=f"{sum(counts.values()):,} of {n_rows:,} rows .* are left out"):
        clicks = read_interactions(tmp_path / "log.csv", skip_bad_rows=True)
    pairs = zip(clicks.users[clicks.user_codes], clicks.items[clicks.item_codes], strict=True)
    assert {(str(user), int(item)) for user, item in pairs} == good


def test_rejected_rows_keep_their_fields_line_and_reason(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        'user,item,note\nann,7,"two\nlines"\n,8,"a, b"\nbob,9\nbob,7,x,y,z\nann,9,"q ""r"""\nbob,8,\ncid,7,\n'
    )
    source = read_source_table(path, skip_bad_rows=True)
    assert source.table.column("note").to_pylist() == ["two\nlines", 'q "r"', "", ""]
    assert source.skipped is not None
    assert source.skipped.to_table().to_pylist() == [
        {"line": 4, "reason": "the user id is missing", "user": "", "item": "8", "note": "a, b"},
        {"line": 5, "reason": "2 columns instead of 3", "user": "bob", "item": "9", "note": ""},
        {"line": 6, "reason": "5 columns instead of 3", "user": "bob", "item": "7", "note": "x,y,z"},
    ]


def test_ids_are_integers_again_without_the_bad_rows(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item\n1,7\nNULL,8\n2,9\n")
    assert read_source_table(path, skip_bad_rows=True).interactions.users.tolist() == [1, 2]


def test_more_bad_rows_than_good_ones_are_never_skipped(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item\n1,7\n,8\n,9\n")
    with pytest.raises(InputError, match=r"(?s)2 of 3 rows cannot be used.*Most rows should be usable"):
        read_source_table(path, skip_bad_rows=True)


def test_rows_of_parquet_files(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    table = pa.table({"user": [1, None, 2, 2], "item": ["a", "b", " ", "c"], "weight": [0.5, 1, 1, float("nan")]})
    pq.write_table(pa.concat_tables([table, table.slice(0, 1), table.slice(0, 1)]), path)
    with pytest.raises(InputError, match=r"(?s)log\.parquet: 3 of 6 rows.*the user id is missing \(row 2\)"):
        read_interactions(path)
    source = read_source_table(path, skip_bad_rows=True)
    assert source.table.num_rows == 3
    assert source.skipped is not None
    assert source.skipped.to_table().column("row").to_pylist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("times", "options", "expected"),
    [
        (
            ["2024-05-01T12:00:00Z", "2024-05-01 13:00", "2024-05-01T15:00:00.5+02:00"],
            {},
            ["12:00:00", "13:00:00", "13:00:00.500"],
        ),
        (
            ["01.05.2024 12:00", "01.05.2024 13:00", "01.05.2024 14:30"],
            {"time_format": "%d.%m.%Y %H:%M"},
            ["12:00:00", "13:00:00", "14:30:00"],
        ),
    ],
)
def test_times_by_hand(times: list[str], options: dict[str, str], expected: list[str], tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item,time\n" + "".join(f"{at},1,{time}\n" for at, time in enumerate(times)))
    found = read_interactions(path, **options).columns["timestamp"]  # type: ignore[arg-type]
    assert found.tolist() == [datetime.fromisoformat(f"2024-05-01 {time}") for time in expected]


def test_formats_of_times_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item,time\n1,1,01.05.2024\n1,2,31.02.2024\n1,3,02.05.2024\n")
    with pytest.raises(InputError, match=r"line 3: the timestamp '31.02.2024' is not a time of the form %d\.%m\.%Y"):
        read_interactions(path, time_format="%d.%m.%Y")
    for bad in ("day", "%d.%Q", ""):
        with pytest.raises(InputError, match="time_format must be a format such as"):
            read_interactions(path, time_format=bad)

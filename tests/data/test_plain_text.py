"""Plain text files are read in one pass, to exactly what Arrow's reader gives; other files are left to Arrow."""

from __future__ import annotations

import io
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prorec import InputError, read_interactions
from prorec.data import plain_text
from prorec.data.plain_text import read_plain
from prorec.data.text_file import TextFile

USUAL_IDS = ["7", "8", "12", "-3", "ann", "12345678", "a name of 16 byt", "a name that is longer than two words", "ünï"]
ODD_IDS = ["007", " 7", "9223372036854775807", "9223372036854775808", "日本", "", "nan", 'a"b']
RATINGS = st.sampled_from(["1", "4.5", "0.1", "-2", "16777216", "3.1415927", "0.30000001", "-0", "1e3", ".5", "x", ""])
TIMES = st.sampled_from(
    ["0", "86400", "-5", "9999999999999999", "99999999999999999", "007", "1.5", "2024-05-01", "2024-05-01 12:00:00", ""]
)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """Return a log, mostly of usual values, with any line ends, blank lines and quotes."""
    usual = draw(st.booleans())
    ids = st.sampled_from(USUAL_IDS if usual else USUAL_IDS + ODD_IDS)
    ratings = st.sampled_from(["1", "4.5", "0.1", "-2"]) if usual else RATINGS
    times = st.sampled_from(["0", "86400"]) if usual else TIMES
    separator = draw(st.sampled_from(",;\t"))
    end = draw(st.sampled_from(["\n", "\r\n"] if usual else ["\n", "\r\n", "\r"]))
    quote = draw(st.sampled_from(["", '"']))
    rows = draw(st.lists(st.tuples(ids, ids, st.sampled_from(["", "x", "ß"]), ratings, times), min_size=1, max_size=12))
    lines = [separator.join(["user", "item", "note", "rating", "timestamp"])]
    lines += [separator.join([f"{quote}{user}{quote}", item, *rest]) for user, item, *rest in rows]
    if draw(st.booleans()):
        lines.insert(draw(st.integers(0, len(lines))), "")
    text = end.join(lines) + (end if draw(st.booleans()) else "")
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()


def outcome(path: Path) -> Any:
    """Return the interactions of a file with the types of their columns, or the message that refuses it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            clicks = read_interactions(path)
        except InputError as error:
            return str(error)
    types = {name: values.dtype for name, values in clicks.columns.items()}
    columns = {name: values.tobytes() for name, values in clicks.columns.items()}
    matrix = clicks.matrix
    return clicks.users.tolist(), clicks.items.tolist(), matrix.indptr.tolist(), matrix.indices.tolist(), types, columns


@given(text=texts())
def test_the_result_is_that_of_arrow(text: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / "log.csv"
        path.write_bytes(text)
        patch.setattr(plain_text, "_BLOCK", 64)  # many blocks, in which lines are cut
        found = outcome(path)
        patch.setattr(TextFile, "_read_plain", lambda *_: None)
        assert found == outcome(path)


def test_many_long_ids_are_numbered_by_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    users = [f"{'user' * (each % 5)}{each}" for each in rng.integers(0, 20_000, 40_000).tolist()]
    items = rng.integers(-9_000, 9_000, 40_000)
    text = "".join(f"{item},{user}\n" for user, item in zip(users, items.tolist(), strict=True))
    monkeypatch.setattr(plain_text, "_BLOCK", 1 << 15)
    read = {"user": 1, "item": 0}
    columns = read_plain(io.BytesIO(text.encode()), read, separator=",", n_columns=2, n_header_lines=0, ids="auto")
    assert columns is not None
    assert columns["user"].to_pylist() == users
    assert columns["item"].to_pylist() == items.tolist()
    assert columns["user"].chunk(0).dictionary.to_pylist() == sorted(set(users))
    assert columns["item"].chunk(0).dictionary.to_pylist() == sorted(set(items.tolist()))


@pytest.mark.parametrize(
    ("row", "is_plain"),
    [
        ("ann,7,4.5,100", True),
        ('"ann, the first",7,4.5,100', True),
        ("ann,7,4.5,100\r", True),
        ('"say ""hi""",7,4.5,100', False),
        ('ann "the first",7,4.5,100', False),
        ('"ann\nand bob",7,4.5,100', False),
        ("ann,7,4.5", False),
        ("ann,7,4.5,100,1", False),
        ("ann,7,4.5,2024-05-01", False),
        ("ann,7,four,100", False),
        ("ann,7,123456789.5,100", False),
        (",7,4.5,100", False),
        ("a\0,7,4.5,100", False),
        ("a\rb,7,4.5,100", False),
    ],
)
def test_only_plain_files_are_read_so(row: str, is_plain: bool) -> None:
    file = io.BytesIO(f"user,item,rating,timestamp\nbob,8,1,90\n{row}\n".encode())
    chosen = {"user": 0, "item": 1, "rating": 2, "timestamp": 3}
    columns = read_plain(file, chosen, separator=",", n_columns=4, n_header_lines=1, ids="auto")
    assert (columns is not None) == is_plain
    if columns is not None:
        assert columns["rating"].to_pylist() == [1, 4.5]
        assert columns["timestamp"].to_pylist() == [90, 100]


def test_text_that_is_not_utf8_is_not_plain() -> None:
    file = io.BytesIO("jose,7\njosé,7\n".encode("latin-1"))
    read = {"user": 0, "item": 1}
    assert read_plain(file, read, separator=",", n_columns=2, n_header_lines=0, ids="auto") is None


def test_floats_are_rounded_as_arrow_rounds_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    numbers = [
        f"{value:.{digits}f}" for value, digits in zip(rng.random(3_000) * 99, rng.integers(0, 6, 3_000), strict=True)
    ]
    path = tmp_path / "log.csv"
    path.write_text("user,item,rating\n" + "".join(f"1,{item},{each}\n" for item, each in enumerate(numbers)))
    ratings = read_interactions(path).columns["rating"]
    np.testing.assert_array_equal(ratings, np.array(numbers, dtype=np.float32))

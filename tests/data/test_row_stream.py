"""Rows that arrive bit by bit."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prorec import InputError
from prorec.data.row_stream import MAX_LINE, RowStream


class Pieces:
    """A file whose text arrives in given pieces."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = [piece for piece in pieces if piece]

    def read1(self, size: int, /) -> bytes:
        if not self.pieces:
            return b""
        piece = self.pieces[0][:size]
        self.pieces[0] = self.pieces[0][size:]
        if not self.pieces[0]:
            del self.pieces[0]
        return piece


def rows_of(stream: RowStream) -> list[tuple[str, str]]:
    return [pair for batch in stream for pair in zip(batch.users, batch.items, strict=True)]


def test_each_line_is_returned_when_it_has_come() -> None:
    stream = iter(RowStream(Pieces([b"user,item\n1,2\n", b"3,", b"4\n5,6\n", b"7,8"]), {}))
    batches = [(batch.lines, batch.users) for batch in stream]
    assert batches == [([b"1,2"], ["1"]), ([b"3,4", b"5,6"], ["3", "5"]), ([b"7,8"], ["7"])]


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        (b"user,item\r\n1,2\r\n", ["user", "item"], [("1", "2")]),
        (b"\xef\xbb\xbfSKU;Customer;Price\ntea;ann;3,5\n", ["SKU", "Customer", "Price"], [("ann", "tea")]),
        (b"\n\nuser\titem\n\nann\ttea\n", ["user", "item"], [("ann", "tea")]),
        (b"7,8\n7,9\n", ["column 0", "column 1"], [("7", "8"), ("7", "9")]),
        (b'user,item\n"a,b","say ""hi"""\n', ["user", "item"], [("a,b", 'say "hi"')]),
    ],
)
def test_layouts(text: bytes, names: list[str], expected: list[tuple[str, str]]) -> None:
    stream = RowStream(io.BytesIO(text), {})
    assert stream.names == names
    assert rows_of(stream) == expected


def test_columns_that_are_told() -> None:
    text = b"a|b|c\nx|ann|tea\n"
    stream = RowStream(io.BytesIO(text), {"user": "b", "item": 2}, separator="|", header=True)
    assert (stream.header_line, rows_of(stream)) == (b"a|b|c", [("ann", "tea")])
    stream = RowStream(io.BytesIO(b"ann,tea\n"), {}, header=False)
    assert (stream.header_line, rows_of(stream)) == (None, [("ann", "tea")])


def test_bad_rows_are_named_and_left_out() -> None:
    long = b"9," + b"x" * MAX_LINE * 3
    text = b"\n".join([b"user,item", b"1,2", b"1", b",2", b"1,NULL", b"\xff,2", b'"1,2', long, b"3,4"])
    stream = RowStream(Pieces([text[at : at + 5000] for at in range(0, len(text), 5000)]), {})
    batches = list(stream)
    bad = [each for batch in batches for each in batch.bad]
    assert [user for batch in batches for user in batch.users] == ["1", "3"]
    assert [line for line, _ in bad] == [3, 4, 5, 6, 7, 8]
    words = [
        "columns; this one has 1",
        "user id is missing",
        "item id is missing",
        "UTF-8",
        "cannot be split",
        "longer",
    ]
    assert all(word in reason for word, (_, reason) in zip(words, bad, strict=True))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "has nothing in it"),
        (b"\n \n", "has nothing in it"),
        (b"when,what\n1,2\n", "user"),
        ("user,item\n1,2\n".encode("utf-16"), "UTF-16"),
    ],
)
def test_streams_that_cannot_be_used(text: bytes, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        RowStream(io.BytesIO(text), {})


@given(
    st.lists(st.tuples(*[st.text('ab1 ,";é', min_size=1).filter(str.strip)] * 2), min_size=1),
    st.lists(st.integers(1, 9), min_size=1),
)
def test_pieces_do_not_matter(rows: list[tuple[str, str]], sizes: list[int]) -> None:
    """However the text arrives, the rows are those that the csv module reads."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("user", "item"), *rows])
    data = text.getvalue().encode()
    pieces: list[bytes] = []
    while data:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(data[:size])
        data = data[size:]
    assert rows_of(RowStream(Pieces(pieces), {})) == rows

"""Matrices whose arrays do not fit together, and ids in every type of Arrow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import bsr_array, coo_array, csc_array, csr_array, dok_array, lil_array

from prorec import InputError, Interactions, read_interactions
from prorec.data.source_table import read_source_table
from prorec.interactions.arrow_types import use_plain_type

DENSE = np.array([[1, 0, 0.5, 0], [0, 0, 0, 0], [0.25, 1, 0, 1], [0, 0, 1, 0]])


def broken(change: Callable[[Any], Any], make: Any = csr_array) -> Any:
    matrix = make(DENSE)
    change(matrix)
    return matrix


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (broken(lambda m: m.indptr.__setitem__(-1, 10**6)), "indptr must be 5 numbers that rise from 0 to 6"),
        (broken(lambda m: m.indptr.__setitem__(-1, 4)), "indptr must be"),
        (broken(lambda m: m.indptr.__setitem__(0, 1)), "indptr must be"),
        (broken(lambda m: m.indptr.__setitem__(1, 5)), "indptr must be"),
        (broken(lambda m: m.indptr.__setitem__(2, -(2**31))), "indptr must be"),
        (broken(lambda m: setattr(m, "indptr", m.indptr[:3])), "indptr must be"),
        (broken(lambda m: setattr(m, "indptr", m.indptr.astype(float))), "indptr must be whole numbers"),
        (broken(lambda m: m.indices.__setitem__(0, -1)), "indices must be from 0 to 3; one is -1"),
        (broken(lambda m: m.indices.__setitem__(5, 4)), "indices must be from 0 to 3; one is 4"),
        (broken(lambda m: setattr(m, "indices", m.indices.astype(float))), "indices must be whole numbers"),
        (broken(lambda m: setattr(m, "indices", m.indices[:, None])), "indices must be whole numbers in one dim"),
        (broken(lambda m: setattr(m, "data", m.data[:2])), "as many values as indices, 6"),
        (broken(lambda m: setattr(m, "data", np.append(m.data, 1))), "as many values as indices, 6"),
        (broken(lambda m: m.indices.__setitem__(0, 9), csc_array), "indices must be from 0 to 3"),
        (broken(lambda m: m.indptr.__setitem__(-1, 99), csc_array), "indptr must be"),
        (broken(lambda m: m.indices.__setitem__(0, 7), lambda d: bsr_array(d, blocksize=(2, 2))), "indices must be"),
        (broken(lambda m: m.row.__setitem__(0, -3), coo_array), "row numbers must be from 0 to 3; one is -3"),
        (broken(lambda m: m.col.__setitem__(0, 4), coo_array), "column numbers must be from 0 to 3; one is 4"),
        (
            broken(lambda m: m.rows.__setitem__(0, [0, 9]), lil_array),
            "index 9 exceeds|column numbers must be from 0 to 3",
        ),
        (csr_array(DENSE.astype(complex)), "real numbers"),
        (csr_array(DENSE)[[0]].reshape(4), "must be users × items"),
    ],
)
def test_broken_matrices_are_refused(matrix: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Interactions.from_matrix(matrix)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0])), max_size=20),
    st.sampled_from([np.int32, np.int64]),
    st.sampled_from([np.float64, np.float32, np.longdouble]),
)
def test_unsorted_and_repeated_entries_are_kept(entries: Any, index_type: Any, value_type: Any) -> None:
    ordered = sorted(entries, key=lambda each: each[0])  # columns stay in any order within their row
    users, items, weights = (np.array([each[part] for each in ordered]) for part in range(3))
    indptr = np.searchsorted(users, np.arange(6)).astype(index_type)
    matrix = csr_array((weights.astype(value_type), items.astype(index_type), indptr), shape=(5, 4))
    matrix.has_sorted_indices = matrix.has_canonical_format = True  # a flag that lies
    interactions = Interactions.from_matrix(matrix)
    largest: dict[tuple[int, int], float] = {}
    for user, item, weight in ordered:
        largest[user, item] = max(weight, largest.get((user, item), 0))
    pairs = zip(interactions.user_codes.tolist(), interactions.item_codes.tolist(), strict=True)
    assert dict(zip(pairs, interactions.matrix.data.tolist(), strict=True)) == largest


def test_every_layout_gives_the_same() -> None:
    expected = Interactions.from_matrix(csr_array(DENSE))
    for make in (
        csc_array,
        coo_array,
        bsr_array,
        lil_array,
        dok_array,
        lambda dense: bsr_array(dense, blocksize=(2, 2)),
    ):
        assert Interactions.from_matrix(make(DENSE)).equals(expected)


def test_the_constructor_checks_too() -> None:
    ids = np.arange(4)
    for change in (
        lambda m: m.indptr.__setitem__(-1, 10**6),
        lambda m: m.indices.__setitem__(0, 3),
        lambda m: m.indices.__setitem__(0, 10**6),
    ):
        matrix = broken(change, lambda dense: csr_array(dense, dtype=np.float32))
        matrix.has_canonical_format = True
        with pytest.raises(InputError, match=r"indptr must|indices must|sorted indices"):
            Interactions(matrix, ids, ids)
    good = csr_array(DENSE, dtype=np.float32)
    with pytest.raises(InputError, match="indices must"):
        Interactions(good, ids, ids, held_out=broken(lambda m: m.indices.__setitem__(0, 10**6)))


TEXT = pa.array(["a", "b", "a"])
NUMBERS = pa.array([5, 7, 5])
READ = {
    "string_view": TEXT.cast(pa.string_view()),
    "large_string": TEXT.cast(pa.large_string()),
    "categories": TEXT.dictionary_encode(),
    "categories of views": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 0], pa.int8()), pa.array(["a", "b"], pa.string_view())
    ),
    "runs of text": pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3], pa.int32()), TEXT),
    "int8": NUMBERS.cast(pa.int8()),
    "uint64": NUMBERS.cast(pa.uint64()),
    "float16": pa.array(np.array([5, 7, 5], np.float16)),
    "runs of numbers": pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3], pa.int32()), NUMBERS),
}
REFUSED = {
    "binary": TEXT.cast(pa.binary()),
    "binary_view": TEXT.cast(pa.binary_view()),
    "decimal": NUMBERS.cast(pa.decimal128(20, 0)),
    "bool": pa.array([True, False, True]),
    "date": NUMBERS.cast(pa.int32()).cast(pa.date32()),
    "duration": NUMBERS.cast(pa.duration("s")),
    "null": pa.nulls(3),
    "list": pa.array([[1], [2], [1]]),
    "list_view": pa.array([[1], [2], [1]], pa.list_view(pa.int64())),
    "struct": pa.array([{"a": 1}] * 3),
    "map": pa.array([[("a", 1)]] * 3, pa.map_(pa.string(), pa.int64())),
    "union": pa.UnionArray.from_sparse(pa.array([0, 0, 1], pa.int8()), [NUMBERS, TEXT]),
    "beyond int64": pa.array([1, 2, 2**63], pa.uint64()),
    "fraction": pa.array([1.5, 2, 3]),
}


@pytest.mark.parametrize("name", READ)
def test_ids_of_many_types_are_read(name: str) -> None:
    interactions = Interactions.from_table(pa.table({"user": READ[name], "item": [1, 2, 3]}))
    assert interactions.users.tolist() in (["a", "b"], [5, 7])
    assert interactions.user_codes.tolist() == [0, 0, 1]
    assert interactions.item_codes.tolist() == [0, 2, 1]


@pytest.mark.parametrize("name", REFUSED)
def test_ids_of_other_types_are_refused_by_name(name: str) -> None:
    with pytest.raises(InputError, match=r"user id"):
        Interactions.from_table(pa.table({"user": REFUSED[name], "item": [1, 2, 3]}))


def test_searched_ids_beyond_64_bits_are_refused() -> None:
    clicks = Interactions.from_table(pa.table({"user": [1, 2], "item": [1, 2]}))
    with pytest.raises(InputError, match="user ids go past the largest 64-bit integer"):
        clicks.user_positions(REFUSED["beyond int64"])
    assert clicks.user_positions(pa.array([2, 9], pa.uint64())).tolist() == [1, -1]


def test_views_in_a_file_can_be_filtered(tmp_path: Path) -> None:
    views = {"text": READ["string_view"], "bytes": REFUSED["binary_view"]}
    views["list"] = pa.array([["a"], [], ["b"]], pa.list_(pa.string_view()))
    views["struct"] = pa.array([{"a": "x"}] * 3, pa.struct([("a", pa.string_view())]))
    table = pa.table({"user": READ["string_view"], "item": READ["string_view"], **views})
    pq.write_table(table, tmp_path / "clicks.parquet")
    assert len(read_interactions(tmp_path / "clicks.parquet")) == 2
    source = read_source_table(tmp_path / "clicks.parquet")
    assert source.table.filter(pa.array([True, False, True])).to_pylist() == table.to_pylist()[::2]
    for name, column in views.items():
        assert use_plain_type(pa.chunked_array([column]), name).to_pylist() == column.to_pylist()

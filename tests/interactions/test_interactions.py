from __future__ import annotations

import copy
import datetime
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from scipy.sparse import bsr_array, coo_array, csc_array, csr_array, csr_matrix

from prorec import DataWarning, InputError, Interactions, read_interactions, write_interactions
from tests.strategies import interactions, pairs_of

LOG = {"user": ["cy", "ann", "cy", "bob"], "item": [30, 20, 10, 30], "rating": [5.0, 1.0, 4.0, 2.5]}


@pytest.mark.parametrize("table", [pa.table(LOG), pd.DataFrame(LOG), pl.DataFrame(LOG), pl.DataFrame(LOG).lazy()])
def test_every_kind_of_table_gives_the_same(table: object) -> None:
    clicks = Interactions.from_table(table)
    assert clicks.users.tolist() == ["ann", "bob", "cy"]
    assert clicks.items.tolist() == [10, 20, 30]
    np.testing.assert_array_equal(clicks.matrix.toarray(), [[0, 1, 0], [0, 0, 1], [1, 0, 1]])
    assert clicks.matrix.dtype == np.float32
    np.testing.assert_array_equal(clicks.columns["rating"], [1, 2.5, 4, 5])


def test_the_order_of_rows_does_not_matter_nor_a_pandas_index() -> None:
    frame = pd.DataFrame(LOG)
    assert Interactions.from_table(frame).equals(Interactions.from_table(frame[::-1]))
    assert Interactions.from_table(frame).equals(Interactions.from_table(frame.set_index(pd.Index(list("wxyz")))))
    assert len(Interactions.from_table(frame[frame["rating"] > 2])) == 3


def test_columns_by_position_and_with_names_that_are_no_text() -> None:
    frame = pd.DataFrame([[1, 10], [2, 20]])
    assert Interactions.from_table(frame, user_col=0, item_col=1).items.tolist() == [10, 20]
    with pytest.raises(InputError, match="unique column names"):
        Interactions.from_table(pd.DataFrame([[1, 2, 3]], columns=["user", "item", "item"]))


def test_repr() -> None:
    log = pa.table({"user": [1, 2], "item": [1, 2], "weight": [1, 5], "timestamp": [3, 4]})
    assert repr(Interactions.from_table(log)) == (
        "Interactions(2 users × 2 items, 2 interactions, with weights 1–5 and timestamp)"
    )


def test_text_times_are_read_as_dates() -> None:
    log = {"user": [1, 2], "item": [1, 2], "timestamp": ["2024-05-01", "2024-05-02 10:00:00"]}
    got = Interactions.from_table(pd.DataFrame(log)).columns["timestamp"]
    assert got.tolist() == [datetime.datetime(2024, 5, 1), datetime.datetime(2024, 5, 2, 10)]


def test_dictionaries_with_gaps_and_repeats_are_read_by_their_values() -> None:
    def user(indices: list[int], values: list[str | None]) -> pa.Table:
        coded = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), pa.array(values))
        return pa.table({"user": coded, "item": list(range(len(indices)))})

    assert Interactions.from_table(user([0, 1, 0], ["a", "a"])).users.tolist() == ["a"]
    assert Interactions.from_table(user([1, 1], ["unused", "b"])).users.tolist() == ["b"]
    with pytest.raises(InputError, match="the user id is missing"):
        Interactions.from_table(user([0, 1], ["a", None]))
    view = pa.table({"user": pa.array(["b", "a"], pa.string_view()), "item": [1, 2]})
    assert Interactions.from_table(view).users.tolist() == ["a", "b"]


@given(interactions(min_size=1))
def test_a_table_and_back_is_the_same(data: Interactions) -> None:
    data = data.drop_empty()
    for kind in ("pyarrow", "pandas", "polars"):
        assert Interactions.from_table(data.to_table(kind)).equals(data)


@pytest.mark.parametrize("convert", [csr_array, csc_array, coo_array, csr_matrix])
def test_every_kind_of_matrix_gives_the_same(convert: type) -> None:
    dense = np.array([[0, 0.5], [1, 0]])
    clicks = Interactions.from_matrix(convert(dense), users=["b", "a"], items=np.array([7, 3]))
    np.testing.assert_array_equal(clicks.matrix.toarray(), dense)
    assert clicks.users.tolist() == ["b", "a"], "ids that are given keep their order"
    assert clicks.items.tolist() == [7, 3]
    assert clicks.user_positions(["a", "nobody"]).tolist() == [1, -1]


def test_unsorted_and_repeated_entries_of_a_matrix_are_put_in_order() -> None:
    raw = csr_array((np.array([1.0, 2.0, 3.0]), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2))
    assert Interactions.from_matrix(raw).matrix.toarray().tolist() == [[2.0, 3.0]]
    with pytest.warns(DataWarning, match="1 rows repeat"):
        assert Interactions.from_matrix(raw, duplicates="sum").matrix.toarray().tolist() == [[2.0, 4.0]]


def test_empty_interactions(tmp_path: Path) -> None:
    none = Interactions.from_table(pa.table(LOG)).filter_by_rating(99)
    assert (none.n_users, none.n_items, len(none)) == (0, 0, 0)
    assert none.user_positions(["ann"]).tolist() == [-1]
    for ending in ("csv", "inter", "parquet"):
        write_interactions(none, tmp_path / f"none.{ending}")
        with pytest.raises(InputError, match="no rows"):
            read_interactions(tmp_path / f"none.{ending}")
    assert len(Interactions.from_matrix(none.matrix, users=none.users, items=none.items)) == 0


def test_odd_types_are_read_right_or_refused() -> None:
    ones = {"user": [1, 2], "item": [1, 2]}
    coded = pa.array([5, 6]).dictionary_encode()
    assert Interactions.from_table(pa.table({**ones, "timestamp": coded})).columns["timestamp"].tolist() == [5, 6]
    many = [pa.array([f"{part}{at}" for at in range(100)]).dictionary_encode() for part in "ab"]
    small = pa.chunked_array([each.cast(pa.dictionary(pa.int8(), pa.string())) for each in many])
    assert Interactions.from_table(pa.table({"user": small, "item": list(range(200))})).n_users == 200
    for user in (pa.array([np.float16("inf"), np.float16(1)], pa.float16()), pa.array([float("inf"), 1])):
        with pytest.raises(InputError, match="not a whole number"):
            Interactions.from_table(pa.table({"user": user, "item": [1, 2]}))
    for bad in (csr_array(np.array([[1j]])), csr_array((1, 2**31 + 1))):
        with pytest.raises(InputError, match="matrix"):
            Interactions.from_matrix(bad)
    with pytest.raises(InputError, match="all integers or all text"):
        Interactions.from_matrix(csr_array(np.eye(1)), users=["\ud800"])
    block = bsr_array(np.array([[1.0, 0], [0, 1]]), blocksize=(2, 2))
    assert len(Interactions.from_matrix(block)) == 2, "zeros that fill its blocks are no interactions"


def test_it_can_be_copied_and_sent_to_another_process() -> None:
    clicks = Interactions.from_table(pa.table(LOG)).with_item_info({10: "Ten"})
    for other in (copy.deepcopy(clicks), pickle.loads(pickle.dumps(clicks))):
        assert other.equals(clicks)
        np.testing.assert_array_equal(other.item_names, clicks.item_names)


def test_duplicate_entries_of_a_matrix_are_resolved_as_asked() -> None:
    raw = coo_array((np.array([1.0, 3.0]), (np.array([0, 0]), np.array([1, 1]))), shape=(1, 2))
    assert Interactions.from_matrix(raw, duplicates="max").matrix.toarray().tolist() == [[0, 3]]
    assert Interactions.from_matrix(raw, duplicates="first").matrix.toarray().tolist() == [[0, 1]]
    with pytest.raises(InputError, match="1 rows repeat"):
        Interactions.from_matrix(raw, duplicates="error")
    hidden = coo_array((np.array([5.0, -2.0]), (np.array([0, 0]), np.array([1, 1]))), shape=(1, 2))
    with pytest.raises(InputError, match="negative"):
        Interactions.from_matrix(hidden)


def test_arrays_are_read_only() -> None:
    source = csr_array(np.eye(3))
    clicks = Interactions.from_matrix(source)
    for array in (clicks.matrix.data, clicks.matrix.indices, clicks.users, clicks.user_codes):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5
    with pytest.raises(TypeError):
        clicks.columns["rating"] = np.zeros(3)  # type: ignore[index]
    with pytest.raises(AttributeError):
        clicks.users = np.zeros(3)  # type: ignore[misc]
    source.data[0] = 9
    assert clicks.matrix.data[0] == 1, "the matrix it was made from is the caller's own"


@pytest.mark.parametrize(
    ("rule", "weight", "rating", "time"), [("sum", 5, 4, 30), ("max", 3, 4, 30), ("first", 2, 1, 30)]
)
def test_duplicates_are_resolved_as_asked(rule: str, weight: float, rating: float, time: int) -> None:
    log = {"user": [1, 2, 1], "item": [1, 1, 1], "weight": [2, 7, 3], "rating": [1, 2, 4], "timestamp": [30, 20, 10]}
    if rule == "sum":
        with pytest.warns(DataWarning, match="1 rows repeat"):
            clicks = Interactions.from_table(pa.table(log), duplicates=rule)
    else:
        clicks = Interactions.from_table(pa.table(log), duplicates=rule)
    assert clicks.matrix.toarray().tolist() == [[weight], [7]]
    assert clicks.columns["rating"].tolist() == [rating, 2]
    assert clicks.columns["timestamp"].tolist() == [time, 20]


def test_duplicates_can_be_refused() -> None:
    with pytest.raises(InputError, match="1 rows repeat"):
        Interactions.from_table(pa.table({"user": [1, 1], "item": [2, 2]}), duplicates="error")
    with pytest.raises(InputError, match=r"duplicates must be one of .*'max'.*, got 'last'"):
        Interactions.from_table(pa.table({"user": [1, 1], "item": [2, 2]}), duplicates="last")


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pd.Series([3.0, 1.0]), [1, 3]),
        (pd.Series(["b", "a"], dtype="category"), ["a", "b"]),
        (pd.Series([10**15, -5]), [-5, 10**15]),
        (pd.Series(pd.Categorical([7, 5], categories=[5, 6, 7])), [5, 7]),
        (pd.Series(np.array([3, 1], dtype=np.uint8)), [1, 3]),
    ],
)
def test_ids_of_every_kind(column: pd.Series, expected: list[object]) -> None:
    assert Interactions.from_table(pd.DataFrame({"user": column, "item": [1, 2]})).users.tolist() == expected


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ({"who": [1], "item": [1]}, r"no column is called 'user'.*The columns are 'who', 'item'"),
        ({"user": [1], "USER_ID": [1], "item": [1]}, "more than one column could be the user"),
        ({"user": [1.0, None], "item": [1, 2]}, r"row 1 .*the user id is missing"),
        ({"user": [1, float("nan")], "item": [1, 2]}, r"row 1 .*the user id is missing"),
        ({"user": ["a", ""], "item": [1, 2]}, r"row 1 .*the user id is missing"),
        ({"user": ["a", "nan"], "item": [1, 2]}, r"row 1 .*the user id is missing"),
        ({"user": ["a", "  "], "item": [1, 2]}, r"row 1 .*the user id is missing"),
        ({"user": ["a", "NULL"], "item": [1, 2]}, r"row 1 .*the user id is missing \('NULL'\)"),
        ({"user": [1], "item": [1], "timestamp": pa.array([2**63 + 5], pa.uint64())}, "past the largest 64-bit"),
        ({"user": [1.5], "item": [1]}, "not a whole number"),
        ({"user": [True], "item": [1]}, "must be integers or text, got a column of type bool"),
        ({"user": [1], "item": [1], "weight": [-1.0]}, r"row 0 .*the weight is -1.0; it must not be negative"),
        ({"user": [1], "item": [1], "weight": [float("inf")]}, "the weight is inf, which is not a finite number"),
        ({"user": [1], "item": [1], "weight": [1e60]}, "not a finite number"),
        ({"user": [1], "item": [1], "rating": [float("nan")]}, "the rating is nan"),
        ({"user": [1, 2], "item": [1, 2], "rating": ["4", "good"]}, r"row 1 .*the rating 'good' is not a number"),
        ({"user": [1], "item": [1], "timestamp": ["soon"]}, r"row 0 .*the timestamp 'soon' is not a number or a date"),
        ({"user": [1], "item": [1], "timestamp": [float("inf")]}, "timestamp is not a finite number"),
    ],
)
def test_bad_tables_are_refused(log: dict[str, list[object]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Interactions.from_table(pa.table(log))


def test_other_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="no rows"):
        Interactions.from_table(pa.table({"user": pa.array([], pa.int64()), "item": pa.array([], pa.int64())}))
    with pytest.raises(InputError, match=r"table must be .*; got int"):
        Interactions.from_table(3)
    with pytest.raises(InputError, match=r"column 'user' .*user.* mixes int, str"):
        Interactions.from_table(pd.DataFrame({"user": pd.Series([1, "a"], dtype=object), "item": [1, 2]}))
    with pytest.raises(InputError, match="user_col is position 5, but the table has 2 columns"):
        Interactions.from_table(pa.table({"user": [1], "item": [1]}), user_col=5)
    with pytest.raises(InputError, match="cannot be both the user and the item"):
        Interactions.from_table(pa.table({"user": [1], "item": [1]}), item_col="user")
    for weights, message in (([-1.0], "negative"), ([np.nan], "not a finite number")):
        with pytest.raises(InputError, match=message):
            Interactions.from_matrix(csr_array(np.array([weights])))
    with pytest.raises(InputError, match="2 users, but 1 user ids"):
        Interactions.from_matrix(csr_array(np.eye(2)), users=["a"])
    with pytest.raises(InputError, match="must be distinct: 1 of 2"):
        Interactions.from_matrix(csr_array(np.eye(2)), users=["a", "a"])
    with pytest.raises(InputError, match="all integers or all text"):
        Interactions.from_matrix(csr_array(np.eye(2)), users=["a", 1])
    with pytest.raises(InputError, match="not a sparse users × items matrix"):
        Interactions.from_matrix("no")


def test_dates_are_kept_as_dates() -> None:
    day = datetime.datetime(2024, 5, 1, 12)
    clicks = Interactions.from_table(pa.table({"user": [1], "item": [1], "timestamp": [day]}))
    assert clicks.columns["timestamp"].dtype.kind == "M"
    assert clicks.to_table().column("timestamp")[0].as_py() == day


@given(interactions())
def test_selecting_keeps_the_index_and_remembers_the_rest(data: Interactions) -> None:
    keep = data.columns["rating"] >= 3
    part, rest = data.select(keep, hold_out_rest=True), data.select(~keep, hold_out_rest=True)
    assert data.select(keep).equals(part)
    assert data.select(keep).held_out is None, "plain selection says nothing of the rest"
    assert pairs_of(part) | pairs_of(rest) == pairs_of(data)
    assert not pairs_of(part) & pairs_of(rest)
    assert part.users is data.users
    assert part.held_out is not None
    np.testing.assert_array_equal(part.held_out.toarray(), rest.matrix.astype(bool).toarray() | _observed(rest))
    np.testing.assert_array_equal(part.columns["rating"], data.columns["rating"][keep])


def _observed(data: Interactions) -> np.ndarray:
    """Observed pairs as a dense matrix, those with weight 0 too."""
    dense = np.zeros(data.matrix.shape, dtype=bool)
    dense[data.user_codes, data.item_codes] = True
    return dense


@given(interactions())
def test_rating_threshold(data: Interactions) -> None:
    liked = data.filter_by_rating(4)
    by_id = {
        (data.users[u], data.items[i]): r
        for u, i, r in zip(data.user_codes, data.item_codes, data.columns["rating"], strict=True)
    }
    got = {(liked.users[u], liked.items[i]) for u, i in pairs_of(liked)}
    assert got == {pair for pair, rating in by_id.items() if rating >= 4}
    assert liked.activity.all()
    assert liked.popularity.all()
    assert liked.disliked is not None
    low = {(liked.users[u], liked.items[i]) for u, i in zip(*np.nonzero(liked.disliked.toarray()), strict=True)}
    assert low == {(u, i) for (u, i), rating in by_id.items() if rating < 4 and u in liked.users and i in liked.items}


def test_a_threshold_means_the_number_that_was_typed() -> None:
    data = Interactions.from_table(pa.table({"user": [1], "item": [1], "rating": [4.1]}))
    minimums: tuple[Any, ...] = (4.1, np.float64(4.1), np.float32(4.1))
    for minimum in minimums:
        assert len(data.filter_by_rating(minimum)) == 1
    for bad in ("4", float("nan")):
        with pytest.raises(InputError, match="the minimum rating must be a finite number"):
            data.filter_by_rating(bad)  # type: ignore[arg-type]


def test_a_threshold_needs_ratings() -> None:
    with pytest.raises(InputError, match=r"no ratings .*rating_col"):
        Interactions.from_matrix(csr_array(np.eye(2))).filter_by_rating(4)


def test_a_weight_of_zero_stays_an_observed_pair() -> None:
    clicks = Interactions.from_table(pa.table({"user": [1, 1, 2], "item": [1, 2, 1], "weight": [0.0, 1, 0]}))
    assert len(clicks) == 3
    assert len(clicks.drop_empty()) == 3
    assert len(clicks.select(np.array([True, False, True]))) == 2


def test_align_brings_another_log_onto_the_same_index() -> None:
    train = Interactions.from_table(pa.table({"user": ["a", "b"], "item": [1, 2]}))
    test = Interactions.from_table(pa.table({"user": ["b", "stranger", "b"], "item": [1, 1, 9], "rating": [5, 4, 3]}))
    with pytest.warns(DataWarning, match="1 users and 1 items are not in the other data: 2 of 3 interactions"):
        aligned = test.align(train)
    assert aligned.matrix.toarray().tolist() == [[0, 0], [1, 0]]
    assert aligned.columns["rating"].tolist() == [5]
    assert aligned.users is train.users
    assert train.align(train) is train
    others = Interactions.from_table(pa.table({"user": ["x"], "item": [1]}))
    with pytest.raises(InputError, match="no interaction is left"):
        others.align(train)


def test_ids_that_are_written_the_same_are_the_same() -> None:
    numbers = Interactions.from_table(pa.table({"user": [1, 2], "item": [1, 2]}))
    text = Interactions.from_table(pa.table({"user": ["1", "2"], "item": [1, 2]}))
    assert text.align(numbers).users.tolist() == [1, 2]
    assert numbers.align(text).users.tolist() == ["1", "2"]
    named = numbers.with_item_info(names={"2": "Two", "1": "One"})
    assert named.item_names is not None
    assert named.item_names.tolist() == ["One", "Two"]
    wanted = ["2", "02", " 2", "2.0", "+2", "two", "", str(2**63), str(-(2**63)), "9" * 40]
    assert numbers.user_positions(wanted).tolist() == [1] + [-1] * 9
    large = Interactions.from_table(pa.table({"user": [2**63 - 1, -(2**63)], "item": [1, 2]}))
    assert large.user_positions([str(2**63 - 1), str(2**63), str(-(2**63 - 1))]).tolist() == [1, -1, -1]
    assert text.user_positions([1, 3]).tolist() == [0, -1]
    assert numbers.user_positions(np.array([2], dtype=np.int8)).tolist() == [1]
    assert numbers.user_positions(user for user in (2, 9)).tolist() == [1, -1]
    with pytest.raises(InputError, match="must be given as a list of ids"):
        numbers.user_positions(np.array([[1]]))
    with pytest.raises(InputError, match="users must be given as a list of ids, got '1'"):
        text.user_positions("1")
    with pytest.raises(InputError, match="must be integers or text"):
        text.user_positions([None])


def test_held_out_parts_of_a_split_made_elsewhere() -> None:
    train = Interactions.from_table(pa.table({"user": [1, 2], "item": [1, 2]}))
    test = Interactions.from_table(pa.table({"user": [1, 2], "item": [2, 1]}))
    known = train.with_held_out(test).held_out
    assert known is not None
    assert known.toarray().tolist() == [[False, True], [True, False]]


@given(interactions(max_users=5, max_items=12))
def test_held_out_pairs_stay_held_out(data: Interactions) -> None:
    rating = data.columns["rating"]
    first = data.select(rating != 1, hold_out_rest=True)
    second = first.select(first.columns["rating"] != 2, hold_out_rest=True)
    expected = pairs_of(data.select(rating <= 2))
    assert second.held_out is not None
    assert set(zip(*np.nonzero(second.held_out.toarray()), strict=True)) == expected, "of a part of a part"
    bare = data.select(rating > 2).with_held_out(data.select(rating == 1), data.select(rating == 2))
    assert bare.held_out is not None
    np.testing.assert_array_equal(bare.held_out.toarray(), second.held_out.toarray())
    small = second.drop_empty()
    assert small.held_out is not None
    by_id = {(small.users[u], small.items[i]) for u, i in zip(*np.nonzero(small.held_out.toarray()), strict=True)}
    kept = {(data.users[u], data.items[i]) for u, i in expected}
    assert by_id == {(u, i) for u, i in kept if u in small.users and i in small.items}


def test_item_info_follows_the_items() -> None:
    clicks = Interactions.from_table(pa.table({"user": [1, 1, 2], "item": [5, 6, 7], "rating": [5, 1, 5]}))
    clicks = clicks.with_item_info({5: "Five", 7: "Seven"}, {5: ["odd", "prime"]})
    assert clicks.item_names is not None
    assert clicks.item_names.tolist() == ["Five", "6", "Seven"]
    liked = clicks.filter_by_rating(3)
    assert liked.item_names is not None
    assert liked.item_names.tolist() == ["Five", "Seven"]
    assert liked.item_categories == (("odd", "prime"), ())
    with pytest.raises(InputError, match="must be a list of names"):
        clicks.with_item_info(categories={5: "Drama"})


def test_weights_can_be_replaced_but_not_by_bad_ones() -> None:
    clicks = Interactions.from_matrix(csr_array(np.eye(2)))
    assert clicks.with_weights(np.array([0.5, 0])).matrix.toarray().tolist() == [[0.5, 0], [0, 0]]
    for bad, message in (([1.0], "2 numbers"), ([1.0, -1], "negative"), ([np.nan, 1], "finite")):
        with pytest.raises(InputError, match=message):
            clicks.with_weights(np.array(bad))


def test_pair_positions() -> None:
    clicks = Interactions.from_matrix(csr_array([[1.0, 0, 1], [0, 0, 0], [0, 1, 0]]))
    assert clicks.pair_positions(np.array([0, 0, 0, 2, -1, 0]), np.array([2, 0, 1, 1, 0, -1])).tolist() == [
        1,
        0,
        -1,
        2,
        -1,
        -1,
    ]
    nothing = Interactions.from_matrix(csr_array((2, 2)))
    assert nothing.pair_positions(np.array([0]), np.array([1])).tolist() == [-1]

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prorec import InputError, Interactions
from prorec.data.item_info import add_item_info, write_item_info


def clicks(items: list[object]) -> Interactions:
    return Interactions.from_table(pa.table({"user": [1] * len(items), "item": items}))


def info(known: Interactions) -> dict[object, tuple[str | None, tuple[str, ...] | None]]:
    names = known.item_names if known.item_names is not None else [None] * known.n_items
    categories = known.item_categories or [None] * known.n_items
    return {item: (name, kinds) for item, name, kinds in zip(known.items.tolist(), names, categories, strict=True)}


def test_names_and_categories(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text(
        'movieId,title,year,genres\n7,"Tea, hot",1999,Drama | Comedy||Drama\n9,Coffee,,\n8,Not in the log,,War\n'
    )
    assert info(add_item_info(clicks([7, 9, 10]), path)) == {
        7: ("Tea, hot", ("Drama", "Comedy")),
        9: ("Coffee", ()),
        10: ("10", ()),
    }


def test_the_log_may_be_the_file_and_its_first_row_counts(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user_id,item_id,category\na,x,Tea\nb,x,Coffee\nc,y,Milk\n")
    known = add_item_info(clicks(["x", "y"]), path)
    assert known.item_names is None
    assert known.item_categories == (("Tea",), ("Milk",))


def test_ids_that_look_like_numbers_are_text_where_the_log_says_so(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("item,name\n007,Bond\n12,Dozen\n")
    assert info(add_item_info(clicks(["007", "12"]), path)) == {"007": ("Bond", None), "12": ("Dozen", None)}


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.large_list(pa.large_string())], ids=["list", "large list"])
def test_parquet_with_lists(tmp_path: Path, kind: pa.DataType) -> None:
    path = tmp_path / "items.parquet"
    categories = pa.array([["a", "b", "a"], None], kind)
    pq.write_table(pa.table({"item": [1, 2], "name": ["one", None], "categories": categories}), path)
    assert info(add_item_info(clicks([1, 2]), path)) == {1: ("one", ("a", "b")), 2: ("2", ())}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("thing,name\n1,a\n", "no column is called 'item'"),
        ("item,colour\n1,red\n", r"no column has names .*item, colour"),
        ("item,name\n5,a\n", "none of the log's items"),
        ("item,name\nfive,a\n", "item"),
        ("", "empty"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "items.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        add_item_info(clicks([1, 2]), path)
    assert "items.csv" in str(error.value)


def test_files_that_are_not_what_they_say(tmp_path: Path) -> None:
    (tmp_path / "items.parquet").write_text("no parquet")
    (tmp_path / "items.xlsx").write_text("no csv")
    for name, message in (("items.parquet", "not a parquet file"), ("items.xlsx", "a header but no rows")):
        with pytest.raises(InputError, match=message):
            add_item_info(clicks([1]), tmp_path / name)


def test_writing_and_reading_give_the_same(tmp_path: Path) -> None:
    known = clicks(["x", "y"]).with_item_info({"x": "a, b", "y": "c"}, {"x": ["d", "e"], "y": []})
    write_item_info(known, tmp_path / "items.csv")
    assert info(add_item_info(clicks(["x", "y"]), tmp_path / "items.csv")) == info(known)

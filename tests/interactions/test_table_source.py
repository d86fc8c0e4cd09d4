"""Data frames in: columns are found, their names and library are remembered, and results come in that library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import prorec
from prorec import Interactions, NoiseFinder, ProRec
from prorec.models import NCE, VAE, WRMF, Popularity
from prorec.models.model import as_interactions

CLUB = prorec.make_cinema(80, 60, seed=2).interactions
ROWS = CLUB.to_table("pandas")[["user", "item", "timestamp"]].sample(frac=1, random_state=0)
SHOP = ROWS.set_axis(["customer", "sku", "order_date"], axis=1)
"""Rows in any order, with the labels of another index, and usual names that are not prorec's own."""
LIBRARIES: dict[str, Any] = {
    "pandas": pd.DataFrame,
    "polars": lambda frame: pl.from_pandas(frame, include_index=False),
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


def library(table: Any) -> str:
    return type(table).__module__.partition(".")[0]


@pytest.mark.parametrize("name", LIBRARIES)
def test_models_are_fitted_to_data_frames(name: str) -> None:
    table = LIBRARIES[name](SHOP)
    model = NCE(rank=4).fit(table)
    expected = NCE(rank=4).fit(Interactions.from_table(ROWS))
    assert model.interactions_.equals(expected.interactions_)
    for key, array in expected.arrays_.items():
        np.testing.assert_array_equal(model.arrays_[key], array)
    assert library(model.recommend([1], 3).to_table()) == name
    assert library(model.similar_items([1], 3).to_table()) == name
    assert library(model.recommend_new([[1, 2]], 3).to_table()) == name
    assert library(model.recommend([1], 3).to_table("pyarrow")) == "pyarrow"


@pytest.mark.parametrize("name", LIBRARIES)
def test_results_come_in_the_library_of_the_table(name: str) -> None:
    table = LIBRARIES[name](SHOP)
    finder = NoiseFinder(folds=3).fit(table)
    clicks = finder.interactions_
    assert clicks.columns.keys() == {"timestamp"}
    denoiser = ProRec(NCE(rank=4), noise_method=NoiseFinder(folds=3)).fit(table)
    parts = prorec.split_by_user(clicks, (0.7, 0.3))
    tables = [
        clicks.to_table(),
        parts.train.to_table(),
        clicks.drop_empty().to_table(),
        finder.table(),
        finder.users(),
        finder.items(),
        finder.score(table),
        denoiser.noise_table(limit=5),
        denoiser.explain(1),
        denoiser.score(table),
        denoiser.annotate(table),
        prorec.evaluate(denoiser, parts.test, k=5).to_table(),
        prorec.tune(Popularity(), parts.train, parts.test, {}).to_table(),
    ]
    assert {library(each) for each in tables} == {name}
    assert library(finder.table("pyarrow")) == "pyarrow"


def test_without_a_table_results_are_of_pyarrow() -> None:
    assert library(Interactions.from_matrix(CLUB.matrix).to_table()) == "pyarrow"
    assert library(NCE(rank=4).fit(CLUB.matrix).recommend([0], 2).to_table()) == "pyarrow"
    assert library(Interactions.from_table(pl.LazyFrame({"user": [1], "item": [2]})).to_table()) == "polars"


def test_names_of_columns_are_remembered(tmp_path: Path) -> None:
    odd = SHOP.set_axis(["who", "what", "when"], axis=1)
    clicks = Interactions.from_table(odd, user_col="who", item_col="what")
    denoiser = ProRec(NCE(rank=4), noise_method="plan").fit(clicks)
    annotated = denoiser.annotate(odd)
    assert annotated.columns.tolist() == ["who", "what", "when", "weight", "noise_probability", "flagged"]
    pd.testing.assert_frame_equal(annotated[["who", "what", "when"]], odd)
    named = annotated.rename(columns={"who": "user", "what": "item"})  # the usual names still work
    again = denoiser.annotate(named[["user", "item"]])
    np.testing.assert_array_equal(again["weight"], annotated["weight"])
    with pytest.raises(prorec.InputError, match="no column is called 'nobody'"):
        denoiser.annotate(odd, user_col="nobody")
    denoiser.save(tmp_path / "model")
    loaded = prorec.load(tmp_path / "model")
    assert loaded.interactions_.source == clicks.source
    pd.testing.assert_frame_equal(loaded.annotate(odd), annotated)  # type: ignore[attr-defined]


def test_names_in_files_are_remembered(tmp_path: Path) -> None:
    odd = SHOP.set_axis(["who", "what", "when"], axis=1)
    odd.to_csv(tmp_path / "log.csv", index=False)
    clicks = prorec.read_interactions(tmp_path / "log.csv", user_col="who", item_col="what")
    annotated = ProRec(NCE(rank=4), noise_method="plan").fit(clicks).annotate(odd)
    assert not annotated["weight"].isna().any()
    assert library(clicks.to_table()) == "pyarrow"


def test_weights_of_a_table_are_used() -> None:
    half = SHOP.assign(weight=0.5)
    assert np.unique(as_interactions(half).matrix.data).tolist() == [0.5]
    with pytest.warns(prorec.DataWarning, match="'weight' is not used as weight: it has values such as 20"):
        assert np.unique(as_interactions(SHOP.assign(weight=20)).matrix.data).tolist() == [1]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (SHOP.drop(columns="sku"), r"no column is called 'item' .* Names of columns are arguments of .*from_table"),
        (SHOP.assign(user=SHOP["customer"]), "more than one column could be the user"),
        (SHOP.iloc[:0], "the table has no rows"),
        (SHOP.assign(sku=SHOP["sku"].where(SHOP["sku"] != SHOP["sku"].iloc[3])), "the item id is missing .position"),
        (SHOP.assign(sku=[None, *SHOP["sku"].tolist()[1:]]), "position 0: the item id is missing. Correct or remove"),
        (SHOP.assign(sku=["a", *SHOP["sku"].tolist()[1:]]), "mixes int, str"),
        (SHOP.assign(weight=[7.0, *[0.5] * (len(SHOP) - 1)]), "position 0: the weight 7.0 is not from 0 to 1"),
        (SHOP["sku"], "got Series"),
        ({"user": [1], "item": [2]}, "got dict"),
        (SHOP.to_numpy(), "got ndarray"),
        ("clicks.csv", "got str"),
    ],
)
@pytest.mark.parametrize("model", [NCE(rank=2), WRMF(rank=2), VAE(rank=2, epochs=1), NoiseFinder(), ProRec("nce")])
def test_bad_tables_are_refused(model: Any, table: Any, problem: str) -> None:
    with pytest.raises(prorec.InputError, match=problem) as caught:
        model.fit(table)
    assert "skip_bad_rows" not in str(caught.value)  # `fit` has no such argument

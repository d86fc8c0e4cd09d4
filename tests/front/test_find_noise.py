"""The front door: a log as users have it in, the answer out; the same answer as the command line's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import prorec
from prorec import NoiseResult, find_noise
from tests.cli.shell import run

CLUB = prorec.make_cinema(120, 80, seed=4).interactions.drop_empty()
ROWS = CLUB.to_table("pandas")[["user", "item", "timestamp"]].sample(frac=1, random_state=1)
ROWS = pd.concat([ROWS, ROWS.iloc[:40]])  # repeated rows, and labels that repeat
SHOP = ROWS.set_axis(["who", "what", "order_date"], axis=1).assign(note=[["a", 1][n % 2] for n in range(len(ROWS))])
NEW = ["weight", "noise_probability", "flagged"]


@pytest.fixture(scope="module")
def result() -> NoiseResult:
    return find_noise(SHOP, user="who", item="what")


def test_arrays_are_in_the_order_of_the_rows(result: NoiseResult) -> None:
    denoiser = result.denoiser
    position = {pair: at for at, pair in enumerate(zip(CLUB.user_codes, CLUB.item_codes, strict=True))}
    rows = zip(np.searchsorted(CLUB.users, SHOP["who"]), np.searchsorted(CLUB.items, SHOP["what"]), strict=True)
    expected = [position[pair] for pair in rows]
    np.testing.assert_array_equal(result.weights, denoiser.weights_.data[expected])
    np.testing.assert_array_equal(result.noise_probability, denoiser.noise_probability_[expected])
    np.testing.assert_array_equal(result.flagged, denoiser.flagged_[expected])


def test_the_table_has_every_row_with_its_own_columns(result: NoiseResult) -> None:
    table = result.table()
    assert isinstance(table, pd.DataFrame)
    assert table.columns.tolist() == [*SHOP.columns, *NEW]
    assert table["noise_probability"].is_monotonic_decreasing
    order = np.argsort(-result.noise_probability, kind="stable")
    pd.testing.assert_frame_equal(table[SHOP.columns], SHOP.iloc[order])
    np.testing.assert_array_equal(table["weight"], result.weights[order])
    annotated = result.annotate(SHOP)
    pd.testing.assert_frame_equal(annotated[SHOP.columns], SHOP)
    np.testing.assert_array_equal(annotated["weight"], result.weights)
    assert len(result.users()) == CLUB.n_users
    assert len(result.items()) == CLUB.n_items
    assert isinstance(result.users(), pd.DataFrame)


def test_a_file_a_frame_and_the_command_line_agree(result: NoiseResult, tmp_path: Path) -> None:
    SHOP.to_csv(tmp_path / "log.csv", index=False)
    words = ("--user-col", "who", "--item-col", "what")
    done = run("denoise", str(tmp_path / "log.csv"), *words, "--out", str(tmp_path / "out.parquet"), "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    written = pd.read_parquet(tmp_path / "out.parquet")
    from_file = find_noise(tmp_path / "log.csv", user="who", item="what")
    for name, values in zip(NEW, (result.weights, result.noise_probability, result.flagged), strict=True):
        np.testing.assert_array_equal(written[name], values)
        np.testing.assert_array_equal(from_file.table("pandas")[name], result.table()[name])
    assert isinstance(from_file.table(), pa.Table)
    assert from_file.summary() == result.summary()
    assert summary["noise_rate"]["estimate"] == result.noise_rate.estimate
    # The model that `train --denoise` writes has the same weights.
    done = run("train", str(tmp_path / "log.csv"), *words, "--denoise", "--out", str(tmp_path / "model"))
    assert done.returncode == 0, done.stderr
    loaded: Any = prorec.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.weights_.data, result.denoiser.weights_.data)


def test_the_words_are_those_of_the_command_line(result: NoiseResult, tmp_path: Path) -> None:
    SHOP.to_csv(tmp_path / "log.csv", index=False)
    words = ("--user-col", "who", "--item-col", "what", "--out", str(tmp_path / "out.csv"))
    printed = run("denoise", str(tmp_path / "log.csv"), *words).stdout
    lines = result.summary().replace("fdr=", "--fdr ").splitlines()
    suspicious = result.users().query("suspicious")["user"]
    advice = [line for line in lines[:-2] if line not in printed]
    assert len(advice) == (len(suspicious) > 0), "the command line has a command instead"
    for user in suspicious:
        assert f"{user}" in advice[0]
        assert f"{user}" in printed
    assert "Train on the column 'weight'" in lines[-2]
    assert "Train on the column 'weight'" in printed
    assert str(result) == result.summary()
    assert repr(result).startswith(f"NoiseResult({len(SHOP):,} rows, ")


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_tables_of_every_library(kind: Any, result: NoiseResult) -> None:
    table = CLUB.to_table(kind)
    found = find_noise(table)
    assert {type(each).__module__.partition(".")[0] for each in (found.table(), found.users(), found.items())} == {kind}
    np.testing.assert_array_equal(found.denoiser.weights_.data, result.denoiser.weights_.data)
    assert type(found.table("pandas")).__module__.startswith("pandas")


def test_interactions_and_matrices() -> None:
    found = find_noise(CLUB)
    assert found.table().column_names == ["user", "item", "timestamp", "origin", *NEW]
    np.testing.assert_array_equal(found.weights, found.denoiser.weights_.data)
    half = find_noise(CLUB.with_weights(np.full(len(CLUB), 0.5)))
    assert half.table().column_names[-3:] == ["prorec_weight", *NEW[1:]]
    assert "the column 'prorec_weight'" in half.summary()
    assert find_noise(CLUB.matrix).table().column_names == ["user", "item", *NEW]


def test_rows_that_cannot_be_used_are_left_out_if_that_is_asked_for() -> None:
    broken = SHOP.assign(who=SHOP["who"].where(np.arange(len(SHOP)) % 50 != 7).astype("float"))
    is_bad = broken["who"].isna().to_numpy()
    with pytest.raises(prorec.InputError, match=r"the user id is missing .*positions 7, 57, 107") as caught:
        find_noise(broken, user="who", item="what")
    assert "pass skip_bad_rows=True" in str(caught.value)
    with pytest.warns(prorec.DataWarning, match=f"the table: {is_bad.sum()} of {len(SHOP):,} rows cannot be used"):
        found = find_noise(broken, user="who", item="what", skip_bad_rows=True)
    assert len(found.weights) == len(SHOP)
    assert not found.weights[is_bad].any()
    assert np.isnan(found.noise_probability[is_bad]).all()
    assert not found.flagged[is_bad].any()
    assert len(found.table()) == len(SHOP) - is_bad.sum()
    assert found.summary().startswith(f"{len(SHOP) - is_bad.sum():,} rows read")


def test_columns_that_are_something_else_are_not_used() -> None:
    priced = SHOP.assign(weight=9.5)
    with pytest.warns(prorec.DataWarning, match=r"Pass weight='none' to say"):
        found = find_noise(priced, user="who", item="what")
    assert found.table().columns.tolist() == [*priced.columns, "prorec_weight", "noise_probability", "flagged"]
    assert "prorec_weight" in found.summary()


def test_the_report(result: NoiseResult, tmp_path: Path) -> None:
    result.report(tmp_path / "report.html")
    assert "<html" in (tmp_path / "report.html").read_text("utf-8")
    with pytest.raises(prorec.InputError, match=r"ends in \.html"):
        result.report(tmp_path / "report.txt")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((SHOP,), r"no column is called 'user' .* name it with user\. The columns are 'who'"),
        ((SHOP, "who", "nope"), r"no column is called 'nope' \(item\)"),
        ((SHOP.iloc[:0], "who", "what"), "the table has no rows"),
        ((CLUB, "who"), "user must be left out for Interactions, which has no columns; got 'who'"),
        ((["a"],), "interactions must be Interactions, a data frame or a sparse matrix; got list"),
        (("nowhere.csv",), "nowhere.csv: there is no such file"),
        ((pl.DataFrame({"user": [1, 2], "item": [1, 2]}),), "every user has one interaction only"),
    ],
)
def test_bad_input_is_refused(arguments: tuple[Any, ...], problem: str) -> None:
    with pytest.raises(prorec.InputError, match=problem) as caught:
        find_noise(*arguments)
    assert "_col" not in str(caught.value)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(prorec.InputError, match="fdr must be"):
        find_noise(CLUB, fdr=2)
    with pytest.raises(prorec.InputError, match="progress must be"):
        find_noise(CLUB, progress=3)  # type: ignore[arg-type]
    with pytest.raises(prorec.InputError, match="time_format must be"):
        find_noise(SHOP, "who", "what", time_format="x")


def test_users_that_are_no_people() -> None:
    first = CLUB.users[0].item()
    found = find_noise(CLUB, suspect_users=[first])
    is_suspect = CLUB.user_codes == 0
    assert found.flagged[is_suspect].all()
    assert not found.weights[is_suspect].any()
    assert f"{is_suspect.sum()} interactions are marked as suspect" in found.summary()
    for users, problem in (
        (["nobody"], "suspect_users must be users of the log"),
        ("abc", "must be a list of user ids"),
    ):
        with pytest.raises(prorec.InputError, match=problem):
            find_noise(CLUB, suspect_users=users)

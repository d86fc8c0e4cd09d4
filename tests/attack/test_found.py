"""What the fuzzers found: each case as it was, made small."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array

import prorec
from prorec import InputError, Interactions, read_interactions
from prorec.data.source_table import read_source_table
from prorec.models import EASE, SVD, WRMF, Model, Popularity, SparseLinear, wrap
from tests.attack.fuzz_options import check_exit, run_command
from tests.models.helpers import clicks


def test_text_with_nul_is_not_written_into_a_text_file(tmp_path: Path) -> None:
    log = Interactions.from_table(pa.table({"user": ["a", "b\0"], "item": ["x", "y"]}))
    for name in ("log.csv", "log.tsv.gz", "log.inter"):
        with pytest.raises(InputError, match="NUL in it, which no text file can hold: write"):
            prorec.write_interactions(log, tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    prorec.write_interactions(log, tmp_path / "log.parquet")
    assert read_interactions(tmp_path / "log.parquet").users.tolist() == ["a", "b\0"]


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    columns = [pa.array([1, 2]), pa.array([3, 4]), pa.array([4.5, 3.0]), pa.array(["good", "bad"])]
    pq.write_table(pa.table(columns, names=["user", "item", "stars", "stars"]), tmp_path / "log.parquet")
    with pytest.raises(InputError, match="more than one column is called 'stars'"):
        read_interactions(tmp_path / "log.parquet")


def test_bytes_are_no_times(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": [1, 2], "item": [3, 4], "time": [b"2024", b"x"]}), tmp_path / "log.parquet")
    assert read_source_table(tmp_path / "log.parquet").table.num_rows == 2


def test_messages_do_not_repeat_long_values(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    names = [f"column {number} {'x' * 500}" for number in range(200)]
    for text in (
        ",".join(names) + "\n" + ",".join("1" * 200) + "\n",
        "user,item,rating\na,b,1\na,c," + "9x" * 5000 + "\n",
        "x" * 100_000 + "\n" + "y" * 100_000 + "\n",
        'user,item,time\na,b,"' + "\n" * 300 + '5"\na,b,6\n',
    ):
        path.write_text(text)
        with pytest.raises(InputError) as error:
            read_interactions(path)
        assert len(str(error.value)) < 6000
        assert len(str(error.value).splitlines()) < 10


@pytest.mark.parametrize(
    "call",
    [
        lambda odd: prorec.split_by_user(odd, (0.7, 0.3)),
        lambda odd: prorec.split_globally(odd, (0.7, 0.3)),
        prorec.split_leave_out,
        lambda odd: prorec.split_at_time(odd, 3),
        lambda odd: prorec.inject_noise(odd, 0.1),
        lambda odd: prorec.write_interactions(odd, "never.csv"),
        lambda odd: clicks().align(odd),
        lambda odd: clicks().with_held_out(odd),
        lambda odd: prorec.evaluate(Popularity().fit(clicks()), odd),
    ],
)
@pytest.mark.parametrize("odd", [None, 3, "x", {}, [[]], np.zeros(3), pd.DataFrame({"user": [1]}), csr_array((3, 4))])
def test_other_things_than_interactions_are_refused(call: Callable[[Any], object], odd: Any) -> None:
    with pytest.raises(InputError, match="must be Interactions; got"):
        call(odd)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: prorec.evaluate(Popularity, clicks()), "model must be a fitted recommender"),  # type: ignore[arg-type]
        (lambda: prorec.evaluate(3, clicks()), "model must be a fitted recommender"),  # type: ignore[arg-type]
        (lambda: prorec.compare([], "a"), "results must be what evaluate returned"),  # type: ignore[arg-type]
        (lambda: clicks().select(np.ones(len(clicks()), bool), hold_out_rest="x"), "must be True or False"),  # type: ignore[arg-type]
        (lambda: clicks().with_item_info(names=[1]), "names must be given by item id"),  # type: ignore[arg-type]
        (lambda: clicks().select([[1], [1, 2]]), "booleans"),  # type: ignore[arg-type]
        (lambda: clicks().with_weights("é" * 5000), "weights must be numbers: [^…]{,200}…"),  # type: ignore[arg-type]
        (lambda: prorec.split_globally(clicks(), np.zeros(())), "ratios must be"),  # type: ignore[arg-type]
        (lambda: clicks().pair_positions(np.array([0.5]), np.array([1])), "whole numbers"),
        (lambda: clicks().pair_positions(np.array([0, 1]), np.array([1])), "as many"),
        (lambda: clicks().user_positions(csr_array((3, 3))), "given as a list of ids"),
        (lambda: Interactions(np.zeros((2, 2)), np.arange(2), np.arange(2)), "csr_array of scipy"),
        (lambda: Interactions.from_table(pa.table({"a": [1], "b": [2]}), user_col=np.zeros(3)), "user_col must be the"),  # type: ignore[arg-type]
        (lambda: prorec.make_cinema(np.timedelta64(60)), "must be a whole number"),  # type: ignore[arg-type]
        (lambda: prorec.make_cinema(10**30), "from 1 to 10000000"),
        (lambda: Popularity().fit(clicks()).recommend(clicks().users[:1], 2, exclude_seen=[1, 2]), "True or False"),  # type: ignore[arg-type]
    ],
)
def test_arguments_of_a_wrong_kind_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_a_path_that_is_too_long_is_not_repeated() -> None:
    for read in (read_interactions, prorec.load):
        with pytest.raises(InputError) as error:
            read("é" * 5000)
        assert len(str(error.value)) < 400


def test_a_separator_that_cannot_be_told_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("ann,x;7\nbob,y;9\nann,x;9\n")
    for words in (["check", "log.csv"], ["denoise", "log.csv", "--out", "out.csv"]):
        code, _, errors = run_command(words)
        assert code in (2, 3)
        assert "pass --separator , or --separator ;" in " ".join(errors.split())


def test_equals_takes_anything() -> None:
    assert not clicks().equals(3)
    assert clicks().equals(clicks())


def test_a_folder_in_place_of_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clicks.csv").write_text("user,item\na,1\nb,2\na,2\n")
    for words in (
        ["report", "clicks.csv", "--out", ".", "--skip-bad-rows"],
        ["denoise", "clicks.csv", "--out", ".", "--skip-bad-rows"],
    ):
        code, _, errors = run_command(words)
        check_exit(code, errors, words, {2})


@pytest.mark.parametrize("model", [SVD(rank=2), WRMF(rank=2, sweeps=1), EASE(), SparseLinear(), wrap(SVD(rank=2))])
def test_scores_of_rows_and_matrices_that_do_not_fit_are_refused(model: Model) -> None:
    model.fit(clicks())
    n_users, n_items = clicks().matrix.shape
    rows: Any
    for rows in ([0, n_users - 1], np.array([n_users - 1, 0], np.uint8)):
        assert model.score_known_users(rows=rows).shape == (2, n_items)
    assert model.score_known_users(np.array([], int)).shape == (0, n_items)
    for rows in ([n_users], [-1], [0.5], 0, None, [[0]], "x", [True]):
        with pytest.raises(InputError, match="rows must be"):
            model.score_known_users(rows)
    outside = clicks().matrix.copy()
    outside.indices[-1] = n_items
    weights = clicks().matrix * np.nan
    matrix: Any
    for matrix in (outside, weights, clicks().matrix[:, 1:], None, np.zeros((1, n_items)), clicks().matrix.tocoo()):
        for method in (model.score_new_users, model.encode_users):
            with pytest.raises(InputError, match="matrix"):
                method(matrix)


def test_a_new_model_is_not_saved_into_a_folder_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "precious.txt").write_text("precious")
    with pytest.raises(InputError, match="this folder is not empty"):
        Popularity().fit(clicks()).save(tmp_path / "model", overwrite=False)
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["precious.txt"]


@pytest.mark.parametrize("use_dictionary", [False, True])
def test_text_of_a_damaged_parquet_file_that_is_not_utf8_is_refused(tmp_path: Path, use_dictionary: bool) -> None:
    path = tmp_path / "log.parquet"
    table = pa.table({"user": ["anna", "anna", "bert"], "item": ["x", "y", "y"]})
    pq.write_table(table, path, compression="none", use_dictionary=use_dictionary, write_statistics=False)
    content = path.read_bytes()
    assert b"anna" in content
    path.write_bytes(content.replace(b"anna", b"a\xffna"))
    for read in (read_interactions, read_source_table):
        with pytest.raises(InputError, match="not a parquet file that can be read"):
            read(path)

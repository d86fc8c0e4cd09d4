"""Cells that a spreadsheet takes for formulas: kept by default, and text when they are escaped."""

from __future__ import annotations

import csv
import io

import numpy as np
import pyarrow as pa
import pytest

from prorec.data.formula_cells import count_formula_cells, escape_formula_cells
from prorec.data.writers import write_table

FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "  =1", "＝1+1", "-", "=", "+1,5", "--5"]
OTHERS = ["", "a=b", "5", "-5", "+5", "-5.25", "-1e-05", "+.5", "user-1", "'=1", "5-3", " x"]


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.binary()])
def test_which_cells(type_: pa.DataType) -> None:
    formulas, others = (pa.array(texts).cast(type_) for texts in (FORMULAS, OTHERS))
    assert count_formula_cells(pa.table({"text": pa.chunked_array([formulas, others])})) == len(FORMULAS)
    escaped = escape_formula_cells(pa.table({"text": pa.chunked_array([formulas, others])}))
    texts = escaped["text"].cast(pa.string()).to_pylist()
    assert texts == [f"'{text}" for text in FORMULAS] + OTHERS
    assert count_formula_cells(escaped) == 0


def read_back(table: pa.Table, name: str, separator: str, *, escape: bool) -> tuple[list[list[str]], int]:
    file = io.BytesIO()
    n_formulas = write_table(table, file, name, escape_formulas=escape)
    return [*csv.reader(io.StringIO(file.getvalue().decode(), newline=""), delimiter=separator)], n_formulas


@pytest.mark.parametrize(("name", "separator"), [("a.csv", ","), ("a.tsv", "\t")])
def test_text_files(name: str, separator: str) -> None:
    texts = pa.array(["=1", None, "a;=1", "-3"])
    table = pa.table(
        {"@id": texts, "kind": texts.dictionary_encode(), "number": np.array([-1.5, 2, -3, 4]), "none": pa.nulls(4)}
    )
    rows, n_formulas = read_back(table, name, separator, escape=False)
    assert n_formulas == 3
    assert rows[:2] == [["@id", "kind", "number", "none"], ["=1", "=1", "-1.5", ""]]
    rows, n_formulas = read_back(table, name, separator, escape=True)
    assert n_formulas == 0
    assert rows == [
        ["'@id", "kind", "number", "none"],
        ["'=1", "'=1", "-1.5", ""],
        ["", "", "2", ""],
        ["a;=1", "a;=1", "-3", ""],
        ["-3", "-3", "4", ""],
    ]


def test_every_text_is_in_quotes_whatever_separator_the_spreadsheet_expects() -> None:
    file = io.BytesIO()
    write_table(pa.table({"text": ["a;=1"]}), file, "a.csv", escape_formulas=True)
    assert b'"a;=1"' in file.getvalue()

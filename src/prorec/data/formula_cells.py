"""Cells of a text file that a spreadsheet takes for a formula."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_FORMULA = r"^\s*[=+\-@＝＋－＠\t\r\n]"
_NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"


def count_formula_cells(table: pa.Table) -> int:
    """Count the cells of a table, and the names of its columns, that a spreadsheet takes for a formula.

    Parameters
    ----------
    table : pyarrow.Table
        The table.

    Returns
    -------
    int
        Number of texts that start with =, +, - or @, also wide ones, or with a tab or a line break, also behind blanks.
        A number with its sign is none of them.

    Examples
    --------
    >>> count_formula_cells(pa.table({"id": ["=1+1", "-5", "a-b"], "+": [-1, -2, -3]}))
    2
    """
    columns = [_find(column) for column in table.columns if _is_text(column.type)]
    names = _find(pa.array(table.column_names, pa.string()))
    return sum(pc.sum(found).as_py() or 0 for found in (*columns, names))


def escape_formula_cells(table: pa.Table) -> pa.Table:
    """Put an apostrophe before each cell and name that a spreadsheet takes for a formula, so that it shows the text.

    Parameters
    ----------
    table : pyarrow.Table
        The table.

    Returns
    -------
    pyarrow.Table

    Examples
    --------
    >>> escape_formula_cells(pa.table({"id": ["=1+1", "-5"]})).to_pydict()
    {'id': ["'=1+1", '-5']}
    """
    columns = [_escape(column) if _is_text(column.type) else column for column in table.columns]
    return pa.table(columns, names=_escape(pa.array(table.column_names, pa.string())).to_pylist())


def _is_text(type_: pa.DataType) -> bool:
    kinds = pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary
    return any(is_kind(type_) for is_kind in kinds)


def _find(texts: Any) -> Any:
    """Return whether each text is taken for a formula."""
    is_number = pc.match_substring_regex(texts, _NUMBER)
    return pc.and_(pc.match_substring_regex(texts, _FORMULA), pc.invert(is_number))


def _escape(texts: Any) -> Any:
    apostrophe, empty = (pa.scalar(text).cast(texts.type) for text in ("'", ""))
    escaped = pc.binary_join_element_wise(apostrophe, texts, empty)
    return pc.if_else(_find(texts), escaped, texts)

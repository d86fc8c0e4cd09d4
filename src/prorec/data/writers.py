"""Writing interactions to the formats they can be read from."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from prorec.data._files import ending_of, format_of, naming, replacing
from prorec.interactions import Interactions


def write_interactions(interactions: Interactions, path: str | Path) -> None:
    """Write a .csv, .tsv, .parquet or RecBole .inter file, gzipped if the name ends in .gz.

    The columns are user, item, weight and whatever else is known of each interaction. The file appears whole or
    not at all.
    """
    path = Path(path)
    with naming(path):
        kind, separator = format_of(path)
        table = interactions.to_table()
        if ending_of(path) == ".inter":
            table = _as_inter(table)
        with replacing(path) as temporary, _sink(temporary, gzipped=path.name.endswith(".gz")) as sink:
            if kind == "parquet":
                pq.write_table(table, sink)
            else:
                # Arrow's "needed" puts quotes around all text; most ids can do without.
                style = "needed" if _needs_quotes(interactions, separator) else "none"
                options = pacsv.WriteOptions(delimiter=separator, quoting_style=style, quoting_header="none")
                pacsv.write_csv(table, sink, options)


@contextmanager
def _sink(path: Path, gzipped: bool) -> Iterator[BinaryIO]:
    with path.open("wb") as raw:
        if not gzipped:
            yield raw
            return
        # No name or time inside, so that the same interactions give the same bytes.
        with gzip.GzipFile("", "wb", 6, raw, 0) as zipped:
            yield cast(BinaryIO, zipped)


def _needs_quotes(interactions: Interactions, separator: str) -> bool:
    pattern = f'["\\r\\n{separator}]'
    both = (interactions.users, interactions.items)
    columns = [pa.array(ids, pa.large_string()) for ids in both if ids.dtype == object]
    return any(pc.any(pc.match_substring_regex(column, pattern)).as_py() for column in columns)


def _as_inter(table: pa.Table) -> pa.Table:
    """RecBole's columns: each name carries its type, and dates are seconds."""
    types = {"user": "user_id:token", "item": "item_id:token"}
    columns = [_seconds(column) if pa.types.is_temporal(column.type) else column for column in table.columns]
    return pa.table(columns, names=[types.get(name, f"{name}:float") for name in table.column_names])


def _seconds(times: pa.ChunkedArray) -> pa.ChunkedArray:
    microseconds = pc.cast(times, pa.timestamp("us"), safe=False).cast(pa.int64())
    return pc.divide(pc.cast(microseconds, pa.float64(), safe=False), 1e6)

"""Logs of strangers: headers in other encodings, pipes and devices, and columns of every Arrow type."""

from __future__ import annotations

import os
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prorec import InputError, read_interactions
from prorec.data.source_table import read_source_table


@pytest.mark.parametrize("header", ["user,item,na\xefve\n", "us\xefer,item\n", '\n\nuser,item,"na\nï"\n'])
@pytest.mark.parametrize("options", [{}, {"user_col": 0, "item_col": 1}, {"header": True}])
def test_a_header_that_is_not_utf8_is_refused(header: str, options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(header.encode("latin-1") + b"1,2,3\n1,3,4\n2,2,2\n")
    with pytest.raises(InputError, match=r"log\.csv: this is not UTF-8 text: 1 line is not, such as line"):
        read_interactions(path, **options)


def test_the_replacement_character_is_a_character(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item,\ufffd\n1,2,3\n1,3,\ufffd\n2,2,2\n", encoding="utf-8")
    assert read_source_table(path).table.column_names == ["user", "item", "\ufffd"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_pipes_and_devices_are_called_by_their_names(tmp_path: Path) -> None:
    pipe = tmp_path / "log.csv"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match=r"log\.csv: this is a pipe, and a log is read more than once"):
        read_interactions(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("user,item\n1,2\n",), daemon=True)
    writer.start()
    with pytest.raises(InputError, match="this is a pipe"):
        read_interactions(pipe)
    assert pipe.read_text() == "user,item\n1,2\n", "nothing was taken out of the pipe"
    writer.join()
    with pytest.raises(InputError, match="/dev/zero: this is a device"):
        read_interactions("/dev/zero")


def make_column(type_: pa.DataType) -> Any:
    """Return four values of a type, the first two and the last two equal."""
    numbers = [1, 1, 0, 0]
    if pa.types.is_decimal(type_):
        return pa.array([Decimal(each) for each in numbers], type_)
    if pa.types.is_float16(type_):
        return pa.array(np.array(numbers, np.float16))
    if pa.types.is_fixed_size_binary(type_) or "binary" in str(type_):
        return pa.array([b"1", b"1", b"0", b"0"], type_)
    if pa.types.is_nested(type_):
        value: Any = {"list": [1], "fixed": [1], "large": [1], "map<s": [("a", 1)], "struc": {"a": 1}}
        return pa.array([next(each for name, each in value.items() if str(type_).startswith(name))] * 4, type_)
    if pa.types.is_null(type_):
        return pa.nulls(4)
    if pa.types.is_dictionary(type_):
        return make_column(type_.value_type).dictionary_encode().cast(type_)
    if type_ == pa.date64():
        return pa.array([86_400_000, 86_400_000, 0, 0], pa.int64()).cast(type_)
    if pa.types.is_temporal(type_):
        return pa.array(numbers, pa.int32() if type_.bit_width == 32 else pa.int64()).cast(type_)
    if "string" in str(type_):
        return pa.array([str(each) for each in numbers], type_)
    return pa.array(numbers).cast(type_)


TYPES = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.bool_()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.decimal128(5, 0), pa.decimal256(5, 1), pa.null()),
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1)),
    *(pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.time32("s"), pa.time64("us")),
    *(pa.duration("s"), pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64(), 1)),
    *(pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64())),
    *(pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.int64())),
]


@pytest.mark.filterwarnings("ignore::prorec.DataWarning")
@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_every_type_is_read_or_refused(type_: pa.DataType, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    plain = {"user": pa.array([1, 1, 2, 2]), "item": pa.array([1, 2, 1, 3])}
    read, messages = {}, []
    for role in ("user", "item", "weight", "timestamp", "other"):
        table = pa.table(plain | {role: make_column(type_)})
        pq.write_table(table, path)
        try:
            source = read_source_table(path, with_times=True)
        except InputError as error:
            messages.append(str(error))
            continue
        read[role] = source
        values = source.table[role]
        if pa.types.is_float16(values.type) or pa.types.is_nested(values.type):
            assert values.to_pylist() == pq.read_table(path)[role].to_pylist()
        else:
            assert values.cast(pa.string(), safe=False) == pq.read_table(path)[role].cast(pa.string(), safe=False)
        if role == "user":
            assert len(source.interactions.users) == 2
    assert all(message.startswith(f"{path}: ") for message in messages)
    assert "other" in read, "a column that is not used is copied, whatever it is"
    if pa.types.is_integer(type_) or str(type_).endswith(("string", "string_view")):
        assert {"user", "item", "weight"} <= read.keys()
        np.testing.assert_array_equal(read["weight"].interactions.matrix.data, [1, 1, 0, 0])

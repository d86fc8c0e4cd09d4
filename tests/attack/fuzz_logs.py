"""Log files made at random, sound and damaged: each is refused in a short message, or read and written exactly.

An undamaged text file is compared with what Python's csv module reads. Everything that is read is written again in
every format, and must come back the same.
"""

from __future__ import annotations

import csv
import gzip
import io
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from prorec import InputError, read_interactions, write_interactions
from prorec.data.source_table import SourceTable, read_source_table
from prorec.data.writers import write_table
from tests.attack.cases import Attack, BrokenPromise, Case

MAX_MESSAGE = 4000
_IDS = ["ann", "bob", "7", "12", "007", "-3", "0", "9" * 19, "1e5", "4.5", "x y", "Zoë", "日本", "👍", "nan", "None"]
_ODD_CELLS = [
    *("", " ", " a", "a ", "\t", 'say "hi"', '"', '""', "'", "a,b", "a;b", "a|b", "a\tb", "two\nlines", "two\r\nlines"),
    *("=1+1", "+7", "-0", "0x7", "@x", "\ufeff", "\u2028", "\x85", "\x1c", "e\u0301", "\ufffd", "#"),
    *("NULL", "NA", "true", "1_000", "١٢", "9" * 25, "1e400", "inf", "-1", "\\", "\\N", "a\\nb", "x" * 3000),
]
_NAMES = {
    "user": ["user", "user_id", "User ID", "userId", "customer", "user_id:token"],
    "item": ["item", "item_id", "Item", "movieId", "sku", "item_id:token"],
    "weight": ["weight", "Weight", "weight:float"],
    "rating": ["rating", "stars", "rating:float"],
    "time": ["timestamp", "time", "date", "timestamp:float"],
    "other": ["note", "", " ", "user", "7", "prorec_weight", "naïve", "a,b", 'a "b"', "event", "flagged"],
}
_VALUES = {
    "weight": ["0", "1", "0.5", ".25", "1e-3", "0,5", "", "-1", "2", "nan", "kg"],
    "rating": ["1", "5", "3.5", "4,5", "", "-2", "good", "1e39"],
    "time": ["964982703", "1433221332117", "2024-05-01", "2024-05-01 08:26", "2024-05-01T08:26:00Z", "1.5e9", "", "x"],
    "other": _ODD_CELLS,
}


def make_rows(case: Case) -> tuple[list[str], list[list[str]]]:
    """Return the names and the cells of a log."""
    roles = ["user", "item"]
    roles += [case.choose("weight", "rating", "time", "other", "other") for _ in range(int(case.rng.integers(4)))]
    case.rng.shuffle(roles)
    n_rows = int(case.rng.choice([0, 1, 2, 5, 20, 60], p=[0.02, 0.08, 0.1, 0.3, 0.3, 0.2]))
    share_odd = float(case.rng.choice([0, 0, 0.02, 0.3]))
    share_fatal = float(case.rng.choice([0, 0.02], p=[0.9, 0.1]))
    names = [case.choose(*_NAMES[role]) if case.happens(0.3) else _NAMES[role][0] for role in roles]
    n_good = int(case.rng.integers(1, 6))  # columns with a few values of one kind are the usual ones
    cells = []
    ids = {role: [str(each) for each in case.rng.integers(1, 40, 5)] if case.happens(0.5) else _IDS for role in roles}
    for _ in range(n_rows):
        row = []
        for role in roles:
            if case.happens(share_odd):
                row.append(case.choose(*_ODD_CELLS[1 if role in ("user", "item") else 0 :]))
            elif case.happens(share_fatal):
                row.append(case.choose("", "\x00", "a\x00b"))
            elif role in ("user", "item"):
                row.append(case.choose(*ids[role]))
            else:
                row.append(case.choose(*_VALUES[role][:n_good]))
        cells.append(row)
    return names, cells


class TextLog(NamedTuple):
    """A text file, and how it was made."""

    name: str
    content: bytes
    options: dict[str, Any]
    """Arguments that tell how to read it."""
    text: str
    separator: str


def write_text(case: Case, names: list[str], cells: list[list[str]]) -> TextLog:
    """Return a text file with names and cells."""
    separator = case.choose(",", ",", ";", "\t", "|", ":", " ", "a")
    header = case.happens(0.85)
    buffer = io.StringIO()
    quoting: Any = case.choose(csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC)
    writer = csv.writer(
        buffer, delimiter=separator, quoting=quoting, lineterminator=case.choose("\n", "\n", "\r\n", "\r")
    )
    writer.writerows([names, *cells] if header else cells)
    text = buffer.getvalue()
    if case.happens(0.1):
        text = text.rstrip("\r\n")
    elif case.happens(0.1):
        text += case.choose("\n", "\n\n", "\r\n", " \n")
    encoding = str(case.rng.choice(["utf-8", "utf-8-sig", "utf-16", "latin-1"], p=[0.75, 0.1, 0.1, 0.05]))
    options: dict[str, Any] = {}
    if separator in ": a" or case.happens(0.2):
        options["separator"] = separator
    if not header or case.happens(0.2):
        options["header"] = header
    if case.happens(0.2):
        options["ids"] = "text"
    if encoding == "latin-1" and not all(ord(character) < 256 for character in text):
        encoding = "utf-8"
    name = "log" + case.choose(".csv", ".csv", ".tsv", ".inter", ".txt", ".CSV", "")
    return TextLog(name, text.encode(encoding), options, text, separator)


def make_parquet(case: Case, names: list[str], cells: list[list[str]]) -> bytes:
    """Return the content of a parquet file whose columns have types of all kinds."""
    columns = []
    for at, name in enumerate(names):
        texts = [row[at] for row in cells]
        is_id = name in (*_NAMES["user"], *_NAMES["item"])
        type_ = case.choose(*_TYPES[:9] if is_id and case.happens(0.8) else _TYPES)
        columns.append(_as_type(case, texts, type_))
    try:
        table = pa.table(columns, names=names)
        sink = io.BytesIO()
        options = {"compression": case.choose("snappy", "none", "zstd"), "use_dictionary": case.happens(0.5)}
        pq.write_table(table, sink, row_group_size=case.choose(None, 3), store_schema=case.happens(0.8), **options)
    except (pa.ArrowException, ValueError):
        return make_parquet(case, names, cells)
    return sink.getvalue()


_TYPES = [
    *(pa.string(), pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())),
    *(pa.int64(), pa.int64(), pa.int8(), pa.int32(), pa.uint8(), pa.uint64(), pa.float64(), pa.float32(), pa.float16()),
    *(
        pa.bool_(),
        pa.binary(),
        pa.binary(3),
        pa.date32(),
        pa.timestamp("us"),
        pa.timestamp("ns", "UTC"),
        pa.time64("us"),
    ),
    *(pa.decimal128(20, 2), pa.duration("s"), pa.null(), pa.list_(pa.int64()), pa.struct([("a", pa.int64())])),
]


def _as_type(case: Case, texts: list[str], type_: pa.DataType) -> pa.Array:
    """Return a column of a type, with values that depend on the texts where they can."""
    numbers = [sum(map(ord, text[:20])) % 100 for text in texts]
    missing = float(case.rng.choice([0, 0, 0.1]))
    is_missing = [case.happens(missing) for _ in texts]
    values: list[Any]
    if pa.types.is_dictionary(type_):
        return pa.array(texts, pa.string(), mask=None if not texts else _mask(is_missing)).dictionary_encode()
    if type_ in (pa.string(), pa.large_string(), pa.string_view()):
        values = list(texts)
    elif pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_):
        values = [text.encode()[:3].ljust(3, b"\xff") for text in texts]
    elif pa.types.is_list(type_):
        values = [[number] for number in numbers]
    elif pa.types.is_struct(type_):
        values = [{"a": number} for number in numbers]
    elif pa.types.is_null(type_):
        return pa.nulls(len(texts))
    else:
        odd = [float("nan"), float("inf"), -0.0, 1e300] if pa.types.is_floating(type_) and case.happens(0.1) else []
        numeric = pa.array([case.choose(*odd, *numbers) if odd else number for number in numbers], pa.float64())
        try:
            return numeric.cast(pa.int64() if not odd else pa.float64()).cast(type_, safe=False)
        except pa.ArrowException:
            return pa.array(numbers, pa.int64())
    return pa.array([None if gone else value for value, gone in zip(values, is_missing, strict=True)], type_)


def _mask(flags: list[bool]) -> Any:
    return pa.array(flags, pa.bool_()).to_numpy(zero_copy_only=False)


def damage(case: Case, content: bytes) -> bytes:
    """Cut, flip, repeat or insert bytes; parquet files have what matters at their end."""
    data = bytearray(content)
    for _ in range(int(case.rng.integers(1, 4))):
        at = int(case.rng.integers(len(data) + 1))
        if case.happens(0.3):
            at = max(0, len(data) - int(case.rng.integers(1, 40)))
        kind = int(case.rng.integers(7))
        if kind == 0:
            data = data[:at]
        elif kind == 1 and data:
            data[min(at, len(data) - 1)] = int(case.rng.integers(256))
        elif kind == 2:
            data[at:at] = case.choose(
                b"\x00", b'"', b"\xff", b"\n", b"\r", b",", b"\xef\xbb\xbf", b"\xc3", b"\x1a", b";"
            )
        elif kind == 3:
            data[at:at] = data[: int(case.rng.integers(len(data) + 1))]
        elif kind == 4:
            del data[at : at + int(case.rng.integers(1, 30))]
        elif kind == 5:
            data[at:at] = case.choose(b"x", b'"', b",", b"\n", b"0") * int(case.rng.integers(1, 3000))
        else:
            data[at:at] = bytes(case.rng.integers(0, 256, int(case.rng.integers(1, 9)), dtype="u1"))
    return bytes(data)


def run_case(case: Case) -> str:
    """Make a file, read it, and write it again."""
    names, cells = make_rows(case)
    options: dict[str, Any] = {}
    log = write_text(case, names, cells) if case.happens(0.75) else None
    if log is not None:
        name, content, options = log[:3]
    else:
        name, content = case.choose("log.parquet", "log.pq", "log.csv", "log"), make_parquet(case, names, cells)
    is_damaged = case.happens(0.3)
    if is_damaged:
        content = damage(case, content)
    if case.happens(0.15):
        content = gzip.compress(content, 1)
        name += case.choose(".gz", "")
        if case.happens(0.2):
            is_damaged, content = True, damage(case, content)
    path = case.folder / name
    path.write_bytes(content)
    if case.happens(0.4):
        options["skip_bad_rows"] = True
    if case.happens(0.1):
        options["user_col"] = case.choose(0, 1, -1, names[0], "nope", len(names))
    if case.happens(0.1):
        options["weight_col"] = "none"
    outcome = "refused"
    try:
        source = read_source_table(path, **options, with_times=case.happens(0.5))
    except InputError as error:
        check_message(str(error))
    else:
        if log is not None and not is_damaged:
            _compare_with_csv(source, names, cells, log)
        _write_again(case, source)
        outcome = "read, and written again"
    try:
        clicks = read_interactions(path, **options)
    except InputError as error:
        check_message(str(error))
        return outcome
    copy = case.folder / ("copy" + case.choose(".csv", ".tsv", ".inter", ".parquet", ".csv.gz"))
    try:
        write_interactions(clicks, copy)
    except InputError as error:
        check_message(str(error))
        return outcome
    again = read_interactions(copy, ids="text" if clicks.users.dtype == object else "auto")
    if _pairs(again) != _pairs(clicks):
        raise BrokenPromise("changed cells", f"{copy.name} has other pairs than the interactions")
    return "read, and written again"


def check_message(message: str) -> None:
    """Refuse a message that is too long to read."""
    if len(message) > MAX_MESSAGE or message.count("\n") > 20 or "Traceback" in message:
        raise BrokenPromise("messages that are not short", f"{len(message)} characters: {message[:300]!r}")


def _pairs(clicks: Any) -> set[tuple[str, str]]:
    users, items = clicks.users[clicks.user_codes], clicks.items[clicks.item_codes]
    return {(str(user), str(item)) for user, item in zip(users, items, strict=True)}


def _is_ambiguous(log: TextLog) -> bool:
    """Return whether another separator gives all rows of a text as many columns as the first, and enough of them."""
    widths = {}
    for each in ",;\t|":
        rows = [row for row in csv.reader(io.StringIO(log.text, newline=""), delimiter=each) if row]
        widths[each] = len(rows[0]) if len({len(row) for row in rows}) == 1 else 1
    n_columns = widths.pop(log.separator)
    if log.separator == "," or (log.name.endswith((".tsv", ".inter")) and widths.get("\t", 1) > 1):
        return max(widths.values()) > 1  # numbers such as 3,5 and the ending .tsv are stronger than more columns
    return max(widths.values()) >= n_columns


def _compare_with_csv(source: SourceTable, names: list[str], cells: list[list[str]], log: TextLog) -> None:
    """Compare the rows that were read with those that were written, by Python's csv module."""
    options = log.options
    if source.skipped is not None or ("separator" not in options and _is_ambiguous(log)):
        return  # rows are left out, or another separator fits as well
    got = list(zip(*(column.to_pylist() for column in source.table.columns), strict=True))
    expected = [tuple(row) for row in cells]
    if got == expected or got == [tuple(names), *expected]:
        return
    if not any(map(_is_plain, (*names, *(cell for row in cells for cell in row)))) or len(got) == len(expected):
        pairs = [(a, b) for a, b in zip(got, expected, strict=False) if a != b]
        raise BrokenPromise("changed cells", f"{pairs[:1]!r}, options {options}"[:600])
    raise BrokenPromise("changed cells", f"{len(got)} rows instead of {len(expected)}, options {options}")


def _texts(table: pa.Table) -> list[str]:
    """Return the cells of each column as text, in which even numbers that are not equal to themselves are equal."""
    return [repr(column.to_pylist()) for column in table.columns]


def _is_plain(cell: str) -> bool:
    return "\r" in cell or "\n" in cell


def _write_again(case: Case, source: SourceTable) -> None:
    """Write a table in a format, and compare what is read from it."""
    name = "again" + case.choose(".csv", ".tsv", ".parquet", ".csv.gz", ".inter")
    path = case.folder / name
    table = source.table
    try:
        with path.open("wb") as file:
            write_table(table, file, name)
    except InputError as error:
        check_message(str(error))
        return
    if "parquet" in name:
        again = pq.ParquetFile(path).read()
        if again.schema.types != table.schema.types or _texts(again) != _texts(table):
            raise BrokenPromise("changed cells", f"{name} has other cells than the table")
        return
    if not source.is_text or name.endswith(".inter"):
        return  # numbers and dates become text; RecBole's names have their types behind them
    data = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    separator = "\t" if ".tsv" in name else ","
    reader = csv.reader(io.StringIO(data.decode(), newline=""), delimiter=separator)
    got = [row for row in reader if row or table.num_columns == 1]
    columns = [column.to_pylist() for column in table.columns]
    expected = [table.column_names, *map(list, zip(*columns, strict=True))]
    if got != expected:
        pairs = [(a, b) for a, b in zip(got, expected, strict=False) if a != b]
        raise BrokenPromise("changed cells", f"{name}: {pairs[:1]!r}, {len(got)} and {len(expected)} rows"[:600])


ATTACK = Attack("logs", run_case, n_cases=30_000, chunk=500)

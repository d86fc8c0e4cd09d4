"""Logs as they come: about 40 files, and what happens to each.

`python -m tests.data.log_variants` writes the table of docs/data-formats.md from this list.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prorec import DataWarning, InputError, Interactions, read_interactions

MARKS = "<!-- variants -->", "<!-- end of variants -->"


@dataclass(frozen=True)
class Variant:
    """A log, and what is expected of reading it."""

    title: str
    """The variant in words."""
    text: str | bytes
    """Content of the file."""
    name: str = "log.csv"
    """Name of the file."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options that the user gives."""
    users: tuple[Any, ...] = ()
    """Users that are read; none if the file is refused."""
    items: tuple[Any, ...] = ()
    """Items that are read."""
    columns: tuple[str, ...] = ()
    """Other columns that are read."""
    refusal: str = ""
    """Part of the message if the file is refused."""
    warning: str = ""
    """Part of the warning, if there is one."""

    def read(self, folder: Path) -> tuple[Interactions | InputError, list[str]]:
        """Write the file and read it; return what came of it, and the warnings."""
        path = folder / self.name
        path.write_bytes(self.text if isinstance(self.text, bytes) else self.text.encode())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DataWarning)
            try:
                result: Interactions | InputError = read_interactions(path, **self.options)
            except InputError as error:
                result = error
        return result, [str(each.message).replace(f"{path}: ", "") for each in caught]


_ANN_BOB: dict[str, Any] = {"users": ("ann", "bob"), "items": (7, 9)}
_NUMBERS: dict[str, Any] = {"users": (1, 2), "items": (7, 9)}
_ROWS = "ann,7\nbob,9\n"


def _timed(*times: str) -> str:
    return "user,item,time\n" + "".join(
        f"{user},{time}\n" for user, time in zip(("ann,7", "bob,9"), times, strict=True)
    )


VARIANTS = (
    # Separators
    Variant("semicolons", "user;item\nann;7\nbob;9\n", **_ANN_BOB),
    Variant("tabs in a .csv", "user\titem\nann\t7\nbob\t9\n", **_ANN_BOB),
    Variant("pipes", "user|item\nann|7\nbob|9\n", **_ANN_BOB),
    Variant("commas in a .txt", "user,item\n" + _ROWS, "log.txt", **_ANN_BOB),
    Variant(
        "semicolons, and commas in every name", 'user;item;name\nann;7;Tea, black\nbob;9;"Milk; 2%, 1 l"\n', **_ANN_BOB
    ),
    Variant("pipes inside a column", "user,item,genres\nann,7,Action|War\nbob,9,Drama|War\n", **_ANN_BOB),
    Variant(
        "pipes, and a tab in every name", "ann|7|a\tb\nbob|9|c\td\nann|7|\t\n", warning="there is no header", **_ANN_BOB
    ),
    Variant(
        "tabs in a .tsv, and commas in every name",
        "ann\t7\tA, B, C, D\nbob\t9\tE, F, G, H\nann\t7\t,,,\n",
        "log.tsv",
        warning="there is no header",
        **_ANN_BOB,
    ),
    Variant("semicolons, and a comma in every id", "ann,x;7\nbob,y;9\n", refusal="',' and ';' give 2 columns each"),
    Variant(
        "the same, separator named",
        "ann,x;7\nbob,y;9\n",
        options={"separator": ";", "header": False},
        users=("ann,x", "bob,y"),
        items=(7, 9),
    ),
    Variant("blanks", "user item\nann 7\nbob 9\n", refusal="give the separator"),
    Variant("blanks, named", "user item\nann 7\nbob 9\n", options={"separator": " "}, **_ANN_BOB),
    Variant("`::` (MovieLens 1M)", "1::7::5\n2::9::4\n", "ratings.dat", refusal="give the separator"),
    # Encodings
    Variant("UTF-8 with a byte order mark", b"\xef\xbb\xbfuser,item\n" + _ROWS.encode(), **_ANN_BOB),
    Variant("UTF-16 with a byte order mark", ("user;item\n" + _ROWS.replace(",", ";")).encode("utf-16"), **_ANN_BOB),
    Variant("UTF-16 without one", ("user,item\n" + _ROWS).encode("utf-16-le"), refusal="the file is binary"),
    Variant("Latin-1", "user,item\nJosé,7\nbob,9\n".encode("latin-1"), refusal="this is not UTF-8 text: 1 line is not"),
    Variant("lines that end in CR LF", "user,item\r\nann,7\r\nbob,9\r\n", **_ANN_BOB),
    Variant("a spreadsheet called .csv", b"PK\x03\x04 and so on", refusal="a spreadsheet or a zip archive"),
    # Headers
    Variant("no header, numbers", "1,7,5\n2,9,4\n", warning="there is no header", **_NUMBERS),
    Variant(
        "no header, ids that come again",
        "ann,7x\nbob,9\nann,9\n",
        users=("ann", "bob"),
        items=("7x", "9"),
        warning="there is no header",
    ),
    Variant(
        "no header, times first",
        "2024-05-01,ann,7\n2024-05-02,bob,9\n",
        refusal="column 0 has times, such as '2024-05-01', so it is not the user",
    ),
    Variant(
        "the same, columns named",
        "2024-05-01,ann,7\n2024-05-02,bob,9\n",
        options={"user_col": 1, "item_col": 2},
        **_ANN_BOB,
    ),
    Variant("no header, names only", "ann,tea\nbob,milk\n", refusal="If the first line is data, give header=False"),
    Variant("blank lines before the header", "\n\nuser,item\n" + _ROWS, **_ANN_BOB),
    # Names
    Variant("capitals and blanks: `User ID`, `Item ID`", "User ID, Item ID\n" + _ROWS, **_ANN_BOB),
    Variant(
        "`userId`, `movieId`, `rating`, `timestamp` (MovieLens)",
        "userId,movieId,rating,timestamp\n1,7,4.5,964982703\n2,9,3,964982704\n",
        columns=("rating", "timestamp"),
        **_NUMBERS,
    ),
    Variant(
        "`CustomerID`, `StockCode`, `InvoiceDate` (an online shop)",
        "StockCode,InvoiceDate,CustomerID\n7,2010-12-01 08:26,1\n9,2010-12-01 08:28,2\n",
        columns=("timestamp",),
        **_NUMBERS,
    ),
    Variant(
        '`"User-ID";"ISBN";"Book-Rating"` (Book-Crossing)',
        '"User-ID";"ISBN";"Book-Rating"\n"1";"034545104X";"0"\n"2";"0155061224";"5"\n',
        users=(1, 2),
        items=("0155061224", "034545104X"),
        columns=("rating",),
    ),
    Variant(
        "`reviewerID`, `asin`, `overall` (Amazon)",
        "reviewerID,asin,overall\nA1,B7,5\nA2,B9,4\n",
        users=("A1", "A2"),
        items=("B7", "B9"),
        columns=("rating",),
    ),
    Variant("`userID`, `artistID` (Last.fm)", "userID\tartistID\n1\t7\n2\t9\n", "plays.dat", **_NUMBERS),
    Variant(
        "`visitorid`, `itemid` (Retailrocket)",
        "timestamp,visitorid,event,itemid\n1433221332117,1,view,7\n1433224214164,2,view,9\n",
        columns=("timestamp",),
        **_NUMBERS,
    ),
    Variant(
        "`customer_id` and `session_id`: the person", "session_id,customer_id,sku\ns1,ann,7\ns2,bob,9\n", **_ANN_BOB
    ),
    Variant(
        "`user_id` and `account_id`",
        "user_id,account_id,sku\n1,5,7\n2,6,9\n",
        refusal="more than one column could be the user ('user_id', 'account_id'): name one with user_col",
    ),
    Variant("no usual name", "who,what\nann,7\n", refusal="name it with user_col. The columns are 'who', 'what'"),
    Variant("no usual name, named", "who,what\n" + _ROWS, options={"user_col": "who", "item_col": "what"}, **_ANN_BOB),
    # Times
    Variant(
        "times with and without Z",
        _timed("2024-05-01T12:00:00Z", "2024-05-01 12:00:00"),
        columns=("timestamp",),
        **_ANN_BOB,
    ),
    Variant(
        "times with offsets",
        _timed("2024-05-01T12:00:00+02:00", "2024-05-01T10:00:00Z"),
        columns=("timestamp",),
        **_ANN_BOB,
    ),
    Variant("dates such as 01.05.2024", _timed("01.05.2024", "31.05.2024"), refusal="2 of 2 rows cannot be used"),
    Variant(
        "the same with their format",
        _timed("01.05.2024", "31.05.2024"),
        options={"time_format": "%d.%m.%Y"},
        columns=("timestamp",),
        **_ANN_BOB,
    ),
    Variant(
        "a date that does not exist",
        "user,item,time\nann,7,2024-02-01\nbob,9,2024-02-31\nbob,7,2024-03-01\n",
        refusal="line 3: the timestamp '2024-02-31' is not a number or a date",
    ),
    # Numbers
    Variant("decimal commas", "user;item;rating\nann;7;4,5\nbob;9;3,0\n", columns=("rating",), **_ANN_BOB),
    Variant(
        "a rating that is no number",
        "user,item,rating\nann,7,5\nbob,9,good\nbob,7,3\n",
        refusal="line 3: the rating 'good' is not a number",
    ),
    Variant(
        "that column left out", "user,item,rating\nann,7,5\nbob,9,good\n", options={"rating_col": "none"}, **_ANN_BOB
    ),
    # Ids, quotes, nulls
    Variant("ids with leading zeros stay text", "user,item\n007,7\n7,9\n", users=("007", "7"), items=(7, 9)),
    Variant("quotes around everything", '"user","item"\n"ann","7"\n"bob","9"\n', **_ANN_BOB),
    Variant("a line break in quotes", 'user,item,note\nann,7,"two\nlines"\nbob,9,x\n', **_ANN_BOB),
    Variant(
        "a quote that is never closed",
        'user,item,note\nann,7,x\nbob,9,"y\n',
        refusal="line 3: a quotation mark is opened and never closed",
    ),
    Variant(
        "empty ids, `NULL` and `nan`",
        "user,item\nann,7\n,9\nNULL,7\nbob,9\nbob,nan\nann,9\n",
        refusal="3 of 6 rows cannot be used",
    ),
    Variant(
        "the same, skipped",
        "user,item\nann,7\n,9\nNULL,7\nbob,9\nbob,nan\nann,9\n",
        options={"skip_bad_rows": True},
        warning="3 of 6 rows cannot be used and are left out",
        **_ANN_BOB,
    ),
    Variant(
        "a line with a column too many", "user,item\nann,7\nbob,9,x\nbob,9\n", refusal="line 3: 3 columns instead of 2"
    ),
    Variant("a header and nothing else", "user,item\n", refusal="a header but no rows"),
)


def make_table() -> str:
    """Return the table of the manual."""
    lines = ["| a log with | options | what happens |", "| --- | --- | --- |"]
    with tempfile.TemporaryDirectory() as folder:
        for variant in VARIANTS:
            result, messages = variant.read(Path(folder))
            options = ", ".join(f"`{name}={value!r}`" for name, value in variant.options.items())
            lines.append(f"| {variant.title} | {options} | {_describe(result, messages, Path(folder))} |")
    return "\n".join(lines)


def _describe(result: Interactions | InputError, messages: list[str], folder: Path) -> str:
    if isinstance(result, InputError):
        text = re.sub(r"\s*\n\s*", " ", str(result).removeprefix(f"{folder}/").partition(": ")[2])
        text = text.partition(" (")[0] if "invalid" in text else text
        return f"refused: {_escape(text)}"
    also = f", with {' and '.join(result.columns)}" if result.columns else ""
    warned = "".join(f"; warns: {_escape(re.sub(chr(10) + ' *', ' ', each))}" for each in messages)
    return f"read{also}{warned}"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    page = Path("docs/data-formats.md")
    before, _, rest = page.read_text().partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    page.write_text(f"{before}{MARKS[0]}\n{make_table()}\n{MARKS[1]}{after}")

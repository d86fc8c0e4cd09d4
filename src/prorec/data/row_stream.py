"""Rows of a text that arrives bit by bit, such as standard input: batches of what has arrived, in bounded memory."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from prorec._core.errors import InputError
from prorec.data.text_recognition import find_header, find_separator, parse_rows
from prorec.interactions.columns import ColumnRef, choose_columns
from prorec.interactions.ids import is_missing_id

_CHUNK = 1 << 17
MAX_LINE = 1 << 20
"""Bytes of the longest line that is read."""
_BOM = b"\xef\xbb\xbf"


class ByteStream(Protocol):
    """A binary file that returns what has arrived, such as `sys.stdin.buffer`."""

    def read1(self, size: int, /) -> bytes:
        """Return at most `size` bytes; wait only if none has arrived; b"" at the end."""


@dataclass
class RowBatch:
    """Rows that have arrived together."""

    lines: list[bytes] = field(default_factory=list)
    """Usable rows as they came, without the end of the line."""
    users: list[str] = field(default_factory=list)
    """User id of each usable row."""
    items: list[str] = field(default_factory=list)
    """Item id of each usable row."""
    bad: list[tuple[int, str]] = field(default_factory=list)
    """Line number of each row that cannot be used, and the reason."""


class RowStream:
    r"""Rows of a text in UTF-8 with one row on each line.

    The layout is found in the lines that arrive first, and stays. A quoted value cannot have a line break in it.

    Parameters
    ----------
    file : ByteStream
        The text.
    requested : mapping of str to str, int or None
        Column of each of "user" and "item" by name or position, if the caller knows it.
    separator : str, optional
        Character between the columns; by default it is found.
    header : bool or None
        Whether the first line has names; by default that is found.

    Raises
    ------
    InputError
        If the text has nothing in it, or the columns are not found.

    Examples
    --------
    >>> import io
    >>> stream = RowStream(io.BytesIO(b"user;item\nann;tea\nbob;\n"), {})
    >>> stream.names, [(batch.users, batch.bad) for batch in stream]
    (['user', 'item'], [(['ann'], [(3, 'the item id is missing')])])
    """

    def __init__(
        self,
        file: ByteStream,
        requested: Mapping[str, ColumnRef],
        *,
        separator: str | None = None,
        header: bool | None = None,
    ) -> None:
        self._file, self._rest, self._n_lines = file, b"", 0
        first = self._read_first()
        text = b"\n".join(first).decode("utf-8", "replace")
        self.separator = separator or find_separator(text)
        rows = parse_rows(text, self.separator)
        if not rows:
            raise InputError("the first line must be a row of a text with columns; it cannot be read")
        names = [name.strip() for name in rows[0]]
        self.header = find_header(rows, [*requested.values()]) if header is None else header
        self.n_columns = len(names)
        self.names = names if self.header else [f"column {at}" for at in range(len(names))]
        """Names of the columns."""
        chosen = choose_columns(self.names, requested, has_header=self.header, roles=("user", "item"))
        self._user, self._item = chosen["user"], chosen["item"]
        self.header_line = first[0].rstrip(b"\r") if self.header else None
        """The line with the names, as it came; None without one."""
        self._first = first[1:] if self.header else first
        self._n_lines += int(self.header)

    def __iter__(self) -> Iterator[RowBatch]:
        """Yield what has arrived, until the text ends."""
        lines: list[bytes] | None = self._first
        while lines is not None:
            batch = RowBatch()
            for line in lines:
                self._add(line, batch)
            if batch.lines or batch.bad:
                yield batch
            lines = self._read_lines()

    def _add(self, line: bytes, batch: RowBatch) -> None:
        """Add a line to the usable rows or to the bad ones."""
        self._n_lines += 1
        line = line.rstrip(b"\r")
        if not line.strip():
            return
        try:
            user, item = self._parse(line)
        except InputError as problem:
            batch.bad.append((self._n_lines, str(problem)))
            return
        batch.lines.append(line)
        batch.users.append(user)
        batch.items.append(item)

    def _parse(self, line: bytes) -> tuple[str, str]:
        """Return user and item of a line, or raise `InputError` with the reason why it cannot be used."""
        if len(line) > MAX_LINE:
            raise InputError(f"the line is longer than {MAX_LINE:,} bytes")
        try:
            fields = next(csv.reader([line.decode("utf-8")], delimiter=self.separator, strict=True))
        except UnicodeDecodeError:
            raise InputError("the line is not UTF-8") from None
        except csv.Error as error:
            raise InputError(f"the line cannot be split into columns ({error})") from None
        if len(fields) != self.n_columns:
            raise InputError(f"a row must have {self.n_columns} columns; this one has {len(fields)}")
        user, item = fields[self._user], fields[self._item]
        for role, text in (("user", user), ("item", item)):
            if is_missing_id(text):
                raise InputError(f"the {role} id is missing")
        return user, item

    def _read_first(self) -> list[bytes]:
        """Return the lines that arrive first, without a byte order mark."""
        lines: list[bytes] | None = []
        while lines is not None and not any(line.strip() for line in lines):
            self._n_lines += len(lines)
            lines = self._read_lines()
        if lines is None:
            raise InputError("the stream has nothing in it")
        while not lines[0].strip():
            self._n_lines += 1
            lines = lines[1:]
        lines[0] = lines[0].removeprefix(_BOM)
        if any(b"\x00" in line for line in lines):
            raise InputError("a stream must be text in UTF-8; this one is binary, or UTF-16")
        return lines

    def _read_lines(self) -> list[bytes] | None:
        """Return the lines that have arrived, perhaps none; None at the end."""
        chunk = self._file.read1(_CHUNK)
        if not chunk:
            rest, self._rest = self._rest, b""
            return [rest] if rest else None
        *lines, rest = (self._rest + chunk).split(b"\n")
        # Of a line that is too long only the beginning is kept, which is still too long.
        self._rest = rest[: MAX_LINE + 1]
        return lines

"""The one data structure: who clicked on what."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array, sparray, spmatrix

from prorec._core.checks import check_float
from prorec._core.errors import DataWarning, InputError
from prorec.interactions.assembly import assemble
from prorec.interactions.columns import ColumnRef, choose_columns, parse_numbers, parse_times
from prorec.interactions.ids import Ids, check_ids, encode_ids, find_positions, take_ids
from prorec.interactions.pairs import as_coo, reindex, union
from prorec.interactions.tables import FrameType, read_frame, to_arrow_column, to_frame


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Users × items, one weight for each observed pair.

    Immutable: its arrays cannot be written to, and every method that changes something returns a new object.
    A pair with weight 0 is an observed pair that no longer counts; it is kept.

    Make one with `from_table`, `from_matrix`, `prorec.read_interactions` or `prorec.load_dataset`; the constructor
    itself takes over the arrays it is given.
    """

    matrix: csr_array
    """Weights, users × items, float32; column indices sorted within each row."""
    users: Ids
    """User ids in row order: int64, or an object array of str."""
    items: Ids
    """Item ids in column order."""
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """What else is known of each interaction (`rating`, `timestamp`), in the order of `matrix.data`."""
    item_names: NDArray[Any] | None = None
    """A name for each item, in column order."""
    item_categories: tuple[tuple[str, ...], ...] | None = None
    """The categories of each item, in column order."""
    held_out: csr_array | None = None
    """Pairs known to be true but kept out of this part (a test set, say): never a place for injected noise."""
    disliked: csr_array | None = None
    """Pairs the user rated below the threshold that made these interactions: see `filter_by_rating`."""

    def __post_init__(self) -> None:
        matrix = self.matrix
        if matrix.dtype != np.float32 or not matrix.has_canonical_format:
            raise InputError("matrix must be float32 with sorted indices and no duplicates: use from_matrix")
        if matrix.shape != (len(self.users), len(self.items)):
            raise InputError(f"matrix is {matrix.shape}, but has {len(self.users)} users, {len(self.items)} items")
        _check_weights(matrix.data)
        for name, values in self.columns.items():
            if len(values) != matrix.nnz:
                raise InputError(f"column {name!r} has {len(values)} values for {matrix.nnz} interactions")
        for known in (self.held_out, self.disliked):
            if known is not None and known.shape != matrix.shape:
                raise InputError(f"known pairs are {known.shape}, but the matrix is {matrix.shape}")
        for about in (self.item_names, self.item_categories):
            if about is not None and len(about) != len(self.items):
                raise InputError(f"{len(about)} item names or categories for {len(self.items)} items")
        columns = {name: _frozen(np.asarray(values)) for name, values in self.columns.items()}
        object.__setattr__(self, "columns", MappingProxyType(columns))
        for pairs in (matrix, self.held_out, self.disliked):
            if pairs is not None:
                for array in (pairs.data, pairs.indices, pairs.indptr):
                    _frozen(array)
        for ids in (self.users, self.items, self.item_names):
            if ids is not None:
                _frozen(ids)

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping cannot be copied to another process; what is in it can.
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return partial(Interactions, **{**given, "columns": dict(self.columns)}), ()

    # ── in ──────────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        user_col: ColumnRef = None,
        item_col: ColumnRef = None,
        weight_col: ColumnRef = None,
        rating_col: ColumnRef = None,
        timestamp_col: ColumnRef = None,
        duplicates: str = "max",
    ) -> Interactions:
        """From a pandas, polars or pyarrow table, or any other that narwhals takes.

        Parameters
        ----------
        table : one row per interaction
        user_col, item_col, weight_col, rating_col, timestamp_col
            Names or positions (from 0) of the columns; by default they are found by their usual names
            (`user`, `user_id`, `userId`, …). Without a weight column each row weighs 1.
        duplicates : {"max", "sum", "first", "error"}
            What becomes of rows that repeat a pair. `sum` and `max` combine their weights and keep the highest
            rating and the latest time; `first` keeps the first row; `error` refuses.

        >>> clicks = Interactions.from_table(pa.table({"user": ["ann", "bob"], "item": [7, 7]}))
        >>> clicks
        Interactions(2 users × 1 items, 2 interactions)
        """
        frame = read_frame(table)
        wanted = {
            "user": user_col,
            "item": item_col,
            "weight": weight_col,
            "rating": rating_col,
            "timestamp": timestamp_col,
        }
        chosen = choose_columns([str(name) for name in frame.columns], wanted)
        if not len(frame):
            raise InputError("the table has no rows")
        return cls.from_columns({role: to_arrow_column(frame, at, role) for role, at in chosen.items()}, duplicates)

    @classmethod
    def from_columns(cls, columns: dict[str, pa.ChunkedArray], duplicates: str = "max") -> Interactions:
        """For readers inside prorec: from one Arrow column a role; empties the dict, to free each column early."""
        # Arrow keeps the memory it worked with; what comes next needs the room.
        pa.default_memory_pool().release_unused()
        with ThreadPoolExecutor(2) as pool:
            coding = [pool.submit(encode_ids, columns.pop(role), role) for role in ("user", "item")]
            (users, user_codes), (items, item_codes) = [task.result() for task in coding]
        weights = parse_numbers(columns.pop("weight"), "weight", negative=False) if "weight" in columns else None
        extra: dict[str, NDArray[Any]] = {}
        if "rating" in columns:
            extra["rating"] = parse_numbers(columns.pop("rating"), "rating", negative=True)
        if "timestamp" in columns:
            extra["timestamp"] = parse_times(columns.pop("timestamp"))
        shape = (len(users), len(items))
        pa.default_memory_pool().release_unused()
        matrix, extra = assemble(user_codes, item_codes, shape, weights, extra, duplicates)
        return cls(matrix, users, items, extra)

    @classmethod
    def from_matrix(
        cls, matrix: sparray | spmatrix, *, users: Any = None, items: Any = None, duplicates: str = "max"
    ) -> Interactions:
        """From a scipy sparse matrix, users × items; its values are the weights.

        Ids default to positions. The matrix is copied. `duplicates` is for entries that repeat a pair, as in
        `from_table`.

        >>> from scipy.sparse import csr_array
        >>> Interactions.from_matrix(csr_array([[1.0, 0.0], [0.5, 1.0]]), items=["tea", "coffee"])
        Interactions(2 users × 2 items, 3 interactions, with weights 0.5–1)
        """
        try:
            # By way of coo, which keeps entries that repeat one another apart.
            entries = as_coo(matrix)
            weights = entries.data.astype(np.float32)
        except (TypeError, ValueError) as error:
            raise InputError(f"not a sparse users × items matrix: {type(matrix).__name__}") from error
        if entries.ndim != 2 or max(entries.shape) >= 2**31:
            raise InputError(f"the matrix must be users × items, fewer than 2^31 of each; it is {entries.shape}")
        _check_weights(weights)
        n_users, n_items = entries.shape
        rows, cols = entries.row.astype(np.int32), entries.col.astype(np.int32)
        ordered, _ = assemble(rows, cols, (n_users, n_items), weights, {}, duplicates)
        return cls(ordered, check_ids(users, n_users, "user"), check_ids(items, n_items, "item"))

    # ── out ─────────────────────────────────────────────────────────────────────────────────────────

    def to_table(self, frame: FrameType = "pyarrow") -> Any:
        """A table with columns user, item, weight and what else is known: pyarrow, pandas or polars."""
        table = pa.table(
            {
                "user": take_ids(self.users, self.user_codes),
                "item": take_ids(self.items, self.item_codes),
                "weight": pa.array(self.matrix.data),
                **{name: pa.array(values) for name, values in self.columns.items()},
            }
        )
        return to_frame(table, frame)

    # ── looking ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def n_users(self) -> int:
        """Number of users, those without interactions included."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """Number of items, those without interactions included."""
        return len(self.items)

    def __len__(self) -> int:
        """Count the observed pairs."""
        return int(self.matrix.nnz)

    def __repr__(self) -> str:
        least, most = (self.matrix.data.min(), self.matrix.data.max()) if len(self) else (1, 1)
        weights = [] if least == most == 1 else [f"weights {least:g}–{most:g}"]
        known = " and ".join([*weights, *self.columns])
        size = f"{self.n_users:,} users × {self.n_items:,} items, {len(self):,} interactions"
        return f"Interactions({size}{', with ' if known else ''}{known})"

    @cached_property
    def user_codes(self) -> NDArray[np.int32]:
        """The row of each interaction, in the order of `matrix.data`."""
        return _frozen(np.repeat(np.arange(self.n_users, dtype=np.int32), self.activity))

    @property
    def item_codes(self) -> NDArray[np.int32]:
        """The column of each interaction, in the order of `matrix.data`."""
        return np.asarray(self.matrix.indices)

    @property
    def activity(self) -> NDArray[np.int64]:
        """Number of interactions of each user."""
        return np.asarray(np.diff(self.matrix.indptr), dtype=np.int64)

    @property
    def popularity(self) -> NDArray[np.int64]:
        """Number of interactions of each item."""
        return np.bincount(self.item_codes, minlength=self.n_items).astype(np.int64)

    def user_positions(self, ids: Any) -> NDArray[np.int64]:
        """Rows of the given user ids; −1 for a user who is not here."""
        return find_positions(self.users, ids, "user")

    def item_positions(self, ids: Any) -> NDArray[np.int64]:
        """Columns of the given item ids; −1 for an item that is not here."""
        return find_positions(self.items, ids, "item")

    def pair_positions(self, rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[np.int64]:
        """Where pairs, given by row and column, are in `matrix.data`; −1 for a pair that is not here."""
        keys = self.user_codes.astype(np.int64) * self.n_items + self.item_codes
        wanted = np.asarray(rows, dtype=np.int64) * self.n_items + columns
        found = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        is_here = (np.asarray(rows) >= 0) & (np.asarray(columns) >= 0)
        is_here &= keys[found] == wanted if len(keys) else False
        return np.where(is_here, found, -1)

    def equals(self, other: Interactions) -> bool:
        """Whether the other has the same ids in the same order, the same weights and the same columns."""
        return (
            np.array_equal(self.users, other.users)
            and np.array_equal(self.items, other.items)
            and np.array_equal(self.matrix.indptr, other.matrix.indptr)
            and np.array_equal(self.matrix.indices, other.matrix.indices)
            and np.array_equal(self.matrix.data, other.matrix.data)
            and self.columns.keys() == other.columns.keys()
            and all(np.array_equal(values, other.columns[name]) for name, values in self.columns.items())
        )

    # ── changing ────────────────────────────────────────────────────────────────────────────────────

    def select(self, keep: NDArray[np.bool_], *, hold_out_rest: bool = False) -> Interactions:
        """Select interactions; users and items keep their positions.

        Parameters
        ----------
        keep : array of bool
            Which interactions to keep, in the order of `matrix.data`.
        hold_out_rest : bool, default False
            Remember the other interactions as `held_out`: they are true, so noise is never injected there.
        """
        keep = np.asarray(keep)
        if keep.dtype != bool or keep.shape != (len(self),):
            raise InputError(f"keep must be {len(self)} booleans, one for each interaction")
        matrix = self._pattern(keep, self.matrix.data[keep])
        held_out = union(self.held_out, self._pattern(~keep)) if hold_out_rest else self.held_out
        columns = {name: values[keep] for name, values in self.columns.items()}
        return replace(self, matrix=matrix, columns=columns, held_out=held_out)

    def with_weights(self, weights: NDArray[Any]) -> Interactions:
        """The same interactions with other weights, in the order of `matrix.data`."""
        try:
            data = np.array(weights, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise InputError(f"weights must be numbers: {error}") from error
        if data.shape != (len(self),):
            raise InputError(f"weights must be {len(self)} numbers, one for each interaction, got {data.shape}")
        indices, indptr = self.matrix.indices, self.matrix.indptr
        return replace(self, matrix=csr_array((data, indices, indptr), shape=self.matrix.shape))

    def with_held_out(self, *parts: Interactions) -> Interactions:
        """The same interactions, knowing that these others are true too: for splits made elsewhere."""
        known = self.held_out
        for part in parts:
            aligned = part.align(self)
            known = union(known, aligned._pattern(np.ones(len(aligned), dtype=bool)))
        return replace(self, held_out=known)

    def with_item_info(
        self, names: Mapping[Any, str] | None = None, categories: Mapping[Any, Sequence[str]] | None = None
    ) -> Interactions:
        """The same interactions with names and categories of items, given by item id.

        An item that is not in `names` is called by its id; one that is not in `categories` has none.
        """
        for about in (names, categories):
            self.item_positions(list(about or ()))  # refuses ids that could never match
        ids = self.items.tolist()
        named, sorted_in = self.item_names, self.item_categories
        if names is not None:
            named = np.array([str(names.get(item, item)) for item in ids], dtype=object)
        if categories is not None:
            if any(isinstance(each, str) for each in categories.values()):
                raise InputError("the categories of an item must be a list of names, such as ['Drama']")
            sorted_in = tuple(tuple(dict.fromkeys(map(str, categories.get(item, ())))) for item in ids)
        return replace(self, item_names=named, item_categories=sorted_in)

    def filter_by_rating(self, minimum: float) -> Interactions:
        """The interactions rated `minimum` or more, without the users and items that are left with none.

        What was rated lower is remembered as `disliked`.
        """
        if "rating" not in self.columns:
            raise InputError("there are no ratings to compare with: name their column with rating_col")
        # Ratings are float32, so 4.1 means the float32 next to it.
        liked = self.columns["rating"] >= np.float32(check_float("the minimum rating", minimum))
        return replace(self.select(liked), disliked=union(self.disliked, self._pattern(~liked))).drop_empty()

    def drop_empty(self) -> Interactions:
        """Without the users and items that have no interaction."""
        rows = np.flatnonzero(self.activity)
        cols = np.flatnonzero(self.popularity)
        return self._taken(rows, cols, self.users[rows], self.items[cols])

    def align(self, other: Interactions) -> Interactions:
        """The same interactions on the users and items of another, in its order.

        Interactions of users or items that the other does not have are dropped, with a warning that counts
        them; if none is left, that is an error. Ids that differ only in type between the two are refused.
        """
        if self.users is other.users and self.items is other.items:
            return self
        rows = find_positions(self.users, other.users, "user") if self.n_users else np.full(other.n_users, -1)
        cols = find_positions(self.items, other.items, "item") if self.n_items else np.full(other.n_items, -1)
        aligned = self._taken(rows, cols, other.users, other.items)
        if dropped := len(self) - len(aligned):
            strangers = self.n_users - np.count_nonzero(rows >= 0), self.n_items - np.count_nonzero(cols >= 0)
            problem = f"{strangers[0]:,} users and {strangers[1]:,} items are not in the other data"
            if dropped == len(self):
                raise InputError(f"{problem}: no interaction is left")
            warnings.warn(
                f"{problem}: {dropped:,} of {len(self):,} interactions were dropped", DataWarning, stacklevel=2
            )
        return replace(aligned, item_names=other.item_names, item_categories=other.item_categories)

    def _pattern(self, keep: NDArray[np.bool_], values: NDArray[Any] | None = None) -> csr_array:
        """The marked pairs, with other values than the weights; by default, only that they are there."""
        indptr = np.zeros_like(self.matrix.indptr)
        np.cumsum(np.bincount(self.user_codes[keep], minlength=self.n_users), out=indptr[1:])
        indices = self.matrix.indices[keep]
        data = np.ones(len(indices), dtype=bool) if values is None else values
        return csr_array((data, indices, indptr), shape=self.matrix.shape)

    def _taken(self, rows: NDArray[Any], cols: NDArray[Any], users: Ids, items: Ids) -> Interactions:
        """On other rows and columns: those of the old at the given positions, empty ones where −1."""
        old = self.matrix
        moved = reindex(csr_array((np.arange(len(self)), old.indices, old.indptr), shape=old.shape), rows, cols)
        at = moved.data
        matrix = csr_array((old.data[at], moved.indices, moved.indptr), shape=moved.shape)
        names, categories = self.item_names, self.item_categories
        inside = np.all(cols >= 0)
        return Interactions(
            matrix,
            users,
            items,
            {name: values[at] for name, values in self.columns.items()},
            names[cols] if names is not None and inside else None,
            tuple(categories[at] for at in cols) if categories is not None and inside else None,
            None if self.held_out is None else reindex(self.held_out, rows, cols),
            None if self.disliked is None else reindex(self.disliked, rows, cols),
        )


def _check_weights(weights: NDArray[np.float32]) -> None:
    for bad, problem in ((~np.isfinite(weights), "not a finite number"), (weights < 0, "negative")):
        if bad.any():
            at = int(np.argmax(bad))
            raise InputError(f"the weight at place {at} is {weights[at]}, which is {problem}")


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array

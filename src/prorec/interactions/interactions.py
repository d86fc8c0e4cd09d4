"""`Interactions`: the users × items matrix that all of prorec works on, with ids and optional columns."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array, sparray, spmatrix

from prorec._core.checks import check_array, check_bool, check_float, safe_repr, shorten
from prorec._core.errors import DataWarning, InputError
from prorec.interactions.arrow_types import use_plain_type
from prorec.interactions.assembly import Assembly, assemble_matrix
from prorec.interactions.column_names import ROLES
from prorec.interactions.columns import ColumnRef, choose_columns, parse_numbers, parse_times
from prorec.interactions.ids import Ids, check_ids, encode_ids, find_positions, take_ids
from prorec.interactions.pairs import as_coo, check_compressed, is_sorted, reindex, union
from prorec.interactions.tables import FrameType, TableSource, frame_type, read_frame, to_arrow_column, to_frame


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Observed user–item pairs, with one weight for each.

    An object is immutable: its arrays are read-only, and each method that changes something returns a new object.
    A pair with weight 0 stays an observed pair, although models learn from it as from an unobserved one.

    Make one with `from_table`, `from_matrix`, `prorec.read_interactions` or `prorec.load_dataset`. The constructor
    does not copy the arrays that it gets.
    """

    matrix: csr_array
    """Weights, users × items, float32; column indices are sorted within each row."""
    users: Ids
    """User ids in the order of the rows: int64, or an object array of str."""
    items: Ids
    """Item ids in the order of the columns: int64, or an object array of str."""
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Other values of each interaction (`rating`, `timestamp`), in the order of `matrix.data`."""
    item_names: NDArray[Any] | None = None
    """A name for each item, in the order of the columns."""
    item_categories: tuple[tuple[str, ...], ...] | None = None
    """The categories of each item, in the order of the columns."""
    held_out: csr_array | None = None
    """Interactions in other parts of a split, such as the test part; `inject_noise` puts no noise there."""
    disliked: csr_array | None = None
    """Pairs that the user rated below the threshold of `filter_by_rating`."""
    source: TableSource | None = None
    """The table that the interactions were read from, if any: the names of its columns, and its library."""

    def __post_init__(self) -> None:
        """Check that all parts fit together, and make the arrays read-only."""
        matrix = self.matrix
        for name, pairs in (("matrix", matrix), ("held_out", self.held_out), ("disliked", self.disliked)):
            if pairs is not None or name == "matrix":
                if not isinstance(pairs, csr_array):
                    raise InputError(
                        f"{name} must be a csr_array of scipy; got {type(pairs).__name__}: use from_matrix"
                    )
                check_compressed(pairs, name)
        for name, ids in (("users", self.users), ("items", self.items)):
            if not isinstance(ids, np.ndarray) or ids.ndim != 1:
                raise InputError(f"{name} must be an array of ids; got {type(ids).__name__}: use from_matrix")
        if not isinstance(self.columns, Mapping):
            raise InputError(f"columns must be arrays by name; got {type(self.columns).__name__}")
        if matrix.dtype != np.float32 or not is_sorted(matrix):
            raise InputError("matrix must be float32 with sorted indices and no duplicates: use from_matrix")
        if matrix.shape != (len(self.users), len(self.items)):
            raise InputError(f"matrix is {matrix.shape}, but has {len(self.users)} users, {len(self.items)} items")
        _check_weights(matrix.data)
        for name, values in self.columns.items():
            if np.shape(values) != (matrix.nnz,):
                raise InputError(
                    f"column {safe_repr(name)} must have {matrix.nnz} values, one for each interaction; its shape is "
                    f"{np.shape(values)}"
                )
        for pairs in (self.held_out, self.disliked):
            if pairs is not None and pairs.shape != matrix.shape:
                raise InputError(f"held_out and disliked must be {matrix.shape}, as the matrix is; got {pairs.shape}")
        for info in (self.item_names, self.item_categories):
            if info is not None and len(info) != len(self.items):
                raise InputError(f"item names or categories must be {len(self.items)}, one for each; got {len(info)}")
        columns = {name: np.asarray(values) for name, values in self.columns.items()}
        object.__setattr__(self, "columns", MappingProxyType(columns))
        arrays = [*columns.values(), self.users, self.items, self.item_names]
        for pairs in (matrix, self.held_out, self.disliked):
            arrays += [] if pairs is None else [pairs.data, pairs.indices, pairs.indptr]
        for array in arrays:
            if array is not None:
                array.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling, with a plain dict in place of the read-only mapping, which cannot be pickled."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return partial(Interactions, **{**values, "columns": dict(self.columns)}), ()

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
        """Make interactions from a table with one row for each.

        Parameters
        ----------
        table : DataFrame
            A table of pandas, polars, pyarrow or another library that narwhals supports.
        user_col, item_col, weight_col, rating_col, timestamp_col : str or int, optional
            Names or positions (from 0) of the columns; by default they are found by their usual names
            (`user`, `user_id`, `userId`, …). Without a weight column each row has the weight 1.
        duplicates : {"max", "sum", "first", "error"}, default "max"
            Rule for rows that repeat a pair. "max" and "sum" combine their weights and keep the highest rating and the
            latest time; "first" keeps the first row; "error" refuses them.

        Returns
        -------
        Interactions
            Users and items are sorted by id.

        Raises
        ------
        InputError
            If a column is not found, or a row has no usable value; the message names the row.

        Examples
        --------
        >>> Interactions.from_table(pa.table({"user": ["ann", "bob"], "item": [7, 7]}))
        Interactions(2 users × 1 items, 2 interactions)
        """
        frame = read_frame(table)
        requested = dict(zip(ROLES, (user_col, item_col, weight_col, rating_col, timestamp_col), strict=True))
        chosen = choose_columns([str(name) for name in frame.columns], requested)
        if not len(frame):
            raise InputError("the table has no rows")
        columns = {role: to_arrow_column(frame, position, role) for role, position in chosen.items()}
        source = TableSource(
            {role: str(frame.columns[at]) for role, at in chosen.items()}, frame_type(table) or "pyarrow"
        )
        return replace(cls.from_columns(columns, duplicates), source=source)

    @classmethod
    def from_columns(cls, columns: dict[str, pa.ChunkedArray], duplicates: str = "max") -> Interactions:
        """Make interactions from one Arrow column for each role; for readers inside prorec.

        Parameters
        ----------
        columns : dict of str to pyarrow.ChunkedArray
            Columns of the roles "user" and "item", and possibly "weight", "rating" and "timestamp". The dict is
            emptied, so that the memory of each column is freed early.
        duplicates : {"max", "sum", "first", "error"}, default "max"
            Rule for rows that repeat a pair, as in `from_table`.

        Returns
        -------
        Interactions
        """
        return cls._assemble(columns, duplicates)[0]

    @classmethod
    def from_columns_with_positions(cls, columns: dict[str, pa.ChunkedArray]) -> tuple[Interactions, NDArray[np.int64]]:
        """Make interactions from columns, and tell where each row is among them.

        Parameters
        ----------
        columns : dict of str to pyarrow.ChunkedArray
            As in `from_columns`. Of rows that repeat a pair the largest values count.

        Returns
        -------
        interactions : Interactions
        positions : ndarray of int64
            For each row, the position of its pair in `matrix.data`.
        """
        interactions, assembly = cls._assemble(columns, "max")
        return interactions, assembly.row_positions()

    @classmethod
    def _assemble(cls, columns: dict[str, pa.ChunkedArray], duplicates: str) -> tuple[Interactions, Assembly]:
        pa.default_memory_pool().release_unused()  # Arrow keeps memory that it no longer uses
        for role in columns:
            columns[role] = use_plain_type(columns[role], role)
        with ThreadPoolExecutor(2) as pool:
            encoded = list(pool.map(lambda role: encode_ids(columns.pop(role), role), ("user", "item")))
        users, items = (ids for ids, _ in encoded)
        codes = [encoded.pop(0)[1] for _ in range(2)]
        weights = parse_numbers(columns.pop("weight"), "weight", allow_negative=False) if "weight" in columns else None
        extra: dict[str, NDArray[Any]] = {}
        if "rating" in columns:
            extra["rating"] = parse_numbers(columns.pop("rating"), "rating", allow_negative=True)
        if "timestamp" in columns:
            extra["timestamp"] = parse_times(columns.pop("timestamp"))
        pa.default_memory_pool().release_unused()
        # Popped, so that their memory is freed when the pairs are sorted.
        assembly = assemble_matrix(codes.pop(0), codes.pop(0), (len(users), len(items)), weights, extra, duplicates)
        return cls(assembly.matrix, users, items, assembly.columns), assembly

    @classmethod
    def from_matrix(
        cls, matrix: sparray | spmatrix, *, users: Any = None, items: Any = None, duplicates: str = "max"
    ) -> Interactions:
        """Make interactions from a users × items matrix of weights.

        Parameters
        ----------
        matrix : sparse matrix
            Of any layout of scipy; it is copied.
        users, items : array_like, optional
            Ids in the order of rows and columns; positions by default.
        duplicates : {"max", "sum", "first", "error"}, default "max"
            Rule for entries that repeat a pair, as in `from_table`.

        Returns
        -------
        Interactions
            Users and items are in the order of the matrix.

        Raises
        ------
        InputError
            If the matrix is not sparse and two-dimensional, its arrays do not fit together, a weight is negative or not
            finite, or ids do not fit.

        Examples
        --------
        >>> from scipy.sparse import csr_array
        >>> Interactions.from_matrix(csr_array([[1.0, 0.0], [0.5, 1.0]]), items=["tea", "coffee"])
        Interactions(2 users × 2 items, 3 interactions, with weights 0.5–1)
        """
        try:
            entries = as_coo(matrix)
            weights = entries.data.astype(np.float32)
        except InputError:
            raise
        except (TypeError, ValueError) as error:
            raise InputError(f"not a sparse users × items matrix: {type(matrix).__name__} ({error})") from error
        _check_weights(weights)
        n_users, n_items = entries.shape
        rows, cols = entries.row.astype(np.int32), entries.col.astype(np.int32)
        assembly = assemble_matrix(rows, cols, (n_users, n_items), weights, {}, duplicates)
        return cls(assembly.matrix, check_ids(users, n_users, "user"), check_ids(items, n_items, "item"))

    def to_table(self, frame: FrameType | None = None) -> Any:
        """Return a table with one row for each interaction.

        Parameters
        ----------
        frame : {"pyarrow", "pandas", "polars"}, optional
            Library of the table; by default `frame_type`.

        Returns
        -------
        pyarrow.Table, pandas.DataFrame or polars.DataFrame
            With columns `user`, `item`, `weight` and those of `columns`.
        """
        table = pa.table(
            {
                "user": take_ids(self.users, self.user_codes),
                "item": take_ids(self.items, self.item_codes),
                "weight": pa.array(self.matrix.data),
                **{name: pa.array(values) for name, values in self.columns.items()},
            }
        )
        return to_frame(table, frame, self.frame_type)

    @property
    def frame_type(self) -> FrameType:
        """Library of tables about the interactions: that of the table they were made from, or else pyarrow."""
        return "pyarrow" if self.source is None else self.source.frame

    @property
    def n_users(self) -> int:
        """Number of users, including those without interactions."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """Number of items, including those without interactions."""
        return len(self.items)

    def __len__(self) -> int:
        """Return the number of interactions."""
        return int(self.matrix.nnz)

    def __repr__(self) -> str:
        low, high = (self.matrix.data.min(), self.matrix.data.max()) if len(self) else (1, 1)
        weights = [] if low == high == 1 else [f"weights {low:g}–{high:g}"]
        extras = " and ".join([*weights, *self.columns])
        size = f"{self.n_users:,} users × {self.n_items:,} items, {len(self):,} interactions"
        return f"Interactions({size}{', with ' if extras else ''}{extras})"

    @cached_property
    def user_codes(self) -> NDArray[np.int32]:
        """The row of each interaction, in the order of `matrix.data`."""
        codes = np.repeat(np.arange(self.n_users, dtype=np.int32), self.activity)
        codes.flags.writeable = False
        return codes

    @property
    def item_codes(self) -> NDArray[np.int32]:
        """The column of each interaction, in the order of `matrix.data`."""
        return np.asarray(self.matrix.indices)

    @cached_property
    def activity(self) -> NDArray[np.int64]:
        """Number of interactions of each user."""
        counts: NDArray[np.int64] = np.diff(self.matrix.indptr).astype(np.int64)
        counts.flags.writeable = False
        return counts

    @cached_property
    def popularity(self) -> NDArray[np.int64]:
        """Number of interactions of each item."""
        counts = np.bincount(self.item_codes, minlength=self.n_items).astype(np.int64)
        counts.flags.writeable = False
        return counts

    def user_positions(self, ids: Any) -> NDArray[np.int64]:
        """Return the rows of some users.

        Parameters
        ----------
        ids : array_like
            User ids.

        Returns
        -------
        ndarray of int64
            −1 for an id that is not in `users`.
        """
        return find_positions(self.users, ids, "user")

    def item_positions(self, ids: Any) -> NDArray[np.int64]:
        """Return the columns of some items.

        Parameters
        ----------
        ids : array_like
            Item ids.

        Returns
        -------
        ndarray of int64
            −1 for an id that is not in `items`.
        """
        return find_positions(self.items, ids, "item")

    def pair_positions(self, rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[np.int64]:
        """Find pairs among the interactions.

        Parameters
        ----------
        rows, columns : ndarray of int
            Row and column of each pair; a negative one is never found.

        Returns
        -------
        ndarray of int64
            Position of each pair in `matrix.data`; −1 for a pair that is no interaction.

        Raises
        ------
        InputError
            If they are not whole numbers, or not as many rows as columns.
        """
        rows, columns = check_array("rows", rows), check_array("columns", columns)
        if {rows.dtype.kind, columns.dtype.kind} - {*"iu"} or rows.shape != columns.shape:
            raise InputError(
                f"rows and columns must be as many whole numbers each; got {rows.dtype} {rows.shape} and "
                f"{columns.dtype} {columns.shape}"
            )
        keys = self.user_codes.astype(np.int64) * self.n_items + self.item_codes
        wanted = rows.astype(np.int64) * self.n_items + columns.astype(np.int64)
        positions = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        is_found = (rows >= 0) & (columns >= 0)
        is_found &= keys[positions] == wanted if len(keys) else False
        return np.where(is_found, positions, -1)

    def equals(self, other: object) -> bool:
        """Return whether another object has the same ids, weights and columns, in the same order.

        Parameters
        ----------
        other : object
            The object to compare with. Names, categories and held-out pairs are not compared.

        Returns
        -------
        bool
        """
        if not isinstance(other, Interactions):
            return False
        arrays = [
            (each.users, each.items, each.matrix.indptr, each.matrix.indices, each.matrix.data)
            for each in (self, other)
        ]
        return (
            all(map(np.array_equal, *arrays))
            and self.columns.keys() == other.columns.keys()
            and all(np.array_equal(values, other.columns[name]) for name, values in self.columns.items())
        )

    def select(self, keep: NDArray[np.bool_], *, hold_out_rest: bool = False) -> Interactions:
        """Select interactions; users and items keep their positions.

        Parameters
        ----------
        keep : ndarray of bool
            Whether to keep each interaction, in the order of `matrix.data`.
        hold_out_rest : bool, default False
            Add the other interactions to `held_out`, so that no noise is injected there.

        Returns
        -------
        Interactions

        Raises
        ------
        InputError
            If `keep` is not one boolean for each interaction.
        """
        try:
            keep = np.asarray(keep)
        except (TypeError, ValueError):
            raise InputError(f"keep must be {len(self)} booleans; got {safe_repr(keep)}") from None
        if keep.dtype != bool or keep.shape != (len(self),):
            raise InputError(
                f"keep must be {len(self)} booleans, one for each interaction; got {keep.dtype} {keep.shape}"
            )
        matrix = self._pairs(keep, self.matrix.data[keep])
        rest_too = check_bool("hold_out_rest", hold_out_rest)
        held_out = union(self.held_out, self._pairs(~keep)) if rest_too else self.held_out
        columns = {name: values[keep] for name, values in self.columns.items()}
        return replace(self, matrix=matrix, columns=columns, held_out=held_out)

    def with_weights(self, weights: NDArray[Any]) -> Interactions:
        """Replace the weights.

        Parameters
        ----------
        weights : array_like
            A finite number of at least 0 for each interaction, in the order of `matrix.data`.

        Returns
        -------
        Interactions

        Raises
        ------
        InputError
            If a weight is negative or not finite, or their number differs.
        """
        try:
            data = np.array(weights, dtype=np.float32)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"weights must be numbers: {shorten(str(error))}") from error
        if data.shape != (len(self),):
            raise InputError(f"weights must be {len(self)} numbers, one for each interaction, got {data.shape}")
        matrix = csr_array((data, self.matrix.indices, self.matrix.indptr), shape=self.matrix.shape)
        return replace(self, matrix=matrix)

    def with_held_out(self, *parts: Interactions) -> Interactions:
        """Add the interactions of other parts to `held_out`, for a split that was made elsewhere.

        Parameters
        ----------
        *parts : Interactions
            The other parts, such as validation and test.

        Returns
        -------
        Interactions
        """
        held_out = self.held_out
        for part in parts:
            check_interactions("each part", part)
            aligned = part.align(self)
            held_out = union(held_out, aligned._pairs(np.ones(len(aligned), dtype=bool)))
        return replace(self, held_out=held_out)

    def with_item_info(
        self, names: Mapping[Any, str] | None = None, categories: Mapping[Any, Sequence[str]] | None = None
    ) -> Interactions:
        """Set names and categories of items.

        Parameters
        ----------
        names : mapping, optional
            Name of each item by id. An item that is missing is named by its id.
        categories : mapping, optional
            List of categories of each item by id. An item that is missing has none.

        Returns
        -------
        Interactions

        Raises
        ------
        InputError
            If ids are neither integers nor text, or categories are no list.

        Examples
        --------
        >>> clicks = Interactions.from_table(pa.table({"user": [1, 1], "item": [7, 8]}))
        >>> clicks.with_item_info({7: "Tea"}).item_names
        array(['Tea', '8'], dtype=object)
        """
        for name, info in (("names", names), ("categories", categories)):
            if info is not None and not isinstance(info, Mapping):
                raise InputError(f"{name} must be given by item id, such as {{7: …}}; got {safe_repr(info)}")

        def find(info: Mapping[Any, Any]) -> dict[int, Any]:
            """Return values by the position of their item."""
            positions = self.item_positions(list(info)).tolist()
            return {at: value for at, value in zip(positions, info.values(), strict=True) if at >= 0}

        item_names, item_categories = self.item_names, self.item_categories
        if names is not None:
            found = find(names)
            texts = [str(found.get(at, item)) for at, item in enumerate(self.items.tolist())]
            item_names = np.array(texts, dtype=object)
        if categories is not None:
            if any(isinstance(each, str) or not isinstance(each, Iterable) for each in categories.values()):
                raise InputError("the categories of an item must be a list of names, such as ['Drama']")
            found = find(categories)
            item_categories = tuple(tuple(dict.fromkeys(map(str, found.get(at, ())))) for at in range(self.n_items))
        return replace(self, item_names=item_names, item_categories=item_categories)

    def filter_by_rating(self, minimum: float) -> Interactions:
        """Keep interactions with a high rating, and the users and items that have any.

        Parameters
        ----------
        minimum : float
            Smallest rating to keep.

        Returns
        -------
        Interactions
            Pairs with a lower rating are in its `disliked`.

        Raises
        ------
        InputError
            If there is no column `rating`.
        """
        if "rating" not in self.columns:
            raise InputError("there are no ratings to compare with the minimum: name their column with rating_col")
        # Ratings are float32, so the minimum is rounded as they are: 4.1 must keep a rating of 4.1.
        is_liked = self.columns["rating"] >= np.float32(check_float("the minimum rating", minimum))
        disliked = union(self.disliked, self._pairs(~is_liked))
        return replace(self.select(is_liked), disliked=disliked).drop_empty()

    def drop_empty(self) -> Interactions:
        """Drop users and items that have no interaction.

        Returns
        -------
        Interactions
        """
        rows, cols = np.flatnonzero(self.activity), np.flatnonzero(self.popularity)
        return self._reindex(rows, cols, self.users[rows], self.items[cols])

    def align(self, other: Interactions) -> Interactions:
        """Bring the interactions onto the users and items of another object, in its order.

        Interactions of users or items that the other does not have are dropped, with a warning that counts them.

        Parameters
        ----------
        other : Interactions
            The object with the users and items to use, such as the training part.

        Returns
        -------
        Interactions
            With the item names and categories of `other`.

        Raises
        ------
        InputError
            If no interaction is left.
        """
        check_interactions("other", other)
        if self.users is other.users and self.items is other.items:
            return self
        rows = find_positions(self.users, other.users, "user") if self.n_users else np.full(other.n_users, -1)
        cols = find_positions(self.items, other.items, "item") if self.n_items else np.full(other.n_items, -1)
        aligned = self._reindex(rows, cols, other.users, other.items)
        if n_dropped := len(self) - len(aligned):
            n_users, n_items = self.n_users - np.count_nonzero(rows >= 0), self.n_items - np.count_nonzero(cols >= 0)
            problem = f"{n_users:,} users and {n_items:,} items are not in the other data"
            if n_dropped == len(self):
                raise InputError(f"{problem}: no interaction is left")
            warnings.warn(
                f"{problem}: {n_dropped:,} of {len(self):,} interactions were dropped", DataWarning, stacklevel=2
            )
        return replace(aligned, item_names=other.item_names, item_categories=other.item_categories)

    def _pairs(self, keep: NDArray[np.bool_], values: NDArray[Any] | None = None) -> csr_array:
        """Return some of the pairs as a matrix of values, by default of True."""
        indptr = np.zeros_like(self.matrix.indptr)
        np.cumsum(np.bincount(self.user_codes[keep], minlength=self.n_users), out=indptr[1:])
        indices = self.matrix.indices[keep]
        data = np.ones(len(indices), dtype=bool) if values is None else values
        return csr_array((data, indices, indptr), shape=self.matrix.shape)

    def _reindex(self, rows: NDArray[Any], cols: NDArray[Any], users: Ids, items: Ids) -> Interactions:
        """Return the interactions on other rows and columns, given by their old positions; −1 for empty ones."""
        old = self.matrix
        moved = reindex(csr_array((np.arange(len(self)), old.indices, old.indptr), shape=old.shape), rows, cols)
        positions = moved.data
        matrix = csr_array((old.data[positions], moved.indices, moved.indptr), shape=moved.shape)
        names, categories = self.item_names, self.item_categories
        has_all = np.all(cols >= 0)
        return Interactions(
            matrix,
            users,
            items,
            {name: values[positions] for name, values in self.columns.items()},
            names[cols] if names is not None and has_all else None,
            tuple(categories[col] for col in cols) if categories is not None and has_all else None,
            None if self.held_out is None else reindex(self.held_out, rows, cols),
            None if self.disliked is None else reindex(self.disliked, rows, cols),
            self.source,
        )


def check_interactions(name: str, value: object) -> Interactions:
    """Return interactions, and refuse everything else.

    Parameters
    ----------
    name : str
        Name of the argument, for the message.
    value : object
        Value of the argument.

    Returns
    -------
    Interactions

    Raises
    ------
    InputError
        If the value is something else.
    """
    if not isinstance(value, Interactions):
        raise InputError(
            f"{name} must be Interactions; got {type(value).__name__}. Make them with prorec.read_interactions, "
            "Interactions.from_table or Interactions.from_matrix"
        )
    return value


def _check_weights(weights: NDArray[np.float32]) -> None:
    for is_bad, problem in ((~np.isfinite(weights), "not a finite number"), (weights < 0, "negative")):
        if is_bad.any():
            position = int(np.argmax(is_bad))
            raise InputError(f"the weight at position {position} is {weights[position]}, which is {problem}")

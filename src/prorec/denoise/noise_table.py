"""Tables of a denoiser's results: one row per interaction, with the ids that users know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from prorec._core.checks import safe_repr
from prorec._core.errors import InputError
from prorec.interactions import Interactions
from prorec.interactions.columns import ColumnRef, choose_columns
from prorec.interactions.ids import take_ids
from prorec.interactions.tables import FrameType, read_frame, to_frame
from prorec.noise.posterior import basis_names

if TYPE_CHECKING:
    from prorec.denoise.denoiser import ProRec

_BLOCK_SIZE = 64
"""Items whose similarities to all items are in memory at once."""


def make_noise_table(denoiser: ProRec, frame: FrameType | None, limit: int | None) -> Any:
    """Return the interactions as a table, the most suspicious first; see `ProRec.noise_table`.

    Parameters
    ----------
    denoiser : ProRec
        A fitted denoiser.
    frame : {"pyarrow", "pandas", "polars"} or None
        Type of the table; None for that of the table that was fitted.
    limit : int or None
        Maximum number of rows.

    Returns
    -------
    table
    """
    suspicion = -denoiser.noise_probability_
    positions = np.arange(len(suspicion))
    if limit is not None and limit < len(suspicion):
        positions = np.flatnonzero(suspicion <= np.partition(suspicion, limit - 1)[limit - 1])
    # A stable sort keeps ties in the order of users and items.
    order = positions[np.argsort(suspicion[positions], kind="stable")][:limit]
    return to_frame(pa.table(_result_columns(denoiser, order)), frame, denoiser.interactions_.frame_type)


def annotate_table(denoiser: ProRec, table: Any, columns: dict[str, ColumnRef]) -> Any:
    """Return a table with the denoiser's results for the pair in each row; see `ProRec.annotate`.

    Parameters
    ----------
    denoiser : ProRec
        A fitted denoiser.
    table : pandas, polars or pyarrow table
        Any rows with a user and an item.
    columns : dict
        References to the columns "user" and "item"; None finds them by their usual names.

    Returns
    -------
    table
        Of the type of `table`.

    Raises
    ------
    InputError
        If a column cannot be found.
    """
    interactions, frame = denoiser.interactions_, read_frame(table)
    names = [str(name) for name in frame.columns]
    remembered = {} if interactions.source is None else interactions.source.columns
    columns = {
        role: remembered[role] if column is None and remembered.get(role) in names else column
        for role, column in columns.items()
    }
    chosen = choose_columns(names, columns, roles=("user", "item"))
    positions = interactions.pair_positions(
        interactions.user_positions(frame[:, chosen["user"]].to_list()),
        interactions.item_positions(frame[:, chosen["item"]].to_list()),
    )
    return add_results(denoiser, frame, positions).to_native()


def add_results(denoiser: ProRec, frame: nw.DataFrame[Any], positions: NDArray[np.int64]) -> nw.DataFrame[Any]:
    """Return a table with three more columns: weight, noise_probability and flagged.

    Parameters
    ----------
    denoiser : ProRec
        A fitted denoiser.
    frame : narwhals.DataFrame
        The table.
    positions : ndarray of int64
        For each row, the position of its interaction; a row with −1 has nothing in the new columns.

    Returns
    -------
    narwhals.DataFrame
        A new column whose name the table has already is called `prorec_` and its name.
    """
    results = _result_columns(denoiser, positions)
    for name, dtype in (("weight", nw.Float32), ("noise_probability", nw.Float32), ("flagged", nw.Boolean)):
        column = pa.array(results[name], mask=positions < 0).to_pylist()
        new_name = free_name(name, frame.columns)
        frame = frame.with_columns(nw.new_series(new_name, column, dtype, backend=frame.implementation))
    return frame


def free_name(name: str, taken: Sequence[str]) -> str:
    """Return the name of a new column of a table.

    Parameters
    ----------
    name : str
        Name of the column.
    taken : sequence of str
        Names of the table's columns.

    Returns
    -------
    str
        With `prorec_` before it if the table has such a name in any case: nobody tells Weight from weight.

    Examples
    --------
    >>> free_name("weight", ["user", "Weight"])
    'prorec_weight'
    """
    return f"prorec_{name}" if name in (each.lower() for each in taken) else name


def explain_user(denoiser: ProRec, user: Any, frame: FrameType | None) -> Any:
    """Return one user's interactions, each with the most and the least similar other item; see `ProRec.explain`.

    Parameters
    ----------
    denoiser : ProRec
        A fitted denoiser that has a model.
    user : Any
        Id of the user.
    frame : {"pyarrow", "pandas", "polars"} or None
        Type of the table; None for that of the table that was fitted.

    Returns
    -------
    table

    Raises
    ------
    InputError
        If the user is unknown.
    """
    interactions = denoiser.interactions_
    matrix, row = interactions.matrix, user_row(interactions, user)
    positions = np.arange(matrix.indptr[row], matrix.indptr[row + 1])
    positions = positions[np.argsort(-denoiser.noise_probability_[positions], kind="stable")]
    items = matrix.indices[positions].astype(np.int64)
    columns = _result_columns(denoiser, positions)
    del columns["user"]
    similarities = denoiser.model_.similarities_
    similarity = np.empty((len(items), len(items)), dtype=np.float32)
    for start in range(0, len(items), _BLOCK_SIZE):
        part = slice(start, start + _BLOCK_SIZE)
        similarity[part] = similarities(items[part])[:, items]
    for name, other in (("for", _largest_other(similarity)), ("against", _largest_other(-similarity))):
        is_only_item = pa.array(other < 0)
        columns[name] = pc.if_else(is_only_item, None, take_ids(interactions.items, items[other]))
        values = pa.array(similarity[np.arange(len(items)), other])
        columns[f"{name}_similarity"] = pc.if_else(is_only_item, None, values)
    return to_frame(pa.table(columns), frame, interactions.frame_type)


def user_row(interactions: Interactions, user: Any) -> int:
    """Return the row of a user in the matrix.

    Parameters
    ----------
    interactions : Interactions
        Interactions of the user and others.
    user : Any
        Id of the user.

    Returns
    -------
    int

    Raises
    ------
    InputError
        If the user is unknown.
    """
    row = int(interactions.user_positions([user])[0])
    if row < 0:
        raise InputError(
            f"user must be one of the {interactions.n_users:,} users that the denoiser was fitted to; got "
            f"{safe_repr(user)}"
        )
    return row


def _largest_other(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return, for each row of a square array, the column of the largest value off the diagonal; −1 if there is none."""
    if len(values) < 2:
        return np.full(len(values), -1)
    others = values.copy()
    np.fill_diagonal(others, -np.inf)
    return np.asarray(np.argmax(others, axis=1))


def _result_columns(denoiser: ProRec, positions: NDArray[np.int64]) -> dict[str, Any]:
    """Return the columns of the noise table for some interactions."""
    interactions = denoiser.interactions_
    users, items = interactions.user_codes[positions], interactions.item_codes[positions]
    columns: dict[str, Any] = {"user": take_ids(interactions.users, users), "item": take_ids(interactions.items, items)}
    if interactions.item_names is not None:
        columns["name"] = pa.array(interactions.item_names[items], pa.string())
    columns |= {
        "weight": denoiser.weights_.data[positions],
        "noise_probability": denoiser.noise_probability_[positions],
        "flagged": denoiser.flagged_[positions],
        "share": denoiser.matching_.row_shares[positions],
        "threshold": denoiser.matching_.threshold[users],
    }
    if denoiser._finder is not None:
        columns["percentile_rank"] = denoiser._finder.percentile_rank_[positions]
        columns["basis"] = basis_names(denoiser._finder.basis_[positions])
    return columns

"""Marks: what people know of interactions, that some are genuine (trusted) and others noise (suspect)."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from prorec._core.checks import safe_repr
from prorec._core.errors import InputError
from prorec.interactions import Interactions

_MEANINGS = {"yes": True, "true": True, "1": True, "1.0": True, "no": False, "false": False, "0": False, "0.0": False}
_N_EXAMPLES, _MAX_LENGTH = 3, 60


class Marks(NamedTuple):
    """Marks of each interaction of a log, in the order of `matrix.data`."""

    trusted: NDArray[np.bool_]
    """Whether the interaction is known to be genuine."""
    suspect: NDArray[np.bool_]
    """Whether the interaction is known to be noise."""


def read_marks(interactions: Interactions, trusted: Any = None, suspect: Any = None) -> Marks:
    """Return the marks of each interaction.

    Parameters
    ----------
    interactions : Interactions
        The log.
    trusted, suspect : str, array or Interactions, optional
        Name of a column of `interactions.columns`, or an array in the order of `interactions.matrix.data`, with values
        as in `parse_yes_no`; or the marked pairs. By default, nothing is marked.

    Returns
    -------
    Marks

    Raises
    ------
    InputError
        If there is no such column, a value is neither yes nor no, the number of values is not that of the interactions,
        a marked pair is not in the log, or an interaction is marked as both.

    Examples
    --------
    >>> log = Interactions.from_table(pa.table({"user": ["ann", "ann", "bob"], "item": [1, 2, 1]}))
    >>> bought = Interactions.from_table(pa.table({"user": ["ann"], "item": [2]}))
    >>> marks = read_marks(log, trusted=bought, suspect=["no", "no", "yes"])
    >>> marks.trusted, marks.suspect
    (array([False,  True, False]), array([False, False,  True]))
    """
    marks = Marks(_read_mark("trusted", trusted, interactions), _read_mark("suspect", suspect, interactions))
    both = np.flatnonzero(marks.trusted & marks.suspect)
    if len(both):
        raise InputError(
            "an interaction must not be both trusted and suspect; "
            f"{_count(len(both), 'is', 'are')}, such as {_name_pair(interactions, both[0])}. Decide which it is"
        )
    return marks


def parse_yes_no(values: Any, name: str) -> NDArray[np.bool_]:
    """Return values of yes and no as booleans.

    Parameters
    ----------
    values : array_like
        Each value is true or false, 1 or 0, or yes or no, in any case.
    name : str
        Name of the values, for messages.

    Returns
    -------
    array of bool

    Raises
    ------
    InputError
        If a value is missing or another one.

    Examples
    --------
    >>> parse_yes_no(["Yes", "no", "TRUE", "0"], "bought")
    array([ True, False,  True, False])
    """
    expected = f"{name} must be yes or no (or true or false, 1 or 0) for each interaction"
    try:
        column = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, from_pandas=True)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        distinct = pc.unique(column)
        codes = pc.index_in(column, value_set=distinct).to_numpy()
    except (pa.ArrowException, TypeError, ValueError):
        raise InputError(
            f"{expected}; got {_shorten(values)}. Pass an array, the name of a column, or Interactions"
        ) from None
    texts = ["" if each is None else str(each).strip().lower() for each in distinct.to_pylist()]
    is_missing = np.array([text in ("", "nan") for text in texts], dtype=bool)[codes]
    if is_missing.any():
        raise InputError(
            f"{expected}; {is_missing.sum():,} of {len(codes):,} values are missing. "
            "Write no where nobody knows anything"
        )
    others = [each for each, text in zip(distinct.to_pylist(), texts, strict=True) if text not in _MEANINGS]
    if others:
        examples = ", ".join(_shorten(each) for each in others[:_N_EXAMPLES])
        raise InputError(
            f"{expected}; got {_count(len(others), 'other value', 'other values')}, such as {examples}. Turn them into "
            "yes or no"
        )
    return np.asarray(np.array([_MEANINGS[text] for text in texts], dtype=bool)[codes])


def mark_users(interactions: Interactions, ids: Sequence[Any]) -> NDArray[np.bool_]:
    """Mark all interactions of some users.

    Parameters
    ----------
    interactions : Interactions
        The log.
    ids : sequence
        Ids of users.

    Returns
    -------
    ndarray of bool
        In the order of `interactions.matrix.data`.

    Raises
    ------
    InputError
        If a user is not in the log; the message has the closest ids.

    Examples
    --------
    >>> log = Interactions.from_table(pa.table({"user": ["ann", "ann", "test01"], "item": [1, 2, 1]}))
    >>> mark_users(log, ["test01"])
    array([False, False,  True])
    """
    if isinstance(ids, str) or not isinstance(ids, Sequence | np.ndarray):
        raise InputError(f"suspect_users must be a list of user ids; got {_shorten(ids)}")
    positions = interactions.user_positions(list(ids)) if len(ids) else np.empty(0, dtype=np.int64)
    unknown = [each for each, position in zip(ids, positions, strict=True) if position < 0]
    if unknown:
        names = {str(each): None for each in interactions.users.tolist()}
        closest = difflib.get_close_matches(str(unknown[0]), names, 3, 0.6)
        hint = f"Did you mean {' or '.join(closest)}?" if closest else "Leave out what is no user of this log."
        listed = ", ".join(map(_shorten, unknown[:_N_EXAMPLES])) + (", …" if len(unknown) > _N_EXAMPLES else "")
        raise InputError(
            f"suspect_users must be users of the log; {len(unknown):,} of {len(ids):,} "
            f"{'is' if len(unknown) == 1 else 'are'} not: {listed}. {hint}"
        )
    return np.asarray(np.isin(interactions.user_codes, positions))


def check_enough_unmarked(activity: NDArray[np.int64], folds: int) -> None:
    """Raise InputError if trusted interactions leave too few others to estimate the noise rate from.

    Parameters
    ----------
    activity : array of int
        For each interaction that is not marked, and that the fit learns from, the user's number of interactions.
    folds : int
        Number of folds, which is also the smallest number of interactions.
    """
    n_usable = int(np.count_nonzero(activity >= 2))
    if n_usable < folds:
        raise InputError(
            f"at least {folds} interactions that are not marked as trusted, of users with two or more, must be left to "
            f"estimate the noise rate from; there {'is' if n_usable == 1 else 'are'} {n_usable}. Trust fewer "
            "interactions: without doubt about the others there is nothing to find"
        )


def _read_mark(role: str, mark: Any, interactions: Interactions) -> NDArray[np.bool_]:
    """Return whether each interaction has one kind of mark."""
    if mark is None:
        return np.zeros(len(interactions), dtype=bool)
    if isinstance(mark, Interactions):
        return _find_pairs(role, mark, interactions)
    if isinstance(mark, str):
        if mark not in interactions.columns:
            names = ", ".join(map(repr, interactions.columns)) or "none"
            raise InputError(
                f"{role} must be the name of a column of the interactions; got {safe_repr(mark)}, and the columns "
                f"are: {names}. "
                "Pass an array or Interactions instead"
            )
        return parse_yes_no(interactions.columns[mark], f"the column {safe_repr(mark)}")
    is_marked = parse_yes_no(mark, role)
    if len(is_marked) != len(interactions):
        raise InputError(
            f"{role} must have {len(interactions):,} values, one for each interaction in the order of "
            f"interactions.matrix.data; got {len(is_marked):,}. If these are rows of a table, pass the marked pairs as "
            "Interactions instead"
        )
    return is_marked


def _find_pairs(role: str, pairs: Interactions, interactions: Interactions) -> NDArray[np.bool_]:
    """Return whether each interaction is among some pairs."""
    rows = interactions.user_positions(pairs.users)[pairs.user_codes]
    positions = interactions.pair_positions(rows, interactions.item_positions(pairs.items)[pairs.item_codes])
    missing = np.flatnonzero(positions < 0)
    if len(missing):
        raise InputError(
            f"{role} must be pairs of the log; {len(missing):,} of {len(pairs):,} "
            f"{'is' if len(missing) == 1 else 'are'} not, such as {_name_pair(pairs, missing[0])}. Leave them out"
        )
    is_marked = np.zeros(len(interactions), dtype=bool)
    is_marked[positions] = True
    return is_marked


def _name_pair(interactions: Interactions, position: np.intp) -> str:
    """Return the user and the item of an interaction in words."""
    user = interactions.users[interactions.user_codes[position]]
    return f"user {user}, item {interactions.items[interactions.item_codes[position]]}"


def _shorten(value: object) -> str:
    """Return the beginning of a value's representation."""
    text = safe_repr(value)
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…"


def _count(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"

"""S/γ, block by block: what every plan is made of.

Scores come as `Factors`, which are multiplied out one block of users at a time, or from a function that scores a block
of users. Both give a block in single precision where that is good enough, and in double where it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from prorec.errors import InputError
from prorec.factors import Factors
from prorec.transport.kernels import cpu

Rows = NDArray[np.intp]
ScoreFunction = Callable[[Rows], Any]
"""Given row numbers of users, their scores: one row for each of them, one column for each item."""

# Rounding in a product of factors grows with their lengths, not with the score: about 2.4e-8·‖u‖·‖v‖ in the mean.
_LENGTH = 64.0
_LARGEST = 1e300
_PAIRS = 1 << 16


class Scaled(Protocol):
    """Scores over γ."""

    shape: tuple[int, int]

    order: Rows
    """All users, those that are likely to need double precision first: so they share blocks, and the others don't."""
    n_double: int
    """So many of them are known to need it."""

    def single(self, rows: Rows, out: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """The block of some other users in `out`, or None where it turns out to need double precision after all."""
        ...

    def double(self, rows: Rows) -> NDArray[np.float64]:
        """The block of some users, in an array of the caller's own."""
        ...

    def at(self, rows: Rows, items: Rows) -> NDArray[np.float64]:
        """Single pairs."""
        ...


def scaled(scores: Factors | ScoreFunction, gamma: float, shape: tuple[int, int]) -> Scaled:
    """Scores of users × items over γ, from factors or from a function."""
    if isinstance(scores, Factors):
        if scores.shape != shape:
            raise InputError(
                f"scores are for {scores.shape[0]} users × {scores.shape[1]} items, "
                f"marginals for {shape[0]} × {shape[1]}"
            )
        return _FromFactors(scores, gamma)
    if callable(scores):
        return _FromFunction(scores, gamma, shape)
    raise InputError(f"scores must be Factors or a function of row numbers; got {type(scores).__name__}")


def in_parts(rows: Rows, parts: int = 12) -> list[Rows]:
    """A block's users in parts that are small enough for double precision with all its copies."""
    return np.array_split(rows, max(1, min(parts, len(rows))))


class _FromFactors:
    def __init__(self, factors: Factors, gamma: float) -> None:
        self.shape = factors.shape
        self._factors, self._gamma = factors, gamma
        self._is_sigmoid = factors.link == "sigmoid"
        # The bias is one more factor, which all users have in common.
        users, items = factors.users, factors.items
        self._users_bias = factors.item_bias is not None
        if factors.item_bias is not None:
            items = np.column_stack([items, factors.item_bias])
        self._items = items
        with np.errstate(over="ignore"):
            self._single_items = np.ascontiguousarray(items.T, dtype=np.float32)  # a little faster than a view
            lengths = np.sqrt(np.square(users, dtype=np.float64).sum(axis=1) + self._users_bias)
            longest = np.sqrt(np.square(items, dtype=np.float64).sum(axis=1).max())
            # A sigmoid is nowhere steeper than 1/4.
            reach = lengths * longest / gamma / (4 if self._is_sigmoid else 1)
        if not reach.max() < _LARGEST:
            raise InputError("scores are too large for gamma: users · items / gamma overflows")
        self.order = np.argsort(-reach, kind="stable")
        self.n_double = int((reach > _LENGTH).sum())

    def single(self, rows: Rows, out: NDArray[np.float32]) -> NDArray[np.float32] | None:
        block = out[: len(rows)]
        np.matmul(self._of_users(rows, np.float32), self._single_items, out=block)
        if self._is_sigmoid:
            cpu.logistic(block, 1 / self._gamma)
        return block

    def double(self, rows: Rows) -> NDArray[np.float64]:
        block: NDArray[np.float64] = self._of_users(rows, np.float64) @ self._double_items.T
        return self._linked(block)

    def at(self, rows: Rows, items: Rows) -> NDArray[np.float64]:
        values = np.empty(len(rows))
        for begin in range(0, len(rows), _PAIRS):
            part = slice(begin, begin + _PAIRS)
            users = self._of_users(rows[part], np.float64)
            values[part] = np.einsum("ij,ij->i", users, self._double_items[items[part]])
        return self._linked(values)

    @cached_property
    def _double_items(self) -> NDArray[np.float64]:
        return self._items.astype(np.float64, copy=False)

    def _of_users(self, rows: Rows, kind: type[np.floating[Any]]) -> NDArray[Any]:
        """Users' factors over γ; with a link γ has to wait."""
        users = self._factors.users[rows].astype(np.float64)
        if self._users_bias:
            users = np.column_stack([users, np.ones(len(users))])
        return (users if self._is_sigmoid else users / self._gamma).astype(kind, copy=False)

    def _linked(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        if self._is_sigmoid:
            np.negative(values, out=values)
            np.exp(np.minimum(values, 700.0, out=values), out=values)
            values += 1
            np.divide(1 / self._gamma, values, out=values)
        return values


class _FromFunction:
    def __init__(self, function: ScoreFunction, gamma: float, shape: tuple[int, int]) -> None:
        self.shape = shape
        self.order, self.n_double = np.arange(shape[0]), 0
        self._function, self._gamma = function, gamma

    def single(self, rows: Rows, out: NDArray[np.float32]) -> NDArray[np.float32] | None:
        for part in in_parts(np.arange(len(rows))):
            block = self.double(rows[part])
            if np.abs(block).max() > cpu.REACH:
                return None
            out[part] = block
        return out[: len(rows)]

    def double(self, rows: Rows) -> NDArray[np.float64]:
        try:
            block = np.array(self._function(rows), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"scores must return a block of numbers: {error}") from error
        if block.shape != (len(rows), self.shape[1]):
            raise InputError(
                f"scores must return {len(rows)} × {self.shape[1]} numbers for {len(rows)} users; got {block.shape}"
            )
        block /= self._gamma
        if not np.abs(block).max() < _LARGEST:
            at = int(rows[np.argmin((np.abs(block) < _LARGEST).all(axis=1))])
            raise InputError(f"scores must be finite, also over gamma; those of user {at} are not")
        return block

    def at(self, rows: Rows, items: Rows) -> NDArray[np.float64]:
        values = np.empty(len(rows))
        order = np.argsort(rows, kind="stable")
        users, begins = np.unique(rows[order], return_index=True)
        for user, pairs in zip(users, np.split(order, begins[1:]), strict=True):
            values[pairs] = self.double(np.array([user]))[0, items[pairs]]
        return values

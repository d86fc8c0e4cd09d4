"""S/γ, block by block: what every plan is made of.

Scores come as `Factors`, which are multiplied out one block of users at a time, or from a function that scores a block
of users. Both give a block in single precision where that is good enough, and in double where it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import check_array
from prorec._core.errors import InputError
from prorec.transport.factors import Factors
from prorec.transport.kernels import cpu
from prorec.transport.marginals import Marginals

Rows = NDArray[np.intp]
ScoreFunction = Callable[[Rows], Any]
"""Given row numbers of users, their scores: one row for each of them, one column for each item."""

# Rounding in a product of factors grows with their lengths, not with the score: 2.4e-8·‖u‖·‖v‖ is common, five times
# that has been seen.
_LENGTH = 48.0
_LARGEST = 1e12  # the plan is e to the power of S/γ: beyond, its digits are those that double precision has lost
_NUMBERS = 1 << 22  # so many factors of pairs at a time: 32 MB in double precision


class ScaledScores(Protocol):
    """Scores over γ."""

    shape: tuple[int, int]

    order: Rows
    """All users, those that are likely to need double precision first: so they share blocks, and the others don't."""
    n_double: int
    """So many of them are known to need it."""

    def compute_single(self, rows: Rows, room: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """The block of some users in `room`, or None where it is known to need double precision."""
        ...

    def compute_double(self, rows: Rows) -> NDArray[np.float64]:
        """The block of some users, in an array of the caller's own."""
        ...

    def compute_pairs(self, rows: Rows, items: Rows) -> NDArray[np.float64]:
        """Single pairs."""
        ...


PARTS = 12
"""In so many parts a block is taken into double precision, which needs several copies of eight bytes."""


def scale_scores(
    scores: Factors | ScoreFunction, gamma: float, marginals: Marginals, *, in_double: bool = False
) -> ScaledScores:
    """Scores over γ, from factors or from a function, for the users and items that the marginals are for."""
    if not isinstance(marginals, Marginals):
        raise InputError(f"marginals must be Marginals(items=…, users=…); got {type(marginals).__name__}")
    n_users, n_items = marginals.shape
    if isinstance(scores, Factors):
        if scores.shape != marginals.shape:
            raise InputError(
                f"scores are for {scores.shape[0]} users × {scores.shape[1]} items, marginals for {n_users} × {n_items}"
            )
        return ScaledFactors(scores, gamma, in_double=in_double)
    if callable(scores):
        return _ScaledFunction(scores, gamma, marginals.shape, in_double=in_double)
    raise InputError(f"scores must be Factors or a function of row numbers; got {type(scores).__name__}")


def split_into_parts(rows: Rows, parts: int = PARTS) -> list[Rows]:
    """Some users in parts, about equally many in each."""
    return np.array_split(rows, max(1, min(parts, len(rows))))


class ScaledFactors:
    """Scores over γ from factors."""

    def __init__(self, factors: Factors, gamma: float, *, in_double: bool = False) -> None:
        self.shape = factors.shape
        self._factors, self._gamma = factors, gamma
        self._is_sigmoid = factors.link == "sigmoid"
        # The bias is one more factor, which all users have in common.
        items = factors.items
        if factors.item_bias is not None:
            items = np.column_stack([items, factors.item_bias])
        # What is taken from each of the items' factors, so that none is above 1, goes to the users': by powers of two,
        # exactly. Then nothing but a large score can overflow.
        largest = np.maximum(items.max(axis=0), -items.min(axis=0)).astype(np.float64)
        self._counts = largest > 0  # a factor that no item has must not make the users' overflow
        _, self._exponent = np.frexp(largest)
        if items.dtype == np.float32:  # whose powers of two double precision holds, so that a product will do
            self._items = items * np.ldexp(1.0, -self._exponent)
        else:
            self._items = np.ldexp(items.astype(np.float64), -self._exponent)
        self._single_items = np.ascontiguousarray(self._items.T, dtype=np.float32)  # a little faster than a view
        longest = np.sqrt(np.einsum("ij,ij->i", self._items, self._items).max())
        with np.errstate(over="ignore"):
            reach = np.concatenate(
                [longest * self._lengths(part) for part in split_into_parts(np.arange(self.shape[0]), 64)]
            )
        _check_largest(reach.max())
        if self._is_sigmoid:
            _check_largest(1 / gamma)
            reach /= 4 * gamma  # it is nowhere steeper than a quarter
            in_double = in_double or 1 / gamma > cpu.REACH
        self.reach = reach
        """For each user, what no score over γ is above: the product of lengths. Rounding grows with it."""
        self.order = np.argsort(-reach, kind="stable")
        self.n_double = self.shape[0] if in_double else int((reach > _LENGTH).sum())
        self._needs_double = np.zeros(self.shape[0], dtype=bool)
        self._needs_double[self.order[: self.n_double]] = True

    # ── for those who multiply elsewhere: S/γ = link(users·itemsᵀ + bias) ────────────────────────────

    @property
    def user_factors(self) -> NDArray[Any]:
        """Users' factors as they were given; `user_scale` makes them those of `scaled_users`."""
        return self._factors.users

    @property
    def user_scale(self) -> NDArray[np.float64]:
        """What each of the users' factors is to be multiplied by; not finite where that cannot be done in one go."""
        with np.errstate(over="ignore"):
            scale = np.where(self._counts, np.ldexp(1.0 if self._is_sigmoid else 1 / self._gamma, self._exponent), 0.0)
        return scale[: self._factors.users.shape[1]]

    def scaled_users(self, rows: Rows) -> NDArray[np.float64]:
        """Some users' factors, over γ unless there is a link."""
        return self._of_users(rows, np.float64)[:, : self._factors.users.shape[1]]

    @property
    def scaled_items(self) -> NDArray[np.float64]:
        """Items' factors, none of them above 1."""
        return np.ascontiguousarray(self._items[:, : self._factors.users.shape[1]])

    @property
    def scaled_bias(self) -> NDArray[np.float64]:
        """Items' biases, over γ unless there is a link."""
        bias = np.zeros(self.shape[1]) if self._factors.item_bias is None else self._factors.item_bias.astype(float)
        return bias if self._is_sigmoid else bias / self._gamma

    @property
    def link_scale(self) -> float:
        """1/γ, which the logistic function is to be multiplied by; 0 where there is no link."""
        return 1 / self._gamma if self._is_sigmoid else 0.0

    # ── blocks ──────────────────────────────────────────────────────────────────────────────────────

    def compute_single(self, rows: Rows, room: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """The block of some users, or None."""
        if self._needs_double[rows].any():
            return None
        block = room[: len(rows)]
        np.matmul(self._of_users(rows, np.float32), self._single_items, out=block)
        if self._is_sigmoid:
            cpu.logistic(block, 1 / self._gamma)
        return block

    def compute_double(self, rows: Rows) -> NDArray[np.float64]:
        """The block of some users."""
        block: NDArray[np.float64] = self._of_users(rows, np.float64) @ self._items.T
        return self._linked(block)

    def compute_pairs(self, rows: Rows, items: Rows) -> NDArray[np.float64]:
        """Single pairs."""
        values = np.empty(len(rows))
        step = max(1, _NUMBERS // max(1, self._items.shape[1]))
        for begin in range(0, len(rows), step):
            part = slice(begin, begin + step)
            users = self._of_users(rows[part], np.float64)
            values[part] = np.einsum("ij,ij->i", users, self._items[items[part]])
        return self._linked(values)

    def _of_users(self, rows: Rows, kind: type[np.floating[Any]]) -> NDArray[Any]:
        """Users' factors over γ, with what was taken from the items; where there is a link, γ has to wait."""
        users = self._factors.users[rows].astype(np.float64)
        if self._factors.item_bias is not None:
            users = np.column_stack([users, np.ones(len(users))])
        if not self._counts.all():
            users *= self._counts
        if not self._is_sigmoid:
            # In two steps: γ alone, or the items' part alone, may be more than double precision holds.
            mantissa, exponent = np.frexp(self._gamma)
            users = np.ldexp(users / mantissa, self._exponent - exponent)
        else:
            users = np.ldexp(users, self._exponent)
        return users.astype(kind, copy=False)

    def _lengths(self, rows: Rows) -> NDArray[np.float64]:
        lengths: NDArray[np.float64] = np.linalg.norm(self._of_users(rows, np.float64), axis=1)
        return lengths

    def _linked(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        if self._is_sigmoid:
            np.negative(values, out=values)
            np.exp(np.minimum(values, 700.0, out=values), out=values)
            values += 1
            np.divide(1 / self._gamma, values, out=values)
        return values


class _ScaledFunction:
    def __init__(self, function: ScoreFunction, gamma: float, shape: tuple[int, int], *, in_double: bool) -> None:
        self.shape = shape
        self.order = np.arange(shape[0])
        self.n_double = shape[0] if in_double else 0
        self._function, self._gamma = function, gamma

    def compute_single(self, rows: Rows, room: NDArray[np.float32]) -> NDArray[np.float32] | None:
        if self.n_double:
            return None
        for part in split_into_parts(np.arange(len(rows))):
            block = self.compute_double(rows[part])
            if max(block.max(), -block.min()) > cpu.REACH:
                return None
            room[part] = block
        return room[: len(rows)]

    def compute_double(self, rows: Rows) -> NDArray[np.float64]:
        block = check_array("what scores returns", self._function(rows.copy())).astype(np.float64)
        if block.shape != (len(rows), self.shape[1]):
            raise InputError(
                f"scores must return {len(rows)} × {self.shape[1]} numbers for {len(rows)} users; got {block.shape}"
            )
        if not np.isfinite(block).all():
            at = int(rows[np.argmin(np.isfinite(block).all(axis=1))])
            raise InputError(f"scores must be finite; those of user {at} are not")
        with np.errstate(over="ignore"):
            block /= self._gamma
        _check_largest(max(block.max(), -block.min()))
        return block

    def compute_pairs(self, rows: Rows, items: Rows) -> NDArray[np.float64]:
        values = np.empty(len(rows))
        order = np.argsort(rows, kind="stable")
        users, begins = np.unique(rows[order], return_index=True)
        for user, pairs in zip(users, np.split(order, begins)[1:], strict=True):
            values[pairs] = self.compute_double(np.array([user]))[0, items[pairs]]
        return values


def _check_largest(largest: float) -> None:
    if not largest <= _LARGEST:
        raise InputError(f"scores are too large: over gamma they may be {largest:.3g}, above {_LARGEST:g}")

"""Scores over γ, computed in blocks of users.

Scores are `Factors`, or a function that scores a block of users. Both give a block in single precision where that is
accurate enough, and in double precision elsewhere.
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
"""Row numbers of users."""
ScoreFunction = Callable[[Rows], Any]
"""A function from row numbers of users to their scores: one row for each of them, one column for each item."""

# Rounding in a product of factors grows with their lengths, not with the score: 2.4e-8·‖u‖·‖v‖ is common, five times
# that has been seen.
_MAX_SINGLE_BOUND = 48.0
_MAX_SCORE = 1e12  # the plan is e to the power of S/γ: beyond, double precision has lost its digits
_MAX_NUMBERS = 1 << 22  # factors of pairs at a time: 32 MB in double precision
PARTS = 12
"""Number of parts in which a block is taken into double precision, which needs several copies of eight bytes."""


class ScaledScores(Protocol):
    """Scores over γ of users × items."""

    shape: tuple[int, int]
    """Numbers of users and items."""
    order: Rows
    """All users. Those that are likely to need double precision come first, so that they share blocks."""
    n_double: int
    """Number of users at the start of `order` that need double precision."""

    def compute_single(self, rows: Rows, out: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """Compute a block in single precision.

        Parameters
        ----------
        rows : array of int
            Row numbers of the users.
        out : array of float32
            Buffer with at least as many rows as there are users, and one column for each item.

        Returns
        -------
        array of float32, users × items, or None
            The first rows of `out`; None if the block needs double precision.
        """

    def compute_double(self, rows: Rows) -> NDArray[np.float64]:
        """Compute a block in double precision.

        Parameters
        ----------
        rows : array of int
            Row numbers of the users.

        Returns
        -------
        array of float64, users × items
            A new array, which the caller may overwrite.
        """

    def compute_pairs(self, rows: Rows, items: Rows) -> NDArray[np.float64]:
        """Compute scores of single pairs in double precision.

        Parameters
        ----------
        rows, items : array of int
            Row and column numbers, of equal length.

        Returns
        -------
        array of float64
        """


def scale_scores(
    scores: Factors | ScoreFunction, gamma: float, marginals: Marginals, *, in_double: bool = False
) -> ScaledScores:
    """Divide scores by γ, and check that they are for the users and items of the marginals.

    Parameters
    ----------
    scores : Factors or callable
        Factors, or a function from row numbers to a block of scores.
    gamma : float
        γ, above 0.
    marginals : Marginals
        The marginals.
    in_double : bool, default False
        Compute all blocks in double precision.

    Returns
    -------
    ScaledScores

    Raises
    ------
    InputError
        If an argument is invalid.
    """
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
    """Split row numbers into parts of about equal size.

    Parameters
    ----------
    rows : array of int
        Row numbers.
    parts : int, default 12
        Number of parts; fewer if there are fewer rows.

    Returns
    -------
    list of array
    """
    return np.array_split(rows, max(1, min(parts, len(rows))))


class ScaledFactors:
    """Scores over γ of factors, see `ScaledScores`.

    Parameters
    ----------
    factors : Factors
        The factors.
    gamma : float
        γ, above 0.
    in_double : bool, default False
        Compute all blocks in double precision.

    Attributes
    ----------
    score_bound : array of float
        Upper bound of |S/γ| for each user: the product of lengths. Rounding grows with it.
    """

    def __init__(self, factors: Factors, gamma: float, *, in_double: bool = False) -> None:
        self.shape = factors.shape
        self._factors, self._gamma = factors, gamma
        self._is_sigmoid = factors.link == "sigmoid"
        # The bias is one more factor, which is 1 for all users.
        items = factors.items
        if factors.item_bias is not None:
            items = np.column_stack([items, factors.item_bias])
        # Each factor of the items is divided by a power of two so that none is above 1, and the users' factor is
        # multiplied by it. That is exact, and nothing but a large score can overflow.
        largest = np.maximum(items.max(axis=0), -items.min(axis=0)).astype(np.float64)
        self._is_used = largest > 0  # a factor that is 0 for all items must not make the users' overflow
        _, self._exponent = np.frexp(largest)
        if items.dtype == np.float32:  # double precision holds its powers of two, so one multiplication is enough
            self._items = items * np.ldexp(1.0, -self._exponent)
        else:
            self._items = np.ldexp(items.astype(np.float64), -self._exponent)
        self._single_items = np.ascontiguousarray(self._items.T, dtype=np.float32)  # a little faster than a view
        longest = np.sqrt(np.einsum("ij,ij->i", self._items, self._items).max())
        parts = split_into_parts(np.arange(self.shape[0]), 64)
        with np.errstate(over="ignore"):
            bound = np.concatenate([longest * np.linalg.norm(self._scale_users(part), axis=1) for part in parts])
        _check_largest(bound.max())
        if self._is_sigmoid:
            _check_largest(1 / gamma)
            bound /= 4 * gamma  # the slope of the logistic function is at most ¼
            in_double = in_double or 1 / gamma > cpu.MAX_SCORE
        self.score_bound = bound
        self.order = np.argsort(-bound, kind="stable")
        self.n_double = self.shape[0] if in_double else int((bound > _MAX_SINGLE_BOUND).sum())
        self._needs_double = np.zeros(self.shape[0], dtype=bool)
        self._needs_double[self.order[: self.n_double]] = True

    # ── for a GPU, which multiplies by itself: S/γ = link(users·itemsᵀ + bias) ───────────────────────

    @property
    def user_factors(self) -> NDArray[Any]:
        """Users' factors as they were given; multiplied by `user_scale` they are `scaled_users`."""
        return self._factors.users

    @property
    def user_scale(self) -> NDArray[np.float64]:
        """Scale of each of the users' factors; not finite if it takes more than one multiplication."""
        with np.errstate(over="ignore"):
            power = np.ldexp(1.0 if self._is_sigmoid else 1 / self._gamma, self._exponent)
            return np.where(self._is_used, power, 0.0)[: self._factors.users.shape[1]]

    def scaled_users(self, rows: Rows) -> NDArray[np.float64]:
        """Return some users' factors, divided by γ unless there is a link.

        Parameters
        ----------
        rows : array of int
            Row numbers of the users.

        Returns
        -------
        array of float64, users × width
        """
        return self._scale_users(rows)[:, : self._factors.users.shape[1]]

    @property
    def scaled_items(self) -> NDArray[np.float64]:
        """Items' factors, each at most 1."""
        return np.ascontiguousarray(self._items[:, : self._factors.users.shape[1]])

    @property
    def scaled_bias(self) -> NDArray[np.float64]:
        """Items' biases, divided by γ unless there is a link."""
        bias = np.zeros(self.shape[1]) if self._factors.item_bias is None else self._factors.item_bias.astype(float)
        return bias if self._is_sigmoid else bias / self._gamma

    @property
    def link_scale(self) -> float:
        """The factor 1/γ of the logistic function, or 0 if there is no link."""
        return 1 / self._gamma if self._is_sigmoid else 0.0

    # ── blocks ──────────────────────────────────────────────────────────────────────────────────────

    def compute_single(self, rows: Rows, out: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """Compute a block in single precision, see `ScaledScores`."""
        if self._needs_double[rows].any():
            return None
        block = out[: len(rows)]
        np.matmul(self._scale_users(rows).astype(np.float32), self._single_items, out=block)
        if self._is_sigmoid:
            cpu.apply_logistic(block.reshape(-1), np.float32(1 / self._gamma))
        return block

    def compute_double(self, rows: Rows) -> NDArray[np.float64]:
        """Compute a block in double precision, see `ScaledScores`."""
        block: NDArray[np.float64] = self._scale_users(rows) @ self._items.T
        return self._apply_link(block)

    def compute_pairs(self, rows: Rows, items: Rows) -> NDArray[np.float64]:
        """Compute scores of single pairs, see `ScaledScores`."""
        values = np.empty(len(rows))
        step = max(1, _MAX_NUMBERS // max(1, self._items.shape[1]))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            values[part] = np.einsum("ij,ij->i", self._scale_users(rows[part]), self._items[items[part]])
        return self._apply_link(values)

    def _scale_users(self, rows: Rows) -> NDArray[np.float64]:
        """Return users' factors over γ, times the items' powers of two; with a link, γ is applied after it."""
        users = self._factors.users[rows].astype(np.float64)
        if self._factors.item_bias is not None:
            users = np.column_stack([users, np.ones(len(users))])
        if not self._is_used.all():
            users *= self._is_used
        if self._is_sigmoid:
            return np.ldexp(users, self._exponent)
        # In two steps: γ alone, or the items' power alone, may be more than double precision holds.
        mantissa, exponent = np.frexp(self._gamma)
        scaled: NDArray[np.float64] = np.ldexp(users / mantissa, self._exponent - exponent)
        return scaled

    def _apply_link(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        if self._is_sigmoid:
            np.negative(values, out=values)
            np.exp(np.minimum(values, 700.0, out=values), out=values)
            values += 1
            np.divide(1 / self._gamma, values, out=values)
        return values


class _ScaledFunction:
    """Scores over γ of a function, see `ScaledScores`."""

    def __init__(self, function: ScoreFunction, gamma: float, shape: tuple[int, int], *, in_double: bool) -> None:
        self.shape = shape
        self.order = np.arange(shape[0])
        self.n_double = shape[0] if in_double else 0
        self._function, self._gamma = function, gamma

    def compute_single(self, rows: Rows, out: NDArray[np.float32]) -> NDArray[np.float32] | None:
        if self.n_double:
            return None
        for part in split_into_parts(np.arange(len(rows))):
            block = self.compute_double(rows[part])
            if max(block.max(), -block.min()) > cpu.MAX_SCORE:
                return None
            out[part] = block
        return out[: len(rows)]

    def compute_double(self, rows: Rows) -> NDArray[np.float64]:
        block = check_array("the result of scores", self._function(rows.copy())).astype(np.float64)
        if block.shape != (len(rows), self.shape[1]):
            raise InputError(
                f"scores must return {len(rows)} × {self.shape[1]} numbers for {len(rows)} users; got {block.shape}"
            )
        if not np.isfinite(block).all():
            user = int(rows[np.argmin(np.isfinite(block).all(axis=1))])
            raise InputError(f"scores must be finite; those of user {user} are not")
        with np.errstate(over="ignore"):
            block /= self._gamma
        _check_largest(max(block.max(), -block.min()))
        return block

    def compute_pairs(self, rows: Rows, items: Rows) -> NDArray[np.float64]:
        values = np.empty(len(rows))
        order = np.argsort(rows, kind="stable")
        users, starts = np.unique(rows[order], return_index=True)
        for user, pairs in zip(users, np.split(order, starts)[1:], strict=True):
            values[pairs] = self.compute_double(np.array([user]))[0, items[pairs]]
        return values


def _check_largest(largest: float) -> None:
    if not largest <= _MAX_SCORE:
        raise InputError(
            f"scores over gamma must be at most {_MAX_SCORE:g}; they may be {largest:.3g}. "
            "Use a larger gamma or scale the scores"
        )

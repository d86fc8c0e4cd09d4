"""Checks of what callers give to the scoring methods of a model, before compiled code reads it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from prorec._core.checks import check_array
from prorec._core.errors import InputError
from prorec.interactions.pairs import check_compressed

if TYPE_CHECKING:
    from prorec.models.model import Model


def check_arguments(cls: type[Model]) -> None:
    """Let the scoring methods that a class defines check their argument.

    Parameters
    ----------
    cls : type
        A class of models.
    """
    for name, with_check in _DECORATORS.items():
        if name in vars(cls):
            setattr(cls, name, with_check(vars(cls)[name]))


def _with_checked_rows(method: Callable[[Model, Any], Any]) -> Callable[[Model, Any], Any]:
    @wraps(method)
    def checked(self: Model, rows: Any) -> Any:
        return method(self, _check_rows(self, rows))

    return checked


def _with_checked_matrix(method: Callable[[Model, Any], Any]) -> Callable[[Model, Any], Any]:
    @wraps(method)
    def checked(self: Model, matrix: Any) -> Any:
        return method(self, _check_weights(self, matrix))

    return checked


def _check_rows(model: Model, rows: Any) -> NDArray[Any]:
    """Return row numbers of fitted users, or raise InputError."""
    model._check_fitted()
    n_users = model.interactions_.n_users
    positions = check_array("rows", rows)
    if positions.ndim != 1 or (len(positions) and positions.dtype.kind not in "iu"):
        raise InputError(
            f"rows must be whole numbers in one dimension; got {positions.dtype} of shape {positions.shape}"
        )
    if len(positions) and not (positions.min() >= 0 and positions.max() < n_users):
        outside = positions[(positions < 0) | (positions >= n_users)][0]
        raise InputError(
            f"rows must be from 0 to {n_users - 1}, the rows of fitted users; one is {outside}. "
            "interactions_.user_positions(ids) returns those of ids"
        )
    return positions if len(positions) else positions.astype(np.intp)


def _check_weights(model: Model, matrix: Any) -> Any:
    """Return rows of weights, or raise InputError."""
    if not issparse(matrix) or matrix.format != "csr" or matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise InputError(f"matrix must be a csr_array of real numbers; got {type(matrix).__name__}")
    check_compressed(matrix)
    n_items = model.interactions_.n_items if hasattr(model, "interactions_") else matrix.shape[1]
    if matrix.shape[1] != n_items:
        raise InputError(f"matrix must have a column for each of the {n_items:,} items; got {matrix.shape[1]:,}")
    if not (np.isfinite(matrix.data).all() and matrix.data.min(initial=0) >= 0):
        raise InputError("matrix must have weights that are finite and not negative; make it again without others")
    return matrix


_DECORATORS = {
    "score_known_users": _with_checked_rows,
    "score_new_users": _with_checked_matrix,
    "encode_users": _with_checked_matrix,
}

"""Factors: the scores of a model as two thin matrices, which are never multiplied out as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prorec._core.checks import check_array, check_choice
from prorec._core.errors import InputError

Link = Literal["identity", "sigmoid"]
FloatArray = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False, repr=False)
class Factors:
    """Scores S = link(U·Vᵀ + b) of users × items.

    Factor models have such scores by nature. Networks have them because their last layer is linear: the hidden state,
    the decoder's weights and the decoder's bias are U, V and b, and the link is the output function (G_y of Eq. 3).

    The arrays are not copied. A transport plan reads them again, so do not change them while a plan is in use.

    Examples
    --------
    >>> Factors([[1.0, 0.0], [0.0, 2.0]], [[1.0, 1.0], [0.5, 0.0], [0.0, 3.0]])
    Factors(2 users × 3 items, width 2)
    """

    users: FloatArray
    """U, users × width; in single precision, or in double if it is given in double."""
    items: FloatArray
    """V, items × width."""
    item_bias: FloatArray | None = None
    """b, one number for each item, or None."""
    link: Link = "identity"
    """The function that turns U·Vᵀ + b into scores: `identity` or `sigmoid`."""

    def __post_init__(self) -> None:
        users, items = _check_finite("users", self.users, 2), _check_finite("items", self.items, 2)
        if users.shape[1] != items.shape[1]:
            raise InputError(
                f"users and items must have factors of one width; users is {users.shape[0]} × {users.shape[1]}, "
                f"items {items.shape[0]} × {items.shape[1]}"
            )
        object.__setattr__(self, "users", users)
        object.__setattr__(self, "items", items)
        if self.item_bias is not None:
            bias = _check_finite("item_bias", self.item_bias, 1)
            if len(bias) != len(items):
                raise InputError(f"item_bias must have one number for each of {len(items)} items; got {len(bias)}")
            object.__setattr__(self, "item_bias", bias)
        check_choice("link", self.link, ("identity", "sigmoid"))

    def __repr__(self) -> str:
        extra = ", with item bias" if self.item_bias is not None else ""
        extra += f", {self.link} link" if self.link != "identity" else ""
        return f"Factors({len(self.users):,} users × {len(self.items):,} items, width {self.users.shape[1]}{extra})"

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of users and items."""
        return len(self.users), len(self.items)


def _check_finite(name: str, values: ArrayLike, n_dimensions: int) -> FloatArray:
    """Check an array of finite numbers, and return it in single precision unless it is in double."""
    array = check_array(name, values)
    if array.dtype != np.float64:
        array = array.astype(np.float32, copy=False)
    if array.ndim != n_dimensions:
        raise InputError(f"{name} must have {n_dimensions} dimension{'s'[: n_dimensions - 1]}; got {array.ndim}")
    if not len(array):
        raise InputError(f"{name} must have at least one row; got shape {array.shape}")
    if not np.isfinite(array).all():
        index = np.unravel_index(int(np.argmin(np.isfinite(array))), array.shape)
        raise InputError(f"{name} must be finite; {name}[{', '.join(map(str, index))}] is {array[index]}")
    return array

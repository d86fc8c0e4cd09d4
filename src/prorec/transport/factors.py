"""What a model knows, in the one form that everything after it understands."""

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
    """Scores S = link(U·Vᵀ + b), users × items, never multiplied out.

    Factor models have them by nature; networks have them because their last layer is linear: hidden state, decoder
    weights and decoder bias are U, V and b, and the link turns the product into what the network answers with (the
    paper's G_y).

    The arrays are not copied: what is made of them (a transport plan, say) comes back to them, so leave them alone
    as long as that is in use.

    >>> Factors([[1.0, 0.0], [0.0, 2.0]], [[1.0, 1.0], [0.5, 0.0], [0.0, 3.0]])
    Factors(2 users × 3 items, width 2)
    """

    users: FloatArray
    """U, users × width."""
    items: FloatArray
    """V, items × width."""
    item_bias: FloatArray | None = None
    """b, one number for each item, or None."""
    link: Link = "identity"
    """What turns U·Vᵀ + b into scores: `identity` or `sigmoid`."""

    def __post_init__(self) -> None:
        users, items = _finite("users", self.users, 2), _finite("items", self.items, 2)
        if users.shape[1] != items.shape[1]:
            raise InputError(
                f"users and items must have factors of one width; users is {users.shape[0]} × {users.shape[1]}, "
                f"items {items.shape[0]} × {items.shape[1]}"
            )
        object.__setattr__(self, "users", users)
        object.__setattr__(self, "items", items)
        if self.item_bias is not None:
            bias = _finite("item_bias", self.item_bias, 1)
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
        """Users, items."""
        return len(self.users), len(self.items)


def _finite(name: str, given: ArrayLike, dimensions: int) -> FloatArray:
    """The array in single precision, or in double where it came in double; every number in it finite."""
    array = check_array(name, given)
    if array.dtype != np.float64:
        array = array.astype(np.float32, copy=False)
    if array.ndim != dimensions:
        raise InputError(f"{name} must have {dimensions} dimension{'s'[: dimensions - 1]}; got {array.ndim}")
    if not len(array):
        raise InputError(f"{name} must have at least one row; got shape {array.shape}")
    if not np.isfinite(array).all():
        place = np.unravel_index(int(np.argmin(np.isfinite(array))), array.shape)
        raise InputError(f"{name} must be finite; {name}[{', '.join(map(str, place))}] is {array[place]}")
    return array

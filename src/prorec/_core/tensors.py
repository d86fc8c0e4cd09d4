"""Conversion of numpy arrays to PyTorch tensors. Import this module only where PyTorch is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


def to_tensor(array: NDArray[Any], device: torch.device) -> torch.Tensor:
    """Return an array as a tensor that must not be written to.

    Parameters
    ----------
    array : ndarray
        Any array of numbers, also a read-only one such as those of `Interactions`.
    device : torch.device
        Where the tensor is needed.

    Returns
    -------
    torch.Tensor
        On the CPU it shares the array's memory.
    """
    return torch.from_numpy(np.asarray(_WritableView(np.ascontiguousarray(array)))).to(device)


class _WritableView:
    """An array's memory, declared writable: PyTorch warns of arrays that are read-only."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        interface = self._array.__array_interface__
        return {**interface, "data": (interface["data"][0], False)}

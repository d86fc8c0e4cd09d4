"""From numpy to PyTorch. Only what has PyTorch imports this."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


def to_tensor(array: NDArray[Any], device: torch.device) -> torch.Tensor:
    """An array on the device, there to be read only: on the CPU it is the array's own memory.

    PyTorch warns of arrays that cannot be written to, such as those of interactions; so it is given a view that could.
    """
    return torch.from_numpy(np.asarray(_Lent(np.ascontiguousarray(array)))).to(device)


class _Lent:
    """An array's memory, said to be writable."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        about = self._array.__array_interface__
        return {**about, "data": (about["data"][0], False)}

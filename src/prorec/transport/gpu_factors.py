"""Factors on a device, as the fused kernels take them: in two halves of 16 bits, in whole tiles."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from prorec._core.random import make_generator
from prorec._core.tensors import to_tensor

try:
    import triton
    from triton.tools.tensor_descriptor import TensorDescriptor
except ImportError:  # a build of PyTorch for a device that Triton does not know
    triton = None

HAS_TRITON = triton is not None and tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 6)
"""Whether there is one that these kernels were tried with."""
LOG2_E = 1.4426950408889634
SAMPLED = 1024
"""Items that thresholds are guessed from."""

_SEED = 20_220_418  # of the items that are sampled; any would do


class Users(NamedTuple):
    """Some users' factors on the device, over γ·log 2, in two halves: hi + lo."""

    hi: torch.Tensor
    lo: torch.Tensor


class Items(NamedTuple):
    """All items' factors in two halves, with the last tile filled up by what is no item: its bias is −∞."""

    hi: torch.Tensor
    lo: torch.Tensor
    bias: torch.Tensor
    """Over γ·log 2, or over log 2 where there is a link."""
    sampled: torch.Tensor
    """Some of them, drawn once."""
    n_items: int
    """How many there are."""


class Product(NamedTuple):
    """How the kernels come from factors to S/(γ·log 2)."""

    items: Items
    is_split: bool
    """Three products of halves rather than one."""
    scale: float
    """What the logistic function is multiplied by, 1/(γ·log 2); 0 where there is no link."""

    @property
    def constants(self) -> dict[str, Any]:
        """What kernels are compiled for."""
        return {"D": self.items.hi.shape[1], "SPLIT": self.is_split, "SIGMOID": self.scale > 0}


class Tiles(NamedTuple):
    """Users × items that one program has at once, and how it is compiled."""

    users: int
    items: int
    how: dict[str, int]


def items_on(factors: torch.Tensor, bias: torch.Tensor) -> Items:
    """Items for the fused kernels."""
    n_items, width = factors.shape
    n_padded = -(-n_items // 128) * 128  # whole tiles, of any of the kernels
    padded = torch.zeros((n_padded, max(16, 1 << max(0, width - 1).bit_length())), device=factors.device)
    padded[:n_items, :width] = factors.float()
    of_items = torch.full((n_padded,), -torch.inf, device=factors.device)
    of_items[:n_items] = (bias * LOG2_E).float()
    n_sampled = min(SAMPLED, 1 << (n_items.bit_length() - 1))
    chosen = np.full(max(n_sampled, 16), n_items, dtype=np.int64)  # what fills up a tile is no item here either
    chosen[:n_sampled] = make_generator(_SEED).choice(n_items, n_sampled, replace=False)
    return Items(*halves(padded), of_items, torch.from_numpy(chosen).to(factors.device), n_items)


class Copies:
    """Copies of rows from the host to the device, by way of two buffers that the driver can read while we go on."""

    def __init__(self, rows: int, source: NDArray[Any], device: torch.device) -> None:
        self._source, self._device = source, device
        self._is_gpu = device.type == "cuda"
        if self._is_gpu:
            kind = torch.float64 if source.dtype == np.float64 else torch.float32
            self._buffers = [torch.empty((rows, source.shape[1]), dtype=kind, pin_memory=True) for _ in range(2)]
            self._done: list[torch.cuda.Event | None] = [None, None]
            self._stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            self._turn = 0

    def begin(self, start: int, end: int) -> Any:
        """Set off."""
        rows = to_tensor(self._source[start:end], torch.device("cpu"))
        if not self._is_gpu:
            return rows
        turn = self._turn
        self._turn = 1 - turn
        before = self._done[turn]
        if before is not None:
            before.synchronize()
        buffer = self._buffers[turn][: end - start]
        buffer.copy_(rows)
        with torch.cuda.stream(self._stream):
            copy = buffer.to(self._device, non_blocking=True)
            done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            done.record(self._stream)
        self._done[turn] = done
        return copy, done

    def finish(self, under_way: Any) -> torch.Tensor:
        """The rows on the device, for work that is queued from now on."""
        if not self._is_gpu:
            rows: torch.Tensor = under_way.to(self._device)
            return rows
        copy: torch.Tensor = under_way[0]
        done = under_way[1]
        here = torch.cuda.current_stream(self._device)
        here.wait_event(done)
        copy.record_stream(here)
        return copy


def halves(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers as hi + lo, 16 bits each."""
    hi = values.half()
    return hi, (values - hi.float()).half()


def described(halves: tuple[torch.Tensor, torch.Tensor], rows: int) -> list[Any]:
    """Both as tensor descriptors, which are read so many rows at a time."""
    return [TensorDescriptor.from_tensor(each, [rows, each.shape[1]]) for each in halves]


def is_fit(device: torch.device) -> bool:
    """Whether a device can run the fused kernels: an NVIDIA GPU since Ampere."""
    is_nvidia = device.type == "cuda" and torch.version.hip is None
    return is_nvidia and torch.cuda.get_device_capability(device) >= (8, 0)


def interpreted() -> bool:
    """Whether Triton runs kernels in Python, for tests where there is no GPU."""
    return bool(triton.knobs.runtime.interpret)


def tiles_for(kernel: str, width: int) -> Tiles:
    """What was fastest on an H200, for factors of so many numbers."""
    how = {"num_warps": 4, "num_stages": 3 if width <= 64 else 2}
    return Tiles(64, 64 if kernel == "sums" or width <= 64 else 32, how)

"""Factors on a GPU in the form that the fused kernels take: two halves of 16 bits, padded to whole tiles.

Users come in chunks. Factors that fit in the device's memory stay there. Larger ones are copied from the host in every
pass, the next chunk while the present one is in use. A chunk that does not fit is tried again in smaller chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from prorec._core.device import free_memory
from prorec._core.errors import InputError
from prorec._core.random import make_generator
from prorec._core.tensors import to_tensor
from prorec.transport.scores import ScaledFactors

try:
    import triton
    from triton.tools.tensor_descriptor import TensorDescriptor
except ImportError:  # PyTorch for a device that Triton does not support
    triton = None

HAS_TRITON = triton is not None and tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 6)
"""Whether Triton is installed in a version that the kernels were tested with."""
LOG2_E = 1.4426950408889634
SAMPLED = 1024
"""Number of items in the sample from which thresholds are guessed."""

_SAMPLE_SEED = 20_220_418  # any seed is as good


class Users(NamedTuple):
    """Factors of some users over γ·log 2, in two halves: hi + lo."""

    hi: torch.Tensor
    lo: torch.Tensor


class Items(NamedTuple):
    """Factors of all items in two halves, padded to whole tiles."""

    hi: torch.Tensor
    lo: torch.Tensor
    bias: torch.Tensor
    """Bias over γ·log 2, or over log 2 with a link; −∞ for padding."""
    sampled: torch.Tensor
    """Numbers of the items in the sample."""
    n_items: int
    """Number of items without padding."""


class Product(NamedTuple):
    """Arguments with which the kernels compute S/(γ·log 2) from factors."""

    items: Items
    """The items' factors."""
    scale: float
    """Factor of the logistic function, 1/(γ·log 2); 0 if there is no link."""

    @property
    def constants(self) -> dict[str, Any]:
        """Compile-time constants of the kernels."""
        return {"D": self.items.hi.shape[1], "SIGMOID": self.scale > 0}


class Tiles(NamedTuple):
    """Size of the tiles of a kernel, and its compiler options."""

    users: int
    """Users of a tile."""
    items: int
    """Items of a tile."""
    options: dict[str, int]
    """Options of Triton's compiler."""


def make_items(factors: torch.Tensor, bias: torch.Tensor) -> Items:
    """Split the items' factors into halves, pad them, and draw the sample.

    Parameters
    ----------
    factors : tensor, items × width
        The items' factors, each at most 1.
    bias : tensor
        The items' biases.

    Returns
    -------
    Items
    """
    n_items, width = factors.shape
    n_padded = -(-n_items // 128) * 128  # whole tiles of any of the kernels
    padded = torch.zeros((n_padded, max(16, 1 << max(0, width - 1).bit_length())), device=factors.device)
    padded[:n_items, :width] = factors.float()
    padded_bias = torch.full((n_padded,), -torch.inf, device=factors.device)
    padded_bias[:n_items] = (bias * LOG2_E).float()
    n_sampled = min(SAMPLED, 1 << (n_items.bit_length() - 1))
    sampled = np.full(max(n_sampled, 16), n_items, dtype=np.int64)  # the number of a padding row fills up the tile
    sampled[:n_sampled] = make_generator(_SAMPLE_SEED).choice(n_items, n_sampled, replace=False)
    return Items(*split_halves(padded), padded_bias, torch.from_numpy(sampled).to(factors.device), n_items)


class UserChunks:
    """Users' factors on the device, chunk by chunk.

    Parameters
    ----------
    scores : ScaledFactors
        Scores over γ.
    device : torch.device
        The device.
    width : int
        Width of the padded factors; 0 if no factors are needed on the device.
    is_excluded : array of bool
        Users whose factors are replaced by 0, because they need double precision.
    n_rows : int
        Number of users in a chunk.

    Attributes
    ----------
    n_rows : int
        Number of users in a chunk, halved whenever the device runs out of memory.
    resident : Users or None
        All users' factors, if they fit on the device.
    """

    def __init__(
        self, scores: ScaledFactors, device: torch.device, width: int, is_excluded: NDArray[np.bool_], n_rows: int
    ) -> None:
        self._scores, self._device, self._width, self._is_excluded = scores, device, width, is_excluded
        self._scale = torch.from_numpy(scores.user_scale).to(device) * LOG2_E
        self._n_users = scores.shape[0]
        self.n_rows = n_rows
        self.resident: Users | None = None
        if width and 4 * self._n_users * width < free_memory(device) / 3:
            try:
                chunks = [users for _, _, users in self._stream(0)]
                self.resident = Users(*(torch.cat(each) for each in zip(*chunks, strict=True)))
            except torch.OutOfMemoryError:
                torch.cuda.empty_cache()

    def map(self, step: Callable[..., Any]) -> Iterator[tuple[int, int, Any]]:
        """Run a function on each chunk, in smaller chunks if the device runs out of memory.

        Parameters
        ----------
        step : callable
            Function of the first user of the chunk, the end of the chunk, and `Users` or None.

        Yields
        ------
        start, end : int
            First user of the chunk, and the end of the chunk.
        result
            Result of the function.

        Raises
        ------
        InputError
            If a single user does not fit on the device.
        """
        start = 0
        while start < self._n_users:
            try:
                for first, end, users in self._chunks(start):
                    yield first, end, step(first, end, users)
                    start = end
            except torch.OutOfMemoryError:
                if self.n_rows == 1:
                    n_items = self._scores.shape[1]
                    raise InputError(
                        f"one user with {n_items:,} items does not fit into the memory left on {self._device}; "
                        "use device='cpu'"
                    ) from None
                self.n_rows = -(-self.n_rows // 2)
                torch.cuda.empty_cache()

    def _chunks(self, start: int) -> Iterator[tuple[int, int, Users | None]]:
        if self._width and self.resident is None:
            yield from self._stream(start)
            return
        for first in range(start, self._n_users, self.n_rows):
            end = min(first + self.n_rows, self._n_users)
            yield first, end, None if self.resident is None else Users(*(each[first:end] for each in self.resident))

    def _stream(self, start: int) -> Iterator[tuple[int, int, Users]]:
        """Yield users from the host; each chunk is copied while the one before is in use."""
        pending: tuple[int, int, Any] | None = None
        copies = _HostCopies(self.n_rows, self._scores.user_factors, self._device)
        for first in [*range(start, self._n_users, self.n_rows), None]:
            current = pending
            if first is not None:
                end = min(first + self.n_rows, self._n_users)
                pending = first, end, copies.start(first, end)
            if current is not None:
                ready, end, copy = current
                yield ready, end, self._split_users(copies.finish(copy), self._is_excluded[ready:end])

    def _split_users(self, factors: torch.Tensor, is_excluded: NDArray[np.bool_]) -> Users:
        """Return users' factors over γ·log 2 in two halves."""
        scaled = (factors.double() * self._scale).float()
        scaled[to_tensor(is_excluded, self._device)] = 0
        padded = torch.zeros((len(factors), self._width), dtype=torch.float32, device=self._device)
        padded[:, : scaled.shape[1]] = scaled
        return Users(*split_halves(padded))


class _HostCopies:
    """Copies of rows from the host to the device by two pinned buffers, while the device works."""

    def __init__(self, n_rows: int, source: NDArray[Any], device: torch.device) -> None:
        self._source, self._device = source, device
        self._is_gpu = device.type == "cuda"
        if self._is_gpu:
            dtype = torch.float64 if source.dtype == np.float64 else torch.float32
            self._buffers = [torch.empty((n_rows, source.shape[1]), dtype=dtype, pin_memory=True) for _ in range(2)]
            self._done: list[torch.cuda.Event | None] = [None, None]
            self._stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            self._turn = 0

    def start(self, first: int, end: int) -> Any:
        """Start a copy of some rows."""
        rows = to_tensor(self._source[first:end], torch.device("cpu"))
        if not self._is_gpu:
            return rows
        turn = self._turn
        self._turn = 1 - turn
        before = self._done[turn]
        if before is not None:
            before.synchronize()
        buffer = self._buffers[turn][: end - first]
        buffer.copy_(rows)
        with torch.cuda.stream(self._stream):
            copy = buffer.to(self._device, non_blocking=True)
            done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            done.record(self._stream)
        self._done[turn] = done
        return copy, done

    def finish(self, started: Any) -> torch.Tensor:
        """Return the rows on the device, for work that is queued from now on."""
        if not self._is_gpu:
            rows: torch.Tensor = started.to(self._device)
            return rows
        copy: torch.Tensor = started[0]
        current_stream = torch.cuda.current_stream(self._device)
        current_stream.wait_event(started[1])
        copy.record_stream(current_stream)
        return copy


def split_halves(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Split numbers into hi + lo, 16 bits each.

    Parameters
    ----------
    values : tensor
        Numbers in single precision.

    Returns
    -------
    hi, lo : tensor
        The number in half precision, and its error.
    """
    hi = values.half()
    return hi, (values - hi.float()).half()


def make_descriptors(halves: tuple[torch.Tensor, torch.Tensor], n_rows: int) -> list[Any]:
    """Make tensor descriptors, by which the hardware copies tiles.

    Parameters
    ----------
    halves : tuple of tensor
        hi and lo.
    n_rows : int
        Rows of a tile.

    Returns
    -------
    list of TensorDescriptor
    """
    return [TensorDescriptor.from_tensor(each, [n_rows, each.shape[1]]) for each in halves]


def supports_kernels(device: torch.device) -> bool:
    """Return whether a device can run the fused kernels: an NVIDIA GPU since Ampere, or Triton's interpreter.

    Parameters
    ----------
    device : torch.device
        The device.

    Returns
    -------
    bool
    """
    if not HAS_TRITON:
        return False
    is_nvidia = device.type == "cuda" and torch.version.hip is None
    return is_interpreted() or (is_nvidia and torch.cuda.get_device_capability(device) >= (8, 0))


def is_interpreted() -> bool:
    """Return whether Triton runs kernels in Python, for tests without a GPU."""
    return bool(triton.knobs.runtime.interpret)


def choose_tiles(kernel: str, width: int) -> Tiles:
    """Return the tiles that were fastest on an H200.

    Parameters
    ----------
    kernel : {"compute_sums", "survey_rows"}
        The kernel.
    width : int
        Width of the factors.

    Returns
    -------
    Tiles
    """
    options = {"num_warps": 4, "num_stages": 3 if width <= 64 else 2}
    return Tiles(64, 64 if kernel == "compute_sums" or width <= 64 else 32, options)

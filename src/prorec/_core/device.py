"""Where arithmetic runs: on this package's own CPU kernels, or on a device of PyTorch's."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from prorec._core.checks import safe_repr
from prorec._core.errors import InputError

if TYPE_CHECKING:
    import torch

_MIN_PAIRS_FOR_GPU = 1e9
"""Pairs of a user and an item, below which the CPU is done before PyTorch and the GPU's driver are loaded."""


def resolve_device(name: Any, pairs: float) -> torch.device | None:
    """The device of PyTorch's to work on, or None where it is the CPU's own kernels.

    Parameters
    ----------
    name : `auto`, a GPU if there is one, PyTorch to use it with, and enough to do; `cpu`; or `cuda` (`cuda:1`, …)
    pairs : how many pairs of a user and an item there are to go over
    """
    if not isinstance(name, str):
        raise InputError(f"device must be 'auto', 'cpu' or 'cuda'; got {safe_repr(name)}")
    if name == "auto":
        return _usable("cuda") if pairs >= _MIN_PAIRS_FOR_GPU and _has_gpu() else None
    return None if name == "cpu" else _usable(name)


def _usable(name: str) -> torch.device:
    """A device that PyTorch can use here; anything else is refused."""
    try:
        import torch
    except ModuleNotFoundError:
        raise InputError(
            f"device {name!r} needs PyTorch, which is not installed: pip install 'prorec[torch]'"
        ) from None
    except (ImportError, OSError) as error:
        raise InputError(f"device {name!r} needs PyTorch, which cannot be loaded: {error}") from None
    try:
        device = torch.device(name)
        float(torch.ones(1, device=device))
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        problem = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"device must be 'auto', 'cpu' or 'cuda'; {name!r} cannot be used: {problem}") from None
    return device


def free_memory(device: torch.device) -> float:
    """How many bytes can be had on a GPU; elsewhere nobody counts."""
    import torch

    if device.type != "cuda":
        return float("inf")
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return float(torch.cuda.mem_get_info(device)[0] + kept)


@contextmanager
def full_precision_matmul() -> Iterator[None]:
    """Within this, products of single precision are in single precision, whatever training scripts have asked for."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def explain_out_of_memory(device: torch.device | None, what: str) -> Iterator[None]:
    """Turn a lack of memory on the device, where smaller blocks don't help, into words."""
    if device is None:
        yield
        return
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        problem = str(error).splitlines()[0] if str(error) else "out of memory"
        raise InputError(f"{what} does not fit on {device} (device='cpu' does without it): {problem}") from None


@cache
def _has_gpu() -> bool:
    """Whether there is a GPU that PyTorch can use; PyTorch, which takes seconds to load, is only asked if it may be."""
    try:
        if find_spec("torch") is None:
            return False
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        import torch

        return bool(torch.cuda.is_available())
    except (OSError, ImportError, ValueError, RuntimeError):  # no driver, or a PyTorch that cannot be loaded
        return False

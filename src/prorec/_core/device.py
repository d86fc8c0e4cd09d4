"""Choice of the device that arithmetic runs on: prorec's own CPU kernels, or a device of PyTorch."""

from __future__ import annotations

import ctypes
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from prorec._core.checks import safe_repr
from prorec._core.errors import InputError, MemoryLimitError, MissingExtraError
from prorec._core.versions import advise_install

if TYPE_CHECKING:
    import torch

_log = logging.getLogger(__name__)

_MIN_PAIRS_FOR_GPU = 1e9
"""Number of user–item pairs below which the CPU finishes before PyTorch and the GPU's driver are loaded."""


def resolve_device(name: Any, pairs: float) -> torch.device | None:
    """Return the PyTorch device to work on, or None for the CPU kernels.

    Parameters
    ----------
    name : str
        "cpu", a name of PyTorch such as "cuda" or "cuda:1", or "auto": a GPU if there is one, PyTorch is installed
        and the work is large enough.
    pairs : float
        Number of user–item pairs that the work goes over.

    Returns
    -------
    torch.device or None

    Raises
    ------
    InputError
        If the device cannot be used here.
    MissingExtraError
        If the device needs PyTorch, and PyTorch is missing or cannot be loaded.
    """
    if not isinstance(name, str):
        raise InputError(f"device must be 'auto', 'cpu' or 'cuda'; got {safe_repr(name)}")
    if name == "auto":
        if pairs < _MIN_PAIRS_FOR_GPU or not _has_gpu():
            return None
        _log.info("using a GPU for %.2g user–item pairs", pairs)
        return _open_device("cuda")
    return None if name == "cpu" else _open_device(name)


def _open_device(name: str) -> torch.device:
    """Return a PyTorch device after a first computation on it."""
    try:
        import torch
    except ModuleNotFoundError:
        raise MissingExtraError(
            f"device {safe_repr(name)} needs PyTorch, which is not installed: {advise_install('torch')}"
        ) from None
    except (ImportError, OSError) as error:
        raise MissingExtraError(f"device {safe_repr(name)} needs PyTorch, which cannot be loaded: {error}") from None
    try:
        device = torch.device(name)
        float(torch.ones(1, device=device))
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        problem = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"device must be 'auto', 'cpu' or 'cuda'; {safe_repr(name)} cannot be used: {problem}"
        ) from None
    return device


def free_memory(device: torch.device) -> float:
    """Return the number of free bytes on a device.

    Parameters
    ----------
    device : torch.device
        Any device of PyTorch.

    Returns
    -------
    float
        Free bytes of a GPU, with those that PyTorch holds in reserve; infinity for other devices.
    """
    import torch

    if device.type != "cuda":
        return float("inf")
    reserve = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return float(torch.cuda.mem_get_info(device)[0] + reserve)


@contextmanager
def full_precision_matmul() -> Iterator[None]:
    """Make PyTorch multiply float32 matrices in full float32 precision inside a `with` block.

    A training script may have allowed a lower precision for the whole process; its setting returns after the block.
    """
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def explain_out_of_memory(device: torch.device | None, subject: str) -> Iterator[None]:
    """Turn PyTorch's out-of-memory error inside a `with` block into a `MemoryLimitError` with a remedy.

    Parameters
    ----------
    device : torch.device or None
        Device that the block works on; None for the CPU kernels, whose errors pass unchanged.
    subject : str
        What did not fit, for the message.

    Raises
    ------
    MemoryLimitError
        If the device runs out of memory.
    """
    if device is None:
        yield
        return
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        problem = str(error).splitlines()[0] if str(error) else "out of memory"
        raise MemoryLimitError(
            f"{subject} does not fit on {device}; pass device='cpu' to use the CPU: {problem}"
        ) from None


@cache
def _has_gpu() -> bool:
    """Return whether PyTorch can use a GPU; look for a driver first, because PyTorch takes seconds to load."""
    try:
        if find_spec("torch") is None:
            return False
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        import torch

        return bool(torch.cuda.is_available())
    except (OSError, ImportError, ValueError, RuntimeError):  # no driver, or a PyTorch that cannot be loaded
        return False

"""Fixtures for tests of models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prorec._core.device import _has_gpu
from prorec.models import model as model_module

if TYPE_CHECKING:
    import torch


@pytest.fixture(params=["cpu", *(["cuda"] if _has_gpu() else [])])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """Run models on a device of PyTorch whatever their size, with short segments and small blocks.

    PyTorch's own CPU stands in for a GPU. `device="cpu"` of a model still means the CPU's own kernels.
    """
    import torch  # here, because the smoke tests run without it

    from prorec.models import _gpu_least_squares, _gpu_matrix, _gpu_top_k

    device = torch.device(request.param)
    monkeypatch.setattr(model_module, "resolve_device", lambda name, _: None if name == "cpu" else device)
    monkeypatch.setattr(_gpu_matrix, "_MAX_SEGMENT", 5)
    monkeypatch.setattr(_gpu_matrix, "_MAX_BLOCK", 200)
    monkeypatch.setattr(_gpu_matrix, "_PRODUCT_ROWS", 16)
    monkeypatch.setattr(_gpu_least_squares, "_MAX_ENTRIES", 100)
    monkeypatch.setattr(_gpu_top_k, "_MAX_BLOCK", 20_000)
    return device

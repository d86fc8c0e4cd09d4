"""Exceptions that callers can tell apart, and log messages."""

from __future__ import annotations

import builtins
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prorec
from prorec import DamagedFileError, InputError, MemoryLimitError, MissingExtraError, NotFittedError, ProrecError
from prorec._core.device import resolve_device
from prorec.models import EASE, NCE, SVD, VAE
from tests.models.helpers import clicks


def test_every_exception_has_the_common_base() -> None:
    kinds = (InputError, NotFittedError, MissingExtraError, MemoryLimitError, DamagedFileError, prorec.DownloadError)
    assert all(issubclass(kind, ProrecError) for kind in kinds)


def test_an_unfitted_model() -> None:
    with pytest.raises(NotFittedError, match="fit"):
        SVD().recommend([1], k=1)


def test_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def import_without_torch(name: str, *arguments: Any, **keywords: Any) -> Any:
        if name == "torch":
            raise ModuleNotFoundError(name)
        return original(name, *arguments, **keywords)

    original = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", import_without_torch)
    with pytest.raises(MissingExtraError, match=r"pip install 'torch"):
        resolve_device("cuda", 1.0)


def test_too_little_memory() -> None:
    with pytest.raises(MemoryLimitError, match="memory must be at least"):
        prorec.ProRec(NCE(rank=2), memory=10.0).fit(clicks())
    with pytest.raises(MemoryLimitError, match="100,000 items"):
        EASE().check_parameters((100_000, 100_000))


def test_a_damaged_file(tmp_path: Path) -> None:
    SVD(rank=2).fit(clicks()).save(tmp_path / "model")
    (arrays,) = (tmp_path / "model").glob("*.npz")
    arrays.write_bytes(arrays.read_bytes()[:100])
    with pytest.raises(DamagedFileError, match="damaged"):
        prorec.load(tmp_path / "model")


def test_a_continued_run_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = VAE(rank=2, hidden=None, epochs=2, batch_size=20)
    model.fit(clicks(), checkpoint=tmp_path)
    assert not caplog.messages
    with caplog.at_level(logging.INFO, logger="prorec"):
        again = model.fit(clicks(), checkpoint=tmp_path)
    assert caplog.messages == ["continuing from the checkpoint of epoch 2"]
    assert np.isfinite(again.history_[-1]["loss"])

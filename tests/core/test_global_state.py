"""Neither importing prorec nor fitting changes the state of the process: environment, global random generators."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import prorec


def state() -> dict[str, Any]:
    """Return the global state of the process as comparable values."""
    torch = pytest.importorskip("torch")
    _, keys, *position = np.random.get_state(legacy=True)  # noqa: NPY002 - the state that must not change
    return {
        # PyTorch sets the folder of its own cache when an optimizer is made.
        "environment": {name: value for name, value in os.environ.items() if not name.startswith("TORCH")},
        "random": random.getstate(),
        "numpy": (np.asarray(keys).tolist(), position),
        "torch": torch.get_rng_state().tolist(),
        "torch precision": torch.get_float32_matmul_precision(),
    }


@pytest.mark.parametrize(
    "estimator",
    [
        prorec.ProRec(prorec.models.NCE(rank=4), noise_method=prorec.NoiseFinder(folds=2)),
        prorec.models.SVD(rank=4),
        prorec.models.WRMF(rank=4),
        prorec.models.EASE(),
        prorec.models.SparseLinear(),
        prorec.models.BPR(rank=4, epochs=1),
        prorec.models.LightGCN(rank=4, epochs=1),
        prorec.models.CDAE(rank=4, epochs=1),
        prorec.models.VAE(rank=4, epochs=1),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_fit_leaves_the_global_state_alone(estimator: Any) -> None:
    clicks = prorec.make_cinema(60, 50, seed=1).interactions
    before = state()
    estimator.fit(clicks)
    after = state()
    assert [name for name, value in before.items() if after[name] != value] == []


def test_import_leaves_the_environment_alone() -> None:
    names = "import prorec.cli; from prorec import *"
    code = f"import os; before = dict(os.environ); {names}; assert dict(os.environ) == before"
    subprocess.run([sys.executable, "-c", code], check=True)

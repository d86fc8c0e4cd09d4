"""How probable noise is, by the plan alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

AT_RANDOM = 0.1
"""ε: the share of clicks that are taken to be random."""


def plan_probability(shares: NDArray[np.float32], n_items: int) -> NDArray[np.float32]:
    """ε/N / (ε/N + (1 − ε)·ρ) for clicks with shares ρ of their users' rows, with N items."""
    odds = (1 - AT_RANDOM) / AT_RANDOM * n_items * shares.astype(np.float64)
    return np.asarray(1 / (1 + odds), dtype=np.float32)

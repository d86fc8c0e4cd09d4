"""Chance, always from a seed."""

from __future__ import annotations

import numpy as np

from prorec.errors import whole


def seeded(seed: int) -> np.random.SeedSequence:
    """What all random numbers of a call come from; the same seed gives the same ones."""
    return np.random.SeedSequence(whole("seed", seed, 0))


def generator(seed: int) -> np.random.Generator:
    """A generator for the seed."""
    return np.random.default_rng(seeded(seed))

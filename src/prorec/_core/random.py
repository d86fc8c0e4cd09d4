"""Chance, always from a seed."""

from __future__ import annotations

import numpy as np

from prorec._core.checks import check_int


def seed_sequence(seed: int) -> np.random.SeedSequence:
    """What all random numbers of a call come from; the same seed gives the same ones."""
    return np.random.SeedSequence(check_int("seed", seed, 0))


def make_generator(seed: int) -> np.random.Generator:
    """A generator for the seed."""
    return np.random.default_rng(seed_sequence(seed))

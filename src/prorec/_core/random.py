"""Random generators, each from a seed; the global generators of numpy and Python are never used."""

from __future__ import annotations

import numpy as np

from prorec._core.checks import check_int


def seed_sequence(seed: int) -> np.random.SeedSequence:
    """Return a seed sequence, from which independent generators can be spawned.

    Parameters
    ----------
    seed : int
        A whole number of at least 0.

    Returns
    -------
    numpy.random.SeedSequence
    """
    return np.random.SeedSequence(check_int("seed", seed, 0))


def make_generator(seed: int) -> np.random.Generator:
    """Return a random generator.

    Parameters
    ----------
    seed : int
        A whole number of at least 0; equal seeds give equal numbers.

    Returns
    -------
    numpy.random.Generator
    """
    return np.random.default_rng(seed_sequence(seed))

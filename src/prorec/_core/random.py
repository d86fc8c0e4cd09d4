"""Random generators, each from a seed; global generators keep their state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def preserve_torch_state() -> Iterator[None]:
    """Restore the global random generators of PyTorch after a `with` block that seeds them.

    Some operations of PyTorch draw only from its global generators, so training has to seed these.
    """
    import torch

    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices=devices):
        yield

"""Weights to train a recommender with, from noise probabilities.

The weight 1 − p minimizes the expected loss of the interactions at hand. But a recommender has only a few interactions
of each user, and a wrong one misleads it more than a right one helps. So doubtful interactions should count less: the
weight is (1 − p)². On MovieLens, AMusic and AToy with three kinds of noise, powers of 1.5 to 3 gave back more of what
noise took than the power 1; a power of 4 was worse where histories are long. docs/recovery.md has the figures.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

POWER = 2.0
"""Power of the probability that an interaction is genuine."""


def compute_training_weights(noise_probability: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return (1 − p)², with the noise probability p.

    Parameters
    ----------
    noise_probability : NDArray of float32
        Noise probability of each interaction.

    Returns
    -------
    NDArray of float32

    Examples
    --------
    >>> compute_training_weights(np.array([0.0, 0.5, 1.0], dtype=np.float32))
    array([1.  , 0.25, 0.  ], dtype=float32)
    """
    return np.asarray((1 - noise_probability) ** np.float32(POWER), dtype=np.float32)

"""Weights to train a recommender with, from noise probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prorec.interactions import Interactions

_SHORT_HISTORY = 30
"""Interactions of a user in which a wrong one misleads a model about twice as much as a right one helps it."""


def find_typical_history(interactions: Interactions) -> float:
    """Return the number of interactions of the user of a typical interaction: the median over interactions.

    Parameters
    ----------
    interactions : Interactions

    Returns
    -------
    float

    Examples
    --------
    >>> import prorec
    >>> find_typical_history(prorec.load_dataset("cinema"))
    74.0
    """
    return float(np.median(interactions.activity[interactions.user_codes]))


def find_sharpness(typical_history: float) -> float:
    """Return the exponent of the weights, 1 + min(1, 30/typical history).

    The probability 1 − p minimizes the expected loss of the interactions at hand. But a model that is fitted to few
    interactions of each user is also misled by the chance with which some of the doubtful ones are genuine. In short
    histories it is better to count doubtful interactions less; in long histories such errors cancel.

    Parameters
    ----------
    typical_history : float
        Number of interactions of the user of a typical interaction.

    Returns
    -------
    float
        From 1 for long histories to 2 for short ones.
    """
    return 1 + min(1.0, _SHORT_HISTORY / typical_history)


def compute_training_weights(noise_probability: NDArray[np.float32], typical_history: float) -> NDArray[np.float32]:
    """Return (1 − p)^s, with the noise probability p and the sharpness s.

    Parameters
    ----------
    noise_probability : NDArray of float32
        Noise probability of each interaction.
    typical_history : float
        Number of interactions of the user of a typical interaction.

    Returns
    -------
    NDArray of float32

    Examples
    --------
    >>> p = np.array([0.0, 0.5, 1.0], dtype=np.float32)
    >>> compute_training_weights(p, 20), compute_training_weights(p, 3000).round(2)
    (array([1.  , 0.25, 0.  ], dtype=float32), array([1. , 0.5, 0. ], dtype=float32))
    """
    return np.asarray((1 - noise_probability) ** np.float32(find_sharpness(typical_history)), dtype=np.float32)

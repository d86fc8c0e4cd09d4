"""Leave-one-out features: co-occurrence and ridge scores of pairs, which need no folds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.random import make_generator
from prorec.noise.cooccurrence import N_COOCCURRENCE_FEATURES, compute_cooccurrence
from prorec.noise.density_ratio import FeatureMatrix
from prorec.noise.plan_ranks import Pairs
from prorec.noise.ridge_scores import MAX_SIZE, RIDGES, compute_ridge_scores


def count_leave_one_out_features(shape: tuple[int, int]) -> int:
    """Return the number of columns of `compute_leave_one_out_features` for a log of this shape."""
    return N_COOCCURRENCE_FEATURES + (len(RIDGES) if _has_ridge_scores(shape) else 0)


def compute_leave_one_out_features(
    reference: csr_array,
    histories: csr_array,
    pairs: Pairs,
    left_out: NDArray[np.integer],
    owners: NDArray[np.integer],
    seed: int,
) -> FeatureMatrix:
    """Compute co-occurrence features, and ridge scores if the log is small enough for them.

    Parameters
    ----------
    reference, histories, pairs, left_out, owners
        See `compute_cooccurrence`.
    seed : int
        Seed of the samples of users of very popular items.

    Returns
    -------
    array, pairs × features
    """
    arguments = reference, histories, pairs, left_out, owners
    features = compute_cooccurrence(*arguments, make_generator(seed))
    if not _has_ridge_scores(reference.shape):
        return features
    return np.column_stack([features, compute_ridge_scores(*arguments)])


def _has_ridge_scores(shape: tuple[int, int]) -> bool:
    return min(shape) <= MAX_SIZE

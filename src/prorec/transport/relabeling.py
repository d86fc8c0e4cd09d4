"""From matched shares to new weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit

from prorec._core.checks import check_float
from prorec._core.errors import InputError
from prorec.transport.thresholds import Matching, digest_pairs


def compute_label_probabilities(matching: Matching, beta: float) -> NDArray[np.float32]:
    """r_ij = 1 / (1 + e^(−β·(ρ_ij − ρ_iκ))) for each observed pair (Eq. 22)."""
    if not isinstance(matching, Matching):
        raise InputError(f"matching must be what plan.match answers; got {type(matching).__name__}")
    beta = check_float("beta", beta, 0)
    with np.errstate(over="ignore"):  # a β so large that only the sign is left
        scaled = beta * matching.margins.astype(np.float64)
    return np.asarray(expit(scaled), dtype=np.float32)


def relabel(
    weights: csr_array, matching: Matching, beta: float, lam: float, original: csr_array | None = None
) -> csr_array:
    """New weights of the observed pairs, X ← λX + (1 − λ)·R∘X (Eq. 23).

    Done again and again, that only ends at zero. With `original` = X₀ the last term is anchored, X ← λX +
    (1 − λ)·R∘X₀, and ends where X = R∘X₀.

    Parameters
    ----------
    weights : X, with an entry for each pair that was matched
    matching : what `plan.match` answered for those pairs
    beta : β, how steep the step from 0 to 1 around the threshold is
    lam : λ, how much of the present weights is kept
    original : X₀, the weights at the beginning
    """
    lam = check_float("lam", lam, 0, 1)
    if not isinstance(matching, Matching):
        raise InputError(f"matching must be what plan.match answers; got {type(matching).__name__}")
    _check_pairs("weights", weights, matching)
    anchor = weights
    if original is not None:
        _check_pairs("original", original, matching)
        anchor = original
    data = lam * weights.data + (1 - lam) * compute_label_probabilities(matching, beta) * anchor.data
    with np.errstate(over="ignore"):
        data = data.astype(np.float32)
    if not np.isfinite(data).all():
        raise InputError("weights must be finite, in single precision too")
    return csr_array((data, weights.indices.copy(), weights.indptr.copy()), shape=weights.shape)


def _check_pairs(name: str, matrix: Any, matching: Matching) -> None:
    if getattr(matrix, "format", "") != "csr" or matrix.dtype.kind not in "biuf":
        raise InputError(f"{name} must be a csr matrix of numbers; got {type(matrix).__name__}")
    if digest_pairs(matrix) != matching.pairs_digest:
        raise InputError(
            f"{name} must have the {len(matching.row_shares)} entries that were matched, in their order; "
            f"got {matrix.nnz} entries"
        )

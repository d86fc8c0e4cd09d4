"""Relabelling: new weights from row shares and thresholds (Eq. 22 and 23)."""

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
    """Compute r_ij = 1 / (1 + e^(−β·(ρ_ij − ρ_iκ))) for each observed pair (Eq. 22).

    Parameters
    ----------
    matching : Matching
        Result of `Plan.match`.
    beta : float
        β, the steepness of the step from 0 to 1 at the threshold; at least 0.

    Returns
    -------
    array of float
        r in [0, 1], in the order of the observed pairs; ½ at the threshold.

    Raises
    ------
    InputError
        If an argument is invalid.
    """
    if not isinstance(matching, Matching):
        raise InputError(f"matching must be a result of plan.match; got {type(matching).__name__}")
    beta = check_float("beta", beta, 0)
    with np.errstate(over="ignore"):  # a β so large that only the sign is left
        scaled = beta * matching.margins.astype(np.float64)
    return np.asarray(expit(scaled), dtype=np.float32)


def relabel(
    weights: csr_array, matching: Matching, beta: float, lam: float, original: csr_array | None = None
) -> csr_array:
    """Compute new weights of the observed pairs, X ← λX + (1 − λ)·R∘X (Eq. 23).

    Repeated, this rule ends at 0. With `original` = X₀ the rule is X ← λX + (1 − λ)·R∘X₀, which ends at X = R∘X₀.

    Parameters
    ----------
    weights : csr_array, users × items
        X, with one entry for each matched pair.
    matching : Matching
        Result of `Plan.match` for these pairs.
    beta : float
        β, the steepness of the step from 0 to 1 at the threshold; at least 0.
    lam : float
        λ in [0, 1], the share of the present weights that is kept.
    original : csr_array, optional
        X₀, the weights before the first round.

    Returns
    -------
    csr_array
        New weights, with the same entries in the same order.

    Raises
    ------
    InputError
        If an argument is invalid, or a matrix does not have the matched pairs.
    """
    lam = check_float("lam", lam, 0, 1)
    probabilities = compute_label_probabilities(matching, beta)
    _check_pairs("weights", weights, matching)
    if original is not None:
        _check_pairs("original", original, matching)
    relabeled = weights if original is None else original
    data = lam * weights.data + (1 - lam) * probabilities * relabeled.data
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

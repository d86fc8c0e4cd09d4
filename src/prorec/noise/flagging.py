"""Which interactions to flag: by false discovery rate, by budget, or by probability."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import check_float, check_int
from prorec._core.errors import InputError


def flag_interactions(
    probability: NDArray[np.float32],
    *,
    fdr: float | None = None,
    n: int | None = None,
    fraction: float | None = None,
    threshold: float | None = None,
) -> NDArray[np.bool_]:
    """The most suspicious interactions, as many as one rule allows; none is an answer, too.

    Parameters
    ----------
    probability : of noise, for each interaction
    fdr : so large a share of the flags may be wrong, by the probabilities: Σ(1 − p) over the flagged is at most `fdr`
        times their number
    n : so many at most
    fraction : so large a share of the interactions at most
    threshold : those with a larger probability

    Equals are not told apart: rather all of them are left alone.

    >>> flag_interactions(np.array([0.99, 0.5, 0.95, 0.1], dtype=np.float32), fdr=0.1)
    array([ True, False,  True, False])
    """
    rules = {"fdr": fdr, "n": n, "fraction": fraction, "threshold": threshold}
    given = [name for name, value in rules.items() if value is not None]
    if len(given) != 1:
        raise InputError(f"pass one of fdr, n, fraction and threshold; got {' and '.join(given) or 'none of them'}")
    if threshold is not None:
        return np.asarray(probability > check_float("threshold", threshold, 0, 1))
    order = np.argsort(-probability, kind="stable")
    if fdr is not None:
        check_fdr(fdr)
        wrong = np.cumsum(1 - probability[order].astype(np.float64)) / np.arange(1, len(order) + 1)
        most = int(np.searchsorted(wrong, fdr, "right"))  # which only ever rises, as probabilities fall
    elif fraction is not None:
        most = int(check_float("fraction", fraction, 0, 1) * len(order))
    else:
        most = min(check_int("n", n, 0), len(order))
    if most >= len(order):
        return np.ones(len(order), dtype=bool)
    return np.asarray(probability > probability[order[most]])


def check_fdr(fdr: float) -> None:
    """Refuse a share that is none."""
    if not 0 < check_float("fdr", fdr) < 1:
        raise InputError(f"fdr must be above 0 and below 1; got {fdr:g}")

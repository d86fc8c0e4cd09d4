"""Interactions that are left out of a fit, of extreme accounts and those marked as suspect, and scored afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.errors import InputError
from prorec.interactions import Interactions
from prorec.noise.later_interactions import score_left_out
from prorec.noise.marks import Marks

if TYPE_CHECKING:
    from prorec.noise.finder import NoiseFinder


def leave_out(
    log: Interactions,
    is_left_out: NDArray[np.bool_],
    is_extreme: NDArray[np.bool_],
    marks: Marks,
    n_needed: int,
) -> Interactions:
    """Return the other interactions of a log, with the same users and items.

    Parameters
    ----------
    log : Interactions
        All interactions.
    is_left_out : array of bool
        Whether each interaction is left out.
    is_extreme : array of bool
        Whether each user is an extreme account.
    marks : Marks
        Marks of the interactions.
    n_needed : int
        Smallest number of interactions that can be cross-fitted.

    Returns
    -------
    Interactions

    Raises
    ------
    InputError
        If too few are left.
    """
    if not is_left_out.any():
        return log
    kept = log.select(~is_left_out)
    if len(kept) < n_needed or kept.activity.max(initial=0) < 2:
        causes, remedies = [], []
        if n_extreme := int(is_extreme.sum()):
            causes.append(f"{n_extreme:,} of {log.n_users:,} accounts look like bots or tests")
            remedies.append("prorec.noise.find_issues(log) lists the accounts.")
        if n_suspect := int(marks.suspect.sum()):
            causes.append(f"{n_suspect:,} of {len(log):,} interactions are marked as suspect")
            remedies.append("Mark fewer interactions as suspect.")
        raise InputError(
            f"{' and '.join(causes)}, which leaves {len(kept):,} interactions, too few to cross-fit. "
            f"{' '.join(remedies)}"
        )
    return kept


def add_left_out(finder: NoiseFinder, is_left_out: NDArray[np.bool_]) -> None:
    """Score the interactions that were left out of a fit, and put them among the others.

    Parameters
    ----------
    finder : NoiseFinder
        A finder that is fitted to the other interactions; its results are extended in place.
    is_left_out : array of bool
        Whether each interaction of the log was left out.
    """
    scores = score_left_out(finder, is_left_out)

    def merge(own: NDArray[Any], others: NDArray[Any]) -> NDArray[Any]:
        values = np.empty(len(is_left_out), dtype=others.dtype)
        values[is_left_out], values[~is_left_out] = own, others
        return values

    finder.noise_probability_ = merge(scores.noise_probability, finder.noise_probability_)
    finder.percentile_rank_ = merge(scores.percentile_rank, finder.percentile_rank_)
    finder.noise_p_value_ = merge(np.ones(len(scores.basis), dtype=np.float32), finder.noise_p_value_)
    finder.basis_ = merge(scores.basis, finder.basis_)

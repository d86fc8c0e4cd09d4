"""Rules that flag the most suspicious interactions: by false discovery rate, by budget or by threshold."""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import check_float, check_int
from prorec._core.errors import InputError

_LARGER_FDRS = (0.1, 0.2, 0.3, 0.4, 0.5)


class FlagRule(TypedDict, total=False):
    """One of the rules of `flag_interactions`, by its name."""

    fdr: float
    """False discovery rate."""
    fraction: float
    """Maximum share of the interactions."""


def flag_interactions(
    noise_probability: NDArray[np.float32],
    *,
    fdr: float | None = None,
    n: int | None = None,
    fraction: float | None = None,
    threshold: float | None = None,
) -> NDArray[np.bool_]:
    """Flag the interactions with the highest noise probability, by exactly one rule.

    Parameters
    ----------
    noise_probability : array
        Noise probability of each interaction.
    fdr : float, optional
        False discovery rate, above 0 and below 1: the expected share of wrong flags. The largest set of the most
        suspicious interactions is flagged for which Σ(1 − p) is at most `fdr` times its size.
    n : int, optional
        Maximum number of flags.
    fraction : float, optional
        Maximum number of flags, as a share of all interactions.
    threshold : float, optional
        Interactions with a higher noise probability are flagged.

    Returns
    -------
    array of bool
        Whether each interaction is flagged. Interactions tied at the cut-off are not flagged, so there may be fewer
        flags than a budget allows, or none.

    Raises
    ------
    InputError
        If not exactly one rule is passed, or its value is out of range.

    Examples
    --------
    >>> flag_interactions(np.array([0.99, 0.5, 0.95, 0.1], dtype=np.float32), fdr=0.1)
    array([ True, False,  True, False])
    """
    rules = {"fdr": fdr, "n": n, "fraction": fraction, "threshold": threshold}
    passed = [name for name, value in rules.items() if value is not None]
    if len(passed) != 1:
        raise InputError(
            f"flags need exactly one of {', '.join(rules)}; got {' and '.join(passed) or 'none of them'}. "
            "For example, fdr=0.1 lets a tenth of the flags be wrong."
        )
    if threshold is not None:
        return np.asarray(noise_probability > check_float("threshold", threshold, 0, 1))
    ranked = np.sort(noise_probability)[::-1]
    if fdr is not None:
        check_fdr(fdr)
        n_wrong = np.cumsum(1 - ranked.astype(np.float64))
        n_flags = int(np.count_nonzero(keeps_fdr(np.arange(1, len(ranked) + 1), n_wrong, fdr)))
    elif fraction is not None:
        n_flags = int(check_float("fraction", fraction, 0, 1) * len(ranked))
    else:
        n_flags = check_int("n", n, 0)
    if n_flags >= len(ranked):
        return np.ones(len(ranked), dtype=bool)
    return np.asarray(noise_probability > ranked[n_flags])


def keeps_fdr(n_flags: Any, n_wrong: Any, fdr: float, low_ratio: float = 1.0) -> Any:
    """Return whether a number of flags keeps the false discovery rate.

    The expected rate never falls as less suspicious interactions are flagged, so all flags up to the last that keeps it
    are allowed.

    Parameters
    ----------
    n_flags : int or array
        Number of flagged interactions.
    n_wrong : float or array
        Expected number of wrong flags: the sum of 1 − noise probability over the flagged interactions.
    fdr : float
        Share of flags that may be wrong.
    low_ratio : float, default 1.0
        Factor that lowers noise probabilities to their lower bounds; see `NoiseRateEstimate.low_ratio`.

    Returns
    -------
    bool or array of bool
    """
    return 1 - low_ratio * (1 - n_wrong / n_flags) <= fdr


class LargerFdr(NamedTuple):
    """A false discovery rate at which something is flagged."""

    fdr: float
    """False discovery rate."""
    n_flags: int
    """Number of interactions that it flags."""


def find_larger_fdr(noise_probability: NDArray[np.float32], fdr: float) -> LargerFdr | None:
    """Find the next larger false discovery rate at which interactions are flagged.

    Parameters
    ----------
    noise_probability : array
        Noise probability of each interaction, lowered to its lower bound; see `NoiseRateEstimate.low_ratio`.
    fdr : float
        False discovery rate at which nothing is flagged.

    Returns
    -------
    LargerFdr or None
        None if nothing is flagged even if half of the flags may be wrong.

    Examples
    --------
    >>> find_larger_fdr(np.array([0.75, 0.2], dtype=np.float32), fdr=0.1)
    LargerFdr(fdr=0.3, n_flags=1)
    """
    for larger in _LARGER_FDRS:
        if larger > fdr and (n_flags := int(flag_interactions(noise_probability, fdr=larger).sum())):
            return LargerFdr(larger, n_flags)
    return None


def check_fdr(fdr: float) -> None:
    """Raise InputError unless a false discovery rate is above 0 and below 1."""
    if not 0 < check_float("fdr", fdr) < 1:
        raise InputError(f"fdr must be above 0 and below 1; got {fdr:g}. It is the share of flags that may be wrong.")

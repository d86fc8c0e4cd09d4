"""Exact upper bound of the share of wrong flags, from a random sample of flags that a person looked at."""

from __future__ import annotations

from prorec._core.checks import check_float, check_int
from prorec._core.errors import InputError


def bound_wrong_share(n_checked: int, n_wrong: int, n_flagged: int | None = None, *, confidence: float = 0.95) -> float:
    """Return the upper bound of the share of wrong flags.

    The sample is drawn without replacement. Of N flags K are wrong, and the number of wrong flags X in a sample of n is
    hypergeometric. The bound is the largest K/N that the sample does not rule out: P(X ≤ x | N, K, n) > 1 − confidence.
    Without N it is the one-sided bound of Clopper and Pearson (1934), the limit for large N, which is never smaller.

    Parameters
    ----------
    n_checked : int
        n: number of flags in the random sample, all of them looked at.
    n_wrong : int
        x: number of these that are wrong.
    n_flagged : int, optional
        N: number of flags in all.
    confidence : float, default 0.95
        Probability that the bound is at least the true share; above 0 and below 1.

    Returns
    -------
    float
        1 if nothing was looked at.

    Raises
    ------
    InputError
        If a number is out of range.

    References
    ----------
    C. J. Clopper and E. S. Pearson. The use of confidence or fiducial limits illustrated in the case of the binomial.
    Biometrika 26(4), 1934.

    Examples
    --------
    >>> round(bound_wrong_share(29, 0), 3)
    0.098
    >>> bound_wrong_share(29, 0, n_flagged=40)
    0.05
    """
    check_int("n_checked", n_checked, 0)
    check_int("n_wrong", n_wrong, 0, n_checked, "n_checked")
    if n_flagged is not None:
        check_int("n_flagged", n_flagged, n_checked)
    if not 0 < check_float("confidence", confidence) < 1:
        raise InputError(f"confidence must be above 0 and below 1; got {confidence:g}")
    if n_checked == n_wrong:
        return 1.0
    from scipy.stats import beta, hypergeom  # slow to import

    if n_flagged is None:
        return float(beta.ppf(confidence, n_wrong + 1, n_checked - n_wrong))
    # P(X <= x) falls with K, so the largest K is found by bisection.
    low, high = n_wrong, n_flagged - (n_checked - n_wrong)
    while low < high:
        middle = (low + high + 1) // 2
        if hypergeom.cdf(n_wrong, n_flagged, middle, n_checked) > 1 - confidence:
            low = middle
        else:
            high = middle - 1
    return low / n_flagged

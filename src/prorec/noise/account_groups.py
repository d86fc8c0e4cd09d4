"""Groups of accounts: each account is extreme, suspicious or neither, wherever it is named."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prorec.noise.issues import Issues
from prorec.noise.posterior import MARKED


class AccountGroups(NamedTuple):
    """Groups of accounts, as a boolean for each user. Nobody is in two of them."""

    extreme: NDArray[np.bool_]
    """Accounts so active and so unlike people that the fit leaves them out. Their interactions are flagged."""
    suspicious: NDArray[np.bool_]
    """Accounts that look odd. Their interactions are neither flagged nor do they count less for that."""


def group_accounts(issues: Issues, basis: NDArray[np.integer] | None = None) -> AccountGroups:
    """Put accounts into groups.

    Parameters
    ----------
    issues : Issues
        Issues of a log.
    basis : ndarray of int, optional
        Basis of the noise probability of each interaction, as `NoiseFinder.basis_` has it. Accounts all of whose
        interactions are marked are in no group: people know what they are.

    Returns
    -------
    AccountGroups

    Examples
    --------
    >>> import prorec
    >>> noisy = prorec.inject_noise(prorec.load_dataset("cinema"), 0.01, "bots")
    >>> groups = group_accounts(prorec.noise.find_issues(noisy.interactions))
    >>> int(groups.extreme.sum()), int((groups.extreme & groups.suspicious).sum())
    (10, 0)
    """
    is_unknown = np.ones(issues.interactions.n_users, dtype=bool)
    if basis is not None:
        users = issues.interactions.user_codes
        n_unmarked = np.bincount(users[basis != MARKED], minlength=len(is_unknown))
        is_unknown = (n_unmarked > 0) | (issues.interactions.activity == 0)
    return AccountGroups(issues.is_extreme & is_unknown, issues.is_suspicious & is_unknown)

"""Random transport problems, and their plans by the dense formulas in double precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit, logsumexp

from prorec import Factors
from prorec.transport import Marginals
from prorec.transport.factors import Link


@dataclass
class Problem:
    """A transport problem with observed pairs."""

    factors: Factors
    marginals: Marginals
    observed: csr_array

    @property
    def scores(self) -> NDArray[np.float64]:
        factors = self.factors
        scores = factors.users.astype(float) @ factors.items.astype(float).T
        if factors.item_bias is not None:
            scores = scores + factors.item_bias
        return np.asarray(expit(scores)) if factors.link == "sigmoid" else scores


def make_problem(
    n_users: int,
    n_items: int,
    *,
    seed: int = 0,
    width: int = 8,
    scale: float = 1.0,
    density: float = 0.2,
    dtype: type[np.floating[Any]] = np.float32,
    bias: bool = False,
    link: Link = "identity",
) -> Problem:
    """Make random factors, and observed pairs with popular items and active users; some of either have none."""
    rng = np.random.default_rng(seed)
    users, items = rng.normal(size=(n_users, width)), rng.normal(size=(n_items, width))
    item_bias = rng.normal(size=n_items).astype(dtype) if bias else None
    probability = 2 * density * rng.random((n_users, 1)) ** 2 * rng.random(n_items) ** 2
    is_observed = rng.random((n_users, n_items)) < probability
    is_observed[0, 0] = True
    factors = Factors((scale / width * users).astype(dtype), items.astype(dtype), item_bias, link)
    return Problem(
        factors, Marginals.popularity(csr_array(is_observed.astype(float))), csr_array(is_observed.astype(np.float32))
    )


def relaxed_plan(
    scores: NDArray[np.float64], marginals: Marginals, gamma: float, side: str = "both"
) -> NDArray[np.float64]:
    """Compute Eq. 7: π = max(M̃·diag(p ⊘ 1M̃), diag(q ⊘ 1M̃ᵀ)·M̃)."""
    return np.exp(relaxed_log_plan(scores, marginals, gamma, side))


def relaxed_shares(
    scores: NDArray[np.float64], marginals: Marginals, gamma: float, side: str = "both"
) -> NDArray[np.float64]:
    """Compute the row shares; the row of a user without mass has the shares that any mass would have."""
    log_plan = relaxed_log_plan(scores, marginals, gamma, side)
    if side == "users":
        log_plan = scores / gamma
    shares: NDArray[np.float64] = np.exp(log_plan - logsumexp(log_plan, axis=1, keepdims=True))
    return shares


def relaxed_log_plan(
    scores: NDArray[np.float64], marginals: Marginals, gamma: float, side: str = "both"
) -> NDArray[np.float64]:
    """Compute the logarithm of Eq. 7."""
    log_kernel = scores / gamma
    with np.errstate(divide="ignore"):
        by_item = np.log(marginals.items) + log_kernel - logsumexp(log_kernel, axis=0)
        by_user = np.log(marginals.users)[:, None] + log_kernel - logsumexp(log_kernel, axis=1, keepdims=True)
    plans: dict[str, NDArray[np.float64]] = {
        "both": np.maximum(by_item, by_user),
        "items": by_item,
        "users": by_user,
    }
    return plans[side]

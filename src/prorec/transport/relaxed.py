"""Relaxed transport: each of the two constraints alone has a closed-form plan (Eq. 5, 6, 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from prorec._core.checks import check_choice
from prorec._core.progress import Progress
from prorec.transport.backend import make_backend
from prorec.transport.blocks import DEFAULT_MEMORY, bind_task
from prorec.transport.factors import Factors
from prorec.transport.marginals import Marginals
from prorec.transport.plan import ScaledPlan
from prorec.transport.scores import ScoreFunction

if TYPE_CHECKING:
    from prorec.transport.gpu_backend import Precision


def relaxed(
    scores: Factors | ScoreFunction,
    marginals: Marginals,
    gamma: float,
    side: Literal["both", "users", "items"] = "both",
    *,
    device: str = "auto",
    precision: Precision = "high",
    memory: float = DEFAULT_MEMORY,
    progress: Progress | None = None,
) -> ScaledPlan:
    """The relaxed plan of Eq. 7, in one pass over the scores.

    With C_j = log Σ_i e^(S_ij/γ) and R_i = log Σ_j e^(S_ij/γ),

        log π_ij = S_ij/γ + max(log p_j − C_j, log q_i − R_i).

    Parameters
    ----------
    scores : S = −M, higher is better; factors, or a function from row numbers to a block of scores
    marginals : p over items and q over users
    gamma : γ, the weight of the entropy; small ones concentrate the plan
    side : `users`, the plan that meets q exactly (Eq. 6); `items`, the one that meets p exactly (Eq. 5); `both`, the
        larger of the two at each pair (Eq. 7, the paper's)
    device : `auto`, a GPU if there is one and at least a billion pairs; `cpu`; or `cuda`
    precision : `high`, errors of a few 1e-6 in the plan; `double`; or on a GPU `fast`, errors of about 1e-3
    memory : how many bytes of blocks may be in memory at once, on the CPU
    progress : called after each block with the task, the number of blocks done and the number of all
    """
    check_choice("side", side, ("both", "users", "items"))
    report = bind_task(progress, "Computing the transport plan")
    passes = make_backend(scores, marginals, gamma, memory, device, precision)
    by_user, by_item = passes.log_sums(report)
    no_offset = np.zeros(marginals.shape[0])
    for_users, for_items = marginals.log_users - by_user, marginals.log_items - by_item
    if side == "users":
        return ScaledPlan(passes, marginals, for_users, np.full_like(by_user, -np.inf), np.zeros_like(by_item))
    if side == "items":
        return ScaledPlan(passes, marginals, no_offset, np.full_like(by_user, -np.inf), for_items)
    return ScaledPlan(passes, marginals, no_offset, for_users, for_items)

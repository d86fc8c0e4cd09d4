"""The block step in plain PyTorch, on any device, in single or double precision, with blocks in memory.

It runs on GPUs without Triton and on rows that single precision cannot hold, and tests compare the fused kernels with
it. Logarithms are natural, and every row has a shift of its own.
"""

from __future__ import annotations

import torch


def match(
    block: torch.Tensor, user_potential: torch.Tensor, item_potential: torch.Tensor, k: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Find thresholds and row shares in a plan e^(x_ij + max(A_j, B_i)) (Eq. 20).

    Parameters
    ----------
    block : tensor, users × items
        Scores x over γ.
    user_potential, item_potential : tensor
        B of each user of the block and A of each item.
    k : int
        κ: the threshold is the κ-th largest value of a row. 0 asks for the least-squares split.

    Returns
    -------
    kappa : tensor
        κ of each user.
    threshold : tensor
        Row share at the threshold of each user.
    shares : tensor, users × items
        All row shares.
    """
    block = block + torch.maximum(item_potential.to(block.dtype), user_potential.to(block.dtype)[:, None])
    top = block.amax(dim=1, keepdim=True)
    values = torch.exp(block - torch.where(torch.isfinite(top), top, 0.0)).float()
    total = values.sum(dim=1, dtype=torch.float64)
    scale = torch.where(total > 0, 1 / torch.where(total > 0, total, 1.0), 0.0)
    if k:
        kappa = torch.full((len(values),), min(k, values.shape[1]), device=values.device)
        threshold = torch.topk(values, min(k, values.shape[1]), dim=1).values[:, -1]
    else:
        kappa, threshold = split_rows(values)
    return kappa, (threshold * scale).float(), (values * scale[:, None]).float()


def split_rows(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the least-squares split of each row by sorting it; among equal gains the smallest κ.

    Parameters
    ----------
    values : tensor
        Rows of finite numbers of at least 0.

    Returns
    -------
    kappa : tensor
        κ of each row.
    threshold : tensor
        The κ-th largest value of each row.
    """
    n = values.shape[1]
    if n == 1:
        return torch.ones(len(values), dtype=torch.int64, device=values.device), values[:, 0]
    ordered = torch.sort(values, dim=1, descending=True).values
    count = torch.arange(1, n, device=values.device, dtype=torch.float64)
    distance = ordered.double()
    distance = torch.cumsum(distance - distance.mean(dim=1, keepdim=True), dim=1)[:, :-1]
    gain = distance**2 * n / (count * (n - count))
    # Rounding alone must not choose between splits, nor separate equal values.
    gain = torch.where(ordered[:, :-1] > ordered[:, 1:], gain, -1.0)
    best = gain.amax(dim=1, keepdim=True)
    kappa = torch.argmax((gain >= best * (1 - 1e-13)).to(torch.int8), dim=1) + 1
    kappa = torch.where(best[:, 0] > 0, kappa, 1)  # all values are equal
    return kappa, ordered.gather(1, kappa[:, None] - 1)[:, 0]

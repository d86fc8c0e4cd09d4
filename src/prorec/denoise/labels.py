"""What clicks are relabelled by: the plan, the probability of noise, or both."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec.transport.relabeling import compute_label_probabilities, relabel
from prorec.transport.thresholds import Matching

By = Literal["plan", "probability", "both"]


def new_weights(
    before: csr_array,
    matching: Matching,
    beta: float,
    lam: float,
    original: csr_array | None,
    trusted: NDArray[np.float32] | None,
    by: By,
) -> NDArray[np.float32]:
    """λX + (1 − λ)·R∘X, or, with `original`, ∘X₀.

    R is the plan's r; `trusted`, which is 1 − the probability of noise; or both, multiplied. Other parameters are those
    of `prorec.transport.relabel`.
    """
    if trusted is None:
        data: NDArray[np.float32] = relabel(before, matching, beta, lam, original).data
        return data
    label = trusted * compute_label_probabilities(matching, beta) if by == "both" else trusted
    anchor = before if original is None else original
    return np.asarray(lam * before.data + (1 - lam) * label * anchor.data, dtype=np.float32)

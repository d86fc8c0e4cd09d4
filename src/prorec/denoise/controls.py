"""What a denoiser's gain has to be held against: other weights, as small as the ones it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from prorec.denoise.estimator import ProRec
from prorec.interactions import Interactions
from prorec.models.wrap import wrap

Weights = NDArray[np.float32]
Change = Callable[[Weights, Interactions], Weights]
"""From the weights that a denoiser gives, and the interactions, to those that its model is to learn from instead."""


def alike(weights: Weights, interactions: Interactions) -> Weights:
    """The mean of the weights for every interaction: relabelling makes weights smaller, which may help by itself."""
    return np.full_like(weights, weights.mean(dtype=np.float64))


@dataclass
class _Reweighted(ProRec):
    """A denoiser whose model learns from other weights in the end."""

    change: Change = field(default=alike)

    def fit(self, interactions: Any, *, refit: bool = True, **how: Any) -> Self:
        """Run Algorithm 1, and then learn from the changed weights."""
        super().fit(interactions, refit=False, **how)
        known = self.interactions_
        changed = self.change(self.weights_.data, known)
        model: Any = replace(wrap(self.model))  # type: ignore[type-var]
        fitted = model.fit(known.with_weights(changed)) if refit else None
        self._take(known, fitted, changed, self.matching_, self.history_, self.converged_, self._found)
        return self


def reweighted(denoiser: ProRec, change: Change = alike) -> ProRec:
    """A control of a denoiser: its model, with its weights changed; all alike, unless something else is said."""
    return _Reweighted(**{each.name: getattr(denoiser, each.name) for each in fields(denoiser)}, change=change)

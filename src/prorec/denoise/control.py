"""The control that relabelling has to beat: weights as small as it makes them, but all alike."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Self

import numpy as np
from scipy.sparse import csr_array

from prorec.denoise.algorithm import Progress
from prorec.denoise.estimator import ProRec
from prorec.interactions import Interactions


@dataclass
class _Scaled(ProRec):
    """Its model learns from the mean of the weights that the denoiser would give, for every interaction the same.

    Relabelling also makes weights smaller against the regulariser, which may help by itself. What a denoiser gains
    beyond this is due to telling interactions apart.
    """

    def fit(  # type: ignore[override]
        self,
        interactions: Interactions | csr_array,
        *,
        refit: bool = True,
        checkpoint: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Run Algorithm 1, and then learn from the mean weight alone."""
        super().fit(interactions, refit=False, checkpoint=checkpoint, progress=progress)
        known = self.interactions_
        alike = np.full(len(known), self.weights_.data.mean(dtype=np.float64), dtype=np.float32)
        model = replace(self.model).fit(known.with_weights(alike)) if refit else None
        self._take(known, model, alike, self.matching_, self.history_, self.converged_)
        return self


def scaled(denoiser: ProRec) -> ProRec:
    """The control of a denoiser."""
    return _Scaled(**{each.name: getattr(denoiser, each.name) for each in fields(denoiser)})

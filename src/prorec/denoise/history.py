"""What happened in each round of Algorithm 1."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from prorec.denoise.loss import Loss


@dataclass(frozen=True)
class Round:
    """One round: the weights are updated, then the model learns from them. Round 0 is the first fit alone."""

    number: int
    loss_before: Loss | None
    """L with the weights and the model that the round began with."""
    loss_relabelled: Loss | None
    """L with the new weights and the old model."""
    loss_refitted: Loss | None
    """L with the new weights and the new model; None where there was none, with `refit=False`."""
    gamma: float
    """γ of the plan; 0 where there is none, or no plan."""
    mass_kept: float
    """The sum of weights after the round, as a share of what it was in the beginning."""
    below_threshold: float
    """The share of observed pairs below their user's threshold."""
    kappa_quartiles: tuple[float, float, float]
    """Of κ, over users who have interactions."""
    change: float
    """Σ|new − old weights| / Σ old weights."""
    transport_seconds: float
    """For plan, thresholds and relabelling."""
    fit_seconds: float
    """For the model."""

    @property
    def relabelling_decreased(self) -> bool | None:
        """Whether the first half of the round did what Proposition 2 says: L did not go up."""
        return self._down(self.loss_before, self.loss_relabelled)

    @property
    def refitting_decreased(self) -> bool | None:
        """Whether the second half did."""
        return self._down(self.loss_relabelled, self.loss_refitted)

    @staticmethod
    def _down(before: Loss | None, after: Loss | None) -> bool | None:
        if before is None or after is None:
            return None
        return after.total <= before.total * (1 + 1e-9)  # but for rounding

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return asdict(self) | {
            name: None if loss is None else list(loss)
            for name in ("loss_before", "loss_relabelled", "loss_refitted")
            for loss in [getattr(self, name)]
        }

    @classmethod
    def from_dict(cls, about: dict[str, Any]) -> Round:
        """The round that `to_dict` was asked of."""
        losses = {
            name: None if about[name] is None else Loss(*map(float, about[name]))
            for name in ("loss_before", "loss_relabelled", "loss_refitted")
        }
        return cls(**{**about, **losses, "kappa_quartiles": tuple(about["kappa_quartiles"])})

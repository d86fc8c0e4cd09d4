"""Record of each round of Algorithm 1."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from prorec.denoise.loss import Loss

_LOSSES = ("loss_before", "loss_relabeled", "loss_refitted")


@dataclass(frozen=True)
class Round:
    """One round: the weights are relabelled, then the model is fitted to them. Round 0 is the first fit alone.

    The losses are None unless `ProRec.fit` was called with `track_loss=True`.
    """

    number: int
    """Number of the round, from 0."""
    loss_before: Loss | None
    """L with the weights and the model at the start of the round."""
    loss_relabeled: Loss | None
    """L with the new weights and the old model."""
    loss_refitted: Loss | None
    """L with the new weights and the new model; None for the last round of a fit with `refit=False`."""
    gamma: float
    """γ of the plan; 0 in round 0 and with EMD."""
    mass_kept: float
    """Sum of the weights after the round, divided by the sum before round 1."""
    below_threshold: float
    """Share of the interactions below their user's threshold."""
    kappa_quartiles: tuple[float, float, float]
    """Quartiles of κ over the users who have interactions."""
    change: float
    """Σ|new − old weights| / Σ old weights."""
    transport_seconds: float
    """Seconds for the plan, the thresholds and the relabelling."""
    fit_seconds: float
    """Seconds for the fit of the model."""

    @property
    def relabeling_decreased(self) -> bool | None:
        """Whether relabelling did not raise L, as Proposition 2 claims; None if L is unknown."""
        return _decreased(self.loss_before, self.loss_relabeled)

    @property
    def refitting_decreased(self) -> bool | None:
        """Whether refitting did not raise L, as Proposition 2 claims; None if L is unknown."""
        return _decreased(self.loss_relabeled, self.loss_refitted)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, as numbers and tuples that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Round:
        """Return the round that `to_dict` described, also after a detour through JSON.

        Parameters
        ----------
        fields : dict
            Fields by name.

        Returns
        -------
        Round

        Raises
        ------
        KeyError, TypeError
            If a field is missing or is not a field of a round.
        """
        losses = {name: None if fields[name] is None else Loss(*map(float, fields[name])) for name in _LOSSES}
        return cls(**{**fields, **losses, "kappa_quartiles": tuple(fields["kappa_quartiles"])})


def _decreased(before: Loss | None, after: Loss | None) -> bool | None:
    if before is None or after is None:
        return None
    return after.total <= before.total * (1 + 1e-9)  # rounding is no increase

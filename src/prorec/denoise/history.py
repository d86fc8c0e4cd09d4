"""Record of each round of Algorithm 1."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from prorec._core.checks import check_float, check_int, safe_repr
from prorec._core.errors import InputError
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
    def from_dict(cls, fields: Any) -> Round:
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
        KeyError, TypeError, InputError
            If a field is missing or is not a field of a round, or if a value is not a finite number.
        """
        if not isinstance(fields, dict):
            raise TypeError(f"a round must be a table of its fields; got {type(fields).__name__}")
        for name, value in fields.items():
            if name not in (*_LOSSES, "kappa_quartiles"):
                check_float(name, value, 0)
        check_int("number", fields["number"], 0)
        losses = {name: None if fields[name] is None else Loss(*_to_floats(name, fields[name], 2)) for name in _LOSSES}
        quartiles = tuple(_to_floats("kappa_quartiles", fields["kappa_quartiles"], 3))
        return cls(**{**fields, **losses, "kappa_quartiles": quartiles})


def read_history(records: Any) -> list[Round]:
    """Return the rounds that `Round.to_dict` described.

    Parameters
    ----------
    records : sequence of dict
        Fields of each round, from round 0 on.

    Returns
    -------
    list of Round

    Raises
    ------
    KeyError, TypeError, InputError
        If there is no round, one is missing, or one is refused by `Round.from_dict`.
    """
    rounds = [Round.from_dict(each) for each in records]
    if not rounds or [each.number for each in rounds] != list(range(len(rounds))):
        raise InputError(f"a history must have rounds 0, 1, …; got {[each.number for each in rounds][:5]}")
    return rounds


def _to_floats(name: str, values: Any, length: int) -> list[float]:
    if not isinstance(values, list | tuple) or len(values) != length:
        raise InputError(f"{name} must be {length} numbers; got {safe_repr(values)}")
    return [check_float(name, value) for value in values]


def _decreased(before: Loss | None, after: Loss | None) -> bool | None:
    if before is None or after is None:
        return None
    return after.total <= before.total * (1 + 1e-9)  # rounding is no increase

"""Parameters that the denoisers share, on one machine and on Spark."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from prorec._core.checks import check_choice, check_float, check_int, safe_repr
from prorec._core.errors import InputError
from prorec._core.parameters import parameters_of
from prorec.denoise.weighting import Weighting
from prorec.noise.flagging import FlagRule, check_fdr
from prorec.transport.gamma import parse_gamma
from prorec.transport.thresholds import Threshold, check_threshold

_OF_ROUNDS = ("rounds", "relabel_from", "tolerance", "transport")
_UNUSED = {"labels": _OF_ROUNDS, "probability": (*_OF_ROUNDS, "threshold", "gamma", "marginals", "beta", "lam")}
"""Parameters that weights and flags do not depend on with cross-fitting, by the source of the weights."""
_PLAN_FLAG_FRACTION = 0.05


@dataclass
class DenoiserSettings:
    """Parameters of Algorithm 1 and of flagging: the base of `prorec.ProRec` and of its version for Spark."""

    model: Any
    """Recommender: one of `prorec.models` or its name, such as "nce"; or any that `prorec.models.wrap` takes. It is
    copied, not changed. By name, its rank suits the data: at most a quarter of the users or items."""
    _: KW_ONLY
    threshold: Threshold = "personal"
    """Threshold of each user: `personal` (Eq. 20), a number κ of items above it, or `none`, which is ρ_κ = 0."""
    gamma: float | str = "auto"
    """γ, the spread of the plan: a number above 0, `auto` for a fifth of the spread of the first model's scores, or a
    multiple such as `0.5 auto`. EMD has none."""
    beta: float = 20.0
    """β, the steepness of the labels around the threshold."""
    lam: float = 0.5
    """λ, the share of the current weights that is kept, from 0 to 1."""
    rounds: int = 1
    """Maximum number of relabel-and-refit rounds."""
    relabel_from: Literal["current", "original"] = "current"
    """Weights that the labels multiply: `current`, as in the paper, which with many rounds takes all weights to 0, or
    `original`, X ← λX + (1 − λ)·r∘X₀."""
    tolerance: float = 0.01
    """Change of the weights, as a share of their sum, at which the rounds end."""
    marginals: Literal["popularity", "uniform"] = "popularity"
    """Mass of each user and each item: by activity and popularity, or equal."""
    weighting: Weighting = "auto"
    """Source of the weights: `probability`, the cross-fitted noise probability; `plan`, the labels r (Eq. 22), of
    models that have not seen the click if noise is found by cross-fitting; or `both`, the product. `auto` is
    `probability` with cross-fitting, and `plan` without."""
    fdr: float = 0.2
    """Share of the flags that may be wrong, with cross-fitted noise probabilities."""
    flag_fraction: float | None = None
    """Share of the interactions to flag, the most suspicious ones. By default `fdr` decides how many are flagged; with
    the noise method `plan`, whose probabilities are not calibrated, it is 0.05."""

    def flag_rule(self, *, is_cross_fitted: bool) -> FlagRule:
        """Return the rule by which interactions are flagged.

        Parameters
        ----------
        is_cross_fitted : bool
            Whether noise probabilities are cross-fitted.

        Returns
        -------
        FlagRule
        """
        if self.flag_fraction is not None:
            return {"fraction": self.flag_fraction}
        return {"fdr": self.fdr} if is_cross_fitted else {"fraction": _PLAN_FLAG_FRACTION}

    def check_shared_settings(self, *, is_cross_fitted: bool) -> None:
        """Check the parameters that are declared here, except the model, and all that have a fixed set of values.

        Parameters
        ----------
        is_cross_fitted : bool
            Whether noise probabilities are cross-fitted, which some weightings require.

        Raises
        ------
        InputError
            If a parameter is not valid.
        """
        own_class: type = type(self)
        for parameter in parameters_of(own_class):
            if parameter.choices and not parameter.types:
                check_choice(parameter.name, getattr(self, parameter.name), parameter.choices)
        check_threshold(self.threshold)
        parse_gamma(self.gamma)
        check_float("beta", self.beta, 0)
        check_float("lam", self.lam, 0, 1)
        check_int("rounds", self.rounds, 1)
        check_float("tolerance", self.tolerance, 0)
        if self.flag_fraction is not None:
            check_float("flag_fraction", self.flag_fraction, 0, 1)
        check_fdr(self.fdr)
        if not is_cross_fitted:
            if self.weighting in ("probability", "both"):
                raise InputError(
                    f"weighting={self.weighting!r} requires calibrated noise probabilities, which "
                    "noise_method='plan' does not have; leave out noise_method"
                )
            return
        defaults = {each.name: each.default for each in parameters_of(own_class)}
        for name in _UNUSED["labels" if self.weighting in ("plan", "both") else "probability"]:
            if name in defaults and getattr(self, name) != defaults[name]:
                raise InputError(
                    f"{name} must be {defaults[name]!r}, because the weights and flags of cross-fitting do not depend "
                    f"on it; got {safe_repr(getattr(self, name))}. Pass noise_method='plan' for the paper's "
                    "Algorithm 1."
                )

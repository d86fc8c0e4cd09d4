"""The results of a denoiser that a report shows, collected once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.errors import InputError
from prorec.denoise.denoiser import ProRec
from prorec.denoise.history import Round
from prorec.interactions import Interactions
from prorec.noise.flagging import FlagRule
from prorec.noise.injection_checks import InjectionCheck
from prorec.noise.issues import Issues
from prorec.noise.noise_rate import NoiseRateEstimate
from prorec.report.formatting import to_epoch_seconds


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Results of denoising a log.

    Arrays have one entry for each interaction, in the order of `interactions.matrix.data`, or for each user.
    """

    interactions: Interactions
    """The log with its original weights; possibly a sample of users."""
    noise_probability: NDArray[np.float32]
    """Noise probability of each interaction."""
    flagged: NDArray[np.bool_]
    """Whether each interaction is flagged."""
    weights: NDArray[np.float32]
    """Weight of each interaction after relabelling."""
    row_shares: NDArray[np.float32]
    """Row share ρ of each interaction: the share of the user's mass in the plan that goes to the item."""
    kappa: NDArray[np.int64]
    """Number κ of items in the upper group of each user."""
    thresholds: NDArray[np.float32]
    """Threshold ρ_κ of each user."""
    percentile_ranks: NDArray[np.float32] | None = None
    """Percentile rank of each interaction; None without cross-fitting."""
    basis: NDArray[np.int8] | None = None
    """Code of the basis of each noise probability; None without cross-fitting."""
    noise_rate: NoiseRateEstimate | None = None
    """Estimated noise rate of the log; None without cross-fitting."""
    injection_checks: tuple[InjectionCheck, ...] = ()
    """How well noise that is injected into the log is found; empty without cross-fitting."""
    issues: Issues | None = None
    """Issues of accounts and items; None without cross-fitting."""
    times: NDArray[np.float64] | None = None
    """Time of each interaction in epoch seconds, if the log has times."""
    is_noise: NDArray[np.bool_] | None = None
    """Whether each interaction is noise, if that is known."""
    flag_rule: FlagRule
    """Rule by which interactions are flagged."""
    weighting: str = "auto"
    """Source of the weights, as in `ProRec.weighting`."""
    lam: float
    """Retention λ."""
    transport: str
    """Name of the transport solver."""
    marginals: str
    """Name of the marginals, `popularity` or `uniform`."""
    threshold: str
    """Kind of threshold: `personal`, `none` or a number of items."""
    history: tuple[Round, ...]
    """Record of each round."""
    settings: dict[str, str]
    """Settings of the denoiser, by the name that the page shows."""
    n_items: int
    """Number of items of the log, of which `interactions` may be a sample."""
    sample_note: str = ""
    """Sentence about the sample, if `interactions` is one."""

    @property
    def is_calibrated(self) -> bool:
        """Whether noise probabilities agree with frequencies; without cross-fitting they only order interactions."""
        return self.noise_rate is not None


def collect_findings(denoiser: ProRec, is_noise: Any = None) -> Findings:
    """Collect the results of a denoiser.

    Parameters
    ----------
    denoiser : ProRec
        A fitted denoiser.
    is_noise : array-like of bool, optional
        Whether each interaction is noise, in the order of `denoiser.interactions_.matrix.data`.

    Returns
    -------
    Findings

    Raises
    ------
    NotFittedError
        If the denoiser is not fitted.
    InputError
        If `is_noise` does not have one boolean for each interaction.
    """
    thresholds, interactions = denoiser.thresholds_, denoiser.interactions_
    finder = None if denoiser.noise_method == "plan" else denoiser.finder_
    return Findings(
        interactions=interactions,
        noise_probability=denoiser.noise_probability_,
        flagged=denoiser.flagged_,
        weights=denoiser.weights_.data,
        row_shares=denoiser.matching_.row_shares,
        kappa=thresholds.kappa,
        thresholds=thresholds.value,
        percentile_ranks=None if finder is None else finder.percentile_rank_,
        basis=None if finder is None else finder.basis_,
        noise_rate=None if finder is None else finder.noise_rate_,
        injection_checks=() if finder is None else tuple(finder.injection_checks_),
        issues=None if finder is None else finder.issues_,
        times=to_epoch_seconds(interactions.columns["timestamp"]) if "timestamp" in interactions.columns else None,
        is_noise=None if is_noise is None else _check_is_noise(is_noise, len(interactions)),
        flag_rule=denoiser.flag_rule(is_cross_fitted=finder is not None),
        weighting=denoiser.weighting,
        lam=denoiser.lam,
        transport=denoiser.transport,
        marginals=denoiser.marginals,
        threshold=str(denoiser.threshold),
        history=tuple(denoiser.history_),
        settings=_list_settings(denoiser, None if finder is None else finder.n_folds_),
        n_items=interactions.n_items,
    )


def _check_is_noise(is_noise: Any, n: int) -> NDArray[np.bool_]:
    values = np.asarray(is_noise)
    if values.shape != (n,) or values.dtype != bool:
        raise InputError(
            f"is_noise must be {n:,} booleans, one for each interaction in the order of interactions_.matrix.data; "
            f"got {values.dtype} of shape {values.shape}"
        )
    return values


def _list_settings(denoiser: ProRec, folds: int | None) -> dict[str, str]:
    """Return the settings that the page shows; `folds` is None without cross-fitting."""
    last, rule = denoiser.history_[-1], denoiser.flag_rule(is_cross_fitted=folds is not None)
    settings = {
        "model": str(denoiser.model),
        "transport": f"{denoiser.transport}, {denoiser.marginals} marginals",
        "threshold": str(denoiser.threshold),
        "γ, entropic regularization": f"{last.gamma:.4g}" + (f" ({denoiser.gamma})" if last.gamma else ""),
        "β, steepness": f"{denoiser.beta:g}",
        "λ, retention": f"{denoiser.lam:g}",
        "rounds": f"{last.number} of at most {denoiser.rounds}" + (", converged" if denoiser.converged_ else ""),
    }
    if folds is None:
        settings["noise probability"] = "from the transport plan; orders clicks, but is not calibrated"
    else:
        settings["noise probability"] = f"cross-fitted in {folds} folds"
    if "fdr" in rule:
        settings["flagged"] = f"clicks up to a false discovery rate of {rule['fdr']:.3g}"
    else:
        settings["flagged"] = f"the most suspicious clicks, at most {rule['fraction']:.3g} of all, without ties"
    return settings

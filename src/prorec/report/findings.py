"""What a report is about: the results of a denoiser, read off it once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.errors import InputError
from prorec.denoise.denoiser import ProRec
from prorec.denoise.history import Round
from prorec.interactions import Interactions
from prorec.noise.noise_rate import NoiseRateEstimate
from prorec.report.formatting import to_epoch_seconds


@dataclass(frozen=True)
class Findings:
    """One entry for each interaction, in the order of `known.matrix.data`, unless something else is said."""

    known: Interactions
    probability: NDArray[np.float32]
    flagged: NDArray[np.bool_]
    weights: NDArray[np.float32]
    """After relabelling; what they were before is in `known`."""
    shares: NDArray[np.float32]
    """ρ: what of the user's row of the plan is at this item."""
    kappa: NDArray[np.int64]
    """κ of each user."""
    thresholds: NDArray[np.float32]
    """ρ_κ of each user."""
    percentiles: NDArray[np.float32] | None
    """The share of the user's unobserved items that stand above this one, where clicks were judged by models that have
    not seen them."""
    noise_rate: NoiseRateEstimate | None
    """Where it was estimated."""
    fdr: float
    flag_share: float
    lam: float
    """λ: what is kept of a weight in any case."""
    times: NDArray[np.float64] | None
    """In seconds since 1970, where they are known."""
    is_noise: NDArray[np.bool_] | None
    """The truth, where it is known."""
    history: tuple[Round, ...]
    transport: str
    marginals: str
    threshold: str
    settings: dict[str, str]
    """What the denoiser was told, by name."""
    n_items: int
    """Of the whole log, of which this may be a sample."""
    sample: str = ""
    """If it is one, of what."""

    @property
    def is_calibrated(self) -> bool:
        """Whether the probability means what it says, rather than being good for ordering only."""
        return self.noise_rate is not None


def collect_findings(denoiser: ProRec, is_noise: Any = None) -> Findings:
    """Read everything off a fitted denoiser."""
    denoiser._check_fitted()
    known = denoiser.interactions_
    truth = None
    if is_noise is not None:
        truth = np.asarray(is_noise)
        if truth.shape != (len(known),) or truth.dtype != bool:
            raise InputError(
                f"is_noise must be {len(known):,} booleans, one for each interaction; got {truth.dtype} of shape "
                f"{truth.shape}"
            )
    finder = denoiser.finder_ if denoiser.noise_method != "plan" else None
    times = to_epoch_seconds(known.columns["timestamp"]) if "timestamp" in known.columns else None
    return Findings(
        known,
        denoiser.noise_probability_,
        denoiser.flagged_,
        denoiser.weights_.data,
        denoiser.matching_.row_shares,
        denoiser.matching_.kappa,
        denoiser.matching_.threshold,
        None if finder is None else finder.percentile_rank_,
        None if finder is None else finder.noise_rate_,
        denoiser.fdr,
        denoiser.flag_fraction,
        denoiser.lam,
        times,
        truth,
        tuple(denoiser.history_),
        denoiser.transport,
        denoiser.marginals,
        str(denoiser.threshold),
        _settings(denoiser),
        known.n_items,
    )


def _settings(denoiser: ProRec) -> dict[str, str]:
    last = denoiser.history_[-1]
    told = {
        "model": str(denoiser.model),
        "matching": f"{denoiser.transport}, {denoiser.marginals} marginals",
        "threshold": str(denoiser.threshold),
        "γ, how far the plan is spread": f"{last.gamma:.4g}" + (f" ({denoiser.gamma})" if last.gamma else ""),
        "β, how steep the step is": f"{denoiser.beta:g}",
        "λ, what is kept of the weights": f"{denoiser.lam:g}",
        "rounds": f"{last.number} of at most {denoiser.rounds}" + (", came to rest" if denoiser.converged_ else ""),
    }
    if denoiser.noise_method == "plan":
        told["noise probability"] = "from the plan: good for ordering, not calibrated"
        told["flagged"] = f"the most suspicious, at most a share of {denoiser.flag_fraction:.3g}, equals left alone"
    else:
        told["noise probability"] = f"from models that have not seen the click, {denoiser.finder_.folds} folds"
        told["flagged"] = f"as many as leave the share of wrong flags at most {denoiser.fdr:.3g}"
    return told

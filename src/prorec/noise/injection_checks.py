"""Injection checks: put a little known noise into the log itself, and measure what the finder makes of it.

A negative is scored by models that were not trained on it, and so is a noisy click. So a negative among the clicks is
the same as noise injected into the log, but for its small influence on the models.

For the injected clicks it is known that they are noise. For the other clicks the noise probability before the injection
is taken for the truth. With that, the share of wrong flags and the calibration error can be measured on this very log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from prorec._core.parallel import N_CORES, map_in_order
from prorec.evaluation.detection import compute_calibration_error
from prorec.noise.flagging import flag_interactions
from prorec.noise.identifiability import compute_auc
from prorec.noise.noise_rate import LabeledPairs, NoiseRateLine, Vector, estimate_noise_rate
from prorec.noise.posterior import calibrate, compute_log_local_fdr, count_expected_noise, fit_calibration

InjectedKind = Literal["uniform", "popularity"]
INJECTED_KINDS: tuple[InjectedKind, ...] = ("uniform", "popularity")
"""Kinds of noise that are injected: on all items alike, and in proportion to popularity."""
_FDRS = (0.1, 0.2, 0.4)


@dataclass(frozen=True)
class InjectionCheck:
    """Results of injecting a little noise into the log itself."""

    kind: InjectedKind
    """Kind of the noise."""
    auroc: float
    """AUROC of the injected noise against the clicks of the log."""
    injected: float
    """Share of the injected clicks among all."""
    rise: float
    """Rise of the estimated noise rate; it should be about as large as `injected`."""
    calibration_error: float
    """Mean distance of the noise probability from the share of noise, over bins of the noise probability."""
    fdr: float
    """The smallest of .1, .2 and .4 at which anything is flagged; 0 if nothing is."""
    wrong_flags: float
    """Share of wrong flags at `fdr`; it should be at most `fdr`."""


def describe_checks(checks: Sequence[InjectionCheck]) -> str:
    """Say how well injected noise is found.

    Parameters
    ----------
    checks : sequence of InjectionCheck
        Results of `inject_into_pairs`.

    Returns
    -------
    str
        One sentence.
    """
    by_kind = {check.kind: check for check in checks}
    uniform, popular = (by_kind[kind] for kind in INJECTED_KINDS)
    return (
        "As a test, random clicks were added to a copy of this log: they are found with an AUROC of "
        f"{uniform.auroc:.2f} if they fall on all items alike, and of {popular.auroc:.2f} if on popular items."
    )


def inject_into_pairs(
    pairs: LabeledPairs, rng: np.random.Generator, *, is_identified: bool = True, ratio: float = 0.1
) -> list[InjectionCheck]:
    """Add some negatives to the clicks, as if they were noise in the log, and measure whether they are found.

    Parameters
    ----------
    pairs : LabeledPairs
        Clicks and negatives.
    rng : numpy.random.Generator
        Generator of the choice.
    is_identified : bool, default True
        Whether the log can tell its noise. Otherwise noise is taken to fall on all items alike, and nothing is flagged.
    ratio : float, default 0.1
        Number of injected clicks for each click.

    Returns
    -------
    list of InjectionCheck
        For each kind of noise.
    """
    negatives, n_clicks = np.flatnonzero(~pairs.is_click), int(pairs.is_click.sum())
    n_injected = max(1, round(ratio * n_clicks))
    share = n_injected / (n_clicks + n_injected)
    mean_popularity = max(float(pairs.popularity[negatives].mean()), 1e-12)
    line, before = estimate_noise_rate(pairs, only_uniform=not is_identified)
    truth = np.append(_noise_probability(pairs, line).astype(np.float64), np.ones(n_injected))
    injections = []
    for kind in INJECTED_KINDS:
        relative = np.ones(len(pairs.is_click)) if kind == "uniform" else pairs.popularity / mean_popularity
        density = relative[negatives] + 1e-9
        injections.append((kind, relative, rng.choice(negatives, n_injected, p=density / density.sum())))

    def check(index: int) -> InjectionCheck:
        kind, relative, injected = injections[index]
        positions = np.append(np.arange(len(relative)), injected)
        # The density ratio of the clicks with the injected ones among them.
        added = n_injected / n_clicks
        log_ratio = (np.log(np.exp(pairs.log_ratio) + added * relative + 1e-300) - np.log1p(added))[positions]
        is_click = np.append(pairs.is_click, np.ones(n_injected, dtype=bool))
        with_noise = LabeledPairs(log_ratio, pairs.popularity[positions], is_click)
        line, after = estimate_noise_rate(with_noise, only_uniform=not is_identified)
        noise_score = compute_log_local_fdr(line, log_ratio, with_noise.popularity)[is_click]
        probability = _noise_probability(with_noise, line)
        fdr, wrong = 0.0, 0.0
        if is_identified:
            fdr, wrong = _measure_wrong_flags(probability * np.float32(after.low_ratio), truth)
        return InjectionCheck(
            kind,
            auroc=compute_auc(noise_score, np.arange(len(noise_score)) >= n_clicks),
            injected=share,
            rise=after.estimate - before.estimate * (1 - share),
            calibration_error=compute_calibration_error(probability, truth),
            fdr=fdr,
            wrong_flags=wrong,
        )

    return list(map_in_order(check, len(injections), N_CORES))


def _noise_probability(pairs: LabeledPairs, line: NoiseRateLine) -> NDArray[np.float32]:
    """Return the calibrated noise probability of each click."""
    log_fdr = compute_log_local_fdr(line, pairs.log_ratio, pairs.popularity)
    expected_noise = count_expected_noise(line, pairs.popularity, pairs.is_click)
    clicks = log_fdr[pairs.is_click]
    return calibrate(clicks, fit_calibration(clicks, log_fdr[~pairs.is_click], expected_noise))


def _measure_wrong_flags(lowered: NDArray[np.float32], truth: Vector) -> tuple[float, float]:
    """Return the smallest fdr at which clicks are flagged, and the share of wrong flags."""
    for fdr in _FDRS:
        flags = flag_interactions(lowered, fdr=fdr)
        if flags.any():
            return fdr, float(1 - truth[flags].mean())
    return 0.0, 0.0

"""From evidence to probabilities: what tells clicks from controls, how much noise there is, and Bayes' rule."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from prorec.noise.level import level_in
from prorec.noise.noise_rate import Noise, NoiseRateEstimate, Seen, noise_in, settled
from prorec.noise.probability import Calibration
from prorec.noise.ratio import DensityRatio, Features

Arrays = dict[str, NDArray[Any]]


class Observed(NamedTuple):
    """Evidence of some pairs."""

    features: Features
    """Pairs × features; log(1 + popularity) is the last."""
    popularity: NDArray[np.float64]
    """How many others have the item, in the part that was learned from."""
    is_alone: NDArray[np.bool_]
    """Whether nothing else of the user was learned from: popularity is all there is to go by then."""

    def at(self, which: slice | NDArray[np.int64]) -> Observed:
        """Some of them."""
        return Observed(self.features[which], self.popularity[which], self.is_alone[which])


@dataclass(frozen=True, eq=False)
class Learned:
    """What clicks and controls taught."""

    ratio: DensityRatio
    """log f/f₀ by all features."""
    ratio_alone: DensityRatio
    """The same by popularity alone."""
    noise: Noise
    share: NoiseRateEstimate
    calibration: Calibration

    @classmethod
    def fitted(
        cls,
        pairs: Observed,
        users: NDArray[np.int32],
        is_click: NDArray[np.bool_],
        activity: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> Self:
        """Learn from clicks, and controls.

        Parameters
        ----------
        pairs : evidence of both
        users : of each pair, by number
        is_click : whether it is one, or a control
        activity : of each user
        rng : for drawing users again
        """
        features = pairs.features
        together = ~pairs.is_alone
        if not (is_click[together].any() and (~is_click[together]).any()):
            together = np.ones_like(together)
        ratio = DensityRatio.fitted(features[together], is_click[together])
        alone = DensityRatio.fitted(features[:, -1:], is_click)
        seen = Seen(_log_ratio(ratio, alone, pairs), pairs.popularity, users, is_click)
        line = noise_in(seen, activity, rng)
        level = level_in(features[together], users[together], is_click[together], rng)
        noise, share = settled(*line, level)
        suspicion = _suspicion(noise, seen.log_ratio, pairs.popularity)
        stands_for = noise.at(pairs.popularity[~is_click]) * is_click.sum() / np.count_nonzero(~is_click)
        calibration = Calibration.fitted(suspicion[is_click], suspicion[~is_click], stands_for)
        return cls(ratio, alone, noise, share, calibration)

    def probability(self, pairs: Observed) -> NDArray[np.float32]:
        """How probable it is that these are noise."""
        log_ratio = _log_ratio(self.ratio, self.ratio_alone, pairs)
        return self.calibration(_suspicion(self.noise, log_ratio, pairs.popularity))

    @property
    def arrays(self) -> Arrays:
        """All that this is made of, by name."""
        found: Arrays = {
            "calibration": np.stack([self.calibration.suspicion, self.calibration.probability]),
            "noise": np.array([*self.noise, *astuple(self.share)]),
        }
        for name, ratio in (("ratio", self.ratio), ("alone", self.ratio_alone)):
            found |= {f"{name}.{each.name}": getattr(ratio, each.name) for each in fields(ratio)}
        return found

    @classmethod
    def of(cls, arrays: Arrays) -> Self:
        """What was made of these arrays; there may be others beside them."""
        ratios = (
            DensityRatio(*(arrays[f"{name}.{each.name}"] for each in fields(DensityRatio)))
            for name in ("ratio", "alone")
        )
        numbers = arrays["noise"].tolist()
        noise, share = Noise(*numbers[:3]), NoiseRateEstimate(*numbers[3:])
        return cls(next(ratios), next(ratios), noise, share, Calibration(*arrays["calibration"]))


def _log_ratio(ratio: DensityRatio, alone: DensityRatio, pairs: Observed) -> NDArray[np.float64]:
    found = ratio.log_ratio(pairs.features)
    if pairs.is_alone.any():
        found[pairs.is_alone] = alone.log_ratio(pairs.features[pairs.is_alone, -1:])
    return found


def _suspicion(noise: Noise, log_ratio: NDArray[np.float64], popularity: NDArray[np.float64]) -> NDArray[np.float64]:
    """The logarithm of h·f₀/f."""
    return np.log(np.maximum(noise.at(popularity), 1e-12)) - log_ratio

"""Finding noise: cross-fitted evidence, the share of noise, a probability for each interaction, flags."""

from prorec.noise.finder import NoiseFinder
from prorec.noise.noise_rate import NoiseRateEstimate

__all__ = ["NoiseFinder", "NoiseRateEstimate"]

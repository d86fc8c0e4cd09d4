"""Noise finding: cross-fitted features, the noise rate, a noise probability for each interaction, and flags."""

from prorec.noise.finder import NoiseFinder
from prorec.noise.noise_rate import NoiseRateEstimate

__all__ = ["NoiseFinder", "NoiseRateEstimate"]

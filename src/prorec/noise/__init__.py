"""Finding noise: cross-fitted evidence, the share of noise, a probability for each interaction, flags."""

from prorec.noise.finder import NoiseFinder
from prorec.noise.share import NoiseShare

__all__ = ["NoiseFinder", "NoiseShare"]

"""Algorithm 1: a recommender and a transport plan take turns, until the clicks that don't belong count for less."""

from prorec.denoise.estimator import ProRec
from prorec.denoise.history import Round
from prorec.denoise.loss import Loss

__all__ = ["Loss", "ProRec", "Round"]

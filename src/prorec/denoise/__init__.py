"""Algorithm 1: fit a recommender, match users with items, relabel the interactions, fit again."""

from prorec.denoise.denoiser import ProRec, Thresholds
from prorec.denoise.history import Round
from prorec.denoise.loss import Loss
from prorec.models.model import load as load  # `prorec.load` comes from here, because it must know ProRec

__all__ = ["Loss", "ProRec", "Round", "Thresholds"]

"""Recommenders: how to learn from a weighted matrix of interactions."""

from prorec.models.base import Recommendations, Recommender
from prorec.models.ease import EASE
from prorec.models.model import Model, load_model
from prorec.models.nce import NCE
from prorec.models.popularity import Popularity
from prorec.models.svd import SVD
from prorec.models.wrmf import WRMF

__all__ = ["EASE", "NCE", "SVD", "WRMF", "Model", "Popularity", "Recommendations", "Recommender", "load_model"]

"""Recommenders that learn from a weighted matrix of interactions."""

from prorec.models.bpr import BPR
from prorec.models.cdae import CDAE
from prorec.models.ease import EASE
from prorec.models.lightgcn import LightGCN
from prorec.models.model import Model, load
from prorec.models.nce import NCE
from prorec.models.popularity import Popularity
from prorec.models.recommendations import Recommendations, Recommender, SimilarItems
from prorec.models.sparse_linear import SparseLinear
from prorec.models.svd import SVD
from prorec.models.vae import VAE
from prorec.models.wrap import wrap
from prorec.models.wrmf import WRMF

__all__ = [
    "BPR",
    "CDAE",
    "EASE",
    "NCE",
    "SVD",
    "VAE",
    "WRMF",
    "LightGCN",
    "Model",
    "Popularity",
    "Recommendations",
    "Recommender",
    "SimilarItems",
    "SparseLinear",
    "load",
    "wrap",
]

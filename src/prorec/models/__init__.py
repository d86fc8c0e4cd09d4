"""Recommenders: how to learn from a weighted matrix of interactions."""

from prorec.models.base import Recommendations, Recommender
from prorec.models.popularity import Popularity

__all__ = ["Popularity", "Recommendations", "Recommender"]

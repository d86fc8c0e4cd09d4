"""Observed user–item pairs as one sparse matrix, with their ids and optional columns."""

from prorec.interactions.interactions import Interactions

__all__ = ["Interactions"]

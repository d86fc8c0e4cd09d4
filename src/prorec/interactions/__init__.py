"""Observed user–item pairs as one sparse matrix, with ids and optional columns."""

from prorec.interactions.interactions import Interactions

__all__ = ["Interactions"]

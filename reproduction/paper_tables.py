"""The figures of the paper's tables, to be laid beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Counts(NamedTuple):
    """A row of Table 1."""

    users: int
    items: int
    interactions: int
    sparsity: float


class Scores(NamedTuple):
    """Three cells of Table 2, at 5."""

    ndcg: float
    map: float
    recall: float


class Ablated(NamedTuple):
    """A row of Table 3, at 5."""

    ndcg: float
    recall: float
    seconds: float


class Optimum(NamedTuple):
    """The best value of some parameters, and NDCG@5 there over the model's without ProRec."""

    at: Mapping[str, float]
    gain: float


TABLE_1: Mapping[str, Counts] = {
    "ml-100k": Counts(942, 1_447, 55_375, 0.9594),
    "amusic": Counts(1_776, 12_929, 46_087, 0.9980),
    "atoy": Counts(3_137, 33_953, 84_642, 0.9992),
    "yahoo-r1": Counts(1_948_882, 46_110, 48_817_561, 0.9995),
}

TABLE_2: Mapping[str, Mapping[str, Scores]] = {
    "amusic": {
        "SVD": Scores(0.0363, 0.0667, 0.0264),
        "NCE": Scores(0.0375, 0.0693, 0.0276),
        "CDAE": Scores(0.0074, 0.0124, 0.0060),
        "WRMF": Scores(0.0236, 0.0435, 0.0171),
        "VAE": Scores(0.0146, 0.0258, 0.0115),
        "CDAE + T-CE": Scores(0.0070, 0.0113, 0.0060),
        "CDAE + R-CE": Scores(0.0078, 0.0142, 0.0057),
        "SVD + ProRec": Scores(0.0374, 0.0677, 0.0275),
        "NCE + ProRec": Scores(0.0396, 0.0723, 0.0298),
        "CDAE + ProRec": Scores(0.0080, 0.0148, 0.0065),
        "WRMF + ProRec": Scores(0.0241, 0.0442, 0.0179),
        "VAE + ProRec": Scores(0.0162, 0.0266, 0.0120),
    },
    "atoy": {
        "SVD": Scores(0.0116, 0.0212, 0.0084),
        "NCE": Scores(0.0143, 0.0262, 0.0104),
        "CDAE": Scores(0.0046, 0.0080, 0.0033),
        "WRMF": Scores(0.0086, 0.0157, 0.0062),
        "VAE": Scores(0.0117, 0.0212, 0.0084),
        "CDAE + T-CE": Scores(0.0048, 0.0078, 0.0036),
        "CDAE + R-CE": Scores(0.0046, 0.0077, 0.0034),
        "SVD + ProRec": Scores(0.0123, 0.0220, 0.0093),
        "NCE + ProRec": Scores(0.0149, 0.0267, 0.0108),
        "CDAE + ProRec": Scores(0.0049, 0.0084, 0.0038),
        "WRMF + ProRec": Scores(0.0096, 0.0165, 0.0077),
        "VAE + ProRec": Scores(0.0129, 0.0231, 0.0102),
    },
}

TABLE_3: Mapping[str, Mapping[str, Ablated]] = {
    "amusic": {
        "NCE": Ablated(0.0375, 0.0276, 64),
        "NCE + EMD": Ablated(0.0360, 0.0259, 98),
        "NCE + Sinkhorn": Ablated(0.0384, 0.0281, 132),
        "NCE + ROT": Ablated(0.0383, 0.0281, 76),
        "NCE + ProRec": Ablated(0.0396, 0.0298, 82),
    },
    "yahoo-r1": {
        "NCE": Ablated(0.2498, 0.2249, 361),
        "NCE + EMD": Ablated(0.2169, 0.1933, 723),
        "NCE + Sinkhorn": Ablated(0.2579, 0.2341, 1845),
        "NCE + ROT": Ablated(0.2577, 0.2340, 683),
        "NCE + ProRec": Ablated(0.2619, 0.2364, 694),
    },
}

NOISE_20: Mapping[str, float] = {"NCE": 0.1579, "NCE + ProRec": 0.1596}
"""Recall@5 on ML-100k with 20% of noise: the only numbers of Fig. 2a that the text has."""

OPTIMUM: Mapping[str, Optimum] = {"amusic": Optimum({"lambda": 0.5, "gamma": 0.1}, 0.0396 / 0.0375 - 1)}
"""Of Fig. 2b and 2c, what the text says: where the best was, and Table 2 says how good it was."""

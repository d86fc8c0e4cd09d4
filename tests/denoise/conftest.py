"""Fixtures: a small cinema and a denoiser fitted to it."""

from __future__ import annotations

import pytest

import prorec
from prorec import Interactions, ProRec
from prorec.models import NCE


@pytest.fixture(scope="module")
def cinema() -> prorec.Interactions:
    return prorec.make_cinema(300, 200, seed=2).interactions


@pytest.fixture(scope="module")
def denoised(cinema: Interactions) -> ProRec:
    return ProRec(NCE(rank=20, regularization=10.0), noise_method="plan").fit(cinema)

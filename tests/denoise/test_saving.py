"""Saved denoisers: loading gives the same denoiser; damaged files are refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prorec
from prorec import InputError, Interactions, ProRec
from prorec.models import NCE
from tests.models.helpers import clicks


@pytest.mark.parametrize("threshold", ["personal", "none", 3])
def test_saved_and_loaded(threshold: Any, tmp_path: Path, cinema: Interactions) -> None:
    denoiser = ProRec(NCE(rank=8), rounds=2, threshold=threshold, gamma=0.3, noise_method="plan").fit(cinema)
    denoiser.save(tmp_path / "kept")
    again = prorec.load(tmp_path / "kept")
    assert isinstance(again, ProRec)
    assert again == denoiser, "parameters"
    assert again.history_ == denoiser.history_
    assert again.converged_ == denoiser.converged_
    assert again.noise_table().equals(denoiser.noise_table())
    assert again.interactions_.item_categories == cinema.item_categories
    np.testing.assert_array_equal(
        again.recommend(cinema.users).item_positions, denoiser.recommend(cinema.users).item_positions
    )
    assert again.explain(cinema.users[0]).num_rows
    again.fit(cinema)
    np.testing.assert_array_equal(again.weights_.data, denoiser.weights_.data)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    ProRec(NCE(rank=3), noise_method="plan").fit(clicks()).save(tmp_path)
    about = (tmp_path / "model.json").read_text()
    for old, new, problem in (
        ('"class_name": "NCE"', '"class_name": "Nope"', "'Nope'"),
        ('"history"', '"story"', "incomplete or damaged"),
        ('"lam"', '"lamb"', "incomplete or damaged"),
        ('"flag_fraction": null', '"flag_fraction": "x"', "flag_fraction must be"),
        ('"gamma": "auto"', '"gamma": "x"', "gamma must be"),
    ):
        assert old in about
        (tmp_path / "model.json").write_text(about.replace(old, new))
        with pytest.raises(InputError, match=problem):
            prorec.load(tmp_path)


@pytest.mark.parametrize("seed", range(6))
def test_flipped_bytes_are_refused(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    data = clicks()
    ProRec(NCE(rank=3), noise_method="plan").fit(data, checkpoint=tmp_path).save(tmp_path)
    for path in (next(tmp_path.glob("arrays-*.npz")), tmp_path / "round.npz"):
        content = bytearray(path.read_bytes())
        for at in rng.integers(len(content), size=40):
            content[at] ^= 255
        path.write_bytes(content)
    with pytest.raises(InputError):
        prorec.load(tmp_path)
    with pytest.raises(InputError):
        ProRec(NCE(rank=3), noise_method="plan").fit(data, checkpoint=tmp_path)


def test_numbers_of_any_kind_can_be_saved(tmp_path: Path) -> None:
    denoiser = ProRec(NCE(rank=3), lam=Fraction(1, 2), beta=np.float32(20), noise_method="plan").fit(clicks())  # type: ignore[arg-type]
    denoiser.save(tmp_path)
    again = prorec.load(tmp_path)
    assert (again.lam, again.beta) == (0.5, 20.0)  # type: ignore[attr-defined]

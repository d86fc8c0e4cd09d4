"""Checkpoints: an interrupted run continues; the state of another run is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from prorec import InputError, ProRec
from prorec.models import CDAE, NCE, SVD, WRMF, Model
from tests.models.helpers import clicks, make_small

torch.set_num_threads(1)


class Killed(BaseException):
    pass


@pytest.mark.parametrize(
    "model", [NCE(rank=3), WRMF(rank=3), make_small(CDAE).set_params(epochs=4)], ids=lambda model: type(model).__name__
)
@pytest.mark.parametrize("warm_start", [False, True])
def test_a_killed_run_resumes_to_the_same_result(model: Model, warm_start: bool, tmp_path: Path) -> None:
    data = clicks()
    denoiser = ProRec(model, rounds=3, warm_start=warm_start, noise_method="plan")
    calls: list[tuple[str, int, int]] = []
    denoiser.fit(data, progress=lambda *report: calls.append(report), track_loss=True)
    wanted = denoiser.weights_.data, denoiser.recommend(data.users, k=5), denoiser.history_
    for at in range(0, len(calls), 5):
        folder = tmp_path / str(at)
        count = iter(range(len(calls) + 1))

        def progress(*_: object, count: Any = count, at: int = at) -> None:
            if next(count) == at:
                raise Killed

        again = ProRec(model, rounds=3, warm_start=warm_start, noise_method="plan")
        with pytest.raises(Killed):
            again.fit(data, checkpoint=folder, progress=progress, track_loss=True)
        again.fit(data, checkpoint=folder, track_loss=True)
        np.testing.assert_array_equal(again.weights_.data, wanted[0])
        np.testing.assert_array_equal(again.recommend(data.users, k=5).scores, wanted[1].scores)
        assert [each.loss_refitted for each in again.history_] == [each.loss_refitted for each in wanted[2]]
        np.testing.assert_array_equal(again.thresholds_.kappa, denoiser.thresholds_.kappa)


def test_finished_rounds_are_not_repeated(tmp_path: Path) -> None:
    data, stages = clicks(), []
    ProRec(NCE(rank=3), rounds=2, noise_method="plan").fit(data, checkpoint=tmp_path)
    ProRec(NCE(rank=3), rounds=2, noise_method="plan").fit(
        data, checkpoint=tmp_path, progress=lambda what, *_: stages.append(what)
    )
    assert set(stages) == {"Fitting NCE, round 2"}


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    data = clicks()
    ProRec(NCE(rank=3), noise_method="plan").fit(data, checkpoint=tmp_path)
    others = (
        (ProRec(NCE(rank=4), noise_method="plan"), data),
        (ProRec(NCE(rank=3), lam=0.4, noise_method="plan"), data),
        (ProRec(SVD(rank=3), noise_method="plan"), data),
        (ProRec(NCE(rank=3), noise_method="plan"), clicks(seed=1)),
    )
    for denoiser, of in others:
        with pytest.raises(InputError, match="checkpoint of other parameters or other interactions"):
            denoiser.fit(of, checkpoint=tmp_path)
    path = tmp_path / "round.npz"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match=r"round\.npz: this checkpoint is damaged; remove it to start anew"):
        ProRec(NCE(rank=3), noise_method="plan").fit(data, checkpoint=tmp_path)


class Configured:
    """A third-party model whose settings are not all numbers."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def fit(self, matrix: csr_array) -> None:
        self.matrix = matrix.toarray()

    def score(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.matrix[rows] * self.config["scale"])


def test_checkpoints_of_third_party_models(tmp_path: Path) -> None:
    data = clicks()
    first = ProRec(Configured({"scale": 1.0}), gamma=0.1, noise_method="plan").fit(data, checkpoint=tmp_path)
    again = ProRec(Configured({"scale": 1.0}), gamma=0.1, noise_method="plan").fit(data, checkpoint=tmp_path)
    np.testing.assert_array_equal(first.weights_.data, again.weights_.data)
    with pytest.raises(InputError, match="checkpoint of other parameters"):
        ProRec(Configured({"scale": np.full(30, -1.0)}), gamma=0.1, noise_method="plan").fit(data, checkpoint=tmp_path)
    ProRec(Configured({"scale": 1.0, "odd": torch.ones(3)}), gamma=0.1, noise_method="plan").fit(
        data, checkpoint=tmp_path / "odd"
    )
    ProRec(Configured({"scale": 1.0, "odd": torch.ones(3)}), gamma=0.1, noise_method="plan").fit(
        data, checkpoint=tmp_path / "odd"
    )
    for odd in (torch.zeros(3), np.random.default_rng(1), {"a", "b"}):
        with pytest.raises(InputError, match="checkpoint of other parameters"):
            ProRec(Configured({"scale": 1.0, "odd": odd}), gamma=0.1, noise_method="plan").fit(
                data, checkpoint=tmp_path / "odd"
            )
    for odd in (torch.ones(30), torch.zeros(30)):
        with pytest.raises(InputError, match="checkpoint of other parameters"):
            ProRec(Configured({"scale": 1.0, "odd": odd}), gamma=0.1, noise_method="plan").fit(
                data, checkpoint=tmp_path
            )
    with pytest.raises(InputError, match=r"holds the function .*<lambda>, which cannot"):
        ProRec(Configured({"scale": 1.0, "change": lambda x: x}), gamma=0.1, noise_method="plan").fit(
            data, checkpoint=tmp_path
        )


def test_a_checkpoint_with_other_items_is_refused(tmp_path: Path) -> None:
    entries = (np.ones(4), ([0, 0, 1, 1], [0, 1, 0, 1]))
    small, large = (csr_array(entries, shape=(2, n_items)) for n_items in (3, 5))
    ProRec(SVD(rank=1), noise_method="plan").fit(small, checkpoint=tmp_path)
    with pytest.raises(InputError, match="checkpoint of other parameters"):
        ProRec(SVD(rank=1), noise_method="plan").fit(large, checkpoint=tmp_path)

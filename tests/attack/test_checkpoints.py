"""Checkpoints that somebody changed on purpose: refused in one sentence, whatever a run would continue with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import prorec
from prorec import InputError, ProRec
from prorec._core.digest import digest
from prorec.models import CDAE, WRMF
from tests.models.helpers import clicks

torch.set_num_threads(1)
Change = Callable[[dict[str, Any], dict[str, Any]], Any]


def change_checkpoint(path: Path, change: Change) -> None:
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    record = json.loads(arrays.pop("record").tobytes())
    change(record, arrays)
    record["digests"] = {name: digest(array) for name, array in arrays.items()}
    content = np.frombuffer(json.dumps(record).encode(), np.uint8)
    with path.open("wb") as opened:
        np.savez(opened, record=content, **arrays)


@pytest.mark.parametrize(
    "change",
    [
        lambda record, arrays: arrays.update(weights=arrays["weights"] * 3),
        lambda record, arrays: arrays.update(weights=arrays["weights"][:-1]),
        lambda record, arrays: arrays.update(kappa=arrays["kappa"].astype(np.float32)),
        lambda record, arrays: arrays.update({"model.items": arrays["model.items"][:1]}),
        lambda record, arrays: arrays.update({"model.more": arrays["model.items"]}),
        lambda record, arrays: arrays.update({"other.items": arrays["model.items"]}),
        lambda record, arrays: arrays.pop("shares"),
        lambda record, arrays: record.pop("round"),
        lambda record, arrays: record.update(round=[]),
        lambda record, arrays: record["round"].update(number=10**9),
        lambda record, arrays: record["round"].update(gamma=float("nan")),
        lambda record, arrays: record["round"].update(more=1.0),
        lambda record, arrays: record.update(history=7),
        lambda record, arrays: record.pop("identity"),
    ],
)
def test_a_changed_round_is_refused(change: Change, tmp_path: Path) -> None:
    data, denoiser = (
        clicks(),
        ProRec(WRMF(rank=3, sweeps=1), rounds=2, warm_start=True, tolerance=0.0, noise_method="plan"),
    )
    denoiser.fit(data, checkpoint=tmp_path)
    change_checkpoint(tmp_path / "round.npz", lambda record, arrays: None)
    denoiser.fit(data, checkpoint=tmp_path)  # the copy is as good as the file
    change_checkpoint(tmp_path / "round.npz", change)
    with pytest.raises(InputError, match="damaged; remove it to start anew"):
        denoiser.fit(data, checkpoint=tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda record, arrays: arrays.update({"now.items": arrays["now.items"][:1]}),
        lambda record, arrays: arrays.update({"best.items": arrays["best.items"] * np.nan}),
        lambda record, arrays: arrays.pop("best.encoder"),
        lambda record, arrays: arrays.update({"adam.items.exp_avg": arrays["adam.items.exp_avg"][:, :1]}),
        lambda record, arrays: arrays.update({"adam.items.exp_avg_sq": -1 - arrays["adam.items.exp_avg_sq"]}),
        lambda record, arrays: arrays.update({"adam.items.step": np.ones(3, np.float32)}),
        lambda record, arrays: arrays.update({"adam.items.step": arrays["adam.items.step"].astype(np.int64)}),
        lambda record, arrays: arrays.update({"adam.more": np.ones(3, np.float32)}),
        lambda record, arrays: record.update(history={"loss": 1}),
        lambda record, arrays: record["history"][0].pop("loss"),
        lambda record, arrays: record["history"][0].update(loss="low"),
        lambda record, arrays: record["history"][0].update(loss=float("inf")),
        lambda record, arrays: record["history"][0].pop("ndcg@10"),
    ],
)
def test_a_changed_training_is_refused(change: Change, tmp_path: Path) -> None:
    parts = prorec.split_by_user(clicks(), (0.7, 0.3), seed=0)
    model = CDAE(4, epochs=2, batch_size=20)
    model.fit(parts.train, validation=parts.test, checkpoint=tmp_path)
    change_checkpoint(tmp_path / "training.npz", lambda record, arrays: None)
    model.fit(parts.train, validation=parts.test, checkpoint=tmp_path)
    change_checkpoint(tmp_path / "training.npz", change)
    with pytest.raises(InputError, match=r"training\.npz: .*(damaged|finite number)"):
        model.fit(parts.train, validation=parts.test, checkpoint=tmp_path)


def test_a_pipe_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "round.npz").symlink_to("/dev/zero")
    with pytest.raises(InputError, match="a regular file is required here"):
        ProRec(WRMF(rank=3, sweeps=1), noise_method="plan").fit(clicks(), checkpoint=tmp_path)


def test_a_link_is_no_file_of_trials(tmp_path: Path) -> None:
    parts = prorec.split_by_user(clicks(), (0.7, 0.3), seed=0)
    prorec.tune(WRMF(rank=2, sweeps=1), parts.train, parts.test, {"rank": (2,)}, folder=tmp_path)
    (path,) = tmp_path.iterdir()
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(InputError, match=r"not a file of trials: .*a symbolic link"):
        prorec.tune(WRMF(rank=2, sweeps=1), parts.train, parts.test, {"rank": (2,)}, folder=tmp_path)

"""Folders of saved models that were made to break `load`, `recommend`, `score` or `save`."""

from __future__ import annotations

import json
import os
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from prorec import InputError, load
from prorec.models import NCE, SVD, WRMF
from tests.attack.model_folders import change_array, read_folder, write_folder
from tests.models.helpers import clicks
from tests.models.saved.make import FOLDER

SAVED = FOLDER / "v2"
ARRAYS = [(each.name, name) for each in sorted(SAVED.glob("*/")) for name in read_folder(each)[1]]
CHANGES: dict[str, Callable[[NDArray[Any]], Any]] = {
    "missing": lambda array: None,
    "shorter": lambda array: array[:1] if array.ndim and len(array) > 1 else array.reshape(-1)[:0],
    "deeper": lambda array: array[..., None],
    "of another type": lambda array: array.astype(np.int64 if array.dtype.kind == "f" else np.float32),
}


@pytest.mark.parametrize(("model", "name"), ARRAYS, ids=lambda each: each)
def test_every_array_has_a_rule(model: str, name: str, tmp_path: Path) -> None:
    changes = dict(CHANGES)
    if read_folder(SAVED / model)[1][name].dtype.kind == "f":
        changes["not finite"] = lambda array: array * np.nan
        changes["huge"] = lambda array: array + np.inf
    for change in changes.values():
        folder = change_array(SAVED / model, tmp_path / "model", name, change)
        with pytest.raises(InputError, match=r"damaged|denoiser|must"):
            load(folder)


@pytest.mark.parametrize(
    ("model", "name", "change"),
    [
        ("svd", "matrix.indices", lambda a: a + 20),
        ("svd", "matrix.indices", lambda a: a - 20),
        ("svd", "matrix.indices", lambda a: np.zeros_like(a)),
        ("svd", "matrix.indptr", lambda a: a + 1),
        ("svd", "matrix.indptr", lambda a: a[::-1].copy()),
        ("svd", "matrix.indptr", lambda a: np.where(np.arange(len(a)) == 3, 2**31 - 1, a).astype(a.dtype)),
        ("svd", "matrix.data", lambda a: a * 2),
        ("svd", "matrix.data", lambda a: -a),
        ("svd", "items", lambda a: np.zeros_like(a)),
        ("svd", "users.ends", lambda a: a[::-1].copy()),
        ("svd", "users.ends", lambda a: np.zeros_like(a)),
        ("svd", "users.bytes", lambda a: np.full_like(a, 255)),
        ("prorec", "learned.weights", lambda a: a * 2),
        ("prorec", "learned.shares", lambda a: a - 1),
        ("prorec", "learned.kappa", lambda a: a + 1000),
        ("prorec-cross-fit", "learned.noise.noise_probability", lambda a: a + 1),
        ("prorec-cross-fit", "learned.noise.percentile_rank", lambda a: a - 1),
        ("prorec-cross-fit", "learned.noise.basis", lambda a: np.full_like(a, 2)),
        ("prorec-cross-fit", "learned.noise.calibration", lambda a: a * [[1], [1e30]]),
        ("prorec-cross-fit", "learned.noise.calibration", lambda a: a[:, ::-1][:, [0, 0]].copy()),
        ("prorec-cross-fit", "learned.noise.noise_rate", lambda a: a * 0),
        ("prorec-cross-fit", "learned.noise.noise_rate", lambda a: a + 9 * (np.arange(7) == 3)),
        ("prorec-cross-fit", "learned.noise.density_ratio.coefficients", lambda a: a + 1e300),
        ("prorec-cross-fit", "learned.noise.density_ratio.inverse_scale", lambda a: a - 1),
        ("prorec-cross-fit", "learned.noise.item_issue.pushed_item", lambda a: a + 2),
    ],
)
def test_values_out_of_range_are_refused(model: str, name: str, change: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"damaged|cannot be read"):
        load(change_array(SAVED / model, tmp_path / "model", name, change))


def test_a_projection_with_one_row_is_refused(tmp_path: Path) -> None:
    NCE(rank=3).fit(clicks()).save(tmp_path / "good")
    folder = change_array(tmp_path / "good", tmp_path / "bad", "learned.projection", lambda array: array[:1])
    with pytest.raises(InputError, match=r"projection is float32 of shape \(1, 3\), but must be .*\(30, 3\)"):
        load(folder)


def test_parameters_must_suit_the_arrays(tmp_path: Path) -> None:
    WRMF(rank=3, sweeps=1).fit(clicks()).save(tmp_path)
    content, arrays = read_folder(tmp_path)
    for parameters, message in (
        ({"rank": 4}, "users is float32 of shape"),
        ({"rank": 10**9}, "rank must be a whole number from 1 to"),
        ({"alpha": "1e999"}, "alpha must be"),
        ({"regularization": float("nan")}, "regularization must be"),
        ({"depth": 3}, "parameters are not those of WRMF"),
    ):
        write_folder(tmp_path, content | {"parameters": content["parameters"] | parameters}, arrays)
        with pytest.raises(InputError, match=message):
            load(tmp_path)


def test_arrays_of_nobody_are_refused(tmp_path: Path) -> None:
    for model, extra in (
        ("svd", "learned.projection"),
        ("svd", "more"),
        ("prorec", "learned.noise.basis"),
        ("prorec-cross-fit", "learned.noise.7.users"),
    ):
        content, arrays = read_folder(SAVED / model)
        write_folder(tmp_path, content, arrays | {extra: np.ones(3, dtype=np.float32)})
        with pytest.raises(InputError, match=f"{extra.split('.', 1)[-1].removeprefix('noise.')}' is not one of its"):
            load(tmp_path)


def test_overlapping_texts_take_no_memory(tmp_path: Path) -> None:
    content, arrays = read_folder(SAVED / "svd")
    n = 20_000
    arrays |= {"users.bytes": np.full(n, 97, np.uint8), "users.ends": np.tile([n, 0], 12)}
    write_folder(tmp_path, content, arrays)
    load(SAVED / "svd")  # imports what it needs
    tracemalloc.start()
    with pytest.raises(InputError, match=r"users\.ends must rise"):
        load(tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()


def test_changed_bytes_are_named_by_the_digest(tmp_path: Path) -> None:
    content, arrays = read_folder(SAVED / "svd")
    write_folder(tmp_path, content, arrays)
    digests = json.loads((tmp_path / "model.json").read_text())["digests"]
    arrays["learned.items"] = arrays["learned.items"] + np.float32(1)
    write_folder(tmp_path, content, arrays)
    (tmp_path / "model.json").write_text(json.dumps(content | {"digests": digests}))
    with pytest.raises(InputError, match=r"learned\.items must have the digest"):
        load(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps({k: v for k, v in content.items() if k != "digests"}))
    with pytest.raises(InputError, match="digests must be those of the arrays"):
        load(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"version": None},
        {"version": [1]},
        {"class_name": ["SVD"]},
        {"class_name": {"a": 1}},
        {"parameters": [1]},
        {"parameters": {"rank": [2]}},
        {"arrays": "../other/arrays-01234567.npz"},
        {"arrays": 7},
        {"digests": [1]},
        {"item_categories": [1] * 10},
        {"item_categories": "text"},
        {"item_categories": [["a"]]},
    ],
    ids=str,
)
def test_odd_json_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    shutil.copytree(SAVED / "svd", tmp_path / "model")
    content = json.loads((tmp_path / "model" / "model.json").read_text())
    (tmp_path / "model" / "model.json").write_text(json.dumps(content | changes))
    with pytest.raises(InputError):
        load(tmp_path / "model")


@pytest.mark.parametrize(
    "change",
    [
        lambda parameters: parameters["history"].clear(),
        lambda parameters: parameters["history"][0].update(gamma="x"),
        lambda parameters: parameters["history"][0].update(gamma=float("inf")),
        lambda parameters: parameters["history"][0].update(number=5),
        lambda parameters: parameters["history"][0].update(kappa_quartiles=[1, 2]),
        lambda parameters: parameters["history"][1].update(loss_before=["a", "b"]),
        lambda parameters: parameters.update(history={"number": 0}),
        lambda parameters: parameters["history"].insert(0, 3),
        lambda parameters: parameters.update(model=3),
        lambda parameters: parameters.update(model={"class_name": "ProRec", "parameters": {}}),
        lambda parameters: parameters["finder"].update(base_models=[]),
        lambda parameters: parameters["finder"].update(base_models=3),
        lambda parameters: parameters["finder"].update(memory=1.0),
        lambda parameters: parameters["finder"].update(folds=10**9),
        lambda parameters: parameters.update(finder=None),
        lambda parameters: parameters.pop("finder"),
    ],
)
def test_odd_denoisers_are_refused(change: Callable[[dict[str, Any]], Any], tmp_path: Path) -> None:
    content, arrays = read_folder(SAVED / "prorec-cross-fit")
    change(content["parameters"])
    write_folder(tmp_path, content, arrays)
    with pytest.raises(InputError):
        load(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("name", ["model.json", "arrays"])
def test_links_and_pipes_are_not_followed(name: str, tmp_path: Path) -> None:
    content = json.loads((SAVED / "svd" / "model.json").read_text())
    file = "model.json" if name == "model.json" else content["arrays"]
    for make, kind in (
        (lambda path: path.symlink_to("/dev/zero"), "a symbolic link"),
        (lambda path: path.symlink_to(SAVED / "svd" / file), "a symbolic link"),
        (os.mkfifo, "a pipe"),
        (Path.mkdir, "a folder"),
    ):
        folder = tmp_path / "model"
        shutil.copytree(SAVED / "svd", folder)
        (folder / file).unlink()
        make(folder / file)
        with pytest.raises(InputError, match=kind):
            load(folder)
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["precious.txt", "../precious.txt", "arrays-mine.npz", "/etc/hostname", ["x"], None])
def test_saving_deletes_no_file_that_a_strange_json_names(name: Any, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    files = [folder / "precious.txt", tmp_path / "precious.txt", folder / "arrays-mine.npz"]
    for file in files:
        file.write_text("precious")
    (folder / "model.json").write_text(json.dumps({"format": "prorec model", "version": 2, "arrays": name}))
    SVD(rank=2).fit(clicks()).save(folder)
    assert [file.read_text() for file in files] == ["precious"] * 3
    assert load(folder).interactions_.n_users == 60


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_saving_over_a_pipe_ends(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.json")
    with pytest.raises(InputError, match="this is a pipe"):
        SVD(rank=2).fit(clicks()).save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]

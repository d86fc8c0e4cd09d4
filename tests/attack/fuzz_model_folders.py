"""Saved models with random changes: each is refused in one sentence, or gives results that are what they should be."""

from __future__ import annotations

import copy
import json
import shutil
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import prorec
from prorec import Interactions, ProRec
from prorec.models import Model
from tests.attack.cases import Attack, BrokenPromise, Case
from tests.attack.fuzz_logs import check_message
from tests.attack.model_folders import read_folder, write_folder
from tests.models.saved.make import FOLDER

FREE_BYTES = 4_000_000
"""Python's own objects, such as those of the JSON file."""
BASES = sorted(path.parent for path in FOLDER.glob("v*/*/model.json"))
LATER = Interactions.from_table(
    pa.table({"user": ["user-0", "user-0", "user-1", "new", "new", "other"], "item": [100, 105, 104, 101, 103, 999]})
)
ODD_VALUES: list[Any] = [
    *(None, True, False, -1, 0, 1, 2, 10**6, 10**30, -0.0, 0.5, 1e308, float("nan"), float("inf")),
    *("", "x" * 1000, "SVD", "ProRec", "\x00", "../../etc", [], {}, [[]], {"a": None}, ["x"], [0] * 24),
]
EXTREMES = [0, 1, -1, 2, 7, 127, 1e-30, 1e30, -1e30, 3e38, np.nan, np.inf, -np.inf, 2**31 - 1, -(2**31), 2**62]


def change_array(rng: np.random.Generator, arrays: dict[str, NDArray[Any]]) -> None:
    """Change one array."""
    names = list(arrays)
    name, other = rng.choice(names, 2)
    array = arrays[name].copy()
    changes: list[Callable[[], Any]] = [
        lambda: array[: rng.integers(len(array) + 1)] if array.ndim else array[None],
        lambda: np.repeat(array, int(rng.integers(1, 4)), axis=0) if array.ndim else array,
        lambda: array.T,
        lambda: array.reshape(-1),
        lambda: array[None],
        lambda: np.asfortranarray(array),
        lambda: array.astype(rng.choice(["f2", "f4", "f8", ">f4", "i1", "i4", "i8", "u1", "bool", "U5", "c8"])),
        lambda: array.astype(object),
        lambda: rng.permutation(array) if array.ndim else array,
        lambda: arrays[other],
        lambda: array * 0 + np.array(EXTREMES[rng.integers(len(EXTREMES))]).astype(array.dtype),
        lambda: scatter(rng, array),
        lambda: scatter(rng, array),
        lambda: np.empty((0, *array.shape[1:]), array.dtype),
        lambda: None,
    ]
    with np.errstate(all="ignore"):
        changed = changes[rng.integers(len(changes))]()
    if changed is None:
        del arrays[name]
    else:
        arrays[name] = changed
    if rng.random() < 0.05:
        arrays[str(rng.choice(["learned.more", "matrix.shape", "../x", f"{name}.0", "learned.noise.9.users"]))] = array


def scatter(rng: np.random.Generator, array: NDArray[Any]) -> NDArray[Any]:
    """Return the array with a few extreme values, and values of its own at other places."""
    flat = array.reshape(-1).copy()
    for _ in range(int(rng.integers(1, 4)) if len(flat) else 0):
        value = EXTREMES[rng.integers(len(EXTREMES))] if rng.random() < 0.7 else flat[rng.integers(len(flat))]
        flat[rng.integers(len(flat))] = np.array(value).astype(array.dtype)
    return flat.reshape(array.shape)


def change_json(rng: np.random.Generator, content: Any) -> None:
    """Replace, remove or move one value somewhere in the content."""
    while isinstance(content, dict | list) and content:
        keys = list(content) if isinstance(content, dict) else list(range(len(content)))
        key = keys[rng.integers(len(keys))]
        if not isinstance(content[key], dict | list) or not content[key] or rng.random() < 0.2:
            if rng.random() < 0.2:
                del content[key]
            elif rng.random() < 0.1 and isinstance(content, dict):
                content[f"{key}x"] = content.pop(key)
            else:
                content[key] = copy.deepcopy(ODD_VALUES[rng.integers(len(ODD_VALUES))])
            return
        content = content[key]


def claim_shape(rng: np.random.Generator, path: Path) -> None:
    """Write another shape or type into the header of an array, in a file whose sizes may agree with it."""
    with zipfile.ZipFile(path) as archive:
        members = [(each.filename, archive.read(each)) for each in archive.infolist()]
    at = int(rng.integers(len(members)))
    name, data = members[at]
    length = int.from_bytes(data[8:10], "little")
    header = data[10 : 10 + length].decode("latin-1")
    begin = header.index("'shape': ") + len("'shape': ")
    shapes = ["(1000000000,)", "(-1,)", "(4000000000, 4)", "()", "(0,)", "(2, 2)", "(1e9,)", "([9**9**9],)", "(True,)"]
    shape = shapes[rng.integers(len(shapes))]
    header = header[:begin] + shape + ", }"
    if rng.random() < 0.3:
        header = header.replace("<f4", "|O").replace("<i8", "<U99999999")
    members[at] = (
        name,
        data[:10] + header.ljust(length - 1)[: length - 1].encode("latin-1") + b"\n" + data[10 + length :],
    )
    with zipfile.ZipFile(path, "w") as archive:
        for filename, each in members:
            archive.writestr(filename, each)


def change_bytes(rng: np.random.Generator, path: Path) -> None:
    """Flip, cut, repeat or add bytes, or zip the arrays in another way."""
    data = bytearray(path.read_bytes())
    kind = rng.integers(6)
    if kind == 0:
        data = data[: rng.integers(len(data))]
    elif kind == 1:
        begin, end = sorted(rng.integers(len(data), size=2))
        data = data[:end] + data[begin:]
    elif kind == 2 and path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            members = [(each.filename, archive.read(each)) for each in archive.infolist()]
        methods = [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_STORED]
        with zipfile.ZipFile(path, "w", methods[rng.integers(4)]) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for filename, each in [*members, members[rng.integers(len(members))]]:
                archive.writestr(filename, each)
        return
    else:
        for _ in range(int(rng.integers(1, 5))):
            # The ends hold the directory of a zip file; most of the rest is numbers.
            position = (
                int(rng.integers(len(data))) if kind < 4 else len(data) - 1 - int(rng.integers(min(200, len(data))))
            )
            data[position] = int(rng.choice([0, 1, 255, data[position] ^ 1 << int(rng.integers(8))]))
    path.write_bytes(data)


@cache
def _read_base(base: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return JSON and arrays of a saved model, read once in a process."""
    return read_folder(base)


def make_folder(rng: np.random.Generator, folder: Path) -> None:
    """Copy a saved model and change it."""
    base = BASES[rng.integers(len(BASES))]
    shutil.copytree(base, folder)
    content, arrays = copy.deepcopy(_read_base(base)[0]), dict(_read_base(base)[1])
    kind = rng.random()
    if kind < 0.75:
        for _ in range(int(rng.integers(1, 3))):
            if rng.random() < 0.65:
                change_array(rng, arrays)
            else:
                change_json(rng, content)
        if isinstance(content.get("arrays"), str) and content["arrays"].startswith("arrays-"):
            write_folder(folder, content, arrays)
        else:
            (folder / "model.json").write_text(json.dumps(content))
    elif kind < 0.83:
        claim_shape(rng, folder / content["arrays"])
    else:
        files = sorted(folder.iterdir())
        change_bytes(rng, files[rng.integers(len(files))])


def use(model: Any, folder: Path) -> None:
    """Use a loaded model as its owner would, and check what it says."""
    users = model.interactions_.users[:5]
    n_items = model.interactions_.n_items
    with np.errstate(all="ignore"):
        ranked = model.recommend(users, k=min(3, n_items)).item_positions
        others = model.recommend_new([model.interactions_.items[:2].tolist()], k=1).item_positions
        similar = model.similar_items(model.interactions_.items[:2], k=min(3, n_items)).item_positions
    assert len(ranked) == len(users)
    for row in (*ranked, *others, *similar):
        found = row[row >= 0]
        assert len(set(found.tolist())) == len(found), "an item is listed once"
        assert found.max(initial=0) < n_items
    if isinstance(model, ProRec):
        probabilities = [model.noise_probability_, model.weights_.data]
        assert len(model.flagged_) == len(model.interactions_)
        assert model.noise_table().num_rows == len(model.interactions_)
        model.explain(users[0])
        repr(model), model._repr_html_()
        if model.noise_method != "plan":
            model.finder_.issues_.summary()
            scores = model.score(LATER)
            probabilities.append(scores["noise_probability"].drop_null().to_numpy())
            is_known = np.array(scores["basis"].to_pylist()) != "unknown item"
            assert (scores["noise_probability"].is_valid().to_numpy() == is_known).all()
        for each in probabilities:
            assert np.isfinite(each).all()
            assert each.min(initial=0) >= 0
            assert each.max(initial=0) <= 1
    model.save(folder / "again")
    again = prorec.load(folder / "again")
    assert isinstance(again, Model | ProRec)


def _measured_load(folder: Path) -> Any:
    """Load a model; break a promise if that takes more than twice the memory of its files."""
    size = sum(path.stat().st_size for path in folder.iterdir())
    tracemalloc.start()
    try:
        return prorec.load(folder)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        if peak > 2 * size + FREE_BYTES:
            raise BrokenPromise("allocations beyond twice the file", f"{peak:,} bytes for files of {size:,}")


def run_case(case: Case) -> str:
    """Make a folder, load it, and use what is loaded."""
    folder = case.folder / "model"
    make_folder(case.rng, folder)
    case.counts["crafted folders"] += 1
    model, refusal = None, ""
    try:
        model = _measured_load(folder) if case.happens(0.3) else prorec.load(folder)
    except prorec.ProrecError as error:
        refusal = str(error)
    if model is None:
        assert len(refusal.splitlines()) == 1, refusal
        check_message(refusal)
        return "refused by load"
    try:
        use(model, folder)
    except prorec.ProrecError as error:
        check_message(str(error))
        return "refused in use"
    return "used"


ATTACK = Attack("model-folders", run_case, n_cases=8_000, chunk=100)

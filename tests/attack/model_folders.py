"""Folders of saved models that somebody changed on purpose, with digests that agree."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.digest import digest

Arrays = dict[str, NDArray[Any]]


def read_folder(folder: Path) -> tuple[dict[str, Any], Arrays]:
    """Return the JSON and the arrays of a saved model, read by numpy."""
    content = json.loads((folder / "model.json").read_text("utf-8"))
    with np.load(folder / content["arrays"]) as file:
        return content, {name: file[name] for name in file.files}


def write_folder(folder: Path, content: dict[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write a model as an attacker would, who knows how digests are computed."""
    folder.mkdir(parents=True, exist_ok=True)
    digests = {name: digest(np.asarray(array)) for name, array in arrays.items()}
    (folder / "model.json").write_text(json.dumps(content | {"digests": digests}), "utf-8")
    with (folder / content["arrays"]).open("wb") as file:
        np.savez(file, **arrays)


def change_array(folder: Path, target: Path, name: str, change: Callable[[NDArray[Any]], Any]) -> Path:
    """Copy a saved model with one array changed; a result of None removes it."""
    content, arrays = read_folder(folder)
    changed = {**arrays, name: change(arrays[name])}
    write_folder(target, content, {each: array for each, array in changed.items() if array is not None})
    return target

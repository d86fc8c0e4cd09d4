"""Models that were saved in each version of the format still load and recommend as they did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prorec
from prorec.models.storage import VERSION
from tests.models.saved.make import FOLDER, MODELS, observe

VERSIONS = sorted(int(path.name.removeprefix("v")) for path in FOLDER.glob("v*"))
SAVED = sorted(path.parent for path in FOLDER.glob("v*/*/model.json"))


def test_every_version_and_every_class_has_a_saved_model() -> None:
    assert list(range(1, VERSION + 1)) == VERSIONS, "run tests/models/saved/make.py and commit the new folder"
    assert {path.name for path in SAVED if path.parent.name == f"v{VERSION}"} == set(MODELS)
    names = "BPR CDAE EASE LightGCN NCE SVD SparseLinear VAE WRMF Popularity".split()
    assert {type(model) for model in MODELS.values()} >= {getattr(prorec.models, name) for name in names}


@pytest.mark.parametrize("folder", SAVED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_saved_model_loads_and_recommends_the_same(folder: Path, tmp_path: Path) -> None:
    expected: dict[str, Any] = json.loads((folder.parent / "expected.json").read_text("utf-8"))[folder.name]
    content = json.loads((folder / "model.json").read_text("utf-8"))
    assert content["version"] == int(folder.parent.name.removeprefix("v"))

    model: Any = prorec.load(folder)
    observed = observe(model)
    assert observed.keys() == expected.keys()
    assert observed["class_name"] == expected["class_name"]
    assert observed["items"] == expected["items"]
    for name in ("scores", "weights"):
        np.testing.assert_allclose(observed.get(name, 0), expected.get(name, 0), rtol=1e-4, atol=1e-6)
    assert model.interactions_.item_names[1] == "Kaffee ☕"
    assert model.interactions_.item_categories[0] == ("hot", "leaf")

    model.save(tmp_path / "again")  # in the current format
    assert observe(prorec.load(tmp_path / "again")) == observed

"""Save one small model of each class in the current format: `python -m tests.models.saved.make`.

A folder `v<format version>` holds a folder for each model, and `expected.json` with the recommendations and weights of
each. Run this script once for each new format version and for each new class, and commit what it writes. It adds the
models that are missing and leaves the others: once a version is released its files never change, because users have
such files. tests/models/test_saved_formats.py loads all of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from prorec import Interactions, ProRec
from prorec.models import BPR, CDAE, EASE, NCE, SVD, VAE, WRMF, LightGCN, Popularity, SparseLinear
from prorec.models.storage import VERSION

FOLDER = Path(__file__).parent
_NETWORK: dict[str, Any] = {"rank": 2, "epochs": 5, "batch_size": 8}
MODELS: dict[str, Any] = {
    "bpr": BPR(rank=2, epochs=5, item_bias=True),
    "cdae": CDAE(**_NETWORK),
    "ease": EASE(),
    "ease-wide": EASE(),
    "lightgcn": LightGCN(rank=2, layers=2, epochs=5),
    "nce": NCE(rank=2),
    "popularity": Popularity(),
    "prorec": ProRec(NCE(rank=2), noise_method="plan"),
    "prorec-cross-fit": ProRec(NCE(rank=2), noise_method="cross-fit"),
    "sparse-linear": SparseLinear(neighbors=4, regularization=2.0),
    "svd": SVD(rank=2),
    "vae": VAE(**_NETWORK, hidden=4),
    "wrmf": WRMF(rank=2, sweeps=4),
}


def clicks() -> Interactions:
    """Return clicks of two tastes by 24 users on 10 items, with text ids, item names and categories."""
    rng = np.random.default_rng(0)
    same_taste = np.arange(24)[:, None] % 2 == np.arange(10) % 2
    matrix = csr_array((rng.random((24, 10)) < np.where(same_taste, 0.7, 0.1)).astype(np.float32))
    interactions = Interactions.from_matrix(
        matrix, users=[f"user-{number}" for number in range(24)], items=np.arange(10) + 100
    )
    return interactions.with_item_info({100: "Tea", 101: "Kaffee ☕"}, {100: ["hot", "leaf"]})


def training_log(name: str) -> Interactions:
    """Return the clicks for a model: those of the first 8 users where it needs fewer users than items."""
    data = clicks()
    return data.select(data.user_codes < 8).drop_empty() if name == "ease-wide" else data


def observe(model: Any) -> dict[str, Any]:
    """Return what a saved model must still tell after loading."""
    lists = model.recommend(["user-0", "user-5"], k=3)
    observed = {"class_name": type(model).__name__, "items": lists.items.tolist(), "scores": lists.scores.tolist()}
    if isinstance(model, ProRec):
        observed["weights"] = model.weights_.data.tolist()
    return observed


def main() -> None:
    """Write the models of this version of the format that are missing."""
    folder = FOLDER / f"v{VERSION}"
    path = folder / "expected.json"
    expected = json.loads(path.read_text("utf-8")) if path.exists() else {}
    for name, model in MODELS.items():
        if name not in expected:
            model.fit(training_log(name)).save(folder / name)
            expected[name] = observe(model)
    path.write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

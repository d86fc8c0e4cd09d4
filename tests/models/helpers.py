"""Small data and small models that several tests share."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec import Factors, Interactions, ProRec
from prorec.models import BPR, CDAE, NCE, SVD, VAE, WRMF, LightGCN, Model, SparseLinear

with suppress(ImportError):  # the smoke tests run without PyTorch
    import torch

    torch.set_num_threads(1)  # test workers run in parallel

_NETWORK: dict[str, Any] = {"rank": 16, "epochs": 40, "batch_size": 20, "learning_rate": 0.01}
SMALL: dict[type[Any], dict[str, Any]] = {
    SVD: {"rank": 3},
    NCE: {"rank": 3, "regularization": 1.0},
    LightGCN: {"rank": 8, "layers": 2, "epochs": 40, "batch_size": 100, "learning_rate": 0.02},
    SparseLinear: {"neighbors": 8, "regularization": 10.0},
    WRMF: {"rank": 3, "sweeps": 8, "alpha": 5.0, "regularization": 1.0},
    BPR: {"rank": 8, "epochs": 60, "learning_rate": 0.1},
    CDAE: _NETWORK,
    VAE: {**_NETWORK, "hidden": 16},
}
"""Parameters that are smaller than the defaults, so that every model fits small data quickly."""


def make_small(model_class: type[Any], **parameters: Any) -> Any:
    """Return a model with the parameters of `SMALL`; a denoiser gets a small NCE."""
    if model_class is ProRec:
        return ProRec(make_small(NCE, **parameters), noise_method="plan")
    return model_class(**SMALL.get(model_class, {}), **parameters)


def clicks(seed: int = 0) -> Interactions:
    """Return clicks of two tastes by 60 users on 30 items; the last user and the last item have none."""
    rng = np.random.default_rng(seed)
    user_taste, item_taste = np.arange(60) % 2, np.arange(30) % 2
    probability = np.where(user_taste[:, None] == item_taste, 0.5, 0.05)
    matrix = (rng.random((60, 30)) < probability).astype(np.float32)
    matrix[-1] = matrix[:, -1] = 0
    users = [f"user {number}" for number in range(60)]
    return Interactions.from_matrix(csr_array(matrix), users=users, items=np.arange(30) + 100)


def make_matrix(n_users: int, n_items: int, seed: int = 0, density: float = 0.2) -> csr_array:
    """Return a matrix of weights .25, .5 and 1 with six tastes."""
    rng = np.random.default_rng(seed)
    tastes = rng.random((n_users, 6)) @ rng.random((6, n_items))
    is_observed = rng.random((n_users, n_items)) < density * tastes / tastes.mean()
    return csr_array((is_observed * rng.choice([0.25, 0.5, 1.0], (n_users, n_items))).astype(np.float32))


UNUSUAL = ["empty rows", "long rows", "zero weights", "nothing", "more items"]


def make_unusual_matrix(name: str) -> csr_array:
    """Return a matrix with one unusual property, one of `UNUSUAL`."""
    rng = np.random.default_rng(0)
    dense = make_matrix(60, 50, seed=1).toarray()
    if name == "empty rows":
        dense[::3], dense[:, ::4] = 0, 0
    if name == "long rows":
        dense[7], dense[:, 11] = 0.5, 1
    if name == "zero weights":
        matrix = csr_array(dense)
        matrix.data[rng.random(matrix.nnz) < 0.3] = 0
        matrix.data[matrix.indptr[4] : matrix.indptr[5]] = 0
        return matrix
    if name == "nothing":
        dense[:] = 0
    if name == "more items":
        dense = make_matrix(20, 150, seed=2).toarray()
    return csr_array(dense)


def all_scores(model: Any) -> NDArray[np.float64]:
    """Return the scores of all users and items before the link, in double precision."""
    scores = model.scores_
    if isinstance(scores, Factors):
        product = scores.users.astype(np.float64) @ scores.items.astype(np.float64).T
        return np.asarray(product if scores.item_bias is None else product + scores.item_bias)
    return np.asarray(scores(np.arange(model.interactions_.n_users)), dtype=np.float64)


def factors_of(model: Model) -> Factors:
    """Return the scores of a model that has factors."""
    assert isinstance(model.scores_, Factors)
    return model.scores_


def fit_on_cpu(model: Model, data: Interactions | csr_array) -> Model:
    """Fit a copy of the model with the CPU's own kernels."""
    return type(model)(**model.get_params(deep=False) | {"device": "cpu"}).fit(data)

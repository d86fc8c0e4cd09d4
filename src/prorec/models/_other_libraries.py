"""Fits of models of other libraries: each takes an unfitted copy and a matrix, and returns factors or a score function.

Users and items are passed to a library by their positions in the matrix. Items that its model does not score, such as
those without a click, get the lowest score of the user.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from prorec._core.checks import check_array
from prorec._core.errors import InputError
from prorec._core.random import preserve_torch_state
from prorec.models.model import ScoreFunction
from prorec.models.storage import Arrays

Fitted = tuple[Any, Arrays | ScoreFunction]
"""A fitted model, and its factors or a function that scores users."""


def fit_any(model: Any, matrix: csr_matrix) -> Fitted:
    """Fit a model of implicit, or any that takes a matrix."""
    options = {"show_progress": False} if type(model).__module__.startswith("implicit.") else {}
    model.fit(matrix, **options)
    factors: list[Any] = [getattr(model, name, None) for name in ("user_factors", "item_factors")]
    if all(each is not None for each in factors):
        factors = [each() if callable(each) else each for each in factors]
        # After training on a GPU, implicit keeps its factors there.
        users, items = (each.to_numpy() if hasattr(each, "to_numpy") else each for each in factors)
        return model, {"users": users, "items": items}
    if callable(getattr(model, "score", None)):
        return model, check_scores(model.score, matrix.shape[1])
    raise InputError(
        f"model must have user_factors and item_factors, or a score method, after fit; {type(model).__name__} has "
        "neither. Add one of them."
    )


def fit_cornac(model: Any, matrix: csr_matrix) -> Fitted:
    """Fit a model of Cornac."""
    from cornac.data import Dataset

    _check_clicks("Cornac", matrix)
    entries = matrix.tocoo()
    data = Dataset.from_uir(list(zip(entries.row.tolist(), entries.col.tolist(), entries.data.tolist(), strict=True)))
    model.fit(data)
    items, positions = np.array(list(data.iid_map.keys())), np.array(list(data.iid_map.values()))

    def score(rows: NDArray[np.intp]) -> NDArray[np.float32]:
        block = np.zeros((len(rows), matrix.shape[1]), dtype=np.float32)
        for number, row in enumerate(rows.tolist()):
            if row in data.uid_map:
                scores = np.asarray(model.score(data.uid_map[row]), dtype=np.float32)
                block[number] = scores.min()
                block[number, items] = scores[positions]
        return block

    return model, check_scores(score, matrix.shape[1])


def fit_lenskit(model: Any, matrix: csr_matrix) -> Fitted:
    """Fit a scorer of LensKit 2025 or later; its query has the user's items, as in LensKit's own pipelines."""
    _check_clicks("LensKit", matrix)
    try:
        from lenskit.data import ItemList, RecQuery, from_interactions_df
        from lenskit.training import TrainingOptions
    except ImportError:
        raise _unsupported("lenskit", "2025.1 or later") from None
    import pandas as pd

    n_users, n_items = matrix.shape
    entries = matrix.tocoo()
    table = pd.DataFrame({"user_id": entries.row, "item_id": entries.col, "rating": entries.data})
    data = from_interactions_df(table, users=np.arange(n_users), items=np.arange(n_items))
    model.train(data, TrainingOptions(rng=0))
    if type(model).__name__ == "ImplicitMFScorer" and model.user_embeddings is not None:
        return model, {"users": model.user_embeddings, "items": model.item_embeddings}
    all_items = ItemList(item_ids=np.arange(n_items))

    def score(rows: NDArray[np.intp]) -> NDArray[np.float32]:
        block = np.zeros((len(rows), n_items), dtype=np.float32)
        for number, row in enumerate(rows.tolist()):
            if matrix.indptr[row + 1] > matrix.indptr[row]:
                scores = model(RecQuery(row, data.user_row(row)), all_items).scores("numpy")
                block[number] = _fill(np.asarray(scores, dtype=np.float32))
        return block

    return model, check_scores(score, n_items)


def fit_rectools(model: Any, matrix: csr_matrix) -> Fitted:
    """Fit a model of RecTools; one without vectors is asked to recommend all items."""
    _check_clicks("RecTools", matrix)
    import pandas as pd
    from rectools.dataset import Dataset

    n_users, n_items = matrix.shape
    entries = matrix.tocoo()
    table = pd.DataFrame({"user_id": entries.row, "item_id": entries.col, "weight": entries.data})
    data = Dataset.construct(table.assign(datetime=pd.Timestamp(0)))
    model.fit(data)
    users, items = data.user_id_map.external_ids, data.item_id_map.external_ids
    if type(model).__name__ in ("ImplicitALSWrapperModel", "ImplicitBPRWrapperModel", "PureSVDModel"):
        user_vectors, item_vectors = model.get_vectors()
        factors = {}
        for name, n, positions, vectors in (
            ("users", n_users, users, user_vectors),
            ("items", n_items, items, item_vectors),
        ):
            factors[name] = np.zeros((n, vectors.shape[1]), dtype=np.float32)
            factors[name][positions.astype(np.int64)] = vectors
        return model, factors

    def score(rows: NDArray[np.intp]) -> NDArray[np.float32]:
        block = np.full((len(rows), n_items), np.nan, dtype=np.float32)
        known = rows[np.isin(rows, users)]
        if len(known):
            ranked = model.recommend(users=known, dataset=data, k=n_items, filter_viewed=False)
            number_of = dict(zip(rows.tolist(), range(len(rows)), strict=True))
            block[ranked["user_id"].map(number_of), ranked["item_id"]] = ranked["score"]
        return np.array([_fill(row) for row in block], dtype=np.float32).reshape(block.shape)

    return model, check_scores(score, n_items)


def fit_recbole(config: Any, matrix: csr_matrix) -> Fitted:
    """Train the model that a configuration of RecBole describes, on all clicks and without validation."""
    _check_clicks("RecBole", matrix)
    try:
        from recbole.data import create_dataset, create_samplers
        from recbole.data.interaction import Interaction
        from recbole.data.utils import get_dataloader
        from recbole.utils import get_model, get_trainer, init_seed
    except ImportError:
        raise _unsupported("recbole", "1.1 or later") from None
    import torch

    user_field, item_field = config["USER_ID_FIELD"], config["ITEM_ID_FIELD"]
    entries = matrix.tocoo()
    with TemporaryDirectory() as folder, chdir(folder), _preserve_random_state():  # RecBole writes logs where it runs
        lines = [f"{user}\t{item}" for user, item in zip(entries.row.tolist(), entries.col.tolist(), strict=True)]
        Path("clicks.inter").write_text("\n".join([f"{user_field}:token\t{item_field}:token", *lines, ""]))
        settings = {"data_path": folder, "dataset": "clicks", "checkpoint_dir": folder, "show_progress": False}
        settings |= {"load_col": {"inter": [user_field, item_field]}, "save_dataset": False, "save_dataloaders": False}
        settings["eval_args"] = config["eval_args"] | {"split": {"RS": [1, 0, 0]}, "order": "RO", "group_by": None}
        for name, value in settings.items():
            config[name] = value
        config.dataset = "clicks"
        init_seed(config["seed"], config["reproducibility"])
        data = create_dataset(config)
        parts = data.build()
        sampler = create_samplers(config, data, parts)[0]
        batches = get_dataloader(config, "train")(config, parts[0], sampler, shuffle=config["shuffle"])
        model = get_model(config["model"])(config, batches.dataset).to(config["device"])
        get_trainer(config["MODEL_TYPE"], config["model"])(config, model).fit(batches, verbose=False, saved=False)
    model.eval()
    user_ids, item_ids = (data.field2token_id[field] for field in (user_field, item_field))
    items = np.array([(int(token), number) for token, number in item_ids.items() if token != "[PAD]"])

    def score(rows: NDArray[np.intp]) -> NDArray[np.float32]:
        block = np.zeros((len(rows), matrix.shape[1]), dtype=np.float32)
        known = np.array([str(row) in user_ids for row in rows.tolist()], dtype=bool)
        if known.any():
            numbers = torch.tensor([user_ids[str(row)] for row in rows[known].tolist()])
            with torch.no_grad():
                scores = model.full_sort_predict(Interaction({user_field: numbers}).to(config["device"]))
            scores = scores.view(len(numbers), -1).cpu().numpy().astype(np.float32)[:, items[:, 1]]
            filled = np.repeat(scores.min(axis=1, keepdims=True), matrix.shape[1], axis=1)
            filled[:, items[:, 0]] = scores
            block[known] = filled
        return block

    return model, check_scores(score, matrix.shape[1])


def to_array(name: str, value: Any) -> NDArray[Any]:
    """Return an array of numbers, also of a torch tensor that is being trained or on a GPU."""
    return check_array(name, value.detach().cpu() if hasattr(value, "detach") else value)


def check_scores(score: Callable[[Any], Any], n_items: int) -> ScoreFunction:
    """Return the function with a check of its result, which must be finite and of the right shape."""

    def checked(rows: NDArray[np.intp]) -> NDArray[np.float32]:
        block = to_array("the result of the model's score", score(rows)).astype(np.float32)
        if block.shape != (len(rows), n_items) or not np.isfinite(block).all():
            raise InputError(
                f"the model's score must return {len(rows)} × {n_items} finite numbers for {len(rows)} users; "
                f"got shape {block.shape}, or numbers that are not finite"
            )
        return block

    return checked


def _check_clicks(library: str, matrix: csr_matrix) -> None:
    if not matrix.nnz:
        raise InputError(
            f"a model of {library} must have at least one click to learn from; none has a weight above 0, or none was "
            "drawn. Check the weights."
        )


def _unsupported(library: str, wanted: str) -> InputError:
    from importlib.metadata import version

    return InputError(f"{library} must be {wanted} to be wrapped; {version(library)} is installed. Upgrade it.")


def _fill(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the scores with the lowest one in place of those that are missing; 0 if all are."""
    is_missing = np.isnan(scores)
    if is_missing.all():
        return np.zeros_like(scores)
    return np.where(is_missing, scores[~is_missing].min(), scores).astype(np.float32)


@contextmanager
def _preserve_random_state() -> Iterator[None]:
    """Restore the global random generators after a `with` block whose library seeds them."""
    before, numpy_before = random.getstate(), np.random.get_state()  # noqa: NPY002 - only to restore it
    try:
        with preserve_torch_state():
            yield
    finally:
        random.setstate(before)
        np.random.set_state(numpy_before)  # noqa: NPY002

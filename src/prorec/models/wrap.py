"""Models that people already have: implicit's, cornac's, and anything that has factors or can score users."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix

from prorec._core.checks import check_array
from prorec._core.errors import InputError
from prorec._core.estimator import Estimator
from prorec.models.model import Model
from prorec.models.storage import Arrays
from prorec.models.wrmf import WRMF
from prorec.transport.factors import Factors

Scores = Callable[[NDArray[np.intp]], NDArray[np.float32]]


def wrap(model: Any) -> Model:
    """A third-party model as one of ours.

    Parameters
    ----------
    model : an unfitted model of implicit (ALS, BPR, LMF) or cornac; or any object with `fit(matrix)`, which takes a
        scipy csr matrix of weights, users × items, and after it either `user_factors` and `item_factors` (arrays, or
        methods that return them) or `score(rows)`, which returns a block of scores for row numbers of users

    What a weight means is up to the model; entries of weight 0 are left out. Every fit starts from the model as it was
    given, and leaves that as it is.
    """
    if isinstance(model, Model):
        return model
    if isinstance(model, Estimator):
        raise InputError(f"model must be a recommender; got a {type(model).__name__}, which is not one itself")
    if isinstance(model, type):
        raise InputError(f"model must be a model, not a class: {model.__name__}(…) makes one")
    if not callable(getattr(model, "fit", None)):
        raise InputError(f"model must have a fit method; {type(model).__name__} has none")
    library = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    if "cornac" in library:
        return _Wrapped(model, _fit_cornac)
    return _Wrapped(model, _fit_any)


@dataclass
class _Wrapped(Model):
    """A third-party model."""

    model: Any
    fit_model: Callable[[Any, csr_matrix], Arrays | Scores]
    _function: Scores | None = field(init=False, repr=False, compare=False, default=None)
    supports_fold_in: ClassVar[bool] = False  # least squares towards 1, whatever the size of the model's own scores

    def _learn(self, matrix: csr_array) -> Arrays:
        counted = csr_matrix(matrix, copy=True)
        counted.eliminate_zeros()
        try:
            fitted = copy.deepcopy(self.model)
        except TypeError as error:
            raise InputError(f"model must be one that can be copied before it is fitted: {error}") from None
        learned = self.fit_model(fitted, counted)
        if callable(learned):
            self.fitted_, self._function = fitted, learned
            return {}
        arrays = {name: _numbers(f"the model's {name}", array).astype(np.float32) for name, array in learned.items()}
        shapes = {name: array.shape for name, array in arrays.items()}
        n_users, n_items = matrix.shape
        width = shapes["users"][-1:]
        if shapes != {"users": (n_users, *width), "items": (n_items, *width)} or len(shapes["users"]) != 2:
            raise InputError(f"the model's factors have shapes {shapes}, the matrix is {matrix.shape}")
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise InputError(f"the model's factors of {name} are not finite")
        self.fitted_, self._function = fitted, None
        return arrays

    @property
    def scores_(self) -> Factors | Scores:
        """Factors, or a function from row numbers to scores."""
        self._fitted()
        return super().scores_ if self._function is None else self._function

    def score_known_users(self, rows: NDArray[np.int64], room: NDArray[np.float32]) -> None:
        """Write the scores of users that the model was fitted on."""
        if self._function is None:
            super().score_known_users(rows, room)
        else:
            room[:] = self._function(rows)

    def encode_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """By least squares on the items' factors, as WRMF does it."""
        if self._function is not None:
            raise InputError(f"{type(self.model).__name__} only scores users it knows: it cannot take new ones in")
        items = self._fitted()["items"]
        solver = WRMF(rank=items.shape[1], alpha=10, regularization=1, device="cpu")
        solver.arrays_ = {"items": np.ascontiguousarray(items)}
        return solver.encode_users(matrix)

    def describe(self) -> dict[str, Any]:
        """Refused: only the model itself knows them, and how to save what it has learned."""
        raise InputError(
            f"a wrapped {type(self.model).__name__} cannot be saved here; save model.fitted_ in its own way"
        )


def _fit_any(model: Any, matrix: csr_matrix) -> Arrays | Scores:
    if type(model).__module__.startswith("implicit."):
        model.fit(matrix, show_progress=False)
    else:
        model.fit(matrix)
    factors: list[Any] = [getattr(model, name, None) for name in ("user_factors", "item_factors")]
    if all(each is not None for each in factors):
        factors = [each() if callable(each) else each for each in factors]
        # implicit keeps its factors on the GPU where it learned there.
        users, items = (each.to_numpy() if hasattr(each, "to_numpy") else each for each in factors)
        return {"users": users, "items": items}
    if callable(getattr(model, "score", None)):
        return _checked(model.score, matrix.shape[1])
    raise InputError(
        f"{type(model).__name__} has neither user_factors and item_factors nor a score method after fit: "
        "there is nothing to rank by"
    )


def _fit_cornac(model: Any, matrix: csr_matrix) -> Scores:
    from cornac.data import Dataset

    entries = matrix.tocoo()
    known = Dataset.from_uir(list(zip(entries.row.tolist(), entries.col.tolist(), entries.data.tolist(), strict=True)))
    model.fit(known)
    columns = np.array(list(known.iid_map.keys())), np.array(list(known.iid_map.values()))

    def score(rows: NDArray[np.intp]) -> NDArray[np.float32]:
        block = np.zeros((len(rows), matrix.shape[1]), dtype=np.float32)
        for place, row in enumerate(rows.tolist()):
            if row in known.uid_map:
                scores = np.asarray(model.score(known.uid_map[row]), dtype=np.float32)
                block[place] = scores.min()  # what nobody clicked on has no score: it comes last
                block[place, columns[0]] = scores[columns[1]]
        return block

    return _checked(score, matrix.shape[1])


def _numbers(name: str, given: Any) -> NDArray[Any]:
    """An array, also of a torch tensor that is still being trained, or on a GPU."""
    return check_array(name, given.detach().cpu() if hasattr(given, "detach") else given)


def _checked(score: Callable[[Any], Any], n_items: int) -> Scores:
    """A scoring function that answers with finite numbers of the right shape or not at all."""

    def checked(rows: NDArray[np.intp]) -> NDArray[np.float32]:
        block = _numbers("what the model's score returns", score(rows)).astype(np.float32)
        if block.shape != (len(rows), n_items) or not np.isfinite(block).all():
            raise InputError(
                f"the model's score must return {len(rows)} × {n_items} finite numbers for {len(rows)} users"
            )
        return block

    return checked

"""Models of other libraries: implicit, Cornac, and any object that has factors or scores users."""

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
from prorec._core.random import make_generator
from prorec.models.factory import cap_rank, make_model
from prorec.models.model import Model, ScoreFunction
from prorec.models.storage import Arrays
from prorec.models.wrmf import WRMF
from prorec.transport.factors import Factors


def wrap(model: Any, *, sample_clicks: bool | None = None) -> Model:
    """Return a model of another library as a `Model`.

    Parameters
    ----------
    model : object
        Unfitted model of implicit (ALS, BPR, LMF) or Cornac, or any object with `fit(matrix)`, which takes a scipy csr
        matrix of weights, users × items. After `fit`, the object must have `user_factors` and `item_factors` (arrays,
        or methods that return them) or `score(rows)`, which returns scores of all items for row numbers of users. A
        `Model` is returned as it is, and a name such as "nce" gives the model of prorec of that name.
    sample_clicks : bool, optional
        Whether each `fit` draws every click with its weight as probability, and shows the model a matrix of ones. The
        default is True for models that are known to ignore weights: those of Cornac, and BPR of implicit.

    Returns
    -------
    Model
        Each `fit` fits a copy, `fitted_`, and leaves the given model unchanged.

    Raises
    ------
    InputError
        If the argument is a class, or has no `fit` method.

    Notes
    -----
    A weight is the probability that a click is genuine. Entries of weight 0 are always left out. For other weights:

    - Drawn clicks are one sample of the data that the weights describe, the same in each fit. On average over samples,
      the model's loss is its expected loss.
    - ALS of implicit multiplies the confidence of a click by its weight w: the left side of its equation has αw·hhᵀ and
      the right side αw·h. An uncertain click counts less, but not in part as unobserved: HᵀH has (1 − w)·hhᵀ less than
      for the expected loss.
    - LMF of implicit multiplies the term of a click in its likelihood by the weight. The number of its random negatives
      stays.
    - Any other model gets the weights as the matrix of its `fit`; their meaning is up to the model.
    """
    if isinstance(model, Model):
        return model
    if isinstance(model, str):
        return make_model(model)
    if isinstance(model, Estimator):
        raise InputError(
            f"model must be a recommender; got a {type(model).__name__}. Pass the model inside it instead."
        )
    if isinstance(model, type):
        raise InputError(f"model must be a model; got the class {model.__name__}. Pass {model.__name__}(…) instead.")
    if not callable(getattr(model, "fit", None)):
        raise InputError(f"model must have a fit method; {type(model).__name__} has none")
    bases = {(base.__module__.partition(".")[0], base.__name__) for base in type(model).__mro__}
    is_cornac = any(library == "cornac" for library, _ in bases)
    if sample_clicks is None:
        sample_clicks = is_cornac or ("implicit", "BayesianPersonalizedRanking") in bases
    return _Wrapped(model, _fit_cornac if is_cornac else _fit_any, sample_clicks)


@dataclass
class _Wrapped(Model):
    """A model of another library."""

    model: Any
    fit_model: Callable[[Any, csr_matrix], Arrays | ScoreFunction]
    sample_clicks: bool
    _score_function: ScoreFunction | None = field(init=False, repr=False, compare=False, default=None)
    supports_fold_in: ClassVar[bool] = False  # its least squares aim at 1, whatever the scale of the model's scores

    def _learn(self, matrix: csr_array) -> Arrays:
        weights = csr_matrix(matrix, copy=True)
        if self.sample_clicks:
            weights.data = (make_generator(0).random(weights.nnz) < weights.data).astype(np.float32)
        weights.eliminate_zeros()
        try:
            fitted = copy.deepcopy(self.model)
        except TypeError as error:
            raise InputError(f"model must be one that can be copied before it is fitted: {error}") from None
        result = self.fit_model(fitted, weights)
        if callable(result):
            self.fitted_, self._score_function = fitted, result
            return {}
        arrays = {name: _to_array(f"the model's {name}", array).astype(np.float32) for name, array in result.items()}
        shapes = {name: array.shape for name, array in arrays.items()}
        n_users, n_items = matrix.shape
        width = shapes["users"][-1:]
        if shapes != {"users": (n_users, *width), "items": (n_items, *width)} or len(shapes["users"]) != 2:
            raise InputError(f"the model's factors have shapes {shapes}, the matrix is {matrix.shape}")
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise InputError(f"the model's factors of {name} must be finite; check its parameters")
        self.fitted_, self._score_function = fitted, None
        return arrays

    @property
    def scores_(self) -> Factors | ScoreFunction:
        """Scores of all users and items: factors, or a function from row numbers of users to their scores."""
        self._check_fitted()
        return super().scores_ if self._score_function is None else self._score_function

    def score_known_users(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return scores of fitted users."""
        return super().score_known_users(rows) if self._score_function is None else self._score_function(rows)

    def encode_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return user factors for rows of weights, by the least squares of WRMF on the item factors."""
        if self._score_function is not None:
            raise InputError(
                f"{type(self.model).__name__} only scores users that it was fitted on; fit it again with the new users"
            )
        items = self._fitted()["items"]
        solver = WRMF(rank=items.shape[1], alpha=10, regularization=1, device="cpu")
        solver.arrays_ = {"items": np.ascontiguousarray(items)}
        return solver.encode_users(matrix)

    def describe(self) -> dict[str, Any]:
        """Raise InputError: only the other library knows how to save its models."""
        raise InputError(
            f"a wrapped {type(self.model).__name__} cannot be saved here; save model.fitted_ in its own way"
        )


def _fit_any(model: Any, matrix: csr_matrix) -> Arrays | ScoreFunction:
    options = {"show_progress": False} if type(model).__module__.startswith("implicit.") else {}
    model.fit(matrix, **options)
    factors: list[Any] = [getattr(model, name, None) for name in ("user_factors", "item_factors")]
    if all(each is not None for each in factors):
        factors = [each() if callable(each) else each for each in factors]
        # After training on a GPU, implicit keeps its factors there.
        users, items = (each.to_numpy() if hasattr(each, "to_numpy") else each for each in factors)
        return {"users": users, "items": items}
    if callable(getattr(model, "score", None)):
        return _check_scores(model.score, matrix.shape[1])
    raise InputError(
        f"model must have user_factors and item_factors, or a score method, after fit; {type(model).__name__} has "
        "neither. Add one of them."
    )


def _fit_cornac(model: Any, matrix: csr_matrix) -> ScoreFunction:
    from cornac.data import Dataset

    entries = matrix.tocoo()
    data = Dataset.from_uir(list(zip(entries.row.tolist(), entries.col.tolist(), entries.data.tolist(), strict=True)))
    model.fit(data)
    items, positions = np.array(list(data.iid_map.keys())), np.array(list(data.iid_map.values()))

    def score(rows: NDArray[np.intp]) -> NDArray[np.float32]:
        block = np.zeros((len(rows), matrix.shape[1]), dtype=np.float32)
        for number, row in enumerate(rows.tolist()):
            if row in data.uid_map:
                scores = np.asarray(model.score(data.uid_map[row]), dtype=np.float32)
                block[number] = scores.min()  # items without any click have no score, and come last
                block[number, items] = scores[positions]
        return block

    return _check_scores(score, matrix.shape[1])


def resolve_model(model: Any, shape: tuple[int, int]) -> Model:
    """Return a model that was given by name, or as for `wrap`, for data of a shape.

    Parameters
    ----------
    model : str or object
        Name of a model of prorec, such as "nce", or a model as for `wrap`.
    shape : (int, int)
        Number of users and number of items. The rank of a model that is given by name suits them, see `cap_rank`.

    Returns
    -------
    Model
        Not fitted.

    Raises
    ------
    InputError
        If there is no model of that name, or the argument is none.

    Examples
    --------
    >>> resolve_model("svd", (40, 1000))
    SVD(rank=10, activity_power=0.0, seed=0)
    """
    return cap_rank(make_model(model), shape) if isinstance(model, str) else wrap(model)


def _to_array(name: str, value: Any) -> NDArray[Any]:
    """Return an array of numbers, also of a torch tensor that is being trained or on a GPU."""
    return check_array(name, value.detach().cpu() if hasattr(value, "detach") else value)


def _check_scores(score: Callable[[Any], Any], n_items: int) -> ScoreFunction:
    """Return the function with a check of its result, which must be finite and of the right shape."""

    def checked(rows: NDArray[np.intp]) -> NDArray[np.float32]:
        block = _to_array("the result of the model's score", score(rows)).astype(np.float32)
        if block.shape != (len(rows), n_items) or not np.isfinite(block).all():
            raise InputError(
                f"the model's score must return {len(rows)} × {n_items} finite numbers for {len(rows)} users; "
                f"got shape {block.shape}, or numbers that are not finite"
            )
        return block

    return checked

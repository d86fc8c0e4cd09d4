"""Models of other libraries: implicit, Cornac, LensKit, RecTools, RecBole, and any object with factors or scores."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix

from prorec._core.errors import InputError
from prorec._core.estimator import Estimator
from prorec._core.random import make_generator
from prorec.models._other_libraries import (
    Fitted,
    fit_any,
    fit_cornac,
    fit_lenskit,
    fit_recbole,
    fit_rectools,
    to_array,
)
from prorec.models.factory import cap_rank, make_model
from prorec.models.model import Model, ScoreFunction
from prorec.models.storage import Arrays
from prorec.models.wrmf import WRMF
from prorec.transport.factors import Factors

_LIBRARIES = {"cornac": fit_cornac, "lenskit": fit_lenskit, "rectools": fit_rectools, "recbole": fit_recbole}
"""How models of other libraries are fitted; any others take a matrix."""


def wrap(model: Any, *, sample_clicks: bool | None = None) -> Model:
    """Return a model of another library as a `Model`.

    Parameters
    ----------
    model : object
        Unfitted model of implicit (ALS, BPR, LMF), Cornac or RecTools, scorer of LensKit, or `Config` of RecBole, which
        describes a model; or any object with `fit(matrix)`, which takes a scipy csr matrix of weights, users × items.
        After `fit`, the object must have `user_factors` and `item_factors` (arrays, or methods that return them) or
        `score(rows)`, which returns scores of all items for row numbers of users. A `Model` is returned as it is, and
        a name such as "nce" gives the model of prorec of that name.
    sample_clicks : bool, optional
        Whether each `fit` draws every click with its weight as probability, and shows the model a matrix of ones. The
        default is True for models that are known to ignore weights: those of Cornac, LensKit and RecBole, and BPR of
        implicit and RecTools.

    Returns
    -------
    Model
        Each `fit` fits a copy, `fitted_`, and leaves the given model unchanged.

    Raises
    ------
    InputError
        If the argument is a class, has no `fit` method, or is of a version of its library that cannot be wrapped.

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
    bases = {(base.__module__.partition(".")[0], base.__name__) for base in type(model).__mro__}
    library = next((name for name, _ in bases if name in _LIBRARIES), "")
    name = type(model).__name__
    if library == "recbole" and name != "Config":
        raise InputError(
            f"a model of RecBole belongs to one data set; got a {name}. Pass the Config that it was made of instead."
        )
    if library == "lenskit" and not (callable(model) and callable(getattr(model, "train", None))):
        raise InputError(
            f"a model of LensKit must be a scorer of version 2025.1 or later, with a train method; got a {name}. "
            "Upgrade LensKit, or pass the scorer inside it."
        )
    if library not in ("lenskit", "recbole") and not callable(getattr(model, "fit", None)):
        raise InputError(f"model must have a fit method; {name} has none")
    if sample_clicks is None:
        is_bpr = bool(bases & {("implicit", "BayesianPersonalizedRanking"), ("rectools", "ImplicitBPRWrapperModel")})
        sample_clicks = is_bpr or library in ("cornac", "lenskit", "recbole")
    return _Wrapped(model, _LIBRARIES.get(library, fit_any), sample_clicks)


@dataclass
class _Wrapped(Model):
    """A model of another library."""

    model: Any
    fit_model: Callable[[Any, csr_matrix], Fitted]
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
        fitted, result = self.fit_model(fitted, weights)
        if callable(result):
            self.fitted_, self._score_function = fitted, result
            return {}
        arrays = {name: to_array(f"the model's {name}", array).astype(np.float32) for name, array in result.items()}
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
    SVD(rank=10, activity_power=0.0, weight_meaning='probability', seed=0)
    """
    return cap_rank(make_model(model), shape) if isinstance(model, str) else wrap(model)

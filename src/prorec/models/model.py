"""The base of all models: fitting, recommending, fold-in, similar items, saving and loading.

A model is a dataclass whose fields are its parameters. Its own part is small: `_learn` makes arrays from a weighted
matrix (`users`, `items` and possibly `item_bias`), and `encode_users` turns rows of such a matrix into user factors.
The arrays are the result, `arrays_`, beside the interactions that the model was fitted on, `interactions_`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from prorec._core.array_rules import ArrayRule, check_arrays
from prorec._core.checks import check_bool, check_int, safe_repr, shorten
from prorec._core.device import explain_out_of_memory, resolve_device
from prorec._core.errors import DamagedFileError, InputError, MemoryLimitError
from prorec._core.estimator import Estimator
from prorec._core.files import as_path, prefix_errors
from prorec.interactions import Interactions
from prorec.interactions.tables import frame_type
from prorec.models._checked_methods import check_arguments
from prorec.models._cpu_matrix import row_sums
from prorec.models._top_k import Ranked, rank_in_blocks
from prorec.models.recommendations import FittedRecommender, Recommendations, SimilarItems
from prorec.models.storage import Arrays, read_model, write_model
from prorec.transport.factors import Factors, Link

Objective = Literal["squared", "binary", "multinomial"]
"""How a model compares scores with weights: squared error (Eq. 2), cross-entropy of a yes or no for each item (Eq. 3),
or cross-entropy of one choice among all items."""
WeightMeaning = Literal["probability", "value"]
"""Meaning of a weight: the probability that the click is genuine, or the value that takes the place of a 1."""
ScoreFunction = Callable[[NDArray[np.intp]], NDArray[np.float32]]
"""A function from row numbers to one row of numbers each, one number for each item."""

_Saved = TypeVar("_Saved")


class Model(Estimator):
    """A recommender that learns from a weighted matrix of users × items.

    Attributes
    ----------
    arrays_ : dict of str to array
        Result of `fit`; `users` and `items` are factors whose products are the scores.
    interactions_ : Interactions
        Interactions that the model was fitted on.
    """

    arrays_: Arrays
    interactions_: Interactions
    registry: ClassVar[dict[str, type[Model]]] = {}
    """All models by class name, for loading."""
    supports_warm_start: ClassVar[bool] = False
    """Whether `fit` takes `init_from`."""
    supports_checkpoint: ClassVar[bool] = False
    """Whether `fit` takes `checkpoint`."""
    supports_fold_in: ClassVar[bool] = True
    """Whether the scores of new users have the scale of the scores of fitted users."""
    objective: ClassVar[Objective] = "squared"
    """How the model compares scores with weights."""
    link: ClassVar[Link] = "identity"
    """Function that turns products of factors into scores."""
    regularized_arrays: ClassVar[tuple[str, ...]] = ()
    """Arrays whose squares `regularization` penalizes."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        check_arguments(cls)
        if not cls.__name__.startswith("_"):
            Model.registry[cls.__name__] = cls

    # ── a model's own part ──────────────────────────────────────────────────────────────────────────

    def _learn(self, matrix: csr_array) -> Arrays:
        """Return arrays learned from weights, users × items; a weight is the probability of a genuine click."""
        raise NotImplementedError

    def _learn_from(self, matrix: csr_array, start: Arrays) -> Arrays:
        """Return arrays learned from a start: a copy of another model's arrays, which may be overwritten."""
        raise NotImplementedError

    def encode_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return user factors for rows of weights.

        Parameters
        ----------
        matrix : csr_array
            Weights of fitted or new users, users × items.

        Returns
        -------
        array of float32
            Users × rank.

        Raises
        ------
        InputError
            If the matrix is no csr_array, has other columns than items, or has parts that do not fit together.
        """
        raise NotImplementedError

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Check that the parameters are valid for a matrix of this shape.

        Parameters
        ----------
        shape : (int, int)
            Number of users and number of items.

        Raises
        ------
        InputError
            If a parameter is invalid.
        """
        return

    def regularized_blocks(self) -> Iterator[NDArray[np.float32]]:
        """Yield what `regularization` penalizes the squares of, in one or more arrays.

        Yields
        ------
        array of float32
            The arrays of `regularized_arrays`, or blocks of them if the model has them not in memory.
        """
        arrays = self._fitted()
        for name in self.regularized_arrays:
            if name in arrays:
                yield arrays[name]

    def with_neutral_penalty(self, typical_weight: float) -> Self:
        """Return an unfitted copy whose penalty suits weights of this size as the own one suits weights of 1.

        Smaller weights act as a larger penalty. A copy with the penalty that this size asks for makes a model that was
        tuned without weights stay tuned. Models without such a penalty have nothing to adapt.

        Parameters
        ----------
        typical_weight : float
            Weight of a typical interaction that is learned from, above 0 and at most 1.

        Returns
        -------
        Self
        """
        copied: Self = replace(self)  # type: ignore[type-var]
        return copied

    def array_rules(self, shape: tuple[int, int]) -> dict[str, ArrayRule]:
        """Return the rules for the arrays of the fitted model: those that are saved, and no others.

        Parameters
        ----------
        shape : (int, int)
            Number of users and number of items.

        Returns
        -------
        dict of str to ArrayRule
            By default `users` and `items`, as wide as the parameter `rank` if there is one, and possibly `item_bias`.
        """
        width = getattr(self, "rank", "width")
        return {
            "users": ArrayRule((shape[0], width)),
            "items": ArrayRule((shape[1], width)),
            "item_bias": ArrayRule((shape[1],), is_optional=True),
        }

    def _device(self, shape: tuple[int, int]) -> Any:
        """Return the device of PyTorch for so many users and items, or None for the CPU's own kernels."""
        return resolve_device(getattr(self, "device", "cpu"), float(shape[0]) * shape[1])

    # ── fitting ─────────────────────────────────────────────────────────────────────────────────────

    def fit(self, interactions: Any, *, init_from: Model | None = None) -> Self:
        """Learn from interactions.

        Parameters
        ----------
        interactions : Interactions, DataFrame or sparse matrix
            Weights in [0, 1], users × items: the probability that an interaction is genuine. The model minimizes its
            expected loss, in which an interaction of weight 0 counts as unobserved. A data frame has one row for each
            interaction, and columns of usual names.
        init_from : Model, optional
            Fitted model of the same class and size to start from; see `supports_warm_start`.

        Returns
        -------
        Self
            The model itself, fitted.

        Raises
        ------
        InputError
            If a parameter or a weight is invalid, if the model cannot start from `init_from`, if a result is not
            finite, or if the data do not fit on the device. A failed fit leaves an earlier result in place.
        """
        interactions = as_interactions(interactions)
        matrix = interactions.matrix
        self.check_parameters(matrix.shape)
        with explain_out_of_memory(self._device(matrix.shape), type(self).__name__):
            if init_from is None:
                arrays = self._learn(matrix)
            else:
                arrays = self._learn_from(matrix, self._copy_start(init_from, matrix.shape))
        return self._set_result(arrays, interactions)

    def _copy_start(self, start: Any, shape: tuple[int, int]) -> Arrays:
        """Return a copy of the arrays of the model to start from, or raise InputError if it does not match."""
        name = type(self).__name__
        if not self.supports_warm_start:
            raise InputError(f"{name} cannot start from another model; remove init_from")
        if type(start) is not type(self):
            raise InputError(f"init_from must be another {name}; got {type(start).__name__}")
        arrays = start._fitted()
        start_shape, start_width = start.interactions_.matrix.shape, arrays["items"].shape[1]
        if start_shape != shape or start_width != self._width:
            raise InputError(
                f"init_from must be a {name} of {shape} and width {self._width}; "
                f"got one of {start_shape} and width {start_width}"
            )
        return {key: array.copy() for key, array in arrays.items()}

    @property
    def _width(self) -> int:
        """Number of factors of an item."""
        return int(getattr(self, "rank"))  # noqa: B009 - every model that supports a warm start has one

    def _set_result(self, arrays: Arrays, interactions: Interactions) -> Self:
        """Store the result of a fit if it is finite."""
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise InputError(
                f"the arrays of {type(self).__name__} must be finite, but some are not; use less extreme parameters"
            )
        self.arrays_, self.interactions_ = arrays, interactions
        return self

    def _fitted(self) -> Arrays:
        """Return `arrays_`, or raise NotFittedError."""
        self._check_fitted()
        return self.arrays_

    # ── scores ──────────────────────────────────────────────────────────────────────────────────────

    @property
    def scores_(self) -> Factors | ScoreFunction:
        """Scores of all users and items: factors, or a function from row numbers of users to their scores."""
        arrays = self._fitted()
        return Factors(arrays["users"], arrays["items"], arrays.get("item_bias"), self.link)

    def score_known_users(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return scores of fitted users, before the link.

        Parameters
        ----------
        rows : array of int
            Row numbers of users in `interactions_`.

        Returns
        -------
        array of float32
            Users × items; higher is better.

        Raises
        ------
        InputError
            If a row is not from 0 to the number of users − 1.
        """
        return self._score(self._fitted()["users"][rows])

    def score_new_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return scores of new users, before the link, without learning again.

        Parameters
        ----------
        matrix : csr_array
            Weights of the new users, users × items.

        Returns
        -------
        array of float32
            Users × items; higher is better.

        Raises
        ------
        InputError
            As `encode_users`.
        """
        return self._score(self.encode_users(matrix))

    def _score(self, users: NDArray[np.float32]) -> NDArray[np.float32]:
        arrays = self._fitted()
        scores: NDArray[np.float32] = np.matmul(users, arrays["items"].T)
        if "item_bias" in arrays:
            scores += arrays["item_bias"]
        return scores

    @property
    def similarities_(self) -> ScoreFunction:
        """Function from item positions to their similarities with all items: the cosine of their factors.

        Without factors, it is the cosine of two items' columns of weights.
        """
        if "items" not in self._fitted():
            return self._similarities_by_users()
        factors = self._fitted()["items"]
        norms = np.linalg.norm(factors, axis=1, keepdims=True)
        unit = (factors / np.where(norms > 0, norms, 1)).astype(np.float32)
        return lambda positions: np.asarray(np.matmul(unit[positions], unit.T))

    def _similarities_by_users(self) -> ScoreFunction:
        matrix = self.interactions_.matrix
        by_item = csr_array(matrix.T)
        norms = np.sqrt(np.bincount(matrix.indices, matrix.data.astype(np.float64) ** 2, matrix.shape[1]))
        norms[norms == 0] = 1

        def similarities(positions: NDArray[np.intp]) -> NDArray[np.float32]:
            products = (by_item[positions] @ matrix).toarray()
            return np.asarray(products / norms[positions, None] / norms, dtype=np.float32)

        return similarities

    # ── recommending ────────────────────────────────────────────────────────────────────────────────

    def recommend(self, users: Any, k: int = 10, *, exclude_seen: bool = True) -> Recommendations:
        """Return the k best items for each user; items of equal score are in item order.

        Parameters
        ----------
        users : sequence of ids
            Users that the model was fitted on. A user whose weights are all 0 gets the most popular items.
        k : int, default 10
            Number of items for each user.
        exclude_seen : bool, default True
            Leave out the user's own interactions, whatever their weight.

        Returns
        -------
        Recommendations

        Raises
        ------
        InputError
            If a user is unknown, or if k is not from 1 to the number of items.
        """
        self._fitted()
        interactions = self.interactions_
        rows = self._find_positions("user", users, "; pass the items of a new user to recommend_new")
        ranked, scores = self._rank(interactions.matrix, rows, k, exclude_seen=exclude_seen)
        return Recommendations(interactions.users[rows], ranked, scores, interactions.items, interactions.frame_type)

    def recommend_new(self, baskets: Sequence[Any], k: int = 10) -> Recommendations:
        """Return the k best items for new users, without learning again (fold-in).

        Parameters
        ----------
        baskets : sequence of sequences of ids
            Items of each new user. A user without items gets the most popular ones.
        k : int, default 10
            Number of items for each user.

        Returns
        -------
        Recommendations
            Their `users` are positions in `baskets`: 0, 1, ….

        Raises
        ------
        InputError
            If an item is unknown, if k is not from 1 to the number of items, or if the model cannot fold in users.
        """
        self._fitted()
        matrix = self._to_matrix(baskets)
        rows = np.arange(matrix.shape[0])
        ranked, scores = self._rank(matrix, rows, k, exclude_seen=True, are_new=True)
        return Recommendations(rows, ranked, scores, self.interactions_.items, self.interactions_.frame_type)

    def similar_items(self, items: Any, k: int = 10) -> SimilarItems:
        """Return the k items that are most similar to each query item; never the item itself.

        Parameters
        ----------
        items : sequence of ids
            Query items.
        k : int, default 10
            Number of similar items for each query item.

        Returns
        -------
        SimilarItems
            By the cosine of the items' factors. EASE and SparseLinear use their item weights; a model without factors
            uses the cosine of the items' columns of weights.

        Raises
        ------
        InputError
            If an item is unknown, or if k is not from 1 to the number of items.
        """
        self._fitted()
        interactions = self.interactions_
        positions = self._find_positions("item", items)
        k = check_int("k", k, 1, interactions.n_items, "the number of items")
        similarities = self.similarities_
        itself = np.arange(len(positions) + 1, dtype=np.int32), positions.astype(np.int32)
        ranked, scores = rank_in_blocks(
            lambda part: similarities(positions[part]), np.arange(len(positions)), k, itself
        )
        found = interactions.items[positions]
        return SimilarItems(found, ranked, scores, interactions.items, interactions.frame_type)

    def _rank(
        self, matrix: csr_array, rows: NDArray[np.int64], k: int, *, exclude_seen: bool, are_new: bool = False
    ) -> Ranked:
        """Rank all items for rows of a matrix of weights, of fitted or of new users."""
        n_items = self.interactions_.n_items
        k = check_int("k", k, 1, n_items, "the number of items")
        excluded = (matrix.indptr, matrix.indices) if check_bool("exclude_seen", exclude_seen) else None
        # Few rows are cut out of the matrix; for many, that would take longer than to sum all.
        is_few = 2 * len(rows) < matrix.shape[0]
        is_empty = (row_sums(matrix[rows]) if is_few else row_sums(matrix)[rows]) == 0
        popularity = self._popularity() if is_empty.any() else None
        arrays = self._fitted()
        device = self._device((len(rows), n_items)) if len(rows) and {"users", "items"} <= arrays.keys() else None
        if device is not None:
            from prorec.models._gpu_top_k import GpuRanker

            with explain_out_of_memory(device, "a block of scores"):
                users = self.encode_users(matrix) if are_new else arrays["users"]
                return GpuRanker(arrays, k, excluded, popularity, device).rank(users, rows, is_empty)

        def score(part: slice) -> NDArray[np.float32]:
            scores = self.score_new_users(matrix[rows[part]]) if are_new else self.score_known_users(rows[part])
            if popularity is not None:
                scores[is_empty[part]] = popularity
            return scores

        return rank_in_blocks(score, rows, k, excluded)

    def _popularity(self) -> NDArray[np.float32]:
        matrix = self.interactions_.matrix
        return np.bincount(matrix.indices, matrix.data.astype(np.float64), matrix.shape[1]).astype(np.float32)

    # ── ids ─────────────────────────────────────────────────────────────────────────────────────────

    def _find_positions(self, role: Literal["user", "item"], ids: Any, advice: str = "") -> NDArray[np.int64]:
        """Return rows of users or columns of items, or raise InputError if one is unknown."""
        interactions = self.interactions_
        all_ids = interactions.users if role == "user" else interactions.items
        if ids is all_ids:
            return np.arange(len(ids))
        ids = _check_ids(f"{role}s", ids)
        positions = interactions.user_positions(ids) if role == "user" else interactions.item_positions(ids)
        if (positions < 0).any():
            unknown = list(ids)[int(np.argmax(positions < 0))]
            raise InputError(
                f"{role} {safe_repr(unknown)} is not among the {len(all_ids):,} {role}s that {type(self).__name__} "
                f"was fitted on{advice}"
            )
        return positions

    def _to_matrix(self, baskets: Sequence[Any]) -> csr_array:
        """Return one row of ones for each list of item ids."""
        if isinstance(baskets, str) or not isinstance(baskets, Sequence):
            raise InputError(f"baskets must be a list of lists of item ids; got {type(baskets).__name__}")
        lists = [_check_ids("each of baskets", basket) for basket in baskets]
        empty = np.empty(0, dtype=np.int64)
        columns = [np.unique(self._find_positions("item", basket)) if len(basket) else empty for basket in lists]
        indptr = np.cumsum([0, *map(len, columns)])
        indices = np.concatenate([*columns, empty])
        ones = np.ones(len(indices), dtype=np.float32)
        shape = len(columns), self.interactions_.n_items
        return csr_array((ones, indices.astype(np.int32), indptr.astype(np.int32)), shape=shape)

    # ── saving ──────────────────────────────────────────────────────────────────────────────────────

    def save(self, folder: str | Path, *, overwrite: bool = True) -> None:
        """Write the model into a folder: a JSON file and a file of arrays, without pickle.

        Parameters
        ----------
        folder : str or Path
            Created if missing. Other files in it stay.
        overwrite : bool, default True
            Replace a model that is in the folder when this one is written, as a whole or not at all.

        Raises
        ------
        InputError
            If the folder cannot be written, or if an array of the model is not as `array_rules` says.
        """
        arrays = self._fitted()
        rules, name = self.array_rules(self.interactions_.matrix.shape), type(self).__name__
        check_arrays(arrays, rules, f"this {name}", f"fit it again, or let {name}.array_rules say what it has")
        write_model(
            as_path(folder), **self.describe(), arrays=arrays, interactions=self.interactions_, overwrite=overwrite
        )

    def describe(self) -> dict[str, Any]:
        """Return the class and the parameters in a form that JSON can hold; `restore_model` reads it.

        Returns
        -------
        dict
            `class_name` and `parameters`.
        """
        return {"class_name": type(self).__name__, "parameters": self.get_params(deep=False)}

    @classmethod
    def restore(cls, parameters: dict[str, Any], arrays: Arrays, interactions: Interactions) -> Self:
        """Return a fitted model made of saved parts.

        Parameters
        ----------
        parameters : dict
            Constructor parameters by name.
        arrays : dict of str to array
            The result `arrays_`.
        interactions : Interactions
            Interactions that the model was fitted on.

        Returns
        -------
        Self

        Raises
        ------
        InputError
            If a parameter is not one of the class or is out of range, or if the arrays are damaged.
        """
        # The device of the machine that saved the model may not exist here.
        device = {"device": "auto"} if parameters.get("device", "cpu") != "cpu" else {}
        try:
            model = cls(**parameters | device)
        except TypeError as error:
            raise InputError(f"the parameters are not those of {cls.__name__}: {shorten(str(error))}") from None
        shape = interactions.matrix.shape
        with suppress(MemoryLimitError):  # a model that was fitted on a larger machine can still recommend
            model.check_parameters(shape)
        check_arrays(arrays, model.array_rules(shape), "the model")
        model.arrays_, model.interactions_ = arrays, interactions
        return model

    def _summary(self) -> dict[str, str]:
        interactions = self.interactions_
        n_users, n_items = interactions.n_users, interactions.n_items
        return {"learned from": f"{n_users:,} users × {n_items:,} items, {len(interactions):,} interactions"}


check_arguments(Model)

_saved_classes: dict[str, type[Any]] = {}


def register_saved_class(cls: type[_Saved]) -> type[_Saved]:
    """Let `load` restore a class that is not a model but is saved like one, such as a denoiser; a class decorator.

    Parameters
    ----------
    cls : type
        A class with a class method `restore(parameters, arrays, interactions)`.

    Returns
    -------
    type
        The class itself.
    """
    _saved_classes[cls.__name__] = cls
    return cls


def load(folder: str | Path) -> FittedRecommender:
    """Return the model or the denoiser that `save` wrote.

    Parameters
    ----------
    folder : str or Path
        Folder that was passed to `save`.

    Returns
    -------
    Model or ProRec
        Fitted, of the class that was saved.

    Raises
    ------
    InputError
        If the folder has no model, or if the model is damaged or of another version.
    """
    folder = as_path(folder)
    class_name, parameters, arrays, interactions = read_model(folder)
    with prefix_errors(folder):
        cls = _saved_classes[class_name] if str(class_name) in _saved_classes else _find_class(class_name)
        loaded: FittedRecommender = cls.restore(parameters, arrays, interactions)
        return loaded


def restore_model(description: Mapping[str, Any], arrays: Arrays, interactions: Interactions) -> Model:
    """Return the fitted model that `Model.describe` described.

    Parameters
    ----------
    description : mapping
        `class_name` and `parameters`.
    arrays : dict of str to array
        The result `arrays_`.
    interactions : Interactions
        Interactions that the model was fitted on.

    Returns
    -------
    Model

    Raises
    ------
    InputError
        If the class is unknown, or if parameters or arrays do not belong to it.
    """
    if not isinstance(description, Mapping) or not isinstance(description.get("parameters"), dict):
        raise DamagedFileError("a saved model must have a class_name and parameters; save it again")
    return _find_class(description.get("class_name")).restore(description["parameters"], arrays, interactions)


def _find_class(name: Any) -> type[Model]:
    if not isinstance(name, str) or name not in Model.registry:
        raise InputError(f"the class must be one of {', '.join(sorted(Model.registry))}; got {safe_repr(name)}")
    return Model.registry[name]


def as_interactions(interactions: Any) -> Interactions:
    """Return interactions with weights in [0, 1].

    Parameters
    ----------
    interactions : Interactions, DataFrame or sparse matrix
        Weights, users × items, or a table with one row for each interaction: of pandas, polars, pyarrow or another
        library that narwhals supports, with columns of usual names.

    Returns
    -------
    Interactions

    Raises
    ------
    InputError
        If the argument is something else, or if a weight is not in [0, 1].
    """
    checked = interactions
    if issparse(interactions):
        checked = Interactions.from_matrix(interactions)
    elif not isinstance(interactions, Interactions) and frame_type(interactions) is not None:
        checked = _read_data_frame(interactions)
    if not isinstance(checked, Interactions):
        raise InputError(
            f"interactions must be Interactions, a data frame or a sparse matrix; got {type(interactions).__name__}"
        )
    weights = checked.matrix.data
    if len(weights) and not (weights.min() >= 0 and weights.max() <= 1):
        position = int(np.argmax(~((weights >= 0) & (weights <= 1))))
        user, item = checked.users[checked.user_codes[position]], checked.items[checked.item_codes[position]]
        raise InputError(
            f"weights must be from 0 to 1; that of user {user} and item {item} is {weights[position]:g}. "
            "(duplicates='sum' adds the weights of repeated pairs; duplicates='max' counts each pair once.)"
        )
    return checked


def _read_data_frame(table: Any) -> Interactions:
    """Return the interactions in a data frame; columns cannot be named here, so an error says where they can."""
    from prorec.data.data_frame_log import read_data_frame  # models of matrices need no readers

    try:
        return read_data_frame(table, can_skip=False)[0]
    except InputError as error:
        if "_col" not in str(error):
            raise
        problem = str(error).removesuffix(".")
        raise InputError(f"{problem}. Names of columns are arguments of prorec.Interactions.from_table") from None


def _check_ids(name: str, ids: Any) -> Any:
    """Return ids in a form that can be iterated twice, or raise InputError."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise InputError(f"{name} must be a list of ids; got {safe_repr(ids)}")
    return ids if hasattr(ids, "__getitem__") else list(ids)

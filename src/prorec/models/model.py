"""What the models of this package have in common: learning, recommending, folding in, similar items, saving.

A model is a dataclass. Its parameters are its fields; what it has learned is `arrays_`, a dictionary of arrays, and
`interactions_`, what it learned from. Its own part is small: `_learn` makes the arrays from a weighted matrix (`users`,
`items` and perhaps `item_bias`), and `encode_users` turns rows of such a matrix into user factors. One
that needs more than a matrix to learn from has a `fit` of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from prorec._core.checks import check_int, safe_repr
from prorec._core.device import explain_out_of_memory, resolve_device
from prorec._core.errors import InputError
from prorec._core.estimator import Estimator
from prorec._core.files import as_path, prefix_errors
from prorec._core.parallel import N_CORES, map_in_order
from prorec.interactions import Interactions
from prorec.models import _top
from prorec.models._sparse import row_sums
from prorec.models.recommendations import FittedRecommender, Recommendations, SimilarItems
from prorec.models.storage import Arrays, read_model, write_model
from prorec.transport.factors import Factors, Link

_BLOCK = 512  # users at a time; more don't make the product faster


Objective = Literal["squared", "binary", "multinomial"]
"""What a model's scores are held against the weights by: squared error (Eq. 2), cross-entropy of a yes or no for each
item (Eq. 3), or cross-entropy of one choice among all items."""


class Model(Estimator):
    """A recommender that learns from a weighted matrix of interactions, and knows users and items by factors."""

    arrays_: Arrays
    interactions_: Interactions
    registry: ClassVar[dict[str, type[Model]]] = {}
    """Every model by its name, for loading."""
    supports_warm_start: ClassVar[bool] = False
    """Whether `fit` can start from another model of its kind."""
    supports_checkpoint: ClassVar[bool] = False
    """Whether `fit` takes a folder to keep the state of training in."""
    supports_fold_in: ClassVar[bool] = True
    """Whether scores of users that are folded in are of the size of those learned from."""
    objective: ClassVar[Objective] = "squared"
    regularized_arrays: ClassVar[tuple[str, ...]] = ()
    """The learned arrays whose squares `regularization` keeps small."""
    required_arrays: ClassVar[tuple[str, ...]] = ("users", "items")
    """The arrays it cannot do without."""

    def __init_subclass__(cls, **how: Any) -> None:
        super().__init_subclass__(**how)
        if not cls.__name__.startswith("_"):
            Model.registry[cls.__name__] = cls

    # ── what each model says for itself ─────────────────────────────────────────────────────────────

    def _learn(self, matrix: csr_array) -> Arrays:
        """Arrays learned from weights in [0, 1], users × items; a weight stands wherever a one stood."""
        raise NotImplementedError

    def _learn_from(self, matrix: csr_array, start: Arrays) -> Arrays:
        """The same from where another model of this kind, for as many users and items, has come to."""
        raise NotImplementedError

    def encode_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """User factors for rows of weights, of users seen in training or not."""
        raise NotImplementedError

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Refuse parameters that don't make sense, by themselves or for so many users and items."""
        return

    def _device(self, shape: tuple[int, int]) -> Any:
        """Where to work on so many users and items: a device of PyTorch's, or None for the CPU's own kernels."""
        return resolve_device(getattr(self, "device", "cpu"), float(shape[0]) * shape[1])

    # ── learning ────────────────────────────────────────────────────────────────────────────────────

    def fit(self, interactions: Interactions | csr_array, *, init_from: Model | None = None) -> Self:
        """Learn from interactions, or from a sparse matrix of weights in [0, 1], users × items.

        `init_from` is a fitted model of the same kind and size to begin with, for models that learn in steps.
        """
        known = as_interactions(interactions)
        self.check_parameters(known.matrix.shape)
        with explain_out_of_memory(self._device(known.matrix.shape), f"what {type(self).__name__} learns"):
            if init_from is None:
                learned = self._learn(known.matrix)
            else:
                learned = self._learn_from(known.matrix, self._start_of(init_from, known))
        self._check_finite(learned)
        self.arrays_, self.interactions_ = learned, known
        return self

    def _start_of(self, start: Any, known: Interactions) -> Arrays:
        """What another model has learned, if this one can begin with that."""
        kind = type(self).__name__
        if not self.supports_warm_start:
            raise InputError(f"{kind} learns in one step: there is nothing that init_from could change")
        if type(start) is not type(self):
            raise InputError(f"init_from must be another {kind}; got {type(start).__name__}")
        learned = start._fitted()
        shape = start.interactions_.matrix.shape
        if shape != known.matrix.shape or learned["items"].shape[1] != self._width:
            raise InputError(
                f"init_from must be a {kind} of {known.matrix.shape} and width {self._width}; "
                f"got one of {shape} and width {learned['items'].shape[1]}"
            )
        return dict(learned)

    @property
    def _width(self) -> int:
        """How many factors an item has."""
        return int(getattr(self, "rank"))  # noqa: B009 - those that learn in steps have one

    def _check_finite(self, learned: Arrays) -> None:
        for array in learned.values():
            if not np.isfinite(array).all():
                raise InputError(
                    f"{type(self).__name__} came to numbers that are not finite: a parameter is too extreme"
                )

    @property
    def scores_(self) -> Factors | Callable[[NDArray[np.intp]], NDArray[np.float32]]:
        """What everybody's score of everything is made of: factors, or a function from row numbers to their scores."""
        learned = self._fitted()
        return Factors(learned["users"], learned["items"], learned.get("item_bias"), self.link)

    link: ClassVar[Link] = "identity"

    # ── recommending ────────────────────────────────────────────────────────────────────────────────

    def recommend(self, users: Any, k: int = 10, *, exclude_seen: bool = True) -> Recommendations:
        """The k best items for each user id, best first; among equals, in item order.

        What a user has interacted with is left out, whatever its weight. A user without any interaction (or with
        weights of 0 only) gets the most popular items.
        """
        self._fitted()
        known = self.interactions_
        rows = self._positions("user", users, "; recommend_new takes the items of a new user")
        ranked, scores = self._ranked(known.matrix, rows, k, exclude_seen=exclude_seen)
        return Recommendations(known.users[rows], ranked, scores, known.items)

    def recommend_new(self, baskets: Sequence[Any], k: int = 10) -> Recommendations:
        """The k best items for new users, each given by the ids of their items, without learning again.

        The users of what comes back are 0, 1, …: the places in `baskets`.
        """
        self._fitted()
        matrix = self._as_matrix(baskets)
        rows = np.arange(matrix.shape[0])
        ranked, scores = self._ranked(matrix, rows, k, exclude_seen=True, are_new=True)
        return Recommendations(rows, ranked, scores, self.interactions_.items)

    def similar_items(self, items: Any, k: int = 10) -> SimilarItems:
        """Return the k items most similar to each query item, most similar first; never the item itself."""
        self._fitted()
        known = self.interactions_
        columns = self._positions("item", items)
        k = check_int("k", k, 1, known.n_items, "the number of items")
        likeness = self._likeness()
        itself = np.arange(len(columns) + 1, dtype=np.int32), columns.astype(np.int32)

        def score(part: slice, room: NDArray[np.float32]) -> None:
            likeness(columns[part], room)

        ranked, scores = _in_blocks(np.arange(len(columns)), k, known.n_items, score, itself)
        return SimilarItems(known.items[columns], ranked, scores, known.items)

    def _ranked(
        self, matrix: csr_array, rows: NDArray[np.int64], k: int, *, exclude_seen: bool, are_new: bool = False
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The k best for rows of a matrix of weights, of users learned from or of new ones."""
        n_items = self.interactions_.n_items
        k = check_int("k", k, 1, n_items, "the number of items")
        seen = (matrix.indptr, matrix.indices) if exclude_seen else None
        learned = self._fitted()
        device = self._device((len(rows), n_items)) if len(rows) and {"users", "items"} <= learned.keys() else None
        if device is not None:
            from prorec.models._top_on_device import Best

            with explain_out_of_memory(device, "recommending"):
                is_unknown = row_sums(matrix)[rows] == 0
                popularity = self._popularity() if is_unknown.any() else None
                users = self.encode_users(matrix) if are_new else learned["users"]
                best = Best(learned["items"], learned.get("item_bias"), k, seen, popularity, device)
                return _finite(*best.of(users, rows, is_unknown))
        is_unknown = np.asarray(matrix[rows].sum(axis=1)).ravel() == 0
        popularity = self._popularity() if is_unknown.any() else None

        def score_all(part: slice, room: NDArray[np.float32]) -> None:
            if are_new:
                self.score_new_users(matrix[rows[part]], room)
            else:
                self.score_known_users(rows[part], room)
            if popularity is not None:
                room[is_unknown[part]] = popularity

        return _in_blocks(rows, k, n_items, score_all, seen)

    def score_known_users(self, rows: NDArray[np.int64], room: NDArray[np.float32]) -> None:
        """Scores of users that were learned from."""
        self._score(self._fitted()["users"][rows], room)

    def score_new_users(self, matrix: csr_array, room: NDArray[np.float32]) -> None:
        """Scores of users given by rows of weights."""
        self._score(self.encode_users(matrix), room)

    def _score(self, users: NDArray[np.float32], room: NDArray[np.float32]) -> None:
        """Scores of user factors, before the link, which does not change their order."""
        learned = self._fitted()
        np.matmul(users, learned["items"].T, out=room)
        if "item_bias" in learned:
            room += learned["item_bias"]

    def _likeness(self) -> Callable[[NDArray[np.int64], NDArray[np.float32]], None]:
        """A function that writes how like some items are to all items: the cosine of their factors."""
        if "items" not in self._fitted():
            return self._likeness_by_users()
        vectors = self._fitted()["items"]
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)

        def likeness(columns: NDArray[np.int64], room: NDArray[np.float32]) -> None:
            np.matmul(unit[columns], unit.T, out=room)

        return likeness

    def _likeness_by_users(self) -> Callable[[NDArray[np.int64], NDArray[np.float32]], None]:
        """The same without factors: the cosine of two items' columns of weights."""
        matrix = self.interactions_.matrix
        by_item = csr_array(matrix.T)
        lengths = np.sqrt(np.bincount(matrix.indices, matrix.data.astype(np.float64) ** 2, matrix.shape[1]))
        lengths[lengths == 0] = 1

        def likeness(columns: NDArray[np.int64], room: NDArray[np.float32]) -> None:
            room[:] = (by_item[columns] @ matrix).toarray() / lengths[columns, None] / lengths

        return likeness

    def _popularity(self) -> NDArray[np.float32]:
        known = self.interactions_
        weights = known.matrix.data.astype(np.float64)
        return np.bincount(known.matrix.indices, weights, known.n_items).astype(np.float32)

    # ── ids ─────────────────────────────────────────────────────────────────────────────────────────

    def _positions(self, role: str, ids: Any, advice: str = "") -> NDArray[np.int64]:
        """Rows of users or columns of items; each must be known."""
        known = self.interactions_
        if ids is (known.users if role == "user" else known.items):  # everybody, as often
            return np.arange(len(ids))
        ids = _listed(f"{role}s", ids)
        places = known.user_positions(ids) if role == "user" else known.item_positions(ids)
        if (places < 0).any():
            stranger = np.asarray(ids, dtype=object)[int(np.argmax(places < 0))]
            count = known.n_users if role == "user" else known.n_items
            learned_from = f"the {count:,} {role}s that {type(self).__name__} learned from"
            raise InputError(f"{role} {stranger!r} is not among {learned_from}{advice}")
        return places

    def _as_matrix(self, baskets: Sequence[Any]) -> csr_array:
        """One row of ones for each list of item ids."""
        if isinstance(baskets, str) or not isinstance(baskets, Sequence):
            raise InputError(f"baskets must be a list of lists of item ids; got {type(baskets).__name__}")
        lists = [_listed("each of baskets", basket) for basket in baskets]
        columns = [self._positions("item", basket) if len(basket) else np.empty(0, dtype=np.int64) for basket in lists]
        rows = np.repeat(np.arange(len(columns)), [len(basket) for basket in columns])
        flat = np.concatenate(columns) if columns else np.empty(0, dtype=np.int64)
        matrix = csr_array(
            (np.ones(len(flat), dtype=np.float32), (rows, flat)), shape=(len(columns), self.interactions_.n_items)
        )
        matrix.sum_duplicates()
        matrix.data[:] = 1
        return matrix

    # ── keeping ─────────────────────────────────────────────────────────────────────────────────────

    def save(self, folder: str | Path) -> None:
        """Write the model into a folder: a JSON file, and one with arrays. An older model there is replaced whole."""
        learned = self._fitted()
        write_model(as_path(folder), **self.describe(), arrays=learned, interactions=self.interactions_)

    def describe(self) -> dict[str, Any]:
        """Return the class and the parameters in a form that JSON can hold; `restore_model` reads it."""
        return {"class_name": type(self).__name__, "parameters": self.get_params(deep=False)}

    @classmethod
    def restore(cls, parameters: dict[str, Any], learned: Arrays, interactions: Interactions) -> Self:
        """A fitted model from what was written down of it."""
        # Another machine may have no such device: there, as wherever nobody said anything, it is found out.
        elsewhere = {"device": "auto"} if parameters.get("device", "cpu") != "cpu" else {}
        try:
            model = cls(**parameters | elsewhere)
        except TypeError as error:
            raise InputError(f"the parameters are not those of {cls.__name__}: {error}") from None
        _check_arrays(model.required_arrays, learned, interactions)
        model.arrays_, model.interactions_ = learned, interactions
        return model

    # ── looking ─────────────────────────────────────────────────────────────────────────────────────

    def _summary(self) -> dict[str, str]:
        known = self.interactions_
        return {"learned from": f"{known.n_users:,} users × {known.n_items:,} items, {len(known):,} interactions"}

    def _fitted(self) -> Arrays:
        self._check_fitted()
        return self.arrays_


_Saved = TypeVar("_Saved")
_saved_classes: dict[str, type[Any]] = {}


def register_saved_class(cls: type[_Saved]) -> type[_Saved]:
    """Let `load` restore a class that is no model but is saved like one, such as a denoiser; a class decorator.

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
        The folder that was passed to `save`.

    Returns
    -------
    Model or ProRec

    Raises
    ------
    InputError
        If there is no model in the folder, or it is damaged.
    """
    folder = as_path(folder)
    class_name, parameters, learned, interactions = read_model(folder)
    with prefix_errors(folder):
        cls = _saved_classes[class_name] if str(class_name) in _saved_classes else model_class(class_name)
        loaded: FittedRecommender = cls.restore(parameters, learned, interactions)
        return loaded


def restore_model(description: Mapping[str, Any], arrays: Arrays, interactions: Interactions) -> Model:
    """Return the fitted model that `Model.describe` described."""
    return model_class(description["class_name"]).restore(description["parameters"], arrays, interactions)


def model_class(name: Any) -> type[Model]:
    """A model by its name."""
    if not isinstance(name, str) or name not in Model.registry:
        raise InputError(f"a model of the kind {name!r} is not known here; there are {sorted(Model.registry)}")
    return Model.registry[name]


def _check_arrays(names: Sequence[str], learned: Arrays, known: Interactions) -> None:
    """Refuse learned arrays that recommending would stumble over."""
    problem = "the model is incomplete or damaged"
    missing = [name for name in names if name not in learned]
    if missing:
        raise InputError(f"{problem}: there is no {', '.join(missing)}")
    width = learned["items"].shape[-1] if "items" in learned else 0
    n_users, n_items = known.matrix.shape
    shapes = {"users": (n_users, width), "items": (n_items, width), "item_bias": (n_items,)}
    shapes["item_weights"] = (n_items, n_items)
    for name, array in learned.items():
        if array.dtype.kind != "f" or not np.isfinite(array).all() or array.shape != shapes.get(name, array.shape):
            raise InputError(
                f"{problem}: {name} is {array.dtype} of shape {array.shape}, or has numbers that are not finite"
            )


def as_interactions(given: Any) -> Interactions:
    """Interactions with weights in [0, 1], which every model takes."""
    known = Interactions.from_matrix(given) if issparse(given) else given
    if not isinstance(known, Interactions):
        raise InputError(f"interactions must be Interactions or a sparse matrix; got {type(given).__name__}")
    weights = known.matrix.data
    if len(weights) and not (weights.min() >= 0 and weights.max() <= 1):
        at = int(np.argmax(~((weights >= 0) & (weights <= 1))))
        user, item = known.users[known.user_codes[at]], known.items[known.item_codes[at]]
        raise InputError(
            f"weights must be from 0 to 1; that of user {user} and item {item} is {weights[at]:g}. (duplicates='sum' "
            "adds the weights of repeated pairs; duplicates='max' counts each pair once.)"
        )
    return known


def _listed(name: str, ids: Any) -> Any:
    """Ids as something that can be gone through twice."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise InputError(f"{name} must be a list of ids; got {safe_repr(ids)}")
    return ids if hasattr(ids, "__getitem__") else list(ids)


def _in_blocks(
    rows: NDArray[np.int64],
    k: int,
    n_items: int,
    score: Callable[[slice, NDArray[np.float32]], None],
    seen: tuple[NDArray[np.int32], NDArray[np.int32]] | None,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Score, mask and rank one block of rows after the other, on all cores.

    `score` writes the scores of a part of `rows`; `seen` is the structure of a sparse matrix that has all of them.
    """
    ranked = np.empty((len(rows), k), dtype=np.int32)
    best = np.empty((len(rows), k), dtype=np.float32)

    def work(number: int) -> None:
        part = slice(number * _BLOCK, (number + 1) * _BLOCK)
        room = np.empty((len(rows[part]), n_items), dtype=np.float32)
        score(part, room)
        if seen is not None:
            _top.mask(room, rows[part], *seen)
        _top.top_k(room, k, ranked[part], best[part])

    for _ in map_in_order(work, -(-len(rows) // _BLOCK), N_CORES):
        pass
    return _finite(ranked, best)


def _finite(ranked: NDArray[np.int32], best: NDArray[np.float32]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    if not np.isfinite(best).all():
        raise InputError("the scores are too large for single precision")
    return ranked, best

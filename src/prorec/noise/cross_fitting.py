"""Cross-fitting: folds, sampled negatives, and scores of pairs by base models that were not trained on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.array_rules import ArrayRule, Arrays
from prorec._core.compilation import njit
from prorec._core.errors import InputError, ProrecError
from prorec._core.progress import Progress
from prorec.interactions import Interactions
from prorec.models import Model
from prorec.noise.pair_features import PairScores
from prorec.noise.plan_ranks import Pairs, Transport, rank_in_plan

NEGATIVES_PER_CLICK = 2
MAX_TRAINING_CLICKS = 100_000
"""Maximum number of clicks that the classifier learns from. On MovieLens-1M, three times as many took twice as long and
found no more noise."""
NO_NEGATIVES = "every user has an interaction with every item, so no negatives can be sampled; remove items or users"
"""Message of the error that is raised if there is no unobserved pair."""


_LARGEST_BELOW_1 = float(np.nextafter(np.float32(1), np.float32(0)))


class FoldStore(Protocol):
    """Results of finished folds, from which an interrupted fit continues, such as `prorec.denoise.Checkpoint`."""

    def load_fold(self, name: str, rules: Mapping[str, ArrayRule]) -> Arrays | None:
        """Return stored arrays that follow the rules; None if there are none of this name."""
        ...

    def save_fold(self, name: str, arrays: Arrays) -> None:
        """Store the arrays of a fold."""
        ...


class SampledPairs(NamedTuple):
    """All clicks, followed by negatives; each negative has the user and the fold of one click."""

    pairs: Pairs
    """Users and items."""
    clicks: NDArray[np.int64]
    """Position of the click that each pair is, or that it was sampled for."""
    training: NDArray[np.int64]
    """Positions of the pairs that the classifier learns from."""


def sample_pairs(interactions: Interactions, rng: np.random.Generator) -> SampledPairs:
    """Sample negatives for the clicks that the classifier learns from.

    Parameters
    ----------
    interactions : Interactions
        All clicks.
    rng : numpy.random.Generator
        Generator for the training clicks, if there are many, and for the negatives.

    Returns
    -------
    SampledPairs

    Raises
    ------
    InputError
        If every user has an interaction with every item.
    """
    n = len(interactions)
    training = np.arange(n)
    if n > MAX_TRAINING_CLICKS:
        training = np.sort(rng.choice(n, MAX_TRAINING_CLICKS, replace=False))
    sampled_for = np.repeat(training, NEGATIVES_PER_CLICK)
    users = interactions.user_codes[sampled_for]
    negatives, exists = sample_negatives(interactions.matrix, users, rng.random(len(users)))
    if not exists.any():
        raise InputError(NO_NEGATIVES)
    clicks = np.append(np.arange(n), sampled_for[exists])
    items = np.append(interactions.item_codes, negatives[exists])
    pairs = Pairs(interactions.user_codes[clicks].astype(np.int32), items.astype(np.int32))
    return SampledPairs(pairs, clicks, np.append(training, np.arange(n, len(clicks))))


def cross_fit(
    models: Sequence[Model],
    matrix: csr_array,
    folds: NDArray[np.int16],
    sample: SampledPairs,
    transport: Transport,
    memory: float,
    progress: Progress,
    store: FoldStore | None = None,
) -> PairScores:
    """Score each pair by base models that were trained on all folds but the pair's.

    Parameters
    ----------
    models : sequence of Model
        Base models. Copies of them are fitted.
    matrix : csr_array, users × items
        Weights of the clicks.
    folds : array of int
        Fold of each click, in the order of `matrix.data`.
    sample : SampledPairs
        Clicks and negatives to score.
    transport : {"relaxed-users", "relaxed", "sinkhorn"}
        See `rank_in_plan`.
    memory : float
        Maximum number of bytes of blocks in memory.
    progress : Progress
        Called before each fit and at the end.
    store : FoldStore, optional
        Scores of finished folds, which are not computed again.

    Returns
    -------
    PairScores
    """
    n_folds, task = int(folds.max()) + 1, "Cross-fitting the base models"
    scores = PairScores.allocate(len(models), len(sample.clicks))
    for fold in range(n_folds):
        positions, name = np.flatnonzero(folds[sample.clicks] == fold), f"scores-{fold}"
        stored = None if store is None else store.load_fold(name, _score_rules(len(models), len(positions), matrix))
        if stored is not None:
            scores.put(positions, PairScores(**stored))
            continue
        train, part = drop_entries(matrix, folds == fold), sample.pairs.at(positions)
        fold_scores = PairScores.allocate(len(models), len(positions))
        fold_scores.popularity[:] = np.bincount(train.indices, minlength=matrix.shape[1])[part.items]
        fold_scores.is_cold[:] = has_no_weight(train)[part.users]
        for index, model in enumerate(models):
            progress(task, fold * len(models) + index, n_folds * len(models))
            scores_ = fit_without_fold(model, train, fold, n_folds).scores_
            ranks = rank_in_plan(scores_, matrix, part, train, transport, memory)
            fold_scores.plan_values[index], fold_scores.percentile_ranks[index] = ranks
        scores.put(positions, fold_scores)
        if store is not None:
            store.save_fold(name, fold_scores._asdict())
    progress(task, n_folds * len(models), n_folds * len(models))
    return scores


def _score_rules(n_models: int, n_pairs: int, matrix: csr_array) -> dict[str, ArrayRule]:
    """Return the rules for the stored scores of a fold."""
    tiny = float(np.finfo(np.float32).tiny)
    return {
        "plan_values": ArrayRule((n_models, n_pairs)),
        "percentile_ranks": ArrayRule((n_models, n_pairs), minimum=tiny, maximum=_LARGEST_BELOW_1),
        "popularity": ArrayRule((n_pairs,), minimum=0, maximum=matrix.shape[0]),
        "is_cold": ArrayRule((n_pairs,), "bool"),
    }


def assign_folds(matrix: csr_array, n_folds: int, rng: np.random.Generator) -> NDArray[np.int16]:
    """Divide interactions into folds so that each user's interactions are spread evenly.

    Parameters
    ----------
    matrix : csr_array, users × items
        Interactions.
    n_folds : int
        Number of folds.
    rng : numpy.random.Generator
        Generator for the order of each user's interactions and for each user's first fold.

    Returns
    -------
    array of int
        Fold of each interaction, in the order of `matrix.data`.

    Examples
    --------
    >>> folds = assign_folds(csr_array(np.ones((2, 6))), 3, np.random.default_rng(0))
    >>> np.bincount(folds[:6]), np.bincount(folds[6:])
    (array([2, 2, 2]), array([2, 2, 2]))
    """
    keys = rng.random(matrix.nnz)
    return assign_folds_by_key(matrix.indptr, n_folds, keys, rng.integers(n_folds, size=matrix.shape[0]))


def assign_folds_by_key(
    indptr: NDArray[np.integer], n_folds: int, keys: NDArray[np.float64], first_folds: NDArray[np.integer]
) -> NDArray[np.int16]:
    """Divide interactions into folds by random keys that the caller provides.

    Parameters
    ----------
    indptr : array of int
        Position of each user's first interaction, and the number of interactions.
    n_folds : int
        Number of folds.
    keys : array
        Sort key of each interaction: in this order, a user's interactions go to successive folds.
    first_folds : array of int
        Fold of each user's first interaction.

    Returns
    -------
    array of int
        Fold of each interaction.
    """
    folds = np.empty(len(keys), dtype=np.int16)
    _write_folds(indptr, n_folds, keys, first_folds, folds)
    return folds


@njit(cache=True, nogil=True)
def _write_folds(indptr, n_folds, keys, first_folds, folds):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    for row in range(len(indptr) - 1):
        own = folds[indptr[row] : indptr[row + 1]]
        for position, click in enumerate(np.argsort(keys[indptr[row] : indptr[row + 1]], kind="mergesort")):
            own[click] = (position + first_folds[row]) % n_folds


def sample_negatives(
    observed: csr_array, users: NDArray[np.int32], uniforms: NDArray[np.float64]
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Sample one unobserved item for each user of a list, uniformly.

    Parameters
    ----------
    observed : csr_array, users × items
        All interactions, with sorted indices.
    users : array of int
        Row of each user; a user may occur several times.
    uniforms : array
        One random number in [0, 1) per sample.

    Returns
    -------
    items : array of int
        Column of each sampled item.
    exists : array of bool
        Whether there is an unobserved item; a user with an interaction with every item has none.

    Examples
    --------
    >>> sample_negatives(csr_array([[1, 0, 1]]), np.zeros(2, dtype=np.int32), np.array([0.2, 0.9]))
    (array([1, 1], dtype=int32), array([ True,  True]))
    """
    n_items, n_observed = observed.shape[1], np.diff(observed.indptr)
    n_unobserved = n_items - n_observed[users]
    number = (uniforms * n_unobserved).astype(np.int64)
    # Before a user's k-th observed item there are indices[k] − k unobserved ones. The key orders these by user first.
    rows = np.repeat(np.arange(len(n_observed)), n_observed)
    keys = rows * (n_items + 1) + observed.indices - (np.arange(observed.nnz) - observed.indptr[rows])
    n_before = np.searchsorted(keys, users.astype(np.int64) * (n_items + 1) + number, side="right")
    return (number + n_before - observed.indptr[users]).astype(np.int32), n_unobserved > 0


def drop_entries(matrix: csr_array, is_dropped: NDArray[np.bool_]) -> csr_array:
    """Return a sparse matrix without some of its entries.

    Parameters
    ----------
    matrix : csr_array
    is_dropped : array of bool
        Whether each entry is dropped, in the order of `matrix.data`.

    Returns
    -------
    csr_array
        A matrix of the same shape.
    """
    n_kept = np.append(0, np.cumsum(~is_dropped))
    return csr_array(
        (matrix.data[~is_dropped], matrix.indices[~is_dropped], n_kept[matrix.indptr].astype(matrix.indptr.dtype)),
        shape=matrix.shape,
    )


def has_no_weight(matrix: csr_array) -> NDArray[np.bool_]:
    """Return whether each row of a matrix has no weight."""
    return np.asarray(np.asarray(matrix.sum(axis=1)).ravel() == 0)


def copy_unfitted(model: Model) -> Any:
    """Return a model with the same parameters that is not fitted."""
    return replace(model)  # type: ignore[type-var]


def fit_without_fold(model: Model, train: csr_array, fold: int, n_folds: int) -> Any:
    """Fit a copy of a model to the other folds, and name model and fold if that fails.

    Parameters
    ----------
    model : Model
        The model, which is not changed.
    train : csr_array, users × items
        Weights of the clicks of the other folds.
    fold : int
        Number of the fold, from 0.
    n_folds : int
        Number of folds.

    Returns
    -------
    Model
        The fitted copy.

    Raises
    ------
    InputError
        If the model refuses the clicks.
    ProrecError
        If the model fails in another way.
    """
    try:
        return copy_unfitted(model).fit(train)
    except InputError as error:
        raise InputError(f"{_describe(model)} without fold {fold + 1} of {n_folds}: {error}") from None
    except ProrecError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ProrecError(f"{_describe(model)} failed without fold {fold + 1} of {n_folds}: {reason}") from error


def _describe(model: Any) -> str:
    """Return the name of a model; that of a model of another library is the library's."""
    return type(getattr(model, "model", model)).__name__

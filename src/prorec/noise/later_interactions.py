"""Noise probabilities of interactions that arrive after the fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit

from prorec._core.errors import InputError
from prorec._core.random import make_generator
from prorec.interactions import Interactions
from prorec.models import Model
from prorec.noise.cross_fitting import assign_folds, drop_entries, has_no_weight
from prorec.noise.density_ratio import FeatureMatrix
from prorec.noise.extreme_accounts import EXTREME_SCORE
from prorec.noise.leave_one_out import compute_leave_one_out_features
from prorec.noise.pair_features import PairFeatures, PairScores, ReferenceClicks
from prorec.noise.plan_ranks import Pairs, rank_in_plan
from prorec.noise.posterior import ACCOUNT, SEEN, UNKNOWN_ITEM
from prorec.transport.scores import ScoreFunction

if TYPE_CHECKING:
    from prorec.noise.finder import NoiseFinder


class LaterScores(NamedTuple):
    """Results for pairs that the fit did not contain."""

    noise_probability: NDArray[np.float32]
    """Noise probability of each pair."""
    basis: NDArray[np.int8]
    """Basis code of each pair."""
    percentile_rank: NDArray[np.float32]
    """Percentile rank of each pair, averaged over the base models; ½ if they cannot rank it."""


def score_later(finder: NoiseFinder, interactions: Interactions) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """Return the noise probability of later interactions, and its basis.

    Parameters
    ----------
    finder : NoiseFinder
        A fitted finder.
    interactions : Interactions
        Interactions of known or new users.

    Returns
    -------
    noise_probability : array
        In the order of `interactions.matrix.data`; NaN for unknown items.
    basis : array of int
        Codes for `basis_names`.

    Raises
    ------
    InputError
        If the argument is not `Interactions`.
    """
    if not isinstance(interactions, Interactions):
        raise InputError(
            f"interactions must be Interactions; got {type(interactions).__name__}. "
            "Make them with Interactions.from_table or prorec.read_interactions."
        )
    fitted = finder.interactions_
    users = fitted.user_positions(interactions.users)[interactions.user_codes]
    items = fitted.item_positions(interactions.items)[interactions.item_codes]
    probability = np.full(len(interactions), np.nan, dtype=np.float32)
    basis = np.full(len(interactions), UNKNOWN_ITEM, dtype=np.int8)
    positions = fitted.pair_positions(users, items)
    is_seen = positions >= 0
    probability[is_seen], basis[is_seen] = finder.noise_probability_[positions[is_seen]], SEEN
    is_scored = (items >= 0) & ~is_seen
    if is_scored.any():
        scores = _score_unfitted(finder, users[is_scored], items[is_scored], interactions.user_codes[is_scored])
        probability[is_scored], basis[is_scored] = scores.noise_probability, scores.basis
    return probability, basis


def score_rows(finder: NoiseFinder, users: Any, items: Any) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """Return the noise probability of rows that arrive one by one, and its basis.

    Each row is scored by itself, so the result does not depend on which rows arrive together. A click of a new user has
    no other clicks beside it then, and its basis is popularity.

    Parameters
    ----------
    finder : NoiseFinder
        A fitted finder.
    users, items : array_like
        Ids of each row.

    Returns
    -------
    noise_probability : array
        For each row; NaN for unknown items.
    basis : array of int
        Codes for `basis_names`.
    """
    fitted = finder.interactions_
    pairs = np.column_stack([fitted.user_positions(users), fitted.item_positions(items)])
    distinct, rows = np.unique(pairs, axis=0, return_inverse=True)
    user, item = distinct.T
    probability = np.full(len(distinct), np.nan, dtype=np.float32)
    basis = np.full(len(distinct), UNKNOWN_ITEM, dtype=np.int8)
    positions = fitted.pair_positions(user, item)
    is_seen = positions >= 0
    probability[is_seen], basis[is_seen] = finder.noise_probability_[positions[is_seen]], SEEN
    is_scored = (item >= 0) & ~is_seen
    if is_scored.any():
        scores = _score_unfitted(finder, user[is_scored], item[is_scored], np.arange(int(is_scored.sum())))
        probability[is_scored], basis[is_scored] = scores.noise_probability, scores.basis
    return probability[rows.ravel()], basis[rows.ravel()]


def score_left_out(finder: NoiseFinder, is_left_out: NDArray[np.bool_]) -> LaterScores:
    """Score the interactions of the log that the fit did not contain.

    Parameters
    ----------
    finder : NoiseFinder
        A finder that is fitted to all other interactions.
    is_left_out : array of bool
        Whether each interaction of `finder.interactions_` was left out.

    Returns
    -------
    LaterScores
        Of the interactions that were left out, in the order of `finder.interactions_.matrix.data`.
    """
    users = finder.interactions_.user_codes[is_left_out]
    return _score_unfitted(finder, users, finder.interactions_.item_codes[is_left_out], users)


def _score_unfitted(
    finder: NoiseFinder, users: NDArray[np.integer], items: NDArray[np.integer], rows: NDArray[np.integer]
) -> LaterScores:
    """Score pairs of known items that the fit did not contain.

    An interaction of an extreme account is genuine only if the account is a person's and the interaction is no noise
    among a person's. So its noise probability is 1 − (1 − a)·(1 − p), for a = .99 and the probability p of the base
    models. `users` are negative for users that the fit did not contain; `rows` tell these apart.
    """
    n = len(users)
    probability, basis, rank = np.empty(n, np.float32), np.empty(n, np.int8), np.empty(n, np.float32)
    # A user without any weight in the fit counts as new, an extreme account too.
    is_known = (users >= 0) & ~has_no_weight(finder.reference_clicks_.matrix)[np.maximum(users, 0)]
    for chosen, own_rows, score in ((is_known, users, _score_known_users), (~is_known, rows, _score_new_users)):
        if chosen.any():
            pairs = Pairs(own_rows[chosen].astype(np.int32), items[chosen].astype(np.int32))
            probability[chosen], basis[chosen], rank[chosen] = score(finder, pairs)
    is_extreme = (users >= 0) & finder.issues_.is_extreme[np.maximum(users, 0)]
    probability[is_extreme] = _add_account_score(probability[is_extreme])
    basis[is_extreme] = ACCOUNT
    return LaterScores(probability, basis, rank)


def _add_account_score(probability: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(1 - (1 - EXTREME_SCORE) * (1 - probability.astype(np.float64)), dtype=np.float32)


def _score_known_users(finder: NoiseFinder, pairs: Pairs) -> LaterScores:
    """Score pairs of known users by base models of all fitted interactions."""
    clicks, scores = finder.reference_clicks_, _allocate(finder, pairs)
    fitted = clicks.matrix
    for index, model in enumerate(finder.base_models_):
        ranks = rank_in_plan(model.scores_, fitted, pairs, fitted, finder.transport, finder.memory)
        scores.plan_values[index], scores.percentile_ranks[index] = ranks
    activity_rank = clicks.rank_among_item_users(pairs, np.diff(fitted.indptr).astype(np.float32)[pairs.users])
    leave_one_out = _compute_leave_one_out(
        finder, fitted, pairs, np.full(len(pairs.users), -1), np.arange(fitted.shape[0])
    )
    features = scores.to_features(clicks.rank_among_user_clicks(scores, pairs), activity_rank, leave_one_out)
    return _predict(finder, features, scores.mean_percentile_rank)


def _score_new_users(finder: NoiseFinder, pairs: Pairs) -> LaterScores:
    """Score each pair of new users by folding in the user's other pairs."""
    _, rows = np.unique(pairs.users, return_inverse=True)
    order = np.lexsort((pairs.items, rows))
    pairs = Pairs(rows[order].astype(np.int32), pairs.items[order])
    shape = int(rows.max()) + 1, finder.interactions_.n_items
    matrix = csr_array((np.ones(len(order), dtype=np.float32), (pairs.users, pairs.items)), shape=shape)
    folds = assign_folds(matrix, finder.n_folds_, make_generator(finder.seed))
    scores = _allocate(finder, pairs)
    # A plan with the items' marginal has no row for new users, and a third-party model may not score them.
    can_fold_in = finder.transport == "relaxed-users" and all(model.supports_fold_in for model in finder.base_models_)
    scores.is_cold[:] = not can_fold_in
    for fold in np.unique(folds) if can_fold_in else ():
        train, positions = drop_entries(matrix, folds == fold), np.flatnonzero(folds == fold)
        part = pairs.at(positions)
        scores.is_cold[positions] = has_no_weight(train)[part.users]
        for index, model in enumerate(finder.base_models_):
            ranks = rank_in_plan(_fold_in(model, train), matrix, part, train, finder.transport, finder.memory)
            scores.plan_values[index, positions], scores.percentile_ranks[index, positions] = ranks
    own_clicks = ReferenceClicks(matrix, scores.mean_percentile_rank, scores.popularity)
    user_ranks = own_clicks.rank_among_user_clicks(scores, pairs, np.arange(len(order)))
    activity = np.diff(matrix.indptr).astype(np.float32)[pairs.users]
    activity_rank = finder.reference_clicks_.rank_among_item_users(pairs, activity)
    leave_one_out = _compute_leave_one_out(finder, matrix, pairs, pairs.items, np.full(shape[0], -1))
    features = scores.to_features(user_ranks, activity_rank, leave_one_out)
    probability, basis, rank = _predict(finder, features, scores.mean_percentile_rank)
    positions = np.argsort(order)
    return LaterScores(probability[positions], basis[positions], rank[positions])


def _compute_leave_one_out(
    finder: NoiseFinder,
    histories: csr_array,
    pairs: Pairs,
    left_out: NDArray[np.integer],
    owners: NDArray[np.integer],
) -> FeatureMatrix | None:
    """Return leave-one-out features with the fitted interactions, or None if the finder has none."""
    if not finder.cooccurrence:
        return None
    reference = finder.reference_clicks_.matrix
    return compute_leave_one_out_features(reference, histories, pairs, left_out, owners, finder.seed)


def _fold_in(model: Model, train: csr_array) -> ScoreFunction:
    """Return a function that scores new users, given by their rows of weights."""

    def score(rows: NDArray[np.intp]) -> NDArray[np.float32]:
        scores = model.score_new_users(train[rows])
        return np.asarray(expit(scores)) if model.link == "sigmoid" else scores  # `scores_` applies the link, too

    return score


def _allocate(finder: NoiseFinder, pairs: Pairs) -> PairScores:
    """Return scores to be filled in, with the popularity that items have in the training part of one fold."""
    scores = PairScores.allocate(len(finder.base_models_), len(pairs.users))
    fitted = finder.reference_clicks_.matrix
    popularity = np.bincount(fitted.indices, minlength=fitted.shape[1])
    scores.popularity[:] = popularity[pairs.items] * (1 - 1 / finder.n_folds_)
    return scores


def _predict(finder: NoiseFinder, features: PairFeatures, percentile_rank: NDArray[np.float32]) -> LaterScores:
    probability = finder.posterior_.predict(features)
    if not np.isfinite(probability).all():
        raise InputError("the base models' scores must be finite, but are not; fit with less extreme parameters")
    return LaterScores(probability, finder.posterior_.basis_codes(features), percentile_rank)

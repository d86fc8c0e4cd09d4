"""The cinema: a synthetic film club in which the origin of every click is known.

Users like one to five genres. Films have one or two genres, and a popularity with a long tail. A click has one of
three origins: taste (a film of a genre that the user likes), exploration (a film of a genre related to one that the
user likes), or mistake (a film whose genres are neither liked nor related to a liked one). The few users whose tastes
are related to every genre make mistakes on films of any genre that they do not like.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.checks import check_float, check_int
from prorec._core.errors import InputError
from prorec._core.parallel import N_CORES, map_in_order
from prorec._core.random import seed_sequence
from prorec.data.click_quotas import ClickQuota, allocate_clicks, sample_activity
from prorec.data.films import GENRES, RELATED, FilmCatalog, GenreBits, make_films, pack_genres
from prorec.interactions import Interactions

ORIGINS = ("taste", "exploration", "mistake")
"""Meaning of the numbers in the column `origin`."""
TASTE, EXPLORATION, MISTAKE = range(3)

_MAX = 10_000_000
_BLOCK = 16_384  # users made at a time; part of what a seed means
_REDRAWS = 12
_MAX_REDRAWS = 500  # if every click must find a film
_EPOCH = 1_577_836_800  # 2020-01-01
_DAY = 86_400


@dataclass(frozen=True, eq=False)
class Cinema:
    """A film club, and the truth about it."""

    interactions: Interactions
    """The clicks, with columns `timestamp` and `origin` (see `ORIGINS`), film titles and genres."""
    tastes: NDArray[np.float32]
    """Users × `GENRES`: how much each user likes each genre; rows sum to 1."""

    @property
    def is_mistake(self) -> NDArray[np.bool_]:
        """Whether each interaction is a mistake."""
        return np.asarray(self.interactions.columns["origin"] == MISTAKE)


def make_cinema(
    n_users: int = 1_000,
    n_items: int = 800,
    *,
    mistake_rate: float = 0.1,
    exploration_rate: float = 0.15,
    n_clicks: int | None = None,
    seed: int = 0,
) -> Cinema:
    """Make a synthetic film club of any size.

    Parameters
    ----------
    n_users, n_items : int, default 1000 and 800
        Number of users and of films.
    mistake_rate, exploration_rate : float, default 0.1 and 0.15
        Expected share of clicks that are mistakes, and that are exploration.
    n_clicks : int, optional
        Exact number of clicks, with exact shares of mistakes and exploration, and with every film clicked at least
        once. By default users have about as many clicks as in MovieLens, and some films have none.
    seed : int, default 0
        The same seed and sizes give the same club.

    Returns
    -------
    Cinema

    Raises
    ------
    InputError
        If the rates sum to more than 1, or `n_clicks` does not suit the numbers of users and films.

    Notes
    -----
    Clicks are made for some thousand users at a time on all cores, so that memory is about twice that of the result.
    The number of cores does not change the result.

    Examples
    --------
    >>> make_cinema(200, 300, seed=1).interactions
    Interactions(200 users × 300 items, ... interactions, with timestamp and origin)
    """
    n_users, n_items = check_int("n_users", n_users, 1, _MAX), check_int("n_items", n_items, 3 * len(GENRES), _MAX)
    rates = check_float("mistake_rate", mistake_rate, 0, 1), check_float("exploration_rate", exploration_rate, 0, 1)
    if sum(rates) > 1:
        raise InputError(f"mistake_rate and exploration_rate must sum to at most 1; got {rates[0]} and {rates[1]}")
    film_seed, user_seed, quota_seed = seed_sequence(seed).spawn(3)
    starts = range(0, n_users, _BLOCK)
    quotas: list[ClickQuota] | list[None] = [None] * len(starts)
    if n_clicks is not None:
        quotas = allocate_clicks(n_clicks, rates, (n_users, n_items), _BLOCK, np.random.default_rng(quota_seed))
    films = make_films(n_items, np.random.default_rng(film_seed))
    block_seeds = user_seed.spawn(len(starts))

    def make_block(index: int) -> _Block:
        size = min(_BLOCK, n_users - starts[index])
        return _make_block(size, films, rates, np.random.default_rng(block_seeds[index]), quotas[index])

    blocks = map_in_order(make_block, len(starts), N_CORES)
    activity, items, origin, timestamp, tastes = (np.concatenate(column) for column in zip(*blocks, strict=True))
    indptr = np.zeros(n_users + 1, dtype=np.int32 if len(items) < 2**31 else np.int64)
    np.cumsum(activity, out=indptr[1:])
    interactions = Interactions(
        csr_array((np.ones(len(items), dtype=np.float32), items, indptr), shape=(n_users, n_items)),
        np.arange(1, n_users + 1),
        np.arange(1, n_items + 1),
        {"timestamp": timestamp, "origin": origin},
        films.titles,
        tuple(tuple(GENRES[genre] for genre in np.flatnonzero(row)) for row in films.has_genre),
    )
    return Cinema(interactions, tastes)


_Block = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int8], NDArray[np.int64], NDArray[np.float32]]
"""Activity of each user; film, origin and time of each click, in the order of users and films; tastes."""


def _make_block(
    n_users: int,
    films: FilmCatalog,
    rates: tuple[float, float],
    rng: np.random.Generator,
    quota: ClickQuota | None = None,
) -> _Block:
    """Make some users and their clicks: about as many as usual, or exactly those of a quota."""
    n_items = len(films.titles)
    intended = sample_activity(n_users, n_items, rng) if quota is None else quota.activity
    tastes = _make_tastes(intended, rng)
    probabilities = _genre_probabilities(tastes)
    cumulative = probabilities.cumsum(axis=2)
    rules = _GenreRules.from_probabilities(films.genres, probabilities)
    user = np.repeat(np.arange(n_users), intended)
    placed = _PlacedClicks(n_users, n_items)
    if quota is None:
        origin = rng.choice(3, size=len(user), p=[1 - sum(rates), rates[1], rates[0]]).astype(np.int8)
    else:
        origin = rng.permutation(np.repeat(np.arange(3, dtype=np.int8), quota.origins))
        first_clicks = _assign_premieres(quota.premieres, user, origin, rules, rng)
        placed.add(user[first_clicks] * n_items + quota.premieres, origin[first_clicks])
        user, origin = np.delete(user, first_clicks), np.delete(origin, first_clicks)

    for draw in range(_REDRAWS if quota is None else _MAX_REDRAWS):
        if not len(user):
            break
        if draw >= _REDRAWS:
            user = placed.reassign_users(user, rng)
        film = films.draw(_draw_genres(cumulative, origin, user, rng), rng)
        pairs = user * n_items + film
        is_valid = rules.allow(user, film, origin) & placed.are_new(pairs)
        placed.add(pairs[is_valid], origin[is_valid])
        user, origin = user[~is_valid], origin[~is_valid]
    if quota is not None and len(user):
        raise InputError(
            f"n_clicks must be fewer: of {intended.sum():,} clicks of {n_users:,} users on {n_items:,} films, "
            f"{len(user):,} found no film that was new to somebody"
        )

    order = _trim_origins(placed.origin, rates, rng) if quota is None else np.arange(len(placed.pairs))
    order = order[np.argsort(placed.pairs[order])]
    user, film = np.divmod(placed.pairs[order], n_items)
    joined = _EPOCH + rng.integers(0, 700 * _DAY, size=n_users)
    timestamp = joined[user] + (rng.exponential(90 * _DAY, size=len(user))).astype(np.int64)
    activity = np.bincount(user, minlength=n_users)
    return activity, film.astype(np.int32), placed.origin[order], timestamp, tastes


@dataclass(frozen=True)
class _GenreRules:
    """The films that each user may click on, by origin."""

    genres: GenreBits
    """Genres of each film."""
    required: GenreBits
    """Origins × users: the film must have one of these genres."""
    excluded: GenreBits
    """Origins × users: the film must have none of these genres."""

    @classmethod
    def from_probabilities(cls, genres: GenreBits, probabilities: NDArray[np.float64]) -> _GenreRules:
        """Make rules by which a film of a liked genre is never exploration or a mistake, whatever its other genre."""
        required = pack_genres(probabilities > 0)
        excluded = np.stack([np.zeros_like(required[TASTE]), required[TASTE], ~required[MISTAKE]])
        return cls(genres, required, excluded)

    def allow(self, user: NDArray[np.int64], film: NDArray[np.int32], origin: NDArray[np.int8]) -> NDArray[np.bool_]:
        """Return whether each user may click on each film for each origin."""
        genres = self.genres[film]
        allowed = ((genres & self.required[origin, user]) != 0) & ((genres & self.excluded[origin, user]) == 0)
        return np.asarray(allowed)


class _PlacedClicks:
    """Clicks made so far, as pairs user · n_items + film, in the order in which they were made."""

    def __init__(self, n_users: int, n_items: int) -> None:
        self._shape = n_users, n_items
        self.pairs = np.empty(0, dtype=np.int64)
        self.origin = np.empty(0, dtype=np.int8)
        self._sorted = self.pairs

    def are_new(self, pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which pairs were not added yet; only the first of equal ones is new."""
        is_new = np.zeros(len(pairs), dtype=bool)
        is_new[np.unique(pairs, return_index=True)[1]] = True
        if len(self._sorted):
            nearest = np.minimum(np.searchsorted(self._sorted, pairs), len(self._sorted) - 1)
            is_new &= self._sorted[nearest] != pairs
        return is_new

    def add(self, pairs: NDArray[np.int64], origin: NDArray[np.int8]) -> None:
        """Add new clicks."""
        self.pairs, self.origin = np.concatenate([self.pairs, pairs]), np.concatenate([self.origin, origin])
        added = np.sort(pairs)
        self._sorted = np.insert(self._sorted, np.searchsorted(self._sorted, added), added)

    def reassign_users(self, user: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return another user for each click, in proportion to activity; a user without clicks keeps theirs."""
        n_users, n_items = self._shape
        placed_user = self.pairs // n_items
        has_clicks = (np.bincount(placed_user, minlength=n_users) > 0)[user]
        return np.where(has_clicks, placed_user[rng.integers(len(placed_user), size=len(user))], user)


def _assign_premieres(
    films: NDArray[np.int32],
    user: NDArray[np.int64],
    origin: NDArray[np.int8],
    rules: _GenreRules,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Return one click for each film that must have one, among those whose user and origin suit the film."""
    click = np.full(len(films), -1)
    is_free = np.ones(len(user), dtype=bool)
    waiting = np.arange(len(films))
    for _ in range(_MAX_REDRAWS):
        if not len(waiting):
            return click
        candidate = rng.integers(len(user), size=len(waiting))
        is_valid = is_free[candidate] & rules.allow(user[candidate], films[waiting], origin[candidate])
        is_valid[np.setdiff1d(np.arange(len(candidate)), np.unique(candidate, return_index=True)[1])] = False
        click[waiting[is_valid]] = candidate[is_valid]
        is_free[candidate[is_valid]] = False
        waiting = waiting[~is_valid]
    raise InputError(
        f"n_clicks must be larger, or n_items smaller: of {len(films):,} films and {len(user):,} clicks, "
        f"{len(waiting):,} films found nobody to click on them"
    )


def _trim_origins(origin: NDArray[np.int8], rates: tuple[float, float], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the clicks to keep, so that mistakes and exploration have their shares.

    Taste has fewer clicks than intended, because some users have seen all films that they like.
    """
    taste = np.flatnonzero(origin == TASTE)
    kept = [taste]
    for code, rate in ((EXPLORATION, rates[1]), (MISTAKE, rates[0])):
        clicks = np.flatnonzero(origin == code)
        count = len(clicks) if sum(rates) == 1 else round(len(taste) * rate / (1 - sum(rates)))
        kept.append(rng.permutation(clicks)[:count])
    return np.concatenate(kept)


def _make_tastes(activity: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw one to five genres for each user, more for active users, with unequal weights."""
    n_users, n_genres = len(activity), len(GENRES)
    count = np.clip(1 + rng.poisson(0.35 + activity / 70), 1, 5)
    rank = np.argsort(rng.random((n_users, n_genres)), axis=1).argsort(axis=1)
    liking = np.where(rank < count[:, None], rng.gamma(2.0, size=(n_users, n_genres)) + 0.1, 0)
    return np.asarray(liking / liking.sum(axis=1, keepdims=True), dtype=np.float32)


def _genre_probabilities(tastes: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the probability of each genre, origins × users × genres."""
    is_related = np.array([[other in RELATED[genre] for other in GENRES] for genre in GENRES], dtype=np.float64)
    likes = tastes > 0
    related = np.where(likes, 0, tastes @ is_related)
    unrelated = np.where(likes | (related > 0), 0, 1.0)
    # A user without a related genre, or without an unrelated one, takes any genre that is not liked.
    related, unrelated = (np.where(each.any(axis=1, keepdims=True), each, ~likes) for each in (related, unrelated))
    weights = np.stack([tastes.astype(np.float64), related, unrelated])
    return np.asarray(weights / weights.sum(axis=2, keepdims=True))


def _draw_genres(
    cumulative: NDArray[np.float64], origin: NDArray[np.int8], user: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw a genre for each click, by its origin and user."""
    uniform = rng.random(len(user))
    genre = np.zeros(len(user), dtype=np.int64)
    for index in range(cumulative.shape[2] - 1):
        genre += uniform >= cumulative[origin, user, index]
    return genre

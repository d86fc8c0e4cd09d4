"""The cinema: a film club that was made up, so that the truth about every click is known.

Users have one to a few tastes over genres; films have one or two genres and a popularity with a long tail. A
click is one of three things: taste (a film of a genre the user likes), exploration (a real interest in a film of
a related genre), or a mistake (a film of genres that are neither liked nor related to any that is; for the few whose
tastes are related to every genre, any that they don't like).
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
"""What the numbers in the column `origin` mean."""
TASTE, EXPLORATION, MISTAKE = range(3)

_BLOCK = 16_384  # users made at a time; part of what a seed means
_REDRAWS = 12
_MOST_REDRAWS = 500  # where every click must find its place
_EPOCH = 1_577_836_800  # 2020-01-01
_DAY = 86_400


@dataclass(frozen=True, eq=False)
class Cinema:
    """The film club and what is true of it."""

    interactions: Interactions
    """The clicks, with columns `timestamp` and `origin` (see `ORIGINS`), film titles and genres."""
    tastes: NDArray[np.float32]
    """How much each user likes each genre, users × `GENRES`; rows sum to 1."""

    @property
    def is_mistake(self) -> NDArray[np.bool_]:
        """For each interaction: was it a mistake?"""
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
    """Make a film club of any size.

    Parameters
    ----------
    n_users, n_items : how many users and films
    mistake_rate, exploration_rate : the expected share of clicks that are mistakes, and that are exploration
    n_clicks : how many clicks in all, exactly, with exact shares of mistakes and exploration, and every film clicked at
        least once; by default, about as many for each user as in MovieLens, and no click on some films
    seed : the same seed and sizes give the same club

    Notes
    -----
    Clicks are made for some thousand users at a time, on all cores, and then put together: memory is about twice that
    of the result. How many cores there are makes no difference to it.

    >>> club = make_cinema(200, 300, seed=1)
    >>> club.interactions
    Interactions(200 users × 300 items, ... interactions, with timestamp and origin)
    """
    n_users, n_items = check_int("n_users", n_users, 1), check_int("n_items", n_items, 3 * len(GENRES))
    mistake_rate = check_float("mistake_rate", mistake_rate, 0, 1)
    exploration_rate = check_float("exploration_rate", exploration_rate, 0, 1)
    if mistake_rate + exploration_rate > 1:
        raise InputError(
            f"mistake_rate and exploration_rate must sum to at most 1; got {mistake_rate} and {exploration_rate}"
        )
    for_films, for_users, for_quotas = seed_sequence(seed).spawn(3)
    begins = range(0, n_users, _BLOCK)
    shares = (mistake_rate, exploration_rate)
    due: list[ClickQuota] | list[None] = [None] * len(begins)
    if n_clicks is not None:
        due = allocate_clicks(n_clicks, shares, (n_users, n_items), _BLOCK, np.random.default_rng(for_quotas))
    films = make_films(n_items, np.random.default_rng(for_films))
    children = for_users.spawn(len(begins))

    def work(place: int) -> _Block:
        size = min(_BLOCK, n_users - begins[place])
        return _make_block(size, films, shares, np.random.default_rng(children[place]), due[place])

    blocks = map_in_order(work, len(begins), N_CORES)
    activity, items, origin, timestamp, tastes = (np.concatenate(column) for column in zip(*blocks, strict=True))
    indptr = np.zeros(n_users + 1, dtype=np.int32 if len(items) < 2**31 else np.int64)
    np.cumsum(activity, out=indptr[1:])
    matrix = csr_array((np.ones(len(items), dtype=np.float32), items, indptr), shape=(n_users, n_items))
    interactions = Interactions(
        matrix,
        np.arange(1, n_users + 1),
        np.arange(1, n_items + 1),
        {"timestamp": timestamp, "origin": origin},
        films.titles,
        tuple(tuple(GENRES[genre] for genre in np.flatnonzero(row)) for row in films.has_genre),
    )
    return Cinema(interactions, tastes)


_Block = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int8], NDArray[np.int64], NDArray[np.float32]]
"""Activity of each user; film, origin and time of each click, by user and film; tastes."""


def _make_block(
    n_users: int,
    films: FilmCatalog,
    shares: tuple[float, float],
    rng: np.random.Generator,
    quota: ClickQuota | None = None,
) -> _Block:
    """Some users and their clicks: about as many as usual, or exactly those of the quota."""
    n_items = len(films.titles)
    wanted = sample_activity(n_users, n_items, rng) if quota is None else quota.activity
    tastes = _make_tastes(wanted, rng)
    chances = _genres_by_origin(tastes)
    up_to = chances.cumsum(axis=2)
    rules = _Rules.of(films.genres, chances)
    user = np.repeat(np.arange(n_users), wanted)
    made = _Made(n_users, n_items)
    if quota is None:
        origin = rng.choice(3, size=len(user), p=[1 - sum(shares), shares[1], shares[0]]).astype(np.int8)
    else:
        origin = rng.permutation(np.repeat(np.arange(3, dtype=np.int8), quota.origins))
        at = _premieres(quota.premieres, user, origin, rules, rng)
        made.keep(user[at] * n_items + quota.premieres, origin[at])
        user, origin = np.delete(user, at), np.delete(origin, at)

    for draws in range(_REDRAWS if quota is None else _MOST_REDRAWS):
        if not len(user):
            break
        if draws >= _REDRAWS:
            user = made.left_to_others(user, rng)
        film = films.draw(_draw_genres(up_to, origin, user, rng), rng)
        pairs = user * n_items + film
        good = rules.fit(user, film, origin) & made.has_not(pairs)
        made.keep(pairs[good], origin[good])
        user, origin = user[~good], origin[~good]
    if quota is not None and len(user):
        raise InputError(
            f"n_clicks must be fewer: of {wanted.sum():,} clicks of {n_users:,} users on {n_items:,} films, "
            f"{len(user):,} found no film that was new to somebody"
        )

    order = _in_proportion(made.origin, shares, rng) if quota is None else np.arange(len(made.pairs))
    order = order[np.argsort(made.pairs[order])]
    user, film = np.divmod(made.pairs[order], n_items)
    joined = _EPOCH + rng.integers(0, 700 * _DAY, size=n_users)
    timestamp = joined[user] + (rng.exponential(90 * _DAY, size=len(user))).astype(np.int64)
    activity = np.bincount(user, minlength=n_users)
    return activity, film.astype(np.int32), made.origin[order], timestamp, tastes


@dataclass(frozen=True)
class _Rules:
    """What films a user may click for what reason."""

    genres: GenreBits
    """Of each film."""
    needed: GenreBits
    """Origins × users: a film must have one of these genres."""
    barred: GenreBits
    """Origins × users: and none of these."""

    @classmethod
    def of(cls, genres: GenreBits, chances: NDArray[np.float64]) -> _Rules:
        """A film that touches the user's tastes is no exploration and no mistake, whatever its other genre."""
        needed = pack_genres(chances > 0)
        barred = np.stack([np.zeros_like(needed[TASTE]), needed[TASTE], ~needed[MISTAKE]])
        return cls(genres, needed, barred)

    def fit(self, user: NDArray[np.int64], film: NDArray[np.int32], origin: NDArray[np.int8]) -> NDArray[np.bool_]:
        """Whether each user may click each film for that reason."""
        genres = self.genres[film]
        fits = ((genres & self.needed[origin, user]) != 0) & ((genres & self.barred[origin, user]) == 0)
        return np.asarray(fits)


class _Made:
    """The clicks made so far: pairs, as user · films + film, in the order they were made."""

    def __init__(self, n_users: int, n_items: int) -> None:
        self._shape = n_users, n_items
        self.pairs = np.empty(0, dtype=np.int64)
        self.origin = np.empty(0, dtype=np.int8)
        self._sorted = self.pairs

    def has_not(self, pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which pairs are new; of those that occur twice, the first."""
        is_new = np.zeros(len(pairs), dtype=bool)
        is_new[np.unique(pairs, return_index=True)[1]] = True
        if len(self._sorted):
            at = np.minimum(np.searchsorted(self._sorted, pairs), len(self._sorted) - 1)
            is_new &= self._sorted[at] != pairs
        return is_new

    def keep(self, pairs: NDArray[np.int64], origin: NDArray[np.int8]) -> None:
        """More clicks, none of them there already."""
        self.pairs, self.origin = np.concatenate([self.pairs, pairs]), np.concatenate([self.origin, origin])
        added = np.sort(pairs)
        self._sorted = np.insert(self._sorted, np.searchsorted(self._sorted, added), added)

    def left_to_others(self, user: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Somebody else for each click, the active more often; but nobody gives their only one away."""
        n_users, n_items = self._shape
        of = self.pairs // n_items
        gives = (np.bincount(of, minlength=n_users) > 0)[user]
        return np.where(gives, of[rng.integers(len(of), size=len(user))], user)


def _premieres(
    films: NDArray[np.int32],
    user: NDArray[np.int64],
    origin: NDArray[np.int8],
    rules: _Rules,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """A click for each of these films, one of those meant for a user and an origin that it goes with.

    Drawn by appeal alone, the least appealing would have none.
    """
    place = np.full(len(films), -1)
    is_free = np.ones(len(user), dtype=bool)
    waiting = np.arange(len(films))
    for _ in range(_MOST_REDRAWS):
        if not len(waiting):
            return place
        at = rng.integers(len(user), size=len(waiting))
        good = is_free[at] & rules.fit(user[at], films[waiting], origin[at])
        good[np.setdiff1d(np.arange(len(at)), np.unique(at, return_index=True)[1])] = False
        place[waiting[good]] = at[good]
        is_free[at[good]] = False
        waiting = waiting[~good]
    raise InputError(
        f"n_clicks must be more, or films fewer: of {len(films):,} films and {len(user):,} clicks, "
        f"{len(waiting):,} films found nobody to click them"
    )


def _in_proportion(
    origin: NDArray[np.int8], shares: tuple[float, float], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Which clicks stay, so that mistakes and exploration have their shares although taste clicks ran short.

    Users who had seen all they like got fewer of those than they were meant to.
    """
    taste = np.flatnonzero(origin == TASTE)
    stay = [taste]
    for code, share in ((EXPLORATION, shares[1]), (MISTAKE, shares[0])):
        clicks = np.flatnonzero(origin == code)
        wanted = len(clicks) if sum(shares) == 1 else round(len(taste) * share / (1 - sum(shares)))
        stay.append(rng.permutation(clicks)[:wanted])
    return np.concatenate(stay)


def _make_tastes(activity: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float32]:
    """One to five genres for each user, more for those who watch more, in unequal shares."""
    n_users, n_genres = len(activity), len(GENRES)
    count = np.clip(1 + rng.poisson(0.35 + activity / 70), 1, 5)
    rank = np.argsort(rng.random((n_users, n_genres)), axis=1).argsort(axis=1)
    liking = np.where(rank < count[:, None], rng.gamma(2.0, size=(n_users, n_genres)) + 0.1, 0)
    return np.asarray(liking / liking.sum(axis=1, keepdims=True), dtype=np.float32)


def _genres_by_origin(tastes: NDArray[np.float32]) -> NDArray[np.float64]:
    """Chances of the genres for each origin and user: origins × users × genres."""
    near = np.array([[other in RELATED[genre] for other in GENRES] for genre in GENRES], dtype=np.float64)
    likes = tastes > 0
    exploring = np.where(likes, 0, tastes @ near)
    strange = np.where(likes | (exploring > 0), 0, 1.0)
    # Whose tastes leave no related genre, or no unrelated one, takes any other for it.
    exploring, strange = (np.where(c.any(axis=1, keepdims=True), c, ~likes) for c in (exploring, strange))
    chances = np.stack([tastes.astype(np.float64), exploring, strange])
    return np.asarray(chances / chances.sum(axis=2, keepdims=True))


def _draw_genres(
    up_to: NDArray[np.float64],
    origin: NDArray[np.int8],
    user: NDArray[np.int64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """A genre for each click, by its origin and its user's chances."""
    at = rng.random(len(user))
    genre = np.zeros(len(user), dtype=np.int64)
    for place in range(up_to.shape[2] - 1):
        genre += at >= up_to[origin, user, place]
    return genre

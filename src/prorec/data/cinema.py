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

from prorec._random import seeded
from prorec.data._titles import GENRES, RELATED, make_titles
from prorec.errors import InputError, number, whole
from prorec.interactions import Interactions

ORIGINS = ("taste", "exploration", "mistake")
"""What the numbers in the column `origin` mean."""
TASTE, EXPLORATION, MISTAKE = range(3)

_BLOCK = 16_384  # users made at a time; part of what a seed means
_REDRAWS = 12
_EPOCH = 1_577_836_800  # 2020-01-01
_DAY = 86_400

# Shape of the marginals, chosen to look like MovieLens-100k's (docs/figures/cinema_curves.png).
_LOG_ACTIVITY = (3.70, 0.93)
_LEAST_ACTIVITY = 5
_APPEAL_SPREAD = 2.0


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
    mistakes: float = 0.1,
    exploration: float = 0.15,
    seed: int = 0,
) -> Cinema:
    """Make a film club of any size.

    Parameters
    ----------
    n_users, n_items : how many users and films
    mistakes, exploration : the expected share of clicks that are mistakes, and that are exploration
    seed : the same seed and sizes give the same club

    Notes
    -----
    Clicks are made for some thousand users at a time and then put together: memory is about twice that of the result.

    >>> club = make_cinema(200, 300, seed=1)
    >>> club.interactions
    Interactions(200 users × 300 items, ... interactions, with timestamp and origin)
    """
    n_users, n_items = whole("n_users", n_users, 1), whole("n_items", n_items, 3 * len(GENRES))
    mistakes, exploration = number("mistakes", mistakes, 0, 1), number("exploration", exploration, 0, 1)
    if mistakes + exploration > 1:
        raise InputError(
            f"mistakes and exploration must be shares that sum to at most 1, got {mistakes} and {exploration}"
        )
    for_films, for_users = seeded(seed).spawn(2)
    films = _make_films(n_items, np.random.default_rng(for_films))
    begins = range(0, n_users, _BLOCK)
    blocks = [
        _make_block(min(_BLOCK, n_users - begin), films, (mistakes, exploration), np.random.default_rng(child))
        for begin, child in zip(begins, for_users.spawn(len(begins)), strict=True)
    ]
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


@dataclass(frozen=True)
class _Films:
    titles: NDArray[np.object_]
    has_genre: NDArray[np.bool_]
    """Films × genres."""
    by_genre: NDArray[np.int32]
    """Films, genre after genre; a film of two genres stands in both."""
    chance_up_to: NDArray[np.float64]
    """For each place in `by_genre`: its genre's number plus the share of appeal of the genre's films up to there."""

    def draw(self, genre: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int32]:
        """A film of each given genre, in proportion to appeal."""
        places = np.searchsorted(self.chance_up_to, genre + rng.random(len(genre)), side="right")
        return self.by_genre[places]


def _make_films(n_items: int, rng: np.random.Generator) -> _Films:
    n_genres = len(GENRES)
    share = rng.dirichlet(np.full(n_genres, 6.0))
    main = rng.choice(n_genres, size=n_items, p=share)
    main[: 2 * n_genres] = np.repeat(np.arange(n_genres), 2)  # no genre is empty
    has_genre = np.zeros((n_items, n_genres), dtype=bool)
    has_genre[np.arange(n_items), main] = True
    for second in np.flatnonzero(rng.random(n_items) < 0.4):
        related = RELATED[GENRES[main[second]]]
        has_genre[second, GENRES.index(related[rng.integers(len(related))])] = True
    appeal = rng.lognormal(sigma=_APPEAL_SPREAD, size=n_items)

    genre, film = np.nonzero(has_genre.T)
    chance = appeal[film]
    total = np.bincount(genre, weights=chance, minlength=n_genres)
    first = np.searchsorted(genre, np.arange(n_genres))
    running = np.cumsum(chance)
    before = (running - chance)[first]
    up_to = genre + (running - before[genre]) / total[genre]
    # The last film of a genre ends exactly where the next genre begins, whatever rounding did.
    up_to[np.append(first[1:], len(genre)) - 1] = np.arange(1, n_genres + 1)
    return _Films(np.array(make_titles(main, rng), dtype=object), has_genre, film.astype(np.int32), up_to)


def _make_block(
    n_users: int, films: _Films, shares: tuple[float, float], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int8], NDArray[np.int64], NDArray[np.float32]]:
    """Activity of each user; film, origin and time of each click, by user and film; tastes."""
    n_items = len(films.titles)
    wanted = np.exp(rng.normal(*_LOG_ACTIVITY, size=n_users))
    wanted = np.clip(wanted, _LEAST_ACTIVITY, max(_LEAST_ACTIVITY, n_items * 0.4)).astype(np.int64)
    tastes = _make_tastes(wanted, rng)
    of_origin = _genres_by_origin(tastes)
    up_to = of_origin.cumsum(axis=2)
    origin = rng.choice(3, size=wanted.sum(), p=[1 - sum(shares), shares[1], shares[0]]).astype(np.int8)
    user = np.repeat(np.arange(n_users), wanted)

    kept = np.empty((0,), dtype=np.int64)
    kept_origin = np.empty((0,), dtype=np.int8)
    for _ in range(_REDRAWS):
        if not len(user):
            break
        film = films.draw(_draw_genres(up_to, origin, user, rng), rng)
        # A film that touches the user's tastes is no exploration and no mistake, whatever its other genre.
        genres = films.has_genre[film]
        liked = (genres & (tastes[user] > 0)).any(axis=1)
        strange = ~(genres & (of_origin[MISTAKE, user] == 0)).any(axis=1)
        fits = np.where(origin == MISTAKE, strange, liked == (origin == TASTE))
        pairs = np.concatenate([kept, user * n_items + film])
        is_new = np.zeros(len(pairs), dtype=bool)
        is_new[np.unique(pairs, return_index=True)[1]] = True
        good = fits & is_new[len(kept) :]
        kept = np.concatenate([kept, pairs[len(kept) :][good]])
        kept_origin = np.concatenate([kept_origin, origin[good]])
        user, origin = user[~good], origin[~good]

    order = _in_proportion(kept_origin, shares, rng)
    order = order[np.argsort(kept[order])]
    user, film = np.divmod(kept[order], n_items)
    joined = _EPOCH + rng.integers(0, 700 * _DAY, size=n_users)
    timestamp = joined[user] + (rng.exponential(90 * _DAY, size=len(user))).astype(np.int64)
    activity = np.bincount(user, minlength=n_users)
    return activity, film.astype(np.int32), kept_origin[order], timestamp, tastes


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

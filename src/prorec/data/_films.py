"""The films of the cinema: titles, genres, and a popularity with a long tail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prorec.data._titles import GENRES, RELATED, make_titles

_APPEAL_SPREAD = 2.0  # makes popularity look like MovieLens-100k's (docs/figures/cinema_curves.png)

Bits = NDArray[np.int32]
"""Sets of genres, a bit for each."""


@dataclass(frozen=True)
class Films:
    """The films: what they are called, of what genres they are, and how likely each is to be clicked."""

    titles: NDArray[np.object_]
    """Distinct ones."""
    has_genre: NDArray[np.bool_]
    """Films × genres."""
    genres: Bits
    """The same, as bits."""
    by_genre: NDArray[np.int32]
    """Films, genre after genre; a film of two genres stands in both."""
    chance_up_to: NDArray[np.float64]
    """For each place in `by_genre`: its genre's number plus the share of appeal of the genre's films up to there."""

    def draw(self, genre: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int32]:
        """A film of each given genre, in proportion to appeal."""
        places = np.searchsorted(self.chance_up_to, genre + rng.random(len(genre)), side="right")
        return self.by_genre[places]


def make_films(n_items: int, rng: np.random.Generator) -> Films:
    """Films of one or two genres, with a popularity that has a long tail."""
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
    titles = np.array(make_titles(main, rng), dtype=object)
    return Films(titles, has_genre, bits(has_genre), film.astype(np.int32), up_to)


def bits(has: NDArray[np.bool_]) -> Bits:
    """A number for each row of the last axis, a bit for each entry."""
    return np.asarray(has @ (1 << np.arange(has.shape[-1])), dtype=np.int32)

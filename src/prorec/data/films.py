"""The films of the cinema: genres, titles, and an appeal with a long tail. Their words are in `films.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_WORDS = tomllib.loads(Path(__file__).with_name("films.toml").read_text(encoding="utf-8"))
_ADJECTIVES = _WORDS["adjectives"].split()
_NOUNS = [genre["nouns"].split() for genre in _WORDS["genres"].values()]
_APPEAL_SPREAD = 2.0  # makes popularity look like MovieLens-100k's (docs/figures/cinema_curves.png)

GENRES: tuple[str, ...] = tuple(_WORDS["genres"])
"""Names of the genres."""
RELATED: dict[str, tuple[str, ...]] = {name: tuple(genre["related"]) for name, genre in _WORDS["genres"].items()}
"""For each genre those whose audiences overlap with its own, where users explore."""

GenreBits = NDArray[np.int32]
"""Sets of genres, one bit for each genre."""


@dataclass(frozen=True)
class FilmCatalog:
    """Films with titles, genres, and probabilities of being clicked."""

    titles: NDArray[np.object_]
    """Titles, all distinct."""
    has_genre: NDArray[np.bool_]
    """Films × genres: whether a film has a genre."""
    genres: GenreBits
    """The genres of each film, as bits."""
    by_genre: NDArray[np.int32]
    """Films in the order of genres; a film with two genres occurs in both."""
    cumulative: NDArray[np.float64]
    """For each position in `by_genre`: the number of its genre plus the share of appeal of its films up to there."""

    def draw(self, genre: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int32]:
        """Draw a film for each given genre, in proportion to appeal.

        Parameters
        ----------
        genre : ndarray of int64
            Positions in `GENRES`.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray of int32
            Positions of films.
        """
        return self.by_genre[np.searchsorted(self.cumulative, genre + rng.random(len(genre)), side="right")]


def make_films(n_items: int, rng: np.random.Generator) -> FilmCatalog:
    """Make films of one or two genres, with an appeal that has a long tail.

    Parameters
    ----------
    n_items : int
        Number of films, at least two for each genre.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    FilmCatalog
    """
    n_genres = len(GENRES)
    genre_rates = rng.dirichlet(np.full(n_genres, 6.0))
    main = rng.choice(n_genres, size=n_items, p=genre_rates)
    main[: 2 * n_genres] = np.repeat(np.arange(n_genres), 2)  # no genre is empty
    has_genre = np.zeros((n_items, n_genres), dtype=bool)
    has_genre[np.arange(n_items), main] = True
    for film in np.flatnonzero(rng.random(n_items) < 0.4):
        related = RELATED[GENRES[main[film]]]
        has_genre[film, GENRES.index(related[rng.integers(len(related))])] = True
    appeal = rng.lognormal(sigma=_APPEAL_SPREAD, size=n_items)
    by_genre, cumulative = _accumulate_appeal(has_genre, appeal)
    titles = np.array(_make_titles(main, rng), dtype=object)
    return FilmCatalog(titles, has_genre, pack_genres(has_genre), by_genre, cumulative)


def pack_genres(has_genre: NDArray[np.bool_]) -> GenreBits:
    """Pack sets of genres into bits.

    Parameters
    ----------
    has_genre : ndarray of bool
        Whether each genre, along the last axis, is in the set.

    Returns
    -------
    ndarray of int32
        One number for each set.
    """
    return np.asarray(has_genre @ (1 << np.arange(has_genre.shape[-1])), dtype=np.int32)


def _accumulate_appeal(
    has_genre: NDArray[np.bool_], appeal: NDArray[np.float64]
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return the fields `by_genre` and `cumulative` of a catalog."""
    n_genres = has_genre.shape[1]
    genre, film = np.nonzero(has_genre.T)
    film_appeal = appeal[film]
    total = np.bincount(genre, weights=film_appeal, minlength=n_genres)
    first = np.searchsorted(genre, np.arange(n_genres))
    running = np.cumsum(film_appeal)
    before = (running - film_appeal)[first]
    cumulative = genre + (running - before[genre]) / total[genre]
    # Rounding must not open a gap between the last film of a genre and the next genre.
    cumulative[np.append(first[1:], len(genre)) - 1] = np.arange(1, n_genres + 1)
    return film.astype(np.int32), cumulative


def _make_titles(genre: NDArray[np.int64], rng: np.random.Generator) -> list[str]:
    """Return a title for each film, of words that suit its genre; a repeated one becomes a sequel."""
    adjectives = rng.integers(len(_ADJECTIVES), size=len(genre))
    nouns = rng.integers(10, size=len(genre))
    years = 2024 - np.minimum(rng.exponential(18, size=len(genre)), 90).astype(int)
    latest: dict[str, tuple[int, int]] = {}
    titles = []
    for own_genre, adjective, noun, year in zip(genre, adjectives, nouns, years, strict=True):
        name = f"The {_ADJECTIVES[adjective]} {_NOUNS[own_genre][noun]}"
        n_before, last_year = latest.get(name, (0, 0))
        latest[name] = n_before + 1, max(int(year), last_year + 1)
        titles.append(f"{name}{f' {n_before + 1}' if n_before else ''} ({latest[name][1]})")
    return titles

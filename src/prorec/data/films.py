"""The films of the cinema: genres, titles, and an appeal with a long tail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_FIRST = (
    "Silent Crimson Hollow Golden Broken Distant Velvet Midnight Paper Borrowed Forgotten Electric Winter Burning "
    "Gentle Restless Hidden Last Second Iron Lucky Drowsy Northern Stolen Patient Crooked Amber Endless Quiet Wild"
).split()
_SECOND = {
    "Action": "Pursuit Strike Convoy Blade Runway Ambush Siege Bounty Redline Breakout",
    "Adventure": "Compass Island Caravan River Voyage Summit Map Lagoon Expedition Horizon",
    "Animation": "Balloon Fox Teapot Dragonfly Orchard Pencil Rocket Turnip Whale Lantern",
    "Comedy": "Wedding Landlord Picnic Mix-Up Cousin Ladder Parrot Interview Holiday Pudding",
    "Crime": "Alibi Ledger Witness Precinct Heist Verdict Informer Debt Vault Fingerprint",
    "Documentary": "Harvest Archive Glacier Workshop Election Reef Railway Kitchen Orchestra Census",
    "Drama": "Letter Daughter Harbour Inheritance Silence Garden Verandah Promise Neighbour Season",
    "Family": "Puppy Treehouse Puddle Snowman Bicycle Grandmother Circus Kite Pony Attic",
    "Horror": "Cellar Doll Whisper Lake Asylum Mirror Grave Fog Caretaker Hunger",
    "Musical": "Chorus Trumpet Ballroom Encore Melody Tambourine Overture Serenade Footlights Refrain",
    "Romance": "Kiss Platform Rendezvous Summer Bouquet Waltz Rain Café Proposal Sonata",
    "Sci-Fi": "Orbit Signal Android Colony Paradox Nebula Protocol Cryosleep Satellite Replica",
    "Thriller": "Passenger Shadow Countdown Key Stranger Deception Wire Cabin Motive Corridor",
    "Western": "Saddle Sheriff Canyon Outlaw Stagecoach Prairie Spur Saloon Dust Homestead",
}
GENRES = tuple(_SECOND)

# Genres whose audiences overlap: where people of one taste go exploring.
RELATED = {
    "Action": ("Adventure", "Thriller", "Sci-Fi", "Western"),
    "Adventure": ("Action", "Family", "Sci-Fi", "Western"),
    "Animation": ("Family", "Comedy", "Musical"),
    "Comedy": ("Romance", "Family", "Animation"),
    "Crime": ("Thriller", "Drama", "Action"),
    "Documentary": ("Drama", "Crime"),
    "Drama": ("Romance", "Crime", "Documentary"),
    "Family": ("Animation", "Adventure", "Comedy"),
    "Horror": ("Thriller", "Sci-Fi"),
    "Musical": ("Romance", "Animation", "Comedy"),
    "Romance": ("Drama", "Comedy", "Musical"),
    "Sci-Fi": ("Action", "Adventure", "Horror"),
    "Thriller": ("Crime", "Horror", "Action"),
    "Western": ("Action", "Adventure", "Drama"),
}

_APPEAL_SPREAD = 2.0  # makes popularity look like MovieLens-100k's (docs/figures/cinema_curves.png)

GenreBits = NDArray[np.int32]
"""Sets of genres, a bit for each."""


@dataclass(frozen=True)
class FilmCatalog:
    """The films: what they are called, of what genres they are, and how likely each is to be clicked."""

    titles: NDArray[np.object_]
    """Distinct ones."""
    has_genre: NDArray[np.bool_]
    """FilmCatalog × genres."""
    genres: GenreBits
    """The same, as bits."""
    by_genre: NDArray[np.int32]
    """FilmCatalog, genre after genre; a film of two genres stands in both."""
    chance_up_to: NDArray[np.float64]
    """For each place in `by_genre`: its genre's number plus the share of appeal of the genre's films up to there."""

    def draw(self, genre: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int32]:
        """A film of each given genre, in proportion to appeal."""
        places = np.searchsorted(self.chance_up_to, genre + rng.random(len(genre)), side="right")
        return self.by_genre[places]


def make_films(n_items: int, rng: np.random.Generator) -> FilmCatalog:
    """FilmCatalog of one or two genres, with a popularity that has a long tail."""
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
    titles = np.array(_make_titles(main, rng), dtype=object)
    return FilmCatalog(titles, has_genre, pack_genres(has_genre), film.astype(np.int32), up_to)


def pack_genres(has: NDArray[np.bool_]) -> GenreBits:
    """A number for each row of the last axis, a bit for each entry."""
    return np.asarray(has @ (1 << np.arange(has.shape[-1])), dtype=np.int32)


def _make_titles(genre: NDArray[np.int64], rng: np.random.Generator) -> list[str]:
    """A title for each film, of words that suit its genre; a repeated one becomes a sequel."""
    first = rng.integers(len(_FIRST), size=len(genre))
    second = rng.integers(10, size=len(genre))
    year = 2024 - np.minimum(rng.exponential(18, size=len(genre)), 90).astype(int)
    seconds = [words.split() for words in _SECOND.values()]
    latest: dict[str, tuple[int, int]] = {}
    titles = []
    for at, of, with_, in_ in zip(genre, first, second, year, strict=True):
        name = f"The {_FIRST[of]} {seconds[at][with_]}"
        made, last = latest.get(name, (0, 0))
        latest[name] = made + 1, max(int(in_), last + 1)
        titles.append(f"{name}{f' {made + 1}' if made else ''} ({latest[name][1]})")
    return titles

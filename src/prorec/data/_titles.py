"""Genres, which of them are related, and titles for films that were never made."""

from __future__ import annotations

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


def make_titles(genre: NDArray[np.int64], rng: np.random.Generator) -> list[str]:
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

"""Parsers of the known data sets: each makes interactions from a folder of published files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from prorec._core.errors import RowError
from prorec.data.formats import find_plain_or_gzipped, open_decompressed
from prorec.data.readers import open_table, read_interactions
from prorec.interactions import Interactions

YAHOO_FILE = "ydata-ymusic-user-artist-ratings-v1_0.txt"
"""The one file of Yahoo! R1."""
_NEVER_PLAY_AGAIN = 255
_RATING_COLUMNS = {"user": 0, "item": 1, "rating": 2}


def parse_movielens_100k(folder: Path) -> Interactions:
    """Parse MovieLens 100K.

    Parameters
    ----------
    folder : Path
        Has `u.data` (user, item, rating, time, between tabs), `u.item` (names and 0/1 flags of genres, latin-1) and
        `u.genre`.

    Returns
    -------
    Interactions
        With ratings, times, names and categories.
    """
    path = find_plain_or_gzipped(folder, "u.data")
    ratings = read_interactions(path, header=False, separator="\t", rating_col=2, timestamp_col=3, duplicates="error")
    genres = [line.split("|")[0] for line in _read_lines(folder, "u.genre")]
    names, categories = {}, {}
    for line in _read_lines(folder, "u.item"):
        item, name, _, _, _, *flags = line.split("|")
        names[int(item)] = name
        categories[int(item)] = [genre for genre, flag in zip(genres, flags, strict=True) if flag == "1"]
    return ratings.with_item_info(names, categories)


def parse_movielens_1m(folder: Path) -> Interactions:
    """Parse MovieLens 1M.

    Parameters
    ----------
    folder : Path
        Has `ratings.dat` and `movies.dat` (columns between `::`, genres between `|`, latin-1).

    Returns
    -------
    Interactions
        With ratings, times, names and categories.
    """
    # Between the two colons of a separator the reader sees an empty column.
    path = find_plain_or_gzipped(folder, "ratings.dat")
    ratings = read_interactions(
        path, header=False, separator=":", user_col=0, item_col=2, rating_col=4, timestamp_col=6, duplicates="error"
    )
    films = [line.split("::") for line in _read_lines(folder, "movies.dat")]
    names = {int(item): name for item, name, _ in films}
    return ratings.with_item_info(names, {int(item): genres.split("|") for item, _, genres in films})


def parse_amazon(folder: Path, name: str) -> Interactions:
    """Parse one of DeepCF's Amazon data sets, its two parts together.

    Parameters
    ----------
    folder : Path
        Has `NAME.train.rating` and `NAME.test.rating` (user, item, rating, between tabs).
    name : str
        NAME, such as "AMusic".

    Returns
    -------
    Interactions
        With ratings.
    """
    parts = []
    for part in ("train", "test"):
        path = find_plain_or_gzipped(folder, f"{name}.{part}.rating")
        with open_table(path, header=False, separator="\t") as file:
            parts.append(file.read(_RATING_COLUMNS, "auto"))
    columns = {role: pa.chunked_array(parts[0][role].chunks + parts[1][role].chunks) for role in parts[0]}
    return Interactions.from_columns(columns, "error")


def parse_gowalla(folder: Path) -> Interactions:
    """Parse Gowalla as the LightGCN papers publish it, its three parts together.

    Parameters
    ----------
    folder : Path
        Has `train.txt`, `valid.txt` and `test.txt` (one line for each user: `user item item …`).

    Returns
    -------
    Interactions
    """
    users, items = [], []
    for part in ("train", "valid", "test"):
        for line in _read_lines(folder, f"{part}.txt"):
            user, *visited = line.split()
            users.append(np.full(len(visited), int(user)))
            items.append(np.array(visited, dtype=np.int64))
    table = pa.table({"user": np.concatenate(users), "item": np.concatenate(items)})
    return Interactions.from_table(table, duplicates="error")


def parse_yahoo_r1(folder: Path) -> Interactions:
    """Parse Yahoo! Webscope's R1.

    Parameters
    ----------
    folder : Path
        Has the one file of R1 (user, artist, rating 0–100, between tabs, with repeated pairs).

    Returns
    -------
    Interactions
        With ratings. A rating of 255 means "never play again" and is read as 0, the lowest. Of a repeated pair the
        highest rating counts.
    """
    with open_table(find_plain_or_gzipped(folder, YAHOO_FILE), header=False, separator="\t") as file:
        columns = file.read(_RATING_COLUMNS, "auto")
        rating = columns["rating"]
        columns["rating"] = pc.if_else(pc.equal(rating, _NEVER_PLAY_AGAIN), pa.scalar(0, rating.type), rating)
        out_of_range = pc.or_(pc.less(columns["rating"], 0), pc.greater(columns["rating"], 100))
        if (row := pc.index(out_of_range, True).as_py()) >= 0:
            raise RowError(f"the rating {rating[row].as_py():g} is not one of 0–100 or 255", row)
        return Interactions.from_columns(columns, "max")


def _read_lines(folder: Path, name: str) -> list[str]:
    with open_decompressed(find_plain_or_gzipped(folder, name)) as file:
        return [line for line in file.read().decode("latin-1").split("\n") if line]

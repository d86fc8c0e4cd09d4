"""Usual names of columns: which of them is the user, the item, the weight, the rating and the time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

ROLES = ("user", "item", "weight", "rating", "timestamp")
"""Meanings that a column can have."""

_PEOPLE = (
    "user usr uid customer cust client account acct member subscriber shopper buyer reviewer person listener reader "
    "viewer player patron student learner"
)
_VISITS = "session visitor cookie device household guest"
_THINGS = (
    "item iid product prod article sku track song isbn asin movie film book show video game listing business venue "
    "poi restaurant hotel recipe course news stockcode goods ean upc gtin podcast episode anime beer"
)
_GROUPS = "artist album content document page url place location app"
_ID_ENDINGS = ("", "id", "no", "nr", "num", "number", "code", "key", "uuid", "guid", "hash")
_NAME_ENDINGS = ("name", "title", "email")
_OPINIONS = ("ratings", "stars", "score", "overall", "grade")
_MOMENTS = ("date", "time", "datetime", "timestamp", "ts")
_JOINED_MOMENTS = (
    "createdat",
    "orderedat",
    "clickedat",
    "viewedat",
    "orderdate",
    "invoicedate",
    "eventtime",
    "unixtime",
)
_NOT_THE_CLICK = frozenset(
    "birth release expiry expiration update updated modified end run play watch reading delivery ship shipping signup "
    "registration register join joined up total average avg".split()
)
"""Words of names of dates and times that are not those of the click."""


def find_named(names: Sequence[str], role: str) -> list[list[int]]:
    """Find the columns whose names suggest a role.

    Parameters
    ----------
    names : sequence of str
        Names of the table's columns. Case, spaces, hyphens and underscores do not matter.
    role : {"user", "item", "weight", "rating", "timestamp"}
        The role.

    Returns
    -------
    list of list of int
        Positions of the columns by how well their names fit, the best ones first. Columns in the same list fit equally
        well.

    Examples
    --------
    >>> find_named(["Session ID", "Customer", "SKU", "Customer Name"], "user")
    [[1], [0], [3]]
    """
    ranks = [_rank(name, role) for name in names]
    found = sorted({rank for rank in ranks if rank is not None})
    return [[at for at, rank in enumerate(ranks) if rank == each] for each in found]


def has_plain_name(name: str, role: str) -> bool:
    """Return whether a column is called like the role itself.

    Parameters
    ----------
    name : str
        Name of a column.
    role : {"user", "item", "weight", "rating", "timestamp"}
        The role.

    Returns
    -------
    bool

    Examples
    --------
    >>> has_plain_name("Timestamp", "timestamp"), has_plain_name("order_date", "timestamp")
    (True, False)
    """
    return _rank(name, role) == 0


def is_usual_name(name: str) -> bool:
    """Return whether a name suggests any role.

    Parameters
    ----------
    name : str
        Name of a column.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_usual_name("movieId"), is_usual_name("17")
    (True, False)
    """
    return any(_rank(name, role) is not None for role in ROLES)


def _rank(name: str, role: str) -> int | None:
    """Return how well a name fits a role, 0 best; None if not at all."""
    words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name.strip()).lower())
    joined = "".join(words)
    if role == "user":
        return _rank_ids(_PEOPLE, _VISITS).get(joined)
    if role == "item":
        return _rank_ids(_THINGS, _GROUPS).get(joined)
    if joined == role or (role, joined) == ("timestamp", "time"):
        return 0
    if role == "rating":
        is_opinion = joined in _OPINIONS or joined.endswith(("rating", "reviewscore"))
        return 1 if is_opinion and not {"avg", "average", "mean", "count"} & set(words) else None
    if role == "timestamp" and words and not _NOT_THE_CLICK & set(words):
        return 1 if words[-1] in _MOMENTS or joined in _JOINED_MOMENTS or words[1:] == ["at"] else None
    return None


@cache
def _rank_ids(usual: str, rare: str) -> dict[str, int]:
    """Return how well each name of a column of ids fits."""
    ranks: dict[str, int] = {}
    for rank, (nouns, endings) in enumerate(
        ((usual, _ID_ENDINGS), (rare, _ID_ENDINGS), (usual, _NAME_ENDINGS), (rare, _NAME_ENDINGS))
    ):
        for noun in nouns.split():
            for name in (f"id{noun}", *(noun + ending for ending in endings)):
                ranks.setdefault(name, rank)
    return ranks

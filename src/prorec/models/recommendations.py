"""The interface that every recommender has, and the ranked lists that recommenders return."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from prorec.interactions import Interactions
from prorec.interactions.ids import take_ids
from prorec.interactions.tables import FrameType, to_frame


class Recommender(Protocol):
    """Anything that learns from interactions and then ranks items for users.

    A weight stands wherever the method has a 1. `recommend` excludes what was observed, whatever its weight, so that
    an interaction of weight 0 is not recommended back.
    """

    def fit(self, interactions: Interactions) -> Self:
        """Learn from interactions.

        Parameters
        ----------
        interactions : Interactions
            Interactions with their weights.

        Returns
        -------
        Self
        """
        ...

    def recommend(self, users: Any, k: int = 10, *, exclude_seen: bool = True) -> Recommendations:
        """Return the k best items for each user, best first.

        Parameters
        ----------
        users : sequence of ids
            Users that it was fitted on.
        k : int, default 10
            Number of items for each user.
        exclude_seen : bool, default True
            Leave out the user's own interactions, whatever their weight.

        Returns
        -------
        Recommendations
        """
        ...


class FittedRecommender(Recommender, Protocol):
    """A fitted model or denoiser."""

    interactions_: Interactions
    """The interactions that it was fitted to."""

    def recommend_new(self, baskets: Any, k: int = 10) -> Recommendations:
        """Return the k best items for new users, each given by the ids of their items."""
        ...

    def similar_items(self, items: Any, k: int = 10) -> SimilarItems:
        """Return the k items most similar to each query item."""
        ...

    def save(self, folder: str | Path, *, overwrite: bool = True) -> None:
        """Write it to a folder, over a model that is there if allowed; `prorec.load` reads it."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Recommendations:
    """A ranked list of items for each of some users."""

    users: NDArray[Any]
    """Ids of the users, one for each list."""
    item_positions: NDArray[np.int32]
    """Users × k: positions in `items`, best first; −1 where no item was left to recommend."""
    scores: NDArray[np.float32]
    """Users × k: higher is better; 0 where `item_positions` is −1."""
    items: NDArray[Any]
    """Ids of all items, which `item_positions` points into."""
    frame_type: FrameType = "pyarrow"
    """Library of the table that `to_table` returns by default."""

    def __repr__(self) -> str:
        n_users, k = self.item_positions.shape
        return f"Recommendations({n_users:,} users × top {k} of {len(self.items):,} items)"

    def to_table(self, frame: FrameType | None = None) -> Any:
        """Return a table with one row for each recommended item.

        Parameters
        ----------
        frame : {"pyarrow", "pandas", "polars"}, optional
            Library of the table; by default that of the table that was fitted, or else pyarrow.

        Returns
        -------
        pyarrow.Table, pandas.DataFrame or polars.DataFrame
            Columns `user`, `rank` (from 1), `item` and `score`.
        """
        return _to_table(("user", "item"), self.users, self, frame)


@dataclass(frozen=True, eq=False, repr=False)
class SimilarItems:
    """A ranked list of similar items for each of some query items."""

    query_items: NDArray[Any]
    """Ids of the query items, one for each list."""
    item_positions: NDArray[np.int32]
    """Query items × k: positions in `items`, most similar first; −1 where no item was left."""
    scores: NDArray[np.float32]
    """Query items × k: similarity, higher is more similar; 0 where `item_positions` is −1."""
    items: NDArray[Any]
    """Ids of all items, which `item_positions` points into."""
    frame_type: FrameType = "pyarrow"
    """Library of the table that `to_table` returns by default."""

    def __repr__(self) -> str:
        n_queries, k = self.item_positions.shape
        return f"SimilarItems({n_queries:,} query items × top {k} of {len(self.items):,} items)"

    def to_table(self, frame: FrameType | None = None) -> Any:
        """Return a table with one row for each similar item.

        Parameters
        ----------
        frame : {"pyarrow", "pandas", "polars"}, optional
            Library of the table; by default that of the table that was fitted, or else pyarrow.

        Returns
        -------
        pyarrow.Table, pandas.DataFrame or polars.DataFrame
            Columns `item`, `rank` (from 1), `similar_item` and `score`.
        """
        return _to_table(("item", "similar_item"), self.query_items, self, frame)


def _to_table(
    columns: tuple[str, str], query_ids: NDArray[Any], ranked: Recommendations | SimilarItems, frame: FrameType | None
) -> Any:
    row, rank = np.nonzero(ranked.item_positions >= 0)
    table = {
        columns[0]: take_ids(query_ids, row),
        "rank": rank + 1,
        columns[1]: take_ids(ranked.items, ranked.item_positions[row, rank]),
        "score": ranked.scores[row, rank],
    }
    return to_frame(pa.table(table), frame, ranked.frame_type)

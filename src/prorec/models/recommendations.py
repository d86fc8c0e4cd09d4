"""What every recommender can do, and what it answers with.

A weight stands wherever a one stood. What a model leaves out when it recommends is what
was observed, whatever its weight: a click that counts for nothing is not recommended back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from prorec.interactions import Interactions
from prorec.interactions.ids import take_ids
from prorec.interactions.tables import FrameType, to_frame


class Recommender(Protocol):
    """Anything that learns from interactions and then ranks items for users."""

    def fit(self, interactions: Interactions) -> Self:
        """Learn, and return self."""
        ...

    def recommend(self, users: Any, k: int = 10, *, exclude_seen: bool = True) -> Recommendations:
        """The k best items for each user id, best first."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Recommendations:
    """A ranked list of items for each of some users."""

    users: NDArray[Any]
    """Ids of the users."""
    item_positions: NDArray[np.int32]
    """Users × k: positions in `items`, best first; −1 where there was nothing left to recommend."""
    scores: NDArray[np.float32]
    """Users × k: higher is better; 0 where `item_positions` is −1."""
    items: NDArray[Any]
    """Ids of all items, which `item_positions` points into."""

    def __repr__(self) -> str:
        n_users, k = self.item_positions.shape
        return f"Recommendations({n_users:,} users × top {k} of {len(self.items):,} items)"

    def to_table(self, kind: FrameType = "pyarrow") -> Any:
        """One row per recommendation: user, rank (from 1), item, score."""
        row, rank = np.nonzero(self.item_positions >= 0)
        table = pa.table(
            {
                "user": take_ids(self.users, row),
                "rank": rank + 1,
                "item": take_ids(self.items, self.item_positions[row, rank]),
                "score": self.scores[row, rank],
            }
        )
        return to_frame(table, kind)

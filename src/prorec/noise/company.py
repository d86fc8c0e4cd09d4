"""What clicks are told from controls by: what models say of a pair, and the clicks it is seen among."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec.noise.evidence import Pairs
from prorec.noise.standing import Values, standing

Column = NDArray[np.float64]


class Judged(NamedTuple):
    """What is known of some pairs by models that have not seen them."""

    values: Values
    """Models × pairs: log π."""
    percentiles: Values
    """Models × pairs: the share of the user's unobserved items that have more."""
    popularity: Values
    """How many others have the item, in the part that was learned from."""
    is_alone: NDArray[np.bool_]
    """Whether nothing else of the user was learned from."""

    @classmethod
    def empty(cls, n_models: int, n_pairs: int) -> Self:
        """Room for so many; the models have no opinion yet."""
        each = np.zeros((n_models, n_pairs), dtype=np.float32)
        return cls(each, each + np.float32(0.5), np.empty(n_pairs, np.float32), np.zeros(n_pairs, dtype=bool))

    @property
    def vote(self) -> Values:
        """The mean of the percentiles."""
        return np.asarray(self.percentiles.mean(axis=0))

    def features(self, of_user: list[Column], of_item: Column) -> NDArray[np.float64]:
        """Pairs × features: log-odds of percentiles, plan values, the company's; log(1 + popularity) is the last."""
        percentiles = self.percentiles.astype(np.float64)
        odds = np.log(percentiles) - np.log1p(-percentiles)
        return np.column_stack([*odds, *self.values, *of_user, of_item, np.log1p(self.popularity)])


class Company(NamedTuple):
    """Clicks that pairs are seen among."""

    matrix: csr_array
    """All of them."""
    vote: Values
    """Of each, in the order of `matrix.data`."""
    popularity: Values
    """Of each one's item, as it was judged."""

    def of_users(self, judged: Judged, pairs: Pairs, apart: NDArray[np.int64] | None = None) -> list[Column]:
        """Where the item's popularity, and the vote, are among those of the user's other clicks.

        `apart` has for each pair the number of a click that it is not held against; None where there is no such.
        """
        nothing = np.full(len(pairs.users), np.nan, dtype=np.float32)
        return [
            standing(own, self.matrix.indptr, pairs.users, asked, nothing if apart is None else own[apart])
            for own, asked in ((self.popularity, judged.popularity), (self.vote, judged.vote))
        ]

    def of_items(self, pairs: Pairs, activity: Values, itself: Values | None = None) -> Column:
        """Where the user's activity is among that of the item's other users.

        `itself` has for each pair the activity that it is not held against, and NaN where that is none.
        """
        by_item = self.matrix.tocsc()
        active = np.diff(self.matrix.indptr).astype(np.float32)[by_item.indices]
        left_out = np.full(len(activity), np.nan, dtype=np.float32) if itself is None else itself
        return standing(active, by_item.indptr, pairs.items, activity, left_out)

"""The issues of a log: tables of users and items with a score for each issue, and a summary in words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from prorec.interactions import Interactions
from prorec.interactions.ids import take_ids
from prorec.interactions.tables import FrameType, to_frame
from prorec.noise.account_names import find_test_names

Scores = NDArray[np.float64]

MIN_COUNTED_SCORE = 0.9
"""Users and items with a higher score are counted and named."""
_MAX_TRIED = 50  # items of a test account


@dataclass(frozen=True, eq=False)
class Issues:
    """Issues of the users and items of a log, each with a score from 0 to 1."""

    interactions: Interactions
    """The log."""
    user_scores: dict[str, Scores]
    """Score of each user by issue: `account` (all issues together), `random_history`, `regular_times`,
    `catalogue_walk`, `cloned_history`, `burst`."""
    item_scores: dict[str, Scores]
    """Score of each item by issue: `pushed_item`, `item_burst`."""
    is_extreme: NDArray[np.bool_]
    """Whether each user is an extreme account, which `NoiseFinder` keeps out of its fit."""
    can_tell: bool
    """Whether the users' histories differ from random ones, without which `random_history` and `pushed_item` are
    0, except for extreme accounts."""

    @cached_property
    def has_test_name(self) -> NDArray[np.bool_]:
        """Whether each user is called like a test, such as test01 or qa-check, unless that is usual in this log."""
        return find_test_names(self.interactions)

    @cached_property
    def is_test(self) -> NDArray[np.bool_]:
        """Whether each user looks like a test account, which is suspicious.

        Such a user is called like one, walks through the catalogue, or shares nearly all of at most 50 items with
        another account and clicked them in a burst.
        """
        walks, copies, bursts = (
            self.user_scores[name] > MIN_COUNTED_SCORE for name in ("catalogue_walk", "cloned_history", "burst")
        )
        tried = copies & bursts & (self.interactions.activity <= _MAX_TRIED)
        return np.asarray((self.has_test_name | walks | tried) & ~self.is_extreme)

    @cached_property
    def is_suspicious(self) -> NDArray[np.bool_]:
        """Whether each user looks odd, but is not extreme: interactions are not flagged for that.

        The score `account` is above 0.9, or the user looks like a test account.
        """
        is_odd = self.user_scores["account"] > MIN_COUNTED_SCORE
        return np.asarray((is_odd | self.is_test) & ~self.is_extreme)

    def users(self, frame: FrameType | None = None) -> Any:
        """Return a table of all users, the most suspicious account first.

        Parameters
        ----------
        frame : {"pyarrow", "pandas", "polars"}, optional
            Type of the table; by default that of the log, or else pyarrow.

        Returns
        -------
        table
            With the columns user, activity, one score for each issue, extreme and suspicious.
        """
        order = np.lexsort((-self.user_scores["account"], ~self.is_suspicious, ~self.is_extreme))
        groups = {"extreme": self.is_extreme, "suspicious": self.is_suspicious}
        columns = {"activity": self.interactions.activity, **self.user_scores, **groups}
        table = _make_table("user", self.interactions.users, columns, order)
        return to_frame(table, frame, self.interactions.frame_type)

    def items(self, frame: FrameType | None = None) -> Any:
        """Return a table of all items, the most suspicious first.

        Parameters
        ----------
        frame : {"pyarrow", "pandas", "polars"}, optional
            Type of the table; by default that of the log, or else pyarrow.

        Returns
        -------
        table
            With the columns item, popularity and one score for each issue.
        """
        order = np.argsort(-np.maximum.reduce(list(self.item_scores.values())), kind="stable")
        columns = {"popularity": self.interactions.popularity, **self.item_scores}
        table = _make_table("item", self.interactions.items, columns, order)
        return to_frame(table, frame, self.interactions.frame_type)

    def summary(self, frame: FrameType | None = None) -> Any:
        """Return a table of the issues.

        Parameters
        ----------
        frame : {"pyarrow", "pandas", "polars"}, optional
            Type of the table; by default that of the log, or else pyarrow.

        Returns
        -------
        table
            With the columns issue, count (users or items with a score above 0.9, and accounts in each group) and
            sentence.
        """
        # The score `account` only sums up the others; the groups are made from it.
        scores = {name: each for name, each in {**self.user_scores, **self.item_scores}.items() if name != "account"}
        counts = {name: int(np.count_nonzero(each > MIN_COUNTED_SCORE)) for name, each in scores.items()}
        counts |= {"extreme": int(self.is_extreme.sum()), "suspicious": int(self.is_suspicious.sum())}
        sentences = [_SENTENCES[name].format(count) for name, count in counts.items()]
        for position, (name, count) in enumerate(counts.items()):
            if not (self.can_tell or count) and name in ("random_history", "pushed_item"):
                sentences[position] = _UNKNOWN
        table = pa.table({"issue": list(counts), "count": list(counts.values()), "sentence": sentences})
        return to_frame(table, frame, self.interactions.frame_type)


_UNKNOWN = "Users' histories cannot be told from random ones on this log, so this is not known."
_SENTENCES = {
    "random_history": "Accounts whose items go together no more than random items do: {:,}.",
    "regular_times": "Accounts that clicked at regular times: {:,}.",
    "catalogue_walk": "Accounts that clicked one item after the other in the order of the catalogue: {:,}.",
    "cloned_history": "Accounts that share nearly all of their items with another account: {:,}.",
    "burst": "Accounts that clicked in a burst, far more in a short time than others: {:,}.",
    "pushed_item": "Items with more clicks from suspicious accounts than chance explains: {:,}.",
    "item_burst": "Items that were clicked in a burst, far more in a short time than others: {:,}.",
    "extreme": "Extreme accounts, which are left out of the fit and flagged, because they act like programs: {:,}.",
    "suspicious": "Suspicious accounts, which are neither flagged nor down-weighted: {:,}.",
}


def _make_table(role: str, ids: NDArray[Any], columns: dict[str, NDArray[Any]], order: NDArray[np.int64]) -> pa.Table:
    return pa.table({role: take_ids(ids, order), **{k: pa.array(v[order]) for k, v in columns.items()}})

"""Figure 3 (RQ4): one user's clicks before and after denoising, beside the same numbers over all users.

A single user can illustrate anything. So a rule selects the user, and the page answers the same questions for all
users: are the clicks that lost most weight outside the user's main genre, and do the films that enter the list belong
to it?
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.errors import InputError
from prorec.denoise import ProRec
from prorec.interactions import Interactions
from prorec.models import Model

TOP = 6
N_SHOWN = 8
_FEWEST, _MOST = 8, 16
_USUAL = 0.5


@dataclass(frozen=True)
class Case:
    """Weights and top lists of all users before and after denoising, and the selected user."""

    clicks: Interactions
    weights: NDArray[np.float32]
    """Weights after relabelling, in the order of `clicks.matrix.data`."""
    user: int
    """Row of the selected user."""
    shown: NDArray[np.int64]
    """Rows of the users in the figure, the selected user first."""
    n_matching: int
    """Number of users who match the rule; 0 if the selected user is only the first whose list changed."""
    n_candidates: int
    """Number of users with 8 to 16 clicks, as many as the figure can show."""
    genre: str
    """The user's main genre: the one with the largest excess over all users' clicks."""
    before: NDArray[np.int32]
    """Top items of all users without ProRec, users × 6."""
    after: NDArray[np.int32]
    """Top items with ProRec, users × 6."""
    in_genre: dict[str, float]
    """Over all users, the share in the user's main genre of: the quarter of clicks that kept most weight, the quarter
    that lost most, items that entered the top 6, and items that left it."""

    def positions(self, user: int) -> NDArray[np.int64]:
        """Return the positions of a user's clicks in `weights`, largest weight first."""
        own = np.arange(self.clicks.matrix.indptr[user], self.clicks.matrix.indptr[user + 1])
        return own[np.argsort(-self.weights[own], kind="stable")]


def study_case(clicks: Interactions, plain: Model, denoiser: ProRec) -> Case:
    """Fit both models to all interactions, and select the first user who matches the paper's example.

    The user has 8 to 16 clicks, at least half of them in the main genre; the click that lost most weight is outside
    that genre; and a film of that genre entered the top 6. If nobody matches, the first user with 8 to 16 clicks and a
    changed top 6 is selected.
    """
    if clicks.item_categories is None:
        raise InputError("the case study needs items with categories, such as films with genres; use ml-100k or cinema")
    before, after = (_top_items(model.fit(clicks)) for model in (plain, denoiser))
    weights, members = denoiser.weights_.data, _membership(clicks)
    main = _main_genres(clicks, members)
    questions = _UserQuestions(clicks, weights, members, main, before, after)
    candidates = np.flatnonzero((clicks.activity >= _FEWEST) & (clicks.activity <= _MOST))
    matching = [user for user in candidates.tolist() if questions.matches_rule(user)]
    changed = [user for user in candidates.tolist() if questions.entered(user)]
    user = int((matching or changed or [int(np.argmax(clicks.activity))])[0])
    others = candidates[candidates != user][: N_SHOWN - 1]
    names = sorted({name for each in clicks.item_categories for name in each})
    return Case(
        clicks,
        weights,
        user,
        np.concatenate([[user], others]).astype(np.int64),
        len(matching),
        len(candidates),
        names[main[user]] if names else "",
        before,
        after,
        questions.share_in_main_genre(),
    )


class _UserQuestions:
    """Questions about single users and about all users."""

    def __init__(
        self,
        clicks: Interactions,
        weights: NDArray[np.float32],
        members: NDArray[np.bool_],
        main: NDArray[np.int64],
        before: NDArray[np.int32],
        after: NDArray[np.int32],
    ) -> None:
        self._matrix, self._weights, self._members, self._main = clicks.matrix, weights, members, main
        self._before, self._after = before, after

    def _items_by_weight(self, user: int) -> NDArray[np.int32]:
        """Return the user's items, largest weight first."""
        own = slice(self._matrix.indptr[user], self._matrix.indptr[user + 1])
        items: NDArray[np.int32] = self._matrix.indices[own][np.argsort(-self._weights[own], kind="stable")]
        return items

    def _is_main(self, user: int, items: NDArray[np.int32]) -> NDArray[np.bool_]:
        return np.asarray(self._members[items, self._main[user]])

    def entered(self, user: int) -> list[int]:
        return [item for item in self._after[user] if item >= 0 and item not in self._before[user]]

    def left(self, user: int) -> list[int]:
        return [item for item in self._before[user] if item >= 0 and item not in self._after[user]]

    def matches_rule(self, user: int) -> bool:
        items = self._items_by_weight(user)
        own = self._is_main(user, items)
        new = np.array(self.entered(user), dtype=np.int32)
        return bool(own.mean() >= _USUAL and not own[-1] and self._is_main(user, new).any())

    def share_in_main_genre(self) -> dict[str, float]:
        in_genre: dict[str, list[bool]] = {name: [] for name in ("kept most", "lost most", "entered", "left")}
        for user in np.flatnonzero(np.diff(self._matrix.indptr) >= 4).tolist():
            items = self._items_by_weight(user)
            quarter = len(items) // 4
            groups = (items[:quarter], items[-quarter:], self.entered(user), self.left(user))
            for values, group in zip(in_genre.values(), groups, strict=True):
                values.extend(self._is_main(user, np.array(group, dtype=np.int32)))
        return {name: float(np.mean(values)) if values else float("nan") for name, values in in_genre.items()}


def _top_items(model: Any) -> NDArray[np.int32]:
    interactions = model.interactions_
    length = min(TOP, interactions.n_items)
    return np.asarray(model.recommend(interactions.users, length).item_positions)


def _membership(clicks: Interactions) -> NDArray[np.bool_]:
    """Return items × genres, genres in alphabetical order."""
    categories = clicks.item_categories or ()
    names = {name: index for index, name in enumerate(sorted({name for each in categories for name in each}))}
    members = np.zeros((clicks.n_items, max(len(names), 1)), dtype=bool)
    for item, each in enumerate(categories):
        for name in each:
            members[item, names[name]] = True
    return members


def _main_genres(clicks: Interactions, members: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return each user's genre with the largest excess over all clicks; the most frequent would be drama for all."""
    pattern = clicks.matrix.copy()
    pattern.data = np.ones_like(pattern.data)
    counts = pattern @ members.astype(np.float32)
    shares = counts / np.maximum(clicks.activity, 1)[:, None]
    return np.asarray(np.argmax(shares - counts.sum(axis=0) / max(len(clicks), 1), axis=1))

"""Figure 3 (RQ4): one user's clicks before and after, and whether what is seen there holds for everybody.

A single user shows anything one wants. So the user is found by a rule, and next to the case stands what the same
questions give over all users: are the clicks that lost most weight off the user's main genre, and do the films that
enter the list belong to it?
"""

from __future__ import annotations

from dataclasses import dataclass

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
    """What denoising did to everybody's clicks and lists, and whom to look at."""

    clicks: Interactions
    weights: NDArray[np.float32]
    """After relabelling, in the order of `clicks.matrix.data`."""
    user: int
    """The row of the user of the case."""
    shown: NDArray[np.int64]
    """Rows of users with as many clicks as can be shown, the user of the case first."""
    n_like: int
    """How many users the story can be told of; 0 if the user of the case is just one whose list changed."""
    n_shown_from: int
    """How many users have as few and as many clicks."""
    genre: str
    """The user's main genre: what there is more of among the user's clicks than among everybody's."""
    before: NDArray[np.int32]
    """The top items of all users without ProRec, users × 6."""
    after: NDArray[np.int32]
    """The same with ProRec."""
    in_genre: dict[str, float]
    """Over all users, how much of each belongs to the user's main genre: the quarter of clicks that kept most weight,
    the quarter that lost most, what entered the top 6, and what left it."""

    def places(self, user: int) -> NDArray[np.int64]:
        """Where a user's clicks are in `weights`, the heaviest first."""
        own = np.arange(self.clicks.matrix.indptr[user], self.clicks.matrix.indptr[user + 1])
        return own[np.argsort(-self.weights[own], kind="stable")]


def study_case(clicks: Interactions, plain: Model, denoiser: ProRec) -> Case:
    """Fit both to all interactions, and find the first user, in order, for whom the paper's story can be told.

    That is one with 8 to 16 clicks, at least half of them in the main genre, whose click that lost most weight is not
    in that genre, and into whose top 6 a film of that genre came; or, where nobody is like that, the first with 8 to 16
    clicks and something new in the top 6.
    """
    if clicks.item_categories is None:
        raise InputError("the case study needs items with categories, such as films with genres (ml-100k, cinema)")
    before, after = (_tops(model.fit(clicks)) for model in (plain, denoiser))
    weights, members = denoiser.weights_.data, _membership(clicks)
    main = _main_genres(clicks, members)
    answers = _Answers(clicks, weights, members, main, before, after)
    fits = np.flatnonzero((clicks.activity >= _FEWEST) & (clicks.activity <= _MOST))
    told = [user for user in fits.tolist() if answers.tells_the_story(user)]
    changed = [user for user in fits.tolist() if answers.entered(user)]
    user = int((told or changed or [int(np.argmax(clicks.activity))])[0])
    others = fits[fits != user][: N_SHOWN - 1]
    names = sorted({name for each in clicks.item_categories for name in each})
    return Case(
        clicks,
        weights,
        user,
        np.concatenate([[user], others]).astype(np.int64),
        len(told),
        len(fits),
        names[main[user]] if names else "",
        before,
        after,
        answers.for_everybody(),
    )


class _Answers:
    """Questions about single users, and over all of them."""

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

    def _sorted(self, user: int) -> NDArray[np.int32]:
        """The user's items, those that kept most weight first."""
        own = slice(self._matrix.indptr[user], self._matrix.indptr[user + 1])
        items: NDArray[np.int32] = self._matrix.indices[own][np.argsort(-self._weights[own], kind="stable")]
        return items

    def _is_main(self, user: int, items: NDArray[np.int32]) -> NDArray[np.bool_]:
        return np.asarray(self._members[items, self._main[user]])

    def entered(self, user: int) -> list[int]:
        return [item for item in self._after[user] if item >= 0 and item not in self._before[user]]

    def left(self, user: int) -> list[int]:
        return [item for item in self._before[user] if item >= 0 and item not in self._after[user]]

    def tells_the_story(self, user: int) -> bool:
        items = self._sorted(user)
        own = self._is_main(user, items)
        new = np.array(self.entered(user), dtype=np.int32)
        return bool(own.mean() >= _USUAL and not own[-1] and self._is_main(user, new).any())

    def for_everybody(self) -> dict[str, float]:
        found: dict[str, list[bool]] = {name: [] for name in ("kept most", "lost most", "entered", "left")}
        for user in np.flatnonzero(np.diff(self._matrix.indptr) >= 4).tolist():
            items = self._sorted(user)
            quarter = len(items) // 4
            groups = (items[:quarter], items[-quarter:], self.entered(user), self.left(user))
            for values, group in zip(found.values(), groups, strict=True):
                values.extend(self._is_main(user, np.array(group, dtype=np.int32)))
        return {name: float(np.mean(values)) if values else float("nan") for name, values in found.items()}


def _tops(model: Model) -> NDArray[np.int32]:
    known = model.interactions_
    length = min(TOP, known.n_items)
    return np.asarray(model.recommend(known.users, length).item_positions)


def _membership(clicks: Interactions) -> NDArray[np.bool_]:
    """Which item is in which genre, genres in alphabetical order."""
    categories = clicks.item_categories or ()
    names = {name: place for place, name in enumerate(sorted({name for each in categories for name in each}))}
    members = np.zeros((clicks.n_items, max(len(names), 1)), dtype=bool)
    for item, each in enumerate(categories):
        for name in each:
            members[item, names[name]] = True
    return members


def _main_genres(clicks: Interactions, members: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The genre that a user's clicks have more of than everybody's have: the most frequent would be drama for all."""
    pattern = clicks.matrix.copy()
    pattern.data = np.ones_like(pattern.data)
    counts = pattern @ members.astype(np.float32)
    shares = counts / np.maximum(clicks.activity, 1)[:, None]
    return np.asarray(np.argmax(shares - counts.sum(axis=0) / max(len(clicks), 1), axis=1))

"""Injection of accounts that are no people: bots, test accounts, shilling attacks, bursts and clones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.checks import safe_repr
from prorec._core.errors import InputError
from prorec.data.noisy_interactions import NoisyInteractions, assemble_noisy
from prorec.interactions import Interactions

AccountKind = Literal["bots", "tests", "random-attack", "average-attack", "bandwagon-attack", "bursts", "clones"]
"""Kinds of noise that add accounts."""
ACCOUNT_KINDS: tuple[AccountKind, ...] = get_args(AccountKind)

_BOT_COVERAGE = 0.95  # of the catalogue, at most
_TEST_ITEMS = 12  # shared by the test accounts that click the same few items
_WALK = (20, 200)  # items in a walk through the catalogue
_REPLACED = 0.1  # share of a cloned history that is replaced
_TICKS = 100_000  # a bot's clicks are one such part of the log's duration apart


@dataclass(frozen=True)
class _Account:
    """The history of one account, in the order of time."""

    items: NDArray[np.int64]
    times: NDArray[np.float64]
    """Times from 0 to 1, relative to the duration of the log."""


def inject_accounts(
    clean: Interactions, ratio: float, kind: AccountKind, rng: np.random.Generator
) -> NoisyInteractions:
    """Add accounts of one kind; all of their interactions are noise.

    Parameters
    ----------
    clean : Interactions
        Clean interactions with no other columns than rating and timestamp.
    ratio : float
        Number of accounts to add for each user with interactions.
    kind : AccountKind
        Kind of the accounts, as in `inject_noise`.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    NoisyInteractions
        The accounts are the last users.

    Raises
    ------
    InputError
        If there are no interactions, or more accounts than fit into memory are asked for.
    """
    if not len(clean):
        raise InputError(f"kind={safe_repr(kind)} adds accounts to a log, but there is no interaction")
    n_accounts = round(min(ratio * np.count_nonzero(clean.activity), 1e18))
    if clean.n_users + n_accounts >= 2**31:
        raise InputError(f"ratio asks for {n_accounts:,} accounts, more than there can be. Lower the ratio")
    log = _Log(clean, rng)
    targets = log.choose_targets() if kind.endswith("-attack") or kind == "bursts" else np.empty(0, dtype=np.int64)
    accounts = [_MAKERS[kind](log, targets, index) for index in range(n_accounts)]
    return _append_accounts(clean, accounts, targets if n_accounts else targets[:0], rng)


class _Log:
    """Draws of items and times that resemble those of the log."""

    def __init__(self, clean: Interactions, rng: np.random.Generator) -> None:
        self.clean, self.rng = clean, rng
        self.activity, self.popularity = clean.activity, clean.popularity
        self.by_popularity = np.argsort(-self.popularity, kind="stable")
        self.test_items = rng.permutation(clean.n_items)[:_TEST_ITEMS]
        times = clean.columns.get("timestamp")
        numbers = np.zeros(len(clean)) if times is None else _to_numbers(times)
        duration = np.ptp(numbers) or 1.0
        self.times = (numbers - numbers.min()) / duration

    def choose_targets(self) -> NDArray[np.int64]:
        """Choose one item of at most the median popularity: a push attack wants to make it popular."""
        return self.rng.choice(self.by_popularity[self.clean.n_items // 2 :], size=1).astype(np.int64)

    def draw_size(self) -> int:
        """Draw the activity of a user of at least the median activity."""
        active = np.sort(self.activity[self.activity > 0])
        return int(self.rng.choice(active[len(active) // 2 :]))

    def draw_items(self, size: int, weights: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Draw distinct items, with equal probability or in proportion to weights, in random order."""
        if weights is None:
            return self.rng.permutation(self.clean.n_items)[:size].astype(np.int64)
        keys = self.rng.exponential(size=len(weights))[weights > 0] / weights[weights > 0]
        return np.flatnonzero(weights)[np.argsort(keys)[:size]].astype(np.int64)

    def human_times(self, size: int) -> NDArray[np.float64]:
        """Draw times like those of a random user."""
        user = self.clean.user_codes[self.rng.integers(len(self.clean))]
        own = self.times[self.clean.matrix.indptr[user] : self.clean.matrix.indptr[user + 1]]
        return np.sort(self.rng.choice(own, size=size))

    def regular_times(self, size: int) -> NDArray[np.float64]:
        """Return times with equal gaps, from a random time on."""
        return np.minimum(self.rng.random() * 0.9 + np.arange(size) / _TICKS, 1.0)


def _make_bot(log: _Log, targets: NDArray[np.int64], index: int) -> _Account:
    low = min(np.quantile(log.activity[log.activity > 0], 0.99), _BOT_COVERAGE * log.clean.n_items)
    size = max(1, round(np.exp(log.rng.uniform(np.log(low), np.log(_BOT_COVERAGE * log.clean.n_items)))))
    return _Account(log.draw_items(size), log.regular_times(size))


def _make_test(log: _Log, targets: NDArray[np.int64], index: int) -> _Account:
    n_items = log.clean.n_items
    if index % 2:
        size = min(n_items, int(log.rng.integers(_WALK[0], _WALK[1] + 1)))
        items = (log.rng.integers(n_items) + np.arange(size)) % n_items
    else:
        items = log.rng.permutation(log.test_items)[: int(log.rng.integers(_TEST_ITEMS // 2, _TEST_ITEMS + 1))]
    return _Account(items.astype(np.int64), log.regular_times(len(items)))


def _make_attacker(log: _Log, targets: NDArray[np.int64], fillers: NDArray[np.int64]) -> _Account:
    items = np.concatenate([targets, fillers[~np.isin(fillers, targets)]])
    return _Account(log.rng.permutation(items), log.human_times(len(items)))


def _make_random_attacker(log: _Log, targets: NDArray[np.int64], index: int) -> _Account:
    return _make_attacker(log, targets, log.draw_items(log.draw_size()))


def _make_average_attacker(log: _Log, targets: NDArray[np.int64], index: int) -> _Account:
    return _make_attacker(log, targets, log.draw_items(log.draw_size(), log.popularity))


def _make_bandwagon_attacker(log: _Log, targets: NDArray[np.int64], index: int) -> _Account:
    size = log.draw_size()
    popular = log.by_popularity[: max(1, size // 4)]
    return _make_attacker(log, targets, np.union1d(popular, log.draw_items(size - len(popular))))


def _make_burst(log: _Log, targets: NDArray[np.int64], index: int) -> _Account:
    """Make an account that acts in one short time, which all accounts of the burst share."""
    items = _make_average_attacker(log, targets, index).items
    start = log.times[log.test_items[0] % len(log.times)]
    return _Account(items, np.minimum(start + np.sort(log.rng.random(len(items))) / 1000, 1.0))


def _make_clone(log: _Log, targets: NDArray[np.int64], index: int) -> _Account:
    user = log.clean.user_codes[log.rng.integers(len(log.clean))]
    items = log.clean.item_codes[log.clean.matrix.indptr[user] : log.clean.matrix.indptr[user + 1]].astype(np.int64)
    n_new = round(_REPLACED * len(items))
    others = np.setdiff1d(log.draw_items(len(items) + n_new), items)[:n_new]
    items = np.concatenate([log.rng.permutation(items)[: len(items) - len(others)], others])
    return _Account(items, log.human_times(len(items)))


_MAKERS: dict[AccountKind, Callable[[_Log, NDArray[np.int64], int], _Account]] = {
    "bots": _make_bot,
    "tests": _make_test,
    "random-attack": _make_random_attacker,
    "average-attack": _make_average_attacker,
    "bandwagon-attack": _make_bandwagon_attacker,
    "bursts": _make_burst,
    "clones": _make_clone,
}


def _append_accounts(
    clean: Interactions, accounts: list[_Account], targets: NDArray[np.int64], rng: np.random.Generator
) -> NoisyInteractions:
    """Append accounts as new users, with weights and ratings of random true interactions."""
    sizes = np.array([len(account.items) for account in accounts], dtype=np.int64)
    users = np.repeat(clean.n_users + np.arange(len(accounts)), sizes).astype(np.int32)
    items = np.concatenate([np.empty(0, dtype=np.int64), *(account.items for account in accounts)]).astype(np.int32)
    model = rng.integers(len(clean), size=len(items))
    new_columns = {name: values[model] for name, values in clean.columns.items()}
    if "timestamp" in clean.columns:
        relative = np.concatenate([np.empty(0), *(account.times for account in accounts)])
        new_columns["timestamp"] = _from_relative(relative, clean.columns["timestamp"])
    n_users = clean.n_users + len(accounts)
    template = replace(
        clean,
        matrix=_add_rows(clean.matrix, n_users),
        users=_extend_ids(clean.users, len(accounts)),
        held_out=_add_rows(clean.held_out, n_users),
        disliked=_add_rows(clean.disliked, n_users),
    )
    noisy = assemble_noisy(
        template,
        np.concatenate([clean.user_codes, users]),
        np.concatenate([clean.item_codes, items]),
        np.concatenate([clean.matrix.data, clean.matrix.data[model]]),
        {name: np.concatenate([values, new_columns[name]]) for name, values in clean.columns.items()},
        np.repeat([False, True], [len(clean), len(items)]),
    )
    return replace(noisy, is_injected_user=np.arange(n_users) >= clean.n_users, target_items=np.sort(targets))


def _add_rows(matrix: csr_array | None, n_users: int) -> Any:
    """Return a matrix with empty rows at its end."""
    if matrix is None:
        return None
    missing = n_users - matrix.shape[0]
    indptr = np.concatenate([matrix.indptr, np.full(missing, matrix.indptr[-1], dtype=matrix.indptr.dtype)])
    return csr_array((matrix.data, matrix.indices, indptr), shape=(n_users, matrix.shape[1]))


def _extend_ids(users: NDArray[Any], count: int) -> NDArray[Any]:
    """Return ids with new ones at the end: the next integers, or texts that no user has."""
    if users.dtype != object:
        if len(users) and users.max() > np.iinfo(np.int64).max - count:
            raise InputError("user ids end at the largest 64-bit integer, so no account can be added: use text as ids")
        return np.concatenate([users, users.max(initial=0) + 1 + np.arange(count)])
    prefix, taken = "injected-", set(users.tolist())
    while any(f"{prefix}{index}" in taken for index in range(count)):
        prefix += "-"
    return np.concatenate([users, np.array([f"{prefix}{index}" for index in range(count)], dtype=object)])


def _to_numbers(times: NDArray[Any]) -> NDArray[np.float64]:
    return (times.astype(np.int64) if times.dtype.kind == "M" else times).astype(np.float64)


def _from_relative(relative: NDArray[np.float64], times: NDArray[Any]) -> NDArray[Any]:
    """Return times from 0 to 1 as times of the log, in its type."""
    numbers = _to_numbers(times)
    absolute = numbers.min() + relative * np.ptp(numbers)
    if times.dtype.kind == "M":
        return np.asarray(absolute.astype(np.int64).astype(times.dtype))
    return np.asarray(absolute.astype(times.dtype))

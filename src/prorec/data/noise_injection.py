"""Putting known noise into clean data, so that what finds noise can be judged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import check_choice, check_float
from prorec._core.errors import InputError
from prorec._core.random import make_generator
from prorec.interactions import Interactions
from prorec.interactions.assembly import assemble_matrix

NoiseKind = Literal["uniform", "popularity", "swap", "disliked"]
Pairs = NDArray[np.int64]
"""Pairs as single numbers, user · n_items + item."""

_ROUNDS = 100
_PATIENCE = 100  # rounds of swapping in vain
_LISTABLE = 5_000_000_000  # pairs that may be listed when drawing at random no longer finds a free one
_BLOCK = 4_000_000  # of them at a time


@dataclass(frozen=True, eq=False)
class NoisyInteractions:
    """Interactions with noise in them, and which of them it is."""

    interactions: Interactions
    """The true interactions that are left, and the noise; with `swap`, those that went are in its `held_out`."""
    is_noise: NDArray[np.bool_]
    """For each interaction, in the order of `interactions.matrix.data`: was it put there?"""

    def __repr__(self) -> str:
        return f"NoisyInteractions({len(self.is_noise):,} interactions, {self.is_noise.sum():,} of them noise)"


def inject_noise(
    interactions: Interactions, ratio: float, kind: NoiseKind = "uniform", seed: int = 0
) -> NoisyInteractions:
    """Add or swap in false interactions, and remember which they are.

    The number of false ones is `ratio` times the number of true ones, rounded. They are never put on a pair
    that is there already, nor on one that is known to be true but held out (`Interactions.held_out`: splits
    set it, `with_held_out` sets it for splits made elsewhere).

    Parameters
    ----------
    interactions : the clean data, a training part as a rule
    ratio : the number of false interactions, as a share of the number of true ones
    kind : {"uniform", "popularity", "swap", "disliked"}
        `uniform` adds unobserved pairs, users in proportion to their activity, items all alike. `popularity`
        does the same with items in proportion to their popularity. `swap` exchanges items between pairs of
        true interactions, so that each user and each item keeps its number of interactions; at `ratio` .2, a
        fifth of the true ones is gone and a false one stands for each. `disliked` adds pairs that the user
        rated below the threshold (see `Interactions.filter_by_rating`).
    seed : the same seed gives the same noise

    Notes
    -----
    Nothing but the pair should give a false interaction away. It takes its weight and rating from a random true one
    of the same user, and its time from between two that follow each other; a swapped one keeps all three from the
    true one it stands for. Any other column is dropped: no value in it would be true of the noise.
    """
    check_choice("kind", kind, ("uniform", "popularity", "swap", "disliked"))
    ratio = check_float("ratio", ratio, 0, 1) if kind == "swap" else check_float("ratio", ratio, 0)
    columns = {name: values for name, values in interactions.columns.items() if name in ("rating", "timestamp")}
    clean = replace(interactions, columns=columns)
    count = round(min(ratio * len(clean), 1e18))
    rng = make_generator(seed)
    if kind == "swap":
        return _swapped(clean, count, rng)
    noise = _disliked(clean, count, rng) if kind == "disliked" else _unobserved(clean, count, kind, rng)
    return _added(clean, noise, rng)


def _unobserved(clean: Interactions, count: int, kind: NoiseKind, rng: np.random.Generator) -> Pairs:
    """`count` distinct pairs that are neither observed nor held out, drawn one after the other."""
    taken = _check_room(clean, count)
    noise = np.empty(0, dtype=np.int64)
    for _ in range(_ROUNDS):
        missing = count - len(noise)
        if missing <= 0:
            break
        draws = missing + missing // 4 + 16
        # The user of a random interaction is a user in proportion to activity; so it is with items.
        users = clean.user_codes[rng.integers(len(clean), size=draws)].astype(np.int64)
        if kind == "uniform":
            items = rng.integers(clean.n_items, size=draws)
        else:
            items = clean.item_codes[rng.integers(len(clean), size=draws)].astype(np.int64)
        noise = _first_of_each(np.concatenate([noise, _free_of(users * clean.n_items + items, taken)]))
    if len(noise) < count:
        taken = np.sort(np.concatenate([taken, noise]))
        noise = np.concatenate([noise, _enumerated(clean, taken, count - len(noise), kind, rng)])
    return noise[:count]


def _enumerated(clean: Interactions, taken: Pairs, count: int, kind: NoiseKind, rng: np.random.Generator) -> Pairs:
    """What drawing one after the other would give, where that hardly finds a free pair: by listing the free ones.

    The pairs with the least e/w, e exponential, are a draw without replacement with probabilities in proportion
    to w. Users are taken in blocks, so that only the best so far and one block are in memory.
    """
    activity, popularity = clean.activity, clean.popularity
    active = np.flatnonzero(activity)
    if len(active) * clean.n_items > _LISTABLE:
        raise InputError(
            f"{count:,} false interactions found no free pair by chance, and the pairs are too many to list"
        )
    best, best_key = np.empty(0, dtype=np.int64), np.empty(0)
    step = max(1, _BLOCK // clean.n_items)
    for begin in range(0, len(active), step):
        users = active[begin : begin + step, None].astype(np.int64)
        free = _free_of((users * clean.n_items + np.arange(clean.n_items)).ravel(), taken)
        weight = activity[free // clean.n_items].astype(np.float64)
        if kind == "popularity":
            weight *= popularity[free % clean.n_items]
        free, weight = free[weight > 0], weight[weight > 0]
        best = np.concatenate([best, free])
        best_key = np.concatenate([best_key, rng.exponential(size=len(free)) / weight])
        least = np.argsort(best_key)[:count]
        best, best_key = best[least], best_key[least]
    if len(best) < count:
        raise InputError(
            f"ratio asks for more false interactions than there is room for: {count - len(best):,} too many"
        )
    return best


def _disliked(clean: Interactions, count: int, rng: np.random.Generator) -> Pairs:
    if clean.disliked is None:
        raise InputError(
            "kind='disliked' needs pairs that were rated low: keep the high ratings with "
            "Interactions.filter_by_rating, or load a data set of ratings"
        )
    low = clean.disliked.tocoo()
    pool = _free_of(low.row.astype(np.int64) * clean.n_items + low.col, _known(clean))
    pool = pool[clean.activity[pool // clean.n_items] > 0]
    if count > len(pool):
        raise InputError(f"ratio asks for {count:,} disliked pairs, but there are only {len(pool):,}")
    return rng.choice(pool, size=count, replace=False)


def _added(clean: Interactions, noise: Pairs, rng: np.random.Generator) -> NoisyInteractions:
    users, items = (codes.astype(np.int32) for codes in np.divmod(noise, max(clean.n_items, 1)))
    like = clean.matrix.indptr[users] + (rng.random(len(users)) * clean.activity[users]).astype(np.int64)
    false = {name: values[like] for name, values in clean.columns.items()}
    if "timestamp" in clean.columns:
        false["timestamp"] = _times_between(clean, users, rng)
    return _built(
        clean,
        np.concatenate([clean.user_codes, users]),
        np.concatenate([clean.item_codes, items]),
        np.concatenate([clean.matrix.data, clean.matrix.data[like]]),
        {name: np.concatenate([values, false[name]]) for name, values in clean.columns.items()},
        np.repeat([False, True], [len(clean), len(noise)]),
    )


def _times_between(clean: Interactions, users: NDArray[np.int32], rng: np.random.Generator) -> NDArray[Any]:
    """For each user a time between two consecutive ones of theirs: as bunched, and as often equal, as those are."""
    times = clean.columns["timestamp"]
    times = times[np.lexsort([times, clean.user_codes])]
    gaps = np.maximum(clean.activity[users] - 1, 1)
    before = clean.matrix.indptr[users] + (rng.random(len(users)) * gaps).astype(np.int64)
    after = np.minimum(before + 1, clean.matrix.indptr[users + 1] - 1)
    gap = (times[after] - times[before]).astype(np.float64) * rng.random(len(users))
    if times.dtype.kind == "f":
        return np.asarray(times[before] + gap)
    return np.asarray(times[before] + gap.astype(np.int64).astype((times[:0] - times[:0]).dtype))


def _swapped(clean: Interactions, count: int, rng: np.random.Generator) -> NoisyInteractions:
    """Let pairs of interactions exchange their items until `count` are false.

    Each round draws pairs at random; two interactions exchange where both new pairs are free. A true one and a false
    one may exchange too: then one more is false.
    """
    taken = _check_room(clean, count)
    base = clean.user_codes.astype(np.int64) * clean.n_items
    items = clean.item_codes.copy()
    is_noise = np.zeros(len(clean), dtype=bool)
    rounds_in_vain = 0
    while missing := count - np.count_nonzero(is_noise):
        if rounds_in_vain == _PATIENCE:
            raise InputError(
                f"no way was found to swap {count:,} of {len(clean):,} interactions onto pairs that are free; only "
                f"{count - missing:,} could be. Lower the ratio"
            )
        noise = np.sort(base[is_noise] + items[is_noise])
        drawn = _first_of_each(rng.integers(len(clean), size=4 * missing + 64))
        one, other = drawn[: len(drawn) // 2], drawn[len(drawn) // 2 : 2 * (len(drawn) // 2)]
        new = np.stack([base[one] + items[other], base[other] + items[one]])
        gain = 2 - (is_noise[one].astype(np.int64) + is_noise[other])
        first = np.zeros(new.size, dtype=bool)
        first[np.unique(new, return_index=True)[1]] = True
        well = (gain > 0) & (_is_free(new, taken) & _is_free(new, noise) & first.reshape(new.shape)).all(axis=0)
        if missing == 1:
            well &= gain == 1
        well &= np.cumsum(np.where(well, gain, 0)) <= missing
        one, other = one[well], other[well]
        items[one], items[other] = items[other], items[one]
        is_noise[one] = is_noise[other] = True
        rounds_in_vain = 0 if len(one) else rounds_in_vain + 1
    kept = clean.select(~is_noise, hold_out_rest=True)  # knows the swapped ones as held out
    return _built(kept, clean.user_codes, items, clean.matrix.data, dict(clean.columns), is_noise)


def _check_room(clean: Interactions, count: int) -> Pairs:
    """The pairs that are taken, after a look at whether users who do anything have enough others."""
    taken = _known(clean)
    active = clean.activity > 0
    free = int(active.sum()) * clean.n_items - int(np.count_nonzero(active[taken // max(clean.n_items, 1)]))
    if count > free:
        raise InputError(f"ratio asks for {count:,} false interactions, but only {free:,} pairs are free")
    return taken


def _built(
    like: Interactions,
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    weights: NDArray[np.float32],
    columns: dict[str, NDArray[Any]],
    is_noise: NDArray[np.bool_],
) -> NoisyInteractions:
    columns["is_noise"] = is_noise
    assembled = assemble_matrix(users, items, like.matrix.shape, weights, columns, "error")
    matrix, columns = assembled.matrix, assembled.columns
    is_noise = columns.pop("is_noise")
    return NoisyInteractions(replace(like, matrix=matrix, columns=columns), is_noise)


def _known(clean: Interactions) -> Pairs:
    """The pairs that are observed or held out, sorted."""
    pairs = clean.user_codes.astype(np.int64) * clean.n_items + clean.item_codes
    if clean.held_out is not None:
        held_out = clean.held_out.tocoo()
        others = held_out.row.astype(np.int64) * clean.n_items + held_out.col
        pairs = np.sort(np.concatenate([pairs, others]), kind="stable")  # two sorted runs: that sort merges them
    return pairs


def _free_of(pairs: Pairs, taken: Pairs) -> Pairs:
    return pairs[_is_free(pairs, taken)]


def _is_free(pairs: Pairs, taken: Pairs) -> NDArray[np.bool_]:
    """Which pairs are not among the taken ones, which are sorted."""
    if not len(taken):
        return np.ones(pairs.shape, dtype=bool)
    nearest = taken[np.minimum(np.searchsorted(taken, pairs), len(taken) - 1)]
    return np.asarray(nearest != pairs)


def _first_of_each(pairs: Pairs) -> Pairs:
    """Distinct pairs, in the order of their first appearance."""
    return pairs[np.sort(np.unique(pairs, return_index=True)[1])]

"""Putting known noise into clean data, so that what finds noise can be judged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from prorec._assembly import assemble
from prorec.errors import InputError, one_of
from prorec.interactions import Interactions

Kind = Literal["uniform", "popularity", "swap", "disliked"]
Pairs = NDArray[np.int64]
"""Pairs as single numbers, user · n_items + item."""

_ROUNDS = 100
_CHOICES = 3
_PATIENCE = 50  # rounds without getting any nearer
_ENUMERABLE = 20_000_000  # pairs that may be listed one by one when drawing at random no longer finds a free one


@dataclass(frozen=True, eq=False)
class NoisyInteractions:
    """Interactions with noise in them, and which of them it is."""

    interactions: Interactions
    """The clean interactions and the noise together."""
    is_noise: NDArray[np.bool_]
    """For each interaction, in the order of `interactions.matrix.data`: was it put there?"""

    def __repr__(self) -> str:
        return f"NoisyInteractions({len(self.is_noise):,} interactions, {self.is_noise.sum():,} of them noise)"


def inject_noise(interactions: Interactions, level: float, kind: Kind = "uniform", seed: int = 0) -> NoisyInteractions:
    """Add or swap in false interactions, and remember which they are.

    The number of false ones is `level` times the number of true ones, rounded. They are never put on a pair
    that is there already, nor on one that is known to be true but held out (`Interactions.held_out`: splits
    set it, `with_held_out` sets it for splits made elsewhere).

    Parameters
    ----------
    interactions : the clean data, a training part as a rule
    level : the number of false interactions, as a share of the number of true ones
    kind : {"uniform", "popularity", "swap", "disliked"}
        `uniform` adds unobserved pairs, users in proportion to their activity, items all alike. `popularity`
        does the same with items in proportion to their popularity. `swap` exchanges items between pairs of
        true interactions, so that each user and each item keeps its number of interactions; at `level` .2, a
        fifth of the true ones is gone and a false one stands for each. `disliked` adds pairs that the user
        rated below the threshold (see `Interactions.rated_at_least`).
    seed : the same seed gives the same noise

    Notes
    -----
    A false interaction weighs 1, and takes the rating and the time of a random true one of the same user, so that
    no column gives it away. (A `swap`ped one keeps those of the true one it stands for, and its weight.) Any
    other column is dropped: no value in it would be true of the noise.
    """
    one_of("kind", kind, ("uniform", "popularity", "swap", "disliked"))
    most = 1.0 if kind == "swap" else np.inf
    if not (np.isfinite(level) and 0 <= level <= most):
        raise InputError(f"level must be a finite share between 0 and {most:g} for kind={kind!r}, got {level}")
    columns = {name: values for name, values in interactions.columns.items() if name in ("rating", "timestamp")}
    clean = replace(interactions, columns=columns)
    count = round(level * len(clean))
    rng = np.random.default_rng(seed)
    if kind == "swap":
        return _swapped(clean, count, rng)
    noise = _disliked(clean, count, rng) if kind == "disliked" else _unobserved(clean, count, kind, rng)
    return _added(clean, noise, rng)


def _unobserved(clean: Interactions, count: int, kind: Kind, rng: np.random.Generator) -> Pairs:
    """`count` distinct pairs that are neither observed nor held out, drawn one after the other."""
    taken = _known(clean)
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


def _enumerated(clean: Interactions, taken: Pairs, count: int, kind: Kind, rng: np.random.Generator) -> Pairs:
    """What drawing one after the other would give, where nearly all pairs are taken: by listing the free ones.

    The pairs with the least e/w, e exponential, are a draw without replacement with probabilities in proportion
    to w.
    """
    everything = clean.n_users * clean.n_items
    free = np.empty(0, dtype=np.int64)
    if everything <= _ENUMERABLE:
        free = _free_of(np.arange(everything), taken)
    users, items = free // clean.n_items, free % clean.n_items
    weight = clean.activity[users] * (1.0 if kind == "uniform" else clean.popularity[items])
    free, weight = free[weight > 0], weight[weight > 0]
    if len(free) < count:
        raise InputError(
            f"level asks for more false interactions than there is room for: {count - len(free):,} too many"
        )
    return free[np.argsort(rng.exponential(size=len(free)) / weight)[:count]]


def _disliked(clean: Interactions, count: int, rng: np.random.Generator) -> Pairs:
    if clean.disliked is None:
        raise InputError(
            "kind='disliked' needs pairs that were rated low: keep the high ratings with "
            "Interactions.rated_at_least, or load a data set of ratings"
        )
    low = clean.disliked.tocoo()
    pool = _free_of(low.row.astype(np.int64) * clean.n_items + low.col, _known(clean))
    pool = pool[clean.activity[pool // clean.n_items] > 0]
    if count > len(pool):
        raise InputError(f"level asks for {count:,} disliked pairs, but there are only {len(pool):,}")
    return rng.choice(pool, size=count, replace=False)


def _added(clean: Interactions, noise: Pairs, rng: np.random.Generator) -> NoisyInteractions:
    users, items = (codes.astype(np.int32) for codes in np.divmod(noise, max(clean.n_items, 1)))
    like = clean.matrix.indptr[users] + (rng.random(len(users)) * clean.activity[users]).astype(np.int64)
    return _built(
        clean,
        np.concatenate([clean.user_codes, users]),
        np.concatenate([clean.item_codes, items]),
        np.concatenate([clean.matrix.data, np.ones(len(noise), dtype=np.float32)]),
        {name: np.concatenate([values, values[like]]) for name, values in clean.columns.items()},
        np.repeat([False, True], [len(clean), len(noise)]),
    )


def _swapped(clean: Interactions, count: int, rng: np.random.Generator) -> NoisyInteractions:
    """Exchange the items of `count` true interactions among themselves, so that none is true any more."""
    taken = _known(clean)
    for _ in range(_CHOICES):
        chosen = rng.choice(len(clean), size=count, replace=False)
        items = _exchanged(clean.user_codes[chosen], clean.item_codes[chosen], clean.n_items, taken, rng)
        if items is not None:
            break
    else:
        raise InputError(
            f"no way was found to swap {count:,} of {len(clean):,} interactions onto pairs that are free: "
            "lower the level"
        )
    is_noise = np.zeros(len(clean), dtype=bool)
    is_noise[chosen] = True
    swapped = clean.item_codes.copy()
    swapped[chosen] = items
    kept = clean.select(~is_noise)  # knows the swapped ones as held out
    return _built(kept, clean.user_codes, swapped, clean.matrix.data, dict(clean.columns), is_noise)


def _exchanged(
    users: NDArray[np.int32], items: NDArray[np.int32], n_items: int, taken: Pairs, rng: np.random.Generator
) -> NDArray[np.int32] | None:
    """Items dealt out anew among the users, none on a taken pair and no pair twice; None if that fails.

    They are shuffled, and then each one that fell badly changes places with a random other one wherever that
    leaves both well.
    """
    items = rng.permutation(items)
    base = users.astype(np.int64) * n_items
    least_bad, since = len(items) + 1, 0
    while since < _PATIENCE:
        pairs = base + items
        bad = ~_is_free(pairs, taken)
        bad[np.setdiff1d(np.arange(len(pairs)), np.unique(pairs, return_index=True)[1])] = True
        if not bad.any():
            return items
        since = 0 if bad.sum() < least_bad else since + 1
        least_bad = min(least_bad, bad.sum())
        one = np.flatnonzero(bad)
        other = rng.permutation(len(pairs))[: len(one)]
        # No position takes part in two exchanges at once.
        first = np.zeros(2 * len(one), dtype=bool)
        first[np.unique(np.stack([one, other], axis=1), return_index=True)[1]] = True
        alone = first.reshape(-1, 2).all(axis=1)
        one, other = one[alone], other[alone]
        well = _is_free(base[one] + items[other], taken) & _is_free(base[other] + items[one], taken)
        one, other = one[well], other[well]
        items[one], items[other] = items[other], items[one]
    return None


def _built(
    like: Interactions,
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    weights: NDArray[np.float32],
    columns: dict[str, NDArray[Any]],
    is_noise: NDArray[np.bool_],
) -> NoisyInteractions:
    columns["is_noise"] = is_noise
    matrix, columns = assemble(users, items, like.matrix.shape, weights, columns, "error")
    is_noise = columns.pop("is_noise")
    return NoisyInteractions(replace(like, matrix=matrix, columns=columns), is_noise)


def _known(clean: Interactions) -> Pairs:
    """The pairs that are observed or held out, sorted."""
    pairs = clean.user_codes.astype(np.int64) * clean.n_items + clean.item_codes
    if clean.held_out is not None:
        held_out = clean.held_out.tocoo()
        pairs = np.union1d(pairs, held_out.row.astype(np.int64) * clean.n_items + held_out.col)
    return pairs


def _free_of(pairs: Pairs, taken: Pairs) -> Pairs:
    return pairs[_is_free(pairs, taken)]


def _is_free(pairs: Pairs, taken: Pairs) -> NDArray[np.bool_]:
    """Which pairs are not among the taken ones, which are sorted."""
    if not len(taken):
        return np.ones(len(pairs), dtype=bool)
    nearest = taken[np.minimum(np.searchsorted(taken, pairs), len(taken) - 1)]
    return np.asarray(nearest != pairs)


def _first_of_each(pairs: Pairs) -> Pairs:
    """Distinct pairs, in the order of their first appearance."""
    return pairs[np.sort(np.unique(pairs, return_index=True)[1])]

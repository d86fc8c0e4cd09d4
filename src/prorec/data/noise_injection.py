"""Injection of known noise into clean interactions, so that methods that find noise can be evaluated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import check_choice, check_float
from prorec._core.errors import InputError
from prorec._core.random import make_generator
from prorec.data.account_injection import ACCOUNT_KINDS, AccountKind, inject_accounts
from prorec.data.noisy_interactions import NoisyInteractions, assemble_noisy
from prorec.interactions import Interactions
from prorec.interactions.interactions import check_interactions

NoiseKind = Literal["uniform", "popularity", "swap", "disliked"] | AccountKind
"""Kinds of noise that `inject_noise` makes."""
Pairs = NDArray[np.int64]
"""Pairs as single numbers, user · n_items + item."""

_MAX_ROUNDS = 100  # of drawing, and of swapping without progress
_MAX_ENUMERATED = 5_000_000_000  # pairs that may be enumerated if draws hardly find a free one
_BLOCK = 4_000_000  # pairs enumerated at a time


def inject_noise(
    interactions: Interactions, ratio: float, kind: NoiseKind = "uniform", seed: int = 0
) -> NoisyInteractions:
    """Add false interactions or whole accounts, or swap interactions, and mark them.

    Noise is never put on an observed pair, nor on a held-out one. Splits set `Interactions.held_out`; `with_held_out`
    sets it for splits made elsewhere.

    Parameters
    ----------
    interactions : Interactions
        Clean interactions, usually a training part.
    ratio : float
        Number of false interactions for each true one; for kinds that add accounts, of accounts for each user.
    kind : str, default "uniform"
        "uniform" adds unobserved pairs: users in proportion to activity, items with equal probability. "popularity"
        draws items in proportion to popularity instead. "swap" exchanges items between pairs of true interactions,
        so that users keep their activity and items their popularity; a ratio of 0.2 replaces a fifth of the true
        ones. "disliked" adds pairs that the user rated below the threshold of `Interactions.filter_by_rating`.

        The other kinds add accounts. "bots" click more than 99% of the users do, up to 95% of the catalogue, drawn
        with equal probability. "tests" click the same few items, or walk through the catalogue in its order.
        "random-attack", "average-attack" and "bandwagon-attack" push one unpopular item: each account clicks it and
        fillers, which are drawn with equal probability, by popularity, or are a quarter the most popular items and
        otherwise drawn with equal probability. "bursts" are average attacks within a thousandth of the log's duration.
        "clones" copy the history of a random user and replace a tenth of it.
    seed : int, default 0
        The same seed gives the same noise.

    Returns
    -------
    NoisyInteractions

    Raises
    ------
    InputError
        If there are not enough free or disliked pairs.

    Notes
    -----
    Only the pair tells a false interaction from a true one. It has the weight and the rating of a random true
    interaction of the same user, and a time between two consecutive ones. A swapped one has all three of the true one
    that it replaces. Other columns are dropped, because no value in them would be true of the noise.

    Bots and test accounts click at regular times, bursts at one time, and other accounts at times of a random user.
    Attackers have as many fillers as random users of at least the median activity have interactions.

    References
    ----------
    Mobasher et al. (2007), Toward Trustworthy Recommender Systems, for the attacks, with clicks in place of ratings.

    Examples
    --------
    >>> from prorec.data.registry import load_dataset
    >>> inject_noise(load_dataset("cinema"), 0.2, "uniform", seed=0)
    NoisyInteractions(62,104 interactions, 10,351 of them noise)
    """
    check_choice("kind", kind, ("uniform", "popularity", "swap", "disliked", *ACCOUNT_KINDS))
    ratio = check_float("ratio", ratio, 0, 1) if kind == "swap" else check_float("ratio", ratio, 0)
    check_interactions("interactions", interactions)
    columns = {name: values for name, values in interactions.columns.items() if name in ("rating", "timestamp")}
    clean = replace(interactions, columns=columns)
    rng = make_generator(seed)
    if kind in ACCOUNT_KINDS:
        return inject_accounts(clean, ratio, kind, rng)
    count = round(min(ratio * len(clean), 1e18))
    if kind == "swap":
        return _swap_items(clean, count, rng)
    noise = _draw_disliked(clean, count, rng) if kind == "disliked" else _draw_unobserved(clean, count, kind, rng)
    return _add_noise(clean, noise, rng)


def _draw_unobserved(clean: Interactions, count: int, kind: NoiseKind, rng: np.random.Generator) -> Pairs:
    """Draw distinct pairs that are neither observed nor held out."""
    taken = _find_taken(clean, count)
    noise = np.empty(0, dtype=np.int64)
    for _ in range(_MAX_ROUNDS):
        missing = count - len(noise)
        if missing <= 0:
            break
        n_draws = missing + missing // 4 + 16
        # The user of a random interaction is a draw in proportion to activity, its item one by popularity.
        users = clean.user_codes[rng.integers(len(clean), size=n_draws)].astype(np.int64)
        if kind == "uniform":
            items = rng.integers(clean.n_items, size=n_draws)
        else:
            items = clean.item_codes[rng.integers(len(clean), size=n_draws)].astype(np.int64)
        pairs = users * clean.n_items + items
        noise = _drop_repeats(np.concatenate([noise, pairs[_are_free(pairs, taken)]]))
    if len(noise) < count:
        taken = np.sort(np.concatenate([taken, noise]))
        noise = np.concatenate([noise, _draw_by_enumeration(clean, taken, count - len(noise), kind, rng)])
    return noise[:count]


def _draw_by_enumeration(
    clean: Interactions, taken: Pairs, count: int, kind: NoiseKind, rng: np.random.Generator
) -> Pairs:
    """Draw pairs from a list of all free ones, if single draws hardly find a free one.

    The pairs with the smallest e/w, where e is exponential, are a draw without replacement with probabilities in
    proportion to w (Efraimidis and Spirakis 2006). Only one block of users and the smallest so far are in memory.
    """
    activity, popularity = clean.activity, clean.popularity
    active = np.flatnonzero(activity)
    if len(active) * clean.n_items > _MAX_ENUMERATED:
        raise InputError(
            f"ratio asks for too many false interactions: {count:,} of them found no free pair by random draws, and "
            "the pairs are too many to enumerate. Lower the ratio"
        )
    smallest, smallest_key = np.empty(0, dtype=np.int64), np.empty(0)
    step = max(1, _BLOCK // clean.n_items)
    for start in range(0, len(active), step):
        users = active[start : start + step, None].astype(np.int64)
        pairs = (users * clean.n_items + np.arange(clean.n_items)).ravel()
        pairs = pairs[_are_free(pairs, taken)]
        weight = activity[pairs // clean.n_items].astype(np.float64)
        if kind == "popularity":
            weight *= popularity[pairs % clean.n_items]
        pairs, weight = pairs[weight > 0], weight[weight > 0]
        smallest = np.concatenate([smallest, pairs])
        smallest_key = np.concatenate([smallest_key, rng.exponential(size=len(pairs)) / weight])
        order = np.argsort(smallest_key)[:count]
        smallest, smallest_key = smallest[order], smallest_key[order]
    if len(smallest) < count:
        raise InputError(
            f"ratio asks for {count - len(smallest):,} false interactions more than pairs are free. Lower the ratio"
        )
    return smallest


def _draw_disliked(clean: Interactions, count: int, rng: np.random.Generator) -> Pairs:
    """Draw distinct pairs that active users rated low."""
    if clean.disliked is None:
        raise InputError(
            "kind='disliked' needs pairs that were rated low: keep the high ratings with "
            "Interactions.filter_by_rating, or load a data set of ratings"
        )
    pairs = _to_pairs(clean.disliked, clean.n_items)
    pairs = pairs[_are_free(pairs, _taken_pairs(clean))]
    pairs = pairs[clean.activity[pairs // clean.n_items] > 0]
    if count > len(pairs):
        raise InputError(f"ratio asks for {count:,} disliked pairs, but there are only {len(pairs):,}. Lower the ratio")
    return rng.choice(pairs, size=count, replace=False)


def _add_noise(clean: Interactions, noise: Pairs, rng: np.random.Generator) -> NoisyInteractions:
    """Add pairs, with weights, ratings and times like those of the user's true interactions."""
    users, items = (codes.astype(np.int32) for codes in np.divmod(noise, max(clean.n_items, 1)))
    model = clean.matrix.indptr[users] + (rng.random(len(users)) * clean.activity[users]).astype(np.int64)
    noise_columns = {name: values[model] for name, values in clean.columns.items()}
    if "timestamp" in clean.columns:
        noise_columns["timestamp"] = _draw_times(clean, users, rng)
    return assemble_noisy(
        clean,
        np.concatenate([clean.user_codes, users]),
        np.concatenate([clean.item_codes, items]),
        np.concatenate([clean.matrix.data, clean.matrix.data[model]]),
        {name: np.concatenate([values, noise_columns[name]]) for name, values in clean.columns.items()},
        np.repeat([False, True], [len(clean), len(noise)]),
    )


def _draw_times(clean: Interactions, users: NDArray[np.int32], rng: np.random.Generator) -> NDArray[Any]:
    """Draw a time between two consecutive ones of each user, so that times are as bunched as the true ones."""
    times = clean.columns["timestamp"]
    times = times[np.lexsort([times, clean.user_codes])]
    n_gaps = np.maximum(clean.activity[users] - 1, 1)
    before = clean.matrix.indptr[users] + (rng.random(len(users)) * n_gaps).astype(np.int64)
    after = np.minimum(before + 1, clean.matrix.indptr[users + 1] - 1)
    delay = (times[after] - times[before]).astype(np.float64) * rng.random(len(users))
    if times.dtype.kind == "f":
        return np.asarray(times[before] + delay)
    return np.asarray(times[before] + delay.astype(np.int64).astype((times[:0] - times[:0]).dtype))


def _swap_items(clean: Interactions, count: int, rng: np.random.Generator) -> NoisyInteractions:
    """Exchange items between pairs of interactions until `count` of them are false.

    Each round draws disjoint pairs of interactions. Two exchange their items if both new pairs are free. A true and a
    false one may exchange, too, which makes one more false.
    """
    taken = _find_taken(clean, count)
    user_base = clean.user_codes.astype(np.int64) * clean.n_items
    items = clean.item_codes.copy()
    is_noise = np.zeros(len(clean), dtype=bool)
    n_failures = 0
    while missing := count - np.count_nonzero(is_noise):
        if n_failures == _MAX_ROUNDS:
            raise InputError(
                f"{count:,} of {len(clean):,} interactions could not be swapped onto free pairs; only "
                f"{count - missing:,} could be. Lower the ratio"
            )
        noise = np.sort(user_base[is_noise] + items[is_noise])
        drawn = _drop_repeats(rng.integers(len(clean), size=4 * missing + 64))
        half = len(drawn) // 2
        one, other = drawn[:half], drawn[half : 2 * half]
        new = np.stack([user_base[one] + items[other], user_base[other] + items[one]])
        gain = 2 - (is_noise[one].astype(np.int64) + is_noise[other])
        is_first = np.zeros(new.size, dtype=bool)
        is_first[np.unique(new, return_index=True)[1]] = True
        is_free = _are_free(new, taken) & _are_free(new, noise) & is_first.reshape(new.shape)
        is_valid = (gain > 0) & is_free.all(axis=0)
        if missing == 1:
            is_valid &= gain == 1
        is_valid &= np.cumsum(np.where(is_valid, gain, 0)) <= missing
        one, other = one[is_valid], other[is_valid]
        items[one], items[other] = items[other], items[one]
        is_noise[one] = is_noise[other] = True
        n_failures = 0 if len(one) else n_failures + 1
    remaining = clean.select(~is_noise, hold_out_rest=True)
    return assemble_noisy(remaining, clean.user_codes, items, clean.matrix.data, dict(clean.columns), is_noise)


def _find_taken(clean: Interactions, count: int) -> Pairs:
    """Return the taken pairs, or refuse more noise than active users have free pairs."""
    taken = _taken_pairs(clean)
    is_active = clean.activity > 0
    n_taken = int(np.count_nonzero(is_active[taken // max(clean.n_items, 1)]))
    n_free = int(is_active.sum()) * clean.n_items - n_taken
    if count > n_free:
        raise InputError(f"ratio asks for {count:,} false interactions, but only {n_free:,} pairs are free: lower it")
    return taken


def _taken_pairs(clean: Interactions) -> Pairs:
    """Return the observed and held-out pairs, sorted."""
    observed = clean.user_codes.astype(np.int64) * clean.n_items + clean.item_codes
    if clean.held_out is None:
        return observed
    held_out = _to_pairs(clean.held_out, clean.n_items)
    return np.sort(np.concatenate([observed, held_out]), kind="stable")  # merges the two sorted halves


def _to_pairs(matrix: Any, n_items: int) -> Pairs:
    entries = matrix.tocoo()
    return np.asarray(entries.row.astype(np.int64) * n_items + entries.col)


def _are_free(pairs: Pairs, taken: Pairs) -> NDArray[np.bool_]:
    """Return which pairs are not among sorted taken ones."""
    if not len(taken):
        return np.ones(pairs.shape, dtype=bool)
    nearest = taken[np.minimum(np.searchsorted(taken, pairs), len(taken) - 1)]
    return np.asarray(nearest != pairs)


def _drop_repeats(pairs: Pairs) -> Pairs:
    """Return distinct pairs in the order of their first appearance."""
    return pairs[np.sort(np.unique(pairs, return_index=True)[1])]

"""Audit of flags: draw flagged interactions for a person to look at, and use the verdicts.

A verdict is `noise` (or `yes`) or `genuine` (or `no`). An empty verdict means that nobody looked at the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.special import expit, logit

from prorec._core.checks import check_array, check_int, safe_repr
from prorec._core.errors import InputError, RowError
from prorec._core.random import make_generator
from prorec.interactions import Interactions
from prorec.interactions.columns import choose_columns
from prorec.interactions.ids import Ids, find_positions
from prorec.interactions.tables import read_frame, to_arrow_column
from prorec.noise.flag_error_bound import bound_wrong_share

DEFAULT_SAMPLE_SIZE = 29
"""The smallest sample without a wrong flag that bounds the share of wrong flags below 10% with 95% confidence."""
PRIOR_VERDICTS = 10
"""Weight of the fitted probabilities in `recalibrate`, as a number of verdicts that agree with them."""
_MEANINGS = {"noise": True, "yes": True, "genuine": False, "no": False}
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


@dataclass(frozen=True, eq=False)
class Verdicts:
    """Verdicts of a person on interactions of a log."""

    positions: NDArray[np.int64]
    """Positions of the interactions with a verdict, in `interactions.matrix.data`; each occurs once."""
    is_noise: NDArray[np.bool_]
    """Whether each of them is noise."""
    is_drawn: NDArray[np.bool_]
    """Whether each of them is part of the random sample. The person may have chosen the others."""
    skipped: NDArray[np.int64]
    """Positions of drawn interactions that have no verdict although a later one of the sample has."""


@dataclass(frozen=True)
class FlagAudit:
    """Result of an audit: counts of the random sample, and a bound for all flags."""

    n_flagged: int
    """Number of flagged interactions."""
    n_checked: int
    """Number of flagged interactions in the random sample that were looked at or skipped."""
    n_wrong: int
    """Number of these that are genuine or were skipped. A skipped row counts as wrong, so that the bound holds."""
    n_skipped: int
    """Number of these that were skipped."""
    bound: float
    """Upper bound of the share of wrong flags, with 95% confidence."""

    def __str__(self) -> str:
        if not self.n_checked:
            return "No flagged row of a random sample has a verdict, so nothing is known of the share of wrong flags."
        wrong = "none wrong" if not self.n_wrong else f"{self.n_wrong:,} wrong"
        skipped = f" ({self.n_skipped:,} skipped, counted as wrong)" if self.n_skipped else ""
        looked = f"{self.n_checked:,} of {self.n_flagged:,} flagged rows looked at, {wrong}{skipped}"
        if self.n_checked == self.n_flagged:
            return f"{looked}: {self.bound:.1%} of the flags are wrong."
        # Rounded up, because a bound that is rounded down does not hold.
        percent = np.ceil(1000 * self.bound - 1e-9) / 10
        return f"{looked}: at most {percent:.1f}% of the flags are wrong, with 95% confidence."


def draw_flagged(flagged: Any, n: int = DEFAULT_SAMPLE_SIZE, *, seed: int = 0) -> NDArray[np.int64]:
    """Draw flagged interactions at random, for a person to look at.

    Parameters
    ----------
    flagged : array of bool
        Whether each interaction is flagged.
    n : int, default 29
        Number of interactions to draw; all flagged ones if there are fewer.
    seed : int, default 0
        Seed of the draw.

    Returns
    -------
    array of int
        Positions of the drawn interactions, in random order. The beginning of a sample is a smaller sample.

    Raises
    ------
    InputError
        If nothing is flagged, or an argument is not usable.

    Examples
    --------
    >>> sorted(draw_flagged([True, False, True, True], n=3).tolist())
    [0, 2, 3]
    """
    check_int("n", n, 1)
    check_int("seed", seed, 0)
    positions = np.flatnonzero(_check_flags(flagged))
    if not len(positions):
        raise InputError("no interaction is flagged, so there is nothing to look at")
    return np.asarray(make_generator(seed).permutation(positions)[:n])


def read_verdicts(
    table: Any, interactions: Interactions, *, user_col: str | None = None, item_col: str | None = None
) -> Verdicts:
    """Read a person's verdicts from a table.

    Parameters
    ----------
    table : pandas, polars or pyarrow table
        With the ids of users and items and a column `verdict` (or `prorec_verdict`) of `noise`, `genuine`, `yes`, `no`
        or nothing. A column `drawn`, of `true` or `false`, tells the rows of a random sample from rows that the person
        chose; without it, all rows are a random sample.
    interactions : Interactions
        The log. Ids are compared as text.
    user_col, item_col : str, optional
        Names of the columns of ids; by default they are found by their usual names.

    Returns
    -------
    Verdicts
        Equal verdicts on one interaction count once.

    Raises
    ------
    InputError
        If a column is missing, a row is not in the log, a verdict has another value, two verdicts on one interaction
        contradict each other, or there is no verdict at all.

    Examples
    --------
    >>> log = Interactions.from_table(pa.table({"user": ["ann", "bob"], "item": ["tea", "tea"]}))
    >>> read_verdicts(pa.table({"user": ["bob"], "item": ["tea"], "verdict": ["noise"]}), log).is_noise
    array([ True])
    """
    frame = read_frame(table)
    names = [str(name) for name in frame.columns]
    chosen = choose_columns(names, {"user": user_col, "item": item_col}, roles=("user", "item"))
    verdict_names = [name for name in ("prorec_verdict", "verdict") if name in names]
    if not verdict_names:
        raise InputError(f"there is no column 'verdict'; the columns are {', '.join(map(repr, names))}")
    verdicts = [_parse(_MEANINGS, text, "verdict", row) for row, text in enumerate(_texts(frame, verdict_names[0]))]
    drawn: list[bool | None] = [True] * len(frame)
    if "drawn" in names:
        meanings = {"true": True, "false": False}
        drawn = [_parse(meanings, text, "value of 'drawn'", row) for row, text in enumerate(_texts(frame, "drawn"))]
    if all(verdict is None for verdict in verdicts):
        raise InputError("no row has a verdict; write noise or genuine (or yes or no) into the column 'verdict'")
    positions = _find_pairs(interactions, *(to_arrow_column(frame, chosen[role], role) for role in ("user", "item")))
    first_row: dict[int, int] = {}
    for row, (position, verdict) in enumerate(zip(positions.tolist(), verdicts, strict=True)):
        if verdict is None:
            continue
        earlier = first_row.setdefault(position, row)
        if verdicts[earlier] != verdict:
            raise RowError(f"this verdict contradicts that of row {earlier} on the same user and item", row)
    rows = np.array(list(first_row.values()))
    last = max((row for row in range(len(positions)) if drawn[row] and verdicts[row] is not None), default=0)
    is_drawn_pair = {int(positions[row]) for row in range(len(positions)) if drawn[row]}
    skipped = {int(positions[row]) for row in range(last) if drawn[row]} - set(first_row)
    return Verdicts(
        positions[rows],
        np.array([bool(verdicts[row]) for row in rows]),
        np.array([int(positions[row]) in is_drawn_pair for row in rows]),
        np.array(sorted(skipped), dtype=np.int64),
    )


def audit_flags(verdicts: Verdicts, flagged: Any) -> FlagAudit:
    """Bound the share of wrong flags by verdicts on a random sample of the flags.

    Parameters
    ----------
    verdicts : Verdicts
        Verdicts; only those on drawn interactions count, and all of these must be flagged.
    flagged : array of bool
        Whether each interaction was flagged when the sample was drawn.

    Returns
    -------
    FlagAudit

    Raises
    ------
    InputError
        If the flags are not an array of yes and no, or a drawn interaction is not flagged.

    Examples
    --------
    >>> flagged = np.arange(2000) < 1000
    >>> drawn = draw_flagged(flagged)
    >>> verdicts = Verdicts(drawn, np.full(29, True), np.full(29, True), np.empty(0, dtype=int))
    >>> print(audit_flags(verdicts, flagged))
    29 of 1,000 flagged rows looked at, none wrong: at most 9.6% of the flags are wrong, with 95% confidence.
    """
    flags = _check_flags(flagged)
    counts, n_skipped = verdicts.is_drawn, len(verdicts.skipped)
    n_unflagged = int(np.sum(~flags[verdicts.positions[counts]])) + int(np.sum(~flags[verdicts.skipped]))
    if n_unflagged:  # without the wrong flags that an earlier audit removed, the bound would be too low
        raise InputError(
            f"{n_unflagged:,} rows of the random sample are not flagged; give the flags from which the sample was "
            "drawn, and write false into a column 'drawn' for rows that were not drawn from them"
        )
    n_flagged, n_checked = int(flags.sum()), int(counts.sum()) + n_skipped
    n_wrong = int((counts & ~verdicts.is_noise).sum()) + n_skipped
    return FlagAudit(n_flagged, n_checked, n_wrong, n_skipped, bound_wrong_share(n_checked, n_wrong, n_flagged))


def recalibrate(noise_probability: Any, verdicts: Verdicts, flagged: Any) -> NDArray[np.float32]:
    """Adjust noise probabilities to verdicts on a random sample of the flags.

    One number δ is added to the log-odds of every probability. It solves Σ y + m·p̄ = (n + m)/n · Σ σ(logit p + δ) over
    the n drawn and flagged interactions with a verdict y, where p̄ is the mean of their p: the maximum likelihood with a
    conjugate prior that is worth m = 10 verdicts which agree with the probabilities. Few verdicts change little. The
    shift follows from the flagged interactions, and is right for the others if the noise rate alone was wrong.
    Interactions with a verdict get the probability 1 or 0.

    Parameters
    ----------
    noise_probability : array
        Noise probability of each interaction.
    verdicts : Verdicts
        Verdicts of a person.
    flagged : array of bool
        Whether each interaction was flagged when the sample was drawn.

    Returns
    -------
    array of float32

    Raises
    ------
    InputError
        If the arrays do not fit together.

    Examples
    --------
    >>> verdicts = Verdicts(np.array([0, 1]), np.array([True, False]), np.array([True, True]), np.empty(0, dtype=int))
    >>> recalibrate([0.9, 0.9, 0.9, 0.1], verdicts, [True, True, True, False]).round(2)
    array([1.  , 0.  , 0.83, 0.06], dtype=float32)
    """
    probability = check_array("noise_probability", noise_probability).astype(np.float64)
    flags = _check_flags(flagged)
    if probability.shape != flags.shape:
        raise InputError(f"noise_probability has {len(probability)} values, but flagged has {len(flags)}")
    if not ((probability >= 0) & (probability <= 1)).all():
        raise InputError("noise_probability must be from 0 to 1")
    counts = verdicts.is_drawn & flags[verdicts.positions]
    # A probability of exactly 0 or 1 could not be shifted.
    log_odds = logit(np.clip(probability, 1e-6, 1 - 1e-6))
    if counts.any():
        probability = expit(log_odds + _fit_shift(log_odds[verdicts.positions[counts]], verdicts.is_noise[counts]))
    probability[verdicts.positions] = verdicts.is_noise
    return probability.astype(np.float32)


def _fit_shift(log_odds: NDArray[np.float64], is_noise: NDArray[np.bool_]) -> float:
    """Return the δ at which the mean probability is the mean of verdicts and prior."""
    from scipy.optimize import brentq  # slow to import

    n, prior_mean = len(log_odds), expit(log_odds).mean()
    target = (is_noise.sum() + PRIOR_VERDICTS * prior_mean) / (n + PRIOR_VERDICTS)
    # The target is strictly between 0 and 1, and beyond these shifts all probabilities are 0 or 1.
    return float(brentq(lambda shift: expit(log_odds + shift).mean() - target, -60, 60))


def _find_pairs(interactions: Interactions, users: pa.ChunkedArray, items: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the position of each pair among the interactions; refuse pairs that are not there."""
    columns = {"user": (interactions.users, users), "item": (interactions.items, items)}
    codes = {role: _find_ids(ids, wanted, role) for role, (ids, wanted) in columns.items()}
    positions = np.full(len(users), -1, dtype=np.int64)
    is_known = (codes["user"] >= 0) & (codes["item"] >= 0)
    positions[is_known] = interactions.pair_positions(codes["user"][is_known], codes["item"][is_known])
    for row in np.flatnonzero(positions < 0):
        user, item = users[int(row)].as_py(), items[int(row)].as_py()
        raise RowError(f"user {safe_repr(user)} with item {safe_repr(item)} is not in the log", int(row))
    return positions


def _find_ids(ids: Ids, wanted: pa.ChunkedArray, role: str) -> NDArray[np.int64]:
    """Return the position of each id, compared as text; the apostrophe before a formula sign may be there or not."""
    if wanted.null_count:
        raise RowError(f"the {role} id is missing", int(pc.index(pc.is_null(wanted), True).as_py()))
    texts = ids if ids.dtype == object else ids.astype(str).astype(object)
    names = [str(each) for each in wanted.to_pylist()]
    codes = find_positions(texts, names, role)
    plain = [name[1:] if name[:1] == "'" and name[1:].strip(" ")[:1] in _FORMULA_SIGNS else name for name in names]
    return np.where(codes >= 0, codes, find_positions(texts, plain, role))


def _texts(frame: Any, name: str) -> list[str]:
    """Return a column as texts in lower case without surrounding space; "" for a missing value."""
    return ["" if value is None or value != value else str(value).strip().lower() for value in frame[name].to_list()]


def _parse(meanings: dict[str, bool], text: str, what: str, row: int) -> bool | None:
    """Return the meaning of a text, or None if it is empty."""
    if text and text not in meanings:
        raise RowError(f"the {what} must be {', '.join(meanings)} or empty; got {safe_repr(text)}", row)
    return meanings.get(text)


def _check_flags(flagged: Any) -> NDArray[np.bool_]:
    flags = check_array("flagged", flagged)
    if flags.dtype != bool or flags.ndim != 1:
        raise InputError(f"flagged must be an array of bool, one for each interaction; got {flags.dtype}")
    return flags

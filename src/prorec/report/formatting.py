"""Numbers, times and names as texts for sentences, tables and axes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

_DATE_LIMITS = -62_135_596_800, 253_402_300_799  # years 1 and 9999: the dates that datetime can write
_EPOCH_LIMITS = 631_152_000, 4_102_444_800  # years 1990 and 2100: numbers between them are taken for epoch seconds


def format_percent(part: float, total: float = 1.0) -> str:
    """Return a share in percent, with the digits that matter.

    Parameters
    ----------
    part : float
        Numerator.
    total : float, default 1.0
        Denominator; 0 gives 0%.

    Returns
    -------
    str
        Never 0% or 100% for a share that is not exactly that.

    Examples
    --------
    >>> [format_percent(share) for share in (0.0724, 0.623, 0.9999, 0, 1e-9)]
    ['7.2%', '62%', '99.99%', '0%', 'less than 0.01%']
    >>> format_percent(3, 4_000)
    '0.075%'
    """
    value = min(100 * part / total, 100.0) if total else 0.0  # a sum of shares may exceed 1 by a rounding error
    if value in (0, 100):
        return f"{value:.0f}%"
    if value < 0.01:
        return "less than 0.01%"
    if value < 1:
        return f"{float(f'{value:.2g}'):g}%"
    if value > 99:
        return f"{100 - float(f'{100 - value:.1g}'):.10g}%"
    return f"{value:.1f}%" if value < 10 else f"{value:.0f}%"


def format_count(number: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless the count is 1.

    >>> format_count(1, "user"), format_count(12_000, "user")
    ('1 user', '12,000 users')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_change(relative: float) -> str:
    """Return a relative change in percent, with its sign.

    >>> format_change(0.0213), format_change(-0.1)
    ('+2.1%', '−10.0%')
    """
    return f"{'−' if relative < 0 else '+'}{abs(relative):.1%}"


def format_duration(seconds: float) -> str:
    """Return a duration in the two largest units that matter.

    >>> format_duration(0.26), format_duration(75), format_duration(7300)
    ('0.3 s', '1 min 15 s', '2 h 1 min')
    """
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def format_date(seconds: float) -> str:
    """Return the day of a time in epoch seconds.

    >>> format_date(1_624_539_132)
    '24 June 2021'
    """
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment.day} {moment:%B %Y}"


def truncate(text: str, limit: int) -> str:
    """Cut a text to a number of characters, the last of which is then an ellipsis.

    >>> truncate("The Restless Bounty", 12)
    'The Restles…'
    """
    return text if len(text) <= limit else text[: max(limit - 1, 1)] + "…"


def to_epoch_seconds(times: NDArray[Any]) -> NDArray[np.float64] | None:
    """Convert times to seconds since 1970.

    Parameters
    ----------
    times : ndarray
        Dates, or numbers of seconds or milliseconds since 1970.

    Returns
    -------
    ndarray or None
        None if the values are not plausible as times: texts, missing dates, numbers outside the years 1990 to 2100.

    Examples
    --------
    >>> to_epoch_seconds(np.array(["2021-06-24"], dtype="datetime64[D]"))
    array([1.6244928e+09])
    >>> to_epoch_seconds(np.array([1, 2, 3])) is None
    True
    """
    if not len(times):
        return None
    if times.dtype.kind == "M":
        seconds = times.astype("datetime64[ms]").astype(np.int64) / 1000
        has_limits = _DATE_LIMITS[0] <= seconds.min() and seconds.max() <= _DATE_LIMITS[1]
        return seconds if has_limits and not np.isnat(times).any() else None
    if times.dtype.kind in "iuf":
        for unit in (1, 1000):
            seconds = times.astype(np.float64) / unit
            if _EPOCH_LIMITS[0] <= seconds.min() and seconds.max() < _EPOCH_LIMITS[1]:
                return seconds
    return None

# ruff: noqa: E501
"""Numbers in sentences."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

_DATES = -62_135_596_800, 253_402_300_799  # the years 1 and 9999: what a date can be written as
_SECONDS = 631_152_000, 4_102_444_800  # 1990 and 2100: a number between them is taken for seconds since 1970


def format_percent(part: float, of: float = 1.0) -> str:
    """A share in percent, with as many digits as mean something; never 0% or 100% for what is not.

    >>> format_percent(0.0724), format_percent(3, 4_000), format_percent(0.623), format_percent(0.9999), format_percent(0, 5), format_percent(1e-9)
    ('7.2%', '0.075%', '62%', '99.99%', '0%', 'less than 0.01%')
    """
    value = min(100 * part / of, 100.0) if of else 0.0  # sums of shares may be a rounding error above 1
    if value in (0, 100):
        return f"{value:.0f}%"
    if value < 0.01:
        return "less than 0.01%"
    if value < 1:
        return f"{float(f'{value:.2g}'):g}%"
    if value > 99:
        return f"{100 - float(f'{100 - value:.1g}'):.10g}%"
    return f"{value:.1f}%" if value < 10 else f"{value:.0f}%"


def format_count(number: int, one: str, more: str | None = None) -> str:
    """A count and what is counted.

    >>> format_count(1, "user"), format_count(12_000, "user"), format_count(2, "category", "categories")
    ('1 user', '12,000 users', '2 categories')
    """
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def format_change(relative: float) -> str:
    """A relative change in percent, with its sign.

    >>> format_change(0.0213), format_change(-0.1)
    ('+2.1%', '−10.0%')
    """
    return f"{'−' if relative < 0 else '+'}{abs(relative):.1%}"


def truncate(text: str, most: int) -> str:
    """At most so many letters.

    >>> truncate("The Restless Bounty", 12)
    'The Restles…'
    """
    return text if len(text) <= most else text[: max(most - 1, 1)] + "…"


def format_duration(seconds: float) -> str:
    """How long something took.

    >>> format_duration(0.26), format_duration(75), format_duration(7300)
    ('0.3 s', '1 min 15 s', '2 h 1 min')
    """
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def to_epoch_seconds(times: NDArray[Any]) -> NDArray[np.float64] | None:
    """Times as seconds since 1970, if that is what they can be: dates, or numbers of seconds or milliseconds."""
    if not len(times):
        return None
    if times.dtype.kind == "M":
        seconds = times.astype("datetime64[ms]").astype(np.int64) / 1000
        is_plausible = not np.isnat(times).any() and _DATES[0] <= seconds.min() and seconds.max() <= _DATES[1]
        return seconds if is_plausible else None
    if times.dtype.kind not in "iuf":
        return None
    for unit in (1, 1000):
        values = times.astype(np.float64) / unit
        if _SECONDS[0] <= values.min() and values.max() < _SECONDS[1]:
            return values
    return None


def format_date(seconds: float) -> str:
    """A day, in English.

    >>> format_date(1_624_539_132)
    '24 June 2021'
    """
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment.day} {moment:%B %Y}"

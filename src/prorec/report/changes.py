"""Changes since an earlier report, from the summary that the command line wrote about it."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot
from typing import Any

from prorec._core.checks import check_float, check_int, safe_repr
from prorec._core.errors import InputError
from prorec.noise.noise_rate import NoiseRateEstimate
from prorec.report.findings import Findings
from prorec.report.formatting import format_change, format_percent


@dataclass(frozen=True)
class EarlierReport:
    """The main results of an earlier report."""

    n_clicks: int
    """Number of interactions."""
    n_flagged: int
    """Number of flagged interactions."""
    noise_rate: NoiseRateEstimate | None
    """Noise rate; None if it was not estimated."""


@dataclass(frozen=True)
class Change:
    """A number before and now, as texts."""

    name: str
    """Name of the number."""
    before: str
    """Its value in the earlier report."""
    now: str
    """Its value in this one."""
    difference: str
    """The difference, with a 95% interval if there is one."""


def read_earlier_report(summary: Any) -> EarlierReport:
    """Read the summary of an earlier report.

    Parameters
    ----------
    summary : Any
        What `prorec report --json` printed, parsed.

    Returns
    -------
    EarlierReport

    Raises
    ------
    InputError
        If it is not such a summary.
    """
    try:
        rate = summary["noise_rate"]
        n = check_int("interactions", summary["interactions"], 1)
        n_flagged = check_int("flagged_pairs", summary["flagged_pairs"], 0, n)
        if rate is not None:
            ends = {name: check_float(name, rate[name], 0, 1) for name in ("estimate", "low", "high")}
            rate = NoiseRateEstimate(**ends, is_identified=bool(rate["is_identified"]))
    except (TypeError, KeyError) as error:
        raise InputError(
            f"an earlier report must be what prorec report --json printed; got {safe_repr(summary)} ({error!r}). Write "
            "it with prorec report … --json > last-week.json"
        ) from None
    return EarlierReport(n, n_flagged, rate)


def list_changes(findings: Findings, earlier: EarlierReport) -> list[Change]:
    """List what changed since an earlier report.

    Parameters
    ----------
    findings : Findings
        Results of a denoiser.
    earlier : EarlierReport
        The earlier report, of other interactions.

    Returns
    -------
    list of Change
    """
    n, n_flagged, rate = len(findings.interactions), int(findings.flagged.sum()), findings.noise_rate
    share, earlier_share = n_flagged / n, earlier.n_flagged / earlier.n_clicks
    changes = [
        Change("clicks", f"{earlier.n_clicks:,}", f"{n:,}", format_change(n / earlier.n_clicks - 1)),
        Change("flagged", format_percent(earlier_share), format_percent(share), _format_points(share - earlier_share)),
    ]
    if rate is None or earlier.noise_rate is None:
        return changes
    difference = "not known"
    if rate.is_identified and earlier.noise_rate.is_identified:
        middle, low, high = subtract_rates(rate, earlier.noise_rate)
        verdict = "no sure change" if low <= 0 <= high else "more noise" if low > 0 else "less noise"
        difference = f"{_format_points(middle)} ({_format_points(low)} to {_format_points(high)}): {verdict}"
    return [*changes, Change("noise rate", str(earlier.noise_rate), str(rate), difference)]


def subtract_rates(now: NoiseRateEstimate, before: NoiseRateEstimate) -> tuple[float, float, float]:
    """Return the difference of two noise rates, and the ends of its 95% interval.

    The interval is Newcombe's, from the intervals of both rates: the distance of an end from the difference is the root
    of the sum of the squared distances of the ends that it comes from. Both logs are taken to be independent.

    Parameters
    ----------
    now, before : NoiseRateEstimate
        Noise rates that are identified.

    Returns
    -------
    difference, low, high : float

    Examples
    --------
    >>> now, before = NoiseRateEstimate(0.10, low=0.07, high=0.14), NoiseRateEstimate(0.05, low=0.02, high=0.09)
    >>> [round(each, 4) for each in subtract_rates(now, before)]
    [0.05, 0.0, 0.1]
    """
    difference = now.estimate - before.estimate
    below = hypot(now.estimate - now.low, before.high - before.estimate)
    above = hypot(now.high - now.estimate, before.estimate - before.low)
    return difference, difference - below, difference + above


def _format_points(difference: float) -> str:
    """Return a difference of shares in percentage points, with its sign."""
    return f"{'−' if difference < 0 else '+'}{abs(100 * difference):.1f} points"

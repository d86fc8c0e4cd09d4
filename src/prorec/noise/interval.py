"""An estimate with what it may be off by chance; what is counted is never without that."""

from __future__ import annotations

from typing import NamedTuple, Self

from scipy.special import gammaincinv

_OUTSIDE = 0.025  # on either side


class Interval(NamedTuple):
    """An estimate and the ends of its 95% interval."""

    estimate: float
    low: float
    high: float

    def around(self, other: Self) -> Self:
        """The same estimate; its interval has the other one's in it."""
        return self._replace(low=min(self.low, other.low), high=max(self.high, other.high))


def by_counting(rate: float, expected: float) -> Interval:
    """What a rate may be if rate × expected were counted: Garwood's limits, quantiles of Γ(k) and Γ(k + 1).

    Drawing users again says nothing of what was never seen: of no clicks, there are none in any draw.

    >>> print(f"{by_counting(0.0, 100).high:.4f}")  # of none among a hundred
    0.0369
    """
    count = rate * expected
    low = float(gammaincinv(count, _OUTSIDE)) / expected if count > 1e-3 else 0.0  # of less, it is 0 to all digits
    return Interval(rate, min(low, rate), float(gammaincinv(count + 1, 1 - _OUTSIDE)) / expected)

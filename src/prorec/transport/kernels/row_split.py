"""Where a row falls apart into two levels: the exact least-squares split, without sorting the row.

Sorted in descending order, the first κ values of a row and the rest each have a mean; κ is to leave the least sum of
squared errors around those two means (Eq. 20). With m the mean of all N values and D_κ the sum of the first κ values
less κ·m, the error that a split takes away is

    gain(κ) = D_κ² · N / (κ·(N − κ)),

so κ maximises it. Three facts spare the sort:

- The threshold lies midway between the two means or above, so never below m/2: smaller values can only be in the
  lower group.
- Non-negative floats are ordered like their bit patterns, and within one power of two they are evenly spaced. So the
  leading bits of a value name a bucket, and a bucket's count and sum of trailing bits give its exact sum, in whole
  numbers: the gain at each boundary between buckets is known exactly.
- Inside a bucket the path (κ, D_κ) is concave with slopes between the bucket's edges, so it stays inside a triangle.
  The gain is convex in (κ, D), so its largest value in the triangle is at a corner: an upper bound for every split
  inside. Buckets whose bound is below the best gain known are ruled out.

What is left is a narrow span of values. It is bucketed again by its next bits, until few enough are left to sort.

Ties: equal values never part, since the gain is convex along a run of them and smallest before the first and after
the last value of the row; among equal gains the smallest κ is taken. A row of equal values has κ = 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Row = NDArray[np.float32]
Bits = NDArray[np.int32]

BUCKETS = 512  # their counts and sums stay in the fastest cache
_FEW = 128  # so many are sorted faster than bucketed again
_MANY = 1024  # a shorter row is bucketed at once
_COUNT = 40  # a bucket holds its count above this bit and the sum of trailing bits below it
_CHUNK = 1 << 17  # so many trailing parts, of at most 23 bits, cannot sum up to that bit
_TIE = 1e-13  # gains closer than this, relatively, are equal but for rounding
_ROUGH = 1e-3  # the same for gains from sums in single precision


@njit(cache=True, nogil=True)
def split_row(row: Row, total: float, spare: Bits) -> tuple[int, float]:
    """κ and the threshold, which is the κ-th largest value, of a row of finite numbers ≥ +0 and their sum.

    `spare` is room for as many numbers as the row has.
    """
    n = len(row)
    bits = row.view(np.int32)
    # Values are counted from a centre near the mean, so that nothing cancels in a row that is nearly flat.
    centre = np.float32(total / n)
    mean = np.float64(centre), (total - n * np.float64(centre)) / n
    top = _largest(bits)
    lowest = max(_bits_of(0.5 * total / n) - 1, 0)  # one step down for the rounding of the mean

    gain, kappa, edge = 0.0, 0, 0  # the best split so far; its upper group is what is ≥ edge
    above, above_sum = 0, 0.0  # of what lies above the span: how many, and their sum less as many means
    if n > _MANY:
        lowest = _raised(row, centre, mean[1], lowest, top)
    counts = np.empty(BUCKETS, dtype=np.int64)
    sums = np.empty(BUCKETS, dtype=np.int64)
    shift = _finest_shift(lowest, top)
    lowest = (lowest >> shift) << shift  # a bucket lies within one power of two if it begins at a multiple of its size
    width = _within(bits, lowest, top, spare)
    while width > _FEW:
        first = lowest >> shift
        n_buckets = (top >> shift) - first + 1
        _fill(spare[:width], first, shift, counts[:n_buckets], sums[:n_buckets])

        count, distance = above, above_sum
        for bucket in range(n_buckets - 1, -1, -1):
            if counts[bucket]:
                low = (first + bucket) << shift
                count += counts[bucket]
                distance += counts[bucket] * _less(_value(low), mean) + sums[bucket] * _spacing(low)
                gain, kappa, edge = _better(gain, kappa, edge, count, distance, n, low)

        count, distance = above, above_sum
        next_top, next_lowest = -1, -1
        for bucket in range(n_buckets - 1, -1, -1):
            if counts[bucket]:
                low = (first + bucket) << shift
                slope, spread = _less(_value(low), mean), _spacing(low) * (1 << shift)
                at_top = sums[bucket] / (1 << shift)
                bound = _bound(count, distance, at_top, slope + spread, n)
                if counts[bucket] > 1 and bound >= gain * (1 - _TIE):
                    if next_top < 0:
                        next_top = low + (1 << shift) - 1
                        above, above_sum = count, distance
                    next_lowest = low
                count += counts[bucket]
                distance += counts[bucket] * slope + sums[bucket] * _spacing(low)
        finer = _finest_shift(next_lowest, next_top)
        if next_top < 0 or shift == 0:
            width = 0
            break
        top, lowest = next_top, next_lowest
        width = _within(spare[:width], lowest, top, spare)
        if finer >= shift:  # survivors at both ends of the span: sort them
            break
        shift = finer

    left = np.sort(spare[:width])
    for place in range(width - 1, -1, -1):
        above += 1
        above_sum += _less(_value(left[place]), mean)
        if place == 0 or left[place - 1] != left[place]:
            gain, kappa, edge = _better(gain, kappa, edge, above, above_sum, n, left[place])
    if kappa == 0:  # all values are equal
        return 1, np.float64(row[0])
    return kappa, _value(_least_from(bits, edge))


@njit(cache=True, nogil=True)
def _raised(row: Row, centre: np.float32, rest: float, lowest: int, top: int) -> int:
    """Rule out what a handful of cuts can: the bits from which on the best threshold may lie.

    Most values of most rows are near the mean, the threshold far above; a few comparisons in vector registers cost
    less than putting all those values into buckets. The mean is centre + rest.
    """
    n = len(row)
    height = np.float32(_value(top)) - centre
    if height <= 0:
        return lowest
    nearest = 0.25 * np.sqrt(_squares(row, centre, np.float32(1) / height) / n)  # a quarter of a standard deviation
    cuts = np.empty(6, dtype=np.float32)  # as distances from the centre; from the top down, where the row has a tail
    for place in range(4):
        cuts[place] = height * nearest ** ((place + 1) / 4)
    cuts[4] = 0.0
    cuts[5] = np.float32(_value(lowest)) - centre
    counts, sums = _cumulated(row, centre, cuts)
    sums -= counts * rest
    best = 0.0
    for place in range(6):
        best = max(best, _gain(counts[place], sums[place], n))
    best *= 1 - _ROUGH
    last = 5
    for place in range(5, 0, -1):
        slope, upper = cuts[place] - rest, cuts[place - 1] - rest
        count, distance = counts[place - 1], sums[place - 1]
        excess = max(sums[place] - distance - (counts[place] - count) * slope, 0.0)
        at_top = min(excess / (upper - slope), counts[place] - count) if upper > slope else 0.0
        bound = _bound(count, distance, at_top, upper, n)
        # The two other corners are splits themselves.
        if max(bound, _gain(count, distance, n), _gain(counts[place], sums[place], n)) >= best:
            break
        last = place - 1
    # One step down for the rounding of centre + cut.
    return lowest if last == 5 else max(_bits_of(centre + cuts[last]) - 1, lowest)


@njit(cache=True, nogil=True)
def kth_largest(row: Row, k: int, spare: Bits) -> float:
    """The k-th largest of a row of finite numbers ≥ +0, found bucket by bucket."""
    counts = np.empty(1 << 11, dtype=np.int64)
    sums = np.empty(1 << 11, dtype=np.int64)
    spare[:] = row.view(np.int32)
    width = len(row)
    low, shift = 0, 31
    while shift > 0:
        shift = max(shift - 11, 0)
        first = low >> shift
        _fill(spare[:width], first, shift, counts, sums)
        bucket = len(counts) - 1
        while counts[bucket] < k:
            k -= counts[bucket]
            bucket -= 1
        low = (first + bucket) << shift
        width = _within(spare[:width], low, low + (1 << shift) - 1, spare)
    return _value(low)


# Sums may be taken in any order: that lets them run in vector registers.
_ANY_ORDER = {"reassoc", "contract", "nsz", "nnan", "ninf"}


@njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def sum_of(row: NDArray[Any]) -> float:
    """The sum in double precision."""
    total = 0.0
    for place in range(len(row)):
        total += row[place]
    return total


@njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def _squares(row: Row, centre: np.float32, scale: np.float32) -> float:
    """The sum of squared distances from the centre, each times the scale."""
    total = 0.0
    for begin in range(0, len(row), 4096):
        part = row[begin : begin + 4096]
        here = np.float32(0)
        for place in range(len(part)):
            distance = (part[place] - centre) * scale
            here += distance * distance
        total += np.float64(here)
    return total


@njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def _cumulated(row: Row, centre: np.float32, cuts: Row) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each of six cuts, how many values are at least so far above the centre, and the sum of their distances."""
    counts, sums = np.zeros(6), np.zeros(6)
    one, zero = np.float32(1), np.float32(0)
    t0, t1, t2, t3, t4, t5 = cuts[0], cuts[1], cuts[2], cuts[3], cuts[4], cuts[5]
    for begin in range(0, len(row), 4096):
        part = row[begin : begin + 4096]
        n0 = n1 = n2 = n3 = n4 = n5 = zero
        s0 = s1 = s2 = s3 = s4 = s5 = zero
        for place in range(len(part)):
            distance = part[place] - centre
            is_above = one if distance >= t0 else zero
            n0 += is_above
            s0 += is_above * distance
            is_above = one if distance >= t1 else zero
            n1 += is_above
            s1 += is_above * distance
            is_above = one if distance >= t2 else zero
            n2 += is_above
            s2 += is_above * distance
            is_above = one if distance >= t3 else zero
            n3 += is_above
            s3 += is_above * distance
            is_above = one if distance >= t4 else zero
            n4 += is_above
            s4 += is_above * distance
            is_above = one if distance >= t5 else zero
            n5 += is_above
            s5 += is_above * distance
        for place, (here, total) in enumerate(((n0, s0), (n1, s1), (n2, s2), (n3, s3), (n4, s4), (n5, s5))):
            counts[place] += here
            sums[place] += total
    return counts, sums


@njit(cache=True, nogil=True)
def _gain(count: float, total: float, n: int) -> float:
    return total * total * n / (count * (n - count)) if 0 < count < n else 0.0


@njit(cache=True, nogil=True)
def _bound(count: float, distance: float, at_top: float, upper: float, n: int) -> float:
    """What no split inside a bucket gains more than: the gain at the corner of its triangle.

    There, as many values as their sum allows are at the bucket's upper edge, and none of the others is in yet. The two
    other corners are the splits before and after the bucket.
    """
    corner = count + at_top
    return _gain(corner, distance + at_top * upper, n) if corner < n else np.inf


@njit(cache=True, nogil=True)
def _less(value: float, mean: tuple[float, float]) -> float:
    """Value less the mean, which comes as a number near it and the small rest."""
    return value - mean[0] - mean[1]


@njit(cache=True, nogil=True)
def _better(gain: float, kappa: int, edge: int, count: int, total: float, n: int, low: int) -> tuple[float, int, int]:
    """The better of the best split so far and the one after `count` values, all of them ≥ `low`."""
    new = _gain(count, total, n)
    if new > gain * (1 + _TIE) or (0 < gain * (1 - _TIE) <= new and count < kappa):
        return new, count, low
    return gain, kappa, edge


@njit(cache=True, nogil=True)
def _finest_shift(lowest: int, top: int) -> int:
    """How many trailing bits to leave out so that the values between fall into few enough buckets."""
    shift = 0
    while (top >> shift) - (lowest >> shift) >= BUCKETS:
        shift += 1
    return shift


@njit(cache=True, nogil=True)
def _fill(values: Bits, first: int, shift: int, counts: NDArray[np.int64], sums: NDArray[np.int64]) -> None:
    """How many values are in each bucket, and the sum of their bits below the bucket's."""
    packed = np.empty(len(counts), dtype=np.int64)
    mask = (1 << shift) - 1
    counts[:] = 0
    sums[:] = 0
    for begin in range(0, len(values), _CHUNK):
        packed[:] = 0
        # One addition for both: with two the counting takes half as long again.
        for place in range(begin, min(begin + _CHUNK, len(values))):
            value = np.int64(values[place])
            packed[np.uint64((value >> shift) - first)] += (1 << _COUNT) + (value & mask)
        for bucket in range(len(counts)):
            counts[bucket] += packed[bucket] >> _COUNT
            sums[bucket] += packed[bucket] & ((1 << _COUNT) - 1)


@njit(cache=True, nogil=True)
def _within(values: Bits, low: int, high: int, out: Bits) -> int:
    """Copy the values from low to high to the front of `out`, which may be `values`; return how many there are."""
    lowest, width = np.int32(low), np.uint32(high - low)
    count = 0
    for place in range(len(values)):  # without a branch, which would often be guessed wrong
        value = values[place]
        out[count] = value
        count += int(np.uint32(value - lowest) <= width)  # what is below wraps around to large numbers
    return count


# In whole numbers, because the compiler takes the largest of several floats one by one.
@njit(cache=True, nogil=True)
def _largest(bits: Bits) -> int:
    top = np.int32(0)
    for place in range(len(bits)):
        value = np.int32(bits[place])
        top = value if value > top else top
    return int(top)


@njit(cache=True, nogil=True)
def _least_from(bits: Bits, low: int) -> int:
    lowest = np.int32(low)
    least = np.uint32(2**32 - 1)
    for place in range(len(bits)):
        step = np.uint32(bits[place] - lowest)
        least = step if step < least else least
    return low + int(least)


@njit(cache=True, nogil=True)
def _bits_of(value: float) -> int:
    return int(np.float32(value).view(np.int32))


@njit(cache=True, nogil=True)
def _value(bits: int) -> float:
    return np.float64(np.int32(bits).view(np.float32))


@njit(cache=True, nogil=True)
def _spacing(bits: int) -> float:
    """The distance to the next float32; the same in all of a bucket, which lies within one power of two."""
    exponent = max(bits >> 23, 1) - 150
    return np.float64(np.int64((exponent + 1023) << 52).view(np.float64))

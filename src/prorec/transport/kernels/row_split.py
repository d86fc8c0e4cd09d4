"""The exact least-squares split of a row into two groups, without sorting the row (Eq. 20).

In descending order, the first κ values of a row and the rest each have a mean; κ minimizes the sum of squared errors
around these two means. With m the mean of all N values and D_κ the sum of the first κ values minus κ·m, a split reduces
the error by

    gain(κ) = D_κ² · N / (κ·(N − κ)),

so κ maximizes the gain. Three facts make a sort unnecessary:

- The threshold is at least halfway between the two means, so never below m/2. Smaller values are in the lower group.
- Non-negative floats are ordered like their bit patterns, and within one power of two they are evenly spaced. So the
  leading bits of a value give its bucket, and a bucket's count and sum of trailing bits give its exact sum, in whole
  numbers. The gain at each boundary between buckets is exact.
- Inside a bucket the path (κ, D_κ) is concave with slopes between the bucket's edges, so it stays inside a triangle.
  The gain is convex in (κ, D), so its maximum over the triangle is at a corner: an upper bound for every split inside.
  Buckets whose bound is below the best known gain are ruled out.

The remaining values span a narrow range. They are put into buckets again by their next bits, until few enough are left
to sort.

Equal values are never separated, since the gain is convex along a run of them and smallest before the first and after
the last value of the row. Among equal gains the smallest κ is taken. A row of equal values has κ = 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.compilation import njit

Row = NDArray[np.float32]
Bits = NDArray[np.int32]

BUCKETS = 512  # their counts and sums stay in the fastest cache
_MAX_SORTED = 128  # a sort of more values takes longer than another round of buckets
_MAX_SHORT = 1024  # a shorter row goes into buckets at once
_COUNT_BIT = 40  # a bucket has its count above this bit and the sum of trailing bits below it
_CHUNK = 1 << 17  # this many trailing parts, of at most 23 bits, cannot sum up to that bit
_TIE = 1e-13  # gains closer than this, relatively, are equal but for rounding
_ROUGH = 1e-3  # the same for gains from sums in single precision


@njit(cache=True, nogil=True)
def split_row(row: Row, total: float, buffer: Bits) -> tuple[int, float]:
    """Find the least-squares split of a row.

    Parameters
    ----------
    row : array of float32
        Finite numbers of at least +0.
    total : float
        Their sum.
    buffer : array of int32
        Memory for as many numbers as the row has.

    Returns
    -------
    kappa : int
        κ, the number of values in the upper group.
    threshold : float
        The κ-th largest value.
    """
    n = len(row)
    bits = row.view(np.int32)
    # Sums are of distances from a center near the mean, so that nothing cancels in a row that is nearly flat.
    center = np.float32(total / n)
    mean = np.float64(center), (total - n * np.float64(center)) / n
    top = _largest(bits)
    lowest = max(_bits_of(0.5 * total / n) - 1, 0)  # one step lower for the rounding of the mean

    gain, kappa, edge = 0.0, 0, 0  # the best split so far; its upper group is all values ≥ edge
    above, above_sum = 0, 0.0  # number of values above the range, and their sum minus as many means
    if n > _MAX_SHORT:
        lowest = _raise_lowest(row, center, mean[1], lowest, top)
    counts = np.empty(BUCKETS, dtype=np.int64)
    sums = np.empty(BUCKETS, dtype=np.int64)
    shift = _finest_shift(lowest, top)
    lowest = (lowest >> shift) << shift  # a bucket is within one power of two if it starts at a multiple of its size
    width = _within(bits, lowest, top, buffer)
    while width > _MAX_SORTED:
        first = lowest >> shift
        n_buckets = (top >> shift) - first + 1
        _fill(buffer[:width], first, shift, counts[:n_buckets], sums[:n_buckets])

        count, distance = above, above_sum
        for bucket in range(n_buckets - 1, -1, -1):
            if counts[bucket]:
                low = (first + bucket) << shift
                count += counts[bucket]
                distance += counts[bucket] * _subtract_mean(_value(low), mean) + sums[bucket] * _spacing(low)
                gain, kappa, edge = _better(gain, kappa, edge, count, distance, n, low)

        count, distance = above, above_sum
        next_top, next_lowest = -1, -1
        for bucket in range(n_buckets - 1, -1, -1):
            if counts[bucket]:
                low = (first + bucket) << shift
                slope, spread = _subtract_mean(_value(low), mean), _spacing(low) * (1 << shift)
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
        width = _within(buffer[:width], lowest, top, buffer)
        if finer >= shift:  # values are left at both ends of the range: sort them
            break
        shift = finer

    remaining = np.sort(buffer[:width])
    for i in range(width - 1, -1, -1):
        above += 1
        above_sum += _subtract_mean(_value(remaining[i]), mean)
        if i == 0 or remaining[i - 1] != remaining[i]:
            gain, kappa, edge = _better(gain, kappa, edge, above, above_sum, n, remaining[i])
    if kappa == 0:  # all values are equal
        return 1, np.float64(row[0])
    return kappa, _value(_least_from(bits, edge))


@njit(cache=True, nogil=True)
def _raise_lowest(row: Row, center: np.float32, rest: float, lowest: int, top: int) -> int:
    """Rule out low thresholds by a few cuts, and return the bits of the lowest threshold that remains.

    Most values of most rows are near the mean, and the threshold is far above. A few comparisons in vector registers
    take less time than buckets for all those values. The mean is center + rest.
    """
    n = len(row)
    height = np.float32(_value(top)) - center
    if height <= 0:
        return lowest
    nearest = 0.25 * np.sqrt(_squares(row, center, np.float32(1) / height) / n)  # a quarter of a standard deviation
    cuts = np.empty(6, dtype=np.float32)  # distances from the center, descending; the first four are in the tail
    for i in range(4):
        cuts[i] = height * nearest ** ((i + 1) / 4)
    cuts[4] = 0.0
    cuts[5] = np.float32(_value(lowest)) - center
    counts, sums = _count_above_cuts(row, center, cuts)
    sums -= counts * rest
    best = 0.0
    for i in range(6):
        best = max(best, _gain(counts[i], sums[i], n))
    best *= 1 - _ROUGH
    last = 5
    for i in range(5, 0, -1):
        slope, upper = cuts[i] - rest, cuts[i - 1] - rest
        count, distance = counts[i - 1], sums[i - 1]
        excess = max(sums[i] - distance - (counts[i] - count) * slope, 0.0)
        at_top = min(excess / (upper - slope), counts[i] - count) if upper > slope else 0.0
        bound = _bound(count, distance, at_top, upper, n)
        # The other two corners are splits themselves.
        if max(bound, _gain(count, distance, n), _gain(counts[i], sums[i], n)) >= best:
            break
        last = i - 1
    # One step lower for the rounding of center + cut.
    return lowest if last == 5 else max(_bits_of(center + cuts[last]) - 1, lowest)


@njit(cache=True, nogil=True)
def find_kth_largest(row: Row, k: int, buffer: Bits) -> float:
    """Find the k-th largest value of a row, by buckets.

    Parameters
    ----------
    row : array of float32
        Finite numbers of at least +0.
    k : int
        From 1 to the length of the row.
    buffer : array of int32
        Memory for as many numbers as the row has.

    Returns
    -------
    float
    """
    counts = np.empty(1 << 11, dtype=np.int64)
    sums = np.empty(1 << 11, dtype=np.int64)
    buffer[:] = row.view(np.int32)
    width = len(row)
    low, shift = 0, 31
    while shift > 0:
        shift = max(shift - 11, 0)
        first = low >> shift
        _fill(buffer[:width], first, shift, counts, sums)
        bucket = len(counts) - 1
        while counts[bucket] < k:
            k -= counts[bucket]
            bucket -= 1
        low = (first + bucket) << shift
        width = _within(buffer[:width], low, low + (1 << shift) - 1, buffer)
    return _value(low)


# Sums in any order run in vector registers.
_ANY_ORDER = {"reassoc", "contract", "nsz", "nnan", "ninf"}


@njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def sum_row(row: NDArray[Any]) -> float:
    """Sum a row in double precision.

    Parameters
    ----------
    row : array
        The row.

    Returns
    -------
    float
    """
    total = 0.0
    for i in range(len(row)):
        total += row[i]
    return total


@njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def _squares(row: Row, center: np.float32, scale: np.float32) -> float:
    """Sum the squares of (value − center)·scale."""
    total = 0.0
    for start in range(0, len(row), 4096):
        part = row[start : start + 4096]
        partial = np.float32(0)
        for i in range(len(part)):
            distance = (part[i] - center) * scale
            partial += distance * distance
        total += np.float64(partial)
    return total


@njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def _count_above_cuts(row: Row, center: np.float32, cuts: Row) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Count, for each of six cuts, the values at least that far above the center, and sum their distances from it."""
    counts, sums = np.zeros(6), np.zeros(6)
    one, zero = np.float32(1), np.float32(0)
    t0, t1, t2, t3, t4, t5 = cuts[0], cuts[1], cuts[2], cuts[3], cuts[4], cuts[5]
    for start in range(0, len(row), 4096):
        part = row[start : start + 4096]
        n0 = n1 = n2 = n3 = n4 = n5 = zero
        s0 = s1 = s2 = s3 = s4 = s5 = zero
        for i in range(len(part)):
            distance = part[i] - center
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
        for i, (count, total) in enumerate(((n0, s0), (n1, s1), (n2, s2), (n3, s3), (n4, s4), (n5, s5))):
            counts[i] += count
            sums[i] += total
    return counts, sums


@njit(cache=True, nogil=True)
def _gain(count: float, total: float, n: int) -> float:
    return total * total * n / (count * (n - count)) if 0 < count < n else 0.0


@njit(cache=True, nogil=True)
def _bound(count: float, distance: float, at_top: float, upper: float, n: int) -> float:
    """Bound the gain of every split inside a bucket: the gain at the third corner of its triangle.

    At that corner, as many values as their sum allows are at the bucket's upper edge, and none of the others is in the
    upper group. The other two corners are the splits before and after the bucket.
    """
    corner = count + at_top
    return _gain(corner, distance + at_top * upper, n) if corner < n else np.inf


@njit(cache=True, nogil=True)
def _subtract_mean(value: float, mean: tuple[float, float]) -> float:
    """Subtract the mean, which is given as a number near it and the small rest."""
    return value - mean[0] - mean[1]


@njit(cache=True, nogil=True)
def _better(gain: float, kappa: int, edge: int, count: int, total: float, n: int, low: int) -> tuple[float, int, int]:
    """Return the better of the best split so far and the split after `count` values, which are all ≥ `low`."""
    new = _gain(count, total, n)
    if new > gain * (1 + _TIE) or (0 < gain * (1 - _TIE) <= new and count < kappa):
        return new, count, low
    return gain, kappa, edge


@njit(cache=True, nogil=True)
def _finest_shift(lowest: int, top: int) -> int:
    """Return the number of trailing bits to drop so that the values in a range need at most `BUCKETS` buckets."""
    shift = 0
    while (top >> shift) - (lowest >> shift) >= BUCKETS:
        shift += 1
    return shift


@njit(cache=True, nogil=True)
def _fill(values: Bits, first: int, shift: int, counts: NDArray[np.int64], sums: NDArray[np.int64]) -> None:
    """Count the values in each bucket, and sum their trailing bits."""
    packed = np.empty(len(counts), dtype=np.int64)
    mask = (1 << shift) - 1
    counts[:] = 0
    sums[:] = 0
    for start in range(0, len(values), _CHUNK):
        packed[:] = 0
        # One addition for count and sum: with two, this takes 1.5 times as long.
        for i in range(start, min(start + _CHUNK, len(values))):
            value = np.int64(values[i])
            packed[np.uint64((value >> shift) - first)] += (1 << _COUNT_BIT) + (value & mask)
        for bucket in range(len(counts)):
            counts[bucket] += packed[bucket] >> _COUNT_BIT
            sums[bucket] += packed[bucket] & ((1 << _COUNT_BIT) - 1)


@njit(cache=True, nogil=True)
def _within(values: Bits, low: int, high: int, out: Bits) -> int:
    """Copy the values from low to high to the front of `out`, which may be `values`, and return their number."""
    lowest, width = np.int32(low), np.uint32(high - low)
    count = 0
    for i in range(len(values)):  # without a branch, which would often be mispredicted
        value = values[i]
        out[count] = value
        count += int(np.uint32(value - lowest) <= width)  # values below wrap around to large numbers
    return count


# On whole numbers, because the compiler does not vectorize the maximum of floats.
@njit(cache=True, nogil=True)
def _largest(bits: Bits) -> int:
    top = np.int32(0)
    for i in range(len(bits)):
        value = np.int32(bits[i])
        top = value if value > top else top
    return int(top)


@njit(cache=True, nogil=True)
def _least_from(bits: Bits, low: int) -> int:
    lowest = np.int32(low)
    least = np.uint32(2**32 - 1)
    for i in range(len(bits)):
        step = np.uint32(bits[i] - lowest)
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
    """Return the distance to the next float32, which is constant in a bucket, since that is within one power of two."""
    exponent = max(bits >> 23, 1) - 150
    return np.float64(np.int64((exponent + 1023) << 52).view(np.float64))

"""The block step on a GPU, in Triton: scores never leave the registers they are made in.

Each kernel multiplies factors tile by tile and works on the tile where it is. Logarithms are to the base 2, because
that is what the hardware's exponential takes: x = S/(γ·log 2), and a plan's row is v_j = 2^(x_j + max(A_j, B)).

Products are of 16-bit halves: each factor is hi + lo, both in half precision, and u·v = hi·hi + hi·lo + lo·hi, which
leaves an error of 2^-22 of the factors' lengths where one product alone would leave 2^-11.

Tiles are users × items, 4 threads to a row, each with every fourth pair of columns. `_by_lane` adds up what one thread
has, and leaves four sums to a row: four are put together at the end, not in every tile.
"""

from __future__ import annotations

# mypy: ignore-errors
# (what is decorated is the kernel language, which only looks like Python)
import triton
import triton.language as tl

CUTS = 8
"""In a survey of a row: four from the highest down to the window's upper edge, four from its lower edge down."""
SUMS = 5
"""What else a survey finds: the sum, the largest value; sum, number and least of those above the window."""
BUCKETS = tl.constexpr(16)
FEW = tl.constexpr(512)
"""So many values are sorted; of more, those that cannot be the threshold are ruled out first."""
_CUTS = tl.constexpr(CUTS)
_SUMS = tl.constexpr(SUMS)


@triton.jit
def _by_lane(x, BM: tl.constexpr, BN: tl.constexpr):
    """Sums of a tile's rows as far as one thread has them: BM × 4."""
    return tl.sum(tl.sum(tl.reshape(x, [BM, BN // 8, 4, 2]), axis=3), axis=1)


@triton.jit
def _largest_by_lane(x, BM: tl.constexpr, BN: tl.constexpr):
    return tl.max(tl.max(tl.reshape(x, [BM, BN // 8, 4, 2]), axis=3), axis=1)


@triton.jit
def _least_by_lane(x, BM: tl.constexpr, BN: tl.constexpr):
    return tl.min(tl.min(tl.reshape(x, [BM, BN // 8, 4, 2]), axis=3), axis=1)


@triton.jit
def _columns_by_lane(x, BM: tl.constexpr, BN: tl.constexpr):
    """A tile as BN / 4 columns of what each thread has of a row, BM × 4 each; nothing moves between threads."""
    first, second = tl.split(tl.permute(tl.reshape(x, [BM, BN // 8, 4, 2]), [0, 2, 1, 3]))
    parts = (first, second)
    width: tl.constexpr = BN // 8
    if width >= 8:
        halves = ()
        for i in tl.static_range(2):
            first, second = tl.split(tl.reshape(parts[i], [BM, 4, 4, 2]))
            halves = halves + (first, second)
        parts = halves
    if width >= 4:
        halves = ()
        for i in tl.static_range(width // 2):
            first, second = tl.split(tl.reshape(parts[i], [BM, 4, 2, 2]))
            halves = halves + (first, second)
        parts = halves
    halves = ()
    for i in tl.static_range(width):
        first, second = tl.split(parts[i])
        halves = halves + (first, second)
    return halves


@triton.jit
def _store_some(at, value, wanted, INTERPRETED: tl.constexpr):
    """Store a few values of many, from the threads that have them.

    Triton's own store would first hand all of them to other threads, for the sake of neighbouring addresses.
    """
    if INTERPRETED:
        tl.store(at, value, mask=wanted)
    else:
        tl.inline_asm_elementwise(
            "{ .reg .pred p; setp.ne.s32 p, $3, 0; @p st.global.f32 [$1], $2; mov.u32 $0, 0; }",
            "=r,l,f,r",
            [at.to(tl.int64), value, wanted.to(tl.int32)],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )


@triton.jit
def _product(a_hi, a_lo, b_hi, b_lo, SPLIT: tl.constexpr):
    x = tl.dot(a_hi, b_hi.T)
    if SPLIT:
        x = tl.dot(a_hi, b_lo.T, x)
        x = tl.dot(a_lo, b_hi.T, x)
    return x


@triton.jit
def _linked(x, bias, scale, SIGMOID: tl.constexpr):
    """From the product to S/(γ·log 2); what is not an item has a bias of −∞, and stays there."""
    x += bias[None, :]
    if SIGMOID:
        x = tl.where(bias[None, :] > float("-inf"), scale / (1 + tl.exp2(-x)), float("-inf"))
    return x


@triton.jit
def sums(
    u_hi, u_lo, v_hi, v_lo, bias, item_offset, user_offset, row_sums, column_sums, n_users, n_items, per_split, scale,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, SPLIT: tl.constexpr, SIGMOID: tl.constexpr,
):  # fmt: skip
    """Sums of 2^(x_ij + g_j + f_i), by user for each tile of items, and by item for each part of the users.

    A program keeps its items and goes over users, so that columns are added up where they are. Users come as tensor
    descriptors: what the hardware copies by itself needs no fence before it is multiplied.
    """
    tile, split = tl.program_id(0), tl.program_id(1)
    k = tl.arange(0, D)
    columns = tile * BN + tl.arange(0, BN)
    b_at = columns[:, None].to(tl.int64) * D + k[None, :]
    b_hi, b_lo = tl.load(v_hi + b_at), tl.load(v_lo + b_at)
    b, g = tl.load(bias + columns), tl.load(item_offset + columns)
    by_item = tl.zeros([BM, BN], tl.float32)
    begin = split * per_split
    end = tl.minimum(begin + per_split, n_users)
    for i in range(begin, end, BM):
        rows = i + tl.arange(0, BM)
        valid = rows < end
        f = tl.load(user_offset + rows, mask=valid, other=float("-inf"))
        x = _linked(_product(u_hi.load([i, 0]), u_lo.load([i, 0]), b_hi, b_lo, SPLIT), b, scale, SIGMOID)
        value = tl.exp2(x + g[None, :] + f[:, None])
        by_item += value
        by_user = tl.sum(_by_lane(value, BM, BN), axis=1)
        tl.store(row_sums + tile.to(tl.int64) * n_users + rows, by_user, mask=valid)
    tl.store(column_sums + split * n_items + columns, tl.sum(by_item, axis=0))


@triton.jit
def sample(
    u_hi, u_lo, v_hi, v_lo, bias, item_potential, user_potential, values, n_rows, n_sampled, scale,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, SPLIT: tl.constexpr, SIGMOID: tl.constexpr,
):  # fmt: skip
    """The plan's values for the first items, which stand in no order that matters."""
    k = tl.arange(0, D)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    valid = rows < n_rows
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    at = rows[:, None] * D + k[None, :]
    a_hi = tl.load(u_hi + at, mask=valid[:, None], other=0.0)
    a_lo = tl.load(u_lo + at, mask=valid[:, None], other=0.0)
    b_at = columns[:, None] * D + k[None, :]
    product = _product(a_hi, a_lo, tl.load(v_hi + b_at), tl.load(v_lo + b_at), SPLIT)
    x = _linked(product, tl.load(bias + columns), scale, SIGMOID)
    potential = tl.maximum(
        tl.load(item_potential + columns)[None, :], tl.load(user_potential + rows, mask=valid, other=0.0)[:, None]
    )
    out = values + rows[:, None].to(tl.int64) * n_sampled + columns[None, :]
    tl.store(out, tl.exp2(x + potential), mask=valid[:, None])


@triton.jit
def guess(values, centre, cuts, low, high, n_items, room, chances, N: tl.constexpr):
    """From a sample of a row: where its threshold may be, and where to cut the row so as to prove it.

    The window has room for `room` of the row's values: all from the top down to where the sample's best split is, and
    further by what chance may have moved it; or, where that is too many, those around it. Outside of the window, cuts
    stand the further apart the further they are from the best split. Centre, cuts and window are distances from the
    sample's mean. None of this needs to be right: it is proved afterwards, or another window is tried.
    """
    row = tl.program_id(0)
    k = tl.arange(0, N)
    value = tl.sort(tl.load(values + row.to(tl.int64) * N + k), descending=True)
    mean = tl.sum(value, axis=0) / N
    distance = value - mean
    gained = tl.cumsum(distance, axis=0)
    above = (k + 1).to(tl.float32)
    gain = tl.where(k < N - 1, gained * gained / (above * tl.maximum(N - above, 1.0)), 0.0)
    best = tl.argmax(gain, axis=0)
    best_value = tl.sum(tl.where(k == best, distance, 0.0), axis=0)
    top = tl.max(distance, axis=0)
    spread = tl.sqrt(tl.sum(distance * distance, axis=0) / N)

    times = n_items / (N * 1.0)
    found = best + 1.0
    chance = chances * (tl.sqrt(found) + 1.0)
    most = 0.85 * room / times
    reach = tl.minimum(chance, 0.5 * most)
    is_from_top = (found + chance <= most) | ((found - reach) * times < 0.1 * room)
    last = tl.where(found + chance <= most, found + chance, tl.where(is_from_top, most, found + reach))
    last = tl.minimum(last, N - 1.0).to(tl.int32)
    first = tl.maximum(found - reach, 0.0).to(tl.int32)
    # No threshold is below half the mean; and 4 standard deviations below it there is hardly anything.
    floor = tl.maximum(-0.51 * mean, -4.0 * spread)
    lower = tl.maximum(tl.sum(tl.where(k == last, distance, 0.0), axis=0), floor)
    lower = tl.where((n_items <= room) | (last >= N - 1), floor, lower)
    upper = tl.sum(tl.where(k == first, distance, 0.0), axis=0)

    tiny = 1e-6 * tl.maximum(mean + top, 1e-30)
    below, deepest = tl.maximum(best_value - lower, tiny), tl.maximum(best_value - floor, tiny)
    over, highest = tl.maximum(upper - best_value, tiny), tl.maximum(top - best_value, tiny)
    step = tl.log2(tl.maximum(deepest / below, 1.0)) / 3.0
    rise = tl.log2(tl.maximum(highest / over, 1.0)) / 3.5
    half: tl.constexpr = _CUTS // 2
    place = tl.arange(0, _CUTS)
    going_down = best_value - below * tl.exp2(step * (place - half))
    going_up = tl.where(is_from_top, lower, best_value + over * tl.exp2(rise * (half - 1 - place)))
    cut = tl.where(place < half, going_up, tl.where(place == half, lower, going_down))
    tl.store(cuts + row * _CUTS + place, cut)
    tl.store(centre + row, mean)
    tl.store(low + row, lower)
    tl.store(high + row, tl.where(is_from_top, float("inf"), best_value + over))


@triton.jit
def survey(
    u_hi, u_lo, v_hi, v_lo, bias, item_potential, user_potential, centre, cuts, low, high, found, collected, counts,
    which, n_which, n_items, scale,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, ROOM: tl.constexpr, FROM_TOP: tl.constexpr,
    SPLIT: tl.constexpr, SIGMOID: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Go over whole rows: collect the values within each row's window, and add up what proves that it is the right one.

    With w = v − centre: Σ w, the largest w; sum, number and least of those ≥ `high`; and Σ |w − c| for each cut c.
    Items that are none have a value of 0, for which the caller allows. Items' factors come as tensor descriptors. Rows
    whose windows are open above need no cuts there: FROM_TOP leaves the upper half of them out. Which rows, and how
    many, is for the device to know: to ask it would let it wait.
    """
    k = tl.arange(0, D)
    lane = tl.arange(0, 4)
    n_rows = tl.load(n_which)
    if tl.program_id(0) * BM >= n_rows:
        return
    number = tl.program_id(0) * BM + tl.arange(0, BM)
    valid = number < n_rows
    place = tl.load(which + number, mask=valid, other=0)
    at = place[:, None] * D + k[None, :]
    a_hi = tl.load(u_hi + at, mask=valid[:, None], other=0.0)
    a_lo = tl.load(u_lo + at, mask=valid[:, None], other=0.0)
    of_user = tl.load(user_potential + place, mask=valid, other=0.0)
    middle = tl.load(centre + place, mask=valid, other=0.0)
    lower = tl.load(low + place, mask=valid, other=float("inf"))
    upper = tl.load(high + place, mask=valid, other=float("inf"))
    cut, distances = (), ()
    first: tl.constexpr = _CUTS // 2 if FROM_TOP else 0
    for c in tl.static_range(first, _CUTS):
        cut = cut + (tl.load(cuts + place * _CUTS + c, mask=valid, other=0.0),)
        distances = distances + (tl.zeros([BM, 4], tl.float32),)
    total = tl.zeros([BM, 4], tl.float32)
    top = tl.full([BM, 4], float("-inf"), tl.float32)
    above = tl.zeros([BM, 4], tl.float32)
    n_above = tl.zeros([BM, 4], tl.float32)
    least = tl.full([BM, 4], float("inf"), tl.float32)
    n_taken = tl.zeros([BM, 4], tl.int32)
    target = collected + (place[:, None].to(tl.int64) * 4 + lane[None, :]) * ROOM
    lowers = tl.broadcast_to(lower[:, None], [BM, 4])
    uppers = tl.broadcast_to(upper[:, None], [BM, 4])
    for j in range(0, n_items, BN):
        columns = j + tl.arange(0, BN)
        b, of_item = tl.load(bias + columns), tl.load(item_potential + columns)
        product = _product(a_hi, a_lo, v_hi.load([j, 0]), v_lo.load([j, 0]), SPLIT)
        x = _linked(product, b, scale, SIGMOID)
        w = tl.exp2(x + tl.maximum(of_item[None, :], of_user[:, None])) - middle[:, None]
        total += _by_lane(w, BM, BN)
        top = tl.maximum(top, _largest_by_lane(w, BM, BN))
        new = ()
        for c in tl.static_range(_CUTS - first):
            new = new + (distances[c] + _by_lane(tl.abs(w - cut[c][:, None]), BM, BN),)
        distances = new
        if not FROM_TOP:
            least = tl.minimum(least, _least_by_lane(tl.where(w >= upper[:, None], w, float("inf")), BM, BN))
            is_above = (w >= upper[:, None]).to(tl.float32)
            above += _by_lane(w * is_above, BM, BN)
            n_above += _by_lane(is_above, BM, BN)
        parts = _columns_by_lane(w, BM, BN)
        for i in tl.static_range(BN // 4):
            is_inside = parts[i] >= lowers
            if not FROM_TOP:
                is_inside &= parts[i] < uppers
            _store_some(target + n_taken, parts[i], is_inside & (n_taken < ROOM), INTERPRETED)
            n_taken += is_inside.to(tl.int32)
    out = found + place * (_SUMS + _CUTS)
    tl.store(out, tl.sum(total, axis=1), mask=valid)
    tl.store(out + 1, tl.max(top, axis=1), mask=valid)
    tl.store(out + 2, tl.sum(above, axis=1), mask=valid)
    tl.store(out + 3, tl.sum(n_above, axis=1), mask=valid)
    tl.store(out + 4, tl.min(least, axis=1), mask=valid)
    for c in tl.static_range(_CUTS - first):
        tl.store(out + _SUMS + first + c, tl.sum(distances[c], axis=1), mask=valid)
    tl.store(counts + place[:, None] * 4 + lane[None, :], n_taken, mask=valid[:, None])


@triton.jit
def _gain(count, distance, n):
    """What a split after so many values takes off the sum of squares; theirs, less as many means, is `distance`."""
    inside = (count > 0) & (count < n)
    return tl.where(inside, distance * distance * n / tl.where(inside, count * (n - count), 1.0), 0.0)


@triton.jit
def settle(
    collected, counts, centre, low, high, found, spare, kappa, threshold, best_gain, n_items,
    ROOM: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """The best split within each row's window: κ, the threshold's distance from the centre, and its gain.

    κ is 0 where a window is empty, and −1 where it has more values than there was room for.

    Values are put into buckets, and buckets in which no split can be as good as the best one found are ruled out
    (`split.py` says why), until few enough are left to sort.
    """
    row = tl.program_id(0)
    lane, step, bucket = tl.arange(0, 4), tl.arange(0, STEP), tl.arange(0, BUCKETS)
    n_taken = tl.load(counts + row * 4 + lane)
    here = collected + (row.to(tl.int64) * 4 + lane)[:, None] * ROOM
    n_there = tl.minimum(n_taken, ROOM)[:, None]
    longest = tl.minimum(tl.max(n_taken, axis=0), ROOM)
    n_left = tl.sum(n_taken, axis=0)
    out = found + row * (_SUMS + _CUTS)
    n = tl.full([], n_items, tl.float64)
    mean = tl.load(out).to(tl.float64) / n
    middle = tl.load(centre + row)
    lower = tl.load(low + row)
    # The largest value itself must be within; a window that is empty may end anywhere.
    upper = tl.minimum(tl.load(high + row), tl.load(out + 1) + 1e-6 * tl.abs(tl.load(out + 1) + middle) + 1e-37)
    upper = tl.maximum(upper, lower)
    count, total = tl.load(out + 3).to(tl.float64), tl.load(out + 2).to(tl.float64)
    # The split just above the window counts as within it.
    n_above, sum_above, gain_above = count, total, _gain(count, total - count * mean, n)
    best = gain_above
    rounds = 0
    while (n_left > FEW) & (rounds < 8):
        rounds += 1
        # Edges go down in equal ratios of the values themselves; the first is the upper one, and no bucket ends there.
        first, last = tl.maximum(upper + middle, 1e-37), tl.maximum(lower + middle, 1e-37)
        ratio = tl.log2(first / last) / (BUCKETS - 1)
        edge = tl.minimum(first * tl.exp2(-ratio * bucket) - middle, upper)
        edge = tl.where(bucket == 0, upper, tl.where(bucket == BUCKETS - 1, lower, edge))
        counted = tl.zeros([4 * STEP, BUCKETS], tl.float32)
        summed = tl.zeros([4 * STEP, BUCKETS], tl.float32)
        coming = tl.load(here + step[None, :], mask=step[None, :] < n_there, other=-1e37)
        for i in range(0, longest, STEP):
            w = tl.reshape(coming, [4 * STEP])
            at = i + STEP + step[None, :]
            coming = tl.load(here + at, mask=at < n_there, other=-1e37)  # the next ones are on their way meanwhile
            is_from = (w[:, None] >= edge[None, :]).to(tl.float32)
            counted += is_from
            summed += is_from * w[:, None]
        n_upto = n_above + tl.sum(counted, axis=0).to(tl.float64)
        sum_upto = sum_above + tl.sum(summed.to(tl.float64), axis=0)
        gain = _gain(n_upto, sum_upto - n_upto * mean, n)
        best = tl.maximum(best, tl.max(gain, axis=0))
        one_up = tl.maximum(bucket - 1, 0)
        edge_above = tl.gather(edge, one_up, axis=0)
        n_before, sum_before = tl.gather(n_upto, one_up, axis=0), tl.gather(sum_upto, one_up, axis=0)
        n_in, width = n_upto - n_before, (edge_above - edge).to(tl.float64)
        at_top = (sum_upto - sum_before - n_in * edge) / tl.where(width > 0, width, 1.0)
        at_top = tl.minimum(tl.maximum(at_top, 0.0), n_in)
        bound = _gain(n_before + at_top, sum_before - n_before * mean + at_top * (edge_above - mean), n)
        # Sums of the same values, bucketed otherwise, differ by their rounding.
        enough = best * (1 - 1e-5)
        may_be = (n_in > 0) & ((bound >= enough) | (gain >= enough))
        top_one = tl.min(tl.where(may_be, bucket, BUCKETS), axis=0)
        low_one = tl.max(tl.where(may_be, bucket, 0), axis=0)
        kept = tl.sum(tl.where((bucket >= top_one) & (bucket <= low_one), n_in, 0.0), axis=0)
        rounds = tl.where(kept.to(tl.int32) >= n_left, 8, rounds)  # equal values, which no edge parts
        count = tl.sum(tl.where(bucket == top_one, n_before, 0.0), axis=0)
        total = tl.sum(tl.where(bucket == top_one, sum_before, 0.0), axis=0)
        upper = tl.sum(tl.where(bucket == top_one, edge_above, 0.0), axis=0)
        lower = tl.sum(tl.where(bucket == low_one, edge, 0.0), axis=0)
        n_left = kept.to(tl.int32)

    place_of = spare + row.to(tl.int64) * FEW
    n_kept = 0
    for i in range(0, longest, STEP):
        at = i + step[None, :]
        w = tl.reshape(tl.load(here + at, mask=at < n_there, other=float("-inf")), [4 * STEP])
        is_in = (w >= lower) & (w < upper)
        place = n_kept + tl.cumsum(is_in.to(tl.int32), axis=0) - 1
        tl.store(place_of + place, w, mask=is_in & (place < FEW))
        n_kept += tl.sum(is_in.to(tl.int32), axis=0)
    tl.debug_barrier()
    few = tl.arange(0, FEW)
    w = tl.sort(tl.load(place_of + few, mask=few < n_kept, other=float("-inf")), descending=True)
    inside = few < n_kept
    upto = count + few + 1
    gain = _gain(upto, total + tl.cumsum(tl.where(inside, w, 0.0).to(tl.float64), axis=0) - upto * mean, n)
    gain = tl.where(inside, gain, -1.0)
    best = tl.max(gain, axis=0)
    chosen = tl.min(tl.where(gain >= best * (1 - 1e-13), few, FEW), axis=0)  # among equals, the smallest κ
    is_settled = (n_kept <= FEW) & (tl.max(n_taken, axis=0) <= ROOM)
    is_settled &= (n_kept > 0) | (tl.sum(n_taken, axis=0) == 0)
    is_above = gain_above >= best * (1 - 1e-13)
    result = tl.where(is_above, n_above.to(tl.int64), count.to(tl.int64) + chosen + 1)
    result = tl.where((n_kept > 0) | (n_above > 0), result, 0)
    value = tl.where(is_above, tl.load(out + 4), tl.sum(tl.where(few == chosen, w, 0.0), axis=0))
    tl.store(kappa + row, tl.where(is_settled, result, -1))
    tl.store(threshold + row, value)
    tl.store(best_gain + row, tl.where(is_settled & (result > 0), tl.maximum(best, gain_above), 0.0))


@triton.jit
def at_pairs(
    u_hi, u_lo, v_hi, v_lo, bias, item_potential, user_potential, rows, items, values, n_pairs, scale,
    D: tl.constexpr, BLOCK: tl.constexpr, SIGMOID: tl.constexpr,
):  # fmt: skip
    """The plan's values at single pairs, in single precision throughout."""
    k = tl.arange(0, D)
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = pair < n_pairs
    row, item = tl.load(rows + pair, mask=valid, other=0), tl.load(items + pair, mask=valid, other=0)
    at, b_at = row[:, None] * D + k[None, :], item[:, None].to(tl.int64) * D + k[None, :]
    a = tl.load(u_hi + at).to(tl.float32) + tl.load(u_lo + at).to(tl.float32)
    b = tl.load(v_hi + b_at).to(tl.float32) + tl.load(v_lo + b_at).to(tl.float32)
    x = tl.sum(a * b, axis=1) + tl.load(bias + item)
    if SIGMOID:
        x = scale / (1 + tl.exp2(-x))
    potential = tl.maximum(tl.load(item_potential + item), tl.load(user_potential + row))
    tl.store(values + pair, tl.exp2(x + potential), mask=valid)

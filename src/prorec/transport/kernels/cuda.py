"""The block step on a GPU, in Triton: scores never leave the registers in which they are computed.

Each kernel multiplies factors tile by tile and works on the tile in registers. Logarithms have base 2, as the
hardware's exponential does: x = S/(γ·log 2), and a row of a plan is v_j = 2^(x_j + max(A_j, B)).

Products are of 16-bit halves. Each factor is hi + lo, both in half precision, and u·v = hi·hi + hi·lo + lo·hi. This
leaves an error of 2^-22 of the factors' lengths; hi·hi alone would leave 2^-11.

Tiles are users × items. Four threads share a row, and each has every fourth pair of columns. `_sum_by_lane` adds up the
values of one thread and leaves four sums per row, which are joined once at the end instead of in every tile.

Arguments that several kernels share:

- `u_hi`, `u_lo`, `v_hi`, `v_lo`: halves of the users' and the items' factors; `D` is their width.
- `bias`: bias of each item over γ·log 2, or over log 2 with a link; −∞ for padding.
- `user_potential`, `item_potential`: B and A of the plan, in base 2.
- `scale`: factor of the logistic function, 1/(γ·log 2), if `SIGMOID` is set.
- `BM`, `BN`: users and items of a tile.
"""

from __future__ import annotations

# mypy: ignore-errors
# (decorated functions are in the kernel language, which only looks like Python)
import triton
import triton.language as tl

CUTS = 8
"""Cuts in a survey of a row: four from the maximum down to the window's upper edge, four from its lower edge down."""
SUMS = 5
"""Other results of a survey: sum and maximum of the row; sum, number and minimum of the values above the window."""
BUCKETS = tl.constexpr(16)
MAX_SORTED = tl.constexpr(512)
"""Maximum number of values that are sorted; if there are more, buckets first rule out some of them."""
_CUTS = tl.constexpr(CUTS)
_SUMS = tl.constexpr(SUMS)


@triton.jit
def _sum_by_lane(x, BM: tl.constexpr, BN: tl.constexpr):
    """Sum the values of each row of a tile that one thread has: BM × 4."""
    return tl.sum(tl.sum(tl.reshape(x, [BM, BN // 8, 4, 2]), axis=3), axis=1)


@triton.jit
def _max_by_lane(x, BM: tl.constexpr, BN: tl.constexpr):
    return tl.max(tl.max(tl.reshape(x, [BM, BN // 8, 4, 2]), axis=3), axis=1)


@triton.jit
def _min_by_lane(x, BM: tl.constexpr, BN: tl.constexpr):
    return tl.min(tl.min(tl.reshape(x, [BM, BN // 8, 4, 2]), axis=3), axis=1)


@triton.jit
def _split_by_lane(x, BM: tl.constexpr, BN: tl.constexpr):
    """Split a tile into BN / 4 arrays of BM × 4, one value per row and thread; nothing moves between threads."""
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
def _store_masked(at, value, wanted, INTERPRETED: tl.constexpr):
    """Store the values where `wanted` is set, from the threads that have them.

    Triton's own store would first move all values to other threads, so that neighbours write to adjacent addresses.
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
def _multiply(a_hi, a_lo, b_hi, b_lo):
    """Multiply a tile of users with a tile of items, each in two halves."""
    x = tl.dot(a_hi, b_hi.T)
    x = tl.dot(a_hi, b_lo.T, x)
    return tl.dot(a_lo, b_hi.T, x)


@triton.jit
def _apply_link(x, bias, scale, SIGMOID: tl.constexpr):
    """Turn a product into S/(γ·log 2); padding has a bias of −∞, and keeps it."""
    x += bias[None, :]
    if SIGMOID:
        x = tl.where(bias[None, :] > float("-inf"), scale / (1 + tl.exp2(-x)), float("-inf"))
    return x


@triton.jit
def compute_sums(
    u_hi, u_lo, v_hi, v_lo, bias, item_offset, user_offset, row_sums, column_sums, n_users, n_items, per_split, scale,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, SIGMOID: tl.constexpr,
):  # fmt: skip
    """Sum 2^(x_ij + g_j + f_i), by user for each tile of items, and by item for each part of the users.

    A program keeps its items and loops over users, so that columns are added up in registers. Users are tensor
    descriptors: the hardware copies them by itself, and they need no fence before the product.

    Arguments: `item_offset` is g and `user_offset` is f, in base 2; `row_sums` (tiles × users) and `column_sums`
    (parts × items) receive the results; `per_split` is the number of users in a part.
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
        x = _apply_link(_multiply(u_hi.load([i, 0]), u_lo.load([i, 0]), b_hi, b_lo), b, scale, SIGMOID)
        value = tl.exp2(x + g[None, :] + f[:, None])
        by_item += value
        by_user = tl.sum(_sum_by_lane(value, BM, BN), axis=1)
        tl.store(row_sums + tile.to(tl.int64) * n_users + rows, by_user, mask=valid)
    tl.store(column_sums + split * n_items + columns, tl.sum(by_item, axis=0))


@triton.jit
def sample_values(
    u_hi, u_lo, v_hi, v_lo, bias, item_potential, user_potential, values, n_rows, n_sampled, scale,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, SIGMOID: tl.constexpr,
):  # fmt: skip
    """Compute the plan's values (`n_rows` × `n_sampled`) for a sample of the items."""
    k = tl.arange(0, D)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    valid = rows < n_rows
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    at = rows[:, None] * D + k[None, :]
    a_hi = tl.load(u_hi + at, mask=valid[:, None], other=0.0)
    a_lo = tl.load(u_lo + at, mask=valid[:, None], other=0.0)
    b_at = columns[:, None] * D + k[None, :]
    product = _multiply(a_hi, a_lo, tl.load(v_hi + b_at), tl.load(v_lo + b_at))
    x = _apply_link(product, tl.load(bias + columns), scale, SIGMOID)
    potential = tl.maximum(
        tl.load(item_potential + columns)[None, :], tl.load(user_potential + rows, mask=valid, other=0.0)[:, None]
    )
    out = values + rows[:, None].to(tl.int64) * n_sampled + columns[None, :]
    tl.store(out, tl.exp2(x + potential), mask=valid[:, None])


@triton.jit
def guess_window(values, center, cuts, low, high, n_items, capacity, deviations, N: tl.constexpr):
    """Guess from a sample of a row a window that has its threshold, and cuts that can prove it.

    The window holds at most `capacity` values of the row: all from the maximum down to the best split of the sample,
    and some more, because the sample's split may differ from the row's by `deviations` standard deviations; if these
    are too many, the values around the best split. Cuts outside the window are the further apart, the further they are
    from the best split. Cuts and window are relative to the sample's mean, `center`. A wrong guess does no harm: it is
    not proved, and another window is tried.
    """
    row = tl.program_id(0)
    k = tl.arange(0, N)
    value = tl.sort(tl.load(values + row.to(tl.int64) * N + k), descending=True)
    mean = tl.sum(value, axis=0) / N
    distance = value - mean
    cumulated = tl.cumsum(distance, axis=0)
    above = (k + 1).to(tl.float32)
    gain = tl.where(k < N - 1, cumulated * cumulated / (above * tl.maximum(N - above, 1.0)), 0.0)
    best = tl.argmax(gain, axis=0)
    best_value = tl.sum(tl.where(k == best, distance, 0.0), axis=0)
    top = tl.max(distance, axis=0)
    spread = tl.sqrt(tl.sum(distance * distance, axis=0) / N)

    items_per_sample = n_items / (N * 1.0)
    n_best = best + 1.0
    margin = deviations * (tl.sqrt(n_best) + 1.0)
    max_sampled = 0.85 * capacity / items_per_sample
    half_width = tl.minimum(margin, 0.5 * max_sampled)
    is_from_top = (n_best + margin <= max_sampled) | ((n_best - half_width) * items_per_sample < 0.1 * capacity)
    last = tl.where(
        n_best + margin <= max_sampled, n_best + margin, tl.where(is_from_top, max_sampled, n_best + half_width)
    )
    last = tl.minimum(last, N - 1.0).to(tl.int32)
    first = tl.maximum(n_best - half_width, 0.0).to(tl.int32)
    # No threshold is below half the mean, and hardly any value is 4 standard deviations below the mean.
    floor = tl.maximum(-0.51 * mean, -4.0 * spread)
    lower = tl.maximum(tl.sum(tl.where(k == last, distance, 0.0), axis=0), floor)
    lower = tl.where((n_items <= capacity) | (last >= N - 1), floor, lower)
    upper = tl.sum(tl.where(k == first, distance, 0.0), axis=0)

    tiny = 1e-6 * tl.maximum(mean + top, 1e-30)
    below, deepest = tl.maximum(best_value - lower, tiny), tl.maximum(best_value - floor, tiny)
    over, highest = tl.maximum(upper - best_value, tiny), tl.maximum(top - best_value, tiny)
    step = tl.log2(tl.maximum(deepest / below, 1.0)) / 3.0
    rise = tl.log2(tl.maximum(highest / over, 1.0)) / 3.5
    half: tl.constexpr = _CUTS // 2
    position = tl.arange(0, _CUTS)
    going_down = best_value - below * tl.exp2(step * (position - half))
    going_up = tl.where(is_from_top, lower, best_value + over * tl.exp2(rise * (half - 1 - position)))
    cut = tl.where(position < half, going_up, tl.where(position == half, lower, going_down))
    tl.store(cuts + row * _CUTS + position, cut)
    tl.store(center + row, mean)
    tl.store(low + row, lower)
    tl.store(high + row, tl.where(is_from_top, float("inf"), best_value + over))


@triton.jit
def survey_rows(
    u_hi, u_lo, v_hi, v_lo, bias, item_potential, user_potential, center, cuts, low, high, survey, collected, counts,
    row_numbers, n_selected, n_items, scale,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BUFFER: tl.constexpr, FROM_TOP: tl.constexpr,
    SIGMOID: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Collect the values within each row's window, and compute sums over the whole row that can prove the window right.

    With w = v − center the sums are Σ w, the maximum of w, the sum, number and minimum of the w ≥ `high`, and Σ |w − c|
    for each cut c. They are stored in `survey`; the values with `low` ≤ w < `high` are stored in `collected`, up to
    `BUFFER` for each of the row's four threads, and their numbers in `counts`. Padding has a value of 0, which the
    caller subtracts. Items' factors are tensor descriptors. Rows whose windows have no upper edge need no cuts above
    it: `FROM_TOP` leaves out the upper half of the cuts. The selected rows (`row_numbers`, `n_selected`) stay on the
    device: reading them would make the host wait.
    """
    k = tl.arange(0, D)
    lane = tl.arange(0, 4)
    n_rows = tl.load(n_selected)
    if tl.program_id(0) * BM >= n_rows:
        return
    index = tl.program_id(0) * BM + tl.arange(0, BM)
    valid = index < n_rows
    row = tl.load(row_numbers + index, mask=valid, other=0)
    at = row[:, None] * D + k[None, :]
    a_hi = tl.load(u_hi + at, mask=valid[:, None], other=0.0)
    a_lo = tl.load(u_lo + at, mask=valid[:, None], other=0.0)
    user_term = tl.load(user_potential + row, mask=valid, other=0.0)
    middle = tl.load(center + row, mask=valid, other=0.0)
    lower = tl.load(low + row, mask=valid, other=float("inf"))
    upper = tl.load(high + row, mask=valid, other=float("inf"))
    cut, distances = (), ()
    first: tl.constexpr = _CUTS // 2 if FROM_TOP else 0
    for c in tl.static_range(first, _CUTS):
        cut = cut + (tl.load(cuts + row * _CUTS + c, mask=valid, other=0.0),)
        distances = distances + (tl.zeros([BM, 4], tl.float32),)
    total = tl.zeros([BM, 4], tl.float32)
    top = tl.full([BM, 4], float("-inf"), tl.float32)
    above = tl.zeros([BM, 4], tl.float32)
    n_above = tl.zeros([BM, 4], tl.float32)
    least = tl.full([BM, 4], float("inf"), tl.float32)
    n_taken = tl.zeros([BM, 4], tl.int32)
    destination = collected + (row[:, None].to(tl.int64) * 4 + lane[None, :]) * BUFFER
    lowers = tl.broadcast_to(lower[:, None], [BM, 4])
    uppers = tl.broadcast_to(upper[:, None], [BM, 4])
    for j in range(0, n_items, BN):
        columns = j + tl.arange(0, BN)
        b, item_term = tl.load(bias + columns), tl.load(item_potential + columns)
        product = _multiply(a_hi, a_lo, v_hi.load([j, 0]), v_lo.load([j, 0]))
        x = _apply_link(product, b, scale, SIGMOID)
        w = tl.exp2(x + tl.maximum(item_term[None, :], user_term[:, None])) - middle[:, None]
        total += _sum_by_lane(w, BM, BN)
        top = tl.maximum(top, _max_by_lane(w, BM, BN))
        new = ()
        for c in tl.static_range(_CUTS - first):
            new = new + (distances[c] + _sum_by_lane(tl.abs(w - cut[c][:, None]), BM, BN),)
        distances = new
        if not FROM_TOP:
            least = tl.minimum(least, _min_by_lane(tl.where(w >= upper[:, None], w, float("inf")), BM, BN))
            is_above = (w >= upper[:, None]).to(tl.float32)
            above += _sum_by_lane(w * is_above, BM, BN)
            n_above += _sum_by_lane(is_above, BM, BN)
        parts = _split_by_lane(w, BM, BN)
        for i in tl.static_range(BN // 4):
            is_inside = parts[i] >= lowers
            if not FROM_TOP:
                is_inside &= parts[i] < uppers
            _store_masked(destination + n_taken, parts[i], is_inside & (n_taken < BUFFER), INTERPRETED)
            n_taken += is_inside.to(tl.int32)
    out = survey + row * (_SUMS + _CUTS)
    tl.store(out, tl.sum(total, axis=1), mask=valid)
    tl.store(out + 1, tl.max(top, axis=1), mask=valid)
    tl.store(out + 2, tl.sum(above, axis=1), mask=valid)
    tl.store(out + 3, tl.sum(n_above, axis=1), mask=valid)
    tl.store(out + 4, tl.min(least, axis=1), mask=valid)
    for c in tl.static_range(_CUTS - first):
        tl.store(out + _SUMS + first + c, tl.sum(distances[c], axis=1), mask=valid)
    tl.store(counts + row[:, None] * 4 + lane[None, :], n_taken, mask=valid[:, None])


@triton.jit
def _gain(count, distance, n):
    """Compute the gain of a split after `count` values, whose sum minus `count` means is `distance`."""
    inside = (count > 0) & (count < n)
    return tl.where(inside, distance * distance * n / tl.where(inside, count * (n - count), 1.0), 0.0)


@triton.jit
def split_window(
    collected, counts, center, low, high, survey, buffer, kappa, threshold, best_gain, n_items,
    BUFFER: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Find the best split within each row's window: κ, the threshold's distance from the center, and its gain.

    κ is 0 if a window is empty, and −1 if it has more values than `BUFFER` holds.

    Values are put into buckets. Buckets in which no split can be as good as the best one known are ruled out
    (`row_split.py` explains why), until few enough values are left to sort. Each program reads `STEP` values of each of
    the four threads at a time; `buffer` has `MAX_SORTED` values for each row.
    """
    row = tl.program_id(0)
    lane, step, bucket = tl.arange(0, 4), tl.arange(0, STEP), tl.arange(0, BUCKETS)
    n_taken = tl.load(counts + row * 4 + lane)
    source = collected + (row.to(tl.int64) * 4 + lane)[:, None] * BUFFER
    n_valid = tl.minimum(n_taken, BUFFER)[:, None]
    longest = tl.minimum(tl.max(n_taken, axis=0), BUFFER)
    n_left = tl.sum(n_taken, axis=0)
    out = survey + row * (_SUMS + _CUTS)
    n = tl.full([], n_items, tl.float64)
    mean = tl.load(out).to(tl.float64) / n
    middle = tl.load(center + row)
    lower = tl.load(low + row)
    # The maximum itself must be inside; an empty window may end anywhere.
    upper = tl.minimum(tl.load(high + row), tl.load(out + 1) + 1e-6 * tl.abs(tl.load(out + 1) + middle) + 1e-37)
    upper = tl.maximum(upper, lower)
    count, total = tl.load(out + 3).to(tl.float64), tl.load(out + 2).to(tl.float64)
    # The split just above the window belongs to it.
    n_above, sum_above, gain_above = count, total, _gain(count, total - count * mean, n)
    best = gain_above
    rounds = 0
    while (n_left > MAX_SORTED) & (rounds < 8):
        rounds += 1
        # Edges decrease in equal ratios of the values; the first is the upper edge, and no bucket ends there.
        first, last = tl.maximum(upper + middle, 1e-37), tl.maximum(lower + middle, 1e-37)
        ratio = tl.log2(first / last) / (BUCKETS - 1)
        edge = tl.minimum(first * tl.exp2(-ratio * bucket) - middle, upper)
        edge = tl.where(bucket == 0, upper, tl.where(bucket == BUCKETS - 1, lower, edge))
        bucket_counts = tl.zeros([4 * STEP, BUCKETS], tl.float32)
        bucket_sums = tl.zeros([4 * STEP, BUCKETS], tl.float32)
        next_values = tl.load(source + step[None, :], mask=step[None, :] < n_valid, other=-1e37)
        for i in range(0, longest, STEP):
            w = tl.reshape(next_values, [4 * STEP])
            at = i + STEP + step[None, :]
            next_values = tl.load(
                source + at, mask=at < n_valid, other=-1e37
            )  # loaded while the present ones are counted
            is_from = (w[:, None] >= edge[None, :]).to(tl.float32)
            bucket_counts += is_from
            bucket_sums += is_from * w[:, None]
        n_upto = n_above + tl.sum(bucket_counts, axis=0).to(tl.float64)
        sum_upto = sum_above + tl.sum(bucket_sums.to(tl.float64), axis=0)
        gain = _gain(n_upto, sum_upto - n_upto * mean, n)
        best = tl.maximum(best, tl.max(gain, axis=0))
        bucket_above = tl.maximum(bucket - 1, 0)
        edge_above = tl.gather(edge, bucket_above, axis=0)
        n_before, sum_before = tl.gather(n_upto, bucket_above, axis=0), tl.gather(sum_upto, bucket_above, axis=0)
        n_in, width = n_upto - n_before, (edge_above - edge).to(tl.float64)
        at_top = (sum_upto - sum_before - n_in * edge) / tl.where(width > 0, width, 1.0)
        at_top = tl.minimum(tl.maximum(at_top, 0.0), n_in)
        bound = _gain(n_before + at_top, sum_before - n_before * mean + at_top * (edge_above - mean), n)
        # Sums of the same values in other buckets differ by rounding.
        needed_gain = best * (1 - 1e-5)
        is_candidate = (n_in > 0) & ((bound >= needed_gain) | (gain >= needed_gain))
        first_bucket = tl.min(tl.where(is_candidate, bucket, BUCKETS), axis=0)
        last_bucket = tl.max(tl.where(is_candidate, bucket, 0), axis=0)
        n_candidates = tl.sum(tl.where((bucket >= first_bucket) & (bucket <= last_bucket), n_in, 0.0), axis=0)
        rounds = tl.where(n_candidates.to(tl.int32) >= n_left, 8, rounds)  # equal values, which no edge separates
        count = tl.sum(tl.where(bucket == first_bucket, n_before, 0.0), axis=0)
        total = tl.sum(tl.where(bucket == first_bucket, sum_before, 0.0), axis=0)
        upper = tl.sum(tl.where(bucket == first_bucket, edge_above, 0.0), axis=0)
        lower = tl.sum(tl.where(bucket == last_bucket, edge, 0.0), axis=0)
        n_left = n_candidates.to(tl.int32)

    sort_values = buffer + row.to(tl.int64) * MAX_SORTED
    n_kept = 0
    for i in range(0, longest, STEP):
        at = i + step[None, :]
        w = tl.reshape(tl.load(source + at, mask=at < n_valid, other=float("-inf")), [4 * STEP])
        is_in = (w >= lower) & (w < upper)
        position = n_kept + tl.cumsum(is_in.to(tl.int32), axis=0) - 1
        tl.store(sort_values + position, w, mask=is_in & (position < MAX_SORTED))
        n_kept += tl.sum(is_in.to(tl.int32), axis=0)
    tl.debug_barrier()
    rank = tl.arange(0, MAX_SORTED)
    w = tl.sort(tl.load(sort_values + rank, mask=rank < n_kept, other=float("-inf")), descending=True)
    inside = rank < n_kept
    upto = count + rank + 1
    gain = _gain(upto, total + tl.cumsum(tl.where(inside, w, 0.0).to(tl.float64), axis=0) - upto * mean, n)
    gain = tl.where(inside, gain, -1.0)
    best = tl.max(gain, axis=0)
    best_rank = tl.min(tl.where(gain >= best * (1 - 1e-13), rank, MAX_SORTED), axis=0)  # among equals, the smallest κ
    is_found = (n_kept <= MAX_SORTED) & (tl.max(n_taken, axis=0) <= BUFFER)
    is_found &= (n_kept > 0) | (tl.sum(n_taken, axis=0) == 0)
    is_above = gain_above >= best * (1 - 1e-13)
    result = tl.where(is_above, n_above.to(tl.int64), count.to(tl.int64) + best_rank + 1)
    result = tl.where((n_kept > 0) | (n_above > 0), result, 0)
    value = tl.where(is_above, tl.load(out + 4), tl.sum(tl.where(rank == best_rank, w, 0.0), axis=0))
    tl.store(kappa + row, tl.where(is_found, result, -1))
    tl.store(threshold + row, value)
    tl.store(best_gain + row, tl.where(is_found & (result > 0), tl.maximum(best, gain_above), 0.0))


@triton.jit
def compute_pairs(
    u_hi, u_lo, v_hi, v_lo, bias, item_potential, user_potential, rows, items, values, n_pairs, scale,
    D: tl.constexpr, BLOCK: tl.constexpr, SIGMOID: tl.constexpr,
):  # fmt: skip
    """Compute the plan's values at single pairs of `rows` and `items`, in single precision."""
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

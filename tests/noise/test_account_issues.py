from __future__ import annotations

from dataclasses import replace
from math import comb

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from scipy.sparse import csr_array

from prorec import InputError, Interactions, detection_metrics, inject_noise, make_cinema
from prorec.data.account_injection import ACCOUNT_KINDS, AccountKind
from prorec.noise import find_issues
from prorec.noise.catalogue_walks import score_catalogue_walks
from prorec.noise.history_features import describe_histories
from prorec.noise.regular_times import score_regular_times
from prorec.noise.time_bursts import scan_times, score_bursts
from tests.strategies import interactions


def test_features_of_a_history_worked_by_hand() -> None:
    # Users 1 and 2 have items 0 and 1, user 3 has items 0 and 2; user 0, the owner, has items 0 and 1.
    matrix = csr_array(np.array([[1, 1, 0], [1, 1, 0], [1, 1, 0], [1, 0, 1]], dtype=np.float32))
    rng = np.random.default_rng(0)
    features, overlap = describe_histories(matrix, [np.array([0, 1])], np.array([0]), rng)
    # Without the owner item 0 has popularity 3, item 1 has 2. Two users have both, each with weight 1/2: for item 0
    # that is 2 · 1/2, for item 1 the same. By popularity: 3 · 1/2 · 2/8 for item 0, and 2 · 1/2 · 3/8 for item 1.
    lift = (2.0 + 0.05) / (0.375 + 0.375 + 0.05)
    logs = np.log([4.0, 3.0])
    np.testing.assert_allclose(features[0], [np.log(lift), 1.0, np.log(2), logs.mean(), logs.std()])
    assert overlap[0] == 0, "two shared items are too few to call histories alike"


def test_overlap_is_the_largest_jaccard_similarity() -> None:
    dense = np.zeros((3, 8), dtype=np.float32)
    dense[0, :5] = dense[1, :6] = dense[2, 2:8] = 1
    _, overlap = describe_histories(
        csr_array(dense), [np.arange(5), np.arange(6), np.arange(2, 8)], np.arange(3), np.random.default_rng(0)
    )
    np.testing.assert_allclose(overlap, [5 / 6, 5 / 6, 4 / 8])


@pytest.mark.parametrize("kind", ACCOUNT_KINDS)
def test_injected_accounts_are_found(kind: AccountKind) -> None:
    noisy = inject_noise(make_cinema(mistake_rate=0.0).interactions, 0.01, kind, seed=1)
    issues = find_issues(noisy.interactions)
    assert detection_metrics(issues.user_scores["account"], noisy.is_injected_user)["auroc"] > 0.97
    if len(noisy.target_items):
        rank = np.argsort(np.argsort(-issues.item_scores["pushed_item"]))[noisy.target_items[0]]
        assert rank < 10


def test_attackers_are_found_without_times() -> None:
    clicks = replace(make_cinema().interactions, columns={})
    noisy = inject_noise(clicks, 0.01, "random-attack")
    issues = find_issues(noisy.interactions)
    assert not issues.user_scores["regular_times"].any()
    assert detection_metrics(issues.user_scores["account"], noisy.is_injected_user)["auroc"] > 0.97


def test_extreme_accounts_are_bots_and_no_honest_users() -> None:
    clicks = make_cinema().interactions
    assert not find_issues(clicks).is_extreme.any()
    for columns in (clicks.columns, {}):
        noisy = inject_noise(replace(clicks, columns=columns), 0.005, "bots")
        is_extreme = find_issues(noisy.interactions).is_extreme
        assert not is_extreme[~noisy.is_injected_user].any()
        is_large = noisy.is_injected_user & (noisy.interactions.activity > 0.3 * clicks.n_items)
        assert is_large.any()
        assert is_extreme[is_large].all()


def test_an_active_user_with_a_taste_is_not_extreme() -> None:
    # Ten groups of thirty items; most users have a few items of one group, and one user nearly all of three groups.
    rng = np.random.default_rng(0)
    dense = np.zeros((401, 300), dtype=np.float32)
    for user in range(400):
        dense[user, 30 * (user % 10) + rng.permutation(30)[:10]] = 1
    dense[400, :85] = 1
    assert not find_issues(Interactions.from_matrix(csr_array(dense[:, rng.permutation(300)]))).is_extreme.any()
    dense[400] = rng.random(300) < 0.3
    is_extreme = find_issues(Interactions.from_matrix(csr_array(dense))).is_extreme
    np.testing.assert_array_equal(np.flatnonzero(is_extreme), [400])


def test_catalogue_walks_are_scored_beyond_chance() -> None:
    dense = np.zeros((24, 100), dtype=np.float32)
    dense[0, 20:40] = dense[2, [3, 4, 5]] = 1
    dense[1, np.random.default_rng(0).permutation(100)[:90]] = 1
    for user in range(3, 24):
        dense[user, user % 4 :: 4] = 1
    scores = score_catalogue_walks(Interactions.from_matrix(csr_array(dense)))
    assert scores[0] == 1
    assert not scores[1:].any(), "nearly the whole catalogue, three items and every fourth item are no walks"


def test_ids_in_the_order_of_the_log_make_no_walks() -> None:
    # The first user has items 0 to 9, the next one 10 to 19, and so on: ids were given as items appeared.
    dense = np.repeat(np.eye(20), 10, axis=1).astype(np.float32)
    assert not score_catalogue_walks(Interactions.from_matrix(csr_array(dense))).any()


def test_scan_statistic_by_hand() -> None:
    # Item 0: clicks at 0, 25, 50, 75, 100. Item 1: four clicks from 10 to 11 of 100, and one at 90.
    times = np.array([0.0, 25, 50, 75, 100, 10, 10.2, 10.5, 11, 90])
    items = np.repeat([0, 1], 5)
    scan = scan_times(np.tile(times, 40) + 0, np.concatenate([items, np.repeat(np.arange(2, 80), 5)]), 80)
    # The four clicks are 4 of 10 times in each copy, so the width in clicks is 160 of 400: too wide for a burst.
    assert not scan.ratio.any()
    others = np.linspace(0, 100, 990)
    scan = scan_times(np.concatenate([times, others]), np.concatenate([items, np.arange(2, 992)]), 992)
    n_inside = 4 + np.count_nonzero((others >= 10) & (others <= 11))
    expected = 5 * n_inside / 1000
    assert scan.ratio[1] == pytest.approx(4 * np.log(4 / expected) - (4 - expected))
    assert (scan.start[1], scan.end[1]) == (10, 11)
    assert scan.ratio[0] == 0


def test_bursts_are_found_in_users_and_items() -> None:
    clean = make_cinema(mistake_rate=0.0).interactions
    assert max(each.max() for each in score_bursts(clean)) < 0.9
    noisy = inject_noise(clean, 0.01, "bursts", seed=1)
    users, items = score_bursts(noisy.interactions)
    np.testing.assert_array_equal(np.flatnonzero(items > 0.9), noisy.target_items)
    assert detection_metrics(users, noisy.is_injected_user)["auroc"] > 0.99
    assert (users[noisy.is_injected_user] > 0.9).mean() > 0.5


def test_users_who_always_click_at_once_are_no_bursts() -> None:
    # Every user rates everything in one sitting, as in MovieLens.
    clicks = make_cinema(mistake_rate=0.0).interactions
    sitting = np.random.default_rng(0).random(clicks.n_users)[clicks.user_codes]
    within = np.random.default_rng(1).random(len(clicks)) / 1e4
    users, items = score_bursts(replace(clicks, columns={"timestamp": sitting + within}))
    assert (users > 0.9).mean() < 0.01
    assert not (items > 0.9).any()


def make_timed_log(gaps: dict[str, list[float]]) -> Interactions:
    """Return a log with the gaps of some accounts, and 300 people who order at random times of half a year."""
    rng = np.random.default_rng(0)
    rows = [(f"person{user}", time) for user in range(300) for time in rng.uniform(0, 180 * 86_400, 6 + user % 20)]
    for name, own in gaps.items():
        rows += [(name, time) for time in 1e6 + np.cumsum([0, *own])]
    users, times = zip(*rows, strict=True)
    items = [int(each) for each in rng.permutation(len(rows))]
    return Interactions.from_table(pa.table({"user": users, "item": items, "timestamp": np.array(times)}))


def score_of(gaps: dict[str, list[float]]) -> dict[str, float]:
    log = make_timed_log(gaps)
    return dict(zip(log.users.tolist(), score_regular_times(log).tolist(), strict=True))


def test_regular_times_are_found_with_clicks_missing() -> None:
    rng = np.random.default_rng(1)
    every_2_s = np.diff(2.0 * np.flatnonzero(rng.random(1_200) < 0.975))  # some orders are missing
    hourly = np.diff(3_600.0 * np.flatnonzero(rng.random(600) < 0.9))
    scores = score_of({"every 2 s": every_2_s.tolist(), "hourly": hourly.tolist(), "test": [40.0] * 9 + [80.0]})
    for name in ("every 2 s", "hourly", "test"):
        assert scores.pop(name) > 0.9, name
    assert max(scores.values()) == 0, "nobody else"


def test_a_short_history_has_no_regular_times() -> None:
    day = 86_400.0
    monthly = [each * day for each in (30, 31, 30, 29, 31)]
    nearly = [each * day for each in (23, 35, 28, 30, 27)]
    weekly = np.diff(np.random.default_rng(2).normal(7 * day * np.arange(104), day / 8)).tolist()
    scores = score_of({"monthly": monthly, "nearly monthly": nearly, "weekly": weekly})
    assert max(scores.values()) == 0, "nobody who comes every week or every month, for years"
    assert score_of({"six clicks": [2.0] * 5})["six clicks"] > 0.9, "exactly, as a script does"


def test_the_p_value_of_regular_times_by_hand() -> None:
    # Of 7 gaps other than the median 4 are near it, within 1%. q is 0.05, because people are irregular.
    log = make_timed_log({"test": [40.0] * 5 + [80.0, 95.0, 110.0]})
    p_value = sum(comb(7, k) * 0.05**k * 0.95 ** (7 - k) for k in range(4, 8))
    assert score_regular_times(log)[list(log.users).index("test")] == pytest.approx(1 - 301 * p_value)


@pytest.mark.parametrize("unit", [86_400.0, 1.0])
def test_whole_days_and_row_numbers_are_no_regular_times(unit: float) -> None:
    rng = np.random.default_rng(0)
    rows = [(user, unit * day) for user in range(100) for day in range(6 + int(rng.integers(60)))]
    users, times = zip(*rows, strict=True)
    log = Interactions.from_table(pa.table({"user": users, "item": list(range(len(rows))), "timestamp": times}))
    assert not score_regular_times(log).any()


def test_nothing_but_bots_is_answered_in_a_sentence() -> None:
    rng = np.random.default_rng(0)
    issues = find_issues(Interactions.from_matrix(csr_array((rng.random((200, 300)) < 0.5).astype(np.float32))))
    assert not issues.can_tell
    sentences = dict(zip(*(issues.summary().column(name).to_pylist() for name in ("issue", "sentence")), strict=True))
    assert "cannot be told from random ones" in sentences["random_history"]
    assert not issues.user_scores["random_history"].any()


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (2, 2)])
def test_tiny_logs_have_no_issue_of_histories(shape: tuple[int, int]) -> None:
    issues = find_issues(Interactions.from_matrix(csr_array(np.ones(shape, dtype=np.float32))))
    assert not issues.can_tell
    assert issues.users().num_rows == shape[0]
    assert issues.items().num_rows == shape[1]


@settings(max_examples=15)
@given(data=interactions(min_size=1))
def test_scores_are_from_0_to_1_and_repeatable(data: Interactions) -> None:
    issues, again = find_issues(data, seed=1), find_issues(data, seed=1)
    for name, scores in {**issues.user_scores, **issues.item_scores}.items():
        assert np.isfinite(scores).all(), name
        assert ((scores >= 0) & (scores <= 1)).all(), name
    np.testing.assert_array_equal(issues.user_scores["account"], again.user_scores["account"])


def test_tables_are_sorted_and_counted() -> None:
    issues = find_issues(inject_noise(make_cinema().interactions, 0.01, "bots").interactions)
    table = issues.users("pandas")
    scores = table["account"].to_numpy()
    group = np.where(table["extreme"], 0, np.where(table["suspicious"], 1, 2))
    assert (np.diff(group) >= 0).all()
    for each in range(3):
        assert (np.diff(scores[group == each]) <= 0).all()
    counts = dict(zip(*(issues.summary().column(name).to_pylist() for name in ("issue", "count")), strict=True))
    assert counts["extreme"] + counts["suspicious"] == (scores > 0.9).sum() >= 10


def test_no_interaction_is_refused() -> None:
    with pytest.raises(InputError, match="there is no interaction"):
        find_issues(Interactions.from_matrix(csr_array((2, 2), dtype=np.float32)))

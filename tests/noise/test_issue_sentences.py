"""Sentences about accounts and items, and their order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from prorec import Interactions, inject_noise, make_cinema
from prorec.noise import Issues, find_issues
from prorec.noise.account_groups import group_accounts
from prorec.noise.issue_sentences import count_odd_clicks, describe_item, describe_user, list_items, list_users
from prorec.noise.posterior import MARKED


@pytest.fixture(scope="module")
def noisy() -> Interactions:
    with_bots = inject_noise(make_cinema(mistake_rate=0.0).interactions, 0.003, "bots", seed=1).interactions
    return inject_noise(with_bots, 0.01, "bursts", seed=1).interactions


@pytest.fixture(scope="module")
def issues(noisy: Interactions) -> Issues:
    return find_issues(noisy)


def test_extreme_accounts_have_their_reasons(noisy: Interactions, issues: Issues) -> None:
    users = list_users(issues, issues.is_extreme)
    assert set(users) == {1000, 1001, 1002}
    assert list(noisy.activity[users]) == sorted(noisy.activity[users], reverse=True)
    coverage = noisy.activity[users[0]] / noisy.n_items
    text = describe_user(issues, users[0])
    assert text.startswith(f"Clicked {coverage:.0%} of the catalogue, ")
    assert "clicked at regular times" in text
    suspicious = list_users(issues, issues.is_suspicious)
    assert len(set(suspicious) & set(range(1003, 1013))) >= 5, "the accounts of the burst"
    assert "far more in a short time" in describe_user(issues, next(each for each in suspicious if each >= 1003))


def test_the_target_of_a_burst_has_both_reasons(noisy: Interactions, issues: Issues) -> None:
    item = list_items(issues)[0]
    is_odd = issues.is_extreme | issues.is_suspicious
    users = noisy.user_codes[noisy.item_codes == item]
    n_odd = int(is_odd[users].sum())
    assert count_odd_clicks(issues)[item] == n_odd
    much = "most of its clicks" if 2 * n_odd > len(users) else "more clicks than chance explains"
    assert describe_item(issues, item) == (
        f"Has {much} from accounts that act like programs or look odd ({n_odd} of {len(users)}), and was clicked far "
        "more in a short time than others."
    )


@pytest.mark.parametrize(
    ("n_odd", "words"),
    [
        (5, "Has most of its clicks from accounts that act like programs or look odd (5 of 8)."),
        (4, "Has more clicks than chance explains from accounts that act like programs or look odd (4 of 8)."),
        (0, "Has more users with random items than chance explains."),
    ],
)
def test_most_is_said_above_a_half_only(n_odd: int, words: str) -> None:
    log = Interactions.from_table(pa.table({"user": list(range(8)), "item": [0] * 8}))
    odd = np.where(np.arange(8) < n_odd, 0.95, 0.0)
    others = dict.fromkeys(("catalogue_walk", "cloned_history", "burst"), np.zeros(8))
    scores = {"pushed_item": np.ones(1), "item_burst": np.zeros(1)}
    assert describe_item(Issues(log, {"account": odd, **others}, scores, np.zeros(8, dtype=bool), True), 0) == words


def test_an_account_is_in_one_group(noisy: Interactions, issues: Issues) -> None:
    groups = group_accounts(issues)
    np.testing.assert_array_equal(groups.extreme, issues.is_extreme)
    assert not (groups.extreme & groups.suspicious).any()
    table, summary = issues.users("pandas"), issues.summary("pandas").set_index("issue")["count"]
    assert table["extreme"].sum() == summary["extreme"] == groups.extreme.sum() == 3
    assert table["suspicious"].sum() == summary["suspicious"] == groups.suspicious.sum() > 0
    # People said what these accounts are.
    marked = np.array([1000, *np.flatnonzero(groups.suspicious)[:2]])
    basis = np.where(np.isin(noisy.user_codes, marked), MARKED, 0)
    basis[np.flatnonzero(noisy.user_codes == 1001)[1:]] = MARKED  # not all clicks of this one
    left = group_accounts(issues, basis)
    np.testing.assert_array_equal(np.flatnonzero(left.extreme), [1001, 1002])
    assert left.suspicious.sum() == groups.suspicious.sum() - 2


def test_accounts_that_are_called_like_tests(noisy: Interactions) -> None:
    table = make_cinema(60, 50, seed=1).interactions.to_table("pandas")[["user", "item"]]
    names = ["test01", "qa-check", "contestant", "TestUser7", "quality", "load_test", "latest"]
    table["user"] = [names[user] if user < 7 else f"member {user}" for user in table["user"] - table["user"].min()]
    issues = find_issues(Interactions.from_table(table))
    found = issues.interactions.users[issues.is_test].tolist()
    assert found == sorted(["test01", "qa-check", "TestUser7", "load_test"])
    user = int(np.flatnonzero(issues.interactions.users == "qa-check")[0])
    assert issues.is_suspicious[user]
    assert describe_user(issues, user).startswith("Is called like a test account")
    usual = find_issues(Interactions.from_table(table.assign(user="test-" + table["user"])))
    assert not usual.has_test_name.any(), "ids of this log are made like that"


def test_clean_logs_have_hardly_anything_to_list() -> None:
    clean = find_issues(make_cinema(mistake_rate=0.0).interactions)
    assert clean.is_suspicious.sum() <= 2
    assert not clean.is_extreme.any()

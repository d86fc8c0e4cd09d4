"""Sentences about accounts and items, and their order."""

from __future__ import annotations

import numpy as np
import pytest

from prorec import Interactions, inject_noise, make_cinema
from prorec.noise import Issues, find_issues
from prorec.noise.issue_sentences import describe_item, describe_user, most_suspicious


@pytest.fixture(scope="module")
def noisy() -> Interactions:
    with_bots = inject_noise(make_cinema(mistake_rate=0.0).interactions, 0.003, "bots", seed=1).interactions
    return inject_noise(with_bots, 0.01, "bursts", seed=1).interactions


@pytest.fixture(scope="module")
def issues(noisy: Interactions) -> Issues:
    return find_issues(noisy)


def test_extreme_accounts_come_first_with_their_reasons(noisy: Interactions, issues: Issues) -> None:
    users = [user for user, _ in most_suspicious(issues, "users", 8)]
    assert set(users[:3]) == {1000, 1001, 1002}
    assert list(noisy.activity[users[:3]]) == sorted(noisy.activity[users[:3]], reverse=True)
    coverage = noisy.activity[users[0]] / noisy.n_items
    text = describe_user(issues, users[0])
    assert text.startswith(f"Clicked {coverage:.0%} of the catalogue, clicked at regular times")
    assert text.endswith(". Kept out of the fit.")
    assert set(users[3:]) <= set(range(1003, 1013)), "then the accounts of the burst"
    assert "Kept out" not in describe_user(issues, users[-1])


def test_the_target_of_a_burst_has_both_reasons(issues: Issues) -> None:
    (item, score), *_ = most_suspicious(issues, "items", 5)
    assert score > 0.9
    assert describe_item(issues, item) == (
        "Has most of its clicks from suspicious accounts, and was clicked far more in a short time than others."
    )


def test_clean_logs_have_nothing_to_list() -> None:
    clean = find_issues(make_cinema(mistake_rate=0.0).interactions)
    assert [score for _, score in most_suspicious(clean, "users", 50) if score > 0.9] == []
    scores = np.array([score for _, score in most_suspicious(clean, "users", 50)])
    assert (scores >= 0.5).all()

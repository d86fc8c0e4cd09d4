"""Reasons of single clicks, against plain loops over sets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from prorec import Interactions, NoiseFinder, ProRec, inject_noise, make_cinema
from prorec.models import SVD
from prorec.noise.issue_sentences import describe_user
from prorec.report.click_reasons import compare_with_other_items, explain_clicks
from prorec.report.findings import collect_findings
from prorec.report.formatting import format_percent


def explain_by_loop(histories: list[set[int]], user: int, item: int) -> str:
    def share(each: int) -> float:
        others = [history for index, history in enumerate(histories) if index != user and each in history]
        n_other_clicks = sum(len(history) - 1 for history in others)
        return sum(len(history & histories[user]) - 1 for history in others) / max(n_other_clicks, 1)

    own, n_items = share(item), len(histories[user]) - 1
    n_others = sum(item in history for history in histories) - 1
    if not n_items:
        return "The only click of this user."
    if not n_others:
        return "No other user has this item."
    n_larger = sum(share(each) > own for each in histories[user] - {item})
    shared = f"{format_percent(own)} of their other clicks" if own else "no other item"
    sentence = f"Its {n_others} other user{'s share' if n_others > 1 else ' shares'} {shared} with this user"
    if 2 * n_larger <= n_items:
        return f"{sentence}, which is not unusual: the models doubt this item for other reasons."
    compared = f"{n_larger} of the {n_items} other items"
    if n_larger == n_items:
        compared = "the 1 other item" if n_items == 1 else f"each of the {n_items} other items"
    return f"{sentence}; users of {compared} share {'more' if own else 'some'}."


@pytest.mark.parametrize("density", [0.03, 0.1, 0.4])
def test_sentences_equal_those_of_a_loop(density: float) -> None:
    is_clicked = np.random.default_rng(0).random((40, 30)) < density
    matrix = csr_array(is_clicked.astype(np.float32))
    histories = [set(np.flatnonzero(row).tolist()) for row in is_clicked]
    users = np.repeat(np.arange(40), np.diff(matrix.indptr))
    found = compare_with_other_items(matrix, users, np.arange(matrix.nnz))
    assert found == {
        index: explain_by_loop(histories, int(user), int(item))
        for index, (user, item) in enumerate(zip(users, matrix.indices, strict=True))
    }


def test_a_basket_that_can_be_counted_by_hand() -> None:
    """Ann has tea, milk and a drill; two others have tea and milk, and two others a drill and a saw."""
    log = [[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    sentences = compare_with_other_items(csr_array(np.array(log)), np.array([0, 0]), np.array([2, 0]))
    assert (
        sentences[0]
        == "Its 2 other users share no other item with this user; users of each of the 2 other items share some."
    )
    assert sentences[1].startswith("Its 2 other users share 100% of their other clicks with this user, which is not")


def test_very_popular_items_end_the_search() -> None:
    matrix = csr_array(np.ones((50, 4)))
    users = np.repeat(np.arange(50), 4)
    assert set(compare_with_other_items(matrix, users, np.arange(200), max_visited=450)) == set(range(8))


def test_reasons_contradict_flags_of_noise_rarely() -> None:
    """Noise shares less with its users than their other items do, whatever the models say."""
    noisy = inject_noise(make_cinema(400, 300, seed=2).interactions, 0.1, seed=0)
    positions = np.flatnonzero(noisy.is_noise)
    log = noisy.interactions
    texts = compare_with_other_items(log.matrix, log.user_codes[positions], positions).values()
    clean = np.flatnonzero(~noisy.is_noise)
    others = compare_with_other_items(log.matrix, log.user_codes[clean], clean).values()
    unusual, usual = (np.mean(["not unusual" not in text for text in each]) for each in (texts, others))
    assert unusual > 0.8
    assert usual < 0.5


def test_which_clicks_are_explained() -> None:
    rng = np.random.default_rng(0)
    log = Interactions.from_matrix(csr_array((rng.random((60, 40)) < 0.2).astype(float)))
    findings = collect_findings(ProRec(SVD(rank=2), noise_method="plan", flag_fraction=0.1).fit(log))
    positions = np.arange(len(log))[::2]
    flagged = np.flatnonzero(findings.flagged[positions])
    explained = explain_clicks(findings, positions)
    assert set(explained) >= set(flagged.tolist())
    assert len(explained) == len(flagged) + min(200, len(positions) - len(flagged))
    nothing = replace(findings, flagged=np.zeros(len(log), dtype=bool))
    explained = explain_clicks(nothing, np.arange(len(log)))
    assert len(explained) == 200
    least = min(findings.noise_probability[list(explained)])
    assert least >= np.sort(findings.noise_probability)[-200]


def test_clicks_of_bots_and_marked_clicks() -> None:
    noisy = inject_noise(make_cinema(300, 200, seed=1).interactions, 0.01, "bots", seed=1).interactions
    suspect = np.zeros(len(noisy), dtype=bool)
    suspect[5] = True
    denoiser = ProRec(SVD(rank=4), noise_method=NoiseFinder(folds=2)).fit(noisy, suspect=suspect)
    findings = collect_findings(denoiser)
    reasons = explain_clicks(findings, np.arange(len(noisy)))
    assert reasons[5] == "Marked as noise by people."
    bot_clicks = np.flatnonzero(noisy.user_codes >= 300)
    assert findings.flagged[bot_clicks].all()
    assert findings.issues is not None
    for each in bot_clicks:
        assert reasons[int(each)] == describe_user(findings.issues, int(noisy.user_codes[each]))

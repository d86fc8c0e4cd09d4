"""Alerts: their order, their counts, and that each leads to a part of the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from prorec import Interactions, NoiseFinder, ProRec, inject_noise, make_cinema
from prorec.data.noise_injection import NoiseKind
from prorec.models import SVD
from prorec.noise import Issues
from prorec.noise.noise_rate import NoiseRateEstimate
from prorec.report import write_report
from prorec.report.alerts import make_alerts
from prorec.report.findings import Findings, collect_findings

N_USERS = 50


@pytest.fixture(scope="module")
def findings() -> Findings:
    """A log in which everything stands out: see `scores`."""
    is_clicked = np.random.default_rng(0).random((N_USERS, 30)) < 0.3
    is_clicked[40:] = False
    is_clicked[40:, 0] = True
    log = Interactions.from_matrix(csr_array(is_clicked.astype(float)))

    def scores(*high: int, n: int = N_USERS) -> np.ndarray:
        values = np.full(n, 0.5)
        values[list(high)] = 0.95
        return values

    user_scores = {
        "account": scores(*range(10)),
        "random_history": scores(0, 1, 7),
        "regular_times": scores(1, 2),
        "catalogue_walk": scores(2, 3),
        "cloned_history": scores(4, 5),
        "burst": scores(5, 6),
    }
    item_scores = {"pushed_item": scores(3, n=30), "item_burst": scores(3, 4, 5, n=30)}
    is_extreme = np.arange(N_USERS) == 0
    plan = collect_findings(ProRec(SVD(rank=2), noise_method="plan").fit(log))
    rate = NoiseRateEstimate(0.2, low=0.0, high=0.4, is_identified=False)
    issues = Issues(log, user_scores, item_scores, is_extreme, can_tell=False)
    return replace(plan, issues=issues, noise_rate=rate)


def test_order_and_counts(findings: Findings) -> None:
    log = findings.interactions
    alerts = make_alerts(findings, len(log) + 17, 23)
    assert [alert.label for alert in alerts] == [
        "Rows left out",
        "Extreme accounts",
        "Test accounts",
        "Copies",
        "Regular times",
        "Odd accounts",
        "Suspicious items",
        "Bursts",
        "Repeats",
        "Too little data",
        "Too little data",
        "Popularity explains it",
    ]
    # An account is counted once, as the first kind that it is.
    groups = ([0], [2, 3, 5], [4], [1], [6, 7, 8, 9])  # 5 is a copy in a burst, which looks like a test
    for alert, users in zip(alerts[1:], groups, strict=False):
        n = len(users)
        assert alert.sentence.startswith(f"{n} account{'s' if n > 1 else ''} ")
        assert f": {log.activity[users].sum():,} clicks (" in alert.sentence
        ordered = [log.users[each] for each in sorted(users, key=lambda user: (-log.activity[user], user))]
        named = f"They are {', '.join(map(str, ordered[:-1]))} and {ordered[-1]}."
        assert (named if n > 1 else f"It is {ordered[0]}. ") in alert.sentence
        kept = "neither flagged nor down-weighted" in alert.sentence
        assert kept == (alert.label != "Extreme accounts")
        assert alert.target == ("issues-suspicious" if kept else "issues-extreme")
    sentences = [alert.sentence for alert in alerts]
    assert sentences[0] == f"23 rows cannot be used and were left out ({23 / (len(log) + 40):.1%} of the file)."
    odd = np.isin(log.user_codes[log.item_codes == 3], range(10))
    most = "most of its clicks" if 2 * odd.sum() > len(odd) else "more of its clicks than chance explains"
    assert sentences[6].startswith(f"1 item has {most} from accounts that act like programs or look odd: 3 ")
    assert f"({odd.sum()} of {len(odd)})" in sentences[6]
    assert sentences[7].startswith("2 items were ")
    assert sentences[8].startswith("17 rows repeat ")
    assert sentences[9].startswith("10 users (20%) ")
    assert f"{len(log):,} clicks" in sentences[11]
    assert [alert.is_problem for alert in alerts[7:]] == [True, False, False, False, True]


def test_nothing_stands_out(findings: Findings) -> None:
    assert findings.issues is not None
    log = findings.interactions.select(findings.interactions.user_codes < 40)
    quiet = Issues(
        log,
        {name: np.zeros(N_USERS) for name in findings.issues.user_scores},
        {name: np.zeros(30) for name in findings.issues.item_scores},
        np.zeros(N_USERS, dtype=bool),
        can_tell=True,
    )
    rate, flagged = NoiseRateEstimate(0.1, low=0.05, high=0.2), np.zeros(len(log), dtype=bool)
    calm = replace(findings, interactions=log, issues=quiet, noise_rate=rate, flagged=flagged)
    assert make_alerts(calm, None) == []
    assert make_alerts(calm, len(log)) == []
    (repeat,) = make_alerts(calm, len(log) + 1)
    assert repeat.sentence.startswith("1 row repeats ")


def test_without_cross_fitting_only_the_data_have_alerts(findings: Findings) -> None:
    labels = [alert.label for alert in make_alerts(replace(findings, issues=None, noise_rate=None), 10_000)]
    assert labels == ["Repeats", "Too little data"]


@pytest.mark.parametrize(("kind", "label"), [("bots", "Extreme accounts"), ("tests", "Test accounts")])
def test_alerts_of_injected_accounts_lead_to_the_page(kind: NoiseKind, label: str, tmp_path: Path) -> None:
    noisy = inject_noise(make_cinema(400, 300, seed=1).interactions, 0.02, kind, seed=1).interactions
    denoiser = ProRec(SVD(rank=4), noise_method=NoiseFinder(folds=2)).fit(noisy)
    alerts = make_alerts(collect_findings(denoiser), len(noisy) + 5)
    write_report(denoiser, tmp_path / "report.html", held_out=False, n_rows=len(noisy) + 5)
    page = (tmp_path / "report.html").read_text()
    assert label in [alert.label for alert in alerts]
    for alert in alerts:
        assert f'<a href="#{alert.target}">{alert.label}</a>' in page
        assert page.count(f'id="{alert.target}"') == 1

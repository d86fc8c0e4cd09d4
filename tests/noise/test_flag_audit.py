"""Draw flagged interactions, read verdicts, bound the wrong flags and recalibrate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit

from prorec import InputError, Interactions
from prorec.noise import Verdicts, audit_flags, draw_flagged, read_verdicts, recalibrate
from prorec.noise.flag_audit import PRIOR_VERDICTS

LOG = Interactions.from_table(pa.table({"user": [1, 1, 2, 3, 3], "item": ["a", "=b", "a", "a", "=b"]}))


def make_table(*rows: tuple[Any, Any, Any], **columns: list[Any]) -> pa.Table:
    users, items, verdicts = zip(*rows, strict=True)
    return pa.table({"user": users, "item": items, "verdict": verdicts, **columns})


def make_verdicts(positions: Any, is_noise: Any, is_drawn: Any = None) -> Verdicts:
    noise = np.asarray(is_noise, dtype=bool)
    drawn = np.ones(len(noise), dtype=bool) if is_drawn is None else np.asarray(is_drawn)
    return Verdicts(np.asarray(positions), noise, drawn, np.empty(0, dtype=np.int64))


def test_draws_flagged_ones_once() -> None:
    flagged = np.arange(200) % 3 == 0
    drawn = draw_flagged(flagged, 40, seed=1)
    assert len(set(drawn.tolist())) == 40
    assert flagged[drawn].all()
    assert (draw_flagged(flagged, 40, seed=1) == drawn).all()
    assert (draw_flagged(flagged, 10, seed=1) == drawn[:10]).all()
    assert (draw_flagged(flagged, 40, seed=2) != drawn).any()
    assert sorted(draw_flagged(flagged, 1000)) == np.flatnonzero(flagged).tolist()


def test_each_flag_is_drawn_equally_often() -> None:
    counts = np.zeros(10)
    for seed in range(2000):
        counts[draw_flagged(np.ones(10, dtype=bool), 3, seed=seed)] += 1
    assert np.abs(counts - 600).max() < 5 * np.sqrt(600 * 0.7)


def test_nothing_to_draw() -> None:
    with pytest.raises(InputError, match="no interaction is flagged"):
        draw_flagged(np.zeros(3, dtype=bool))
    with pytest.raises(InputError, match="array of bool"):
        draw_flagged([0.5, 1.0])


def test_reads_synonyms_and_ignores_empty_verdicts() -> None:
    table = make_table(
        ("1", "a", " Noise"), ("1", "=b", "no"), ("2", "a", "YES"), ("3", "a", "genuine"), ("3", "=b", "")
    )
    verdicts = read_verdicts(table, LOG)
    users, items = LOG.users[LOG.user_codes[verdicts.positions]], LOG.items[LOG.item_codes[verdicts.positions]]
    assert list(zip(users.tolist(), items.tolist(), strict=True)) == [(1, "a"), (1, "=b"), (2, "a"), (3, "a")]
    assert verdicts.is_noise.tolist() == [True, False, True, False]
    assert not len(verdicts.skipped)


def test_reads_ids_that_a_csv_protects_from_spreadsheets() -> None:
    assert read_verdicts(make_table((1, "'=b", "noise")), LOG).positions.tolist() == [
        *read_verdicts(make_table((1, "=b", "noise")), LOG).positions
    ]


def test_equal_verdicts_count_once() -> None:
    verdicts = read_verdicts(make_table((1, "a", "noise"), (1, "a", "yes"), (1, "a", None)), LOG)
    assert len(verdicts.positions) == 1
    assert audit_flags(verdicts, np.ones(5, dtype=bool)).n_checked == 1


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (make_table((9, "a", "noise")), "row 0 .*: user 9 with item 'a' is not in the log"),
        (make_table((1, "a", "yes"), (2, "=b", "yes")), "row 1 .*not in the log"),
        (make_table((1, "a", "yes"), (1, "a", "no")), "row 1 .*contradicts that of row 0"),
        (make_table((1, "a", "maybe")), "must be noise, yes, genuine, no or empty; got 'maybe'"),
        (make_table((1, "a", ""), (2, "a", None)), "no row has a verdict"),
        (make_table((1, "a", "yes")).drop_columns("verdict"), "no column 'verdict'"),
        (make_table((1, "a", "yes"), drawn=["perhaps"]), "value of 'drawn'"),
        (make_table((None, "a", "yes"), (1, "a", "no")), "row 0 .*user id is missing"),
    ],
)
def test_bad_verdicts(table: pa.Table, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_verdicts(table, LOG)


def test_skipped_rows_count_as_wrong() -> None:
    table = make_table((1, "a", "noise"), (1, "=b", ""), (2, "a", "noise"), (3, "a", ""), (3, "=b", ""))
    audit = audit_flags(read_verdicts(table, LOG), np.ones(5, dtype=bool))
    assert (audit.n_checked, audit.n_wrong, audit.n_skipped) == (3, 1, 1)


def test_rows_that_the_person_chose_do_not_count() -> None:
    table = make_table((1, "a", "noise"), (1, "=b", ""), (2, "a", "genuine"), drawn=["true", "true", "false"])
    audit = audit_flags(read_verdicts(table, LOG), np.ones(5, dtype=bool))
    assert (audit.n_checked, audit.n_wrong, audit.n_skipped) == (1, 0, 0)
    only_chosen = read_verdicts(make_table((1, "a", "noise"), drawn=["false"]), LOG)
    assert "nothing is known" in str(audit_flags(only_chosen, np.ones(5, dtype=bool)))


def test_a_sample_of_other_flags_is_refused() -> None:
    flagged = np.array([True, True, False, True, False])
    with pytest.raises(InputError, match="1 rows of the random sample are not flagged"):
        audit_flags(make_verdicts([0, 1, 2], [1, 0, 0]), flagged)
    audit = audit_flags(make_verdicts([0, 1, 2], [1, 0, 0], [True, True, False]), flagged)
    assert (audit.n_flagged, audit.n_checked, audit.n_wrong) == (3, 2, 1)
    assert audit.bound == pytest.approx(2 / 3)


def test_sentence() -> None:
    flagged = np.ones(1000, dtype=bool)
    assert str(audit_flags(make_verdicts(range(29), [1] * 29), flagged)).startswith(
        "29 of 1,000 flagged rows looked at, none"
    )
    assert "2 wrong" in str(audit_flags(make_verdicts(range(29), [1] * 27 + [0] * 2), flagged))
    assert str(audit_flags(make_verdicts(range(4), [1, 1, 1, 0]), np.ones(4, dtype=bool))).endswith(
        "25.0% of the flags are wrong."
    )


def test_shift_maximises_the_penalised_likelihood() -> None:
    rng = np.random.default_rng(0)
    probability = rng.uniform(0.6, 0.99, 50)
    is_noise = rng.random(20) < 0.5
    found = recalibrate(probability, make_verdicts(np.arange(20), is_noise), np.ones(50, dtype=bool))

    def loss(shift: float) -> float:
        log_odds = logit(probability[:20])
        prior = PRIOR_VERDICTS / 20 * probability[:20].mean()
        shifted = expit(log_odds + shift)
        weight = 1 + PRIOR_VERDICTS / 20
        success = is_noise + prior
        return -float(np.sum(success * np.log(shifted) + (weight - success) * np.log1p(-shifted)))

    best = minimize_scalar(loss, bounds=(-20, 20), method="bounded", options={"xatol": 1e-9}).x
    assert found[20:] == pytest.approx(expit(logit(probability[20:]) + best), abs=1e-5)
    assert (found[:20] == is_noise).all()


def test_verdicts_that_agree_change_nothing() -> None:
    probability = np.full(100, 0.75)
    found = recalibrate(probability, make_verdicts(np.arange(40), np.arange(40) % 4 > 0), np.ones(100, dtype=bool))
    assert found[40:] == pytest.approx(0.75, abs=1e-6)


def test_evidence_decides_how_far() -> None:
    probability, flagged = np.append(np.full(4000, 0.95), 0.2), np.arange(4001) < 4000
    after = [
        recalibrate(probability, make_verdicts(np.arange(n), np.arange(n) % 2 > 0), flagged)[[-2, -1]]
        for n in (2, 20, 2000)
    ]
    shares = [float(each[0]) for each in after]
    assert 0.95 > shares[0] > shares[1] > shares[2]
    assert shares[2] == pytest.approx(0.5, abs=0.01)
    assert after[2][1] < 0.05


def test_certain_probabilities_can_be_corrected() -> None:
    found = recalibrate(np.ones(2000), make_verdicts(np.arange(1000), np.arange(1000) % 2), np.ones(2000, dtype=bool))
    assert found[-1] == pytest.approx(0.5, abs=0.02)


def test_chosen_verdicts_set_their_own_rows_only() -> None:
    verdicts = make_verdicts([0, 1], [0, 0], np.array([False, False]))
    found = recalibrate(np.full(4, 0.9), verdicts, np.ones(4, dtype=bool))
    assert found == pytest.approx([0, 0, 0.9, 0.9])


def test_recalibration_repairs_a_wrong_noise_rate() -> None:
    rng = np.random.default_rng(3)
    true = rng.beta(0.3, 0.7, 20_000)
    is_noise = rng.random(20_000) < true
    claimed = expit(logit(np.clip(true, 1e-9, 1 - 1e-9)) + 1.5)
    flagged = claimed > 0.7
    drawn = draw_flagged(flagged, 300)
    found = recalibrate(claimed, make_verdicts(drawn, is_noise[drawn]), flagged)
    assert abs(claimed.mean() - is_noise.mean()) > 0.1
    assert abs(found.mean() - is_noise.mean()) < 0.03


def test_bad_probabilities() -> None:
    verdicts, flagged = make_verdicts([0], [1]), np.ones(2, dtype=bool)
    with pytest.raises(InputError, match="3 values, but flagged has 2"):
        recalibrate([0.1, 0.2, 0.3], verdicts, flagged)
    with pytest.raises(InputError, match="from 0 to 1"):
        recalibrate([0.1, np.nan], verdicts, flagged)

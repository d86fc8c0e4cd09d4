"""Algorithm 1 followed by hand on 4 users × 5 items, every number worked out here."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
from scipy.sparse import csr_array

from prorec import ProRec

GAMMA = 0.1

# Who clicked on what: p = (3, 2, 2, 1, 2)/10 for the items, q = (3, 2, 3, 2)/10 for the users.
CLICKS = np.array(
    [
        [1, 1, 1, 0, 0],
        [1, 1, 0, 0, 0],
        [0, 0, 1, 1, 1],
        [1, 0, 0, 0, 1],
    ],
    dtype=np.float32,
)

# e^(S/γ). Its columns sum to 20, 16, 10, 10, 20, its rows to 20, 16, 20, 20, so that
#   p/column sums = (.015, .0125, .02, .01, .01) and q/row sums = (.015, .0125, .015, .01).
KERNEL = np.array(
    [
        [8, 8, 1, 1, 2],
        [8, 4, 1, 1, 2],
        [1, 2, 6, 6, 5],
        [3, 2, 2, 2, 11],
    ]
)
# The larger of p_j/column and q_i/row for each pair, times the kernel (Eq. 7):
PLAN = np.array(
    [
        [8 * 0.015, 8 * 0.015, 1 * 0.02, 1 * 0.015, 2 * 0.015],
        [8 * 0.015, 4 * 0.0125, 1 * 0.02, 1 * 0.0125, 2 * 0.0125],
        [1 * 0.015, 2 * 0.015, 6 * 0.02, 6 * 0.015, 5 * 0.015],
        [3 * 0.015, 2 * 0.0125, 2 * 0.02, 2 * 0.01, 11 * 0.01],
    ]
)
# Its rows sum to .305, .2275, .33 and .24. Over these, the rows are
#   (24, 24, 4, 3, 6)/61, (48, 20, 8, 5, 10)/91, (1, 2, 8, 6, 5)/22 and (9, 5, 8, 4, 22)/48.
# The split of each (Eq. 20), by the squared errors around the means of the two groups, in those units:
#   24 24 | 6 4 3      0 + 4⅔                                                             κ = 2
#   48 | 20 10 8 5     0 + 126¾, while 48 20 | 10 8 5 has 392 + 12⅔                       κ = 1
#   8 6 5 | 2 1        4⅔ + ½, while 8 6 | 5 2 1 has 2 + 8⅔ and 8 | 6 5 2 1 has 0 + 17    κ = 3
#   22 | 9 8 5 4       0 + 17, while 22 9 | 8 5 4 has 84½ + 8⅔                            κ = 1
KAPPA = [2, 1, 3, 1]
THRESHOLD = [24 / 61, 48 / 91, 5 / 22, 22 / 48]
SHARES = [24 / 61, 24 / 61, 4 / 61, 48 / 91, 20 / 91, 8 / 22, 6 / 22, 5 / 22, 9 / 48, 22 / 48]
# ρ − ρ_κ of the ten clicks, then r = 1/(1 + e^(−20·margin)) (Eq. 22), then ½·1 + ½·r·1 (Eq. 23).
MARGINS = [0, 0, -20 / 61, 0, -28 / 91, 3 / 22, 1 / 22, 0, -13 / 48, 0]
LABELS = [0.5, 0.5, 0.0014176, 0.5, 0.0021208, 0.9386169, 0.7128141, 0.5, 0.0044223, 0.5]
WEIGHTS = [0.75, 0.75, 0.5007088, 0.75, 0.5010604, 0.96930845, 0.85640705, 0.75, 0.50221115, 0.75]


class FromAbove:
    """Its scores are γ·log of the kernel above, whatever it is given; it remembers what that was."""

    seen: list[np.ndarray] = []  # noqa: RUF012 - shared by all copies, to look at afterwards

    def fit(self, matrix: csr_array) -> None:
        FromAbove.seen.append(matrix.toarray())
        self.user_factors = np.eye(4)
        self.item_factors = GAMMA * np.log(KERNEL).T


@pytest.fixture
def denoiser() -> ProRec:
    FromAbove.seen.clear()
    return ProRec(FromAbove(), gamma=GAMMA, beta=20, lam=0.5, noise_method="plan").fit(
        csr_array(CLICKS), track_loss=True
    )


def test_the_numbers_above() -> None:
    np.testing.assert_allclose(KERNEL.sum(axis=0), [20, 16, 10, 10, 20])
    np.testing.assert_allclose(KERNEL.sum(axis=1), [20, 16, 20, 20])
    np.testing.assert_allclose(PLAN.sum(axis=1), [0.305, 0.2275, 0.33, 0.24])
    np.testing.assert_allclose((PLAN / PLAN.sum(axis=1)[:, None])[CLICKS > 0], SHARES)
    np.testing.assert_allclose([1 / (1 + exp(-20 * margin)) for margin in MARGINS], LABELS, atol=5e-8)


def test_thresholds(denoiser: ProRec) -> None:
    assert denoiser.thresholds_.kappa.tolist() == KAPPA
    np.testing.assert_allclose(denoiser.thresholds_.value, THRESHOLD, rtol=1e-5)
    np.testing.assert_allclose(denoiser.matching_.row_shares, SHARES, rtol=1e-5)


def test_weights(denoiser: ProRec) -> None:
    np.testing.assert_allclose(denoiser.weights_.data, WEIGHTS, atol=1e-6)
    assert denoiser.weights_.indices.tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 0, 4]


def test_the_model_learns_from_the_clicks_and_then_from_the_weights(denoiser: ProRec) -> None:
    first, second = FromAbove.seen
    np.testing.assert_array_equal(first, CLICKS)
    np.testing.assert_allclose(second[CLICKS > 0], WEIGHTS, atol=1e-6)


def test_what_is_recorded(denoiser: ProRec) -> None:
    fitted, first = denoiser.history_
    # Σ S² over all pairs, with S = .1·ln of the kernel: ln 8 three times, ln 3, ln 4, ln 5 and ln 11 once, ln 2 six
    # times, ln 6 twice, ln 1 five times.
    counts = {8: 3, 4: 1, 5: 1, 3: 1, 11: 1, 2: 6, 6: 2}
    everywhere = 0.01 * sum(times * log(value) ** 2 for value, times in counts.items())
    scores = [0.1 * log(value) for value in (8, 8, 1, 8, 4, 6, 6, 5, 3, 11)]
    before = everywhere + sum(1 - 2 * score for score in scores)
    after = everywhere + sum(x * x - 2 * x * score for x, score in zip(WEIGHTS, scores, strict=True))
    assert fitted.number == 0
    assert fitted.loss_refitted is not None
    assert fitted.loss_refitted.total == pytest.approx(before, rel=1e-6)
    assert first.loss_before == fitted.loss_refitted
    assert first.loss_relabeled is not None
    assert first.loss_relabeled.total == pytest.approx(after, rel=1e-6)
    assert first.loss_refitted == first.loss_relabeled, "this model learns nothing"
    assert first.relabeling_decreased
    assert first.refitting_decreased
    # 7.08 of ten ones are left; three clicks are below their threshold.
    assert first.mass_kept == pytest.approx(sum(WEIGHTS) / 10, rel=1e-6)
    assert first.change == pytest.approx(1 - sum(WEIGHTS) / 10, rel=1e-6)
    assert first.below_threshold == pytest.approx(3 / 10)
    assert first.kappa_quartiles == (1.0, 1.5, 2.25)
    assert first.gamma == GAMMA
    assert not denoiser.converged_


def test_noise_probability(denoiser: ProRec) -> None:
    # .1/5 : .9·ρ are the odds, so 1/(1 + 45ρ).
    np.testing.assert_allclose(denoiser.noise_probability_, [1 / (1 + 45 * share) for share in SHARES], rtol=1e-5)
    assert not denoiser.flagged_.any(), "a twentieth of ten is less than one"
    denoiser.flag_fraction = 0.2
    assert np.flatnonzero(denoiser.flagged_).tolist() == [2, 8], "4/61 and 9/48 are the smallest shares"
    table = denoiser.noise_table("pandas")
    assert table.item.tolist()[:2] == [2, 0]
    assert table.user.tolist()[:2] == [0, 3]

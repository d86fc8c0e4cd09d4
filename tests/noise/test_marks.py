"""Marks of people: trusted and suspect interactions in the fit of NoiseFinder, and every refusal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

import prorec
from prorec import DamagedFileError, InputError, Interactions, NoiseFinder, ProRec, inject_noise, make_cinema
from prorec.data.noisy_interactions import NoisyInteractions
from prorec.models import SVD
from prorec.noise.finder_state import finder_state, restore_finder
from prorec.noise.marks import parse_yes_no, read_marks

LOG = Interactions.from_table(pa.table({"user": ["ann", "ann", "bob", "eve"], "item": [1, 2, 1, 3]}))


def fit(clicks: Interactions, **marks: Any) -> NoiseFinder:
    return NoiseFinder(SVD(rank=5), folds=3).fit(clicks, **marks)


@pytest.fixture(scope="module")
def noisy() -> NoisyInteractions:
    clean = make_cinema(240, 200, mistake_rate=0.0, seed=3).interactions
    return inject_noise(replace(clean, columns={}), 0.2, seed=1)


@pytest.fixture(scope="module")
def trusted(noisy: NoisyInteractions) -> NDArray[np.bool_]:
    """Half of the genuine clicks."""
    return ~noisy.is_noise & (np.random.default_rng(0).random(len(noisy.is_noise)) < 0.5)


@pytest.fixture(scope="module")
def suspect(noisy: NoisyInteractions) -> NDArray[np.bool_]:
    """Half of the noise, and all clicks of the first user."""
    chosen = noisy.is_noise & (np.random.default_rng(1).random(len(noisy.is_noise)) < 0.5)
    return np.asarray(chosen | (noisy.interactions.user_codes == 0))


@pytest.fixture(scope="module")
def unmarked_fit(noisy: NoisyInteractions) -> NoiseFinder:
    return fit(noisy.interactions)


@pytest.fixture(scope="module")
def trusting(noisy: NoisyInteractions, trusted: NDArray[np.bool_]) -> NoiseFinder:
    return fit(noisy.interactions, trusted=trusted)


@pytest.fixture(scope="module")
def marked(noisy: NoisyInteractions, trusted: NDArray[np.bool_], suspect: NDArray[np.bool_]) -> NoiseFinder:
    return fit(noisy.interactions, trusted=trusted & ~suspect, suspect=suspect)


def test_suspect_interactions_are_as_if_they_were_removed(noisy: NoisyInteractions, suspect: NDArray[np.bool_]) -> None:
    finder = fit(noisy.interactions, suspect=suspect)
    removed = fit(noisy.interactions.select(~suspect))
    assert finder.noise_rate_ == removed.noise_rate_
    for name in ("noise_probability_", "noise_p_value_", "percentile_rank_", "basis_"):
        np.testing.assert_array_equal(getattr(finder, name)[~suspect], getattr(removed, name))
    for name in ("noise_probability_", "noise_p_value_"):
        assert (getattr(finder, name)[suspect] == 1).all()
    ranks = finder.percentile_rank_[suspect]
    assert ranks.min() >= 0
    assert ranks.max() <= 1
    for rule in ({"fdr": 0.3}, {"n": 50}, {"fraction": 0.01}, {"threshold": 0.9}):
        np.testing.assert_array_equal(finder.flag(**rule)[~suspect], removed.flag(**rule))
        assert finder.flag(**rule)[suspect].all()
    np.testing.assert_array_equal(finder.keep(0.05)[~suspect], removed.keep(0.05))
    assert not finder.keep(0.05)[suspect].any()


def test_trusted_interactions_are_never_flagged_and_always_kept(
    trusting: NoiseFinder, trusted: NDArray[np.bool_]
) -> None:
    assert not trusting.noise_probability_[trusted].any()
    assert not trusting.noise_p_value_[trusted].any()
    for rule in ({"fdr": 0.99}, {"n": len(trusted)}, {"fraction": 1.0}, {"threshold": 0.0}):
        flags = trusting.flag(**rule)
        assert not flags[trusted].any()
        assert flags.any()
    assert trusting.keep(1e-6)[trusted].all()
    assert (np.asarray(trusting.table("pandas")["basis"] == "marked").sum()) == trusted.sum()


def test_trusted_interactions_sharpen_the_answer_about_the_others(
    noisy: NoisyInteractions, unmarked_fit: NoiseFinder, trusting: NoiseFinder, trusted: NDArray[np.bool_]
) -> None:
    """The noise rate is that among the others, and fewer flags are wrong, for as many found."""
    truth = noisy.is_noise[~trusted].mean()
    assert truth > 1.5 * noisy.is_noise.mean()
    assert trusting.noise_rate_.low < truth < trusting.noise_rate_.high
    assert trusting.noise_rate_.estimate > 1.4 * unmarked_fit.noise_rate_.estimate
    n = int(noisy.is_noise.sum())
    wrong, wrong_before = (int((finder.flag(n=n) & ~noisy.is_noise).sum()) for finder in (trusting, unmarked_fit))
    assert 0 < wrong < wrong_before
    flags = trusting.flag(fdr=0.4)
    assert flags.any()
    assert (~noisy.is_noise[flags]).mean() <= 0.4 + 0.03
    kept = trusting.keep(0.1) & ~trusted
    assert kept.any()
    assert noisy.is_noise[kept].mean() <= 0.1 + 0.03


def test_marks_go_before_what_an_account_looks_like(noisy: NoisyInteractions) -> None:
    """A bot's purchase is genuine if people say so, and its other clicks are noise."""
    bot = (np.random.default_rng(0).random(noisy.interactions.n_items) < 0.9).astype(np.float32)
    clicks = Interactions.from_matrix(csr_array(np.vstack([noisy.interactions.matrix.toarray(), bot])))
    is_bot = clicks.user_codes == clicks.n_users - 1
    first, second = np.flatnonzero(is_bot)[:2]
    finder = fit(clicks, trusted=np.arange(len(clicks)) == first, suspect=np.arange(len(clicks)) == second)
    assert finder.issues_.is_extreme[-1]
    assert finder.noise_probability_[[first, second]].tolist() == [0, 1]
    assert finder.noise_probability_[is_bot][2:].min() > 0.98
    flags = finder.flag(fdr=0.2)
    assert not flags[first]
    assert flags[is_bot][1:].all()
    assert finder.keep(0.05)[is_bot].tolist() == [True] + [False] * (int(is_bot.sum()) - 1)


def test_columns_arrays_and_pairs_say_the_same(noisy: NoisyInteractions, trusted: NDArray[np.bool_]) -> None:
    clicks = noisy.interactions
    with_column = replace(clicks, columns={"bought": np.where(trusted, "Yes", "no").astype(object)})
    shuffled = clicks.select(trusted).to_table().take(np.random.default_rng(0).permutation(int(trusted.sum())))
    for log, mark in (
        (with_column, "bought"),
        (clicks, trusted.astype(int)),
        (clicks, trusted.tolist()),
        (clicks, pa.chunked_array([trusted[:5], trusted[5:]])),
        (clicks, clicks.select(trusted)),
        (clicks, Interactions.from_table(shuffled)),
    ):
        marks = read_marks(log, trusted=mark)
        np.testing.assert_array_equal(marks.trusted, trusted)
        assert not marks.suspect.any()


@pytest.mark.parametrize(
    "values",
    [
        [True, False],
        ["TRUE", "false"],
        [1, 0],
        [1.0, 0.0],
        ["1", "0"],
        [" yes", "NO"],
        pa.array(["yes", "no"]).dictionary_encode(),
        np.array([True, False], dtype=object),
    ],
)
def test_values_of_yes_and_no(values: Any) -> None:
    assert parse_yes_no(values, "bought").tolist() == [True, False]


def test_marks_are_saved_and_keep_their_probability_later(
    noisy: NoisyInteractions, marked: NoiseFinder, suspect: NDArray[np.bool_]
) -> None:
    assert f" trusted, {suspect.sum()} suspect" in marked._summary()["marked"]
    parameters, arrays = finder_state(marked)
    restored = restore_finder(parameters, arrays, noisy.interactions)
    # The last user's unseen pairs, a new user's pairs, and marked pairs of the log.
    unseen = np.flatnonzero(noisy.interactions.matrix[[239]].toarray().ravel() == 0)[:4]
    items = noisy.interactions.items[unseen]
    ids = noisy.interactions.users
    new = "new" if ids.dtype == object else int(ids.max()) + 1
    later = Interactions.from_table(pa.table({"user": [ids[239]] * 4 + [new] * 4, "item": [*items, *items]}))
    for score_of in (later, noisy.interactions):
        rows, restored_rows = (each.score(score_of, "pandas") for each in (marked, restored))
        np.testing.assert_array_equal(rows["basis"], restored_rows["basis"])
        np.testing.assert_allclose(rows["noise_probability"], restored_rows["noise_probability"], rtol=1e-5)
    np.testing.assert_array_equal(rows["noise_probability"], marked.noise_probability_)
    np.testing.assert_array_equal(restored.flag(fdr=0.3), marked.flag(fdr=0.3))
    damaged = np.where(arrays["basis"] == 5, np.float32(0.5), arrays["noise_probability"])
    with pytest.raises(DamagedFileError, match="marked interaction must be 0 or 1"):
        restore_finder(parameters, arrays | {"noise_probability": damaged}, noisy.interactions)


def test_denoisers_take_marks(
    noisy: NoisyInteractions,
    marked: NoiseFinder,
    trusted: NDArray[np.bool_],
    suspect: NDArray[np.bool_],
    tmp_path: Path,
) -> None:
    clicks, marks = noisy.interactions, {"trusted": trusted & ~suspect, "suspect": suspect}
    finder = NoiseFinder(SVD(rank=5), folds=3)
    denoiser = ProRec(SVD(rank=5), noise_method=finder, weighting="probability", rounds=1)
    denoiser.fit(clicks, trusted=marks["trusted"], suspect=suspect, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(denoiser.noise_probability_, marked.noise_probability_)
    assert denoiser.flagged_[suspect].all()
    weights = denoiser.weights_.data
    assert weights[marks["trusted"]].min() > weights[suspect].max()
    denoiser.save(tmp_path / "model")
    np.testing.assert_array_equal(prorec.load(tmp_path / "model").flagged_, denoiser.flagged_)  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="a checkpoint of other parameters or other interactions"):
        denoiser.fit(clicks, suspect=suspect, checkpoint=tmp_path / "run")
    with pytest.raises(InputError, match="trusted and suspect must be None with noise_method='plan'"):
        ProRec(SVD(rank=5), noise_method="plan").fit(clicks, suspect=suspect)


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ({"trusted": "bought"}, "trusted must be the name of a column.*'bought', and the columns are: none"),
        ({"suspect": [True, False]}, "suspect must have 4 values.*got 2"),
        ({"trusted": [0.0, 1.0, np.nan, np.nan]}, "trusted must be yes or no.*2 of 4 values are missing"),
        ({"trusted": ["yes", None, "", "no"]}, "2 of 4 values are missing"),
        ({"trusted": [None] * 4}, "4 of 4 values are missing"),
        ({"trusted": ["yes", "maybe", "perhaps", "no"]}, "2 other values, such as 'maybe', 'perhaps'"),
        ({"suspect": [0, 1, 2, 0]}, "suspect must be yes or no.*1 other value, such as 2"),
        ({"suspect": [[True] * 4]}, "suspect must be yes or no.*got"),
        ({"suspect": np.ones((2, 2))}, "suspect must be yes or no.*got"),
        ({"suspect": [True, "yes"] * 500}, r"suspect must be yes or no.*got \[True, 'yes', [^.]{,60}…\. Pass an array"),
        ({"suspect": True}, "suspect must be yes or no.*got True"),
        ({"suspect": csr_array(np.ones((3, 3)))}, "suspect must be yes or no.*got"),
        ({"trusted": [1, 1, 0, 0], "suspect": [0, 1, 1, 0]}, "not be both.*1 is, such as user ann, item 2"),
        ({"trusted": [1] * 4, "suspect": [1] * 4}, "not be both.*4 are, such as user ann, item 1"),
        (
            {"trusted": Interactions.from_table(pa.table({"user": ["ann", "bob", "kim"], "item": [1, 3, 1]}))},
            "trusted must be pairs of the log; 2 of 3 are not, such as user bob, item 3",
        ),
    ],
)
def test_refused_marks(marks: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_marks(LOG, **marks)
    with pytest.raises(InputError, match=message):
        NoiseFinder(SVD(rank=1), folds=2).fit(LOG, **marks)


def test_marks_that_leave_too_little(noisy: NoisyInteractions) -> None:
    clicks, everything = noisy.interactions, np.ones(len(noisy.interactions), dtype=bool)
    with pytest.raises(InputError, match=r"are marked as suspect, which leaves 0 inter.*Mark fewer"):
        fit(clicks, suspect=everything)
    few = everything.copy()
    few[:2] = False
    with pytest.raises(InputError, match=r"at least 3 interactions that are not marked as trusted.*there are 2\."):
        fit(clicks, trusted=few)
    few[:3] = False
    assert np.isfinite(fit(clicks, trusted=few).noise_probability_).all()

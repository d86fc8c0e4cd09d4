"""Cross-fitting on a cluster: the same probabilities as one machine's, from the same folds, controls and factors."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

import prorec
from prorec import InputError, Interactions, NoiseFinder, ProRec
from prorec.engines.spark import ALS, CrossFit, SparkProRec, SparkResult, denoise
from prorec.engines.spark.arrow_batches import in_pieces, values_in
from prorec.engines.spark.block_tasks import counted
from prorec.engines.spark.chance import chance
from prorec.models import WRMF
from prorec.noise.posterior import basis_names
from prorec.report.formatting import format_percent
from tests.engines.kills import killing
from tests.engines.test_spark import factors_of, places_in, table_of

# PySpark leaves it to the garbage collector to close its sockets.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

FOLDS = 2
PARTITIONS = 3
SETTINGS: dict[str, Any] = {"weighting": "both", "fdr": 0.5}
MODELS = (ALS(rank=4, sweeps=2), ALS(rank=2, alpha=1.0, sweeps=2))


def test_chance_is_even_and_independent() -> None:
    users, items = np.repeat(np.arange(300), 300), np.tile(np.arange(300), 300)
    found = chance(0, 1, users, items)
    assert (found >= 0).all()
    assert (found < 1).all()
    counts = np.histogram(found, 100, (0, 1))[0]
    assert ((counts - 900) ** 2 / 900).sum() < 160  # χ² with 99 degrees of freedom: once in ten thousand draws
    for other in (chance(0, 2, users, items), chance(1, 1, users, items), found.reshape(300, 300).T.ravel()):
        assert abs(np.corrcoef(found, other)[0, 1]) < 0.02
    grid = found.reshape(300, 300)
    assert abs(np.corrcoef(grid[:, :-1].ravel(), grid[:, 1:].ravel())[0, 1]) < 0.02
    np.testing.assert_array_equal(chance(0, 1, users[5:9], items[5:9]), found[5:9])


def test_pieces_have_all_rows_and_not_too_many_interactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prorec.engines.spark.arrow_batches._MOST", 5)
    lists = [[1, 2], [3], [], [1, 2, 3, 4, 5, 6, 7], [], [1, 2, 3, 4, 5], [], [1]]
    batch = pa.RecordBatch.from_pydict({"user": range(8), "items": pa.array(lists, pa.list_(pa.int32()))})
    pieces = list(in_pieces([batch, batch.slice(0, 0), batch]))
    assert [piece["user"].to_pylist() for piece in pieces] == [[0, 1, 2], [3], [4, 5, 6], [7]] * 2
    for piece in pieces:
        numbers = piece["user"].to_pylist()
        assert values_in(piece, "items").tolist() == [item for number in numbers for item in lists[number]]


def test_batches_with_nothing_in_them_are_like_others() -> None:
    probabilities = [np.array([0.9, 0.901, 0.1], dtype=np.float32), np.array([0.1], dtype=np.float32)]
    batches = [pa.RecordBatch.from_arrays([pa.array(each)], ["noise_probability"]) for each in probabilities]
    high = int(probabilities[0][:1].view(np.uint32)[0]) >> 16
    found = list(counted(batches, None, high))
    assert [batch.num_rows for batch in found] == [2, 0]
    assert found[0].schema == found[1].schema


class FromSpark:
    """A model that learns what Spark has learned, fold by fold."""

    turn: ClassVar[dict[int, int]] = {}

    def __init__(self, work: Path, number: int, shape: tuple[int, int]) -> None:
        self.work, self.number, self.shape = work, number, shape

    def fit(self, matrix: csr_matrix) -> None:
        fold = self.turn.get(self.number, 0)
        self.turn[self.number] = fold + 1
        # After the folds comes a model for what is judged later, which nobody asks here.
        place = self.work / f"cross-fit/fold-{min(fold, FOLDS - 1)}/model-{self.number}"
        arrays = []
        for kind, n in zip(("user", "item"), self.shape, strict=True):
            rows = pa.parquet.read_table(place / f"factors-of-{kind}s")
            array = np.zeros((n, MODELS[self.number].rank), dtype=np.float32)
            array[rows[kind].to_numpy()] = np.stack(rows["features"].to_numpy())
            arrays.append(array)
        self.user_factors, self.item_factors = arrays


def listed(work: Path, column: str) -> NDArray[Any]:
    """What was dealt, in the order of users."""
    rows = pa.parquet.read_table(work / "cross-fit/dealt").sort_by("user")
    return np.concatenate([np.asarray(each) for each in rows[column].to_pylist()])


@pytest.fixture(scope="module")
def log() -> Interactions:
    clean = prorec.make_cinema(300, 200, seed=4).interactions.drop_empty()
    noisy = prorec.inject_noise(clean, 0.15, "uniform", seed=0).interactions
    # One more user, with a single click: popularity is all there is to judge it by.
    table = pa.table({"user": [*noisy.users[noisy.user_codes], 10_000], "item": [*noisy.items[noisy.item_codes], 3]})
    return Interactions.from_table(table)


@pytest.fixture(scope="module")
def fitted(log: Interactions) -> WRMF:
    return WRMF(rank=8).fit(log)


# The steps that have more than a moment's work to lose; those between them are their like.
DEADLY = ("fold 1 of 2, model 1: ALS", "fold 2 of 2: judging", "clicks among clicks", "how probable")


@pytest.fixture(scope="module")
def found(spark: Any, log: Interactions, fitted: WRMF, tmp_path_factory: pytest.TempPathFactory) -> SparkResult:
    """A run in which a worker is killed in every step of cross-fitting that has more than a moment's work to lose."""
    denoiser = SparkProRec(noise_method=CrossFit(MODELS, folds=FOLDS), partitions=PARTITIONS, **SETTINGS)
    table, factors = table_of(spark, log), factors_of(spark, fitted)
    with killing(DEADLY, after=0.4) as killed:
        done = denoiser.fit(table, factors=factors, work_dir=str(tmp_path_factory.mktemp("work")))
    for step in DEADLY:
        assert any(step in each for each in killed), (step, killed)
    return done


def test_the_same_probabilities_whoever_is_killed(
    found: SparkResult, log: Interactions, fitted: WRMF, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, rows = Path(found.work_dir), found.noise_table().toArrow()
    folds, controls = listed(work, "folds"), listed(work, "controls")
    for user in range(log.n_users):  # dealt like cards
        counts = np.bincount(folds[log.user_codes == user], minlength=FOLDS)
        assert np.ptp(counts) <= 1
    assert len(list((work / "cross-fit/fold-0/judged").glob("*.parquet"))) == PARTITIONS
    asked = np.repeat(np.arange(len(log)), 2)
    assert (log.pair_positions(log.user_codes[asked], controls) < 0).all(), "nobody has clicked on a control"
    FromSpark.turn.clear()
    monkeypatch.setattr("prorec.noise.finder.assign_folds", lambda *_: folds.astype(np.int16))
    monkeypatch.setattr(
        "prorec.noise.finder.sample_negatives",
        lambda *_: (controls.astype(np.int32), np.ones(len(controls), dtype=bool)),
    )
    finder = NoiseFinder([FromSpark(work, number, log.matrix.shape) for number in range(2)], folds=FOLDS)
    local = ProRec(fitted, noise_method=finder, **SETTINGS).fit(log, refit=False)

    at = places_in(log, rows)
    assert sorted(at) == list(range(len(log)))
    np.testing.assert_allclose(rows["percentile_rank"].to_numpy(), local.finder_.percentile_rank_[at], atol=1e-6)
    np.testing.assert_allclose(rows["noise_probability"].to_numpy(), local.noise_probability_[at], atol=1e-5)
    np.testing.assert_allclose(rows["weight"].to_numpy(), local.weights_.data[at], atol=1e-5)
    assert rows["basis"].to_pylist() == basis_names(local.finder_.basis_[at]).to_pylist()
    assert set(rows["basis"].to_pylist()) == {"models", "popularity"}
    expected = local.finder_.noise_rate_
    assert found.noise_rate is not None
    assert found.noise_rate.estimate == pytest.approx(expected.estimate, abs=1e-6)
    assert found.noise_rate.low == pytest.approx(expected.low, abs=0.02), "users are drawn again by another chance"
    flags = rows["flagged"].to_numpy()
    assert 0 < flags.sum() < len(log)
    assert (flags == local.flagged_[at]).mean() > 0.999, (
        "only where the line goes between values that rounding tells apart"
    )

    found.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert f"<strong>{format_percent(found.noise_rate.estimate)}</strong>" in page
    assert found.summary()["noise_rate"] == asdict(found.noise_rate)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"noise_method": "tea leaves"}, "noise_method must be 'plan', 'cross-fit' or a CrossFit; got 'tea leaves'"),
        ({"noise_method": CrossFit(folds=1)}, "folds must be a whole number from 2 to 1000"),
        ({"noise_method": CrossFit(seed=2**63)}, "seed must be a whole number from 0 to"),
        ({"noise_method": CrossFit(())}, "base_models must have at least one ALS"),
        ({"noise_method": CrossFit((WRMF(),))}, "base_models must be prorec.engines.spark.ALS"),  # type: ignore[arg-type]
        ({"noise_method": "cross-fit", "fdr": 1.0}, "fdr must be above 0 and below 1"),
        ({"weighting": "both"}, "needs probabilities that mean something"),
    ],
)
def test_settings_that_make_no_sense(spark: Any, how: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        denoise(spark.createDataFrame(pa.table({"user": [1, 1], "item": [1, 2]})), **how)


def test_a_log_that_cannot_be_cross_fitted(spark: Any) -> None:
    table = spark.createDataFrame(pa.table({"user": [1, 1, 2], "item": [1, 2, 1]}))
    with pytest.raises(InputError, match="folds must be at most 3, the number of interactions; got 4"):
        denoise(table, noise_method=CrossFit(folds=4), partitions=1)
    everything = spark.createDataFrame(pa.table({"user": [1, 1, 2, 2], "item": [1, 2, 1, 2]}))
    with pytest.raises(InputError, match="every user has an interaction with every item"):
        denoise(everything, noise_method=CrossFit(folds=2), partitions=1)
    one_weight = spark.createDataFrame(pa.table({"user": [1, 1], "item": [1, 2], "weight": [1.0, 0.0]}))
    with pytest.raises(InputError, match="all weight is in one fold"):
        denoise(one_weight, noise_method=CrossFit(folds=2), partitions=1)

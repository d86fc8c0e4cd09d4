"""Cross-fitting on a cluster gives the probabilities of one machine, from the same folds, negatives, factors and halves
of the users."""

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
from prorec._core.random import make_generator
from prorec.engines.spark import ALS, CrossFit, SparkProRec, SparkResult, denoise
from prorec.engines.spark.cross_fit_tasks import hash_to_uniform
from prorec.engines.spark.flag_cutoff import find_cutoff
from prorec.engines.spark.task_arrays import list_values, make_batch, make_lists, split_batches
from prorec.models import WRMF
from prorec.noise.density_ratio import fit_out_of_user_ratio
from prorec.noise.flagging import flag_interactions
from prorec.noise.posterior import basis_names
from prorec.report.formatting import format_percent
from tests.engines.executor_kills import killing_executors
from tests.engines.test_spark import find_positions, make_factor_tables, make_table

# PySpark leaves it to the garbage collector to close its sockets.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

FOLDS = 2
PARTITIONS = 3
SETTINGS: dict[str, Any] = {"fdr": 0.6}
MODELS = (ALS(rank=6, sweeps=2), ALS(rank=3, alpha=1.0, sweeps=2))


def test_hashes_are_uniform_and_independent() -> None:
    users, items = np.repeat(np.arange(300), 300), np.tile(np.arange(300), 300)
    hashes = hash_to_uniform(0, 1, users, items)
    assert (hashes >= 0).all()
    assert (hashes < 1).all()
    counts = np.histogram(hashes, 100, (0, 1))[0]
    assert ((counts - 900) ** 2 / 900).sum() < 160  # χ² with 99 degrees of freedom: once in ten thousand draws
    for other in (
        hash_to_uniform(0, 2, users, items),
        hash_to_uniform(1, 1, users, items),
        hashes.reshape(300, 300).T.ravel(),
    ):
        assert abs(np.corrcoef(hashes, other)[0, 1]) < 0.02
    grid = hashes.reshape(300, 300)
    assert abs(np.corrcoef(grid[:, :-1].ravel(), grid[:, 1:].ravel())[0, 1]) < 0.02
    np.testing.assert_array_equal(hash_to_uniform(0, 1, users[5:9], items[5:9]), hashes[5:9])


def test_split_batches_have_all_rows_and_not_too_many_interactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prorec.engines.spark.task_arrays._MAX_INTERACTIONS", 5)
    lists = [[1, 2], [3], [], [1, 2, 3, 4, 5, 6, 7], [], [1, 2, 3, 4, 5], [], [1]]
    batch = pa.RecordBatch.from_pydict({"user": range(8), "items": pa.array(lists, pa.list_(pa.int32()))})
    pieces = list(split_batches([batch, batch.slice(0, 0), batch]))
    assert [piece["user"].to_pylist() for piece in pieces] == [[0, 1, 2], [3], [4, 5, 6], [7]] * 2
    for piece in pieces:
        numbers = piece["user"].to_pylist()
        assert list_values(piece, "items").tolist() == [item for number in numbers for item in lists[number]]


def test_empty_batches_have_the_same_types() -> None:
    schema = "users array<int>, sum double"
    full = make_batch(schema, [make_lists(np.array([0, 2]), np.array([1, 2])), np.bincount([0], [0.5])])
    empty = make_batch(schema, [make_lists(np.array([0]), np.array([])), np.bincount([], [])])
    assert [full.num_rows, empty.num_rows] == [1, 0]
    assert full.schema == empty.schema


@pytest.mark.parametrize("limit", [0, 1, 3, 4, 7, 8])
def test_cutoff_of_flags_is_that_of_one_machine(spark: Any, limit: int) -> None:
    probabilities = np.array([0.9, 0.9 + 1e-7, 0.9, 0.9 + 2e-7, 1.0, 0.0, 0.3, 1e-9], dtype=np.float32)
    table = spark.createDataFrame(pa.table({"noise_probability": probabilities}))
    cutoff = find_cutoff(table, lambda n, n_wrong: n <= limit)
    assert (probabilities > cutoff).tolist() == flag_interactions(probabilities, n=limit).tolist()
    fdr = 0.05 * (1 + limit)
    cutoff = find_cutoff(table, lambda n, n_wrong: n_wrong <= fdr * n)
    assert (probabilities > cutoff).tolist() == flag_interactions(probabilities, fdr=fdr).tolist()


class FromSpark:
    """A model that takes the factors that Spark has learned, fold by fold."""

    turn: ClassVar[dict[int, int]] = {}

    def __init__(self, work: Path, number: int, shape: tuple[int, int]) -> None:
        self.work, self.number, self.shape = work, number, shape

    def fit(self, matrix: csr_matrix) -> None:
        fold = self.turn.get(self.number, 0)
        self.turn[self.number] = fold + 1
        # After the folds comes a fit for interactions that arrive later, which this test does not score.
        folder = self.work / f"cross-fit/fold-{min(fold + 1, FOLDS)}/model-{self.number + 1}"
        arrays = []
        for role, n in zip(("user", "item"), self.shape, strict=True):
            rows = pa.parquet.read_table(folder / f"factors-of-{role}s")
            array = np.zeros((n, MODELS[self.number].rank), dtype=np.float32)
            array[rows[role].to_numpy()] = np.stack(rows["features"].to_numpy())
            arrays.append(array)
        self.user_factors, self.item_factors = arrays


def read_folds(work: Path, column: str) -> NDArray[Any]:
    """Return a list column of the folds, in the order of users."""
    rows = pa.parquet.read_table(work / "cross-fit/folds-and-negatives").sort_by("user")
    return np.concatenate([np.asarray(each) for each in rows[column].to_pylist()])


@pytest.fixture(scope="module")
def log() -> Interactions:
    # Without mistakes and exploration, two small models can tell the noise rate.
    clean = prorec.make_cinema(300, 200, mistake_rate=0, exploration_rate=0, seed=4).interactions.drop_empty()
    noisy = prorec.inject_noise(clean, 0.2, "uniform", seed=0).interactions
    # One more user, with a single click, which can be scored by popularity only.
    table = pa.table({"user": [*noisy.users[noisy.user_codes], 10_000], "item": [*noisy.items[noisy.item_codes], 3]})
    return Interactions.from_table(table)


@pytest.fixture(scope="module")
def fitted(log: Interactions) -> WRMF:
    return WRMF(rank=8).fit(log)


# Steps that take more than a moment; the steps between them are of the same kinds.
STEPS_TO_KILL = ("fold 1: model 1: ALS", "fold 2: scores", "features of pairs", "noise probabilities")


@pytest.fixture(scope="module")
def result(spark: Any, log: Interactions, fitted: WRMF, tmp_path_factory: pytest.TempPathFactory) -> SparkResult:
    """A run in which an executor is killed in every step of cross-fitting that takes more than a moment."""
    denoiser = SparkProRec(noise_method=CrossFit(MODELS, folds=FOLDS), partitions=PARTITIONS, **SETTINGS)
    table, factors = make_table(spark, log), make_factor_tables(spark, fitted)
    with killing_executors(STEPS_TO_KILL, delay=0.4) as killed:
        result = denoiser.fit(table, factors=factors, work_dir=str(tmp_path_factory.mktemp("work")))
    for step in STEPS_TO_KILL:
        assert any(step in each for each in killed), (step, killed)
    return result


def test_same_probabilities_as_on_one_machine_if_executors_are_killed(
    result: SparkResult, log: Interactions, fitted: WRMF, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, rows = Path(result.work_dir), result.noise_table().toArrow()
    folds, negatives = read_folds(work, "folds"), read_folds(work, "negatives")
    for user in range(log.n_users):  # folds of one user differ by one interaction at most
        counts = np.bincount(folds[log.user_codes == user], minlength=FOLDS)
        assert np.ptp(counts) <= 1
    assert len(list((work / "cross-fit/fold-1/scores").glob("*.parquet"))) == PARTITIONS
    clicks = np.repeat(np.arange(len(log)), 2)
    assert (log.pair_positions(log.user_codes[clicks], negatives) < 0).all(), "no negative was clicked"
    FromSpark.turn.clear()
    monkeypatch.setattr("prorec.noise.finder.assign_folds", lambda *_: folds.astype(np.int16))
    monkeypatch.setattr(
        "prorec.noise.cross_fitting.sample_negatives",
        lambda *_: (negatives.astype(np.int32), np.ones(len(negatives), dtype=bool)),
    )
    monkeypatch.setattr(
        "prorec.noise.finder.fit_out_of_user_ratio",
        lambda features, users, is_click, n_users, _: fit_out_of_user_ratio(
            features, users, is_click, n_users, make_generator(0)
        ),
    )
    base_models = [FromSpark(work, number, log.matrix.shape) for number in range(2)]
    finder = NoiseFinder(base_models, folds=FOLDS, cooccurrence=False)
    local = ProRec(fitted, noise_method=finder, **SETTINGS).fit(log, refit=False)

    at = find_positions(log, rows)
    assert sorted(at) == list(range(len(log)))
    np.testing.assert_allclose(rows["percentile_rank"].to_numpy(), local.finder_.percentile_rank_[at], atol=1e-6)
    np.testing.assert_allclose(rows["noise_probability"].to_numpy(), local.noise_probability_[at], atol=1e-5)
    np.testing.assert_allclose(rows["weight"].to_numpy(), local.weights_.data[at], atol=1e-5)
    assert rows["basis"].to_pylist() == basis_names(local.finder_.basis_[at]).to_pylist()
    assert set(rows["basis"].to_pylist()) == {"models", "popularity"}
    expected = local.finder_.noise_rate_
    assert result.noise_rate is not None
    assert expected.is_identified
    assert asdict(result.noise_rate) == pytest.approx(asdict(expected), abs=1e-6)
    flags = rows["flagged"].to_numpy()
    assert 0 < flags.sum() < len(log)
    assert (flags == local.flagged_[at]).mean() > 0.999, "flags may differ only where rounding decides"

    result.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert f"noise rate</th><td>{format_percent(result.noise_rate.estimate)}</td>" in page
    assert result.summary()["noise_rate"] == asdict(result.noise_rate)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise_method": "tea leaves"}, "noise_method must be 'cross-fit', 'plan' or a CrossFit; got 'tea leaves'"),
        ({"noise_method": CrossFit(folds=1)}, "folds must be a whole number from 2 to 1000"),
        ({"noise_method": CrossFit(seed=2**63)}, "seed must be a whole number from 0 to"),
        ({"noise_method": CrossFit(())}, "base_models must have at least one ALS"),
        ({"noise_method": CrossFit((WRMF(),))}, "base_models must be prorec.engines.spark.ALS"),  # type: ignore[arg-type]
        ({"noise_method": "cross-fit", "fdr": 1.0}, "fdr must be above 0 and below 1"),
        ({"weighting": "both"}, "weighting must be 'auto' or 'probability' with cross-fitting on Spark; got 'both'"),
    ],
)
def test_invalid_settings_are_refused(spark: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        denoise(spark.createDataFrame(pa.table({"user": [1, 1], "item": [1, 2]})), **settings)


def test_logs_that_cannot_be_cross_fitted_are_refused(spark: Any) -> None:
    table = spark.createDataFrame(pa.table({"user": [1, 1, 2], "item": [1, 2, 1]}))
    with pytest.raises(InputError, match="folds must be at most 3, the number of interactions; got 4"):
        denoise(table, noise_method=CrossFit(folds=4), partitions=1)
    everything = spark.createDataFrame(pa.table({"user": [1, 1, 2, 2], "item": [1, 2, 1, 2]}))
    with pytest.raises(InputError, match="no negatives can be sampled"):
        denoise(everything, noise_method=CrossFit(folds=2), partitions=1)
    one_weight = spark.createDataFrame(pa.table({"user": [1, 1], "item": [1, 2], "weight": [1.0, 0.0]}))
    with pytest.raises(InputError, match="all weight is in one fold"):
        denoise(one_weight, noise_method=CrossFit(folds=2), partitions=1)

"""Learning and recommending on a device of PyTorch's, against the CPU's kernels and plain dense arithmetic.

PyTorch's own CPU stands in for a GPU; where there is one, it runs too.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from prorec import InputError, Interactions
from prorec._core import device as device_module
from prorec._core.tensors import to_tensor
from prorec.models import (
    CDAE,
    EASE,
    NCE,
    SVD,
    VAE,
    WRMF,
    Model,
    _least_squares,
    _on_device,
    _top_on_device,
    _training,
    load,
)
from prorec.models import model as model_module
from prorec.models._batches import Batch
from prorec.models._on_device import Sparse, in_blocks
from prorec.models._sparse import OnHost, row_sums
from prorec.models._top_on_device import Best
from prorec.models.autoencoder import normalised
from tests.models.test_all import clicks
from tests.models.test_closed_form import weighted

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
MODELS: list[Model] = [
    SVD(rank=5),
    NCE(rank=5, regularization=3.0, popularity_power=1.1),
    WRMF(rank=5, sweeps=4, regularization=2.0),
    EASE(regularization=5.0),
]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """Everything that can runs here, whatever its size; rows are cut and blocks are small."""
    found = torch.device(request.param)
    monkeypatch.setattr(model_module, "resolve_device", lambda name, _: None if name == "cpu" else found)
    monkeypatch.setattr(_on_device, "_SEGMENT", 5)
    monkeypatch.setattr(_on_device, "_BLOCK", 200)
    monkeypatch.setattr(_on_device, "_PRODUCT", 16)
    monkeypatch.setattr(_least_squares, "_ENTRIES", 100)
    monkeypatch.setattr(_top_on_device, "_BLOCK", 20_000)
    return found


def on_cpu(model: Model, matrix: csr_array) -> Model:
    return type(model)(**model.get_params(deep=False) | {"device": "cpu"}).fit(matrix)


def odd(which: str) -> csr_array:
    """Matrices that have something special about them."""
    rng = np.random.default_rng(0)
    dense = weighted(60, 50, seed=1).toarray()
    if which == "empty rows":
        dense[::3], dense[:, ::4] = 0, 0
    if which == "long rows":
        dense[7], dense[:, 11] = 0.5, 1
    if which == "zero weights":
        made = csr_array(dense)
        made.data[rng.random(made.nnz) < 0.3] = 0
        made.data[made.indptr[4] : made.indptr[5]] = 0
        return made
    if which == "nothing":
        dense[:] = 0
    if which == "more items":
        dense = weighted(20, 150, seed=2).toarray()
    return csr_array(dense)


ODD = ["empty rows", "long rows", "zero weights", "nothing", "more items"]


@pytest.mark.parametrize("which", ODD)
def test_products(device: torch.device, which: str) -> None:
    matrix = odd(which)
    exact = matrix.toarray().astype(np.float64)
    ours, host = Sparse.of(matrix, device), OnHost(matrix)
    rng = np.random.default_rng(0)
    right, left = (rng.normal(size=(n, 3)).astype(np.float32) for n in matrix.shape[::-1])
    close, loose = {"rtol": 1e-5, "atol": 1e-5}, {"rtol": 1e-4, "atol": 1e-4}
    for each in (ours, host):
        np.testing.assert_allclose(each.to_host(each.times(right)), exact @ right, **close)
        np.testing.assert_allclose(each.to_host(each.transposed_times(left)), exact.T @ left, **close)
        np.testing.assert_allclose(each.to_host(each.squared_times(right)), exact.T @ (exact @ right), **loose)
        np.testing.assert_allclose(each.lengths_times(right), np.linalg.norm(exact @ right, axis=0), **close)
        np.testing.assert_allclose(each.columns_gram(), exact.T @ exact, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(each.rows_gram(), exact @ exact.T, rtol=1e-12, atol=1e-12)
        wide = left.astype(np.float64)
        np.testing.assert_allclose(each.wide_transposed_times(wide), exact.T @ wide, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(each.column_sums(), exact.sum(axis=0), rtol=1e-12)
        assert each.count_nonzero() == np.count_nonzero(exact)
        assert each.largest() == exact.max()
        factors = rng.random(matrix.shape[1])
        scaled = each.times_columns(factors).over(0.5)
        np.testing.assert_allclose(scaled.to_host(scaled.times(right)), 2 * (exact * factors) @ right, **close)
        product = each.times(right)
        np.testing.assert_allclose(each.products(product), (exact @ right).T @ (exact @ right), rtol=1e-5, atol=1e-5)
        assert each.squares(product) == pytest.approx(((exact @ right) ** 2).sum(), rel=1e-5)
    np.testing.assert_allclose(row_sums(matrix), exact.sum(axis=1), rtol=1e-6)
    assert ours.digest() == Sparse.of(matrix, device).digest()
    assert (ours.digest() != ours.over(2).digest()) == exact.any()


def test_segments_of_segments(device: torch.device) -> None:
    """A row of 3,000 entries is cut five times over, at 5 a segment."""
    rng = np.random.default_rng(0)
    dense = rng.random((4, 3000)).astype(np.float32)
    dense[2] = 0
    ours = Sparse.of(csr_array(dense), device)
    assert len(ours.pattern.begins) == 5
    np.testing.assert_allclose(ours.times(np.ones((3000, 1), np.float32)).cpu().ravel(), dense.sum(axis=1), rtol=1e-5)


def test_arrays_that_cannot_be_written_to_are_left_alone(device: torch.device) -> None:
    data = clicks()
    assert not data.matrix.data.flags.writeable
    before = data.matrix.data.copy()
    for model in MODELS:
        model.fit(data).recommend(data.users)
    np.testing.assert_array_equal(data.matrix.data, before)
    assert not data.matrix.data.flags.writeable
    np.testing.assert_array_equal(to_tensor(data.matrix.data, device).cpu(), before)


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("which", ODD)
def test_learns_what_the_cpu_does(device: torch.device, model: Model, which: str) -> None:
    matrix = odd(which)
    learned, again, wanted = (each.arrays_ for each in (model.fit(matrix), model.fit(matrix), on_cpu(model, matrix)))
    for name, array in wanted.items():
        assert np.isfinite(learned[name]).all()
        assert learned[name].dtype == array.dtype
        np.testing.assert_allclose(learned[name], array, atol=2e-4 * max(np.abs(array).max(), 1e-3))
        np.testing.assert_array_equal(again[name], learned[name])


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_one_user(device: torch.device, model: Model) -> None:
    matrix = csr_array(np.array([[1, 0.5, 0, 1, 0]], dtype=np.float32))
    model = type(model)(**model.get_params(deep=False) | ({} if isinstance(model, EASE) else {"rank": 1}))
    learned, wanted = model.fit(matrix).arrays_, on_cpu(model, matrix).arrays_
    for name, array in wanted.items():
        np.testing.assert_allclose(learned[name], array, atol=1e-4)
    assert set(model.recommend([0], k=5).item_positions[0].tolist()) == {2, 4, -1}


def test_svd_by_its_krylov_space(device: torch.device) -> None:
    """Large enough not to be decomposed exactly."""
    matrix = weighted(700, 500)
    values = np.linalg.norm(SVD(rank=5).fit(matrix).arrays_["users"], axis=0)
    np.testing.assert_allclose(values, np.linalg.svd(matrix.toarray(), compute_uv=False)[:5], rtol=2e-2)
    for model in (SVD(rank=5), NCE(rank=5)):
        learned, wanted = model.fit(matrix).arrays_, on_cpu(model, matrix).arrays_
        for name, array in wanted.items():
            np.testing.assert_allclose(learned[name], array, atol=1e-3 * np.abs(array).max())


def test_wrmf_users_solve_their_equation(device: torch.device) -> None:
    matrix = odd("long rows")
    model = WRMF(rank=8, alpha=10, regularization=2, sweeps=5).fit(matrix)
    h = model.arrays_["items"].astype(float)
    for user in range(60):
        weights = matrix[[user]].toarray()[0].astype(float)
        left = h.T @ h + 2 * np.eye(8) + 10 * (h.T * weights) @ h
        wanted = np.linalg.solve(left, h.T @ ((10 * weights + 1) * weights))
        np.testing.assert_allclose(model.arrays_["users"][user], wanted, atol=1e-4)
    np.testing.assert_allclose(model.encode_users(matrix), model.arrays_["users"], atol=1e-4)


def test_wrmf_starts_where_another_ended(device: torch.device) -> None:
    matrix = weighted(60, 50)
    first = WRMF(rank=5, sweeps=3).fit(matrix)
    before = {name: array.copy() for name, array in first.arrays_.items()}
    second = WRMF(rank=5, sweeps=2).fit(matrix, init_from=first)
    wanted = WRMF(rank=5, sweeps=2, device="cpu").fit(matrix, init_from=first)
    for name in ("users", "items"):
        np.testing.assert_allclose(second.arrays_[name], wanted.arrays_[name], atol=2e-4)
        np.testing.assert_array_equal(first.arrays_[name], before[name])


def test_wrmf_numbers_that_explode(device: torch.device) -> None:
    with pytest.raises(InputError, match="WRMF came to numbers that are not finite: a parameter is too extreme"):
        WRMF(rank=5, alpha=1e30).fit(clicks())


def test_wrmf_rows_that_are_solved_already_stay(device: torch.device) -> None:
    """Their residual is 0, by which no step may be divided."""
    matrix = csr_array(np.eye(4, dtype=np.float32))
    items = torch.eye(4, device=device)
    users = torch.zeros((4, 4), device=device)
    users[:3] = torch.eye(4)[:3] * (11 / 13)  # of (1 + 1 + 10)·x = 11, the answer for all but the last is nearly there
    for steps in (3, 40):
        _least_squares.solve(Sparse.of(matrix, device), items, users, alpha=10.0, ridge=2.0, steps=steps, exact=1e-5)
        np.testing.assert_allclose(users.cpu(), np.eye(4) * 11 / 13, atol=1e-6)


def test_ease_says_what_is_free(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module, "free_memory", lambda _: 2e9)
    with pytest.raises(InputError, match=r"EASE needs 3 GB on .* for the weights between 10,000 items; 2 GB are free"):
        EASE().fit(csr_array((2, 10_000), dtype=np.float32))
    with pytest.raises(InputError, match="regularization of 1e-300 is too small"):
        EASE(1e-300).fit(csr_array(np.ones((3, 4), dtype=np.float32)))


# ── recommending ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("model", [*MODELS, CDAE(4, epochs=2), VAE(4, epochs=2)], ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("k", [1, 3, 30])
def test_recommends_what_the_cpu_does(device: torch.device, model: Model, k: int) -> None:
    data = clicks()
    fitted = on_cpu(model, data)
    wanted = [fitted.recommend(data.users[::-1], k), fitted.recommend(data.users, k, exclude_seen=False)]
    baskets = [data.items[data.matrix[[user]].indices].tolist() for user in range(5)]
    wanted.append(fitted.recommend_new([*baskets, []], k))
    fitted.device = "auto"
    got = [fitted.recommend(data.users[::-1], k), fitted.recommend(data.users, k, exclude_seen=False)]
    got.append(fitted.recommend_new([*baskets, []], k))
    for ours, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-4, atol=1e-4)
        assert np.mean(ours.item_positions == theirs.item_positions) > 0.99
        assert ours.item_positions.dtype == theirs.item_positions.dtype
        assert ours.users.tolist() == theirs.users.tolist()
    assert fitted.recommend([], k=3).item_positions.shape == (0, 3)


def by_hand(scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    best = np.take_along_axis(scores, order, axis=1)
    return np.where(best == -np.inf, -1, order), np.where(best == -np.inf, 0, best)


@pytest.mark.parametrize("n_items", [1, 7, 64, 65, 200, 1000])
def test_the_first_of_equals(device: torch.device, n_items: int) -> None:
    """Scores of few values, negative ones, −0 and ties across groups; rows out of order, some who have seen all."""
    rng = np.random.default_rng(n_items)
    users = rng.integers(-2, 3, (30, 3)).astype(np.float32)
    items = rng.integers(-1, 2, (n_items, 3)).astype(np.float32)
    bias = rng.integers(-1, 2, n_items).astype(np.float32) * np.float32(-0.0 if n_items == 7 else 1)
    is_seen = rng.random((30, n_items)) < 0.3
    is_seen[3], is_seen[4] = True, False
    rows = np.array([5, 6, 7, 3, 4, 29, 0, 0])
    is_unknown = np.array([False, True, False, True, False, False, False, True])
    popularity = rng.integers(0, 4, n_items).astype(np.float32)
    seen = csr_array(is_seen.astype(np.float32))
    for k in sorted({1, min(10, n_items), n_items}):
        for masked in (True, False):
            where = (seen.indptr, seen.indices) if masked else None
            ranked, best = Best(items, bias, k, where, popularity, device).of(users, rows, is_unknown)
            scores = users[rows] @ items.T + bias
            scores[is_unknown] = popularity
            scores[is_seen[rows] & masked] = -np.inf
            columns, values = by_hand(scores, k)
            np.testing.assert_array_equal(ranked, columns)
            np.testing.assert_array_equal(best, values)


def test_results_that_wait_are_fetched(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_top_on_device, "_WAITING", 100)
    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(100, 4)).astype(np.float32), rng.normal(size=(90, 4)).astype(np.float32)
    ranked, _ = Best(items, None, 4, None, None, device).of(users, np.arange(100), np.zeros(100, dtype=bool))
    assert np.mean(ranked == by_hand(users @ items.T, 4)[0]) > 0.99


def test_scores_that_are_too_large(device: torch.device) -> None:
    model = SVD(rank=2).fit(clicks())
    model.arrays_ = {name: np.full_like(array, 1e30) for name, array in model.arrays_.items()}
    with pytest.raises(InputError, match="the scores are too large for single precision"):
        model.recommend(["user 1"])


# ── training ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("which", ["long rows", "zero weights"])
def test_batches_cut_on_the_device(device: torch.device, which: str) -> None:
    matrix = odd(which)
    rows = np.array([0, 4, 7, 30, 59])
    clicks_there = Sparse.of(matrix, device)
    for given, inputs in ((matrix, clicks_there), (normalised(matrix), clicks_there.unit_rows())):
        ours = Batch.cut(clicks_there, inputs.values, rows, 0.0)
        wanted = Batch.of(matrix, given, rows, 0.0, np.random.default_rng(0), torch.device("cpu"))
        for name in ("users", "ends", "rows", "items", "weights", "begins"):
            np.testing.assert_array_equal(torch.as_tensor(getattr(ours, name)).cpu(), getattr(wanted, name))
        np.testing.assert_allclose(ours.values.cpu(), wanted.values, rtol=1e-6)
        for one, other in zip(ours._transposed, wanted._transposed, strict=True):
            np.testing.assert_allclose(one.cpu(), other, rtol=1e-6)
    torch.manual_seed(0)
    values = Batch.cut(clicks_there, torch.ones_like(clicks_there.values), np.arange(60), 0.25).values.cpu().numpy()
    np.testing.assert_allclose(np.unique(values), [0, 4 / 3], rtol=1e-6)
    assert np.mean(values == 0) == pytest.approx(0.25, abs=0.05)


@pytest.mark.parametrize("kind", [CDAE, VAE])
def test_training_with_batches_from_the_device(
    device: torch.device, monkeypatch: pytest.MonkeyPatch, kind: type[Model]
) -> None:
    data = clicks()
    how = {"rank": 8, "epochs": 4, "batch_size": 16, "corruption": 0.0}
    wanted = kind(**how, device="cpu").fit(data, validation=data)
    monkeypatch.setattr(_training, "_cuts_there", lambda _: True)
    got, again = (kind(**how).fit(data, validation=data) for _ in range(2))
    for name, array in got.arrays_.items():
        np.testing.assert_array_equal(again.arrays_[name], array)
        if kind is CDAE:  # the VAE draws from its latent distribution, and the batch draws before it
            np.testing.assert_allclose(array, wanted.arrays_[name], atol=1e-3 * np.abs(wanted.arrays_[name]).max())
            assert got.history_[0]["ndcg@10"] == pytest.approx(wanted.history_[0]["ndcg@10"], rel=0.05)
    assert got.history_[-1]["loss"] < got.history_[0]["loss"]


@pytest.mark.parametrize("loss", ["ce", "t-ce", "r-ce"])
@pytest.mark.parametrize("kind", [CDAE, VAE])
@pytest.mark.parametrize("users", [1, 7])
def test_scores_in_parts_change_nothing(
    device: torch.device, monkeypatch: pytest.MonkeyPatch, kind: type[Model], loss: str, users: int
) -> None:
    """30 items and room for the scores of so many users at a time, of batches of 16."""
    data = clicks()
    model = kind(rank=8, epochs=4, batch_size=16, loss=loss, drop_rate=0.5, drop_epochs=2)
    whole = model.fit(data)
    wanted, losses = whole.arrays_, [epoch["loss"] for epoch in whole.history_]
    monkeypatch.setattr(_training, "_SCORES", users * 30 * 4)
    model.fit(data)
    np.testing.assert_allclose([epoch["loss"] for epoch in model.history_], losses, rtol=1e-4)
    for name, array in wanted.items():
        np.testing.assert_allclose(model.arrays_[name], array, atol=1e-3 * np.abs(array).max())


def test_training_that_does_not_fit(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(_training, "_gradients", short)
    with pytest.raises(InputError, match="CDAE, in batches of this size, does not fit on"):
        CDAE(4).fit(clicks())


# ── memory, devices, files ──────────────────────────────────────────────────────────────────────────


def short_of_memory(most: int, done: list[int]) -> Callable[[int, int], None]:
    def work(begin: int, end: int) -> None:
        if end - begin > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        done.extend(range(begin, end))

    return work


@pytest.mark.parametrize("most", [1, 2, 7, 100])
def test_blocks_are_halved_until_they_fit(most: int) -> None:
    done: list[int] = []
    in_blocks(short_of_memory(most, done), [0, 40, 41, 100])
    assert done == list(range(100))
    in_blocks(short_of_memory(most, done), [0])


def test_one_row_that_does_not_fit() -> None:
    done: list[int] = []
    with pytest.raises(InputError, match=r"one row does not fit into the device's memory; device='cpu'"):
        in_blocks(short_of_memory(0, done), [0, 9])
    assert done == []


def test_a_lack_of_memory_in_words(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(Sparse, "largest", short)
    with pytest.raises(InputError, match=r"what SVD learns does not fit on .* device='cpu' .* CUDA"):
        SVD(rank=2).fit(clicks())


def test_recommending_and_solving_with_little_memory(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block of more than three rows fails; what comes out is the same."""
    model = WRMF(rank=3, sweeps=2).fit(clicks())
    wanted = model.recommend(clicks().users, k=4)
    block, rows = Best._block, _least_squares._Rows.__init__

    def short_block(self: Best, users: np.ndarray, part: np.ndarray, is_unknown: np.ndarray) -> object:
        if len(part) > 3:
            raise torch.OutOfMemoryError("short")
        return block(self, users, part, is_unknown)

    def short_rows(self: object, *given: int) -> None:
        if given[-1] - given[-2] > 3:
            raise torch.OutOfMemoryError("short")
        rows(self, *given)

    monkeypatch.setattr(Best, "_block", short_block)
    monkeypatch.setattr(_least_squares._Rows, "__init__", short_rows)
    again = WRMF(rank=3, sweeps=2).fit(clicks())
    np.testing.assert_allclose(again.arrays_["users"], model.arrays_["users"], atol=1e-5)
    np.testing.assert_array_equal(again.recommend(clicks().users, k=4).item_positions, wanted.item_positions)


@pytest.mark.parametrize("kind", [SVD, NCE, WRMF, EASE])
def test_devices_that_there_are_not(kind: type[Model]) -> None:
    how = {} if kind is EASE else {"rank": 2}
    for given in ("abacus", "cuda:99", 3, None):
        model = kind(**how, device=given)
        with pytest.raises(InputError, match="device must be 'auto', 'cpu' or 'cuda'"):
            model.fit(clicks())
        assert not hasattr(model, "arrays_")
    assert kind(**how, device="cpu") == kind(**how)
    assert "device" not in repr(kind(**how))


@pytest.mark.parametrize("kind", [SVD, NCE, WRMF, EASE, CDAE, VAE])
def test_a_model_from_a_machine_with_a_gpu(kind: type[Model], tmp_path: Path) -> None:
    how = {EASE: {}, CDAE: {"rank": 2, "epochs": 1}, VAE: {"rank": 2, "epochs": 1}}.get(kind, {"rank": 2})
    data = clicks()
    fitted = kind(**how, device="cpu").fit(data)
    fitted.save(tmp_path)
    about = json.loads((tmp_path / "model.json").read_text())
    for written, read in (("cuda", "auto"), ("cuda:7", "auto"), ("auto", "auto"), ("cpu", "cpu"), (None, "auto")):
        parameters = {name: value for name, value in about["parameters"].items() if name != "device"}
        about["parameters"] = parameters | ({} if written is None else {"device": written})
        (tmp_path / "model.json").write_text(json.dumps(about))
        model = load(tmp_path)
        assert model.device == read
        assert model == fitted
        np.testing.assert_array_equal(
            model.recommend(data.users).item_positions, fitted.recommend(data.users).item_positions
        )


def test_small_data_do_without_pytorch() -> None:
    script = (
        "import sys, numpy as np, scipy.sparse as s, prorec\n"
        "from prorec.models import SVD, NCE, WRMF, EASE\n"
        "m = s.csr_array(np.eye(9, dtype=np.float32))\n"
        "for each in (SVD(2), NCE(2), WRMF(2), EASE()): each.fit(m).recommend([0], k=3)\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_interactions_as_well_as_matrices(device: torch.device) -> None:
    data = Interactions.from_matrix(weighted(30, 20))
    for model in MODELS:
        first, second = model.fit(data).arrays_, model.fit(data.matrix).arrays_
        for name, array in first.items():
            np.testing.assert_array_equal(array, second[name])

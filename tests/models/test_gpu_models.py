"""Models fitted on a device of PyTorch against the CPU's kernels and dense arithmetic."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from prorec import InputError, Interactions
from prorec._core import device as device_module
from prorec._core.tensors import to_tensor
from prorec.models import CDAE, EASE, NCE, SVD, VAE, WRMF, Model, load
from prorec.models._gpu_least_squares import LeastSquares, _RowBlock, solve_least_squares
from prorec.models._gpu_matrix import GpuMatrix
from tests.models.helpers import UNUSUAL, clicks, fit_on_cpu, make_matrix, make_unusual_matrix

MODELS: list[Model] = [
    SVD(rank=5),
    NCE(rank=5, regularization=3.0, popularity_power=1.1),
    WRMF(rank=5, sweeps=4, regularization=2.0),
    EASE(regularization=5.0),
    NCE(rank=5, regularization=3.0, activity_power=0.5, weight_meaning="value"),
    WRMF(rank=5, sweeps=4, regularization=2.0, activity_power=0.5),
    WRMF(rank=5, sweeps=4, regularization=2.0, weight_meaning="value"),
    EASE(regularization=5.0, activity_power=0.5),
    EASE(regularization=5.0, weight_meaning="value"),
    SVD(rank=5, activity_power=0.5),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("name", UNUSUAL)
def test_learns_as_on_the_cpu(device: torch.device, model: Model, name: str) -> None:
    matrix = make_unusual_matrix(name)
    first, second, expected = model.fit(matrix).arrays_, model.fit(matrix).arrays_, fit_on_cpu(model, matrix).arrays_
    for key, array in expected.items():
        assert np.isfinite(first[key]).all()
        assert first[key].dtype == array.dtype
        np.testing.assert_allclose(first[key], array, atol=2e-4 * max(np.abs(array).max(), 1e-3))
        np.testing.assert_array_equal(second[key], first[key])


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_one_user(device: torch.device, model: Model) -> None:
    matrix = csr_array(np.array([[1, 0.5, 0, 1, 0]], dtype=np.float32))
    model = type(model)(**model.get_params(deep=False) | ({} if isinstance(model, EASE) else {"rank": 1}))
    arrays, expected = model.fit(matrix).arrays_, fit_on_cpu(model, matrix).arrays_
    for key, array in expected.items():
        np.testing.assert_allclose(arrays[key], array, atol=1e-4)
    assert set(model.recommend([0], k=5).item_positions[0].tolist()) == {2, 4, -1}


def test_interactions_and_matrices_give_the_same_model(device: torch.device) -> None:
    data = Interactions.from_matrix(make_matrix(30, 20))
    for model in MODELS:
        first, second = model.fit(data).arrays_, model.fit(data.matrix).arrays_
        for key, array in first.items():
            np.testing.assert_array_equal(array, second[key])


def test_read_only_arrays_stay_unchanged(device: torch.device) -> None:
    data = clicks()
    assert not data.matrix.data.flags.writeable
    before = data.matrix.data.copy()
    for model in MODELS:
        model.fit(data).recommend(data.users)
    np.testing.assert_array_equal(data.matrix.data, before)
    assert not data.matrix.data.flags.writeable
    np.testing.assert_array_equal(to_tensor(data.matrix.data, device).cpu(), before)


def test_krylov_space_of_svd(device: torch.device) -> None:
    """The matrix is too large for an exact decomposition."""
    matrix = make_matrix(700, 500)
    values = np.linalg.norm(SVD(rank=5, weight_meaning="value").fit(matrix).arrays_["users"], axis=0)
    np.testing.assert_allclose(values, np.linalg.svd(matrix.toarray(), compute_uv=False)[:5], rtol=2e-2)
    models: list[Model] = [SVD(rank=5), NCE(rank=5)]
    for model in models:
        arrays, expected = model.fit(matrix).arrays_, fit_on_cpu(model, matrix).arrays_
        for key, array in expected.items():
            np.testing.assert_allclose(arrays[key], array, atol=1e-3 * np.abs(array).max())


def test_wrmf_users_solve_their_equation(device: torch.device) -> None:
    matrix = make_unusual_matrix("long rows")
    model = WRMF(rank=8, alpha=10, regularization=2, sweeps=5).fit(matrix)
    h = model.arrays_["items"].astype(float)
    for user in range(60):
        weights = matrix[[user]].toarray()[0].astype(float)
        left = h.T @ h + 2 * np.eye(8) + 10 * (h.T * weights) @ h
        expected = np.linalg.solve(left, h.T @ (11 * weights))
        np.testing.assert_allclose(model.arrays_["users"][user], expected, atol=1e-4)
    np.testing.assert_allclose(model.encode_users(matrix), model.arrays_["users"], atol=1e-4)


def test_wrmf_starts_from_another(device: torch.device) -> None:
    matrix = make_matrix(60, 50)
    first = WRMF(rank=5, sweeps=3).fit(matrix)
    before = {name: array.copy() for name, array in first.arrays_.items()}
    second = WRMF(rank=5, sweeps=2).fit(matrix, init_from=first)
    expected = WRMF(rank=5, sweeps=2, device="cpu").fit(matrix, init_from=first)
    for name in ("users", "items"):
        np.testing.assert_allclose(second.arrays_[name], expected.arrays_[name], atol=2e-4)
        np.testing.assert_array_equal(first.arrays_[name], before[name])


def test_wrmf_refuses_results_that_are_not_finite(device: torch.device) -> None:
    with pytest.raises(InputError, match=r"WRMF must be finite.*less extreme parameters"):
        WRMF(rank=5, alpha=1e30).fit(clicks())


def test_solved_rows_of_wrmf_stay(device: torch.device) -> None:
    """Their residual is 0, by which no step may be divided."""
    matrix = GpuMatrix.from_scipy(csr_array(np.eye(4, dtype=np.float32)), device)
    items = torch.eye(4, device=device)
    users = torch.zeros((4, 4), device=device)
    users[:3] = torch.eye(4)[:3] * (11 / 13)  # nearly the solution of (1 + 1 + 10)·x = 11, for all but the last
    problem = LeastSquares(alpha=10.0, target=(11.0, 0.0), ridge=2.0)
    for steps in (3, 40):
        solve_least_squares(matrix, items, users, problem, steps=steps, tolerance=1e-5)
        np.testing.assert_allclose(users.cpu(), np.eye(4) * 11 / 13, atol=1e-6)


def test_wrmf_with_little_memory(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block of more than three rows fails, and the result stays the same."""
    expected = WRMF(rank=3, sweeps=2).fit(clicks()).arrays_["users"]
    init = _RowBlock.__init__

    def fail_for_large_blocks(self: _RowBlock, *arguments: Any) -> None:
        if arguments[-1] - arguments[-2] > 3:
            raise torch.OutOfMemoryError("short")
        init(self, *arguments)

    monkeypatch.setattr(_RowBlock, "__init__", fail_for_large_blocks)
    np.testing.assert_allclose(WRMF(rank=3, sweeps=2).fit(clicks()).arrays_["users"], expected, atol=1e-5)


def test_ease_refuses_more_than_the_free_memory(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module, "free_memory", lambda _: 2e9)
    for shape, side in (((20_000, 10_000), "items"), ((10_000, 20_000), "users")):
        with pytest.raises(InputError, match=rf"EASE needs 3 GB .* 10,000 {side}; 2 GB are free on"):
            EASE().fit(csr_array(shape, dtype=np.float32))
    for shape in ((4, 3), (3, 4)):
        with pytest.raises(InputError, match="regularization of 1e-300 is too small"):
            EASE(1e-300).fit(csr_array(np.ones(shape, dtype=np.float32)))


def test_lack_of_memory_is_explained(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(GpuMatrix, "max_value", fail)
    with pytest.raises(InputError, match=r"SVD does not fit on .* device='cpu' .* CUDA"):
        SVD(rank=2).fit(clicks())


@pytest.mark.parametrize("model_class", [SVD, NCE, WRMF, EASE])
def test_unknown_devices_are_refused(model_class: type[Any]) -> None:
    parameters = {} if model_class is EASE else {"rank": 2}
    for device in ("abacus", "cuda:99", 3, None):
        model = model_class(**parameters, device=device)
        with pytest.raises(InputError, match="device must be 'auto', 'cpu' or 'cuda'"):
            model.fit(clicks())
        assert not hasattr(model, "arrays_")
    assert model_class(**parameters, device="cpu") == model_class(**parameters)
    assert "device" not in repr(model_class(**parameters))


@pytest.mark.parametrize("model_class", [SVD, NCE, WRMF, EASE, CDAE, VAE])
def test_a_model_saved_on_another_device_is_loaded(model_class: type[Any], tmp_path: Path) -> None:
    networks: dict[type[Any], dict[str, Any]] = {CDAE: {"epochs": 1}, VAE: {"epochs": 1}}
    parameters = {} if model_class is EASE else {"rank": 2, **networks.get(model_class, {})}
    data = clicks()
    fitted = model_class(**parameters, device="cpu").fit(data)
    fitted.save(tmp_path)
    content = json.loads((tmp_path / "model.json").read_text())
    for saved, loaded in (("cuda", "auto"), ("cuda:7", "auto"), ("auto", "auto"), ("cpu", "cpu"), (None, "auto")):
        others = {name: value for name, value in content["parameters"].items() if name != "device"}
        content["parameters"] = others | ({} if saved is None else {"device": saved})
        (tmp_path / "model.json").write_text(json.dumps(content))
        model: Any = load(tmp_path)
        assert model.device == loaded
        assert model == fitted
        np.testing.assert_array_equal(
            model.recommend(data.users).item_positions, fitted.recommend(data.users).item_positions
        )


def test_small_data_need_no_pytorch() -> None:
    script = (
        "import sys, numpy as np, scipy.sparse as s, prorec\n"
        "from prorec.models import SVD, NCE, WRMF, EASE\n"
        "m = s.csr_array(np.eye(9, dtype=np.float32))\n"
        "for each in (SVD(2), NCE(2), WRMF(2), EASE()): each.fit(m).recommend([0], k=3)\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)

"""Models by name; models that start from another."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from prorec import InputError, NotFittedError
from prorec.models import CDAE, NCE, VAE, WRMF, Model
from prorec.models.factory import cap_rank, make_model, parse_parameters
from tests.models.test_all import clicks, made

torch.set_num_threads(1)


def test_by_name_in_any_case() -> None:
    assert make_model("NCE") == NCE()
    assert make_model("wrmf", {"rank": 7}) == WRMF(rank=7)


@pytest.mark.parametrize(
    ("name", "parameters", "problem"),
    [
        ("nse", {}, "there is no model called 'nse'; did you mean 'nce'"),
        ("prorec", {}, "there is no model called 'prorec'"),
        ("nce", {"ranks": 5}, "NCE has no parameter called 'ranks'; did you mean 'rank'"),
        ("ease", {"zzz": 5}, "EASE has no parameter called 'zzz'; There are device, regularization, seed"),
    ],
)
def test_near_matches(name: str, parameters: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        make_model(name, parameters)


def test_parameters_as_typed() -> None:
    assert parse_parameters(["rank=20", "hidden=None", "regularization=1e-3", " loss = t-ce", "device=cpu"]) == {
        "rank": 20,
        "hidden": None,
        "regularization": 0.001,
        "loss": "t-ce",
        "device": "cpu",
    }
    for wrong in ("rank", "=5", ""):
        with pytest.raises(InputError, match="must be given as name=value"):
            parse_parameters([wrong])


def test_no_more_factors_than_the_data_can_tell_apart() -> None:
    assert cap_rank(NCE(), (40, 1000)).rank == 10  # type: ignore[attr-defined]
    assert cap_rank(NCE(), (4000, 1000)).rank == 100  # type: ignore[attr-defined]
    assert cap_rank(NCE(rank=30), (40, 1000), ["rank"]).rank == 30  # type: ignore[attr-defined]
    assert cap_rank(NCE(), (2, 2)).rank == 1  # type: ignore[attr-defined]
    assert cap_rank(make_model("ease"), (2, 2)) == make_model("ease")


@pytest.mark.parametrize("kind", [WRMF, CDAE, VAE])
def test_a_start_is_begun_with(kind: type[Model]) -> None:
    data = clicks()
    before = made(kind).fit(data)
    few = {"sweeps": 1} if kind is WRMF else {"epochs": 1}
    how = {name: value for name, value in before.get_params(deep=False).items() if name not in few} | few
    cold, warm = kind(**how).fit(data), kind(**how).fit(data, init_from=before)
    wanted = before.arrays_["items"]
    assert np.abs(warm.arrays_["items"] - wanted).mean() < 0.5 * np.abs(cold.arrays_["items"] - wanted).mean()
    assert kind(**how).fit(data, init_from=before).arrays_["items"].tobytes() == warm.arrays_["items"].tobytes()


def test_starts_that_cannot_be() -> None:
    data = clicks()
    nce, wrmf = made(NCE).fit(data), made(WRMF).fit(data)
    with pytest.raises(InputError, match="NCE learns in one step"):
        made(NCE).fit(data, init_from=nce)
    with pytest.raises(InputError, match="init_from must be another WRMF; got NCE"):
        made(WRMF).fit(data, init_from=nce)
    with pytest.raises(InputError, match="width 5; got one of"):
        WRMF(rank=5).fit(data, init_from=wrmf)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        made(WRMF).fit(data, init_from=made(WRMF))
    with pytest.raises(InputError, match="init_from must be a WRMF of"):
        made(WRMF).fit(data.drop_empty(), init_from=wrmf)

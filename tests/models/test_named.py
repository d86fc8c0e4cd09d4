"""Models by name; models that start from another."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from prorec import InputError, NotFittedError
from prorec.models import CDAE, NCE, VAE, WRMF, Model
from prorec.models.named import named, parsed, sized
from tests.models.test_all import clicks, made

torch.set_num_threads(1)


def test_by_name_in_any_case() -> None:
    assert named("NCE") == NCE()
    assert named("wrmf", {"rank": 7}) == WRMF(rank=7)


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
        named(name, parameters)


def test_parameters_as_typed() -> None:
    assert parsed(["rank=20", "hidden=None", "regularization=1e-3", " loss = t-ce", "device=cpu"]) == {
        "rank": 20,
        "hidden": None,
        "regularization": 0.001,
        "loss": "t-ce",
        "device": "cpu",
    }
    for wrong in ("rank", "=5", ""):
        with pytest.raises(InputError, match="must be given as name=value"):
            parsed([wrong])


def test_no_more_factors_than_the_data_can_tell_apart() -> None:
    assert sized(NCE(), (40, 1000)).rank == 10  # type: ignore[attr-defined]
    assert sized(NCE(), (4000, 1000)).rank == 100  # type: ignore[attr-defined]
    assert sized(NCE(rank=30), (40, 1000), ["rank"]).rank == 30  # type: ignore[attr-defined]
    assert sized(NCE(), (2, 2)).rank == 1  # type: ignore[attr-defined]
    assert sized(named("ease"), (2, 2)) == named("ease")


@pytest.mark.parametrize("kind", [WRMF, CDAE, VAE])
def test_a_start_is_begun_with(kind: type[Model]) -> None:
    data = clicks()
    before = made(kind).fit(data)
    few = {"sweeps": 1} if kind is WRMF else {"epochs": 1}
    how = {name: value for name, value in before.parameters().items() if name not in few} | few
    cold, warm = kind(**how).fit(data), kind(**how).fit(data, start=before)
    wanted = before.learned_["items"]
    assert np.abs(warm.learned_["items"] - wanted).mean() < 0.5 * np.abs(cold.learned_["items"] - wanted).mean()
    assert kind(**how).fit(data, start=before).learned_["items"].tobytes() == warm.learned_["items"].tobytes()


def test_starts_that_cannot_be() -> None:
    data = clicks()
    nce, wrmf = made(NCE).fit(data), made(WRMF).fit(data)
    with pytest.raises(InputError, match="NCE learns in one step"):
        made(NCE).fit(data, start=nce)
    with pytest.raises(InputError, match="start must be another WRMF; got NCE"):
        made(WRMF).fit(data, start=nce)
    with pytest.raises(InputError, match="width 5; got one of"):
        WRMF(rank=5).fit(data, start=wrmf)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        made(WRMF).fit(data, start=made(WRMF))
    with pytest.raises(InputError, match="start must be a WRMF of"):
        made(WRMF).fit(data.without_empty(), start=wrmf)

"""Models by name, and models that start from another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prorec import InputError, NotFittedError
from prorec.models import BPR, CDAE, NCE, VAE, WRMF
from prorec.models.factory import cap_rank, make_model, parse_parameters
from tests.models.helpers import clicks, make_small


def test_names_in_any_case() -> None:
    assert make_model("NCE") == NCE()
    assert make_model("wrmf", {"rank": 7}) == WRMF(rank=7)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("nse", {}, "there is no model called 'nse'; did you mean 'nce'"),
        ("prorec", {}, "there is no model called 'prorec'"),
        ("nce", {"ranks": 5}, "NCE has no parameter called 'ranks'; did you mean 'rank'"),
        ("ease", {"zzz": 5}, "EASE has no parameter called 'zzz'; There are activity_power, device, regularization"),
    ],
)
def test_unknown_names_are_refused_with_a_suggestion(name: str, parameters: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_model(name, parameters)


def test_parameters_from_text() -> None:
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


def test_the_rank_is_capped() -> None:
    assert cap_rank(NCE(), (40, 1000)).rank == 10  # type: ignore[attr-defined]
    assert cap_rank(NCE(), (4000, 1000)).rank == 100  # type: ignore[attr-defined]
    assert cap_rank(NCE(rank=30), (40, 1000), ["rank"]).rank == 30  # type: ignore[attr-defined]
    assert cap_rank(NCE(), (2, 2)).rank == 1  # type: ignore[attr-defined]
    assert cap_rank(make_model("ease"), (2, 2)) == make_model("ease")


@pytest.mark.parametrize("model_class", [WRMF, BPR, CDAE, VAE])
def test_a_warm_start_is_closer_than_a_cold_one(model_class: type[Any]) -> None:
    data = clicks()
    before = make_small(model_class).fit(data)
    short = {"sweeps": 1} if model_class is WRMF else {"epochs": 1}
    parameters = {name: value for name, value in before.get_params(deep=False).items() if name not in short} | short
    cold, warm = model_class(**parameters).fit(data), model_class(**parameters).fit(data, init_from=before)
    expected = before.arrays_["items"]
    assert np.abs(warm.arrays_["items"] - expected).mean() < 0.5 * np.abs(cold.arrays_["items"] - expected).mean()
    assert (
        model_class(**parameters).fit(data, init_from=before).arrays_["items"].tobytes()
        == warm.arrays_["items"].tobytes()
    )


def test_warm_starts_that_do_not_match_are_refused() -> None:
    data = clicks()
    nce, wrmf = make_small(NCE).fit(data), make_small(WRMF).fit(data)
    with pytest.raises(InputError, match="NCE cannot start from another model; remove init_from"):
        make_small(NCE).fit(data, init_from=nce)
    with pytest.raises(InputError, match="init_from must be another WRMF; got NCE"):
        make_small(WRMF).fit(data, init_from=nce)
    with pytest.raises(InputError, match="width 5; got one of"):
        WRMF(rank=5).fit(data, init_from=wrmf)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        make_small(WRMF).fit(data, init_from=make_small(WRMF))
    with pytest.raises(InputError, match="init_from must be a WRMF of"):
        make_small(WRMF).fit(data.drop_empty(), init_from=wrmf)

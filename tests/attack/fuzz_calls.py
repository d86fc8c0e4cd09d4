"""Calls of the Python interface with one or two strange arguments: each returns, or raises one `ProrecError`.

Results that are numbers are finite, and probabilities are from 0 to 1.
"""

from __future__ import annotations

import datetime
import inspect
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

import prorec
from prorec import Factors, Interactions, NoiseFinder, ProRec, ProrecError
from prorec.models import EASE, NCE, SVD, WRMF, Popularity, SparseLinear
from tests.attack.cases import Attack, BrokenPromise, Case
from tests.attack.fuzz_logs import check_message
from tests.models import helpers


class _Unhappy:
    """An object that has no text."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


def _strange(case: Case) -> Any:
    """Return a value of any kind."""
    makers: list[Callable[[], Any]] = [
        lambda: case.choose(None, True, False, -1, 0, 1, 2, 7, 10**30, -(10**400), 2**63, -(2**31)),
        lambda: case.choose(-0.0, 0.3, 1.0, 1.5, -2.5, 1e-320, 1e308, float("nan"), float("inf"), float("-inf"), 1j),
        lambda: case.choose(
            "", "x", "user", "auto", "ndcg@5", "\x00", "é" * 5000, "1", "none", "svd", "plan", "pandas"
        ),
        lambda: case.choose(b"x", bytearray(b"x"), memoryview(b"abc"), object(), object, _Unhappy(), len, lambda: 3),
        lambda: case.choose((), [], {}, set(), [[]], [None], {"a": 1}, {1: 2}, range(3), ["u", 3], [[1], [1, 2]], "ab"),
        lambda: case.choose(Decimal("0.5"), Fraction(1, 3), np.float32(0.5), np.int8(3), np.bool_(True), np.str_("x")),
        lambda: case.choose(
            np.datetime64("2024-01-01"), np.datetime64("NaT"), datetime.datetime(2024, 1, 1), datetime.UTC
        ),
        lambda: np.zeros(case.choose((), (0,), (1,), (3,), (0, 0), (3, 0), (2, 2), (1, 1, 1)), case.choose(*_DTYPES)),
        lambda: case.rng.choice([0, 1, -1, np.nan, np.inf, 1e30, 2**31], (int(case.rng.integers(1, 80)),)),
        lambda: np.arange(len(clicks()) + int(case.rng.integers(-1, 2))).astype(case.choose(*_DTYPES)),
        lambda: np.ma.masked_array([1, 2, 3], [False, True, False]),
        lambda: np.array(["a", None, 3], dtype=object),
        lambda: _broken_matrix(case),
        lambda: case.choose(pa.table({}), pa.table({"user": [1]}), pa.table({"user": [1, None], "item": ["a", "b"]})),
        lambda: case.choose(
            pd.DataFrame(), pd.DataFrame({"user": [1.5], "item": [[1]]}), pd.Series([1, 2], name="user")
        ),
        lambda: pd.DataFrame({"user": case.choose([1, "a"], [None, 1], [True, False], [1j, 2]), "item": [1, 2]}),
        lambda: case.choose(
            Path("nowhere"), Path("/dev/null"), Path(), "/proc/self/mem", "nowhere/x.csv", io.BytesIO(b"x")
        ),
        lambda: case.choose(
            SVD, SVD(2), NCE(rank=2), ProRec, ProRec(SVD(2)), NoiseFinder(), Interactions, Popularity()
        ),
        lambda: case.choose(clicks(), empty(), fitted().model, fitted().denoiser, (each for each in [1, 2])),
    ]
    return makers[case.rng.integers(len(makers))]()


_DTYPES = ["f4", "f8", "f2", ">f8", "i1", "i8", ">i4", "u8", "bool", "O", "U3", "S2", "c16", "M8[D]", "m8[s]", "V2"]


def _broken_matrix(case: Case) -> Any:
    """Return a matrix of scipy whose parts need not fit."""
    matrix = sp.csr_array(np.eye(4, 5, dtype=case.choose("f4", "f8", "i8", "bool")))
    part = case.choose("indptr", "indices", "data", "none")
    if part != "none":
        array = getattr(matrix, part).copy()
        kind = int(case.rng.integers(5))
        if kind == 0:
            array = array[:-1]
        elif kind == 1 and len(array):
            array[case.rng.integers(len(array))] = case.choose(-1, 2**31 - 1, 4, 100)
        elif kind == 2:
            array = array[::-1].copy()
        elif kind == 3 and part == "data":
            array = array.astype("f8") * case.choose(np.nan, np.inf, -1.0, 0.0)
        else:
            array = np.zeros_like(array)
        setattr(matrix, part, array)
    return (
        matrix
        if case.happens(0.6)
        else matrix.asformat(case.choose("csr", "csr"))
        if part != "none"
        else sp.coo_array(matrix)
    )


@cache
def clicks() -> Interactions:
    """Return interactions, made once for each process."""
    return helpers.clicks()


@cache
def empty() -> Interactions:
    """Return interactions without any."""
    return Interactions.from_matrix(sp.csr_array((3, 4), dtype=np.float32))


@dataclass(frozen=True)
class _Fitted:
    """What calls are made on."""

    model: SVD = field(default_factory=lambda: SVD(rank=3).fit(clicks()))
    factorized: WRMF = field(default_factory=lambda: WRMF(rank=2, sweeps=1).fit(clicks()))
    linear: SparseLinear = field(default_factory=lambda: SparseLinear().fit(clicks()))
    denoiser: ProRec = field(default_factory=lambda: ProRec(SVD(rank=3), noise_method="plan", gamma=0.1).fit(clicks()))
    finder: NoiseFinder = field(
        default_factory=lambda: NoiseFinder([SVD(rank=2)], folds=2, cooccurrence=False).fit(clicks())
    )
    matrix: Any = field(default_factory=lambda: clicks().matrix)
    table: Any = field(default_factory=lambda: clicks().to_table("pandas"))
    test: Interactions = field(default_factory=lambda: prorec.split_by_user(clicks(), (0.7, 0.3)).test)
    train: Interactions = field(default_factory=lambda: prorec.split_by_user(clicks(), (0.7, 0.3)).train)


@cache
def fitted() -> _Fitted:
    """Return models that are fitted, once for each process."""
    return _Fitted()


def _calls(case: Case) -> list[tuple[Callable[..., Any], dict[str, Any]]]:
    """Return functions, each with arguments that are sound."""
    known, log, ready = case.folder / "log.csv", clicks(), fitted()
    n = len(log)
    return [
        (
            prorec.read_interactions,
            {"path": known, "user_col": "user", "item_col": "item", "header": "auto", "ids": "auto"},
        ),
        (prorec.read_interactions, {"path": known, "weight_col": None, "separator": None, "duplicates": "max"}),
        (prorec.read_interactions, {"path": known, "timestamp_col": None, "time_format": None, "skip_bad_rows": False}),
        (prorec.write_interactions, {"interactions": log, "path": case.folder / "new.csv"}),
        (prorec.split_by_user, {"interactions": log, "ratios": (0.7, 0.3), "seed": 0, "order": "random"}),
        (prorec.split_globally, {"interactions": log, "ratios": (0.7, 0.3), "seed": 0, "order": "random"}),
        (prorec.split_leave_out, {"interactions": log, "k": 1, "k_valid": 0, "seed": 0, "order": "random"}),
        (prorec.split_at_time, {"interactions": log, "test_from": 3, "valid_from": None}),
        (prorec.inject_noise, {"interactions": log, "ratio": 0.2, "kind": "uniform", "seed": 0}),
        (prorec.make_cinema, {"n_users": 60, "n_items": 50, "mistake_rate": 0.1, "exploration_rate": 0.1, "seed": 0}),
        (prorec.load_dataset, {"name": "nope", "min_rating": "default"}),
        (prorec.load, {"folder": case.folder}),
        (Interactions.from_matrix, {"matrix": ready.matrix, "users": None, "items": None, "duplicates": "max"}),
        (Interactions.from_table, {"table": ready.table, "user_col": None, "item_col": None, "duplicates": "max"}),
        (
            Interactions.from_table,
            {"table": ready.table, "weight_col": None, "rating_col": None, "timestamp_col": None},
        ),
        (Interactions, {"matrix": ready.matrix, "users": log.users, "items": log.items, "columns": {}}),
        (log.align, {"other": ready.test}),
        (log.equals, {"other": ready.test}),
        (log.select, {"keep": np.ones(n, bool), "hold_out_rest": False}),
        (log.with_weights, {"weights": np.ones(n, np.float32)}),
        (log.with_item_info, {"names": None, "categories": None}),
        (log.to_table, {"frame": None}),
        (log.user_positions, {"ids": log.users[:3]}),
        (log.item_positions, {"ids": log.items[:3]}),
        (log.pair_positions, {"rows": np.array([0, 1]), "columns": np.array([0, 1])}),
        (log.filter_by_rating, {"minimum": 3}),
        (log.with_held_out, {}),
        (
            Factors,
            {"users": np.ones((3, 2), "f4"), "items": np.ones((4, 2), "f4"), "item_bias": None, "link": "identity"},
        ),
        (prorec.evaluate, {"model": ready.model, "test": ready.test, "k": 5, "metrics": "standard"}),
        (prorec.compare, {"results": {}, "baseline": "a", "metrics": None, "level": 0.95, "seed": 0}),
        (
            prorec.ranking_metrics,
            {
                "ranked": np.array([[0, 1], [2, 1]]),
                "relevant": sp.csr_array(np.eye(2, 3)),
                "k": 2,
                "metrics": "standard",
            },
        ),
        (
            prorec.detection_metrics,
            {"noise_probability": [0.1, 0.9], "is_noise": [False, True], "budget": None, "bins": 10},
        ),
        (prorec.detection_metrics, {"noise_probability": [0.1, 0.9], "is_noise": [0, 1], "at_hit_ratio": 0.9}),
        (
            prorec.tune,
            {
                "model": Popularity(),
                "train": ready.train,
                "valid": ready.test,
                "grid": None,
                "search": "grid",
                "trials": None,
            },
        ),
        (
            prorec.tune,
            {"model": SVD(2), "train": ready.train, "valid": ready.test, "grid": {"rank": (2,)}, "metric": "ndcg@10"},
        ),
        (_fit, {"cls": SVD, "log": log, "rank": 2, "seed": 0}),
        (_fit, {"cls": WRMF, "log": log, "rank": 2, "alpha": 1.0, "regularization": 1.0, "sweeps": 1}),
        (_fit, {"cls": EASE, "log": log, "regularization": 10.0}),
        (_fit, {"cls": NCE, "log": log, "rank": 2, "seed": 0}),
        (
            _denoise,
            {
                "log": log,
                "model": SVD(2),
                "gamma": 0.1,
                "beta": 20.0,
                "lam": 0.5,
                "threshold": "personal",
                "weighting": "auto",
            },
        ),
        (
            _denoise,
            {"log": log, "model": SVD(2), "tolerance": 0.01, "marginals": "uniform", "fdr": 0.1, "warm_start": False},
        ),
        (_denoise, {"log": log, "model": SVD(2), "transport": "relaxed", "memory": 1e8, "device": "cpu", "gamma": 0.1}),
        (_denoise, {"log": log, "model": SVD(2), "flag_fraction": 0.1, "relabel_from": "current", "gamma": 0.1}),
        (ready.model.recommend, {"users": log.users[:2], "k": 3, "exclude_seen": True}),
        (ready.model.recommend_new, {"baskets": [log.items[:2].tolist()], "k": 3}),
        (ready.model.similar_items, {"items": log.items[:2], "k": 3}),
        (ready.model.score_known_users, {"rows": np.array([0, 1])}),
        (ready.model.score_new_users, {"matrix": ready.matrix}),
        (ready.factorized.encode_users, {"matrix": ready.matrix}),
        (ready.linear.score_known_users, {"rows": np.array([0, 1])}),
        (ready.linear.score_new_users, {"matrix": ready.matrix}),
        (SVD(rank=3).set_params, {"rank": 3}),
        (ready.denoiser.recommend, {"users": log.users[:2], "k": 3}),
        (ready.denoiser.explain, {"user": log.users[0], "frame": None}),
        (ready.denoiser.noise_table, {"frame": None, "limit": 3}),
        (ready.denoiser.annotate, {"table": ready.table, "user_col": None, "item_col": None}),
        (ready.finder.flag, {"fdr": 0.1}),
        (ready.finder.flag, {"n": 3}),
        (ready.finder.flag, {"fraction": 0.1}),
        (ready.finder.flag, {"threshold": 0.5}),
        (ready.finder.keep, {"max_noise": 0.5}),
        (ready.finder.score, {"interactions": ready.test, "frame": None}),
        (ready.finder.table, {"frame": None}),
        (ready.finder.users, {"frame": None}),
        (
            _check_finder,
            {"base_models": None, "folds": 3, "cooccurrence": True, "transport": "relaxed-users", "seed": 0},
        ),
    ]


def _fit(cls: Any, log: Any, **parameters: Any) -> Any:
    return cls(**parameters).fit(log)


def _denoise(log: Any, **parameters: Any) -> Any:
    return ProRec(noise_method="plan", **parameters).fit(log)


def _check_finder(**parameters: Any) -> None:
    NoiseFinder(**parameters).check_settings()


def run_case(case: Case) -> str:
    """Call a function with strange arguments, and look at what it returns."""
    (case.folder / "log.csv").write_text("user,item\na,1\nb,2\na,2\n")
    calls = _calls(case)
    function, arguments = calls[case.rng.integers(len(calls))]
    name = getattr(function, "__qualname__", str(function))
    free = [each for each in arguments if each != "cls"]
    changed = {}
    for _ in range(1 if case.happens(0.8) else 2):
        if free:
            changed[free[case.rng.integers(len(free))]] = _strange(case)
    if "sweeps" in changed and isinstance(changed["sweeps"], int | np.integer):
        changed["sweeps"] = 1  # a million sweeps are what was asked for
    error: ProrecError | None = None
    try:
        with np.errstate(all="ignore"):
            result = function(**arguments | changed)
    except ProrecError as raised:
        error = raised
    except Exception as other:
        given = ", ".join(f"{key}={type(value).__name__}" for key, value in changed.items())
        inner = (
            [each for each in inspect.getinnerframes(other.__traceback__) if "/prorec/" in each.filename]
            if other.__traceback__
            else []
        )
        place = f"{Path(inner[-1].filename).name}:{inner[-1].lineno}" if inner else "the call"
        shown = {key: _show(value) for key, value in changed.items()}
        raise BrokenPromise(
            "tracebacks", f"{name}({given}): {type(other).__name__} at {place}: {str(other)[:200]}; {shown}"
        ) from other
    if error is not None:
        check_message(str(error))
        return "refused"
    _check_result(name, result)
    return "returned"


def _show(value: Any) -> str:
    try:
        return repr(value)[:80]
    except Exception:
        return "?"


def _check_result(name: str, result: Any) -> None:
    """Break a promise if a number in a result is not finite, or a probability out of its range."""
    arrays: dict[str, NDArray[Any]] = {}
    if isinstance(result, ProRec):
        arrays = {"noise_probability_": result.noise_probability_, "weights_": result.weights_.data}
        for key, array in arrays.items():
            if array.size and not (array.min() >= 0 and array.max() <= 1):
                raise BrokenPromise("unsound results", f"{name}: {key} is not from 0 to 1")
    elif isinstance(result, Interactions):
        arrays = {"data": result.matrix.data}
    elif isinstance(result, Factors):
        arrays = {"users": result.users, "items": result.items}
    elif isinstance(result, np.ndarray):
        arrays = {"result": result}
    elif hasattr(result, "scores"):
        arrays = {"scores": result.scores}
    elif isinstance(result, dict) and result:
        arrays = {key: np.asarray(value) for key, value in result.items() if isinstance(value, float | np.ndarray)}
    for key, array in arrays.items():
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise BrokenPromise("unsound results", f"{name}: {key} is not a number somewhere")


ATTACK = Attack("calls", run_case, n_cases=60_000, chunk=250, prepare=lambda folder: fitted().finder)

"""Results of a fitted denoiser: tables, flags, explanations, recommendations."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from typer.testing import CliRunner

import prorec
from prorec import InputError, Interactions, NoiseFinder, ProRec
from prorec.cli import app
from prorec.denoise import denoiser
from prorec.denoise.loss import ModelLoss
from prorec.interactions.tables import FrameType, to_frame
from prorec.models import EASE, NCE, SVD, Popularity
from tests.models.helpers import clicks


def test_noise_table(denoised: ProRec, cinema: Interactions) -> None:
    table = denoised.noise_table("pandas")
    assert list(table) == ["user", "item", "name", "weight", "noise_probability", "flagged", "share", "threshold"]
    assert len(table) == len(cinema)
    assert (table.noise_probability.diff().dropna() <= 0).all()
    assert table.noise_probability.between(0, 1).all()
    assert table.flagged.sum() == int(0.05 * len(cinema))
    assert table.flagged[: table.flagged.sum()].all(), "the most suspicious"
    assert denoised.noise_table(limit=7).equals(denoised.noise_table().slice(0, 7))
    assert denoised.noise_table(limit=10**9).num_rows == len(cinema)
    assert len(set(zip(table.user, table.item, strict=True))) == len(cinema)
    first = table.iloc[0]
    row, column = cinema.user_positions([first.user])[0], cinema.item_positions([first["item"]])[0]
    assert denoised.weights_[row, column] == pytest.approx(first.weight)
    assert cinema.item_names is not None
    assert first["name"] == cinema.item_names[column]


def test_ties_at_the_cutoff_are_not_flagged() -> None:
    fitted = ProRec(Popularity(), flag_fraction=0.3, noise_method="plan").fit(csr_array(np.ones((6, 4))))
    assert not fitted.flagged_.any()
    fitted.flag_fraction = 1.0
    assert fitted.flagged_.all()


def test_planted_mistakes_are_found() -> None:
    club = prorec.make_cinema(seed=0)
    fitted = ProRec(NCE(rank=20), noise_method="plan").fit(club.interactions)
    metrics = prorec.detection_metrics(fitted.noise_probability_, club.is_mistake)
    assert metrics["auroc"] > 0.75
    flagged = fitted.flagged_
    assert club.is_mistake[flagged].mean() > 2 * club.is_mistake.mean()


@pytest.mark.parametrize("frame", ["pandas", "polars", "pyarrow"])
def test_annotate_keeps_columns_and_row_order(denoised: ProRec, cinema: Interactions, frame: FrameType) -> None:
    table = cinema.to_table().rename_columns(["viewer", "film", "weight", "timestamp", "origin"])
    order = np.random.default_rng(0).permutation(len(cinema))
    shuffled = table.take(pa.array(np.concatenate([order, order[:5]]))).append_column("x", [["a"] * (len(cinema) + 5)])
    native: Any = to_frame(shuffled, frame)
    annotated = denoised.annotate(native, user_col="viewer", item_col="film")
    assert type(annotated) is type(native)
    got = annotated.to_arrow() if frame == "polars" else pa.table(annotated) if frame == "pandas" else annotated
    assert got.column_names == [*shuffled.column_names, "prorec_weight", "noise_probability", "flagged"]
    assert got["film"].to_pylist() == shuffled["film"].to_pylist()
    positions = np.concatenate([order, order[:5]])
    np.testing.assert_allclose(got["prorec_weight"].to_numpy(), denoised.weights_.data[positions], rtol=1e-6)
    assert got["flagged"].to_pylist() == denoised.flagged_[positions].tolist()


def test_annotate_leaves_unseen_pairs_empty(denoised: ProRec, cinema: Interactions) -> None:
    unseen = int(np.setdiff1d(np.arange(cinema.n_items), cinema.matrix[[0]].indices)[0])
    pairs = {"user": [cinema.users[0], 9999, cinema.users[0]], "item": [cinema.items[unseen], cinema.items[0], 9999]}
    got = denoised.annotate(pa.table(pairs))
    assert got["weight"].to_pylist() == [None, None, None]
    assert got["flagged"].to_pylist() == [None, None, None]
    with pytest.raises(InputError, match="no column is called 'user'"):
        denoised.annotate(pa.table({"a": [1]}))


def test_explain(denoised: ProRec, cinema: Interactions) -> None:
    user = cinema.users[int(np.argmax(cinema.activity))]
    table = denoised.explain(user, "pandas")
    own = cinema.items[cinema.matrix[[int(np.argmax(cinema.activity))]].indices]
    assert sorted(table["item"]) == sorted(own)
    assert (table.noise_probability.diff().dropna() <= 0).all()
    factors = denoised.model_.arrays_["items"]
    unit = factors / np.maximum(np.linalg.norm(factors, axis=1, keepdims=True), 1e-12)
    for _, row in table.iterrows():
        position = cinema.item_positions([row["item"]])[0]
        others = [item for item in own if item != row["item"]]
        similarity = unit[cinema.item_positions(others)] @ unit[position]
        assert row["for"] == others[int(np.argmax(similarity))]
        assert row["for_similarity"] == pytest.approx(similarity.max(), abs=1e-5)
        assert row["against"] == others[int(np.argmin(similarity))]
    with pytest.raises(InputError, match=r"one of the 300 users .*; got 999"):
        denoised.explain(999)


def test_explain_users_with_one_or_no_click() -> None:
    data = Interactions.from_matrix(csr_array([[1.0, 1, 1, 0], [0, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]]))
    fitted = ProRec(EASE(regularization=1.0), noise_method="plan").fit(data)
    alone = fitted.explain(1)
    assert alone.column("for").to_pylist() == [None]
    assert alone.column("against_similarity").to_pylist() == [None]
    assert fitted.explain(3).num_rows == 0


def test_observed_items_are_not_recommended(denoised: ProRec, cinema: Interactions) -> None:
    recommended = denoised.recommend(cinema.users, k=5).item_positions
    seen = cinema.matrix.toarray() > 0
    assert not any(seen[user, items[items >= 0]].any() for user, items in enumerate(recommended))
    nothing_left = ProRec(SVD(rank=3), beta=1e6, lam=0.0, gamma=0.01, noise_method="plan").fit(clicks())
    assert (nothing_left.weights_.data < 1e-6).any()
    ranked = nothing_left.recommend(nothing_left.interactions_.users, k=5).item_positions
    seen = clicks().matrix.toarray() > 0
    assert not any(seen[user, items[items >= 0]].any() for user, items in enumerate(ranked))


@pytest.mark.parametrize("noise_method", ["plan", "cross-fit"])
def test_one_denoise_command_computes_probabilities_and_flags_once(
    noise_method: str, cinema: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()

    def count(module: Any, name: str) -> None:
        function = getattr(module, name)

        def counted(*args: Any, **options: Any) -> Any:
            calls[name] += 1
            return function(*args, **options)

        monkeypatch.setattr(module, name, counted)

    count(denoiser, "plan_noise_probability")
    count(denoiser, "flag_interactions")
    count(NoiseFinder, "fit")
    count(NoiseFinder, "flag")
    count(ModelLoss, "__init__")
    log = tmp_path / "log.csv"
    prorec.write_interactions(cinema, log)
    arguments = ["denoise", str(log), "--out", str(tmp_path / "out.csv"), "--noise-method", noise_method, "--drop"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    steps = ("plan_noise_probability", "flag_interactions") if noise_method == "plan" else ("fit", "flag")
    assert calls == dict.fromkeys(steps, 1)

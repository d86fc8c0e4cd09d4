"""Noise, ablation, curves and the case study, on a small cinema: what is measured is what it says."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import prorec
from prorec import InputError, ProRec
from prorec.models import NCE
from reproduction import parameter_curves
from reproduction.ablation import ablation_rows, run_ablation
from reproduction.case_study import study_case
from reproduction.figures import draw_case, draw_curve, draw_noise, save_figure
from reproduction.injected_noise import run_injected_noise
from reproduction.parameter_curves import run_curve
from reproduction.protocol import Protocol
from reproduction.result_pages import ablation_page, case_page, curve_page, noise_page
from reproduction.run_cache import ExperimentCache


@pytest.fixture(scope="module")
def clicks() -> prorec.Interactions:
    return prorec.make_cinema(200, 250, seed=3).interactions


@pytest.fixture
def protocol(clicks: prorec.Interactions, tmp_path: Path) -> Protocol:
    return Protocol(clicks, "small", ExperimentCache(tmp_path), n_trials=1, n_seeds=2)


def texts_of(path: Path) -> str:
    """What an SVG was written with: Matplotlib keeps the texts as comments beside their outlines."""
    ET.parse(path)
    return path.read_text()


def test_noise_is_put_in_found_and_taken_out(clicks: prorec.Interactions, tmp_path: Path) -> None:
    results = run_injected_noise(
        clicks,
        "small",
        ExperimentCache(tmp_path),
        NCE(rank=20),
        n_trials=1,
        n_seeds=2,
        levels=(0.0, 0.2),
        kinds=("uniform", "swap"),
    )
    assert set(results) == {(kind, level) for kind in ("uniform", "swap") for level in (0.0, 0.2)}
    assert results["uniform", 0.0] is results["swap", 0.0]
    assert not results["uniform", 0.0].detection
    # one split by hand
    split = prorec.split_by_user(clicks, (0.8, 0.2), seed=1)
    noisy = prorec.inject_noise(split.train, 0.2, "uniform", seed=1)
    at = results["uniform", 0.2]
    chosen = at.denoised.parameters[1]
    nce = NCE(chosen["model__rank"], chosen["model__regularization"], chosen["model__popularity_power"])
    denoiser = ProRec(nce, lam=chosen["lam"], gamma=chosen["gamma"], noise_method="plan").fit(noisy.interactions)
    below = denoiser.matching_.margins < 0
    assert at.detection["hit_ratio"][1] == pytest.approx(below[noisy.is_noise].mean())
    assert at.detection["false_flag_rate"][1] == pytest.approx(below[~noisy.is_noise].mean())
    assert at.detection["auroc"].min() > 0.6
    recall = prorec.evaluate(denoiser, split.test, k=5, metrics="paper").per_user["recall@5"]
    np.testing.assert_allclose(at.denoised.per_user["recall@5"][1], recall)
    chosen = at.plain.parameters[1]
    weights = np.where(noisy.is_noise, 0, 1).astype(np.float32)
    cleaned = NCE(**chosen).fit(noisy.interactions.with_weights(weights))
    recall = prorec.evaluate(cleaned, split.test, k=5, metrics="paper").per_user["recall@5"]
    np.testing.assert_allclose(at.ceiling.per_user["recall@5"][1], recall)

    page = noise_page("small", "NCE", results)
    assert f"| uniform | 20% | {at.detection['hit_ratio'].mean():.3f} |" in page
    assert "of 3 settings" in page
    save_figure(draw_noise(results, "small", "NCE"), tmp_path / "noise.svg")
    drawn = texts_of(tmp_path / "noise.svg")
    assert all(text in drawn for text in ("uniform noise", "swap noise", "Recall@5", "share below the threshold"))


def test_ablation_takes_one_part_after_the_other(protocol: Protocol) -> None:
    rows = ablation_rows(NCE(rank=10))
    rows = [
        replace(row, grid={name: values for name, values in row.grid.items() if "rank" not in name}) for row in rows
    ]
    models = [row.model for row in rows[1:]]
    assert [model.transport for model in models] == ["emd", "sinkhorn", "relaxed", "relaxed"]
    assert [model.threshold for model in models] == [10, 10, 10, "personal"]
    results = run_ablation(protocol, rows)
    names = ["NCE", "NCE + EMD", "NCE + Sinkhorn", "NCE + ROT", "NCE + ProRec"]
    assert list(results) == names
    assert len({results[name].mean("ndcg@5") for name in names}) == 5
    page = ablation_page("small", rows, results)
    best = max(names, key=lambda name: results[name].mean("ndcg@5"))
    assert f"By NDCG@5, best first: {best}, " in page
    assert f"(ROT takes {results['NCE + ROT'].seconds / results['NCE + Sinkhorn'].seconds:.2f} of" in page
    again = run_ablation(protocol, rows)  # from what was kept, thresholds and all
    assert again["NCE + ROT"].parameters == results["NCE + ROT"].parameters


def test_curves_go_through_the_grid(protocol: Protocol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parameter_curves, "MODEL", NCE(rank=10))
    found = run_curve(protocol, "lambda")
    assert found.values == (0.0, 0.25, 0.5, 0.75, 1.0)
    np.testing.assert_allclose(found.gains[-1], 0, atol=1e-6)  # λ = 1 changes nothing
    assert np.abs(found.gains[:-1]).max() > 0.001
    parts = protocol.parts(1)
    denoiser = ProRec(NCE(rank=10), lam=0.25, gamma=0.1, beta=20, noise_method="plan").fit(parts.train_and_valid)
    wanted = prorec.evaluate(denoiser, parts.test, k=5, metrics="paper").mean["ndcg@5"]
    assert found.denoised[1, 1] == pytest.approx(wanted)
    ridge = run_curve(protocol, "zeta")
    assert len(set(ridge.plain[:, 0])) == len(ridge.values)  # without ProRec, ζ matters too
    page = curve_page("amusic", found)
    assert "(paper: 0.5)" in page
    assert f"| 1 | {found.plain.mean():.4f}".replace("0.", ".") in page
    for name, each in (("lambda", found), ("zeta", ridge)):
        save_figure(draw_curve(each, "amusic"), tmp_path / f"{name}.svg")
        assert "% over NCE" in texts_of(tmp_path / f"{name}.svg")
    assert "the paper's best" in texts_of(tmp_path / "lambda.svg")
    assert "the paper's best" not in texts_of(tmp_path / "zeta.svg")
    again = tmp_path / "again.svg"
    save_figure(draw_curve(found, "amusic"), again)
    assert again.read_bytes() == (tmp_path / "lambda.svg").read_bytes()


def test_the_case_is_found_by_its_rule(clicks: prorec.Interactions, tmp_path: Path) -> None:
    plain, denoiser = NCE(rank=10), ProRec(NCE(rank=10), noise_method="plan")
    case = study_case(clicks, plain, denoiser)
    assert 8 <= clicks.activity[case.user] <= 16
    assert case.shown[0] == case.user
    assert len(set(case.shown)) == len(case.shown)
    entered = set(case.after[case.user]) - set(case.before[case.user])
    assert entered
    places = case.positions(case.user)
    assert (np.diff(case.weights[places]) <= 0).all()
    np.testing.assert_array_equal(case.weights, denoiser.weights_.data)
    # the mistakes of this cinema are off the genres that a user likes
    assert case.in_genre["kept most"] > case.in_genre["lost most"] + 0.1
    page = case_page(case)
    assert page.count("| entered |") == len(entered)
    assert str(clicks.item_names[clicks.matrix.indices[places[-1]]]) in page  # type: ignore[index]
    save_figure(draw_case(case), tmp_path / "case.svg")
    drawn = texts_of(tmp_path / "case.svg")
    assert all(f"user {clicks.users[user]}" in drawn for user in case.shown)


def test_a_case_needs_genres(clicks: prorec.Interactions) -> None:
    with pytest.raises(InputError, match="needs items with categories"):
        study_case(replace(clicks, item_categories=None), NCE(), ProRec(NCE(), noise_method="plan"))

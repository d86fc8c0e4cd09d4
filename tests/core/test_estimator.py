"""Estimators: parameters as scikit-learn has them, and the notebook table, read back with an HTML parser."""

from __future__ import annotations

from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from prorec import InputError, Interactions, NoiseFinder, NotFittedError, ProRec, load_dataset, make_cinema
from prorec._core.estimator import Estimator
from prorec.models import NCE, SVD, WRMF, Model, Popularity
from prorec.models.wrap import wrap


class Read(HTMLParser):
    """Rows of cells, what is bold, and every tag; refuses what is not well formed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self.bold: list[str] = []
        self.notes: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"style", "colspan"}
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "b" in self.open:
            self.bold.append(data)
        if "span" in self.open:
            self.notes.append(data)
        elif "td" in self.open:
            self.rows[-1][-1] += data

    @property
    def said(self) -> dict[str, str]:
        return {row[0]: row[1].rstrip() for row in self.rows if len(row) > 1}


class Hostile:
    """Somebody else's model, whose name wants to be more than a name."""

    def __init__(self, said: str) -> None:
        self.said = said

    def fit(self, matrix: Any) -> None: ...

    def __repr__(self) -> str:
        return self.said


class Silent(Hostile):
    """One that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


def every_estimator() -> list[Estimator]:
    """One estimator of each class, with parameters that are not the defaults."""
    models = [kind() for _, kind in sorted(Model.registry.items())]
    for model in models:
        model.set_params(seed=3)
    others = [ProRec(NCE(rank=7), gamma=0.25), wrap(Silent("somebody else's")), NoiseFinder([NCE(rank=7)], folds=3)]
    return [*models, *others]


@pytest.mark.parametrize("estimator", every_estimator(), ids=lambda each: type(each).__name__)
def test_scikit_learn_can_clone_every_estimator(estimator: Estimator) -> None:
    copy = clone(estimator)
    assert copy is not estimator
    assert type(copy) is type(estimator)
    assert list(copy.get_params()) == list(estimator.get_params())
    for name, value in estimator.get_params().items():
        if not isinstance(value, Estimator | Hostile):
            assert copy.get_params()[name] == value
    with pytest.raises(NotFittedError, match=rf"{type(estimator).__name__} is not fitted yet; call .*fit"):
        copy._check_fitted()


def test_parameters_of_a_nested_estimator_have_names_with_two_underscores() -> None:
    denoiser = ProRec(NCE(rank=7), gamma=0.25)
    assert denoiser.get_params()["model__rank"] == 7
    assert not any("__" in name for name in denoiser.get_params(deep=False))
    assert denoiser.set_params(model__rank=9, gamma=0.5) is denoiser
    assert (denoiser.model.rank, denoiser.gamma) == (9, 0.5)
    # The new model comes first, then its parameters, whatever the order of the arguments.
    denoiser.set_params(model__rank=4, model=SVD())
    assert denoiser.model == SVD(rank=4)


@pytest.mark.parametrize("name", ["ranks", "model__ranks", "gamma__rank", "history_"])
def test_unknown_parameters_are_refused_by_name(name: str) -> None:
    denoiser = ProRec(NCE())
    with pytest.raises(InputError, match=f"'{name.removeprefix('model__')}' is not a parameter of"):
        denoiser.set_params(**{name: 1})


def test_an_estimator_is_fitted_once_fit_has_stored_a_result() -> None:
    model = SVD(rank=2)
    assert not hasattr(model, "scores_")
    with pytest.raises(NotFittedError, match="SVD is not fitted yet"):
        _ = model.arrays_
    with pytest.raises(NotFittedError, match="SVD is not fitted yet"):
        model.recommend([0])
    model.fit(CLICKS)._check_fitted()
    with pytest.raises(AttributeError, match="'history_'"):
        _ = model.history_  # type: ignore[attr-defined]
    with pytest.raises(NotFittedError):
        clone(model)._check_fitted()


CLICKS = Interactions.from_matrix(csr_array(np.tril(np.ones((1200, 7), dtype=np.float32))))


def test_a_model_shows_its_parameters_and_which_are_not_the_default() -> None:
    seen = Read(NCE(rank=3, seed=0)._repr_html_())
    assert seen.said == {
        "rank": "3",
        "regularization": "1000.0",
        "popularity_power": "1.0",
        "activity_power": "0.0",
        "weight_meaning": "'probability'",
        "seed": "0",
        "device": "'auto'",
        "not fitted yet": "",
    }
    assert seen.bold == ["NCE", "3"]
    assert seen.notes == [f"(default {NCE().rank})"]
    assert Read(NCE(regularization=1000)._repr_html_()).bold == ["NCE"]  # 1000 is 1000.0


def test_a_fitted_model_says_what_it_learned_from() -> None:
    said = Read(NCE(rank=3).fit(CLICKS)._repr_html_()).said
    assert said["learned from"] == f"1,200 users × 7 items, {7 * 1200 - 21:,} interactions"
    assert "not fitted yet" not in said


@pytest.mark.parametrize("kind", sorted(Model.registry))
def test_every_model_can_be_shown(kind: str) -> None:
    assert Read(Model.registry[kind]()._repr_html_()).bold == [kind]


def test_a_denoiser_can_be_shown() -> None:
    assert Read(ProRec(NCE())._repr_html_()).bold == ["ProRec"]


def test_a_denoiser_says_what_it_found() -> None:
    clicks = load_dataset("cinema")
    plain = ProRec(NCE(rank=5), gamma=0.25, noise_method="plan").fit(clicks)
    seen = Read(plain._repr_html_())
    assert seen.said["model"] == repr(NCE(rank=5))
    assert "model" not in seen.bold
    assert seen.bold == ["ProRec", "0.25", "'plan'"]
    assert seen.said["γ"] == "0.25"
    kept = plain.weights_.data.sum(dtype=np.float64) / len(clicks)
    assert seen.said["weight kept"] == f"{kept:.1%}, after round 1"
    assert seen.said["flagged"] == f"{plain.flagged_.sum():,} interactions, {plain.flagged_.mean():.1%}"
    assert "noise rate" not in seen.said
    few = Interactions.from_matrix(csr_array(np.tril(np.ones((5, 4), dtype=np.float32))))
    assert (
        "γ" not in Read(ProRec(NCE(rank=2), transport="emd", noise_method="plan").fit(few)._repr_html_()).said
    )  # it has none


def test_a_finder_says_how_much_noise_there_is_and_so_does_its_denoiser() -> None:
    finder = NoiseFinder([COARSE], folds=2)
    assert Read(finder._repr_html_()).said["not fitted yet"] == ""
    clicks = make_cinema(n_users=150, n_items=80).interactions
    denoiser = ProRec(NCE(rank=5), noise_method=finder).fit(clicks)
    for shown in (denoiser, denoiser.finder_):
        said = Read(shown._repr_html_()).said
        assert said["noise rate"] == str(denoiser.finder_.noise_rate_)
        assert said["learned from"].endswith(f"{len(clicks):,} interactions")
    assert Read(finder._repr_html_()).bold == ["NoiseFinder", repr([COARSE]), "2"]


COARSE = WRMF(rank=2, sweeps=1)


@pytest.mark.parametrize(
    "said", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</td></table>", "&lt;b&gt;"]
)
def test_what_others_wrote_is_text_and_nothing_else(said: str) -> None:
    for estimator in (ProRec(Hostile(said)), wrap(Hostile(said)), NoiseFinder([Hostile(said)]), NCE(device=said)):
        seen = Read(estimator._repr_html_())
        assert seen.tags == {"table", "caption", "b", "tbody", "tr", "td"} | {"span" for _ in seen.notes}
        assert any(said in text for text in seen.said.values())


def test_what_cannot_be_shown_or_compared_is_no_obstacle() -> None:
    assert Read(ProRec(Silent(""))._repr_html_()).said["model"] == "something of type Silent"
    seen = Read(Popularity(seed=np.arange(3))._repr_html_())  # type: ignore[arg-type]
    assert seen.said["seed"] == "array([0, 1, 2])"
    assert len(Read(ProRec(Hostile("x" * 10_000))._repr_html_()).said["model"]) == 160


def test_a_model_of_ones_own_need_not_be_a_dataclass() -> None:
    class _Plain(Model):
        pass

    assert Read(_Plain()._repr_html_()).said == {"not fitted yet": ""}


def test_defaults_that_are_made_anew_count_as_defaults() -> None:
    from dataclasses import field

    @dataclass
    class _Listed(Model):
        widths: list[int] = field(default_factory=lambda: [600])

    assert Read(_Listed()._repr_html_()).bold == ["_Listed"]
    assert Read(_Listed([1])._repr_html_()).bold == ["_Listed", "[1]"]

"""Which clicks are noise: each is judged by models that have not seen it, and gets a probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit

from prorec._core.checks import check_choice, check_float, check_int
from prorec._core.errors import InputError
from prorec._core.estimator import Estimator
from prorec._core.progress import Progress, check_progress
from prorec._core.random import make_generator
from prorec.interactions import Interactions
from prorec.interactions.ids import take_ids
from prorec.interactions.tables import FrameType, to_frame
from prorec.models.factory import cap_rank
from prorec.models.model import Model, as_interactions, restore_model
from prorec.models.nce import NCE
from prorec.models.storage import Arrays
from prorec.models.svd import SVD
from prorec.models.wrap import wrap
from prorec.models.wrmf import WRMF
from prorec.noise.basis import SEEN, UNKNOWN, basis_names, basis_of
from prorec.noise.company import Company, Judged
from prorec.noise.controls import CONTROLS, EVERYTHING, LEARN_FROM, drawn
from prorec.noise.evidence import Pairs, Transport, evidence
from prorec.noise.flagging import flag_interactions
from prorec.noise.folds import dealt, without
from prorec.noise.learned import Learned, Observed
from prorec.noise.noise_rate import Noise, NoiseRateEstimate
from prorec.transport.blocks import DEFAULT_MEMORY, check_memory

_VOTERS: tuple[Model, ...] = (
    WRMF(rank=10, alpha=10.0, regularization=30.0),
    NCE(rank=20, regularization=10000.0),
    SVD(rank=5),
    WRMF(rank=40, alpha=1.0, regularization=10.0),
)
"""Coarse models: what one user does has little say in them, which is what out-of-sample scores are better for."""


@dataclass
class NoiseFinder(Estimator):
    """Finds clicks that might as well be random draws, by cross-fitting, and says how probable that is.

    Interactions are dealt into folds. Each is judged by models that learned from the other folds: by the value of its
    pair in a transport plan, and by the share of the user's unobserved items that have a larger one. The same is done
    for controls, pairs drawn at random from what each user has not clicked on; and what tells clicks from controls is
    learned. Where clicks are least distinguishable from controls, they tell how much noise there is; the
    rest follows from Bayes' rule.

    What comes out, for each interaction in the order of `interactions_.matrix.data`: `noise_probability_`,
    `percentile_rank_` (the mean over models), `basis_`; and `noise_rate_`, `flag`, `table`, `score`.

    >>> import prorec
    >>> clicks = prorec.load_dataset("cinema")
    >>> finder = NoiseFinder(folds=5).fit(clicks)
    >>> print(f"{finder.noise_rate_.estimate:.0%}")
    7%
    """

    base_models: Any = None
    """Who votes: a model, or a list of them; any that `prorec.models.wrap` takes. By default, four coarse ones."""
    _: KW_ONLY
    folds: int = 20
    """Each interaction is judged by models that learned from all folds but its own. Fewer are faster, and find
    a little less."""
    transport: Transport = "relaxed-users"
    """The transport plan: `relaxed-users` fixes the users' marginal only (Eq. 6) and keeps the order of the scores;
    `relaxed` (Eq. 7) and `sinkhorn` use the items' marginal too."""
    seed: int = 0
    """Of folds and controls."""
    memory: float = DEFAULT_MEMORY
    """How many bytes of blocks of users × items may be in memory at once."""

    # ── learning ────────────────────────────────────────────────────────────────────────────────────

    def fit(self, interactions: Interactions | csr_array, *, progress: Progress | None = None) -> Self:
        """Judge every interaction by models that have not seen it.

        Parameters
        ----------
        interactions : interactions, or a sparse matrix of weights in [0, 1], users × items
        progress : called with what is being done, how much of it is done, and how much there is
        """
        known = as_interactions(interactions)
        check_progress(progress)
        voters = self._voters(known)
        rng = make_generator(self.seed)
        matrix = known.matrix
        fold_of = dealt(matrix, self.folds, rng)
        learned_from = np.arange(len(known))
        if len(known) > LEARN_FROM:
            learned_from = np.sort(rng.choice(len(known), LEARN_FROM, replace=False))
        asked = np.repeat(learned_from, CONTROLS)
        items, there = drawn(matrix, known.user_codes[asked], rng.random(len(asked)))
        asked, items = asked[there], items[there]
        if not len(asked):
            raise InputError(EVERYTHING)
        pairs = Pairs(
            np.concatenate([known.user_codes, known.user_codes[asked]]).astype(np.int32),
            np.concatenate([known.item_codes, items]).astype(np.int32),
        )
        judged = self._judged(known, voters, fold_of, np.append(fold_of, fold_of[asked]), pairs, progress)
        n = len(known)
        self._company = Company(matrix, judged.vote[:n], judged.popularity[:n])
        of_user = self._company.of_users(judged, pairs, np.append(np.arange(n), asked))
        activity = known.activity.astype(np.float32)[pairs.users]
        itself = np.where(np.arange(len(activity)) < n, activity, np.float32(np.nan))
        features = judged.features(of_user, self._company.of_items(pairs, activity, itself))
        chosen = np.concatenate([learned_from, np.arange(n, len(pairs.users))])
        self.interactions_ = known
        found = Observed(features, judged.popularity.astype(np.float64), judged.is_alone)
        self._learned = Learned.fitted(
            found.at(chosen),
            pairs.users[chosen],
            chosen < n,
            known.activity.astype(np.float64),
            rng,
        )
        self.noise_probability_ = self._learned.probability(found.at(slice(n)))
        self.basis_ = basis_of(judged.is_alone[:n])
        self.models_ = []
        for place, voter in enumerate(voters):  # for what comes later, and was not seen anyway
            _report(progress, "fitting for what comes later", place, len(voters))
            self.models_.append(_fresh(voter).fit(known))
        _report(progress, "fitting for what comes later", len(voters), len(voters))
        return self

    def _voters(self, known: Interactions) -> list[Model]:
        """The models, and everything checked before the first of them learns."""
        self.check_settings()
        check_memory(self.memory, known.n_items)
        if not len(known):
            raise InputError("there is no interaction to judge")
        if len(known) < self.folds:
            raise InputError(f"folds must be at most {len(known)}, the number of interactions; got {self.folds}")
        if known.activity.max(initial=0) < 2:
            raise InputError("every user has one interaction only: there is nothing to judge any of them by")
        voters = [wrap(model) for model in self._given()]
        if self.base_models is None:
            voters = [cap_rank(model, known.matrix.shape) for model in voters]
        for model in voters:
            model.check_parameters(known.matrix.shape)
        return voters

    def _given(self) -> list[Any]:
        if self.base_models is None:
            return list(_VOTERS)
        return list(self.base_models) if isinstance(self.base_models, Sequence) else [self.base_models]

    def check_settings(self) -> None:
        """Refuse parameters that make no sense, whatever the data."""
        check_int("folds", self.folds, 2, 1000)
        check_int("seed", self.seed, 0)
        check_float("memory", self.memory, 0)
        check_choice("transport", self.transport, ("relaxed-users", "relaxed", "sinkhorn"))
        if not self._given():
            raise InputError("base_models must have at least one model in it")
        for model in self._given():
            if hasattr(type(model), "noise_probability_"):
                raise InputError("base_models must be recommenders; got a denoiser")
            wrap(model)

    def _judged(
        self,
        known: Interactions,
        voters: list[Model],
        fold_of: NDArray[np.int16],
        asked_in: NDArray[np.int16],
        pairs: Pairs,
        progress: Progress | None,
    ) -> Judged:
        judged = Judged.empty(len(voters), len(pairs.users))
        done, total = 0, self.folds * len(voters)
        for fold in range(self.folds):
            train = without(known.matrix, fold_of == fold)
            here = np.flatnonzero(asked_in == fold)
            part = Pairs(pairs.users[here], pairs.items[here])
            judged.popularity[here] = np.bincount(train.indices, minlength=known.n_items)[part.items]
            judged.is_alone[here] = _has_none(train)[part.users]
            for place, voter in enumerate(voters):
                _report(progress, "judging clicks by models that have not seen them", done, total)
                scores = _fresh(voter).fit(train).scores_
                found = evidence(scores, known.matrix, part, train, self.transport, self.memory)
                judged.values[place, here], judged.percentiles[place, here] = found
                done += 1
        _report(progress, "judging clicks by models that have not seen them", total, total)
        return judged

    @property
    def percentile_rank_(self) -> NDArray[np.float32]:
        """For each interaction, the share of its user's unobserved items that stand above it; mean over models."""
        self._fitted()
        return self._company.vote

    @property
    def noise_(self) -> Noise:
        """How much noise there is on items of any popularity."""
        self._fitted()
        return self._learned.noise

    @property
    def noise_rate_(self) -> NoiseRateEstimate:
        """How much of the log is noise."""
        self._fitted()
        return self._learned.share

    # ── what came out ───────────────────────────────────────────────────────────────────────────────

    def flag(
        self,
        *,
        fdr: float | None = None,
        n: int | None = None,
        fraction: float | None = None,
        threshold: float | None = None,
    ) -> NDArray[np.bool_]:
        """For each interaction, whether it is among the most suspicious; see `prorec.noise.flagging`.

        One of: `fdr`, so large a share of the flags may be wrong; `n`, so many; `fraction`, so large a share of all;
        `threshold`, those with a larger probability.
        """
        self._fitted()
        return flag_interactions(self.noise_probability_, fdr=fdr, n=n, fraction=fraction, threshold=threshold)

    def table(self, frame: FrameType = "pyarrow") -> Any:
        """One row per interaction, most suspicious first: user, item, noise_probability, percentile_rank, basis."""
        self._fitted()
        known = self.interactions_
        order = np.argsort(-self.noise_probability_, kind="stable")
        columns = {
            "user": take_ids(known.users, known.user_codes[order]),
            "item": take_ids(known.items, known.item_codes[order]),
            "noise_probability": self.noise_probability_[order],
            "percentile_rank": self.percentile_rank_[order],
            "basis": basis_names(self.basis_[order]),
        }
        return to_frame(pa.table(columns), frame)

    def score(self, interactions: Interactions, frame: FrameType = "pyarrow") -> Any:
        """The probability of noise for interactions that came later: user, item, noise_probability, basis.

        Known users are judged by models of everything they did before; new users by folding in the rest of what they
        did, as in cross-fitting. One row for each interaction, by user and item. The basis is `models`; `popularity`,
        where nothing else is known of the user; `unknown item`, which has no probability; or `seen`, for a pair that
        was learned from, which keeps the probability that it got then.
        """
        probability, basis = self.scored(interactions)
        columns = {
            "user": take_ids(interactions.users, interactions.user_codes),
            "item": take_ids(interactions.items, interactions.item_codes),
            "noise_probability": pa.array(probability, mask=np.isnan(probability)),
            "basis": basis_names(basis),
        }
        return to_frame(pa.table(columns), frame)

    def scored(self, interactions: Interactions) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
        """The same in the order of `matrix.data`: probabilities, NaN for unknown items, and bases by number."""
        self._fitted()
        if not isinstance(interactions, Interactions):
            raise InputError(f"interactions must be Interactions; got {type(interactions).__name__}")
        known = self.interactions_
        users = known.user_positions(interactions.users)[interactions.user_codes]
        items = known.item_positions(interactions.items)[interactions.item_codes]
        probability = np.full(len(interactions), np.nan, dtype=np.float32)
        basis = np.full(len(interactions), UNKNOWN, dtype=np.int8)
        places = np.full(len(interactions), -1)
        both = (users >= 0) & (items >= 0)
        places[both] = known.pair_positions(users[both], items[both])
        is_seen = places >= 0
        probability[is_seen], basis[is_seen] = self.noise_probability_[places[is_seen]], SEEN
        # Who is in the log without any click is as good as new.
        is_old = (users >= 0) & ~_has_none(known.matrix)[np.maximum(users, 0)]
        old, new = is_old & (items >= 0) & ~is_seen, ~is_old & (items >= 0) & ~is_seen
        for which, rows, judge in ((old, users, self._judge_known), (new, interactions.user_codes, self._judge_new)):
            if which.any():
                probability[which], basis[which] = judge(rows[which].astype(np.int32), items[which].astype(np.int32))
        return probability, basis

    def _judge_known(
        self, users: NDArray[np.int32], items: NDArray[np.int32]
    ) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
        known, pairs = self.interactions_, Pairs(users, items)
        judged = self._empty(items)
        for place, model in enumerate(self.models_):
            found = evidence(model.scores_, known.matrix, pairs, known.matrix, self.transport, self.memory)
            judged.values[place], judged.percentiles[place] = found
        of_item = self._company.of_items(pairs, known.activity.astype(np.float32)[users])
        return self._concluded(judged.features(self._company.of_users(judged, pairs), of_item), judged)

    def _judge_new(
        self, users: NDArray[np.int32], items: NDArray[np.int32]
    ) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
        """Users who are not known, by number: each click by what the rest of the user's clicks say."""
        _, rows = np.unique(users, return_inverse=True)
        order = np.lexsort((items, rows))
        pairs = Pairs(rows[order].astype(np.int32), items[order])
        shape = int(rows.max()) + 1, self.interactions_.n_items
        matrix = csr_array((np.ones(len(order), dtype=np.float32), (pairs.users, pairs.items)), shape=shape)
        fold_of = dealt(matrix, self.folds, make_generator(self.seed))
        judged = self._empty(pairs.items)
        for fold in range(self.folds):
            here = np.flatnonzero(fold_of == fold)
            if len(here):
                self._fold_in(judged, here, Pairs(pairs.users[here], pairs.items[here]), matrix, fold_of == fold)
        # Among the user's own clicks, and among the item's users, who are all known.
        of_user = Company(matrix, judged.vote, judged.popularity).of_users(judged, pairs, np.arange(len(order)))
        of_item = self._company.of_items(pairs, np.diff(matrix.indptr).astype(np.float32)[pairs.users])
        probability, basis = self._concluded(judged.features(of_user, of_item), judged)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return probability[back], basis[back]

    def _fold_in(
        self, judged: Judged, here: NDArray[np.intp], pairs: Pairs, matrix: csr_array, left_out: NDArray[np.bool_]
    ) -> None:
        """What models say of users they have not learned from; where they can't, users count as alone."""
        train = without(matrix, left_out)
        judged.is_alone[here] = _has_none(train)[pairs.users]
        # Plans with the items' marginal have no place for them, and somebody's own model may not know them either.
        if self.transport != "relaxed-users" or not all(model.supports_fold_in for model in self.models_):
            judged.is_alone[here] = True
            return
        for place, model in enumerate(self.models_):

            def scores(rows: NDArray[np.intp], model: Model = model) -> NDArray[np.float32]:
                room = np.empty((len(rows), matrix.shape[1]), dtype=np.float32)
                model.score_new_users(train[rows], room)
                return np.asarray(expit(room)) if model.link == "sigmoid" else room  # as in what was learned from

            found = evidence(scores, matrix, pairs, train, self.transport, self.memory)
            judged.values[place, here], judged.percentiles[place, here] = found

    def _empty(self, items: NDArray[np.int32]) -> Judged:
        """Room for pairs with these items, each with as many others as in one of the parts that were learned from."""
        judged = Judged.empty(len(self.models_), len(items))
        judged.popularity[:] = self.interactions_.popularity[items] * (1 - 1 / self.folds)
        return judged

    def _concluded(self, features: NDArray[np.float64], judged: Judged) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
        observed = Observed(features, judged.popularity.astype(np.float64), judged.is_alone)
        return self._learned.probability(observed), basis_of(judged.is_alone)

    # ── keeping ─────────────────────────────────────────────────────────────────────────────────────

    def parameters(self) -> dict[str, Any]:
        """What the finder was made with, in a form that can be written down."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        described = [model.describe() for model in self._fitted()]
        return given | {"base_models": described, "default": self.base_models is None}

    @property
    def arrays_(self) -> Arrays:
        """All arrays that a finder is made of, by name."""
        arrays: Arrays = {
            "probability": self.noise_probability_,
            "vote": self._company.vote,
            "popularity": self._company.popularity,
            "basis": self.basis_,
        }
        arrays |= self._learned.arrays
        for place, model in enumerate(self._fitted()):
            arrays |= {f"{place}.{name}": array for name, array in model.arrays_.items()}
        return arrays

    @classmethod
    def restore(cls, parameters: dict[str, Any], learned: Arrays, known: Interactions) -> Self:
        """A fitted finder from what was written down of it."""
        given = dict(parameters)
        is_default, described = given.pop("default"), given.pop("base_models")
        voters = []
        for place, each in enumerate(described):
            own = {name.partition(".")[2]: array for name, array in learned.items() if name.startswith(f"{place}.")}
            voters.append(restore_model(each, own, known))
        base_models = None if is_default else [replace(model) for model in voters]  # type: ignore[type-var]
        finder = cls(base_models, **given)
        finder.check_settings()
        if not all(np.isfinite(array).all() for array in learned.values()):
            raise InputError("the noise finder is damaged: there are numbers that are not finite")
        for name in ("probability", "vote", "popularity", "basis"):
            if learned[name].shape != (len(known),):
                raise InputError(f"the noise finder is damaged: {name} has shape {learned[name].shape}")
        finder.interactions_, finder.models_ = known, voters
        finder.noise_probability_, finder.basis_ = learned["probability"], learned["basis"]
        finder._company = Company(known.matrix, learned["vote"], learned["popularity"])
        finder._learned = Learned.of(learned)
        return finder

    def _summary(self) -> dict[str, str]:
        known = self.interactions_
        size = f"{known.n_users:,} users × {known.n_items:,} items, {len(known):,} interactions"
        return {"learned from": size, "noise rate": str(self.noise_rate_)}

    def _fitted(self) -> list[Model]:
        if not hasattr(self, "models_"):
            raise InputError("NoiseFinder has not judged anything yet: call fit first")
        return self.models_


def _has_none(matrix: csr_array) -> NDArray[np.bool_]:
    """Users without any weight."""
    return np.asarray(np.asarray(matrix.sum(axis=1)).ravel() == 0)


def _fresh(model: Model) -> Any:
    return replace(model)  # type: ignore[type-var]


def _report(progress: Progress | None, what: str, done: int, total: int) -> None:
    if progress is not None:
        progress(what, done, total)

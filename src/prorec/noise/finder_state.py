"""The state of a fitted NoiseFinder as JSON and arrays, for saving."""

from __future__ import annotations

from typing import Any

import numpy as np

from prorec._core.errors import DamagedFileError
from prorec.interactions import Interactions
from prorec.models.model import restore_model
from prorec.noise.cross_fitting import copy_unfitted, drop_entries
from prorec.noise.finder import NoiseFinder
from prorec.noise.identifiability import INJECTED_KINDS, InjectionCheck
from prorec.noise.issues import Issues
from prorec.noise.pair_features import ReferenceClicks
from prorec.noise.posterior import Arrays, NoisePosterior

_PER_CLICK = ("noise_probability", "percentile_rank", "basis", "noise_p_value")


def finder_state(finder: NoiseFinder) -> tuple[dict[str, Any], Arrays]:
    """Return the state of a fitted finder, without its interactions.

    Parameters
    ----------
    finder : NoiseFinder
        A fitted finder.

    Returns
    -------
    parameters : dict
        Parameters, in a form that JSON can hold.
    arrays : dict of arrays
        All results and those of the base models, by name.
    """
    parameters = finder.get_params(deep=False) | {
        "base_models": [model.describe() for model in finder.base_models_],
        "default": finder.base_models is None,
    }
    arrays: Arrays = {
        "noise_probability": finder.noise_probability_,
        "percentile_rank": finder.percentile_rank_,
        "popularity": finder.reference_clicks_.popularity,
        "basis": finder.basis_,
        "noise_p_value": finder.noise_p_value_,
        "injection_checks": np.array(
            [[each.auroc, each.injected, each.estimated] for each in finder.injection_checks_]
        ),
    }
    arrays |= _pack_issues(finder.issues_)
    arrays |= finder.posterior_.to_arrays()
    for index, model in enumerate(finder.base_models_):
        arrays |= {f"{index}.{name}": array for name, array in model.arrays_.items()}
    return parameters, arrays


def restore_finder(parameters: dict[str, Any], arrays: Arrays, interactions: Interactions) -> NoiseFinder:
    """Return a fitted finder from its state.

    Parameters
    ----------
    parameters, arrays : dict
        Results of `finder_state`.
    interactions : Interactions
        Interactions that the finder was fitted to.

    Returns
    -------
    NoiseFinder

    Raises
    ------
    DamagedFileError
        If an array has a wrong shape, or a number that is not finite.
    InputError
        If a parameter is out of range.
    """
    settings = dict(parameters)
    is_default, described = settings.pop("default"), settings.pop("base_models")
    models = []
    for index, description in enumerate(described):
        prefix = f"{index}."
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        models.append(restore_model(description, own, interactions))
    finder = NoiseFinder(None if is_default else [copy_unfitted(model) for model in models], **settings)
    finder.check_settings()
    issues = _restore_issues(arrays, interactions)
    is_fitted = ~issues.is_extreme[interactions.user_codes]
    lengths = dict.fromkeys(_PER_CLICK, len(interactions)) | {"popularity": int(is_fitted.sum())}
    for name, array in arrays.items():
        if not np.isfinite(array).all() or (name in lengths and array.shape != (lengths[name],)):
            raise DamagedFileError(
                f"the saved noise finder is damaged: {name} has shape {array.shape} for {len(interactions)} "
                "interactions, or a number that is not finite. Fit and save it again."
            )
    finder.interactions_, finder.base_models_, finder.issues_ = interactions, models, issues
    finder.noise_probability_, finder.basis_ = arrays["noise_probability"], arrays["basis"]
    finder.percentile_rank_ = arrays["percentile_rank"]
    fitted = drop_entries(interactions.matrix, ~is_fitted)
    finder.reference_clicks_ = ReferenceClicks(fitted, finder.percentile_rank_[is_fitted], arrays["popularity"])
    finder.noise_p_value_ = arrays["noise_p_value"]
    finder.injection_checks_ = [
        InjectionCheck(kind, *map(float, row))
        for kind, row in zip(INJECTED_KINDS, arrays["injection_checks"], strict=True)
    ]
    finder.posterior_ = NoisePosterior.from_arrays(arrays)
    finder.noise_rate_ = finder.posterior_.noise_rate
    return finder


def _pack_issues(issues: Issues) -> Arrays:
    """Return issues as arrays by name."""
    arrays: Arrays = {"is_extreme": issues.is_extreme, "can_tell": np.array(issues.can_tell)}
    arrays |= {f"user_issue.{name}": scores for name, scores in issues.user_scores.items()}
    return arrays | {f"item_issue.{name}": scores for name, scores in issues.item_scores.items()}


def _restore_issues(arrays: Arrays, interactions: Interactions) -> Issues:
    """Return the issues that `_pack_issues` packed."""
    lengths = {"user_issue": interactions.n_users, "item_issue": interactions.n_items}
    scores: dict[str, Arrays] = {"user_issue": {}, "item_issue": {}}
    for name, array in arrays.items():
        kind, _, issue = name.partition(".")
        if kind in scores:
            scores[kind][issue] = array
    is_extreme = arrays["is_extreme"].astype(bool)
    shapes_fit = all(array.shape == (lengths[kind],) for kind, by in scores.items() for array in by.values())
    if not shapes_fit or is_extreme.shape != (interactions.n_users,):
        raise DamagedFileError("the saved noise finder is damaged: issues have a wrong shape. Fit and save it again.")
    return Issues(interactions, scores["user_issue"], scores["item_issue"], is_extreme, bool(arrays["can_tell"]))

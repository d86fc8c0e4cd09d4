"""The state of a fitted NoiseFinder as JSON and arrays, for saving."""

from __future__ import annotations

from dataclasses import astuple, fields
from typing import Any

import numpy as np

from prorec._core.array_rules import ArrayRule, check_arrays
from prorec._core.checks import check_int
from prorec._core.errors import DamagedFileError
from prorec.interactions import Interactions
from prorec.models.model import restore_model
from prorec.noise.cross_fitting import copy_unfitted, drop_entries
from prorec.noise.finder import NoiseFinder
from prorec.noise.injection_checks import INJECTED_KINDS, InjectionCheck
from prorec.noise.issues import Issues
from prorec.noise.leave_one_out import count_leave_one_out_features
from prorec.noise.pair_features import N_OTHER_FEATURES, ReferenceClicks
from prorec.noise.posterior import ACCOUNT, MARKED, MODELS, POPULARITY, Arrays, NoisePosterior
from prorec.transport.blocks import check_memory

_ISSUES = {
    "user": ("account", "random_history", "regular_times", "catalogue_walk", "cloned_history", "burst"),
    "item": ("pushed_item", "item_burst"),
}
"""Names of the scores of users and of items."""
_BASES = {MODELS, POPULARITY, ACCOUNT, MARKED}
"""Codes of the basis of a fitted interaction."""
_SUBJECT = "the saved noise finder"


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
        "n_folds": finder.n_folds_,
    }
    arrays: Arrays = {
        "noise_probability": finder.noise_probability_,
        "percentile_rank": finder.percentile_rank_,
        "popularity": finder.reference_clicks_.popularity,
        "basis": finder.basis_,
        "noise_p_value": finder.noise_p_value_,
        "injection_checks": np.array([astuple(each)[1:] for each in finder.injection_checks_]),
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
        If an array is missing or unknown, or has a wrong shape, type or value.
    InputError
        If a parameter is out of range.
    KeyError, TypeError
        If a parameter is missing or unknown.
    """
    settings = dict(parameters)
    is_default, described = settings.pop("default"), settings.pop("base_models")
    n_folds = check_int("n_folds", settings.pop("n_folds", settings.get("folds")), 2, 1000)
    if not isinstance(is_default, bool) or not isinstance(described, list) or not described:
        raise DamagedFileError("the saved noise finder is damaged: it must list its base models. Save it again")
    others, models = dict(arrays), []
    for index, description in enumerate(described):
        prefix = f"{index}."
        own = {name.removeprefix(prefix): others.pop(name) for name in arrays if name.startswith(prefix)}
        models.append(restore_model(description, own, interactions))
    finder = NoiseFinder(None if is_default else [copy_unfitted(model) for model in models], **settings)
    finder.check_settings()
    n_features = 2 * len(models) + N_OTHER_FEATURES
    n_features += count_leave_one_out_features(interactions.matrix.shape) if finder.cooccurrence else 0
    check_arrays(others, _array_rules(interactions, n_features), _SUBJECT)
    check_memory(finder.memory, interactions.n_items)
    issues = _restore_issues(others, interactions)
    marked = others["noise_probability"][others["basis"] == MARKED]
    if not np.isin(marked, (0, 1)).all():
        raise DamagedFileError(
            f"{_SUBJECT} is damaged: the noise probability of a marked interaction must be 0 or 1. Save it again"
        )
    is_suspect = (others["basis"] == MARKED) & (others["noise_probability"] == 1)
    is_fitted = ~issues.is_extreme[interactions.user_codes] & ~is_suspect
    if len(others["popularity"]) != is_fitted.sum() or not set(np.unique(others["basis"]).tolist()) <= _BASES:
        raise DamagedFileError(
            f"{_SUBJECT} is damaged: popularity must have {is_fitted.sum()} values, one for each fitted interaction, "
            "and basis only codes of a fit. Save it again"
        )
    finder.interactions_, finder.base_models_, finder.issues_ = interactions, models, issues
    finder.noise_probability_, finder.basis_ = arrays["noise_probability"], arrays["basis"]
    finder.percentile_rank_ = arrays["percentile_rank"]
    fitted = drop_entries(interactions.matrix, ~is_fitted)
    finder.reference_clicks_ = ReferenceClicks(fitted, finder.percentile_rank_[is_fitted], arrays["popularity"])
    finder.noise_p_value_, finder.n_folds_ = arrays["noise_p_value"], n_folds
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
    users, items = ({name: arrays[f"{kind}_issue.{name}"] for name in names} for kind, names in _ISSUES.items())
    return Issues(interactions, users, items, arrays["is_extreme"], bool(arrays["can_tell"]))


def _array_rules(interactions: Interactions, n_features: int) -> dict[str, ArrayRule]:
    """Return the rules for all arrays of a finder but those of its base models."""
    n, lengths = len(interactions), {"user": interactions.n_users, "item": interactions.n_items}
    rules = {
        "noise_probability": ArrayRule((n,), minimum=0, maximum=1),
        "percentile_rank": ArrayRule((n,), minimum=0, maximum=1),
        "noise_p_value": ArrayRule((n,), minimum=0, maximum=1),
        "basis": ArrayRule((n,), "int8"),
        "popularity": ArrayRule(("fitted interactions",), minimum=0, maximum=interactions.n_users),
        "injection_checks": ArrayRule((len(INJECTED_KINDS), len(fields(InjectionCheck)) - 1), "float64", -1, 1),
        "is_extreme": ArrayRule((interactions.n_users,), "bool"),
        "can_tell": ArrayRule((), "bool"),
    }
    for kind, names in _ISSUES.items():
        rules |= {f"{kind}_issue.{name}": ArrayRule((lengths[kind],), "float64", 0, 1) for name in names}
    return rules | NoisePosterior.array_rules(n_features)

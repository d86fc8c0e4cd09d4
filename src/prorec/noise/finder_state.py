"""The state of a fitted NoiseFinder as JSON and arrays, for saving."""

from __future__ import annotations

from typing import Any

import numpy as np

from prorec._core.errors import DamagedFileError
from prorec.interactions import Interactions
from prorec.models.model import restore_model
from prorec.noise.cross_fitting import copy_unfitted
from prorec.noise.finder import NoiseFinder
from prorec.noise.pair_features import ReferenceClicks
from prorec.noise.posterior import Arrays, NoisePosterior

_PER_CLICK = ("noise_probability", "percentile_rank", "popularity", "basis")


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
    }
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
    for name, array in arrays.items():
        if not np.isfinite(array).all() or (name in _PER_CLICK and array.shape != (len(interactions),)):
            raise DamagedFileError(
                f"the saved noise finder is damaged: {name} has shape {array.shape} for {len(interactions)} "
                "interactions, or a number that is not finite. Fit and save it again."
            )
    finder.interactions_, finder.base_models_ = interactions, models
    finder.noise_probability_, finder.basis_ = arrays["noise_probability"], arrays["basis"]
    finder.percentile_rank_ = arrays["percentile_rank"]
    finder.reference_clicks_ = ReferenceClicks(interactions.matrix, finder.percentile_rank_, arrays["popularity"])
    finder.posterior_ = NoisePosterior.from_arrays(arrays)
    finder.noise_rate_ = finder.posterior_.noise_rate
    return finder

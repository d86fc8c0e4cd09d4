"""Labels of Algorithm 1 by models that have not seen the interaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prorec._core.array_rules import ArrayRule
from prorec._core.progress import Progress
from prorec._core.random import make_generator
from prorec.interactions import Interactions
from prorec.models.wrap import resolve_model
from prorec.noise.cross_fitting import FoldStore, assign_folds, drop_entries, fit_without_fold
from prorec.transport import relaxed
from prorec.transport.gamma import estimate_gamma, parse_gamma
from prorec.transport.marginals import Marginals
from prorec.transport.relabeling import compute_label_probabilities

if TYPE_CHECKING:
    from prorec.denoise.denoiser import ProRec


def cross_fit_labels(
    settings: ProRec,
    interactions: Interactions,
    n_folds: int,
    seed: int,
    progress: Progress | None,
    store: FoldStore | None = None,
) -> NDArray[np.float32]:
    """Compute r (Eq. 22) of each interaction from the plan of a model that was fitted without it.

    The interactions are divided into folds. For each fold, the model is fitted to the other folds, and its relaxed plan
    (Eq. 7) and thresholds (Eq. 20) label the interactions of the fold.

    Parameters
    ----------
    settings : ProRec
        The model, and the parameters of the plan, the thresholds and the labels.
    interactions : Interactions
        Interactions to label.
    n_folds : int
        Number of folds.
    seed : int
        Seed of the folds.
    progress : Progress or None
        Called before each fit and at the end.
    store : FoldStore, optional
        Labels of finished folds, which are not computed again.

    Returns
    -------
    NDArray of float32
        r in [0, 1], in the order of `interactions.matrix.data`.

    Raises
    ------
    InputError
        If the model cannot be fitted without one of the folds.
    """
    report: Progress = progress or (lambda *_: None)
    matrix, task = interactions.matrix, "Cross-fitting the model"
    folds = assign_folds(matrix, n_folds, make_generator(seed))
    labels = np.empty(matrix.nnz, dtype=np.float32)
    for fold in range(n_folds):
        report(task, fold, n_folds)
        name, rule = f"labels-{fold}", ArrayRule((int((folds == fold).sum()),), minimum=0, maximum=1)
        stored = None if store is None else store.load_fold(name, {"labels": rule})
        if stored is not None:
            labels[folds == fold] = stored["labels"]
            continue
        train = drop_entries(matrix, folds == fold)
        model = resolve_model(settings.model, matrix.shape)
        scores = fit_without_fold(model, train, fold, n_folds).scores_
        factor = parse_gamma(settings.gamma)
        gamma = float(settings.gamma) if factor is None else factor * estimate_gamma(scores, train)
        marginals = Marginals.popularity(train)
        if settings.marginals == "uniform":
            marginals = Marginals.uniform(*matrix.shape)
        plan = relaxed(scores, marginals, gamma, device=settings.device, memory=settings.memory)
        matching = plan.match(matrix, settings.threshold)
        labels[folds == fold] = compute_label_probabilities(matching, settings.beta)[folds == fold]
        if store is not None:
            store.save_fold(name, {"labels": labels[folds == fold]})
    report(task, n_folds, n_folds)
    return labels

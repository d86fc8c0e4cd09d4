"""Checkpoints of a run: the state after each relabelling, finished folds, and the identity of what they belong to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from prorec._core.array_rules import ArrayRule, check_arrays
from prorec._core.digest import digest
from prorec._core.errors import InputError
from prorec._core.estimator import Estimator
from prorec._core.files import as_path, prefix_errors
from prorec.interactions import Interactions
from prorec.models.storage import Arrays, read_checkpoint, write_checkpoint
from prorec.noise.marks import Marks
from prorec.transport.thresholds import digest_pairs

if TYPE_CHECKING:
    from prorec.denoise.denoiser import ProRec

_NAME = "round.npz"
DAMAGED = "this checkpoint is damaged; remove it to start anew"
# These parameters change how fast a run is, or are used after it. A run may continue on another device.
_NOT_IDENTITY = ("flag_fraction", "fdr", "memory", "device")


class State(NamedTuple):
    """A round that has new weights and no model yet."""

    record: dict[str, Any]
    """The round and the rounds before it, as JSON holds them."""
    arrays: Arrays
    """Weights and matching of the round, by name; also the model's arrays, if the next fit starts from them."""


class Checkpoint:
    """A folder that holds the latest state of a run.

    Parameters
    ----------
    folder : str, Path or None
        The folder, which is made if necessary. None stores nothing.
    identity : str
        Text that two runs share only if they compute the same; see `run_identity`.

    Raises
    ------
    InputError
        If `folder` is not a path.
    """

    def __init__(self, folder: str | Path | None, identity: str) -> None:
        self.folder = None if folder is None else as_path(folder)
        self._identity = identity
        if self.folder is not None:
            with prefix_errors(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)

    def save(self, state: State) -> None:
        """Replace the stored state, all or nothing.

        Parameters
        ----------
        state : State
            The new state.
        """
        if self.folder is None:
            return
        write_checkpoint(self.folder / _NAME, self._identity, state.record, state.arrays)

    def load(self) -> State | None:
        """Return the stored state, or None if there is none.

        Returns
        -------
        State or None

        Raises
        ------
        InputError
            If the state belongs to another run, or the file is damaged.
        """
        stored = None if self.folder is None else read_checkpoint(self.folder / _NAME, self._identity)
        return None if stored is None else State(*stored)

    def save_fold(self, name: str, arrays: Arrays) -> None:
        """Store the results of a fold, all or nothing.

        Parameters
        ----------
        name : str
            Name of the fold.
        arrays : dict of str to array
            Its results.
        """
        if self.folder is not None:
            write_checkpoint(self.folder / f"fold-{name}.npz", self._identity, {}, arrays)

    def load_fold(self, name: str, rules: Mapping[str, ArrayRule]) -> Arrays | None:
        """Return the results of a fold, or None if they are not stored.

        Parameters
        ----------
        name : str
            Name of the fold.
        rules : mapping of str to ArrayRule
            Types, shapes and values that the results must have.

        Returns
        -------
        dict of str to array, or None

        Raises
        ------
        InputError
            If the results belong to another run, or the file is damaged.
        """
        path = None if self.folder is None else self.folder / f"fold-{name}.npz"
        stored = None if path is None else read_checkpoint(path, self._identity)
        if path is None or stored is None:
            return None
        with prefix_errors(path):
            check_arrays(stored[1], rules, "this checkpoint", "remove it to start anew")
        return stored[1]


def run_identity(settings: ProRec, interactions: Interactions, marks: Marks) -> str:
    """Return a text that two runs share only if they compute the same result.

    Parameters
    ----------
    settings : ProRec
        The denoiser's parameters, including the models.
    interactions : Interactions
        The interactions to fit.
    marks : Marks
        Interactions that are marked as trusted or suspect.

    Returns
    -------
    str
        Version, parameters and digests of the interactions, their times and their marks, as JSON.

    Raises
    ------
    InputError
        If a third-party model holds an object that has no description of its own.
    """
    from prorec import __version__

    content = [digest_pairs(interactions.matrix), digest(interactions.matrix.data), digest(*marks)]
    if settings.noise_method != "plan":  # bursts are found by the times
        content.append(digest(interactions.columns.get("timestamp", np.empty(0)).view(np.uint8)))
    return json.dumps([__version__, _describe(settings), content])


def _describe(value: Any, parents: tuple[Any, ...] = ()) -> Any:
    """Return the content of any object in a form that is equal in another process.

    Objects are taken apart as `copy` does it. `parents` are the objects around the value; a cycle ends at them.
    """
    if value is None or isinstance(value, str | bytes | int | float | complex):
        return repr(value)
    if isinstance(value, Estimator):
        parameters = value.get_params(deep=False).items()
        value = {"class": type(value), **{name: each for name, each in parameters if name not in _NOT_IDENTITY}}
    if hasattr(value, "detach"):  # a tensor reduces to its address in memory, an array to its numbers
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        return digest(np.asarray(value))
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        if "<lambda>" in value.__qualname__ or ("<locals>" in value.__qualname__ and not isinstance(value, type)):
            raise InputError(_no_identity(f"the function {value.__qualname__}"))
        return f"{value.__module__}.{value.__qualname__}"
    if any(value is each for each in parents) or len(parents) > 50:
        return "…"
    parents = (*parents, value)
    if isinstance(value, dict):
        value = list(value.items())
    if isinstance(value, list | tuple | Iterator):
        return [_describe(each, parents) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(repr(_describe(each, parents)) for each in value)
    try:
        reduced = value.__reduce_ex__(4)
    except Exception as error:  # the object's own code may raise anything
        raise InputError(_no_identity(f"a {type(value).__name__} ({error})")) from None
    return [type(value).__qualname__, reduced if isinstance(reduced, str) else _describe(tuple(reduced), parents)]


def _no_identity(part: str) -> str:
    return (
        f"a checkpoint requires a model that can be compared with another; this model holds {part}, which cannot. "
        "Call fit without checkpoint"
    )

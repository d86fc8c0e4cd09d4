"""Where a run can be taken up again: after every relabelling, which is what the next fit learns from."""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prorec._core.errors import InputError
from prorec._core.files import as_path, atomic_write, prefix_errors
from prorec.models.storage import READ_ERRORS, Arrays, json_default

_NAME = "round.npz"


@dataclass(frozen=True)
class State:
    """A round whose weights are there and whose model is not."""

    about: dict[str, Any]
    """What is known of this round and the ones before, as JSON takes it."""
    arrays: Arrays
    """What the round has left behind."""
    start: Arrays
    """What the model before had learned, where the next one starts from it."""


class Checkpoint:
    """A folder with the latest state, or nothing at all.

    Parameters
    ----------
    folder : where to keep it; None to keep nothing
    of : what tells this run from others
    """

    def __init__(self, folder: str | Path | None, of: str) -> None:
        self.folder = None if folder is None else as_path(folder)
        self._of = of
        if self.folder is not None:
            with prefix_errors(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)

    def keep(self, state: State) -> None:
        """Put this state in the place of the last one, whole or not at all."""
        if self.folder is None:
            return
        about = json.dumps({"of": self._of, **state.about}, default=json_default)
        arrays = state.arrays | {f"start.{name}": array for name, array in state.start.items()}
        with prefix_errors(self.folder), atomic_write(self.folder / _NAME) as temporary, temporary.open("wb") as file:
            np.savez(file, about=np.array(about), **arrays)  # type: ignore[arg-type]

    def latest(self) -> State | None:
        """The state to go on from, if there is one; one of another run is refused."""
        if self.folder is None or not (self.folder / _NAME).exists():
            return None
        with prefix_errors(self.folder / _NAME):
            try:
                with (self.folder / _NAME).open("rb") as file, np.load(file, allow_pickle=False) as kept:
                    arrays = {name: kept[name] for name in kept.files}
                about = json.loads(str(arrays.pop("about")))
                start = {name[6:]: arrays.pop(name) for name in list(arrays) if name.startswith("start.")}
                if about.pop("of") != self._of:
                    raise InputError("this is a checkpoint of other parameters or other interactions")
                return State(about, arrays, start)
            except READ_ERRORS as error:
                if isinstance(error, InputError) or getattr(error, "errno", None) in (errno.EACCES, errno.EIO):
                    raise
                raise InputError(f"this checkpoint is damaged; remove it to start anew ({error})") from None

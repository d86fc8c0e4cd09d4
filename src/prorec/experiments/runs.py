"""Results kept by what they are of: a job that was killed goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from prorec import __version__
from prorec._digest import digest
from prorec.data._files import naming, replacing
from prorec.errors import InputError
from prorec.models.storage import plain


class Runs:
    """A folder with one JSON file for each configuration that was run.

    Parameters
    ----------
    folder : where they are kept
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with naming(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def get(self, of: Mapping[str, Any], work: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """What `work` answers for this configuration, or has answered before.

        The configuration must say everything that the answer depends on; the version of prorec is part of it anyway.
        """
        about = json.dumps({"version": __version__, **of}, sort_keys=True, default=plain)
        path = self.folder / f"{digest(np.frombuffer(about.encode(), dtype=np.uint8))}.json"
        with naming(path):
            if path.exists():
                return _read(path)
            result = dict(work())
            with replacing(path) as temporary:
                temporary.write_text(json.dumps({"of": json.loads(about), "result": result}, default=plain) + "\n")
        return result


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text())["result"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"not a result of a run; remove it to run that again ({error})") from None

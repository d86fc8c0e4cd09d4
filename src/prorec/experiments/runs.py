"""Results kept by what they are of: a job that was killed goes on where it stopped."""

from __future__ import annotations

import json
import platform
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from prorec import __version__
from prorec._digest import digest
from prorec._threads import CORES
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
                return dict(_read(path, "result"))
            result = dict(work())
            record = {"of": json.loads(about), "machine": machine(), "result": result}
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(record, default=plain) + "\n")
        return result

    def machines(self) -> dict[str, int]:
        """What all that is kept was run on, and how much of it on each."""
        counts: Counter[str] = Counter()
        for path in sorted(self.folder.glob("*.json")):
            with naming(path):
                counts[_read(path, "machine")] += 1
        return dict(counts.most_common())


def _read(path: Path, what: str) -> Any:
    try:
        return json.loads(path.read_text())[what]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"not a result of a run; remove it to run that again ({error})") from None


def machine() -> str:
    """What a run is made on: processor, cores, and the GPU if PyTorch is in use and has one."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    torch = sys.modules.get("torch")
    gpu = f", {torch.cuda.get_device_name()}" if torch is not None and torch.cuda.is_available() else ""
    return f"{name}, {CORES} cores{gpu}"

"""Results kept by what they are of: a job that was killed goes on where it stopped."""

from __future__ import annotations

import json
import platform
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from prorec._core.digest import digest
from prorec._core.errors import InputError
from prorec._core.files import atomic_write, prefix_errors
from prorec._core.parallel import N_CORES
from prorec.models.storage import json_default


class Runs:
    """A folder with one JSON file for each configuration that was run.

    Parameters
    ----------
    folder : where they are kept
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.machines: Counter[str] = Counter()
        """On what the results that were asked for were made, and how many of them."""
        with prefix_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def get(self, of: Mapping[str, Any], work: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """What `work` answers for this configuration, or has answered before.

        The configuration must say everything that the answer depends on; prorec's own code is part of it anyway.
        """
        about = json.dumps({"code": code(), **of}, sort_keys=True, default=json_default)
        path = self.folder / f"{digest(np.frombuffer(about.encode(), dtype=np.uint8))}.json"
        if not path.exists():
            record = {"of": json.loads(about), "machine": machine(), "result": dict(work())}
            with prefix_errors(path), atomic_write(path) as temporary:
                temporary.write_text(json.dumps(record, default=json_default) + "\n", encoding="utf-8")
        with prefix_errors(path):
            record = _read(path)
        self.machines[record["machine"]] += 1
        return dict(record["result"])


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return {name: record[name] for name in ("machine", "result")}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"not a result of a run; remove it to run that again ({error})") from None


class Store:
    """All that experiments keep in a folder: what was judged, finalists that were tried again, and trials.

    Parameters
    ----------
    folder : where
    """

    def __init__(self, folder: Path) -> None:
        self.runs, self.tried_again = Runs(folder / "runs"), Runs(folder / "tried-again")
        self.trials = folder / "tuning" / code()


@cache
def code() -> str:
    """What tells this code from another: all of the package but the command line and the experiments.

    What those do is in the configuration.
    """
    root = Path(__file__).parent.parent
    others = (root / "cli", root / "experiments")
    files = [path for path in sorted(root.rglob("*.py")) if not any(path.is_relative_to(each) for each in others)]
    return digest(*(np.frombuffer(path.read_bytes(), dtype=np.uint8) for path in files))


@cache
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
    return f"{name}, {N_CORES} cores{gpu}"

"""A cache of experiment results on disk: an interrupted job continues where it stopped."""

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

import prorec
from prorec._core.digest import digest
from prorec._core.errors import InputError
from prorec._core.files import atomic_write, prefix_errors
from prorec._core.parallel import N_CORES
from prorec.models.storage import json_default


class ResultCache:
    """A folder with one JSON file for each configuration that was run.

    Parameters
    ----------
    folder : Path
        Where the files are. It is created if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.machines: Counter[str] = Counter()
        """Number of requested results by the machine that computed them."""
        with prefix_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def get(self, configuration: Mapping[str, Any], compute: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """Return the result of a configuration; compute it unless it is cached.

        Parameters
        ----------
        configuration : mapping
            Everything that the result depends on, except prorec's own code, which is always part of the key.
        compute : callable
            Computes the result, which JSON must be able to hold.

        Returns
        -------
        dict
        """
        identity = json.dumps({"code": code_digest(), **configuration}, sort_keys=True, default=json_default)
        path = self.folder / f"{digest(np.frombuffer(identity.encode(), dtype=np.uint8))}.json"
        if not path.exists():
            record = {"configuration": json.loads(identity), "machine": describe_machine(), "result": dict(compute())}
            with prefix_errors(path), atomic_write(path) as temporary:
                temporary.write_text(json.dumps(record, default=json_default) + "\n", encoding="utf-8")
        with prefix_errors(path):
            record = _read_record(path)
        self.machines[record["machine"]] += 1
        return dict(record["result"])


def _read_record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return {name: record[name] for name in ("machine", "result")}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"this file is not the result of a run; remove it to run that again ({error})") from None


class ExperimentCache:
    """All caches of a folder: test results, finalists of tuning, and tuning trials.

    Parameters
    ----------
    folder : Path
        The output folder of the command.
    """

    def __init__(self, folder: Path) -> None:
        self.runs, self.finalists = ResultCache(folder / "runs"), ResultCache(folder / "finalists")
        self.trials = folder / "tuning" / code_digest()


@cache
def code_digest() -> str:
    """Return a digest of prorec's code, without its command line."""
    root = Path(prorec.__file__).parent
    files = [path for path in sorted(root.rglob("*.py")) if not path.is_relative_to(root / "cli")]
    return digest(*(np.frombuffer(path.read_bytes(), dtype=np.uint8) for path in files))


@cache
def describe_machine() -> str:
    """Return the processor, the number of cores, and the GPU if PyTorch is in use and has one."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    torch = sys.modules.get("torch")
    gpu = f", {torch.cuda.get_device_name()}" if torch is not None and torch.cuda.is_available() else ""
    return f"{name}, {N_CORES} cores{gpu}"

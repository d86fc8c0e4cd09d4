"""Find the clicks that don't belong, and train recommenders that are not misled by them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from prorec._core.interrupts import exit_at_once, is_command

if is_command():  # now, because the rest takes a moment, in which Ctrl-C would print a traceback
    exit_at_once()

from prorec._core.versions import find_unsupported_version

if _message := find_unsupported_version():
    raise ImportError(_message)

from prorec._core.errors import (
    ConvergenceWarning,
    DamagedFileError,
    DataWarning,
    DownloadError,
    EngineError,
    InputError,
    MemoryLimitError,
    MissingExtraError,
    NotFittedError,
    ProrecError,
)

if TYPE_CHECKING:
    from prorec import models, transport
    from prorec._core.progress import ConsoleProgress, Progress
    from prorec.data.cinema import Cinema, make_cinema
    from prorec.data.noise_injection import inject_noise
    from prorec.data.noisy_interactions import NoisyInteractions
    from prorec.data.readers import read_interactions
    from prorec.data.registry import load_dataset
    from prorec.data.splits import Split, split_at_time, split_by_user, split_globally, split_leave_out
    from prorec.data.writers import write_interactions
    from prorec.denoise import ProRec
    from prorec.evaluation import compare, detection_metrics, evaluate, ranking_metrics, tune
    from prorec.front.noise_result import NoiseResult, find_noise
    from prorec.interactions import Interactions
    from prorec.models import Recommendations, load
    from prorec.noise import NoiseFinder, NoiseRateEstimate
    from prorec.transport.factors import Factors

__version__ = "0.1.0"

__all__ = [
    "Cinema",
    "ConsoleProgress",
    "ConvergenceWarning",
    "DamagedFileError",
    "DataWarning",
    "DownloadError",
    "EngineError",
    "Factors",
    "InputError",
    "Interactions",
    "MemoryLimitError",
    "MissingExtraError",
    "NoiseFinder",
    "NoiseRateEstimate",
    "NoiseResult",
    "NoisyInteractions",
    "NotFittedError",
    "ProRec",
    "Progress",
    "ProrecError",
    "Recommendations",
    "Split",
    "__version__",
    "compare",
    "detection_metrics",
    "evaluate",
    "find_noise",
    "inject_noise",
    "load",
    "load_dataset",
    "make_cinema",
    "models",
    "ranking_metrics",
    "read_interactions",
    "split_at_time",
    "split_by_user",
    "split_globally",
    "split_leave_out",
    "transport",
    "tune",
    "write_interactions",
]

_PACKAGES = "data denoise engines evaluation front interactions models noise report transport".split()
_NAMES = {
    "_core.progress": "ConsoleProgress Progress",
    "data.cinema": "Cinema make_cinema",
    "data.noise_injection": "inject_noise",
    "data.noisy_interactions": "NoisyInteractions",
    "data.readers": "read_interactions",
    "data.registry": "load_dataset",
    "data.splits": "Split split_at_time split_by_user split_globally split_leave_out",
    "data.writers": "write_interactions",
    "denoise": "ProRec load",  # from there, because `load` knows ProRec only once that is imported
    "evaluation": "compare detection_metrics evaluate ranking_metrics tune",
    "front.noise_result": "NoiseResult find_noise",
    "interactions": "Interactions",
    "models": "Recommendations",
    "noise": "NoiseFinder NoiseRateEstimate",
    "transport.factors": "Factors",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # otherwise type checkers would accept any name

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used, because numba and scipy take long to import."""
        if name in _PACKAGES:
            return import_module(f"prorec.{name}")
        if name not in _MODULES:
            raise AttributeError(f"module 'prorec' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"prorec.{_MODULES[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_PACKAGES})

"""Find the clicks that don't belong, and train recommenders that are not misled by them."""

from prorec._core.versions import find_unsupported_version

if _message := find_unsupported_version():
    raise ImportError(_message)

from prorec import models, transport
from prorec._core.errors import (
    ConvergenceWarning,
    DamagedFileError,
    DataWarning,
    DownloadError,
    InputError,
    MemoryLimitError,
    MissingExtraError,
    NotFittedError,
    ProrecError,
)
from prorec._core.progress import ConsoleProgress, Progress
from prorec.data.cinema import Cinema, make_cinema
from prorec.data.noise_injection import inject_noise
from prorec.data.noisy_interactions import NoisyInteractions
from prorec.data.readers import read_interactions
from prorec.data.registry import load_dataset
from prorec.data.splits import Split, split_at_time, split_by_user, split_globally, split_leave_out
from prorec.data.writers import write_interactions
from prorec.denoise import ProRec
from prorec.evaluation import compare, detection_metrics, evaluate, ranking_metrics
from prorec.evaluation.tuning import tune
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

"""Ranking metrics, detection metrics and significance tests.

`evaluate` measures recommendations, `detection_metrics` measures a noise score against known noise, and `compare` tests
whether a difference between recommenders is more than chance. `tune` chooses parameters by these metrics.
"""

from prorec.evaluation.comparison_table import Comparison, Comparisons
from prorec.evaluation.detection import detection_metrics
from prorec.evaluation.ranking import ranking_metrics
from prorec.evaluation.ranking_evaluation import Evaluation, evaluate
from prorec.evaluation.significance import bootstrap_interval, compare, holm
from prorec.evaluation.tuning import Trial, TuningResult, tune

__all__ = [
    "Comparison",
    "Comparisons",
    "Evaluation",
    "Trial",
    "TuningResult",
    "bootstrap_interval",
    "compare",
    "detection_metrics",
    "evaluate",
    "holm",
    "ranking_metrics",
    "tune",
]

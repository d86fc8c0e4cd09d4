"""How good are the recommendations, how good is the noise found, and is the difference more than chance."""

from prorec.evaluation.detection import detection_metrics
from prorec.evaluation.ranking import ranking_metrics
from prorec.evaluation.ranking_evaluation import Evaluation, evaluate
from prorec.evaluation.significance import Comparison, bootstrap_interval, compare, holm

__all__ = [
    "Comparison",
    "Evaluation",
    "bootstrap_interval",
    "compare",
    "detection_metrics",
    "evaluate",
    "holm",
    "ranking_metrics",
]

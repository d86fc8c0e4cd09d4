"""Optimal transport between users and items, streamed: plans, thresholds and relabelling.

Knows nothing of recommenders: scores and two marginals in, plan values and thresholds out.
"""

from prorec.transport.emd import emd
from prorec.transport.marginals import Marginals
from prorec.transport.plan import MarginalErrors, Plan
from prorec.transport.relabelling import labels, relabel
from prorec.transport.relaxed import relaxed
from prorec.transport.sinkhorn import SinkhornPlan, sinkhorn
from prorec.transport.thresholds import Matching, Threshold, split, top

__all__ = [
    "MarginalErrors",
    "Marginals",
    "Matching",
    "Plan",
    "SinkhornPlan",
    "Threshold",
    "emd",
    "labels",
    "relabel",
    "relaxed",
    "sinkhorn",
    "split",
    "top",
]

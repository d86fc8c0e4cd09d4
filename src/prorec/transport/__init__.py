"""Optimal transport between users and items: plans, thresholds and relabelling.

The solvers `relaxed`, `sinkhorn` and `emd` take scores and two marginals and return a `Plan`. A plan computes its
values in blocks of users, within a memory budget. `Plan.match` finds each user's threshold, and `relabel` turns the
result into new weights. The package knows nothing of recommenders.
"""

from prorec.transport.blocks import DEFAULT_MEMORY
from prorec.transport.bounded_sums import BoundedSums, bound_log_sums
from prorec.transport.emd import emd
from prorec.transport.factors import Factors
from prorec.transport.marginals import Marginals
from prorec.transport.plan import MarginalErrors, Plan
from prorec.transport.relabeling import compute_label_probabilities, relabel
from prorec.transport.relaxed import BoundedPlan, relaxed
from prorec.transport.sinkhorn import SinkhornPlan, sinkhorn
from prorec.transport.thresholds import Matching, Threshold, find_row_thresholds

__all__ = [
    "DEFAULT_MEMORY",
    "BoundedPlan",
    "BoundedSums",
    "Factors",
    "MarginalErrors",
    "Marginals",
    "Matching",
    "Plan",
    "SinkhornPlan",
    "Threshold",
    "bound_log_sums",
    "compute_label_probabilities",
    "emd",
    "find_row_thresholds",
    "relabel",
    "relaxed",
    "sinkhorn",
]

"""The times of Table 3 at the size of Yahoo! R1: NCE alone and with each transport solver.

The data are synthetic, because Yahoo's may not be redistributed; so there are times but no scores.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median_low

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec import transport
from prorec._core.checks import check_int
from prorec._core.errors import ConvergenceWarning, InputError
from prorec._core.progress import Progress
from prorec.interactions import Interactions
from prorec.models import NCE
from prorec.transport import Marginals, Plan, SinkhornPlan, Threshold
from prorec.transport.emd import check_emd_size
from prorec.transport.factors import Factors
from prorec.transport.scores import ScoreFunction
from reproduction.paper_tables import TABLE_3
from reproduction.protocol import StepProgress
from reproduction.run_cache import describe_machine

MODEL = NCE(rank=64)
GAMMA, BETA, LAM = 0.1, 20.0, 0.5  # the paper's; NCE's largest scores are 1 to 2 here, so its γ fits them
ITERATIONS = 20
SIGMA = 10
EMD = "NCE + EMD"
PAPER: Mapping[str, float] = {name: row.seconds for name, row in TABLE_3["yahoo-r1"].items()}

Scores = Factors | ScoreFunction


def _relaxed(scores: Scores, marginals: Marginals) -> Plan:
    return transport.relaxed(scores, marginals, GAMMA)


def _sinkhorn(scores: Scores, marginals: Marginals) -> Plan:
    with warnings.catch_warnings():
        # The number of iterations is limited on purpose; the page states the remaining error.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return transport.sinkhorn(scores, marginals, GAMMA, max_iterations=ITERATIONS)


Method = tuple[Callable[[Scores, Marginals], Plan], Threshold]
METHODS: Mapping[str, Method] = {
    EMD: (transport.emd, SIGMA),
    "NCE + Sinkhorn": (_sinkhorn, "personal"),
    "NCE + ROT": (_relaxed, SIGMA),
    "NCE + ProRec": (_relaxed, "personal"),
}
"""Transport solver and threshold of each row with denoising."""


@dataclass(frozen=True)
class RowTimes:
    """Seconds of one row."""

    fits: float
    """Seconds of the model's fit; with denoising, of both fits."""
    transport: float
    """Seconds of plan, thresholds and relabelling."""

    @property
    def total(self) -> float:
        """Seconds from the clicks to the model."""
        return self.fits + self.transport


@dataclass(frozen=True)
class Times:
    """Times of all rows, with remarks."""

    size: tuple[int, int, int]
    """Users, items and interactions."""
    rows: Mapping[str, RowTimes]
    """The run with the median time, for each row that was run."""
    remarks: Mapping[str, str]
    """Reasons why rows were not run, or not to convergence."""


def measure_times(clicks: Interactions, repeats: int = 3, progress: Progress | None = None) -> Times:
    """Time every row: fit, plan, match, relabel, fit.

    The first fit is the same for all rows and is done once in each run. A warm-up run precedes the others (compilation,
    loading, memory allocation), unless only one run is wanted.

    Parameters
    ----------
    clicks : Interactions
        Interactions to fit to.
    repeats : int, default 3
        Number of runs.
    progress : Progress, optional
        Receives the task, the number of finished steps and their total.

    Returns
    -------
    Times
    """
    repeats = check_int("repeats", repeats, 1)
    remarks: dict[str, str] = {}
    methods = dict(METHODS)
    try:
        check_emd_size(clicks.matrix.shape)
    except InputError as error:
        remarks[EMD] = f"not run: {error}."
        del methods[EMD]
    n_runs = repeats + (repeats > 1)
    steps = StepProgress(progress, "times of Table 3", n_runs * (1 + len(methods)))
    runs: dict[str, list[RowTimes]] = {"NCE": [], **{name: [] for name in methods}}
    for _ in range(n_runs):
        begin = time.perf_counter()
        model = replace(MODEL).fit(clicks)
        first_fit = time.perf_counter() - begin
        runs["NCE"].append(RowTimes(first_fit, 0.0))
        steps.advance()
        for name, method in methods.items():
            begin = time.perf_counter()
            weights, remark = _relabel(model.scores_, clicks.matrix, method)
            matched = time.perf_counter()
            replace(MODEL).fit(clicks.with_weights(weights))
            runs[name].append(RowTimes(first_fit + time.perf_counter() - matched, matched - begin))
            remarks |= {name: remark} if remark else {}
            steps.advance()
    size = (clicks.n_users, clicks.n_items, len(clicks))
    return Times(size, {name: _median(each[-repeats:]) for name, each in runs.items()}, remarks)


def _relabel(scores: Scores, matrix: csr_array, method: Method) -> tuple[NDArray[np.float32], str]:
    """Return new weights and a remark, if any; the plan is freed before the next fit."""
    solve, threshold = method
    plan = solve(scores, Marginals.popularity(matrix))
    weights = transport.relabel(matrix, plan.match(matrix, threshold), BETA, LAM).data
    if not isinstance(plan, SinkhornPlan):
        return weights, ""
    return weights, f"{plan.iterations} iterations, which leave an error of {plan.error:.1e} in the item marginal."


def make_times_page(times: Times, command: str, scale: float, repeats: int) -> str:
    """Return the rows beside the paper's, with the command, the settings and the machine."""
    runs = f"the median of {repeats} runs after a warm-up" if repeats > 1 else "one run"
    lines = [
        "# The times of Table 3, at the size of Yahoo! R1",
        "",
        "```",
        command,
        "```",
        "",
        "{:,} users × {:,} items, {:,} interactions: synthetic, not Yahoo's data.".format(*times.size),
        f"Machine: {describe_machine()}. Seconds are {runs}.",
        "",
        f"{MODEL}, denoised in one round of fit, plan, thresholds, relabelling and fit, with γ = {GAMMA:g}, "
        f"β = {BETA:g} and λ = {LAM:g}. Transport is everything between the two fits. Sinkhorn has {ITERATIONS} "
        f"iterations at most and personal thresholds, like ProRec; EMD and ROT have the {SIGMA}th largest value "
        "of a row for all.",
        "",
        "| | fits | transport | total | paper | speed-up |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, paper in PAPER.items():
        if name in times.rows:
            ours = times.rows[name]
            faster = f"{paper / ours.total:.1f}" if scale == 1 else "–"
            cells = f"{ours.fits:.2f} | {ours.transport:.2f} | {ours.total:.2f} | {paper:.0f} | {faster}"
        else:
            cells = f"– | – | not run | {paper:.0f} | –"
        lines.append(f"| {name} | {cells} |")
    lines += ["", *(f"- {name}: {remark}" for name, remark in times.remarks.items()), ""]
    if scale == 1:
        added = times.rows["NCE + ProRec"].total - times.rows["NCE"].total
        paper_added = PAPER["NCE + ProRec"] - PAPER["NCE"]
        lines.append(f"ProRec adds {added:.2f} s to NCE; in the paper, {paper_added:.0f} s.")
    else:
        lines.append(
            f"Users, items and interactions are scaled by {scale:g}, so the paper's seconds are not comparable."
        )
    return "\n".join([*lines, ""])


def _median(runs: list[RowTimes]) -> RowTimes:
    """Return the run in the middle, so that its parts sum to its total."""
    middle = median_low(each.total for each in runs)
    return next(each for each in runs if each.total == middle)

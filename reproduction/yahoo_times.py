"""The times of Table 3 at the size of Yahoo! R1: NCE, and what each way of matching adds to it.

Measured on made-up data of that shape, since Yahoo's own may not be passed on; so there are seconds here, no scores.
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
from reproduction.protocol import Steps
from reproduction.run_cache import machine

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
        # It stops short on purpose; the page says how far it came.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return transport.sinkhorn(scores, marginals, GAMMA, max_iterations=ITERATIONS)


Way = tuple[Callable[[Scores, Marginals], Plan], Threshold]
WAYS: Mapping[str, Way] = {
    EMD: (transport.emd, SIGMA),
    "NCE + Sinkhorn": (_sinkhorn, "personal"),
    "NCE + ROT": (_relaxed, SIGMA),
    "NCE + ProRec": (_relaxed, "personal"),
}
"""How each row with denoising is matched, and what its thresholds are."""


@dataclass(frozen=True)
class Seconds:
    """What one row took."""

    fits: float
    """The model's fit; with denoising, both fits."""
    transport: float
    """Plan, thresholds and relabelling."""

    @property
    def whole(self) -> float:
        """From the clicks to the model."""
        return self.fits + self.transport


@dataclass(frozen=True)
class Times:
    """All rows, and what is to be said of them."""

    size: tuple[int, int, int]
    """Users, items and interactions."""
    rows: Mapping[str, Seconds]
    """Of each row the run with the median time; without those that were not run."""
    remarks: Mapping[str, str]
    """On rows that were not run, or not to the end: why, and how far."""


def measure(clicks: Interactions, repeats: int = 3, progress: Progress | None = None) -> Times:
    """Time every row: fit, plan, match, relabel, fit.

    The first fit is the same for all rows and is made once in each run. Before the runs that count there is one that
    does not, for all that happens only once (compiling, loading, finding memory); but none if only one was asked for.

    Parameters
    ----------
    clicks : what to fit to
    repeats : how many runs
    progress : called with what is being done, how much of it is done, and how much there is
    """
    repeats = check_int("repeats", repeats, 1)
    remarks: dict[str, str] = {}
    ways = dict(WAYS)
    try:
        check_emd_size(clicks.matrix.shape)
    except InputError as error:
        remarks[EMD] = f"not run, since it is exact: {error}."
        del ways[EMD]
    n_runs = repeats + (repeats > 1)
    steps = Steps(progress, "times of Table 3", n_runs * (1 + len(ways)))
    runs: dict[str, list[Seconds]] = {"NCE": [], **{name: [] for name in ways}}
    for _ in range(n_runs):
        begin = time.perf_counter()
        model = replace(MODEL).fit(clicks)
        first_fit = time.perf_counter() - begin
        runs["NCE"].append(Seconds(first_fit, 0.0))
        steps.step()
        for name, way in ways.items():
            begin = time.perf_counter()
            weights, remark = _relabelled(model.scores_, clicks.matrix, way)
            matched = time.perf_counter()
            replace(MODEL).fit(clicks.with_weights(weights))
            runs[name].append(Seconds(first_fit + time.perf_counter() - matched, matched - begin))
            remarks |= {name: remark} if remark else {}
            steps.step()
    size = (clicks.n_users, clicks.n_items, len(clicks))
    return Times(size, {name: _median(each[-repeats:]) for name, each in runs.items()}, remarks)


def _relabelled(scores: Scores, matrix: csr_array, way: Way) -> tuple[NDArray[np.float32], str]:
    """All between the two fits: new weights, and a remark if there is one. The plan is given up before the next fit."""
    plan_of, threshold = way
    plan = plan_of(scores, Marginals.popularity(matrix))
    weights = transport.relabel(matrix, plan.match(matrix, threshold), BETA, LAM).data
    if not isinstance(plan, SinkhornPlan):
        return weights, ""
    return weights, f"{plan.iterations} iterations, which leave an error of {plan.error:.1e} in the item marginal."


def times_page(times: Times, command: str, scale: float, repeats: int) -> str:
    """The rows beside the paper's, how they were made, and on what."""
    runs = f"the median of {repeats} runs, after one that does not count" if repeats > 1 else "one run"
    lines = [
        "# The times of Table 3, at the size of Yahoo! R1",
        "",
        "```",
        command,
        "```",
        "",
        "{:,} users × {:,} items, {:,} interactions: made up, not Yahoo's data.".format(*times.size),
        f"Run on: {machine()}. Seconds are {runs}.",
        "",
        f"{MODEL}, denoised in one round of fit, plan, thresholds, relabelling and fit, with γ = {GAMMA:g}, "
        f"β = {BETA:g} and λ = {LAM:g}. Transport is all between the two fits. Sinkhorn has {ITERATIONS} iterations at "
        f"most and personal thresholds, like ProRec; EMD and ROT have the {SIGMA}th largest value of a row for all.",
        "",
        "| | fits | transport | whole | paper | times faster |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, paper in PAPER.items():
        if name in times.rows:
            ours = times.rows[name]
            faster = f"{paper / ours.whole:.1f}" if scale == 1 else "–"
            cells = f"{ours.fits:.2f} | {ours.transport:.2f} | {ours.whole:.2f} | {paper:.0f} | {faster}"
        else:
            cells = f"– | – | not run | {paper:.0f} | –"
        lines.append(f"| {name} | {cells} |")
    lines += ["", *(f"- {name}: {words}" for name, words in times.remarks.items()), ""]
    if scale == 1:
        added = times.rows["NCE + ProRec"].whole - times.rows["NCE"].whole
        paper_added = PAPER["NCE + ProRec"] - PAPER["NCE"]
        lines.append(f"What ProRec adds to NCE: {added:.2f} s; in the paper, {paper_added:.0f} s.")
    else:
        lines.append(
            f"This is {scale:g} of the size in users, items and interactions alike, so the paper's seconds are of "
            "another problem."
        )
    return "\n".join([*lines, ""])


def _median(runs: list[Seconds]) -> Seconds:
    """The run in the middle, so that its parts sum to the whole."""
    middle = median_low(each.whole for each in runs)
    return next(each for each in runs if each.whole == middle)

"""What NoiseFinder promises, and what happens: detection, noise rate, flags and kept interactions on injected noise.

Four fifths of each user's interactions get noise; one fifth tests. A log with the suffix `-cut` is cut into histories
of three interactions each, of which one tests. Popularity explains most clicks of the others. WRMF is trained on them
with the weights 1 − p.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray

import prorec
from prorec._core.checks import check_int
from prorec._core.errors import InputError
from prorec._core.files import atomic_write
from prorec.data.registry import DATASETS
from prorec.evaluation import detection_metrics
from prorec.interactions import Interactions
from prorec.models import WRMF
from prorec.noise.cooccurrence import compute_cooccurrence
from prorec.noise.plan_ranks import Pairs
from reproduction.accounts import load_log
from reproduction.noise_rate_baselines import ESTIMATORS, estimate_noise_rates
from reproduction.output import create_folder

CUT = "-cut"
FDRS = (0.1, 0.2, 0.4)
MAX_NOISE = 0.05
_CUT_LENGTH = 3
_COSINE = 2  # column of the co-occurrence features


class Run(NamedTuple):
    """One log with one kind and level of noise."""

    log: str
    kind: str
    level: float
    seed: int

    @property
    def file_name(self) -> str:
        """Name of the file of the results."""
        return f"noise-promises-{self.log}-{self.kind}-{self.level:g}-{self.seed}.json"


def main(
    logs: Annotated[
        str, typer.Option(help="Data sets, separated by commas; with -cut, in short histories.")
    ] = "cinema",
    kinds: Annotated[str, typer.Option(help="Kinds of noise, separated by commas.")] = "uniform,popularity",
    levels: Annotated[str, typer.Option(help="Added noise as a share of the true clicks.")] = "0,0.1,0.2",
    seeds: Annotated[int, typer.Option(help="Number of splits.")] = 5,
    processes: Annotated[int, typer.Option(help="Number of processes.")] = 1,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for results; finished ones are not run again.")],
) -> None:
    """Measure what NoiseFinder promises, and print four tables."""
    names = [each.strip() for each in logs.split(",")]
    for name in names:
        if name.removesuffix(CUT) not in DATASETS:
            raise InputError(f"logs must be data sets, with or without {CUT}; got {name!r}")
    check_int("seeds", seeds, 1)
    check_int("processes", processes, 1)
    settings = [(kind.strip(), float(level)) for level in levels.split(",") for kind in kinds.split(",")]
    settings = list(dict.fromkeys((kind if level else "none", level) for kind, level in settings))
    runs = [Run(name, kind, level, seed) for seed in range(seeds) for name in names for kind, level in settings]
    create_folder(out)
    open_runs = [run for run in runs if not (out / run.file_name).exists()]
    if processes == 1:
        for run in open_runs:
            store(run, out)
    else:
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(processes, context, use_one_core, (context.Value("i", 0),)) as pool:
            for future in [pool.submit(store, run, out) for run in open_runs]:
                future.result()
    rows = [json.loads((out / run.file_name).read_text(encoding="utf-8")) for run in runs]
    print(make_tables(rows))


def use_one_core(counter: Any) -> None:
    """Give each process a core of its own, so that threads of several processes do not wait for each other."""
    with counter.get_lock():
        number, counter.value = counter.value, counter.value + 1
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[number % len(cores)]})


def store(run: Run, out: Path) -> None:
    """Measure one run, and write the results into a file."""
    row = measure(run)
    with atomic_write(out / run.file_name) as file:
        file.write_text(json.dumps(row) + "\n", encoding="utf-8")


def measure(run: Run) -> dict[str, Any]:
    """Fit NoiseFinder to one noisy log, and return what it promises and what is true."""
    fractions = (0.66, 0.34) if run.log.endswith(CUT) else (0.8, 0.2)
    split = prorec.split_by_user(_load(run.log), fractions, seed=run.seed)
    clicks, is_noise = split.train, np.zeros(len(split.train), dtype=bool)
    if run.level:
        noisy = prorec.inject_noise(split.train, run.level, run.kind, seed=run.seed)  # type: ignore[arg-type]
        clicks, is_noise = noisy.interactions, noisy.is_noise
    finder = prorec.NoiseFinder(seed=run.seed).fit(clicks)
    probability, rate = finder.noise_probability_.astype(np.float64), finder.noise_rate_
    row: dict[str, Any] = run._asdict() | {
        "true": float(is_noise.mean()),
        "estimate": rate.estimate,
        "low": rate.low,
        "high": rate.high,
        "is_identified": rate.is_identified,
        "mean_probability": float(probability.mean()),
        "other_estimates": estimate_noise_rates(finder.labeled_pairs_),
    }
    if run.level:
        scores = {"NoiseFinder": probability} | _score_baselines(finder, clicks)
        metrics = {name: detection_metrics(score, is_noise) for name, score in scores.items()}
        row["auroc"] = {name: each["auroc"] for name, each in metrics.items()}
        row["ap"] = {name: each["ap"] for name, each in metrics.items()}
        row["calibration_error"] = metrics["NoiseFinder"]["calibration_error"]
    for fdr in FDRS:
        flags = finder.flag(fdr=fdr)
        row[f"flagged at {fdr:g}"] = float(flags.mean())
        row[f"wrong at {fdr:g}"] = float((~is_noise[flags]).mean()) if flags.any() else None
    kept = finder.keep(MAX_NOISE)
    row |= {"noise kept": float(is_noise[kept].mean()) if kept.any() else 0.0, "genuine kept": kept[~is_noise].mean()}
    if run.log.endswith(CUT):
        row |= {f"ndcg@10 {name}": _evaluate(clicks, weights, split.test) for name, weights in _weights(finder)}
    return row


def make_tables(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return four tables in Markdown: detection, noise rates, other estimators of it, and flags; means over seeds."""
    groups: dict[tuple[str, str, float], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["log"], row["kind"], row["level"]), []).append(row)
    detection = [
        "| log | noise | NoiseFinder: AUROC / AP | best baseline: AUROC | best baseline: AP |",
        _RULE * 5 + "|",
    ]
    rates = [
        "| log | noise | true rate | estimate | mean absolute error | in the interval | can tell | calibration error |",
        _RULE * 8 + "|",
    ]
    flags = [
        "| log | noise | " + " | ".join(f"flagged, wrong at {fdr:g}" for fdr in FDRS) + " | kept, noise | NDCG@10 |",
        _RULE * (4 + len(FDRS)) + "|",
    ]
    others = [
        f"| log | noise | NoiseFinder | {' | '.join(ESTIMATORS)} |",
        _RULE * (3 + len(ESTIMATORS)) + "|",
    ]
    for (log, kind, level), own in groups.items():
        start = f"| {log} | {f'{kind} {level:.0%}' if level else 'none'} |"
        if level:
            cells = [_describe_detection(own)]
            cells += [_describe_best(own, metric) for metric in ("auroc", "ap")]
            detection.append(f"{start} {' | '.join(cells)} |")
        rates.append(f"{start} {_describe_rates(own)} |")
        others.append(f"{start} {' | '.join(_describe_errors(own))} |")
        flags.append(f"{start} {_describe_flags(own)} |")
    return "\n\n".join("\n".join(lines) for lines in (detection, rates, others, flags) if len(lines) > 2)


_RULE = "| --- "


def _describe_detection(rows: Sequence[Mapping[str, Any]]) -> str:
    return " / ".join(f"{np.mean([row[metric]['NoiseFinder'] for row in rows]):.3f}" for metric in ("auroc", "ap"))


def _describe_best(rows: Sequence[Mapping[str, Any]], metric: str) -> str:
    """Return the baseline with the highest mean."""
    names = [name for name in rows[0][metric] if name != "NoiseFinder"]
    means = {name: float(np.mean([row[metric][name] for row in rows])) for name in names}
    best = max(means, key=lambda name: means[name])
    return f"{means[best]:.3f} ({best})"


def _describe_rates(rows: Sequence[Mapping[str, Any]]) -> str:
    true, estimate = (np.array([row[name] for row in rows]) for name in ("true", "estimate"))
    covered = [row["low"] <= row["true"] <= row["high"] for row in rows]
    n, n_told = len(rows), sum(row["is_identified"] for row in rows)
    calibration = [row.get("calibration_error", abs(row["mean_probability"])) for row in rows]
    return (
        f"{true.mean():.3f} | {estimate.mean():.3f} | {np.abs(estimate - true).mean():.3f} | {sum(covered)} of {n} | "
        f"{n_told} of {n} | {np.mean(calibration):.3f}"
    )


def _describe_errors(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the mean absolute error of the noise rate by each estimator, ours first."""
    true = np.array([row["true"] for row in rows])
    estimates = [[row["estimate"] for row in rows]]
    estimates += [[row["other_estimates"][name] for row in rows] for name in ESTIMATORS]
    return [f"{np.abs(np.array(values) - true).mean():.3f}" for values in estimates]


def _describe_flags(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = []
    for fdr in FDRS:
        wrong = [row[f"wrong at {fdr:g}"] for row in rows if row[f"wrong at {fdr:g}"] is not None]
        share = np.mean([row[f"flagged at {fdr:g}"] for row in rows])
        cells.append(f"{share:.1%}, {np.mean(wrong):.2f}" if wrong else "0")
    kept, noise = (np.mean([row[name] for row in rows]) for name in ("genuine kept", "noise kept"))
    ndcg = "–"
    if "ndcg@10 weighted" in rows[0]:
        plain, weighted = (np.mean([row[f"ndcg@10 {name}"] for row in rows]) for name in ("plain", "weighted"))
        ndcg = f"{plain:.4f} → {weighted:.4f}"
    return " | ".join([*cells, f"{kept:.0%}, {noise:.3f}", ndcg])


def _load(name: str) -> Interactions:
    clicks = load_log(name.removesuffix(CUT))
    if not name.endswith(CUT):
        return clicks
    # Each user becomes several, with three random interactions each.
    order = np.lexsort((np.random.default_rng(0).random(len(clicks)), clicks.user_codes))
    pieces = (np.arange(len(clicks)) - clicks.matrix.indptr[clicks.user_codes]) // _CUT_LENGTH
    users = clicks.user_codes.astype(np.int64) * (1 + pieces.max()) + pieces
    return Interactions.from_table(pa.table({"user": users, "item": clicks.items[clicks.item_codes[order]]}))


def _score_baselines(finder: prorec.NoiseFinder, clicks: Interactions) -> dict[str, NDArray[np.float64]]:
    """Return noise scores: quantities that the finder combines, each alone, and a classifier without a noise rate."""
    pairs = Pairs(clicks.user_codes.astype(np.int32), clicks.item_codes.astype(np.int32))
    rows = np.arange(clicks.n_users)
    features = compute_cooccurrence(
        clicks.matrix, clicks.matrix, pairs, clicks.item_codes, rows, np.random.default_rng(0)
    )
    line = finder.posterior_.noise_rate_line
    popularity = finder.reference_clicks_.popularity.astype(np.float64)
    scores = {
        "popularity": -clicks.popularity[clicks.item_codes].astype(np.float64),
        "leave-one-out cosine": -features[:, _COSINE].astype(np.float64),
        "out-of-fold rank": finder.percentile_rank_.astype(np.float64),
    }
    if len(popularity) == len(clicks):  # without extreme accounts
        odds = finder.noise_probability_ / np.maximum(1 - finder.noise_probability_, 1e-6)
        scores["PU classifier"] = np.log(odds + 1e-12) - np.log(np.maximum(line.at(popularity), 1e-12))
    return scores


def _weights(finder: prorec.NoiseFinder) -> list[tuple[str, NDArray[np.float32]]]:
    ones = np.ones(len(finder.noise_probability_), dtype=np.float32)
    return [("plain", ones), ("weighted", finder.weights_)]


def _evaluate(clicks: Interactions, weights: NDArray[np.float32], test: Interactions) -> float:
    model = WRMF(rank=20, alpha=3.0, regularization=10.0).fit(clicks.with_weights(weights))
    return float(prorec.evaluate(model, test, k=10).mean["ndcg@10"])

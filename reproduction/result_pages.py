"""Results in Markdown beside the paper's numbers, with a sentence on each of its claims."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np

from prorec.data.noise_injection import NoiseKind
from prorec.denoise import ProRec
from prorec.interactions import Interactions
from reproduction.case_study import Case
from reproduction.injected_noise import DETECTION, NoiseLevelResult
from reproduction.overall_results import CONTROL
from reproduction.paper_tables import NOISE_20, OPTIMUM, TABLE_1, TABLE_2, TABLE_3
from reproduction.parameter_curves import CENTRE, FIELDS, MODEL, Curve
from reproduction.protocol import METRICS, Result, Row, half_interval

_STAR = 0.01


def datasets_page(loaded: Mapping[str, Interactions], missing: Mapping[str, str]) -> str:
    """Return Table 1: counts of each data set beside the paper's, or the reason why it is missing."""
    lines = [
        "| data set | users | items | interactions | sparsity | paper |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for name, counts in TABLE_1.items():
        reported = f"{counts.users:,} × {counts.items:,}, {counts.interactions:,}, {counts.sparsity:.4f}"
        if name in loaded:
            clicks = loaded[name]
            sparsity = 1 - len(clicks) / (clicks.n_users * clicks.n_items)
            same = (clicks.n_users, clicks.n_items, len(clicks)) == counts[:3] and f"{sparsity:.4f}" == reported[-6:]
            own = f"{clicks.n_users:,} | {clicks.n_items:,} | {len(clicks):,} | {sparsity:.4f}"
            lines.append(f"| {name} | {own} | {'the same' if same else reported} |")
        else:
            lines.append(f"| {name} | – | – | – | – | {reported}; not here: {missing[name]} |")
    return "\n".join(lines) + "\n"


def overall_page(dataset: str, rows: list[Row], results: Mapping[str, Result]) -> str:
    """Return Table 2 for one data set: scores beside the paper's, gains beside controls, chosen parameters."""
    lines = [
        "| | NDCG@5 | paper | MAP@5 | paper | Recall@5 | paper |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    reported = TABLE_2.get(dataset, {})
    for row in rows:
        cells = []
        for index, metric in enumerate(METRICS):
            cells.append(_cell(results[row.name], _base(row, results), metric))
            cells.append(_format_score(reported[row.name][index]) if row.name in reported else "")
        lines.append(f"| {row.name} | {' | '.join(cells)} |")
    denoised = [(row, row.base) for row in rows if row.base and isinstance(row.model, ProRec)]
    kinds = list(dict.fromkeys(name.partition(CONTROL)[2] for name in results if CONTROL in name))
    lines += [
        "",
        "NDCG@5 relative to the model without ProRec: the paper's gain, ours, and those of the controls.",
        "",
        f"| | paper | ProRec | {' | '.join(kinds)} |",
        f"| --- | ---: | ---: | {' | '.join(['---:'] * len(kinds))} |",
    ]
    for row, model in denoised:
        base = results[model.name]
        paper = f"{reported[row.name].ndcg / reported[model.name].ndcg - 1:+.1%}" if row.name in reported else ""
        names = [row.name, *(f"{row.name}{CONTROL}{kind}" for kind in kinds)]
        gains = [_gain(results[name], base, "ndcg@5") if name in results else "–" for name in names]
        lines.append(f"| {row.name} | {paper} | {' | '.join(gains)} |")
    lines += ["", _verdict(dataset, denoised, results), *_failed_searches(denoised, results)]
    lines += ["", "Chosen on the validation parts:", ""]
    lines += [f"- {row.name}: {_chosen_parameters(results[row.name])}" for row in rows]
    return "\n".join([*lines, ""])


def _verdict(dataset: str, denoised: list[tuple[Row, Row]], results: Mapping[str, Result]) -> str:
    """Say which models gain, which lose, and which gain more than from any control."""
    up: list[str] = []
    down: list[str] = []
    neither: list[str] = []
    beyond: list[str] = []
    for row, before in denoised:
        own, base, model = results[row.name], results[before.name], before.name
        sure = own.p_against(base, "ndcg@5") < _STAR
        better = own.mean("ndcg@5") > base.mean("ndcg@5")
        (up if sure and better else down if sure else neither).append(model)
        controls = [result for name, result in results.items() if name.startswith(row.name + CONTROL)]
        best = max(controls, key=lambda result: result.mean("ndcg@5"), default=None)
        if best and own.mean("ndcg@5") > best.mean("ndcg@5") and own.p_against(best, "ndcg@5") < _STAR:
            beyond.append(model)
    return (
        f"**The paper's claim**, that every model gains, on {dataset}: with p < .01, {_join_names(up)} gained, "
        f"{_join_names(down)} lost, and for {_join_names(neither)} the difference may be luck. "
        f"With p < .01 above the best of the controls: {_join_names(beyond)}."
    )


def _failed_searches(denoised: list[tuple[Row, Row]], results: Mapping[str, Result]) -> list[str]:
    """Name models whose own search failed: their gain comes from ProRec's parameters, not from denoising."""
    lines = []
    for row, model in denoised:
        control = results.get(f"{row.name}{CONTROL}not denoised")
        if control is None:
            continue
        own, other = (each.per_user["ndcg@5"].mean(axis=1) for each in (results[model.name], control))
        failed = int((own < other / 2).sum())
        if failed:
            gain = results[row.name].gain(control, "ndcg@5")
            lines += [
                "",
                f"On {failed} of {len(own)} splits the search for {model.name} ended at parameters that score less "
                f"than half of those chosen for {row.name} without any denoising. Most of the gain comes from that: "
                f'relative to "not denoised", which has the same parameters, {row.name} is {gain:+.1%}.',
            ]
    return lines


def ablation_page(dataset: str, rows: list[Row], results: Mapping[str, Result]) -> str:
    """Return Table 3 and the order of the rows."""
    reported = TABLE_3.get(dataset, {})
    lines = [
        "| | NDCG@5 | paper | Recall@5 | paper | seconds | paper |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        result, base = results[row.name], _base(row, results)
        paper = reported.get(row.name)
        ndcg, recall, seconds = (
            (_format_score(paper.ndcg), _format_score(paper.recall), f"{paper.seconds:.0f}") if paper else ("", "", "")
        )
        lines.append(
            f"| {row.name} | {_cell(result, base, 'ndcg@5')} | {ndcg} | {_cell(result, base, 'recall@5')} | {recall} "
            f"| {result.seconds:.1f} | {seconds} |"
        )
    order = sorted(results, key=lambda name: -results[name].mean("ndcg@5"))
    paper_order = sorted(reported, key=lambda name: -reported[name].ndcg)
    plain, emd, sinkhorn, rot, prorec = (results[row.name] for row in rows)
    lines += ["", f"By NDCG@5, best first: {', '.join(order)}."]
    if paper_order:
        lines += [f"In the paper: {', '.join(paper_order)}."]
    lines += [
        "",
        f"**The paper's claims**: EMD is worse than no denoising ({_verdict_on(plain, emd)}); relaxing costs no "
        f"accuracy (Sinkhorn above ROT: {_verdict_on(sinkhorn, rot)}) and halves the time (ROT takes "
        f"{rot.seconds / sinkhorn.seconds:.2f} of Sinkhorn's"
        + (
            f"; in the paper {reported['NCE + ROT'].seconds / reported['NCE + Sinkhorn'].seconds:.2f}"
            if reported
            else ""
        )
        + (
            f", and {(rot.seconds - plain.seconds) / added:.2f} of the time that Sinkhorn adds to {rows[0].name}"
            if (added := sinkhorn.seconds - plain.seconds) > 0
            else ""
        )
        + f"); personal thresholds are better than one for all ({_verdict_on(prorec, rot)}).",
        "",
        "Chosen on the validation parts:",
        "",
    ]
    lines += [f"- {row.name}: {_chosen_parameters(results[row.name])}" for row in rows]
    return "\n".join([*lines, ""])


def noise_page(dataset: str, model: str, results: Mapping[tuple[NoiseKind, float], NoiseLevelResult]) -> str:
    """Return Figure 2a in numbers."""
    lines = [
        f"| noise | level | hit ratio | true clicks below | AUROC | AP | Recall@5 {model} | + ProRec | noise removed |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for (kind, level), at in results.items():
        if level == 0 and kind != next(iter(results))[0]:
            continue
        detection = [f"{at.detection[name].mean():.3f}" if name in at.detection else "–" for name in DETECTION]
        scores = (
            _cell(at.plain, None, "recall@5"),
            _cell(at.denoised, at.plain, "recall@5"),
            _cell(at.ceiling, at.plain, "recall@5"),
        )
        lines.append(f"| {kind if level else 'none'} | {level:.0%} | {' | '.join(detection)} | {' | '.join(scores)} |")
    noisy = [at for (kind, level), at in results.items() if level and kind == "uniform"]
    hits, flags = (np.mean([at.detection[name].mean() for at in noisy]) for name in ("hit_ratio", "false_flag_rate"))
    conclusion = "so the hit ratio says little" if flags > hits / 2 else "so the hit ratio is informative"
    unique = {id(at): at for at in results.values()}.values()
    above = sum(at.denoised.mean("recall@5") > at.plain.mean("recall@5") for at in unique)
    sure = sum(
        at.denoised.mean("recall@5") > at.plain.mean("recall@5") and at.denoised.p_against(at.plain, "recall@5") < _STAR
        for at in unique
    )
    lines += [
        "",
        f"**The paper's first claim**, a hit ratio around 90%: {hits:.0%} here, with uniform noise. "
        f"{flags:.0%} of the true clicks are below the thresholds too, {conclusion}; AUROC and AP say more.",
        "",
        f"**The second claim**, that {model} + ProRec is always better than {model}, holds in {above} of {len(unique)} "
        f"settings, with p < .01 in {sure}.",
    ]
    if dataset == "ml-100k" and ("uniform", 0.2) in results:
        at = results["uniform", 0.2]
        lines.append(
            f"At 20% of uniform noise: {_format_score(at.plain.mean('recall@5'))} → "
            f"{_format_score(at.denoised.mean('recall@5'))} "
            f"(paper: {_format_score(NOISE_20['NCE'])} → {_format_score(NOISE_20['NCE + ProRec'])})."
        )
    return "\n".join([*lines, ""])


def curve_page(dataset: str, curve: Curve) -> str:
    """Return one parameter's curve in numbers."""
    lines = [
        f"| {curve.parameter} | NCE | NCE + ProRec | gain, 95% interval over splits |",
        "| ---: | ---: | ---: | ---: |",
    ]
    gains = curve.gains
    for index, value in enumerate(curve.values):
        half = half_interval(gains[index])
        interval = "" if math.isnan(half) else f" ± {half:.1%}"
        scores = (_format_score(each[index].mean()) for each in (curve.plain, curve.denoised))
        lines.append(f"| {value:g} | {' | '.join(scores)} | {gains[index].mean():+.1%}{interval} |")
    means = np.nan_to_num(gains.mean(axis=1), nan=-np.inf)
    best, least = int(np.argmax(means)), int(np.argmin(means))
    half = half_interval(gains[best] - gains[least])
    sure = "" if math.isnan(half) else f" ± {half:.1%}"
    others = ", ".join(f"{name} {value:g}" for name, value in CENTRE.items() if name != FIELDS.get(curve.parameter))
    reported = OPTIMUM[dataset].at.get(curve.parameter) if dataset in OPTIMUM else None
    lines += [
        "",
        f"The best gain is at {curve.values[best]:g}"
        + (f" (paper: {reported:g})" if reported else "")
        + f", {means[best] - means[least]:.1%}{sure} above the least, at {curve.values[least]:g}. "
        f"The other parameters are the paper's: {others}. The model's are ours: {MODEL}"
        + (", with ζ its regularization." if curve.parameter == "zeta" else "."),
    ]
    return "\n".join([*lines, ""])


def case_page(case: Case) -> str:
    """Return one user's clicks and lists, and the same numbers over all users."""
    clicks = case.clicks
    name = clicks.item_names if clicks.item_names is not None else clicks.items
    genres = clicks.item_categories or ()

    def film(item: int) -> str:
        return f"{name[item]} | {', '.join(genres[item])}"

    user = case.user
    lines = [
        _describe_user(case),
        "",
        "| weight | film | genres |",
        "| ---: | --- | --- |",
    ]
    lines += [
        f"| {case.weights[position]:.3f} | {film(clicks.matrix.indices[position])} |"
        for position in case.positions(user)
    ]
    before, after = ([int(item) for item in tops[user] if item >= 0] for tops in (case.before, case.after))
    lines += ["", f"The top {len(after)} after denoising:", "", "| | film | genres |", "| --- | --- | --- |"]
    lines += [f"| {'entered' if item not in before else ''} | {film(item)} |" for item in after]
    lines += [f"| left | {film(item)} |" for item in before if item not in after]
    share = {each: "–" if math.isnan(value) else f"{value:.0%}" for each, value in case.in_genre.items()}
    lines += [
        "",
        "**All users.** Share of items in the user's main genre: among the quarter of clicks that kept most weight, "
        f"{share['kept most']}; among the quarter that lost most, {share['lost most']}; among the items that entered "
        f"the top lists, {share['entered']}; among those that left them, {share['left']}.",
    ]
    return "\n".join([*lines, ""])


def _describe_user(case: Case) -> str:
    """Name the selected user and the rule."""
    user = f"User {case.clicks.users[case.user]}, who has more {case.genre} than others have"
    if not case.n_matching:
        return (
            f"{user}. None of the {case.n_candidates:,} users with 8 to 16 clicks matches the paper's example; this is "
            "the first of them whose list changed."
        )
    return (
        f"{user}: the first of {case.n_matching:,} users, among {case.n_candidates:,} with 8 to 16 clicks, who match "
        "the paper's example. At least half of the clicks are in the main genre, the one that lost most weight is not, "
        "and a film of that genre entered the list."
    )


def _verdict_on(better: Result, worse: Result) -> str:
    """Say whether one result is above the other."""
    difference = better.gain(worse, "ndcg@5")
    if better.p_against(worse, "ndcg@5") >= _STAR:
        return f"{difference:+.1%}, which may be luck"
    return f"{difference:+.1%}, p < .01: {'it holds' if difference > 0 else 'the other way round'}"


def _base(row: Row, results: Mapping[str, Result]) -> Result | None:
    return results[row.base.name] if row.base else None


def _cell(result: Result, base: Result | None, metric: str) -> str:
    half = result.half_interval(metric)
    interval = "" if math.isnan(half) else f" ± {_format_score(half)}"
    return f"{_format_score(result.mean(metric))}{interval}{f', {_gain(result, base, metric)}' if base else ''}"


def _gain(result: Result, base: Result, metric: str) -> str:
    gain = result.gain(base, metric)
    star = "*" if result.p_against(base, metric) < _STAR else ""
    return "–" if math.isnan(gain) else f"{gain:+.1%}{star}"


def _chosen_parameters(result: Result) -> str:
    """List each parameter's values, with the number of splits that chose each."""
    parts = []
    for name in result.parameters[0]:
        counts = Counter(str(parameters[name]) for parameters in result.parameters)
        values = counts.most_common()
        if len(values) == 1:
            parts.append(f"{name} {values[0][0]}")
        else:
            parts.append(f"{name} " + ", ".join(f"{value} ({count}×)" for value, count in values))
    return "; ".join(parts) or "–"


def _join_names(names: list[str]) -> str:
    """Join names for a sentence.

    >>> _join_names(["SVD", "NCE", "WRMF"]), _join_names([])
    ('SVD, NCE and WRMF', 'none')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names) or "none"


def _format_score(value: float) -> str:
    """Format a score with four digits and without the leading zero.

    >>> _format_score(0.0396)
    '.0396'
    """
    return f"{value:.4f}".removeprefix("0")

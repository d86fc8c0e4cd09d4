"""Results in Markdown, with the paper's figures beside them and a word on which of its claims hold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np

from prorec.data.noise_injection import NoiseKind
from prorec.denoise import ProRec
from prorec.interactions import Interactions
from reproduction.case_study import Case
from reproduction.injected_noise import FOUND, AtLevel
from reproduction.overall_results import CONTROL
from reproduction.paper_tables import NOISE_20, OPTIMUM, TABLE_1, TABLE_2, TABLE_3
from reproduction.parameter_curves import CENTRE, FIELDS, MODEL, Curve
from reproduction.protocol import METRICS, Result, Row, half_interval

_STAR = 0.01


def datasets_page(loaded: Mapping[str, Interactions], missing: Mapping[str, str]) -> str:
    """Table 1: what each data set has, and what the paper says it has; or why it is not there."""
    lines = [
        "| data set | users | items | interactions | sparsity | paper |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for name, counts in TABLE_1.items():
        said = f"{counts.users:,} × {counts.items:,}, {counts.interactions:,}, {counts.sparsity:.4f}"
        if name in loaded:
            clicks = loaded[name]
            sparsity = 1 - len(clicks) / (clicks.n_users * clicks.n_items)
            same = (clicks.n_users, clicks.n_items, len(clicks)) == counts[:3] and f"{sparsity:.4f}" == said[-6:]
            own = f"{clicks.n_users:,} | {clicks.n_items:,} | {len(clicks):,} | {sparsity:.4f}"
            lines.append(f"| {name} | {own} | {'the same' if same else said} |")
        else:
            lines.append(f"| {name} | – | – | – | – | {said}; not here: {missing[name]} |")
    return "\n".join(lines) + "\n"


def overall_page(dataset: str, rows: list[Row], results: Mapping[str, Result]) -> str:
    """Table 2 of one data set: the rows beside the paper's, what ProRec gains beside its controls, what was chosen."""
    lines = [
        "| | NDCG@5 | paper | MAP@5 | paper | Recall@5 | paper |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    said = TABLE_2.get(dataset, {})
    for row in rows:
        cells = []
        for place, metric in enumerate(METRICS):
            cells.append(_cell(results[row.name], _base(row, results), metric))
            cells.append(_short(said[row.name][place]) if row.name in said else "")
        lines.append(f"| {row.name} | {' | '.join(cells)} |")
    denoised = [(row, row.base) for row in rows if row.base and isinstance(row.model, ProRec)]
    kinds = list(dict.fromkeys(name.partition(CONTROL)[2] for name in results if CONTROL in name))
    lines += [
        "",
        "NDCG@5 over the model without ProRec: what the paper says, what came out, and what the controls do.",
        "",
        f"| | paper | ProRec | {' | '.join(kinds)} |",
        f"| --- | ---: | ---: | {' | '.join(['---:'] * len(kinds))} |",
    ]
    for row, model in denoised:
        base = results[model.name]
        paper = f"{said[row.name].ndcg / said[model.name].ndcg - 1:+.1%}" if row.name in said else ""
        names = [row.name, *(f"{row.name}{CONTROL}{kind}" for kind in kinds)]
        gains = [_gain(results[name], base, "ndcg@5") if name in results else "–" for name in names]
        lines.append(f"| {row.name} | {paper} | {' | '.join(gains)} |")
    lines += ["", _verdict(dataset, denoised, results), *_ill_chosen(denoised, results)]
    lines += ["", "Chosen on the validation parts:", ""]
    lines += [f"- {row.name}: {_chosen(results[row.name])}" for row in rows]
    return "\n".join([*lines, ""])


def _verdict(dataset: str, denoised: list[tuple[Row, Row]], results: Mapping[str, Result]) -> str:
    """Which models gain, which lose, and which gain more than by any control."""
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
        f"**The paper's claim**, that every model gains, on {dataset}: with p < .01, {_listed(up)} gained, "
        f"{_listed(down)} lost, and for {_listed(neither)} the difference may be luck. "
        f"With p < .01 above the best of the controls: {_listed(beyond)}."
    )


def _ill_chosen(denoised: list[tuple[Row, Row]], results: Mapping[str, Result]) -> list[str]:
    """A word on models whose own search went astray: what they gain by ProRec's parameters is not denoising."""
    lines = []
    for row, model in denoised:
        control = results.get(f"{row.name}{CONTROL}not denoised")
        if control is None:
            continue
        own, other = (each.per_user["ndcg@5"].mean(axis=1) for each in (results[model.name], control))
        astray = int((own < other / 2).sum())
        if astray:
            gain = results[row.name].gain(control, "ndcg@5")
            lines += [
                "",
                f"On {astray} of {len(own)} splits the search for {model.name} ended where it scores less than half of "
                f"what the parameters chosen for {row.name} give without any denoising. Its gain is that, for the most "
                f'part: over "not denoised", which has these parameters, {row.name} is {gain:+.1%}.',
            ]
    return lines


def ablation_page(dataset: str, rows: list[Row], results: Mapping[str, Result]) -> str:
    """Table 3, and the order that came out."""
    said = TABLE_3.get(dataset, {})
    lines = [
        "| | NDCG@5 | paper | Recall@5 | paper | seconds | paper |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        result, base = results[row.name], _base(row, results)
        paper = said.get(row.name)
        ndcg, recall, seconds = (
            (_short(paper.ndcg), _short(paper.recall), f"{paper.seconds:.0f}") if paper else ("", "", "")
        )
        lines.append(
            f"| {row.name} | {_cell(result, base, 'ndcg@5')} | {ndcg} | {_cell(result, base, 'recall@5')} | {recall} "
            f"| {result.seconds:.1f} | {seconds} |"
        )
    order = sorted(results, key=lambda name: -results[name].mean("ndcg@5"))
    paper_order = sorted(said, key=lambda name: -said[name].ndcg)
    plain, emd, sinkhorn, rot, prorec = (results[row.name] for row in rows)
    lines += ["", f"By NDCG@5, best first: {', '.join(order)}."]
    if paper_order:
        lines += [f"In the paper: {', '.join(paper_order)}."]
    lines += [
        "",
        f"**The paper's claims**: EMD is worse than no denoising ({_held(plain, emd)}); relaxing costs no accuracy "
        f"(Sinkhorn above ROT: {_held(sinkhorn, rot)}) and halves the time (ROT takes "
        f"{rot.seconds / sinkhorn.seconds:.2f} of Sinkhorn's"
        + (f"; in the paper {said['NCE + ROT'].seconds / said['NCE + Sinkhorn'].seconds:.2f}" if said else "")
        + (
            f". Of what comes on top of {rows[0].name}: {(rot.seconds - plain.seconds) / on_top:.2f}"
            if (on_top := sinkhorn.seconds - plain.seconds) > 0
            else ""
        )
        + f"); personal thresholds are better than one for all ({_held(prorec, rot)}).",
        "",
        "Chosen on the validation parts:",
        "",
    ]
    lines += [f"- {row.name}: {_chosen(results[row.name])}" for row in rows]
    return "\n".join([*lines, ""])


def noise_page(dataset: str, model: str, results: Mapping[tuple[NoiseKind, float], AtLevel]) -> str:
    """Figure 2a in numbers."""
    lines = [
        "| noise | level | hit ratio | true clicks below | AUROC | AP "
        f"| Recall@5 {model} | + ProRec | noise taken out |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for (kind, level), at in results.items():
        if level == 0 and kind != next(iter(results))[0]:
            continue
        found = [f"{at.found[name].mean():.3f}" if name in at.found else "–" for name in FOUND]
        scores = (
            _cell(at.plain, None, "recall@5"),
            _cell(at.denoised, at.plain, "recall@5"),
            _cell(at.ceiling, at.plain, "recall@5"),
        )
        lines.append(f"| {kind if level else 'none'} | {level:.0%} | {' | '.join(found)} | {' | '.join(scores)} |")
    noisy = [at for (kind, level), at in results.items() if level and kind == "uniform"]
    hits, flags = (np.mean([at.found[name].mean() for at in noisy]) for name in ("hit_ratio", "false_flag_rate"))
    says = "so that says little" if flags > hits / 2 else "so that is worth something"
    unique = {id(at): at for at in results.values()}.values()
    above = sum(at.denoised.mean("recall@5") > at.plain.mean("recall@5") for at in unique)
    sure = sum(
        at.denoised.mean("recall@5") > at.plain.mean("recall@5") and at.denoised.p_against(at.plain, "recall@5") < _STAR
        for at in unique
    )
    lines += [
        "",
        f"**The paper's first claim**, a hit ratio around 90%: {hits:.0%} here, with uniform noise. "
        f"Of the true clicks {flags:.0%} are below the thresholds too, {says}; AUROC and AP say more.",
        "",
        f"**The second**, that {model} + ProRec is always better than {model}: it is in {above} of {len(unique)} "
        f"settings, with p < .01 in {sure}.",
    ]
    if dataset == "ml-100k" and ("uniform", 0.2) in results:
        at = results["uniform", 0.2]
        lines.append(
            f"At 20% of uniform noise: {_short(at.plain.mean('recall@5'))} → {_short(at.denoised.mean('recall@5'))} "
            f"(paper: {_short(NOISE_20['NCE'])} → {_short(NOISE_20['NCE + ProRec'])})."
        )
    return "\n".join([*lines, ""])


def curve_page(dataset: str, curve: Curve) -> str:
    """One parameter's curve in numbers."""
    lines = [
        f"| {curve.parameter} | NCE | NCE + ProRec | gain, 95% interval over splits |",
        "| ---: | ---: | ---: | ---: |",
    ]
    gains = curve.gains
    for place, value in enumerate(curve.values):
        half = half_interval(gains[place])
        interval = "" if math.isnan(half) else f" ± {half:.1%}"
        scores = (_short(each[place].mean()) for each in (curve.plain, curve.denoised))
        lines.append(f"| {value:g} | {' | '.join(scores)} | {gains[place].mean():+.1%}{interval} |")
    means = np.nan_to_num(gains.mean(axis=1), nan=-np.inf)
    best, least = int(np.argmax(means)), int(np.argmin(means))
    half = half_interval(gains[best] - gains[least])
    sure = "" if math.isnan(half) else f" ± {half:.1%}"
    others = ", ".join(f"{name} {value:g}" for name, value in CENTRE.items() if name != FIELDS.get(curve.parameter))
    said = OPTIMUM[dataset].at.get(curve.parameter) if dataset in OPTIMUM else None
    lines += [
        "",
        f"The best gain is at {curve.values[best]:g}"
        + (f" (paper: {said:g})" if said else "")
        + f", {means[best] - means[least]:.1%}{sure} above the least, at {curve.values[least]:g}. "
        f"The rest is the paper's: {others}. The model is ours: {MODEL}"
        + (", with ζ its regularization." if curve.parameter == "zeta" else "."),
    ]
    return "\n".join([*lines, ""])


def case_page(case: Case) -> str:
    """One user's clicks and lists, and what is true of all."""
    clicks = case.clicks
    name = clicks.item_names if clicks.item_names is not None else clicks.items
    genres = clicks.item_categories or ()

    def film(item: int) -> str:
        return f"{name[item]} | {', '.join(genres[item])}"

    user = case.user
    lines = [
        _chosen_user(case),
        "",
        "| weight | film | genres |",
        "| ---: | --- | --- |",
    ]
    lines += [f"| {case.weights[place]:.3f} | {film(clicks.matrix.indices[place])} |" for place in case.places(user)]
    before, after = ([int(item) for item in tops[user] if item >= 0] for tops in (case.before, case.after))
    lines += ["", f"The top {len(after)} after denoising:", "", "| | film | genres |", "| --- | --- | --- |"]
    lines += [f"| {'entered' if item not in before else ''} | {film(item)} |" for item in after]
    lines += [f"| left | {film(item)} |" for item in before if item not in after]
    share = {each: "–" if math.isnan(value) else f"{value:.0%}" for each, value in case.in_genre.items()}
    lines += [
        "",
        "**Is it so for everybody?** How much belongs to the user's main genre, over all users: of the quarter of "
        f"clicks that kept most weight, {share['kept most']}; of the quarter that lost most, {share['lost most']}. "
        f"Of what entered the top lists, {share['entered']}; of what left them, {share['left']}.",
    ]
    return "\n".join([*lines, ""])


def _chosen_user(case: Case) -> str:
    """Who is shown, and how that user was found."""
    user = f"User {case.clicks.users[case.user]}, who has more {case.genre} than others have"
    if not case.n_like:
        return (
            f"{user}. For none of the {case.n_shown_from:,} users with as many clicks as can be shown can the paper's "
            "story be told: this is the first of them whose list changed."
        )
    return (
        f"{user}: the first of {case.n_like:,} users, among {case.n_shown_from:,} with as many clicks as can be shown, "
        "of whom the paper's story can be told. At least half of the clicks are in the main genre, the one that lost "
        "most weight is not, and a film of that genre came into the list."
    )


def _held(better: Result, worse: Result) -> str:
    """Whether one is above the other, in a word or two."""
    difference = better.gain(worse, "ndcg@5")
    if better.p_against(worse, "ndcg@5") >= _STAR:
        return f"{difference:+.1%}, which may be luck"
    return f"{difference:+.1%}, p < .01: {'it holds' if difference > 0 else 'the other way round'}"


def _base(row: Row, results: Mapping[str, Result]) -> Result | None:
    return results[row.base.name] if row.base else None


def _cell(result: Result, base: Result | None, metric: str) -> str:
    half = result.half_interval(metric)
    interval = "" if math.isnan(half) else f" ± {_short(half)}"
    return f"{_short(result.mean(metric))}{interval}{f', {_gain(result, base, metric)}' if base else ''}"


def _gain(result: Result, base: Result, metric: str) -> str:
    gain = result.gain(base, metric)
    star = "*" if result.p_against(base, metric) < _STAR else ""
    return "–" if math.isnan(gain) else f"{gain:+.1%}{star}"


def _chosen(result: Result) -> str:
    """Each parameter's values, and on how many splits each was chosen."""
    parts = []
    for name in result.parameters[0]:
        counts = Counter(str(parameters[name]) for parameters in result.parameters)
        values = counts.most_common()
        if len(values) == 1:
            parts.append(f"{name} {values[0][0]}")
        else:
            parts.append(f"{name} " + ", ".join(f"{value} ({count}×)" for value, count in values))
    return "; ".join(parts) or "–"


def _listed(names: list[str]) -> str:
    """Names in a sentence.

    >>> _listed(["SVD", "NCE", "WRMF"]), _listed([])
    ('SVD, NCE and WRMF', 'none')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names) or "none"


def _short(value: float) -> str:
    """Four digits without the zero in front.

    >>> _short(0.0396)
    '.0396'
    """
    return f"{value:.4f}".removeprefix("0")

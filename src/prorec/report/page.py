"""The report: one HTML file without dependencies, with the findings and the clicks behind them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from prorec._core.checks import safe_repr
from prorec._core.digest import digest
from prorec._core.errors import InputError, MissingExtraError
from prorec._core.files import as_path, atomic_write, check_replaceable, prefix_errors
from prorec._core.progress import Progress, check_progress
from prorec._core.provenance import make_provenance
from prorec._core.versions import advise_install
from prorec.denoise.denoiser import ProRec
from prorec.interactions import Interactions
from prorec.noise.account_groups import group_accounts
from prorec.noise.issue_sentences import list_users
from prorec.report.alerts import make_alerts
from prorec.report.changes import list_changes, read_earlier_report
from prorec.report.findings import Findings, collect_findings
from prorec.report.formatting import format_count
from prorec.report.gain import Gain, RecommendationLists, measure_gain, recommend_before_and_after
from prorec.report.issue_tables import make_issue_tables
from prorec.report.page_texts import (
    describe_method,
    list_definitions,
    list_facts,
    make_table_note,
    make_user_note,
)
from prorec.report.row_selection import RowSelection, select_rows
from prorec.report.verdict import make_verdict

_SCRIPTS = ("data.js", "verdicts.js", "click_table.js", "issue_tables.js", "user.js", "start.js")


def write_report(
    denoiser: ProRec,
    path: str | Path,
    *,
    title: str = "Which clicks are noise?",
    is_noise: Any = None,
    held_out: bool = True,
    seconds: float | None = None,
    n_rows: int | None = None,
    n_left_out: int = 0,
    cleaning_command: str | None = None,
    earlier: Any = None,
    progress: Progress | None = None,
    overwrite: bool = True,
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Write a page about a fitted denoiser.

    Parameters
    ----------
    denoiser : ProRec
        A fitted denoiser.
    path : str or Path
        File to write, such as report.html.
    title : str, default "Which clicks are noise?"
        Heading of the page.
    is_noise : array-like of bool, optional
        Whether each interaction is noise, in the order of `interactions_.matrix.data`, if that is known. It adds a
        reliability diagram.
    held_out : bool, default True
        Measure the gain in recommendation quality on a held-out part, which takes four more fits on 70% of the
        interactions. One more fit on all interactions, without denoising, is always made.
    seconds : float, optional
        Duration of the work that the page shows; by default, the time of transport plans and fits.
    n_rows : int, optional
        Number of rows of the log, from which the page tells how many repeat a pair.
    n_left_out : int, default 0
        Number of rows that cannot be used and were left out, which the page says.
    cleaning_command : str, optional
        Command that removes the flagged clicks and the suspicious accounts, which the page shows; by default one
        without the name of the log.
    earlier : dict, optional
        Summary of an earlier report, as `prorec report --json` prints it; the page then says what has changed.
    progress : Progress, optional
        Function that is called with the task, the number of steps done and the number of steps in all.
    overwrite : bool, default True
        Replace a file that exists when the page is complete.
    provenance : dict, optional
        Version, time, inputs and settings that the page shows and holds as JSON; by default the version, the time, a
        digest of the interactions and the denoiser's parameters.

    Raises
    ------
    NotFittedError
        If the denoiser is not fitted.
    InputError
        If an argument is not usable, or the file cannot be written.
    MissingExtraError
        If Jinja2 is not installed.

    Examples
    --------
    >>> import prorec
    >>> denoiser = prorec.ProRec(prorec.models.NCE(rank=20)).fit(prorec.load_dataset("cinema"))
    >>> write_report(denoiser, "report.html", held_out=False)
    """
    check_report_path(path)
    if not isinstance(title, str) or not title.strip():
        raise InputError(f"title must be a text that is not empty; got {safe_repr(title)}")
    check_progress(progress)
    if earlier is not None:
        read_earlier_report(earlier)
    findings = collect_findings(denoiser, is_noise)
    selection = select_rows(findings.interactions, findings.noise_probability, findings.flagged)
    lists = recommend_before_and_after(denoiser, selection.complete_users, progress)
    gain = measure_gain(denoiser, progress) if held_out else "the report was made with held_out=False"
    write_page(
        path,
        findings,
        gain,
        title=title,
        seconds=seconds,
        n_rows=n_rows,
        n_left_out=n_left_out,
        cleaning_command=cleaning_command,
        earlier=earlier,
        selection=selection,
        lists=lists,
        overwrite=overwrite,
        provenance=provenance,
    )


def check_report_path(path: str | Path) -> None:
    """Check that a report can be made and written, before any work is done for it.

    Parameters
    ----------
    path : str or Path
        File to write.

    Raises
    ------
    InputError
        If the path is not an html file in an existing folder, or leads to something that is no regular file.
    MissingExtraError
        If Jinja2 is not installed.
    """
    path = as_path(path)
    try:
        import jinja2  # noqa: F401
    except ModuleNotFoundError:
        raise MissingExtraError(f"a report needs Jinja2, which is not installed: {advise_install('report')}") from None
    with prefix_errors(path):
        check_replaceable(path)
        if path.suffix.lower() not in (".html", ".htm"):
            raise InputError("a report is an HTML page; give it a name that ends in .html")
        if not path.parent.is_dir():
            raise InputError(f"the folder {path.parent} does not exist; create it or choose another")


def write_page(
    path: str | Path,
    findings: Findings,
    gain: Gain | str,
    *,
    title: str,
    seconds: float | None = None,
    n_rows: int | None = None,
    n_left_out: int = 0,
    cleaning_command: str | None = None,
    earlier: Any = None,
    selection: RowSelection | None = None,
    lists: RecommendationLists | None = None,
    overwrite: bool = True,
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Write a page about findings, whole or not at all.

    Parameters
    ----------
    path : str or Path
        File to write.
    findings : Findings
        Results of a denoiser.
    gain : Gain or str
        Gain of denoising, or the reason why it was not measured.
    title : str
        Heading of the page.
    seconds : float, optional
        Duration of the work that the page shows; by default, the time of transport plans and fits.
    n_rows : int, optional
        Number of rows of the log, if it is known.
    n_left_out : int, default 0
        Number of rows that were left out.
    cleaning_command : str, optional
        Command that removes the flagged clicks and the suspicious accounts.
    earlier : dict, optional
        Summary of an earlier report.
    selection : RowSelection, optional
        Interactions that the page holds; by default those that `select_rows` selects.
    lists : RecommendationLists, optional
        Recommendations for `selection.complete_users`.
    overwrite : bool, default True
        Replace a file that exists when the page is complete.
    provenance : dict, optional
        From `make_provenance`; by default with a digest of the interactions, and the settings of the findings.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    from prorec.report.charts import make_charts
    from prorec.report.page_data import make_page_data, to_script_json
    from prorec.report.svg import draw_svg

    if selection is None:
        selection = select_rows(findings.interactions, findings.noise_probability, findings.flagged)
    assets = resources.files("prorec.report") / "assets"
    script = "\n".join((assets / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    # The page's security policy has this digest, so that no other script runs in the page.
    script_digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters["options"] = _keep_options_whole
    template = environment.from_string((assets / "page.html").read_text(encoding="utf-8"))
    interactions = findings.interactions
    if provenance is None:
        provenance = make_provenance(
            {"interactions": {"name": "interactions", "digest": _digest_interactions(interactions)}}, findings.settings
        )
    counts = ((len(interactions), "click"), (interactions.n_users, "user"), (interactions.n_items, "item"))
    n, n_users, n_items = (format_count(number, noun) for number, noun in counts)
    charts, detail_charts = make_charts(findings)
    page = template.render(
        title=title,
        lead=f"{n} of {n_users} with {n_items}. {findings.sample_note}".rstrip(),
        verdict=make_verdict(findings, gain),
        alerts=make_alerts(findings, n_rows, n_left_out),
        cleaning_command=cleaning_command or _name_cleaning(findings),
        changes=[] if earlier is None else list_changes(findings, read_earlier_report(earlier)),
        table_note=make_table_note(findings, selection),
        user_note=make_user_note(findings, selection),
        issue_tables=make_issue_tables(findings),
        has_flags=bool(findings.flagged.any()),
        charts=charts,
        detail_charts=detail_charts,
        draw_svg=draw_svg,
        facts=list_facts(findings, gain, n_rows, seconds, n_left_out),
        definitions=list_definitions(findings),
        method=describe_method(findings),
        settings=findings.settings,
        provenance=provenance,
        provenance_text=json.dumps(provenance),
        style=Markup((assets / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_digest=Markup("'sha256-{}'").format(script_digest),
        data=to_script_json(make_page_data(findings, selection, lists)),
    )
    path = as_path(path)
    with prefix_errors(path), atomic_write(path, overwrite=overwrite) as temporary:
        # A name may hold half of a surrogate pair, which UTF-8 cannot encode.
        temporary.write_text(page, encoding="utf-8", errors="replace")


def _name_cleaning(findings: Findings) -> str | None:
    """Return the command that removes flagged clicks and suspicious accounts, for a log whose name is not known."""
    if findings.issues is None:
        return None
    issues, groups = findings.issues, group_accounts(findings.issues, findings.basis)
    users = [str(issues.interactions.users[user]) for user in list_users(issues, groups.suspicious)]
    if not users:
        return None
    return f"prorec denoise LOG --out CLEANED --drop --suspect-users {shlex.quote(','.join(users))}"


def _keep_options_whole(text: str) -> Any:
    """Return a text in which the name of an option is not broken at its hyphens."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"--[a-z][a-z-]*", r'<span class="option">\g<0></span>', str(escape(text))))


def _digest_interactions(interactions: Interactions) -> str:
    """Return a digest of the ids and the weights."""
    ids = (
        np.frombuffer("\n".join(map(str, each)).encode(), np.uint8) for each in (interactions.users, interactions.items)
    )
    return digest(interactions.matrix.data, interactions.matrix.indices, interactions.matrix.indptr, *ids)

"""How estimators show themselves in a notebook: a small table of what they were made with and what they learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from html import escape
from typing import Any

from prorec._core.checks import safe_repr
from prorec.interactions import Interactions

_LETTERS = 160  # of a value
# Colours are the notebook's own, light or dark; a table would not take them over by itself everywhere.
_TABLE = "border-collapse:collapse;font-size:90%;color:inherit;background:transparent"
_CELL = "text-align:left;vertical-align:top;padding:1px 12px 1px 0;color:inherit;background:transparent"
_FAINT = "opacity:.65"


def html_table(estimator: Any, facts: Mapping[str, str]) -> str:
    """The name of its class, its parameters, those that are not the default in bold, and what is known of it."""
    rows = [_row(*each) for each in _parameters(estimator)]
    rows += [_rule(), *(_row(name, value, "", is_bold=False) for name, value in facts.items())]
    return (
        f'<table style="{_TABLE}"><caption style="text-align:left;caption-side:top;color:inherit">'
        f"<b>{escape(type(estimator).__name__)}</b></caption><tbody>{''.join(rows)}</tbody></table>"
    )


def size_of(known: Interactions) -> str:
    """What was learned from, in words."""
    return f"{known.n_users:,} users × {known.n_items:,} items, {len(known):,} interactions"


def _parameters(estimator: Any) -> list[tuple[str, str, str, bool]]:
    """Name, value, what the default would be where it is another, and whether to stress it."""
    found = []
    for each in fields(estimator) if is_dataclass(estimator) else ():
        if each.init:
            value = getattr(estimator, each.name)
            default = each.default if each.default_factory is MISSING else each.default_factory()
            differs = default is not MISSING and not _same(value, default)
            found.append((each.name, safe_repr(value), f"default {safe_repr(default)}" if differs else "", differs))
    return found


def _same(value: Any, default: Any) -> bool:
    try:
        return bool(value is default or value == default)
    except Exception:  # an array, say, is neither equal nor not
        return False


def _row(name: str, value: str, note: str, is_bold: bool) -> str:
    value = value if len(value) <= _LETTERS else f"{value[: _LETTERS - 1]}…"
    cell = f"<b>{escape(value)}</b>" if is_bold else escape(value)
    if note:
        cell += f' <span style="{_FAINT}">({escape(note)})</span>'
    return (
        f'<tr><td style="{_CELL};{_FAINT};white-space:nowrap">{escape(name)}</td><td style="{_CELL}">{cell}</td></tr>'
    )


def _rule() -> str:
    return '<tr><td colspan="2" style="padding:0;border-bottom:1px solid rgba(128,128,128,.5)"></td></tr>'

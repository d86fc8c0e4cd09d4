"""Differences between recommenders, and tables of them: text, Markdown, LaTeX, csv."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from prorec._core.files import as_path, atomic_write, prefix_errors
from prorec.interactions.tables import FrameType, to_frame

_HEADINGS = ("model", "metric", "mean", "baseline", "difference", "interval", "p (Holm)")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


@dataclass(frozen=True)
class Comparison:
    """Difference between a recommender and the baseline in one metric."""

    model: str
    """Name of the recommender."""
    metric: str
    """Name of the metric."""
    mean: float
    """Mean of the metric over users."""
    baseline_mean: float
    """Mean of the baseline's metric over users."""
    difference: float
    """Mean over users of the difference; above 0 the model is better."""
    low: float
    """Lower end of the bootstrap interval of the difference."""
    high: float
    """Upper end of the bootstrap interval of the difference."""
    p_t: float
    """p-value of the paired t-test, two-sided."""
    p_wilcoxon: float
    """p-value of Wilcoxon's signed-rank test, two-sided."""
    p_t_holm: float
    """`p_t` after Holm's correction over all comparisons of one call."""
    p_wilcoxon_holm: float
    """`p_wilcoxon` after Holm's correction."""


class Comparisons(list[Comparison]):
    """Comparisons of several recommenders with a baseline: a list that prints as a table.

    Examples
    --------
    >>> row = Comparison("told", "ndcg@10", 0.25, 0.24, 0.01, 0.004, 0.016, 0.002, 0.003, 0.002, 0.003)
    >>> Comparisons([row])
    | model | metric  |   mean | baseline | difference |           interval | p (Holm) |
    | ----- | ------- | -----: | -------: | ---------: | -----------------: | -------: |
    | told  | ndcg@10 | 0.2500 |   0.2400 |    +0.0100 | +0.0040 to +0.0160 |    0.002 |
    """

    def __repr__(self) -> str:
        return self.to_markdown()

    def to_table(self, frame: FrameType = "pyarrow") -> Any:
        """Return a table with one row per comparison, and all numbers.

        Parameters
        ----------
        frame : {"pyarrow", "pandas", "polars"}, default "pyarrow"
            Library of the table.

        Returns
        -------
        table
            A column for each attribute of `Comparison`.
        """
        return to_frame(pa.Table.from_pylist([asdict(each) for each in self]), frame)

    def to_csv(self, path: str | Path | None = None) -> str | None:
        """Return the columns of `to_table` as csv, or write them to a file.

        Parameters
        ----------
        path : str or Path, optional
            File to write; an existing file is replaced.

        Returns
        -------
        str or None
            The text; None if it is written to a file.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(Comparison.__dataclass_fields__)
        writer.writerows(asdict(each).values() for each in self)
        if path is None:
            return text.getvalue()
        path = as_path(path)
        with prefix_errors(path), atomic_write(path) as temporary:
            temporary.write_text(text.getvalue(), encoding="utf-8")
        return None

    def to_markdown(self) -> str:
        """Return a Markdown table: means, differences with their intervals, and p of the t-test after Holm.

        Returns
        -------
        str
        """
        rows = [[cell.replace("|", r"\|") for cell in row] for row in (_HEADINGS, *map(_describe, self))]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [" | ".join(_align(row, widths)) for row in rows]
        rule = " | ".join("-" * width if at < 2 else f"{'-' * (width - 1)}:" for at, width in enumerate(widths))
        return "\n".join(f"| {line} |" for line in (lines[0], rule, *lines[1:]))

    def to_latex(self) -> str:
        """Return a LaTeX table with the content of `to_markdown`; it needs the package booktabs.

        Returns
        -------
        str
        """
        rows = [" & ".join(map(_escape_latex, row)) + r" \\" for row in (_HEADINGS, *map(_describe, self))]
        begin, end = rf"\begin{{tabular}}{{ll{'r' * (len(_HEADINGS) - 2)}}}", r"\end{tabular}"
        return "\n".join([begin, r"\toprule", rows[0], r"\midrule", *rows[1:], r"\bottomrule", end])


def _describe(row: Comparison) -> tuple[str, ...]:
    """Return the cells of a comparison."""
    p = "< 0.001" if row.p_t_holm < 0.001 else f"{row.p_t_holm:.3f}"
    means = f"{row.mean:.4f}", f"{row.baseline_mean:.4f}", f"{row.difference:+.4f}"
    return row.model, row.metric, *means, f"{row.low:+.4f} to {row.high:+.4f}", p


def _align(row: list[str], widths: list[int]) -> list[str]:
    """Return cells of the same widths: two of text to the left, numbers to the right."""
    return [
        cell.ljust(width) if at < 2 else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def _escape_latex(text: str) -> str:
    """Return text whose special characters LaTeX prints as they are."""
    escaped = "".join(_LATEX.get(letter, letter) for letter in text)
    return escaped.replace("<", r"$<$").replace(">", r"$>$")

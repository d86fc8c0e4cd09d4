"""Tables of comparisons: the numbers, and the escapes of each format."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

import prorec
from prorec.evaluation import Comparison, Comparisons

ODD = r"a|b_50%, \x{$&#~^}" + '"q"'
ROWS = Comparisons(
    [
        Comparison("told", "ndcg@10", 0.25, 0.24, 0.01, 0.004, 0.016, 0.001, 0.002, 0.0123456789, 0.004),
        Comparison(ODD, "recall@10", 1 / 3, 0.5, -1 / 6, -0.2, -0.1, 1e-9, 1e-9, 2e-9, 2e-9),
    ]
)


def test_compare_returns_a_table_of_the_same_numbers() -> None:
    parts = prorec.split_by_user(prorec.make_cinema(80, 60, seed=0).interactions, (0.7, 0.3))
    models = {"nce": prorec.models.NCE(rank=4), "popular": prorec.models.Popularity()}
    results = {name: prorec.evaluate(model.fit(parts.train), parts.test, k=5) for name, model in models.items()}
    found = prorec.compare(results, "popular", metrics=["ndcg@5", "recall@5"])
    assert [(row.model, row.metric) for row in found] == [("nce", "ndcg@5"), ("nce", "recall@5")]
    assert found[0].mean == results["nce"].mean["ndcg@5"]
    assert f"{found[0].difference:+.4f}" in repr(found) == str(found) == found.to_markdown()


def test_csv_and_tables_hold_every_digit(tmp_path: Path) -> None:
    text = ROWS.to_csv()
    assert text is not None
    read = [
        {name: value if name in ("model", "metric") else float(value) for name, value in row.items()}
        for row in csv.DictReader(io.StringIO(text))
    ]
    assert read == [asdict(row) for row in ROWS] == ROWS.to_table("pandas").to_dict("records")
    assert ROWS.to_csv(tmp_path / "t.csv") is None
    assert (tmp_path / "t.csv").read_text("utf-8") == text
    with pytest.raises(prorec.InputError, match="nowhere"):
        ROWS.to_csv(tmp_path / "nowhere" / "t.csv")
    assert ROWS.to_table().num_rows == 2


def test_markdown() -> None:
    lines = ROWS.to_markdown().splitlines()
    assert len({len(line) for line in lines}) == 1
    assert len(lines) == 4
    assert r"a\|b_50%" in lines[3]
    assert [cell.strip() for cell in lines[2].strip("|").split("|")] == [
        "told", "ndcg@10", "0.2500", "0.2400", "+0.0100", "+0.0040 to +0.0160", "0.012",
    ]  # fmt: skip
    assert "< 0.001" in lines[3]


def test_latex_escapes_what_latex_would_read() -> None:
    text = ROWS.to_latex()
    assert text.splitlines()[0] == r"\begin{tabular}{llrrrrr}"
    assert text.splitlines()[-1] == r"\end{tabular}"
    assert r"a|b\_50\%, \textbackslash{}x\{\$\&\#\textasciitilde{}\textasciicircum{}\}" in text
    assert "$<$ 0.001" in text
    assert [line.count(" & ") for line in text.splitlines() if line.endswith(r"\\")] == [6, 6, 6]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs LaTeX")
def test_latex_compiles(tmp_path: Path) -> None:
    body = rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}{ROWS.to_latex()}\end{{document}}"
    (tmp_path / "t.tex").write_text(body)
    subprocess.run(["pdflatex", "-halt-on-error", "t.tex"], cwd=tmp_path, check=True, capture_output=True)


def test_no_comparison_at_all() -> None:
    assert len(Comparisons().to_markdown().splitlines()) == 2
    assert Comparisons().to_csv() == ",".join(Comparison.__dataclass_fields__) + "\n"

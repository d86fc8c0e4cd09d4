"""The manual is built from nothing, and not one warning is let through."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import prorec

ROOT = Path(__file__).parent.parent
PAGES = """
    index getting-started installation first-five-minutes notebooks/cinema notebooks/movielens-100k
    guides/index guides/csv guides/data-frames guides/other-libraries guides/keep-your-model guides/large-data
    guides/spark guides/audit guides/parameters report models
    how-it-works denoising noise transport
    reference/index reference/interactions reference/denoising reference/models reference/transport reference/evaluation
    reference/tuning reference/report reference/spark reference/errors
    command-line data-formats data-sets splits-and-noise metrics
    gallery guides/messy-log
    results-overview results more-results noise-benchmark performance benchmarks benchmark-history
    spark-sizing
    contributing architecture adding-a-model stability changelog glossary
""".split()
_LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"'](?:https?:)?//[^>]*>")


def test_the_manual(tmp_path: Path) -> None:
    """One test, because there is one build: half a minute would be a minute in two workers."""
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-j", "1", "-W", "--keep-going", "-q"]
    built = subprocess.run(
        [*command, "-d", str(tmp_path / "doctrees"), "docs", str(tmp_path / "html")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert not built.stderr.strip(), built.stderr

    pages = {name: tmp_path / "html" / f"{name}.html" for name in PAGES}
    assert [name for name, page in pages.items() if not page.exists()] == []
    text = {name: page.read_text() for name, page in pages.items()}
    loaded = [(name, found) for name, page in text.items() for found in _LOADED.findall(page)]
    assert loaded == [], "something would be fetched when the page is read"

    first = text["index"].partition("</article>")[0].partition("<article")[2]
    first = re.sub(r"<[^>]+>", "", re.sub(r'<img[^>]*src="([^"]*)"', r"\1<", first))
    order = [first.index(each) for each in ("pip install", "find_noise", "prorec check", "grep -m 3", "report.png")]
    assert order == sorted(order), "the first screen: install, Python, shell, and the picture"
    assert 'href="command-line.html"' in text["index"].partition("<article")[0], "in the menu"
    assert "copy.js" in text["index"]
    assert text["gallery"].count("<img") >= 12

    assert text["how-it-works"].count('class="formula"') >= 8
    assert all(f'"formula-number">({number})' in text["how-it-works"] for number in (2, 3, 4, 7, 20, 22, 23))
    assert "<math" in text["guides/parameters"]
    assert "AUROC 0." in text["notebooks/cinema"], "what a notebook printed is on its page"
    assert prorec.ProRec.annotate.__doc__ is not None
    first_line = prorec.ProRec.annotate.__doc__.splitlines()[0]
    assert first_line.partition(":")[0] in text["reference/denoising"]
    assert "Maximum number of relabel-and-refit rounds." in text["reference/denoising"], "fields have their own words"
    assert "Add a data set" in text["contributing"], "CONTRIBUTING.md is included"

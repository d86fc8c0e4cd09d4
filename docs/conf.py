"""How the manual is built: `make docs`. Nothing is fetched, neither when it is built nor when it is read."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx import addnodes

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))  # the docstrings beside these pages, not some others
import prorec

project = "prorec"
author = "The prorec authors"
copyright = author  # without a year, so that the same pages give the same bytes
version = release = prorec.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["figures"]
suppress_warnings: list[str] = []  # a warning is an error; there is none to be silent about

# ── pages ───────────────────────────────────────────────────────────────────────────────────────────────────────────

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3  # so that links such as noise.md#what-it-finds go where they go on GitHub
nb_execution_mode = "off"  # notebooks keep what they printed; tests/test_notebooks.py runs them again
nb_render_markdown_format = "myst"

html_theme = "pydata_sphinx_theme"
html_title = f"prorec {release}"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["manual.css"]
html_theme_options = {
    "header_links_before_dropdown": 8,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

# ── the reference, from docstrings ──────────────────────────────────────────────────────────────────────────────────

default_role = "code"  # one pair of backticks is code, as in Markdown
add_module_names = False
toc_object_entries_show_parents = "hide"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True}
napoleon_google_docstring = False
napoleon_use_param = False  # so that parameters which share their words stay together
napoleon_use_rtype = False
napoleon_preprocess_types = False

_FIELDS = ("Parameters", "Attributes")
_FIELD = re.compile(r"(?P<names>[\w*]+(, [\w*]+)*)( : (?P<words>[^{].*))?")


def _as_numpydoc(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """What our docstrings leave out, and napoleon needs.

    Behind a parameter's name and a colon stands what it means, where numpydoc has a type. And what comes after the
    parameters, an example or a remark, has no heading.
    """
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]  # what is before a colon in the first line would be a type: an empty comment goes first
    given, section = list(lines), ""
    lines.clear()
    for line, below in zip(given, [*given[1:], ""], strict=True):
        if line and below == "-" * len(line):
            section = line
        elif section in _FIELDS and line[:1].strip() and line.strip("-"):
            field = _FIELD.fullmatch(line)
            if field and field["words"]:
                lines += [field["names"], f"    {field['words']}"]
                continue
            if not field and " : {" not in line:
                section = "Examples" if line.startswith(">>>") else "Notes"
                lines += [section, "-" * len(section), ""]
        elif section and section != "Examples" and line.startswith(">>>"):
            section = "Examples"
            lines += [section, "-" * len(section), ""]
        lines.append(line)


def _short(types: str) -> str:
    """Arrays as they are written in the code, not as numpy spells them out."""
    spelled_out = r"[~\w.]*ndarray\[tuple\[[~\w.]*Any, \.\.\.\], [~\w.]*dtype\[([~\w.]+(?:\[[~\w.]+\])?)\]\]"
    return re.sub(spelled_out, r"NDArray[\1]", types)


def _short_signature(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    # A default that is made anew for each object has no value that could be parsed.
    return signature and _short(signature).replace("<factory>", "..."), returns and _short(returns)


def _tidied(app: Any, doctree: nodes.document, page: str) -> None:
    """Types of attributes in short, too. And no empty last lines: blocks have one for the sake of doctest."""
    for types in doctree.findall(addnodes.desc_annotation):
        if _short(types.astext()) != types.astext():
            types.children = [nodes.Text(_short(types.astext()))]
    for block in doctree.findall(nodes.literal_block):
        if block.astext().endswith("\n"):
            block.rawsource = block.astext().rstrip("\n")
            block.children = [nodes.Text(block.rawsource)]


# ── formulas, as MathML: browsers draw it by themselves, so no script has to come from elsewhere ────────────────────


def _inline_math(writer: Any, node: nodes.math) -> None:
    writer.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def _block_math(writer: Any, node: nodes.math_block) -> None:
    r"""A formula, with the number that \\tag{…} gives it on the right."""
    formula = re.sub(r"\\tag\{(.*?)\}", "", node.astext())
    number = re.search(r"\\tag\{(.*?)\}", node.astext())
    tag = f'<span class="formula-number">({number[1]})</span>' if number else ""
    writer.body.append(f'<div class="formula">{tex2mathml(formula, as_block=True)}{tag}</div>\n')
    raise nodes.SkipNode


html_math_renderer = "mathml"


def setup(app: Any) -> dict[str, Any]:
    """Make them known to Sphinx."""
    app.connect("autodoc-process-docstring", _as_numpydoc, priority=100)  # before napoleon
    app.connect("autodoc-process-signature", _short_signature)
    app.connect("doctree-resolved", _tidied)
    app.add_html_math_renderer("mathml", (_inline_math, None), (_block_math, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Settings of the manual, which `make docs` builds. Neither the build nor a page of the manual downloads anything."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx import addnodes

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))  # the source beside these pages, not an installed copy
import prorec

project = "prorec"
author = "The prorec authors"
copyright = author  # without a year, so that builds are reproducible
version = release = prorec.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["figures"]
suppress_warnings: list[str] = []  # no warning is suppressed: the build treats each as an error

# ── pages ───────────────────────────────────────────────────────────────────────────────────────────────────────────

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3  # anchors of headings are those of GitHub
nb_execution_mode = "off"  # notebooks are stored with their output; tests/test_notebooks.py runs them
nb_render_markdown_format = "myst"

html_theme = "pydata_sphinx_theme"
html_title = f"prorec {release}"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["manual.css"]
html_js_files = ["copy.js"]
html_theme_options = {
    "header_links_before_dropdown": 8,
    "navigation_with_keys": False,
    "navbar_persistent": [],
    "navbar_end": ["search-button", "theme-switcher"],
    "secondary_sidebar_items": {"**": ["page-toc"], "glossary": []},  # wide tables need the room
    "footer_start": ["copyright"],
    "footer_end": [],
}

# ── the reference, from docstrings ──────────────────────────────────────────────────────────────────────────────────

default_role = "code"  # one pair of backticks is code, as in Markdown
add_module_names = False
toc_object_entries_show_parents = "hide"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
autodoc_mock_imports = ["pyspark"]  # the reference needs its names only; so the manual builds without Spark and Java
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True}
napoleon_google_docstring = False
napoleon_use_param = False  # keeps parameters together that share a description
napoleon_custom_sections = [("Attributes", "params_style")]  # as plain text: properties have entries of their own
napoleon_use_rtype = False
napoleon_preprocess_types = False


def _protect_first_line(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Put an empty comment first: napoleon reads the text before a colon in the first line as a type."""
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]


def _shorten(types: str) -> str:
    """Shorten array types to the form used in the code."""
    spelled_out = r"[~\w.]*ndarray\[tuple\[[~\w.]*Any, \.\.\.\], [~\w.]*dtype\[([~\w.]+(?:\[[~\w.]+\])?)\]\]"
    return re.sub(spelled_out, r"NDArray[\1]", types)


def _shorten_signature(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    # Sphinx cannot parse <factory>, the default of a field with a default_factory.
    return signature and _shorten(signature).replace("<factory>", "..."), returns and _shorten(returns)


def _tidy_page(app: Any, doctree: nodes.document, page: str) -> None:
    """Shorten types of attributes, and remove the empty last line that doctest needs in a block."""
    for types in doctree.findall(addnodes.desc_annotation):
        if _shorten(types.astext()) != types.astext():
            types.children = [nodes.Text(_shorten(types.astext()))]
    for block in doctree.findall(nodes.literal_block):
        if block.astext().endswith("\n"):
            block.rawsource = block.astext().rstrip("\n")
            block.children = [nodes.Text(block.rawsource)]


# ── formulas, as MathML, which browsers draw without a script ───────────────────────────────────────────────────────


def _inline_math(writer: Any, node: nodes.math) -> None:
    writer.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def _block_math(writer: Any, node: nodes.math_block) -> None:
    r"""Write a formula, with the number of its \\tag{…} on the right."""
    formula = re.sub(r"\\tag\{(.*?)\}", "", node.astext())
    number = re.search(r"\\tag\{(.*?)\}", node.astext())
    tag = f'<span class="formula-number">({number[1]})</span>' if number else ""
    writer.body.append(f'<div class="formula">{tex2mathml(formula, as_block=True)}{tag}</div>\n')
    raise nodes.SkipNode


html_math_renderer = "mathml"


def setup(app: Any) -> dict[str, Any]:
    """Connect the functions above to Sphinx."""
    app.connect("autodoc-process-docstring", _protect_first_line, priority=100)  # before napoleon
    app.connect("autodoc-process-signature", _shorten_signature)
    app.connect("doctree-resolved", _tidy_page)
    app.add_html_math_renderer("mathml", (_inline_math, None), (_block_math, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

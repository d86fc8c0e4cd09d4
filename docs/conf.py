"""How the manual is built: `make docs`. Nothing is fetched, neither when it is built nor when it is read."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

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
myst_dmath_double_inline = True
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
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_preprocess_types = False

_SECTION = re.compile(r"^(Parameters|Returns|Notes|Examples)$")
_PARAMETER = re.compile(r"^(?P<names>[\w*]+(, [\w*]+)*) : (?P<words>[^{].*)$")


def _words_are_no_types(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Here a parameter's name is followed by what it means; numpydoc, and so napoleon, expects a type there."""
    if what in ("attribute", "data", "property"):
        lines.insert(0, "")  # napoleon takes what is before a colon in the first line for a type
    inside, given = False, list(lines)
    lines.clear()
    for at, line in enumerate(given):
        if _SECTION.match(line) and given[at + 1 : at + 2] == ["-" * len(line)]:
            inside = line == "Parameters"
        found = _PARAMETER.match(line) if inside else None
        lines += [found["names"], f"    {found['words']}"] if found else [line]


def _short_types(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Arrays as they are written in the code, not as numpy spells them out."""

    def short(text: str | None) -> str | None:
        return text and re.sub(r"ndarray\[tuple\[Any, \.\.\.\], dtype\[(\w+)\]\]", r"NDArray[\1]", text)

    return short(signature), short(returns)


def _without_last_line(app: Any, doctree: nodes.document) -> None:
    """Blocks end with an empty line, so that a doctest knows where its output ends; nobody has to see it."""
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
    app.connect("autodoc-process-docstring", _words_are_no_types, priority=100)  # before napoleon
    app.connect("autodoc-process-signature", _short_types)
    app.connect("doctree-read", _without_last_line)
    app.add_html_math_renderer("mathml", (_inline_math, None), (_block_math, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

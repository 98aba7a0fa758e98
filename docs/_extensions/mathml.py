"""Formulas as MathML, which browsers draw themselves: no script, no network, and readers can copy them."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number


def inline(page: Any, node: nodes.math) -> None:
    """A formula within a sentence."""
    page.body.append(f'<span class="math">{convert(node.astext())}</span>')
    raise nodes.SkipNode


def block(page: Any, node: nodes.math_block) -> None:
    """A formula on lines of its own, with its number where it has one."""
    page.body.append(page.starttag(node, "div", CLASS="math math-block"))
    if node.get("number"):
        page.body.append(f'<span class="eqno">({get_node_equation_number(page, node)})</span>')
    page.body.append(convert(node.astext(), display="block"))
    page.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx asks for this."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""The page: HTML that needs nothing from anywhere else, for a phone, a desk and paper."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from ulmus._numbers import number
from ulmus.plots.axes import readable
from ulmus.report.scripts import THRESHOLD, WHAT_IF

STYLE = """
:root{color-scheme:light dark;--ink:#1a1a1a;--paper:#fff;--link:#0b4f8a;--line:#ccc;--soft:#f3f3f3;--quiet:#444;
--note:#fff7e8}
*{box-sizing:border-box}
body{margin:0 auto;max-width:62rem;padding:1rem;font:1rem/1.5 system-ui,sans-serif;color:var(--ink);
background:var(--paper)}
h1{font-size:1.6rem;line-height:1.2;margin:.5rem 0}
h2{font-size:1.2rem;margin:2rem 0 .5rem;padding-top:.5rem;border-top:2px solid var(--ink)}
p,li{max-width:44rem}
nav{display:flex;flex-wrap:wrap;gap:.25rem 1rem;font-size:.9rem;margin:.5rem 0 1rem}
a{color:var(--link)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums;margin:.5rem 0}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
td.n,th.n{text-align:right}
.wide td,.wide th{white-space:nowrap;max-width:22rem;overflow:hidden;text-overflow:ellipsis}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,19rem),1fr));gap:1rem}
figure{margin:.5rem 0}
figure svg{width:100%;height:auto;display:block}
figcaption,.small{font-size:.85rem;color:var(--quiet)}
pre{overflow-x:auto;background:var(--soft);padding:.75rem;font-size:.85rem}
.note{border-left:4px solid #b36b00;padding:.25rem .75rem;background:var(--note)}
#tip{position:fixed;display:none;max-width:18rem;padding:.4rem .6rem;background:#1a1a1a;color:#fff;font-size:.85rem;
pointer-events:none;border-radius:.25rem;z-index:9;white-space:pre-line}
figure.map{max-width:44rem}
.entry{display:inline-block}svg.icon,figure svg.icon{width:1em;height:1em;display:inline-block;vertical-align:-.1em}
.map g[tabindex]:focus{outline:none}
.map g[tabindex]:focus>*{stroke:#000;stroke-width:2.5}
.panel{border:1px solid var(--line);border-radius:.4rem;padding:.75rem;margin:.5rem 0}
.panel label{display:inline-flex;flex-wrap:wrap;align-items:center;gap:.4rem;margin:.2rem 1rem .2rem 0}
.panel input[type=number]{width:6rem;font:inherit}
.panel output{display:block;font-weight:600;margin:.4rem 0}
@media screen and (prefers-color-scheme:dark){:root{--ink:#e8e8e8;--paper:#16181b;--link:#8cc4ff;--line:#444;
--soft:#22262b;--quiet:#b5b5b5;--note:#3a2d12}
figure svg{filter:invert(1) hue-rotate(180deg)}}
@media print{nav,#tip{display:none!important}body{max-width:none;padding:0;font-size:10pt}
section,figure,table{break-inside:avoid}h2{break-after:avoid}}
"""

SCRIPT = """
(function(){var tip=document.getElementById('tip');
function show(e){var g=e.target.closest&&e.target.closest('[data-tip]');
if(!g){tip.style.display='none';return}
tip.textContent=g.getAttribute('data-tip');tip.style.display='block';
var b=g.getBoundingClientRect(),w=tip.offsetWidth,h=tip.offsetHeight;
tip.style.left=Math.max(4,Math.min(b.left+10,innerWidth-w-4))+'px';
tip.style.top=(b.top>h+12?b.top-h-8:b.bottom+8)+'px'}
['pointerover','click','focusin'].forEach(function(k){document.addEventListener(k,show)});
document.addEventListener('scroll',function(){tip.style.display='none'},true)})();
"""

#: Nothing may be fetched, whatever a cell of the table says.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class Section:
    """A headed part of the page."""

    key: str
    title: str
    body: str


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The whole document."""
    links = "".join(f'<a href="#{s.key}">{escape(s.title)}</a>' for s in sections)
    parts = "".join(f'<section id="{s.key}"><h2>{escape(s.title)}</h2>{s.body}</section>' for s in sections)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{STYLE}</style></head><body>'
        f"<h1>{escape(title)}</h1>{lead}<nav>{links}</nav><main>{parts}</main>"
        f'<div id="tip" role="status"></div><script>{SCRIPT}{THRESHOLD}{WHAT_IF}</script></body></html>'
    )


def paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Numbers to the right; wide tables scroll on their own."""
    wide = ' class="wide"' if len(header) > 4 else ""
    numeric = [bool(rows) and all(isinstance(row[j], int | float) for row in rows) for j in range(len(header))]
    mark = [' class="n"' if n else "" for n in numeric]
    head = "".join(f"<th{m}>{escape(h)}</th>" for h, m in zip(header, mark, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{m}>{escape(cell(c))}</td>" for c, m in zip(row, mark, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table{wide}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else number(value)


def plain(value: Any) -> str:
    """A value of a table, in few characters."""
    if value is None or value is pd.NaT or (isinstance(value, float | np.floating) and np.isnan(value)) or value == "":
        return "–"
    if isinstance(value, pd.Timestamp):
        return f"{value:%Y-%m-%d}" if value == value.normalize() else f"{value:%Y-%m-%d %H:%M}"
    return cell(float(value)) if isinstance(value, float | np.floating) else str(value)[:40]


def figure(drawing: Any, alternative: str, caption: str = "") -> str:
    """A matplotlib figure as inline SVG, with its description for those who cannot see it."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    readable(*drawing.axes)
    out = io.StringIO()
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": alternative, "font.family": "sans-serif"}
    with mpl.rc_context(settings):
        drawing.savefig(
            out, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None, "Creator": None}
        )
    plt.close(drawing)
    svg = out.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    width = float(re.search(r'<svg[^>]*? width="([\d.]+)', svg)[1])  # type: ignore[index]
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', rf'\1 role="img" aria-label="{escape(alternative)}"', svg, count=1)
    note = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure style="max-width:{1.5 * width:.0f}px">{svg}{note}</figure>'


def figures(*parts: str) -> str:
    return f'<div class="figures">{"".join(parts)}</div>'

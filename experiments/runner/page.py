"""One self-contained page: tables, figures as SVG, notes and how to run it again. No script, no network."""

import io
import re
from html import escape
from typing import Any

from experiments.runner.protocol import Experiment, Table

STYLE = """
:root { color-scheme: light dark; --line: #8886; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 0 auto; padding: 1rem; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .75rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
th { border-bottom-width: 2px; } figure { margin: 1.5rem 0; } figcaption { font-size: .9rem; }
figure svg { width: 100%; height: auto; background: #fff; } code { overflow-wrap: anywhere; }
nav a { margin-right: 1rem; } @media print { body { max-width: none; } figure { break-inside: avoid; } }
"""


def page(shown: list[tuple[Experiment, list[Table], dict[str, Any]]], facts: dict[str, Any]) -> str:
    """The page of these experiments."""
    body = [f"<h1>{escape(facts['title'])}</h1>", f"<p>{escape(facts['date'])}. {escape(facts['machine'])}.</p>"]
    if facts["command"]:
        body.append(f"<p>Run again: <code>{escape(facts['command'])}</code></p>")
    body.append(f"<p>{escape(_commits(facts['commits']))}</p>")
    if facts["quick"]:
        body.append("<p><strong>A quick run:</strong> few repetitions on the data that come with the package.</p>")
    links = "".join(f'<a href="#{e.name}">{escape(e.title)}</a> ' for e, _, _ in shown)
    body.append(f"<nav>{links}</nav>")
    for experiment, tables, figures in shown:
        body.append(f'<section id="{experiment.name}"><h2>{escape(experiment.title)}</h2>')
        body.append(f"<p>{escape(experiment.citation)}</p>")
        body += [_table(table) for table in tables]
        for number, (caption, figure) in enumerate(figures.items()):
            picture = svg(figure, f"{experiment.name}{number}-")
            body.append(f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>")
        if experiment.notes:
            notes = "".join(f"<li>{escape(note)}</li>" for note in experiment.notes)
            body.append(f"<h3>Where figures differ, and why</h3><ul>{notes}</ul>")
        body.append("</section>")
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    body.append(f"<footer><p>{escape(versions)}</p></footer>")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>Ulmus: {escape(facts['title'])}</title><style>{STYLE}</style></head>"
        f"<body>\n{chr(10).join(body)}\n</body></html>\n"
    )


def _commits(commits: dict[str, int]) -> str:
    """Which code the measurements are of."""
    if not commits:
        return "Nothing was measured."
    if len(commits) == 1:
        return f"Measured at commit {next(iter(commits))}."
    counted = ", ".join(f"{count:,} at {name}" for name, count in commits.items())
    return f"Measurements are of several commits: {counted}."


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in table.header)
    rows = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in table.rows)
    notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    return (
        f'<h3>{escape(table.title)}</h3><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>" + (f"<ul>{notes}</ul>" if notes else "")
    )


def svg(figure: Any, prefix: str = "") -> str:
    """A matplotlib figure as an SVG element whose names start with ``prefix``, so that several fit on one page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight")
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    return re.sub(r'(\bid="|xlink:href="#|url\(#)', rf"\g<1>{prefix}", text)

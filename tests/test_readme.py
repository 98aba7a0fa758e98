"""The documents tell the truth: their Python runs, and what they show behind a line is what the line gives."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

from data import cases

ROOT = Path(__file__).parent.parent
DOCUMENTS = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
#: Shown scores are rounded to two digits; two standard errors of a coverage over some 1,200 rows, or of an accuracy.
TOLERANCE = 0.02


def python_of(document):
    """All fenced Python of a document: later blocks use the names of earlier ones."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", document.read_text(), re.DOTALL | re.MULTILINE))


def shown_results(code):
    """``(line, value)`` of each ``expression  # literal``; other comments are prose."""
    for line, comment in re.findall(r"^(\S.*?)  # (.+)$", code, re.MULTILINE):
        try:
            yield line, ast.literal_eval(comment)
        except (ValueError, SyntaxError):
            continue


PYTHON = [document for document in DOCUMENTS if python_of(document)]
#: Those whose models take a second and more; ``make test-all`` runs them.
LONG = ("adaptive.md", "discriminant.md", "index.md", "online.md", "reasons.md", "robust.md", "start.md")


@pytest.mark.usefixtures("few_resamples", "undrawn")
@pytest.mark.parametrize("document", cases(PYTHON, *(d for d in PYTHON if d.name not in LONG)), ids=lambda d: d.name)
def test_python_in_the_documents_runs_and_gives_what_is_shown(document):
    code, names = python_of(document), {}
    exec(compile(code, document.name, "exec"), names)
    for line, shown in shown_results(code):
        given = eval(line, names)
        if isinstance(shown, float):
            assert np.isclose(given, shown, rtol=0, atol=TOLERANCE), f"{line} gives {given}, not {shown}"
        else:
            assert given == shown, f"{line} gives {given}, not {shown}"


def test_readme_shows_results():
    assert len(list(shown_results(python_of(DOCUMENTS[0])))) >= 3

"""The documents hang together: links lead somewhere, every public name is listed, every guide opens as guides do."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import ulmus

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md"))]
GUIDES = re.findall(r"^(?!guide)([a-z-]+)$", (DOCS / "guide.md").read_text(encoding="utf-8"), re.MULTILINE)
#: Modules whose ``__all__`` is public beside that of the package.
MODULES = ("datasets", "distributed", "explain", "metrics", "onnx", "streaming", "persistence", "serving", "tables")


def prose(document):
    """A document without its code."""
    return re.sub(r"^(```|:::).*?^\1.*?$", "", document.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def slug(heading):
    """The anchor of a heading, as GitHub and MyST make it."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(document):
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", prose(document), re.MULTILINE)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_a_file_and_to_a_heading_in_it(document):
    text = re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        found = (document.parent / path) if path else document
        assert found.exists(), f"{target}: no such file"
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), f"{target}: no such heading"


def listed():
    """Names in the API document, as a user would write them after ``ulmus.``."""
    return re.findall(r"^   ([A-Za-z][\w.]*)$", (DOCS / "api.rst").read_text(encoding="utf-8"), re.MULTILINE)


def public():
    """Classes and functions that are announced."""
    names = [name for name in ulmus.__all__ if not inspect.ismodule(getattr(ulmus, name))]
    for module in MODULES:
        home = importlib.import_module(f"ulmus.{module}")
        announced = (
            name
            for name in home.__all__
            if inspect.isclass(getattr(home, name)) or inspect.isroutine(getattr(home, name))
        )
        names += [f"{module}.{name}" for name in announced if name not in ulmus.__all__]
    return names


def test_every_public_name_is_in_the_api_document_once():
    assert not set(public()) - set(listed())
    assert len(listed()) == len(set(listed()))


def test_every_name_in_the_api_document_exists_and_is_documented():
    for name in listed():
        module, _, last = f"ulmus.{name}".rpartition(".")
        found = getattr(importlib.import_module(module), last)
        assert inspect.getdoc(found), name


@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_opens_with_what_when_an_example_and_a_picture(guide):
    opening = (DOCS / f"{guide}.md").read_text(encoding="utf-8").split("\n## ")[0]
    assert "**What.**" in opening
    assert "**When.**" in opening
    assert "```" in opening
    assert "](images/" in opening


def test_all_guides_are_known():
    assert len(GUIDES) == 15


@pytest.mark.parametrize(
    "name",
    [name for name in ulmus.__all__ if isinstance(getattr(ulmus, name), type) and hasattr(getattr(ulmus, name), "fit")],
)
def test_an_estimator_has_notes_with_its_formula_says_what_else_there_is_and_documents_its_methods(name):
    estimator = getattr(ulmus, name)
    parts = dict(zip(*[iter(re.split(r"\n *([A-Z][A-Za-z ]*)\n *-{3,}\n", estimator.__doc__)[1:])] * 2))
    assert {"Parameters", "Attributes", "See Also", "Notes", "Examples"} <= set(parts)
    assert name == "TableEncoder" or re.search(":math:|.. math::", parts["Notes"])
    for other in re.findall(r"^ *(\w+) : ", parts["See Also"], re.MULTILINE):
        assert hasattr(ulmus, other), other
    own = (f for m, f in inspect.getmembers(estimator, inspect.isfunction) if not m.startswith("_"))
    assert all(f.__doc__ for f in own if f.__module__.startswith("ulmus"))


def test_the_first_pages_read_without_a_build():
    """A code host shows directives and roles as they stand, and has no gallery."""
    for page in (ROOT / "README.md", DOCS / "start.md", DOCS / "choose.md"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"\{\w+\}`|^(```|:::+)\{|gallery/", text, re.MULTILINE), page.name
        for target in re.findall(r"\]\(([^)#\s]+\.md)", text if page.name == "README.md" else ""):
            assert (ROOT / target).read_text(encoding="utf-8").startswith("# "), f"{target} opens with a directive"

"""Links of the built documentation: ``python tools/check_docs.py docs/_build/html``.

Every link to a page of ours leads to a page, and to an anchor that it has; nothing is fetched from elsewhere to show a
page.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: What a browser fetches by itself, and the attribute that says from where.
FETCHED = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "audio": "src",
    "video": "src",
}
#: Relations of ``<link>`` that fetch nothing.
IDLE = {"canonical", "search", "next", "prev", "index", "up", "author", "license"}


class Page(HTMLParser):
    """What a page links to, what it fetches, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.fetched: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if given.get(name))
        if tag == "a" and given.get("href"):
            self.links.add(given["href"])
        if tag in FETCHED and given.get(FETCHED[tag]) and not IDLE & set(given.get("rel", "").split()):
            self.fetched.add(given[FETCHED[tag]])


def check(root: Path) -> list[str]:
    """All that is wrong, one line each."""
    pages = {
        path.resolve(): Page(path.read_text(encoding="utf-8"))
        for path in sorted(root.rglob("*.html"))
        if "_static" not in path.parts
    }
    wrong = []
    for path, page in pages.items():
        here = path.relative_to(root.resolve())
        wrong += [f"{here} fetches {link}" for link in sorted(page.fetched) if urlsplit(link).netloc]
        for link in sorted(page.links | page.fetched):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                wrong.append(f"{here} links to {link}, which is no file")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                wrong.append(f"{here} links to {link}, which is no place on that page")
    return wrong if pages else [f"no pages in {root}"]


if __name__ == "__main__":
    found = check(Path(sys.argv[1]))
    print(*found, sep="\n")
    sys.exit(bool(found))

"""Make a release of a tag: ``python tools/release.py v0.2.0 [--repository URL] [--date 2026-12-01]``.

The version is that of the tag, in every file that names one; the changes so far become those of the version. With the
address of the repository the package names it, and the links of the README, which stands on the registry's page alone,
lead there. The workflow ``publish.yml`` runs this on the tag; run it yourself, and commit, to see it before.
"""

import argparse
import datetime
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def replaced(text: str, pattern: str, by: str, what: str) -> str:
    """The text with the one place that matches replaced."""
    found, count = re.subn(pattern, lambda _: by, text, count=1, flags=re.MULTILINE)
    if not count:
        raise SystemExit(f"{what}: nothing matches {pattern!r}")
    return found


def absolute_links(readme: str, repository: str, tag: str) -> str:
    """The README with links and pictures that lead into the repository, at the tag."""
    pictures = re.sub(r"(!\[[^\]]*\]\()(?!https?:)", rf"\g<1>{repository}/raw/{tag}/", readme)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?!https?:|#)", rf"\g<1>{repository}/blob/{tag}/", pictures)


def changed(root: Path, tag: str, date: str, repository: str | None) -> dict[str, str]:
    """The files of a release, by name."""
    if not re.fullmatch(r"v\d+\.\d+\.\d+((a|b|rc)\d+)?", tag):
        raise SystemExit(f"a tag is v1.2.3, or v1.2.3rc1, got {tag!r}")
    version = tag[1:]
    names = (
        "pyproject.toml",
        "src/ulmus/__init__.py",
        "CITATION.cff",
        "CHANGELOG.md",
        "README.md",
        "conda/recipe.yaml",
    )
    files = {name: (root / name).read_text(encoding="utf-8") for name in names}
    put = {
        "pyproject.toml": (r'^version = ".*"$', f'version = "{version}"'),
        "src/ulmus/__init__.py": (r'^__version__ = ".*"$', f'__version__ = "{version}"'),
        "CITATION.cff": (r"^version: .*$", f"version: {version}\ndate-released: {date}"),
        "conda/recipe.yaml": (r"^  version: .*$", f'  version: "{version}"'),
    }
    if f"## {version} - unreleased" in files["CHANGELOG.md"]:
        put["CHANGELOG.md"] = (rf"^## {re.escape(version)} - unreleased$", f"## {version} - {date}")
    elif f"## {version} - " not in files["CHANGELOG.md"]:
        put["CHANGELOG.md"] = (r"^## Unreleased$", f"## Unreleased\n\n## {version} - {date}")
    for name, (pattern, by) in put.items():
        files[name] = replaced(files[name], pattern, by, name)
    if repository:
        files["README.md"] = absolute_links(files["README.md"], repository, tag)
        urls = {"Repository": "", "Documentation": f"/blob/{tag}/docs/start.md", "Issues": "/issues"}
        urls["Changelog"] = f"/blob/{tag}/CHANGELOG.md"
        lines = "\n".join(f'{name} = "{repository}{path}"' for name, path in urls.items())
        files["pyproject.toml"] = replaced(
            files["pyproject.toml"],
            r"^\[project\.scripts\]$",
            f"[project.urls]\n{lines}\n\n[project.scripts]",
            "pyproject.toml",
        )
        files["CITATION.cff"] += f"repository-code: {repository}\n"
    return files


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tag")
    parser.add_argument("--repository", help="its address, such as https://host/owner/ulmus")
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    given = parser.parse_args()
    for name, text in changed(ROOT, given.tag, given.date, given.repository).items():
        (ROOT / name).write_text(text, encoding="utf-8")

"""A release: one version everywhere, that of the tag; wheels with the package and nothing else."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import ulmus
from tools.check_wheel import check
from tools.release import absolute_links, changed

ROOT = Path(__file__).parent.parent
WORKFLOWS = ROOT / ".github" / "workflows"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_one_version_stands_everywhere():
    version = PROJECT["version"]
    assert ulmus.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f'\n  version: "{version}"\n' in (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")


def test_a_tag_names_the_version_in_every_file():
    files = changed(ROOT, "v7.8.9", "2030-01-02", "https://example.org/elm/ulmus")
    project = tomllib.loads(files["pyproject.toml"])["project"]
    assert project["version"] == "7.8.9"
    assert project["urls"]["Repository"] == "https://example.org/elm/ulmus"
    assert project["scripts"] == PROJECT["scripts"]
    assert '__version__ = "7.8.9"' in files["src/ulmus/__init__.py"]
    assert "version: 7.8.9\ndate-released: 2030-01-02\n" in files["CITATION.cff"]
    assert "## Unreleased\n\n## 7.8.9 - 2030-01-02\n" in files["CHANGELOG.md"]
    assert '  version: "7.8.9"' in files["conda/recipe.yaml"]
    assert not re.findall(r"\]\((?!https?:|#)", files["README.md"])


def test_a_version_that_the_changelog_prepares_gets_its_date():
    text = changed(ROOT, f"v{PROJECT['version']}", "2030-01-02", None)["CHANGELOG.md"]
    assert f"\n## {PROJECT['version']} - 2030-01-02\n" in text
    assert "unreleased" not in text.split("## 0.1.0")[0]


def test_workflows_name_what_is_there():
    """They parse, run targets of the Makefile and tools that exist, and test the versions that the package names."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    files = {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in WORKFLOWS.glob("*.yml")}
    assert set(files) == {"ci.yml", "docs.yml", "publish.yml"}
    jobs = [job for file in files.values() for job in file["jobs"].values()]
    for step in (step for job in jobs for step in job["steps"]):
        assert "uses" in step or "run" in step
        for word in re.findall(r"\bmake ([a-z-]+)", step.get("run", "")):
            assert word in targets
        for tool in re.findall(r"tools/\w+\.py", step.get("run", "")):
            assert (ROOT / tool).exists()
    assert set(files["ci.yml"]["jobs"]["corners"]["strategy"]["matrix"]["corner"]) <= targets
    classifiers = {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", c)}
    assert set(files["ci.yml"]["jobs"]["test"]["strategy"]["matrix"]["python"]) == classifiers
    assert files["publish.yml"]["jobs"]["publish"]["permissions"] == {"id-token": "write"}


def test_links_of_the_readme_lead_into_the_repository():
    text = "![p](docs/p.svg) [a](docs/a.md#b) [c](https://d.org) [e](#f)"
    raw, blob = "https://h/o/r/raw/v1.0.0", "https://h/o/r/blob/v1.0.0"
    expected = f"![p]({raw}/docs/p.svg) [a]({blob}/docs/a.md#b) [c](https://d.org) [e](#f)"
    assert absolute_links(text, "https://h/o/r", "v1.0.0") == expected


def test_what_is_no_version_is_refused():
    with pytest.raises(SystemExit, match=r"a tag is v1\.2\.3"):
        changed(ROOT, "latest", "2030-01-02", None)


def test_conda_needs_what_the_package_needs():
    recipe = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    run = re.search(r"  run:\n((?:    - .*\n)+)", recipe).group(1)
    needed = {re.sub(r"\s", "", line.removeprefix("    - ")) for line in run.splitlines()}
    assert needed == {*PROJECT["dependencies"], f"python{PROJECT['requires-python']}"}


def wheel(folder, *names):
    path = folder / f"ulmus-{PROJECT['version']}-cp311-abi3-linux_x86_64.whl"
    core = "ulmus/_core.abi3.so"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("ulmus/py.typed", "ulmus/demo.py", "ulmus/datasets/data/wine.npz", core, *names):
            archive.writestr(name, "")
    return path


def test_a_wheel_holds_the_package_and_nothing_else(tmp_path):
    assert check(wheel(tmp_path)) == []
    assert check(wheel(tmp_path, "experiments/x.py", "ulmus/tests/test_x.py")) == [
        "experiments/x.py is not the library's",
        "ulmus/tests/test_x.py belongs into the repository",
    ]


def test_importing_and_listing_data_asks_no_network_and_loads_no_matplotlib():
    code = (
        "import socket\n"
        "def refuse(*given, **named): raise OSError('asked the network')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse\n"
        "import ulmus\n"
        "for name in ulmus.__all__: getattr(ulmus, name)\n"
        "import sys\n"
        "assert not any('matplotlib' in name for name in sys.modules)\n"
        "ulmus.datasets.list(); ulmus.datasets.load('wine')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

"""Where and with what something was measured: machine, versions, commit."""

import os
import platform
import re
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

#: The clone.
ROOT = Path(__file__).parents[2]
PACKAGES = (
    *("ulmus", "numpy", "scipy", "scikit-learn", "lightgbm", "mord", "skordinal", "pyoselm", "river", "xrfm"),
    *("gfdl", "hpelm", "catboost", "xgboost", "chimeraboost", "pytabkit", "bencheval"),
)


def installed(package: str) -> str:
    """The version of a package, or that it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def versions() -> str:
    """Versions of Python and of all that is compared."""
    return ", ".join(
        [f"Python {platform.python_version()}", *(f"{package} {installed(package)}" for package in PACKAGES)]
    )


def machine() -> str:
    """Processor, cores and memory."""
    try:
        model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        name = model[1].strip() if model else platform.machine()
        memory = f", {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except OSError:
        name, memory = platform.processor() or platform.machine(), ""
    return f"{name}, {os.cpu_count()} cores{memory}"


def environment() -> dict[str, str]:
    """The environment in which a new process finds the modules that this one has."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@cache
def commit() -> str:
    """The commit of the code in this clone, with a + where the code has been changed since."""

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)

    try:
        found = git("rev-parse", "--short=10", "HEAD")
        if found.returncode:
            return "unknown"
        changed = git("diff", "--quiet", "HEAD", "--", "src", "experiments/*.py").returncode
    except OSError:  # no git here
        return "unknown"
    return found.stdout.strip() + ("+" if changed else "")

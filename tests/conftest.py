"""Settings of the test run, and the browser that opens pages."""

import os
import shutil
import subprocess

import pytest
from hypothesis import settings

# Properties are tried on the same examples in every run, however slow the machine is.
settings.register_profile("steady", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("steady")


def pytest_collection_modifyitems(config, items):
    """Keep the share of the tests that ``TEST_SHARE=k/n`` names: ``tools/test.py`` runs n processes.

    A share is every n-th test; those that wait for a fixture of their module stay together, so that it is made once.
    """
    k, n = map(int, os.environ.get("TEST_SHARE", "0/1").split("/"))
    if n == 1:
        return
    modules = sorted({item.nodeid.split("::")[0] for item in items})
    mine = [(modules.index(item.nodeid.split("::")[0]) if _waits(item) else i) % n == k for i, item in enumerate(items)]
    config.hook.pytest_deselected(items=[item for item, kept in zip(items, mine, strict=True) if not kept])
    items[:] = [item for item, kept in zip(items, mine, strict=True) if kept]


def _waits(item):
    """Whether a test uses a fixture of its module that is made once for several tests."""
    info = getattr(item, "_fixtureinfo", None)
    found = [] if info is None else [defs[-1] for defs in info.name2fixturedefs.values()]
    return any(fixture.baseid.endswith(".py") and fixture.scope != "function" for fixture in found)


CHROMIUM = next(
    (found for found in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if found), None
)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--hide-scrollbars", "--enable-logging=stderr"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Chromium without a window: ``browser(*options, url=...)`` gives the finished process."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium, which is no Python package")
    profile = tmp_path_factory.mktemp("profile")

    def run(*options, url):
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *options, url]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    return run

"""Settings of the test run, and what takes long to start: a browser, models of the command line."""

import gc
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

# There is a process for every core: threads of BLAS and OpenMP would wait for each other. NumPy is not loaded yet.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# Properties are tried on the same examples in every run, however slow the machine is; on fewer without the slow tests.
settings.register_profile("steady", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("brief", settings.get_profile("steady"), max_examples=40)


def pytest_configure(config):
    if core := os.environ.get("ULMUS_CORE"):  # another build of the compiled core than that beside the package
        spec = spec_from_file_location("ulmus._core", core)
        sys.modules["ulmus._core"] = module_from_spec(spec)
    settings.load_profile("brief" if config.option.markexpr == "not slow" else "steady")


def pytest_collection():
    """What is imported and collected is no garbage: looking for some among it takes a quarter of the time."""
    gc.disable()


def pytest_collection_finish():
    """Take what was imported and collected, half a million objects, out of every later collection of garbage."""
    gc.enable()
    gc.collect()
    gc.freeze()


CHROMIUM = next(
    (found for found in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if found), None
)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--hide-scrollbars", "--enable-logging=stderr"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


@pytest.fixture
def two_blas_threads():
    """BLAS as users have it, for claims about its threads."""
    with threadpool_limits(2, "blas"):
        yield


@pytest.fixture
def unscored(monkeypatch):
    """No further fits that score those of few rows, for tests of predictions: intervals would be of other fits."""
    from ulmus.models import few_rows

    monkeypatch.setattr(few_rows, "FEW_ROWS", 0)
    monkeypatch.setattr(few_rows, "CROWDED_ROWS", 0)


@pytest.fixture
def brief(monkeypatch):
    """Models that search, cut and leave parts out as ever, with small numbers throughout."""
    from ulmus.models import few_rows
    from ulmus.models._effort import EFFORTS, Effort
    from ulmus.tuning.view_budget import Budget

    budget = Budget(100, 20, 150, 20, rounds=1, rounds_again=1, final_landmarks=(30, 30), kernels=1)
    plan = Effort(budget, 20, 60, 60, 2, 4, grows=False, quick=True)
    monkeypatch.setitem(EFFORTS, "fast", plan)
    more = replace(budget, rounds=2, kernels=2)
    monkeypatch.setattr(few_rows, "PARTS", 2)
    monkeypatch.setitem(EFFORTS, "default", replace(plan, budget=more, numbers=more, grows=True, quick=False))


@pytest.fixture
def few_resamples(monkeypatch):
    """Intervals of scores from a tenth of the resamples, for tests that ask what is shown and not how wide they are."""
    monkeypatch.setattr("ulmus.measures.RESAMPLES", 20)


@pytest.fixture
def undrawn(monkeypatch):
    """Figures are made and not drawn, for tests of the words around them."""
    from matplotlib.figure import Figure

    monkeypatch.setattr(Figure, "savefig", lambda self, out, **_: out.write('<svg height="1pt" width="1pt"></svg>'))


@pytest.fixture
def full_disk():
    """``with full_disk(n):`` no file grows beyond n bytes: a write breaks off in the middle, as on a full disk."""
    resource = pytest.importorskip("resource")

    @contextmanager
    def limited(size):
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, before)

    return limited


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


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Tables, and a model of each task by the command line, for all files that only read them."""
    from test_cli import people
    from ulmus.cli import main

    folder = tmp_path_factory.mktemp("cli")
    frame = people()
    frame.drop(columns="kind").to_csv(folder / "price.csv", index=False)
    frame.drop(columns="price").to_csv(folder / "kind.csv", index=False)
    people(60, seed=1).drop(columns="kind").to_csv(folder / "new.csv", index=False)
    fit = ["fit", str(folder / "kind.csv"), "--target", "kind", "--effort", "fast", "--no-baselines"]
    price = ["fit", str(folder / "price.csv"), "--target", "price", "--effort", "fast", "--no-baselines"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ulmus.measures.RESAMPLES", 20)
        assert main([*price, "-o", str(folder / "price.ulmus")]) == 0
        assert main([*fit, "-o", str(folder / "kind.ulmus")]) == 0
        assert main([*fit, "--categories", "low,mid,high", "-o", str(folder / "order.ulmus")]) == 0
    return folder

"""Every program of the gallery runs; `make docs` runs all of them too."""

import runpy
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from data import cases

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("plot_*.py"))
#: Those that take longest; ``make test-all`` runs them.
LONG = (
    *("plot_00_raw_frame", "plot_01_no_arguments", "plot_03_exact_and_landmarks", "plot_07_outliers"),
    *("plot_11_adaptive", "plot_14_effects", "plot_15_quantiles", "plot_16_sets", "plot_19_what_if", "plot_20_far"),
)


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.mark.parametrize(
    "example", cases(EXAMPLES, *(e for e in EXAMPLES if e.stem not in LONG)), ids=lambda path: path.stem
)
def test_an_example_runs_and_draws(example):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runpy.run_path(str(example))
    assert plt.get_fignums()


def test_there_are_at_least_twenty():
    assert len(EXAMPLES) >= 20

"""The benchmarks' own arithmetic: what they print must be true before it can be believed."""

import sys
from pathlib import Path

import numpy as np
import pytest

from ulmus import RandomLayer

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import harness
import memory
import rivals


def test_a_section_replaces_only_its_namesake(tmp_path):
    report = tmp_path / "RESULTS.md"
    for key, text in (("a", "first"), ("b", "other"), ("a", "second")):
        section = harness.Section(key, "title")
        section.say(text)
        harness.write_section(report, section)
    written = report.read_text()
    assert "first" not in written
    assert written.index("second") < written.index("other")
    assert written.count("## (a)") == 1


def test_every_repetition_runs_every_job_and_ratios_are_within_repetitions():
    order = []
    timings = harness.interleave({name: lambda name=name: order.append(name) for name in "ab"}, 3)
    assert order == ["a", "b", "b", "a", "a", "b"]
    timings["a"].seconds, timings["b"].seconds = [1.0, 10.0, 1.0], [2.0, 20.0, 8.0]
    assert timings["b"].ratio_to(timings["a"]) == 2.0


def test_peak_memory_counts_what_was_alive_at_once():
    def work():
        for _ in range(3):
            np.ones(5_000_000)  # 40 MB each, never two at a time

    assert 36 < memory.peak_above_now(work) < 60


@pytest.mark.parametrize("stand_in", [rivals.Pinv, rivals.SyrkCholesky])
def test_stand_ins_solve_the_least_squares_problem(stand_in):
    rng = np.random.RandomState(0)
    X, T = rng.standard_normal((2500, 5)), rng.standard_normal((2500, 2))
    model = stand_in(RandomLayer(20, random_state=0).fit(X)).fit(X, T)
    expected = np.linalg.lstsq(model.hidden(X), T, rcond=None)[0]
    np.testing.assert_allclose(model.hidden(X) @ model.beta, model.hidden(X) @ expected, atol=1e-7)

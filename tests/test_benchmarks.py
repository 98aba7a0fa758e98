"""The benchmarks' own arithmetic: what they print must be true before it can be believed."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV

from data import cases
from experiments import tasks
from experiments.contestants import elm
from experiments.runner import measure, report
from experiments.runner.facts import ROOT, commit
from experiments.sections import (
    SECTIONS,
    Entry,
    adaptive,
    growth,
    ordinal_accuracy,
    problems,
    tuning_search,
)
from experiments.sections import __main__ as sections_main
from experiments.suites.arena import expected_calibration_error
from ulmus import RandomLayer, datasets


def test_a_section_replaces_only_its_namesake(tmp_path):
    file = tmp_path / "RESULTS.md"
    for key, text in (("a", "first"), ("b", "other"), ("a", "second")):
        section = report.Section(key, "title")
        section.say(text)
        report.write_section(file, key, section.answer("python -m experiments.sections")["text"])
    written = file.read_text()
    assert "first" not in written
    assert written.index("second") < written.index("other")
    assert written.count("## (a)") == 1


def test_every_repetition_runs_every_job_and_ratios_are_within_repetitions():
    order = []
    timings = measure.interleave({name: lambda name=name: order.append(name) for name in "ab"}, 3)
    assert order == ["a", "b", "b", "a", "a", "b"]
    timings["a"].seconds, timings["b"].seconds = [1.0, 10.0, 1.0], [2.0, 20.0, 8.0]
    assert timings["b"].ratio_to(timings["a"]) == 2.0


def test_peak_memory_counts_what_was_alive_at_once():
    def work():
        for _ in range(3):
            np.ones(5_000_000)  # 40 MB each, never two at a time

    assert 36 < measure.peak_above_now(work) < 60


@pytest.mark.parametrize("stand_in", [elm.Pinv, elm.SyrkCholesky])
def test_stand_ins_solve_the_least_squares_problem(stand_in):
    rng = np.random.RandomState(0)
    X, T = rng.standard_normal((2500, 5)), rng.standard_normal((2500, 2))
    model = stand_in(RandomLayer(20, random_state=0).fit(X)).fit(X, T)
    expected = np.linalg.lstsq(model.hidden(X), T, rcond=None)[0]
    np.testing.assert_allclose(model.hidden(X) @ model.beta, model.hidden(X) @ expected, atol=1e-7)


@pytest.mark.parametrize(("load", "regression"), [(load_iris, False), (load_diabetes, True)])
def test_the_fast_search_scores_every_cell_as_grid_search_does(load, regression):
    X, y = load(return_X_y=True)
    task = tasks.Task("", "regression" if regression else "classification", X, y, X, y).scaled("standardised")
    plan = tuning_search.Plan(2.0 ** np.arange(-5, 21, 5), 2.0 ** np.arange(-5, 6, 5), 30, 2, 1)
    grid = {"features__gamma": plan.gamma, "ridge__alpha": 1 / plan.C}
    rival = GridSearchCV(tuning_search.pipeline(regression, 30), grid, cv=tuning_search.folds_of(task))
    record = rival.fit(task.X, task.y).cv_results_
    expected = np.stack([record[f"split{k}_test_score"] for k in range(5)], axis=-1).reshape(3, 6, 5)
    np.testing.assert_allclose(tuning_search.all_scores(task, plan, n_jobs=1), expected, atol=1e-6)


def test_calibration_error_is_the_mean_gap_between_confidence_and_accuracy():
    P = np.array([[0.9, 0.1], [0.9, 0.1], [0.3, 0.7], [0.5, 0.5]])
    right = np.array([True, False, True, False])  # gaps of the bins: 2 × 0.4, 1 × 0.3, 1 × 0.5
    assert expected_calibration_error(P, right) == pytest.approx((0.8 + 0.3 + 0.5) / 4)
    assert expected_calibration_error(np.eye(2), np.ones(2)) == 0


def test_a_random_split_divides_the_rows():
    task = tasks.random_split("satimage", 0)
    assert (len(task.X), len(task.X_test), task.regression) == (4290, 2145, False)
    divided = np.concatenate([task.X, task.X_test])
    np.testing.assert_array_equal(np.sort(divided, axis=0), np.sort(datasets.load("satimage").data, axis=0))
    small = tasks.random_split("satimage", 0, 100, 50)
    assert (len(small.X), len(small.X_test)) == (100, 50)


def test_quantile_classes_have_equal_frequency():
    y = np.random.RandomState(0).normal(size=1000)
    np.testing.assert_array_equal(np.bincount(problems.quantile_classes(y))[1:], 200)
    assert problems.quantile_classes(np.array([0.0, 0.0, 0.0, 1.0, 2.0, 3.0]), 2).tolist() == [1, 1, 1, 2, 2, 2]


def test_the_documents_figures_are_those_of_its_table():
    assert {title: n for title, (_, n, _) in ordinal_accuracy.PRINTED.items()} == {
        "Pyrim5": 50,
        "CC5": 125,
        "Cal5": 150,
        "Census5": 175,
        "Census*5": 200,
    }
    mae = {title: figures["KELMOR"][1] for title, (_, _, figures) in ordinal_accuracy.PRINTED.items()}
    assert mae == {"Pyrim5": 0.602, "CC5": 0.435, "Cal5": 0.616, "Census5": 0.740, "Census*5": 0.741}
    assert len(ordinal_accuracy.REAL) == len(set(ordinal_accuracy.REAL)) == 20


@pytest.mark.parametrize("name", ["100 rows", "categories only"])
def test_adaptive_models_warn_of_odd_tables(name):
    found = adaptive.measure(name, "fast", quick=True)
    assert found["error"] < 0.4
    assert found["seconds"] > 0
    assert found["megabytes"] > 0


def test_every_section_has_a_function():
    for entry in SECTIONS.values():
        source = (Path(adaptive.__file__).parent / f"{entry.module}.py").read_text()
        assert f"\ndef {entry.function}(section: Section, options: Options) -> None:" in source


def test_sections_of_the_report_can_be_run_again():
    headings = re.findall(r"^## \((\w+)\) (.+)$", (ROOT / "experiments" / "RESULTS.md").read_text(), re.MULTILINE)
    assert {key: SECTIONS[key].title for key, _ in headings} == dict(headings)
    assert len(headings) == len(SECTIONS) >= 30


def test_a_section_resumes_and_one_that_fails_leaves_the_others_alone(tmp_path, monkeypatch, capsys):
    calls = []

    def good(section, options):
        section.say(f"the answer is {section.kept('part', lambda: calls.append('part') or 42)}")
        if len(calls) == 1:
            raise KeyboardInterrupt

    def bad(section, options):
        raise ZeroDivisionError("by nothing")

    entries = {"1": Entry("Good", "made", "good", 2), "2": Entry("Bad", "made", "bad", 1)}
    monkeypatch.setattr(sections_main, "SECTIONS", entries)
    monkeypatch.setitem(sys.modules, "experiments.sections.made", SimpleNamespace(good=good, bad=bad))
    out = tmp_path / "R.md"
    monkeypatch.setattr(
        sys, "argv", ["sections", "--only", "2,1", "--out", str(out), "--cells", str(tmp_path / "cells")]
    )
    with pytest.raises(KeyboardInterrupt):
        sections_main.main()
    calls.append("resumed")
    assert sections_main.main() == 1
    assert sections_main.main() == 1
    assert calls == ["part", "resumed"]
    assert "the answer is 42" in out.read_text()
    assert f"commit {commit()}" in out.read_text()
    assert "(2) was not measured: failed (ZeroDivisionError: by nothing)" in capsys.readouterr().err


@pytest.mark.parametrize("way", cases(["memory", "stream"], "stream"))
def test_growth_measures_a_fit_to_the_same_rows(way):
    found = growth.job(way, "500")
    X, y = growth.table(500)
    model = growth.AdaptiveRegressor(random_state=0).fit(X, y)
    Q, target = growth.block(10**6, growth.TEST_ROWS)
    assert found["error"] == pytest.approx(np.sqrt(np.mean((model.predict(Q) - target) ** 2)), rel=1e-6)
    assert found["seconds"] > 0

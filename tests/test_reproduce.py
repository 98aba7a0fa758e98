"""The documents' experiments: cells are kept, tables and pages follow from them."""

import io
import itertools
import json
import os
import re
from functools import partial
from importlib import import_module

import numpy as np
import pytest

from data import cases
from experiments.reproduce import EXPERIMENTS
from experiments.reproduce.kelmor import equal_frequency
from experiments.runner import Cache, Cell, Experiment, NotHere, Results, Settings, Table, Unavailable, run
from experiments.runner.guard import guarded, within
from pages import figures_of
from runner_cells import a_cell, ends_itself


def toy(calls, fail=None):
    """An experiment of four cells that counts how often each is computed."""

    def work(k):
        calls.append(k)
        if k == fail:
            raise KeyboardInterrupt
        if k == 3:
            raise Unavailable("too large")
        return {"error": np.float64(k), "curve": np.arange(3)}

    def cells(settings):
        for k in range(4):
            yield Cell(f"set/{k}", lambda k=k: work(k))

    def tables(results, settings):
        return [Table("Errors", ["what", "here"], [["mean", results.mean("set/", "error")]], ["a <note>"])]

    def figures(results, settings):
        import matplotlib.pyplot as plt

        figure, ax = plt.subplots()
        ax.plot(results.under("set/0")[0]["curve"])
        plt.close(figure)
        return {"A curve": figure, "The same": figure}

    return Experiment("toy", "Toy", "Nobody (2000).", cells, tables, figures, ("differs <because>",))


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    calls = []
    with pytest.raises(KeyboardInterrupt):
        run([toy(calls, fail=2)], tmp_path)
    assert calls == [0, 1, 2]
    run([toy(calls)], tmp_path)
    assert calls == [0, 1, 2, 2, 3]
    run([toy(calls)], tmp_path)
    assert calls == [0, 1, 2, 2, 3]


def many_cells(count, work=a_cell):
    empty = {"tables": lambda *_: [], "figures": lambda *_: {}}
    cells = [Cell(f"set/{k}", partial(work, k), limit=None) for k in range(count)]
    return Experiment("many", "Many", "Nobody (2000).", lambda _: iter(cells), **empty)


def kept_answers(folder):
    return json.loads((folder / "results.json").read_text())["experiments"]["many"]["cells"]


def test_cells_run_side_by_side_each_on_one_core(tmp_path):
    run([many_cells(6)], tmp_path / "one")
    run([many_cells(6)], tmp_path / "two", jobs=2)
    one, two = kept_answers(tmp_path / "one"), kept_answers(tmp_path / "two")
    assert list(one) == list(two)
    assert [a.get("error") for a in one.values()] == [a.get("error") for a in two.values()] == [0, 1, 2, None, 4, 5]
    assert two["set/3"] == {"missing": "too large"}
    there = [a for a in two.values() if "process" in a]
    assert os.getpid() not in {a["process"] for a in there}
    assert {a["threads"] for a in there} == {1}
    calls = []
    run([many_cells(6, calls.append)], tmp_path / "two", jobs=2)
    assert not calls


def test_a_process_that_ends_by_itself_is_reported_and_nothing_is_lost(tmp_path):
    run([many_cells(2)], tmp_path)
    with pytest.raises(MemoryError, match="fewer --jobs"):
        run([many_cells(4, ends_itself)], tmp_path, jobs=2)
    run([many_cells(4)], tmp_path)
    assert [a.get("error") for a in kept_answers(tmp_path).values()] == [0, 1, 2, None]


@pytest.mark.parametrize(
    "damage", cases([b"", b"{", b'{"key": "other", "answer": {}}', b"\xff\xfe"], b"{", b"\xff\xfe")
)
def test_a_damaged_answer_is_computed_again(tmp_path, damage):
    calls = []
    run([toy(calls)], tmp_path)
    for file in (tmp_path / "cells").glob("*.json"):
        file.write_bytes(damage)
    run([toy(calls)], tmp_path)
    assert calls == [0, 1, 2, 3] * 2


def test_answers_of_other_settings_are_not_taken(tmp_path):
    calls = []
    run([toy(calls)], tmp_path)
    run([toy(calls)], tmp_path, Settings(quick=True))
    assert calls == [0, 1, 2, 3] * 2


def test_answers_survive_the_file(tmp_path):
    cache = Cache(tmp_path, "here")
    cache.put("a", {"x": np.float64(1.5), "y": np.arange(2), "z": [np.int64(3)], "t": "text"})
    assert cache.get("a") == {"x": 1.5, "y": [0, 1], "z": [3], "t": "text"}
    assert cache.get("b") is None
    assert Cache(tmp_path, "elsewhere").get("a") is None


def test_the_page_is_whole_and_asks_nobody(tmp_path):
    page = run([toy([])], tmp_path, command="ulmus reproduce <toy>").read_text()
    assert "ulmus reproduce &lt;toy&gt;" in page
    assert "differs &lt;because&gt;" in page
    assert page.count("<svg") == 2
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", re.sub(r"xlink:href", "link", page))
    names = re.findall(r'\bid="([^"]+)"', page)
    assert len(names) == len(set(names)), "names must differ from figure to figure"
    record = json.loads((tmp_path / "results.json").read_text())
    assert record["experiments"]["toy"]["cells"]["set/3"] == {"missing": "too large"}


def test_means_show_their_spread_and_what_is_missing():
    results = Results({"a/0": {"e": 1.0}, "a/1": {"e": 3.0}, "b/0": {"missing": "no data here"}})
    assert results.mean("a/", "e") == "2.000 ± 1.000"
    assert results.mean("b/", "e") == "no data here"
    assert results.mean("c/", "e") == "-"


def test_classes_of_equal_frequency_are_equally_frequent():
    counts = np.bincount(equal_frequency(np.random.RandomState(0).normal(size=1000)))
    assert counts.tolist() == [200] * 5


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_every_experiment_names_each_cell_once_and_explains_itself(name):
    experiment = EXPERIMENTS[name]
    for settings in (Settings(), Settings(quick=True)):
        keys = [cell.key for cell in experiment.cells(settings)]
        assert len(keys) == len(set(keys)) > 0
    assert experiment.notes
    assert experiment.citation


@pytest.fixture(scope="module")
def quick_page(tmp_path_factory):
    """The page of a quick run of all documents, without data beyond the package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ULMUS_DATA", raising=False)
        return run(EXPERIMENTS.values(), tmp_path_factory.mktemp("quick"), Settings(quick=True))


@pytest.mark.slow
def test_a_quick_run_needs_no_data_beyond_the_package(quick_page):
    record = json.loads((quick_page.parent / "results.json").read_text())
    for name in EXPERIMENTS:
        answers = record["experiments"][name]["cells"]
        assert answers
        reasons = {key: answer["missing"] for key, answer in answers.items() if "missing" in answer}
        assert all("not installed" in reason for reason in reasons.values()), reasons


@pytest.mark.slow
def test_a_browser_shows_every_figure_of_the_documents_without_a_console_error(quick_page, browser, tmp_path):
    console, wide, ink = figures_of(quick_page, browser, tmp_path)
    assert console == []
    assert wide == 0
    assert len(ink) == quick_page.read_text().count("<figure>") >= 9
    assert (ink > 1e-3).all()


def test_robust_losses_beat_tikhonov_on_sinc_with_outliers(tmp_path):
    cells = {c.key: c for c in EXPERIMENTS["newton"].cells(Settings(quick=True)) if c.key.startswith("sinc/")}
    results = Results({key: cell.run() for key, cell in cells.items()})
    plain = results.numbers("sinc/Tikhonov/", "rmse")
    for loss in ("polynomial", "square root"):
        assert (results.numbers(f"sinc/Newton, {loss}/", "rmse") < plain).all()


def fail():
    raise ZeroDivisionError("by nothing")


def test_a_cell_that_takes_too_long_is_ended_and_said_so():
    assert within(partial(dict, error=0.5), 60) == {"error": 0.5}
    endless = partial(sum, itertools.repeat(1))
    assert within(endless, 1) == {"missing": "took more than 1 s"}


def test_repetitions_of_what_took_too_long_are_not_tried(tmp_path, monkeypatch):
    tried = []

    def late(cell):
        tried.append(cell.key)
        return {"missing": "took more than 3 s"} if "slow" in cell.key else {"error": 1.0}

    monkeypatch.setattr(import_module("experiments.runner.workers"), "guarded", late)

    def cells(settings):
        for k in range(3):
            yield Cell(f"slow/{k}", fail, limit=3)
            yield Cell(f"quick/{k}", fail, limit=3)

    experiment = Experiment("toy", "Toy", "", cells, lambda r, s: [], lambda r, s: {})
    for _ in range(2):
        run([experiment], tmp_path)
    assert tried == ["slow/0", "quick/0", "quick/1", "quick/2"]


def test_what_fails_is_reported_and_tried_again(tmp_path):
    assert guarded(Cell("a", fail))["missing"] == "failed (ZeroDivisionError: by nothing)"
    experiment = Experiment("toy", "Toy", "", lambda s: iter([Cell("a", fail)]), lambda r, s: [], lambda r, s: {})
    run([experiment], tmp_path)
    assert not list((tmp_path / "cells").glob("*.json"))


def absent():
    raise NotHere


def no_package():
    raise ImportError("no module", name="rival")


@pytest.mark.parametrize(("work", "said"), [(absent, "no data here"), (no_package, "not installed (rival)")])
def test_what_may_be_there_the_next_time_is_tried_again(work, said, tmp_path):
    assert guarded(Cell("a", work))["missing"] == said
    experiment = Experiment("toy", "Toy", "", lambda s: iter([Cell("a", work)]), lambda r, s: [], lambda r, s: {})
    run([experiment], tmp_path)
    assert not list((tmp_path / "cells").glob("*.json"))


def test_the_page_says_at_which_commits_it_was_measured(tmp_path, monkeypatch):
    cache = import_module("experiments.runner.cache")
    monkeypatch.setattr(cache, "commit", lambda: "first")
    assert "Measured at commit first." in run([many_cells(2)], tmp_path).read_text()
    monkeypatch.setattr(cache, "commit", lambda: "second")
    page = run([many_cells(3)], tmp_path).read_text()
    assert "Measurements are of several commits: 2 at first, 1 at second." in page


def test_a_run_says_how_long_it_will_take(tmp_path):
    stream = io.StringIO()
    cells = [Cell(f"a/{k}", lambda: {"x": 1}, seconds=900) for k in range(4)]
    experiment = Experiment("toy", "Toy", "", lambda s: iter(cells), lambda r, s: [], lambda r, s: {})
    run([experiment], tmp_path, stream=stream)
    assert "4 of 4 cells to do, about 60 min on two cores" in stream.getvalue()


def test_a_browser_shows_every_figure_without_a_console_error(browser, tmp_path):
    page = run([toy([])], tmp_path)
    console, wide, ink = figures_of(page, browser, tmp_path)
    assert console == []
    assert wide == 0
    assert len(ink) == 2
    assert (ink > 1e-3).all()


def test_a_figure_that_is_not_shown_would_have_been_seen(browser, tmp_path):
    page = tmp_path / "hidden.html"
    page.write_text(
        "<body><figure><svg width='200' height='100' style='display:none'><rect width='99' height='9'/></svg></figure>"
        "<figure><svg width='200' height='100'></svg></figure><script>console.error('x')</script></body>"
    )
    console, _, ink = figures_of(page, browser, tmp_path)
    assert len(console) == 1
    assert ink.tolist() == [0.0, 0.0]

"""The documents' experiments: cells are kept, tables and pages follow from them."""

import json
import re

import numpy as np
import pytest

from ulmus.reproduce import EXPERIMENTS, Cell, Experiment, Results, Settings, Table, Unavailable, run
from ulmus.reproduce.cache import Cache
from ulmus.reproduce.kelmor import equal_frequency


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


@pytest.mark.parametrize("damage", [b"", b"{", b'{"key": "other", "answer": {}}', b"\xff\xfe"])
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


def test_means_tell_their_spread_and_what_is_missing():
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


@pytest.mark.parametrize("name", ["oselm", "newton"])
def test_a_quick_run_needs_no_data_beyond_the_package(name, tmp_path, monkeypatch):
    monkeypatch.delenv("ULMUS_DATA", raising=False)
    page = run([EXPERIMENTS[name]], tmp_path, Settings(quick=True))
    assert page == tmp_path / "index.html"
    record = json.loads((tmp_path / "results.json").read_text())
    answers = record["experiments"][name]["cells"].values()
    assert not any("missing" in answer for answer in answers)


def test_robust_losses_beat_tikhonov_on_sinc_with_outliers(tmp_path):
    cells = {c.key: c for c in EXPERIMENTS["newton"].cells(Settings(quick=True)) if c.key.startswith("sinc/")}
    results = Results({key: cell.run() for key, cell in cells.items()})
    plain = results.numbers("sinc/Tikhonov/", "rmse")
    for loss in ("polynomial", "square root"):
        assert (results.numbers(f"sinc/Newton, {loss}/", "rmse") < plain).all()

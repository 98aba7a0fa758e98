"""The suites: same splits for everybody, ranks and ratios as defined, rivals that are missing are reported."""

import json
import os
import pickle
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from time import sleep
from types import SimpleNamespace

import numpy as np
import pytest

import ulmus
from data import cases
from experiments import tasks
from experiments.contestants import ABLATIONS, CONTESTANTS
from experiments.runner import Results, Settings, Unavailable, run
from experiments.suites import SUITES, Suite
from experiments.tasks import MANY_TESTED, Task, load, load_contaminated, load_ordinal
from pages import figures_of
from ulmus.cli.experiments import anywhere


class Constant:
    """Predicts a constant."""

    def __init__(self, value):
        self.value = value

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.full(len(X), self.value)


def missing(task, seed):
    raise ImportError("no module", name="rival")


def too_large(task, seed):
    raise Unavailable("more than 10 rows")


def little(name, seed):
    y = np.array([0.0, 1.0, 2.0, 3.0])
    return Task(name, "regression", np.zeros((4, 1)), y, np.zeros((4, 1)), y)


SUITE = Suite(
    *("toy", "Toy", ("one", "two"), ("one",), ("ours",), ("theirs", "gone", "small")),
    load=little,
)


@pytest.fixture(scope="module", autouse=True)
def toys():
    """Contestants of the toy suite."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("ours", 1.5), ("less", 1.5), ("theirs", 0.0)):
            patch.setitem(CONTESTANTS, name, lambda task, seed, value=value: Constant(value))
        patch.setitem(CONTESTANTS, "gone", missing)
        patch.setitem(CONTESTANTS, "small", too_large)
        yield


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return run([SUITE.experiment()], tmp_path_factory.mktemp("bench"), title="Our models <and others>")


@pytest.fixture(scope="module")
def tables(page):
    record = json.loads((page.parent / "results.json").read_text())
    return {table["title"]: table for table in record["experiments"]["bench-toy"]["tables"]}


def test_a_suite_ranks_its_contestants(page, tables):
    name, rank, _, standing, _ = tables["Standing"]["rows"][0]
    assert (name, rank, standing) == ("ours", "1.00", "2/0/0")
    assert "Error against time" in page.read_text()
    assert "<h1>Our models &lt;and others&gt;</h1>" in page.read_text()


def test_ratios_are_against_the_best_rival_of_each_set():
    answers = {"one/ours/0": {"error": 1.02, "fit_seconds": 1.0}, "one/theirs/0": {"error": 1.0, "fit_seconds": 1.0}}
    answers |= {"two/ours/0": {"error": 0.5, "fit_seconds": 1.0}, "two/theirs/0": {"error": 1.0, "fit_seconds": 1.0}}
    table = SUITE._standing(Results(answers), Settings())
    assert table.rows[0][3] == "1/0/1"
    assert table.rows[0][4] == "0.760 (1.020)"


def test_without_rivals_the_first_of_ours_is_what_others_are_held_against():
    less = replace(SUITE, ours=("ours", "less"), rivals=())
    answers = {
        f"one/{who}/{s}": {"error": e + s, "fit_seconds": 1.0} for who, e in (("ours", 1), ("less", 2)) for s in (0, 1)
    }
    standing = less._standing(Results(answers), Settings())
    assert [row[3:] for row in standing.rows] == [["0/1/0", "1.000 (1.000)"], ["0/0/1", "1.667 (1.667)"]]
    assert standing.notes[0].endswith("are against ours.")
    deviation = less.tables(Results(answers), Settings())[1]
    assert deviation.rows[0] == ["one", "0.5", "0.5"]


def test_everybody_gets_the_same_split():
    first, again, other = load("abalone", 0), load("abalone", 0), load("abalone", 1)
    np.testing.assert_array_equal(first.X, again.X)
    assert (first.X[:100] != other.X[:100]).any()
    assert len(first.y) + len(first.y_test) == 4177


def test_ordinal_tasks_have_ranks_and_contaminated_ones_outliers_in_training_only():
    ranks = load_ordinal("abalone", 0)
    assert sorted(np.unique(ranks.y)) == [0, 1, 2, 3, 4]
    wild, clean = load_contaminated("abalone", 0), load("abalone", 0)
    assert 0.09 < (wild.y != clean.y).mean() <= 0.1
    np.testing.assert_array_equal(wild.y_test, clean.y_test)


def test_errors_are_in_their_units():
    y = np.array([0.0, 2.0])
    X = np.zeros((2, 1))
    assert Task("t", "regression", X, y, X, y).error(np.array([1.0, 1.0])) == 1.0
    assert Task("t", "classification", X, y, X, y).error(np.array([0.0, 1.0])) == 50.0
    assert Task("t", "ordinal", X, y, X, y).error(np.array([0.0, 1.0])) == 0.5


@pytest.mark.parametrize("name", cases(sorted(SUITES), *(name for name in SUITES if name not in ("core", "tabular"))))
def test_contestants_of_every_suite_can_be_made(name):
    suite = SUITES[name]
    task = suite.load("abalone", 0)
    small = Task(task.name, task.kind, task.X[:60], task.y[:60], task.X_test, task.y_test, task.categorical)
    made = 0
    for contestant in suite.everyone:
        try:
            model = CONTESTANTS[contestant](small, 0)
        except (ImportError, Unavailable):
            continue
        assert hasattr(model, "learn" if name == "online" else "fit")
        assert hasattr(model, "predict")
        made += 1
    assert made >= 4


def test_every_suite_shows_error_times_memory_ranks_wins_and_a_plot(tables):
    assert [title.split()[0] for title in tables] == [
        *("Error", "Deviation", "Seconds", "Seconds", "Megabytes", "Standing")
    ]
    assert tables["Standing"]["header"][1:4] == ["mean rank", "median seconds", "won/tied/lost"]
    for suite in SUITES.values():
        assert {key for _, key, _ in suite.columns} >= {"error", "fit_seconds", "predict_seconds", "megabytes"}


def test_who_is_missing_is_named_with_the_reason(tables):
    notes = next(iter(tables.values()))["notes"]
    assert notes == ["gone: not installed (rival) (one, two)", "small: more than 10 rows (one, two)"]


def test_a_browser_shows_the_page_without_a_console_error(page, browser, tmp_path):
    console, wide, ink = figures_of(page, browser, tmp_path)
    assert console == []
    assert wide == 0
    assert len(ink) == 1
    assert (ink > 1e-3).all()


def test_memory_is_that_of_the_fit(monkeypatch):
    class Hungry(Constant):
        def fit(self, X, y):
            held = np.ones(5_000_000)  # 40 MB
            sleep(0.3)  # long enough to be seen on a busy machine
            held.sum()
            return self

    monkeypatch.setitem(CONTESTANTS, "hungry", lambda task, seed: Hungry(0.0))
    suite = Suite("toy", "Toy", ("one",), ("one",), ("hungry",), (), load=little)
    answer = next(iter(suite.cells(Settings()))).run()
    assert 30 < answer["megabytes"] < 80


def test_sets_that_no_rival_finished_are_neither_won_nor_lost():
    table = SUITE._standing(Results({"one/ours/0": {"error": 1.0, "fit_seconds": 1.0}}), Settings())
    assert table.rows[0][3:] == ["0/0/0", "-"]


def test_a_part_of_the_contestants_can_run_and_a_stranger_is_named():
    few = SUITES["tabular"].of(["LightGBM", "Adaptive"])
    assert few.everyone == ("Adaptive", "LightGBM")
    assert SUITES["tabular"].of(sets=["adult"]).sets == ("adult",)
    with pytest.raises(ValueError, match="no contestant is called 'XGBoost'"):
        SUITES["tabular"].of(["XGBoost"])
    with pytest.raises(ValueError, match="no set of this suite is called 'iris'"):
        SUITES["tabular"].of(sets=["iris"])


def test_large_sets_and_other_contestants_run_on_one_split():
    suite = SUITES["tabular"]
    keys = [cell.key for cell in suite.cells(Settings())]
    assert sum(key.startswith("abalone/LightGBM/") for key in keys) == suite.seeds
    assert sum(key.startswith("abalone/MLP/") for key in keys) == 1
    assert sum(key.startswith("covtype/LightGBM/") for key in keys) == 1


def test_an_ablation_leaves_out_what_it_says():
    task = load("abalone", 0).first(600)
    plain = ABLATIONS["without the metric"](task, 0).fit(task.X, task.y)
    assert (plain.view_.metric == 1).all()
    assert ABLATIONS["without the local stage"](task, 0).fit(task.X, task.y).local_ is None
    standard = ABLATIONS["standardised only"](task, 0).fit(task.X, task.y)
    assert standard.view_.preparation.columns.kind == "standard"


def test_ablations_differ_from_the_default_in_one_thing_each():
    def plan(name):
        model = ABLATIONS[name](load("abalone", 0), 0)
        spent = asdict(model._spent)
        budget, numbers = spent.pop("budget"), spent.pop("numbers")
        return {**budget, **spent} | {("numbers", key): value for key, value in numbers.items()}

    default = plan("Adaptive")
    changes = {name: {key: value for key, value in plan(name).items() if value != default[key]} for name in ABLATIONS}
    assert changes.pop("Adaptive") == {}
    changed = {name: {k: v for k, v in change.items() if not isinstance(k, tuple)} for name, change in changes.items()}
    for name, change in changes.items():  # what is less for labels is less for numbers
        assert {k[1]: v for k, v in change.items() if isinstance(k, tuple)} in ({}, changed[name])
    assert all(len(change) == 1 for change in changed.values())
    assert changed["without the additive candidate"] == {"additive": False}
    assert changed["kernels compared on the rows of the metric"] == {"fresh": False}
    assert changed["the global model does not grow"] == {"grows": False}
    assert changed["leaves of one size"] == {"wide_leaf_rows": default["leaf_rows"]}


@pytest.mark.slow
def test_leaves_of_few_rows_are_wide_unless_they_are_of_one_size():
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, (1560, 2))  # one wide leaf, or two
    y = np.sign(np.sin(12 * X[:, 0]) * np.sin(12 * X[:, 1]))
    task = Task("board", "regression", X, y, X, y)
    largest = {}
    for name in ("Adaptive", "leaves of one size"):
        local = ABLATIONS[name](task, 0).fit(X, y).local_
        largest[name] = max(np.diff(partition.starts).max() for partition in local.partitions)
    assert largest["leaves of one size"] <= 1_500 < largest["Adaptive"] <= 1_600


@pytest.mark.parametrize("tested", [250, MANY_TESTED])
def test_a_small_official_split_serves_one_seed_and_a_large_one_all(monkeypatch, tested):
    n = 4 * tested
    split = np.arange(n) % 4 > 0
    given = SimpleNamespace(data=np.arange(n)[:, None], target=np.arange(n) % 2, task="classification", splits=(split,))
    monkeypatch.setattr(tasks, "datasets", SimpleNamespace(list=lambda: ["set"], load=lambda name: given))
    first, second = load("set", 0), load("set", 1)
    assert set(first.X_test[:, 0]) == set(np.flatnonzero(~split))
    assert (set(second.X_test[:, 0]) == set(first.X_test[:, 0])) == (tested >= MANY_TESTED)
    for task in (first, second):
        assert len(task.X_test) == tested
        assert sorted([*task.X[:, 0], *task.X_test[:, 0]]) == list(range(n))


@pytest.mark.parametrize("name", sorted(SUITES))
def test_cells_of_a_suite_survive_pickle_so_that_they_can_run_side_by_side(name):
    cell = next(iter(SUITES[name].cells(Settings(quick=True))))
    assert pickle.loads(pickle.dumps(cell)).key == cell.key


def test_every_suite_knows_its_contestants():
    for suite in SUITES.values():
        assert set(suite.everyone) <= set(CONTESTANTS)


def test_without_a_clone_the_experiments_say_where_to_get_them(tmp_path):
    installed = tmp_path / "lib" / "python" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "ulmus").symlink_to(Path(ulmus.__file__).parent)
    (tmp_path / "experiments").mkdir()  # somebody else's
    command = [sys.executable, "-m", "ulmus", "bench", "--quick", "--contestant", "NKELM"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(installed)}, capture_output=True, check=False
    )
    said = " ".join(done.stderr.decode().split())
    assert done.returncode == 2
    assert "clone the repository" in said
    assert "pip install --editable" in said


def test_in_a_clone_a_suite_runs_from_any_folder(tmp_path):
    command = [sys.executable, "-m", "ulmus", "bench", "--suite", "core", "--quick", "--jobs", "1"]
    command += ["--contestant", "NKELM", "--dataset", "abalone"]
    source = str(Path(ulmus.__file__).parents[1])
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": source}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    cells = json.loads((tmp_path / "bench" / "results.json").read_text())["experiments"]["bench-core"]["cells"]
    assert cells["abalone/NKELM/0"]["error"] < 1


def test_a_page_names_no_folder_of_the_machine_that_made_it():
    words = ["bench", "--data", "/somewhere/sets", "--out=/else", "--suite", "core"]
    assert anywhere(words) == ["bench", "--data", "FOLDER", "--out=FOLDER", "--suite", "core"]


def test_who_never_took_part_has_no_rank_and_takes_none(tables):
    rows = {row[0]: row[1:] for row in tables["Standing"]["rows"]}
    assert rows["gone"] == ["-"] * 4
    ranks = [float(row[0]) for row in rows.values() if row[0] != "-"]
    assert sum(ranks) == sum(range(1, len(ranks) + 1))

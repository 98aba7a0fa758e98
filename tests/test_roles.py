"""Roles of columns, folders and patterns, baselines: what `ulmus fit` is told beside the table."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

import ulmus
from data import cases
from ulmus.cli import main
from ulmus.cli.console import BAD_TABLE, OK, USAGE
from ulmus.cli.fit import scored_by
from ulmus.cli.roles import METRICS, Extras, Roles, divided
from ulmus.persistence import describe
from ulmus.scores import scores

pytestmark = [
    pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning"),
    pytest.mark.usefixtures("few_resamples"),
]
QUICK = ["--model", "nkelm", "--no-baselines"]
N = 160


def orders(n=N, seed=0):
    rng = np.random.RandomState(seed)
    frame = pd.DataFrame(
        {
            "key": [f"k{i}" for i in range(n)],
            "size": rng.normal(size=n).round(3),
            "code": rng.randint(0, 4, n),
            "note": rng.choice(["red box", "blue bag", "old red bag", "new box"], n),
            "day": pd.date_range("2024-01-01", periods=n).astype(str),
            "shop": rng.choice(list("abcdefgh"), n),
            "times": rng.randint(1, 4, n),
        }
    )
    frame["y"] = (frame["size"] + (frame["code"] == 2) + 0.1 * rng.normal(size=n)).round(4)
    return frame


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "orders.csv"
    orders().to_csv(path, index=False)
    return str(path)


def fitted(table, *options):
    out = table + ".ulmus"
    assert main(["fit", table, "--target", "y", "-o", out, *QUICK, *options]) == OK
    return describe(out).notes["table"], ulmus.load(out)


def test_columns_are_what_they_are_said_to_be(table):
    schema, model = fitted(table, "--drop", "day,times", "--categorical", "code", "--text", "note", "--id", "shop")
    assert {name: kind["name"] for name, kind in schema["columns"]} == {
        **{"size": "number", "code": "category", "note": "text"}
    }
    assert schema["left_out"]["day"] == "as asked"
    assert schema["left_out"]["shop"].startswith("looks like an identifier")
    assert model[0].kinds_["code"] == "category"


def test_weights_weigh_the_preparation_and_the_model(table):
    schema, weighed = fitted(table, "--weight", "times", "--drop", "key", "--holdout", "0")
    assert schema["left_out"]["times"] == "is the weight of the rows"
    frame = orders()
    rows = frame[["size", "code", "note", "day", "shop"]].assign(day=pd.to_datetime(frame["day"]))
    by_hand = {"columns__sample_weight": frame["times"], "model__sample_weight": frame["times"]}
    again = clone(weighed).fit(rows, frame["y"], **by_hand)
    np.testing.assert_allclose(weighed.predict(rows), again.predict(rows), rtol=1e-9)
    plain = clone(weighed).fit(rows, frame["y"])
    assert np.abs(weighed.predict(rows) - plain.predict(rows)).max() > 1e-3


def test_the_latest_rows_and_whole_groups_are_held_out():
    rng = np.random.RandomState(0)
    when, group = rng.randint(0, 50, 200).astype(float), rng.choice(list("abcdefg"), 200)
    fit, test = divided(np.zeros(200), Extras(when=when), "regression", 0.2, 0)
    assert when[fit].max() < when[test].min()
    assert 20 <= len(test) <= 60
    fit, test = divided(np.zeros(200), Extras(group=group), "regression", 0.2, 0)
    assert not set(group[fit]) & set(group[test])
    assert 20 <= len(test) <= 80
    assert sorted([*fit, *test]) == list(range(200))


def test_roles_on_the_command_line_divide_the_rows(table, capsys):
    fitted(table, "--time", "day")
    assert "scores on 32 held-out rows, trained on 128" in capsys.readouterr().out
    schema, _ = fitted(table, "--group", "shop")
    assert schema["left_out"]["shop"] == "names groups of rows"


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--drop", "siz"], BAD_TABLE, "column 'siz': no such column; did you mean 'size'?"),
        (["--weight", "note"], BAD_TABLE, "row 2, column 'note': a weight is missing or not a number"),
        (["--time", "note"], BAD_TABLE, "--time takes a column of dates or numbers"),
        (["--categorical", "y"], USAGE, "'y' is the target"),
        (["--categorical", "code", "--text", "code"], USAGE, "cannot be of the kinds 'category' and 'text' at once"),
        (["--metric", "auc"], USAGE, "--metric auc is not a metric for regression"),
        (["--numeric", "note"], BAD_TABLE, "--numeric cannot read"),
    ],
)
def test_wrong_roles_are_refused(table, capsys, options, code, words):
    assert main(["fit", table, "--target", "y", *QUICK, *options]) == code
    assert words in capsys.readouterr().err.replace("\n", " ")


def test_folders_and_patterns_are_tables(tmp_path, capsys):
    frame, folder = orders(), tmp_path / "parts"
    folder.mkdir()
    frame[:100].to_csv(folder / "a.csv", index=False)
    frame[100:].to_json(folder / "b.jsonl", orient="records", lines=True)
    (folder / "readme.md").write_text("no table")
    whole = tmp_path / "whole.csv"
    frame.to_csv(whole, index=False)
    models = {}
    for name, path in {"folder": folder, "pattern": f"{folder}/*.[cj]s*", "whole": whole}.items():
        out = tmp_path / f"{name}.ulmus"
        assert main(["fit", str(path), "--target", "y", "-o", str(out), *QUICK]) == OK
        models[name] = ulmus.load(out)
    rows = frame.drop(columns=["key", "y"]).assign(day=pd.to_datetime(frame["day"]))
    for name in ("folder", "pattern"):
        np.testing.assert_array_equal(models[name].predict(rows), models["whole"].predict(rows))
    answers = tmp_path / "answers.csv"
    assert main(["predict", str(tmp_path / "whole.ulmus"), str(folder), "-o", str(answers)]) == OK
    assert len(pd.read_csv(answers)) == N
    assert main(["predict", str(tmp_path / "whole.ulmus"), str(folder), "-o", str(folder / "a.csv")]) == USAGE
    assert len(pd.read_csv(folder / "a.csv")) == 100
    frame.assign(y="x")[100:].to_csv(folder / "b.csv", index=False)
    (folder / "b.jsonl").unlink()
    capsys.readouterr()
    assert main(["fit", str(folder), "--target", "y", "--task", "regression", *QUICK]) == BAD_TABLE
    assert "b.csv, row 2, column 'y'" in capsys.readouterr().err.replace("\n", "")
    assert main(["fit", f"{tmp_path}/none-*.csv", "--target", "y"]) == BAD_TABLE


def test_workbooks_are_tables(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    frame, book = orders(), openpyxl.Workbook()
    sheet = book.active
    sheet.append(list(frame.columns))
    for row in frame.assign(day=pd.to_datetime(frame["day"])).itertuples(index=False):
        sheet.append(list(row))
    book.save(tmp_path / "orders.xlsx")
    frame.to_csv(tmp_path / "orders.csv", index=False)
    for name in ("orders.xlsx", "orders.csv"):
        assert main(["fit", str(tmp_path / name), "--target", "y", "-o", str(tmp_path / f"{name}.ulmus"), *QUICK]) == OK
    one, two = (describe(tmp_path / f"{name}.ulmus").notes["scores"] for name in ("orders.xlsx", "orders.csv"))
    assert one == two


def test_a_baseline_that_wins_is_named(tmp_path, capsys):
    rng = np.random.RandomState(0)
    frame = pd.DataFrame(rng.normal(size=(120, 4)).round(4), columns=list("abcd"))
    frame["y"] = (frame.sum(axis=1) + 0.01 * rng.normal(size=120)).round(5)
    frame.to_csv(tmp_path / "t.csv", index=False)
    out = tmp_path / "m.ulmus"
    assert main(["fit", str(tmp_path / "t.csv"), "--target", "y", "-o", str(out), "--effort", "fast"]) == OK
    shown = capsys.readouterr()
    entries = {entry["name"]: entry for entry in describe(out).notes["baselines"]}
    assert set(entries) == {"constant", "linear", "boosted trees", "ulmus"}
    best = max(entries, key=lambda name: entries[name]["scores"][0]["value"])
    assert (best == "ulmus") != (f"{best} scored better on these rows" in shown.err.replace("\n", " "))
    fit, test = divided(frame["y"].to_numpy(), Extras(), "regression", 0.2, 0)
    X = (frame[list("abcd")] - frame[list("abcd")].iloc[fit].mean()) / frame[list("abcd")].iloc[fit].std(ddof=0)
    ridge = Ridge().fit(X.iloc[fit].to_numpy(), frame["y"].iloc[fit])
    expected = ridge.score(X.iloc[test].to_numpy(), frame["y"].iloc[test])
    assert entries["linear"]["scores"][0]["value"] == pytest.approx(expected, abs=1e-6)


def test_scores_of_two_classes_are_those_of_scikit_learn():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(200, 2))
    y = np.where(X[:, 0] + rng.normal(size=200) > 0, "yes", "no")
    model = ulmus.KELMClassifier(gamma=1.0, C=1.0).fit(X[:100], y[:100])
    found = {score.name: score.value for score in scores(model, X[100:], y[100:])}
    p = model.predict_proba(X[100:])[:, 1]
    assert found["area under the ROC curve"] == pytest.approx(roc_auc_score(y[100:], p))
    assert found["average precision"] == pytest.approx(average_precision_score(y[100:], p, pos_label="yes"))
    assert found["F1"] == pytest.approx(f1_score(y[100:], model.predict(X[100:]), pos_label="yes"))


def test_drift_of_new_rows_is_reported(table, tmp_path, capsys):
    fitted(table, "--drop", "key,day")
    moved = tmp_path / "moved.csv"
    orders(200, 1).assign(size=lambda f: f["size"] + 4).to_csv(moved, index=False)
    capsys.readouterr()
    assert main(["predict", table + ".ulmus", str(moved), "-o", str(tmp_path / "o.csv")]) == OK
    assert "column 'size' has drifted since training: the median was" in capsys.readouterr().err.replace("\n", " ")


def test_a_leak_is_reported(tmp_path, capsys):
    frame = orders()
    frame.assign(twice=2 * frame["y"]).to_csv(tmp_path / "t.csv", index=False)
    assert main(["fit", str(tmp_path / "t.csv"), "--target", "y", *QUICK]) == OK
    assert "column 'twice' predicts the target on its own (R² 0.99" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize("model", ["adaptive", "nkelm"])
@pytest.mark.parametrize("metric", cases(["auc", "log_loss", "balanced_accuracy", "accuracy", "f1"], "auc"))
def test_a_metric_is_the_first_score(tmp_path, model, metric):
    frame = orders(120).assign(y=lambda f: np.where(f["y"] > 0.3, "yes", "no"))
    frame.drop(columns=["key", "day"]).to_csv(tmp_path / "t.csv", index=False)
    out = tmp_path / "m.ulmus"
    options = ["--metric", metric, "--model", model, "--effort", "fast", "--no-baselines"]
    assert main(["fit", str(tmp_path / "t.csv"), "--target", "y", "-o", str(out), *options]) == OK
    assert describe(out).notes["scores"][0]["name"] == METRICS[metric][0]
    wanted = scored_by(Roles(metric=metric), model, "classification")
    assert ulmus.load(out)[-1].criterion == wanted.get("criterion", "auto")


def test_predictions_do_not_fall_along_a_column_that_says_so(tmp_path):
    rng = np.random.RandomState(0)
    frame = pd.DataFrame({"area, m2": rng.uniform(20, 120, 120), "age": rng.uniform(0, 50, 120)})
    frame["price"] = np.log(frame["area, m2"]) - 0.01 * frame["age"] + 0.3 * rng.normal(size=120)
    path, out = tmp_path / "flats.csv", str(tmp_path / "flats.ulmus")
    frame.to_csv(path, index=False)
    given = ["fit", str(path), "--target", "price", "-o", out, "--no-baselines", "--effort", "fast", "--holdout", "0"]
    assert main([*given, "--monotone", "area, m2=1", "--monotone", "age=-1"]) == OK
    model = ulmus.load(out)
    assert model[-1].monotonic_cst == {"area, m2": 1, "age": -1}
    for column, sign in (("area, m2", 1), ("age", -1)):
        rows = frame[["area, m2", "age"]].iloc[np.repeat(0, 50)].copy()
        rows[column] = np.linspace(frame[column].min(), frame[column].max(), 50)
        assert (sign * np.diff(model.predict(rows)) >= -1e-6).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--monotone", "size"], "NAME=1"),
        (["--monotone", "size=2"], "NAME=1"),
        (["--monotone", "nothing=1"], "not a column"),
        (["--monotone", "note=1"], "'note' is "),
        (["--monotone", "size=1", "--model", "nkelm"], "--model adaptive"),
    ],
    ids=["no sign", "another sign", "no column", "no number", "another model"],
)
def test_directions_that_cannot_be_had_are_refused(table, capsys, options, words):
    assert main(["fit", table, "--target", "y", "--no-baselines", *options]) == USAGE
    assert words in " ".join(capsys.readouterr().err.split())

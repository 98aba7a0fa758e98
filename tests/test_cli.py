"""Somebody with a file and no wish to program: three commands, and what they say when something is wrong."""

import gzip
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ulmus
from ulmus.cli import main
from ulmus.cli.console import BAD_MODEL, BAD_TABLE, FAILED, OK, USAGE
from ulmus.persistence import describe

pytestmark = [
    pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning"),
    pytest.mark.usefixtures("few_resamples"),
]


def people(n=150, seed=0):
    """Numbers, text, dates, booleans, holes, a name and an empty column; price is a number, kind has an order."""
    rng = np.random.RandomState(seed)
    frame = pd.DataFrame(
        {
            "age": rng.randint(18, 90, n).astype(float),
            "fare": rng.gamma(2, 20, n).round(2),
            "town": rng.choice(["Rom", "Köln", "Oslo", "Ulm"], n).astype(object),
            "when": (np.datetime64("2020-01-01") + rng.randint(0, 900, n)).astype(str),
            "vip": rng.choice(["true", "false"], n),
            "name": [f"person {i}" for i in range(n)],
            "blank": "",
        }
    )
    score = (frame["age"] - 50) / 15 + np.where(frame["town"] == "Rom", 1.5, 0) + (frame["vip"] == "true")
    score += 0.3 * rng.normal(size=n)
    frame["price"] = (100 + 10 * score).round(2)
    frame["kind"] = np.where(score > 1, "high", np.where(score > -0.5, "mid", "low"))
    frame.loc[rng.random_sample(n) < 0.1, "age"] = np.nan
    frame.loc[rng.random_sample(n) < 0.1, "town"] = None
    return frame


def predicted(folder, model, data, *options, name="out.csv"):
    assert main(["predict", str(folder / model), str(folder / data), "-o", str(folder / name), *options]) == OK
    return pd.read_csv(folder / name)


def test_predictions_are_those_of_the_loaded_model(folder):
    found = predicted(folder, "price.ulmus", "new.csv", "--interval", "0.9")
    model = ulmus.load(folder / "price.ulmus")
    frame = people(60, seed=1)
    rows = frame.assign(
        town=frame["town"].fillna(""), vip=(frame["vip"] == "true").astype(float), when=pd.to_datetime(frame["when"])
    )[list(model.feature_names_in_)]
    np.testing.assert_allclose(found["prediction"], model.predict(rows), rtol=1e-12)
    assert ((found["low"] < found["prediction"]) & (found["prediction"] < found["high"])).all()
    truth = frame["price"]
    assert 0.75 < ((found["low"] <= truth) & (truth <= found["high"])).mean() <= 1.0
    assert 1 - ((truth - found["prediction"]) ** 2).mean() / truth.var() > 0.5


def test_quantiles_have_a_column_each_and_are_the_ends_of_intervals(folder):
    found = predicted(folder, "price.ulmus", "new.csv", "--interval", "0.9", "--quantiles", "0.05,0.5,0.95")
    Q = found[[f"quantile {q}" for q in ("0.05", "0.5", "0.95")]].to_numpy()
    assert (np.diff(Q, axis=1) > 0).all()
    np.testing.assert_allclose(Q[:, [0, 2]], found[["low", "high"]], rtol=1e-12)


@pytest.mark.parametrize("model", ["kind.ulmus", "order.ulmus"])
def test_sets_name_their_classes(folder, model):
    found = predicted(folder, model, "new.csv", "--sets", "0.9")
    named = found["set"].str.split(" | ", regex=False)
    assert {label for labels in named for label in labels} <= {"low", "mid", "high"}
    assert np.mean([p in labels for p, labels in zip(found["prediction"], named, strict=True)]) > 0.9


@pytest.mark.parametrize("model", ["kind.ulmus", "order.ulmus"])
def test_probabilities_have_a_column_per_class_and_sum_to_one(folder, model):
    found = predicted(folder, model, "new.csv", "--proba")
    columns = [f"probability of {c}" for c in ("low", "mid", "high")]
    assert set(found.columns) == {"prediction", *columns}
    np.testing.assert_allclose(found[columns].sum(axis=1), 1.0, atol=1e-9)
    assert (found["prediction"] == people(60, seed=1)["kind"]).mean() > 0.6


def test_the_order_of_categories_is_kept(folder):
    assert ulmus.load(folder / "order.ulmus")[-1].classes_.tolist() == ["low", "mid", "high"]
    assert describe(folder / "order.ulmus").notes["table"]["task"] == "ordinal"


def test_columns_may_come_in_any_order_with_others_between_and_be_kept(folder):
    frame = pd.read_csv(folder / "new.csv")
    plain = predicted(folder, "price.ulmus", "new.csv")
    frame[frame.columns[::-1]].assign(more=1).to_csv(folder / "turned.tsv", index=False, sep="\t")
    turned = predicted(folder, "price.ulmus", "turned.tsv", "--keep")
    np.testing.assert_array_equal(turned["prediction"], plain["prediction"])
    assert "more" in turned


def test_an_unseen_category_is_predicted(folder):
    pd.read_csv(folder / "new.csv").assign(town="Timbuktu").to_csv(folder / "far.csv", index=False)
    assert np.isfinite(predicted(folder, "price.ulmus", "far.csv")["prediction"]).all()


def test_a_missing_column_is_named_with_the_file(folder, capsys):
    pd.read_csv(folder / "new.csv").drop(columns="fare").to_csv(folder / "less.csv", index=False)
    assert main(["predict", str(folder / "price.ulmus"), str(folder / "less.csv")]) == BAD_TABLE
    assert "less.csv, column 'fare': no such column" in capsys.readouterr().err


def test_a_test_table_gives_the_scores_and_all_rows_the_model(folder, capsys):
    out = folder / "tested.ulmus"
    command = ["fit", str(folder / "price.csv"), "--target", "price", "--test", str(folder / "new.csv"), "-o", str(out)]
    assert main(command) == OK
    shown = capsys.readouterr().out
    assert "scores on the test file, trained on 150" in shown
    notes = describe(out).notes
    assert notes["rows"] == 150
    score = next(s for s in notes["scores"] if s["name"] == "R²")
    assert score["low"] < score["value"] < score["high"]


@pytest.mark.parametrize("target", ["price", "kind"])
def test_a_streamed_fit_is_as_good_and_reads_by_batches(folder, monkeypatch, target):
    monkeypatch.setattr("ulmus.tables.pieces.BATCH", 1 << 12)
    monkeypatch.setattr("ulmus.measures.RESAMPLES", 200)  # scores are compared by their interval
    people(600).drop(columns={"price": "kind", "kind": "price"}[target]).to_csv(folder / "long.csv", index=False)
    people(60, seed=1).to_csv(folder / "both.csv", index=False)
    values = []
    for name, option in (("streamed.ulmus", ["--model", "nkelm", "--stream"]), ("whole.ulmus", ["--model", "nkelm"])):
        command = ["fit", str(folder / "long.csv"), "--target", target, "--test", str(folder / "both.csv")]
        assert main([*command, "-o", str(folder / name), *option]) == OK
        notes = describe(folder / name).notes
        assert notes["rows"] == 600
        values.append(notes["scores"][0])
    streamed, whole = values
    assert whole["low"] <= streamed["value"] <= whole["high"]
    assert len(predicted(folder, "streamed.ulmus", "new.csv")) == 60


def test_info_says_what_a_model_is(folder, capsys):
    assert main(["info", str(folder / "order.ulmus")]) == OK
    shown = capsys.readouterr().out
    for part in ("AdaptiveOrdinalClassifier", "kind: ordinal", "150 rows", "low, mid, high", "age: number", "accuracy"):
        assert part in shown


def test_info_describes_models_saved_from_python(folder, capsys):
    ulmus.save(ulmus.KELMRegressor(gamma=1.0, C=1.0).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0]), folder / "own.ulmus")
    assert main(["info", str(folder / "own.ulmus")]) == OK
    assert "KELMRegressor" in capsys.readouterr().out
    assert main(["predict", str(folder / "own.ulmus"), str(folder / "new.csv")]) == BAD_TABLE
    assert "use it from Python" in capsys.readouterr().err


def test_a_map_is_drawn(folder):
    out = folder / "map.html"
    assert main(["project", str(folder / "kind.csv"), "--target", "kind", "-o", str(out)]) == OK
    page = out.read_text()
    assert page.count("translate(") == 75  # of 150 rows; the others found the plane
    assert "75 of 150 rows are drawn" in page
    assert "town: Rom" in page


def test_standard_input_and_output_take_part_in_pipes(folder):
    text = gzip.compress((folder / "new.csv").read_bytes())
    command = [sys.executable, "-m", "ulmus", "predict", str(folder / "price.ulmus"), "-"]
    run = subprocess.run(command, input=text, capture_output=True, check=True, env=os.environ)
    found = run.stdout.decode().splitlines()
    assert found[0] == '"prediction"'
    np.testing.assert_allclose([float(v) for v in found[1:]], predicted(folder, "price.ulmus", "new.csv")["prediction"])


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (["fit"], USAGE, "requires"),
        (["fit", "x.csv", "--target", "y", "--task", "guess"], USAGE, "task"),
        (["fly"], USAGE, "fly"),
        (["fit", "nowhere.csv", "--target", "y"], BAD_TABLE, "nowhere.csv: cannot be read"),
        (["fit", "{0}/price.csv", "--target", "prize"], BAD_TABLE, "did you mean 'price'"),
        (["fit", "{0}/price.csv", "--target", "price", "--categories", "a"], USAGE, "at least two"),
        (["predict", "{0}/price.csv", "{0}/new.csv"], BAD_MODEL, "price.csv: "),
        (["predict", "{0}/price.ulmus", "{0}/new.csv", "--proba"], USAGE, "--interval"),
        (["predict", "{0}/kind.ulmus", "{0}/new.csv", "--interval", "0.9"], USAGE, "--proba"),
        (["predict", "{0}/price.ulmus", "{0}/new.csv", "--interval", "90"], USAGE, "between 0 and 1"),
        (["predict", "{0}/price.ulmus", "{0}/new.csv", "--sets", "0.9"], USAGE, "--interval"),
        (["predict", "{0}/kind.ulmus", "{0}/new.csv", "--quantiles", "0.5"], USAGE, "--sets"),
        (["predict", "{0}/price.ulmus", "{0}/new.csv", "--quantiles", "0.5;2"], USAGE, "separated by commas"),
        (["predict", "{0}/price.ulmus", "{0}/new.csv", "-o", "{0}/out.doc"], BAD_TABLE, "unknown output format"),
        (["project", "{0}/nothing.csv", "--target", "y"], BAD_TABLE, "nothing.csv"),
        (["fit", "{0}/price.csv", "--target", "price", "-o", "{0}/no/m.ulmus"], USAGE, "there is no folder"),
        (["fit", "{0}/price.csv", "--target", "price", "--report", "{0}"], USAGE, "is a folder"),
        (["fit", "{0}/price.csv", "--target", "price", "--holdout", "20"], USAGE, "--holdout is a share"),
        (["export", "{0}/price.ulmus", "{0}/no/m.onnx"], USAGE, "there is no folder"),
    ],
    ids=lambda v: v[0] if isinstance(v, list) else None,
)
def test_what_is_wrong_is_said_with_an_exit_code(folder, capsys, command, code, message):
    assert main([part.format(folder) for part in command]) == code
    assert message in capsys.readouterr().err


def test_a_report_that_cannot_be_drawn_is_refused_before_the_fit(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    page, out = folder / "undrawn.html", folder / "undrawn.ulmus"
    command = ["fit", str(folder / "price.csv"), "--target", "price", "-o", str(out), "--report", str(page)]
    assert main(command) == FAILED
    assert "ulmus[report]" in capsys.readouterr().err
    assert not out.exists()


def test_a_target_that_names_rows_is_refused(tmp_path, capsys):
    frame = people(80).assign(name=[f"row {i}" for i in range(80)])
    frame.to_csv(tmp_path / "named.csv", index=False)
    assert main(["fit", str(tmp_path / "named.csv"), "--target", "name"]) == BAD_TABLE
    assert "80 distinct values in 80 rows" in capsys.readouterr().err


#: What may have happened to a table when its rows are to be predicted, and which answers are right.
CHANGES = {
    "nothing": (lambda f: f, (OK,)),
    "columns turned round": (lambda f: f[f.columns[::-1]], (OK,)),
    "categories never seen": (lambda f: f.replace({"a": "new", "b": "é", "c d": ""}), (OK,)),
    # refused from 20 rows on, where there were values in training
    "all is missing": (lambda f: f.assign(**dict.fromkeys(f.columns, ""), more="1"), (OK, BAD_TABLE)),
    # a column that has turned is refused; categories never seen are not
    "text for numbers": (lambda f: f.assign(**dict.fromkeys(f.columns, "oops")), (OK, BAD_TABLE)),
    # it may be a column that was left out
    "a column less": (lambda f: f.assign(more=1).drop(columns=f.columns[-1]), (OK, BAD_TABLE)),
    "a header only": (lambda f: f[:0], (BAD_TABLE,)),
}


@settings(
    max_examples=settings().max_examples // 4,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_small_table_is_fitted_and_predicted_or_refused(tmp_path, capsys, data):
    n = data.draw(st.integers(1, 40))
    makers = {
        "number": lambda r: r.normal(size=n).round(2).astype(str),
        "comma": lambda r: np.char.replace(r.normal(size=n).round(2).astype(str), ".", ","),
        "text": lambda r: r.choice(["a", "b", "c d"], n),
        "mixed": lambda r: np.where(r.random_sample(n) < 0.3, "x", r.randint(9, size=n).astype(str)),
        "holes": lambda r: np.where(r.random_sample(n) < 0.5, "", r.randint(9, size=n).astype(str)),
        "empty": lambda r: np.full(n, ""),
        "constant": lambda r: np.full(n, "7"),
        "date": lambda r: (np.datetime64("2020-01-01") + r.randint(900, size=n)).astype(str),
    }
    kinds = data.draw(st.lists(st.sampled_from(sorted(makers)), min_size=2, max_size=5))
    rng = np.random.RandomState(data.draw(st.integers(0, 99)))
    frame = pd.DataFrame({f"{kind} {i}": makers[kind](rng) for i, kind in enumerate(kinds)})
    table, model, out = (str(tmp_path / name) for name in ("t.csv", "m.ulmus", "o.csv"))
    frame.to_csv(table, index=False, sep=";")
    code = main(["fit", table, "--target", frame.columns[0], "-o", model, "--threads", "1", "--effort", "fast"])
    if code != OK:
        assert code == BAD_TABLE, capsys.readouterr().err
        return
    change, expected = data.draw(st.sampled_from(list(CHANGES.values())))
    change(frame.drop(columns=frame.columns[0])).to_csv(table, index=False, sep=";")
    code = main(["predict", model, table, "-o", out])
    assert code in expected, capsys.readouterr().err
    if code == OK:
        found = pd.read_csv(out)["prediction"]
        assert len(found) == n
        assert found.notna().all()


def test_without_its_packages_the_command_says_what_to_install():
    code = "import sys; sys.modules['cyclopts'] = None; from ulmus.__main__ import entry; entry()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == 'error: the command line needs cyclopts; run pip install "ulmus[cli,report]"\n'


def test_warnings_stand_on_lines_of_their_own(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("a;a;y\n" + "".join(f"{i};{i % 7};{i}.5\n" for i in range(60)))
    options = ["--target", "y", "--effort", "fast", "--no-baselines", "-o", str(tmp_path / "m.ulmus")]
    assert main(["fit", str(tmp_path / "t.csv"), *options]) == OK
    said = capsys.readouterr().err
    assert "several columns are called 'a'" in said
    assert "\n\n" not in said

"""What is odd about a table is told in Python as on the command line, by one function."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import ulmus
from ulmus import DriftWarning, DuplicateWarning, LeakWarning, SpellingWarning, TableEncoder, check_table
from ulmus.cli import main
from ulmus.features import examine
from ulmus.features.examine import _targets, are_classes
from ulmus.tables.read import batch_of_rows
from ulmus.tables.schema import learn


def table(n=300, seed=0):
    rng = np.random.RandomState(seed)
    X = pd.DataFrame({"size": rng.normal(size=n), "town": rng.choice(["Ulm", "Bonn"], n), "unit": "m"})
    X.insert(0, "id", np.arange(n) + 1000 * seed)
    return X, 2 * X["size"] + rng.normal(size=n)


def kinds(check):
    return [(finding.kind, finding.column) for finding in check.findings]


def test_a_sound_table_has_no_findings_and_says_which_columns_are_left_out():
    X, y = table()
    check = check_table(X, y, *table(seed=1))
    assert check.findings == []
    assert set(check.left_out) == {"id", "unit"}
    assert check.kinds == {"id": "id", "size": "number", "town": "category", "unit": "constant"}
    assert "left out" in str(check)
    assert "unit" in check._repr_html_()


@pytest.mark.parametrize(
    "frame", [lambda X: X, pl.from_pandas, lambda X: X[["size"]].to_numpy()], ids=["pandas", "polars", "array"]
)
def test_drift_to_new_rows_is_found_in_frames_of_every_kind(frame):
    X, _ = table()
    new = X.assign(size=X["size"] + 3.0)
    assert [kind for kind, _ in kinds(check_table(frame(X), X_new=frame(new)))] == [DriftWarning]
    assert kinds(check_table(frame(X), X_new=frame(X))) == []


def test_holes_in_new_words_are_no_level_of_their_own():
    X, _ = table()
    new = X.assign(town=X["town"].where(np.arange(len(X)) % 3 > 0, np.nan))
    assert kinds(check_table(X, X_new=new)) == []


@pytest.mark.parametrize("classes", [False, True])
def test_a_column_that_gives_the_target_away_is_named(classes):
    X, y = table()
    y = (y > 0).to_numpy() if classes else y.to_numpy()
    check = check_table(X.assign(tax=np.where(y, "paid", "due") if classes else 0.19 * y), y)
    assert kinds(check) == [(LeakWarning, "tax")]
    with pytest.warns(LeakWarning, match="'tax' predicts the target on its own"):
        check.warn()


def test_copies_among_rows_held_out_are_counted():
    X, y = table()
    check = check_table(X, y, X[:50], y[:50])
    assert kinds(check) == [(DuplicateWarning, None)]
    assert "50 of 50 held-out rows" in check.findings[0].text


def test_an_encoder_says_what_columns_are():
    X, y = table()
    assert "id" not in check_table(X, y, encoder=TableEncoder(kinds={"id": "number"})).left_out


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (np.arange(8), False),  # nearly all different
        (np.arange(40) % 8, True),
        (np.arange(40) % 11, False),
        (np.arange(40) % 4 / 3, False),
        (np.array([0, 1]), True),
    ],
)
def test_numbers_are_classes_by_one_rule_in_python_and_for_files(values, classes):
    assert are_classes(values.astype(float)) == classes
    batch = batch_of_rows([{"x": k % 3, "y": value} for k, value in enumerate(values.tolist())])
    assert learn(batch, "y").task == ("classification" if classes else "regression")
    y = pd.Series(values).astype("Float64")
    y[0] = pd.NA
    assert are_classes(_targets(y)[0]) == are_classes(values[1:].astype(float))


@pytest.mark.parametrize("of", [pd.Series, pl.Series, np.asarray])
def test_rows_without_a_target_say_nothing_of_it(of):
    X, y = table()
    there = y.copy()
    y[5] = np.nan
    check = check_table(X.assign(tax=there), of(y), X[:50].assign(tax=there[:50]), of(y[:50]))
    assert kinds(check) == [(LeakWarning, "tax"), (DuplicateWarning, None)]
    assert "49 of 49 held-out rows" in check.findings[1].text


def test_wrong_arguments_are_refused():
    X, y = table()
    with pytest.raises(ValueError, match="task must be one of"):
        check_table(X, y, task="ranking")
    with pytest.raises(ValueError, match="X has 300 rows and y has 10"):
        check_table(X, y[:10])


def test_the_command_line_says_the_same(tmp_path, capsys):
    X, y = table()
    X = X.assign(tax=0.19 * y)
    later = X.assign(size=X["size"] + 3.0)
    for name, rows in (("a.csv", X), ("b.csv", later)):
        rows.assign(price=y).to_csv(tmp_path / name, index=False)
    a, b = (str(tmp_path / name) for name in ("a.csv", "b.csv"))
    assert main(["fit", a, "--target", "price", "--test", b, "--model", "nkelm", "--no-baselines"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    used = [name for name in X.columns if name not in ("id", "unit")]
    findings = check_table(X[used], y, later[used], y).findings
    assert {finding.kind for finding in findings} == {LeakWarning, DriftWarning}
    for finding in findings:
        assert " ".join(finding.text.split()) in said


def test_it_is_public():
    assert ulmus.check_table is check_table
    assert isinstance(check_table(table()[0]), ulmus.TableCheck)


def test_levels_and_classes_that_differ_in_case_only_are_reported():
    rng = np.random.RandomState(0)
    frame = pd.DataFrame({"a": rng.normal(size=90), "town": rng.choice(["Bonn", "BONN", "Ulm"], 90)})
    y = rng.choice(["Yes", "yes", "no"], 90)
    first, second = check_table(frame, y).findings
    assert (first.kind, first.column) == (SpellingWarning, None)
    assert "classes 'Yes', 'yes' differ only in case" in first.text
    assert (second.column, "'BONN', 'Bonn' differ" in second.text) == ("town", True)
    assert check_table(frame.replace("BONN", "Bonn"), np.char.lower(y)).findings == []


def test_work_grows_with_the_columns_and_not_with_their_square(monkeypatch):
    read, calls = examine.columns_of, []
    monkeypatch.setattr(examine, "columns_of", lambda frame: calls.append(1) or read(frame))
    wide = pd.DataFrame(np.random.RandomState(0).normal(size=(60, 40))).rename(columns=str)
    check_table(wide[:40], wide["0"][:40] ** 2, wide[40:], wide["0"][40:] ** 2)
    assert len(calls) == 2

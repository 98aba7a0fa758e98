"""Training rows in a report: their effects are those of refits, wrong targets are found, and changes change."""

import re
from html import unescape

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ulmus
from ulmus.cli import main
from ulmus.report import behind, change
from ulmus.report.behind import behind_section, second_look_section
from ulmus.report.change import change_section
from ulmus.report.page import cell, plain
from ulmus.report.subgroups import losses
from ulmus.report.subject import Subject, TrainingTable

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")

N = 90
GIVEN = {"gamma": 0.3, "C": 8.0}


def rows(seed, n=N):
    rng = np.random.RandomState(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"], index=[f"r{i}" for i in range(n)])
    return frame, (np.sin(2 * frame["a"]) + frame["b"] + 0.1 * rng.normal(size=n)).to_numpy()


def labels(y):
    return np.array(["low", "mid", "high"])[np.digitize(y, [-0.8, 0.8])]


def subject(model, y_of=lambda y: y, weight=None, training=True):
    (X, y), (new, z) = rows(0), rows(1, 40)
    options = {} if weight is None else {"sample_weight": weight}
    model.fit(X, y_of(y), **options)
    given = TrainingTable.of(model, X, y_of(y), weight) if training else None
    return Subject.of(model, new, y_of(z), seen=False, training=given)


def tables(section):
    """The tables of a section: header, and rows of cells."""
    found = []
    for body in re.findall(r"<table.*?</table>", section, re.DOTALL):
        lines = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
        found.append([[unescape(text) for text in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line)] for line in lines])
    return found


def place(name):
    return int(name[1:])


def test_effects_of_training_rows_are_those_of_refits():
    s = subject(ulmus.KELMRegressor(**GIVEN))
    X, y = rows(0)
    worst, typical = tables(behind_section(s))
    assert len(worst) == len(typical) == behind.ROWS + 1
    i = int(losses(s)[0].argmax())
    effects = []
    for name, target, without, effect, *values in worst[1:]:
        j = place(name)
        rest = np.arange(N) != j
        other = ulmus.KELMRegressor(**GIVEN).fit(X[rest], y[rest]).predict(s.frame.iloc[[i]])[0]
        assert without == cell(float(other))
        assert target == plain(y[j])
        assert [plain(v) for v in X.iloc[j]] == [dict(zip(worst[0][4:], values, strict=True))[c] for c in X.columns]
        effects.append(float(effect))
        assert effects[-1] == pytest.approx(s.predicted[i] - other, rel=1e-3)
    assert np.abs(effects).tolist() == sorted(np.abs(effects), reverse=True)


def test_probabilities_without_a_row_are_those_of_its_scores_without_it():
    s = subject(ulmus.KELMClassifier(**GIVEN), labels)
    model, (X, y) = s.model, rows(0)
    i = int(losses(s)[0].argmax())
    k = model.classes_.tolist().index(s.predicted[i])
    effects = model.influences(s.frame.iloc[[i]], X, labels(y))[0]
    scores = model.decision_function(s.frame.iloc[[i]]) - effects
    expected = ulmus.calibration.probabilities(scores, model.temperature_, model.floor_)[:, k]
    worst = tables(behind_section(s))[0]
    assert worst[0][2] == f"probability of {s.predicted[i]} without it"
    for name, _, without, *_ in worst[1:]:
        assert without == f"{cell(100 * float(expected[place(name)]))} %"


def test_wrong_targets_are_first_and_their_left_out_predictions_those_of_refits():
    X, y = rows(0)
    wrong = y.copy()
    wrong[[7, 31]] += 5.0
    s = subject(ulmus.KELMRegressor(**GIVEN), lambda given: wrong if given is y or len(given) == N else given)
    [found] = tables(second_look_section(s))
    assert {name for name, *_ in found[1:3]} == {"r7", "r31"}
    values = s.model.row_values(X, wrong)
    for name, target, without, value, *_ in found[1:]:
        j = place(name)
        rest = np.arange(N) != j
        assert without == cell(float(ulmus.KELMRegressor(**GIVEN).fit(X[rest], wrong[rest]).predict(X.iloc[[j]])[0]))
        assert target == plain(wrong[j])
        assert value == cell(float(values[j]))
    assert [float(line[3]) for line in found[1:]] == sorted(float(line[3]) for line in found[1:])


def test_a_wrong_label_is_found_with_the_probability_it_has_without_the_row():
    def spoilt(y):
        found = labels(y)
        found[5] = "high" if found[5] == "low" else "low"
        return found

    s = subject(ulmus.KELMClassifier(**GIVEN), spoilt)
    y = rows(0)[1]
    [found] = tables(second_look_section(s))
    line = next(line for line in found[1:4] if line[0] == "r5")
    assert line[1] == spoilt(y)[5] != line[2].split()[0]
    assert float(line[3].split()[0]) < 50
    assert found[0][:5] == ["training row", "target", "prediction without it", "share of its target", "value"]


def test_rows_of_no_weight_are_neither_named_nor_counted():
    weight = np.ones(N)
    weight[:30] = 0.0
    s = subject(ulmus.KELMRegressor(**GIVEN), weight=weight)
    page = behind_section(s) + second_look_section(s)
    assert "one of the 60 training rows" in page
    names = [line[0] for found in tables(page) for line in found[1:]]
    assert len(names) == 2 * behind.ROWS + behind.WORST
    assert all(place(name) >= 30 for name in names)
    y = rows(0)[1]
    assert all(line[1] == plain(y[place(line[0])]) for found in tables(page) for line in found[1:])


def test_pipelines_show_the_columns_of_the_table():
    s = subject(make_pipeline(StandardScaler(), ulmus.NKELMRegressor(20, **GIVEN, random_state=0)))
    X, _ = rows(0)
    worst = tables(behind_section(s))[0]
    name, *_ = line = worst[1]
    at = dict(zip(worst[0], line, strict=True))
    assert all(at[column] == plain(X.at[name, column]) for column in X.columns)
    assert "steps of the pipeline" in change_section(s)


@pytest.mark.parametrize(
    ("model", "y_of"),
    [
        pytest.param(lambda: ulmus.KELMRegressor(**GIVEN), lambda y: y, marks=pytest.mark.slow),
        (lambda: ulmus.AdaptiveRegressor(effort="fast", random_state=0), lambda y: y),
        (lambda: ulmus.KELMClassifier(**GIVEN), labels),
        pytest.param(
            lambda: ulmus.KELMClassifier(**GIVEN), lambda y: np.where(y > 0, "yes", "no"), marks=pytest.mark.slow
        ),
    ],
    ids=["numbers", "adaptive", "three classes", "two classes"],
)
def test_the_changes_of_a_row_change_its_prediction(model, y_of):
    s = subject(model(), y_of)
    section = change_section(s)
    told = re.findall(r"Row (r\d+): predicted ([^<]*?)\. To be predicted ([^<]*?):", unescape(section))
    assert len(told) == len(tables(section)) == 2
    for (name, was, wanted), changes in zip(told, tables(section), strict=True):
        row = s.frame.iloc[[place(name)]].copy()
        assert plain(s.predicted[place(name)]) == was
        assert changes[0] == ["column", "now", "instead"]
        assert len(changes) > 1
        for column, now, instead in changes[1:]:
            assert float(now) == pytest.approx(row[column].iloc[0], rel=1e-3)
            row[column] = float(instead.replace(",", ""))
        answer = s.model.predict(row)[0]
        if s.kind != "regression":
            assert answer == wanted != was
            continue
        middle = float(np.median(s.y))
        assert (
            wanted.split(",")[0] == f"{'at least' if s.predicted[place(name)] < middle else 'at most'} {plain(middle)}"
        )
        assert (answer - middle) * (s.predicted[place(name)] - middle) <= 0
        assert abs(answer - middle) < 0.1 * abs(s.predicted[place(name)] - middle)  # not far beyond, by rounding


def test_a_prediction_that_cannot_change_says_so():
    X, _ = rows(0)
    model = ulmus.KELMClassifier(**GIVEN).fit(X, np.where(np.arange(N) < 88, "usual", "rare"))
    s = Subject.of(model, X, np.full(N, "usual"), seen=False)
    assert set(s.predicted) == {"usual"}
    assert (
        "No row was found that is predicted rare: no row of data has the prediction that is asked for"
        in change_section(s)
    )


def test_what_is_not_computed_is_said(monkeypatch):
    plain_text = {
        "not given the training rows": subject(ulmus.KELMRegressor(**GIVEN), training=False),
        "no weighted sums of training targets": subject(ulmus.KLDA(), labels),
        "minimises the pinball loss": subject(ulmus.NKELMRegressor(20, loss="quantile", random_state=0)),
    }
    for text, s in plain_text.items():
        assert text in behind_section(s)
        assert text in second_look_section(s)
    assert "discriminant models" in change_section(plain_text["no weighted sums of training targets"])
    s = subject(ulmus.KELMRegressor(**GIVEN))
    monkeypatch.setattr(behind, "MOST_PAIRS", N**2 - 1)
    assert "pairs of training rows" in second_look_section(s)
    monkeypatch.setattr(behind, "MOST_OF_KERNEL", N - 1)
    assert f"for the {N} training rows" in behind_section(subject(ulmus.KELMRegressor(**GIVEN)))
    monkeypatch.setattr(change, "TOO_MANY", 2)
    assert "with more than 2 columns" in change_section(s)


@pytest.mark.usefixtures("undrawn")
def test_rows_that_were_seen_are_the_training_rows(tmp_path):
    X, y = rows(0)
    model = ulmus.KELMRegressor(**GIVEN).fit(X, y)
    ulmus.report(model, X, y, tmp_path / "page.html", seen=True)
    assert f"one of the {N} training rows is known exactly" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_training_rows_and_targets_go_together(tmp_path):
    X, y = rows(0)
    model = ulmus.KELMRegressor(**GIVEN).fit(X, y)
    with pytest.raises(ValueError, match="X_train and y_train go together"):
        ulmus.report(model, X, y, tmp_path / "page.html", X_train=X)
    with pytest.raises(ValueError, match="same number of rows, got 90 and 89"):
        ulmus.report(model, X, y, tmp_path / "page.html", X_train=X, y_train=y[1:])


@pytest.mark.usefixtures("undrawn")
def test_the_command_names_training_rows_by_their_place_in_the_file(folder):
    page = folder / "behind.html"
    fit = ["fit", str(folder / "price.csv"), "--target", "price", "--effort", "fast", "--no-baselines"]
    assert main([*fit, "--report", str(page)]) == 0
    found = dict(
        re.findall(r'<section id="([\w-]+)"><h2>[^<]*</h2>(.*?)</section>', page.read_text(encoding="utf-8"), re.DOTALL)
    )
    frame = pd.read_csv(folder / "price.csv")
    listed = [line for key in ("behind", "second_look") for one in tables(found[key]) for line in one[1:]]
    assert len(listed) == 2 * behind.ROWS + behind.WORST
    for name, target, *_ in listed:
        assert target == plain(float(frame["price"][int(name.split()[0]) - 2]))

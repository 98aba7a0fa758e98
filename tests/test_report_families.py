"""Every family of models has a report with every section; adaptive ones say which features they vary along."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

import ulmus
from data import cases, classification, regression
from test_report import SECTIONS
from ulmus.report.subject import Subject

pytestmark = [
    pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

#: One of each family.
MODELS = {
    "ELM": ulmus.ELMRegressor(20, C=1.0, random_state=0),
    "KELM": ulmus.KELMClassifier(random_state=0),
    "ELM, ordinal": ulmus.ELMOrdinalClassifier(random_state=0),
    "OSELM": ulmus.OSELMRegressor(20, random_state=0),
    "OSELM, classes": ulmus.OSELMClassifier(20, random_state=0),
    "OSELM, ordinal": ulmus.OSELMOrdinalClassifier(20, random_state=0),
    "robust ELM": ulmus.RobustELMRegressor(20, random_state=0),
    "robust NKELM": ulmus.RobustNKELMRegressor(20, random_state=0),
    "ENDA": ulmus.ENDA(random_state=0),
    "ENDA ensemble": ulmus.ENDAEnsemble(ulmus.ENDA(20), n_members=2, random_state=0),
    "KLDA": ulmus.KLDA(),
    "NNDA": ulmus.NNDA(20, max_iter=50, random_state=0),
    "adaptive": ulmus.AdaptiveRegressor(effort="fast", random_state=0),
    "adaptive, classes": ulmus.AdaptiveClassifier(effort="fast", random_state=0),
    "adaptive, ordinal": ulmus.AdaptiveOrdinalClassifier(effort="fast", random_state=0),
}


def sections_of(path):
    page = path.read_text(encoding="utf-8")
    return dict(re.findall(r'<section id="([\w-]+)"><h2>[^<]*</h2>(.*?)</section>', page, re.DOTALL))


@pytest.mark.usefixtures("undrawn", "few_resamples")
@pytest.mark.parametrize("name", cases(MODELS, "KELM", "adaptive, ordinal"))
def test_a_model_of_every_family_is_reported(tmp_path, name):
    regressor = type(MODELS[name]).__name__.endswith("Regressor")
    X, y = regression(120) if regressor else classification(120, classes=3)
    model = MODELS[name].fit(X[:90], y[:90])
    ulmus.report(model, X[90:], y[90:], tmp_path / "page.html")
    found = sections_of(tmp_path / "page.html")
    assert tuple(found) == SECTIONS
    assert all("<svg" in found[key] for key in ("errors", "calibration", "importance", "map"))
    assert ("share of the gradient" in found["importance"]) == hasattr(model, "feature_importances_")
    has_sets = not regressor and name not in ("KLDA", "NNDA")  # rows that neighbours judge are in their projections
    assert ("classes in a set" in found["calibration"]) == has_sets
    if has_sets:
        inside = model.predict_set(X[90:], 0.9)
        held, size = 100 * inside[np.arange(30), np.searchsorted(model.classes_, y[90:])].mean(), inside.sum() / 30
        assert re.search(rf"<td>90 %</td>.*?{held:.1f} %.*?{size:.2f}", found["calibration"], re.DOTALL)
    searched = hasattr(model, "view_") or hasattr(model, "tuning_")
    assert ("nothing was searched" in found["choice"]) != searched
    assert ("<svg" in found["choice"]) == searched


def mixed(n=200, seed=0):
    rng = np.random.RandomState(seed)
    frame = pd.DataFrame({"town": rng.choice(["Rom", "Ulm", "Oslo"], n), "size": rng.normal(size=n), "noise": 1.0})
    return frame, 3.0 * (frame["town"] == "Rom").to_numpy() + frame["size"].to_numpy()


@pytest.fixture(scope="module")
def adaptive():
    frame, y = mixed()
    return ulmus.AdaptiveRegressor(effort="fast", random_state=0).fit(frame[:150], y[:150]), frame, y


@pytest.mark.usefixtures("undrawn")
def test_an_adaptive_model_shows_its_importances_with_their_names_and_where_it_is_unsure(adaptive, tmp_path):
    model, frame, y = adaptive
    ulmus.report(model, frame[150:], y[150:], tmp_path / "page.html")
    found = sections_of(tmp_path / "page.html")
    assert "largest predictive standard deviation" in found["unsure"]
    part = found["importance"].partition("share of its mean")[2]
    rows = re.findall(r"<td>(\w+)</td><td class=\"n\">([\d.e-]+)</td>", part)
    expected = sorted(zip(frame.columns, model.feature_importances_, strict=True), key=lambda row: -row[1])
    assert [name for name, _ in rows] == [name for name, _ in expected]
    np.testing.assert_allclose([float(v) for _, v in rows], [v for _, v in expected], rtol=1e-3)
    assert rows[-1] == ("noise", "0")


@pytest.mark.usefixtures("undrawn")
def test_a_model_that_is_equally_sure_everywhere_shows_what_it_missed_most(adaptive, tmp_path, monkeypatch):
    model, frame, y = adaptive
    monkeypatch.setattr(type(model), "_deviation_factors", type(model)._variance_factors)  # the same for every row
    ulmus.report(model, frame[150:], y[150:], tmp_path / "page.html")
    text = sections_of(tmp_path / "page.html")["unsure"]
    assert "largest errors" in text
    worst = 150 + int(np.argmax(np.abs(y[150:] - model.predict(frame[150:]))))
    assert f"<td>{frame.index[worst]}</td>" in text.partition("<tbody>")[2].partition("</tr>")[0]


def test_the_map_shows_rows_as_an_adaptive_model_sees_them():
    frame, y = mixed()
    columns = make_column_transformer((OrdinalEncoder(), ["town"]), remainder="passthrough")
    model = make_pipeline(columns, ulmus.AdaptiveRegressor(effort="fast", categorical_features=[0], random_state=0))
    s = Subject.of(model.fit(frame, y), frame, y, seen=False)
    codes = columns.fit_transform(frame)
    np.testing.assert_array_equal(s.coordinates(np.arange(9)), model[-1].view_.transform(codes[:9].astype(float)))
    assert s.feature_names == ["ordinalencoder__town", "remainder__size", "remainder__noise"]

"""Other libraries, the real ones: Spark and Ray sum, MLflow serves, MAPIE and shap agree. ``make test-neighbours``.

They are heavy, and no part of the test extra; where one is not installed its test is skipped, and says so. Stand-ins
run the same lines of the documents everywhere (test_streaming_recipe.py).
"""

import re
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

import ulmus
from data import relative_error

DOCS = Path(__file__).parent.parent / "docs"
REASON = "comes with make test-neighbours"


def recipe():
    """What docs/streaming.md has run before the lines for Spark and for Ray, and those lines."""
    text = (DOCS / "streaming.md").read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    names = {}
    exec("\n".join([code[0], code[-1]]), names)
    lines = re.findall(r"(?:^    \S.*\n)+", text[text.index("## Spark, Ray") :].split("```")[-1], re.MULTILINE)
    return names, [textwrap.dedent(block) for block in lines]


@pytest.mark.slow
def test_the_lines_for_spark_give_on_spark_what_the_plain_loop_gives(monkeypatch):
    sql = pytest.importorskip("pyspark.sql", reason=REASON)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    names, (lines, _) = recipe()
    expected = names["total"].total.moments
    spark = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        names.update(total=None, df=spark.createDataFrame(names["table"][["a", "b", "c", "y"]]))
        exec(lines, names)
    finally:
        spark.stop()
    assert relative_error(names["total"].total.moments, expected) <= 1e-13


@pytest.mark.slow
def test_the_lines_for_ray_give_on_ray_what_the_plain_loop_gives(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    ray = pytest.importorskip("ray", reason=REASON)
    names, (_, lines) = recipe()
    expected = names["total"].total.moments
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        names.update(total=None, ray=ray)
        exec(lines, names)
    finally:
        ray.shutdown()
    assert relative_error(names["total"].total.moments, expected) <= 1e-13


@pytest.mark.slow
def test_a_model_served_by_mlflow_answers_as_the_model(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow.pyfunc", reason=REASON)
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "saving.md").read_text(encoding="utf-8")
    abalone = ulmus.datasets.load("abalone")
    X, y = abalone.data[:400], abalone.target[:400]
    model = ulmus.NKELMRegressor(30, gamma=0.5, C=1.0, random_state=0).fit(X, y)
    lines = textwrap.dedent(re.search(r"(?:^    .*mlflow.*\n)+", text, re.MULTILINE).group())
    names = {"model": model, "mlflow": sys.modules["mlflow"], "X": X}
    exec(lines, names)
    np.testing.assert_array_equal(names["served"].predict(X), model.predict(X))
    assert isinstance(names["served"], mlflow.PyFuncModel)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_jackknife_plus_of_mapie_with_n_refits_is_ours_with_none(fit_intercept):
    regression = pytest.importorskip("mapie.regression", reason=REASON)
    from sklearn.model_selection import LeaveOneOut

    rng = np.random.RandomState(0)
    X, new = rng.normal(size=(60, 2)), rng.normal(size=(20, 2))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=60)
    model = ulmus.KELMRegressor(gamma=0.5, C=5.0, fit_intercept=fit_intercept)
    theirs = regression.CrossConformalRegressor(model, confidence_level=0.9, method="plus", cv=LeaveOneOut())
    _, intervals = theirs.fit_conformalize(X, y).predict_interval(new)
    ours = model.fit(X, y).predict_interval(new, coverage=0.9, method="jackknife+", tails="symmetric")
    np.testing.assert_allclose(ours, intervals[:, :, 0], atol=1e-10)


class Told(ClassifierMixin, BaseEstimator):
    """Rows are numbers of probabilities."""

    def __init__(self, P=None):
        self.P, self.classes_, self.fitted_ = P, np.arange(3), True

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return self.P[np.asarray(X)[:, 0].astype(int)]

    def predict(self, X):
        return self.predict_proba(X).argmax(axis=1)


def test_sets_are_no_larger_than_those_of_mapie_by_the_same_scores():
    mapie = pytest.importorskip("mapie.classification", reason=REASON)
    rng = np.random.RandomState(0)
    y = rng.randint(3, size=1200)
    X = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])[y] + rng.normal(size=(1200, 2))
    model = ulmus.NKELMClassifier(60, random_state=0).fit(X[:600], y[:600])
    held, new = model.left_out_, model.predict_proba(X[600:])
    P = np.concatenate([model._class_probabilities(model.fitted_, held.scores), new])
    rows = np.arange(len(P))[:, None]
    sizes = {}
    for theirs, ours in (("lac", "threshold"), ("aps", "adaptive")):
        made = mapie.SplitConformalClassifier(Told(P), confidence_level=0.9, conformity_score=theirs, prefit=True)
        made.conformalize(rows[: len(held.true)], held.true)
        sets = made.predict_set(rows[len(held.true) :])[1][:, :, 0]
        found = model.predict_set(X[600:], 0.9, method=ours)
        sizes[ours] = found.sum(), sets.sum()
        if ours == "threshold":
            np.testing.assert_array_equal(found, sets)
    assert sizes["adaptive"][0] <= sizes["adaptive"][1]


def test_the_frame_of_lightgbm_goes_into_an_adaptive_model_as_it_is():
    lightgbm = pytest.importorskip("lightgbm", reason=REASON)
    pd = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    frame = pd.DataFrame({"a": rng.normal(size=300), "b": pd.Categorical(rng.choice(list("xyz"), 300))})
    frame.loc[::7, "a"] = np.nan
    y = (frame["a"].fillna(0) + (frame["b"] == "x") > 0.3).to_numpy()
    theirs = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1).fit(frame[:200], y[:200])
    ours = ulmus.AdaptiveClassifier(effort="fast", random_state=0).fit(frame[:200], y[:200])
    assert ours.predict_proba(frame[200:]).shape == theirs.predict_proba(frame[200:]).shape
    assert ours.score(frame[200:], y[200:]) >= theirs.score(frame[200:], y[200:]) - 0.05


@pytest.mark.parametrize("name", ["AdaptiveRegressor", "KELMRegressor", "RobustELMRegressor", "OSELMRegressor"])
def test_shap_explains_by_asking_what_the_models_explain_by_formula(name):
    shap = pytest.importorskip("shap", reason=REASON)
    rng = np.random.RandomState(0)
    X = rng.normal(size=(80, 3))
    y = X[:, 0] ** 2 + X[:, 1]
    model = getattr(ulmus, name)(random_state=0).fit(X, y)
    theirs = shap.explainers.Exact(model.predict, shap.maskers.Independent(X[:20], max_samples=20))(X[:3])
    assert np.abs(theirs.base_values + theirs.values.sum(axis=1) - model.predict(X[:3])).max() < 1e-8
    ours = model.explain(X[:3], X[:20])
    error = 0.0 if ours.errors is None else 5 * np.max(ours.errors)  # random layers are sampled, and say how well
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-6 + error)

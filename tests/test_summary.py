"""The summary of a fitted model says what was fitted, what was chosen against what, and how well rows left out do."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn import metrics
from sklearn.exceptions import NotFittedError

import ulmus
from data import cases, classification, regression
from ulmus import (
    ENDA,
    KLDA,
    NNDA,
    AdaptiveClassifier,
    AdaptiveOrdinalClassifier,
    AdaptiveRegressor,
    ELMClassifier,
    ELMOrdinalClassifier,
    ELMRegressor,
    ENDAEnsemble,
    KELMClassifier,
    KELMOrdinalClassifier,
    KELMRegressor,
    NKELMClassifier,
    NKELMOrdinalClassifier,
    NKELMRegressor,
    OSELMClassifier,
    OSELMOrdinalClassifier,
    OSELMRegressor,
    RobustELMRegressor,
    RobustNKELMRegressor,
    TuningDisplay,
)
from ulmus.measures import CLASSIFICATION, ORDINAL, REGRESSION, TWO_CLASSES, Answers, scored

mpl.use("Agg")
import matplotlib.pyplot as plt

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")

REGRESSORS = (ELMRegressor, KELMRegressor, NKELMRegressor, OSELMRegressor, RobustELMRegressor, RobustNKELMRegressor)
CLASSIFIERS = (
    *(ELMClassifier, KELMClassifier, NKELMClassifier, OSELMClassifier, ENDA, KLDA, NNDA),
    *(ELMOrdinalClassifier, KELMOrdinalClassifier, NKELMOrdinalClassifier, OSELMOrdinalClassifier),
)


def table(n=240):
    rng = np.random.RandomState(0)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["weight", "height", "age"])
    X["town"] = rng.choice(["Ulm", "Bonn"], n)
    return X, np.sin(2 * X["weight"].to_numpy()) + (X["town"] == "Ulm")


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize("kind", [*REGRESSORS, *CLASSIFIERS, ENDAEnsemble], ids=lambda kind: kind.__name__)
def test_every_model_reports_its_rows_its_choices_and_scores_of_rows_left_out(kind):
    X, y = regression(150) if kind in REGRESSORS else classification(150)
    y = np.asarray(y) if kind in REGRESSORS else np.unique(y, return_inverse=True)[1]
    few = {RobustELMRegressor: {"n_hidden": 30}, RobustNKELMRegressor: {"n_landmarks": 30}, NNDA: {"max_iter": 30}}
    model = kind(**{ENDAEnsemble: {"estimator": ENDA(30), "n_members": 2}, **few}.get(kind, {}), random_state=0)
    summary = model.fit(X, y).summary()
    assert dict(summary.fitted)["rows"] == "150"
    assert summary.scores, summary.left_out
    assert all(s.low <= s.value <= s.high for s in summary.scores)
    text = str(summary)
    assert kind.__name__ in text
    assert "95 % interval" in text
    assert len(text.splitlines()) <= 45
    assert all(decision.chosen in text for decision in summary.chosen)


def test_scores_of_rows_left_out_are_those_of_fits_without_them():
    X, y = regression(60)
    model = KELMRegressor(C=10.0, gamma=0.5).fit(X, y)
    without = [
        KELMRegressor(C=10.0, gamma=0.5).fit(np.delete(X, k, 0), np.delete(y, k)).predict(X[k : k + 1])[0]
        for k in range(len(y))
    ]
    scores = {s.name: s.value for s in model.summary().scores}
    np.testing.assert_allclose(scores["R²"], metrics.r2_score(y, without), rtol=1e-6)
    np.testing.assert_allclose(scores["mean absolute error"], metrics.mean_absolute_error(y, without), rtol=1e-6)


def test_losses_of_a_choice_and_its_neighbours_are_those_of_the_search():
    X, y = regression(300)
    model = NKELMRegressor(random_state=0).fit(X, y)
    decisions = {d.name: d for d in model.summary().chosen}
    last = [t for t in model.tuning_.trials if t.stage == "size" and t.size == model.n_landmarks_][-1]
    C = decisions["C"]
    place = int(np.argmin(np.abs(last.C - model.C_)))
    assert C.loss == last.loss[place]
    assert [loss for _, loss in C.others] == [last.loss[k] for k in (place - 1, place + 1) if 0 <= k < len(last.C)]
    assert decisions["n_landmarks"].loss == last.best_loss
    assert all(f"{loss:.4g}" in str(model.summary()) for _, loss in decisions["n_landmarks"].others)


def test_adaptive_models_say_against_what_they_chose_and_their_trials_name_it():
    X, y = table()
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(X, y)
    assert {t.preparation for t in model.trials_} >= {"standard", "clip", "quantile"}
    assert {t.kernel.partition(",")[0] for t in model.trials_} == {"laplacian_l1", "matern32"}
    decisions = {d.name: d for d in model.summary().chosen}
    columns = decisions["columns"]
    assert columns.chosen == model.view_.preparation.columns.kind
    assert {columns.chosen, *(name for name, _ in columns.others)} == {"standard", "clip", "quantile"}
    first = model.trials_[0]
    like = (first.n_rows, first.size, first.kernel, first.metric)
    alike = [t for t in model.trials_ if (t.n_rows, t.size, t.kernel, t.metric) == like]
    for name, loss in columns.others:
        assert loss == min(t.best_loss for t in alike if t.preparation == name)
    text = str(model.summary())
    assert "3 × number, 1 × category" in text
    assert "town" in text
    assert "local stage" in text


def test_kernels_are_compared_with_the_metrics_that_decided_between_them():
    rng = np.random.RandomState(1)
    X = rng.normal(size=(1500, 8))
    y = np.abs(X[:, 0]) + 0.7 * np.sign(X[:, 1]) + 0.2 * rng.normal(size=1500)
    model = AdaptiveRegressor(random_state=0).fit(X, y)
    assert {t.kernel for t in model.trials_ if t.metric == "learned"} >= {"laplacian_l1", "matern32"}
    kernel = next(d for d in model.summary().chosen if d.name == "kernel")
    assert kernel.loss < min(loss for _, loss in kernel.others)


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize("kind", cases([AdaptiveClassifier, AdaptiveOrdinalClassifier], AdaptiveOrdinalClassifier))
def test_adaptive_classifiers_have_a_summary(kind):
    X, y = table()
    model = kind(effort="fast", random_state=0).fit(X, np.digitize(y, [0.0, 1.0]))
    summary = model.summary()
    assert summary.scores[0].value == pytest.approx(model.summary().scores[0].value)
    assert dict(summary.fitted)["classes"] == "3: 0, 1, 2"


@pytest.mark.usefixtures("few_resamples")
def test_a_choice_of_the_loss_is_reported():
    X, y = table()
    model = AdaptiveClassifier(effort="fast", loss="auto", random_state=0).fit(X, y > 0.5)
    told = {d.name: d for d in model.summary().chosen}["loss"]
    other = {"log": "squared", "squared": "log"}[model.loss_]
    assert (told.loss, told.others) == (model.losses_[model.loss_], ((other, model.losses_[other]),))


def test_the_summary_survives_a_file(tmp_path):
    X, y = table()
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(X, y)
    ulmus.save(model, tmp_path / "model.ulmus")
    assert str(ulmus.load(tmp_path / "model.ulmus").summary()) == str(model.summary())


def test_models_that_learn_on_count_their_rows():
    X, y = regression(600)
    model = OSELMRegressor(20, C=1.0, slope=1.0, random_state=0)
    for part in np.array_split(np.arange(600), 3):
        model.partial_fit(X[part], y[part])
    assert dict(model.summary().fitted)["rows"] == "600"


def test_what_is_not_fitted_has_no_summary():
    with pytest.raises(NotFittedError):
        NKELMRegressor().summary()


def test_the_search_prints_as_a_table_with_a_star():
    X, y = regression(200)
    tuning = NKELMRegressor(random_state=0).fit(X, y).tuning_
    lines = repr(tuning).splitlines()
    assert len(lines) == len(tuning.trials) + 2
    starred = [line for line in lines[1:] if line.endswith("*")]
    assert len(starred) == 1
    assert f" {tuning.size} " in starred[0]
    assert "<table>" in tuning._repr_html_()
    robust = RobustNKELMRegressor(30, random_state=0).fit(X, y).penalty_tuning_
    assert len(repr(robust).splitlines()) == len(robust.C) + 1


def test_notebooks_show_the_summary_of_a_fitted_model_and_no_other():
    X, y = table()
    X = X.rename(columns={"weight": "<script>"})
    model = AdaptiveRegressor(effort="fast", random_state=0)
    assert "95 % interval" not in model._repr_html_()
    model.fit(X, y)
    for html in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert "95 % interval" in html
        assert "&lt;script&gt;" in html.rpartition("<h4>")[2]
        assert "<script>" not in html.rpartition("<h4>")[2]
        assert html.count("95 % interval") == 1


def test_tuning_display_draws_the_views_of_adaptive_models():
    X, y = table()
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(X, y)
    display = TuningDisplay.from_estimator(model)
    kinds = [tick.get_text() for tick in display.axes_[0].get_xticklabels()]
    star = next(line for line in display.axes_[0].lines if line.get_marker() == "*")
    assert kinds[int(star.get_xdata()[0])] == model.view_.preparation.columns.kind
    drawn = sum(len(line.get_xdata()) for line in display.lines_["width"])
    kind = model.view_.preparation.columns.kind
    assert drawn == sum(t.preparation == kind and t.stage == "view" for t in model.trials_)
    plt.close(display.figure_)


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize("measures", [REGRESSION, TWO_CLASSES, CLASSIFICATION, ORDINAL], ids="abcd")
def test_scores_by_weight_are_those_of_repeated_rows(measures):
    rng = np.random.RandomState(0)
    y, predicted, weight = rng.randint(2, size=50), rng.randint(2, size=50), rng.randint(1, 4, size=50)
    P = rng.dirichlet([1, 1], 50)
    answers = Answers.of_classes(y, predicted, P, weight.astype(float))
    many = Answers.of_classes(*(np.repeat(each, weight, axis=0) for each in (y, predicted, P)))
    for one, other in zip(scored(answers, measures), scored(many, measures), strict=True):
        assert one.value == pytest.approx(other.value)
        assert one.low <= one.value <= one.high


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
@pytest.mark.parametrize("share", [0.02, 0.3])
def test_no_area_is_shown_where_left_out_scores_rank_rows_backwards(share):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2300, 3))
    score = 2 * X[:, 0] + rng.normal(size=2300)
    y = score > np.quantile(score, 1 - share)
    flat = NKELMClassifier(50, gamma=0.1, C=1e-7, fit_intercept=True, random_state=0).fit(X[:300], y[:300])
    assert metrics.roc_auc_score(y[300:], flat.predict_proba(X[300:])[:, 1]) > 0.85
    told = flat.summary()
    assert "rank the rows backwards" in str(told)
    assert not {"area under the ROC curve", "average precision"} & {each.name for each in told.scores}
    good = NKELMClassifier(random_state=0).fit(X[:300], y[:300]).summary()
    assert {each.name: each.value for each in good.scores}["area under the ROC curve"] > 0.85
    assert ("3 of them are 'True'" in str(good)) == (share == 0.02)

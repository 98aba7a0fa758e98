"""The option ``metric`` of kernel models, and the metric as a step of a pipeline."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline

from data import cases
from ulmus import (
    ENDA,
    KLDA,
    ENDAEnsemble,
    KELMClassifier,
    KELMOrdinalClassifier,
    KELMRegressor,
    LearnedMetric,
    NKELMClassifier,
    NKELMOrdinalClassifier,
    NKELMRegressor,
    load,
    save,
    streaming,
)


def ridge_along(n=600, d=6, seed=0):
    """A target that varies along two features of six, and quickly along the first."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.05 * rng.normal(size=n)


def rotated(n=600, d=5, seed=0):
    """A target that varies along one direction, which is no feature."""
    rng = np.random.RandomState(seed)
    X, u = rng.normal(size=(n, d)), np.ones(d) / np.sqrt(d)
    return X, np.sin(2 * X @ u) + 0.05 * rng.normal(size=n), u


REGRESSORS = [KELMRegressor, NKELMRegressor]
NYSTROM_ENDA = partial(ENDA, features="nystrom")
DISCRIMINANTS = {
    "nystrom": NYSTROM_ENDA,
    "KLDA": KLDA,
    "ensemble": lambda metric=None, random_state=None: ENDAEnsemble(
        NYSTROM_ENDA(metric=metric), 3, random_state=random_state
    ),
}
CLASSIFIERS = [KELMClassifier, NKELMClassifier, KELMOrdinalClassifier, NKELMOrdinalClassifier]


@pytest.mark.parametrize("kind", cases(REGRESSORS, NKELMRegressor))
def test_a_learned_metric_lowers_the_error_where_few_features_matter(kind):
    X, y = ridge_along(1200)
    plain = kind(random_state=0).fit(X[:600], y[:600])
    learned = kind(random_state=0, metric="auto").fit(X[:600], y[:600])
    assert 1 - learned.score(X[600:], y[600:]) < 0.5 * (1 - plain.score(X[600:], y[600:]))
    assert_allclose(learned.feature_importances_.sum(), 1.0)
    assert learned.feature_importances_[0] > 0.7


@pytest.mark.parametrize("kind", cases(CLASSIFIERS, NKELMClassifier))
def test_classifiers_learn_it_too(kind):
    X, t = ridge_along(800)
    y = np.digitize(t, [-0.5, 0.5])
    model = kind(random_state=0, metric="auto").fit(X[:500], y[:500])
    plain = kind(random_state=0).fit(X[:500], y[:500])
    assert model.score(X[500:], y[500:]) > plain.score(X[500:], y[500:])
    assert model.feature_importances_.argmax() == 0


@pytest.mark.parametrize("kind", [*REGRESSORS, *CLASSIFIERS])
def test_a_given_metric_is_a_change_of_the_rows(kind):
    X, t = ridge_along(200)
    y = t if kind in REGRESSORS else np.digitize(t, [-0.5, 0.5])
    for A in (np.linspace(0.1, 2, 6), np.random.RandomState(0).normal(size=(6, 3))):
        seen = X * A if A.ndim == 1 else X @ A
        model = kind(random_state=0, metric=A).fit(X, y)
        same = kind(random_state=0).fit(seen, y)
        assert_allclose(
            model.predict(X[:20]).astype(float), same.predict(seen[:20]).astype(float), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("name", cases(DISCRIMINANTS, "nystrom"))
def test_discriminant_models_learn_it(name):
    X, t = ridge_along(800)
    y = np.digitize(t, [-0.5, 0.5])
    model = DISCRIMINANTS[name](random_state=0, metric="auto").fit(X[:500], y[:500])
    plain = DISCRIMINANTS[name](random_state=0).fit(X[:500], y[:500])
    assert model.score(X[500:], y[500:]) > plain.score(X[500:], y[500:])
    assert model.feature_importances_.argmax() == 0


@pytest.mark.parametrize("name", cases(DISCRIMINANTS, *(name for name in DISCRIMINANTS if name != "ensemble")))
def test_a_given_metric_of_a_discriminant_model_is_a_change_of_the_rows(name, tmp_path):
    X, t = ridge_along(150)
    y, new = np.digitize(t, [-0.5, 0.5]), ridge_along(20, seed=1)[0]
    for A in (np.linspace(0.1, 2, 6), np.random.RandomState(0).normal(size=(6, 3))):
        shown = partial(np.multiply, A) if A.ndim == 1 else lambda rows, A=A: rows @ A
        model = DISCRIMINANTS[name](random_state=0, metric=A).fit(X, y)
        same = DISCRIMINANTS[name](random_state=0).fit(shown(X), y)
        assert_allclose(model.transform(new), same.transform(shown(new)), rtol=1e-8, atol=1e-9)
        assert_allclose(model.predict_proba(new), same.predict_proba(shown(new)), rtol=1e-8, atol=1e-9)
        save(model, tmp_path / "m.ulmus")
        assert_allclose(load(tmp_path / "m.ulmus").transform(new), model.transform(new), rtol=0)
        if name == "ensemble":
            assert_allclose(model.members_[0].transform(new), same.members_[0].transform(shown(new)), rtol=1e-8)


def test_discriminant_models_go_on_in_the_metric_that_was_learned():
    X, t = ridge_along(400)
    y = np.digitize(t, [-0.5, 0.5])
    model = ENDA(40, features="nystrom", gamma=0.3, C=10.0, metric="full", random_state=0).fit(X[:300], y[:300])
    A, Z = model.metric_, model.map_.landmarks_
    model.partial_fit(X[300:], y[300:])
    same = ENDA(features="nystrom", landmarks=Z, gamma=0.3, C=10.0, random_state=0).fit(X @ A, y)
    assert_allclose(model.transform(X[:50]), same.transform(X[:50] @ A), rtol=1e-6, atol=1e-8)
    given = ENDA(features="nystrom", landmarks=Z @ np.linalg.inv(A), gamma=0.3, C=10.0, metric=A, random_state=0)
    assert_allclose(given.fit(X, y).transform(X[:50]), same.transform(X[:50] @ A), rtol=1e-6, atol=1e-8)


def test_landmarks_are_given_in_the_coordinates_of_the_rows():
    X, y = ridge_along(100)
    A = np.linspace(0.1, 2, 6)
    model = NKELMRegressor(landmarks=X[:30], metric=A, gamma=0.3, C=10.0).fit(X, y)
    same = NKELMRegressor(landmarks=X[:30] * A, gamma=0.3, C=10.0).fit(X * A, y)
    assert_allclose(model.predict(X), same.predict(X * A), rtol=1e-9)
    assert_allclose(model.residual_kernel(X), same.residual_kernel(X * A), atol=1e-9)


@pytest.mark.parametrize("form", cases(["full", "low_rank"], "full"))
def test_a_full_metric_finds_a_direction_that_is_no_feature(form):
    X, y, u = rotated(1200)
    model = NKELMRegressor(random_state=0, metric=form).fit(X[:600], y[:600])
    diagonal = NKELMRegressor(random_state=0, metric="diagonal").fit(X[:600], y[:600])
    assert 1 - model.score(X[600:], y[600:]) < 0.5 * (1 - diagonal.score(X[600:], y[600:]))
    leading = np.linalg.svd(model.metric_)[0][:, 0]
    assert abs(leading @ u) > 0.98
    if form == "low_rank":
        assert model.metric_.shape[1] < X.shape[1]


def test_weights_equal_repetition():
    X, y = ridge_along(150)
    w = np.random.RandomState(0).randint(1, 4, 150)
    weighted = LearnedMetric(random_state=0).fit(X, y, sample_weight=w).metric_
    again = np.repeat(np.arange(150), w)
    assert_allclose(weighted, LearnedMetric(random_state=0).fit(X[again], y[again]).metric_, rtol=1e-6)


def test_noise_keeps_the_plain_kernel_or_harms_little():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(300, 5)), rng.normal(size=300)
    model = NKELMRegressor(metric="auto", random_state=0).fit(X, y)
    assert model.score(rng.normal(size=(300, 5)), rng.normal(size=300)) > -0.15


def test_it_serves_models_of_others():
    X, y = ridge_along(1200)
    near = KNeighborsRegressor(5)
    plain = near.fit(X[:600], y[:600]).score(X[600:], y[600:])
    seen = make_pipeline(LearnedMetric(random_state=0), KNeighborsRegressor(5)).fit(X[:600], y[:600])
    assert seen.score(X[600:], y[600:]) > plain + 0.1
    labels = (y > 0).astype(int)
    make_pipeline(LearnedMetric(random_state=0), KLDA()).fit(X[:200], labels[:200]).predict(X[200:210])


def test_names_follow_the_columns():
    X, y = ridge_along(100)
    assert LearnedMetric(random_state=0).fit(X, y).get_feature_names_out()[0] == "x0"
    assert LearnedMetric(form="full", random_state=0).fit(X, y).get_feature_names_out()[0] == "metric0"


def test_a_saved_model_keeps_its_metric(tmp_path):
    X, y = ridge_along(200)
    for model in (NKELMRegressor(metric="auto", random_state=0), LearnedMetric(random_state=0)):
        fitted = model.fit(X, y)
        save(fitted, tmp_path / "m.ulmus")
        again = load(tmp_path / "m.ulmus")
        use = "predict" if hasattr(model, "predict") else "transform"
        assert_allclose(getattr(again, use)(X), getattr(fitted, use)(X), rtol=0)
        assert_allclose(again.feature_importances_, fitted.feature_importances_)


def test_rows_go_on_coming_in_the_metric_that_was_learned():
    X, y = ridge_along(600)
    fixed = {"gamma": 0.3, "C": 10.0, "n_landmarks": 50, "random_state": 0}
    model = NKELMRegressor(metric="auto", **fixed).fit(X[:400], y[:400])
    A, Z = model.metric_, model.map_.landmarks_
    model.partial_fit(X[400:], y[400:])
    same = NKELMRegressor(landmarks=Z, gamma=0.3, C=10.0).fit(X * A, y)
    assert_allclose(model.predict(X[:50]), same.predict(X[:50] * A), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X, y: NKELMRegressor(metric="auto").partial_fit(X, y), "fit on some rows first"),
        (lambda X, y: NKELMRegressor(metric=np.ones(3)).fit(X, y), "X has 6"),
        (lambda X, y: NKELMRegressor(metric=np.full(6, np.nan)).fit(X, y), "finite"),
        (lambda X, y: NKELMRegressor(metric=np.zeros(6)).fit(X, y), "not all 0"),
        (lambda X, y: KELMRegressor(metric="auto", kernel=lambda A, B: A @ B.T).fit(X, y), "callable"),
        (lambda X, y: streaming.fit(NKELMRegressor(metric="auto"), (X, y)), "LearnedMetric"),
        (lambda X, y: NYSTROM_ENDA(metric="auto").partial_fit(X, y > 0), "fit on some rows first"),
        (lambda X, y: ENDA(metric="auto").fit(X, y > 0), "metric needs features='nystrom', got features='random'"),
        (lambda X, y: ENDAEnsemble(ENDA(metric=np.ones(6))).fit(X, y > 0), "metric needs features='nystrom'"),
        (lambda X, y: streaming.fit(ENDA(metric="auto"), (X, y > 0)), "LearnedMetric"),
        (
            lambda X, y: NKELMRegressor(metric="auto").fit(X, y).set_params(metric=None).fit(X, y).metric_,
            "has no metric",
        ),
    ],
)
def test_what_cannot_be_fitted_is_refused(make, message):
    X, y = ridge_along(60)
    with pytest.raises((ValueError, AttributeError), match=message):
        make(X, y)


def test_sparse_rows_take_a_given_metric_and_no_learned_one():
    X, y = ridge_along(80)
    S, A = sparse.csr_array(X), np.linspace(0.5, 2, 6)
    fixed = {"gamma": 0.3, "C": 10.0, "n_landmarks": 20, "random_state": 0}
    dense_model, sparse_model = NKELMRegressor(metric=A, **fixed).fit(X, y), NKELMRegressor(metric=A, **fixed).fit(S, y)
    assert_allclose(sparse_model.predict(S), dense_model.predict(X), rtol=1e-6)
    with pytest.raises(TypeError, match="Sparse data is not supported"):
        NKELMRegressor(metric="auto").fit(S, y)

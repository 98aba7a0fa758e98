"""The models: the same answer however the data come, and the answer of the formulas."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score

import reference
from data import classification, regression, relative_error, rows, sparse_rows
from fixed import ELMClassifier, ELMRegressor, KELMClassifier, KELMRegressor, NKELMClassifier, NKELMRegressor

SEED = {"random_state": 0}
REGRESSORS = {
    "elm": ELMRegressor(30, C=64.0, **SEED),
    "elm-pinv": ELMRegressor(10, C=None, **SEED),
    "elm-radial": ELMRegressor(30, activation="gaussian", C=64.0, **SEED),
    "rvfl": ELMRegressor(20, direct_links=True, C=64.0, **SEED),
    "kelm": KELMRegressor(gamma=0.5, C=64.0, **SEED),
    "kelm-laplacian": KELMRegressor(kernel="laplacian", gamma=0.5, C=64.0, **SEED),
    "nkelm": NKELMRegressor(25, gamma=0.5, C=64.0, **SEED),
    "nkelm-rank": NKELMRegressor(25, gamma=0.5, C=64.0, rank=10, **SEED),
}
CLASSIFIERS = {
    "elm": ELMClassifier(30, C=64.0, **SEED),
    "kelm": KELMClassifier(gamma=0.5, C=64.0, **SEED),
    "nkelm": NKELMClassifier(25, gamma=0.5, C=64.0, **SEED),
}
regressors = pytest.mark.parametrize("name", REGRESSORS)
classifiers = pytest.mark.parametrize("name", CLASSIFIERS)
intercepts = pytest.mark.parametrize("fit_intercept", [False, True])


def regressor(name, **options):
    return clone(REGRESSORS[name]).set_params(**options)


def classifier(name, **options):
    return clone(CLASSIFIERS[name]).set_params(**options)


# ------------------------------------------------------------------------------------------- the dense formulas


@intercepts
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("C", [1.0, 2.0**20])
@regressors
def test_predictions_are_those_of_the_formulas(name, C, weighted, fit_intercept):
    X, T = regression(80, outputs=2)
    Q = rows(30, 3, seed=5)
    w = np.random.RandomState(1).uniform(0.2, 3.0, 80) if weighted else None
    model = regressor(name, fit_intercept=fit_intercept)
    if name != "elm-pinv":
        model.set_params(C=C)
    model.fit(X, T, sample_weight=w)
    if name.startswith("kelm"):
        K, K_q = (reference.kernel_matrix(model.kernel, A, X, 0.5) for A in (X, Q))
        alpha, b = reference.kelm(K, T, C, w, fit_intercept)
        expected = K_q @ alpha + b
    elif name.startswith("nkelm"):
        Z = model.map_.landmarks_
        K_xz, K_zz, K_qz = (reference.kernel_matrix("rbf", A, Z, 0.5) for A in (X, Z, Q))
        W, beta, b = reference.nkelm(K_xz, K_zz, T, C, w, fit_intercept, rank=model.rank)
        expected = K_qz @ W @ beta + b
    else:
        beta, b = reference.ridge(model.map_.transform(X), T, model.C, w, fit_intercept)
        expected = model.map_.transform(Q) @ beta + b
    assert relative_error(model.predict(Q), expected) < 1e-8


@intercepts
def test_an_elm_is_scikit_learns_ridge_on_its_hidden_layer(fit_intercept):
    X, T = regression(100)
    model = ELMRegressor(20, C=4.0, fit_intercept=fit_intercept, random_state=0).fit(X, T + 10)
    H = model.map_.transform(X)
    other = Ridge(alpha=0.25, fit_intercept=fit_intercept, solver="svd").fit(H, T + 10)
    assert relative_error(model.predict(X), other.predict(H)) < 1e-10


# ----------------------------------------------------------------------------------------- containers and types


@regressors
def test_arrays_frames_and_sparse_rows_give_the_same_predictions(name):
    X = sparse_rows(80, 6)
    T = np.sin(X).sum(axis=1)
    columns = [f"x{j}" for j in range(6)]
    expected = regressor(name).fit(X, T).predict(X)
    containers = {
        "pandas": pd.DataFrame(X, columns=columns),
        "polars": pl.DataFrame(X, schema=columns),
        "csr array": sparse.csr_array(X),
        "csr matrix": sparse.csr_matrix(X),
        "csc": sparse.csc_array(X),
        "fortran": np.asfortranarray(X),
        "list": X.tolist(),
    }
    for kind, rows_ in containers.items():
        assert relative_error(regressor(name).fit(rows_, T).predict(rows_), expected) < 1e-9, kind


@regressors
def test_targets_come_as_series_too(name):
    X, T = regression(60)
    expected = regressor(name).fit(X, T).predict(X)
    for y in (pd.Series(T), pl.Series(T), T.tolist(), T.astype(object)):
        assert relative_error(regressor(name).fit(X, y).predict(X), expected) < 1e-12


@regressors
def test_single_precision_rows_are_fitted_nearly_as_well(name):
    X, T = regression(300)
    X = X.astype(np.float32)
    double = regressor(name).fit(X.astype(np.float64), T)
    single = regressor(name).fit(X, T)
    for Q in (X, X.astype(np.float64)):
        assert relative_error(single.predict(Q), double.predict(X.astype(np.float64))) < 1e-3
    # narrow rows on a model that was fitted to wide ones
    assert relative_error(double.predict(X), double.predict(X.astype(np.float64))) < 1e-3


@classifiers
def test_frames_of_named_columns_are_checked_by_name(name):
    X, y = classification(60)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = classifier(name).fit(frame, y)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c"]])


@regressors
def test_a_pickled_model_predicts_the_same(name):
    X, T = regression(60)
    model = regressor(name).fit(X, T)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


@regressors
def test_any_number_of_threads_gives_the_same_predictions(name):
    X, T = regression(1100)  # several slabs
    expected = regressor(name, n_jobs=1).fit(X, T).predict(X)
    for n_jobs in (2, None, -1):
        assert np.array_equal(regressor(name, n_jobs=n_jobs).fit(X, T).predict(X), expected)


# --------------------------------------------------------------------------------------------- outputs and labels


@regressors
def test_several_outputs_are_several_models(name):
    X, T = regression(80, outputs=3)
    together = regressor(name).fit(X, T).predict(X)
    assert together.shape == (80, 3)
    apart = np.column_stack([regressor(name).fit(X, T[:, j]).predict(X) for j in range(3)])
    assert relative_error(together, apart) < 1e-9
    assert regressor(name).fit(X, T[:, :1]).predict(X).shape == (80, 1)


@classifiers
@pytest.mark.parametrize("classes", [2, 3])
def test_labels_of_any_kind_come_back_as_they_were(name, classes):
    X, y = classification(90, classes=classes)
    expected = classifier(name).fit(X, y).predict(X)
    names = np.array(["a", "b", "c"])  # in the order of the numbers
    words = names[y]
    for labels in (words, words.astype(object), pd.Series(words), pd.Series(words, dtype="category"), words.tolist()):
        model = classifier(name).fit(X, labels)
        assert list(model.classes_) == list(names[:classes])
        assert list(model.predict(X)) == list(names[expected])
    shifted = classifier(name).fit(X, 10 * y - 5).predict(X)
    assert np.array_equal(shifted, 10 * expected - 5)


@classifiers
def test_scores_are_regressions_on_plus_and_minus_one(name):
    X, y = classification(90, classes=3)
    model = classifier(name).fit(X, y)
    twin = regressor(name).fit(X, np.where(y[:, None] == np.arange(3), 1.0, -1.0))
    scores = model.decision_function(X)
    assert relative_error(scores, twin.predict(X)) < 1e-10
    assert np.array_equal(model.predict(X), scores.argmax(axis=1))
    pair = classifier(name).fit(X, y > 0)
    assert pair.decision_function(X).shape == (90,)
    assert np.array_equal(pair.predict(X), pair.decision_function(X) > 0)


# ------------------------------------------------------------------------------------------------------- weights


@intercepts
@regressors
def test_sample_weights_equal_repeats(name, fit_intercept):
    X, T = regression(60)
    w = np.random.RandomState(1).randint(0, 4, 60)
    again = np.random.RandomState(2).permutation(w.sum())
    X_repeated, T_repeated = (np.repeat(a, w, axis=0)[again] for a in (X, T))
    weighted = regressor(name, fit_intercept=fit_intercept).fit(X, T, sample_weight=w)
    repeated = regressor(name, fit_intercept=fit_intercept).fit(X_repeated, T_repeated)
    Q = rows(30, 3, seed=4)
    assert relative_error(weighted.predict(Q), repeated.predict(Q)) < 1e-8


@regressors
def test_a_common_weight_is_a_larger_C(name):
    X, T = regression(60)
    heavy = regressor(name).fit(X, T, sample_weight=np.full(60, 4.0))
    C = None if name == "elm-pinv" else 4 * 64.0
    assert relative_error(heavy.predict(X), regressor(name, C=C).fit(X, T).predict(X)) < 1e-9


@regressors
def test_duplicating_the_data_is_a_larger_C(name):
    X, T = regression(60)
    C = None if name == "elm-pinv" else 2 * 64.0
    twice = regressor(name).fit(np.vstack([X, X]), np.r_[T, T])
    assert relative_error(twice.predict(X), regressor(name, C=C).fit(X, T).predict(X)) < 1e-8


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
@classifiers
def test_class_weights_are_sample_weights(name):
    X, y = classification(90, classes=3)
    X, y = X[(y != 2) | (np.arange(90) % 3 == 0)], y[(y != 2) | (np.arange(90) % 3 == 0)]
    counts = np.bincount(y)
    balance = len(y) / (3 * counts)
    for class_weight, per_class in (({0: 1.0, 1: 2.0, 2: 5.0}, np.array([1.0, 2.0, 5.0])), ("balanced", balance)):
        expected = classifier(name).fit(X, y, sample_weight=per_class[y]).decision_function(X)
        actual = classifier(name, class_weight=class_weight).fit(X, y).decision_function(X)
        assert relative_error(actual, expected) < 1e-9
    both = classifier(name, class_weight={0: 1.0, 1: 2.0, 2: 5.0}).fit(X, y, sample_weight=np.full(len(y), 0.5))
    expected = classifier(name).fit(X, y, sample_weight=0.5 * np.array([1.0, 2.0, 5.0])[y])
    assert relative_error(both.decision_function(X), expected.decision_function(X)) < 1e-9


@classifiers
def test_class_weights_are_named_by_label(name):
    X, y = classification(90, classes=2)
    words = np.array(["no", "yes"])[y]
    expected = classifier(name, class_weight={0: 1.0, 1: 7.0}).fit(X, y).decision_function(X)
    actual = classifier(name, class_weight={"no": 1.0, "yes": 7.0}).fit(X, words).decision_function(X)
    assert relative_error(actual, expected) < 1e-12
    plain = classifier(name).fit(X, y).decision_function(X)
    assert relative_error(actual, plain) > 0.01


# -------------------------------------------------------------------------------------------- scikit-learn citizens


@classifiers
def test_models_take_part_in_model_selection(name):
    X, y = classification(120, classes=2)
    assert cross_val_score(classifier(name), X, y, cv=3).mean() > 0.8
    search = GridSearchCV(classifier(name), {"C": [1e-3, 1.0, 1e3]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.8


@regressors
def test_fitted_numbers_are_kept_under_their_names(name):
    X, T = regression(60)
    model = regressor(name).fit(X, T)
    assert model.C_ == model.C
    assert model.n_features_in_ == 3
    if name.startswith("elm"):
        assert model.n_hidden_ == model.n_hidden
        assert model.beta_.shape == (model.n_hidden, 1)
    elif name.startswith("nkelm"):
        assert (model.gamma_, model.n_landmarks_) == (0.5, 25)
    elif name == "kelm":
        assert model.gamma_ == 0.5
        assert model.alpha_.shape == (60, 1)

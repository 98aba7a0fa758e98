"""Jackknife+ from the factor is jackknife+ by refits."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ulmus
from data import cases
from ulmus import (
    AdaptiveRegressor,
    ELMRegressor,
    KELMRegressor,
    NKELMRegressor,
    NystromMap,
    OSELMRegressor,
    RobustELMRegressor,
)
from ulmus.calibration.conformal import lower, upper
from ulmus.engine import Rows
from ulmus.models._effort import EFFORTS
from ulmus.solvers.nystrom_ridge import NystromProblem

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


def data(seed=0, n=40, q=15):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n + q, 3))
    Y = np.column_stack([np.sin(X[:, 0]) + X[:, 1], X[:, 2] ** 2]) + 0.2 * rng.normal(size=(n + q, 2))
    return X[:n], Y[:n], X[n:]


def classical(left_out, E, coverage, symmetric):
    """Order statistics as the definition has them, for rows of weight 1: ⌊α(n+1)⌋ from below, ⌈(1−α)(n+1)⌉."""
    n, alpha = len(E), 1.0 - coverage
    if symmetric:
        k = int(np.ceil((1.0 - alpha) * (n + 1) - 1e-9))
        low, high = np.sort(left_out - np.abs(E), axis=1), np.sort(left_out + np.abs(E), axis=1)
        return np.column_stack([low[:, n - k], high[:, k - 1]])
    k = int(np.ceil((1.0 - alpha / 2) * (n + 1) - 1e-9))
    both = np.sort(left_out + E, axis=1)
    return np.column_stack([both[:, n - k], both[:, k - 1]])


def refits(make, X, Y, Q, w=None):
    """Predictions of new rows, and the errors, of models without each row: ``[new row, row, output]``."""
    n = len(X)
    at_new, errors = np.empty((len(Q), n, Y.shape[1])), np.empty(Y.shape)
    for i in range(n):
        rest = np.arange(n) != i
        predict = make(X[rest], Y[rest], None if w is None else w[rest], i)
        at_new[:, i], errors[i] = predict(Q), Y[i] - predict(X[[i]])[0]
    return at_new, errors


def check(model, make, symmetric, w=None, tolerance=1e-8):
    X, Y, Q = data()
    ends = model.fit(X, Y, w).predict_interval(
        Q, [0.5, 0.9], method="jackknife+", tails="symmetric" if symmetric else "equal"
    )
    at_new, errors = refits(make, X, Y, Q, w)
    for c, coverage in enumerate((0.5, 0.9)):
        for j in range(2):
            expected = classical(at_new[:, :, j], errors[:, j], coverage, symmetric)
            np.testing.assert_allclose(ends[:, j, c], expected, atol=tolerance * np.abs(Y).max())


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_exact_kernel(symmetric, intercept):
    def make(X, Y, w, i):
        return KELMRegressor(gamma=0.3, C=20.0, fit_intercept=intercept).fit(X, Y, w).predict

    check(KELMRegressor(gamma=0.3, C=20.0, fit_intercept=intercept), make, symmetric)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_landmarks_leave_with_their_rows(symmetric, intercept):
    X, Y, _ = data()
    model = NKELMRegressor(15, gamma=0.3, C=20.0, fit_intercept=intercept, random_state=0).fit(X, Y)
    Z = model.map_.landmarks_

    def make(X_rest, Y_rest, w, i):
        others = NystromMap(landmarks=Z[~(X[i] == Z).all(axis=1)], gamma=0.3).fit(X_rest)
        found = NystromProblem(others, Rows(X_rest, Y_rest), 20.0, fit_intercept=intercept).solve()
        return lambda Q: others.transform(Q) @ found.beta + found.intercept

    assert sum((x == Z).all(axis=1).any() for x in X) == 15
    check(model, make, symmetric)


@pytest.mark.parametrize("Model", [ELMRegressor, OSELMRegressor])
@pytest.mark.parametrize("intercept", [False, True])
def test_random_layers(Model, intercept):
    X, Y, _ = data()
    options = {"slope": 1.0, "C": 50.0, "fit_intercept": intercept, "random_state": 0}
    layer = Model(20, **options).fit(X, Y).map_

    def make(X, Y, w, i):
        Phi = layer.transform(X)
        mean, top = (Phi.mean(axis=0), Y.mean(axis=0)) if intercept else (0.0, 0.0)
        beta = np.linalg.solve((Phi - mean).T @ (Phi - mean) + np.eye(20) / 50.0, (Phi - mean).T @ (Y - top))
        return lambda Q: (layer.transform(Q) - mean) @ beta + top

    check(Model(20, **options), make, False)


def test_it_covers_where_weights_have_nearly_as_much_freedom_as_rows():
    """Other intervals, which warn, cover half of the targets there."""
    told = {method: [] for method in ("normalised", "jackknife+")}
    for seed in range(4):
        rng = np.random.RandomState(seed)
        X = rng.normal(size=(900, 3))
        y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=900)
        model = ELMRegressor(98, C=None, random_state=seed).fit(X[:100], y[:100])
        for method, covered in told.items():
            low, high = model.predict_interval(X[100:], 0.9, method=method).T
            covered.append(((low <= y[100:]) & (y[100:] <= high)).mean())
    assert np.mean(told["normalised"]) < 0.8
    assert np.mean(told["jackknife+"]) > 0.9


def test_a_weight_of_two_is_two_copies():
    X, Y, Q = data()
    w = np.random.RandomState(1).randint(1, 4, len(X))
    for model in (NKELMRegressor(12, gamma=0.3, C=20.0, random_state=0), KELMRegressor(gamma=0.3, C=20.0)):
        one = model.fit(X, Y, w).predict_interval(Q, method="jackknife+")
        copies = model.fit(np.repeat(X, w, 0), np.repeat(Y, w, 0)).predict_interval(Q, method="jackknife+")
        np.testing.assert_allclose(copies, one, atol=1e-8)


def test_all_rows_as_landmarks_give_the_intervals_of_the_exact_model():
    X, Y, Q = data()
    options = {"gamma": 0.3, "C": 20.0, "fit_intercept": True}
    models = (NKELMRegressor(landmarks="all", **options), KELMRegressor(**options))
    ends = [model.fit(X, Y).predict_interval(Q, method="jackknife+") for model in models]
    np.testing.assert_allclose(*ends, atol=1e-7)


def test_it_covers_where_a_model_nearly_interpolates():
    shares = []
    for seed in range(20):
        rng = np.random.RandomState(seed)
        X = rng.normal(size=(140, 5))
        y = X[:, 0] + rng.normal(size=140)
        model = KELMRegressor(gamma=0.2, C=1e3).fit(X[:40], y[:40])
        low, high = model.predict_interval(X[40:], 0.8, method="jackknife+").T
        shares.append(np.mean((low <= y[40:]) & (y[40:] <= high)))
    assert 0.76 < np.mean(shares) < 0.9


def fitted_adaptive(kind):
    """An adaptive model, rows as it has learned them, and rows to ask about."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, (420, 3))
    y = np.sin(9 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=420)
    Q, w = rng.uniform(-1, 1, (8, 3)), None
    if kind == "copies":
        X[380:] = X[300:340]
    if kind == "weights":
        w = rng.randint(1, 4, 420).astype(float)
    if kind == "target means":
        level = rng.randint(0, 40, 428)
        X, Q = (pd.DataFrame(part, columns=list("abc")) for part in (X, Q))
        X["level"], Q["level"] = (pd.Categorical([f"l{k}" for k in part]) for part in (level[:420], level[420:]))
        y = y + np.sin(1.7 * level[:420])
    model = AdaptiveRegressor(effort="fast", trees=False, random_state=0, n_jobs=1).fit(X, y, w)
    return model, X, y, np.ones(420) if w is None else w, Q


def stages_without(model, U, y, w, i):
    """Both stages of an adaptive model fitted without row i: the same view, C, partitions and penalties."""
    fit, w = model.fitted_.weights, w.copy()
    w[i] = 0.0
    keep, Z = w > 0, fit.features.landmarks_
    if not w[(U[i] == U).all(axis=1)].any():
        Z = Z[(U[i] != Z).any(axis=1)]
    U, y, w = U[keep], y[keep], w[keep]

    def kernel(A, B, gamma=fit.view.gamma):
        return np.exp(-gamma * np.abs(A[:, None] - B).sum(axis=2))  # the L1-Laplacian

    F = np.column_stack([kernel(U, Z), np.ones(len(U))])
    penalty = np.zeros((len(Z) + 1, len(Z) + 1))
    penalty[:-1, :-1] = kernel(Z, Z) / fit.C
    weights = np.linalg.solve(F.T @ (w[:, None] * F) + penalty, F.T @ (w * y))
    r, local = y - F @ weights, fit.local

    def answer(V):
        out = np.column_stack([kernel(V, Z), np.ones(len(V))]) @ weights
        for partition in () if local is None else local.partitions:
            leaf_of, asked_in = partition.leaves(U), partition.leaves(V)
            for leaf in np.unique(asked_in):
                mine, asked = leaf_of == leaf, asked_in == leaf
                A = kernel(U[mine], U[mine], local.gamma) + np.diag(local.ridge / w[mine])
                share = kernel(V[asked], U[mine], local.gamma) @ np.linalg.solve(A, r[mine]) / len(local.partitions)
                out[asked] += share
        return out

    return answer


@pytest.mark.parametrize("kind", cases(["rows", "copies", "weights", "target means"], "weights"))
def test_adaptive_models_leave_rows_out_of_both_stages(kind):
    """The view stays: coordinates, kernel, C, partitions and penalties."""
    model, X, y, w, Q = fitted_adaptive(kind)
    ends, fitted = model.predict_interval(Q, 0.77, method="jackknife+"), model.fitted_
    assert fitted.weights.view.kernel == "laplacian_l1"
    assert (fitted.weights.local is None) == (kind == "target means")
    held, now = fitted.certainty.rows, model.predict(Q)[:, None]
    left_out = now - model._leaning(fitted)(model._checked(Q, fitted))[1][:, :, 0]
    e = held.T[:, 0] - held.P[:, 0]
    both = [end(left_out + e, held.weight, np.array([at])) for end, at in ((lower, 0.115), (upper, 0.885))]
    np.testing.assert_allclose(ends, np.column_stack(both))
    U, V = model._learned_coordinates(Rows(model._checked(X, fitted), y[:, None], w)), model.coordinates(Q)
    for k in range(0, len(e), 15):
        i = int(np.argmin(np.abs(y - held.T[k, 0])))
        without = stages_without(model, U, y, w, i)
        np.testing.assert_allclose(left_out[:, k], without(V), atol=1e-8 * np.abs(y).max())
        if kind != "target means":  # asked there at the coordinates of a new row of the same values
            np.testing.assert_allclose(e[k], y[i] - without(U[[i]])[0], atol=1e-8 * np.abs(y).max())


def test_an_adaptive_model_from_a_file_has_the_same_jackknife(tmp_path):
    model, *_, Q = fitted_adaptive("target means")
    ulmus.save(model, tmp_path / "model.ulmus")
    ends = [each.predict_interval(Q, method="jackknife+") for each in (model, ulmus.load(tmp_path / "model.ulmus"))]
    np.testing.assert_array_equal(*ends)


@pytest.mark.parametrize("kind", cases(["rows", "copies", "weights", "target means"], "copies"))
def test_trees_leave_the_part_of_a_row_when_it_leaves_the_kernels(kind, tmp_path, monkeypatch):
    plan = replace(EFFORTS["fast"], budget=replace(EFFORTS["fast"].budget, cuts=False, additive=False))
    monkeypatch.setitem(EFFORTS, "fast", plan)  # the same view without trees and with them
    plain, X, y, w, Q = fitted_adaptive(kind)
    model = AdaptiveRegressor(effort="fast", random_state=0, n_jobs=1).fit(X, y, w)
    ends, fitted, share = model.predict_interval(Q, method="jackknife+"), model.fitted_, model.tree_weight_
    rows, own = fitted.certainty.rows.by_itself, fitted.weights.trees.apart()
    assert share > 0.05
    assert set(rows.without) == {0, 1, 2} == set(range(len(own)))
    before, now = plain._now("certainty"), model.predict(Q)[:, None]
    np.testing.assert_array_equal(rows.T, before.certainty.rows.T)
    kernels = plain.predict(Q)[:, None] - plain._leaning(before)(plain._checked(Q, before))[1][:, :, 0]
    answers = np.column_stack([each.predict(model.coordinates(Q))[:, 0] for each in own])  # have their share
    left_out = now - model._leaning(fitted)(model._checked(Q, fitted))[1][:, :, 0]
    np.testing.assert_allclose(left_out, (1 - share) * kernels + answers[:, rows.without], atol=1e-8)
    e = rows.T[:, 0] - rows.P[:, 0]
    both = [end(left_out + e, rows.weight, np.array([at])) for end, at in ((lower, 0.05), (upper, 0.95))]
    np.testing.assert_allclose(ends, np.column_stack(both))
    ulmus.save(model, tmp_path / "model.ulmus")
    np.testing.assert_array_equal(ulmus.load(tmp_path / "model.ulmus").predict_interval(Q, method="jackknife+"), ends)


def test_what_stands_beside_the_stages_of_an_adaptive_model_has_no_closed_form():
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, (300, 2))
    model = AdaptiveRegressor(effort="fast", monotonic_cst=[1, 0], random_state=0, n_jobs=1).fit(X, X[:, 0] ** 3)
    with pytest.raises(ValueError, match=r"no closed form for that: .*monotonic_cst"):
        model.predict_interval(X[:3], method="jackknife+")


@pytest.mark.parametrize(
    ("model", "groups", "says"),
    [
        (AdaptiveRegressor(effort="fast", random_state=0), False, "by whole fits"),
        (RobustELMRegressor(10, C=1.0, random_state=0), False, "robust losses leave rows out approximately"),
        (OSELMRegressor(10, C=1.0, loss="huber", random_state=0), False, 'needs loss="squared"'),
        (NKELMRegressor(10, C=1.0, random_state=0), True, "calibrated on whole folds"),
        (KELMRegressor(C=1.0, gamma=1.0), True, "calibrated on whole folds"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else None,
)
def test_models_whose_rows_do_not_leave_one_by_one_say_so(model, groups, says):
    X, Y, Q = data()
    model.fit(X, Y[:, 0], groups=np.arange(40) % 8 if groups else None)
    with pytest.raises(ValueError, match=says):
        model.predict_interval(Q, method="jackknife+")


def test_cv_plus_is_made_of_real_refits_without_each_fold():
    rng = np.random.RandomState(3)
    X = rng.uniform(-2, 2, (90, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=90)
    new, landmarks = rng.uniform(-2, 2, (7, 2)), rng.uniform(-2, 2, (15, 2))
    given = {"n_landmarks": 15, "landmarks": landmarks, "gamma": 0.5, "C": 3.0, "fit_intercept": True}
    fold = np.arange(90) % 5
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]
    model = NKELMRegressor(**given, cv=splits).fit(X, y)
    left = np.empty((7, 90))
    errors = np.empty(90)
    for k, (train, test) in enumerate(splits):
        refit = NKELMRegressor(**given).fit(X[train], y[train])
        left[:, fold == k] = refit.predict(new)[:, None]
        errors[test] = y[test] - refit.predict(X[test])
    values = np.sort(left + errors, axis=1)
    rank = int(np.ceil(0.95 * 91)) - 1
    expected = np.column_stack([values[:, 90 - 1 - rank], values[:, rank]])
    np.testing.assert_allclose(model.predict_interval(new, 0.9, method="cv+"), expected, atol=1e-8)


def test_cv_plus_needs_folds():
    X = np.random.RandomState(4).normal(size=(50, 2))
    with pytest.raises(ValueError, match="keeps none"):
        NKELMRegressor(10, random_state=0).fit(X, X[:, 0]).predict_interval(X, method="cv+")

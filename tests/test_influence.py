"""Rows that leave: answers without a row, and what it is worth, equal to real refits."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data import cases
from ulmus import (
    AdaptiveClassifier,
    AdaptiveRegressor,
    ELMClassifier,
    ELMRegressor,
    KELMClassifier,
    KELMRegressor,
    NKELMClassifier,
    NKELMRegressor,
    RobustNKELMRegressor,
    load,
    save,
)
from ulmus.calibration import probabilities
from ulmus.codings import OneVsAll
from ulmus.engine import Rows
from ulmus.features.kernels import KernelParameters, gram_matrix
from ulmus.models._effort import EFFORTS
from ulmus.models._without_rows import without_rows

RNG = np.random.RandomState(0)
X = RNG.normal(size=(60, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=60)
LABELS = np.array(["a", "b", "c"])[np.digitize(Y, [-0.7, 0.7])]
NEW = RNG.normal(size=(5, 3))
WEIGHT = RNG.choice([0.5, 1.0, 3.0], size=60)
LANDMARKS = X[::3] + 0.01
GIVEN = {"gamma": 0.4, "C": 5.0}


def answers(model, rows):
    return model.decision_function(rows) if hasattr(model, "classes_") else model.predict(rows)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    ("make", "target"),
    [
        (lambda: KELMRegressor(**GIVEN), Y),
        (lambda: KELMRegressor(**GIVEN, fit_intercept=True), Y),
        (lambda: KELMRegressor(**GIVEN, metric=[1.0, 0.5, 0.1], kernel="matern32"), np.column_stack([Y, Y**2])),
        (lambda: KELMClassifier(**GIVEN, class_weight={"a": 1.0, "b": 2.0, "c": 0.5}), LABELS),
        (lambda: NKELMRegressor(20, landmarks=LANDMARKS, **GIVEN), Y),
        (lambda: NKELMRegressor(20, landmarks=LANDMARKS, **GIVEN, fit_intercept=True), Y),
        (lambda: NKELMClassifier(20, landmarks=LANDMARKS, **GIVEN), LABELS),
        (lambda: NKELMClassifier(20, landmarks=LANDMARKS, **GIVEN), LABELS == "b"),
        (lambda: ELMRegressor(15, C=5.0, scale=1.0, slope=1.0, random_state=0), Y),
        (lambda: ELMRegressor(15, C=5.0, scale=1.0, slope=1.0, fit_intercept=True, random_state=0), Y),
        (lambda: ELMRegressor(80, C=5.0, scale=1.0, slope=1.0, random_state=0), Y),
        (lambda: ELMClassifier(15, C=5.0, scale=1.0, slope=1.0, random_state=0), LABELS),
    ],
    ids=["kelm", "kelm constant", "kelm outputs", "kelm classes", "nkelm", "nkelm constant", "nkelm classes",
         "nkelm two", "elm", "elm constant", "elm dual", "elm classes"],
)  # fmt: skip
def test_answers_without_a_row_equal_refits(make, target, weighted):
    weight = WEIGHT if weighted else None
    model = make().fit(X, target, sample_weight=weight)
    found = model.influences(NEW, X, target, sample_weight=weight)
    for i in (0, 7, 33):
        rest = np.arange(60) != i
        other = make().fit(X[rest], target[rest], sample_weight=None if weight is None else weight[rest])
        np.testing.assert_allclose(answers(model, NEW) - found[:, i], answers(other, NEW), atol=1e-8)


def test_an_exact_kernel_holds_its_rows_in_the_order_of_the_fit(tmp_path):
    rng = np.random.RandomState(1)
    many = rng.normal(size=(1_100, 2))
    target = np.sin(many[:, 0]) + 0.1 * rng.normal(size=1_100)
    model = KELMRegressor(gamma=0.5, C=3.0).fit(many, target)
    given = model.influences(NEW[:, :2], many, target)
    np.testing.assert_allclose(model.influences(NEW[:, :2]), given, atol=1e-9)
    save(model, tmp_path / "model.ulmus")
    np.testing.assert_allclose(load(tmp_path / "model.ulmus").influences(NEW[:, :2]), given, atol=1e-9)
    np.testing.assert_allclose(model.row_values(), model.row_values(many, target), atol=1e-8)


def kernel(name, gamma, A, B):
    both = gram_matrix(name, np.concatenate([A, B]), KernelParameters(gamma))
    return both[: len(A), len(A) :]


def two_stages(model, U, T, w, queries):
    """Both stages of an adaptive model on these rows, from scratch, in its view; the answers of the queries."""
    Phi, at = model.map_.transform(U), model.map_.transform(queries)
    mean_phi, mean = np.average(Phi, axis=0, weights=w), np.average(T, axis=0, weights=w)
    if not model._intercept:
        mean_phi, mean = 0 * mean_phi, 0 * mean
    G = (Phi - mean_phi).T @ (w[:, None] * (Phi - mean_phi)) + np.eye(Phi.shape[1]) / model.C_
    beta = np.linalg.solve(G, (Phi - mean_phi).T @ (w[:, None] * (T - mean)))
    out = (at - mean_phi) @ beta + mean
    R, local = T - (Phi - mean_phi) @ beta - mean, model.local_
    if local is None:
        return out
    for partition in local.partitions:
        home, asked = partition.leaves(U), partition.leaves(queries)
        for leaf in np.unique(asked):
            rows = home == leaf
            A = kernel(local.kernel, local.gamma, U[rows], U[rows]) + np.diag(local.ridge / w[rows])
            k = kernel(local.kernel, local.gamma, queries[asked == leaf], U[rows])
            out[asked == leaf] += k @ np.linalg.solve(A, R[rows]) / len(local.partitions)
    return out


def rough(n=700):
    rng = np.random.RandomState(2)
    frame = pd.DataFrame({"x": rng.uniform(-3, 3, n), "z": rng.normal(size=n), "town": rng.choice(list("uvwxyz"), n)})
    y = np.floor(4 * frame["x"]) % 2 + (frame["town"] < "w") + 0.05 * rng.normal(size=n)
    return frame, y.to_numpy()


@pytest.mark.parametrize("kind", cases(["regression", "classification"], "classification"))
def test_adaptive_models_leave_rows_out_of_both_stages(kind):
    frame, y = rough()
    if kind == "regression":
        model, T = AdaptiveRegressor(random_state=0), y[:, None]
    else:
        y = np.where(y > 0.9, "high", "low")
        model, T = (
            AdaptiveClassifier(effort="fast", loss="squared", random_state=0),
            np.where(y == "high", -1.0, 1.0)[:, None],
        )
    # few landmarks, which leave something to leaves, and several of these; trees are held fixed (tests/test_trees.py)
    few = 60 if kind == "regression" else 20
    model._plan = replace(EFFORTS["default"], landmarks=few, wide_leaf_rows=250, tree_parts=0)
    model.fit(frame, y)
    assert model.local_ is not None, "the case has to have a local stage"
    assert model.local_.partitions[0].n_leaves > 1
    w = np.ones(len(y))
    U = model._learned_coordinates(Rows(model._checked(frame), T))
    queries = model.view_.transform(model._checked(frame[:40]))
    np.testing.assert_allclose(two_stages(model, U, T, w, queries)[:, 0], answers(model, frame[:40]), atol=1e-6)
    found = model.influences(frame[:40], frame, y)
    values = model.row_values(frame, y)
    assert np.isfinite(values).all()
    for i in (0, 3, 123, 500):
        rest = np.arange(len(y)) != i
        without = two_stages(model, U[rest], T[rest], w[rest], queries)[:, 0]
        np.testing.assert_allclose(answers(model, frame[:40]) - found[:, i], without, atol=1e-6)
    leaving, some = without_rows(model, frame, y, None)[0], np.array([7, 3, 600, 123, 55])
    pairs = leaving.effects(queries[:5])[np.arange(5), some]  # those that the importance of inputs asks for
    np.testing.assert_allclose(leaving.own_effects(some)(queries[:5]), pairs, atol=1e-9)


def test_weights_of_adaptive_models_count_as_copies():
    frame, y = rough(400)
    times = np.random.RandomState(0).choice([1, 2], 400)
    copied = frame.loc[np.repeat(np.arange(400), times)].reset_index(drop=True), np.repeat(y, times)
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(frame, y, sample_weight=times)
    weighted = model.influences(frame[:5], frame, y, sample_weight=times)
    apart = model.influences(frame[:5], *copied)
    once = np.flatnonzero(times == 1)
    first = np.searchsorted(np.repeat(np.arange(400), times), once)
    np.testing.assert_allclose(weighted[:, once], apart[:, first], atol=1e-7)


def left_out_loss(make, rows, target, loss):
    """Total loss of rows by models without them."""
    total = 0.0
    for j in range(len(rows)):
        rest = np.arange(len(rows)) != j
        total += loss(make().fit(rows[rest], target[rest]), rows[j : j + 1], target[j])
    return total


@pytest.mark.parametrize(
    ("make", "target"),
    [
        (lambda: KELMRegressor(**GIVEN, fit_intercept=True), Y),
        (lambda: NKELMRegressor(20, landmarks=LANDMARKS, **GIVEN, fit_intercept=True), Y),
        (lambda: KELMClassifier(**GIVEN), LABELS),
        (lambda: NKELMClassifier(20, landmarks=LANDMARKS, **GIVEN), LABELS),
    ],
    ids=["kelm", "nkelm", "kelm classes", "nkelm classes"],
)
def test_row_values_equal_refits_without_the_row(make, target):
    rows, target = X[:22], target[:22]
    whole = make().fit(rows, target)

    def loss(model, row, truth):
        if not hasattr(whole, "classes_"):
            return float((model.predict(row)[0] - truth) ** 2)
        scores = OneVsAll.class_scores(np.atleast_2d(model.decision_function(row)))
        P = probabilities(scores, whole.temperature_, whole.floor_)
        return float(-np.log(P[0, whole.classes_ == truth][0]))

    values = whole.row_values(rows, target)
    before = left_out_loss(make, rows, target, loss)
    for i in (0, 5, 11):
        rest = np.arange(22) != i
        expected = left_out_loss(make, rows[rest], target[rest], loss) - before
        assert values[i] == pytest.approx(expected, abs=1e-7)


def test_mislabelled_rows_have_the_lowest_values():
    rng = np.random.RandomState(0)
    rows = rng.normal(size=(400, 4))
    truth = rows[:, 0] + rows[:, 1] > 0
    clear = np.abs(rows[:, 0] + rows[:, 1]) > 0.7
    flipped = rng.choice(np.flatnonzero(clear), 20, replace=False)
    labels = truth.copy()
    labels[flipped] = ~labels[flipped]
    for model in (
        KELMClassifier(random_state=0),
        NKELMClassifier(100, random_state=0),
        AdaptiveClassifier(loss="squared", random_state=0),
    ):
        worst = np.argsort(model.fit(rows, labels).row_values(rows, labels))[:20]
        assert len(np.intersect1d(worst, flipped)) >= 17, type(model).__name__


def test_rows_of_another_fit_are_refused():
    model = NKELMRegressor(20, **GIVEN, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="not those that the model was fitted to"):
        model.influences(NEW, X, Y + X[:, 0])
    with pytest.raises(ValueError, match="not those that the model was fitted to"):
        model.influences(NEW, X[1:], Y[1:])
    with pytest.raises(ValueError, match="does not hold its training rows"):
        model.influences(NEW)
    with pytest.raises(ValueError, match="X_train has 60 rows and y_train has 59"):
        model.influences(NEW, X, Y[1:])


@pytest.mark.parametrize(
    "make",
    [
        lambda: ELMClassifier(10, C=None, random_state=0),
    ],
    ids=["no penalty"],
)
def test_models_whose_rows_cannot_leave_in_closed_form_say_so(make):
    with pytest.raises(ValueError, match="in closed form"):
        make().fit(X, LABELS).influences(NEW, X, LABELS)


def test_robust_models_are_distinguished_from_plain_ones():
    outlying = Y.copy()
    outlying[:5] += 100
    model = RobustNKELMRegressor(20, **GIVEN, random_state=0).fit(X, outlying)
    with pytest.raises(ValueError, match=r"not those that the model was fitted to|in closed form"):
        model.influences(NEW, X, outlying)


@pytest.mark.parametrize(
    "kind", cases([NKELMRegressor, KELMRegressor, AdaptiveRegressor, AdaptiveClassifier], AdaptiveRegressor)
)
def test_rows_of_weight_0_do_nothing_and_keep_their_places(kind):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + 0.3 * rng.normal(size=60)
    w = rng.choice([0.0, 1.0, 2.0], 60)
    target = (y > 0).astype(int) if kind is AdaptiveClassifier else y
    options = {"trees": False} if kind in (AdaptiveRegressor, AdaptiveClassifier) else {}
    model = kind(random_state=0, **options).fit(X, target, sample_weight=w)
    found, values = model.influences(X[:4], X, target, sample_weight=w), model.row_values(X, target, sample_weight=w)
    assert found.shape == (4, 60)
    assert values.shape == (60,)
    some = w > 0
    assert not found[:, ~some].any()
    assert not values[~some].any()
    np.testing.assert_array_equal(found[:, some], model.influences(X[:4], X[some], target[some], sample_weight=w[some]))
    np.testing.assert_array_equal(values[some], model.row_values(X[some], target[some], sample_weight=w[some]))

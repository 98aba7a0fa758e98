"""Logistic bits: Newton's method against scikit-learn, against its own optimality, and against refits."""

import warnings

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from data import cases
from test_ordinal import FIXED, MODELS, fixed, noisy
from ulmus import ELMOrdinalClassifier, KELMOrdinalClassifier, NKELMOrdinalClassifier, NumericalWarning
from ulmus.engine import Rows
from ulmus.features.nystrom import NystromMap
from ulmus.solvers.logistic import FeatureRidge, fit_logistic


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("Model", [ELMOrdinalClassifier, NKELMOrdinalClassifier])
def test_every_bit_is_scikit_learns_logistic_regression(Model, fit_intercept):
    X, y = noisy(200, noise=1.0)
    weight = np.random.RandomState(0).uniform(0.5, 2, 200)
    model = fixed(Model, loss="logistic", C=2.0, fit_intercept=fit_intercept).fit(X, y, sample_weight=weight)
    Phi = model.map_.transform(X)
    for j in range(4):
        rival = LogisticRegression(C=2.0, fit_intercept=fit_intercept, tol=1e-10, solver="newton-cholesky")
        rival.fit(Phi, y >= j + 2, sample_weight=weight)
        np.testing.assert_allclose(model._scores_of(X)[:, j], rival.decision_function(Phi), atol=1e-4)


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize("C", cases([1e-3, 1.0, 1e4], 1e-3, 1e4))
def test_the_gradient_vanishes(Model, C):
    X, y = noisy(150)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NumericalWarning)
        model = fixed(Model, loss="logistic", C=C).fit(X, y)
    o, T = model._scores_of(X), np.where(np.arange(2, 6) <= y[:, None], 1.0, -1.0)
    G = C * T * expit(-T * o)  # minus C ∂ℓ/∂o
    if Model is KELMOrdinalClassifier:
        # β = Φᵀα, so the gradient β − Φᵀg vanishes where α = g
        np.testing.assert_allclose(model.alpha_, G, atol=1e-4 * np.abs(G).max())
    else:
        expected = model.map_.transform(X).T @ G
        np.testing.assert_allclose(model.beta_, expected, atol=1e-4 * np.abs(expected).max())


def test_bits_are_log_odds():
    X, y = noisy(150, noise=1.0)
    model = fixed(KELMOrdinalClassifier, loss="logistic", C=0.1).fit(X, y)
    bits = model._scores_of(X)
    in_order = (np.diff(bits, axis=1) <= 0).all(axis=1)
    assert in_order.sum() > 50
    reached = model.predict_cumulative(X)[in_order, 1:]
    floor = model.floor_  # the share of the frequencies that rows left out ask for
    expected = (1 - floor.sum()) * expit(bits[in_order]) + np.cumsum(floor[::-1])[::-1][1:]
    np.testing.assert_allclose(reached, expected, atol=1e-12)


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
@pytest.mark.parametrize("Model", cases(MODELS, KELMOrdinalClassifier))
def test_probabilities_of_few_rows_are_no_worse_than_the_frequencies(Model):
    """Five classes on 40 rows: bits are fitted one by one, and curves that nearly meet leave a class nothing."""
    excess = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-3, 3, (340, 1))
        latent = np.sin(1.5 * x[:, 0]) + (0.1 + np.abs(x[:, 0])) * rng.normal(size=340)
        y = np.digitize(latent, np.quantile(latent, [0.2, 0.4, 0.6, 0.8]))
        y[:10] = np.repeat(np.arange(5), 2)
        P = Model(loss="logistic", random_state=0).fit(x[:40], y[:40]).predict_proba(x[40:])
        frequency = np.bincount(y[:40]) / 40
        excess.append(np.mean(np.log(frequency[y[40:]]) - np.log(P[np.arange(300), y[40:]])))
    assert np.mean(excess) < 0.05


@pytest.mark.parametrize("Model", cases(MODELS, NKELMOrdinalClassifier))
def test_rows_of_a_group_leave_together(Model):
    """What is known of a group by its other rows says nothing of new groups, and probabilities know that."""
    rng = np.random.default_rng(0)
    centre, label = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    X, y = np.repeat(centre, 5, axis=0) + 0.01 * rng.normal(size=(300, 3)), np.repeat(label, 5)
    groups, options = np.repeat(np.arange(60), 5), {**FIXED[Model], "C": 1e3, "loss": "logistic"}
    new, told = rng.normal(size=(300, 3)), rng.integers(0, 3, 300)
    loss = {}
    for given in (None, groups):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)  # labels of new groups are drawn
            P = Model(**options).fit(X, y, groups=given).predict_proba(new)
        loss[given is None] = -np.log(P[np.arange(300), told]).mean()
    assert loss[False] < 1.15 < loss[True]  # ln 3 is 1.10


@pytest.mark.parametrize("Model", MODELS)
def test_sets_of_classes_cover_and_far_rows_are_reported(Model):
    X, y = noisy(900, noise=1.0)
    weight = np.random.RandomState(0).uniform(0.5, 2, 300)
    model = fixed(Model, loss="logistic", C=1.0).fit(X[:300], y[:300], sample_weight=weight)
    sets = model.predict_set(X[300:], 0.9)
    assert sets[np.arange(600), y[300:] - 1].mean() > 0.85
    assert sets.mean() < 0.9
    assert model.is_far(X[300:], 0.05).mean() < 0.12
    if Model is not ELMOrdinalClassifier:  # nodes are as sure of rows beyond all others as of those near them
        assert model.is_far(X[:50] + 50).all()


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_left_out_bits_are_those_of_refitted_models_to_second_order(fit_intercept):
    X, y = noisy(60, classes=2, noise=1.0)
    rows = Rows(X, np.where(y[:, None] == 2, 1.0, -1.0))
    ridge = FeatureRidge(NystromMap(10, gamma=0.3, random_state=0).fit(X), fit_intercept, 1)
    quick = fit_logistic(ridge, rows, 1.0, leave_out=np.arange(60))
    exact = []
    for i in range(60):
        others = np.arange(60) != i
        at = fit_logistic(ridge, rows.take(others), 1.0).at
        exact.append((ridge.features.transform(X[[i]]) @ at.weights)[0] + at.intercept)
    exact, shift = np.array(exact), np.abs(exact - quick.at.outputs).max()
    assert np.abs(quick.left_out - exact).max() < 0.1 * shift


@pytest.mark.parametrize("n", [55, 2100])
@pytest.mark.parametrize("seed", [0, 1, 4])
def test_left_out_bits_have_digits_where_landmarks_are_nearly_dependent(seed, n):
    rng = np.random.RandomState(seed)
    x = rng.normal(size=(55, 1))
    t = np.where(x[:, 0] + 0.3 * rng.normal(size=55) > 0, 1.0, -1.0)
    t[np.argmin(x)] = 1.0  # far from the others of its kind
    features = NystromMap(12, kernel="arcsine", gamma=0.03, landmarks="kmeans", random_state=seed).fit(x)
    more = rng.normal(size=(n - 55, 1))
    x, t = np.vstack([x, more]), np.append(t, np.sign(more))
    order = rng.permutation(n)

    def left_out(x, t):
        ridge = FeatureRidge(features, True, 1)
        return fit_logistic(ridge, Rows(x, t[:, None]), 16384.0, leave_out=np.arange(n)).left_out

    assert features.condition_ > 1e12
    here, there = left_out(x, t), left_out(x[order], t[order])
    np.testing.assert_allclose(there, here[order], atol=1e-6 * np.abs(here).max())


def test_weights_of_left_out_rows_are_copies():
    X, y = noisy(60, classes=2, noise=1.0)
    T = np.where(y[:, None] == 2, 1.0, -1.0)
    count = np.random.RandomState(0).randint(1, 4, 60)
    ridge = FeatureRidge(NystromMap(10, gamma=0.3, random_state=0).fit(X), False, 1)
    weighted = fit_logistic(ridge, Rows(X, T, count.astype(float), np.ones(60)), 1.0, leave_out=np.arange(60))
    repeated = Rows(np.repeat(X, count, axis=0), np.repeat(T, count, axis=0))
    plain = fit_logistic(ridge, repeated, 1.0, leave_out=np.arange(len(repeated)))
    np.testing.assert_allclose(np.repeat(weighted.left_out, count), plain.left_out, atol=1e-6)


def test_separable_rows_and_a_weak_penalty_converge():
    X, y = noisy(100, classes=3, noise=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NumericalWarning)
        model = fixed(KELMOrdinalClassifier, gamma=3.0, C=1e6, loss="logistic").fit(X, y)
    np.testing.assert_array_equal(model.predict(X), y)
    assert np.isfinite(model.predict_proba(X)).all()


def test_without_a_penalty_there_is_an_error():
    X, y = noisy(30)
    with pytest.raises(ValueError, match='loss="logistic" needs a penalty'):
        ELMOrdinalClassifier(10, C=None, loss="logistic").fit(X, y)


@pytest.mark.parametrize("Model", cases(MODELS, KELMOrdinalClassifier))
def test_the_penalty_is_chosen_for_the_logistic_loss(Model):
    X, y = noisy(900, noise=1.0)
    options = {name: value for name, value in FIXED[Model].items() if name != "C"}
    chosen = Model(**options, loss="logistic").fit(X[:300], y[:300])
    likelihood = {}
    for factor in (1 / 256, 1.0, 256.0):
        model = Model(**options, loss="logistic", C=chosen.C_ * factor).fit(X[:300], y[:300])
        P = model.predict_proba(X[300:])
        likelihood[factor] = np.log(P[np.arange(600), y[300:] - 1]).mean()
    assert likelihood[1.0] == max(likelihood.values())

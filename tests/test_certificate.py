"""The error bound of Nyström models: Theorem 4 as corrected, with the trace for the norm."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ulmus
from data import classification, examples, regression, rows
from ulmus import KELMClassifier, KELMRegressor, NKELMClassifier, NKELMRegressor
from ulmus.features.kernels import KERNELS
from ulmus.solvers.nystrom_ridge import Certificate

POSITIVE_DEFINITE = [name for name, kernel in KERNELS.items() if kernel.positive_definite]

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


def pair(n_landmarks, fit_intercept=False, **options):
    """The Nyström model and the exact one that it approximates."""
    options = {"gamma": 0.5, "fit_intercept": fit_intercept, **options}
    return NKELMRegressor(n_landmarks, random_state=0, **options), KELMRegressor(**options)


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 2**31 - 1),
    n=st.integers(2, 40),
    L=st.integers(1, 40),
    log_gamma=st.floats(-2, 1),
    log_c=st.floats(-4, 3),
    intercept=st.booleans(),
    weighted=st.booleans(),
    outputs=st.integers(1, 3),
)
def test_the_bound_holds_on_random_problems(seed, n, L, log_gamma, log_c, intercept, weighted, outputs):
    rng = np.random.RandomState(seed)
    X, T, Q = rng.normal(size=(n, 2)), 3 + rng.normal(size=(n, outputs)), rng.normal(size=(8, 2))
    w = rng.uniform(0.1, 5, n) if weighted else None
    C = 10.0**log_c
    model, exact = (m.fit(X, T, w) for m in pair(L, intercept, gamma=10.0**log_gamma, C=C))
    difference = np.linalg.norm((model.predict(Q) - exact.predict(Q)).reshape(8, -1), axis=1)
    assert (difference <= model.error_bound(Q) + 1e-11 * (1 + C) * np.abs(T).max()).all()


@pytest.mark.parametrize("kernel", POSITIVE_DEFINITE)
@pytest.mark.parametrize("intercept", [False, True])
def test_the_bound_holds_for_every_positive_definite_kernel_also_where_the_diagonal_grows(kernel, intercept):
    X, T = regression(60)
    Q = 4 * rows(20, 3, seed=3)
    model, exact = (m.fit(X, T) for m in pair(15, intercept, kernel=kernel, C=1e-3))
    difference = np.abs(model.predict(Q) - exact.predict(Q))
    # exact.predict's round-off, where predictions are large (poly)
    assert (difference <= model.error_bound(Q) + 1e-10 * np.abs(exact.predict(Q)).max()).all()


def test_the_bound_holds_for_the_scores_of_a_classifier():
    X, y = classification(80)
    Q = rows(30, 3, seed=5)
    model = NKELMClassifier(20, gamma=0.5, C=0.01, random_state=0).fit(X, y)
    exact = KELMClassifier(gamma=0.5, C=0.01).fit(X, y)
    difference = np.linalg.norm(model.decision_function(Q) - exact.decision_function(Q), axis=1)
    assert (difference <= model.error_bound(Q)).all()
    assert model.error_bound(Q).max() < 2 * 0.01 * len(X) * np.sqrt(3)  # it says more than the size of both scores


def test_the_bound_is_the_formula():
    X, T = regression(50, outputs=2)
    Q = rows(9, 3, seed=1)
    C, n = 0.3, len(X)
    model, _ = pair(12, C=C)
    model.fit(X, T)
    trace, tau = model.residual_kernel(X).sum(), np.linalg.norm(T, axis=1).max()
    expected = C * np.sqrt(n) * tau * np.sqrt(model.residual_kernel(Q) * trace) + C**2 * n * tau * trace
    np.testing.assert_allclose(model.error_bound(Q), expected, rtol=1e-10)


ROUTES = {
    "gram float64": {"gamma": 3.0},
    "partial float64": {"gamma": 0.01},
    "dual": {"n": 15},
    "gram float32": {"gamma": 30.0, "dtype": np.float32},
    "whiten float32": {"gamma": 0.1, "dtype": np.float32},
}


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("route", ROUTES)
def test_the_trace_from_the_solve_is_the_sum_over_the_rows(route, weighted, intercept):
    options = {"gamma": 3.0, "n": 300, "dtype": np.float64, **ROUTES[route]}
    X, T = regression(options["n"])
    X = X.astype(options["dtype"])
    w = np.random.RandomState(1).uniform(0.2, 3, len(X)) if weighted else np.ones(len(X))
    landmarks = rows(20, 3, seed=7)
    model = NKELMRegressor(gamma=options["gamma"], C=2.0, landmarks=landmarks, fit_intercept=intercept)
    model.fit(X, T, w if weighted else None)
    assert model.route_ == route
    # a float32 route keeps single precision, times the condition number where kernel values are squared
    tolerance = 1e-9 if options["dtype"] == np.float64 else 1e-3
    expected = w @ model.residual_kernel(X)
    assert model.fitted_.weights.certificate.residual_trace == pytest.approx(
        expected, rel=tolerance, abs=tolerance * w.sum()
    )


def test_the_trace_of_a_tuned_model_is_the_sum_over_the_rows():
    X, T = regression(400)
    model = NKELMRegressor(max_landmarks=100, random_state=0).fit(X, T)
    assert model.fitted_.weights.certificate.residual_trace == pytest.approx(
        model.residual_kernel(X).sum(), rel=1e-6, abs=1e-6
    )


@pytest.mark.parametrize("intercept", [False, True])
def test_the_bound_vanishes_with_all_rows_as_landmarks(intercept):
    X, T = regression(40)
    model, _ = pair(40, intercept, gamma=5.0, C=1.0)
    few, _ = pair(20, intercept, gamma=5.0, C=1.0)
    assert model.fit(X, T).error_bound(X).max() < 1e-8 * few.fit(X, T).error_bound(X).max()


def test_the_bound_is_empty_for_a_huge_C():
    X, T = regression(60)
    C = 2.0**20
    model, _ = pair(20, C=C)
    trivial = 2 * C * len(X) * np.abs(T).max()  # the size that both predictors cannot exceed, twice
    assert (model.fit(X, T).error_bound(X) > trivial).all()


def test_the_bound_does_not_grow_with_more_landmarks():
    X, T = regression(80)
    Z = X[np.random.RandomState(0).permutation(80)]
    bounds = [NKELMRegressor(gamma=0.5, C=0.1, landmarks=Z[:L]).fit(X, T).error_bound(X) for L in (5, 20, 60)]
    # without an intercept nothing but r(x,x) and tr R changes, and both fall
    assert (bounds[0] >= bounds[1] * (1 - 1e-9)).all()
    assert (bounds[1] >= bounds[2] * (1 - 1e-9)).all()


def test_a_kernel_that_is_not_positive_definite_has_no_bound():
    X, T = regression(30)
    model = NKELMRegressor(10, kernel="sigmoid", gamma=0.1, C=1.0, random_state=0).fit(X, T)
    with pytest.raises(ValueError, match="positive definite kernel, and kernel='sigmoid'"):
        model.error_bound(X)


def test_a_callable_kernel_has_the_bound_of_its_namesake():
    X, T = regression(70)

    def gaussian(A, B):
        return np.exp(-0.5 * ((A[:, None] - B) ** 2).sum(axis=2))

    options = {"C": 0.5, "landmarks": X[:20], "fit_intercept": False}
    named = NKELMRegressor(kernel="rbf", gamma=0.5, **options).fit(X, T)
    called = ulmus.NKELMRegressor(kernel=gaussian, **options).fit(X, T)
    np.testing.assert_allclose(called.error_bound(X), named.error_bound(X), rtol=1e-8)


@pytest.mark.parametrize("facts", [{"C": 1e200}, {"residual_trace": np.inf}, {"tau": np.inf, "residual_trace": 0.0}])
def test_sums_that_overflow_make_the_bound_infinite_not_nan(facts):
    usual = {"C": 1.0, "n": 10.0, "tau": 1.0, "delta": 1.0, "residual_trace": 1.0, "centred": False}
    assert np.isposinf(Certificate(**usual | facts).bound(np.ones(2), np.array([0.0, 0.5]))).all()

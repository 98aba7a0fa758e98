"""Ridge and least squares: all forms agree with one another, with SciPy and with scikit-learn."""

import warnings

import mpmath
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

import reference
from data import regression, relative_error, rows
from ulmus import NumericalWarning, RandomLayer
from ulmus.engine import Rows
from ulmus.solvers import ridge as solvers
from ulmus.solvers.ridge import DOUBLE, SINGLE, Problem, fit_dual, fit_gram, fit_triangular
from ulmus.statistics import Statistics

FORMS = {"gram": fit_gram, "triangular": fit_triangular, "dual": fit_dual}


class Columns:
    """Feature rows given as they are."""

    def __init__(self, n_features):
        self.n_features_out = n_features

    def transform_block(self, X, out):
        out[:] = X


def problem(Phi, T, C, weight=None, fit_intercept=False):
    return Problem(Columns(Phi.shape[1]), Rows(Phi, T, weight), C, fit_intercept)


def weights(n, seed=5):
    return np.random.RandomState(seed).uniform(0.1, 4.0, n)


def ill_conditioned(n, D, log_condition, seed=0):
    """Features of known singular values, 1 … 10^-log_condition."""
    rng = np.random.RandomState(seed)
    U, V = np.linalg.qr(rng.normal(size=(n, D)))[0], np.linalg.qr(rng.normal(size=(D, D)))[0]
    return (U * np.logspace(0, -log_condition, D)) @ V.T


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("C", [2.0**-5, 1.0, 2.0**20])
@pytest.mark.parametrize("shape", [(60, 12), (12, 30)])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_ridge_weights(form, shape, C, weighted, fit_intercept):
    Phi, T = rows(*shape), rows(shape[0], 2, seed=1) + 3.0
    w = weights(shape[0]) if weighted else None
    solution = FORMS[form](problem(Phi, T, C, w, fit_intercept))
    beta, b = reference.ridge(Phi, T, C, w, fit_intercept)
    Q = rows(20, shape[1], seed=2)
    # on the wrong side of n = D, where the library does not use them, primal and dual are good to round-off times C
    wrong_side = form == ("dual" if shape[0] > shape[1] else "gram")
    tolerance = 1e-6 if wrong_side else 1e-8
    assert relative_error(Q @ solution.beta + solution.intercept, Q @ beta + b) < tolerance


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_equals_scikit_learn(weighted, fit_intercept):
    Phi, T = rows(80, 10), rows(80, 3, seed=1) + 5.0
    w = weights(80) if weighted else None
    other = Ridge(alpha=1 / 8.0, fit_intercept=fit_intercept, solver="svd").fit(Phi, T, sample_weight=w)
    solution = problem(Phi, T, 8.0, w, fit_intercept).solve()
    assert relative_error(solution.beta, other.coef_.T) < 1e-11
    assert np.abs(solution.intercept - other.intercept_).max() < 1e-11


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_an_intercept_makes_the_fit_blind_to_offsets_of_features_and_targets(offset):
    Phi, T = rows(80, 6), rows(80, 1, seed=1)
    near, far = (problem(Phi + s, T + s, 8.0, fit_intercept=True).solve() for s in (0.0, offset))
    # eight digits, or what rounding Phi + offset alone costs
    assert relative_error(far.beta, near.beta) < max(1e-8, 1e-13 * offset)
    fitted = Phi @ near.beta + near.intercept
    assert relative_error((Phi + offset) @ far.beta + far.intercept - offset, fitted) < max(1e-8, 1e-12 * offset)


# ----------------------------------------------------------------------------------------------- least squares


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("shape", [(60, 12), (12, 30), (20, 20)])
def test_no_ridge_is_least_squares_of_smallest_norm(shape, fit_intercept):
    Phi, T = rows(*shape), rows(shape[0], 2, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NumericalWarning)  # full rank: there is nothing to warn of
        solution = problem(Phi, T, None, fit_intercept=fit_intercept).solve()
    other = LinearRegression(fit_intercept=fit_intercept).fit(Phi, T)
    assert relative_error(solution.beta, other.coef_.T) < 1e-9
    if not fit_intercept:
        assert relative_error(solution.beta, np.linalg.pinv(Phi) @ T) < 1e-9


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(("n", "D", "rank"), [(60, 12, 5), (12, 30, 5), (40, 20, 19), (50, 8, 1)])
def test_rank_deficient_least_squares_is_the_pseudo_inverse_and_says_so(n, D, rank, fit_intercept):
    Phi, T = rows(n, rank) @ rows(rank, D, seed=1), rows(n, 2, seed=2)
    with pytest.warns(NumericalWarning, match=f"rank {rank} of"):
        solution = problem(Phi, T, None, fit_intercept=fit_intercept).solve()
    beta, b = reference.least_squares(Phi, T, fit_intercept=fit_intercept)
    assert relative_error(solution.beta, beta) < 1e-10
    assert np.abs(solution.intercept - b).max() < 1e-10
    if not fit_intercept:
        assert relative_error(solution.beta, np.linalg.pinv(Phi) @ T) < 1e-10


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
def test_features_that_are_all_zero_get_no_weight():
    for C in (None, 1.0):
        solution = problem(np.zeros((20, 4)), rows(20, 1) + 2.0, C, fit_intercept=True).solve()
        assert not solution.beta.any()
        assert solution.intercept == pytest.approx(rows(20, 1).mean() + 2.0)


def test_a_vanishing_ridge_ends_in_least_squares():
    Phi, T = rows(60, 12), rows(60, 1, seed=1)
    limit = problem(Phi, T, None).solve()
    assert relative_error(problem(Phi, T, 1e14).solve().beta, limit.beta) < 1e-12


# ------------------------------------------------------------------------------------------------- the digits


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("log_condition", [1, 3, 4, 4.3, 4.5, 5, 6, 7, 9])
def test_fitted_values_keep_nine_digits_however_ill_conditioned(log_condition, fit_intercept):
    # C = None: a condition number of 10^(2 · log_condition) in the normal equations
    Phi = ill_conditioned(200, 20, log_condition)
    T = rows(200, 1, seed=1)
    solution = problem(Phi, T, None, fit_intercept=fit_intercept).solve()
    beta, b = reference.least_squares(Phi, T, fit_intercept=fit_intercept)
    # beyond 10^6 the fitted values themselves are known to eps · 10^log_condition only
    tolerance = max(1e-9, 1e-15 * 10.0**log_condition)
    assert relative_error(Phi @ solution.beta + solution.intercept, Phi @ beta + b) < tolerance


def test_corrections_restore_the_digits_that_squaring_lost():
    Phi, T = ill_conditioned(200, 20, 6.0), rows(200, 1, seed=1)
    posed = problem(Phi, T, None)
    plain = solvers.NormalEquations(Statistics.of(Phi, T), None, False).solution()
    corrected = fit_gram(posed)
    expected = Phi @ reference.least_squares(Phi, T)[0]
    lost, kept = (relative_error(Phi @ s.beta, expected) for s in (plain, corrected))
    assert corrected.n_corrections >= 1
    assert kept < 1e-9
    assert lost > 100 * kept


def test_single_precision_sums_with_corrections_keep_double_digits():
    X, T = regression(300)
    layer = RandomLayer(30, random_state=0).fit(X)
    posed = Problem(layer, Rows(X, T[:, None]), 64.0)
    precision = solvers.replace(SINGLE, correct=0.0, tolerance=1e-10)
    corrected, plain = fit_gram(posed, precision), fit_gram(posed, SINGLE)
    H = layer.transform(X)
    expected = H @ reference.ridge(H, T, 64.0)[0]
    assert relative_error(H @ corrected.beta, expected) < 1e-9
    assert 1e-8 < relative_error(H @ plain.beta, expected) < 1e-2


def test_gram_form_refuses_what_it_cannot_solve():
    Phi, T = ill_conditioned(100, 20, 9.0), rows(100, 1, seed=1)
    assert fit_gram(problem(Phi, T, None)) is None
    assert problem(Phi, T, None).solve().form == "triangular"
    singular = np.column_stack([Phi, Phi])
    assert fit_gram(problem(singular, T, None), DOUBLE) is None


def test_form_follows_the_shape_and_the_type_of_the_rows():
    Phi, T = rows(50, 10), rows(50, 1, seed=1)
    assert problem(Phi, T, 1.0).solve().form == "gram float64"
    assert problem(Phi.astype(np.float32), T, 1.0).solve().form == "gram float32"
    assert problem(Phi[:5], T[:5], 1.0).solve().form == "dual"


def test_condition_number_is_reported():
    Phi, T = ill_conditioned(200, 20, 3.0), rows(200, 1, seed=1)
    solution = fit_gram(problem(Phi, T, None))
    # LAPACK's estimate is in the 1-norm
    assert 1e6 / 20 <= solution.condition <= 1e6 * 20


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("C", [1e3, 2.0**31])
def test_in_dual_form_what_leverages_leave_of_1_has_digits_under_a_large_c(C, fit_intercept):
    rng = np.random.RandomState(0)
    n, D = 12, 20
    Phi = np.exp(-6 * np.abs(rng.uniform(-1, 1, (n, 1)) - rng.uniform(-1, 1, D))) / np.sqrt(D)
    w = rng.randint(1, 4, n).astype(float)
    solution = fit_dual(problem(Phi, rng.normal(size=(n, 1)), C, w, fit_intercept))
    leverage, centred = solution.leverage, Phi - solution.leverage.centre
    with mpmath.workdps(60):
        F = mpmath.matrix(centred.tolist())
        inverse = (F.T * mpmath.diag(w.tolist()) * F + mpmath.eye(D) / mpmath.mpf(C)) ** -1
        along = inverse * F.T
        exact = [float(1 - w[i] * ((F[i, :] * along[:, i])[0] + leverage.constant)) for i in range(n)]
        along = np.array(along.tolist(), dtype=float)
    assert leverage.rows is not None
    assert C < 1e9 or min(exact) < 1e-6
    np.testing.assert_allclose(1 - w * leverage(Phi), exact, rtol=1e-4, atol=1e-13)
    np.testing.assert_allclose(leverage.inverse(centred.T), along, atol=1e-9 * np.abs(along).max())


@pytest.mark.parametrize("C", [1e4, 1e9, 1e15, 1e18])
def test_in_dual_form_the_inverse_has_the_digits_of_fitted_values_whatever_c(C):
    rng = np.random.RandomState(0)
    w = np.array([0.3, 600.0, 5000.0, 800.0])
    Phi = rng.normal(size=(4, 6))
    leverage = fit_dual(problem(Phi, rng.normal(size=(4, 1)), C, w)).leverage
    spanned = Phi.T @ (w * rng.normal(size=4))
    with mpmath.workdps(60):
        F = mpmath.matrix(Phi.tolist())
        inverse = (F.T * mpmath.diag(w.tolist()) * F + mpmath.eye(6) / mpmath.mpf(C)) ** -1
        exact = np.array([float(v) for v in inverse * mpmath.matrix(spanned.tolist())])
    fitted, found = Phi @ exact, Phi @ leverage.inverse(spanned[:, None])[:, 0]
    assert leverage.rows is not None
    np.testing.assert_allclose(found, fitted, atol=1e-10 * np.abs(fitted).max())

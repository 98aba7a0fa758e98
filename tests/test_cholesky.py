"""The factorisation in panels: the factor is LAPACK's, whatever the panels are."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.linalg import solve_triangular

from data import relative_error, rows
from ulmus._blas import (
    cholesky_in_place,
    lower_factor,
    mirror_upper,
    solve_factored,
    solve_lower,
    solve_lower_transposed,
    square_in_place,
    times_own_transpose,
    upper_rcond,
)


def positive(n, seed=0):
    B = rows(n, n, seed)
    return np.asfortranarray(B @ B.T + n * np.eye(n))


@pytest.mark.parametrize("panel", [1, 3, 10, 25, 49, 100])
def test_the_factor_does_not_depend_on_the_panels(panel):
    A = positive(50)
    factored = A.copy(order="F")
    assert cholesky_in_place(factored, panel) == 0
    assert relative_error(np.tril(factored), np.linalg.cholesky(A)) < 1e-12
    np.testing.assert_array_equal(np.triu(factored, 1), np.triu(A, 1))


@pytest.mark.parametrize("panel", [4, 100])
def test_the_first_minor_that_is_not_positive_is_named(panel):
    A = positive(20)
    A[13, 13] = -1.0
    assert cholesky_in_place(A, panel) == 14


def test_a_matrix_in_the_wrong_order_or_type_is_refused():
    for A in (np.ascontiguousarray(positive(5)), positive(5).astype(complex), np.zeros((3, 4), order="F")):
        with pytest.raises(TypeError, match="square, float64 or float32 and in Fortran order"):
            cholesky_in_place(A)
    with pytest.raises(TypeError, match="square, float64 and in Fortran order"):
        square_in_place(positive(5).astype(np.float32))


@pytest.mark.parametrize("panel", [3, 10, 100])
def test_a_single_precision_factor_is_that_of_the_same_numbers(panel):
    A, B = positive(50), rows(50, 3, seed=1)
    factor = A.astype(np.float32, order="F")
    assert cholesky_in_place(factor, panel) == 0
    assert relative_error(np.tril(factor), np.linalg.cholesky(A)) < 1e-6
    solved = solve_factored(factor, B)
    assert solved.dtype == np.float32
    assert relative_error(solved, np.linalg.solve(A, B)) < 1e-5


@pytest.mark.parametrize("panel", [1, 3, 10, 25, 49, 100])
def test_the_product_of_a_factor_with_itself_does_not_depend_on_the_panels(panel):
    A = np.asfortranarray(rows(50, 50, 1))
    L, squared = np.tril(A), A.copy(order="F")
    square_in_place(squared, panel)
    assert relative_error(np.tril(squared), np.tril(L.T @ L)) < 1e-13
    np.testing.assert_array_equal(np.triu(squared, 1), np.triu(A, 1))


@pytest.mark.parametrize("panel", [4, 20, 100])
def test_a_factor_in_panels_is_clean(panel):
    A = positive(45)
    factor, info = lower_factor(A.copy(order="F"), panel)
    assert info == 0
    np.testing.assert_array_equal(np.triu(factor, 1), 0.0)
    assert relative_error(factor, np.linalg.cholesky(A)) < 1e-12
    A[30, 30] = -1.0
    assert lower_factor(A, panel)[1] == 31


@pytest.mark.parametrize("panel", [3, 8, 24])
def test_rows_times_rows_some_at_a_time(panel):
    A = rows(50, 7, 2)
    assert relative_error(times_own_transpose(A, panel), A @ A.T) < 1e-15
    assert relative_error(times_own_transpose(A.T, panel), A.T @ A) < 1e-15


@pytest.mark.parametrize("n", [1, 7, 8, 9, 30])
def test_the_upper_triangle_is_mirrored_whatever_lies_below(n):
    A = np.random.RandomState(n).normal(size=(n, n))
    G = np.where(np.tri(n, k=-1, dtype=bool), np.nan, A)
    mirror_upper(G, panel=8)
    assert_array_equal(G, np.triu(A) + np.triu(A, 1).T)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("columns", [1, 2, 9])
def test_triangular_solves_are_those_of_scipy_whatever_lies_above_the_triangle(order, columns):
    R = np.array(rows(30, 30) + 10 * np.eye(30), order=order)
    B = rows(30, columns, seed=1)
    for transposed in (False, True):
        X = B.copy()
        solve_lower(R, X, transposed=transposed)
        assert relative_error(X, solve_triangular(R, B, lower=True, trans=int(transposed))) < 1e-13
    by_rows = B.T.copy()
    solve_lower_transposed(R, by_rows)
    assert relative_error(by_rows.T, solve_triangular(R, B, lower=True)) < 1e-13


def test_triangular_solves_refuse_what_blas_would_read_beyond():
    with pytest.raises(ValueError, match="expected a matrix of shape"):
        solve_lower(np.eye(3), np.ones((4, 2)))
    with pytest.raises(TypeError, match="one floating type"):
        solve_lower(np.eye(4), np.ones((4, 2), dtype=np.float32))


def test_a_system_is_solved_from_its_factor():
    A, B = positive(20), rows(20, 3, seed=1)
    factor = A.copy(order="F")
    assert cholesky_in_place(factor) == 0
    assert relative_error(solve_factored(factor, B), np.linalg.solve(A, B)) < 1e-12


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_condition_of_a_triangle_is_estimated_to_a_factor(order):
    R = np.asarray(np.triu(rows(40, 40)) + 3 * np.eye(40), order=order)
    exact = 1 / np.linalg.cond(R, 1)
    assert (1 - 1e-12) * exact <= upper_rcond(R) < 5 * exact
    assert upper_rcond(np.triu(np.ones((3, 3)), 1)) == 0.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(320, 1), (650, 2), (320, 2)])
def test_a_few_columns_are_solved_for_as_vectors(dtype, shape):
    rng = np.random.RandomState(0)
    A = rng.normal(size=(shape[0], shape[0]))
    A = A @ A.T + shape[0] * np.eye(shape[0])
    L, B = np.asfortranarray(A.astype(dtype)), rng.normal(size=shape).astype(dtype)
    assert not cholesky_in_place(L)
    found = solve_factored(L, B)
    assert found.dtype == dtype
    assert relative_error(found, np.linalg.solve(A, B)) < 100 * np.finfo(dtype).eps

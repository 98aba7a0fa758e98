"""The factorisation in panels: the factor is LAPACK's, whatever the panels are."""

import numpy as np
import pytest

from data import relative_error, rows
from ulmus._cholesky import cholesky_in_place


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
    for A in (np.ascontiguousarray(positive(5)), positive(5).astype(np.float32), np.zeros((3, 4), order="F")):
        with pytest.raises(TypeError, match="square, float64 and in Fortran order"):
            cholesky_in_place(A)

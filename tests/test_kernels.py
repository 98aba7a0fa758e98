"""Kernels against their definitions, entry by entry."""

import pickle

import numpy as np
import pytest
from scipy import sparse

import reference
from data import relative_error, rows, sparse_rows
from ulmus.features import distances
from ulmus.features.kernels import KERNELS, CrossKernel, KernelParameters, gram_matrix

PARAMETERS = KernelParameters(gamma=0.7, degree=3, coef0=0.5)
#: Largest error of a block, by floating type; float32 has seven digits, of which sums of squares cost one.
TOLERANCE = {np.float64: 1e-12, np.float32: 1e-5}


def transformed(kernel, X, Z, parameters=PARAMETERS, dtype=np.float64):
    cross = CrossKernel(kernel, Z, parameters)
    out = np.full((X.shape[0], len(Z)), np.nan, dtype)
    cross.transform_block(X, out)
    return out


def expected(name, X, Z, parameters=PARAMETERS):
    return reference.kernel_matrix(name, X, Z, parameters.gamma, parameters.degree, parameters.coef0)


def test_every_kernel_has_a_reference():
    assert set(KERNELS) == set(reference.KERNELS)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", sorted(KERNELS))
class TestValues:
    def test_dense_block_equals_the_definition(self, name, dtype):
        X, Z = rows(23, 5, 1).astype(dtype), rows(11, 5, 2).astype(dtype)
        assert relative_error(transformed(name, X, Z, dtype=dtype), expected(name, X, Z)) < TOLERANCE[dtype]

    def test_sparse_block_equals_the_dense_one(self, name, dtype):
        X, Z = sparse_rows(23, 8, 1).astype(dtype), sparse_rows(11, 8, 2).astype(dtype)
        actual = transformed(name, sparse.csr_array(X), Z, dtype=dtype)
        assert relative_error(actual, expected(name, X, Z)) < TOLERANCE[dtype]

    def test_coinciding_and_nearly_coinciding_rows_keep_their_digits(self, name, dtype):
        Z = rows(7, 4, 3).astype(dtype)
        X = np.vstack([Z + dtype(step) for step in (0, 1e-6, 1e-4, 1e-3, 1e-2)]).astype(dtype)
        assert relative_error(transformed(name, X, Z, dtype=dtype), expected(name, X, Z)) < TOLERANCE[dtype]

    def test_columns_are_those_of_the_whole(self, name, dtype):
        X, Z = rows(9, 3, 1).astype(dtype), rows(11, 3, 2).astype(dtype)
        out = np.empty((9, 4), dtype)
        CrossKernel(name, Z, PARAMETERS).transform_block(X, out, slice(3, 7))
        assert relative_error(out, expected(name, X, Z)[:, 3:7]) < TOLERANCE[dtype]


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_gram_matrix_is_exactly_symmetric_with_the_true_diagonal(name):
    Z = rows(15, 3)
    K = gram_matrix(name, Z, PARAMETERS)
    assert np.array_equal(K, K.T)
    assert relative_error(K, expected(name, Z, Z)) < 1e-12


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_diagonal_needs_no_matrix(name):
    X = rows(15, 3)
    diagonal = CrossKernel(name, X[:2], PARAMETERS).diagonal(X)
    assert relative_error(diagonal, np.diag(expected(name, X, X))) < 1e-12
    assert relative_error(CrossKernel(name, X[:2], PARAMETERS).diagonal(sparse.csr_array(X)), diagonal) < 1e-14


@pytest.mark.parametrize("name", [name for name, k in KERNELS.items() if k.positive_definite])
def test_kernels_marked_positive_definite_are(name):
    K = expected(name, rows(40, 2), rows(40, 2))
    assert np.linalg.eigvalsh(K).min() > -1e-12 * np.trace(K)


def test_sigmoid_kernel_is_not_positive_definite():
    assert not KERNELS["sigmoid"].positive_definite
    X = rows(40, 2)
    assert np.linalg.eigvalsh(reference.kernel_matrix("sigmoid", X, X, 1.0, coef0=-1.0)).min() < -0.1


@pytest.mark.parametrize("name", ["rbf", "laplacian", "matern32", "laplacian_l1"])
@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_rows_far_from_the_origin_keep_their_digits(name, offset):
    # the offset is stored exactly: what float64 rounds off the rows is not the kernel's doing
    X, Z = rows(20, 3, 1) + offset, rows(10, 3, 2) + offset
    assert relative_error(transformed(name, X, Z), expected(name, X, Z)) < 1e-9


@pytest.mark.parametrize("name", ["rbf", "laplacian", "matern32"])
def test_tight_pairs_among_spread_rows_keep_their_digits(name):
    # ‖x‖² = 10⁸ against distances of 10⁻³: the product form alone would leave no digit of ‖x − z‖²
    centres = 1e4 * rows(5, 3)
    X, Z = np.vstack([centres, centres + 1e-3]), centres
    assert relative_error(transformed(name, X, Z), expected(name, X, Z)) < 1e-9


@pytest.mark.parametrize("degree", [1, 2, 3, 2.5])
def test_polynomial_of_any_degree(degree):
    X, Z = abs(rows(9, 3, 1)), abs(rows(7, 3, 2))
    parameters = KernelParameters(gamma=0.3, degree=degree, coef0=1.0)
    assert relative_error(transformed("poly", X, Z, parameters), expected("poly", X, Z, parameters)) < 1e-13


def test_fractional_power_of_a_negative_number_is_refused_by_name():
    with pytest.raises(ValueError, match=r"poly.*degree=2.5.*negative"):
        transformed("poly", rows(9, 3, 1), rows(7, 3, 2), KernelParameters(gamma=10.0, degree=2.5, coef0=0.0))


@pytest.mark.parametrize("size", [1e-180, 1e150, 1e180])
def test_cosine_does_not_see_the_size_of_rows(size):
    X, Z = rows(9, 3, 1), rows(7, 3, 2)
    assert relative_error(transformed("cosine", size * X, Z), expected("cosine", X, Z)) < 1e-12


def test_cosine_of_large_float32_rows():
    X, Z = rows(9, 3, 1).astype(np.float32), rows(7, 3, 2)
    big = transformed("cosine", X * np.float32(1e25), Z, dtype=np.float32)
    assert relative_error(big, expected("cosine", X, Z)) < 1e-5


def test_zero_rows_have_cosine_zero():
    assert not transformed("cosine", np.zeros((2, 3)), rows(4, 3)).any()


@pytest.mark.parametrize("name", sorted(KERNELS))
@pytest.mark.parametrize("size", [1e150, 1e200])
def test_huge_rows_give_finite_values_or_an_error_that_names_the_size(name, size):
    X = size * rows(6, 3)
    try:
        K = transformed(name, X, X)
    except ValueError as error:
        assert "overflow" in str(error)  # noqa: PT017
        assert f"{abs(X).max():.3g}" in str(error)  # noqa: PT017
    else:
        assert np.isfinite(K).all()
        if KERNELS[name].embedding in ("distance", "cityblock", "angle", "arc"):
            assert relative_error(np.diag(K), np.ones(6)) < 1e-7


def test_callable_kernel_is_called_as_given():
    X, Z = rows(9, 3, 1), rows(7, 3, 2)
    actual = transformed(lambda A, B: (A @ B.T) ** 2, X, Z)
    assert relative_error(actual, (X @ Z.T) ** 2) < 1e-14


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda A, B: A @ A.T, r"shape \(len\(X\), len\(Z\)\) = \(9, 7\), got \(9, 9\)"),
        (lambda A, B: np.ones(len(A)), r"= \(9, 7\), got \(9,\)"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), "returned NaN or infinity"),
    ],
)
def test_callable_kernel_with_a_wrong_answer_is_named(kernel, message):
    with pytest.raises(ValueError, match=message):
        transformed(kernel, rows(9, 3, 1), rows(7, 3, 2))


def test_cross_kernel_survives_pickling():
    X, Z = rows(9, 3, 1), rows(7, 3, 2)
    cross = CrossKernel("rbf", Z, PARAMETERS)
    a, b = np.empty((9, 7)), np.empty((9, 7))
    cross.transform_block(X, a)
    pickle.loads(pickle.dumps(cross)).transform_block(X, b)
    assert np.array_equal(a, b)


def test_distances_under_a_laplacian_lose_three_digits_at_most_near_to_each_other():
    """Rows a thousandth of their size apart, against distances from differences."""
    rng = np.random.default_rng(0)
    Z = np.repeat(rng.normal(size=(40, 2)), 2, axis=0) * 1e3
    Z[1::2] += rng.normal(size=(40, 2))
    K = gram_matrix("laplacian", Z, KernelParameters(1.0))
    exact = np.exp(-np.sqrt(np.square(Z[::2] - Z[1::2]).sum(axis=1)))
    np.testing.assert_allclose(K[range(0, 80, 2), range(1, 80, 2)], exact, rtol=5e-12)


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 2), (67, 33, 7), (4, 64, 0), (3, 0, 4), (130, 95, 40)])
def test_absolute_differences_are_summed_by_the_compiled_core_as_by_scipy_to_the_last_bit(shape, monkeypatch):
    n, m, d = shape
    rng = np.random.RandomState(n)
    X, Z = rng.normal(size=(n, d)) * 10.0 ** rng.randint(-8, 8, d), rng.normal(size=(m, d))
    brute = np.array([[sum(abs(a - b) for a, b in zip(x, z, strict=True)) for z in Z] for x in X]).reshape(n, m)
    for core in {distances.core, None}:
        monkeypatch.setattr(distances, "core", core)
        for out in (np.empty((n, m)), np.empty((n, 2 * m))[:, ::2], np.empty((n, m), np.float32)):
            distances.cityblock(np.asfortranarray(X), Z[::-1][::-1], out)
            np.testing.assert_array_equal(out, brute.astype(out.dtype))
        near = np.empty((n, m))
        distances.cityblock(X.astype(np.float32), Z.astype(np.float32), near)
        np.testing.assert_allclose(near, brute, rtol=1e-5, atol=1e-5 * np.abs(X).max(initial=0.0))

"""The learned metric: gradients against finite differences, and what the metric finds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ulmus.features.kernels import KERNELS, CrossKernel, KernelParameters
from ulmus.features.metric import average_outer_product, gradients, low_rank, pruned, sharpened, through

RNG = np.random.RandomState(0)
X, Z, W = RNG.normal(size=(7, 4)), RNG.normal(size=(11, 4)), RNG.normal(size=(11, 2))


def values(cross, X):
    K = np.empty((len(X), cross.n_features_out))
    cross.transform_block(X, K)
    return K @ W


@pytest.mark.parametrize("name", sorted(KERNELS))
@pytest.mark.parametrize("gamma", [0.3, 2.0])
def test_gradients_of_every_kernel_equal_finite_differences(name, gamma):
    cross = CrossKernel(name, Z, KernelParameters(gamma, degree=3, coef0=0.7))
    step = 1e-6
    numeric = np.stack(
        [(values(cross, X + step * e) - values(cross, X - step * e)) / (2 * step) for e in np.eye(4)], axis=1
    )
    # central differences err by ~ eps/step + step² ≈ 1e-9 of the values
    assert_allclose(gradients(cross, X, W), numeric, rtol=1e-6, atol=1e-7 * np.abs(numeric).max())


@pytest.mark.parametrize("name", ["rbf", "matern32", "laplacian_l1"])
def test_gradients_of_many_rows_equal_those_of_each_row(name):
    rng = np.random.RandomState(1)
    many, far = rng.normal(size=(700, 3)), rng.normal(size=(400, 3))
    w = rng.normal(size=(400, 1))
    cross = CrossKernel(name, far, KernelParameters(0.5))
    one_by_one = np.concatenate([gradients(cross, x[None], w) for x in many])
    assert_allclose(gradients(cross, many, w), one_by_one, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e12])
def test_slopes_of_coordinates_in_single_precision_are_those_of_double(scale):
    rng = np.random.RandomState(0)
    X, weights = (scale * rng.normal(size=(40, 3))).astype(np.float32).astype(float), 1e60 * rng.normal(size=(12, 2))
    X[:20, 0] = X[0, 0]  # no slope along what is equal
    cross = CrossKernel("laplacian_l1", X[:12], KernelParameters(0.5 / scale))
    K = np.exp(-0.5 / scale * np.abs(X[:, None] - X[:12]).sum(axis=2))
    expected = -0.5 / scale * np.einsum("ijd,ij,jk->idk", np.sign(X[:, None] - X[:12]), K, weights)
    assert_allclose(gradients(cross, X, weights), expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    assert not gradients(cross, X, weights)[:20, 0].any()


def test_a_callable_kernel_is_refused():
    cross = CrossKernel(lambda X, Z: X @ Z.T, Z, KernelParameters())
    with pytest.raises(ValueError, match="callable kernel has no gradient"):
        gradients(cross, X, W)


def test_outer_products_are_the_mean_of_brute_force_ones_and_weights_are_repetitions():
    G = RNG.normal(size=(5, 3, 2))
    brute = np.mean([G[i, :, k][:, None] * G[i, :, k] for i in range(5) for k in range(2)], axis=0) * 2
    assert_allclose(average_outer_product(G, diagonal=False), brute, rtol=1e-12)
    assert_allclose(average_outer_product(G), np.diag(brute), rtol=1e-12)
    weight = np.array([1, 3, 1, 2, 1])
    repeated = np.repeat(G, weight, axis=0)
    assert_allclose(average_outer_product(G, weight), average_outer_product(repeated), rtol=1e-12)


def test_the_metric_of_a_linear_function_is_its_coefficients():
    coefficients = np.array([2.0, -1.0, 0.0])
    G = np.broadcast_to(coefficients[None, :, None], (4, 3, 1))
    assert_allclose(sharpened(np.ones(3), average_outer_product(G)), [1.0, 0.5, 1e-4], rtol=0.025)  # half a step
    A = sharpened(np.eye(3), average_outer_product(G, diagonal=False))
    assert_allclose(low_rank(A, 1)[:, 0] / low_rank(A, 1)[0, 0], coefficients / 2.0, atol=1e-3)


def test_a_flat_function_leaves_the_metric_alone():
    G = np.zeros((4, 3, 1))
    assert_allclose(sharpened(np.ones(3), average_outer_product(G)), np.ones(3))
    assert_allclose(sharpened(np.eye(3), average_outer_product(G, diagonal=False)), np.eye(3))


def test_rows_through_a_diagonal_metric_equal_rows_through_its_matrix():
    a = np.array([1.0, 0.5, 0.25, 2.0])
    assert_allclose(through(X, a), through(X, np.diag(a)), rtol=1e-6)
    assert_allclose(through(X, a), X * a, rtol=1e-7)


def test_columns_that_hardly_move_the_distances_are_left_out():
    X = np.random.RandomState(0).normal(size=(200, 4))
    A = np.array([1.0, 1e-4, 0.5, 1e-3])
    less = pruned(A, X)
    assert_array_equal(less > 0, [True, False, True, False])
    assert_allclose(through(X, less), X[:, [0, 2]] * A[[0, 2]], rtol=1e-6)
    assert_array_equal(pruned(np.ones(4), X), np.ones(4))
    again = np.repeat(np.arange(200), 2)
    assert_array_equal(pruned(A, X, np.full(200, 2.0)), pruned(A, X[again]))

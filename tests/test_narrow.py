"""Float32: no digit is lost that float32 has, wherever the targets lie and however the rows are stored."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from data import cases, relative_error
from ulmus import (
    ELMRegressor,
    KELMRegressor,
    NKELMRegressor,
    NystromMap,
    RobustELMRegressor,
    RobustNKELMRegressor,
    engine,
)
from ulmus.engine import Precomputed, Rows
from ulmus.exceptions import NumericalWarning
from ulmus.features.kernels import KERNELS, CrossKernel, KernelParameters
from ulmus.solvers.ridge import least_squares
from ulmus.statistics import Statistics

NARROW = float(np.finfo(np.float32).eps)


def rows32(n=300, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    return X, np.sin(X[:, 0].astype(float)) + X[:, 1].astype(float) + 0.01 * rng.normal(size=n)


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_sparse_float32_rows_have_the_kernel_values_of_dense_ones(kernel):
    X, _ = rows32(40)
    X[X < 0] = 0.0
    cross = CrossKernel(kernel, X[:10].astype(float), KernelParameters(gamma=0.1))
    dense, stored = np.empty((40, 10)), np.empty((40, 10))
    cross.transform_block(X, dense)
    cross.transform_block(sparse.csr_matrix(X), stored)
    assert relative_error(stored, dense) < 1e-14


@pytest.mark.parametrize("kernel", ["poly", "sigmoid"])
def test_sparse_float32_rows_give_the_model_of_dense_ones_where_digits_matter(kernel):
    X, y = rows32(200)
    fit = {"kernel": kernel, "gamma": 0.1, "C": 1e6}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        dense, stored = KELMRegressor(**fit).fit(X, y), KELMRegressor(**fit).fit(sparse.csr_matrix(X), y)
    assert relative_error(stored.predict(X), dense.predict(X)) < 1e-6


def test_features_of_float32_rows_keep_their_digits_where_whitening_magnifies():
    X, _ = rows32(80)
    X = X[:, :2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        features = NystromMap(80, landmarks="all", kernel="rbf", gamma=0.3).fit(X)
    found, exact = features.transform(X + 0.1), features.transform((X + 0.1).astype(np.float64))
    assert found.dtype == np.float32
    assert np.abs(found - exact).max() < 1e-4


MODELS = [
    ELMRegressor(60, slope=1.0, random_state=0),
    NKELMRegressor(random_state=0),
    NKELMRegressor(30, gamma=2.0, C=10.0, fit_intercept=True, random_state=0),
    NKELMRegressor(30, gamma=0.3, C=10.0, fit_intercept=True, random_state=0),
    KELMRegressor(random_state=0),
    RobustELMRegressor(40, slope=1.0, random_state=0),
    RobustNKELMRegressor(40, gamma=0.3, random_state=0),
]


@pytest.mark.parametrize("offset", cases([1e6, -1e8], 1e6))
@pytest.mark.parametrize("model", MODELS)
def test_targets_far_from_zero_are_distinguished_in_float32(model, offset):
    """The error is a share of their range, not of their size: 1e-4 of it is what float32 predictions may lose."""
    X, y = rows32()
    exact = model.fit(X.astype(float), y + offset).predict(X.astype(float))
    found = model.fit(X, y + offset).predict(X)
    assert np.abs(found - exact).max() < 2e-4 * np.ptp(y)
    assert np.abs(exact - offset - y).max() < np.ptp(y)


@pytest.mark.parametrize("c", cases([2.0**-300, 2.0**300], 2.0**300))
@pytest.mark.parametrize("model", MODELS)
def test_targets_beyond_the_range_of_float32_are_fitted_to_float32_rows(model, c):
    X, y = rows32()
    plain, scaled = model.fit(X, y).predict(X), model.fit(X, c * y).predict(X)
    np.testing.assert_array_equal(scaled / c, plain)


@pytest.mark.parametrize(("c", "b"), [(1.0, 0.0), (1.0, 1e7), (1e-60, 0.0), (1e60, -1e62)])
@pytest.mark.parametrize("weighted", [False, True])
def test_float32_sums_know_targets_in_any_place_and_units(c, b, weighted):
    rng = np.random.RandomState(0)
    Phi, T = rng.normal(size=(500, 4)).astype(np.float32), c * rng.normal(size=(500, 2)) + b
    weight = rng.uniform(1, 3, 500) if weighted else None
    found = engine.gram_statistics(Precomputed(4), Rows(Phi, T, weight), dtype=np.float32).centred()
    expected = Statistics.of(Phi.astype(float), T, weight).centred()
    assert relative_error(found.cross, expected.cross) < 20 * NARROW
    assert relative_error(found.gram, expected.gram) < 20 * NARROW


@pytest.mark.parametrize("c", [1e-60, 1.0, 1e60])
def test_float32_products_know_weights_of_any_size(c):
    rng = np.random.RandomState(0)
    Phi, beta = rng.normal(size=(50, 4)).astype(np.float32), c * rng.normal(size=(4, 2))
    out = engine.apply(Precomputed(4), Phi, beta, dtype=np.float32)
    assert relative_error(out, Phi.astype(float) @ beta) < 10 * NARROW
    rows = Rows(Phi, c * rng.normal(size=(50, 2)))
    g = engine.gradient(Precomputed(4), rows, beta, c * np.ones(2), dtype=np.float32)
    exact = engine.gradient(Precomputed(4), rows, beta, c * np.ones(2))
    assert relative_error(g, exact) < 20 * NARROW


def test_recoded_sums_are_the_sums_of_recoded_targets():
    rng = np.random.RandomState(0)
    Phi, T, M = rng.normal(size=(30, 3)), rng.normal(size=(30, 2)), rng.normal(size=(3, 4))
    found = Statistics.of(Phi, T).recoded(M)
    np.testing.assert_allclose(found.moments, Statistics.of(Phi, np.column_stack([T, np.ones(30)]) @ M).moments)


# Rank


@pytest.mark.parametrize("n", [200, 3000])
@pytest.mark.parametrize(
    ("activation", "size", "direct"),
    [("tanh", 3, True), ("relu", 5, True), ("identity", 1, True), ("identity", 5, False)],
)
def test_a_repeated_column_without_a_penalty_gets_weights_of_smallest_norm_and_a_word(activation, size, direct, n):
    for seed in range(5):
        rng = np.random.RandomState(seed)
        X = rng.normal(size=(n, 2))
        X = np.column_stack([X, X[:, 0]])
        y = X[:, 1] + 0.1 * rng.normal(size=n)
        model = ELMRegressor(
            size, activation=activation, direct_links=direct, slope=1.0, C=None, fit_intercept=True, random_state=seed
        )
        with pytest.warns(NumericalWarning, match=r"has rank \d+ of \d+ in float64"):
            model.fit(X, y)
        assert abs(model.predict([[0.0, 0.0, 1.0]])[0]) < 100.0  # off the collinearity
        H = model.map_.transform(X)
        A, b = H - H.mean(axis=0), y - y.mean()
        reference = np.linalg.lstsq(A, b, rcond=1e-12)[0]
        assert relative_error(model.beta_[:, 0], reference) < 1e-6


def test_the_rank_cut_is_the_round_off_of_the_rows_and_no_more():
    """Directions of 1e-10 of the largest are data; those of 1e-15, from 1,000 rows, are not."""
    rng = np.random.RandomState(0)
    U, V = (np.linalg.qr(rng.normal(size=(k, 3)))[0] for k in (1000, 3))
    Y = rng.normal(size=(1000, 1))
    for least, rank in ((1e-10, 3), (1e-15, 2)):
        A = U * [1.0, 0.5, least] @ V.T
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            assert least_squares(A, Y, None, 1000).root.shape[1] == rank

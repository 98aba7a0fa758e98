"""The Nyström map: which rows become landmarks, what the features are, and in which type."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import reference
from data import examples, regression, relative_error, rows, sparse_rows
from fixed import NKELMRegressor
from ulmus import NumericalWarning, NystromMap
from ulmus.features import sampling
from ulmus.features.kernels import KERNELS
from ulmus.features.landmarks import heuristic_gamma
from ulmus.features.sampling import distinct_rows, row_keys
from ulmus.features.whitening import nested_cholesky

# ---------------------------------------------------------------------------------------------------- the features


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
@pytest.mark.parametrize("kernel", [name for name in sorted(KERNELS) if name != "sigmoid"])
def test_inner_products_of_features_are_the_nystrom_kernel(kernel):
    X, Z = rows(40, 3), rows(12, 3, seed=1)
    W = reference.nystrom_whitening(reference.kernel_matrix(kernel, Z, Z, 0.6))
    expected = reference.kernel_matrix(kernel, X, Z, 0.6) @ W
    F = NystromMap(kernel=kernel, gamma=0.6, landmarks=Z).fit(X).transform(X)
    assert relative_error(F @ F.T, expected @ expected.T) < 1e-9


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear", "arcsine"])
@pytest.mark.parametrize("rank", [None, 5])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_the_floating_type_of_the_rows_is_kept(kernel, rank, kind, dtype):
    X = sparse_rows(40, 12) + 0.1
    phi = NystromMap(8, kernel=kernel, gamma=0.6, rank=rank, random_state=0).fit(X)
    F = phi.transform(kind(X.astype(dtype)))
    assert F.dtype == dtype
    assert relative_error(F, phi.transform(X)) < (1e-12 if dtype == np.float64 else 1e-4)


def test_the_map_works_in_a_pipeline_and_equals_the_model():
    X, T = regression(80)
    model = NKELMRegressor(20, gamma=0.5, C=8.0, random_state=0).fit(X, T)
    pipeline = make_pipeline(
        NystromMap(gamma=0.5, landmarks=model.map_.landmarks_), Ridge(alpha=1 / 8, fit_intercept=False, solver="svd")
    ).fit(X, T)
    assert relative_error(model.predict(X), pipeline.predict(X)) < 1e-10


def test_weights_fold_into_the_landmarks():
    X, beta = rows(40, 3), rows(10, 2, seed=1)
    for rank in (None, 10):
        phi = NystromMap(10, gamma=0.5, rank=rank, random_state=0).fit(X)
        K_xz = reference.kernel_matrix("rbf", X, phi.landmarks_, 0.5)
        assert relative_error(K_xz @ phi.weight_to_landmarks(beta), phi.transform(X) @ beta) < 1e-10


def test_residual_kernel_is_what_the_landmarks_do_not_explain():
    X = rows(60, 3)
    phi = NystromMap(15, gamma=0.5, random_state=0).fit(X)
    F = phi.transform(X)
    assert np.abs(phi.residual_kernel(X) - (1 - (F**2).sum(axis=1))).max() < 1e-13
    assert np.abs(phi.residual_kernel(sparse.csr_array(X)) - phi.residual_kernel(X)).max() < 1e-13


@pytest.mark.parametrize("coef0", [-1.0, 0.0, 1.0])
def test_the_sigmoid_kernel_gives_no_nan(coef0):
    X, T = regression(80)
    with pytest.warns(NumericalWarning, match="landmarks depend on the others"):
        phi = NystromMap(40, kernel="sigmoid", gamma=1.0, coef0=coef0, random_state=0).fit(X)
    assert np.isfinite(phi.transform(X)).all()
    with pytest.warns(NumericalWarning):
        model = NKELMRegressor(40, kernel="sigmoid", gamma=1.0, coef0=coef0, C=8.0, random_state=0).fit(X, T)
    assert np.isfinite(model.predict(X)).all()


def test_a_callable_kernel_is_the_named_one():
    X = rows(40, 3)
    named = NystromMap(10, kernel="poly", gamma=1.0, degree=2, coef0=1.0, random_state=0).fit(X)
    own = NystromMap(10, kernel=lambda A, B: (A @ B.T + 1) ** 2, gamma=1.0, random_state=0).fit(X)
    assert np.array_equal(named.landmarks_, own.landmarks_)
    assert relative_error(own.transform(X), named.transform(X)) < 1e-9


# ---------------------------------------------------------------------------------------------------- the landmarks


def test_landmarks_are_distinct_rows_drawn_without_replacement():
    X = rows(50, 3)
    landmarks = NystromMap(20, gamma=1.0, random_state=0).fit(X).landmarks_
    matches = (landmarks[:, None] == X).all(axis=2)
    assert (matches.sum(axis=1) == 1).all()
    assert (matches.sum(axis=0) <= 1).all()


def test_seeds_choose_different_landmarks_and_the_same_seed_the_same():
    X = rows(200, 3)
    first, again, other = (NystromMap(20, gamma=1.0, random_state=s).fit(X).landmarks_ for s in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_every_row_is_as_likely_a_landmark_as_any_other():
    X = rows(20, 2)
    counts = np.zeros(20)
    for seed in range(600):
        counts[distinct_rows(X, 5, None, np.random.RandomState(seed))[0]] += 1
    # 600 draws of 5 out of 20: 150 ± 10.6 each
    assert np.abs(counts - 150).max() < 5 * 10.6


@settings(max_examples=examples(30))
@given(seed=st.integers(0, 2**31 - 1), count=st.integers(1, 30))
def test_a_sample_does_not_see_order_repeats_storage_or_precision(seed, count):
    rng = np.random.RandomState(seed)
    X = (rng.randint(-2, 3, (25, 3)) / 2).astype(np.float32)
    w = rng.randint(0, 4, 25).astype(float)
    if not w.any():
        return

    def sample(rows_, weight):
        index, mass = distinct_rows(rows_, count, weight, np.random.RandomState(7))
        return (rows_[index].toarray() if sparse.issparse(rows_) else rows_[index]), mass

    order = rng.permutation(25)
    repeated = np.repeat(X, w.astype(int), axis=0)
    expected, mass = sample(X, w)
    for other in (
        sample(X[order], w[order]),
        sample(repeated, None),
        sample(sparse.csr_array(X), w),
        sample(X.astype(np.float64), w),
    ):
        assert np.array_equal(other[0], expected)
        assert np.allclose(other[1], mass)


@pytest.mark.parametrize("count", [1, 7, 200, 1000])
def test_a_sample_does_not_see_the_pieces_it_is_drawn_in(monkeypatch, count):
    X, w = np.round(rows(1500, 2), 1), np.random.RandomState(1).randint(0, 3, 1500).astype(float)
    index, mass = distinct_rows(X, count, w, np.random.RandomState(0))
    copies = (X[:, None] == X[index]).all(axis=2)
    assert np.array_equal(mass, w @ copies)
    monkeypatch.setattr(sampling, "PIECE_ROWS", 100)
    for actual, expected in zip(distinct_rows(X, count, w, np.random.RandomState(0)), (index, mass)):
        assert np.array_equal(actual, expected)


def test_equal_rows_have_equal_keys_and_different_rows_have_not():
    X = np.vstack([rows(2000, 3), rows(2000, 3), [[0.0, -0.0, 1.0]], [[-0.0, 0.0, 1.0]]])
    keys = row_keys(X, 5)
    assert np.array_equal(keys[:2000], keys[2000:4000])
    assert keys[-1] == keys[-2]
    assert len(np.unique(keys)) == 2001


def test_rows_of_weight_zero_are_never_landmarks():
    X, w = rows(40, 3), np.r_[np.zeros(30), np.ones(10)]
    for landmarks in ("uniform", "all"):
        phi = NystromMap(20, gamma=1.0, landmarks=landmarks, random_state=0).fit(X, sample_weight=w)
        assert len(phi.landmarks_) == 10
        assert np.isin(phi.landmarks_, X[30:]).all()


def test_own_landmarks_are_taken_in_their_order():
    X, Z = rows(40, 3), rows(9, 3, seed=1)
    assert np.array_equal(NystromMap(gamma=1.0, landmarks=Z).fit(X).landmarks_, Z)
    assert np.array_equal(NystromMap(gamma=1.0, landmarks=Z.tolist()).fit(X).landmarks_, Z)


@pytest.mark.parametrize(
    ("landmarks", "message"),
    [
        (np.zeros((4, 2)), r"rows with 3 features, got an array of shape \(4, 2\)"),
        (np.zeros(3), r"got an array of shape \(3,\)"),
        (np.zeros((0, 3)), r"got an array of shape \(0, 3\)"),
        (np.full((4, 3), np.nan), "landmarks contain NaN or infinity"),
        ("best", "'landmarks' parameter of NystromMap"),
    ],
)
def test_bad_landmarks_are_named(landmarks, message):
    with pytest.raises(ValueError, match=message):
        NystromMap(gamma=1.0, landmarks=landmarks).fit(rows(20, 3))


# ---------------------------------------------------------------------------------------------------- whitening


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 2**31 - 1), n=st.integers(1, 150), rank=st.integers(1, 150), log_scale=st.floats(-8, 8))
def test_nested_cholesky_factors_any_positive_matrix(seed, n, rank, log_scale):
    rng = np.random.RandomState(seed)
    A = rng.normal(size=(n, min(n, rank))) * 10.0 ** rng.uniform(-2, 2, (n, 1)) * 10.0**log_scale
    K = A @ A.T
    factor = nested_cholesky(K)
    order, R = factor.order, factor.R
    assert len(order) == len(set(order)) <= n
    assert len(order) == np.linalg.matrix_rank(A / np.linalg.norm(A, axis=1, keepdims=True), tol=1e-6) or rank >= n
    size = np.sqrt(np.diag(K))
    assert np.array_equal(R, np.tril(R))
    # on the kept rows, and (through them) on all
    kept = np.ix_(order, order)
    assert np.abs((R @ R.T - K[kept]) / np.outer(size, size)[kept]).max() < 1e-12
    F = np.linalg.solve(R, K[order]).T
    assert np.abs((F @ F.T - K) / np.outer(size, size)).max() < 1e-8


def test_sound_landmarks_keep_their_order_and_weak_ones_go_last():
    Z = rows(10, 3)
    Z = np.vstack([Z[:4], Z[1] + 1e-5, Z[4:]])  # the fifth nearly repeats the second
    K = reference.kernel_matrix("rbf", Z, Z, 0.5)
    assert list(nested_cholesky(K).order) == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 4]


# ------------------------------------------------------------------------------------------------------- gamma


@pytest.mark.parametrize("kernel", [name for name, k in KERNELS.items() if "gamma" in k.uses])
def test_automatic_gamma_follows_the_units_of_the_data(kernel):
    X = rows(200, 4)
    one, ten = (heuristic_gamma(kernel, s * X, None, np.random.RandomState(0)) for s in (1.0, 10.0))
    power = 1 if kernel in ("laplacian", "laplacian_l1", "matern32") else 2
    assert ten == pytest.approx(one / 10.0**power, rel=1e-9)


def test_automatic_gamma_is_one_over_the_median_squared_distance():
    X = rows(100, 3)
    squares = np.sum((X[:, None] - X) ** 2, axis=2)
    expected = 1 / np.median(squares[~np.eye(100, dtype=bool)])
    assert NystromMap(10, gamma="auto", random_state=0).fit(X).gamma_ == pytest.approx(expected, rel=1e-3)


def test_automatic_gamma_counts_weights_as_repeats_and_survives_constant_data():
    X, w = rows(60, 3), np.random.RandomState(0).randint(1, 4, 60)
    weighted = heuristic_gamma("rbf", X, w.astype(float), np.random.RandomState(0))
    repeated = heuristic_gamma("rbf", np.repeat(X, w, axis=0), None, np.random.RandomState(0))
    assert weighted == pytest.approx(repeated)
    assert heuristic_gamma("rbf", np.ones((20, 3)), None, np.random.RandomState(0)) == 1.0

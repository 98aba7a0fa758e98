"""The theorems and testable claims of the method, in the order in which it makes them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from data import cases, examples, regression, relative_error, rows
from fixed import ELMRegressor, KELMRegressor, NKELMRegressor
from ulmus import NumericalWarning, NystromMap, RandomLayer
from ulmus.engine import Rows
from ulmus.features.kernels import KERNELS
from ulmus.solvers.ridge import CAREFUL, Problem, fit_dual, fit_gram

POSITIVE_DEFINITE = [name for name, kernel in KERNELS.items() if kernel.positive_definite]
seeds = st.integers(0, 2**31 - 1)

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


class Features:
    """Feature rows given as they are."""

    def __init__(self, n_features):
        self.n_features_out = n_features

    def transform_block(self, X, out):
        out[:] = X


# ---------------------------------------------------------------------------------------------- §3: ELM and RELM


def test_full_column_rank_makes_the_pseudo_inverse_equation_3():
    X, T = regression(60)
    elm = ELMRegressor(8, C=None, random_state=0).fit(X, T)
    H = elm.map_.transform(X)
    assert relative_error(elm.beta_[:, 0], np.linalg.solve(H.T @ H, H.T @ T)) < 1e-8


def test_full_row_rank_makes_the_pseudo_inverse_equation_4_and_fits_every_target():
    X, T = regression(12)
    elm = ELMRegressor(40, C=None, activation="sine", slope=2.0, random_state=0).fit(X, T)
    H = elm.map_.transform(X)
    assert relative_error(elm.beta_[:, 0], H.T @ np.linalg.solve(H @ H.T, T)) < 1e-8
    assert relative_error(elm.predict(X), T) < 1e-10


def test_as_many_nodes_as_rows_are_enough_for_zero_training_error():
    X, T = regression(20)
    elm = ELMRegressor(20, C=None, activation="sine", slope=3.0, random_state=0).fit(X, T)
    assert relative_error(elm.predict(X), T) < 1e-8


@pytest.mark.parametrize("C", [2.0**-5, 1.0, 2.0**20])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_equations_5_and_6_give_the_same_weights(C, fit_intercept):
    H, T = rows(25, 40), rows(25, 2, seed=1)
    problem = Problem(Features(40), Rows(H, T), C, fit_intercept)
    primal, dual = fit_gram(problem, CAREFUL), fit_dual(problem)
    expected, b = reference.ridge(H, T, C, fit_intercept=fit_intercept)
    for solution in (primal, dual):
        assert relative_error(solution.beta, expected) < 1e-10
        assert np.abs(solution.intercept - b).max() < 1e-10


# ------------------------------------------------------------------------------------------------------ Theorem 1


@pytest.mark.parametrize("C", [0.1, 10.0, 2.0**20])
@pytest.mark.parametrize("factor", ["eigenvectors", "cholesky", "hidden layer"])
def test_theorem_1_kelm_equals_linear_kelm_on_any_factor(C, factor):
    X, T = regression(30)
    H = RandomLayer(12, random_state=0).fit_transform(X)
    K = H @ H.T if factor == "hidden layer" else reference.kernel_matrix("rbf", X, X, 0.5)
    F = {
        "eigenvectors": lambda: reference.best_factor(K, 30),
        "cholesky": lambda: np.linalg.cholesky(K),
        "hidden layer": lambda: H,
    }[factor]()
    assert relative_error(F @ F.T, K) < 1e-12
    linear = KELMRegressor(kernel="linear", C=C).fit(F, T)
    alpha, _ = reference.kelm(K, T, C)
    assert relative_error(linear.predict(F), (K @ alpha)[:, 0]) < 1e-8


def test_theorem_1_holds_for_new_rows_when_the_map_is_explicit():
    X, T = regression(40)
    Q = rows(15, 3, seed=5)
    relm = ELMRegressor(10, C=8.0, random_state=3).fit(X, T)

    def kernel(A, B):
        return relm.map_.transform(A) @ relm.map_.transform(B).T

    kelm = KELMRegressor(kernel=kernel, C=8.0).fit(X, T)
    assert relative_error(kelm.predict(Q), relm.predict(Q)) < 1e-9


# ------------------------------------------------------------------------------------------------------ Theorem 2


@settings(max_examples=examples(60))
@given(seed=seeds, p=st.integers(1, 8), q=st.integers(1, 8), rank=st.integers(0, 8), log_c=st.floats(-4, 4))
def test_theorem_2_push_through_needs_no_rank_condition(seed, p, q, rank, log_c):
    rng = np.random.RandomState(seed)
    rank = min(rank, p, q)
    P = rng.normal(size=(p, rank)) @ rng.normal(size=(rank, q))
    Q = rng.normal(size=(q, rank)) @ rng.normal(size=(rank, p))
    ridge = 10.0**log_c
    left, right = ridge * np.eye(p) + P @ Q, ridge * np.eye(q) + Q @ P
    condition = max(np.linalg.cond(left), np.linalg.cond(right))
    if condition > 1e8:  # the one condition there is: a non-singular matrix
        return
    actual, expected = np.linalg.solve(left, P), np.linalg.solve(right.T, P.T).T
    assert np.abs(actual - expected).max() <= 1e-14 * condition * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("C", [1e-3, 1.0, 2.0**20])
def test_theorem_2_primal_equals_dual_for_a_rank_deficient_factor(C):
    F = rows(9, 3) @ rows(3, 20, seed=1)
    T = rows(9, 2, seed=2)
    expected, _ = reference.ridge(F, T, C)
    problem = Problem(Features(20), Rows(F, T), C)
    for solution in (fit_gram(problem), fit_dual(problem)):
        # β itself is known to 1e-8 only: outside the range of Fᵀ it is round-off times C
        assert relative_error(F @ solution.beta, F @ expected) < 1e-12
        assert relative_error(solution.beta, expected) < 1e-6


# ------------------------------------------------------------------------------------------------------ Theorem 3


@pytest.mark.parametrize("duplicated", [False, True])
@pytest.mark.parametrize("fit_intercept", cases([False, True], True))
@pytest.mark.parametrize("kernel", POSITIVE_DEFINITE)
def test_theorem_3_full_landmarks_make_nkelm_equal_kelm(kernel, duplicated, fit_intercept):
    X, T = regression(80, outputs=2)
    if duplicated:
        X, T = np.vstack([X, X[:30]]), np.vstack([T, T[:30] + 0.1])
    Q = rows(40, 3, seed=9)
    for C in (1.0, 2.0**10):
        options = {"kernel": kernel, "gamma": 0.5, "C": C, "fit_intercept": fit_intercept}
        exact = KELMRegressor(**options).fit(X, T)
        alpha, b = reference.kelm(reference.kernel_matrix(kernel, X, X, 0.5), T, C, fit_intercept=fit_intercept)
        expected = reference.kernel_matrix(kernel, Q, X, 0.5) @ alpha + b
        assert np.abs(exact.predict(Q) - expected).max() < 1e-8
        for landmarks in ("all", "uniform"):
            nystrom = NKELMRegressor(len(X), landmarks=landmarks, random_state=0, **options).fit(X, T)
            assert np.abs(nystrom.predict(Q) - expected).max() < 1e-8


def test_theorem_3_the_full_factor_gives_back_the_kernel_matrix():
    X = np.vstack([rows(40, 2), rows(10, 2)])
    F = NystromMap(landmarks="all", gamma=0.7).fit_transform(X)
    assert relative_error(F @ F.T, reference.kernel_matrix("rbf", X, X, 0.7)) < 1e-12


# ------------------------------------------------------------------------------------------------------ Theorem 4


def theorem_4(X, T, Q, landmarks, gamma, C):
    """Largest |f̂ − f| of the library, (48), the corrected bound, and |k_x(α̂ − α)|, for each query."""
    options = {"gamma": gamma, "C": C}
    f = KELMRegressor(**options).fit(X, T).predict(Q)
    nystrom = NKELMRegressor(landmarks=landmarks, **options).fit(X, T)
    K = reference.kernel_matrix("rbf", X, X, gamma)
    F = nystrom.map_.transform(X)
    norm_R = np.linalg.norm(K - F @ F.T, 2)
    n, tau, delta = len(X), np.abs(T).max(), 1.0
    printed = C**2 * n * delta * tau * norm_R
    corrected = C * np.sqrt(n) * tau * np.sqrt(nystrom.map_.residual_kernel(Q) * norm_R) + printed
    alpha, hat_alpha = reference.kelm(K, T, C)[0], reference.kelm(F @ F.T, T, C)[0]
    assumed = np.abs(reference.kernel_matrix("rbf", Q, X, gamma) @ (hat_alpha - alpha))[:, 0]
    return np.abs(nystrom.predict(Q) - f), printed, corrected, assumed


@settings(max_examples=examples(60))
@given(
    seed=seeds,
    n=st.integers(2, 30),
    L=st.integers(1, 10),
    log_gamma=st.floats(-2, 2),
    log_c=st.floats(-3, 2),
)
def test_theorem_4_corrected_bound_holds(seed, n, L, log_gamma, log_c):
    rng = np.random.RandomState(seed)
    X, T, Q = rng.normal(size=(n, 2)), rng.normal(size=n), rng.normal(size=(8, 2))
    difference, printed, corrected, assumed = theorem_4(X, T, Q, X[: min(L, n)], 10.0**log_gamma, 10.0**log_c)
    round_off = 1e-11 * (1 + 10.0**log_c)
    assert (difference <= corrected + round_off).all()
    # under the tacit assumption k̂_x = k_x the printed bound, with n for m, is right
    assert (assumed <= printed + round_off).all()


def test_theorem_4_as_printed_is_false_for_the_real_predictor():
    X, T = np.array([[0.0], [1.0]]), np.array([0.0, 1.0])
    difference, printed, corrected, _ = theorem_4(X, T, X[1:], X[:1], gamma=1.0, C=0.1)
    assert difference[0] == pytest.approx(0.0777, abs=5e-5)
    assert printed == pytest.approx(0.0173, abs=5e-5)
    assert difference[0] <= corrected[0]


def test_theorem_4_the_factor_is_the_number_of_samples_not_of_features():
    n = 50
    X, T = np.zeros((n, 1)), np.ones(n)
    X[-1] = 1e3  # the one landmark, far from n − 1 coincident points
    _, printed, _, assumed = theorem_4(X, T, X[:1], X[-1:], gamma=1.0, C=1e-6)
    assert assumed[0] / printed == pytest.approx(0.98, abs=1e-3)
    assert assumed[0] / (printed / n) == pytest.approx(49, abs=0.1)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_theorem_4_says_nothing_that_the_size_of_both_predictors_does_not(C):
    X, T = regression(40)
    bound = C * len(X) * np.abs(T).max()
    for model in (KELMRegressor(gamma=0.5, C=C), NKELMRegressor(10, gamma=0.5, C=C, random_state=0)):
        assert np.abs(model.fit(X, T).predict(rows(50, 3, seed=3))).max() <= bound


# ---------------------------------------------------------------------------------------------------- other claims


def test_relm_is_nkelm_whose_factor_is_the_hidden_layer():
    X, T = regression(50, outputs=2)
    Q = rows(20, 3, seed=4)
    relm = ELMRegressor(12, C=4.0, random_state=1).fit(X, T)
    layer = relm.map_
    nystrom = NKELMRegressor(kernel=lambda A, B: layer.transform(A) @ layer.transform(B).T, landmarks="all", C=4.0).fit(
        X, T
    )
    assert relative_error(nystrom.predict(Q), relm.predict(Q)) < 1e-8
    beta, _ = reference.ridge(layer.transform(X), T, 4.0)
    assert relative_error(relm.beta_, beta) < 1e-10


@pytest.mark.parametrize("kernel", POSITIVE_DEFINITE)
def test_nystrom_kernel_lies_between_zero_and_the_kernel(kernel):
    X = rows(60, 3)
    K = reference.kernel_matrix(kernel, X, X, 0.5)
    F = NystromMap(15, kernel=kernel, gamma=0.5, random_state=0).fit_transform(X)
    round_off = 1e-12 * np.trace(K)
    assert np.linalg.eigvalsh(F @ F.T).min() > -round_off
    assert np.linalg.eigvalsh(K - F @ F.T).min() > -round_off


@pytest.mark.parametrize("kernel", POSITIVE_DEFINITE)
def test_nystrom_kernel_is_exact_on_landmark_rows(kernel):
    X, Z = rows(40, 3), rows(12, 3, seed=1)
    phi = NystromMap(kernel=kernel, gamma=0.5, landmarks=Z).fit(X)
    F_x, F_z = phi.transform(X), phi.transform(Z)
    assert relative_error(F_x @ F_z.T, reference.kernel_matrix(kernel, X, Z, 0.5)) < 1e-10
    # from a difference of two numbers of the size of κ(z, z)
    size = np.diag(reference.kernel_matrix(kernel, Z, Z, 0.5)).max()
    assert phi.residual_kernel(Z).max() < 1e-10 * size


@pytest.mark.parametrize("kernel", POSITIVE_DEFINITE)
def test_error_never_grows_when_landmarks_are_added(kernel):
    X = rows(60, 2)
    K = reference.kernel_matrix(kernel, X, X, 0.8)
    errors = []
    for L in (1, 2, 5, 10, 20, 40, 60):
        F = NystromMap(kernel=kernel, gamma=0.8, landmarks=X[:L]).fit_transform(X)
        errors.append(np.linalg.norm(K - F @ F.T, 2))
    assert (np.diff(errors) <= 1e-12 * np.trace(K)).all()
    assert errors[-1] <= 1e-11 * np.trace(K)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "matern32", "arcsine"])
def test_columns_nest(kernel):
    X = rows(50, 3)
    wide = NystromMap(kernel=kernel, gamma=0.5, landmarks=X[:20]).fit_transform(X)
    for L in (1, 7, 19):
        narrow = NystromMap(kernel=kernel, gamma=0.5, landmarks=X[:L]).fit_transform(X)
        assert relative_error(wide[:, :L], narrow) < 1e-9


def test_uniform_landmarks_nest_for_one_seed():
    X = rows(50, 3)
    wide = NystromMap(20, gamma=0.5, random_state=3).fit(X).landmarks_
    narrow = NystromMap(7, gamma=0.5, random_state=3).fit(X).landmarks_
    assert np.array_equal(wide[:7], narrow)


@pytest.mark.parametrize("rank", [1, 5, 20, 100])
def test_equation_27_keeps_the_first_pairs_of_more_landmarks(rank):
    X, Z = rows(40, 3), rows(20, 3, seed=1)
    W = reference.nystrom_whitening(reference.kernel_matrix("rbf", Z, Z, 0.5), rank)
    F = reference.kernel_matrix("rbf", X, Z, 0.5) @ W
    actual = NystromMap(gamma=0.5, landmarks=Z, rank=rank).fit(X).transform(X)
    assert actual.shape == (40, min(rank, 20))
    assert relative_error(actual @ actual.T, F @ F.T) < 1e-10


@pytest.mark.parametrize("rank", [1, 5, 12])
def test_equations_22_and_23_are_the_best_factor_and_nystrom_is_never_better(rank):
    X = rows(40, 3)
    K = reference.kernel_matrix("rbf", X, X, 0.5)
    best = NystromMap(gamma=0.5, landmarks="all", rank=rank).fit_transform(X)
    F = reference.best_factor(K, rank)
    assert relative_error(best @ best.T, F @ F.T) < 1e-10
    eigenvalues = np.linalg.eigvalsh(K)[::-1]
    assert np.linalg.norm(K - best @ best.T, 2) == pytest.approx(eigenvalues[rank], rel=1e-9)
    nystrom = NystromMap(rank, gamma=0.5, random_state=0).fit_transform(X)
    assert np.linalg.norm(K - nystrom @ nystrom.T, 2) >= eigenvalues[rank]


def test_dependent_landmarks_are_dropped_and_counted():
    X = rows(30, 3)
    with pytest.warns(NumericalWarning, match="10 of 30 landmarks depend on the others"):
        phi = NystromMap(gamma=0.5, landmarks=np.vstack([X[:20], X[:10]])).fit(X)
    assert phi.n_dropped_ == 10
    assert np.array_equal(phi.landmarks_, X[:20])


@pytest.mark.parametrize(("kernel", "rank"), [("linear", 3), ("cosine", 3), ("poly", 20)])
def test_a_kernel_of_finite_rank_keeps_that_many_landmarks(kernel, rank):
    # x·z in three dimensions has rank 3, (γ x·z + 1)³ has C(3 + 3, 3) = 20 monomials
    kept = [len(NystromMap(kernel=kernel, gamma=0.5, landmarks="all").fit(rows(60, 3, s)).landmarks_) for s in range(6)]
    # where the first landmarks are nearly dependent, round-off that they magnify may pass for one more
    assert min(kept) == rank
    assert max(kept) <= rank + 1

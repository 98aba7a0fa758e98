"""The exact kernel solver: the dense formula, one matrix alive, and a word when digits are lost."""

from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.kernel_ridge import KernelRidge

import reference
from data import cases, regression, relative_error, rows
from fixed import KELMRegressor
from ulmus import NumericalWarning, engine
from ulmus.engine import Rows
from ulmus.features.kernels import KERNELS, CrossKernel, KernelParameters
from ulmus.solvers.kernel_ridge import fit_kernel_ridge, kernel_triangle

SMOOTHNESS = {"rbf": 0.5, "laplacian": 0.5, "laplacian_l1": 0.3, "matern32": 0.5, "arcsine": 0.5}


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_triangle_and_row_sums_are_those_of_the_kernel_matrix(name):
    X = rows(300, 3)  # more than one block of rows
    parameters = KernelParameters(0.5, 3, 1.0)
    K, sums = kernel_triangle(CrossKernel(name, X, parameters), X)
    expected = reference.kernel_matrix(name, X, X, 0.5)
    assert relative_error(np.triu(K), np.triu(expected)) < 1e-12
    assert relative_error(sums, np.abs(expected).sum(axis=1)) < 1e-12


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("C", cases([2.0**-5, 1.0, 2.0**10, 2.0**20], 1.0, 2.0**20))
@pytest.mark.parametrize("name", SMOOTHNESS)
def test_dual_weights_solve_the_dense_system(name, C, weighted, fit_intercept):
    X, T = regression(60, outputs=2)
    w = np.random.RandomState(1).uniform(0.2, 3, 60) if weighted else None
    gamma = SMOOTHNESS[name]
    cross = CrossKernel(name, X, KernelParameters(gamma))
    solution = fit_kernel_ridge(cross, Rows(X, T, w), C, fit_intercept=fit_intercept)
    alpha, b = reference.kelm(reference.kernel_matrix(name, X, X, gamma), T, C, w, fit_intercept)
    K_q = reference.kernel_matrix(name, rows(20, 3, seed=4), X, gamma)
    assert relative_error(K_q @ solution.alpha + solution.intercept, K_q @ alpha + b) < 1e-8


def test_with_an_intercept_and_weights_of_all_sizes_no_more_digits_are_lost_than_one_solve_loses():
    rng, n, C = np.random.default_rng(0), 6, 8e5
    for _ in range(40):
        X, T, w = np.abs(rng.normal(size=(n, 1))), rng.normal(size=n), 10.0 ** rng.uniform(-4, 3, n)
        X[4], T[0] = -1.0, 100.0  # the mean target is far from the intercept
        found = fit_kernel_ridge(
            CrossKernel("cosine", X, KernelParameters(1.0)), Rows(X, T[:, None], w), C, fit_intercept=True
        )
        K = np.sign(X @ X.T)
        with mpmath.workdps(60):
            A = mpmath.matrix(np.block([[K, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]]).tolist())
            for i in range(n):
                A[i, i] += 1 / (mpmath.mpf(C) * mpmath.mpf(w[i]))
            exact = np.array([float(v) for v in mpmath.lu_solve(A, mpmath.matrix([*T.tolist(), 0]))])
            own = mpmath.matrix([*found.alpha[:, 0].tolist(), found.intercept[0]])
            off = np.array([float(v) for v in A * own])[4] - T[4]
        # a solve is exact for a system that is off by round-off, E: what it leaves of a row's equation is E α
        size = np.linalg.norm(K + np.diag(1 / (C * w)), 2) * np.linalg.norm(exact[:n])
        assert abs(off) <= 2 * n * np.finfo(float).eps * size


@pytest.mark.parametrize("folds", [False, True], ids=["one by one", "folds"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_copies_leave_a_kernel_model_with_the_digits_of_a_weight_under_a_large_c(fit_intercept, folds):
    rng, n, C = np.random.RandomState(0), 30, 2.0**32
    X, T, w = rng.normal(size=(n, 1)), rng.normal(size=(n, 1)), rng.randint(1, 4, n)
    copies = rng.permutation(np.repeat(np.arange(n), w))
    number = np.arange(n) // 2
    found = {}
    for name, index, weight in (("weight", np.arange(n), w.astype(float)), ("copies", copies, None)):
        cross = CrossKernel("matern32", X[index], KernelParameters(1.0))
        given = Rows(X[index], T[index], weight, w[index].astype(float))
        found[name] = fit_kernel_ridge(
            *(cross, given, C),
            fit_intercept=fit_intercept,
            n_last=len(index),
            last_folds=number[index] if folds else None,
        )
    here, there = found["weight"], found["copies"]
    assert here.remainder.min() < 1e-8
    assert_allclose(there.remainder, here.remainder[copies], rtol=1e-6)
    assert_allclose(there.residual, here.residual[copies], rtol=1e-5, atol=1e-9 * np.abs(here.residual).max())
    assert_allclose(there.alpha * w[copies, None], here.alpha[copies], rtol=1e-5, atol=1e-9 * np.abs(here.alpha).max())


def test_rows_that_are_repeated_solve_the_dense_system_of_all_rows():
    X, T = regression(40, outputs=2)
    index = np.random.RandomState(2).randint(40, size=100)
    X, T, w = X[index], T[index], np.random.RandomState(1).randint(1, 3, 100).astype(float)
    T[:10] += 1.0  # the same inputs with other targets are rows of their own
    cross = CrossKernel("rbf", X, KernelParameters(0.5))
    found = fit_kernel_ridge(cross, Rows(X, T, w, np.ones(100)), 8.0, fit_intercept=True, n_last=30)
    K = reference.kernel_matrix("rbf", X, X, 0.5)
    alpha, b = reference.kelm(K, T, 8.0, w, True)
    assert_allclose(found.alpha, alpha, atol=1e-9)
    assert_allclose(found.intercept, b, atol=1e-9)
    for i in range(70, 100):  # without one copy, by another fit
        less = w.copy()
        less[i] -= 1
        keep = less > 0
        alpha, b = reference.kelm(K[keep][:, keep], T[keep], 8.0, less[keep], True)
        error = T[i] - K[i, keep] @ alpha - b
        assert_allclose(found.residual[i - 70] / found.remainder[i - 70], error, atol=1e-9)


def test_kelm_equals_scikit_learns_kernel_ridge():
    X, T = regression(80, outputs=2)
    other = KernelRidge(kernel="rbf", gamma=0.4, alpha=1 / 32.0).fit(X, T)
    model = KELMRegressor(gamma=0.4, C=32.0).fit(X, T)
    Q = rows(20, 3, seed=3)
    assert relative_error(model.predict(Q), other.predict(Q)) < 1e-10


def test_a_kernel_that_is_not_positive_definite_is_solved_and_named():
    X, T = regression(50)
    K = reference.kernel_matrix("sigmoid", X, X, 1.0, coef0=-1.0)
    assert np.linalg.eigvalsh(K).min() < -0.1
    with pytest.warns(NumericalWarning, match=r"not positive definite \(it failed at row \d+ of 50\)"):
        model = KELMRegressor(kernel="sigmoid", gamma=1.0, coef0=-1.0, C=64.0).fit(X, T)
    alpha, _ = reference.kelm(K, T, 64.0)
    assert relative_error(model.predict(X), (K @ alpha)[:, 0]) < 1e-9


@pytest.mark.parametrize("weighed", cases([False, True], True))
def test_where_round_off_makes_a_definite_kernel_indefinite_the_largest_sound_c_is_used_and_named(weighed):
    X, T = regression(60, m=2)
    w = np.tile([1.0, 2.0, 3.0], 20) if weighed else None
    with pytest.warns(NumericalWarning, match=r"indefinite \(at row \d+ of 60\); C = 0\.\d+ replaced C = 1e\+03"):
        model = KELMRegressor(kernel="poly", gamma=8000.0, C=1e3).fit(X, T, sample_weight=w)
    assert 0 < model.C_ < 1
    with mpmath.workdps(60):  # the model of this C, without round-off
        Z = mpmath.matrix(X.tolist())
        K = (8000 * Z * Z.T + mpmath.ones(60)).apply(lambda value: value**3)
        A = K + mpmath.diag([1 / (mpmath.mpf(model.C_) * mpmath.mpf(v)) for v in (np.ones(60) if w is None else w)])
        fitted = np.array((K * mpmath.lu_solve(A, mpmath.matrix(T.tolist()))).tolist(), dtype=float)[:, 0]
    assert relative_error(model.predict(X), fitted) < 0.05  # two digits are certain, and the warning says so
    assert np.isfinite(model.predict_interval(X)).all()


def test_lost_digits_are_announced_with_the_condition_number():
    X, T = regression(60, m=1)
    with pytest.warns(NumericalWarning, match=r"condition number \d\.\de\+1\d"):
        KELMRegressor(gamma=0.01, C=1e14).fit(X, T)


@pytest.mark.parametrize("n", [100, 1000])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_matrix_that_half_of_the_memory_does_not_hold_lies_in_a_file(monkeypatch, n, fit_intercept):
    X, y = regression(n)
    model = KELMRegressor(gamma=0.5, C=10.0, fit_intercept=fit_intercept)
    in_memory = model.fit(X, y).predict(X)
    std = model.predict(X, return_std=True)[1]
    mapped = []
    memmap = np.memmap
    monkeypatch.setattr(np, "memmap", lambda *args, **options: mapped.append(1) or memmap(*args, **options))
    monkeypatch.setattr(engine, "physical_memory", lambda: 8 * n**2)
    np.testing.assert_array_equal(model.fit(X, y).predict(X), in_memory)
    np.testing.assert_array_equal(model.predict(X, return_std=True)[1], std)
    assert len(mapped) >= 2


def test_a_matrix_that_no_disk_holds_is_refused(monkeypatch):
    X, y = regression(100)
    monkeypatch.setattr(engine, "physical_memory", lambda: 8 * 99**2)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=8 * 99**2))
    with pytest.raises(MemoryError, match=r"100 rows needs .* GiB .* Use the NKELM model.* TMPDIR"):
        KELMRegressor(gamma=1.0, C=1.0).fit(X, y)


def test_targets_far_from_zero_cost_a_kernel_model_with_an_intercept_no_digits():
    """Where C multiplied the round-off of their mean; against the same targets near 0."""
    X, t = rows(8, 1), rows(8, 1, seed=1)[:, 0]
    given = {"kernel": "cosine", "C": 1e5, "fit_intercept": True}
    near, far = (KELMRegressor(**given).fit(X, t + shift) for shift in (0.0, 3000.0))
    np.testing.assert_allclose(far.predict(X) - 3000.0, near.predict(X), atol=1e-9)

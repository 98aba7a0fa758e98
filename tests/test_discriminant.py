"""The discriminant solver: every identity of the method, against brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import eigh, orth, subspace_angles

from data import classification, relative_error, rows
from ulmus import ENDA, KLDA, NumericalWarning, RandomLayer
from ulmus.solvers.discriminant import (
    between_root,
    class_counts,
    class_means,
    mixing,
    rotate,
    solve_discriminant,
    with_classes,
    within_scatter,
)
from ulmus.solvers.ridge import NormalEquations
from ulmus.statistics import Statistics


def hidden(n=120, L=12, classes=4, seed=0):
    """Hidden features, labels."""
    X, y = classification(n, classes=classes, seed=seed)
    return RandomLayer(L, activation="sigmoid", random_state=seed).fit_transform(X), y


def indicators(y, classes=None):
    return np.equal(y[:, None], np.arange(y.max() + 1 if classes is None else classes)).astype(float)


def scatter(H, y, w=None):
    """``S_w, S_b, S_t`` row by row, (10) and (11)."""
    w = np.ones(len(y)) if w is None else w
    mu = w @ H / w.sum()
    S_w, S_b, S_t = (np.zeros((H.shape[1],) * 2) for _ in range(3))
    for k in np.unique(y):
        mine = y == k
        mu_k = w[mine] @ H[mine] / w[mine].sum()
        S_b += w[mine].sum() * np.outer(mu_k - mu, mu_k - mu)
        for h, v in zip(H[mine], w[mine]):
            S_w += v * np.outer(h - mu_k, h - mu_k)
            S_t += v * np.outer(h - mu, h - mu)
    return S_w, S_b, S_t


weighted = pytest.mark.parametrize("weighted", [False, True])


def weights(n, weighted):
    return np.random.RandomState(3).uniform(0.2, 3, n) if weighted else None


@weighted
def test_total_scatter_is_within_plus_between(weighted):
    H, y = hidden()
    S_w, S_b, S_t = scatter(H, y, weights(len(y), weighted))
    assert relative_error(S_w + S_b, S_t) < 1e-12


@weighted
def test_counts_class_sums_and_the_gram_matrix_give_the_scatter(weighted):
    H, y = hidden()
    w = weights(len(y), weighted)
    stats = Statistics.of(H, indicators(y), w)
    S_w, S_b, _ = scatter(H, y, w)
    assert relative_error(within_scatter(stats), S_w) < 1e-10
    assert relative_error(between_root(stats) @ between_root(stats).T, S_b) < 1e-10
    np.testing.assert_allclose(class_counts(stats), np.bincount(y, w))
    np.testing.assert_allclose(
        class_means(stats)[:, 2], np.average(H[y == 2], axis=0, weights=None if w is None else w[y == 2])
    )


@pytest.mark.parametrize("gamma", [1e-3, 1.0, 100.0])
def test_the_small_eigenproblem_gives_what_the_full_one_gives(gamma):
    H, y = hidden()
    S_w, S_b, _ = scatter(H, y)
    found = solve_discriminant(Statistics.of(H, indicators(y)), gamma)
    lam, W = eigh(S_b, S_w + gamma * np.eye(len(S_w)))
    np.testing.assert_allclose(found.eigenvalues, lam[::-1][:3], rtol=1e-8)
    expected = W[:, ::-1][:, :3]
    signs = np.sign((expected * found.weights).sum(axis=0))
    assert relative_error(found.weights, expected * signs) < 1e-7


def test_directions_are_orthonormal_within_and_their_scatter_between_is_the_eigenvalues():
    H, y = hidden()
    S_w, S_b, _ = scatter(H, y)
    found = solve_discriminant(Statistics.of(H, indicators(y)), 0.1)
    W = found.weights
    np.testing.assert_allclose(W.T @ (S_w + 0.1 * np.eye(len(S_w))) @ W, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(W.T @ S_b @ W, np.diag(found.eigenvalues), atol=1e-9 * found.eigenvalues[0])
    means = np.stack([H[y == k].mean(axis=0) for k in range(4)])
    np.testing.assert_allclose(found.means, (means - found.centre) @ W, atol=1e-9)


def criterion(W, S_w, S_b):
    """``tr[(WᵀS_wW)⁻¹ WᵀS_bW]`` (12)."""
    return float(np.trace(np.linalg.solve(W.T @ S_w @ W, W.T @ S_b @ W)))


@given(st.integers(0, 2**31 - 1), st.integers(1, 3))
def test_no_other_directions_separate_better(seed, p):
    H, y = hidden()
    S_w, S_b, _ = scatter(H, y)
    S_w = S_w + 0.1 * np.eye(len(S_w))
    found = solve_discriminant(Statistics.of(H, indicators(y)), 0.1)
    best = found.eigenvalues[:p].sum()
    assert criterion(found.weights[:, :p], S_w, S_b) == pytest.approx(best, rel=1e-8)
    rng = np.random.RandomState(seed)
    other = rng.normal(size=(len(S_w), p))
    near = found.weights[:, :p] + 10.0 ** rng.uniform(-4, 0) * np.abs(found.weights).mean() * other
    assert max(criterion(other, S_w, S_b), criterion(near, S_w, S_b)) <= best * (1 + 1e-9)


def test_the_swapped_problem_is_ill_posed_and_its_largest_finite_pairs_are_the_worst_directions():
    H, y = hidden(L=8)
    S_w, S_b, _ = scatter(H, y)
    assert np.linalg.matrix_rank(S_b) == 3
    # S_w w = λ' S_b w has L − 3 infinite eigenvalues; the finite ones are 1/λ, so that the largest is the smallest λ
    found = solve_discriminant(Statistics.of(H, indicators(y)), 0.0)
    basis = found.weights
    swapped = eigh(basis.T @ S_w @ basis, basis.T @ S_b @ basis, eigvals_only=True)
    np.testing.assert_allclose(swapped[::-1], 1 / found.eigenvalues[::-1], rtol=1e-8)
    null = np.linalg.svd(S_b)[0][:, 3:]
    assert criterion(null, S_w, S_b) < 1e-9 * found.eigenvalues.sum()


def test_there_are_at_most_as_many_directions_as_classes_less_one():
    H, y = hidden(L=12, classes=4)
    assert len(solve_discriminant(Statistics.of(H, indicators(y)), 1.0).eigenvalues) == 3
    S_w, S_b, _ = scatter(H, y)
    full = eigh(S_b, S_w + np.eye(12), eigvals_only=True)
    assert abs(full[:-3]).max() < 1e-10 * full[-1]


def test_ridge_on_centred_indicators_spans_the_same_space():
    H, y = hidden()
    stats = Statistics.of(H, indicators(y))
    beta = NormalEquations(stats, 1 / 0.3, True).solution().beta
    W = solve_discriminant(stats, 0.3).weights
    assert subspace_angles(orth(beta, rcond=1e-10), W).max() < 1e-7


def test_the_scores_of_ridge_become_discriminant_coordinates_by_a_small_matrix():
    H, y = hidden()
    T = indicators(y)
    stats = Statistics.of(H, T)
    ridge = NormalEquations(stats, 1 / 0.3, True).solution()
    F = H @ ridge.beta + ridge.intercept
    found, direct = mixing(T.T @ (T - F), T.sum(axis=0)), solve_discriminant(stats, 0.3)
    np.testing.assert_allclose(found.eigenvalues, direct.eigenvalues, rtol=1e-8)
    Z, expected = (F - T.mean(axis=0)) @ found.A, (H - direct.centre) @ direct.weights
    np.testing.assert_allclose(np.abs(Z), np.abs(expected), atol=1e-8)
    np.testing.assert_allclose(np.abs(found.means), np.abs(direct.means), atol=1e-8)


def test_a_class_that_comes_later_is_a_new_column():
    H, y = hidden()
    old, new = y != 1, y == 1
    compact = np.searchsorted([0, 2, 3], y[old])
    before = with_classes(Statistics.of(H[old], indicators(compact)), np.array([0, 2, 3]), 4)
    joined = before + Statistics.of(H[new], indicators(y[new], 4))
    np.testing.assert_allclose(joined.moments, Statistics.of(H, indicators(y)).moments, atol=1e-10)


def test_a_class_without_rows_changes_nothing():
    H, y = hidden(classes=3)
    expected = solve_discriminant(Statistics.of(H, indicators(y)), 0.1)
    found = solve_discriminant(Statistics.of(H, indicators(y, 4)), 0.1)
    np.testing.assert_allclose(found.eigenvalues, [*expected.eigenvalues, 0.0], atol=1e-9)
    assert np.isnan(found.means[3]).all()
    assert np.isfinite(found.weights).all()


def test_a_class_whose_rows_were_all_taken_away_has_none():
    H, y = hidden(classes=3)
    w = np.random.RandomState(0).uniform(0.1, 1, len(y))
    last = y == 2
    rest = Statistics.of(H, indicators(y), w) - Statistics.of(H[last], indicators(y[last], 3), w[last])
    found = solve_discriminant(rest, 0.1)
    assert class_counts(rest)[2] == 0
    expected = solve_discriminant(Statistics.of(H[~last], indicators(y[~last]), w[~last]), 0.1)
    np.testing.assert_allclose(found.eigenvalues, [*expected.eigenvalues, 0.0], atol=1e-8)


def test_forgetting_scales_counts_sums_and_gram_alike():
    H, y = hidden()
    half = Statistics.of(H, indicators(y)).scaled(0.5)
    expected = solve_discriminant(Statistics.of(H, indicators(y), np.full(len(y), 0.5)), 0.1)
    np.testing.assert_allclose(solve_discriminant(half, 0.1).eigenvalues, expected.eigenvalues, rtol=1e-9)


def test_directions_of_two_classes_of_one_size_do_not_flip_with_round_off():
    """Both entries are as large, and their last bits must not decide the sign."""
    v = np.array([1.0, -1.0])
    for noise in (0.0, 1e-15, -1e-15):
        V, _ = rotate(np.outer(v, v) + noise * np.diag([1.0, -1.0]))
        assert V[0, 0] > 0


@pytest.mark.parametrize("gamma", [0.0, 1e-300])
def test_a_singular_within_scatter_is_mended_with_a_warning_that_says_by_how_much(gamma):
    H, y = hidden(20, 40)
    with pytest.warns(NumericalWarning, match="below round-off"):
        found = solve_discriminant(Statistics.of(H, indicators(y)), gamma)
    assert np.isfinite(found.weights).all()
    assert found.gamma > 0
    W, S_w = found.weights, scatter(H, y)[0]
    np.testing.assert_allclose(W.T @ (S_w + found.gamma * np.eye(40)) @ W, np.eye(3), atol=1e-2)


def klda_by_brute_force(K, y, gamma):
    """Generalised eigenproblem of the dual directions, n × n."""
    n = len(y)
    mean = K.mean(axis=1)
    S_b, S_w = np.zeros((n, n)), np.zeros((n, n))
    for k in np.unique(y):
        m = K[:, y == k].mean(axis=1)
        S_b += (y == k).sum() * np.outer(m - mean, m - mean)
        S_w += (K[:, y == k] - m[:, None]) @ (K[:, y == k] - m[:, None]).T
    return eigh(S_b, S_w + gamma * K + 1e-11 * np.eye(n), eigvals_only=True)[::-1]


def test_klda_solves_the_eigenproblem_of_the_kernel_matrix():
    X, y = classification(60, classes=4)
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    model = KLDA(gamma=0.5, C=4.0).fit(X, y)
    np.testing.assert_allclose(model.eigenvalues_, klda_by_brute_force(K, y, 0.25)[:3], rtol=1e-5)


@weighted
def test_nystrom_features_with_all_rows_as_landmarks_make_enda_equal_klda(weighted):
    X, y = classification(80, classes=4)
    w = weights(80, weighted)
    Q = rows(20, 3, seed=9)
    exact = KLDA(gamma=0.5, C=4.0).fit(X, y, sample_weight=w)
    nystrom = ENDA(features="nystrom", landmarks="all", gamma=0.5, C=4.0).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(nystrom.eigenvalues_, exact.eigenvalues_, rtol=1e-7)
    np.testing.assert_allclose(np.abs(nystrom.transform(Q)), np.abs(exact.transform(Q)), atol=1e-6)


def test_the_width_of_klda_comes_in_either_convention():
    X, y = classification(50)
    one, other = (KLDA(C=4.0, random_state=0, **width).fit(X, y) for width in ({"sigma": 2.0}, {"gamma": 1 / 8}))
    np.testing.assert_array_equal(one.transform(X), other.transform(X))


@pytest.mark.parametrize("features", [1, 2])
def test_fewer_features_than_directions_leave_directions_that_separate_nothing(features):
    for seed in range(200):
        rng = np.random.RandomState(seed)
        y = np.arange(40) % 5
        H = 10.0 ** rng.uniform(-4, 4) * (rng.normal(size=(40, features)) + rng.normal(size=(5, features))[y])
        found = solve_discriminant(Statistics.of(H, indicators(y)), 1e-6 * np.square(H).sum())
        assert found.rank == features
        assert (found.weights[:, features:] == 0).all()


def test_means_on_a_line_separate_along_one_direction_only():
    for seed in range(200):
        rng = np.random.RandomState(seed)
        y = np.arange(60) % 4
        H = rng.normal(size=(60, 5))
        H -= np.stack([H[y == k].mean(axis=0) for k in range(4)])[y]
        H += np.outer(y, rng.normal(size=5)) + 10.0 ** rng.uniform(-2, 3)
        assert solve_discriminant(Statistics.of(H, indicators(y)), 1e-9).rank == 1


@pytest.mark.parametrize("classes", [2, 3])
def test_a_class_that_is_missing_without_its_rows_is_not_impossible(classes):
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(26, 2)), np.arange(26) % (classes - 1)
    y[0] = classes - 1  # its only row: without it there is no such class
    model = ENDA(8, activation="tanh", slope=1.0, C=1.0, head="mean", random_state=0).fit(X, y)
    assert model.predict_proba(np.vstack([X, 3 * rng.normal(size=(100, 2))])).min() > 1e-3

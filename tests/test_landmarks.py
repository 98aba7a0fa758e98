"""Landmark strategies: what each promises, against brute force."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist

from data import cases
from test_contract import broken_by
from ulmus import NumericalWarning, NystromMap
from ulmus.features.kernel_sampling import Pool, randomly_pivoted_cholesky, ridge_leverage, weighted_order
from ulmus.features.kernels import KERNELS, KernelParameters, gram_matrix
from ulmus.features.landmarks import STRATEGIES, Draw, choose_landmarks
from ulmus.features.sampling import distinct_rows

NAMED = sorted(set(STRATEGIES) - {"all"})
DEFINITE = sorted(k for k in KERNELS if KERNELS[k].positive_definite)
NEED_KERNEL = sorted(s.name for s in STRATEGIES.values() if s.definite)


def clustered(seed=0, sizes=(400, 60, 25, 10, 5), n_features=4):
    """A large, tight cluster, ever smaller and wider ones far from it, and the cluster of every row."""
    rng = np.random.RandomState(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    centres = 6 * rng.standard_normal((len(sizes), n_features))
    spread = np.linspace(0.3, 2.0, len(sizes))
    order = rng.permutation(len(y))
    return (centres[y] + spread[y, None] * rng.standard_normal((len(y), n_features)))[order], y[order]


def draw(strategy, X, count, *, seed=0, kernel="rbf", gamma=0.1, y=None, weight=None, n_jobs=-1):
    parameters = KernelParameters(gamma)
    return choose_landmarks(
        strategy, Draw(X, count, np.random.RandomState(seed), weight, y, kernel, parameters, n_jobs)
    )


def pool_of(X, weight=None, kernel="rbf", gamma=0.1):
    return Pool(X, np.ones(len(X)) if weight is None else weight, kernel, KernelParameters(gamma))


def residual_diagonal(K, pivots):
    """``diag(K − K_xz K_zz⁺ K_zx)`` by eigenvectors."""
    s, U = np.linalg.eigh(K[np.ix_(pivots, pivots)])
    F = K[:, pivots] @ (U / np.sqrt(s))
    return np.diag(K) - (F**2).sum(axis=1)


def trace_error(X, Z, gamma=0.1):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        return NystromMap(gamma=gamma, landmarks=Z).fit(X).residual_kernel(X).sum()


def plain_rpcholesky(K, weight, count, rng):
    """Randomly pivoted Cholesky as it is written in the books: one pivot at a time."""
    A, pivots = K.copy(), []
    for _ in range(count):
        p = weight * np.maximum(np.diag(A), 0)
        p[pivots] = 0
        pivot = rng.choice(len(K), p=p / p.sum())
        A -= np.outer(A[:, pivot], A[pivot]) / A[pivot, pivot]
        pivots.append(pivot)
    return pivots, np.trace(A)


def rows_in(Z, X):
    """For every row of Z, whether X has it."""
    return (cdist(Z, X) == 0).any(axis=1)


# Randomly pivoted Cholesky


@pytest.mark.parametrize("kernel", DEFINITE)
def test_rpcholesky_residual_equals_brute_force_nystrom_on_its_pivots(kernel):
    X, _ = clustered()
    K = gram_matrix(kernel, X, KernelParameters(0.1))
    pivots = randomly_pivoted_cholesky(pool_of(X, kernel=kernel), 20, np.random.RandomState(0))
    expected = residual_diagonal(K, pivots.rows)
    # Inner-product kernels of low rank end early, with everything explained down to round-off.
    assert 3 <= len(pivots.rows) <= 20
    np.testing.assert_allclose(pivots.residual, expected, atol=1e-10 * np.diag(K).max() * max(1, abs(expected).max()))


def test_rpcholesky_explains_clustered_data_better_than_uniform():
    X, _ = clustered()
    error = {
        name: np.mean([trace_error(X, draw(name, X, 30, seed=seed)) for seed in range(10)])
        for name in ("uniform", "rpcholesky")
    }
    assert error["rpcholesky"] < 0.6 * error["uniform"]


@pytest.mark.parametrize("weighted", cases([False, True], True))
def test_rejection_in_blocks_draws_from_the_law_of_single_pivots(weighted):
    X, y = clustered(sizes=(120, 20, 8))
    weight = np.array([1.0, 3.0, 0.2])[y] if weighted else np.ones(len(X))
    K, pool = gram_matrix("rbf", X, KernelParameters(0.1)), pool_of(X, weight)
    plain, block, first = [], [], []
    for seed in range(300):
        plain.append(plain_rpcholesky(K, weight, 12, np.random.RandomState(seed)))
        block.append(randomly_pivoted_cholesky(pool, 12, np.random.RandomState(10_000 + seed)))
        first.append((y[plain[-1][0][:6]], y[block[-1].rows[:6]]))
    errors = np.array([[t for _, t in plain], [residual_diagonal(K, b.rows).sum() for b in block]])
    spread = np.sqrt(errors.var(axis=1).sum() / 300)
    # Four standard errors: chance alone passes this once in 16,000 times, and the seeds are fixed.
    assert abs(errors[0].mean() - errors[1].mean()) < 4 * spread
    # The sequence, not only the set: how often each cluster is among the first six pivots.
    counts = np.array([[np.bincount(a, minlength=3) / 6, np.bincount(b, minlength=3) / 6] for a, b in first])
    gap = abs(counts.mean(axis=0)[0] - counts.mean(axis=0)[1])
    assert (gap < 4 * np.sqrt(counts.var(axis=0).sum(axis=0) / 300)).all()


def test_rpcholesky_stops_where_a_kernel_has_no_more_rank():
    X = np.random.RandomState(0).standard_normal((200, 3))
    assert len(draw("rpcholesky", X, 50, kernel="linear")) == 3


def test_rpcholesky_works_with_a_callable_kernel():
    X, _ = clustered()

    def kernel(A, B):
        return np.exp(-0.1 * cdist(A, B, "sqeuclidean"))

    np.testing.assert_array_equal(draw("rpcholesky", X, 20, kernel=kernel), draw("rpcholesky", X, 20))


# Leverage scores


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ridge", [1e-3, 0.1, 10.0])
def test_first_term_of_leverage_never_exceeds_the_true_score(ridge, weighted):
    X, y = clustered()
    weight = np.array([1.0, 2.0, 0.5, 3.0, 1.0])[y] if weighted else np.ones(len(X))
    root = np.sqrt(weight)
    K = gram_matrix("rbf", X, KernelParameters(0.1)) * np.outer(root, root)
    true = np.diag(np.linalg.solve(K + ridge * np.eye(len(K)), K))
    scores = ridge_leverage(pool_of(X, weight), 40, ridge)
    assert (scores.explained <= true + 1e-10).all()
    assert (scores.explained > 0).any()


def test_leverage_is_exact_when_every_row_is_a_pilot():
    X, _ = clustered(sizes=(60, 20, 5))
    K = gram_matrix("rbf", X, KernelParameters(0.1))
    scores = ridge_leverage(pool_of(X), len(X), 0.1)
    np.testing.assert_allclose(scores.total, np.diag(np.linalg.solve(K + 0.1 * np.eye(len(K)), K)), atol=1e-8)


def test_default_ridge_makes_the_scores_sum_to_at_most_twice_the_pilots():
    X, _ = clustered()
    scores = ridge_leverage(pool_of(X), 20)
    K = gram_matrix("rbf", X, KernelParameters(0.1))
    np.testing.assert_allclose(scores.ridge, residual_diagonal(K, np.arange(20)).sum() / 20, rtol=1e-6)
    assert scores.total.sum() <= 40 + 1e-8


def test_leverage_prefers_rows_that_are_hard_to_explain():
    X, y = clustered()
    share = {
        name: np.mean(
            [(cdist(draw(name, X, 40, seed=seed), X).argmin(axis=1)[:, None] == np.flatnonzero(y > 0)).sum() / 40
             for seed in range(10)]
        )
        for name in ("uniform", "leverage")
    }  # fmt: skip
    assert share["leverage"] > 1.5 * share["uniform"]


def test_weighted_order_draws_in_proportion_to_the_score():
    score = np.array([1.0, 2.0, 3.0, 4.0, 0.0])
    orders = np.array([weighted_order(score, np.random.RandomState(seed)) for seed in range(4000)])
    # Standard error of a share of 4000 draws: below 0.008.
    np.testing.assert_allclose(np.bincount(orders[:, 0], minlength=5) / 4000, score / 10, atol=0.03)
    after_the_last = orders[orders[:, 0] == 3, 1]
    np.testing.assert_allclose(
        np.bincount(after_the_last, minlength=5) / len(after_the_last), [1 / 6, 2 / 6, 3 / 6, 0, 0], atol=0.05
    )
    assert (orders[:, -1] == 4).all()


# k-means and balanced drawing


def test_kmeans_quantises_better_than_uniform():
    X, _ = clustered()
    error = {
        name: np.mean([(cdist(X, draw(name, X, 30, seed=seed)).min(axis=1) ** 2).mean() for seed in range(5)])
        for name in ("uniform", "kmeans")
    }
    assert error["kmeans"] < 0.7 * error["uniform"]


def test_the_first_centres_of_many_explain_as_much_as_few_centres():
    X, _ = clustered()
    prefix = np.mean([trace_error(X, draw("kmeans", X, 80, seed=seed)[:25]) for seed in range(8)])
    few = np.mean([trace_error(X, draw("kmeans", X, 25, seed=seed)) for seed in range(8)])
    assert prefix < 1.15 * few


def test_centres_are_in_random_order_for_a_kernel_that_is_not_positive_definite():
    X, _ = clustered()
    sigmoid, rbf = draw("kmeans", X, 30, kernel="sigmoid"), draw("kmeans", X, 30)
    assert not np.array_equal(sigmoid, rbf)
    np.testing.assert_array_equal(np.unique(sigmoid, axis=0), np.unique(rbf, axis=0))


def test_kmeans_keeps_its_digits_far_from_the_origin():
    X, _ = clustered()
    error = {
        name: np.mean([(cdist(rows, draw("kmeans", rows, 30, seed=seed)).min(axis=1) ** 2).mean() for seed in range(5)])
        for name, rows in (("near", X), ("far", X + 1e8))
    }
    # Another sample (the rows are others), the same quality. Without centring, squares of 1e16 drown distances of 1.
    assert error["far"] < 1.1 * error["near"]


def test_balanced_gives_every_class_its_share_while_its_rows_last():
    X, y = clustered(sizes=(400, 60, 25, 10, 5))
    Z = draw("balanced", X, 60, y=y)
    counts = np.bincount(y[cdist(Z, X).argmin(axis=1)])
    # 5 and 10 are all there is; what they leave goes to the others.
    assert sorted(counts) == [5, 10, 15, 15, 15]
    assert rows_in(Z, X).all()


def test_every_prefix_of_balanced_is_balanced():
    X, y = clustered()
    labels = y[cdist(draw("balanced", X, 25, y=y), X).argmin(axis=1)]
    for stop in range(1, 26):
        counts = np.bincount(labels[:stop], minlength=5)
        assert counts.max() - counts.min() <= 1


def test_balanced_takes_labels_of_any_kind():
    X, y = clustered()
    expected = draw("balanced", X, 25, y=y)
    for labels in (y.astype(float), np.array(list("abcde"))[y], np.array(list("abcde"), dtype=object)[y], list(y)):
        np.testing.assert_array_equal(draw("balanced", X, 25, y=labels), expected)


def test_a_row_with_two_labels_is_one_balanced_landmark():
    X, y = clustered()
    twice, labels = np.vstack([X, X]), np.concatenate([y, 4 - y])
    Z = draw("balanced", twice, 60, y=labels)
    assert len(np.unique(Z, axis=0)) == 60


@pytest.mark.parametrize(
    ("y", "given"),
    [(None, "None"), (np.linspace(0.1, 1, 500), "continuous"), (np.eye(2)[[0, 1] * 250], "multilabel-indicator")],
)
def test_balanced_without_labels_says_what_it_needs(y, given):
    X, _ = clustered()
    with pytest.raises(ValueError, match=f"landmarks='balanced' .*{given}.*pass one class label per row"):
        NystromMap(10, landmarks="balanced").fit(X, y)


def test_balanced_with_the_wrong_number_of_labels_says_how_many():
    X, y = clustered()
    with pytest.raises(ValueError, match="y has 499 labels for 500 rows"):
        NystromMap(10, landmarks="balanced").fit(X, y[1:])


# What all strategies promise


@pytest.mark.parametrize("strategy", NAMED)
def test_the_same_seed_gives_the_same_landmarks_for_any_number_of_threads(strategy):
    X, y = clustered(sizes=(3000, 300, 30))
    first = draw(strategy, X, 150, y=y, n_jobs=1)
    for n_jobs in (1, 2, 5):
        np.testing.assert_array_equal(draw(strategy, X, 150, y=y, n_jobs=n_jobs), first)
    assert not np.array_equal(draw(strategy, X, 150, y=y, seed=1), first)


@pytest.mark.parametrize("strategy", NAMED)
def test_features_nest_in_the_order_of_the_landmarks(strategy):
    X, y = clustered()
    whole = NystromMap(40, gamma=0.5, landmarks=strategy, random_state=0).fit(X, y)
    part = NystromMap(gamma=0.5, landmarks=whole.landmarks_[:15]).fit(X)
    np.testing.assert_allclose(whole.transform(X)[:, :15], part.transform(X), atol=1e-9)


@pytest.mark.parametrize("strategy", NAMED)
def test_a_prefix_is_a_sensible_choice(strategy):
    X, y = clustered()
    prefix = np.mean([trace_error(X, draw(strategy, X, 80, y=y, seed=seed)[:25]) for seed in range(8)])
    uniform = np.mean([trace_error(X, draw("uniform", X, 25, seed=seed)) for seed in range(8)])
    assert prefix < uniform * (1 + 1e-9)


@pytest.mark.parametrize("strategy", ["rpcholesky", "leverage", "balanced", "uniform"])
def test_landmarks_are_distinct_rows_of_the_data(strategy):
    X, y = clustered()
    Z = draw(strategy, np.vstack([X, X, X]), 60, y=np.tile(y, 3))
    assert rows_in(Z, X).all()
    assert len(np.unique(Z, axis=0)) == 60


@pytest.mark.parametrize("strategy", NAMED)
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_sparse_rows_give_the_landmarks_of_dense_rows(strategy, kernel):
    X, y = clustered(n_features=8)
    X = np.where(abs(X) < 3, 0, X)
    np.testing.assert_allclose(
        draw(strategy, sparse.csr_array(X), 30, y=y, kernel=kernel),
        draw(strategy, X, 30, y=y, kernel=kernel),
        atol=1e-9,
    )


@pytest.mark.parametrize("strategy", [*NAMED, "all"])
def test_rows_of_weight_zero_are_as_if_they_were_not_there(strategy):
    X, y = clustered()
    weight = np.where(y == 1, 0.0, 1.0 + y)
    seen = weight > 0
    np.testing.assert_array_equal(
        draw(strategy, X, 40, y=y, weight=weight), draw(strategy, X[seen], 40, y=y[seen], weight=weight[seen])
    )


@pytest.mark.parametrize("strategy", NAMED)
def test_a_weight_equals_that_many_copies(strategy):
    X, y = clustered()
    copies = np.random.RandomState(0).randint(0, 4, len(X))
    rows = np.random.RandomState(1).permutation(np.repeat(np.arange(len(X)), copies))
    weighted = draw(strategy, X, 40, y=y, weight=copies.astype(float))
    # Exact but for round-off in sums over the weights.
    np.testing.assert_allclose(draw(strategy, X[rows], 40, y=y[rows]), weighted, atol=1e-9)


@pytest.mark.parametrize("strategy", ["kmeans", "rpcholesky", "leverage"])
def test_heavy_rows_attract_landmarks(strategy):
    X, y = clustered(sizes=(250, 250))
    weight = np.where(y == 0, 50.0, 1.0)

    def share(weight):
        chosen = [y[cdist(draw(strategy, X, 40, seed=s, weight=weight), X).argmin(axis=1)] for s in range(5)]
        return np.mean(np.concatenate(chosen) == 0)

    assert share(weight) > share(None) + 0.05


@pytest.mark.parametrize("strategy", NAMED)
@pytest.mark.parametrize("n_rows", [1, 2, 30])
def test_more_landmarks_than_rows_means_all_rows(strategy, n_rows):
    X = np.random.RandomState(0).standard_normal((n_rows, 3))
    model = NystromMap(100, gamma=5.0, landmarks=strategy, random_state=0).fit(X, np.arange(n_rows) % 2)
    assert sorted(map(tuple, model.landmarks_)) == sorted(map(tuple, X))
    np.testing.assert_allclose(
        model.transform(X) @ model.transform(X).T, np.exp(-5 * cdist(X, X, "sqeuclidean")), atol=1e-9
    )


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
@pytest.mark.parametrize("strategy", [*NAMED, "all"])
@pytest.mark.parametrize("kernel", [*KERNELS])
def test_constant_and_repeated_rows_still_make_a_map(strategy, kernel):
    y = np.arange(60) % 3
    for X in (np.full((60, 2), 0.7), np.repeat(np.eye(3), 20, axis=0), np.arange(60.0)[:, None] // 20):
        model = NystromMap(10, kernel=kernel, gamma=0.5, landmarks=strategy, random_state=0).fit(X, y)
        assert np.isfinite(model.transform(X)).all()
        if kernel == "rbf":
            np.testing.assert_allclose(model.residual_kernel(X), 0, atol=1e-9)


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
@pytest.mark.parametrize("strategy", NAMED)
@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e100])
def test_any_scale_of_the_rows_works_or_says_why_not(strategy, scale):
    X, y = clustered()
    try:
        model = NystromMap(20, landmarks=strategy, random_state=0).fit(X * scale, y)
    except ValueError as error:
        assert "overflow" in str(error)  # noqa: PT017 - either outcome is right
    else:
        assert np.isfinite(model.transform(X * scale)).all()


@pytest.mark.parametrize("strategy", NAMED)
@pytest.mark.parametrize("weights", [(1e-300, 1e-300), (1e300, 1e300), (1.0, 5e-324), (1e300, 1.0)])
def test_weights_of_any_size_end_in_landmarks(strategy, weights):
    X, y = clustered(sizes=(30, 20))
    Z = draw(strategy, X, 50, y=y, weight=np.array(weights)[y], gamma=5.0)
    assert np.isfinite(Z).all()
    # A weight that is nothing beside the others may count as nothing; the heavy rows are all there.
    assert rows_in(X[y == 0], Z).all()


@pytest.mark.parametrize("strategy", NEED_KERNEL)
def test_a_kernel_that_is_not_positive_definite_gets_uniform_landmarks(strategy):
    X, _ = clustered()
    np.testing.assert_array_equal(draw(strategy, X, 30, kernel="sigmoid"), draw("uniform", X, 30, kernel="sigmoid"))


@pytest.mark.parametrize("strategy", NAMED)
def test_rows_without_a_positive_kernel_value_end_in_the_message_of_the_map(strategy):
    with pytest.raises(ValueError, match="no landmark has a positive kernel value"):
        NystromMap(5, kernel="linear", landmarks=strategy).fit(np.zeros((20, 2)), np.arange(20) % 2)


@pytest.mark.parametrize("strategy", NEED_KERNEL)
@pytest.mark.parametrize("kernel", DEFINITE)
def test_kernel_strategies_take_every_definite_kernel(strategy, kernel):
    X, _ = clustered()
    Z = draw(strategy, X, 20, kernel=kernel)
    assert rows_in(Z, X).all()
    assert not np.array_equal(Z, draw("uniform", X, 20, kernel=kernel)[: len(Z)])


def test_pool_is_ten_distinct_rows_per_landmark_and_shrinks_for_many():
    X = np.random.RandomState(0).standard_normal((60_000, 1))
    assert len(Draw(X, 100, np.random.RandomState(0)).pool()) == 1000
    assert len(Draw(X, 8192, np.random.RandomState(0)).pool()) == 2 * 8192
    pool = Draw(np.vstack([X[:50]] * 3), 10, np.random.RandomState(0)).pool()
    np.testing.assert_array_equal(pool.X, X[:50][distinct_rows(X[:50], 50, None, np.random.RandomState(0))[0]])


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
@pytest.mark.contract
@pytest.mark.slow
@pytest.mark.parametrize("strategy", NAMED)
def test_scikit_learn_contract_of_every_strategy(strategy):
    assert not broken_by(NystromMap(20, landmarks=strategy))


def test_which_of_all_rows_are_kept_where_they_depend_on_others_is_for_no_order_to_say():
    X = np.random.RandomState(0).normal(size=(61, 3))
    order, columns = np.random.RandomState(1).permutation(61), [2, 0, 1]
    given = {"landmarks": "all", "kernel": "poly", "gamma": 0.02, "degree": 3}
    with pytest.warns(NumericalWarning, match="depend on the others"):
        here, there, turned = (NystromMap(**given).fit(each) for each in (X, X[order], X[:, columns]))
    assert len(here.landmarks_) == 20  # monomials of degree 3 and less
    np.testing.assert_array_equal(there.landmarks_, here.landmarks_)
    np.testing.assert_array_equal(turned.landmarks_, here.landmarks_[:, columns])

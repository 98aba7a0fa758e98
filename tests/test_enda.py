"""ENDA, KLDA and NNDA: what they promise, beside scikit-learn, and what they do with odd input."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.spatial import procrustes
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import reference
from data import classification, relative_error, rows, sparse_rows
from discriminants import MODELS, PLAIN, incremental, model, models, quiet, weighable
from ulmus import ENDA, KLDA, NNDA, datasets
from ulmus.explain import explain
from ulmus.models._heads import NEIGHBOURS, Means, nearest, votes
from ulmus.models._references import References
from ulmus.solvers.discriminant import solve_discriminant
from ulmus.statistics import Statistics

# ------------------------------------------------------------------------------------------- beside scikit-learn


def test_identity_nodes_without_penalty_are_linear_discriminant_analysis():
    X, y = classification(200, m=4, classes=4)
    lda = LinearDiscriminantAnalysis(solver="eigen", priors=np.full(4, 0.25)).fit(X, y)
    plain = ENDA(4, activation="identity", slope=1.0, C=1e10, head="mean", random_state=0).fit(X, y)
    Z, expected = plain.transform(X), lda.transform(X)
    expected -= expected.mean(axis=0)
    scale = np.linalg.norm(expected, axis=0) / np.linalg.norm(Z, axis=0)
    np.testing.assert_allclose(np.abs(Z * scale), np.abs(expected), atol=1e-6)
    Q = rows(300, 4, seed=1)
    np.testing.assert_array_equal(plain.predict(Q), lda.predict(Q))


def test_neighbours_are_those_of_scikit_learn():
    X, y = classification(150, classes=4)
    for k in (1, 3, 7):
        enda = ENDA(20, n_neighbors=k, **PLAIN).fit(X, y)
        rule = KNeighborsClassifier(k).fit(enda.transform(X), y)
        Q = rows(100, 3, seed=1)
        np.testing.assert_allclose(enda.predict_proba(Q), rule.predict_proba(enda.transform(Q)), atol=1e-5)


def test_the_number_of_neighbours_has_the_fewest_errors_over_ten_folds():
    X, y = classification(300, m=2, classes=3)
    y = np.where(np.random.RandomState(0).uniform(size=300) < 0.3, 0, y)
    enda = ENDA(20, **PLAIN).fit(X, y)
    H = enda.map_.transform(X)
    wrong = dict.fromkeys(NEIGHBOURS, 0)
    for division in References(X, y).divisions(enda.fitted_.certainty.seed):
        train = division.lost == 0
        T = np.equal(y[:, None], np.arange(3)).astype(float)
        W = solve_discriminant(Statistics.of(H[train], T[train]), 1 / enda.C_).weights
        for k in NEIGHBOURS:
            rule = KNeighborsClassifier(k, weights=nearer_first).fit(H[train] @ W, y[train])
            wrong[k] += (rule.predict(H[~train] @ W) != y[~train]).sum()
    assert wrong[enda.n_neighbors_] == min(wrong.values()) < max(wrong.values())


def nearer_first(distances):
    return 1 - 1e-6 * np.arange(distances.shape[1]) * np.ones_like(distances)


def test_folds_leave_each_row_out_once_and_copies_of_it_stay_behind():
    X, y = classification(100)
    plain = References(X, y).divisions(0)
    assert len(plain) == 10
    np.testing.assert_array_equal(sum(d.lost for d in plain), 1.0)
    tripled = References(X, y, np.full(100, 3.0)).divisions(0)
    repeated = References(np.repeat(X, 3, axis=0), np.repeat(y, 3)).divisions(0)
    for one, other in zip(tripled, repeated, strict=True):
        np.testing.assert_array_equal(one.lost, other.lost.reshape(-1, 3).sum(axis=1))
        np.testing.assert_array_equal(one.mass, 3.0)
        np.testing.assert_array_equal(other.mass, 3.0)


def test_folds_that_are_given_are_left_out_as_a_whole():
    X, y = classification(60)
    folds = np.arange(60) % 3
    for f, division in enumerate(References(X, y, None, folds).divisions(0)):
        np.testing.assert_array_equal(division.lost, folds == f)


def test_ties_go_to_the_nearer_neighbour():
    P = votes(np.array([[1, 0], [0, 1]]), np.ones((2, 2)), 2, 2)
    np.testing.assert_array_equal(P.argmax(axis=1), [1, 0])
    np.testing.assert_allclose(P, 0.5, atol=1e-6)


@pytest.mark.parametrize("order", [[0, 1, 1, 0], [1, 0, 0, 1]])
def test_votes_that_are_equal_go_to_the_first_label_whether_neighbours_are_copies_or_have_weights(order):
    for k in (4, 40, 63):  # one neighbour of each kind, and copies of them
        each = k / 4
        inner = votes(np.array([[order[0], order[1], order[0]]]), np.array([[each, 2 * each, each]]), k, 2)
        copies = votes(np.repeat([order], k, axis=1), np.full((1, 4 * k), 0.25), k, 2)
        for P in (inner, copies):
            assert P[0, 0] == P[0, 1] == 0.5


def test_round_off_of_equal_projections_does_not_say_which_is_nearer():
    rng = np.random.default_rng(0)
    steps, Q = rng.integers(0, 3, (60, 2)) / 3.0, rng.integers(0, 3, (20, 2)) / 3.0
    expected = nearest(steps, Q, 5)
    for _ in range(5):
        off, other = (A * (1 + 1e-15 * rng.normal(size=A.shape)) for A in (steps, Q))
        np.testing.assert_array_equal(nearest(off, other, 5), expected)


def test_the_order_of_rows_does_not_say_which_of_equal_projections_votes():
    rng = np.random.default_rng(0)
    steps, Q = rng.integers(0, 3, (60, 2)) / 3.0, rng.integers(0, 3, (20, 2)) / 3.0
    labels = rng.integers(0, 3, 60)
    expected = labels[nearest(steps, Q, 5, labels)]
    for _ in range(5):
        order = rng.permutation(60)
        np.testing.assert_array_equal(labels[order][nearest(steps[order], Q, 5, labels[order])], expected)


def test_a_neighbour_of_weight_two_votes_like_two():
    copied = votes(np.array([[0, 0, 1, 1]]), np.ones((1, 4)), 3, 2)
    np.testing.assert_allclose(votes(np.array([[0, 1, 1]]), np.array([[2.0, 1.0, 1.0]]), 3, 2), copied)


def test_nnda_is_the_hidden_layer_of_scikit_learns_network():
    X, y = classification(100, classes=4)
    nnda = NNDA(10, max_iter=1, random_state=np.random.RandomState(0)).fit(X, y)
    assert [w.shape for w in nnda.coefs_] == [(3, 10), (10, 3)]
    first = 1 / (1 + np.exp(-(X @ nnda.coefs_[0] + nnda.intercepts_[0])))
    np.testing.assert_allclose(nnda.transform(X), first @ nnda.coefs_[1] + nnda.intercepts_[1], atol=1e-12)


def standardised(name):
    given = datasets.load(name)
    return StandardScaler().fit_transform(given.data), given.target


def test_nnda_stops_at_its_goal_or_when_it_gets_no_further():
    X, y = standardised("wine")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        short = NNDA(10, max_iter=500, goal=0.3, random_state=0).fit(X, y)
    assert short.loss_curve_[-1] <= 0.3 < min(short.loss_curve_[:-1])
    stuck = NNDA(10, learning_rate=1e-6, max_iter=500, patience=3, random_state=0).fit(X, y)
    assert stuck.n_iter_ == len(stuck.loss_curve_) == 4
    with pytest.warns(ConvergenceWarning, match="max_iter=5 passes at a loss of .* goal=0.001"):
        NNDA(10, max_iter=5, random_state=0).fit(X, y)


def test_nnda_learns():
    X, y = standardised("wine")
    assert NNDA(20, max_iter=100, random_state=0).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9


# ---------------------------------------------------------------------------------------- what lines cannot separate


def rings(n, rng):
    y = np.arange(n) % 3
    angle, radius = rng.uniform(0, 2 * np.pi, n), 1.0 + y + 0.1 * rng.normal(size=n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


def xor(n, rng):
    X = rng.uniform(-1, 1, (n, 2))
    X += 0.1 * np.sign(X)
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


def spirals(n, rng):
    y = np.arange(n) % 2
    t = np.sqrt(rng.uniform(0.05, 1, n)) * 3 * np.pi
    X = np.column_stack([t * np.cos(t + np.pi * y), t * np.sin(t + np.pi * y)])
    return X + 0.15 * rng.normal(size=X.shape), y


@quiet
@pytest.mark.parametrize("make", [rings, xor, spirals])
@incremental
def test_what_lines_cannot_separate_becomes_separable(make, features):
    rng = np.random.RandomState(0)
    (X, y), (Q, t) = make(600, rng), make(600, rng)
    options = {"slope": 6.0, "gamma": 0.2 if make is spirals else 4.0, "C": 2.0**16}
    enda = ENDA(300, features=features, n_neighbors=1, random_state=0, **options).fit(X, y)
    assert enda.score(Q, t) > 0.97
    assert LinearDiscriminantAnalysis().fit(X, y).score(Q, t) < 0.75


# ------------------------------------------------------------------------------------------------------ transformer


@models
def test_names_and_frames_come_out(name):
    X, y = classification(60, classes=4)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    fitted = model(name).fit(frame, y).set_output(transform="pandas")
    Z = fitted.transform(frame)
    prefix = type(MODELS[name]).__name__.lower()
    assert list(Z.columns) == list(fitted.get_feature_names_out()) == [f"{prefix}{j}" for j in range(3)]
    assert list(fitted.feature_names_in_) == ["a", "b", "c"]


@models
def test_arrays_frames_and_sparse_rows_give_the_same_projection(name):
    X = sparse_rows(80, 6)
    y = (X.sum(axis=1) > np.median(X.sum(axis=1))).astype(int) + (X[:, 0] > 0)
    expected = model(name).fit(X, y).transform(X)
    columns = [f"x{j}" for j in range(6)]
    for kind, container in {
        "pandas": pd.DataFrame(X, columns=columns),
        "polars": pl.DataFrame(X, schema=columns),
        "csr": sparse.csr_array(X),
    }.items():
        assert relative_error(model(name).fit(container, y).transform(container), expected) < 1e-6, kind


@models
def test_labels_may_be_words(name):
    X, y = classification(60)
    words = np.array(["low", "middle", "high"])[y]
    fitted = model(name).fit(X, words)
    assert list(fitted.classes_) == ["high", "low", "middle"]
    assert set(fitted.predict(X)) <= set(words)


@pytest.mark.parametrize("name", ["enda", "enda-nystrom", "klda", "ensemble"])
def test_fewer_components_are_the_first_ones(name):
    X, y = classification(80, classes=4)
    np.testing.assert_allclose(
        model(name, n_components=2).fit(X, y).transform(X), model(name).fit(X, y).transform(X)[:, :2], atol=1e-9
    )


@models
def test_probabilities_sum_to_one_and_the_largest_is_predicted(name):
    X, y = classification(80, classes=4)
    fitted = model(name).fit(X, y)
    P = fitted.predict_proba(rows(50, 3, seed=2))
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(fitted.classes_[P.argmax(axis=1)], fitted.predict(rows(50, 3, seed=2)))


@models
def test_a_pickled_model_projects_the_same(name):
    X, y = classification(60)
    fitted = model(name).fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), fitted.transform(X))


@models
def test_fits_repeat_for_any_number_of_threads(name):
    X, y = classification(1500, classes=4)
    options = [{} if name == "nnda" else {"n_jobs": n} for n in (1, 2)]
    first, second = (model(name, **o).fit(X, y).transform(X[:50]) for o in options)
    np.testing.assert_array_equal(first, second)


@weighable
def test_rows_in_another_order_give_the_same_projection(name):
    X, y = classification(120, classes=4)
    order = np.random.RandomState(1).permutation(120)
    expected = model(name).fit(X, y).transform(X)
    np.testing.assert_allclose(model(name).fit(X[order], y[order]).transform(X), expected, atol=1e-7)


def test_parameters_can_be_searched_in_a_pipeline():
    X, y = classification(90)
    search = GridSearchCV(make_pipeline(StandardScaler(), ENDA(10, slope=1.0)), {"enda__C": [1.0, 16.0]}, cv=3).fit(
        X, y
    )
    assert search.best_params_["enda__C"] in (1.0, 16.0)


# -------------------------------------------------------------------------------------------------- what is chosen


@incremental
def test_called_without_arguments_everything_is_chosen(features):
    X, y = standardised("wine")
    chosen = ENDA(features=features, random_state=0).fit(X[::2], y[::2])
    assert chosen.score(X[1::2], y[1::2]) > 0.95
    assert [hasattr(chosen, name) for name in ("slope_", "gamma_")] == [features == "random", features == "nystrom"]
    assert chosen.tuning_.C == chosen.C_


def test_the_penalty_is_that_of_the_ridge_with_the_smallest_leave_one_out_loss():
    X, y = classification(100)
    chosen = ENDA(20, slope=1.0, criterion="squared", random_state=0).fit(X, y)
    H, T = chosen.map_.transform(X), np.where(np.eye(3)[y] > 0, 1.0, -1.0)

    def loss(C):
        total = 0.0
        for i in range(100):
            rest = np.arange(100) != i
            mean, t_mean = H[rest].mean(axis=0), T[rest].mean(axis=0)
            A = H[rest] - mean
            beta = np.linalg.solve(A.T @ A + np.eye(20) / C, A.T @ (T[rest] - t_mean))
            total += ((T[i] - t_mean - (H[i] - mean) @ beta) ** 2).mean() / 100
        return total

    assert loss(chosen.C_) <= 1.0011 * min(loss(chosen.C_ * 2.0**k) for k in range(-3, 4))


def test_folds_of_groups_are_respected():
    X, y = classification(120)
    groups = np.arange(120) % 6
    fitted = ENDA(20, slope=1.0, random_state=0).fit(X, y, groups=groups)
    assert fitted.score(X, y) > 0.8


def test_probabilities_of_the_nearest_mean_are_calibrated_on_rows_left_out():
    X, y = classification(2000, classes=3)
    fitted = ENDA(30, head="mean", **PLAIN).fit(X[:1000], y[:1000])
    P = fitted.predict_proba(X[1000:])
    confidence, right = P.max(axis=1), fitted.predict(X[1000:]) == y[1000:]
    assert abs(confidence.mean() - right.mean()) < 0.03  # two standard errors of an accuracy over 1000 rows
    assert isinstance(fitted.head_, Means)


@pytest.mark.filterwarnings("ignore:scores of rows that were left out:ulmus.NumericalWarning")
@pytest.mark.parametrize("seed", range(3))
def test_where_means_say_nothing_probabilities_are_the_frequencies_whichever_mean_is_nearest(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(900, 4)), rng.choice(4, 900, p=[0.7, 0.1, 0.1, 0.1])
    fitted = ENDA(10, head="mean", **PLAIN).fit(X[:400], y[:400])
    P, frequency = fitted.predict_proba(X[400:]), np.bincount(y[:400]) / 400
    assert abs(P.max(axis=1).mean() - (P.argmax(axis=1) == y[400:]).mean()) < 4 * 0.5 * np.sqrt(1 / 400 + 1 / 500)
    # two numbers, factor and share, are fitted to 400 rows and cost half of a row each in the mean
    loss, by_frequency = -np.log(P[np.arange(500), y[400:]]).mean(), -np.log(frequency[y[400:]]).mean()
    assert loss < by_frequency + 4 * 2 / 800


@pytest.mark.parametrize("grouped", [False, True])
def test_klda_calibrates_class_means_on_rows_that_its_regression_did_not_see(grouped):
    X, y = classification(60, classes=3)
    groups = np.arange(60) % 5 if grouped else None
    fitted = KLDA(gamma=0.5, C=16.0, head="mean", random_state=0).fit(X, y, groups=groups)
    order = [int(np.flatnonzero((z == X).all(axis=1))[0]) for z in fitted.cross_kernel_.Z]
    K, T = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2)), np.eye(3)[y]
    alpha, _ = reference.kelm(K, T, 16.0, None, True)
    A = np.linalg.lstsq(alpha, fitted.alpha_[np.argsort(order)], rcond=None)[0]
    F = np.empty(T.shape)
    for i in range(60):
        rest = np.delete(np.arange(60), i) if groups is None else np.flatnonzero(groups != groups[i])
        own, constant = reference.kelm(K[np.ix_(rest, rest)], T[rest], 16.0, None, True)
        F[i] = K[i, rest] @ own + constant
    expected = fitted.head_.probabilities(F @ A)
    np.testing.assert_allclose(fitted.left_out_.scores, expected[order], atol=1e-8)


def test_klda_is_no_surer_of_the_nearest_mean_than_right():
    gaps = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(560, 4))
        y = np.digitize(X[:, 0] + rng.normal(size=560), [-1.0, 0.0, 1.0])
        fitted = KLDA(gamma=0.5, C=100.0, head="mean", random_state=0).fit(X[:60], y[:60])
        P = fitted.predict_proba(X[60:])
        gaps.append(P.max(axis=1).mean() - (P.argmax(axis=1) == y[60:]).mean())
    assert abs(np.mean(gaps)) < 4 * 0.5 * np.sqrt((1 / 60 + 1 / 500) / 8)  # 0.45 by rows that it had seen


def test_two_draws_give_two_pictures():
    wine = datasets.load("wine")
    one, other = (ENDA(30, slope=1.0, C=1.0, random_state=s).fit(wine.data, wine.target) for s in (0, 1))
    assert procrustes(one.transform(wine.data), other.transform(wine.data))[2] > 1e-3


@pytest.mark.parametrize(
    "model",
    [
        ENDA(30, random_state=0),
        KLDA(C=1.0, gamma=0.5, head="mean", metric=np.array([1.0, 2.0, 0.0])),
        NNDA(5, max_iter=3, head="mean", random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_reasons_add_up_to_the_probabilities_of_classes(model):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(150, 3))
    y = np.array(["low", "middle", "high"])[np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 0.5])]
    model.fit(X, y)
    found = model.explain(X[:6], X[100:110])
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), model.predict_proba(X[:6]), atol=1e-10)
    assert found.output_names == list(model.classes_)
    sizes = np.abs(found.values).mean(axis=(0, 2))
    assert sizes[0] > 2 * sizes[2]


def test_reasons_behind_a_pipeline_that_mixes_columns_are_those_of_probabilities():
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(PCA(3), ENDA(20, random_state=0)).fit(X, y)
    found = explain(model, X[::40], X[::15])
    told = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(told, model.predict_proba(X[::40]), atol=1e-10)

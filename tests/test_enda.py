"""ENDA, KLDA and NNDA: what they promise, beside scikit-learn, and what they do with odd input."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.spatial import procrustes
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from data import classification, relative_error, rows, sparse_rows
from ulmus import ENDA, KLDA, NNDA, ENDAEnsemble, NumericalWarning, datasets, engine
from ulmus.models._heads import NEIGHBOURS, Means, votes
from ulmus.models._references import References
from ulmus.models.enda import penalty_by_gcv
from ulmus.solvers.discriminant import solve_discriminant
from ulmus.statistics import Statistics

PLAIN = {"slope": 1.0, "gamma": 0.5, "C": 16.0, "random_state": 0}
MODELS = {
    "enda": ENDA(20, **PLAIN),
    "enda-mean": ENDA(20, head="mean", **PLAIN),
    "enda-nystrom": ENDA(20, features="nystrom", **PLAIN),
    "klda": KLDA(gamma=0.5, C=16.0, random_state=0),
    "nnda": NNDA(10, max_iter=20, random_state=0),
    "ensemble": ENDAEnsemble(ENDA(20, **PLAIN), n_members=3, random_state=0),
}
models = pytest.mark.parametrize("name", MODELS)
weighable = pytest.mark.parametrize("name", [name for name in MODELS if name != "nnda"])
incremental = pytest.mark.parametrize("features", ["random", "nystrom"])
quiet = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


def model(name, **options):
    return clone(MODELS[name]).set_params(**options)


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
    for division in References(X, y).divisions(enda._seed):
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
    short = NNDA(10, max_iter=500, goal=0.3, random_state=0).fit(X, y)
    assert short.loss_curve_[-1] <= 0.3 < min(short.loss_curve_[:-1])
    stuck = NNDA(10, learning_rate=1e-6, max_iter=500, patience=3, random_state=0).fit(X, y)
    assert stuck.n_iter_ == len(stuck.loss_curve_) == 4


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


# --------------------------------------------------------------------------------------------------------- blocks


@incremental
def test_blocks_one_after_the_other_give_what_all_rows_give(features):
    X, y = classification(300, classes=4)
    options = {"scale": 1.0, "landmarks": X[:20], "n_neighbors": 3, **PLAIN}
    whole = ENDA(20, features=features, **options).fit(X, y)
    parts = ENDA(20, features=features, **options)
    for k in range(0, 300, 100):
        parts.partial_fit(X[k : k + 100], y[k : k + 100])
    np.testing.assert_allclose(parts.eigenvalues_, whole.eigenvalues_, rtol=1e-7)
    np.testing.assert_allclose(parts.transform(X), whole.transform(X), atol=1e-7)
    Q = rows(100, 3, seed=4)
    np.testing.assert_allclose(parts.predict_proba(Q), whole.predict_proba(Q), atol=1e-12)


@pytest.mark.parametrize("head", ["knn", "mean"])
def test_a_class_may_come_late(head):
    X, y = classification(300, classes=4)
    late = y == 1
    options = {"scale": 1.0, "head": head, **PLAIN}
    parts = ENDA(20, **options).partial_fit(X[~late], y[~late])
    assert list(parts.classes_) == [0, 2, 3]
    parts.partial_fit(X[late], y[late])
    assert list(parts.classes_) == [0, 1, 2, 3]
    whole = ENDA(20, **options).fit(X, y)
    np.testing.assert_allclose(parts.transform(X), whole.transform(X), atol=1e-7)
    np.testing.assert_array_equal(parts.predict(X), whole.predict(X))


def test_classes_may_be_announced():
    X, y = classification(300, classes=4)
    early = y < 2
    announced = ENDA(20, scale=1.0, n_components=3, **PLAIN).partial_fit(X[early], y[early], classes=[0, 1, 2, 3])
    assert announced.transform(X).shape == (300, 3)
    assert set(announced.predict(X)) <= {0, 1}
    announced.partial_fit(X[~early], y[~early])
    np.testing.assert_allclose(announced.transform(X), ENDA(20, scale=1.0, **PLAIN).fit(X, y).transform(X), atol=1e-7)


def test_after_the_first_block_the_penalty_is_chosen_from_the_sums_alone():
    X, y = classification(400, classes=3)
    auto = ENDA(20, slope=1.0, random_state=0).partial_fit(X[:200], y[:200])
    assert auto.C_ == ENDA(20, slope=1.0, random_state=0).fit(X[:200], y[:200]).C_
    auto.partial_fit(X[200:], y[200:])
    H, T = auto.map_.transform(X), np.eye(3)[y]
    assert penalty_by_gcv(Statistics.of(H, T)) == auto.C_

    def gcv(C):  # n ‖e‖² / (n − tr)², with the smoother written out
        Hc = H - H.mean(axis=0)
        S = Hc @ np.linalg.solve(Hc.T @ Hc + np.eye(20) / C, Hc.T) + 1 / 400
        return 400 * ((T - S @ T) ** 2).sum() / (400 - np.trace(S)) ** 2

    assert gcv(auto.C_) <= 1.001 * min(gcv(C) for C in 2.0 ** np.arange(-10, 26)) * (1 + 1e-6)


@incremental
def test_the_steps_of_a_fit_taken_one_by_one_give_the_fit(features):
    X, y = classification(300, classes=4)
    whole = ENDA(20, features=features, **PLAIN).fit(X, y)
    steps = ENDA(20, features=features, **PLAIN)
    X, y = steps._validate(X, y)
    T, _ = steps._encode(y, None)
    every = engine.Rows(X, T)
    rng = np.random.RandomState(0)
    assert steps._begin(every, None, rng) is None
    summary = steps._summarise(every[:100]) + steps._summarise(every[100:])
    steps._finish(summary, every, rng)
    np.testing.assert_allclose(steps.transform(X), whole.transform(X), atol=1e-8)
    np.testing.assert_array_equal(steps.predict(X), whole.predict(X))
    np.testing.assert_array_equal(steps._encode_more(y[:5])[0], T[:5])
    with pytest.raises(ValueError, match=r"labels \[9\] are not among the known classes"):
        steps._encode_more(np.array([0, 9]))


def test_a_driver_may_leave_size_and_penalty_to_the_sums_of_all_rows():
    X, y = classification(2000, classes=3)
    steps = ENDA(max_hidden=64, slope=1.0, random_state=0)
    X, y = steps._validate(X, y)
    rows_ = engine.Rows(X, steps._encode(y, None)[0])
    rng = np.random.RandomState(0)
    steps._begin(rows_[:300], None, rng, spare=True)
    have = steps.map_.n_lifted
    steps._finish(steps._summarise(rows_), rows_[:300], rng, choose=True)
    assert steps.n_hidden_ in steps.map_.prefix_sizes()
    assert steps.n_hidden_ <= have
    assert steps.statistics_.n_rows == 2000
    assert steps.score(X, y) > 0.85


def test_rows_kept_for_the_neighbours_are_bounded_and_do_not_depend_on_their_order():
    X, y = classification(300, classes=3)
    options = {"scale": 1.0, "max_references": 50, **PLAIN}
    one = ENDA(20, **options).fit(X, y)
    order = np.random.RandomState(1).permutation(300)
    other = ENDA(20, **options).fit(X[order], y[order])
    assert one.head_.references.shape == (50, 2)
    np.testing.assert_allclose(one.head_.references, other.head_.references, atol=1e-8)
    assert one.statistics_.n_rows == 300
    parts = ENDA(20, **options).partial_fit(X[:150], y[:150]).partial_fit(X[150:], y[150:])
    np.testing.assert_allclose(parts.head_.references, one.head_.references, atol=1e-8)


# -------------------------------------------------------------------------------------------------- what is chosen


@incremental
def test_called_without_arguments_everything_is_chosen(features):
    X, y = standardised("wine")
    chosen = ENDA(features=features, random_state=0).fit(X[::2], y[::2])
    assert chosen.score(X[1::2], y[1::2]) > 0.95
    assert {"random": "slope_", "nystrom": "gamma_"}[features] in vars(chosen)
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


# -------------------------------------------------------------------------------------------------------- odd input


@models
def test_one_class_is_refused(name):
    with pytest.raises(ValueError, match="at least two classes"):
        model(name).fit(rows(20, 3), np.zeros(20))


@models
def test_more_components_than_classes_allow_are_refused(name):
    X, y = classification(60, classes=3)
    with pytest.raises(ValueError, match="n_components=3 is too many: 3 classes have at most 2"):
        model(name, n_components=3).fit(X, y)


@quiet
@models
def test_a_class_of_one_row_works(name):
    X, y = classification(60, classes=3)
    y[y == 2] = 1
    y[7] = 2
    fitted = model(name).fit(X, y)
    assert np.isfinite(fitted.transform(X)).all()
    assert set(fitted.predict(X)) <= {0, 1, 2}


@quiet
@models
def test_a_constant_feature_changes_nothing_and_constant_rows_do_not_break_the_fit(name):
    X, y = classification(60)
    fitted = model(name).fit(np.column_stack([X, np.ones(60)]), y)
    assert np.isfinite(fitted.transform(np.column_stack([X, np.ones(60)]))).all()
    nothing = model(name).fit(np.ones((60, 2)), y)
    assert np.isfinite(nothing.transform(np.ones((60, 2)))).all()
    assert set(nothing.predict(np.ones((60, 2)))) <= {0, 1, 2}


@quiet
@pytest.mark.parametrize("C", [1.0, 2.0**30, "auto", None])
def test_more_nodes_than_rows_work(C):
    X, y = classification(30)
    fitted = ENDA(200, slope=1.0, C=C, random_state=0).fit(X, y)
    assert np.isfinite(fitted.transform(X)).all()
    assert fitted.score(X, y) > 0.6


def test_without_a_penalty_a_singular_scatter_is_reported():
    X, y = classification(30)
    with pytest.warns(NumericalWarning, match="within-class scatter is singular"):
        ENDA(200, slope=1.0, C=None, random_state=0).fit(X, y)


@quiet
def test_fewer_nodes_than_directions_work():
    X, y = classification(100, classes=5)
    fitted = ENDA(2, **PLAIN).fit(X, y)
    assert fitted.transform(X).shape == (100, 4)
    assert np.count_nonzero(fitted.eigenvalues_) == 2


@quiet
@pytest.mark.parametrize("head", ["knn", "mean"])
def test_two_rows_are_enough(head):
    fitted = ENDA(5, head=head, random_state=0).fit([[0.0], [1.0]], [0, 1])
    np.testing.assert_array_equal(fitted.predict([[0.0], [1.0]]), [0, 1])


def test_klda_says_what_it_would_need_before_it_allocates(monkeypatch):
    monkeypatch.setattr(engine, "physical_memory", lambda: 2**30)
    X = np.zeros((20_000, 1))
    with pytest.raises(MemoryError, match=r"KLDA of 20000 rows needs 3\.0 GiB .* has 1\.0 GiB; use ENDA"):
        KLDA(gamma=1.0, C=1.0).fit(X, np.arange(20_000) % 2)


def test_sigma_and_gamma_together_are_refused():
    X, y = classification(30)
    with pytest.raises(ValueError, match="sigma is the width of the Gaussian kernel in place of gamma"):
        KLDA(sigma=1.0, gamma=1.0).fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": -1.0}, "'C' parameter"),
        ({"features": "fourier"}, "'features' parameter"),
        ({"head": "tree"}, "'head' parameter"),
        ({"n_neighbors": 0}, "'n_neighbors' parameter"),
        ({"n_components": 0}, "'n_components' parameter"),
    ],
)
def test_parameters_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ENDA(**options).fit(*classification(30))


def test_two_draws_give_two_pictures():
    wine = datasets.load("wine")
    one, other = (ENDA(30, slope=1.0, C=1.0, random_state=s).fit(wine.data, wine.target) for s in (0, 1))
    assert procrustes(one.transform(wine.data), other.transform(wine.data))[2] > 1e-3

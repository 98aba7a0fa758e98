"""Monotone models: the programme against a general solver, fine grids, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import minimize

import ulmus
from data import cases
from ulmus import AdaptiveRegressor, ELMRegressor, NKELMClassifier, NKELMRegressor
from ulmus.calibration import leave_one_out
from ulmus.engine import Precomputed, Rows
from ulmus.solvers.monotone import Constraint, least_distance, made_monotone
from ulmus.solvers.ridge import Problem

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


def test_least_distance_is_what_a_general_solver_finds():
    rng = np.random.RandomState(0)
    for _ in range(5):
        A = rng.normal(size=(12, 5))
        A = A.T @ A + 0.1 * np.eye(5)
        root = np.linalg.inv(np.linalg.cholesky(A)).T
        beta, G, margin = rng.normal(size=5), rng.normal(size=(7, 5)), 0.1 * rng.uniform(size=7)
        G[0] *= 1e-4
        margin[0] *= 1e-4
        found, binding = least_distance(beta, root, G, margin)
        best = minimize(
            lambda b, A=A, beta=beta: (b - beta) @ A @ (b - beta),
            np.linalg.lstsq(G, margin + 1, rcond=None)[0],
            jac=lambda b, A=A, beta=beta: 2 * A @ (b - beta),
            constraints={"type": "ineq", "fun": lambda b, G=G, m=margin: G @ b - m, "jac": lambda b, G=G: G},
            method="SLSQP",
            options={"ftol": 1e-13, "maxiter": 500},
        )
        assert (G @ best.x >= margin - 1e-7).all()
        np.testing.assert_allclose(found, best.x, atol=2e-5)
        assert (G @ found >= margin - 1e-10).all()
        np.testing.assert_allclose((G @ found)[binding], margin[binding], atol=1e-10)


def test_features_that_cannot_rise_are_level():
    """Steps that ask for opposite slopes, each by a margin, have no solution; without it the nearest is level."""
    G = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    beta, _ = least_distance(np.array([2.0, -1.0, 3.0]), np.eye(3), G, np.full(3, 0.1))
    np.testing.assert_allclose(beta, [0.0, 0.0, 3.0], atol=1e-12)


def test_weights_that_rise_already_stay_as_they_are():
    beta, binding = least_distance(np.ones(3), np.eye(3), np.eye(3), np.zeros(3))
    np.testing.assert_array_equal(beta, np.ones(3))
    assert not binding.any()


@pytest.mark.parametrize("n", [60, 12], ids=["primal", "dual"])
def test_rows_leave_as_from_a_fit_in_which_the_same_steps_stay_level(n):
    rng = np.random.RandomState(1)
    X = rng.uniform(-1, 1, (n, 1))
    Phi = np.cos(np.outer(X[:, 0], np.arange(1, 16)) + np.arange(15))

    def transform(X):
        return np.cos(np.outer(X[:, 0], np.arange(1, 16)) + np.arange(15))

    y = np.tanh(2 * X) + 0.6 * rng.normal(size=(n, 1))
    rows, C = Rows(Phi, y), 5.0
    free = Problem(Precomputed(15), rows, C, True, 1).solve()
    values = np.unique(X[:, 0])
    made = made_monotone(free, [Constraint(0, 1, values)], X, transform, lambda X, beta: transform(X) @ beta, 0)
    assert made.n_binding > 0
    held = leave_one_out(Precomputed(15), rows, made.solution, C, n_jobs=1)
    # the weights without row i in the subspace of the steps that bind, about the solution of all rows
    W = made.solution.leverage.root
    U, s, _ = np.linalg.svd(W)
    N = U[:, s > 1e-9 * s[0]]
    beta = made.solution.beta[:, 0]
    for i in range(0, n, 5):
        keep = np.arange(n) != i
        F, t = Phi[keep], y[keep, 0]
        centre, middle = F.mean(axis=0), t.mean()
        H = (F - centre) @ N
        rest = t - middle - (F - centre) @ beta
        step = np.linalg.solve(H.T @ H + N.T @ N / C, H.T @ rest - N.T @ beta / C)
        b = beta + N @ step
        assert held.P[i, 0] == pytest.approx((Phi[i] - centre) @ b + middle, abs=1e-8)


def rising(n, d, seed):
    """A truth that rises along the first input and falls along the second; the others do as they like."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2, 2, (n, d))
    f = np.tanh(2 * X[:, 0]) - np.exp(0.5 * X[:, 1])
    if d > 2:
        f = f + np.sin(2 * X[:, 2])
    return X, f + 0.4 * rng.normal(size=n), f


def falls(score, X, column, sign, values=201):
    """The largest fall of any row on a fine grid, as a share of the range."""
    low, high = X[:, column].min(), X[:, column].max()
    grid = np.repeat(X[:150], values, axis=0)
    grid[:, column] = np.tile(np.linspace(low, high, values), 150)
    F = score(grid).reshape(150, values)
    return max(0.0, -(sign * np.diff(F, axis=1)).min() / np.ptp(F))


MODELS = [
    pytest.param(NKELMRegressor(60, random_state=0), id="nkelm"),
    pytest.param(ELMRegressor(60, random_state=0), id="elm", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("seeds", cases([(0,), (0, 1)]), ids=len)
@pytest.mark.parametrize("model", MODELS)
def test_a_monotone_truth_is_fitted_as_well_and_never_falls_on_a_fine_grid(model, seeds):
    ratios = []
    for seed in seeds:
        X, y, _ = rising(500, 2, seed)
        X_new, _, truth = rising(1500, 2, 100 + seed)
        free = model.set_params(monotonic_cst=None).fit(X, y)
        assert falls(free.predict, X, 0, 1) > 1e-4
        error = np.mean((free.predict(X_new) - truth) ** 2)
        bound = model.set_params(monotonic_cst=[1, -1]).fit(X, y)
        inside = X_new[(X_new >= X.min(axis=0)).all(axis=1) & (X_new <= X.max(axis=0)).all(axis=1)]
        for column, sign in ((0, 1), (1, -1)):
            assert falls(bound.predict, X, column, sign) <= 1e-9
            assert falls(bound.predict, inside, column, sign) <= 2e-5
        assert bound.monotone_violation_ == 0.0
        ratios.append(np.mean((bound.predict(X_new) - truth) ** 2) / error)
    assert np.mean(ratios) < 1.02


def test_intervals_of_monotone_models_cover():
    X, y, _ = rising(700, 3, 5)
    model = NKELMRegressor(100, gamma=0.1, C=10.0, monotonic_cst=[1, -1, 0], random_state=0).fit(X, y)
    X_new, y_new, _ = rising(3000, 3, 6)
    low, high = model.predict_interval(X_new, 0.9).T
    assert ((low <= y_new) & (y_new <= high)).mean() == pytest.approx(0.9, abs=0.03)


def test_probabilities_of_two_classes_are_monotone():
    X, y, _ = rising(400, 2, 7)
    model = NKELMClassifier(80, gamma=0.1, C=10.0, monotonic_cst=[1, -1], random_state=0).fit(X, y > 0)
    probability = lambda X: model.predict_proba(X)[:, 1]  # noqa: E731
    assert falls(probability, X, 0, 1) <= 1e-9
    assert falls(probability, X, 1, -1) <= 1e-9
    assert model.score(X, y > 0) > 0.7


def test_inputs_are_named_in_a_dict_and_the_metric_may_stretch_them():
    X, y, _ = rising(200, 3, 8)
    frame = pd.DataFrame(X, columns=["up", "down", "any"])
    model = NKELMRegressor(40, C=10.0, metric="auto", monotonic_cst={"up": 1, "down": -1}, random_state=0)
    model.fit(frame, y)
    score = lambda X: model.predict(pd.DataFrame(X, columns=frame.columns))  # noqa: E731
    assert falls(score, X, 0, 1) <= 1e-9
    assert falls(score, X, 1, -1) <= 1e-9


def coloured(values):
    """A frame with a column of words beside the numbers."""
    made = pd.DataFrame(values, columns=["up", "down", "any"])
    return made.assign(colour=np.where(made["any"] > 0, "red", "blue"))


@pytest.fixture(scope="module")
def adaptive():
    """The same rows by a free adaptive model and by one that has directions."""
    X, y, _ = rising(300, 3, 9)
    given = {"effort": "fast", "random_state": 0}
    free, bound = AdaptiveRegressor(**given), AdaptiveRegressor(**given, monotonic_cst={"up": 1, "down": -1})
    for model in (free, bound):
        model.fit(coloured(X), y)
    return X, y, free, bound


def test_adaptive_models_are_monotone_in_columns_of_a_frame(adaptive):
    X, y, _, model = adaptive
    score = lambda values: model.predict(coloured(values))  # noqa: E731
    wide = X * 1.5  # beyond the data as well
    for column, sign in ((0, 1), (1, -1)):
        assert falls(score, wide, column, sign, 101) <= 1e-12
    assert model.monotone_violation_ == 0.0
    with pytest.raises(ValueError, match="'colour', which holds categories"):
        AdaptiveRegressor(effort="fast", random_state=0, monotonic_cst={"colour": 1}).fit(coloured(X), y)


@pytest.mark.parametrize("fixed", cases([("any", "colour"), ()]), ids=["two free", "all free"])
def test_monotone_adaptive_models_give_reasons_come_back_from_files_and_say_what_they_cannot(adaptive, fixed, tmp_path):
    X, _, free, model = adaptive
    frame = coloured(X)
    told = model.explain(frame[:2], frame[:10])
    np.testing.assert_allclose(told.values.sum(axis=1) + told.base_values, model.predict(frame[:2]), atol=1e-8)
    assert model.explain(frame[:1]).values.shape == (1, 4)  # the rows that calibrate are the background
    rise = model.partial_dependence(frame[:50], "up").average
    assert (np.diff(rise) >= -1e-12).all()
    answers = model.predict(frame)
    middle, which = answers.mean(), np.argsort(abs(answers - answers.mean()))[:1]
    high = model.counterfactuals(frame.iloc[which], frame, threshold=float(middle), fixed=fixed)
    assert (model.predict(high) - middle)[0] * (answers[which] - middle)[0] <= 0
    ulmus.save(model, tmp_path / "model.ulmus")
    again = ulmus.load(tmp_path / "model.ulmus")
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert again.monotone_violation_ == 0.0
    np.testing.assert_allclose(model.predict_interval(frame[:9]), again.predict_interval(frame[:9]), rtol=1e-9)
    pytest.importorskip("onnx")
    with pytest.raises(TypeError, match="monotonic_cst cannot be exported"):
        ulmus.onnx.export(model)
    ulmus.onnx.export(free)


def test_a_missing_value_has_no_direction_and_other_columns_keep_theirs():
    X, y, _ = rising(250, 3, 13)
    X[::5, 0] = np.nan
    model = AdaptiveRegressor(effort="fast", random_state=0, monotonic_cst=[1, -1, 0]).fit(X, y)
    rows = X[::5][:40]
    low, high = rows.copy(), rows.copy()
    high[:, 1] += np.linspace(0, 2, 40)
    assert (model.predict(high) <= model.predict(low) + 1e-12).all()


def test_monotone_adaptive_models_err_as_free_ones_where_the_truth_is_monotone_and_their_intervals_cover(adaptive):
    _, _, free, model = adaptive
    X, y, _ = rising(3000, 3, 109)
    free_error, error = (np.sqrt(np.mean((one.predict(coloured(X)) - y) ** 2)) for one in (free, model))
    assert error <= 1.02 * free_error
    low, high = model.predict_interval(coloured(X), 0.9).T
    # of 300 rows that calibrate one deviation is 1.7 points
    assert ((low <= y) & (y <= high)).mean() == pytest.approx(0.9, abs=0.04)


def test_no_direction_is_the_free_fit():
    X, y, _ = rising(200, 2, 10)
    free = NKELMRegressor(40, random_state=0).fit(X, y)
    same = NKELMRegressor(40, monotonic_cst=[0, 0], random_state=0).fit(X, y)
    np.testing.assert_array_equal(free.predict(X), same.predict(X))
    free, same = (
        AdaptiveRegressor(effort="fast", monotonic_cst=given, trees=False, random_state=0).fit(X, y)
        for given in (None, [0, 0])
    )
    np.testing.assert_array_equal(free.predict(X), same.predict(X))
    assert same.monotone_violation_ == 0.0


def test_monotone_models_are_repeatable_and_come_back_from_files(tmp_path):
    X, y, _ = rising(200, 2, 11)
    made = [
        NKELMRegressor(40, gamma=0.5, C=10.0, monotonic_cst=[1, 0], random_state=0, n_jobs=n).fit(X, y) for n in (1, 2)
    ]
    np.testing.assert_array_equal(made[0].predict(X), made[1].predict(X))
    ulmus.save(made[0], tmp_path / "model.ulmus")
    again = ulmus.load(tmp_path / "model.ulmus")
    np.testing.assert_array_equal(made[0].predict(X), again.predict(X))
    assert again.monotone_violation_ == made[0].monotone_violation_
    np.testing.assert_array_equal(made[0].predict_interval(X), again.predict_interval(X))


def test_what_cannot_be_monotone_is_refused_with_words():
    X, y, _ = rising(120, 2, 12)
    given = {"gamma": 0.5, "C": 1.0, "monotonic_cst": [1, 0], "random_state": 0}
    with pytest.raises(ValueError, match="several outputs or classes"):
        NKELMRegressor(20, **given).fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="sparse rows"):
        NKELMRegressor(20, **given).fit(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="several outputs or classes"):
        NKELMClassifier(20, **given).fit(X, np.digitize(y, [-1, 0]))
    with pytest.raises(ValueError, match="iterative"):
        NKELMRegressor(20, solver="iterative", **given).fit(X, y)
    with pytest.raises(ValueError, match="quantile"):
        NKELMRegressor(20, loss="quantile", **given).fit(X, y)
    with pytest.raises(ValueError, match='got loss="log"'):
        NKELMClassifier(20, loss="log", **given).fit(X, y > 0)
    with pytest.raises(ValueError, match="several outputs"):
        AdaptiveRegressor(effort="fast", monotonic_cst=[1, 0], random_state=0).fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="a stream does not support monotonic_cst"):
        ulmus.streaming.fit(AdaptiveRegressor(monotonic_cst=[1, 0]), [(X, y)])
    with pytest.raises(ValueError, match="monotonic_cst"):
        NKELMRegressor(20, monotonic_cst=[2, 0]).fit(X, y)
    model = NKELMRegressor(20, **given).fit(X, y)
    with pytest.raises(ValueError, match="monotonic_cst"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="monotonic_cst"):
        model.influences(X[:1], X, y)
    with pytest.raises(ValueError, match="jackknife"):
        model.predict_interval(X, method="jackknife+")


def test_a_copy_climbs_no_more_often_than_a_weight():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(53, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=53)
    copies = rng.randint(1, 4, 53)
    given = {"n_landmarks": 12, "gamma": 0.02, "C": 1e6, "monotonic_cst": [1, 0], "random_state": 0}
    weighed = NKELMRegressor(**given).fit(X, y, sample_weight=copies.astype(float))
    copied = NKELMRegressor(**given).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    np.testing.assert_allclose(copied.predict(X), weighed.predict(X), rtol=0, atol=1e-6)


def test_units_of_columns_do_not_say_which_rows_climb():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(82, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=82)
    given = {"activation": "sine", "direct_links": True, "C": 10.0, "monotonic_cst": [1, 0], "random_state": 0}
    here, there = (ELMRegressor(40, **given).fit(X * unit, y).predict(X * unit) for unit in (1.0, [2.0**9, 2.0**-7]))
    np.testing.assert_allclose(there, here, rtol=0, atol=1e-6)


def test_a_margin_that_costs_more_than_level_weights_is_not_asked_for():
    """Two steps that all but contradict each other: a margin on both needs weights of 10,000."""
    G, free = np.array([[1.0, 1e-4], [-1.0, 1e-4]]), np.array([2.0, -1.0])
    asked, _ = least_distance(free, np.eye(2), G, np.ones(2))
    np.testing.assert_allclose(asked, [0.0, 1e4], rtol=1e-6, atol=1e-6)
    found, _ = least_distance(free, np.eye(2), G, np.ones(2), farthest=np.linalg.norm(free))
    np.testing.assert_allclose(found, [0.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("slope", cases([8.0, "auto"]))
def test_waves_that_cannot_rise_everywhere_are_level_in_any_units(slope):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(33, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=33)
    given = {"activation": "sine", "slope": slope, "C": 1e3, "monotonic_cst": [1, 0, 0], "random_state": 0}
    here, there = (ELMRegressor(64, fit_intercept=True, **given).fit(X, unit * y) for unit in (1.0, 1e-5 / 3))
    assert np.ptp(here.predict(X)) <= np.ptp(y)
    assert here.monotone_violation_ == 0.0
    np.testing.assert_allclose(there.predict(X) * 3e5, here.predict(X), rtol=0, atol=1e-6)


@pytest.mark.parametrize("seed", cases([1, 2, 5, 6]))
def test_answers_that_are_straight_between_kinks_are_the_same_in_any_units(seed):
    rng = np.random.RandomState(seed)
    X = rng.uniform(-1, 1, (40, 2))
    y = X[:, 0] ** 2 + np.sin(3 * X[:, 1]) + 0.3 * rng.normal(size=40)
    given = {"activation": "relu", "C": 1e3, "monotonic_cst": [1, 0], "fit_intercept": True, "random_state": seed}
    here, there = (ELMRegressor(40, **given).fit(X, b + unit * y) for b, unit in ((0.0, 1.0), (5000.0, 117.3)))
    np.testing.assert_allclose((there.predict(X) - 5000.0) / 117.3, here.predict(X), rtol=0, atol=1e-9)


def test_of_parallel_steps_one_binds():
    rng = np.random.RandomState(0)
    beta, root = rng.normal(size=5), np.linalg.qr(rng.normal(size=(5, 5)))[0]
    G = -beta + 0.3 * rng.normal(size=(3, 5))
    single, _ = least_distance(beta, root, G, np.zeros(3))
    found, binding = least_distance(beta, root, np.vstack([G, 3.0 * G, G / 7.0]), np.zeros(9))
    np.testing.assert_allclose(found, single, atol=1e-12)
    assert (np.bincount(np.flatnonzero(binding) % 3, minlength=3) <= 1).all()
    assert binding.any()

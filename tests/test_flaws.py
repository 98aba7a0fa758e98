"""Flaws found in other libraries of this kind, by number; none of them may be ours.

Number 4 (slow recursive updates) belongs to the online models.
"""

import ast
import os
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from sklearn.base import clone

import reference
import ulmus
from data import classification, regression, relative_error, rows
from fixed import ELMClassifier, ELMRegressor, KELMClassifier, KELMRegressor, NKELMClassifier, NKELMRegressor
from ulmus import NystromMap, RandomLayer
from ulmus.features.random_layer import WEIGHTS

ROOT = Path(__file__).parent.parent


# ------------------------------------------------------------------------------- 1: the squared condition number


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "sine", "gaussian"])
@pytest.mark.parametrize("seed", [0, 1])
def test_flaw_1_smooth_regression_is_as_exact_as_least_squares(activation, seed):
    x = np.linspace(-1, 1, 1000)[:, None]
    T = np.sin(4 * x[:, 0]) + 0.5 * np.cos(9 * x[:, 0])
    fresh = np.linspace(-0.999, 0.999, 777)[:, None]
    truth = np.sin(4 * fresh[:, 0]) + 0.5 * np.cos(9 * fresh[:, 0])
    model = ELMRegressor(200, activation=activation, C=None, random_state=seed).fit(x, T)
    H, H_fresh = model.map_.transform(x), model.map_.transform(fresh)
    ours = np.sqrt(np.mean((model.predict(fresh) - truth) ** 2))
    theirs = np.sqrt(np.mean((H_fresh @ np.linalg.lstsq(H, T, rcond=None)[0] - truth) ** 2))
    assert ours <= 2 * theirs
    squared = H_fresh @ np.linalg.lstsq(H.T @ H, H.T @ T, rcond=None)[0]
    assert np.sqrt(np.mean((squared - truth) ** 2)) > 10 * ours  # the flaw is there to be avoided


# --------------------------------------------------------------------------- 2: wrong formulas, C, and hidden n × n


def test_flaw_2_kelm_applies_the_inverse_once():
    X, T = regression(50)
    K = reference.kernel_matrix("rbf", X, X, 0.5)
    model = KELMRegressor(gamma=0.5, C=3.0).fit(X, T)
    assert relative_error(model.predict(X), K @ np.linalg.solve(K + np.eye(50) / 3.0, T)) < 1e-12


@pytest.mark.parametrize(
    "model",
    [
        ELMRegressor(30, random_state=0),
        ELMRegressor(100, random_state=0),  # more nodes than rows
        KELMRegressor(gamma=0.5),
        NKELMRegressor(20, gamma=0.5, random_state=0),
        NKELMRegressor(20, gamma=0.5, rank=10, random_state=0),
    ],
    ids=["elm", "elm-dual", "kelm", "nkelm", "nkelm-rank"],
)
def test_flaw_2_C_shrinks_the_fit_on_every_path(model):
    X, T = regression(50)
    sizes = [np.linalg.norm(clone(model).set_params(C=C).fit(X, T).predict(X)) for C in (1e-6, 1e-3, 1e-1, 1e1, 1e3)]
    assert (np.diff(sizes) > 0).all()
    assert sizes[0] < 1e-3 * np.linalg.norm(T)


def test_flaw_2_the_ridge_is_on_the_square_matrix():
    X, T = regression(50)
    model = ELMRegressor(20, C=0.5, random_state=0).fit(X, T)
    H = model.map_.transform(X)
    assert relative_error(model.beta_[:, 0], np.linalg.solve(H.T @ H + 2 * np.eye(20), H.T @ T)) < 1e-11


def test_flaw_2_nystrom_evaluates_no_square_of_the_rows():
    pairs = []

    def kernel(A, B):
        pairs.append(len(A) * len(B))
        return np.exp(-0.5 * ((A[:, None] - B) ** 2).sum(axis=2))

    X, T = regression(3000)
    NKELMRegressor(10, kernel=kernel, C=8.0, random_state=0, n_jobs=1).fit(X, T).predict(X)
    # K_zz with its diagonal, K_xz to fit and K_xz to predict: at most three passes of n × L
    assert sum(pairs) <= 4 * 3000 * 10 + 200


# --------------------------------------------------------------------------------------- 3: options silently ignored


KERNEL_OPTIONS = [
    ("rbf", {"gamma": 0.9}),
    ("laplacian", {"gamma": 0.9}),
    ("laplacian_l1", {"gamma": 0.9}),
    ("matern32", {"gamma": 0.9}),
    ("arcsine", {"gamma": 0.9}),
    ("poly", {"gamma": 0.9}),
    ("poly", {"degree": 2}),
    ("poly", {"coef0": 2.0}),
    ("sigmoid", {"gamma": 0.9}),
    ("sigmoid", {"coef0": 0.2}),
]


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
@pytest.mark.parametrize(("kernel", "change"), KERNEL_OPTIONS)
@pytest.mark.parametrize("family", [KELMRegressor, NKELMRegressor, NystromMap])
def test_flaw_3_every_kernel_option_is_heard(family, kernel, change):
    X, T = regression(40)
    base = {"kernel": kernel, "gamma": 0.3, "degree": 3, "coef0": 1.0, "random_state": 0}
    if family is not NystromMap:
        base["C"] = 4.0
    one, two = family(**base).fit(X, T), family(**{**base, **change}).fit(X, T)
    a, b = (m.transform(X) if family is NystromMap else m.predict(X) for m in (one, two))
    assert a.shape != b.shape or relative_error(a, b) > 1e-4


LAYER_OPTIONS = [
    {"activation": "tanh"},
    {"weights": "normal"},
    {"scale": 0.3},
    {"slope": 2.0},
    {"direct_links": True},
    {"random_state": 1},
    {"C": 4.0},
    {"fit_intercept": True},
]


@pytest.mark.parametrize("change", LAYER_OPTIONS, ids=str)
@pytest.mark.parametrize("n_hidden", [20, 60])
def test_flaw_3_every_layer_option_is_heard_on_both_sides_of_the_dual(n_hidden, change):
    X, T = regression(40)
    base = {"n_hidden": n_hidden, "C": 1.0, "random_state": 0}
    a, b = (ELMRegressor(**options).fit(X, T + 3).predict(X) for options in (base, {**base, **change}))
    assert relative_error(a, b) > 1e-4


@pytest.mark.parametrize("model", [ELMRegressor(60, C=1.0, random_state=0), KELMRegressor(gamma=0.5, C=1.0)])
def test_flaw_3_sample_weights_are_heard_in_the_dual(model):
    X, T = regression(40)
    w = np.linspace(0.1, 3, 40)
    assert relative_error(clone(model).fit(X, T, w).predict(X), clone(model).fit(X, T).predict(X)) > 1e-3


# ------------------------------------------------------------------------------------------- 5: weights and biases


@pytest.mark.parametrize("weights", sorted(WEIGHTS))
def test_flaw_5_the_bias_does_not_repeat_the_weights(weights):
    layer = RandomLayer(50, weights=weights, scale=1.0, random_state=7).fit(rows(20, 50))
    assert not np.isin(layer.biases_, layer.weights_).any()


def test_flaw_5_a_hidden_bias_makes_a_parabola_learnable():
    x = np.linspace(-1, 1, 200)[:, None]
    model = ELMRegressor(50, activation="tanh", C=1024.0, random_state=0).fit(x, x[:, 0] ** 2)
    assert model.score(x, x[:, 0] ** 2) > 0.999


def test_flaw_5_more_nodes_fit_better_not_flatter():
    X, T = regression(400, noise=0.0)
    scores = [ELMRegressor(L, C=2.0**20, random_state=0).fit(X, T).score(X, T) for L in (10, 50, 200)]
    assert (np.diff(scores) > 0).all()
    assert scores[-1] > 0.99


@pytest.mark.parametrize("random_state", [None, 0, np.random.RandomState(3)])
def test_flaw_5_nothing_is_drawn_at_prediction(random_state):
    X, T = regression(60)
    for model in (
        ELMRegressor(20, C=8.0, random_state=random_state),
        NKELMRegressor(20, gamma=0.5, C=8.0, random_state=random_state),
    ):
        model.fit(X, T)
        first = model.predict(X)
        np.random.seed(99)
        state = np.random.get_state()[1].copy()
        assert np.array_equal(model.predict(X), first)
        assert np.array_equal(np.random.get_state()[1], state)


def test_flaw_5_the_same_seed_gives_the_same_model():
    X, T = regression(60)
    for model in (ELMRegressor(20, C=8.0, random_state=5), NKELMRegressor(20, gamma=0.5, C=8.0, random_state=5)):
        assert np.array_equal(clone(model).fit(X, T).predict(X), clone(model).fit(X, T).predict(X))


# ------------------------------------------------------------------------------------- 6: defaults, and their scale


def test_flaw_6_the_default_activation_is_not_linear():
    assert RandomLayer().activation != "identity"
    assert ulmus.ELMRegressor().activation != "identity"
    assert ulmus.ELMClassifier().activation != "identity"


@pytest.mark.parametrize("units", [1e-6, 1.0, 1e6])
def test_flaw_6_hidden_nodes_neither_saturate_nor_go_linear_whatever_the_units(units):
    X = units * (5.0 + rows(500, 8))
    H = RandomLayer(300, activation="tanh", random_state=0).fit_transform(X)
    assert np.mean(np.abs(H) > 0.99) < 0.05
    assert np.mean(np.abs(H) < 0.05) < 0.1


# ---------------------------------------------------------------------------------------- 7: labels and their scores


@pytest.mark.parametrize(
    "model",
    [
        ELMClassifier(30, C=8.0, random_state=0),
        KELMClassifier(gamma=0.5, C=8.0),
        NKELMClassifier(20, gamma=0.5, C=8.0, random_state=0),
    ],
)
def test_flaw_7_predict_returns_labels_and_agrees_with_the_scores(model):
    X, y = classification(90)
    labels = np.array(["ash", "elm", "oak"])[y]
    model.fit(X, labels)
    assert set(model.predict(X)) <= {"ash", "elm", "oak"}
    assert np.array_equal(model.predict(X), model.classes_[model.decision_function(X).argmax(axis=1)])
    # a row's score is its own business: it does not depend on the rows beside it
    assert np.allclose(model.decision_function(X[:1]), model.decision_function(X)[:1], rtol=1e-10)


# ------------------------------------------------------------------------------------------------ 8: shared state


MODELS = [
    ELMRegressor(20, C=8.0, random_state=0),
    KELMRegressor(gamma=0.5, C=8.0, random_state=0),
    NKELMRegressor(20, gamma=0.5, C=8.0, random_state=0),
]


@pytest.mark.parametrize("model", MODELS)
def test_flaw_8_fit_forgets_the_fit_before(model):
    X, T = regression(60)
    other_X, other_T = regression(80, m=5, outputs=2, seed=3)
    fresh = clone(model).fit(X, T)
    used = clone(model).fit(other_X, other_T).fit(X, T)
    assert np.array_equal(used.predict(X), fresh.predict(X))
    assert vars(used).keys() == vars(fresh).keys()


@pytest.mark.parametrize("model", MODELS)
def test_flaw_8_instances_share_nothing(model):
    X, T = regression(60)
    first = clone(model).fit(X, T)
    before = first.predict(X)
    clone(model).set_params(C=0.01).fit(-X, 5 - T)
    assert np.array_equal(first.predict(X), before)


@pytest.mark.parametrize("model", MODELS)
def test_flaw_8_the_data_are_left_alone_and_let_go(model):
    X, T = regression(60)
    X_before, T_before, w = X.copy(), T.copy(), np.linspace(0.5, 2, 60)
    fitted = clone(model).fit(X, T, sample_weight=w)
    assert np.array_equal(X, X_before)
    assert np.array_equal(T, T_before)
    assert np.array_equal(w, np.linspace(0.5, 2, 60))
    expected = fitted.predict(X_before)
    X[:] = 0.0
    T[:] = 0.0
    assert np.array_equal(fitted.predict(X_before), expected)


# ------------------------------------------------------------------------------------------- 9: effects of an import


def run(code):
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()


def test_flaw_9_importing_changes_no_filter_seed_or_thread_count():
    code = """
import random, warnings, os
import numpy, scipy.linalg, sklearn, threadpoolctl
random.seed(1); numpy.random.seed(1)
def world():
    state = numpy.random.get_state()
    return (
        list(warnings.filters), random.getstate(), state[1].tolist(), state[2],
        [pool["num_threads"] for pool in threadpoolctl.threadpool_info()],
        dict(os.environ), numpy.geterr(),
    )
before = world()
import ulmus
print(before == world())
"""
    assert run(code) == "True"


@pytest.mark.usefixtures("two_blas_threads")
def test_flaw_9_fitting_changes_no_filter_seed_or_thread_count():
    from threadpoolctl import threadpool_info

    def world():
        state = np.random.get_state()
        threads = [pool["num_threads"] for pool in threadpool_info()]
        return list(warnings.filters), state[1].tolist(), state[2], threads, np.geterr()

    X, T = regression(1500)
    before = world()
    for model in (ELMRegressor(20, C=8.0, random_state=0), NKELMRegressor(20, gamma=0.5, C=8.0, random_state=0)):
        model.fit(X, T).predict(X)
    assert world() == before


# ----------------------------------------------------------------------------------------------- 10: dependencies


def test_flaw_10_only_declared_packages_are_imported():
    with (ROOT / "pyproject.toml").open("rb") as file:
        declared = [Requirement(r) for r in tomllib.load(file)["project"]["dependencies"]]
    names = {r.name.replace("scikit-learn", "sklearn") for r in declared}
    assert names == {"numpy", "scipy", "sklearn", "joblib", "threadpoolctl", "narwhals"}
    code = """
import sys
import ulmus
print("\\n".join(m.__file__ for name, m in sys.modules.items() if name.partition(".")[0] == "ulmus"))
"""
    imported = set()
    for file in run(code).splitlines():
        for node in ast.parse(Path(file).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module.partition(".")[0])
    assert imported - sys.stdlib_module_names <= {"ulmus", *names}


def test_flaw_10_no_dependency_is_pinned_from_above():
    with (ROOT / "pyproject.toml").open("rb") as file:
        declared = [Requirement(r) for r in tomllib.load(file)["project"]["dependencies"]]
    assert all(s.operator == ">=" for r in declared for s in r.specifier)

"""ELM, KELM and NKELM classifiers by the log loss: against other libraries, brute force, repetition, and ugly rows."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import StandardScaler

import ulmus
from data import cases
from test_onnx import assert_equal_outputs
from test_softmax import UGLY, codes, dense_newton, ugly
from ulmus import ELMClassifier, KELMClassifier, NKELMClassifier, NumericalWarning, OSELMClassifier
from ulmus.models.summary import chosen as summary
from ulmus.solvers.log_loss import losses, targets

MODELS = {
    "elm": lambda **more: ELMClassifier(25, slope=1.0, random_state=0, **{"loss": "log", "C": 10.0, **more}),
    "nkelm": lambda **more: NKELMClassifier(25, gamma=0.5, random_state=0, **{"loss": "log", "C": 10.0, **more}),
    "kelm": lambda **more: KELMClassifier(gamma=0.5, random_state=0, **{"loss": "log", "C": 10.0, **more}),
}
EVERY = pytest.mark.parametrize("name", MODELS)
MAPS = pytest.mark.parametrize("name", ["elm", "nkelm"])


def spots(n, k, seed=0):
    """Classes that overlap."""
    rng = np.random.RandomState(seed)
    y = np.arange(n) % k
    centres = np.random.RandomState(99).uniform(-2, 2, (k, 3))
    return centres[y] + rng.normal(size=(n, 3)), y


def scores(model, X):
    """Up to what all classes share."""
    F = model.decision_function(X)
    return F if F.ndim == 1 else F - F.mean(axis=1, keepdims=True)


# The same weights as others find


@MAPS
@pytest.mark.parametrize(
    ("n", "k"), [(15, 2), (20, 3), (300, 2), (400, 4), pytest.param(2600, 26, marks=pytest.mark.slow)]
)
def test_scores_are_those_of_scikit_learn_on_the_same_features(name, n, k):
    X, y = spots(n, k)
    w = np.random.RandomState(1).uniform(0.2, 3.0, n)
    model = MODELS[name]().fit(X, y, w)
    other = LogisticRegression(C=10.0, tol=1e-10, max_iter=10_000, solver="newton-cg")
    other.fit(model.map_.transform(X), y, w)
    Q = spots(100, k, 1)[0]
    expected = other.decision_function(model.map_.transform(Q))
    expected = expected if k == 2 else expected - expected.mean(axis=1, keepdims=True)
    assert_allclose(scores(model, Q), expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_an_exact_kernel_is_dense_newton_steps_on_all_features(k, intercept):
    X, y = spots(40, k)
    w = np.random.RandomState(1).uniform(0.2, 3.0, 40)
    model = MODELS["kelm"](fit_intercept=intercept).fit(X, y, w)
    full = ulmus.NystromMap(40, gamma=0.5, random_state=0).fit(X)
    F = dense_newton(full.transform(X), targets(codes(y, k)), 10.0, w, intercept=intercept)
    F = F[:, 0] if k == 2 else F - F.mean(axis=1, keepdims=True)
    assert_allclose(scores(model, X), F, atol=1e-7)
    by_landmarks = NKELMClassifier(40, gamma=0.5, C=10.0, loss="log", fit_intercept=intercept, random_state=0)
    assert_allclose(scores(by_landmarks.fit(X, y, w), X), F, atol=1e-7)


@EVERY
def test_separable_classes_converge_to_the_minimum(name):
    X, y = spots(60, 2)
    X[y == 1] += 10.0
    model = MODELS[name](C=1e4).fit(X, y)
    assert (model.predict(X) == y).all()
    if name != "kelm":
        Phi = model.map_.transform(X)
        p = expit(model.decision_function(X))
        g = Phi.T @ (p - y) + model.beta_[:, 0] / 1e4
        assert np.abs(g).max() < 1e-7 * np.abs(Phi.T @ (0.5 - y)).max()


def test_very_many_rows_give_the_same_weights_as_a_factored_hessian():
    X, y = spots(6000, 3)
    model = NKELMClassifier(20, gamma=0.3, C=5.0, loss="log", random_state=0).fit(X, y)
    other = LogisticRegression(C=5.0, tol=1e-10, max_iter=10_000, solver="newton-cg").fit(model.map_.transform(X), y)
    expected = other.decision_function(model.map_.transform(X))
    assert_allclose(scores(model, X), expected - expected.mean(axis=1, keepdims=True), atol=1e-6)


# Ways in


@EVERY
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("C", [10.0, "auto"])
def test_weights_are_repetitions(name, k, C):
    X, y = spots(90, k)
    w = np.random.RandomState(2).randint(1, 4, 90)
    weighted = MODELS[name](C=C).fit(X, y, w)
    repeated = MODELS[name](C=C).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert weighted.C_ == repeated.C_
    assert_allclose(scores(weighted, X), scores(repeated, X), atol=1e-5)
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-5)


@EVERY
def test_class_weights_are_weights_of_rows(name):
    X, y = spots(120, 3)
    by_class = MODELS[name](class_weight={0: 1.0, 1: 3.0, 2: 0.5}).fit(X, y)
    by_row = MODELS[name]().fit(X, y, np.array([1.0, 3.0, 0.5])[y])
    assert_allclose(scores(by_class, X), scores(by_row, X), atol=1e-6)
    assert_allclose(by_class.class_prior_, by_row.class_prior_)


@EVERY
def test_sparse_and_narrow_rows_give_the_same_model(name):
    X, y = spots(150, 3)
    X[np.abs(X) < 0.5] = 0.0
    X = np.round(X, 1)
    more = {"landmarks": X[:25]} if name == "nkelm" else {}
    model = MODELS[name](**more).fit(X, y)
    assert_allclose(scores(MODELS[name](**more).fit(sparse.csr_array(X), y), X), scores(model, X), atol=1e-6)
    narrow = MODELS[name](**more).fit(X.astype(np.float32), y)
    assert_allclose(scores(narrow, X.astype(np.float32)), scores(model, X), atol=2e-3)


@EVERY
def test_fits_are_the_same_for_any_number_of_threads(name):
    X, y = spots(300, 3)
    one, two = (MODELS[name](C="auto", n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    assert_array_equal(one.decision_function(X), two.decision_function(X))


# What is chosen


@pytest.mark.parametrize("name", cases(MODELS, "nkelm"))
@pytest.mark.parametrize("k", cases([2, 3], 3))
def test_what_is_left_to_the_data_does_as_well_as_the_best_C_of_a_grid(name, k):
    X, y = spots(300, k)
    Q, z = spots(2000, k, 1)
    found = log_loss(z, MODELS[name](C="auto").fit(X, y).predict_proba(Q))
    grid = [log_loss(z, MODELS[name](C=C).fit(X, y).predict_proba(Q)) for C in 4.0 ** np.arange(-4, 6)]
    assert found < 1.03 * min(grid)


@pytest.mark.parametrize("Model", cases([ELMClassifier, KELMClassifier, NKELMClassifier], NKELMClassifier))
def test_without_arguments_a_log_model_has_good_probabilities(Model):
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = Model(loss="log", random_state=0).fit(X[::2], y[::2])
    assert log_loss(y[1::2], model.predict_proba(X[1::2])) < 0.16
    assert model.tuning_.C == model.C_
    assert model.tuning_.trials[-1].stage == "log C"
    told = {decision.name: decision for decision in model.summary().chosen}
    assert told["C"].chosen == f"{model.C_:.4g}"
    assert told["loss"].chosen == "log"


@pytest.mark.parametrize("criterion", ["log_loss", "error", "auc", "balanced"])
@EVERY
def test_every_criterion_of_a_log_model_gives_one(name, criterion):
    X, y = spots(150, 3)
    assert MODELS[name](C="auto", criterion=criterion).fit(X, y).score(X, y) > 0.5


@EVERY
def test_criteria_of_the_other_loss_are_refused(name):
    X, y = spots(60, 2)
    with pytest.raises(ValueError, match="for loss='log', got 'squared'"):
        MODELS[name](criterion="squared").fit(X, y)
    with pytest.raises(ValueError, match="for loss='squared', got 'auc'"):
        MODELS[name](criterion="auc", loss="squared").fit(X, y)


# Rows left out, and probabilities


@pytest.mark.parametrize("load", cases([load_iris, load_wine]))
@pytest.mark.parametrize("name", cases(MODELS, "kelm"))
def test_the_loss_of_left_out_rows_is_near_that_of_really_leaving_out(name, load):
    """Within 2 % of the mean loss, as an identity of the second order is."""
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)[::2]
    y = y[::2]
    C = {"elm": 0.1, "nkelm": 1.0, "kelm": 1.0}[name]
    gamma = {} if name == "elm" else {"gamma": 0.05}
    more = {"landmarks": X[:25], "n_landmarks": 25} if name == "nkelm" else {}
    more |= {"scale": 1.0, "slope": 0.3} if name == "elm" else {}
    make = lambda: MODELS[name](C=C).set_params(**gamma, **more)  # noqa: E731
    left = make().fit(X, y).left_out_
    T = codes(y, 3)
    order = np.arange(len(y))
    exact = np.array([make().fit(X[order != i], y[order != i]).decision_function(X[[i]])[0] for i in order])
    assert losses(targets(T), left.scores).mean() == pytest.approx(losses(targets(T), exact).mean(), rel=0.02)


@EVERY
@pytest.mark.parametrize("C", [10.0, "auto"])
def test_folds_are_really_left_out(name, C):
    X, y = spots(120, 3)
    groups = np.arange(120) // 10
    more = {"scale": 1.0} if name == "elm" else {}
    more = {"landmarks": X[:25]} if name == "nkelm" else more
    model = MODELS[name](C=C, cv=GroupKFold(4)).set_params(**more).fit(X, y, groups=groups)
    left = model.left_out_
    assert len(left.true) == 120
    for train, test in GroupKFold(4).split(X, y, groups):
        without = MODELS[name](C=model.C_).set_params(**more).fit(X[train], y[train])
        for F in without.decision_function(X[test]):
            assert np.abs(left.scores - F - (left.scores - F).mean(axis=1, keepdims=True)).max(axis=1).min() < 1e-3


@EVERY
@pytest.mark.parametrize("k", [2, 4])
def test_probabilities_are_the_models_own_over_a_floor(name, k):
    X, y = spots(400, k)
    model = MODELS[name](C=1.0).fit(X, y)
    Q = spots(50, k, 1)[0]
    F = model.decision_function(Q)
    own = np.column_stack([expit(-F), expit(F)]) if k == 2 else softmax(F, axis=1)
    share = model.floor_.sum()
    assert share < 0.1
    assert_allclose(model.predict_proba(Q), (1 - share) * own + model.floor_, atol=1e-12)
    assert_array_equal(model.predict(Q), model.classes_[model.predict_proba(Q).argmax(axis=1)])


def random_labels(n=200):
    rng = np.random.RandomState(0)
    return rng.normal(size=(n, 3)), (rng.uniform(size=n) < 0.2).astype(int)


@EVERY
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e6])
@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
def test_probabilities_are_never_worse_than_the_frequencies_on_the_rows_that_score(name, C):
    X, y = random_labels()
    model = MODELS[name](C=C).fit(X, y)
    left, frequency = model.left_out_, model.floor_ / model.floor_.sum()
    P = model.fitted_.certainty.probabilities(np.column_stack([-left.scores, left.scores]))
    assert log_loss(left.true, P) <= -np.log(frequency[left.true]).mean() + 1e-12


def test_scores_that_say_nothing_are_warned_of():
    X, y = random_labels()
    with pytest.warns(NumericalWarning, match="no more informative than the class frequencies"):
        model = MODELS["elm"](C=1e6).fit(X, y)
    assert_allclose(model.predict_proba(X[:5])[:, 1], y.mean(), atol=0.01)


# Ugly rows


@pytest.mark.parametrize("case", cases(UGLY, *(case for case in UGLY if case not in ("1 in 10,000", "100 classes"))))
@EVERY
def test_ugly_rows_give_probabilities(name, case):
    X, y, k = ugly(case)
    if case == "1 in 10,000":
        X, y = X[:2000], y[:2000]
    if "150" in case and name != "elm":
        X = X / np.abs(X).max(axis=0)  # kernels compare columns with each other; scales are another test's subject
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MODELS[name](C=100.0).fit(X, y)
    P = model.predict_proba(X)
    assert P.shape == (len(X), k)
    assert np.isfinite(P).all()
    assert_allclose(P.sum(axis=1), 1.0)
    share = np.bincount(y, minlength=k) / len(y)
    assert log_loss(y, P, labels=np.arange(k)) <= -(share[share > 0] @ np.log(share[share > 0])) + 0.01


# Ways out


@EVERY
@pytest.mark.parametrize("decision", ["accuracy", "balanced", [[0, 1, 4], [1, 0, 1], [9, 1, 0]]])
def test_files_and_graphs_say_what_the_model_says(name, decision, tmp_path):
    X, y = spots(300, 3)
    model = MODELS[name](decision=decision).fit(X, y)
    Q = spots(200, 3, 1)[0]
    ulmus.save(model, tmp_path / "model.ulmus")
    for again in (ulmus.load(tmp_path / "model.ulmus"), pickle.loads(pickle.dumps(model))):
        assert_array_equal(again.predict_proba(Q), model.predict_proba(Q))
        assert_array_equal(again.predict(Q), model.predict(Q))
        assert again.loss_ == "log"
    assert_equal_outputs(model, Q, "float64", 1e-8)
    assert summary(model)["loss"] == "log"


@MAPS
def test_what_needs_sums_is_refused_with_words(name):
    X, y = spots(60, 3)
    model = MODELS[name]().fit(X, y)
    before = model.decision_function(X)
    for what in ("partial_fit", "unlearn"):
        with pytest.raises(ValueError, match=f'{what} needs loss="squared"'):
            getattr(model, what)(X, y)
    with pytest.raises(ValueError, match='merge needs loss="squared"'):
        model.merge(model)
    assert_array_equal(model.decision_function(X), before)


def test_other_refusals_say_what_to_do():
    X, y = spots(60, 3)
    with pytest.raises(ValueError, match='loss="log" needs a penalty'):
        ELMClassifier(10, C=None, loss="log").fit(X, y)
    with pytest.raises(ValueError, match='solver="iterative" is a route of loss="squared"'):
        MODELS["nkelm"](solver="iterative").fit(X, y)
    with pytest.raises(ValueError, match=r'error_bound .* needs loss="squared"'):
        MODELS["nkelm"]().fit(X, y).error_bound(X)


def test_classes_beyond_memory_are_refused_before_anything_is_fitted(monkeypatch):
    monkeypatch.setattr("ulmus.engine.physical_memory", lambda: 10**8)
    X = np.random.RandomState(0).normal(size=(5000, 2))
    with pytest.raises(MemoryError, match=r'2500 classes and 5000 rows needs about .* GiB .* use loss="squared"'):
        MODELS["nkelm"]().fit(X, np.arange(5000) % 2500)


@pytest.mark.parametrize(
    "model",
    [
        ELMClassifier(25, slope=1.0, C=10.0, random_state=0),
        KELMClassifier(gamma=0.5, C=10.0),
        NKELMClassifier(25, gamma=0.5, C=10.0, random_state=0),
        OSELMClassifier(25, slope=1.0, C=10.0, random_state=0),
    ],
    ids=["elm", "kelm", "nkelm", "oselm"],
)
def test_every_classifier_decides_by_frequencies_or_costs(model):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(600, 2))
    y = (rng.uniform(size=600) < 0.05 + 0.3 * (X[:, 0] > 1)).astype(int)
    plain = model.fit(X, y).predict(X)
    P, share = model.predict_proba(X), np.bincount(y) / 600
    assert_allclose(model.class_prior_, share)
    balanced = model.set_params(decision="balanced").predict(X)
    assert_array_equal(balanced, (P / share).argmax(axis=1))
    assert balanced.sum() > plain.sum()
    cost = np.array([[0.0, 1.0], [20.0, 0.0]])
    assert_array_equal(model.set_params(decision=cost).predict(X), (P @ cost).argmin(axis=1))
    with pytest.raises(ValueError, match="a cost matrix has one finite"):
        model.set_params(decision=np.eye(3)).fit(X, y)

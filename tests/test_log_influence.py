"""Rows that leave log models by a Newton step, and ordinal ones in closed form, beside real refits."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax

from data import cases
from ulmus import (
    AdaptiveClassifier,
    AdaptiveOrdinalClassifier,
    ELMClassifier,
    ELMOrdinalClassifier,
    KELMClassifier,
    KELMOrdinalClassifier,
    NKELMClassifier,
    NKELMOrdinalClassifier,
)
from ulmus.engine import Rows
from ulmus.explain.log_rows import penalty_of
from ulmus.features.kernels import KernelParameters, gram_matrix
from ulmus.features.partition import random_partition
from ulmus.models._effort import EFFORTS
from ulmus.models._without_rows import without_rows
from ulmus.solvers.local import LeafProblem, fit_leaves
from ulmus.solvers.own_landmarks import landmarks_among

RNG = np.random.RandomState(0)
X = RNG.normal(size=(80, 3))
LATENT = np.sin(2 * X[:, 0]) + X[:, 1] + 0.4 * RNG.normal(size=80)
CLASSES = np.digitize(LATENT, [-0.7, 0.7])
TWO = CLASSES > 0
NEW = RNG.normal(size=(6, 3))
LANDMARKS = X[::3] + 0.01
WEIGHT = RNG.choice([0.5, 1.0, 2.0], size=80)
KERNEL = {"gamma": 0.4, "C": 2.0}
NODES = {"C": 2.0, "scale": 1.0, "slope": 1.0, "random_state": 0}


def scores(model, rows):
    """Log-odds, or bits, as the model has them."""
    found = model.explain(rows, rows[:1])
    return found.values.sum(axis=1) + found.base_values


def effects_of_refits(make, y, weight):
    model = make().fit(X, y, sample_weight=weight)
    out = []
    for i in range(0, 80, 8):
        without = np.ones(80) if weight is None else weight.copy()
        without[i] = 0.0
        out.append(scores(model, NEW) - scores(make().fit(X, y, sample_weight=without), NEW))
    return model, np.stack(out, axis=1)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: NKELMClassifier(20, landmarks=LANDMARKS, loss="log", **KERNEL),
        lambda: KELMClassifier(loss="log", **KERNEL),
        lambda: ELMClassifier(15, loss="log", **NODES),
    ],
    ids=["nkelm", "kelm", "elm"],
)
def test_a_newton_step_of_two_classes_is_near_the_refit(make, weight):
    model, real = effects_of_refits(make, TWO, weight)
    step = model.influences(NEW, X, TWO, weight)[:, ::8]
    assert np.abs(step - real).max() < 0.1 * np.abs(real).max()
    assert np.corrcoef(step.ravel(), real.ravel())[0, 1] > 0.99


def test_a_newton_step_of_several_classes_points_where_the_refit_goes():
    model, real = effects_of_refits(
        lambda: NKELMClassifier(20, landmarks=LANDMARKS, loss="log", **KERNEL), CLASSES, None
    )
    step = model.influences(NEW, X, CLASSES)[:, ::8]
    assert step.shape == real.shape == (6, 10, 3)
    centred = [a - a.mean(axis=2, keepdims=True) for a in (step, real)]  # softmax knows differences of scores alone
    assert np.corrcoef(centred[0].ravel(), centred[1].ravel())[0, 1] > 0.95


@pytest.mark.parametrize(
    "make",
    [
        lambda: NKELMOrdinalClassifier(20, landmarks=LANDMARKS, **KERNEL),
        lambda: KELMOrdinalClassifier(**KERNEL),
        lambda: ELMOrdinalClassifier(15, **NODES),
    ],
    ids=["nkelm", "kelm", "elm"],
)
def test_rows_leave_ordinal_models_exactly(make):
    model, real = effects_of_refits(make, CLASSES, None)
    np.testing.assert_allclose(model.influences(NEW, X, CLASSES)[:, ::8], real, atol=1e-8)


def test_bits_by_the_logistic_loss_leave_by_a_step():
    model, real = effects_of_refits(
        lambda: NKELMOrdinalClassifier(20, landmarks=LANDMARKS, loss="logistic", **KERNEL), CLASSES, None
    )
    step = model.influences(NEW, X, CLASSES)[:, ::8]
    assert np.abs(step - real).max() < 0.12 * np.abs(real).max()


def test_reasons_of_ordinal_models_are_those_of_classes_that_are_reached():
    model = NKELMOrdinalClassifier(20, random_state=0, **KERNEL).fit(X, CLASSES)
    told = model.explain(NEW, X[:20])
    assert told.values.shape == (6, 3, 2)
    assert list(told.output_names) == ["≥ 1", "≥ 2"]
    two = NKELMOrdinalClassifier(20, random_state=0, **KERNEL).fit(X, TWO.astype(int))
    told = two.explain(NEW, X[:20])
    np.testing.assert_allclose(told.values.sum(axis=1) + told.base_values, two.decision_function(NEW), atol=1e-9)


def test_reasons_of_log_models_are_log_odds():
    model = AdaptiveClassifier(effort="fast", random_state=0).fit(X, TWO)
    told = model.explain(NEW, X[:20])
    np.testing.assert_allclose(told.values.sum(axis=1) + told.base_values, model.decision_function(NEW), atol=1e-8)


def test_row_values_are_the_losses_of_rows_left_out():
    model = NKELMClassifier(20, landmarks=LANDMARKS, loss="log", **KERNEL).fit(X, TWO)
    values = model.row_values(X, TWO)
    own = np.full(80, np.nan)
    for i in range(0, 80, 4):
        others = np.arange(80) != i
        without = NKELMClassifier(20, landmarks=LANDMARKS, loss="log", **KERNEL).fit(X[others], TWO[others])
        p = model.fitted_.certainty.probabilities(np.column_stack([-(f := without.decision_function(X[[i]])), f]))
        own[i] = -np.log(p[0, int(TWO[i])])
    # the lowest values are those of rows that the others do not expect
    assert np.corrcoef(values[::4], -own[::4])[0, 1] > 0.9


@pytest.mark.parametrize(
    "make",
    [
        lambda: NKELMClassifier(60, loss="log", gamma=0.2, C=1.0, random_state=0),
        lambda: KELMOrdinalClassifier(random_state=0),
        lambda: AdaptiveOrdinalClassifier(effort="fast", random_state=0),
        lambda: AdaptiveClassifier(effort="fast", random_state=0),
    ],
    ids=["log", "ordinal", "adaptive ordinal", "adaptive log"],
)
def test_mislabelled_rows_have_the_lowest_values(make):
    rng = np.random.RandomState(1)
    rows = rng.normal(size=(200, 2))
    labels = (rows[:, 0] + rows[:, 1] > 0).astype(int)
    flipped = rng.choice(np.flatnonzero(np.abs(rows.sum(axis=1)) > 1.5), 10, replace=False)
    labels[flipped] = 1 - labels[flipped]
    worst = np.argsort(make().fit(rows, labels).row_values(rows, labels))[:10]
    assert len(np.intersect1d(worst, flipped)) >= 8


def test_rows_of_log_models_that_are_nearly_certain_are_known_again():
    rng = np.random.RandomState(3)
    rows = rng.uniform(0.1, 1, (600, 1))
    labels = np.digitize(rows[:, 0] * np.exp(0.1 * rng.normal(size=600)), [0.25, 0.5])
    model = AdaptiveClassifier(effort="fast", random_state=0).fit(rows, labels)  # scores may go far, shares may not
    assert model.local_ is None
    assert np.abs(model.influences(rows[:3], rows, labels)).max() > 0
    with pytest.raises(ValueError, match="not those that the model was fitted to"):
        model.influences(rows[:3], rows, np.roll(labels, 300))


def test_other_rows_are_refused():
    model = NKELMClassifier(20, landmarks=LANDMARKS, loss="log", **KERNEL).fit(X, TWO)
    with pytest.raises(ValueError, match="not those that the model was fitted to"):
        model.influences(NEW, X, ~TWO)
    with pytest.raises(ValueError, match=r"not those that .* fitted to 80 rows, and 79 were given"):
        model.influences(NEW, X[1:], TWO[1:])
    times = RNG.choice([1, 2], 80)
    many = NKELMClassifier(20, landmarks=LANDMARKS, loss="log", **KERNEL).fit(
        np.repeat(X, times, 0), np.repeat(TWO, times)
    )
    assert many.influences(NEW, X, TWO, times).shape == (6, 80)  # weights stand for copies


def rough(n=500):
    """Classes in stripes, which leaves know better than few landmarks."""
    rng = np.random.RandomState(2)
    rows = np.column_stack([rng.uniform(-3, 3, n), rng.normal(size=n)])
    return rows, np.floor(2.5 * rows[:, 0]) % 2 + 0.6 * rng.normal(size=n)


def leaf_solution(K, codes, offset, w, ridge):
    """Scores of ``Σ w log(1 + exp(-t f)) + λ/2 αᵀKα``, f = offset + Kα, by Newton's method; α."""
    alpha, truth = np.zeros(len(K)), 0.5 * (1 + codes)
    for _ in range(60):
        p = expit(offset + K @ alpha)
        d = w * p * (1 - p)
        step = np.linalg.solve(d[:, None] * K + ridge * np.eye(len(K)), w * (truth - p) - ridge * alpha)
        alpha = alpha + step
    return alpha


def by_both_stages(model, ridge, U, codes, w, queries):
    """Both stages of two classes from scratch, in the view of the model; scores of the queries without trees."""
    kept = 1 - (0.0 if model.trees_ is None else model.tree_weight_)
    Phi, at = (np.column_stack([model.map_.transform(V), np.ones(len(V))]) for V in (U, queries))
    penalty = np.append(np.full(Phi.shape[1] - 1, 1 / model.C_), 0.0)
    beta, truth = np.append(model.beta_[:, 0], model.intercept_) / kept, 0.5 * (1 + codes)
    for _ in range(30):
        p = expit(Phi @ beta)
        H = Phi.T @ ((w * p * (1 - p))[:, None] * Phi) + np.diag(penalty)
        beta = beta + np.linalg.solve(H, Phi.T @ (w * (truth - p)) - penalty * beta)
    out, local = at @ beta, model.local_
    for partition in () if local is None else local.partitions:
        home, asked = partition.leaves(U), partition.leaves(queries)
        for leaf in np.unique(asked):
            rows = home == leaf
            both = gram_matrix(
                local.kernel, np.vstack([U[rows], queries[asked == leaf]]), KernelParameters(local.gamma)
            )
            K = both[: rows.sum(), : rows.sum()]
            alpha = leaf_solution(K, codes[rows], (Phi @ beta)[rows], w[rows], ridge)
            out[asked == leaf] += both[rows.sum() :, : rows.sum()] @ alpha / len(local.partitions)
    return out


#: Few landmarks and small leaves.
LEAVES = replace(
    EFFORTS["default"],
    budget=replace(EFFORTS["default"].budget, lean=None),
    landmarks=20,
    wide_leaf_rows=120,
    tree_parts=0,
)


def striped(plan):
    rows, latent = rough()
    model = AdaptiveClassifier(random_state=1)  # a step misses single rows by more where C is larger
    model._plan = plan
    return model.fit(rows, latent > 0.5), rows, latent > 0.5


@pytest.mark.parametrize("step", cases([100, 25]))
def test_rows_leave_both_stages_of_a_log_loss_by_a_step(step):
    model, rows, labels = striped(LEAVES)
    assert model.local_ is not None, "the case has to have a local stage"
    assert model.local_.partitions[0].n_leaves > 1
    assert model.trees_ is None
    codes, w = np.where(labels, 1.0, -1.0), np.ones(len(labels))
    U = model._learned_coordinates(Rows(model._checked(rows), codes[:, None]))
    queries = U[:30]
    leaves = [model.local_.of_partition(k, U) for k in range(len(model.local_.partitions))]
    first = model.decision_function(rows)[:, None] - np.mean(leaves, axis=0)
    ridge = penalty_of(model.local_, [expit(first + leaf) for leaf in leaves], Rows(U, codes[:, None]))
    whole = by_both_stages(model, ridge, U, codes, w, queries)
    np.testing.assert_allclose(
        whole, model.decision_function(rows[:30]), atol=0.1 * np.abs(whole).max()
    )  # leaves are not polished
    found, real = model.influences(rows[:30], rows, labels), []
    some = np.arange(0, len(rows), step)
    for i in some:
        rest = np.arange(len(rows)) != i
        real.append(whole - by_both_stages(model, ridge, U[rest], codes[rest], w[rest], queries))
    real = np.stack(real, axis=1)
    assert np.abs(found[:, some] - real).max() < 0.05 * np.abs(real).max()
    assert np.corrcoef(found[:, some].ravel(), real.ravel())[0, 1] > 0.99


def softmax_by_both_stages(model, ridge, U, codes, w, queries):
    """Both stages of several classes: landmarks by a general minimiser, leaves by the solver of the fit."""
    Phi, at = (np.column_stack([model.map_.transform(V), np.ones(len(V))]) for V in (U, queries))
    truth, shape = 0.5 * (1 + codes), (Phi.shape[1], codes.shape[1])
    penalty = np.append(np.full(shape[0] - 1, 1 / model.C_), 0.0)[:, None]

    def objective(flat):
        beta = flat.reshape(shape)
        F = Phi @ beta
        loss = w @ (logsumexp(F, axis=1) - (truth * F).sum(axis=1)) + 0.5 * (penalty * beta**2).sum()
        return loss, (Phi.T @ (w[:, None] * (softmax(F, axis=1) - truth)) + penalty * beta).ravel()

    start = np.vstack([model.beta_, model.intercept_]).ravel()
    beta = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 3_000, "ftol": 1e-14}).x
    beta = beta.reshape(shape)
    local = model.local_
    given = LeafProblem(local.kernel, local.gamma, ridge, U, codes, w, local.partitions, Phi @ beta)
    alphas = fit_leaves(given, 1e-9)
    return at @ beta + replace(local, alphas=tuple(alphas)).predict(queries)


@pytest.mark.parametrize("step", cases([125, 50]))
def test_rows_leave_both_stages_of_several_classes_about_as_refits_say(step):
    rows, latent = rough()
    labels = np.digitize(latent, [0.2, 0.8])
    model = AdaptiveClassifier(random_state=4)
    model._plan = LEAVES
    model.fit(rows, labels)
    assert model.local_ is not None, "the case has to have a local stage"
    codes = np.where(labels[:, None] == np.arange(3), 1.0, -1.0)
    U = model._learned_coordinates(Rows(model._checked(rows), codes))
    assert (landmarks_among(model.local_.U, Rows(U, codes))[1] == np.arange(len(U))).all()  # no copies: the same order
    leaves = [model.local_.of_partition(k, U) for k in range(len(model.local_.partitions))]
    first = model.decision_function(rows) - np.mean(leaves, axis=0)
    ridge = penalty_of(model.local_, [softmax(first + leaf, axis=1) for leaf in leaves], Rows(U, codes))
    found, real, some = model.influences(rows[:30], rows, labels), [], np.arange(0, len(rows), step)
    whole = softmax_by_both_stages(model, ridge, U, codes, np.ones(len(U)), U[:30])
    for i in some:
        w = np.ones(len(U))
        w[i] = 1e-9
        real.append(whole - softmax_by_both_stages(model, ridge, U, codes, w, U[:30]))
    real = np.stack(real, axis=1)
    centred = [a - a.mean(axis=2, keepdims=True) for a in (found[:, some], real)]  # softmax knows differences alone
    assert np.corrcoef(centred[0].ravel(), centred[1].ravel())[0, 1] > 0.95
    assert np.isfinite(model.row_values(rows, labels)).all()
    leaving, those = without_rows(model, rows, labels, None)[0], np.array([499, 3, 200])
    np.testing.assert_allclose(
        leaving.own_effects(those)(U[:3]), leaving.effects(U[:3])[np.arange(3), those], atol=1e-9
    )
    importances = model.left_out_importances(rows, labels, n_repeats=2)
    assert importances.importances_mean.argmax() == 0


def test_the_penalty_of_leaves_is_told_by_their_weights():
    rng = np.random.RandomState(0)
    U = rng.normal(size=(150, 2))
    codes = np.where(U[:, :1] * U[:, 1:] + 0.3 * rng.normal(size=(150, 1)) > 0, 1.0, -1.0)
    offset, weight = 0.3 * U[:, :1], rng.choice([0.5, 1.0, 3.0], 150)
    partitions = [random_partition(U, 60, np.random.RandomState(k)) for k in range(2)]
    problem = LeafProblem("rbf", 0.5, 0.7, U, codes, weight, partitions, offset)
    local = problem.stage(fit_leaves(problem, 1e-10))
    shares = [expit(offset + local.of_partition(k, U)) for k in range(2)]
    assert penalty_of(local, shares, Rows(U, codes, weight)) == pytest.approx(0.7, rel=1e-4)
    with pytest.raises(ValueError, match=r"not those that .* weights of the leaves do not follow"):
        penalty_of(local, shares, Rows(U, -codes, weight))


def test_leaves_of_many_scores_that_need_too_much_memory_are_refused():
    model, rows, labels = striped(LEAVES)
    with pytest.raises(ValueError, match=r"inverses that take .* GB, for 1 scores, and max_memory is 1e-06 GB"):
        model.set_params(max_memory=1e-6).influences(rows[:2], rows, labels)

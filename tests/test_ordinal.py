"""Ordinal models: the document's formulas, the order of labels, decisions, weights and tuning."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics import log_loss

import data
import ulmus
from data import cases
from ulmus import ELMOrdinalClassifier, KELMOrdinalClassifier, NKELMOrdinalClassifier

MODELS = [ELMOrdinalClassifier, KELMOrdinalClassifier, NKELMOrdinalClassifier]
GRADES = ["poor", "fair", "good", "fine"]
FIXED = {
    ELMOrdinalClassifier: {"n_hidden": 30, "slope": 1.0, "C": 10.0, "random_state": 0},
    KELMOrdinalClassifier: {"gamma": 0.3, "C": 10.0},
    NKELMOrdinalClassifier: {"n_landmarks": 30, "gamma": 0.3, "C": 10.0, "random_state": 0},
}


def noisy(n, classes=5, noise=0.5, seed=0):
    """Ranks 1 … M of a smooth score with noise."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 3))
    score = X[:, 0] + np.sin(2 * X[:, 1]) + noise * rng.normal(size=n)
    return X, np.searchsorted(np.quantile(score, np.arange(1, classes) / classes), score) + 1


def fixed(Model, **options):
    return Model(**{**FIXED[Model], **options})


# The formulas


def test_kelmor_is_the_documents_formula():
    X, y = noisy(80)
    new = noisy(40, seed=1)[0]
    T = np.where(np.arange(1, 6) <= y[:, None], 1.0, -1.0)  # all five bits of Table 2

    def kernel(A, B):
        return np.exp(-0.3 * cdist(A, B, "sqeuclidean"))

    o = kernel(new, X) @ np.linalg.solve(kernel(X, X) + np.eye(80) / 10.0, T)
    codes = np.where(np.arange(1, 6) <= np.arange(1, 6)[:, None], 1.0, -1.0)
    D = np.exp(-o[:, None] * codes).sum(axis=2)
    model = fixed(KELMOrdinalClassifier).fit(X, y)
    np.testing.assert_array_equal(model.predict(new), D.argmin(axis=1) + 1)
    np.testing.assert_allclose(model.decision_function(new), (D.min(axis=1, keepdims=True) - D) / 2, atol=1e-9)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_all_rows_as_landmarks_make_nkelm_ordinal_equal_kelm_ordinal(loss):
    X, y = noisy(70)
    new = noisy(200, seed=1)[0]
    exact = fixed(KELMOrdinalClassifier, loss=loss).fit(X, y)
    nystrom = fixed(NKELMOrdinalClassifier, n_landmarks=70, loss=loss).fit(X, y)
    np.testing.assert_allclose(nystrom.decision_function(new), exact.decision_function(new), atol=1e-6)
    np.testing.assert_allclose(nystrom.predict_proba(new), exact.predict_proba(new), atol=1e-6)


def test_elmor_is_ridge_on_the_hidden_layer():
    X, y = noisy(100)
    model = fixed(ELMOrdinalClassifier).fit(X, y)
    H = model.map_.transform(X)
    T = np.where(np.arange(2, 6) <= y[:, None], 1.0, -1.0)
    np.testing.assert_allclose(model.beta_, np.linalg.solve(H.T @ H + np.eye(30) / 10.0, H.T @ T), atol=1e-8)


@pytest.mark.parametrize("Model", MODELS)
def test_reversed_labels_give_mirrored_predictions(Model):
    X, y = noisy(150)
    forward, backward = fixed(Model).fit(X, y), fixed(Model).fit(X, 6 - y)
    np.testing.assert_array_equal(backward.predict(X), 6 - forward.predict(X))
    np.testing.assert_allclose(backward.predict_proba(X), forward.predict_proba(X)[:, ::-1], atol=1e-4)


@pytest.mark.parametrize("Model", MODELS)
def test_two_classes_reduce_to_the_binary_classifier(Model):
    X, y = noisy(150, classes=2)
    plain = getattr(ulmus, Model.__name__.replace("Ordinal", ""))(random_state=0).fit(X, y)
    model = Model(random_state=0).fit(X, y)
    assert model.C_ == plain.C_
    np.testing.assert_allclose(model.decision_function(X), plain.decision_function(X), rtol=1e-10)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("Model", cases(MODELS, NKELMOrdinalClassifier))
def test_fifty_classes(Model):
    X, y = noisy(500, classes=50, noise=0.0)
    model = fixed(Model, C="auto").fit(X[:400], y[:400])
    assert np.abs(model.predict(X[400:]) - y[400:]).mean() < 4
    assert model.predict_proba(X[400:]).shape == (100, 50)
    assert model.decision_function(X[400:]).shape == (100, 50)


@pytest.mark.parametrize("Model", MODELS)
def test_one_class_is_an_error_that_says_so(Model):
    with pytest.raises(ValueError, match=r"at least two classes.*only one class"):
        Model().fit(data.rows(10, 2), np.ones(10, dtype=int))
    with pytest.raises(ValueError, match="only one class"):
        Model(categories=[1, 2, 3]).fit(data.rows(10, 2), np.ones(10, dtype=int))


# The order of labels


def graded(n=120):
    X, y = noisy(n, classes=4)
    return X, y, np.array(GRADES)[y - 1]


def test_numbers_are_ordered_by_value():
    X, y, _ = graded()
    model = fixed(KELMOrdinalClassifier).fit(X, y)
    shifted = fixed(KELMOrdinalClassifier).fit(X, np.array([-3, 7, 10, 400])[y - 1])
    assert shifted.classes_.tolist() == [-3, 7, 10, 400]
    np.testing.assert_array_equal(shifted.predict(X), np.array([-3, 7, 10, 400])[model.predict(X) - 1])
    as_float = fixed(KELMOrdinalClassifier).fit(X, y.astype(float))
    np.testing.assert_array_equal(as_float.predict(X), model.predict(X))


@pytest.mark.parametrize(
    "labelled",
    [
        lambda g: (g, GRADES),
        lambda g: (g.astype(object), GRADES),
        lambda g: (pd.Series(g), GRADES),
        lambda g: (pd.Series(pd.Categorical(g, GRADES, ordered=True)), "auto"),
        lambda g: (pd.Categorical(g, GRADES, ordered=True), "auto"),
        lambda g: (pl.Series(g.tolist(), dtype=pl.Enum(GRADES)), "auto"),
        lambda g: (pd.Series(pd.Categorical(g, GRADES[::-1], ordered=True)), GRADES),  # a given order goes first
    ],
    ids=["list", "object", "pandas", "categorical series", "categorical", "polars enum", "both"],
)
def test_strings_follow_the_given_order(labelled):
    X, y, grades = graded()
    labels, categories = labelled(grades)
    model = fixed(KELMOrdinalClassifier, categories=categories).fit(X, labels)
    assert model.classes_.tolist() == GRADES
    by_number = fixed(KELMOrdinalClassifier).fit(X, y).predict(X)
    np.testing.assert_array_equal(model.predict(X), np.array(GRADES)[by_number - 1])


@pytest.mark.parametrize("wrap", [np.asarray, pd.Series, pd.Categorical, lambda g: pl.Series(g.tolist())])
def test_strings_without_an_order_are_an_error_that_says_what_to_do(wrap):
    X, _, grades = graded()
    with pytest.raises(ValueError, match=r"strings have none, got labels \['fair', 'fine'.*pass categories="):
        KELMOrdinalClassifier().fit(X, wrap(grades))


@pytest.mark.parametrize(
    ("categories", "message"),
    [
        (["poor", "fair", "good"], r"labels \['fine'\] that are not among the categories"),
        (["poor", "fair", "good", "fine", "good"], "different labels"),
        (["poor"], "at least two"),
    ],
)
def test_categories_must_be_all_labels_once(categories, message):
    X, _, grades = graded()
    with pytest.raises(ValueError, match=message):
        KELMOrdinalClassifier(categories=categories).fit(X, grades)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_an_absent_category_is_known_and_never_predicted(loss):
    X, _, grades = graded()
    categories = ["worst", "poor", "bad", "fair", "good", "fine", "best"]
    model = fixed(KELMOrdinalClassifier, categories=categories, loss=loss).fit(X, grades)
    assert model.classes_.tolist() == categories
    far = 50 * data.rows(200, 3, seed=3)
    for rows in (X, far):
        assert set(model.predict(rows)) <= set(GRADES)
        P = model.predict_proba(rows)
        np.testing.assert_array_equal(P[:, [0, 2, 6]], 0.0)
        np.testing.assert_allclose(P.sum(axis=1), 1.0)
        np.testing.assert_array_equal(
            np.asarray(categories)[model.decision_function(rows).argmax(axis=1)], model.predict(rows)
        )
        reached = model.predict_cumulative(rows)
        np.testing.assert_array_equal(reached[:, :2], 1.0)
        np.testing.assert_array_equal(reached[:, 6], 0.0)
        assert (np.diff(reached, axis=1) <= 0).all()


def test_a_fold_that_misses_a_class_keeps_its_column():
    X, y, _ = graded()
    some = y != 3
    model = fixed(KELMOrdinalClassifier, categories=[1, 2, 3, 4]).fit(X[some], y[some])
    assert model.predict_proba(X).shape == (120, 4)
    assert 3 not in model.predict(X)


# Decisions and probabilities


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("decoding", ["loss", "hamming", "threshold"])
@pytest.mark.parametrize("Model", cases(MODELS, ELMOrdinalClassifier))
def test_scores_probabilities_and_predictions_agree(Model, decoding, loss):
    X, y = noisy(200, classes=6, noise=1.0)
    model = fixed(Model, C=1e4, decoding=decoding, loss=loss).fit(X, y)  # weak penalty: bits are out of order
    bits = model._scores_of(X)
    assert (np.diff(bits, axis=1) > 0).any()
    predicted = model.predict(X)
    np.testing.assert_array_equal(model.classes_[model.decision_function(X).argmax(axis=1)], predicted)
    P, reached = model.predict_proba(X), model.predict_cumulative(X)
    assert (P >= 0).all()
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_allclose(reached, np.cumsum(P[:, ::-1], axis=1)[:, ::-1], atol=1e-12)
    assert (np.diff(reached, axis=1) <= 0).all()
    if decoding != "hamming" and loss == "squared":
        np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], predicted)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_probabilities_are_calibrated_on_new_rows(loss):
    X, y = noisy(3000, noise=1.0)
    model = NKELMOrdinalClassifier(n_landmarks=60, loss=loss, random_state=0).fit(X[:600], y[:600])
    P = model.predict_proba(X[600:])
    base = np.bincount(y[:600], minlength=6)[1:] / 600
    assert log_loss(y[600:], P) < log_loss(y[600:], np.tile(base, (2400, 1))) - 0.2
    reached, gaps = model.predict_cumulative(X[600:]), []
    for k in range(1, 5):
        for low, high in ((0.0, 0.3), (0.3, 0.7), (0.7, 1.0)):
            some = (reached[:, k] >= low) & (reached[:, k] < high)
            gaps.append(abs(np.sum(reached[some, k] - (y[600:][some] >= k + 1))))
    assert sum(gaps) / (4 * 2400) < 0.04  # sampling alone gives 0.01


def test_the_temperature_is_the_most_likely_one():
    X, y = noisy(3000, noise=1.0)
    model = NKELMOrdinalClassifier(n_landmarks=60, random_state=0).fit(X[:600], y[:600])
    fitted, losses = model.fitted_, []
    for factor in (0.5, 1.0, 2.0):
        certainty = replace(fitted.certainty, factor=factor * fitted.certainty.factor)
        model.fitted_ = replace(fitted, certainty=certainty)
        losses.append(log_loss(y[600:], model.predict_proba(X[600:])))
    assert losses[1] == min(losses)


def test_costs_decide_between_the_probabilities():
    X, y = noisy(200, noise=1.0)
    model = fixed(KELMOrdinalClassifier).fit(X, y)
    P = model.predict_proba(X)
    ranks = np.arange(5)
    costs = {
        "absolute": np.abs(np.subtract.outer(ranks, ranks)).astype(float),
        "asymmetric": np.where(ranks[:, None] > ranks, 5.0, 1.0) * np.abs(np.subtract.outer(ranks, ranks)),
        "zero-one": 1.0 - np.eye(5),
    }
    plain = model.predict(X)
    answers = {}
    for name, cost in costs.items():
        model.set_params(cost_matrix=cost)
        expected = np.array([[sum(p[t] * cost[t, k] for t in ranks) for k in ranks] for p in P])
        answers[name] = model.predict(X)
        np.testing.assert_array_equal(answers[name], expected.argmin(axis=1) + 1)
        np.testing.assert_allclose(model.decision_function(X), -expected, atol=1e-12)
    np.testing.assert_array_equal(answers["zero-one"], plain)
    assert answers["asymmetric"].mean() > answers["absolute"].mean() + 0.3  # too low costs more: answers go up
    median = (np.cumsum(P, axis=1) < 0.5).sum(axis=1) + 1
    np.testing.assert_array_equal(answers["absolute"], median)


def test_two_classes_with_costs_have_one_score():
    X, y = noisy(100, classes=2, noise=1.0)
    model = fixed(KELMOrdinalClassifier, cost_matrix=[[0, 1], [10, 0]]).fit(X, y)
    score = model.decision_function(X)
    assert score.shape == (100,)
    np.testing.assert_array_equal(model.predict(X), np.where(score > 0, 2, 1))


@pytest.mark.parametrize("cost_matrix", [np.ones((3, 3)), [1.0, 2.0], np.full((5, 5), np.inf)])
def test_costs_of_the_wrong_shape_are_an_error(cost_matrix):
    X, y = noisy(60)
    with pytest.raises(ValueError, match=r"cost_matrix must be 5 × 5 finite numbers"):
        fixed(KELMOrdinalClassifier, cost_matrix=cost_matrix).fit(X, y)
    model = fixed(KELMOrdinalClassifier).fit(X, y).set_params(cost_matrix=cost_matrix)
    with pytest.raises(ValueError, match=r"cost_matrix must be 5 × 5 finite numbers"):
        model.predict(X)


# Weights and tuning


@pytest.mark.parametrize("options", [{}, {"C": 3.0, "loss": "logistic"}, {"class_weight": "balanced"}])
@pytest.mark.parametrize("Model", cases(MODELS, KELMOrdinalClassifier, NKELMOrdinalClassifier))
def test_sample_weights_are_repetitions(Model, options):
    X, y = noisy(90)
    weight = np.random.RandomState(0).randint(0, 4, 90)
    weighted = Model(random_state=0, **options).fit(X, y, sample_weight=weight)
    repeated = Model(random_state=0, **options).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.C_ == repeated.C_
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("Model", MODELS)
def test_class_weights_are_sample_weights(Model):
    X, y = noisy(120, classes=3)
    by_class = fixed(Model, class_weight={1: 3.0, 2: 1.0, 3: 0.5}).fit(X, y)
    by_row = fixed(Model).fit(X, y, sample_weight=np.array([3.0, 1.0, 0.5])[y - 1])
    np.testing.assert_allclose(by_class.decision_function(X), by_row.decision_function(X), atol=1e-9)


def test_rare_classes_are_found_when_weights_are_balanced():
    X, y = noisy(600, classes=10, noise=0.3)
    y = np.where(y == 10, 3, np.where(y == 9, 2, 1))
    plain, balanced = (fixed(KELMOrdinalClassifier, C=0.1, class_weight=w).fit(X, y) for w in (None, "balanced"))
    recall = [np.mean(model.predict(X)[y == 2] == 2) for model in (plain, balanced)]
    assert recall[1] > recall[0] + 0.2


def test_parameters_are_scored_by_the_error_of_decoded_left_out_predictions():
    X, y = noisy(40)
    model = KELMOrdinalClassifier(gamma=0.3, criterion="absolute", random_state=0).fit(X, y)
    trial = model.tuning_.trials[-1]
    for C, loss in list(zip(trial.C, trial.loss, strict=True))[5::10]:
        errors = []
        for i in range(40):
            others = np.arange(40) != i
            refitted = KELMOrdinalClassifier(gamma=0.3, C=C, categories=[1, 2, 3, 4, 5]).fit(X[others], y[others])
            errors.append(abs(refitted.predict(X[[i]])[0] - y[i]))
        assert loss == pytest.approx(np.mean(errors), abs=1e-12)


@pytest.mark.parametrize("criterion", cases(["auto", "absolute", "error", "squared"], "auto", "absolute"))
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_every_criterion_finds_a_model(criterion, loss):
    X, y = noisy(400)
    model = NKELMOrdinalClassifier(30, criterion=criterion, loss=loss, random_state=0).fit(X[:200], y[:200])
    assert np.abs(model.predict(X[200:]) - y[200:]).mean() < 0.65


def test_order_helps():
    X, y = noisy(1000, classes=7, noise=0.3)
    nominal = ulmus.KELMClassifier(random_state=0).fit(X[:150], y[:150])
    ordinal = KELMOrdinalClassifier(random_state=0).fit(X[:150], y[:150])
    errors = [np.abs(model.predict(X[150:]) - y[150:]).mean() for model in (ordinal, nominal)]
    assert errors[0] < 0.9 * errors[1]


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("Model", cases(MODELS, NKELMOrdinalClassifier))
def test_fits_repeat_for_any_number_of_threads(Model, loss):
    X, y = noisy(600 if Model is KELMOrdinalClassifier else 1500)  # several blocks of each kind
    models = [fixed(Model, n_jobs=n, loss=loss).fit(X, y) for n in (1, 3)]
    np.testing.assert_array_equal(models[0].decision_function(X), models[1].decision_function(X))


@pytest.mark.parametrize("Model", MODELS)
def test_frames_floats_and_sparse_rows_give_the_same_answers(Model):
    X, y = noisy(100)
    model = fixed(Model).fit(X, y)
    frame = pd.DataFrame(X, columns=list("abc"))
    named = clone(model).fit(frame, y)
    assert named.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(named.decision_function(pl.DataFrame(X, schema=list("abc"))), model.decision_function(X))
    np.testing.assert_allclose(
        clone(model).fit(sparse.csr_array(X), y).decision_function(sparse.csr_array(X)),
        model.decision_function(X),
        atol=1e-7,
    )
    narrow = X.astype(np.float32)
    same = {"landmarks": narrow[:30]} if Model is NKELMOrdinalClassifier else {}  # drawn by value: narrower, others
    wide, single = (fixed(Model, **same).fit(A, y).predict(A) for A in (narrow.astype(float), narrow))
    assert np.mean(single == wide) > 0.97


def test_the_error_bound_holds_for_the_bits():
    X, y = noisy(60)
    options = {"gamma": 0.02, "C": 0.01}
    exact = fixed(KELMOrdinalClassifier, **options).fit(X, y)
    nystrom = fixed(NKELMOrdinalClassifier, **options).fit(X, y)
    distance = np.linalg.norm(nystrom._scores_of(X) - exact._scores_of(X), axis=1)
    assert (distance <= nystrom.error_bound(X) + 1e-9).all()
    with pytest.raises(ValueError, match='needs loss="squared"'):
        fixed(NKELMOrdinalClassifier, loss="logistic").fit(X, y).error_bound(X)

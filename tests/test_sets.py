"""Sets of classes: coverage, sizes, and the scores behind them."""

import numpy as np
import pytest

import ulmus
from ulmus import (
    ENDA,
    KLDA,
    NNDA,
    AdaptiveClassifier,
    ELMClassifier,
    ENDAEnsemble,
    KELMClassifier,
    NKELMClassifier,
    NKELMOrdinalClassifier,
    OSELMClassifier,
)
from ulmus.calibration.sets import LabelScores, class_scores, prediction_sets

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


def blobs(seed, n, shares=(0.6, 0.3, 0.1)):
    rng = np.random.RandomState(seed)
    y = rng.choice(3, size=n, p=shares)
    return np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])[y] + rng.normal(size=(n, 2)), y


def test_the_adaptive_score_is_the_mass_of_likelier_classes():
    P = np.array([[0.5, 0.2, 0.3], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(class_scores(P, "adaptive"), [[0.0, 0.8, 0.5], [0.0, 1.0, 1.0]])
    np.testing.assert_allclose(class_scores(P, "threshold"), 1.0 - P)


def test_ordered_sets_have_no_gaps():
    rng = np.random.RandomState(0)
    P = rng.dirichlet(0.3 * np.ones(6), 500)
    scores = class_scores(P, "ordered")
    for limit in (0.0, 0.1, 0.3, 0.45):
        inside = scores <= limit
        assert inside.any(axis=1).all()
        assert (np.abs(np.diff(np.pad(inside.astype(int), ((0, 0), (1, 1))), axis=1)).sum(axis=1) == 2).all()


def test_sets_are_those_of_the_definition():
    rng = np.random.RandomState(1)
    P, P_held, true = rng.dirichlet(np.ones(4), 30), rng.dirichlet(np.ones(4), 99), rng.randint(4, size=99)
    held = LabelScores(P_held, true, np.ones(99), np.zeros(99))
    found = prediction_sets(P, P_held, held, 0.9, "threshold", False)
    limit = np.sort(1.0 - P_held[np.arange(99), true])[89]
    np.testing.assert_array_equal(found, limit >= 1.0 - P)
    by_class = prediction_sets(P, P_held, held, 0.8, "threshold", True)
    for k in range(4):
        scores = np.sort(1.0 - P_held[true == k, k])
        limit = scores[int(np.ceil(0.8 * (len(scores) + 1) - 1e-9)) - 1]
        np.testing.assert_array_equal(by_class[:, k], 1.0 - P[:, k] <= limit)


def test_several_coverages_are_those_of_one_at_a_time():
    X, y = blobs(0, 400)
    model = NKELMClassifier(50, random_state=0).fit(X, y)
    for options in ({}, {"method": "threshold"}, {"by_class": True}):
        both = model.predict_set(X[:50], [0.8, 0.95], **options)
        each = [model.predict_set(X[:50], coverage, **options) for coverage in (0.8, 0.95)]
        np.testing.assert_array_equal(both, np.stack(each, axis=1))
    assert (each[0] != each[1]).any()


@pytest.mark.parametrize(
    "model",
    [
        NKELMClassifier(60, random_state=0),
        KELMClassifier(random_state=0),
        ELMClassifier(60, random_state=0),
        OSELMClassifier(60, random_state=0),
        AdaptiveClassifier(effort="fast", random_state=0),
        ENDA(60, head="mean", random_state=0),
        ENDAEnsemble(ENDA(60, head="mean"), 3, random_state=0),
        KLDA(C=1.0, gamma=0.5, head="mean"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_sets_cover(model):
    (X, y), (Q, t) = blobs(2, 1200), blobs(3, 4000)
    model.fit(X, y)
    for method in ("adaptive", "threshold"):
        inside = model.predict_set(Q, 0.9, method=method)
        chance = np.sqrt(0.9 * 0.1 * (1 / len(model.left_out_.true) + 1 / len(t)))
        assert abs(inside[np.arange(len(t)), t].mean() - 0.9) < 3 * chance
        assert inside.sum(axis=1).mean() < 2.0
    assert model.predict_set(Q, 0.9).any(axis=1).all()


def test_votes_of_neighbours_cover_what_is_promised_and_more_where_they_are_even():
    """A share of k votes takes k + 1 values, so that a limit among them is generous."""
    (X, y), (Q, t) = blobs(2, 1200), blobs(3, 4000)
    model = ENDA(60, random_state=0).fit(X, y)
    inside = model.predict_set(Q, 0.9)[np.arange(len(t)), t].mean()
    assert 0.9 - 3 * np.sqrt(0.9 * 0.1 * (1 / 1200 + 1 / 4000)) < inside < 0.97


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (KLDA(C=1.0, gamma=0.5), "the projection has not seen"),
        (NNDA(5, max_iter=3, random_state=0), "the projection has not seen"),
        (ENDA(20, n_neighbors=3, random_state=0), 'leave n_neighbors="auto"'),
    ],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_discriminant_models_without_rows_left_out_have_no_sets(model, says):
    X, y = blobs(11, 90)
    with pytest.raises(ValueError, match=says):
        model.fit(X, y).predict_set(X)


def test_sets_by_class_cover_the_rare_one_too():
    (X, y), (Q, t) = blobs(4, 1500), blobs(5, 6000)
    model = NKELMClassifier(60, random_state=0).fit(X, y)
    plain, by_class = (model.predict_set(Q, 0.9, by_class=b)[np.arange(len(t)), t] for b in (False, True))
    assert plain[t == 2].mean() < 0.85
    for k in range(3):
        assert abs(by_class[t == k].mean() - 0.9) < 0.05


def test_ordinal_sets_cover_without_gaps():
    rng = np.random.RandomState(6)
    X = rng.uniform(-1, 1, (3000, 2))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=3000), [-0.5, 0.0, 0.5])
    model = NKELMOrdinalClassifier(50, random_state=0).fit(X[:1000], y[:1000])
    inside = model.predict_set(X[1000:], 0.9)
    assert abs(inside[np.arange(2000), y[1000:]].mean() - 0.9) < 0.035
    assert (np.abs(np.diff(np.pad(inside.astype(int), ((0, 0), (1, 1))), axis=1)).sum(axis=1) == 2).all()


def test_streams_and_files_keep_the_sets(tmp_path):
    X, y = blobs(7, 900)
    model = OSELMClassifier(40, random_state=0)
    for rows in np.array_split(np.arange(900), 9):
        model.partial_fit(X[rows], y[rows])
    sets = model.predict_set(X)
    ulmus.save(model, tmp_path / "m.ulmus")
    np.testing.assert_array_equal(ulmus.load(tmp_path / "m.ulmus").predict_set(X), sets)


def test_a_new_class_is_in_the_sets_of_the_stream():
    X, y = blobs(8, 600)
    model = OSELMClassifier(40, random_state=0).partial_fit(X[y < 2], y[y < 2])
    model.predict_set(X)
    model.partial_fit(X[y == 2], y[y == 2])
    assert model.predict_set(X).shape == (600, 3)


def test_too_few_rows_put_every_class_into_every_set():
    X, y = blobs(9, 12)
    model = NKELMClassifier(5, gamma=1.0, C=1.0, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="too few held-out rows"):
        assert model.predict_set(X, 0.95).all()


def test_one_class_of_too_few_rows_is_told_in_the_singular():
    X, y = blobs(9, 300)
    some = np.flatnonzero((y != 2) | (np.cumsum(y == 2) <= 4))
    model = NKELMClassifier(5, gamma=1.0, C=1.0, random_state=0).fit(X[some], y[some])
    with pytest.warns(UserWarning, match="^1 class has too few held-out rows .*; this class is in every set"):
        assert model.predict_set(X, 0.95, by_class=True)[:, 2].all()


def test_unknown_methods_are_refused():
    X, y = blobs(10, 60)
    model = NKELMClassifier(5, gamma=1.0, C=1.0).fit(X, y)
    with pytest.raises(ValueError, match="method must be one of"):
        model.predict_set(X, method="ordered")
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
        model.predict_set(X, 95)

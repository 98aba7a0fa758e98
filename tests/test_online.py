"""Models that go on learning: equal to batch fits for any split, whatever was forgotten or came later."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fixed
import reference
import ulmus
from data import examples, regression, relative_error
from streams import GIVEN, LABELS, ONLINE, WEIGHT, X, Y, blocks, streamed
from ulmus import NKELMRegressor, OSELMClassifier, OSELMRegressor

# Equality with batch fits


@ONLINE
@settings(max_examples=examples(15))
@given(sizes=st.lists(st.sampled_from([1, 1, 1, 3, 50, 200]), max_size=40), weighted=st.booleans())
def test_any_split_equals_batch_ridge_on_the_same_layer(form, sizes, weighted):
    weight = WEIGHT if weighted else None
    model = streamed(OSELMRegressor(15, form=form, **GIVEN), Y, sizes, weight)
    H = model.map_.transform(X)
    beta, _ = reference.ridge(H, Y, 100.0, weight)
    assert relative_error(model.predict(X), (H @ beta)[:, 0]) <= 1e-10


@ONLINE
def test_rows_one_by_one_with_predictions_between_them_equal_one_block(form):
    one, block = (OSELMRegressor(15, form=form, **GIVEN) for _ in range(2))
    for i in range(300):
        one.partial_fit(X[i : i + 1], Y[i : i + 1])
        one.predict(X[:1])
    block.partial_fit(X[:300], Y[:300])
    assert relative_error(one.predict(X), block.predict(X)) <= 1e-10


@ONLINE
def test_after_the_warm_up_a_stream_equals_the_elm_of_all_rows(form):
    model = streamed(OSELMRegressor(30, form=form, random_state=0), Y, [100] * 4 + [150, 1, 1])
    H = model.map_.transform(X)
    beta, b = reference.ridge(H, Y, model.C_, fit_intercept=True)
    # the chosen C is large, so that a few digits go into the condition number
    assert relative_error(model.predict(X), (H @ beta + b)[:, 0]) <= (1e-8 if form == "root" else 1e-5)


@ONLINE
def test_fit_is_elm_fit_and_partial_fit_goes_on_from_it(form):
    options = {"slope": 1.0, "C": 100.0, "fit_intercept": True, "random_state": 0}
    elm = ulmus.ELMRegressor(20, **options).fit(X[:300], Y[:300], WEIGHT[:300])
    model = OSELMRegressor(20, form=form, **options).fit(X[:300], Y[:300], WEIGHT[:300])
    assert relative_error(model.predict(X), elm.predict(X)) <= 1e-9
    assert relative_error(model.predict_interval(X), elm.predict_interval(X)) <= 1e-7
    for m in (elm, model):
        m.partial_fit(X[300:], Y[300:], sample_weight=WEIGHT[300:])
    H = model.map_.transform(X)
    beta, b = reference.ridge(H, Y, 100.0, WEIGHT, fit_intercept=True)
    for m in (elm, model):
        assert relative_error(m.predict(X), (H @ beta + b)[:, 0]) <= 1e-9


BATCH = [
    (lambda: fixed.ELMRegressor(C=100.0, fit_intercept=True, random_state=0), Y),
    (lambda: fixed.ELMClassifier(C=100.0, random_state=0), LABELS),
    (lambda: fixed.NKELMRegressor(C=100.0, fit_intercept=True, random_state=0), Y),
    (lambda: fixed.NKELMClassifier(C=100.0, random_state=0), LABELS),
    (lambda: ulmus.NKELMRegressor(30, C=100.0, random_state=0), np.column_stack([Y, LABELS])),
    (lambda: ulmus.ELMRegressor(random_state=0), Y),
]


@pytest.mark.parametrize(("make", "y"), BATCH)
@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
def test_partial_fit_of_batch_models_equals_ridge_on_their_frozen_map(make, y):
    model = streamed(make(), y, [300, 1, 1, 250, 7])
    Phi = model.map_.transform(X)
    T = model._code(model._known("targets"), y, None, block=True)[0]
    beta, b = reference.ridge(Phi, T, model.C_, fit_intercept=model._intercept)
    assert relative_error(model._scores_of(X), Phi @ beta + b) <= 1e-6
    assert np.isfinite(model.predict(X).astype(float)).all()


@pytest.mark.parametrize(("make", "y"), BATCH[:4])
def test_partial_fit_goes_on_from_fit_whatever_form_solved_it(make, y):
    for n in (15, 400):  # dual, and normal equations
        model = make().fit(X[:n], y[:n])
        Phi_map = model.map_
        model.partial_fit(X[n:], y[n:])
        assert model.map_ is Phi_map
        T = model._code(model._known("targets"), y, None, block=True)[0]
        beta, b = reference.ridge(Phi_map.transform(X), T, 100.0, fit_intercept=model._intercept)
        assert relative_error(model._scores_of(X), Phi_map.transform(X) @ beta + b) <= 1e-8


def test_calibration_of_a_stream_is_that_of_its_rows_left_out():
    model = streamed(OSELMRegressor(20, **GIVEN), Y, [100] * 6)
    H = model.map_.transform(X)
    left_out = []
    for i in range(len(Y)):
        others = np.arange(len(Y)) != i
        left_out.append((H[i] @ reference.ridge(H[others], Y[others], 100.0)[0])[0]) if i < 40 else None
    h = np.einsum("ij,ij->i", H @ np.linalg.inv(H.T @ H + np.eye(20) / 100), H)
    residuals = (Y - model.predict(X)) / (1 - h)
    assert relative_error(Y[:40] - residuals[:40], np.array(left_out)) <= 1e-8
    assert model.spread_.noise[0] == pytest.approx(np.sqrt(np.mean(residuals**2 * (1 - h))), rel=1e-6)


def test_a_stream_of_classes_is_calibrated():
    model = OSELMClassifier(50, random_state=0)
    model = streamed(model, LABELS, [100] * 6)
    P = model.predict_proba(X)
    assert np.allclose(P.sum(axis=1), 1)
    assert (model.classes_[P.argmax(axis=1)] == model.predict(X)).all()
    assert model.score(X, LABELS) > 0.85


# The start of the literature


def test_a_start_without_a_penalty_is_least_squares():
    model = OSELMRegressor(10, C=None, scale=1.0, slope=1.0, random_state=0)
    model = streamed(model, Y, [40, 1, 1, 100])
    H = model.map_.transform(X)
    assert relative_error(model.predict(X), H @ np.linalg.lstsq(H, Y, rcond=None)[0]) <= 1e-8


@ONLINE
def test_a_collinear_start_fails_loudly_without_a_penalty_and_works_with_one(form):
    flat = np.column_stack([X[:, 0]] * 3)
    start = np.repeat(flat[:2], 30, axis=0)
    options = {"scale": 1.0, "slope": 1.0, "random_state": 0, "form": form}
    model = OSELMRegressor(10, C=None, **options)
    with pytest.raises(ValueError, match="full rank 10"):
        model.partial_fit(start, Y[:60])
    assert not hasattr(model, "stream_")
    with pytest.raises(ValueError, match="full rank 10"):
        model.partial_fit(X[:5], Y[:5])
    ridge = OSELMRegressor(10, C=100.0, fit_intercept=False, **options).partial_fit(start, Y[:60])
    H = ridge.map_.transform(start)
    expected = H @ reference.ridge(H, Y[:60], 100.0)[0]
    assert relative_error(ridge.predict(start), expected[:, 0]) <= 1e-9


def test_forgetting_without_a_penalty_is_refused():
    with pytest.raises(ValueError, match="C=None"):
        OSELMRegressor(5, C=None, forgetting=0.9).partial_fit(X, Y)


# Forgetting


@ONLINE
@pytest.mark.parametrize("sizes", [[1] * 30, [100] * 7, [700]])
def test_forgetting_weighs_rows_by_age(form, sizes):
    model = streamed(OSELMRegressor(10, form=form, forgetting=0.99, **GIVEN), Y, sizes)
    H = model.map_.transform(X)
    fading = 0.99 ** np.arange(len(Y) - 1, -1, -1)
    beta, _ = reference.ridge(H, Y, 100.0, fading)
    assert relative_error(model.predict(X), (H @ beta)[:, 0]) <= 1e-9
    assert np.isfinite(model.predict_interval(X)).all()


def test_large_batches_forget_as_single_rows_do():
    n = 1500
    Xl, yl = regression(n, seed=3)
    one, batch, fitted = (OSELMRegressor(10, forgetting=0.999, **GIVEN) for _ in range(3))
    for s in blocks(n, [1] * n):
        one.partial_fit(Xl[s], yl[s])
    batch.partial_fit(Xl, yl)
    fitted.fit(Xl, yl)
    assert relative_error(batch.predict(Xl), one.predict(Xl)) <= 1e-9
    assert relative_error(fitted.predict(Xl), one.predict(Xl)) <= 1e-9


def test_forgetting_follows_a_concept_that_turns():
    Xd, yd = ulmus.datasets.make_drift(4000, kind="abrupt", random_state=0)
    hits = {}
    for forgetting in (1.0, 0.99):
        model = OSELMClassifier(100, forgetting=forgetting, random_state=0).fit(Xd[:1000], yd[:1000])
        right = []
        for s in blocks(3000, [50] * 60):
            part = slice(1000 + s.start, 1000 + s.stop)
            right.append(model.score(Xd[part], yd[part]))
            model.partial_fit(Xd[part], yd[part])
        hits[forgetting] = np.mean(right[-20:])
    assert hits[0.99] > hits[1.0] + 0.1


# Classes


@pytest.mark.parametrize(
    "make", [lambda: OSELMClassifier(20, **GIVEN), lambda: fixed.ELMClassifier(C=100.0, scale=1.0, random_state=0)]
)
def test_a_class_that_appears_later_is_learned_as_if_it_had_been_expected(make):
    order = np.argsort(LABELS, kind="stable")
    Xs, ys = X[order], LABELS[order]
    model, knew = make(), make()
    for part in blocks(700, [300, 50, 200]):
        model.partial_fit(Xs[part], ys[part])
        knew.partial_fit(Xs[part], ys[part], classes=[0, 1, 2] if part.start == 0 else None)
    assert (model.classes_ == [0, 1, 2]).all()
    assert relative_error(model.decision_function(X), knew.decision_function(X)) <= 1e-8
    assert (model.predict_proba(X).shape[1]) == 3


def test_string_labels_may_come_later():
    names = np.array(["low", "mid", "high"])[LABELS]
    order = np.argsort(LABELS, kind="stable")
    model = OSELMClassifier(20, **GIVEN)
    for part in blocks(700, [400, 100]):
        model.partial_fit(X[order][part], names[order][part])
    assert set(model.predict(X)) == {"low", "mid", "high"}


def test_one_class_so_far_is_said():
    model = OSELMClassifier(20, **GIVEN).partial_fit(X[:5], np.zeros(5, int))
    with pytest.raises(ValueError, match="one class only"):
        model.predict(X)
    model.partial_fit(X[5:50], LABELS[5:50])
    assert model.predict(X).shape == (700,)


def test_classes_may_be_said_again_but_not_changed():
    X, y = np.random.RandomState(0).normal(size=(60, 3)), np.arange(60) % 3
    model = OSELMClassifier(10, C=1.0, random_state=0).partial_fit(X, y, classes=[0, 1, 2])
    model.partial_fit(X, y, classes=[2, 1, 0])
    with pytest.raises(ValueError, match=r"classes=\[0, 1, 2, 3\] differ from those that the model knows, \[0, 1, 2\]"):
        model.partial_fit(X, y, classes=[0, 1, 2, 3])


def test_a_regressor_refuses_classes():
    X = np.random.RandomState(0).normal(size=(60, 3))
    with pytest.raises(ValueError, match="sample_weight="):
        OSELMRegressor(10, C=1.0).partial_fit(X, X[:, 0], np.ones(60))


@pytest.mark.parametrize("model", [OSELMClassifier, ulmus.NKELMRegressor, ulmus.RobustELMRegressor])
def test_messages_about_arguments_name_the_class(model):
    with pytest.raises(TypeError, match=rf"^{model.__name__}.__init__\(\) got an unexpected keyword argument 'gama'"):
        model(gama=1)


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: OSELMRegressor(30, scale=1.0, slope=1.0, C=100.0, random_state=0),
        lambda rows: NKELMRegressor(landmarks=rows[:30], gamma=1.0, C=100.0, random_state=0),
        lambda rows: OSELMRegressor(30, random_state=0),
    ],
    ids=["oselm, all given", "nkelm, all given", "oselm, chosen"],
)
def test_streams_agree_where_the_guide_says_so(make):
    """All is given, or the rows of the warm-up are the same: how the others are split and ordered does not matter."""
    rng = np.random.RandomState(0)
    rows = rng.uniform(-1, 1, (800, 2))
    y = np.sin(3 * rows[:, 0]) * rows[:, 1] + 0.05 * rng.normal(size=800)

    def predicted(order, size):
        model = make(rows)
        for start in range(0, 800, size):
            model.partial_fit(rows[order[start : start + size]], y[order[start : start + size]])
        return model.predict(rows)

    plain, later = predicted(np.arange(800), 50), np.append(np.arange(500), 500 + rng.permutation(300))
    np.testing.assert_allclose(predicted(later, 100), plain, atol=1e-8)
    apart = np.abs(predicted(rng.permutation(800), 50) - plain).max()
    whole = np.abs(make(rows).fit(rows, y).predict(rows) - plain).max()
    if make(rows).C == "auto":
        assert min(apart, whole) > 1e-5
    else:
        assert max(apart, whole) < 1e-8

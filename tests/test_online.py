"""Models that go on learning: equal to batch fits for any split, whatever was forgotten, unlearned or merged."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import fixed
import reference
import ulmus
from data import classification, regression, relative_error
from ulmus import OSELMClassifier, OSELMRegressor

X, Y = regression(700)
LABELS = classification(700)[1]
WEIGHT = np.random.RandomState(1).randint(1, 4, 700).astype(float)
#: Nothing left to the data: the recursion of the literature, from the first row.
GIVEN = {"scale": 1.0, "slope": 1.0, "C": 100.0, "fit_intercept": False, "random_state": 0}

ONLINE = pytest.mark.parametrize("form", ["root", "covariance", "information"])


def blocks(n, sizes):
    cuts = np.minimum(np.cumsum([0, *sizes, n]), n)
    return [slice(a, b) for a, b in pairwise(cuts) if b > a]


def streamed(model, y, sizes, weight=None, **first):
    for i, part in enumerate(blocks(len(y), sizes)):
        w = None if weight is None else weight[part]
        model.partial_fit(X[part], y[part], sample_weight=w, **(first if i == 0 else {}))
    return model


# Equality with batch fits


@ONLINE
@settings(max_examples=15)
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
    T = model._encode_more(y)[0]
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
        T = model._encode_more(y)[0]
        beta, b = reference.ridge(Phi_map.transform(X), T, 100.0, fit_intercept=model._intercept)
        assert relative_error(model._scores_of(X), Phi_map.transform(X) @ beta + b) <= 1e-8


def test_calibration_of_a_stream_is_that_of_its_rows_left_out():
    model = streamed(OSELMRegressor(20, **GIVEN), Y, [100] * 6)
    whole = fixed.ELMRegressor(20, C=100.0).fit(X, Y)
    whole.map_ = model.map_
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


# Unlearning and merging

LEARNERS = [
    *[lambda form=form: OSELMRegressor(15, form=form, **GIVEN) for form in ("root", "covariance", "information")],
    lambda: fixed.ELMRegressor(C=100.0, random_state=0),
    lambda: fixed.NKELMRegressor(C=100.0, fit_intercept=True, random_state=0),
]


@pytest.mark.parametrize("make", LEARNERS)
def test_unlearning_equals_a_fit_without_the_rows(make):
    gone, left = np.arange(50, 150), np.r_[0:50, 150:700]
    model = streamed(make(), Y, [200] * 3, WEIGHT)
    model.unlearn(X[gone], Y[gone], WEIGHT[gone])
    Phi = model.map_.transform(X)
    beta, b = reference.ridge(Phi[left], Y[left], 100.0, WEIGHT[left], model._intercept)
    assert relative_error(model.predict(X), (Phi @ beta + b)[:, 0]) <= 1e-8
    sample = model.stream_.memory.rows(1.0)
    assert not any((x == sample.X).all(axis=1).any() for x in X[gone])


@pytest.mark.parametrize("make", LEARNERS)
def test_unlearning_twice_or_what_was_never_learned_is_refused_and_changes_nothing(make):
    model = streamed(make(), Y, [200] * 3)
    model.unlearn(X[:10], Y[:10])
    before = model.predict(X)
    with pytest.raises(ValueError, match="never learned"):
        model.unlearn(X[5:15], Y[5:15])
    with pytest.raises(ValueError, match="never learned"):
        model.unlearn(X[20:21], Y[20:21] + 1)
    with pytest.raises(ValueError, match="never learned"):
        model.unlearn(X[20:21], Y[20:21], [2.0])
    assert (model.predict(X) == before).all()


def test_unlearning_after_fit_is_refused_where_nothing_would_be_left():
    model = fixed.ELMRegressor(C=1e8, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="not positive definite"):
        model.unlearn(1e3 * np.ones((1, 3)), [0.0], [1e6])


def test_unlearning_knows_how_far_a_row_has_faded():
    model = streamed(OSELMRegressor(10, forgetting=0.99, **GIVEN), Y, [1] * 100)
    model.unlearn(X[600:650], Y[600:650])
    H = model.map_.transform(X)
    fading = 0.99 ** np.arange(len(Y) - 1, -1, -1)
    fading[600:650] = 0.0
    beta, _ = reference.ridge(H, Y, 100.0, fading)
    assert relative_error(model.predict(X), (H @ beta)[:, 0]) <= 1e-8


@pytest.mark.parametrize("make", LEARNERS)
def test_models_that_learned_apart_merge_into_one_that_learned_all(make):
    first = make().partial_fit(X[:600], Y[:600], sample_weight=WEIGHT[:600])
    second = first.blank_copy().partial_fit(X[600:650], Y[600:650], sample_weight=WEIGHT[600:650])
    third = first.blank_copy().partial_fit(X[650:], Y[650:], sample_weight=WEIGHT[650:])
    merged = first.merge([second, third])
    Phi = merged.map_.transform(X)
    beta, b = reference.ridge(Phi, Y, 100.0, WEIGHT, merged._intercept)
    assert relative_error(merged.predict(X), (Phi @ beta + b)[:, 0]) <= 1e-8
    merged.unlearn(X[600:610], Y[600:610], WEIGHT[600:610])


def test_merging_unites_classes():
    first = OSELMClassifier(20, **GIVEN).partial_fit(X[LABELS < 2], LABELS[LABELS < 2])
    second = first.blank_copy()
    second.partial_fit(X[LABELS > 0], LABELS[LABELS > 0])
    first.unlearn(X[LABELS == 1], LABELS[LABELS == 1])
    first.merge(second)
    whole = OSELMClassifier(20, **GIVEN).partial_fit(X, LABELS)
    assert (first.classes_ == whole.classes_).all()
    assert relative_error(first.decision_function(X), whole.decision_function(X)) <= 1e-8


def test_models_with_other_maps_do_not_merge():
    first, second = (OSELMRegressor(15, **{**GIVEN, "random_state": seed}).partial_fit(X, Y) for seed in (0, 1))
    with pytest.raises(ValueError, match="the maps differ"):
        first.merge(second)
    with pytest.raises(ValueError, match=r"C is 100.0 here and 1.0 there"):
        first.merge(OSELMRegressor(15, **{**GIVEN, "C": 1.0}).partial_fit(X, Y))
    with pytest.raises(ValueError, match="the models differ"):
        first.merge(fixed.ELMRegressor(15, C=100.0).fit(X, Y))


# Landmarks that come later


def test_a_map_grows_by_the_rows_that_its_landmarks_leave_out():
    near, far = X[:200], X[:50] + 6.0
    small = ulmus.NystromMap(15, gamma=0.5, random_state=0).fit(near)
    grown = small.grown(far, 0.3, 40)
    assert 15 < grown.n_lifted <= 40
    assert relative_error(grown.transform(near)[:, :15], small.transform(near)) <= 1e-12
    assert (grown.residual_kernel(far) <= 0.3 + 1e-12).all()
    # the map that has had these landmarks from the start
    whole = ulmus.NystromMap(gamma=0.5, landmarks=grown.landmarks_).fit(near)
    K = whole.transform(far) @ whole.transform(far).T
    assert relative_error(grown.transform(far) @ grown.transform(far).T, K) <= 1e-10
    assert small.grown(near[:1], 0.9, 40) is small


def test_new_landmarks_are_exact_for_the_future_and_zero_for_the_past():
    model = fixed.NKELMRegressor(15, C=100.0, fit_intercept=True, random_state=0).partial_fit(X[:600], Y[:600])
    away, y_away = X[600:] + 6.0, Y[600:] + 1.0
    model.partial_fit(away[:60], y_away[:60], novelty=0.5)
    model.partial_fit(away[60:], y_away[60:])
    assert model.n_landmarks_ == model.map_.n_lifted > 15
    Phi = np.vstack([model.map_.transform(X[:600]), model.map_.transform(away)])
    Phi[:600, 15:] = 0.0
    y = np.r_[Y[:600], y_away]
    beta, _ = reference.ridge(Phi, y, 100.0, fit_intercept=True)
    assert relative_error(model.beta_, beta) <= 1e-7
    model.unlearn(X[:100], Y[:100])
    beta, _ = reference.ridge(Phi[100:], y[100:], 100.0, fit_intercept=True)
    assert relative_error(model.beta_, beta) <= 1e-7
    with pytest.raises(ValueError, match="novelty must lie between"):
        model.partial_fit(away, y_away, novelty=2.0)


def test_growing_landmarks_learn_where_the_first_ones_saw_nothing():
    errors = []
    for novelty in (None, 0.3):
        model = ulmus.NKELMRegressor(50, gamma=1.0, C=100.0, random_state=0).partial_fit(X[:600], Y[:600])
        for start in range(0, 700, 100):
            model.partial_fit(X[start : start + 100] + 8.0, Y[start : start + 100], novelty=novelty)
        errors.append(np.mean((model.predict(X + 8.0) - Y) ** 2))
    assert errors[1] < 0.3 * errors[0]


def test_a_refused_block_leaves_the_landmarks_alone():
    model = fixed.NKELMClassifier(15, C=100.0, random_state=0).partial_fit(X[:600], LABELS[:600], classes=[0, 1, 2])
    before = model.decision_function(X)
    with pytest.raises(ValueError, match="not among the known classes"):
        model.partial_fit(X[:5] + 9.0, [0, 1, 2, 3, 0], novelty=0.5)
    assert (model.decision_function(X) == before).all()


# State


@ONLINE
@pytest.mark.parametrize("route", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_in_mid_stream_goes_on_bit_for_bit(form, route):
    model = streamed(OSELMRegressor(15, form=form, forgetting=0.999, random_state=0), Y, [550, 1, 1, 1])
    twin = route(model)
    for part in blocks(100, [1, 7, 1, 60]):
        for m in (model, twin):
            m.partial_fit(X[part], Y[part])
        assert (model.predict(X) == twin.predict(X)).all()
    assert (model.predict_interval(X) == twin.predict_interval(X)).all()


def test_a_copy_in_the_warm_up_goes_on_bit_for_bit():
    model = OSELMClassifier(15, random_state=0).partial_fit(X[:30], LABELS[:30])
    twin = pickle.loads(pickle.dumps(model))
    for m in (model, twin):
        m.partial_fit(X[30:], LABELS[30:])
    assert (model.decision_function(X) == twin.decision_function(X)).all()


def test_predictions_come_from_the_first_row_on():
    model = OSELMRegressor(random_state=0)
    for i in (1, 2, 3, 5, 25, 60):
        model.partial_fit(X[:i], Y[:i])
        assert np.isfinite(model.predict(X)).all()
    model = OSELMClassifier(random_state=0).partial_fit(X[:1], LABELS[:1], classes=[0, 1, 2])
    assert model.predict_proba(X).shape == (700, 3)


def test_fit_forgets_the_stream():
    model = streamed(OSELMRegressor(15, **GIVEN), Y, [100])
    assert (
        model.fit(X[:200], Y[:200]).predict(X) == OSELMRegressor(15, **GIVEN).fit(X[:200], Y[:200]).predict(X)
    ).all()
    elm = fixed.ELMRegressor(C=1.0, random_state=0).partial_fit(X, Y).fit(X[:99], Y[:99])
    assert not hasattr(elm, "stream_")


def test_sparse_rows_and_frames_stream_like_arrays():
    pd = pytest.importorskip("pandas")
    model = streamed(OSELMRegressor(15, **GIVEN), Y, [100] * 7)
    thin, frame = OSELMRegressor(15, **GIVEN), OSELMRegressor(15, **GIVEN)
    columns = pd.DataFrame(X, columns=["a", "b", "c"])
    for part in blocks(700, [100] * 7):
        thin.partial_fit(sparse.csr_matrix(X[part]), Y[part])
        frame.partial_fit(columns[part], Y[part])
    assert relative_error(thin.predict(X), model.predict(X)) <= 1e-9
    assert relative_error(frame.predict(columns), model.predict(X)) <= 1e-9
    with pytest.raises(ValueError, match="feature names"):
        frame.partial_fit(columns[["b", "a", "c"]], Y)


# Bad input


@pytest.mark.parametrize("make", [lambda: OSELMRegressor(10, **GIVEN), lambda: fixed.NKELMRegressor(C=1.0)])
@pytest.mark.parametrize("warm", [False, True])
def test_a_block_that_is_refused_leaves_the_model_as_it_was(make, warm):
    model = make().partial_fit(X[: 600 if warm else 30], Y[: 600 if warm else 30])
    before = model.predict(X)
    holed, y_holed = X[:20].copy(), Y[:20].copy()
    holed[7, 1], y_holed[3] = np.nan, np.inf
    for bad in ((X[:20, :2], Y[:20]), (holed, Y[:20]), (X[:20], y_holed), (X[:20], Y[:19])):
        with pytest.raises(ValueError):
            model.partial_fit(*bad)
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        model.partial_fit(X[:2], Y[:2], sample_weight=[1.0, -1.0])
    assert (model.predict(X) == before).all()


def test_a_label_that_was_not_announced_is_refused():
    model = OSELMClassifier(10, **GIVEN).partial_fit(X[:50], np.arange(50) % 2, classes=[0, 1])
    before = model.decision_function(X)
    with pytest.raises(ValueError, match="labels \\[2\\] are not among the known classes \\[0, 1\\]"):
        model.partial_fit(X[:3], [0, 2, 1])
    assert (model.decision_function(X) == before).all()
    assert (model.classes_ == [0, 1]).all()


@pytest.mark.parametrize("forgetting", [0.0, 1.5, -1, "much"])
def test_forgetting_out_of_range_is_refused(forgetting):
    with pytest.raises(ValueError, match="forgetting"):
        OSELMRegressor(10, forgetting=forgetting).partial_fit(X, Y)


def test_overflowing_rows_are_refused_with_their_new_class():
    model = OSELMClassifier(10, activation="relu", **GIVEN).partial_fit(X[:50], np.arange(50) % 2)
    with pytest.raises(ValueError, match="overflow"):
        model.partial_fit(np.full((1, 3), 1e308), [7])
    assert (model.classes_ == [0, 1]).all()
    model.partial_fit(X[:2], [0, 1])


# Robust updates


@pytest.mark.parametrize("loss", ["cubic", "quartic", "huber", "sqrt", "logcosh"])
def test_a_robust_loss_shrugs_off_outliers(loss):
    rng = np.random.RandomState(0)
    Xr = rng.uniform(-3, 3, (3000, 1))
    clean = np.sinc(Xr[:, 0])
    y = clean + 0.05 * rng.normal(size=3000)
    y[rng.permutation(3000)[:300]] += 20.0
    errors = []
    for name in (loss, "squared"):
        model = OSELMRegressor(40, slope=2.0, C=1e3, loss=name, random_state=0)
        for s in blocks(3000, [500] + [100] * 25):
            model.partial_fit(Xr[s], y[s])
        errors.append(np.sqrt(np.mean((model.predict(Xr) - clean) ** 2)))
    assert errors[0] < 0.25 * errors[1]


def test_weighted_updates_are_weighted_ridge():
    model = OSELMRegressor(15, loss="huber", loss_scale=0.5, **GIVEN).partial_fit(X[:1], Y[:1])
    H, w = model.map_.transform(X), [1.0]
    for i in range(1, 200):
        beta, _ = reference.ridge(H[:i], Y[:i], 100.0, np.array(w))
        w.append(min(1.0, 0.5 / abs(Y[i] - (H[i] @ beta)[0])))
        model.partial_fit(X[i : i + 1], Y[i : i + 1])
    beta, _ = reference.ridge(H[:200], Y[:200], 100.0, np.array(w))
    assert relative_error(model.predict(X), (H @ beta)[:, 0]) <= 1e-6


def test_losses_that_reweighting_cannot_lower_are_refused():
    with pytest.raises(ValueError, match=r"polynomial.*cannot be learned row by row"):
        OSELMRegressor(10, loss="polynomial").partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"polynomial.*cannot be learned row by row"):
        OSELMRegressor(10, loss="polynomial").fit(X, Y)
    model = OSELMRegressor(10, loss="huber", **GIVEN).partial_fit(X, Y)
    with pytest.raises(ValueError, match="unlearn needs loss='squared'"):
        model.unlearn(X[:1], Y[:1])

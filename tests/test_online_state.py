"""A stream goes on from where it stands, refuses bad blocks whole, and shrugs off outliers where told to."""

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse

import fixed
import reference
from data import relative_error
from streams import GIVEN, LABELS, ONLINE, X, Y, blocks, streamed
from ulmus import OSELMClassifier, OSELMRegressor

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


def test_a_refused_block_with_a_new_class_leaves_probabilities_as_they_were():
    Q, labels = X, LABELS
    model = OSELMClassifier(10, direct_links=True, C=1.0, random_state=0).fit(Q, labels)
    before = model.predict_proba(Q[:5])
    with pytest.raises(ValueError, match="overflow"):
        model.partial_fit(np.full((1, Q.shape[1]), 1e200), [9])
    np.testing.assert_array_equal(model.predict_proba(Q[:5]), before)
    assert len(model.floor_) == len(model.classes_)

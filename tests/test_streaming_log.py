"""Classifiers by the log loss, streamed: the minimum over all rows, by passes that hold nothing per row."""

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import log_loss

import ulmus
from data import cases
from test_log_models import scores, spots
from ulmus import distributed, streaming

N = 1500
X = spots(N, 3)[0]
Y = {2: spots(N, 2)[1], 3: spots(N, 3)[1]}
X2 = spots(N, 2)[0]
W = np.random.RandomState(1).randint(0, 4, N).astype(float)
#: Far fewer rows in the sample than in the source.
SMALL = {"batch_rows": 200, "sample_rows": 500}


def layer(**options):
    return ulmus.ELMClassifier(
        20, **{"slope": 1.0, "scale": 1.0, "C": 10.0, "loss": "log", "random_state": 0, **options}
    )


def kernel(**options):
    return ulmus.NKELMClassifier(20, **{"gamma": 0.3, "C": 10.0, "loss": "log", "random_state": 0, **options})


def rows(k):
    return (X2 if k == 2 else X), Y[k]


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("fit_intercept", cases([True, False], True))
@pytest.mark.parametrize("make", [layer, kernel], ids=["elm", "nkelm"])
def test_passes_over_all_rows_find_the_minimum_of_a_fit(make, k, fit_intercept):
    Z, y = rows(k)
    labels: list[str] = []
    model = make(fit_intercept=fit_intercept)
    streaming.fit(model, (Z, y, W), **SMALL, progress=lambda r: labels.append(r.label))
    more = {"landmarks": model.map_.landmarks_} if make is kernel else {}
    whole = make(fit_intercept=fit_intercept, **more).fit(Z, y, W)
    assert_allclose(scores(model, Z), scores(whole, Z), atol=1e-6)
    assert model.loss_ == "log"
    assert_allclose(model.class_prior_, np.bincount(y, W) / W.sum())
    assert 2 <= len({label for label in labels if label.startswith("newton")}) <= 30


def test_class_weights_of_a_stream_are_those_of_a_fit():
    model = streaming.fit(layer(class_weight="balanced"), (X, Y[3], W), **SMALL)
    whole = layer(class_weight="balanced").fit(X, Y[3], W)
    assert_allclose(scores(model, X), scores(whole, X), atol=1e-6)


@pytest.mark.parametrize("make", [layer, kernel], ids=["elm", "nkelm"])
def test_a_source_that_the_sample_holds_whole_gives_the_model_of_a_fit(make):
    model = streaming.fit(make(C="auto"), (X, Y[3]), batch_rows=200)
    whole = make(C="auto").fit(X, Y[3])
    assert model.C_ == whole.C_
    assert log_loss(Y[3], model.predict_proba(X)) == pytest.approx(log_loss(Y[3], whole.predict_proba(X)), rel=0.05)


def test_what_is_left_open_is_chosen_on_the_sample():
    model = streaming.fit(ulmus.NKELMClassifier(loss="log", random_state=0), (X, Y[3]), **SMALL)
    Q, z = spots(2000, 3, 1)
    best = min(log_loss(z, kernel(C=C).fit(X, Y[3]).predict_proba(Q)) for C in (1.0, 10.0, 100.0))
    assert log_loss(z, model.predict_proba(Q)) < 1.1 * best


def test_folds_calibrate_on_the_sample():
    model = streaming.fit(kernel(cv=4), (X, Y[3]), **SMALL)
    assert 400 <= len(model.left_out_.true) <= 500
    assert 0.1 < log_loss(Y[3], model.predict_proba(X)) < 0.6


@pytest.mark.parametrize("after", cases([3, 11, 20, 33], 3, 33))
def test_a_run_that_was_interrupted_ends_with_the_same_bits(tmp_path, after):
    def source():
        for start in range(0, N, 200):
            if source.left is not None:
                source.left -= 1
                if source.left < 0:
                    raise KeyboardInterrupt
            yield X[start : start + 200], Y[3][start : start + 200]

    source.left = None
    plain = streaming.fit(kernel(C="auto"), source, **SMALL)
    source.left = after
    with pytest.raises(KeyboardInterrupt):
        streaming.fit(kernel(C="auto"), source, **SMALL, checkpoint=tmp_path, checkpoint_seconds=0)
    source.left = None
    again = streaming.fit(kernel(C="auto"), source, **SMALL, checkpoint=tmp_path)
    assert_array_equal(again.decision_function(X), plain.decision_function(X))
    assert_array_equal(again.predict_proba(X), plain.predict_proba(X))


@pytest.mark.parametrize("make", [layer, kernel], ids=["elm", "nkelm"])
def test_partitions_of_a_cluster_give_the_same_model(make):
    Z, y, w = (da.from_array(a, chunks=(400, 3)[: a.ndim]) for a in (X, Y[3], W))
    model = distributed.fit(make(), Z, y, sample_weight=w, sample_rows=250)
    more = {"landmarks": model.map_.landmarks_} if make is kernel else {}
    assert_allclose(scores(model, X), scores(make(**more).fit(X, Y[3], W), X), atol=1e-6)


def test_what_cannot_be_streamed_is_refused_before_anything_is_read():
    def never():
        raise AssertionError("read")

    with pytest.raises(ValueError, match='set device="cpu"'):
        streaming.fit(kernel(device="cuda"), never)
    with pytest.raises(ValueError, match="need a penalty"):
        streaming.fit(layer(C=None), never)
    with pytest.raises(TypeError, match="needs all rows at once"):
        streaming.fit(ulmus.KELMClassifier(loss="log"), never)

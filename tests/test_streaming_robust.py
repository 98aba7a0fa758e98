"""Robust models of streams: the minimiser of all rows, found by passes that hold nothing per row."""

import dask.array as da
import numpy as np
import pytest

import ulmus
from data import regression, relative_error
from ulmus import distributed, streaming
from ulmus.losses import LOSSES
from ulmus.streaming.robust import Sweep

N = 1500
X, CLEAN = regression(N)
Y = CLEAN + np.where(np.arange(N) % 17 == 0, 30.0, 0.0)
TWO = np.column_stack([Y, -CLEAN])
W = np.random.RandomState(1).randint(0, 3, N).astype(float)


def layer(loss="huber", **options):
    scale = {LOSSES[loss].parameter: 1.0} if LOSSES[loss].parameter else {}
    common = {"slope": 1.0, "scale": 1.0, "C": 10.0, "tol": 1e-10, "random_state": 0}
    return ulmus.RobustELMRegressor(20, loss=loss, **{**common, **scale, **options})


def kernel(**options):
    return ulmus.RobustNKELMRegressor(20, gamma=0.5, tau=1.0, C=10.0, tol=1e-10, random_state=0, **options)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_small_sample_and_passes_over_all_rows_find_the_minimiser_of_a_fit(loss, fit_intercept):
    whole = layer(loss, fit_intercept=fit_intercept).fit(X, Y, W)
    model = layer(loss, fit_intercept=fit_intercept)
    labels = []
    streaming.fit(model, (X, Y, W), batch_rows=200, sample_rows=150, progress=lambda r: labels.append(r.label))
    assert model.converged_
    assert relative_error(model.predict(X), whole.predict(X)) <= 1e-8
    assert len({label for label in labels if label.startswith("newton")}) >= 2


def test_several_outputs_share_the_passes():
    model = streaming.fit(layer(), (X, TWO), batch_rows=200, sample_rows=150)
    assert relative_error(model.predict(X), layer().fit(X, TWO).predict(X)) <= 1e-8


def test_landmarks_of_the_sample_and_raw_sums_give_the_same_minimiser():
    model = streaming.fit(kernel(), (X, Y), batch_rows=200, sample_rows=200)
    whole = kernel(landmarks=model.map_.landmarks_).fit(X, Y)
    assert relative_error(model.predict(X), whole.predict(X)) <= 1e-8
    assert relative_error(model.predict(X, return_std=True)[1], whole.predict(X, return_std=True)[1]) <= 0.3


def test_a_model_that_chooses_everything_is_not_pulled_by_outliers():
    model = streaming.fit(ulmus.RobustNKELMRegressor(max_landmarks=50, random_state=0), (X, Y), sample_rows=600)
    assert np.mean((model.predict(X) - CLEAN) ** 2) < 0.05 * CLEAN.var()


def test_a_run_that_was_interrupted_ends_with_the_same_bits(tmp_path):
    expected = streaming.fit(kernel(), (X, Y), batch_rows=200, sample_rows=200)
    call, count = Sweep.__call__, []

    def stopping(self, batch):
        count.append(batch)
        if len(count) == 11:
            raise RuntimeError("stop")
        return call(self, batch)

    options = {"batch_rows": 200, "sample_rows": 200, "checkpoint": tmp_path, "checkpoint_seconds": 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sweep, "__call__", stopping)
        with pytest.raises(RuntimeError, match="stop"):
            streaming.fit(kernel(), (X, Y), **options)
    assert (tmp_path / "newton-1.npz").exists()
    again = streaming.fit(kernel(), (X, Y), **options)
    np.testing.assert_array_equal(again.beta_, expected.beta_)


def test_partitions_of_a_cluster_find_the_minimiser_too():
    rows, targets = da.from_array(X, chunks=(400, 3)), da.from_array(Y, chunks=400)
    model = distributed.fit(layer(), rows, targets, sample_rows=150)
    assert relative_error(model.predict(X), layer().fit(X, Y).predict(X)) <= 1e-8

"""Robust models of streams: the minimiser of all rows, found by passes that hold nothing per row."""

from dataclasses import replace

import dask.array as da
import numpy as np
import pytest

import ulmus
from data import cases, regression, relative_error
from ulmus import distributed, streaming
from ulmus.engine import Rows
from ulmus.losses import LOSSES
from ulmus.solvers.line_search import WolfePowell
from ulmus.solvers.newton import NewtonOptions, newton
from ulmus.solvers.newton_rows import HeldRows
from ulmus.streaming.robust_passes import Passes, Sweep

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
@pytest.mark.parametrize("fit_intercept", cases([True, False], True))
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


class InMemory:
    """A stream of two batches, reduced one after the other."""

    def reduce(self, name, accumulator, work):
        for piece in (slice(0, 900), slice(900, None)):
            accumulator.add(work(Rows(X[piece], TWO[piece], W[piece])))
        return accumulator


class AsTheyAre:
    def rows(self, batch):
        return batch


@pytest.mark.parametrize(
    "search",
    [
        WolfePowell(),
        WolfePowell(delta1=0.4, delta2=0.6),
        WolfePowell(delta2=0.15, beta=0.3, rho=0.3),
        WolfePowell(delta2=0.15, beta=3.0, rho=0.9, rho1=0.2),
    ],
)
def test_passes_take_the_steps_of_newtons_method_in_memory(search):
    model = layer().fit(X, TWO)
    rows = Rows(X, TWO, W)
    problem = replace(model._family.problems(model, model.map_, rows)[1], rows=rows)
    c, C = np.array([0.3, 0.1]), np.array([20.0, 5.0])
    options = NewtonOptions(1e-9, 60, search, 0.1, reuse=0.0)
    start = np.full((problem.features.n_features_out, 2), 3.0), np.array([5.0, -5.0])
    kept = newton(HeldRows.of(problem), LOSSES["sqrt"], c, C, *start, options)
    passed = newton(
        Passes(InMemory(), problem, AsTheyAre(), np.abs(TWO).max(axis=0)), LOSSES["sqrt"], c, C, *start, options
    )
    for one, other in zip(kept, passed, strict=True):
        assert one.converged
        assert other.converged
        assert (one.path.step_length != 1.0).any()
        np.testing.assert_allclose(other.path.step_length, one.path.step_length, rtol=1e-9)
        np.testing.assert_allclose(other.path.objective, one.path.objective, rtol=1e-9)
        np.testing.assert_allclose(other.beta, one.beta, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(other.curvature_sum, one.curvature_sum, rtol=1e-8)


def test_the_parameters_of_the_search_reach_a_stream():
    def fitted(**options):
        model = layer("sqrt", tau=1e-3, max_iter=200, **options)
        return streaming.fit(model, (X, Y), batch_rows=200, sample_rows=60)

    plain = fitted().path_.step_length
    for options in ({"delta1": 0.45}, {"rho": 0.8}, {"beta": 0.3}):
        assert not np.array_equal(fitted(**options).path_.step_length, plain), options
    with pytest.raises(ValueError, match="delta2 must lie between"):
        fitted(delta1=0.3, delta2=0.2)

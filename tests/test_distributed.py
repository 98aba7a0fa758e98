"""A model fitted on a cluster is the model of all rows; lost workers and empty partitions change nothing."""

import os
import pickle
import signal
import time

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fixed
import ulmus
from data import cases, classification, regression, relative_error
from ulmus import distributed, streaming
from ulmus.distributed import Partitions, Task
from ulmus.streaming import Steps
from ulmus.streaming.sums import Encoder, SummaryAccumulator
from ulmus.streaming.survey import Survey

N = 900
X, Y = regression(N)
TWO = np.column_stack([Y, 3 - Y**2])
LABELS = np.array(["red", "green", "blue"])[classification(N)[1]]
RANKS, ORDER = classification(N)[1], ["red", "green", "blue"]
W = np.random.RandomState(1).randint(0, 4, N).astype(float)

MODELS = {
    "ELM": (lambda: fixed.ELMRegressor(C=100.0, random_state=0), Y, W),
    "ELM, two outputs": (lambda: fixed.ELMRegressor(C=100.0, fit_intercept=True, random_state=0), TWO, None),
    "ELM, triangular": (lambda: fixed.ELMRegressor(10, C=None, random_state=0), Y, None),
    "ELM, classes": (lambda: fixed.ELMClassifier(C=100.0, class_weight="balanced", random_state=0), LABELS, W),
    "NKELM": (lambda: fixed.NKELMRegressor(C=100.0, fit_intercept=True, random_state=0), Y, None),
    "NKELM, classes": (lambda: fixed.NKELMClassifier(C=100.0, random_state=0), LABELS, W),
    "OSELM": (lambda: ulmus.OSELMRegressor(20, C=100.0, slope=1.0, random_state=0), Y, W),
    "OSELM, information": (
        lambda: ulmus.OSELMRegressor(20, C=10.0, slope=1.0, form="information", random_state=0),
        Y,
        None,
    ),
    "OSELM, classes": (lambda: ulmus.OSELMClassifier(20, C=100.0, slope=1.0, random_state=0), LABELS, W),
    "ELM, ordered": (lambda: ulmus.ELMOrdinalClassifier(20, C=100.0, slope=1.0, random_state=0), RANKS, W),
    "NKELM, ordered": (
        lambda: ulmus.NKELMOrdinalClassifier(20, C=10.0, gamma=1.0, categories=ORDER, random_state=0),
        LABELS,
        W,
    ),
    "OSELM, ordered": (
        lambda: ulmus.OSELMOrdinalClassifier(20, C=10.0, slope=1.0, categories=ORDER, random_state=0),
        LABELS,
        None,
    ),
    "NKELM, open": (lambda: ulmus.NKELMRegressor(max_landmarks=20, cv=3, random_state=0), Y, None),
}


@pytest.fixture(scope="module")
def client():
    """Two worker processes; nobody has them unless they are named."""
    from distributed import Client, LocalCluster

    with (
        # After this time the cluster looks for a worker that it lost and, finding none of its name, gives its place up
        # for good. After the default, 15 s, another test may just have killed the one that took this place.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"}),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def chunked(sizes):
    """Consecutive chunks; 0 makes an empty one."""
    ends = np.minimum(np.cumsum(sizes), N) if sizes else np.array([], int)
    return tuple(int(k) for k in np.diff([0, *ends, N]))


def as_dask(y, weight, chunks):
    parts = (da.from_array(a, chunks=(chunks, *a.shape[1:])) for a in (X, y))
    return (*parts, None if weight is None else da.from_array(weight, chunks=100))


@pytest.mark.parametrize("name", cases(MODELS, *list(MODELS)[1::2]))
@settings(max_examples=3)
@given(sizes=st.lists(st.integers(0, 400), max_size=12))
def test_a_distributed_model_is_the_fitted_one_for_any_partitions(name, sizes):
    make, y, weight = MODELS[name]
    dask_X, dask_y, dask_w = as_dask(y, weight, chunked(sizes))
    model = distributed.fit(make(), dask_X, dask_y, sample_weight=dask_w)
    whole = make().fit(X, y, weight) if "open" not in name else model
    assert relative_error(model._scores_of(X), whole._scores_of(X)) <= 1e-10
    if hasattr(whole, "classes_"):
        assert model.classes_.tolist() == whole.classes_.tolist()


@pytest.mark.parametrize("features", ["random", "nystrom"])
@settings(max_examples=3)
@given(sizes=st.lists(st.integers(0, 400), max_size=8))
def test_a_distributed_discriminant_is_the_fitted_one_for_any_partitions(features, sizes):
    def make():
        return ulmus.ENDA(20, features=features, C=10.0, slope=1.0, gamma=1.0, random_state=0)

    dask_X, dask_y, dask_w = as_dask(LABELS, W, chunked(sizes))
    model = distributed.fit(make(), dask_X, dask_y, sample_weight=dask_w)
    assert relative_error(model.transform(X), make().fit(X, LABELS, W).transform(X)) <= 1e-10


def test_a_small_sample_fixes_the_map_and_all_rows_the_weights():
    model = distributed.fit(
        fixed.NKELMRegressor(C=10.0, random_state=0), *as_dask(Y, None, chunked([300, 50]))[:2], sample_rows=100
    )
    whole = fixed.NKELMRegressor(C=10.0, landmarks=model.map_.landmarks_).fit(X, Y)
    assert relative_error(model.predict(X), whole.predict(X)) <= 1e-10


def test_dataframes_keep_their_names_and_index():
    table = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(N)[::-1] * 10)
    frame = dd.from_pandas(table, npartitions=4, sort=False)
    series = dd.from_pandas(pd.Series(Y, index=table.index), npartitions=4, sort=False)
    reports = []
    model = distributed.fit(fixed.ELMRegressor(C=10.0, random_state=0), frame, series, progress=reports.append)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    whole = fixed.ELMRegressor(C=10.0, random_state=0).fit(table, Y)
    assert {(r.label, r.unit) for r in reports} == {("survey", "partitions"), ("sums", "partitions")}  # lengths unknown
    assert "4 of 4 partitions" in str(reports[-1])
    predicted = distributed.predict(model, frame)
    assert isinstance(predicted, dd.Series)
    assert relative_error(predicted.compute(), whole.predict(table)) <= 1e-10
    assert (predicted.compute().index == table.index).all()


def test_columns_of_one_parquet_dataset_are_inputs_and_targets(tmp_path):
    """Dask joins partitions when few of many columns are read, other ones for the targets than for the inputs."""
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(**{f"unused {k}": 0.0 for k in range(30)}, y=Y, w=W)
    dd.from_pandas(table, npartitions=10, sort=False).to_parquet(tmp_path)
    frame = dd.read_parquet(tmp_path)
    names = ["a", "b", "c"]
    fused = frame["y"].optimize().npartitions
    assert fused < frame["y"].npartitions == frame[names].npartitions == 10
    model = fixed.ELMRegressor(C=10.0, random_state=0)
    distributed.fit(model, frame[names], frame["y"], sample_weight=frame["w"])
    whole = fixed.ELMRegressor(C=10.0, random_state=0).fit(X, Y, W)
    assert relative_error(model.predict(X), whole.predict(X)) <= 1e-10
    shifted = frame.assign(y=frame["y"] + 1.0)
    kept = shifted[shifted["a"] > 0]
    distributed.fit(model, kept[names], kept["y"])
    whole.fit(X[X[:, 0] > 0], Y[X[:, 0] > 0] + 1.0)
    assert relative_error(model.predict(X), whole.predict(X)) <= 1e-10


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_predictions_are_lazy_and_those_of_the_model(method):
    model = fixed.ELMClassifier(C=10.0, random_state=0).fit(X, LABELS)
    lazy = distributed.predict(model, da.from_array(X, chunks=(200, 2)), method=method)
    assert isinstance(lazy, da.Array)
    expected = getattr(model, method)(X)
    assert lazy.shape == expected.shape
    if method == "predict":
        assert (lazy.compute() == expected).all()
    else:
        assert relative_error(lazy.compute(), expected) <= 1e-12


def graph_of(monkeypatch, model, *collections):
    """The graph of the last pass, caught on its way to the scheduler."""
    graphs = []
    compute = Partitions._compute

    def catch(self, name, leaves, root):
        graphs.append((name, len(dict(root.__dask_graph__())), len(leaves)))
        return compute(self, name, leaves, root)

    monkeypatch.setattr(Partitions, "_compute", catch)
    distributed.fit(model, *collections)
    return graphs


def test_the_graph_is_one_task_per_partition_and_a_merge_for_every_eight(monkeypatch):
    count = 64
    rows = da.from_array(np.tile(X, (2, 1))[: count * 20], chunks=(20, 3))
    targets = da.from_array(np.tile(Y, 2)[: count * 20], chunks=20)
    with dask.config.set({"optimization.fuse.active": False}):
        own = len(dict(rows.__dask_graph__())) + len(dict(targets.__dask_graph__()))
        for _, tasks, leaves in graph_of(monkeypatch, fixed.ELMRegressor(C=1.0, random_state=0), rows, targets):
            assert leaves == count
            assert tasks - own <= count + count // 7 + 2  # partitions, merges, the task itself


def test_few_rows_of_the_sample_leave_their_worker():
    sent = []
    run = Task.run

    def measured(self, *args):
        found = run(self, *args)
        if isinstance(self.accumulator, Survey):
            sent.append(len(found[0]["keys"]))
        return found

    with pytest.MonkeyPatch.context() as patch, dask.config.set(scheduler="synchronous"):
        patch.setattr(Task, "run", measured)
        distributed.fit(fixed.ELMRegressor(C=1.0, random_state=0), *as_dask(Y, None, (100,) * 9)[:2], sample_rows=90)
    assert len(sent) == 9
    assert 90 <= sum(sent) <= 150


def repeated(distinct, n=6000):
    """Rows of which only so many are distinct, and their targets."""
    rng = np.random.RandomState(distinct)
    which = rng.randint(distinct, size=n)
    rows = rng.normal(size=(distinct, 3))[which]
    return rows, np.sin(rows[:, 0]) + rows[:, 1]


@pytest.mark.parametrize("distinct", cases([1, 2, 16, 90, 100, 130, 700], 1, 90, 130))
def test_repeated_rows_give_the_sample_that_they_give_in_a_stream(distinct):
    """Fewer keys than rows: the share of keys that is looked at must not be counted by rows."""
    rows, y = repeated(distinct)
    for seed in range(3):
        surveys = []

        def keep(survey, kept=surveys):
            kept.append(survey)
            return settle(survey)

        settle = Survey.merge_pending
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Survey, "merge_pending", keep)
            model = fixed.NKELMRegressor(10, C=1e3, random_state=seed)
            streaming.fit(model, (rows, y), sample_rows=100)
            streamed, _ = surveys[-1], surveys.clear()
            far = fixed.NKELMRegressor(10, C=1e3, random_state=seed)
            distributed.fit(far, da.from_array(rows, chunks=(500, 3)), da.from_array(y, chunks=500), sample_rows=100)
        found = surveys[-1]
        assert len(found.keys) == min(distinct, 100)
        for name in ("keys", "X", "y", "mass", "unit"):
            np.testing.assert_array_equal(getattr(found, name), getattr(streamed, name))
        assert found.whole == streamed.whole
        assert relative_error(far.predict(rows[:50]), model.predict(rows[:50])) <= 1e-9


@pytest.mark.parametrize("name", ["ELM", "ELM, two outputs", "NKELM", "NKELM, classes", "ELM, ordered", "NKELM, open"])
def test_a_partition_or_batch_without_a_row_of_positive_weight_adds_nothing(name):
    make, y, _ = MODELS[name]
    weight = W.copy()
    weight[100:300] = 0.0
    dask_X, dask_y, dask_w = as_dask(y, weight, (100,) * 9)
    far = distributed.fit(make(), dask_X, dask_y, sample_weight=dask_w)
    near = streaming.fit(make(), (X, y, weight), batch_rows=100)
    seen = np.r_[:100, 300:N]
    whole = streaming.fit(make(), (X[seen], y[seen], weight[seen]), batch_rows=100)
    for model in (far, near):
        assert relative_error(model._scores_of(X), whole._scores_of(X)) <= 1e-9


def test_errors_of_a_partition_name_it():
    bad = X.copy()
    bad[250, 1] = np.nan
    with pytest.raises(ValueError, match=r"partition 2: row 50 .* missing"):
        distributed.fit(fixed.ELMRegressor(C=1.0), da.from_array(bad, chunks=(100, 3)), da.from_array(Y, chunks=100))


def test_processes_give_the_bits_of_threads_and_a_local_model(client):
    dask_X, dask_y, dask_w = as_dask(LABELS, W, (100,) * 9)
    reports = []
    make = MODELS["NKELM, classes"][0]
    far = distributed.fit(make(), dask_X, dask_y, sample_weight=dask_w, client=client, progress=reports.append)
    with dask.config.set(scheduler="threads"):
        near = distributed.fit(make(), dask_X, dask_y, sample_weight=dask_w)
    np.testing.assert_array_equal(far.beta_, near.beta_)
    with client.as_current():
        assert distributed._current_client() is client
    assert {r.label for r in reports} == {"survey", "sums"}
    assert all(r.total == N and 0 < r.rows <= N for r in reports)
    again = pickle.loads(pickle.dumps(far))
    np.testing.assert_array_equal(again.predict(X), far.predict(X))
    lazy = distributed.predict(far, dask_X)
    assert (lazy.compute() == far.predict(X)).all()


def test_threads_give_the_bits_of_processes_to_adaptive_models(client, monkeypatch):
    """Here, because a cluster takes longer to start than the fit."""
    from test_distributed_adaptive import few_rows_in_cells, fit_far
    from test_streaming_adaptive import scores

    few_rows_in_cells(monkeypatch)
    far = fit_far("weights", client=client, sample_rows=500)
    with dask.config.set(scheduler="threads"):
        near = fit_far("weights", sample_rows=500)
    np.testing.assert_array_equal(scores(far), scores(near))


def slow(block):
    """A partition that takes a while to make."""
    time.sleep(0.15)
    return block


def test_a_worker_that_is_killed_in_mid_fit_changes_nothing(client):
    dask_X, dask_y, _ = as_dask(Y, None, (60,) * 15)
    make = MODELS["NKELM"][0]
    expected = distributed.fit(make(), dask_X, dask_y, client=client)
    victim = next(iter(client.run(os.getpid).values()))
    killed = []

    def kill(report):
        if "sums" in report.label and report.rows >= 120 and not killed:
            killed.append(victim)
            os.kill(victim, signal.SIGKILL)

    model = distributed.fit(make(), dask_X.map_blocks(slow), dask_y, client=client, progress=kill)
    assert killed
    np.testing.assert_array_equal(model.beta_, expected.beta_)
    client.wait_for_workers(2, timeout=30)
    assert victim not in client.run(os.getpid).values()


def test_what_a_partition_sends_is_a_matrix_of_the_order_of_its_features():
    L = 200
    model = fixed.NKELMRegressor(L, C=10.0, gamma=5.0, random_state=0)
    steps = Steps(model)
    steps.begin(steps.read(X, Y))
    task = Task(SummaryAccumulator(steps, Encoder(), 1, None), None)
    task = Task(task.accumulator, task.accumulator.work)
    sent = len(pickle.dumps(task.run(0, X, Y, None), protocol=5))
    assert sent == pytest.approx(8 * (steps.plan.features.n_features_out + 2) ** 2, rel=0.01)
    merged = task.merge([task.run(0, X[:400], Y[:400], None), task.run(1, X[400:], Y[400:], None)])
    assert relative_error(merged[0]["moments"], task.run(0, X, Y, None)[0]["moments"]) <= 1e-13


@pytest.mark.parametrize(
    ("given_X", "given_y", "message"),
    [
        (X, Y, "X must be a dask array or dataframe, got ndarray"),
        (da.from_array(X, chunks=(100, 3)), Y, "must be dask collections"),
        (da.from_array(Y, chunks=100), da.from_array(Y, chunks=100), "two dimensions"),
    ],
)
def test_what_is_no_collection_is_refused(given_X, given_y, message):
    with pytest.raises((TypeError, ValueError), match=message):
        distributed.fit(fixed.ELMRegressor(C=1.0), given_X, given_y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "iterative"}, r'solver="iterative" of NKELMRegressor.*Set solver="auto" or "direct"'),
        ({"device": "cuda"}, r'sum on their CPUs, got device="cuda"; .* streaming\.fit'),
    ],
)
def test_what_workers_would_ignore_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        distributed.fit(ulmus.NKELMRegressor(20, **options), *as_dask(Y, None, (300,) * 3)[:2])

"""Streams that are summed on a device: the model of the CPU, resumed to the last bit, from any task's tensors."""

import numpy as np
import pytest
from scipy import sparse

import fixed
import ulmus
from data import classification, regression, relative_error
from gpu import DEVICE, accelerator, torch
from ulmus import engine, streaming
from ulmus.devices.accelerator import Accelerator
from ulmus.devices.feature_maps import map_on
from ulmus.devices.statistics import DeviceSums
from ulmus.devices.tensors import Lanes
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, KernelParameters
from ulmus.streaming import device as passes

N = 700
X, Y = regression(N)
LABELS = classification(N)[1]
W = np.random.RandomState(1).randint(0, 4, N).astype(float)
SIZES = {"NKELM": {"n_landmarks": 25, "gamma": 0.5}, "ELM": {"n_hidden": 20, "slope": 1.0}, "KELM": {"gamma": 0.5}}
TARGETS = {"Regressor": Y, "Classifier": LABELS, "OrdinalClassifier": LABELS}


@pytest.fixture(autouse=True)
def _without_tiles(monkeypatch):
    """Triton's tiles have tests of their own, and are slow in the interpreter."""
    if DEVICE != "cuda":
        monkeypatch.setattr(Accelerator, "fuses", False)


def make(family, task, **given):
    return getattr(ulmus, family + task)(**{**SIZES[family], "C": 10.0, "random_state": 0, **given})


def outputs(model):
    return model._scores_of(X)


@pytest.mark.parametrize("task", TARGETS)
@pytest.mark.parametrize("family", ["NKELM", "ELM"])
@pytest.mark.parametrize("batch_rows", [64, 333, 1000])
def test_a_stream_summed_on_a_device_gives_the_model_of_the_cpu(family, task, batch_rows):
    y = TARGETS[task]
    there = streaming.fit(make(family, task, device=DEVICE), (X, y, W), batch_rows=batch_rows)
    assert there.route_ == f"gram float64 {DEVICE}"
    here = make(family, task).fit(X, y, W)
    assert relative_error(outputs(there), outputs(here)) < 1e-10
    if task == "Regressor":
        assert relative_error(there.predict_interval(X), here.predict_interval(X)) < 1e-8
    else:
        np.testing.assert_allclose(there.predict_proba(X), here.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("cv", [None, 3])
@pytest.mark.parametrize("family", ["NKELM", "ELM"])
def test_C_and_size_are_chosen_from_sums_on_the_device_as_from_those_of_the_cpu(family, cv):
    name = {"NKELM": "max_landmarks", "ELM": "max_hidden"}[family]
    given = {"n_landmarks" if family == "NKELM" else "n_hidden": "auto", name: 30, "C": "auto", "cv": cv}
    there, here = (
        streaming.fit(make(family, "Regressor", device=device, **given), (X, Y, W), batch_rows=100, sample_rows=150)
        for device in (DEVICE, "cpu")
    )
    assert (there.C_, there.map_.n_features_out) == (here.C_, here.map_.n_features_out)
    assert relative_error(there.predict(X), here.predict(X)) < 1e-7
    assert relative_error(there.predict_interval(X), here.predict_interval(X)) < 1e-6


@pytest.mark.parametrize("kind", ["csr", "float32"])
def test_sparse_and_float32_batches_are_summed_in_double(kind):
    given = sparse.csr_array(X) if kind == "csr" else X.astype(np.float32)
    there = streaming.fit(make("NKELM", "Regressor", device=DEVICE), (given, Y), batch_rows=90)
    here = make("NKELM", "Regressor").fit(X if kind == "csr" else given.astype(np.float64), Y)
    assert relative_error(there.predict(X), here.predict(X)) < 1e-10


@pytest.mark.parametrize(("C", "wanted"), [(1e8, "correction-1"), (1e12, "triangular")])
def test_digits_that_sums_on_the_device_lose_are_won_back_by_more_passes(C, wanted):
    one, labels = X[:, :1], []
    given = {"n_hidden": 15, "C": C, "random_state": 0}
    there = fixed.ELMRegressor(device=DEVICE, **given)
    streaming.fit(there, (one, Y), batch_rows=100, progress=lambda report: labels.append(report.label))
    assert wanted in labels
    assert relative_error(there.predict(one), fixed.ELMRegressor(**given).fit(one, Y).predict(one)) < 1e-9


@pytest.mark.parametrize("stage", ["sums", "correction"])
@pytest.mark.parametrize("stop", [1, 4, 7])
def test_a_fit_that_is_interrupted_resumes_to_the_last_bit(tmp_path, monkeypatch, stage, stop):
    """The fit dies in the middle of a pass; what was saved brings the sums back to the device."""
    given = {"n_hidden": 15, "C": 1e8, "random_state": 0, "device": DEVICE, "cv": 2}
    source = (X[:, :1], Y, W)

    def run(folder):
        return streaming.fit(fixed.ELMRegressor(**given), source, batch_rows=80, checkpoint=folder, checkpoint_rows=80)

    whole = run(tmp_path / "whole")
    kind = passes.DeviceSummaryAccumulator if stage == "sums" else passes.DeviceGradientAccumulator
    add, seen = kind.add, []

    def interrupted(self, part):
        seen.append(1)
        if len(seen) == stop:
            raise KeyboardInterrupt
        add(self, part)

    monkeypatch.setattr(kind, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "killed")
    monkeypatch.setattr(kind, "add", add)
    resumed = run(tmp_path / "killed")
    np.testing.assert_array_equal(resumed.beta_, whole.beta_)
    np.testing.assert_array_equal(resumed.predict_interval(X[:, :1]), whole.predict_interval(X[:, :1]))


def test_a_model_of_landmarks_resumes_too(tmp_path, monkeypatch):
    def run(folder):
        model = make("NKELM", "Classifier", device=DEVICE, C="auto", n_landmarks="auto", max_landmarks=40)
        return streaming.fit(model, (X, LABELS), batch_rows=64, sample_rows=200, checkpoint=folder, checkpoint_rows=64)

    whole, summary = run(tmp_path / "whole"), passes.DeviceSummaryAccumulator.summary
    monkeypatch.setattr(passes.DeviceSummaryAccumulator, "summary", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(tmp_path / "killed")
    monkeypatch.setattr(passes.DeviceSummaryAccumulator, "summary", summary)
    monkeypatch.setattr(
        type(ulmus.NKELMClassifier._family), "begin", lambda *_, **__: pytest.fail("the map is in the checkpoint")
    )
    resumed = run(tmp_path / "killed")
    np.testing.assert_array_equal(resumed.beta_, whole.beta_)
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))


def test_sums_that_are_dumped_and_restored_go_on_as_if_nothing_had_happened():
    cross, a = CrossKernel("rbf", X[:20].copy(), KernelParameters(0.3)), accelerator()

    def sums():
        return DeviceSums(a, map_on(a, cross), 20, 1)

    straight, first, second = sums(), sums(), sums()
    for k, part in enumerate(engine.pieces(N, 100)):
        rows = Rows(X[part], Y[part, None])
        straight.add(rows)
        (first if k < 3 else second).add(rows)
        if k == 2:
            second.restore(first.dump(), first.n_rows)
    assert second.n_rows == N
    np.testing.assert_array_equal(second.statistics().to_host().moments, straight.statistics().to_host().moments)


def test_blocks_of_any_length_arrive_in_order_through_two_buffers():
    lanes, waiting, arrived = Lanes(accelerator()), None, []
    blocks = [X[:3], X[3:200], X[200:201], X[201:203].astype(np.float32), X[203:]]
    for block in blocks:
        coming = lanes.send(block)
        if waiting is not None:
            arrived.append(waiting.take())
        waiting = coming
    arrived.append(waiting.take())
    for block, there in zip(blocks, arrived, strict=True):
        assert there.device.type == accelerator().device.type
        np.testing.assert_array_equal(there.cpu().numpy(), block)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_parquet_files_are_summed_on_the_device(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").table
    for k, part in enumerate([slice(0, 300), slice(300, 300), slice(300, N)]):
        columns = {**dict(zip("abc", X[part].T, strict=True)), "y": Y[part]}
        parquet.write_table(table(columns), tmp_path / f"{k}.parquet")
    labels = []
    there = streaming.fit(
        make("NKELM", "Regressor", device=DEVICE),
        tmp_path,
        target="y",
        batch_rows=128,
        progress=lambda report: labels.append(report.label),
    )
    assert f"sums-{DEVICE}" in labels
    assert there.feature_names_in_.tolist() == ["a", "b", "c"]
    assert relative_error(outputs(there), outputs(make("NKELM", "Regressor").fit(X, Y))) < 1e-10
    assert "_decompose" not in vars(there.map_)
    assert "_decompose" not in vars(there.map_)


def test_too_little_memory_for_the_sums_of_a_stream_is_said_before_they_are_allocated(monkeypatch):
    monkeypatch.setattr(Accelerator, "free_bytes", lambda self: 2**20)
    monkeypatch.setattr("ulmus.devices.direct.direct_bytes", lambda *_: 0)
    with pytest.raises(MemoryError, match=r"a stream summed for 25 features and 4 folds needs .* take fewer"):
        streaming.fit(make("NKELM", "Regressor", device=DEVICE, cv=4), (X, Y))


def test_auto_streams_on_the_cpu_where_the_fit_is_small_or_there_is_no_gpu():
    streamed = streaming.fit(make("NKELM", "Regressor", device="auto"), (X, Y))
    assert streamed.route_ == streaming.fit(make("NKELM", "Regressor"), (X, Y)).route_


# Tensors, of every task


@pytest.mark.parametrize("task", TARGETS)
@pytest.mark.parametrize("family", SIZES)
def test_tensors_are_fitted_as_their_arrays(family, task):
    y = TARGETS[task]
    arrays = make(family, task).fit(X, y, W + 1)
    given = torch.from_numpy(X), torch.from_numpy(y), torch.from_numpy(W + 1)
    model = make(family, task).fit(*given)
    np.testing.assert_array_equal(model.predict(given[0]), arrays.predict(X))
    there = make(family, task, device=DEVICE).fit(*(a.to(accelerator().device) for a in given))
    assert relative_error(outputs(there), outputs(arrays)) < 1e-8
    score = there.score(given[0].to(accelerator().device), y)
    assert score == pytest.approx(arrays.score(X, y), abs=1e-6)


@pytest.mark.parametrize("family", SIZES)
def test_ordered_bits_by_the_logistic_loss_accept_a_device(family):
    here, there = (
        make(family, "OrdinalClassifier", loss="logistic", device=device).fit(X[:150], LABELS[:150])
        for device in ("cpu", DEVICE)
    )
    assert relative_error(outputs(there), outputs(here)) < 1e-5

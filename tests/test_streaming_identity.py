"""A checkpoint goes on with the rows, the order, the transformer and the parameters that it was begun with, or not."""

import os
import signal
import threading
import time
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.random_projection import GaussianRandomProjection

import ulmus
from data import cases
from ulmus import streaming
from ulmus.streaming import CheckpointError, SourceError
from ulmus.streaming.journal import Journal, Saved
from ulmus.streaming.sums import SummaryAccumulator

rng = np.random.RandomState(0)
X = rng.normal(size=(1200, 3))
Y = X[:, 0] + 10.0 * (np.arange(1200) // 300)


def model(**options):
    return ulmus.ELMRegressor(10, C=100.0, slope=1.0, fit_intercept=True, random_state=0, n_jobs=1, **options)


def fitted(source, checkpoint=None, make=model, **options):
    options = {"batch_rows": 100, "checkpoint_rows": 100, "progress": False, **options}
    return streaming.fit(make(), source, checkpoint=checkpoint, **options)


def broken_off(source, folder, after=5, **options):
    """A fit that ends in the middle of its sums."""
    add, count = SummaryAccumulator.add, [0]

    def dying(self, part):
        count[0] += 1
        if count[0] > after:
            raise MemoryError
        add(self, part)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SummaryAccumulator, "add", dying)
        with pytest.raises(MemoryError):
            fitted(source, folder, **options)


@pytest.fixture
def files(tmp_path):
    paths = []
    for k in range(4):
        rows = slice(300 * k, 300 * k + 300)
        paths.append(str(tmp_path / f"{k}.parquet"))
        pd.DataFrame(X[rows], columns=list("abc")).assign(y=Y[rows]).to_parquet(paths[-1])
    return paths


def test_files_in_another_order_are_another_source(files, tmp_path):
    broken_off(files, tmp_path / "state", target="y")
    with pytest.raises(CheckpointError, match=r"belongs to another run: source order was"):
        fitted(files[::-1], tmp_path / "state", target="y")
    again = fitted(files, tmp_path / "state", target="y")
    np.testing.assert_array_equal(again.beta_, fitted(files, target="y").beta_)


def test_a_file_with_other_content_and_the_same_size_and_date_is_another_file(files, tmp_path):
    broken_off(files, tmp_path / "state", target="y")
    stat = os.stat(files[1])
    whole = bytearray(Path(files[1]).read_bytes())
    other = whole.copy()
    other[len(other) // 2] ^= 1
    with open(files[1], "wb") as file:
        file.write(other)
    os.utime(files[1], ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(CheckpointError, match=r"1\.parquet was"):
        fitted(files, tmp_path / "state", target="y")


def test_a_table_in_memory_is_known_by_its_rows(tmp_path):
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "y": Y})
    broken_off(pads.dataset(table), tmp_path / "state", target="y")
    other = table.set_column(2, "y", pa.array(np.where(np.arange(1200) == 777, 0.0, Y)))
    with pytest.raises(CheckpointError, match="fragment 0 was"):
        fitted(pads.dataset(other), tmp_path / "state", target="y")
    fitted(pads.dataset(table), tmp_path / "state", target="y")


def test_one_number_of_an_array_in_memory_makes_another_array(tmp_path):
    rows = np.repeat(X, 3, axis=0)  # more than are probed
    y = np.repeat(Y, 3)
    broken_off((rows, y), tmp_path / "state")
    other = rows.copy()
    other[1234, 1] += 1.0
    with pytest.raises(CheckpointError, match="source X crc was"):
        fitted((other, y), tmp_path / "state")
    np.testing.assert_array_equal(fitted((rows, y), tmp_path / "state").beta_, fitted((rows, y)).beta_)


def frame(rows):
    return pd.DataFrame(rows, columns=list("abc"))


def test_a_transformer_with_another_fitted_state_is_another_transformer(files, tmp_path):
    first, second = StandardScaler().fit(frame(X)), StandardScaler().fit(frame(7 * X + 3))
    broken_off(files, tmp_path / "state", target="y", preprocess=first)
    with pytest.raises(CheckpointError, match="preprocess was"):
        fitted(files, tmp_path / "state", target="y", preprocess=second)
    again = fitted(files, tmp_path / "state", target="y", preprocess=StandardScaler().fit(frame(X)))
    whole = fitted(files, target="y", preprocess=first)
    np.testing.assert_array_equal(again[-1].beta_, whole[-1].beta_)


def test_functions_inside_parameters_and_transformers_are_distinguished_by_their_code(files, tmp_path):
    broken_off(files, tmp_path / "state", target="y", preprocess=FunctionTransformer(lambda A: A * 2.0))
    with pytest.raises(CheckpointError, match="preprocess was"):
        fitted(files, tmp_path / "state", target="y", preprocess=FunctionTransformer(lambda A: A * 3.0))

    def kernel_model(power):
        return lambda: ulmus.NKELMRegressor(
            10, kernel=lambda A, B: (A @ B.T + 1.0) ** power, C=1.0, random_state=0, n_jobs=1
        )

    broken_off((X, Y), tmp_path / "other", make=kernel_model(2))
    with pytest.raises(CheckpointError, match="parameters kernel was"):
        fitted((X, Y), tmp_path / "other", make=kernel_model(3))
    fitted((X, Y), tmp_path / "other", make=kernel_model(2))


def test_a_transformer_that_is_fitted_anew_and_differently_is_refused(files, tmp_path):
    loose, fixed = GaussianRandomProjection(2), GaussianRandomProjection(2, random_state=0)
    broken_off(files, tmp_path / "loose", target="y", preprocess=loose)
    with pytest.raises(CheckpointError, match=r"fitted again, is not the one .* give it a random_state"):
        fitted(files, tmp_path / "loose", target="y", preprocess=loose)
    broken_off(files, tmp_path / "fixed", target="y", preprocess=fixed)
    again = fitted(files, tmp_path / "fixed", target="y", preprocess=fixed)
    np.testing.assert_array_equal(again[-1].beta_, fitted(files, target="y", preprocess=fixed)[-1].beta_)


@pytest.mark.parametrize("kind", [ulmus.ELMRegressor, ulmus.NKELMRegressor, ulmus.RobustELMRegressor])
def test_a_model_without_a_seed_has_one_map_through_all_passes_of_a_checkpoint(kind, tmp_path):
    def make():
        return kind(8, C=10.0, n_jobs=1)

    first = fitted((X, Y), tmp_path, make=make)
    last = sorted(tmp_path.glob("[ns]*.npz"), key=lambda path: path.stat().st_mtime_ns)[-1]
    last.unlink()  # the last pass is done again
    again = fitted((X, Y), tmp_path, make=make)
    np.testing.assert_array_equal(again.beta_, first.beta_)
    np.testing.assert_array_equal(again.map_.transform(X[:3]), first.map_.transform(X[:3]))


class Locked(StandardScaler):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


def test_what_cannot_be_compared_is_refused_with_a_checkpoint_and_used_without(files, tmp_path):
    transformer = Locked().fit(frame(X))
    with pytest.raises(CheckpointError, match="has to tell this preprocess from another one, and cannot"):
        fitted(files, tmp_path / "state", target="y", preprocess=transformer)
    fitted(files, target="y", preprocess=transformer)


def batches_of(y, last=0.0):
    """A function whose first batches are always the same."""

    def begin():
        for k in range(4):
            rows = slice(300 * k, 300 * k + 300)
            yield X[rows], y[rows] + (last if k == 3 else 0.0)

    return begin


@pytest.mark.parametrize("shift", [batches_of(Y + 1.0), batches_of(Y, last=1.0)])
@pytest.mark.parametrize("after", [0, 5, 11, None])
def test_a_function_that_yields_other_rows_is_refused_wherever_the_run_ended(shift, after, tmp_path):
    """After the survey, in mid sums, and when everything is done; be it the first batch or only the last."""
    source = batches_of(Y)
    if after is None:
        fitted(source, tmp_path)
    else:
        broken_off(source, tmp_path, after=after)
    with pytest.raises(CheckpointError, match=r"another run|not those that the checkpoint|yielded other rows"):
        fitted(shift, tmp_path)


def test_a_function_that_yields_the_same_rows_goes_on_and_answers_from_a_finished_folder(tmp_path):
    expected = fitted(batches_of(Y)).beta_
    broken_off(batches_of(Y), tmp_path)
    for _ in range(2):
        np.testing.assert_array_equal(fitted(batches_of(Y), tmp_path).beta_, expected)


def test_rows_that_differ_from_pass_to_pass_are_refused_without_a_checkpoint_too():
    wild = np.random.RandomState(1)

    def begin():
        yield X, Y
        yield wild.normal(size=(100, 3)), np.zeros(100)

    with pytest.raises(SourceError, match="yielded other rows than in the previous pass"):
        fitted(begin)


def test_files_in_another_order_are_refused_while_the_first_is_being_read(tmp_path):
    """The rows that were read are of the file that was first, wherever it stands now."""

    def journal(order, first_rows):
        files = {name: {"size": 1} for name in order}
        source = {"files": files, "order": order}
        return Journal(tmp_path, {"source": source}, first_rows=first_rows)

    first = journal(["a", "b", "c"], {"a": 0, "b": 50, "c": 100})
    first.save("survey", Saved(15, False, {}, {}))
    first.close()
    for order in (["c", "b", "a"], ["b", "a", "c"], ["b", "c"]):
        with pytest.raises(CheckpointError, match="belongs to another run"):
            journal(order, {name: 50 * k for k, name in enumerate(order)})
    journal(["a", "c", "b"], {"a": 0, "c": 50, "b": 100}).close()  # neither of which has been read


# One run to a folder


def test_a_folder_in_use_is_refused_and_nothing_in_it_is_touched(tmp_path):
    first = Journal(tmp_path, {})
    partial = tmp_path / "sums.npz.1.partial"
    partial.write_bytes(b"being written")
    with pytest.raises(CheckpointError, match=rf"in use by process {os.getpid()} on this machine, since \d{{4}}-"):
        Journal(tmp_path, {})
    assert partial.read_bytes() == b"being written"
    first.close()
    Journal(tmp_path, {}).close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["identity.json"]


def test_a_lock_that_cannot_be_signed_leaves_no_file(monkeypatch, tmp_path):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ulmus.streaming._lock.os.pwrite", full)
    with pytest.raises(CheckpointError, match=r"cannot be locked: .*No space left"):
        Journal(tmp_path, {})
    monkeypatch.undo()
    assert not list(tmp_path.iterdir())
    Journal(tmp_path, {}).close()


def hold(folder, way, told):
    """Hold a folder until killed, and say so; or fork, and be killed while the other one lives on."""
    os.setsid()
    journal = Journal(folder, {})  # noqa: F841
    if way == "alone" or os.fork() == 0:
        os.write(told, b".")
        time.sleep(60)
    else:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("way", cases(["alone", "fork"], "fork"))
def test_the_lock_of_another_process_names_it_and_ends_with_it(way, tmp_path):
    """Killed, so that nothing could be cleared; a process that it had forked does not hold the folder."""
    heard, told = os.pipe()
    child = get_context("fork").Process(target=hold, args=(tmp_path, way, told))
    child.start()
    try:
        os.read(heard, 1)
        if way == "alone":
            with pytest.raises(CheckpointError, match=f"in use by process {child.pid} on this machine"):
                Journal(tmp_path, {})
            child.kill()
        child.join()
        Journal(tmp_path, {}).close()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        os.close(heard)
        os.close(told)

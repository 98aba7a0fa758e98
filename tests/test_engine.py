"""One reduction: the same sums for any number of threads, any block size and any kind of rows."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from threadpoolctl import threadpool_info

from data import cases, relative_error, rows, sparse_rows
from ulmus import NystromMap, RandomLayer, _threads, engine
from ulmus.engine import Rows
from ulmus.features.partition import random_partition
from ulmus.solvers import local
from ulmus.statistics import Statistics

N, M = 3000, 5

LAYERS = {
    "random": lambda X: RandomLayer(20, random_state=0, n_jobs=1).fit(X),
    "radial": lambda X: RandomLayer(20, activation="gaussian", random_state=0, n_jobs=1).fit(X),
    "nystrom": lambda X: NystromMap(20, gamma=0.3, random_state=0, n_jobs=1).fit(X),
}


def table(n=N, dtype=np.float64):
    X = rows(n, M).astype(dtype)
    return Rows(X, rows(n, 2, seed=1), np.random.RandomState(2).uniform(0.1, 2.0, n))


def reductions(features, data, n_jobs, dtype=np.float64):
    """Every pass over the rows that the engine knows, by name."""
    beta, b = rows(features.n_features_out, 2, seed=3), np.ones(2)
    out = np.empty((len(data), features.n_features_out), data.X.dtype)
    return {
        "gram": engine.gram_statistics(features, data, dtype=dtype, n_jobs=n_jobs).moments,
        "triangular": engine.triangular_statistics(features, data, n_jobs=n_jobs).to_gram().moments,
        "gradient": engine.gradient(features, data, beta, b, n_jobs=n_jobs),
        "apply": engine.apply(features, data.X, beta, dtype=dtype, n_jobs=n_jobs),
        "transform": engine.transform(features, data.X, out, n_jobs=n_jobs),
    }


@pytest.mark.parametrize("name", LAYERS)
def test_reductions_are_what_the_formulas_say(name):
    data = table()
    features = LAYERS[name](data.X)
    Phi = features.transform(data.X)
    beta, b = rows(20, 2, seed=3), np.ones(2)
    W = data.weight[:, None]
    residual = data.T - Phi @ beta - b
    expected = {
        "gram": Statistics.of(Phi, data.T, data.weight).moments,
        "triangular": Statistics.of(Phi, data.T, data.weight).moments,
        "gradient": np.vstack([Phi.T @ (W * residual), (W * residual).sum(axis=0)]),
        "apply": Phi @ beta,
        "transform": Phi,
    }
    for what, actual in reductions(features, data, n_jobs=-1).items():
        assert relative_error(actual, expected[what]) < 1e-12, what


@pytest.mark.parametrize("n_rows", [1, 700, N])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", LAYERS)
def test_any_number_of_threads_gives_the_same_bits(name, dtype, n_rows):
    data = table(n_rows, dtype)
    features = LAYERS[name](table(dtype=dtype).X)
    alone = reductions(features, data, 1, dtype)
    for n_jobs in (2, 3, 5, -1):
        for what, actual in reductions(features, data, n_jobs, dtype).items():
            assert np.array_equal(actual, alone[what]), (what, n_jobs)


@pytest.mark.parametrize("n_rows", [64, 1024])
def test_few_rows_of_many_features_give_the_same_bits(n_rows):
    # one slab: threads of BLAS itself must not come in where threads over slabs have nothing to do
    data = table(n_rows)
    features = RandomLayer(150, random_state=0).fit(data.X)
    alone = reductions(features, data, 1)
    for what, actual in reductions(features, data, 2).items():
        assert np.array_equal(actual, alone[what]), what


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(
    ("block", "tile", "slab"), [(2**12, 2**10, 16_384), (2**14, 2**20, 1024), (2**30, 2**8, 64), (1, 1, 1)]
)
def test_any_block_size_gives_the_same_sums(monkeypatch, name, block, tile, slab):
    data = table()
    features = LAYERS[name](data.X)
    usual = reductions(features, data, 2)
    monkeypatch.setattr(engine, "BLOCK_BYTES", block)
    monkeypatch.setattr(engine, "TILE_BYTES", tile)
    monkeypatch.setattr(engine, "SLAB_ROWS", slab)
    for what, actual in reductions(features, data, 2).items():
        assert relative_error(actual, usual[what]) < 1e-12, what


@pytest.mark.parametrize("name", LAYERS)
def test_sparse_rows_give_the_sums_of_dense_rows(name):
    X = sparse_rows(N, 12)
    T = rows(N, 2, seed=1)
    features = LAYERS[name](X)
    dense = reductions(features, Rows(X, T), 2)
    for what, actual in reductions(features, Rows(sparse.csr_array(X), T), 2).items():
        assert relative_error(actual, dense[what]) < 1e-12, what


def test_single_precision_blocks_are_summed_in_double():
    data = table(20_000, np.float32)
    features = LAYERS["nystrom"](data.X)
    exact = engine.gram_statistics(features, data).moments
    single = engine.gram_statistics(features, data, dtype=np.float32).moments
    assert single.dtype == np.float64
    # each block keeps six digits; sums of blocks lose none
    assert relative_error(single, exact) < 1e-6


def test_number_of_rows_is_counted():
    data = table()
    features = LAYERS["random"](data.X)
    assert engine.gram_statistics(features, data).n_rows == N
    assert engine.triangular_statistics(features, data).n_rows == N


# ---------------------------------------------------------------------------------------------------- the machinery


@given(n=st.integers(0, 3_000_000))
def test_slabs_cover_every_row_once_and_depend_on_the_number_of_rows_alone(n):
    cut = engine.slabs(n)
    assert cut == engine.slabs(n)
    assert [s.start for s in cut] == [0, *(s.stop for s in cut[:-1])][: len(cut)]
    assert (cut[-1].stop if cut else 0) == n
    assert all(0 < s.stop - s.start <= engine.SLAB_ROWS for s in cut)


@pytest.mark.parametrize("n_jobs", [1, 2, 4, None])
def test_results_come_in_order_whatever_the_threads_do(n_jobs):
    done = threading.Event()

    def work(i):
        if i == 0 and n_jobs not in (1, None):
            done.wait(5)  # the first is finished last
        if i == 1:
            done.set()
        return i * i

    for items in (range(20), iter(range(20))):
        done.clear()
        assert list(engine.ordered_map(work, items, n_jobs)) == [i * i for i in range(20)]


def test_an_error_in_a_thread_reaches_the_caller():
    def work(i):
        if i == 7:
            raise ValueError("row 7 is bad")
        return i

    for n_jobs in (1, 3):
        with pytest.raises(ValueError, match="row 7 is bad"):
            list(engine.ordered_map(work, range(20), n_jobs))


def test_nothing_is_begun_after_an_error_and_nothing_goes_on():
    running, begun = [], []

    def work(i):
        begun.append(i)
        running.append(i)
        time.sleep(0.01)
        running.remove(i)
        if i == 2:
            raise ValueError("row 2 is bad")

    with pytest.raises(ValueError, match="row 2 is bad"):
        list(engine.ordered_map(work, range(50), 3))
    assert not running
    count = len(begun)
    time.sleep(0.05)
    assert len(begun) == count < 10


def test_an_interrupt_does_not_wait_for_its_turn():
    here, begun = threading.get_ident(), []

    def work(i):
        begun.append(i)
        if threading.get_ident() == here:
            raise KeyboardInterrupt
        time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        list(engine.ordered_map(work, range(1000), 2))
    assert len(begun) < 10


def test_an_interrupt_between_taking_a_task_and_beginning_it_leaves_nobody_waiting(monkeypatch):
    here, claim = threading.get_ident(), _threads._Task.claim

    def interrupted(task):
        claimed = claim(task)
        if claimed and threading.get_ident() == here and not done:
            done.append(True)
            raise KeyboardInterrupt
        return claimed

    done = []
    monkeypatch.setattr(_threads._Task, "claim", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(engine.ordered_map(lambda _: time.sleep(0.01), range(100), 2))
    assert list(engine.ordered_map(lambda i: i, range(5), 2)) == list(range(5))


def test_an_interrupt_when_the_result_is_there_already_is_the_error_that_is_seen(monkeypatch):
    here, set_result, done = threading.get_ident(), _threads.Future.set_result, []

    def interrupted(future, value):
        set_result(future, value)
        if threading.get_ident() == here and not done:
            done.append(True)
            raise KeyboardInterrupt

    monkeypatch.setattr(_threads.Future, "set_result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(engine.ordered_map(lambda _: time.sleep(0.01), range(100), 2))
    assert done
    assert list(engine.ordered_map(lambda i: i, range(5), 2)) == list(range(5))


def test_the_caller_works_too_and_threads_are_kept_for_the_next_call():
    meeting = threading.Barrier(3, timeout=10)

    def work(_):
        meeting.wait()  # three at once, or none goes on
        return threading.get_ident()

    calls = [set(engine.ordered_map(work, range(3), 3)) for _ in range(4)]
    assert threading.get_ident() in calls[0]
    assert len(calls[0]) == 3
    assert all(call == calls[0] for call in calls)


def test_calls_may_be_nested():
    def inner(i):
        return sum(engine.ordered_map(lambda j: i * j, range(10), 3))

    def outer(k):
        return list(engine.ordered_map(inner, range(k, k + 5), 3))

    expected = [[45 * i for i in range(k, k + 5)] for k in range(8)]
    assert list(engine.ordered_map(outer, range(8), 3)) == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_forked_process_has_threads_of_its_own():
    script = """
import os
from ulmus import engine
squares = lambda: list(engine.ordered_map(lambda i: i * i, range(6), 2))
first = squares()
child = os.fork()
if not child:
    os._exit(0 if squares() == first else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", script], timeout=60, check=False).returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.parametrize(
    "moment", cases(["one_thread._lock", "one_thread", "thread_pools._lock"], "one_thread._lock", "thread_pools._lock")
)
def test_a_process_forked_while_another_thread_works_does_not_wait_for_it(moment):
    """A lock that the other thread holds stays locked in the child for ever; what it asked of BLAS, too."""
    script = f"""
import os, threading, signal
from threadpoolctl import threadpool_info, threadpool_limits
from ulmus import engine
from ulmus._threads import thread_pools, one_thread
count = lambda: [p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"]
before, inside, leave = count(), threading.Event(), threading.Event()
def work():
    with {moment}:
        inside.set()
        leave.wait()
thread = threading.Thread(target=work)
thread.start()
inside.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    right = list(engine.ordered_map(lambda i: i * i, range(6), 2)) == [0, 1, 4, 9, 16, 25]
    os._exit(0 if right and count() == before else 1)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
leave.set()
thread.join()
list(engine.ordered_map(abs, range(6), 2))
raise SystemExit(code or count() != before)
"""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], timeout=60, check=False, env=environment)
    assert done.returncode == 0


def blas_threads():
    """How many BLAS would use now; two of them, in tests that ask for ``two_blas_threads``."""
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.mark.usefixtures("two_blas_threads")
@pytest.mark.parametrize("n_items", [1, 8])
def test_workers_run_single_threaded_blas_and_leave_the_setting_as_it_was(n_items):
    before = blas_threads()
    assert set(before) == {2}
    for n_jobs in (1, 2):
        inside = list(engine.ordered_map(lambda _: blas_threads(), range(n_items), n_jobs))
        assert all(set(threads) == {1} for threads in inside)
    assert blas_threads() == before


def test_few_results_are_in_flight():
    started = []

    def work(i):
        started.append(i)
        return i

    stream = engine.ordered_map(work, iter(range(1000)), 2)
    for _ in range(10):
        next(stream)
    assert len(started) <= 10 + 4
    stream.close()


@pytest.mark.usefixtures("two_blas_threads")
def test_callers_that_overlap_in_threads_keep_blas_on_one_and_leave_it_as_it_was():
    """The first to leave must not wake BLAS under the other; the last must not leave the process with one thread."""
    before = blas_threads()
    first_left, second_came = threading.Event(), threading.Event()
    seen = []

    def second():
        for _ in engine.ordered_map(lambda _: None, [0], 1):
            second_came.set()
            assert first_left.wait(10)
            seen.append(blas_threads())

    thread = threading.Thread(target=second)
    with engine.threads_for(1):
        thread.start()
        assert second_came.wait(10)
        with engine.threads_for(1):
            pass
        seen.append(blas_threads())
    first_left.set()
    thread.join()
    assert [set(threads) for threads in seen] == [{1}, {1}]
    assert blas_threads() == before


@pytest.mark.usefixtures("two_blas_threads")
def test_a_thread_that_is_not_the_first_to_ask_is_obeyed_too():
    """As fits on threads of Dask and joblib: threadpoolctl alone obeys the thread that came first."""
    before, seen = blas_threads(), []
    with engine.threads_for(1):
        pass

    def fit():
        seen.extend(engine.ordered_map(lambda _: blas_threads(), range(4), 2))

    thread = threading.Thread(target=fit)
    thread.start()
    thread.join()
    assert len(seen) == 4
    assert {count for threads in seen for count in threads} == {1}
    assert blas_threads() == before


@pytest.mark.usefixtures("two_blas_threads")
@pytest.mark.parametrize(("name", "outputs"), [("solve_lower", 1), ("solve_factored", local.VECTORS + 1)])
def test_triangular_solves_of_local_kernels_run_on_one_blas_thread(monkeypatch, name, outputs):
    asked, solve = [], getattr(local, name)
    monkeypatch.setattr(local, name, lambda *a, **k: [asked.append(blas_threads()), solve(*a, **k)][1])
    U = rows(300, 3)
    partition = random_partition(U, 100, np.random.RandomState(0))
    local.fit_leaves(local.LeafProblem("rbf", 1.0, 0.1, U, rows(300, outputs), None, [partition]), n_jobs=2)
    assert asked
    assert {count for threads in asked for count in threads} == {1}


def test_workspaces_are_kept_between_calls_and_apart_between_threads():
    space = engine.Workspace()
    first = space.array("a", (4, 3), np.float64)
    assert np.shares_memory(first, space.array("a", (2, 3), np.float64))
    assert not np.shares_memory(first, space.array("b", (4, 3), np.float64))
    with ThreadPoolExecutor(1) as other:
        elsewhere = other.submit(space.array, "a", (4, 3), np.float64).result()
    assert not np.shares_memory(first, elsewhere)

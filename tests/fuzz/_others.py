"""Dask, threads and processes."""

import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings

import dask
import dask.array as da
import numpy as np

import ulmus
from ulmus import distributed, streaming


def dask_on_copies(rng):
    """Rows that repeat, in any partitions: the sample, and so the model, of a stream."""
    n, distinct = int(rng.integers(20, 3000)), int(2 ** rng.uniform(0, 11))
    X = rng.normal(size=(distinct, 2))[rng.integers(distinct, size=n)]
    if rng.random() < 0.3:
        X = np.round(X)
    y = np.sin(X[:, 0]) + X[:, 1]
    weight = None if rng.random() < 0.6 else rng.integers(0, 3, n).astype(float)
    if weight is not None and not weight.any():
        weight[0] = 1.0
    seed, rows = int(rng.integers(1000)), int(rng.choice([15, 60, 250, 10_000]))

    def model():
        return ulmus.NKELMRegressor(min(12, rows), gamma=0.5, C=10.0, fit_intercept=True, random_state=seed, n_jobs=1)

    cuts = np.unique(np.append(np.sort(rng.integers(0, n + 1, int(rng.integers(1, 12)))), [0, n]))
    chunks = tuple(int(c) for c in np.diff(cuts))
    given = [da.from_array(a, chunks=(chunks, *a.shape[1:])) for a in (X, y)]
    w = None if weight is None else da.from_array(weight, chunks=n)
    with dask.config.set(scheduler="synchronous"):
        far = distributed.fit(model(), *given, sample_weight=w, sample_rows=rows, progress=False)
    source = (X, y) if weight is None else (X, y, weight)
    near = streaming.fit(model(), source, sample_rows=rows, progress=False)
    words = f"{n} rows, {distinct} distinct, sample {rows}, {len(chunks)} partitions, weights {weight is not None}"
    np.testing.assert_array_equal(far.map_.landmarks_, near.map_.landmarks_, err_msg=words)
    size = np.abs(y).max() + 1.0
    error = np.abs(far.predict(X) - near.predict(X)).max() / size
    assert error <= 1e-7, f"predictions differ by {error:.1e}: {words}"
    return "copies" if distinct < n // 2 else "distinct"


def readers_beside_a_learner(rng):
    """All that readers see are states between blocks, to the last bit."""
    forms = ("root", "covariance", "information")
    makers = [
        *(lambda f=f: ulmus.OSELMRegressor(15, slope=1.0, C=10.0, form=f, random_state=0, n_jobs=1) for f in forms),
        lambda: ulmus.NKELMRegressor(15, gamma=0.5, C=10.0, random_state=0, n_jobs=1),
        lambda: ulmus.OSELMClassifier(15, slope=1.0, C=10.0, random_state=0, n_jobs=1),
    ]
    make = makers[rng.integers(len(makers))]
    X, Q = rng.normal(size=(800, 3)), rng.normal(size=(4, 3))
    classifier = "Classifier" in type(make()).__name__
    y = (X[:, 0] > 0).astype(int) if classifier else np.sin(X[:, 0])
    method = str(rng.choice(["predict_proba", "decision_function"] if classifier else ["predict", "predict_interval"]))
    cuts = np.unique(np.append(rng.integers(500, 800, 25), [500, 800]))
    blocks = [slice(a, b) for a, b in itertools.pairwise(cuts)]

    def events(model):
        yield
        for k, part in enumerate(blocks):
            model.partial_fit(X[part], y[part])
            yield
            if k % 7 == 3:
                model.unlearn(X[part], y[part])
                yield

    twin = make().partial_fit(X[:500], y[:500])
    states = {getattr(twin, method)(Q).tobytes() for _ in events(twin)}
    model, done, wrong, count = make().partial_fit(X[:500], y[:500]), threading.Event(), [], [0]

    def read():
        try:
            while not done.is_set():
                count[0] += 1
                if getattr(model, method)(Q).tobytes() not in states:
                    wrong.append("a state that never was")
        except Exception as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in events(model):
        pass
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong, f"{len(wrong)} of {count[0]} readings of {type(model).__name__}.{method}: {wrong[0]}"
    return f"{type(model).__name__}.{method}"


def forked_beside_threads(rng):
    """A process that is forked while threads fit, learn and predict goes on by itself."""
    X = rng.normal(size=(600, 3))
    y = np.sin(X[:, 0])
    known = ulmus.NKELMRegressor(15, gamma=0.5, C=1.0, random_state=0).fit(X, y)
    online = ulmus.OSELMRegressor(15, slope=1.0, C=1.0, random_state=0).partial_fit(X, y)
    expected, done = known.predict(X[:20]), threading.Event()

    def work():
        while not done.is_set():
            ulmus.ELMRegressor(30, C=1.0, slope=1.0, random_state=0, n_jobs=2).fit(X, y)
            online.partial_fit(X[:20], y[:20])
            online.predict(X[:20])

    thread = threading.Thread(target=work)
    thread.start()
    codes = []
    try:
        for _ in range(4):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if not child:
                code = 1
                try:
                    signal.alarm(60)
                    ulmus.ELMRegressor(20, C=1.0, slope=1.0, random_state=0, n_jobs=2).fit(X, y)
                    code = 0 if (known.predict(X[:20]) == expected).all() else 2
                    online.predict(X[:20])
                except RuntimeError as error:  # forked in the middle of a block, of which nothing was derived before
                    code = 0 if "forked while another thread" in str(error) else 3
                finally:
                    os._exit(code)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    finally:
        done.set()
        thread.join()
    assert not any(codes), f"exit codes of forked processes: {codes}"
    return "fork"


CHILD = """
import pickle, sys
model, X = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(model.partial_fit(X[:9], X[:9, 0]).predict(X).tobytes())
"""


def spawned(rng):
    """A model that goes to a new process in mid stream learns on there, bit for bit."""
    X = rng.normal(size=(560, 3))
    model = ulmus.OSELMRegressor(15, slope=1.0, C=1.0, random_state=0, n_jobs=1).partial_fit(X, X[:, 0])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", CHILD], input=pickle.dumps((model, X)), capture_output=True, check=True, env=environment
    )
    assert done.stdout == model.partial_fit(X[:9], X[:9, 0]).predict(X).tobytes()
    return "spawn"

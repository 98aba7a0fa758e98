"""A model that one thread teaches is read by others as it was before a block or as it is after it, never between."""

import copy
import os
import pickle
import signal
import threading

import numpy as np
import pandas as pd
import pytest

import fixed
import ulmus
from data import classification, regression
from ulmus import OSELMClassifier, OSELMRegressor
from ulmus.online import Memory

X, Y = regression(900)
LABELS = classification(900)[1]
Q = X[:5]
GIVEN = {"slope": 1.0, "C": 10.0, "random_state": 0, "n_jobs": 1}

MODELS = {
    "root": (lambda: OSELMRegressor(12, **GIVEN), Y),
    "covariance": (lambda: OSELMRegressor(12, form="covariance", **GIVEN), Y),
    "information": (lambda: OSELMRegressor(12, form="information", forgetting=0.99, **GIVEN), Y),
    "ELM": (lambda: fixed.ELMRegressor(12, C=10.0, random_state=0, n_jobs=1), Y),
    "NKELM": (lambda: fixed.NKELMRegressor(12, C=10.0, random_state=0, n_jobs=1), Y),
    "classes": (lambda: OSELMClassifier(12, **GIVEN), LABELS),
    "ordered": (lambda: ulmus.OSELMOrdinalClassifier(12, **GIVEN), LABELS),
    "ENDA": (lambda: ulmus.ENDA(12, C=10.0, slope=1.0, random_state=0, n_jobs=1), LABELS),
}


def readings(model):
    """All that can be asked of a model, as one array."""
    names = ("predict", "predict_interval", "decision_function", "predict_proba", "predict_cumulative", "transform")
    return {name: np.asarray(getattr(model, name)(Q), dtype=float) for name in names if hasattr(model, name)}


def equal(a, b):
    return all(np.array_equal(a[name], b[name]) for name in a)


class Pause:
    """Holds a learner in the middle of a block, when it has changed the model's state."""

    def __init__(self, patch, model):
        self.inside, self.go_on, self.armed = threading.Event(), threading.Event(), True
        owner, name = (type(model.stream_.memory), "add") if hasattr(model, "stream_") else (type(model), "_solved")
        real = getattr(owner, name)

        def paused(this, *args):
            if self.armed:
                self.armed = False
                self.inside.set()
                assert self.go_on.wait(30)
            return real(this, *args)

        patch.setattr(owner, name, paused)


def in_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    return thread, found


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("asked", [True, False], ids=["asked before", "never asked"])
def test_a_reader_in_mid_block_sees_the_state_before_it_or_waits_for_the_one_after(name, asked, monkeypatch):
    make, y = MODELS[name]
    model = make().partial_fit(X[:600], y[:600])
    before = readings(copy.deepcopy(model))
    after = readings(copy.deepcopy(model).partial_fit(X[600:700], y[600:700] * 1))
    assert not np.array_equal(
        before.get("predict_proba", before["predict"]), after.get("predict_proba", after["predict"])
    )
    if asked:
        assert equal(readings(model), before)
    pause = Pause(monkeypatch, model)
    learner, _ = in_thread(lambda: model.partial_fit(X[600:700], y[600:700]))
    assert pause.inside.wait(30)
    reader, found = in_thread(lambda: readings(model))
    if asked:  # nothing has to be derived, so that nobody waits
        reader.join(30)
        assert not reader.is_alive()
        assert equal(found[0], before)
        reader, found = in_thread(lambda: pickle.dumps(model))  # a copy waits
    pause.go_on.set()
    learner.join(30)
    reader.join(30)
    assert equal(readings(model), after)
    if asked:
        assert equal(readings(pickle.loads(found[0])), after)
    else:
        for key, value in found[0].items():
            assert np.array_equal(value, before[key]) or np.array_equal(value, after[key])


@pytest.mark.parametrize("name", ["root", "NKELM", "classes"])
def test_every_reading_beside_a_busy_learner_is_one_of_the_states_between_blocks(name):
    make, y = MODELS[name]
    cuts = [*range(600, 900, 10)]
    twin, states = make().partial_fit(X[:600], y[:600]), []
    method = "predict_proba" if name == "classes" else "predict_interval"
    for start in [*cuts, None]:
        states.append(getattr(twin, method)(Q).tobytes())
        if start is not None:
            twin.partial_fit(X[start : start + 10], y[start : start + 10])
    model, done = make().partial_fit(X[:600], y[:600]), threading.Event()
    found, errors = [], []

    def read():
        try:
            while not done.is_set():
                found.append(getattr(model, method)(Q).tobytes())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for start in cuts:
        model.partial_fit(X[start : start + 10], y[start : start + 10])
    done.set()
    for thread in threads:
        thread.join()
    assert not errors
    assert found
    assert set(found) <= set(states)
    assert getattr(model, method)(Q).tobytes() == states[-1]


def test_two_learners_take_turns():
    model = OSELMRegressor(12, form="information", scale=1.0, fit_intercept=False, **GIVEN).partial_fit(X[:10], Y[:10])
    blocks = [slice(k, k + 5) for k in range(10, 900, 5)]
    threads = [
        threading.Thread(target=lambda part=part: [model.partial_fit(X[b], Y[b]) for b in part])
        for part in (blocks[::2], blocks[1::2])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    H = model.map_.transform(X)
    beta = np.linalg.solve(H.T @ H + np.eye(12) / 10.0, H.T @ Y)
    np.testing.assert_allclose(model.predict(X), H @ beta, rtol=1e-8, atol=1e-8)
    assert model.stream_.n_rows == 900


def test_models_that_merge_into_each_other_at_once_end():
    first = OSELMRegressor(12, **GIVEN).partial_fit(X[:600], Y[:600])
    second = first.blank_copy().partial_fit(X[600:], Y[600:])
    threads = [
        threading.Thread(target=a.merge, args=(b,), daemon=True) for a, b in ((first, second), (second, first)) * 2
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_a_model_is_read_as_it_is_after_a_refit_and_new_parameters():
    model = fixed.ELMRegressor(12, C=10.0, random_state=0).fit(X[:300], Y[:300])
    model.predict(Q)
    model.fit(X, Y)
    fresh = fixed.ELMRegressor(12, C=10.0, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(model.predict(Q), fresh.predict(Q))
    model.partial_fit(X[:5], Y[:5]).predict(Q)
    ulmus.streaming.fit(model, (X, Y), progress=False)
    np.testing.assert_allclose(model.predict(Q), fresh.predict(Q), rtol=1e-9)
    assert not [name for name in vars(model) if "view" in name]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks beside threads, which are the point
def test_a_process_forked_in_mid_block_reads_the_state_before_it_and_does_not_learn_on(monkeypatch):
    model = OSELMRegressor(12, **GIVEN).partial_fit(X[:600], Y[:600])
    before, add = model.predict(X), Memory.add
    inside, go_on = threading.Event(), threading.Event()

    def paused(*args):
        inside.set()
        go_on.wait()
        return add(*args)

    def reads_and_refuses():
        try:
            model.partial_fit(X[600:], Y[600:])
        except RuntimeError as error:
            return (model.predict(X) == before).all() and "forked while another thread was updating" in str(error)
        return False

    monkeypatch.setattr(Memory, "add", paused)
    learner = threading.Thread(target=model.partial_fit, args=(X[600:], Y[600:]))
    learner.start()
    inside.wait()
    child = os.fork()
    if not child:
        signal.alarm(20)
        right = False
        try:
            right = reads_and_refuses()
        finally:
            os._exit(0 if right else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    go_on.set()
    learner.join()
    assert code == 0


FRAMES = pd.DataFrame(np.random.RandomState(0).normal(size=(60, 3)), columns=list("abc"))


@pytest.mark.parametrize(
    "model",
    [
        ulmus.NKELMRegressor(10, gamma=0.3, C=1.0, random_state=0),
        ulmus.ELMRegressor(10, slope=1.0, C=1.0, random_state=0),
        ulmus.KELMRegressor(gamma=0.3, C=1.0),
        ulmus.RobustELMRegressor(10, slope=1.0, C=1.0, random_state=0),
        ulmus.AdaptiveRegressor(effort="fast", random_state=0),
        ulmus.ENDA(10, slope=1.0, C=1.0, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_reader_beside_a_refit_to_other_columns_sees_the_model_of_before(model, monkeypatch):
    """The columns of a refit are noted before it has an answer for them; rows of before are answered meanwhile."""
    y, swapped, seen = (FRAMES["a"] > 0).astype(int), FRAMES[["c", "b", "a"]], []
    read = model.transform if hasattr(model, "transform") else model.predict
    model.fit(FRAMES, y)
    before = read(FRAMES[:5])

    def ask() -> None:
        np.testing.assert_array_equal(read(FRAMES[:5]), before)
        with pytest.raises(ValueError, match="feature names should match"):
            read(swapped[:5])
        seen.append(True)

    kind = type(model)
    step = "_learn" if hasattr(kind, "_learn") else "_train"
    plain = getattr(kind, step)
    monkeypatch.setattr(kind, step, lambda self, *given: ask() or plain(self, *given))
    model.fit(swapped, y)
    assert seen == [True]
    with pytest.raises(ValueError, match="feature names should match"):
        read(FRAMES[:5])

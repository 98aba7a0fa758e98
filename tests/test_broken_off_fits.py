"""A refit that breaks off, wherever it does, leaves the model of before; a first fit leaves none."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import ulmus
from data import cases
from ulmus import (
    ENDA,
    KLDA,
    NNDA,
    AdaptiveClassifier,
    AdaptiveOrdinalClassifier,
    AdaptiveRegressor,
    ENDAEnsemble,
    streaming,
)

MODELS = str(Path(ulmus.__file__).parent / "models")
#: Files whose functions are the stages of a fit.
STAGES = "_adaptive adaptive adaptive_steps base reading _tables monotone_grid"
DISCRIMINANT = "_discriminant discriminant_fit enda enda_ensemble klda nnda _heads _references reading"
FILES = {f"{MODELS}/{name}.py" for name in (STAGES + " " + DISCRIMINANT).split()}
RNG = np.random.RandomState(0)
X = RNG.uniform(-1, 1, (66, 2))
FRAME = pd.DataFrame({"kind": np.where(X[:, 0] > 0.2, "big", "small"), "x": X[:, 1], "z": RNG.uniform(size=66)})
Y, NEW = np.sin(3 * X[:, 0]) + X[:, 1], FRAME[:9]
RANKS = np.digitize(Y, [-0.5, 0.5])


class Halt(BaseException):
    """Nobody who catches exceptions sees it, as with an interrupt from the keyboard."""


def functions_entered(work):
    """Names of the functions of the stages, in the order in which they are first entered."""
    names = {}

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename in FILES and not code.co_name.startswith("<"):
            names.setdefault((code.co_filename, code.co_name))

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return list(names)


def halted(work, where):
    """Break off where a function is first entered."""

    def stop(frame, event, _):
        if event == "call" and (frame.f_code.co_filename, frame.f_code.co_name) == where:
            sys.setprofile(None)
            raise Halt

    sys.setprofile(stop)
    try:
        with pytest.raises(Halt):
            work()
    finally:
        sys.setprofile(None)


def said(model):
    """Answers, and what the attributes show."""
    methods, new = ("predict", "predict_interval", "predict_proba", "is_far", "coordinates", "transform"), NEW
    if not hasattr(model, "coordinates"):
        new = X[:9]
    answers = [getattr(model, name)(new) for name in methods if hasattr(model, name)]
    shown = [name for name in dir(type(model)) if name.endswith("_") and not name.startswith("_")]
    return answers, {name: getattr(model, name) for name in shown if hasattr(model, name)}, dict(vars(model))


def assert_same(model, before):
    answers, shown, kept = said(model)
    for now, then in zip(answers, before[0], strict=True):
        np.testing.assert_array_equal(now, then)
    for now, then in zip((shown, kept), before[1:], strict=True):
        assert now.keys() == then.keys()
        assert all(now[name] is then[name] or np.array_equal(now[name], then[name]) for name in now)


GIVEN = {"effort": "fast", "random_state": 0}
CASES = {
    "regressor": (AdaptiveRegressor(**GIVEN), Y, 66),
    "regressor of few rows": (AdaptiveRegressor(**GIVEN), Y, 50),
    "monotone": (AdaptiveRegressor(monotonic_cst={"x": 1}, **GIVEN), Y, 66),
    "quantiles": (AdaptiveRegressor(loss="quantile", **GIVEN), Y, 66),
    "classifier by either loss": (AdaptiveClassifier(loss="auto", **GIVEN), (Y > 0).astype(int), 66),
    "ordinal": (AdaptiveOrdinalClassifier(**GIVEN), RANKS, 66),
}


@pytest.mark.parametrize(
    "names", [("regressor", "classifier by either loss"), pytest.param(tuple(CASES), marks=pytest.mark.slow)]
)
def test_a_refit_that_breaks_off_anywhere_leaves_the_model_of_before(names):
    tried, other = set(), FRAME[["x", "kind"]]
    for model, y, n in map(CASES.get, names):
        again = partial(model.fit, other[:n], y[::-1][:n])
        places = functions_entered(again)
        expected = model.predict(other)
        model.fit(FRAME, y)
        before, adopted = said(model), [name for _, name in places].index("_adopt")
        for where in [place for place in places[: adopted + 1] if place not in tried]:
            halted(again, where)
            assert_same(model, before)
        for where in [place for place in places[adopted + 1 :] if place not in tried]:
            halted(again, where)
            np.testing.assert_array_equal(model.predict(other), expected)  # the new one, whole
        tried |= set(places)
    assert len(tried) > 50


def test_a_first_fit_that_breaks_off_leaves_no_model():
    model = AdaptiveRegressor(**GIVEN)
    for where in functions_entered(lambda: AdaptiveRegressor(**GIVEN).fit(FRAME, Y)):
        halted(lambda: model.fit(FRAME, Y), where)
        with pytest.raises(NotFittedError):
            check_is_fitted(model)
        assert vars(model).keys() == AdaptiveRegressor(**GIVEN).get_params().keys()


def test_a_refit_on_a_stream_that_breaks_off_leaves_the_model_of_before():
    rows, target = RNG.uniform(-1, 1, (400, 2)), RNG.uniform(size=400)
    model = AdaptiveRegressor(**GIVEN).fit(FRAME, Y)
    before = said(model)

    def blocks():
        yield from ((rows[k::3], target[k::3]) for k in range(3))

    def again():
        streaming.fit(model, blocks, sample_rows=100)

    places = functions_entered(lambda: streaming.fit(AdaptiveRegressor(**GIVEN), blocks, sample_rows=100))
    adopted = [name for _, name in places].index("_adopt")
    assert any(name == "look" for _, name in places)
    for where in [place for place in places[: adopted + 1] if place[0].endswith("_steps.py")]:
        halted(again, where)
        assert_same(model, before)


DISCRIMINANTS = {
    "ENDA": ENDA(10, slope=1.0, C=1.0, random_state=0),
    "ENDA by means": ENDA(10, gamma=1.0, C=1.0, head="mean", features="nystrom", metric=[1.0, 2.0], random_state=0),
    "KLDA": KLDA(head="mean", random_state=0),
    "NNDA": NNDA(5, max_iter=3, random_state=0),
    "ENDAEnsemble": ENDAEnsemble(ENDA(8, slope=1.0, C=1.0), n_members=2, random_state=0),
    "ENDA, all chosen": ENDA(10, random_state=0),
    "ENDA by means, all chosen": ENDA(10, head="mean", features="nystrom", metric=[1.0, 2.0], random_state=0),
    "ENDAEnsemble, C chosen": ENDAEnsemble(ENDA(8, slope=1.0), n_members=2, random_state=0),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", cases(DISCRIMINANTS, "ENDA", "KLDA"))
def test_a_discriminant_refit_or_block_that_breaks_off_anywhere_leaves_the_model_of_before(name):
    """The block has a class that the model does not know."""
    model, other = DISCRIMINANTS[name], X[:, ::-1] ** 2
    ways = [lambda: model.fit(other, RANKS[::-1])]
    if hasattr(model, "partial_fit"):
        ways.append(lambda: model.partial_fit(other, RANKS[::-1] + 1))
    for again in ways:
        model.fit(X, RANKS)
        places = functions_entered(again)
        model.fit(X, RANKS)
        before = said(model)
        assert len(places) > 9
        for where in places:
            halted(again, where)
            assert_same(model, before)


def test_a_first_block_that_breaks_off_leaves_no_model():
    model = ENDA(10, random_state=0)
    for where in functions_entered(lambda: ENDA(10, random_state=0).partial_fit(X, RANKS)):
        halted(lambda: model.partial_fit(X, RANKS), where)
        assert vars(model).keys() == model.get_params().keys()

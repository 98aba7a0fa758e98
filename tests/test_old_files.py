"""Files of earlier versions load, and answer what a model that is fitted now answers."""

import pickle
from pathlib import Path

import numpy as np
import pytest

import ulmus
from data import relative_error
from ulmus.persistence.codec import LoadError
from ulmus.persistence.file import _open, from_bytes, pack, to_bytes
from ulmus.persistence.registry import name_of

FILES = Path(__file__).parent / "data"
X = np.arange(12.0)[:, None] / 4
NEW = np.linspace(-1, 4, 25)[:, None]


def test_a_kernel_model_of_format_1_loads_and_answers_the_same():
    loaded = ulmus.load(FILES / "kelm_regressor_format_1.ulmus")
    fresh = ulmus.KELMRegressor(random_state=0).fit(X, np.sin(X[:, 0]), np.arange(12) % 3 + 1.0)
    assert loaded.gamma_ == fresh.gamma_
    assert relative_error(loaded.alpha_, fresh.alpha_) <= 1e-8
    for one, other in zip(loaded.predict(NEW, return_std=True), fresh.predict(NEW, return_std=True), strict=True):
        assert relative_error(one, other) <= 1e-8
    assert relative_error(loaded.predict_interval(NEW), fresh.predict_interval(NEW)) <= 1e-8
    assert len(loaded.tuning_.trials) == len(fresh.tuning_.trials)


def test_an_ordinal_kernel_model_of_format_1_loads_and_answers_the_same():
    loaded = ulmus.load(FILES / "kelm_ordinal_format_1.ulmus")
    fresh = ulmus.KELMOrdinalClassifier(loss="logistic", gamma=1.0, C=10.0).fit(X, np.arange(12) // 4)
    assert relative_error(loaded.predict_proba(NEW), fresh.predict_proba(NEW)) <= 1e-6


def test_a_state_of_before_is_the_same_model_after_pickling():
    fresh = ulmus.KELMRegressor(gamma=1.0, C=10.0).fit(X, np.sin(X[:, 0]))
    fitted, spread = fresh.fitted_.weights, fresh.spread_
    state = {k: v for k, v in fresh.__getstate__().items() if k != "fitted_"}
    names = {"alpha": "alpha_", "intercept": "intercept_", "cross": "cross_kernel_", "C": "C_", "gamma": "gamma_"}
    names |= {"weight": "_weight", "fit_intercept": "_constant", "narrow": "_narrow"}
    before = ulmus.KELMRegressor.__new__(ulmus.KELMRegressor)
    old = {old: getattr(fitted, part) for part, old in names.items()}
    before.__setstate__({**state, **old, "_single_output": True, "spread_": spread})
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(before)).predict(NEW), fresh.predict(NEW))


def test_an_old_state_with_a_part_of_the_wrong_kind_is_refused():
    description, body, arrays = _open((FILES / "kelm_regressor_format_1.ulmus").read_bytes())
    model = next(entry for entry in body["objects"] if "KELM" in entry["class"])
    model["state"]["alpha_"] = "text"
    content = {k: v for k, v in vars(description).items() if k != "checksum"} | {"body": body}
    with pytest.raises(LoadError, match=r"KernelFit\.alpha must be"):
        from_bytes(pack(content, arrays))


def test_what_the_fit_has_found_cannot_be_set():
    model = ulmus.KELMRegressor(gamma=1.0, C=10.0).fit(X, X[:, 0])
    assert not hasattr(model, "tuning_")  # nothing was searched
    with pytest.raises(AttributeError, match="cannot be set"):
        model.alpha_ = None


def test_a_class_that_is_called_otherwise_keeps_its_name_in_files():
    model = ulmus.OSELMRegressor(5, C=1.0, slope=1.0, random_state=0).partial_fit(X, X[:, 0])
    assert name_of(type(model.stream_)) == "ulmus.models._stream.Stream"
    again = from_bytes(to_bytes(model))
    np.testing.assert_array_equal(
        again.partial_fit(X, X[:, 0]).predict(NEW), model.partial_fit(X, X[:, 0]).predict(NEW)
    )


LABELS, Y = np.arange(12) // 4, np.sin(X[:, 0])
#: Models of format 2, and how they were made.
FORMAT_2 = {
    "elm_regressor": lambda: ulmus.ELMRegressor(5, slope=1.0, C=10.0, random_state=0).fit(X, Y),
    "nkelm_regressor": lambda: ulmus.NKELMRegressor(5, gamma=1.0, C=10.0, random_state=0).fit(X, np.c_[Y, -Y]),
    "nkelm_classifier": lambda: ulmus.NKELMClassifier(5, gamma=1.0, C=10.0, metric=[2.0], random_state=0).fit(
        X, LABELS
    ),
    "nkelm_iterative": lambda: ulmus.NKELMRegressor(5, gamma=1.0, C=10.0, solver="iterative", random_state=0).fit(X, Y),
    "elm_ordinal": lambda: ulmus.ELMOrdinalClassifier(5, slope=1.0, C=10.0, loss="logistic", random_state=0).fit(
        X, LABELS
    ),
    "robust_nkelm": lambda: ulmus.RobustNKELMRegressor(5, gamma=1.0, C=10.0, random_state=0).fit(X, Y),
    "oselm_learning": lambda: ulmus.OSELMClassifier(5, slope=1.0, C=10.0, scale=1.0, random_state=0).partial_fit(
        X, LABELS
    ),
    "nkelm_learning": lambda: (
        ulmus.NKELMOrdinalClassifier(5, gamma=1.0, C=10.0, random_state=0).fit(X, LABELS).partial_fit(X + 0.1, LABELS)
    ),
    "elm_warming_up": lambda: ulmus.ELMRegressor(random_state=0).partial_fit(X, Y),
    "kelm_classifier": lambda: ulmus.KELMClassifier(gamma=1.0, C=10.0).fit(X, LABELS),
}


@pytest.mark.parametrize("name", FORMAT_2)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_of_format_2_loads_answers_the_same_and_learns_on(name, monkeypatch):
    monkeypatch.setattr("ulmus.calibration.temperature._most", lambda *_: np.inf)  # temperatures had no bound then
    loaded, fresh = ulmus.load(FILES / f"{name}_format_2.ulmus"), FORMAT_2[name]()
    for _ in range(2):
        for method in ("predict", "predict_proba", "predict_interval", "residual_kernel", "error_bound"):
            if hasattr(fresh, method) and (method, name) != ("error_bound", "nkelm_iterative"):
                answers = [getattr(model, method)(NEW) for model in (loaded, fresh)]
                assert relative_error(*(np.asarray(a, float) for a in answers)) <= 1e-8, method
        if not hasattr(fresh, "partial_fit") or name in ("nkelm_iterative", "elm_ordinal"):
            return
        target = LABELS if hasattr(fresh, "classes_") else np.c_[Y, -Y] if name == "nkelm_regressor" else Y
        loaded, fresh = (model.partial_fit(X + 0.05, target) for model in (loaded, fresh))

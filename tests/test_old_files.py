"""Files of earlier versions load, and answer what a model that is fitted now answers."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import ulmus
from data import cases, relative_error
from ulmus.persistence.codec import LoadError
from ulmus.persistence.file import _open, from_bytes, pack, to_bytes
from ulmus.persistence.registry import name_of

FILES = Path(__file__).parent / "data"
X = np.arange(12.0)[:, None] / 4
NEW = np.linspace(-1, 4, 25)[:, None]
EPS = np.finfo(float).eps


def stored(name, part):
    """An array of the model in a file, as it lies there."""
    _, body, arrays = _open((FILES / f"{name}.ulmus").read_bytes())
    array = body["objects"][body["root"]["object"]]["state"][part]["array"]
    return arrays[array["data"]].reshape(array["shape"], order=array["order"])


def test_a_kernel_model_of_format_1_loads_and_answers_the_same():
    """Weights are those of the file, and solve the equations as well as they can be solved.

    The C of so few rows without noise is huge: weights of another processor share eps · cond(A) of their digits, and so
    does the noise, which is estimated from residuals α/(Cw) and multiplies all deviations; nothing else does.
    """
    loaded = ulmus.load(FILES / "kelm_regressor_format_1.ulmus")
    fresh = ulmus.KELMRegressor(random_state=0).fit(X, np.sin(X[:, 0]), np.arange(12) % 3 + 1.0)
    assert loaded.gamma_ == fresh.gamma_
    assert loaded.C_ == fresh.C_
    alpha = stored("kelm_regressor_format_1", "alpha_")
    np.testing.assert_array_equal(loaded.alpha_, alpha)
    A = np.exp(-fresh.gamma_ * (X - X.T) ** 2) + np.diag(1 / (fresh.C_ * (np.arange(12) % 3 + 1.0)))
    for model in (loaded, fresh):
        left = A @ model.alpha_[:, 0] + model.intercept_ - np.sin(X[:, 0])
        assert np.abs(left).max() <= 12 * EPS * np.abs(A).sum(axis=1).max() * np.abs(model.alpha_).max()
    (mean, deviation), (again, as_far) = (model.predict(NEW, return_std=True) for model in (loaded, fresh))
    assert relative_error(mean, again) <= 1e-8
    assert relative_error(deviation / deviation.max(), as_far / as_far.max()) <= 1e-8
    assert deviation.max() == pytest.approx(as_far.max(), rel=EPS * np.linalg.cond(A))
    assert relative_error(loaded.predict_interval(NEW), fresh.predict_interval(NEW)) <= 1e-8
    assert len(loaded.tuning_.trials) == len(fresh.tuning_.trials)


def test_an_ordinal_kernel_model_of_format_1_loads_and_answers_the_same():
    loaded = ulmus.load(FILES / "kelm_ordinal_format_1.ulmus")
    fresh = ulmus.KELMOrdinalClassifier(loss="logistic", gamma=1.0, C=10.0).fit(X, np.arange(12) // 4)
    np.testing.assert_array_equal(loaded.predict(NEW), fresh.predict(NEW))
    bits, count = loaded._scores_of(NEW), np.full(3, 4.0)  # a share of 1/(n + 1) of the frequencies, as it was
    reached = np.pad(expit(loaded.fitted_.targets.repaired(bits)), ((0, 0), (1, 1)), constant_values=((0, 0), (1, 0)))
    expected = (12 * -np.diff(reached, axis=1) + count / 12) / 13
    np.testing.assert_allclose(loaded.predict_proba(NEW), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="a file of an earlier version"):
        loaded.predict_set(NEW)


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


def left_by_the_last_curvature(solution, Phi, residual, unit, own=None):
    """How rows left robust models then: with the slope and curvature after their landmark had left."""
    leverage = solution.leverages(Phi)
    if own is not None:
        residual, leverage = solution.without_landmark(own, residual, leverage)
    of_one = leverage if unit is None else unit[:, None] * leverage
    rest = np.maximum(1.0 - of_one * solution.loss.curvature(residual, solution.c), np.finfo(float).eps)
    return residual + of_one * solution.loss.slope(residual, solution.c) / rest, leverage


@pytest.mark.parametrize("name", FORMAT_2)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_of_format_2_loads_answers_the_same_and_learns_on(name, monkeypatch):
    monkeypatch.setattr("ulmus.calibration.temperature._most", lambda *_: np.inf)  # temperatures had no bound then
    monkeypatch.setattr("ulmus.calibration.intervals.EVIDENCE", np.inf)  # and variances were believed
    monkeypatch.setattr("ulmus.solvers.robust.RobustSolution.leave_one_out", left_by_the_last_curvature)
    loaded, fresh = ulmus.load(FILES / f"{name}_format_2.ulmus"), FORMAT_2[name]()
    for _ in range(2):
        for method in ("predict", "predict_proba", "predict_interval", "residual_kernel", "error_bound"):
            if hasattr(fresh, method) and (method, name) != ("error_bound", "nkelm_iterative"):
                answers = [getattr(model, method)(NEW) for model in (loaded, fresh)]
                close = 1e-8 if name != "nkelm_iterative" else 10 * fresh.tol  # a residual of tol is where either ended
                assert relative_error(*(np.asarray(a, float) for a in answers)) <= close, method
        if not hasattr(fresh, "partial_fit") or name in ("nkelm_iterative", "elm_ordinal"):
            return
        target = LABELS if hasattr(fresh, "classes_") else np.c_[Y, -Y] if name == "nkelm_regressor" else Y
        loaded, fresh = (model.partial_fit(X + 0.05, target) for model in (loaded, fresh))


def test_an_iterative_model_of_format_2_has_the_weights_of_its_file():
    """Products in single precision end in other weights on another processor; those of the file give its answers."""
    loaded = ulmus.load(FILES / "nkelm_iterative_format_2.ulmus")
    name = "nkelm_iterative_format_2"
    alpha, intercept = stored(name, "landmark_weights_"), stored(name, "intercept_")
    np.testing.assert_array_equal(loaded.landmark_weights_, alpha)
    expected = np.exp(-((NEW - loaded.map_.landmarks_.T) ** 2)) @ alpha[:, 0] + intercept
    assert relative_error(loaded.predict(NEW), expected) <= 1e-12
    exact = ulmus.NKELMRegressor(5, gamma=1.0, C=10.0, random_state=0).fit(X, Y)
    assert relative_error(expected, exact.predict(NEW)) <= 10 * loaded.tol


def adaptive_table():
    """The rows, and new ones, of the files of adaptive models."""
    rng = np.random.RandomState(0)
    rows, new = rng.uniform(-1, 1, (320, 2)), rng.uniform(-1, 1, (25, 2))
    return rows, new


def as_frame(rows):
    return pd.DataFrame({"kind": np.where(rows[:, 0] > 0.2, "big", "small"), "x": rows[:, 1]})


@pytest.mark.parametrize("name", ["regressor", "frame", "monotone", "classifier", "ordinal"])
def test_an_adaptive_model_whose_parts_were_attributes_loads_and_answers_the_same(name):
    """The landmarks of the monotone one have a condition number of 2e14: weights of 1e6 cancel in every sum.

    A sum of m kernel values, which are 1 at most, with weights α has an error of m eps Σ|α| at most.
    """
    loaded, answers = ulmus.load(FILES / f"adaptive_{name}_format_2.ulmus"), np.load(FILES / "adaptive_answers.npz")
    new = as_frame(adaptive_table()[1]) if name == "frame" else adaptive_table()[1]
    alpha = loaded.map_.weight_to_landmarks(loaded.beta_)
    lost = len(alpha) * EPS * np.abs(alpha).sum() if name == "monotone" else 1e-12
    for model in (loaded, from_bytes(to_bytes(loaded)), pickle.loads(pickle.dumps(loaded))):
        asked = [key for key in answers if key.startswith(f"adaptive_{name}.")]
        assert len(asked) == 3
        for key in asked:
            found = getattr(model, key.partition(".")[2])(new)
            np.testing.assert_allclose(found, answers[key], rtol=1e-9, atol=lost)
        assert model.memory_ > model.map_.landmarks_.nbytes
        assert model.feature_importances_.shape == (2,)
        assert len(model.trials_) == 2
    assert hasattr(loaded, "loss_") == (name == "classifier") == hasattr(loaded, "losses_")
    assert hasattr(loaded, "monotone_violation_") == (name == "monotone")


def test_a_frame_whose_levels_were_attributes_is_read_the_same():
    rows = adaptive_table()[0][:60]
    fresh = ulmus.AdaptiveRegressor(effort="fast", trees=False, random_state=0).fit(as_frame(rows), rows[:, 0])
    fit = fresh.fitted_.weights
    state = {k: v for k, v in fresh.__getstate__().items() if k != "fitted_"}
    names = {"view_": "view", "map_": "features", "beta_": "beta", "intercept_": "intercept", "C_": "C"}
    names |= {"local_": "local", "feature_importances_": "importances", "_part_seed": "part_seed"}
    old = {old: getattr(fit, part) for old, part in names.items()} | {"_single_output": True, "spread_": fresh.spread_}
    old |= {"_categorical": fit.columns.categorical, "_levels": {"kind": ["big", "small"]}}
    before = ulmus.AdaptiveRegressor.__new__(ulmus.AdaptiveRegressor)
    before.__setstate__({**state, **old})
    np.testing.assert_array_equal(before.predict(as_frame(rows)), fresh.predict(as_frame(rows)))
    np.testing.assert_array_equal(before.predict_interval(as_frame(rows)), fresh.predict_interval(as_frame(rows)))


@pytest.mark.parametrize("name", ["enda", "enda_nystrom", "enda_learning", "klda", "nnda", "enda_ensemble"])
def test_a_discriminant_model_whose_parts_were_attributes_loads_answers_the_same_and_learns_on(name):
    loaded, answers = ulmus.load(FILES / f"{name}_format_2.ulmus"), np.load(FILES / "discriminant_answers.npz")
    rng = np.random.RandomState(0)
    rows, new = rng.normal(size=(60, 2)), rng.normal(size=(25, 2))
    labels = np.digitize(rows[:, 0] + rows[:, 1] ** 2, [0.0, 1.0])
    for model in (loaded, from_bytes(to_bytes(loaded)), pickle.loads(pickle.dumps(loaded))):
        for method in ("transform", "predict_proba"):
            np.testing.assert_allclose(getattr(model, method)(new), answers[f"{name}.{method}"], rtol=1e-9, atol=1e-11)
        clear = np.diff(np.sort(answers[f"{name}.predict_proba"]), axis=1)[:, -1] > 1e-9  # ties were left to round-off
        assert clear.mean() > 0.9
        np.testing.assert_array_equal(model.predict(new[clear]), answers[f"{name}.predict"][clear])
        shown = set(answers[f"{name}.attributes"].tolist()) - {"left_out_"}  # none where k was given
        assert all(hasattr(model, attribute) for attribute in shown)
        if hasattr(model, "partial_fit"):
            found = model.partial_fit(rows + 0.1, labels).predict_proba(new)
            np.testing.assert_allclose(found, answers[f"{name}.partial"], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    "name",
    cases(
        ["adaptive_regressor", "adaptive_frame", "enda", "enda_ensemble", "klda", "nnda"],
        "adaptive_frame",
        "enda",
        "nnda",
    ),
)
def test_a_state_of_before_with_a_part_gone_or_of_another_kind_is_refused_or_loads(name):
    description, body, arrays = _open((FILES / f"{name}_format_2.ulmus").read_bytes())
    content = {key: value for key, value in vars(description).items() if key != "checksum"}
    place, refused = body["root"]["object"], 0
    for part in body["objects"][place]["state"]:
        for instead in (None, "x", 7, []):
            changed = copy.deepcopy(body)
            state = changed["objects"][place]["state"]
            state[part] = instead
            if instead is None:
                del state[part]
            try:
                from_bytes(pack({**content, "body": changed}, arrays))
            except LoadError:
                refused += 1
    assert refused > 20

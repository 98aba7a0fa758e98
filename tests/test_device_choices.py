"""What is chosen and held out on a device: folds, generalised cross-validation, and rows that come after a fit."""

import numpy as np
import pytest

import ulmus
from data import classification, regression, relative_error, rows
from gpu import DEVICE, accelerator, torch
from ulmus.devices.accelerator import Accelerator
from ulmus.devices.scorer import TensorPath
from ulmus.devices.statistics import TensorStatistics
from ulmus.solvers.path import RidgePath
from ulmus.statistics import Statistics

OPTIONS = {
    "NKELM": {"n_landmarks": 40, "gamma": 0.3},
    "KELM": {"gamma": 0.3},
    "ELM": {"n_hidden": 30, "slope": 1.0},
}


@pytest.fixture(autouse=True)
def _without_tiles(monkeypatch):
    if DEVICE != "cuda":
        monkeypatch.setattr(Accelerator, "fuses", False)


def on_both(family, task, X, y, **given):
    kind = getattr(ulmus, family + task)
    return [kind(**OPTIONS[family], random_state=0, device=device, **given).fit(X, y) for device in ("cpu", DEVICE)]


@pytest.mark.parametrize("family", OPTIONS)
@pytest.mark.parametrize("task", ["Regressor", "Classifier"])
def test_folds_choose_and_calibrate_as_on_the_cpu(family, task):
    X, y = regression(240, outputs=2) if task == "Regressor" else classification(240)
    here, there = on_both(family, task, X, y, cv=3)
    assert here.C_ == there.C_
    held_out = [m.predict_interval(X) if task == "Regressor" else m.predict_proba(X) for m in (here, there)]
    assert relative_error(held_out[1], held_out[0]) < 1e-6


@pytest.mark.parametrize("family", OPTIONS)
def test_copies_leave_together_also_when_rows_are_on_the_device(family):
    X, y = regression(240)
    weight = np.full(240, 5.0)
    where = "cuda" if DEVICE == "cuda" else "cpu"
    tensors = (torch.as_tensor(a, device=where) for a in (X, y))
    kind = getattr(ulmus, f"{family}Regressor")
    here = kind(**OPTIONS[family], random_state=0).fit(X, y, weight)
    there = kind(**OPTIONS[family], random_state=0, device=DEVICE).fit(*tensors, weight)
    assert here.C_ == there.C_


@pytest.mark.parametrize("family", OPTIONS)
def test_generalised_cross_validation_chooses_as_on_the_cpu(family):
    X, y = regression(240)
    here, there = on_both(family, "Regressor", X, y, criterion="gcv")
    assert here.C_ == there.C_
    expected, found = (m.tuning_.surface()["loss"] for m in (here, there))
    trusted = np.isfinite(expected)  # infinite where the model spends more than half of the rows
    assert (np.isfinite(found) == trusted).all()
    assert relative_error(found[trusted], expected[trusted]) < 1e-7


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_gcv_and_degrees_of_freedom_are_those_of_the_path_on_the_cpu(fit_intercept):
    stats, a, C = Statistics.of(rows(100, 12), rows(100, 2, seed=1)), accelerator(), 2.0 ** np.arange(-5, 10)
    there = TensorPath(TensorStatistics(a.tensor(stats.moments), 2, 100, accelerator=a), fit_intercept=fit_intercept)
    here = RidgePath(stats, fit_intercept=fit_intercept)
    assert relative_error(there.spectrum.gcv(C), here.gcv(C)) < 1e-10
    assert relative_error(there.spectrum.degrees_of_freedom(C), here.degrees_of_freedom(C)) < 1e-10


@pytest.mark.parametrize("family", ["NKELM", "ELM"])
def test_a_model_fitted_on_a_device_learns_on_as_one_of_the_cpu(family):
    X, y = regression(400)
    here, there = on_both(family, "Regressor", X[:300], y[:300], C=1.0)
    for model in (here, there):
        model.partial_fit(X[300:], y[300:])
    assert relative_error(there.predict(X), here.predict(X)) < 1e-7

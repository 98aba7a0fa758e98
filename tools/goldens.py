"""Freeze what the models answer, so that a rebuilding changes none of it.

``python tools/goldens.py record FOLDER`` fits every estimator to small tables (dense, CSR, weighted, float32, frames;
parameters given and chosen) and writes its answers and fitted attributes (``answers.npz``) and the saved models.
``python tools/goldens.py compare FOLDER`` does the same again and says what differs by more than 1e-12, relative;
files that were saved then must load now and answer the same.
"""

import argparse
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import clone, is_classifier

import ulmus

TOLERANCE = 1e-12
#: What is asked of every model that has it.
METHODS = ("predict", "predict_proba", "decision_function", "predict_interval", "predict_cumulative", "transform")
ATTRIBUTES = ("C_", "gamma_", "slope_", "n_landmarks_", "n_hidden_", "beta_", "intercept_", "alpha_", "route_")
ATTRIBUTES += ("landmark_weights_", "metric_", "feature_importances_", "transition_", "weights_", "n_neighbors_")

MODELS: dict[str, Any] = {
    "ELMRegressor": ulmus.ELMRegressor(),
    "ELMRegressor given": ulmus.ELMRegressor(20, slope=1.0, C=10.0),
    "ELMRegressor C=None": ulmus.ELMRegressor(15, C=None),
    "ELMClassifier": ulmus.ELMClassifier(),
    "ELMOrdinalClassifier": ulmus.ELMOrdinalClassifier(),
    "ELMOrdinalClassifier logistic": ulmus.ELMOrdinalClassifier(20, loss="logistic"),
    "KELMRegressor": ulmus.KELMRegressor(),
    "KELMRegressor metric": ulmus.KELMRegressor(metric="auto"),
    "KELMClassifier": ulmus.KELMClassifier(gamma=0.5, C=10.0),
    "KELMOrdinalClassifier": ulmus.KELMOrdinalClassifier(),
    "KELMOrdinalClassifier logistic": ulmus.KELMOrdinalClassifier(loss="logistic"),
    "NKELMRegressor": ulmus.NKELMRegressor(),
    "NKELMRegressor given": ulmus.NKELMRegressor(30, gamma=0.5, C=10.0),
    "NKELMRegressor laplacian": ulmus.NKELMRegressor(30, kernel="laplacian_l1", cv=4),
    "NKELMRegressor iterative": ulmus.NKELMRegressor(30, gamma=0.5, C=10.0, solver="iterative"),
    "NKELMClassifier": ulmus.NKELMClassifier(metric="auto"),
    "NKELMClassifier balanced": ulmus.NKELMClassifier(30, class_weight="balanced", landmarks="balanced"),
    "NKELMOrdinalClassifier": ulmus.NKELMOrdinalClassifier(),
    "OSELMRegressor": ulmus.OSELMRegressor(30),
    "OSELMRegressor forgetting": ulmus.OSELMRegressor(30, forgetting=0.99, form="covariance", C=10.0),
    "OSELMClassifier": ulmus.OSELMClassifier(30),
    "OSELMOrdinalClassifier": ulmus.OSELMOrdinalClassifier(30),
    "RobustELMRegressor": ulmus.RobustELMRegressor(),
    "RobustNKELMRegressor": ulmus.RobustNKELMRegressor(30, loss="huber"),
    "AdaptiveRegressor": ulmus.AdaptiveRegressor(effort="fast"),
    "AdaptiveClassifier": ulmus.AdaptiveClassifier(effort="fast"),
    "AdaptiveOrdinalClassifier": ulmus.AdaptiveOrdinalClassifier(effort="fast"),
    "ENDA": ulmus.ENDA(40),
    "ENDA nystrom": ulmus.ENDA(features="nystrom", head="mean"),
    "ENDAEnsemble": ulmus.ENDAEnsemble(ulmus.ENDA(20), n_members=3),
    "KLDA": ulmus.KLDA(),
    "LearnedMetric": ulmus.LearnedMetric(),
    "NystromMap": ulmus.NystromMap(20),
    "RandomLayer": ulmus.RandomLayer(20),
}


def tables() -> Iterator[tuple[str, dict[str, Any], np.ndarray, np.ndarray, Any]]:
    """Ways in: name, keywords of ``fit``, rows, targets, new rows."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(160, 4)).round(3)
    y = (np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=160)).round(3)
    new = rng.normal(size=(25, 4)).round(3)
    weight = rng.randint(0, 4, size=160).astype(float)
    names = ["a", "b", "c", "d"]
    yield "dense", {}, X, y, new
    yield "weighted", {"sample_weight": weight}, X, y, new
    yield "float32", {}, X.astype(np.float32), y, new.astype(np.float32)
    yield "frame", {}, pd.DataFrame(X, columns=names), y, pd.DataFrame(new, columns=names)
    yield "csr", {}, sparse.csr_matrix(X), y, sparse.csr_matrix(new)


def fitted() -> Iterator[tuple[str, Any, Any]]:
    """Every model on every table that it takes."""
    for name, model in MODELS.items():
        for table, keywords, X, y, new in tables():
            if table == "csr" and not model.__sklearn_tags__().input_tags.sparse:
                continue
            if table == "weighted" and isinstance(model, ulmus.LearnedMetric):
                continue
            copy = clone(model).set_params(random_state=0)
            labels = np.digitize(y, [0.0, 1.0, 2.0])
            yield f"{name} | {table}", copy.fit(X, labels if is_classifier(copy) else y, **keywords), new


def answers(model: Any, new: Any) -> dict[str, np.ndarray]:
    """What a fitted model says."""
    said = {method: np.asarray(getattr(model, method)(new)) for method in METHODS if hasattr(model, method)}
    if said.get("predict", np.zeros(0)).dtype.kind == "f" and hasattr(model, "spread_"):
        said["std"] = model.predict(new, return_std=True)[1]
    said |= {name: np.asarray(getattr(model, name)) for name in ATTRIBUTES if hasattr(model, name)}
    return {name: value for name, value in said.items() if value.dtype.kind in "biufU"}


def record(folder: Path) -> None:
    """Write answers and files."""
    folder.mkdir(parents=True, exist_ok=True)
    told: dict[str, np.ndarray] = {}
    for name, model, new in fitted():
        told |= {f"{name} | {key}": value for key, value in answers(model, new).items()}
        if name.endswith("| dense"):
            ulmus.save(model, folder / f"{name.split(' |')[0]}.ulmus")
    np.savez_compressed(folder / "answers.npz", **told)
    print(f"{len(told)} answers")


def differences(name: str, then: np.ndarray, now: np.ndarray) -> Iterator[str]:
    """In what two answers differ."""
    if then.shape != now.shape:
        yield f"{name}: shape {then.shape} then, {now.shape} now"
    elif then.dtype.kind in "US":
        if (then != now).any():
            yield f"{name}: {then} then, {now} now"
    else:
        scale = np.abs(then).max(initial=1e-300)
        worst = np.abs(np.asarray(now, float) - np.asarray(then, float)).max(initial=0.0) / scale
        if not worst <= TOLERANCE:
            yield f"{name}: off by {worst:.2g} of the largest"


def compare(folder: Path) -> int:
    """How many answers differ from those that were recorded."""
    with np.load(folder / "answers.npz") as stored:
        then = dict(stored)
    wrong: list[str] = []
    for name, model, new in fitted():
        found = answers(model, new)
        if name.endswith("| dense"):
            loaded = answers(ulmus.load(folder / f"{name.split(' |')[0]}.ulmus"), new)
            for key in loaded.keys() & found.keys():
                wrong += differences(f"{name} | {key} (from its file)", then[f"{name} | {key}"], loaded[key])
        for key, value in found.items():
            wrong += differences(f"{name} | {key}", then[f"{name} | {key}"], value)
        known = {each.rsplit(" | ", 1)[1] for each in then if each.startswith(f"{name} | ")}
        wrong += [f"{name} | {key}: gone" for key in sorted(known - found.keys())]
    print(*wrong, sep="\n")
    print(f"{len(then)} answers, {len(wrong)} differ")
    return len(wrong)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.exit(record(asked.folder) if asked.what == "record" else bool(compare(asked.folder)))

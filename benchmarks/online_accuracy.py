"""Section (j): real sets streamed in random order, every row predicted before it is learned, beside river's models."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from harness import Options, Section, table
from ulmus import NKELMClassifier, NKELMRegressor, OSELMClassifier, OSELMRegressor, datasets

REGRESSION = ("cal_housing", "cpu_act")
CLASSIFICATION = ("pendigits", "ijcnn1")
MAX_ROWS, BLOCK = 10_000, 20


def accuracy(section: Section, options: Options) -> None:
    section.say(
        f"Rows in random order, at most {MAX_ROWS}, inputs scaled by their running mean and deviation: for river's "
        "models by its `StandardScaler`, for ours by the same sums, the inputs (not the targets) of the present block "
        "included. "
        f"Every row is predicted before it is learned; ours see the first {BLOCK} rows one by one and then blocks of "
        f"{BLOCK} (predicted as a block, then learned), river's one row at a time. Ours choose their parameters on the "
        "first 500 rows, river's have their defaults (Adam with step 0.01). Errors are over all rows, warm-up "
        "included: RMSE over the deviation of the targets, or percent wrong; mean over the seeds, with the range."
    )
    for regression, names in ((True, REGRESSION), (False, CLASSIFICATION)):
        lines, missing = [], []
        for name in names:
            found: dict[str, list[tuple[float, float]]] = {}
            for seed in range(options.repeats):
                if name not in datasets.list():
                    missing.append(name)
                    break
                X, y = shuffled(name, seed, options, regression)
                for label, run in contestants(regression, np.unique(y).tolist() if not regression else None, seed):
                    start = perf_counter()
                    wrong = run(X, y)
                    found.setdefault(label, []).append((wrong, perf_counter() - start))
            for label, results in found.items():
                errors = [e for e, _ in results]
                rate = len(y) / np.median([s for _, s in results])
                spread = f"{min(errors):.2f}..{max(errors):.2f}"
                lines.append((name, len(y), label, f"{np.mean(errors):.2f}", spread, f"{rate:,.0f}"))
        what = "RMSE, % of deviation" if regression else "wrong %"
        if lines:
            section.say(table(("set", "rows", "model", what, "range", "rows / s"), lines))
        if missing:
            section.say(f"Not here: {', '.join(missing)}. Set ULMUS_DATA to the folder that holds them.")


def shuffled(name: str, seed: int, options: Options, regression: bool) -> tuple[np.ndarray, np.ndarray]:
    dataset = datasets.load(name)
    X, y = dataset.data.astype(float), dataset.target
    order = np.random.RandomState(seed).permutation(len(y))[: options.rows(MAX_ROWS)]
    return X[order], y[order].astype(float) if regression else y[order]


class Scaler:
    """Mean and deviation of the rows so far, by river's formulas."""

    def __init__(self, m: int) -> None:
        self.n, self.mean, self.square = 0, np.zeros(m), np.zeros(m)

    def learn(self, X: np.ndarray) -> None:
        for x in X:
            self.n += 1
            step = x - self.mean
            self.mean += step / self.n
            self.square += step * (x - self.mean)

    def transform(self, X: np.ndarray) -> np.ndarray:
        deviation = np.sqrt(self.square / max(self.n, 1))
        return (X - self.mean) / np.where(deviation > 0, deviation, 1.0)


def in_blocks(model: Any, classes: list[Any] | None) -> Callable[[np.ndarray, np.ndarray], float]:
    """Prequential error of a model of ours."""

    def run(X: np.ndarray, y: np.ndarray) -> float:
        scaler, predicted = Scaler(X.shape[1]), np.empty(len(y), dtype=y.dtype)
        starts = [*range(BLOCK), *range(BLOCK, len(y), BLOCK)]
        for start, stop in pairwise([*starts, len(y)]):
            part = slice(start, stop)
            scaler.learn(X[part])
            rows = scaler.transform(X[part])
            if start:
                predicted[part] = model.predict(rows)
            else:
                predicted[part] = 0.0 if classes is None else classes[0]
            model.partial_fit(rows, y[part], **({"classes": classes} if classes is not None and not start else {}))
        return error(y, predicted, classes is None)

    return run


def one_by_one(model: Any, regression: bool) -> Callable[[np.ndarray, np.ndarray], float]:
    """Prequential error of a river model."""

    def run(X: np.ndarray, y: np.ndarray) -> float:
        names, predicted = [f"x{j}" for j in range(X.shape[1])], []
        for x, t in zip(X.tolist(), y.tolist(), strict=True):
            row = dict(zip(names, x, strict=True))
            guess = model.predict_one(row)
            predicted.append(guess if guess is not None else y[0])
            model.learn_one(row, t)
        return error(y, np.array(predicted), regression)

    return run


def error(y: np.ndarray, predicted: np.ndarray, regression: bool) -> float:
    if regression:
        return 100 * float(np.sqrt(np.mean((y - predicted.astype(float)) ** 2)) / y.std())
    return 100 * float(np.mean(y != predicted))


def contestants(regression: bool, classes: list[Any] | None, seed: int) -> Iterator[tuple[str, Any]]:
    """Our models and river's, unfitted."""
    if regression:
        yield "OSELM", in_blocks(OSELMRegressor(random_state=seed), None)
        yield "OSELM, forgetting 0.9999", in_blocks(OSELMRegressor(forgetting=0.9999, random_state=seed), None)
        yield "NKELM.partial_fit, L = 300", in_blocks(NKELMRegressor(300, random_state=seed), None)
    else:
        yield "OSELM", in_blocks(OSELMClassifier(random_state=seed), classes)
        yield "OSELM, forgetting 0.9999", in_blocks(OSELMClassifier(forgetting=0.9999, random_state=seed), classes)
        yield "NKELM.partial_fit, L = 300", in_blocks(NKELMClassifier(300, random_state=seed), classes)
    try:
        from river import forest, linear_model, multiclass, optim, preprocessing, tree
    except ImportError:
        return
    if regression:
        models = {
            "river BayesianLinearRegression": preprocessing.TargetStandardScaler(
                linear_model.BayesianLinearRegression()
            ),
            "river LinearRegression (Adam)": preprocessing.TargetStandardScaler(
                linear_model.LinearRegression(optim.Adam(0.01))
            ),
            "river HoeffdingAdaptiveTree": tree.HoeffdingAdaptiveTreeRegressor(seed=seed),
            "river ARFRegressor": forest.ARFRegressor(seed=seed),
        }
    else:
        models = {
            "river LogisticRegression (Adam)": multiclass.OneVsRestClassifier(
                linear_model.LogisticRegression(optim.Adam(0.01))
            ),
            "river PAClassifier": multiclass.OneVsRestClassifier(linear_model.PAClassifier()),
            "river HoeffdingAdaptiveTree": tree.HoeffdingAdaptiveTreeClassifier(seed=seed),
            "river ARFClassifier": forest.ARFClassifier(seed=seed),
        }
    for label, model in models.items():
        yield label, one_by_one(preprocessing.StandardScaler() | model, regression)

"""Exact Shapley values: their time and error, beside the sampler of the package shap.

    python -m experiments.sections.reasons [--rows 1000] [--quick] [--picture docs/images/reasons.svg]

1,000 rows of 30 inputs are explained against 100 background rows, of a model with 1,000 landmarks; the package's
``KernelExplainer``, where it is installed, explains 10 of them with its default number of samples.
"""

import argparse
import importlib
import importlib.util
from time import perf_counter, process_time

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.runner.protocol import markdown
from ulmus import NKELMRegressor
from ulmus.explain import explain

INPUTS, LANDMARKS, BACKGROUND, THEIRS = 30, 1_000, 100, 10


def data(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal inputs, of which six matter."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(n, INPUTS))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2 + X[:, 3] + np.abs(X[:, 4]) * (X[:, 5] > 0)
    return X, y + 0.2 * rng.normal(size=n)


def picture(path: str) -> None:
    """Draw the guide's example."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from sklearn.datasets import load_diabetes

    from ulmus import BeeswarmDisplay, KELMRegressor, WaterfallDisplay

    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    model = make_pipeline(StandardScaler(), KELMRegressor(random_state=0)).fit(X[:400], y[:400])
    reasons = explain(model, X[400:], background=X[:100])
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    WaterfallDisplay.from_explanation(reasons, row=0, ax=axes[0])
    BeeswarmDisplay.from_explanation(reasons, ax=axes[1])
    figure.savefig(path)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--quick", action="store_true", help="few landmarks, to try it")
    parser.add_argument("--picture", help="draw the guide's example here, and measure nothing")
    given = parser.parse_args()
    if given.picture:
        picture(given.picture)
        return
    X, y = data(2_000)
    rows, background = X[: given.rows], X[-BACKGROUND:]
    table = []
    for kernel in ("rbf", "laplacian_l1"):
        size = 50 if given.quick else LANDMARKS
        model = NKELMRegressor(size, kernel=kernel, gamma=0.02, C=10.0, random_state=0).fit(X, y)
        wall, cpu = perf_counter(), process_time()
        found = model.explain(rows, background)
        wall, cpu = perf_counter() - wall, process_time() - cpu
        gap = np.abs(found.values.sum(axis=1) + found.base_values - model.predict(rows)).max()
        table.append(
            (f"exact, {kernel}", len(rows), f"{cpu:.1f}", f"{wall:.1f}", f"{1e3 * cpu / len(rows):.0f}", f"{gap:.0e}")
        )
        if importlib.util.find_spec("shap") is not None:
            explainer = importlib.import_module("shap").KernelExplainer(model.predict, background)
            some = rows[:THEIRS]
            wall, cpu = perf_counter(), process_time()
            theirs = explainer.shap_values(some, silent=True)
            wall, cpu = perf_counter() - wall, process_time() - cpu
            off = np.abs(theirs - found.values[: len(some)]).max() / np.abs(found.values[: len(some)]).max()
            name = f"KernelExplainer, {kernel}"
            table.append(
                (
                    name,
                    len(some),
                    f"{cpu:.1f}",
                    f"{wall:.1f}",
                    f"{1e3 * cpu / len(some):.0f}",
                    f"{off:.0e} of the largest",
                )
            )
    columns = ("", "rows", "processor s", "s", "processor ms a row", "largest error")
    print(markdown(columns, table))


if __name__ == "__main__":
    main()

"""Section s: ordinal models on many rows, beside a linear ordinal model and boosted trees."""

from collections.abc import Callable
from typing import Any

import mord
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from experiments.contestants.ordinal import Rounded
from experiments.runner.measure import timed
from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section
from experiments.sections.memory import peak_memory
from experiments.sections.problems import COVTYPE_TEST, elevation, quantile_classes
from experiments.tasks import Task, random_split
from ulmus import AdaptiveOrdinalClassifier, ELMOrdinalClassifier, KELMOrdinalClassifier, NKELMOrdinalClassifier

#: Models that are run up to so many rows: the exact kernel, and Newton's method on the bits.
FEW_ROWS = 20_000
ON_FEW_ROWS = ("KELMOrdinalClassifier", "NKELMOrdinalClassifier, L = 500, logistic")
#: Rows of the memory curve.
CURVE = (250_000, 500_000, 1_000_000, 2_000_000)

MODELS: dict[str, Callable[[], Any]] = {
    "AdaptiveOrdinalClassifier": lambda: AdaptiveOrdinalClassifier(random_state=0),
    "NKELMOrdinalClassifier": lambda: NKELMOrdinalClassifier(random_state=0),
    "NKELMOrdinalClassifier, L = 1000": lambda: NKELMOrdinalClassifier(1000, random_state=0),
    "NKELMOrdinalClassifier, L = 500, logistic": lambda: NKELMOrdinalClassifier(500, loss="logistic", random_state=0),
    "ELMOrdinalClassifier": lambda: ELMOrdinalClassifier(random_state=0),
    "KELMOrdinalClassifier": lambda: KELMOrdinalClassifier(random_state=0),
    "mord LogisticAT": lambda: mord.LogisticAT(alpha=1.0),
    "HistGradientBoosting, rounded": lambda: Rounded(HistGradientBoostingRegressor(random_state=0)),
    "HistGradientBoosting, classifier": lambda: HistGradientBoostingClassifier(random_state=0),
}


def cal5(options: Options) -> Task | None:
    """California's house values in five classes: 16,512 rows to train on."""
    task = random_split("cal_housing", 0, options.rows(16_512), options.rows(4_128))
    if task is None:
        return None
    y = quantile_classes(np.concatenate([task.y, task.y_test]))
    n = len(task.y)
    return Task("Cal5", "ordinal", task.X, y[:n], task.X_test, y[n:]).scaled("standardised")


def elevation_quintiles(options: Options) -> Task:
    """CovType's elevation in five classes, from its other features."""
    X, y = elevation(options.rows(581_012))
    n = len(X) - options.rows(COVTYPE_TEST)
    return Task("elevation quintiles of CovType", "ordinal", X[:n], y[:n], X[n:], y[n:])


def scale(section: Section, options: Options) -> None:
    """Time and MAE of each model, then the memory of one as rows grow."""
    for task in (cal5(options), elevation_quintiles(options)):
        if task is None:
            section.say("cal_housing is not at hand: set ULMUS_DATA.")
            continue
        rows = []
        for name, make in MODELS.items():
            if name in ON_FEW_ROWS and len(task.X) > FEW_ROWS:
                continue
            model, fit = timed(lambda make=make, task=task: make().fit(task.X, task.y))
            predicted, predict = timed(lambda model=model, task=task: model.predict(task.X_test))
            error = np.abs(predicted - task.y_test)
            size = getattr(model, "n_landmarks_", getattr(model, "n_hidden_", ""))
            rows.append(
                (name, f"{fit:.2f}", f"{predict:.2f}", f"{error.mean():.4f}", f"{(error > 0).mean():.4f}", size)
            )
            print(rows[-1], flush=True)
        section.say(
            f"**{task.name}**, {len(task.X)} × {task.X.shape[1]} rows to train on, {len(task.X_test)} to test on."
        )
        section.say(markdown(("model", "fit, s", "predict, s", "MAE", "MZE", "features"), rows))
    memory(section, options)


def memory(section: Section, options: Options) -> None:
    """Peak memory above the input."""
    rows, ours = [], []
    for n in map(options.rows, CURVE):
        for job in ("nkelm_ordinal", "mord", "histgb"):
            if job != "nkelm_ordinal" and n > options.rows(500_000):
                continue
            peak = peak_memory(job, n)
            rows.append((job, n, *(f"{peak[key]:.0f}" for key in ("input", "fit", "predict", "output"))))
            print(rows[-1], flush=True)
            if job == "nkelm_ordinal":
                bits = 4 * 8 * n / 1e6
                ours.append(peak["fit"] - bits)
    section.say(
        "Peak memory, MB above libraries and input, of NKELMOrdinalClassifier (L = 1000), mord's LogisticAT and "
        "HistGradientBoostingRegressor on CovType's elevation quintiles, repeated with noise past its rows."
    )
    section.say(markdown(("job", "rows", "input", "fit", "predict", "of which the answer"), rows))
    section.claim(
        "memory of the fit less that of the coded labels (4 numbers a row), most rows / fewest",
        ours[-1] / ours[0],
        1.3,
        at_least=False,
        quick=options.quick,
    )

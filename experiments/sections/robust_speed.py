"""Section (m): what robustness costs in time and memory."""

import statistics
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVR

from experiments.runner.measure import interleave
from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section
from experiments.sections.memory import peak_memory
from experiments.sections.problems import smooth
from experiments.sections.robust_data import rmse, split
from experiments.tasks import Task
from ulmus import ELMRegressor, RobustELMRegressor, RobustNKELMRegressor
from ulmus.losses import LOSSES

N, L, FEATURES, C = 100_000, 500, 10, 1.0
FEWER = "RobustNKELM, given, SVR's error"
GRID = {"C": [1, 10, 100], "gamma": [0.1, 0.3, 1], "epsilon": [0.01, 0.03]}


def speed(section: Section, options: Options) -> None:
    """Against our own Tikhonov fit, against SVR, and over a million rows."""
    _tikhonov(section, options)
    _svr(section, options)
    _memory(section, options)


def _tikhonov(section: Section, options: Options) -> None:
    n = options.rows(N)
    X, y = smooth(n, FEATURES)
    y = y[:, 0]
    bad = np.random.RandomState(0).rand(n) < 0.1
    y[bad] += 10 * np.random.RandomState(1).standard_normal(bad.sum())
    layer = {"n_hidden": L, "slope": 1.0, "random_state": 0}
    jobs = {"Tikhonov": lambda: ELMRegressor(**layer, C=C, fit_intercept=True).fit(X, y)}
    for name, loss in LOSSES.items():
        if loss.parameter:
            jobs[name] = lambda name=name: RobustELMRegressor(**layer, C=C, loss=name).fit(X, y)
    timings = interleave(jobs, options.repeats)
    base = timings["Tikhonov"]
    rows = [(m, str(t), f"{t.ratio_to(base):.2f}", getattr(t.result, "n_iter_", "")) for m, t in timings.items()]
    section.say(
        f"{n} × {FEATURES} rows, {L} nodes, C = {C:g}, 10 % outliers; the scale of the loss is estimated. Seconds of a "
        f"fit: median (least..most) of {options.repeats}."
    )
    section.say(markdown(("loss", "seconds", "× Tikhonov", "iterations"), rows))
    ratios = [t.ratio_to(base) for m, t in timings.items() if m != "Tikhonov"]
    section.claim(
        "robust / Tikhonov, median over losses", statistics.median(ratios), 4, at_least=False, quick=options.quick
    )
    section.warn(timings)


def _svr(section: Section, options: Options) -> None:
    task = split("Cal housing", 0, options.rows(8_000), options.rows(12_640))
    if task is None:
        section.say("Not here: Cal housing. Set ULMUS_DATA to the folder that holds it.")
        return
    few = task.first(2_000)
    best = GridSearchCV(SVR(cache_size=1000), GRID, cv=3, scoring="neg_mean_squared_error", n_jobs=-1).fit(few.X, few.y)
    chosen = RobustNKELMRegressor(random_state=0).fit(task.X, task.y)
    given = {"gamma": chosen.gamma_, "C": chosen.C_, "n_landmarks": chosen.n_landmarks_, "random_state": 0}
    jobs = {
        "SVR": lambda: SVR(**best.best_params_, cache_size=1000).fit(task.X, task.y),
        "RobustNKELM, given": lambda: RobustNKELMRegressor(**given).fit(task.X, task.y),
        "RobustNKELM(), search included": lambda: RobustNKELMRegressor(random_state=0).fit(task.X, task.y),
    }
    fewer = as_good_as(SVR(**best.best_params_, cache_size=1000), given, task)
    jobs[FEWER] = lambda: RobustNKELMRegressor(**{**given, "n_landmarks": fewer}).fit(task.X, task.y)
    timings = interleave(jobs, min(3, options.repeats))
    errors = {name: rmse(task, t.result.predict(task.X_test)) for name, t in timings.items()}
    section.say(
        f"Cal housing, {len(task.X)} training rows, as in section (k). SVR with what a 3-fold search over {len(few.X)} "
        f"rows chose ({best.best_params_}); ours with what it chose itself (L = {chosen.n_landmarks_}), with the "
        f"search, and with the fewest landmarks (L = {fewer}) that are as good as SVR on a "
        "quarter of the training rows, left out for that."
    )
    svr = timings["SVR"]
    rows = [(name, str(t), f"{svr.ratio_to(t):.1f}", f"{errors[name]:.4f}") for name, t in timings.items()]
    section.say(markdown(("model", "seconds", "SVR / it", "RMSE"), rows))
    section.claim("SVR / ours in time", svr.ratio_to(timings[FEWER]), 6, at_least=True, quick=options.quick)
    section.claim("ours / SVR in RMSE", errors[FEWER] / errors["SVR"], 1, at_least=False, quick=options.quick)


def as_good_as(rival: Any, given: dict[str, Any], task: Task) -> int:
    """The fewest landmarks, by half powers of two, whose error on rows left out of training is no larger."""
    n = 3 * len(task.X) // 4
    X, y, X_out, y_out = task.X[:n], task.y[:n], task.X[n:], task.y[n:]

    def error(model: Any) -> float:
        return float(np.mean((model.fit(X, y).predict(X_out) - y_out) ** 2))

    bound = error(rival)
    sizes = [int(125 * 2 ** (k / 2)) for k in range(7)]
    good = (L for L in sizes if error(RobustNKELMRegressor(**{**given, "n_landmarks": L})) <= bound)
    return next(good, sizes[-1])


def _memory(section: Section, options: Options) -> None:
    sizes = [options.rows(n) for n in (250_000, 1_000_000)]
    peaks = [peak_memory("robust", n) for n in sizes]
    rows = [(n, f"{p['input']:.0f}", f"{p['fit']:.0f}") for n, p in zip(sizes, peaks, strict=True)]
    section.say(f"Peak memory of a robust fit above the input, in MB ({L} nodes):")
    section.say(markdown(("rows", "input", "fit"), rows))
    growth = (peaks[1]["fit"] - peaks[0]["fit"]) * 1e6 / (sizes[1] - sizes[0]) / 8
    section.claim("numbers held for each further row", growth, 20, at_least=False, quick=options.quick)

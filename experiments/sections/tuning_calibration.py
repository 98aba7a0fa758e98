"""Section (h): do 90 % intervals hold 90 % of new targets, and do probabilities mean what they say."""

from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.svm import SVC

from experiments.runner.measure import timed
from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section
from experiments.suites.arena import expected_calibration_error
from experiments.tasks import Task, random_split
from ulmus import NKELMClassifier, NKELMRegressor

REGRESSION = ("cal_housing", "cpu_act", "house_16H", "abalone", "cpu_small", "delta_elevators")
CLASSIFICATION = ("satimage", "letter", "pendigits", "image_segmentation", "waveform21", "ijcnn1")
COVERAGE = 0.9
N_BINS = 15
#: Training rows of the comparison with SVC, and of every set (ijcnn1 alone is larger); test rows, at most.
SHARED_ROWS, MAX_ROWS, TEST_ROWS = 3_000, 20_000, 20_000


def calibration(section: Section, options: Options) -> None:
    """Both tables."""
    intervals(section, options)
    probabilities(section, options)


def tasks(name: str, options: Options) -> list[Task]:
    """Random splits, two thirds to train on, standardised; none where the set is not at hand."""
    splits = [random_split(name, seed) for seed in range(options.repeats)]
    limit = 600 if options.quick else MAX_ROWS
    return [split.first(limit).tested_on(TEST_ROWS).scaled("standardised") for split in splits if split]


def intervals(section: Section, options: Options) -> None:
    section.say(
        f"`NKELMRegressor().fit(X, y).predict_interval(X_test, coverage={COVERAGE})` on {options.repeats} random "
        "splits, a third for testing: share of test targets inside (mean, least..most), mean width in deviations of "
        "the target, and the narrowest interval that ignores the inputs (the quantiles of the targets)."
    )
    rows, found = [], {}
    for name in REGRESSION:
        inside, width, blind, seconds = [], [], [], []
        for seed, task in enumerate(tasks(name, options)):
            model, took = timed(lambda task=task, seed=seed: NKELMRegressor(random_state=seed).fit(task.X, task.y))
            low, high = model.predict_interval(task.X_test, coverage=COVERAGE).T
            inside.append(100 * np.mean((low <= task.y_test) & (task.y_test <= high)))
            width.append(np.mean(high - low) / task.y.std())
            tail = (1 - COVERAGE) / 2
            blind.append(np.ptp(np.quantile(task.y, [tail, 1 - tail])) / task.y.std())
            seconds.append(took)
        if inside:
            found[name] = float(np.mean(inside))
            shown = f"{found[name]:.1f} ({min(inside):.1f}..{max(inside):.1f})"
            widths = (f"{np.mean(w):.2f}" for w in (width, blind))
            rows.append((name, len(task.X), len(task.X_test), shown, *widths, f"{np.median(seconds):.2f}"))
    section.say(markdown(("set", "train", "test", "inside %", "width", "width, blind", "fit s"), rows))
    section.name_missing([name for name in REGRESSION if name not in found])
    for name, share in found.items():
        text = f"{name}, |coverage − 90| in points"
        section.claim(text, abs(share - 90), 2, at_least=False, quick=options.quick)


def probabilities(section: Section, options: Options) -> None:
    section.say(
        f"`predict_proba` on held-out rows: expected calibration error (ECE, {N_BINS} bins of equal width, of the "
        f"largest probability), mean of {options.repeats} random splits. First `NKELMClassifier()` on all training "
        f"rows (at most {MAX_ROWS}), then, on the same {SHARED_ROWS} of them, beside `CalibratedClassifierCV(SVC())`. "
        "Seconds are of a fit, calibration and all choices included."
    )
    rows, found = [], {}
    for name in CLASSIFICATION:
        results = []
        for seed, task in enumerate(tasks(name, options)):
            few = task.first(SHARED_ROWS)
            results.append(
                (
                    *judged(NKELMClassifier(random_state=seed), task),
                    *judged(NKELMClassifier(random_state=seed), few),
                    *judged(CalibratedClassifierCV(SVC()), few),
                )
            )
        if results:
            mean = found[name] = np.mean(results, axis=0)
            forms = 3 * ("{:.4f}", "{:.2f}", "{:.2f}")
            rows.append((name, len(task.X), *(f.format(v) for f, v in zip(forms, mean, strict=True))))
    header = ("set", "train", "ECE", "error %", "s", "Ulmus, few rows: ECE", "error %", "s", "SVC: ECE", "error %", "s")
    section.say(markdown(header, rows))
    section.name_missing([name for name in CLASSIFICATION if name not in found])
    for name, (ece, _, _, ours, _, seconds, theirs, _, svc_seconds) in found.items():
        quick = options.quick
        section.claim(f"{name}, ECE", ece, 0.03, at_least=False, quick=quick)
        section.claim(f"{name}, same rows, ECE / SVC's", ours / theirs, 1, at_least=False, quick=quick)
        section.claim(f"{name}, same rows, SVC / Ulmus in time", svc_seconds / seconds, 10, at_least=True, quick=quick)


def judged(model: Any, task: Task) -> tuple[float, float, float]:
    """ECE, error in % and seconds of a fit."""
    fitted, seconds = timed(lambda: model.fit(task.X, task.y))
    P = fitted.predict_proba(task.X_test)
    right = fitted.classes_[P.argmax(axis=1)] == task.y_test
    return expected_calibration_error(P, right), 100 * float(np.mean(~right)), seconds

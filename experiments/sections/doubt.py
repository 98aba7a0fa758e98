"""Intervals, quantiles and sets of the arena's tables, beside LightGBM + CQR (MAPIE), crepes and MAPIE.

    python -m experiments.sections.doubt [TABLE ...] [--rows N] [--seeds N] [--more] [--ours] [--inner] [--sets] ...

Splits are those of the arena, a fifth to be tested on, with so many training rows at most. Rivals need rows of their
own to calibrate on, a quarter of the training rows; ours calibrate on rows left out of the one fit. Seconds are those
of one thread's processor, for all four coverages together. ``--more`` adds other settings of ours. ``--inner`` splits
the training rows of development tables once more, and looks at no test row.

Coverages have a deviation of their own, from the test rows and from the rows that calibrate: of N test rows and n rows
that calibrate it is √(p(1 − p)(1/N + 1/n)) in one run, for whoever promises p and keeps it. ``--chance`` tells, and
fits nothing, on how many tables somebody would keep 1.5 points, and 85 % in the worst bin, whose scores have the same
distribution whatever the row.
"""

import argparse
import warnings
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr
from sklearn.model_selection import train_test_split

from experiments import tables
from experiments.runner.protocol import NotHere, markdown
from experiments.tables import load_table
from experiments.tasks import Task
from ulmus import AdaptiveClassifier, AdaptiveRegressor
from ulmus.calibration import CALIBRATION_ROWS

COVERAGES = (0.5, 0.8, 0.9, 0.95)
#: Levels of the quantiles that are scored: ends of the intervals, and the median.
LEVELS = np.array([0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975])
TEST_ROWS, CALIBRATED, BINS = 4_000, 0.25, 5
#: Points within which a promise is kept, and what the worst bin of 90 % intervals holds at least.
NEAR, LEAST_IN_BIN = 1.5, 85.0
#: The coverage of sets, and who makes them: ours, and MAPIE's of the same scores.
SET_COVERAGE, SETS = 0.95, ("adaptive", "threshold", "MAPIE, APS", "MAPIE, LAC")
#: Ends ``[row, coverage, end]`` and quantiles ``[row, level]`` of test rows.
Told = tuple[np.ndarray, np.ndarray]


def interval_score(ends: np.ndarray, y: np.ndarray, coverage: float) -> float:
    """Width, and 2/α times the distance of targets outside (Gneiting, Raftery 2007)."""
    low, high = ends.T
    outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return float(np.mean(high - low + 2.0 / (1.0 - coverage) * outside))


def quantile_score(Q: np.ndarray, y: np.ndarray) -> float:
    """Twice the mean pinball loss over the levels: the CRPS on so many points."""
    e = y[:, None] - Q
    return float(2.0 * np.mean(np.maximum(LEVELS * e, (LEVELS - 1.0) * e)))


def worst_bin(ends: np.ndarray, y: np.ndarray, noise: np.ndarray) -> float:
    """The least coverage over bins of equally many rows, from little noise to much."""
    inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
    return float(min(inside[part].mean() for part in np.array_split(np.argsort(noise, kind="stable"), BINS)))


def ours(task: Task, seed: int, method: str = "normalised", effort: str = "default", loss: str = "squared") -> Told:
    """One fit; nothing is set aside."""
    model = AdaptiveRegressor(effort=effort, loss=loss, random_state=seed, n_jobs=1).fit(task.X, task.y)
    ends = model.predict_interval(task.X_test, list(COVERAGES), method=method)
    return ends, model.predict_quantiles(task.X_test, LEVELS, method=method)


def deviation(task: Task, coverage: float, calibrating: float) -> float:
    """That of a coverage that is kept on the mean, in points, by chance in test rows and in so many that calibrate."""
    share = 1.0 / len(task.y_test) + 1.0 / calibrating
    return 100 * float(np.sqrt(coverage * (1.0 - coverage) * share))


def conformalised_quantiles(task: Task, seed: int) -> Told:
    """LightGBM's quantiles (500 trees, rate 0.05), made valid by MAPIE."""
    from lightgbm import LGBMRegressor
    from mapie.regression import ConformalizedQuantileRegressor

    X: Any = task.X
    fit, hold = split(task, seed)
    models = {}
    for q in LEVELS:
        given = {"objective": "quantile", "alpha": q, "n_estimators": 500, "learning_rate": 0.05}
        models[q] = LGBMRegressor(**given, random_state=seed, n_jobs=1, verbose=-1).fit(X.iloc[fit], task.y[fit])
    ends = []
    for coverage in COVERAGES:
        low, high = (min(models, key=lambda q, at=at: abs(q - at)) for at in ((1 - coverage) / 2, (1 + coverage) / 2))
        made = ConformalizedQuantileRegressor(
            [models[low], models[high], models[0.5]], confidence_level=coverage, prefit=True
        )
        made.conformalize(X.iloc[hold], task.y[hold])
        ends.append(np.sort(made.predict_interval(task.X_test)[1][:, :, 0], axis=1))
    Q = np.empty((len(task.y_test), len(LEVELS)))
    Q[:, 4] = models[0.5].predict(task.X_test)
    for c, (low, high) in enumerate(((3, 5), (2, 6), (1, 7), (0, 8))):
        Q[:, low], Q[:, high] = ends[c].T
    return np.stack(ends, axis=1), np.sort(Q, axis=1)


def normalised_forest(task: Task, seed: int) -> Told:
    """crepes as its documentation has it: a random forest, and difficulties by neighbours' out-of-bag errors."""
    from crepes import WrapRegressor
    from crepes.extras import DifficultyEstimator
    from sklearn.ensemble import RandomForestRegressor

    fit, hold = split(task, seed)
    X, X_test = numbers(task)
    forest = RandomForestRegressor(300, oob_score=True, random_state=seed, n_jobs=1)
    model = WrapRegressor(forest)
    model.fit(X[fit], task.y[fit])
    errors = task.y[fit] - model.learner.oob_prediction_
    difficulty = DifficultyEstimator()
    difficulty.fit(X=X[fit], residuals=errors, scaler=True)
    model.calibrate(X[hold], task.y[hold], de=difficulty)
    ends = np.stack([model.predict_int(X_test, confidence=c) for c in COVERAGES], axis=1)
    Q = np.empty((len(X_test), len(LEVELS)))
    Q[:, 4] = model.predict(X_test)
    for c, (low, high) in enumerate(((3, 5), (2, 6), (1, 7), (0, 8))):
        Q[:, low], Q[:, high] = ends[:, c].T
    return ends, Q


def split(task: Task, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit, and rows to calibrate on."""
    fit, hold = train_test_split(np.arange(len(task.y)), test_size=CALIBRATED, random_state=seed)
    return fit, hold


def numbers(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Codes for categories, medians for holes."""
    both = pd.concat([task.X, task.X_test])
    codes = both.apply(lambda column: column.cat.codes if hasattr(column, "cat") else column).astype(float)
    filled = codes.fillna(codes.median()).to_numpy()
    return filled[: len(task.y)], filled[len(task.y) :]


WHO: dict[str, Callable[[Task, int], Told]] = {
    "Adaptive": ours,
    "LightGBM + CQR": conformalised_quantiles,
    "crepes, forest": normalised_forest,
}
MORE: dict[str, Callable[[Task, int], Told]] = {
    "Adaptive, plain": lambda task, seed: ours(task, seed, "plain"),
    "Adaptive, fast": lambda task, seed: ours(task, seed, effort="fast"),
    "Adaptive, quantile loss": lambda task, seed: ours(task, seed, loss="quantile"),
}


def judged(told: Told, task: Task, noise: np.ndarray) -> list[float]:
    """Coverages in %, that of the worst bin at 90 %, interval score of 90 % and quantile score in deviations."""
    ends, Q = told
    y, unit = task.y_test, float(task.y_test.std())
    shares = [100 * float(np.mean((e[:, 0] <= y) & (y <= e[:, 1]))) for e in ends.transpose(1, 0, 2)]
    scores = interval_score(ends[:, 2], y, COVERAGES[2]) / unit, quantile_score(Q, y) / unit
    return [*shares, 100 * worst_bin(ends[:, 2], y, noise), *scores]


def regression(
    names: list[str], rows: int, seeds: int, who: dict[str, Callable[[Task, int], Told]], inner: bool = False
) -> None:
    """Print a line for every table and contestant, then what they come to."""
    lines: list[tuple[Any, ...]] = []
    every: dict[str, list[np.ndarray]] = {each: [] for each in who}
    chance = []
    for name in names:
        found: dict[str, list[list[float]]] = {each: [] for each in who}
        one_run = []
        for seed in range(seeds):
            task = load_table(f"{name}@{rows}", seed, inner=inner).tested_on(TEST_ROWS)
            one_run.append([deviation(task, c, min(len(task.y), CALIBRATION_ROWS)) for c in COVERAGES])
            told: dict[str, Told] = {}
            for each, tell in who.items():
                began = process_time()
                told[each] = tell(task, seed)
                took = process_time() - began
                # bins by each contestant's own widths; plain intervals by those that follow the noise
                ends = told["Adaptive" if "plain" in each else each][0][:, 2]
                found[each].append([*judged(told[each], task, ends[:, 1] - ends[:, 0]), took])
        # splits of several seeds share rows: their mean hangs on chance as one run does where a table is small
        chance.append(np.mean(one_run, axis=0) / np.sqrt(seeds))
        for each in who:
            mean = np.mean(found[each], axis=0)
            every[each].append(mean)
            lines.append((name, each, *(f"{v:.1f}" for v in mean[:5]), *(f"{v:.3g}" for v in mean[5:])))
            print(lines[-1], flush=True)
    header = ("table", "who", *(f"{100 * c:g} %" for c in COVERAGES), "worst bin", "interval score", "CRPS", "s")
    print(markdown(header, lines))
    kept(names, every, np.array(chance))
    summary(every)


def kept(names: list[str], every: dict[str, list[np.ndarray]], chance: np.ndarray) -> None:
    """Print on how many tables promises are kept: to 1.5 points, and as well as chance lets anybody keep them."""
    promised, lines = 100 * np.array(COVERAGES), []
    for each, found in every.items():
        off = np.abs(np.array(found)[:, :4] - promised)
        by_chance = [int((off[:, k] <= 1.96 * chance[:, k]).sum()) for k in range(4)]
        within = int((off <= NEAR).all(axis=1).sum())
        allowed = int((off <= np.maximum(NEAR, 1.96 * chance)).all(axis=1).sum())
        worst = int((np.array(found)[:, 4] >= LEAST_IN_BIN).sum())
        lines.append((each, within, allowed, *by_chance, worst, len(names)))
    each_level = [f"within 2 deviations at {c:g} %" for c in promised]
    header = ("who", f"all four within {NEAR:g} points", "or 2 deviations", *each_level, "worst bin ≥ 85", "tables")
    print(markdown(header, lines))
    print(f"deviation of the mean over the seeds at {promised[0]:g} %:")
    print(markdown(("table", "points"), [(name, f"{c[0]:.2f}") for name, c in zip(names, chance, strict=True)]))


def summary(every: dict[str, list[np.ndarray]]) -> None:
    """Print every contestant beside ours."""
    mine, lines = np.array(every["Adaptive"]), []
    for who, found in every.items():
        its = np.array(found)
        off = np.abs(its[:, :4] - 100 * np.array(COVERAGES))
        better = [int((mine[:, k] < its[:, k]).sum()) for k in (5, 6)]
        ratios = [float(np.exp(np.mean(np.log(its[:, k] / mine[:, k])))) for k in (5, 6, 7)]
        lines.append(
            (
                who,
                f"{off.mean():.2f}",
                f"{off.max():.1f}",
                f"{its[:, 4].mean():.1f}",
                f"{its[:, 4].min():.1f}",
                *(f"{r:.3f}" for r in ratios),
                *better,
            )
        )
    header = ("who", "off, mean", "off, most", "worst bin, mean", "least", "interval score / ours", "CRPS / ours")
    print(markdown((*header, "seconds / ours", "ours better by score", "by CRPS"), lines))


def perfect(names: list[str], rows: int, seeds: int, draws: int = 500) -> None:
    """Print how probable it is that promises are kept on every table where scores of rows are independent of all."""
    rng, lines = np.random.RandomState(0), []
    tails = np.array([[(1 - c) / 2, (1 + c) / 2] for c in COVERAGES])
    for name in names:
        task = load_table(f"{name}@{rows}", 0).tested_on(TEST_ROWS)
        n, N, kept_to = min(len(task.y), CALIBRATION_ROWS), len(task.y_test), np.empty((draws, seeds, 5))
        for draw in range(draws):
            for seed in range(seeds):
                ends = np.quantile(rng.uniform(size=n), tails)
                U = rng.uniform(size=N)
                inside = (ends[:, :1] <= U) & (ends[:, 1:] >= U)
                worst = min(part.mean() for part in np.array_split(inside[2], BINS))
                kept_to[draw, seed] = [*(100 * inside.mean(axis=1)), 100 * worst]
        mean = kept_to.mean(axis=1)
        near = (np.abs(mean[:, :4] - 100 * np.array(COVERAGES)) <= NEAR).all(axis=1).mean()
        lines.append((name, N, near, (mean[:, 4] >= LEAST_IN_BIN).mean(), mean[:, 4].mean()))
        print(lines[-1], flush=True)
    cells = [(a, N, f"{p:.2f}", f"{q:.2f}", f"{w:.1f}") for a, N, p, q, w in lines]
    print(markdown(("table", "test rows", "all four within 1.5 points", "worst bin ≥ 85", "worst bin, mean"), cells))
    print("tables expected:", *(f"{sum(line[k] for line in lines):.1f}" for k in (2, 3)), "of", len(lines))


def sets(names: list[str], rows: int, seeds: int) -> None:
    """Sets of 95 %, beside those of MAPIE by the same scores of the same model of three quarters of the rows."""
    lines, found = list[Any](), np.empty((0, len(SETS), 5))
    for name in names:
        results = []
        for seed in range(seeds):
            task = load_table(f"{name}@{rows}", seed).tested_on(TEST_ROWS)
            results.append([*our_sets(task, seed), *their_sets(task, seed)])
        mean = np.mean(results, axis=0)
        mean[:, 2] /= np.sqrt(seeds)
        found = np.concatenate([found, mean[None]])
        cells = [f"{each[0]:.1f} % {each[1]:.2f}" if np.isfinite(each[0]) else "" for each in mean]
        lines.append((name, *cells, f"{mean[1, 2]:.2f}", f"{mean[3, 2]:.2f}"))
        print(lines[-1], flush=True)
    print(markdown(("table", *SETS, "deviation by chance", "of MAPIE"), lines))
    summary = []
    for k, who in enumerate(SETS):
        share, size, chance, seconds, of_sets = found[:, k].T
        off = np.abs(share - 100 * SET_COVERAGE)
        smaller = [int((found[:, j, 1] <= size + 5e-3).sum()) for j in (0, 1)]
        there = ~np.isnan(share)
        allowed = np.maximum(NEAR, 1.96 * chance)
        summary.append(
            (
                who,
                int(there.sum()),
                f"{np.nanmean(share):.2f}",
                int((off <= NEAR).sum()),
                f"{np.nansum(2.0 * ndtr(NEAR / chance) - 1.0):.1f}",
                int((off <= allowed).sum()),
                f"{np.nanmean(size):.3f}",
                *smaller,
                f"{np.nanmean(seconds):.2f}",
                f"{np.nanmean(of_sets):.3f}",
            )
        )
    near = (f"within {NEAR:g} points", "expected by chance", "or 2 deviations")
    header = ("who", "tables", "coverage, mean", *near, "size, mean")
    print(
        markdown((*header, "our adaptive sets no larger", "our threshold sets no larger", "s, fit", "s, sets"), summary)
    )


#: Coverage in %, mean size, deviation of the coverage by chance, and processor seconds of the fit and of the sets.
OfSets = tuple[float, float, float, float, float]


def our_sets(task: Task, seed: int) -> list[OfSets]:
    """Both kinds of sets, from one fit."""
    began, found = process_time(), []
    model = AdaptiveClassifier(effort="fast", random_state=seed, n_jobs=1).fit(task.X, task.y)
    fitted = process_time() - began
    for method in ("adaptive", "threshold"):
        began = process_time()
        inside = model.predict_set(task.X_test, SET_COVERAGE, method=method)
        found.append((*judged_sets(inside, task, len(model.left_out_.true)), fitted, process_time() - began))
    return found


def judged_sets(inside: np.ndarray, task: Task, calibrating: int) -> tuple[float, float, float]:
    """What sets of the test rows come to, which so many rows have calibrated."""
    share = 100 * float(inside[np.arange(len(task.y_test)), task.y_test].mean())
    return share, float(inside.sum(axis=1).mean()), deviation(task, SET_COVERAGE, calibrating)


def their_sets(task: Task, seed: int) -> list[OfSets]:
    """The same by MAPIE; it has no adaptive sets of two classes."""
    from mapie.classification import SplitConformalClassifier

    X: Any = task.X
    (fit, hold), began = split(task, seed), process_time()
    fit = np.union1d(fit, np.unique(task.y, return_index=True)[1])  # a row of every class
    model = AdaptiveClassifier(effort="fast", random_state=seed, n_jobs=1).fit(X.iloc[fit], task.y[fit])
    fitted, found = process_time() - began, list[OfSets]()
    for score in ("aps", "lac"):
        if score == "aps" and len(task.classes) == 2:
            found.append((np.nan, np.nan, np.nan, np.nan, np.nan))
            continue
        began = process_time()
        made = SplitConformalClassifier(model, confidence_level=SET_COVERAGE, conformity_score=score, prefit=True)
        made.conformalize(X.iloc[hold], task.y[hold])
        inside = made.predict_set(task.X_test)[1][:, :, 0]
        found.append((*judged_sets(inside, task, len(hold)), fitted, process_time() - began))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--more", action="store_true", help="other settings of ours, too")
    parser.add_argument("--ours", action="store_true", help="ours alone")
    parser.add_argument("--inner", action="store_true", help="inner splits of development tables")
    parser.add_argument("--sets", action="store_true", help="sets of classes in place of intervals")
    parser.add_argument("--chance", action="store_true", help="what somebody who is right on every row would keep")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    known = [*tables.SETS, *tables.FURTHER]
    names = []
    for name in given.tables or known:
        if given.inner and tables.part_of(name) != tables.DEVELOPMENT:
            continue
        try:
            kind = load_table(f"{name}@50", 0).kind
        except NotHere:
            print(f"{name} is not at hand")
            continue
        if (kind == "regression") != given.sets:
            names.append(name)
    if given.chance:
        perfect(names, given.rows, given.seeds)
    elif given.sets:
        sets(names, given.rows, given.seeds)
    else:
        who = {"Adaptive": ours} if given.ours else WHO | (MORE if given.more else {})
        regression(names, given.rows, given.seeds, who, given.inner)


if __name__ == "__main__":
    main()

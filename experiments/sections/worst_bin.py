"""Designs for coverage where errors are predicted to be small, and where they are predicted to be large.

    python -m experiments.sections.worst_bin [TABLE ...] [--rows 3000] [--seeds 1]

One fit of every development table, on an inner split of its training rows; then intervals by several designs, all from
the same left-out errors and the same predicted sizes of errors:

- *Mondrian*: quantiles within each fifth of predicted sizes, shrunk towards those of all rows by a prior of some rows
- *isotonic*: sizes by isotonic regression of left-out errors on predicted sizes, fitted in ten folds; the geometric
  mean of both sizes
- *curves*: quantiles of scores as functions of the predicted size, from windows of the 30 % of rows with the most
  similar sizes, averaged with those of all rows or not; then conformal quantiles of the places that left-out targets
  have among them

Coverage of 90 % intervals in the worst of five bins of their width, tables with at least 85 %, and interval scores and
CRPS (nine quantiles) over those of intervals as they are.
"""

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from sklearn.isotonic import IsotonicRegression

from experiments.runner.protocol import NotHere, markdown
from experiments.sections.doubt import LEAST_IN_BIN, LEVELS, TEST_ROWS, interval_score, quantile_score, worst_bin
from experiments.tables import DEVELOPMENT, FURTHER, SETS, load_table, part_of
from ulmus import AdaptiveRegressor
from ulmus.calibration.conformal import lower, upper

FIFTHS, FOLDS, ANCHORS, WINDOW = 5, 10, 9, 0.3


@dataclass(frozen=True)
class Run:
    """Left-out scores, their weights and sizes; predictions, sizes and targets of test rows."""

    scores: np.ndarray
    weight: np.ndarray
    sizes: np.ndarray
    P: np.ndarray
    widths: np.ndarray
    y: np.ndarray

    @classmethod
    def of(cls, name: str, rows: int, seed: int) -> "Run | None":
        task = load_table(f"{name}@{rows}", seed, inner=True).tested_on(TEST_ROWS)
        if not task.regression:
            return None
        model = AdaptiveRegressor(random_state=seed, n_jobs=1).fit(task.X, task.y)
        forecast = model.predict_distribution(task.X_test)
        held = model.spread_.rows
        errors, scores = (held.T - held.P)[:, 0], forecast.scores[:, 0]
        known = scores != 0
        sizes = errors[known] / scores[known]
        new = forecast.location[:, 0], forecast.width[:, 0], task.y_test
        return cls(scores[known], forecast.weight[known, 0], sizes, *new)


def conformal(scores: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Conformal quantiles at all levels."""
    return np.where(LEVELS > 0.5, upper(scores, weight, LEVELS)[0], lower(scores, weight, LEVELS)[0])


def as_it_is(run: Run) -> np.ndarray:
    return run.P[:, None] + run.widths[:, None] * conformal(run.scores, run.weight)


def mondrian(run: Run, prior: float) -> np.ndarray:
    edges = np.quantile(run.sizes, np.arange(1, FIFTHS) / FIFTHS)
    of_held, of_new = np.searchsorted(edges, run.sizes), np.searchsorted(edges, run.widths)
    every, out = conformal(run.scores, run.weight), np.empty((len(run.P), len(LEVELS)))
    for k in range(FIFTHS):
        own = of_held == k
        share = own.sum() / (own.sum() + prior)
        out[of_new == k] = share * conformal(run.scores[own], run.weight[own]) + (1 - share) * every
    return run.P[:, None] + run.widths[:, None] * np.sort(out, axis=1)


def isotonic(run: Run) -> np.ndarray:
    a, fold = np.abs(run.scores * run.sizes), np.arange(len(run.sizes)) % FOLDS
    held, new = np.empty(len(a)), np.zeros(len(run.P))
    for k in range(FOLDS):
        fit = IsotonicRegression(out_of_bounds="clip")
        fit.fit(run.sizes[fold != k], a[fold != k], sample_weight=run.weight[fold != k])
        held[fold == k] = fit.predict(run.sizes[fold == k])
        new += fit.predict(run.widths) / FOLDS
    least = 1e-3 * np.median(a)
    held, new = np.sqrt(np.maximum(held, least) * run.sizes), np.sqrt(np.maximum(new, least) * run.widths)
    return run.P[:, None] + new[:, None] * conformal(run.scores * run.sizes / held, run.weight)


def curves(run: Run, share: float) -> np.ndarray:
    order, n, z = np.argsort(run.sizes), len(run.sizes), ndtri(LEVELS)
    window, every = round(WINDOW * n), np.quantile(run.scores, LEVELS)
    places, at = [], []
    for centre in np.linspace(0, n - 1, ANCHORS).astype(int):
        first = min(max(centre - window // 2, 0), n - window)
        near = order[first : first + window]
        places.append(np.median(np.log(run.sizes[near])))
        at.append(share * np.quantile(run.scores[near], LEVELS) + (1 - share) * every)
    anchors, kept = np.unique(places, return_index=True)
    quantiles = np.array(at)[kept]

    def knots(sizes: np.ndarray) -> np.ndarray:
        each = [np.interp(np.log(sizes), anchors, column) for column in quantiles.T]
        return np.sort(np.column_stack(each), axis=1) + 1e-9 * np.arange(len(LEVELS))

    K, rows = knots(run.sizes), np.arange(n)
    k = np.clip((run.scores[:, None] > K).sum(axis=1) - 1, 0, len(z) - 2)
    along = z[k] + (run.scores - K[rows, k]) * (z[k + 1] - z[k]) / (K[rows, k + 1] - K[rows, k])
    c, K = conformal(along, run.weight), knots(run.widths)
    k = np.clip(np.searchsorted(z, c) - 1, 0, len(z) - 2)
    Q = K[:, k] + (K[:, k + 1] - K[:, k]) * (c - z[k]) / (z[k + 1] - z[k])
    return run.P[:, None] + run.widths[:, None] * Q


DESIGNS: dict[str, Callable[[Run], np.ndarray]] = {
    "as it is": as_it_is,
    "Mondrian, prior of 200 rows": lambda run: mondrian(run, 200.0),
    "Mondrian, prior of 50 rows": lambda run: mondrian(run, 50.0),
    "isotonic": isotonic,
    "curves, halfway": lambda run: curves(run, 0.5),
    "curves": lambda run: curves(run, 1.0),
}


def scored(Q: np.ndarray, y: np.ndarray) -> list[float]:
    """Coverage of the worst bin and of all rows at 90 %, interval score, CRPS."""
    ends = Q[:, [1, 7]]
    inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
    worst = worst_bin(ends, y, ends[:, 1] - ends[:, 0])
    return [100 * worst, 100 * float(inside.mean()), interval_score(ends, y, 0.9), quantile_score(Q, y)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [name for name in (*SETS, *FURTHER) if part_of(name) == DEVELOPMENT]
    parser.add_argument("tables", nargs="*", default=names)
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, list[np.ndarray]] = {name: [] for name in DESIGNS}
    for name in given.tables:
        try:
            runs = [Run.of(name, given.rows, seed) for seed in given.seeds]
        except NotHere:
            print(f"{name} is not at hand")
            continue
        if runs[0] is None:
            continue
        for design, intervals in DESIGNS.items():
            found[design].append(np.mean([scored(intervals(run), run.y) for run in runs if run], axis=0))
        print(name, *(f"{each[-1][0]:.1f}" for each in found.values()), flush=True)
    first, lines = np.array(found["as it is"]), []
    for design, each in found.items():
        all_of = np.array(each)
        ratios = np.exp(np.mean(np.log(all_of[:, 2:] / first[:, 2:]), axis=0))
        enough = int((all_of[:, 0] >= LEAST_IN_BIN).sum())
        means = (f"{all_of[:, 0].mean():.1f}", f"{enough} of {len(all_of)}", f"{all_of[:, 1].mean():.1f}")
        lines.append((design, *means, *(f"{r:.3f}" for r in ratios)))
    print(markdown(("", "worst bin", "tables ≥ 85", "all rows", "interval score", "CRPS"), lines))


if __name__ == "__main__":
    main()

"""What the metric of leaves brings to very many rows: views with it and without, judged by leaves of rows held out.

    python -m experiments.sections.leaf_views [covtype] [waves] [products] [bend] [--seeds 1 2 3] [--fit]

Each view is chosen on 65,536 of the rows to learn from, with the default budget. 80,000 rows are cut into leaves of at
most 1,000, whose kernel models answer 10,000 rows that nothing else has seen; the best of three widths (and penalties,
of numbers) counts. Errors are shares of wrong labels, or of the deviation of the targets; seconds are those of the
processor for choosing the view, on one thread. CovType (covtype.parquet in the folder ULMUS_DATA) is without the fifth
of its rows on which other sections test. With ``--fit``, whole models are fitted to 200,000 rows instead, and asked for
the same 10,000.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from experiments.sections.problems import forest
from ulmus import AdaptiveClassifier, AdaptiveRegressor
from ulmus.codings import OneVsAll, Plain
from ulmus.engine import Rows
from ulmus.features.partition import random_partition
from ulmus.features.preparation import Preparation
from ulmus.models._effort import MANY_ROWS
from ulmus.tuning.local import LocalSearch, Remainder
from ulmus.tuning.view_budget import Budget
from ulmus.tuning.views import View, ViewSearch

SAMPLE, LEARNED, TESTED, LEAF_ROWS, FITTED = 2**16, 80_000, 10_000, 1_000, MANY_ROWS


def covtype() -> tuple[np.ndarray, np.ndarray]:
    """Seven kinds of forest."""
    return forest()[:2]


def waves() -> tuple[np.ndarray, np.ndarray]:
    """Waves of four of ten features, and noise: 0.43 of the deviation."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (220_000, 10))
    clean = np.sin(6 * X[:, 0]) * np.cos(4 * X[:, 1]) + X[:, 2] * X[:, 3]
    return X, clean + 0.3 * rng.standard_normal(len(X))


def products() -> tuple[np.ndarray, np.ndarray]:
    """A product, a wave behind a threshold and absolute values of twelve of forty features."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((220_000, 40))
    clean = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) * (X[:, 3] > 0) + 0.5 * np.abs(X[:, 4:12]).sum(axis=1)
    return X, clean + 0.2 * rng.standard_normal(len(X))


def bend() -> tuple[np.ndarray, np.ndarray]:
    """A wave and a square of two of ten features, and little noise: 0.063 of the deviation."""
    rng = np.random.default_rng(6)
    X = rng.standard_normal((220_000, 10))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(len(X))


TABLES: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "covtype": covtype,
    "waves": waves,
    "products": products,
    "bend": bend,
}


@dataclass(frozen=True)
class Table:
    """Rows in random order; labels are ±1 columns."""

    X: np.ndarray
    T: np.ndarray
    coding: Any
    labels: bool

    @classmethod
    def of(cls, name: str) -> "Table":
        X, y = TABLES[name]()
        order = np.random.RandomState(5).permutation(len(X))
        X, y = X[order], y[order]
        if name == "covtype":
            targets = OneVsAll(np.unique(y))
            return cls(X, targets.encode(targets.indices(y)), targets, labels=True)
        T = ((y - y.mean()) / y.std())[:, None]
        return cls(X, T, Plain(np.ones(1)), labels=False)

    def view(self, seed: int, *, leaves: bool) -> View:
        """The view of a sample, prepared by all rows to learn from."""
        some = TESTED + np.random.RandomState(seed).permutation(len(self.X) - TESTED)[:SAMPLE]
        numbers, rows = np.zeros(self.X.shape[1], bool), Rows(self.X[some], self.T[some], place=np.arange(SAMPLE))
        options: dict[str, Any] = {"fit_intercept": not self.labels, "by_log": self.labels, "n_jobs": 1}
        budget, rng = Budget(leaves=leaves), np.random.RandomState(seed + 100)
        view = ViewSearch(rows, self.coding, numbers, rng, budget=budget, **options).choose()
        kind, cuts = view.preparation.columns.kind, view.preparation.cuts
        known = Preparation.of(kind, self.X[TESTED:], self.T[TESTED:], None, numbers, None, cuts)
        return replace(view, preparation=known)

    def error(self, view: View) -> float:
        """Of rows held out, by leaves of others."""
        U, U_held, T_held = view.transform(self.X[-LEARNED:]), view.transform(self.X[:TESTED]), self.T[:TESTED]
        data = Remainder(U, self.T[-LEARNED:], None, U_held, T_held, np.zeros_like(T_held), None)
        search = LocalSearch(view.kernel, view.gamma, data, self.coding, "auto", 1)
        partition = random_partition(U, LEAF_ROWS, np.random.RandomState(0))
        leaves = search.leaves(partition, partition.n_leaves)
        widths, ridges = ((1, 2, 3), [2]) if self.labels else ((0, 1, 2), [4, 6, 8])
        for width in widths:
            leaves.score(width, ridges)
        P, T = min(leaves.tried.values(), key=lambda each: each[0])[1], T_held[leaves.rows]
        return float(np.mean(P.argmax(1) != T.argmax(1)) if self.labels else np.sqrt(np.mean((P - T) ** 2)))

    def fitted(self, seed: int) -> tuple[str, float]:
        """The kernel of a model with default settings, and its error of rows held out."""
        some = TESTED + np.random.RandomState(seed).permutation(len(self.X) - TESTED)[:FITTED]
        if self.labels:
            y, known = self.T[:TESTED].argmax(axis=1), self.T[some].argmax(axis=1)
            labelled = AdaptiveClassifier(random_state=seed, n_jobs=1).fit(self.X[some], known)
            return labelled.view_.kernel, float(np.mean(labelled.predict(self.X[:TESTED]) != y))
        model = AdaptiveRegressor(random_state=seed, n_jobs=1).fit(self.X[some], self.T[some, 0])
        return model.view_.kernel, float(np.sqrt(np.mean((model.predict(self.X[:TESTED]) - self.T[:TESTED, 0]) ** 2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--fit", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        "table seed kernel error seconds" if asked.fit else "table seed metric preparation kernel columns error seconds"
    )
    for name in asked.tables:
        table = Table.of(name)
        for seed in asked.seeds:
            if asked.fit:
                began = time.process_time()
                kernel, error = table.fitted(seed)
                print(name, seed, kernel, f"{error:.4f}", f"{time.process_time() - began:.1f}", flush=True)
                continue
            for leaves in (False, True):
                began = time.process_time()
                view = table.view(seed, leaves=leaves)
                seconds, kind = time.process_time() - began, view.preparation.columns.kind
                about = (kind, view.kernel, int((view.metric > 0).sum()), f"{table.error(view):.4f}", f"{seconds:.1f}")
                print(name, seed, "leaves" if leaves else "landmarks", *about, flush=True)


if __name__ == "__main__":
    main()

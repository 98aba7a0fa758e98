"""Mislabelled rows: how many of those whose labels were flipped have the lowest row values.

    python -m experiments.sections.mislabelled [--rows 1500] [--seeds 0 1] [table ...]

Development tables of the arena, on inner training rows. A twentieth of the labels is exchanged for another label, drawn
at random; of the twentieth with the lowest row values (or the lowest out-of-bag margin of a random forest) the table
tells the share that had been exchanged, as the mean over the seeds, with processor seconds of fit and values.

*At best* is what somebody would find who knows the probabilities of classes: labels are drawn from those that an
adaptive model has of rows held out (less the exchanged twentieth), exchanged again, and ranked by them.
"""

import argparse
import warnings
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from experiments.runner.protocol import markdown
from experiments.tables import DEVELOPMENT, FURTHER, SETS, load_table, part_of
from ulmus import AdaptiveClassifier, KELMClassifier, NKELMClassifier
from ulmus.codings import OneVsAll
from ulmus.models._without_rows import without_rows

FLIPPED, NEIGHBOURS = 0.05, 10
#: What is found by known probabilities, and how often labels are drawn for it.
AT_BEST, DRAWS = "at best", 50


def encoded(X: pd.DataFrame) -> np.ndarray:
    """0/1 columns for levels, numbers with mean 0 and deviation 1."""
    wide = SimpleImputer().fit_transform(pd.get_dummies(X).astype(float))
    return np.asarray(StandardScaler().fit_transform(wide))


def by_kelm(X: pd.DataFrame, y: np.ndarray, seed: int) -> np.ndarray:
    return KELMClassifier(random_state=seed, n_jobs=1).fit(encoded(X), y).row_values()


def by_log(X: pd.DataFrame, y: np.ndarray, seed: int) -> np.ndarray:
    """The log loss, whose rows leave by a Newton step."""
    model = NKELMClassifier(loss="log", max_landmarks=300, random_state=seed, n_jobs=1)
    return model.fit(encoded(X), y).row_values(encoded(X), y)


def by_adaptive(X: pd.DataFrame, y: np.ndarray, seed: int) -> np.ndarray:
    return AdaptiveClassifier(loss="squared", random_state=seed, n_jobs=1).fit(X, y).row_values(X, y)


def by_default(X: pd.DataFrame, y: np.ndarray, seed: int) -> np.ndarray:
    """The log loss, both stages, and trees where they joined."""
    return AdaptiveClassifier(random_state=seed, n_jobs=1).fit(X, y).row_values(X, y)


def left_out_shares(model: Any, X: Any, y: np.ndarray) -> np.ndarray:
    """Probabilities of training rows by the models without them."""
    leaving, rows = without_rows(model, X, y, None)
    found: np.ndarray = model.fitted_.certainty.probabilities(OneVsAll.class_scores(rows.T - leaving.left_out))
    return found


def neighbour_shares(U: np.ndarray, index: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Votes of the ten nearest other rows, those that are kept, and one more vote by the frequencies of classes."""
    near = NearestNeighbors(n_neighbors=NEIGHBOURS + 1).fit(U).kneighbors(U, return_distance=False)[:, 1:]
    P = np.tile(np.bincount(index) / len(index), (len(U), 1))
    for column in near.T:
        np.add.at(P, (np.arange(len(U)), index[column]), kept[column].astype(float))
    return P / P.sum(axis=1, keepdims=True)


def by_neighbours(X: pd.DataFrame, y: np.ndarray, seed: int) -> np.ndarray:
    """The mean of the left-out probability of the label and of the votes of neighbours in the learned metric."""
    model = AdaptiveClassifier(loss="squared", random_state=seed, n_jobs=1).fit(X, y)
    index, rows = np.unique(y, return_inverse=True)[1], np.arange(len(y))
    votes = neighbour_shares(model.coordinates(X), index, np.ones(len(y), bool))
    return (left_out_shares(model, X, y) + votes)[rows, index]


def by_both_losses(X: pd.DataFrame, y: np.ndarray, seed: int) -> np.ndarray:
    """The mean probability of the label by models of squares and of the log loss without the row."""
    index, rows = np.unique(y, return_inverse=True)[1], np.arange(len(y))
    models = (AdaptiveClassifier(loss=loss, random_state=seed, n_jobs=1).fit(X, y) for loss in ("squared", "log"))
    return np.sum([left_out_shares(model, X, y)[rows, index] for model in models], axis=0)


def by_second_fit(X: pd.DataFrame, y: np.ndarray, seed: int) -> np.ndarray:
    """The probability of the label by a second fit, without the tenth of rows with the lowest values in the first."""
    model = AdaptiveClassifier(loss="squared", random_state=seed, n_jobs=1).fit(X, y)
    kept = np.ones(len(y), bool)
    kept[np.argsort(model.row_values(X, y))[: round(2 * FLIPPED * len(y))]] = False
    some = X[kept].reset_index(drop=True)
    again = AdaptiveClassifier(loss="squared", random_state=seed, n_jobs=1).fit(some, y[kept])
    P = np.zeros((len(y), len(model.classes_)))
    columns = np.searchsorted(model.classes_, again.classes_)
    P[np.ix_(kept, columns)] = left_out_shares(again, some, y[kept])
    P[np.ix_(~kept, columns)] = again.predict_proba(X[~kept])
    return P[np.arange(len(y)), np.searchsorted(model.classes_, y)]


def by_forest(X: pd.DataFrame, y: np.ndarray, seed: int) -> np.ndarray:
    """Share of the votes of trees that did not see the row for its label, less that of the best other."""
    P = RandomForestClassifier(500, oob_score=True, random_state=seed).fit(encoded(X), y).oob_decision_function_
    index, rows = np.unique(y, return_inverse=True)[1], np.arange(len(y))
    own = P[rows, index].copy()
    P[rows, index] = -np.inf
    return own - P.max(axis=1)


JUDGES: dict[str, Callable[..., np.ndarray]] = {
    "KELM": by_kelm,
    "NKELM, log loss": by_log,
    "adaptive, squares": by_adaptive,
    "adaptive, default": by_default,
    "random forest": by_forest,
}
#: Other ways to use the adaptive model.
MORE: dict[str, Callable[..., np.ndarray]] = {
    "adaptive, squares": by_adaptive,
    "with votes of neighbours": by_neighbours,
    "by a second fit": by_second_fit,
    "by both losses": by_both_losses,
}


def at_best(X: pd.DataFrame, y: np.ndarray, seed: int) -> float:
    """The share that is found where probabilities of classes are known, as the mean over draws."""
    model = AdaptiveClassifier(effort="fast", random_state=seed, n_jobs=1).fit(X, y)
    P = model.fitted_.certainty.probabilities(OneVsAll.class_scores(model.left_out_.scores))
    n, classes = P.shape
    P = np.maximum(P - FLIPPED / (classes - 1), 1e-9)  # what is there without exchanged labels
    P /= P.sum(axis=1, keepdims=True)
    rng, count, shares = np.random.RandomState(seed), round(FLIPPED * n), []
    for _ in range(DRAWS):
        true = np.minimum((rng.uniform(size=(n, 1)) > P.cumsum(axis=1)).sum(axis=1), classes - 1)
        flipped, told = rng.choice(n, count, replace=False), true.copy()
        told[flipped] = (true[flipped] + rng.randint(1, classes, count)) % classes
        worst = np.argsort(P[np.arange(n), told], kind="stable")[:count]
        shares.append(np.isin(worst, flipped).mean())
    return float(np.mean(shares))


def measured(
    name: str, n: int, seed: int, judges: dict[str, Callable[..., np.ndarray]]
) -> dict[str, np.ndarray] | None:
    """Share found, and processor seconds; None for a table that is no classification."""
    task: Any = load_table(f"{name}@{n}", seed, inner=True)
    if task.regression:
        return None
    X, y = task.X.reset_index(drop=True), np.asarray(task.y)
    rng = np.random.RandomState(seed)
    flipped = rng.choice(len(y), round(FLIPPED * len(y)), replace=False)
    classes = np.unique(y)
    wrong = y.copy()
    for i in flipped:
        wrong[i] = rng.choice(classes[classes != y[i]])
    out = {}
    for who, values_of in judges.items():
        began = process_time()
        worst = np.argsort(values_of(X, wrong, seed))[: len(flipped)]
        out[who] = np.array([np.isin(worst, flipped).mean(), process_time() - began])
    out[AT_BEST] = np.array([at_best(X, wrong, seed), 0.0])
    return out


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [name for name in (*SETS, *FURTHER) if part_of(name) == DEVELOPMENT]
    parser.add_argument("tables", nargs="*", default=names)
    parser.add_argument("--rows", type=int, default=1_500)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument(
        "--more", action="store_true", help="other ways to use the adaptive model, in place of other models"
    )
    given = parser.parse_args()
    judges = MORE if given.more else JUDGES
    rows, shares = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in given.tables:
            try:
                seen = [measured(name, given.rows, seed, judges) for seed in given.seeds]
            except Exception as error:  # a table that is not at hand
                print(f"{name}: {type(error).__name__}: {error}"[:200])
                continue
            if seen[0] is None:
                continue
            mean = {who: np.mean([each[who] for each in seen if each], axis=0) for who in (*judges, AT_BEST)}
            shares.append([share for share, _ in mean.values()])
            told = [f"{100 * share:.0f} %, {time:.1f} s" for who, (share, time) in mean.items() if who != AT_BEST]
            rows.append((name, *told, f"{100 * mean[AT_BEST][0]:.0f} %"))
            print(rows[-1], flush=True)
    if shares:
        rows.append(("**mean**", *(f"{100 * share:.0f} %" for share in np.mean(shares, axis=0))))
    print(markdown(("table", *judges, AT_BEST), rows))


if __name__ == "__main__":
    main()

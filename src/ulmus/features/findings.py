"""What is odd about a table: columns that give the target away, copies across a split, rows that are not as they were.

Each finding is a warning with its number, ready to be warned of, printed, or listed in a report.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ulmus.exceptions import (
    DataWarning,
    DriftWarning,
    DuplicateWarning,
    LeakWarning,
    PlaceholderWarning,
    ScaleWarning,
    SpellingWarning,
    UnreadableWarning,
    warn,
)
from ulmus.features.amounts import several_currencies
from ulmus.features.dates import as_days
from ulmus.features.sampling import row_keys
from ulmus.statistics import dwarfing

#: A column alone gives the target away from this score on, on rows held out; rows that are looked
#: at, at least and at most, and leaves of the tree that tells.
LEAKS, FEW, MOST, LEAVES = 0.99, 50, 2_000, 64
#: Share of rows held out that may be copies of others.
COPIES = 0.01
#: Population stability index from which on rows have drifted, by common usage; parts of a column, rows needed.
DRIFTED, PARTS, ENOUGH = 0.25, 10, 100
#: Rows in which a number is a placeholder, at least.
AGAIN = 3


@dataclass(frozen=True)
class Finding:
    """A kind of warning and its words, and the column that they are about."""

    kind: type[DataWarning]
    text: str
    column: str | None = None

    @property
    def name(self) -> str:
        """The kind in a word."""
        return self.kind.__name__.removesuffix("Warning").lower()

    def warn(self) -> None:
        warn(self.text, self.kind)


def leaks(M: np.ndarray, names: Sequence[str], inputs: np.ndarray, y: np.ndarray, classes: bool) -> list[Finding]:
    """Columns that give the target away.

    Parameters
    ----------
    M : ndarray of shape (n_rows, n_numbers)
        The table as numbers and codes; NaN where missing.
    names : sequence of str
        Of the columns.
    inputs : ndarray
        The column behind every number.
    y : ndarray
    classes : bool
        Whether the targets are classes.
    """
    some = np.random.RandomState(0).permutation(len(y))[:MOST]
    if len(some) < FEW:
        return []
    half, found = np.arange(len(some)) % 2 == 0, []
    target = np.unique(y[some], return_inverse=True)[1] if classes else np.asarray(y[some], dtype=np.float64)
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    tree = DecisionTreeClassifier if classes else DecisionTreeRegressor
    for j, name in enumerate(names):
        X = np.nan_to_num(M[some][:, inputs == j], nan=-1e30, posinf=1e30, neginf=-1e30).astype(np.float32)
        if not X.shape[1]:
            continue
        answers = np.empty(len(some), dtype=target.dtype)
        for fitted, other in ((half, ~half), (~half, half)):
            model = tree(max_leaf_nodes=LEAVES, random_state=0).fit(X[fitted], target[fitted])
            answers[other] = model.predict(X[other])
        score = _score(target, answers, classes)
        if score >= LEAKS:
            measure = "balanced accuracy" if classes else "R²"
            found.append(
                Finding(
                    LeakWarning,
                    f"column {name!r} predicts the target on its own ({measure} {score:.4f} on held-out rows); will it "
                    "be available at prediction time?",
                    str(name),
                )
            )
    return found


def _score(target: np.ndarray, answers: np.ndarray, classes: bool) -> float:
    if classes:
        counts = np.bincount(target)
        right = np.bincount(target, answers == target)
        return float((right[counts > 0] / counts[counts > 0]).mean())
    spread = float(((target - target.mean()) ** 2).sum())
    return 1.0 - float(((target - answers) ** 2).sum()) / spread if spread > 0 else 0.0


def currencies(texts: Sequence[str], name: str) -> list[Finding]:
    """Amounts of money in several currencies, which are no numbers of one column."""
    found = several_currencies(texts)
    if not found:
        return []
    few = ", ".join(map(repr, found[:3]))
    text = f"column {name!r}: amounts in several currencies ({few}) are read as words; convert them to one"
    return [Finding(UnreadableWarning, text, name)]


def copies(M: np.ndarray, y: np.ndarray, M_test: np.ndarray, y_test: np.ndarray) -> list[Finding]:
    """Rows held out that stand, with their target, among those of the training."""
    both, targets = np.concatenate([M, M_test]), np.concatenate([y, y_test])
    codes = np.unique(targets, return_inverse=True)[1].astype(np.float64)
    rows = np.column_stack([np.nan_to_num(both, nan=-1.2345678e300), codes])
    keys = row_keys(rows, 0)
    same = np.isin(keys[len(y) :], keys[: len(y)])
    levels = len(np.unique(keys))
    if same.sum() <= COPIES * len(y_test) or levels < len(keys) / 4:  # few levels meet by chance
        return []
    return [
        Finding(
            DuplicateWarning,
            f"{int(same.sum())} of {len(y_test)} held-out rows duplicate training rows, target included, so the scores "
            "are optimistic; remove duplicates, or hold them out together (groups)",
        )
    ]


def spellings(values: np.ndarray, what: str, column: str | None = None) -> list[Finding]:
    """Levels that differ in upper and lower case only."""
    by_sound: dict[str, set[str]] = {}
    for value in {value for value in values.tolist() if isinstance(value, str)}:
        by_sound.setdefault(" ".join(value.split()).casefold(), set()).add(value)
    several = sorted(sorted(same) for same in by_sound.values() if len(same) > 1)
    if not several:
        return []
    more = f", and {len(several) - 1} more such groups" if len(several) > 1 else ""
    names = ", ".join(map(repr, several[0]))
    text = (
        f"{what} {names} differ only in case or whitespace and count as different{more}; make the spelling consistent"
    )
    return [Finding(SpellingWarning, text, column)]


def placeholders(values: np.ndarray, what: str, column: str | None = None) -> list[Finding]:
    """Nines (-999, 9999, …) that come several times, farther from all others than these are from each other."""
    there = values[np.isfinite(values)] if values.dtype.kind in "iuf" else np.zeros(0)
    for end in (there.min(), there.max()) if len(there) else ():
        others, count = there[there != end], int(np.count_nonzero(there == end))
        nines = f"{abs(end):.15g}"
        if set(nines) != {"9"} or len(nines) < 2 or count < AGAIN or len(np.unique(others)) < PARTS:
            continue
        if np.abs(others - end).min() > np.ptp(others):
            text = f"{what} is {end:.15g} in {count} rows, far from all other values; if that stands for missing values"
            return [Finding(PlaceholderWarning, f"{text}, clear these cells", column)]
    return []


def scales(X: Any, names: Sequence[str] | None = None) -> list[Finding]:
    """A column that dwarfs all others together."""
    found = dwarfing(X)
    if found is None:
        return []
    column, deviation, others = found
    name = repr(str(names[column])) if names is not None else str(column)
    text = f"column {name} has a standard deviation of {deviation:.3g}, all others together {others:.3g}"
    way = 'Scale the columns first, e.g. make_pipeline(StandardScaler(), model), or use metric="auto"'
    return [Finding(ScaleWarning, f"{text}: it dominates all distances. {way}")]


def profile(columns: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What a table looked like, for :func:`drift`: shares of levels, or deciles, by column; JSON can hold it."""
    found: dict[str, Any] = {}
    for name, column in columns.items():
        there = _present(column)
        if not len(there):
            continue
        values, counts = np.unique(there, return_counts=True)
        if there.dtype.kind in "US" or len(values) <= PARTS:
            frequent = np.sort(np.argsort(-counts, kind="stable")[:PARTS])
            found[name] = {"levels": values[frequent].tolist(), "shares": (counts[frequent] / len(there)).tolist()}
        else:
            edges = np.unique(np.quantile(there, np.linspace(0, 1, PARTS + 1)[1:-1]))
            shares = np.bincount(np.searchsorted(edges, there, side="right"), minlength=len(edges) + 1) / len(there)
            found[name] = {"edges": edges.tolist(), "shares": shares.tolist(), "median": float(np.median(there))}
    return found


def _present(column: np.ndarray) -> np.ndarray:
    """Values that are there: texts, or floats; moments become days."""
    if column.dtype.kind in "OUS":
        return np.array([str(v) for v in column if v is not None and v == v and v != ""], dtype=str)  # noqa: PLR0124
    floats = as_days(column[:, None])[:, 0] if column.dtype.kind == "M" else column
    floats = floats.astype("timedelta64[us]").astype(float) / 86_400e6 if floats.dtype.kind == "m" else floats
    return np.asarray(floats[np.isfinite(floats)], dtype=np.float64)


def drift(was: Mapping[str, Any], columns: Mapping[str, np.ndarray]) -> list[Finding]:
    r"""Columns that are not distributed as they were.

    By the population stability index :math:`\sum_k (q_k - p_k)\log(q_k / p_k)` of shares in training and now.
    """
    found = []
    for name, column in columns.items():
        there = _present(column)
        if name not in was or len(there) < ENOUGH:
            continue
        now, then = _shares(was[name], there)
        index = float(np.sum((now - then) * np.log(now / then)))
        if index < DRIFTED:
            continue
        words = "its categories have different frequencies"
        if "median" in was[name]:
            words = f"the median was {was[name]['median']:.4g} and is {np.median(there):.4g}"
        text = f"column {name!r} has drifted since training: {words} (population stability index {index:.2f}"
        found.append(Finding(DriftWarning, f"{text}, above {DRIFTED}; {len(there)} rows)", name))
    return found


def _shares(was: Mapping[str, Any], there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    then = np.asarray(was["shares"], dtype=np.float64)
    if "edges" in was:
        now = np.bincount(np.searchsorted(was["edges"], there, side="right"), minlength=len(then)) / len(there)
    else:
        now = np.array([(there == level).mean() for level in was["levels"]])
        then, now = np.append(then, max(0.0, 1 - then.sum())), np.append(now, max(0.0, 1 - now.sum()))
    least = 0.5 / len(there)  # as if half a row were there
    return np.maximum(now, least), np.maximum(then, least)

"""Intervals cover, and probabilities are no worse than the frequencies of the classes.

A table is drawn (:mod:`tests.fuzz.generators`), rows of it are learned and others, drawn alike, are held against the
model. With coverage c, n rows learned and m held against it, in r repetitions:

- the mean share covered is c, less ``√(c (1 − c)/r · (1/n + 1/m))`` by chance (four of these are allowed), and less
  what parameters gain by having been chosen on the very errors that calibrate: ``1/√n``, and no more than 1 − c, which
  is what the jackknife may lose at worst. Rows of one group count once;
- intervals are, on the middle row, no wider than three times the range of all targets learned;
- the mean log loss is that of the frequencies of the rows learned, but for a mean difference d which is no loss on the
  rows left out, as calibration saw to it. New rows miss these by ``σ_d √((1/n + 1/m)/r)`` by chance (four of these are
  allowed), as both are means of d, and by 1/n for every fitted number: half of it is what it gained where it was
  fitted, half what it costs elsewhere (Akaike). Factor, share, width, C and size are fitted, and the frequencies;
- the largest probability is on average the share of labels predicted rightly, but for ``√(classes/n)`` and
  ``½ √((1/n + 1/m)/r)`` by chance.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import ulmus
from tests.fuzz.generators import PAIRS, Table, table
from ulmus import streaming

COVERAGE, CHANCE, NEW_ROWS = 0.9, 4.0, 600
SIZES = (25, 40, 80, 200, 500)


def plain(make: Any, **options: Any) -> Callable[..., Any]:
    def fit(X: np.ndarray, y: np.ndarray, groups: Any) -> Any:
        return make(random_state=0, **options).fit(X, y, groups=groups)

    return fit


def halved(make: Any, **options: Any) -> Callable[..., Any]:
    """Half of the rows as landmarks."""
    return lambda X, y, groups: plain(make, n_landmarks=len(y) // 2, **options)(X, y, groups)


def in_blocks(make: Any, **options: Any) -> Callable[..., Any]:
    def fit(X: np.ndarray, y: np.ndarray, groups: Any) -> Any:
        model = make(random_state=0, **options)
        for rows in np.array_split(np.arange(len(y)), 4):
            model.partial_fit(X[rows], y[rows])
        return model

    return fit


def streamed(make: Any, **options: Any) -> Callable[..., Any]:
    def fit(X: np.ndarray, y: np.ndarray, groups: Any) -> Any:
        parts = np.array_split(np.arange(len(y)), 3)
        return streaming.fit(make(random_state=0, **options), lambda: ((X[rows], y[rows]) for rows in parts))

    return fit


REGRESSORS: dict[str, Callable[..., Any]] = {
    "KELM": plain(ulmus.KELMRegressor),
    "KELM 5 folds": plain(ulmus.KELMRegressor, cv=5),
    "NKELM": plain(ulmus.NKELMRegressor),
    "NKELM half": halved(ulmus.NKELMRegressor),
    "NKELM 5 folds": halved(ulmus.NKELMRegressor, cv=5),
    "NKELM iterative": halved(ulmus.NKELMRegressor, solver="iterative"),
    "NKELM laplacian": plain(ulmus.NKELMRegressor, kernel="laplacian"),
    "NKELM large C": halved(ulmus.NKELMRegressor, C=1e6),
    "NKELM in blocks": in_blocks(ulmus.NKELMRegressor),
    "NKELM streamed": streamed(ulmus.NKELMRegressor),
    "ELM": plain(ulmus.ELMRegressor),
    "ELM streamed": streamed(ulmus.ELMRegressor),
    "OSELM": plain(ulmus.OSELMRegressor),
    "OSELM in blocks": in_blocks(ulmus.OSELMRegressor),
    "Robust NKELM": plain(ulmus.RobustNKELMRegressor),
    "Robust ELM": plain(ulmus.RobustELMRegressor),
    "Adaptive": plain(ulmus.AdaptiveRegressor, effort="fast"),
}
CLASSIFIERS: dict[str, Callable[..., Any]] = {
    "KELM": plain(ulmus.KELMClassifier),
    "NKELM": plain(ulmus.NKELMClassifier),
    "NKELM half": halved(ulmus.NKELMClassifier),
    "NKELM 5 folds": halved(ulmus.NKELMClassifier, cv=5),
    "NKELM iterative": halved(ulmus.NKELMClassifier, solver="iterative"),
    "NKELM large C": halved(ulmus.NKELMClassifier, C=1e6),
    "NKELM in blocks": in_blocks(ulmus.NKELMClassifier),
    "NKELM streamed": streamed(ulmus.NKELMClassifier),
    "ELM": plain(ulmus.ELMClassifier),
    "OSELM": plain(ulmus.OSELMClassifier),
    "OSELM in blocks": in_blocks(ulmus.OSELMClassifier),
    "Adaptive": plain(ulmus.AdaptiveClassifier, effort="fast"),
    "ELM ordinal": plain(ulmus.ELMOrdinalClassifier),
    "KELM ordinal": plain(ulmus.KELMOrdinalClassifier),
    "NKELM ordinal": plain(ulmus.NKELMOrdinalClassifier),
    "OSELM ordinal": in_blocks(ulmus.OSELMOrdinalClassifier),
    "NKELM logistic": plain(ulmus.NKELMOrdinalClassifier, loss="logistic"),
    "ENDA means": lambda X, y, groups: ulmus.ENDA(head="mean", random_state=0).fit(X, y),
}
#: Beside ``CLASSIFIERS``, on whose number the draws of older seeds stand: the seed says which discriminant model it is.
OTHERS: dict[str, Callable[..., Any]] = {
    "KLDA means": lambda X, y, groups: ulmus.KLDA(head="mean", random_state=0).fit(X, y),
    "ENDA ensemble": lambda X, y, groups: ulmus.ENDAEnsemble(ulmus.ENDA(head="mean"), n_members=3, random_state=0).fit(
        X, y
    ),
    "NNDA means": lambda X, y, groups: ulmus.NNDA(10, max_iter=60, head="mean", random_state=0).fit(X, y),
}
#: The same by the log loss, in every seventh case of those.
BY_LOG: dict[str, Callable[..., Any]] = {
    "KELM": plain(ulmus.KELMClassifier, loss="log"),
    "NKELM": plain(ulmus.NKELMClassifier, loss="log"),
    "NKELM half": halved(ulmus.NKELMClassifier, loss="log"),
    "NKELM large C": halved(ulmus.NKELMClassifier, C=1e4, loss="log"),
    "ELM": plain(ulmus.ELMClassifier, loss="log"),
    "KELM ordinal": plain(ulmus.KELMOrdinalClassifier, loss="logistic"),
    "ELM ordinal": plain(ulmus.ELMOrdinalClassifier, loss="logistic"),
}
OTHERS |= {f"{name} by log": fit for name, fit in BY_LOG.items()}
_THREE = ("KLDA means", "ENDA ensemble", "ENDA means")
DISCRIMINANTS = (*_THREE, "ENDA means", *_THREE, "NNDA means")
#: Models that are tried with groups.
GROUPED = ("KELM", "NKELM", "NKELM half", "ELM")
#: Classes: how many, and the share of the largest.
CLASSES = ((2, 0.5), (2, 0.93), (3, 0.34), (4, 0.7), (12, 0.09))


def check(seed: int) -> str:
    """One table and one model."""
    rng = np.random.default_rng(seed)
    name, n = str(rng.choice(list(PAIRS))), int(rng.choice(SIZES))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check_intervals(rng, name, n) if rng.uniform() < 0.5 else check_probabilities(rng, name, n, seed)


def check_intervals(rng: np.random.Generator, name: str, n: int) -> str:
    kind = str(rng.choice(list(REGRESSORS)))
    size = 4 if kind in GROUPED and n >= 200 and rng.uniform() < 0.3 else 1
    # robust intervals are for rows that are no outliers
    if kind.startswith("Robust") and not name.endswith(("smooth", "exact", "nothing", "widening", "inflated")):
        name = "gaussian smooth"
    repeats, shares, ratios = max(1, 400 // n), [], []
    for _ in range(repeats):
        rows = table(name, rng, n + NEW_ROWS, size)
        train, new = rows.take(slice(0, n)), rows.take(slice(n, None))
        unit = float(10.0 ** rng.integers(-3, 4))
        X, y = scaled(train, new)[0], unit * (train.signal + train.noise)
        model = REGRESSORS[kind](X, y, train.groups)
        low, high = model.predict_interval(scaled(train, new)[1], COVERAGE).T
        t = unit * (new.signal + new.noise)
        shares.append(float(((low <= t) & (t <= high)).mean()))
        constant = np.diff(np.quantile(y, [0.0, 1.0]))[0] + 1e-9 * unit
        ratios.append(float(np.median(high - low) / constant))
    case = f"{kind} on {name}, n = {n}" + (", groups of 4" if size > 1 else "")
    known, new_ones = n / size, NEW_ROWS / size
    chance = np.sqrt(COVERAGE * (1 - COVERAGE) / repeats * (1 / known + 1 / new_ones))
    least = COVERAGE - min(1 / np.sqrt(known), 1 - COVERAGE) - CHANCE * chance
    covered, ratio = float(np.mean(shares)), float(np.median(ratios))
    assert covered >= least, f"{case}: {covered:.3f} covered, {least:.3f} is the least for {COVERAGE}"
    assert ratio <= 3.0, f"{case}: intervals are {ratio:.3g} times as wide as all targets"
    return f"interval {kind}"


def check_probabilities(rng: np.random.Generator, name: str, n: int, seed: int) -> str:
    kind, (count, largest) = str(rng.choice(list(CLASSIFIERS))), CLASSES[rng.integers(len(CLASSES))]
    kind = DISCRIMINANTS[seed % len(DISCRIMINANTS)] if kind in DISCRIMINANTS else kind
    kind = f"{kind} by log" if kind in BY_LOG and seed % 7 == 3 else kind
    count, repeats = min(count, n // 8), max(1, 400 // n)
    case = f"{kind} on {name}, n = {n}, {count} classes, the largest {largest}"
    differences, gaps = [], []
    for _ in range(repeats):
        difference, gap = judged(rng, kind, table(name, rng, n + NEW_ROWS), n, count, largest, case)
        differences.append(difference)
        gaps.append(gap)
    chance = CHANCE * np.sqrt((1 / n + 1 / NEW_ROWS) / repeats)
    excess, margin = float(np.mean(differences)), (count + 4) / n + chance * float(np.std(differences))
    assert excess <= margin, f"{case}: log loss is {excess:.3f} above that of the frequencies, {margin:.3f} is allowed"
    gap, allowed = float(np.mean(gaps)), np.sqrt(count / n) + chance * 0.5
    assert abs(gap) <= allowed, f"{case}: confidence is {gap:.3f} above accuracy, {allowed:.3f} is allowed"
    return f"probability {kind}"


def judged(
    rng: np.random.Generator, kind: str, rows: Table, n: int, count: int, largest: float, case: str
) -> tuple[np.ndarray, float]:
    """By how much log losses of new rows are above those of the frequencies, and confidence above accuracy."""
    latent = rows.signal + rows.noise + 1e-9 * rng.normal(size=n + NEW_ROWS)
    shares = np.full(count, (1 - max(largest, 1 / count)) / max(count - 1, 1))
    shares[0] = 1 - shares[1:].sum()
    label = np.searchsorted(np.quantile(latent, np.cumsum(shares)[:-1]), latent)
    label[:n][rng.permutation(n)[: 2 * count]] = np.repeat(np.arange(count), 2)  # all classes are among those learned
    X, Q = scaled(rows.take(slice(0, n)), rows.take(slice(n, None)))
    P, t = {**CLASSIFIERS, **OTHERS}[kind](X, label[:n], None).predict_proba(Q), label[n:]
    assert np.isfinite(P).all(), f"{case}: probabilities are not finite"
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-9, err_msg=case)
    assert (P >= 0).all(), f"{case}: negative probabilities"
    frequency = (np.bincount(label[:n], minlength=count) + 1 / count) / (n + 1)
    with np.errstate(divide="ignore"):
        difference = np.log(frequency[t]) - np.log(P[np.arange(len(t)), t])
    return difference, float(P.max(axis=1).mean() - (P.argmax(axis=1) == t).mean())


def scaled(train: Table, new: Table) -> tuple[np.ndarray, np.ndarray]:
    """Inputs in units of the deviation of the rows learned, as users are told to give them."""
    centre, deviation = train.X.mean(axis=0), train.X.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    return (train.X - centre) / deviation, (new.X - centre) / deviation

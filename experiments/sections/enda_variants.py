"""Section (af): ordered and robust discriminants on real sets.

*Ordered*: one direction w along which each class mean lies at least rho above the one before,
min w'(S_w + I/C)w - nu rho; its dual is a least squares problem on the simplex of neighbouring classes. *Robust*: class
means and scatter weighted by 1/sqrt(1 + d^2), with d the Mahalanobis distance to the class mean in units of its median,
five times over. Both stand on the hidden layer, width and C that ENDA chose, and are compared with ENDA itself.
"""

import warnings
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import ShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section
from ulmus import ENDA, datasets
from ulmus.solvers.convex import combine
from ulmus.solvers.discriminant import class_means, solve_discriminant
from ulmus.statistics import Statistics

ORDERED: tuple[str, ...] = (
    *("chu_boston_5bins", "chu_autompg_5bins", "chu_machine_5bins", "chu_triazines_5bins", "orca_ERA", "orca_LEV"),
    *("orca_car", "orca_balance-scale", "orca_ESL", "orca_newthyroid"),
)
NOISY = ("wine", "image_segmentation", "waveform21", "pendigits", "satimage")
NOISE = (0.0, 0.1, 0.2)
L = 200


def splits(name: str, count: int, rows: int = 1500) -> Any:
    """Random splits, standardised: two thirds to train on."""
    given = datasets.load(name)
    X, y = given.data, np.unique(given.target, return_inverse=True)[1]
    for parts in ShuffleSplit(count, test_size=1 / 3, random_state=0).split(X):
        train, test = (part[:rows] for part in parts)
        if len(np.unique(y[train])) < y.max() + 1:
            continue
        scaler = StandardScaler().fit(X[train])
        yield scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]


def statistics(H: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None) -> Statistics:
    return Statistics.of(H, np.equal(y[:, None], np.arange(y.max() + 1)).astype(float), weight)


def ordered_direction(H: np.ndarray, y: np.ndarray, gamma: float) -> np.ndarray:
    """w = (S_w + γI)⁻¹ Σ α_k (μ_{k+1} − μ_k), α on the simplex with the smallest w'(S_w + γI)w."""
    stats = statistics(H, y)
    D = np.diff(class_means(stats), axis=1)
    Y = cho_solve((solve_discriminant(stats, gamma).factor, True), D)
    return Y @ combine(D.T @ Y, 1.0)


def between_means(z: np.ndarray, y: np.ndarray, z_test: np.ndarray) -> np.ndarray:
    """Thresholds half way between neighbouring class means on the line (made to rise where they do not)."""
    means = np.array([z[y == k].mean() for k in range(y.max() + 1)])
    return np.searchsorted(np.maximum.accumulate((means[1:] + means[:-1]) / 2), z_test)


def ordered(section: Section, count: int) -> None:
    names = ("ENDA, k-NN", "ENDA, one direction", "ordered, thresholds", "ordered, k-NN")
    rows, means = [], []
    for name in (n for n in ORDERED if n in datasets.list()):
        found: dict[str, list[float]] = {n: [] for n in names}
        for seed, (X, y, X_test, y_test) in enumerate(splits(name, count)):
            model = ENDA(L, random_state=seed).fit(X, y)
            one = ENDA(L, slope=model.slope_, C=model.C_, n_components=1, random_state=seed).fit(X, y)
            H, H_test = model.map_.transform(X), model.map_.transform(X_test)
            w = ordered_direction(H, y, 1 / model.C_)
            rule = KNeighborsClassifier(min(15, len(X) // 5)).fit(H @ w[:, None], y)
            labels = (
                model.predict(X_test),
                one.predict(X_test),
                between_means(H @ w, y, H_test @ w),
                rule.predict(H_test @ w[:, None]),
            )
            for n, label in zip(names, labels, strict=True):
                found[n].append(float(np.abs(label - y_test).mean()))
        means.append([np.mean(found[n]) for n in names])
        rows.append([name, *(f"{m:.3f}" for m in means[-1])])
    relative = np.exp(np.log(np.array(means) / np.array(means)[:, :1]).mean(axis=0))
    section.say("Mean absolute error in classes; last line: geometric mean relative to the first column.")
    section.say(markdown(("set", *names), [*rows, ["relative", *(f"{r:.3f}" for r in relative)]]))


def robust_directions(H: np.ndarray, y: np.ndarray, gamma: float, rounds: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """W and the centre after reweighting; d² is in units of its median, which is the number of effective directions."""
    weight = np.ones(len(y))
    for _ in range(rounds):
        stats = statistics(H, y, weight)
        found = solve_discriminant(stats, gamma)
        inside = solve_triangular(found.factor, (H - class_means(stats).T[y]).T, lower=True)
        d2 = (inside**2).sum(axis=0)
        weight = 1 / np.sqrt(1 + d2 / np.median(d2))
        weight /= weight.mean()
    return found.weights, found.centre


def robust(section: Section, count: int) -> None:
    rows = []
    for name in NOISY:
        for noise in NOISE:
            errors: dict[str, list[float]] = {"ENDA": [], "robust": [], "LDA": []}
            for seed, (X, y, X_test, y_test) in enumerate(splits(name, count)):
                rng = np.random.RandomState(seed)
                flip = rng.uniform(size=len(y)) < noise
                noisy = np.where(flip, rng.randint(y.max() + 1, size=len(y)), y)
                model = ENDA(L, random_state=seed).fit(X, noisy)
                H, H_test = model.map_.transform(X), model.map_.transform(X_test)
                W, _ = robust_directions(H, noisy, 1 / model.C_)
                rule = KNeighborsClassifier(model.n_neighbors_).fit(H @ W, noisy)
                errors["ENDA"].append(float(np.mean(model.predict(X_test) != y_test)))
                errors["robust"].append(float(np.mean(rule.predict(H_test @ W) != y_test)))
                errors["LDA"].append(
                    float(np.mean(LinearDiscriminantAnalysis().fit(X, noisy).predict(X_test) != y_test))
                )
            rows.append([name, f"{noise:.0%}", *(f"{np.mean(e):.4f} ± {np.std(e):.4f}" for e in errors.values())])
    section.say("Test error with some training labels drawn at random.")
    section.say(markdown(("set", "labels drawn", "ENDA", "robust", "LDA"), rows))


def variants(section: Section, options: Options) -> None:
    """Both tables."""
    section.say(
        f"Random splits, two thirds (1,500 rows at most) to train on, {L} hidden nodes; width and C as ENDA chose them."
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ordered(section, options.repeats)
        robust(section, options.repeats)

"""Section (f): the model without arguments beside the best cell of an exhaustive search."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold, RandomizedSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline

from experiments.runner.measure import timed
from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section
from experiments.tasks import Task, official, random_split
from ulmus import NKELMClassifier, NKELMRegressor
from ulmus.codings import OneVsAll
from ulmus.solvers.path import RidgePath
from ulmus.statistics import Statistics

CLASSIFICATION = ("satimage", "shuttle", "ijcnn1", "letter", "pendigits")
REGRESSION = ("cal_housing", "cpu_act", "house_16H", "abalone")
N_FOLDS = 5


@dataclass(frozen=True)
class Plan:
    """The grid of the document (§7), landmarks, and what is timed of the search: cells for each seed, and folds."""

    C: np.ndarray
    gamma: np.ndarray
    n_landmarks: int
    timed_cells: int
    timed_folds: int

    @property
    def n_fits(self) -> int:
        return len(self.C) * len(self.gamma) * N_FOLDS


FULL = Plan(2.0 ** np.arange(-5, 21), 2.0 ** np.arange(-5, 6), 1000, 2, 2)
QUICK = Plan(2.0 ** np.arange(-5, 21, 5), 2.0 ** np.arange(-5, 6, 2), 100, 1, 1)


def search(section: Section, options: Options) -> None:
    """Error and time of both on every set."""
    plan = QUICK if options.quick else FULL
    section.say(explanation(plan, options.repeats))
    tasks = {name: task_of(name, plan, options) for name in CLASSIFICATION + REGRESSION}
    duels = {name: Duel.fight(task, plan, options.repeats) for name, task in tasks.items() if task}
    section.say(markdown(HEADER, (duel.row(name) for name, duel in duels.items())))
    section.name_missing([name for name in tasks if name not in duels])
    for name, duel in duels.items():
        for text, value, bound, at_least in duel.claims:
            section.claim(f"{name}, {text}", value, bound, at_least=at_least, quick=options.quick)


def explanation(plan: Plan, n_seeds: int) -> str:
    def powers(values: np.ndarray) -> str:
        return f"2^{np.log2(values[0]):.0f} to 2^{np.log2(values[-1]):.0f}, {len(values)} values"

    return (
        f"The rival: `GridSearchCV` with {N_FOLDS} shuffled folds over C ({powers(plan.C)}) and gamma "
        f"({powers(plan.gamma)}), {plan.n_fits} fits of `Nystroem` ({plan.n_landmarks} landmarks) + `Ridge` or "
        "`RidgeClassifier`, inputs standardised.\n\n"
        f"Its **time is extrapolated**: with every seed, between our fits, {plan.timed_cells} of its cells, drawn at "
        f"random, run {plan.timed_folds} of the {N_FOLDS} folds through `RandomizedSearchCV(n_jobs=-1)`, which runs "
        "the code of `GridSearchCV`, with its workers started beforehand; their wall time is scaled to all fits, and "
        "the final fit of the best cell is added.\n\n"
        "Its **best cell is found faster than it would find it**: for every fold and gamma the features (of the "
        "landmarks that `Nystroem` draws) are summed once, and one eigendecomposition of the sums gives the ridge "
        "solutions of all C, on all training rows. These are the same models: *same scores* is the largest difference "
        "of a fold's score (accuracy or R²) from the timed fits. The best cell is then fitted by scikit-learn.\n\n"
        f"Errors are those of the test rows, means of {n_seeds} seeds of the landmarks on one split (the official one; "
        "else a random third is for testing): % wrong, or RMSE in % of the targets' deviation. *One fit* is the same "
        "model with the chosen values given."
    )


def task_of(name: str, plan: Plan, options: Options) -> Task | None:
    task = official(name) if name in CLASSIFICATION else random_split(name, seed=0)
    if task is None:
        return None
    if options.quick:
        order = np.random.RandomState(0).permutation(len(task.X))
        task = task.take(order[: int(np.clip(options.rows(len(order)), 600, 1_250))])
    return task.scaled("standardised")


# The rival


def pipeline(regression: bool, n_landmarks: int, gamma: float = 1.0, C: float = 1.0, seed: int = 0) -> Pipeline:
    ridge = Ridge if regression else RidgeClassifier
    features = Nystroem(gamma=gamma, n_components=n_landmarks, random_state=seed)
    return Pipeline([("features", features), ("ridge", ridge(alpha=1 / C))])


def folds_of(task: Task) -> list[tuple[np.ndarray, np.ndarray]]:
    folds = KFold if task.regression else StratifiedKFold
    return list(folds(N_FOLDS, shuffle=True, random_state=0).split(task.X, task.y))


def all_scores(task: Task, plan: Plan, n_jobs: int = -1) -> np.ndarray:
    """Scores ``[gamma, C, fold]`` of every cell: all C from one decomposition per fold and gamma."""
    folds = folds_of(task)
    cells = [(gamma, train, test) for gamma in plan.gamma for train, test in folds]
    scores = Parallel(n_jobs=n_jobs)(delayed(scores_of_all_C)(task, plan, *cell) for cell in cells)
    return np.reshape(scores, (len(plan.gamma), len(folds), len(plan.C))).transpose(0, 2, 1)


def scores_of_all_C(task: Task, plan: Plan, gamma: float, train: np.ndarray, test: np.ndarray) -> list[float]:
    if task.regression:
        score, T, decode = r2_score, task.y[:, None], lambda P: P[:, 0]
    else:
        coding = OneVsAll(task.classes)
        score, T, decode = accuracy_score, coding.encode(np.searchsorted(task.classes, task.y)), coding.decode
    landmarks = task.X[train][np.random.RandomState(0).permutation(len(train))[: plan.n_landmarks]]
    s, U = np.linalg.eigh(rbf_kernel(landmarks, gamma=gamma))
    whitening = U / np.sqrt(np.maximum(s, 1e-12))  # as Nystroem does, up to a rotation

    def features(rows: np.ndarray) -> np.ndarray:
        return rbf_kernel(task.X[rows], landmarks, gamma=gamma) @ whitening

    path = RidgePath(Statistics.of(features(train), T[train]), fit_intercept=True)
    beta, intercept = path.weights(plan.C)
    F = features(test)
    return [score(task.y[test], decode(F @ beta[:, j] + intercept[j])) for j in range(len(plan.C))]


def timed_cells(task: Task, plan: Plan, seed: int) -> tuple[dict[str, Any], float]:
    """The record of a search of a few random cells on some of the folds, and its seconds."""
    grid = {"features__gamma": plan.gamma, "ridge__alpha": 1 / plan.C}
    folds = folds_of(task)[: plan.timed_folds]
    searcher = RandomizedSearchCV(
        pipeline(task.regression, plan.n_landmarks),
        grid,
        n_iter=plan.timed_cells,
        cv=folds,
        n_jobs=-1,
        random_state=seed,
        refit=False,
    )
    found, seconds = timed(lambda: searcher.fit(task.X, task.y))
    return found.cv_results_, seconds


def largest_difference(record: dict[str, Any], scores: np.ndarray, plan: Plan) -> float:
    """Between the scores of the timed fits and those of the fast path."""
    i = np.searchsorted(plan.gamma, np.asarray(record["param_features__gamma"], float))
    j = np.searchsorted(plan.C, 1 / np.asarray(record["param_ridge__alpha"], float))
    return max(float(np.abs(record[f"split{k}_test_score"] - scores[i, j, k]).max()) for k in range(plan.timed_folds))


# Both

HEADER: tuple[str, ...] = (
    "set",
    "rows",
    "error",
    "error, best cell",
    "ratio",
    "seconds",
    "search, extrapolated",
    "ratio",
    "one fit",
)
HEADER += ("tuned / one", "chosen (L, C, gamma)", "best cell (C, gamma)", "same scores")


@dataclass(frozen=True)
class Duel:
    """Errors and seconds of both on one set."""

    n: int
    error: float
    seconds: float
    one_fit: float
    chosen: str
    best_error: float
    search_seconds: float
    best_cell: str
    difference: float

    @classmethod
    def fight(cls, task: Task, plan: Plan, n_seeds: int) -> "Duel":
        model_class = NKELMRegressor if task.regression else NKELMClassifier
        timed_cells(task.first(4 * plan.n_landmarks // 3), plan, 0)  # starts the workers
        tuned, given, errors, parts, records = [], [], [], [], []
        for seed in range(n_seeds):
            model, seconds = timed(lambda seed=seed: model_class(random_state=seed).fit(task.X, task.y))
            tuned.append(seconds)
            errors.append(task.percent(model.predict(task.X_test)))
            values = {"n_landmarks": model.n_landmarks_, "gamma": model.gamma_, "C": model.C_}
            one = model_class(**values, fit_intercept=task.regression, random_state=seed)
            given.append(timed(lambda one=one: one.fit(task.X, task.y))[1])
            record, seconds = timed_cells(task, plan, seed)
            records.append(record)
            parts.append(seconds)
        scores = all_scores(task, plan)
        i, j = np.unravel_index(scores.mean(axis=2).argmax(), scores.shape[:2])
        gamma, C = plan.gamma[i], plan.C[j]
        best, refits = [], []
        for seed in range(n_seeds):
            rival = pipeline(task.regression, plan.n_landmarks, gamma, C, seed)
            refits.append(timed(lambda rival=rival: rival.fit(task.X, task.y))[1])
            best.append(task.percent(rival.predict(task.X_test)))
        one_search = plan.n_fits / (plan.timed_cells * plan.timed_folds) * float(np.mean(parts))
        return cls(
            len(task.X),
            float(np.mean(errors)),
            float(np.median(tuned)),
            float(np.median(np.divide(tuned, given))),
            f"{model.n_landmarks_}, 2^{np.log2(model.C_):.0f}, 2^{np.log2(model.gamma_):.1f}",
            float(np.mean(best)),
            one_search + float(np.median(refits)),
            f"2^{np.log2(C):.0f}, 2^{np.log2(gamma):.0f}",
            max(largest_difference(record, scores, plan) for record in records),
        )

    @property
    def claims(self) -> tuple[tuple[str, float, float, bool], ...]:
        return (
            ("error / best cell's error", self.error / self.best_error, 1.01, False),
            ("time of the search / time of the tuned fit", self.search_seconds / self.seconds, 50, True),
            ("tuned fit / one fit at the chosen values", self.one_fit, 4, False),
        )

    def row(self, name: str) -> tuple:
        (_, error, *_), (_, time, *_), (_, fits, *_) = self.claims
        return (
            name,
            self.n,
            f"{self.error:.3f}",
            f"{self.best_error:.3f}",
            f"{error:.3f}",
            f"{self.seconds:.2f}",
            f"{self.search_seconds:.0f}",
            f"{time:.0f}",
            f"{self.seconds / fits:.2f}",
            f"{fits:.1f}",
            self.chosen,
            self.best_cell,
            f"{self.difference:.0e}",
        )

"""The features that a discriminant model may stand on: a table of two rows."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.codings import OneVsAll
from ulmus.engine import Rows
from ulmus.features.kernels import uses_gamma
from ulmus.features.nystrom import NystromMap
from ulmus.features.random_layer import RandomLayer
from ulmus.features.widths import heuristic_gamma
from ulmus.solvers.nystrom_ridge import nystrom_statistics
from ulmus.statistics import Statistics, Summary
from ulmus.tuning import Judge, Tuner, Tuning
from ulmus.tuning.search import FIRST_SIZE

MakeMap = Callable[[float, int], Any]


@dataclass(frozen=True)
class FeatureKind:
    """Features by name: their map, their sums, and where the search for their width starts.

    ``width`` and ``size`` are the names of the attributes of the model that say what is in use.
    """

    width: str
    size: str
    make_map: Callable[[Any, int], MakeMap]
    statistics: Callable[..., Statistics]
    start: Callable[[Any, Rows, np.random.RandomState], float]
    searched: Callable[[Any], bool]
    given_size: Callable[[Any, Rows], Any]
    width_of: Callable[[Any], float]


def _random_map(model: Any, seed: int) -> MakeMap:
    def make(slope: float, size: int) -> RandomLayer:
        return RandomLayer(
            size,
            activation=model.activation,
            weights=model.weights,
            scale=model.scale,
            slope=slope,
            direct_links=model.direct_links,
            random_state=seed,
            n_jobs=model.n_jobs,
        )

    return make


def _nystrom_map(model: Any, seed: int) -> MakeMap:
    given = not isinstance(model.landmarks, str)
    landmarks = model._shown(np.asarray(model.landmarks, dtype=np.float64)) if given else model.landmarks

    def make(gamma: float, size: int) -> NystromMap:
        return NystromMap(
            size,
            kernel=model.kernel,
            gamma=gamma,
            degree=model.degree,
            coef0=model.coef0,
            landmarks=landmarks,
            random_state=seed,
            n_jobs=model.n_jobs,
        )

    return make


def _landmark_count(model: Any, rows: Rows) -> Any:
    counted = isinstance(model.landmarks, str) and model.landmarks != "all"
    return model.n_hidden if counted else len(rows)


FEATURES: dict[str, FeatureKind] = {
    "random": FeatureKind(
        "slope",
        "n_hidden",
        _random_map,
        engine.gram_statistics,
        lambda model, rows, rng: 1.0,
        lambda model: model.slope == "auto",
        lambda model, rows: model.n_hidden,
        lambda features: features.slope,
    ),
    "nystrom": FeatureKind(
        "gamma",
        "n_landmarks",
        _nystrom_map,
        nystrom_statistics,
        lambda model, rows, rng: heuristic_gamma(model.kernel, rows.X, rows.weight, rng),
        lambda model: model.gamma == "auto" and uses_gamma(model.kernel),
        _landmark_count,
        lambda features: features.gamma_,
    ),
}


class Indicators:
    """0/1 columns, judged as the ±1 columns that they stand for."""

    def losses(self, T: np.ndarray, P: np.ndarray, criterion: str) -> np.ndarray:
        """One loss per row."""
        return OneVsAll(np.arange(T.shape[-1])).losses(2.0 * T - 1.0, 2.0 * P - 1.0, criterion)


@dataclass
class Fixed:
    """A fitted map; the sums, the C and the search that came with it, if there was one."""

    features: Any
    statistics: Statistics | None
    C: Any
    tuning: Tuning | None = None


def tuner_of(model: Any, rows: Rows, make_map: MakeMap, folds: np.ndarray | None, rng: np.random.RandomState) -> Tuner:
    """The search by the ridge regression of the class indicators, which spans the same space."""
    statistics = partial(FEATURES[model.features].statistics, n_jobs=model.n_jobs)
    judge = Judge(rows, Indicators(), statistics, True, criterion=model.criterion, folds=folds, n_jobs=model.n_jobs)
    tuner = Tuner(judge, make_map, rng, labels=class_numbers, verbose=model.verbose)
    if model.C != "auto":
        tuner.log2_C = np.log2([model.C])
    return tuner


def class_numbers(rows: Rows) -> np.ndarray:
    """The class of every row, from its indicators."""
    return rows.T.argmax(axis=1)


def fix_map(
    model: Any, rows: Rows, folds: np.ndarray | None, rng: np.random.RandomState, *, spare: bool = False
) -> Fixed:
    """Choose what is left to choose and fit the map; with ``spare``, twice as large as these rows ask for."""
    kind = FEATURES[model.features]
    make_map = kind.make_map(model, int(rng.randint(2**31 - 1)))
    given = getattr(model, kind.width)
    width = kind.start(model, rows, rng) if given == "auto" else given
    size = kind.given_size(model, rows)
    # Without a penalty there is nothing to choose by: a plain layer, as drawn.
    tune = model.C is not None
    if size == "auto" and not tune:
        size = min(FIRST_SIZE, max(1, len(rows) // 4))
    search, grow = tune and kind.searched(model), size == "auto"

    def fitted(size: int) -> Any:
        return make_map(width, size).fit(rows.X, class_numbers(rows), rows.weight)

    if not (search or model.C == "auto" or grow):
        return Fixed(fitted(size), None, model.C)
    tuner = tuner_of(model, rows, make_map, folds, rng)
    if search:
        width = tuner.choose_width(width, FIRST_SIZE if grow else size)
    found = tuner.choose_size(width, model.max_hidden) if grow else tuner.choose_C(width, size)
    C = found.C if model.C == "auto" else model.C
    tuning = tuner.result(width, found)
    if grow and spare:
        return Fixed(fitted(min(2 * found.size, model.max_hidden)), None, C, tuning)
    return Fixed(found.features, found.statistics, C, tuning)


def choose_prefix(
    model: Any, summary: Summary, sample: Rows, folds: np.ndarray | None, rng: np.random.RandomState
) -> Fixed:
    """Choose C, and the size where it was left open, from sums of more rows than the sample's."""
    features, width = model.map_, getattr(model, f"{FEATURES[model.features].width}_")
    open_size = model.C is not None and FEATURES[model.features].given_size(model, sample) == "auto"
    if model.C != "auto" and not open_size:
        return Fixed(features, summary.total, model.C)
    tuner = tuner_of(model, sample, lambda _, size: features, folds, rng)
    tuner.trials = list(model.tuning_.trials) if hasattr(model, "tuning_") else []
    sizes = features.prefix_sizes() if open_size else [features.n_lifted]
    found = tuner.choose_prefix(width, features, summary, sizes)
    C = found.C if model.C == "auto" else model.C
    return Fixed(found.features, found.statistics, C, tuner.result(width, found))

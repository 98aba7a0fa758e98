"""The features that a discriminant model may stand on: a table of two rows."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.codings import OneVsAll
from ulmus.engine import Rows
from ulmus.features.kernels import heuristic_gamma, uses_gamma
from ulmus.features.nystrom import NystromMap
from ulmus.features.random_layer import RandomLayer
from ulmus.solvers.nystrom_ridge import nystrom_statistics
from ulmus.statistics import Statistics
from ulmus.tuning import Judge, Tuner
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
    def make(gamma: float, size: int) -> NystromMap:
        return NystromMap(
            size,
            kernel=model.kernel,
            gamma=gamma,
            degree=model.degree,
            coef0=model.coef0,
            landmarks=model.landmarks,
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
    tuning: Any


def fix_map(model: Any, rows: Rows, folds: np.ndarray | None, rng: np.random.RandomState) -> Fixed:
    """Choose what is left to choose by the ridge regression that spans the same space, and fit the map."""
    kind = FEATURES[model.features]
    make_map = kind.make_map(model, int(rng.randint(2**31 - 1)))
    given = getattr(model, kind.width)
    width = kind.start(model, rows, rng) if given == "auto" else given
    size = kind.given_size(model, rows)
    # Without a penalty there is nothing to choose by: a plain layer, as drawn.
    tune = model.C is not None
    if size == "auto" and not tune:
        size = min(FIRST_SIZE, max(1, len(rows) // 4))
    search = tune and kind.searched(model)
    labels = rows.T.argmax(axis=1)
    if not (search or model.C == "auto" or size == "auto"):
        return Fixed(make_map(width, size).fit(rows.X, labels, rows.weight), None, model.C, None)
    statistics = partial(kind.statistics, n_jobs=model.n_jobs)
    judge = Judge(rows, Indicators(), statistics, True, criterion=model.criterion, folds=folds, n_jobs=model.n_jobs)
    tuner = Tuner(judge, make_map, rng, labels=lambda rows: rows.T.argmax(axis=1), verbose=model.verbose)
    if model.C != "auto":
        tuner.log2_C = np.log2([model.C])
    if search:
        width = tuner.choose_width(width, FIRST_SIZE if size == "auto" else size)
    found = tuner.choose_size(width, model.max_hidden) if size == "auto" else tuner.choose_C(width, size)
    C = found.C if model.C == "auto" else model.C
    return Fixed(found.features, found.statistics, C, tuner.result(width, found))

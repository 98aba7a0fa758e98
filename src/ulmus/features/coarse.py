"""A small map of the same kind as a given one: for what varies slowly, such as the size of errors."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from ulmus.engine import FeatureMap
from ulmus.exceptions import NumericalWarning
from ulmus.features.kernels import CrossKernel
from ulmus.features.nystrom import NystromMap
from ulmus.features.random_layer import RandomLayer
from ulmus.features.sampling import distinct_rows


def coarse(features: Any, size: int) -> FeatureMap | None:
    """The map of the first ``size`` nodes or landmarks, or of this many rows of an exact kernel; None where none is."""
    if isinstance(features, RandomLayer):
        direct = features.n_features_out - features.n_hidden
        return features if features.n_hidden <= size else features.prefix(direct + size)
    if isinstance(features, CrossKernel):
        Z, parameters = features.Z, features.parameters
        Z = Z[_some(Z, size)]
        kernel = features.function if features.kernel is None else features.kernel.name
        short = NystromMap(len(Z), kernel=kernel, gamma=parameters.gamma)
        short.set_params(degree=parameters.degree, coef0=parameters.coef0)
    else:
        if features.triangular and features.n_features_out <= size:
            return features
        Z, parameters = features.landmarks_, features.cross_kernel_.parameters
        every = isinstance(features.landmarks, str) and features.landmarks == "all"
        Z = Z[_some(Z, size)] if every else Z[:size]
        short = clone(features).set_params(n_landmarks=len(Z), rank=None)
        if not isinstance(features.landmarks, str):
            short.set_params(landmarks="uniform")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)  # that some landmarks depend on others is no news here
        try:
            return short.fit_landmarks(Z, parameters)
        except ValueError:  # no row has a kernel value with itself
            return None


def _some(Z: np.ndarray, size: int) -> np.ndarray:
    """So many rows, by keys that know no order of columns."""
    return distinct_rows(np.sort(Z, axis=1), size, None, np.random.RandomState(0))[0]

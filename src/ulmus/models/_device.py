"""What models know of devices: which one to use, and how its tensors come in."""

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from ulmus import engine
from ulmus.devices.accelerator import HIDDEN, on_device, resolve
from ulmus.devices.tensors import HostView, checked

#: Of models that only the CPU fits.

#: Kernel values (or nodes) from which a prediction is worth sending to the GPU.
WORTH_SENDING = 2e9


def validated(model: Any, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
    """Rows and targets by scikit-learn's checks; rows that are on the GPU are checked there."""
    if isinstance(X, HostView):
        X = checked(X)
        y = validate_data(model, X="no_validation", y=y, **options)
        if len(y) != len(X):
            raise ValueError(f"X has {len(X)} rows and y has {len(y)}")
        model.n_features_in_ = X.shape[1]
        return X, y
    return validate_data(model, X, y, **_asked(model), **options)


def _asked(model: Any) -> dict[str, Any]:
    """What scikit-learn is to look at."""
    return {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "ensure_all_finite": model._all_finite}


def rechecked(model: Any, X: Any) -> Any:
    """Rows for a fitted model."""
    if not isinstance(X, HostView):
        return validate_data(model, X, reset=False, **_asked(model))
    X = checked(X)
    if X.shape[1] != model.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(model).__name__} is expecting {model.n_features_in_} features as "
            "input"
        )
    return X


def apply(device: str, features: Any, X: Any, weights: np.ndarray, dtype: Any, n_jobs: int | None) -> np.ndarray:
    """``Φ(X) β`` where it is fastest: a model that was fitted on a GPU predicts without one too."""
    work = float(X.shape[0]) * features.n_lifted
    if device == HIDDEN or (device != "cpu" and work >= WORTH_SENDING and resolve("auto", np.inf) == "cuda"):
        with on_device("cuda" if device != HIDDEN else device) as accelerator:
            from ulmus.devices.direct import Driver

            return Driver(accelerator).apply(features, X, weights)
    return engine.apply(features, X, weights, dtype=dtype, n_jobs=n_jobs)

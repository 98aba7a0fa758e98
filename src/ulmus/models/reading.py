"""How a model reads rows: by scikit-learn's checks, from wherever they are, and through its metric."""

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite, isnan
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from ulmus._sklearn import check_sample_weight, safe_indexing
from ulmus.devices.tensors import HostView, checked
from ulmus.features.frames import given_rows

#: What scikit-learn notes of columns, and where a model keeps what it has fitted.
COLUMNS, FITTED = ("n_features_in_", "feature_names_in_"), ("fitted_", "stream_")
#: Rows that float64 counts one by one, nearly: beside more of them, one row is none.
MOST_WEIGHT = 1e15


@contextmanager
def columns_restored(model: Any) -> Iterator[None]:
    """What scikit-learn's checks note of the columns is taken back where the fit inside breaks off."""
    now = vars(model)
    before = dict(now)
    try:
        yield
    except BaseException:
        if all(now.get(name) is before.get(name) for name in FITTED):
            for name in COLUMNS:
                now.pop(name, None)
            now.update({name: value for name, value in before.items() if name in COLUMNS})
        raise


def noted_columns(model: Any) -> dict[str, Any]:
    """What is noted of the columns of a model."""
    return {name: getattr(model, name) for name in COLUMNS if hasattr(model, name)}


def under(columns: dict[str, Any] | None, model: Any, check: Callable[[Any], Any]) -> Any:
    """``check(model)`` with these for its columns, whatever a refit notes meanwhile; None are those that it has."""
    if columns is None:
        return check(model)
    if _has(model, columns):
        try:
            found = check(model)
        except ValueError:
            if _has(model, columns):
                raise
        else:
            if _has(model, columns):
                return found
    then = type(model)(**model.get_params(deep=False))
    for name, value in columns.items():
        setattr(then, name, value)
    return check(then)


def _has(model: Any, columns: dict[str, Any]) -> bool:
    noted, names = noted_columns(model), "feature_names_in_"
    if noted.get(names) is not columns.get(names) and not np.array_equal(noted.get(names, ()), columns.get(names, ())):
        return False
    return bool(noted.get("n_features_in_") == columns["n_features_in_"])


def is_tensor(X: Any) -> bool:
    """Whether this is a PyTorch tensor, or an array of CuPy (which imports neither)."""
    return (_library(X) == "torch" and hasattr(X, "is_cuda")) or (_library(X) == "cupy" and hasattr(X, "__dlpack__"))


def _library(X: Any) -> str:
    return type(X).__module__.split(".")[0]


def received(X: Any, device: str, name: str = "X") -> Any:
    """What a model works with: NumPy arrays for tensors in memory, views for those of the GPU, all else as it is."""
    if not is_tensor(X):
        return X if type(X) is np.ndarray or name != "X" else given_rows(X)
    if _library(X) == "cupy":
        if device != "cuda":
            raise ValueError(
                f'{name} is a CuPy array and the model has device={device!r}; pass device="cuda", or move it with '
                f"{name}.get()"
            )
        X = __import__("torch").from_dlpack(X)  # the same memory
    X = X.detach()
    if X.device.type == "cpu":
        return X.numpy()
    if device != "cuda" or X.device.type != "cuda":
        raise ValueError(
            f'{name} is a tensor on {str(X.device)!r} and the model has device={device!r}; pass device="cuda" for a '
            f"CUDA tensor, or move it with {name}.cpu()"
        )
    import torch

    if X.device.index not in (None, torch.cuda.current_device()):
        raise ValueError(
            f"{name} is on {str(X.device)!r} and the current CUDA device is {torch.cuda.current_device()}; move it, "
            "or choose it with torch.cuda.set_device"
        )
    return HostView(X)


def on_host(a: Any, device: str) -> Any:
    """Targets and weights: tensors become arrays."""
    a = received(a, device, "y or sample_weight")
    return np.asarray(a) if isinstance(a, HostView) else given_targets(a)


def given_targets(y: Any) -> Any:
    """Targets as they are; masked ones are refused."""
    if isinstance(y, np.ma.MaskedArray):
        gone = np.unique(np.nonzero(np.ma.getmaskarray(y))[0])
        if len(gone):
            raise ValueError(
                f"y is masked in {len(gone)} of {len(y)} rows, first in row {gone[0]} (counted from 0); leave out rows "
                "without a target, X[~y.mask] and y[~y.mask]"
            )
        return y.data
    return y


def refuse_moments(y: Any) -> None:
    """Say what to do with dates that are to be predicted as numbers."""
    values = np.asarray(y) if hasattr(y, "dtype") else np.asarray(y, dtype=object)
    looked_at = values.ravel() if values.dtype.kind in "OMm" else ()
    first = next((each for each in looked_at if each is not None), None)
    if isinstance(first, datetime.date | datetime.timedelta | np.datetime64 | np.timedelta64):
        raise ValueError(
            f"y holds moments, got {first!r}, and a regressor predicts numbers; pass days since one of them, as in "
            "(y - y.min()) / pd.Timedelta(days=1)"
        )


def dense_rows(X: Any) -> Any:
    """Rows that are on a GPU as an array, others as they are."""
    return np.asarray(X) if isinstance(X, HostView) else X


def validated(model: Any, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
    """Rows and targets by scikit-learn's checks; rows that are on the GPU are checked there."""
    X, y = X if type(X) is np.ndarray else given_rows(X), given_targets(y)
    refuse_missing(y)
    if options.get("y_numeric"):
        refuse_moments(y)
    if isinstance(X, HostView):
        X = checked(X)
        y = validate_data(model, X="no_validation", y=y, **options)
        if len(y) != len(X):
            raise ValueError(f"X has {len(X)} rows and y has {len(y)}")
        model.n_features_in_ = X.shape[1]
        return X, y
    return validate_data(model, X, y, **_looked_at(model), **options)


def checked_weight(sample_weight: Any, X: Any) -> np.ndarray | None:
    """Weights by scikit-learn's checks; None where none are given."""
    if sample_weight is None:
        return None
    weight = np.asarray(check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
    refuse_heavy(weight, "sample_weight")
    return weight


def refuse_heavy(weight: np.ndarray, name: str) -> None:
    """Refuse weights of more rows than float64 can count; ``name`` says where they come from."""
    most = float(weight.max(initial=0.0))
    if most > MOST_WEIGHT or float(weight.sum()) > MOST_WEIGHT:
        raise ValueError(
            f"a weight counts rows, and {name} has weights up to {most:.3g} that add up to more than {MOST_WEIGHT:.0e} "
            "rows, which is what float64 can count; divide the weights by their mean"
        )


def without_unweighted(cv: Any, weight: Any, *columns: Any) -> tuple[Any, ...]:
    """Weights, and what was given of the rows, without rows of weight 0, which no check and no column is to see.

    They stay where splits are given as rows, which count all of them; and where lengths differ, for the checks to tell.
    """
    counted = cv is not None and not isinstance(cv, int) and not hasattr(cv, "split")
    weight = checked_weight(weight, columns[0])
    same = all(each is None or not hasattr(each, "__len__") or _length(each) == np.size(weight) for each in columns)
    if weight is None or counted or not same or weight.all():
        return weight, *columns
    there = np.flatnonzero(weight)
    taken = (each if each is None else _rows_of(each, there) for each in columns)
    return weight[there], *taken


def _length(column: Any) -> int:
    return int(column.shape[0]) if getattr(column, "shape", ()) else len(column)


def _rows_of(column: Any, there: np.ndarray) -> Any:
    return column[there] if isinstance(column, HostView) else safe_indexing(column, there)


def of_positive_weight(weight: np.ndarray | None, *columns: Any) -> tuple[Any, ...]:
    """The weights, and what else there is of the rows (or None), without rows of weight 0."""
    if weight is None or weight.all():
        return weight, *columns
    return tuple(None if each is None else each[weight > 0] for each in (weight, *columns))


def refuse_missing(y: Any) -> None:
    """Refuse labels that are not there, before they are read as others; arrays of numbers are looked at elsewhere."""
    if not isinstance(y, list) and (getattr(getattr(y, "dtype", None), "kind", "") != "O" or y.ndim != 1):
        return
    labels = y if isinstance(y, list) else y.tolist()
    gone = [i for i, label in enumerate(labels) if label is None or (isinstance(label, float) and isnan(label))]
    if gone:
        what = "None" if labels[gone[0]] is None else "NaN"
        raise ValueError(
            f"y is missing ({what}) in {len(gone)} of {len(labels)} rows, first in row {gone[0]} (counted from 0); "
            "leave out rows without a target"
        )


def _looked_at(model: Any) -> dict[str, Any]:
    """What scikit-learn is to look at."""
    return {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "ensure_all_finite": model._all_finite}


def rechecked(model: Any, X: Any, columns: dict[str, Any] | None = None) -> Any:
    """Rows for a model that was fitted to these columns."""
    return under(columns, model, lambda known: _rechecked(known, X))


def is_plain(model: Any, X: Any) -> bool:
    """Whether rows need no conversion, only a look at their shape and for NaN, which one sum of squares is.

    Where that overflows, or there are names to compare, scikit-learn's checks have the word.
    """
    return (
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and X.shape[1] == model.n_features_in_
        and len(X) > 0
        and not hasattr(model, "feature_names_in_")
        and isfinite(np.vdot(X, X))
    )


def _rechecked(model: Any, X: Any) -> Any:
    if is_plain(model, X):
        return X
    if not isinstance(X, HostView):
        return validate_data(model, given_rows(X), reset=False, **_looked_at(model))
    X = checked(X)
    if X.shape[1] != model.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(model).__name__} is expecting {model.n_features_in_} features as "
            "input"
        )
    return X


def seen_through(A: np.ndarray | None, X: Any) -> Any:
    """Rows as the metric shows them; None shows them as they are."""
    if A is None:
        return X
    if len(A) != X.shape[1]:
        raise ValueError(f"metric has {len(A)} rows, one for each feature is needed, and X has {X.shape[1]}")
    A = A.astype(X.dtype)
    if A.ndim == 2:
        return np.ascontiguousarray(X @ A)
    return X @ sparse.diags_array(A).tocsr() if sparse.issparse(X) else X * A

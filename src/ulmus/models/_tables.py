"""Tables with categories: text, categorical and boolean columns become codes, the same ones at every call.

Missing values stay what they are; :mod:`ulmus.features.preparation` sees to them.
"""

from typing import Any, ClassVar

import narwhals as nw
import numpy as np
from scipy import sparse

#: Code of a level that was not there in training.
UNKNOWN = -1.0


class TableInput:
    """Mixed data frames in, numbers out; put before the task in the list of parents."""

    categorical_features: Any
    _all_finite: ClassVar[Any] = "allow-nan"

    def _validate(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, np.ndarray]:
        frame = _frame(X)
        columns = _columns(frame)
        self._levels = {name: _levels(c) for name, c in columns.items() if not c.dtype.is_numeric()}
        X, y = super()._validate(self._coded(X), y, reset)  # type: ignore[misc]
        self._categorical = self._which(X.shape[1], list(columns))
        return X, y

    def _checked(self, X: Any) -> Any:
        return super()._checked(self._coded(X))  # type: ignore[misc]

    def _coded(self, X: Any) -> Any:
        """The same frame with codes in place of levels."""
        if sparse.issparse(X):
            raise TypeError(f"Sparse data is not supported by {type(self).__name__}; pass a dense table (X.toarray())")
        frame = _frame(X)
        if frame is None:
            return X
        columns = _columns(frame)
        strange = [name for name, c in columns.items() if name not in self._levels and not c.dtype.is_numeric()]
        if strange:
            raise ValueError(f"columns {strange} held numbers in training and hold {columns[strange[0]].dtype} now")
        new = []
        for name in self._levels.keys() & columns.keys():  # the check of names tells of columns that are gone
            code = {level: float(k) for k, level in enumerate(self._levels[name])}
            values = [code.get(str(value), UNKNOWN) for value in columns[name].to_list()]
            new.append(nw.new_series(name, values, nw.Float64, backend=frame.implementation))
        return frame.with_columns(*new).to_native() if new else X

    def _which(self, width: int, known: list[str]) -> np.ndarray:
        """Which columns hold codes of categories."""
        out = np.zeros(width, bool)
        out[[known.index(name) for name in self._levels]] = True
        if isinstance(self.categorical_features, str):
            return out
        named = np.asarray(self.categorical_features)
        if named.dtype == bool and len(named) != width:
            raise ValueError(f"categorical_features is a mask of {len(named)} columns, but there are {width} columns")
        for column in np.flatnonzero(named) if named.dtype == bool else self.categorical_features:
            if isinstance(column, str) and column not in known:
                raise ValueError(f"categorical_features names the column {column!r}, but the columns are {known}")
            place = known.index(column) if isinstance(column, str) else int(column)
            if not -width <= place < width:
                raise ValueError(f"categorical_features names column {place}, but there are {width} columns")
            out[place] = True
        return out


def refuse_new_gaps(model: Any, X: np.ndarray, whole: np.ndarray) -> None:
    """Say which of the columns that were whole in training have missing values now."""
    strange = whole[np.isnan(X[:, whole]).any(axis=0)]
    if len(strange):
        names = getattr(model, "feature_names_in_", np.arange(X.shape[1]))
        raise ValueError(
            f"Input X contains NaN in columns {names[strange].tolist()[:5]}, where no number was missing in training; "
            "fill them, or show the model such rows"
        )


def _frame(X: Any) -> nw.DataFrame[Any] | None:
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def _columns(frame: nw.DataFrame[Any] | None) -> dict[str, Any]:
    return {} if frame is None else dict(zip(frame.columns, frame.iter_columns(), strict=True))


def _levels(column: Any) -> tuple[str, ...]:
    """The levels as text, sorted; a missing value is a level too."""
    return tuple(sorted({str(value) for value in column.to_list()}))

"""Rows that a model holds as numbers, shown as the table they were: for functions of users, and to name groups."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from ulmus.features.frames import frame_of
from ulmus.features.kernels import dense

#: Labels of what is no level of the training.
MISSING, UNSEEN = "(missing)", "(not seen in training)"
_MICROSECONDS = 86_400e6


@dataclass(frozen=True)
class Shown:
    """Columns of a frame by name; ``gone`` are those that numbers cannot give back, with the reason.

    ``names`` are all of them, in their order. ``rows`` are the same as the model holds them.
    """

    rows: Any
    names: list[str]
    columns: dict[str, np.ndarray]
    gone: dict[str, str]
    backend: Any

    @property
    def native(self) -> Any:
        """A frame of the kind that the user has; rows as they are where it is none."""
        if self.backend is None:
            return self.rows
        made = {
            name: nw.new_series(name, values.tolist() if values.dtype == object else values, backend=self.backend)
            for name, values in self.columns.items()
        }
        return nw.from_dict(made).to_native()

    def labels(self, column: Any) -> np.ndarray:
        """The values of a column, by its name or number, with a label for those that are missing."""
        place = column if isinstance(column, str) else self.names[column]
        if place in self.gone:
            raise ValueError(f"column {place!r} cannot form groups: {self.gone[place]}")
        values = self.columns[place]
        if values.dtype.kind in "Mm":
            return values.astype(str)
        return named(values)


def named(labels: np.ndarray) -> np.ndarray:
    """Labels of rows; those that are missing among words have one too."""
    if labels.dtype != object:
        return labels
    return np.array([MISSING if label is None or label != label else label for label in labels])  # noqa: PLR0124 (NaN)


def shown_by(X: Any, names: Any, encoder: Any) -> Callable[[Any], Shown] | None:
    """How rows of a model are shown to somebody who has given it the rows ``X``; None where columns have no names."""
    if names is None:
        return None
    frame, known = frame_of(X), [str(name) for name in names]
    backend = None if frame is None else frame.implementation
    if encoder is None:
        return lambda M: Shown(M, known, dict(zip(known, dense(M, np.float64).T, strict=True)), {}, backend)
    gone = {name: f"it was left out, as it {why}" for name, why in encoder.left_out_.items()}
    main = [reader for reader in encoder.readers_ if reader.has_main]
    gone |= {r.name: f"it holds {r.kind.name}, which became many numbers" for r in encoder.readers_ if not r.has_main}

    def show(M: Any) -> Shown:
        columns = {reader.name: _column(reader, M[:, j]) for j, reader in enumerate(main)}
        return Shown(M, known, columns, gone, backend)

    return show


def _column(reader: Any, values: np.ndarray) -> np.ndarray:
    """What the main numbers of a column stand for."""
    kind, there = reader.kind.name, ~np.isnan(values)
    if kind == "category" and reader.levels is not None:
        levels = np.array([*reader.levels, UNSEEN, None], dtype=object)
        code = np.where(there & (values != reader.missing), values, len(levels) - 1)
        return np.asarray(levels[np.where(code < 0, len(levels) - 2, code).astype(int)])
    if kind == "boolean" and there.all():
        return values.astype(bool)
    if kind in ("date", "duration"):
        as_time = "datetime64[us]" if kind == "date" else "timedelta64[us]"
        return np.where(there, np.round(values * _MICROSECONDS), np.iinfo(np.int64).min).astype(np.int64).view(as_time)
    return values

"""Which of the rows left out speak for a new one: all of them alike, those of its group, or by a ratio of densities."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ulmus.calibration.conformal import borne
from ulmus.calibration.shift import effective_count
from ulmus.features.shown import Shown, named


@dataclass(frozen=True)
class Likeness:
    """Labels of the groups, and ratios of densities, of the rows left out and of the new rows; None for neither."""

    held_groups: np.ndarray | None = None
    new_groups: np.ndarray | None = None
    held_ratio: np.ndarray | None = None
    new_ratio: np.ndarray | None = None

    def parts(self, weight: np.ndarray, levels: np.ndarray) -> Iterator[tuple[Any, Any, Any]]:
        """New rows, the factors on the weights of the rows left out, and the weights of the new rows themselves.

        ``weight[row, output]`` are those of the rows left out. Groups of too few rows are given what all rows say.
        """
        ratio = 1.0 if self.held_ratio is None else self.held_ratio[:, None]
        if self.new_groups is None:
            sums = weight.sum(axis=0) if self.held_ratio is None else [effective_count(w) for w in (ratio * weight).T]
            _warn_unless_borne(float(min(sums)), levels)
            yield slice(None), np.ravel(ratio), self._own(slice(None))
            return
        assert self.held_groups is not None
        few = list[Any]()
        for label in np.unique(self.new_groups):
            mine, rows = _equal(self.held_groups, label), np.flatnonzero(_equal(self.new_groups, label))
            factor = np.ravel(ratio * mine[:, None])
            if not borne(float((factor[:, None] * weight).sum(axis=0).min()), levels):
                few.append(label)
                factor = np.broadcast_to(np.ravel(ratio), len(mine))
            yield rows, factor, self._own(rows)
        if few:
            named = ", ".join(map(str, few[:5])) + (", …" if len(few) > 5 else "")
            warnings.warn(
                f"{len(few)} {'group has' if len(few) == 1 else 'groups have'} too few held-out rows for this coverage "
                f"({named}); {'its' if len(few) == 1 else 'their'} intervals are those of all rows",
                stacklevel=5,
            )

    def _own(self, rows: Any) -> Any:
        return 1.0 if self.new_ratio is None else self.new_ratio[rows]


def group_labels(groups: Any, X: Any, shown: Shown | None = None) -> np.ndarray:
    """A label for every row, by a column (its number, or its name in a frame), several columns, or a function.

    Rows that the user has in a frame are ``shown`` as such.
    """
    if callable(groups):
        labels = np.asarray(groups(X if shown is None else shown.native))
        if labels.shape[:1] != X.shape[:1]:
            raise ValueError(f"groups gave {len(labels)} labels for {X.shape[0]} rows")
        return named(labels) if labels.ndim == 1 else np.unique(labels, axis=0, return_inverse=True)[1]
    columns = list(groups) if isinstance(groups, list | tuple) else [groups]
    names = None if shown is None else shown.names
    places = [_place(column, X.shape[1] if names is None else len(names), names) for column in columns]
    if shown is not None:
        values = [shown.labels(place) for place in places]
    else:
        taken = X[:, places]
        values = list((taken.toarray() if hasattr(taken, "toarray") else np.asarray(taken)).T)
    if len(places) == 1:
        return values[0]
    each = zip(*(column.tolist() for column in values), strict=True)
    return np.array([", ".join(map(str, row)) for row in each])


def _place(column: Any, width: int, names: Any) -> int:
    known = [] if names is None else list(names)
    if isinstance(column, str) and column in known:
        return known.index(column)
    if isinstance(column, int | np.integer) and not isinstance(column, bool) and -width <= column < width:
        return int(column)
    raise ValueError(
        "groups must name a column of X (by its number, or its name in a frame), a list of columns, or be a function "
        f"of rows that gives their groups, got {column!r}"
    )


def _equal(values: np.ndarray, label: Any) -> np.ndarray:
    return values != values if label != label else values == label  # noqa: PLR0124  (a hole is a group too)


def _warn_unless_borne(total: float, levels: np.ndarray) -> None:
    if not borne(total, levels):
        most = max((total - 1.0) / (total + 1.0), 0.0)
        warnings.warn(
            f"with so few rows the coverage is at most {most:.2f}; intervals extend to the largest observed errors "
            "only, and are too narrow",
            stacklevel=6,
        )

"""Counterfactuals of a model: sees to rows, ranges and what is asked; the search is in ``explain``."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from ulmus.calibration import probabilities
from ulmus.codings import OneVsAll
from ulmus.exceptions import DataWarning, UnansweredWarning, warn
from ulmus.features.frames import columns_of, frame_of, kind_of
from ulmus.labels import refuse_several
from ulmus.models._games import game_of, slopes_of

#: Steps, in deviations, by which the slope of a coordinate along its input is taken.
STEP = 1e-6
#: How far beyond the threshold answers have to be, relative to it, so that round-off does not bring them back.
CLEAR = 1e-7
#: Rows of the data that are asked at a time until there are starts enough, and starts that are compared where columns
#: other than numbers may change: what each of them can put back says which are near.
ASKED, COMPARED = 512, 128


def counterfactuals(self: Any, X: Any, data: Any, *, threshold: Any = None, target: Any = None, fixed: Any = ()) -> Any:
    r"""Counterfactuals: the nearest rows with another prediction, which show what would have to change.

    A regressor's answer has to cross ``threshold`` (from whichever side it is on), a classifier's has to become the
    class ``target``. Numbers stay within the range of ``data``, whole ones whole, and what is no number takes values
    that rows of ``data`` have. Nearness counts numbers in deviations, and 1 for every other column that changes; few
    inputs change. The row is nearest among those near where it was found, and not for certain the nearest of all.

    Parameters
    ----------
    X : array or frame of shape (n_samples, n_features)
        Rows whose answers are to change.
    data : array or frame of shape (n_data, n_features)
        Rows that say what is possible, such as the training rows. Some have to be on the other side.
    threshold : float, optional
        For regressors.
    target : label, optional
        For classifiers; with two classes, the other one by default.
    fixed : list of int or str, optional
        Inputs that cannot change.

    Returns
    -------
    array or frame of shape (n_samples, n_features)
        The rows, changed. Rows for which none is found are as they were given, and an
        :class:`~ulmus.UnansweredWarning` names them; if there are no others, that is an error.
    """
    check_is_fitted(self)
    wanted = _margin(self, threshold, target)
    frame, known = frame_of(X), frame_of(data)
    if (frame is None) != (known is None):
        raise ValueError("X and data must both be frames, or both be arrays")
    table = _Table(self, X, data, fixed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of rows that the search has made
        rows = table.all_changed(wanted)
    if frame is None:
        return np.concatenate(rows)
    out = nw.concat([nw.from_native(row) for row in rows]).to_native()
    if hasattr(X, "index"):
        out.index = X.index
    return out


def _margin(model: Any, threshold: Any, target: Any) -> Any:
    """Scores of rows, and of the row itself → margins, not negative where the answer is as wanted."""
    if not is_classifier(model):
        if not isinstance(threshold, int | float | np.number) or target is not None:
            raise ValueError(f"a regressor needs threshold=, the number that predictions must cross; got {threshold!r}")
        clear = CLEAR * max(abs(float(threshold)), float(np.abs(model.intercept_).max()), 1e-300)
        return lambda S, own: (S[:, 0] - threshold) * (-1.0 if own[0] > threshold else 1.0) - clear
    refuse_several(model.fitted_.targets, "counterfactuals")
    classes = list(model.classes_)
    if threshold is not None or (target is None and len(classes) > 2) or (target is not None and target not in classes):
        raise ValueError(f"a classifier needs target=, the class to predict, one of {classes}; got {target!r}")

    decided = _decided_by(model)

    def margin(S: np.ndarray, own: np.ndarray) -> np.ndarray:
        scores = decided(S)
        k = int(decided(own[None])[0].argmin()) if target is None else classes.index(target)
        return scores[:, k] - np.delete(scores, k, axis=1).max(axis=1) - CLEAR

    return margin


def _decided_by(model: Any) -> Any:
    """Scores → numbers of which the largest decides: scores themselves, or probabilities where these do."""
    decision = getattr(model, "decision", "accuracy")
    if not isinstance(decision, str):
        raise ValueError("counterfactuals support decision='accuracy' and 'balanced', not a cost matrix")
    if getattr(model, "loss_", "squared") == "squared" and decision == "accuracy":
        return OneVsAll.class_scores
    prior = model.class_prior_ if decision == "balanced" else 1.0
    by_score = model.loss_ == "squared"
    return lambda S: (
        probabilities(OneVsAll.class_scores(S), model.temperature_, model.floor_, by_score=by_score) / prior
    )


class _Table:
    """Rows and data side by side: which columns are numbers, their range, and rows put together from both."""

    def __init__(self, model: Any, X: Any, data: Any, fixed: Any) -> None:
        from ulmus.explain.effects import positions
        from ulmus.explain.pipelines import table_of

        self.model, self.X, self.data, self.game = model, X, data, game_of(model)
        self.slopes = slopes_of(model)
        names, values = table_of(X)
        self.n, self.names = len(values), names
        self.frame = frame_of(X)
        if self.frame is None:
            is_number = np.ones(len(names), bool)
        else:
            self.mine, self.theirs = columns_of(self.frame), columns_of(frame_of(data))
            is_number = np.array([kind_of(column) == "number" for column in self.mine.values()])
        self.values = values.astype(np.float64) if is_number.all() else None
        held = np.zeros(len(names), bool)
        held[positions(list(fixed), getattr(model, "feature_names_in_", names))] = True
        self.held = bool(held.any())
        self.numeric = np.flatnonzero(is_number & ~held)
        self.other = np.flatnonzero(~is_number & ~held)
        both = [table_of(T)[1] for T in (X, data)]
        self.numbers, self.known = (T[:, self.numeric].astype(np.float64) for T in both)
        levels: dict[str, int] = {}
        self.others, self.others_known = (
            np.array([[levels.setdefault(str(v), len(levels)) for v in row] for row in T[:, self.other]], int)
            for T in both
        )
        present = np.where(np.isfinite(self.known), self.known, np.nan)
        self.low, self.high = np.nanmin(present, axis=0), np.nanmax(present, axis=0)
        self.unit = np.nanstd(present, axis=0)
        self.whole = np.array(
            [bool((c[np.isfinite(c)] == np.round(c[np.isfinite(c)])).all()) for c in self.known.T], bool
        )
        self.integer = np.array(
            [self.frame is not None and self.mine[names[j]].dtype.is_integer() for j in self.numeric]
        )
        self.encoded = _Encoded.of(model, X, data, self.numeric, self.other)
        seen = self.game.see(data) if self.encoded is None else self.encoded.see(self.encoded.data)
        self.scores = self.game.score(seen)

    def all_changed(self, wanted: Any) -> list[Any]:
        """The nearest row to each; those for which none is found as they are, with a warning."""
        rows, reasons = [], {}
        for i in range(self.n):
            try:
                rows.append(self.changed(i, wanted))
            except _NoneFoundError as error:
                rows.append(self._own(i))
                reasons[i] = str(error)
        if not reasons:
            return rows
        first = next(iter(reasons.values()))
        if len(reasons) == self.n:
            raise ValueError(first)
        some = list(reasons)
        shown = ", ".join(map(str, some[:10])) + (", …" if len(some) > 10 else "")
        text = f"{len(some):,} of {self.n:,} rows stay as they are (positions {shown}): {first}"
        warn(UnansweredWarning(text, some, first))
        return rows

    def changed(self, i: int, wanted: Any) -> Any:
        """The nearest row to the i-th that is on the wanted side."""
        from ulmus.explain.counterfactual import Nearest

        own = self.numbers[i]
        mine = self.game.score(self.game.see(_rows(self.X, [i])))[0]
        if wanted(mine[None], mine)[0] >= 0:
            return self._own(i)
        unit = np.where(self.unit > 0, self.unit, 1.0)
        low, high = np.fmin(self.low, own), np.fmax(self.high, own)
        search = Nearest(np.where(np.isfinite(own), own, self.low), low, high, unit, self.whole)
        filled = np.where(np.isfinite(self.known), self.known, search.own)
        best, nearest = None, np.inf
        for j in self._starts(i, search, filled, lambda scores: wanted(scores, mine) >= 0):
            found = search.search(
                filled[j],
                np.ones(len(self.other), int),
                lambda N, takes, j=j: wanted(self.game.score(self._seen(i, j, N, takes)), mine),  # type: ignore[misc]
                lambda N, takes, j=j: self._slope(i, j, N, takes, wanted, mine),  # type: ignore[misc]
            )
            if found is not None and search.distance(*found) < nearest:
                best, nearest = self._row(i, j, found[0][None], found[1][None]), search.distance(*found)
        if best is not None:
            return best
        if (wanted(self.scores, mine) >= 0).any():
            raise _NoneFoundError(
                "no row of data keeps the prediction that is asked for once the inputs that are fixed, or missing in "
                "the row, are put back; fix fewer inputs, or fill in what is missing"
            )
        raise _NoneFoundError(
            "no row of data has the prediction that is asked for, so there is nothing to move towards"
        )

    def _starts(self, i: int, search: Any, filled: np.ndarray, there: Callable[[np.ndarray], np.ndarray]) -> Any:
        """Rows of the data on the wanted side with what is fixed or missing put back, the nearest first."""
        from ulmus.explain.counterfactual import STARTS

        away = (((filled - search.own) / search.unit) ** 2).sum(axis=1)
        order = np.argsort(away + (self.others_known != self.others[i]).sum(axis=1), kind="stable")
        enough = STARTS if not len(self.other) else COMPARED
        whole = not self.held and bool(np.isfinite(self.numbers[i]).all() and np.isfinite(self.known).all())
        if whole:  # nothing is put back
            rows = order[there(self.scores)[order]][:enough]
        else:
            rows = np.empty(0, int)
            for start in range(0, len(order), ASKED):
                some = order[start : start + ASKED]
                takes = np.ones((len(some), len(self.other)), int)
                rows = np.append(rows, some[there(self._scores(i, some, filled[some], takes))])[:enough]
                if len(rows) == enough:
                    break
        if len(rows) <= STARTS:
            return rows
        takes = np.ones((len(rows), len(self.other)), int)
        for k in range(len(self.other)):
            back = takes.copy()
            back[:, k] = 0
            takes[there(self._scores(i, rows, filled[rows], back)), k] = 0
        return rows[np.argsort(away[rows] + takes.sum(axis=1), kind="stable")[:STARTS]]

    def _scores(self, i: int, rows: np.ndarray, N: np.ndarray, takes: np.ndarray) -> np.ndarray:
        """Of the i-th row with numbers of its own in each line, and what each line takes from its row of the data."""
        if self.encoded is not None or not len(self.other):
            return self.game.score(self._seen(i, rows, N, takes))
        kinds, which = np.unique(takes, axis=0, return_inverse=True)
        parts = [np.flatnonzero(which.ravel() == k) for k in range(len(kinds))]
        scores = [self.game.score(self._seen(i, rows[p], N[p], takes[p[:1]])) for p in parts]
        return np.concatenate(scores)[np.argsort(np.concatenate(parts), kind="stable")]

    def _own(self, i: int) -> Any:
        return self._row(i, i, self.numbers[i][None], np.zeros((1, len(self.other)), int))

    def _row(self, i: int, j: Any, N: np.ndarray, takes: np.ndarray, *, tried: bool = False) -> Any:
        """Rows: the i-th, with these numbers, and columns that are taken from the j-th of the data (of each one's)."""
        from ulmus.models._effects import of_kind

        N = np.where(np.isfinite(self.numbers[i]), N, np.nan)  # what is missing stays so
        if self.frame is None:
            out = np.repeat(np.asarray(_rows(self.X, [i]), dtype=np.float64), len(N), axis=0)
            out[:, self.numeric] = N
            return out
        columns = dict(self.mine)  # in their order; those that change are replaced
        for k, place in enumerate(self.numeric):
            made = of_kind(self.mine[self.names[place]], N[:, k], self.frame.implementation)
            exact = not tried and self.integer[k] and self.whole[k] and np.isfinite(self.numbers[:, k]).all()
            columns[self.names[place]] = made.cast(self.mine[self.names[place]].dtype) if exact else made
        rows = np.broadcast_to(j, len(N)).tolist()
        for place in np.setdiff1d(np.arange(len(self.names)), self.numeric):
            name = self.names[place]
            taken = place in self.other and takes[0, np.flatnonzero(self.other == place)[0]]
            columns[name] = self.theirs[name][rows] if taken else self.mine[name][[int(i)] * len(N)]
        return nw.from_dict(columns).to_native()

    def _seen(self, i: int, j: Any, N: np.ndarray, takes: np.ndarray) -> np.ndarray:
        if self.encoded is not None:
            return self.encoded.seen(i, j, np.where(np.isfinite(self.numbers[i]), N, np.nan), takes)
        if self.frame is None or self.values is None:
            return self.game.see(self._row(i, j, N, takes, tried=True))
        out = np.repeat(self.values[[i]], len(N), axis=0)
        out[:, self.numeric] = np.where(np.isfinite(self.numbers[i]), N, np.nan)
        return self.game.see(nw.from_numpy(out, self.names, backend=self.frame.implementation).to_native())

    def _slope(
        self, i: int, j: int, numbers: np.ndarray, takes: np.ndarray, wanted: Any, mine: np.ndarray
    ) -> np.ndarray:
        """Along the numbers: slopes along coordinates, times those of the coordinates, which hang on one input each."""
        step = STEP * np.where(self.unit > 0, self.unit, 1.0)
        ends = np.clip(np.stack([numbers + step, numbers - step]), self.low, self.high)
        U = self._seen(i, j, np.vstack([numbers[None], ends]), takes[None])
        along = self.slopes(U[:1])[0]  # [coordinate, output]
        score = self.game.score(U[:1])
        reach = 1e-6 * max(1.0, float(np.abs(score).max()))
        tried = wanted(np.vstack([score + reach * np.eye(score.shape[1]), score]), mine)
        of_scores = (tried[:-1] - tried[-1]) / reach
        move = (U[1] - U[2]) * (along @ of_scores)
        total = np.bincount(self.game.owner, weights=move, minlength=len(self.names))[self.numeric]
        width = ends[0] - ends[1]
        return np.divide(total, width, out=np.zeros_like(total), where=width > 0)


@dataclass(frozen=True)
class _Encoded:
    """Rows and data as the numbers that an encoder makes of frames, so that no frame is made for every trial.

    ``numeric`` are the columns of the numbers that are ``used``, ``other`` those of each other input that may change.
    """

    X: np.ndarray
    data: np.ndarray
    numeric: np.ndarray
    used: np.ndarray
    other: list[np.ndarray]
    see: Callable[[np.ndarray], np.ndarray]

    @classmethod
    def of(cls, model: Any, X: Any, data: Any, numeric: np.ndarray, other: np.ndarray) -> "_Encoded | None":
        """None where there is no encoder, or numbers do not stay what they are in one column each (or none)."""
        fit = model._now().weights
        encoder = getattr(getattr(fit, "columns", None), "encoder", None)
        if encoder is None:
            return None
        kinds, sources = encoder.kinds_, fit.columns.sources
        places = [np.flatnonzero(sources == j) for j in numeric]
        used = np.array([len(p) > 0 for p in places], bool)
        as_they_are = all(kinds[encoder.names_[j]] in ("number", "boolean") for j in numeric[used])
        if any(len(p) > 1 for p in places) or not as_they_are:
            return None
        see = fit.coordinates if fit.grid is None else np.asarray
        each = [np.flatnonzero(sources == j) for j in other]
        mine, theirs = (np.asarray(model._checked(rows), dtype=np.float64) for rows in (X, data))
        return cls(mine, theirs, np.concatenate([np.empty(0, int), *places]), used, each, see)

    def seen(self, i: int, j: Any, N: np.ndarray, takes: np.ndarray) -> np.ndarray:
        """The i-th row with these numbers, and what it takes from the j-th of the data (of each one's)."""
        out = np.repeat(self.X[[i]], len(N), axis=0)
        out[:, self.numeric] = N[:, self.used]
        for columns, taken in zip(self.other, takes.T, strict=True):
            lent = self.data[np.atleast_1d(j)[:, None], columns]
            out[:, columns] = np.where(taken[:, None], lent, out[:, columns])
        return self.see(out)


class _NoneFoundError(ValueError):
    """No row on the wanted side was found for one row."""


def _rows(X: Any, index: list[int]) -> Any:
    frame = frame_of(X)
    if frame is not None:
        return frame[index].to_native()
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X)[index]

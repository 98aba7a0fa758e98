"""What is odd about a table, before a model is fitted to it: one function, for Python and for the command line."""

import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.base import clone

from ulmus._layout import html_table, text_table
from ulmus.exceptions import LeftOutWarning
from ulmus.features.findings import Finding, copies, currencies, drift, leaks, placeholders, profile, spellings
from ulmus.features.frames import columns_of, frame_of, read, read_array
from ulmus.features.table_encoder import TableEncoder
from ulmus.features.written import MISSING

#: Whole numbers with at most this many distinct values are classes, where these are no larger share of the rows.
FEW, NAMES = 10, 0.8
#: Rows by which currencies are known.
ENOUGH = 10_000
#: Kinds of columns that amounts in several currencies are taken for.
AS_WORDS = ("category", "text", "id")
TASKS = ("auto", "classification", "regression")


@dataclass(frozen=True)
class TableCheck:
    """What is odd about a table; it prints as a small table, and shows as HTML in a notebook.

    Attributes
    ----------
    kinds : dict of str to str
        What every column is.
    left_out : dict of str to str
        Columns that a model leaves out (names of rows, constants, empty ones), and why.
    findings : list of Finding
        Columns that give the target away, levels spelled in two ways, numbers that may stand for missing ones,
        copies among rows held out, drift; each has a ``kind`` (a class of warnings), a ``text`` and the ``column``,
        where there is one.
    """

    kinds: dict[str, str]
    left_out: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def warn(self) -> None:
        """Warn of every finding."""
        for finding in self.findings:
            finding.warn()

    def _rows(self) -> list[tuple[str, str]]:
        counts = Counter(self.kinds.values())
        rows = [("columns", ", ".join(f"{count} × {kind}" for kind, count in counts.items()))]
        rows += [("left out", f"{name} ({why})") for name, why in self.left_out.items()]
        rows += [(finding.name, finding.text) for finding in self.findings]
        return rows if len(rows) > 1 else [*rows, ("", "nothing odd was found")]

    def __str__(self) -> str:
        return "\n".join(text_table(self._rows()))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self._rows())


def check_table(
    X: Any, y: Any = None, X_new: Any = None, y_new: Any = None, *, task: str = "auto", encoder: Any = None
) -> TableCheck:
    """Report what is odd about a table, as ``ulmus fit`` does.

    Parameters
    ----------
    X : frame or array of shape (n_samples, n_features)
        pandas or polars, or an array.
    y : array of shape (n_samples,), optional
        Targets; columns that give them away are found.
    X_new : frame or array, optional
        Rows held out, or new ones: is any column distributed otherwise?
    y_new : array, optional
        Targets of rows held out; copies of training rows among these are counted.
    task : {"auto", "classification", "regression"}, default="auto"
        What targets are. Words, truth values and whole numbers of at most ten distinct values are classes, unless
        nearly all of them differ: the rule of ``ulmus fit``.
    encoder : TableEncoder, optional
        That says what some columns are.

    Returns
    -------
    TableCheck

    Examples
    --------
    >>> import numpy as np, pandas as pd, ulmus
    >>> rng = np.random.RandomState(0)
    >>> table = pd.DataFrame({"size": rng.normal(size=200), "id": range(200), "unit": "m"})
    >>> price = 3 * table["size"] + rng.normal(size=200)
    >>> table["tax"] = 0.19 * price
    >>> print(ulmus.check_table(table[["size", "id", "unit"]], price))
    columns   1 × number, 1 × id, 1 × constant
    left out  id (looks like an identifier: 200 distinct values in 200 rows)
    left out  unit (has only one value)
    >>> [finding.column for finding in ulmus.check_table(table, price).findings]
    ['tax']
    """
    if task not in TASKS:
        raise ValueError(f"task must be one of {TASKS}, got {task!r}")
    prepared = TableEncoder(random_state=0) if encoder is None else clone(encoder)
    prepared.set_params(prepared=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeftOutWarning)
        M = prepared.fit(X).transform(X)
    found, names = list[Finding](), [str(name) for name in prepared.names_]
    if y is not None:
        y, there = _targets(y)
        if len(y) != len(M):
            raise ValueError(f"X has {len(M)} rows and y has {len(y)}")
        if task == "auto":
            task = "classification" if y.dtype.kind not in "iuf" or are_classes(y[there]) else "regression"
        classes = task == "classification"
        found += spellings(y[there], "classes") if classes else placeholders(y[there], "the target")
        found += leaks(M[there], names, prepared.inputs_, y[there], classes)
    columns = _columns(X, names)
    for name in (name for name in names if prepared.kinds_[name] == "category"):
        found += spellings(columns[name], f"column {name!r}: levels", name)
    for name in (name for name in names if prepared.kinds_[name] == "number"):
        found += placeholders(columns[name], f"column {name!r}", name)
    for name in (name for name in names if prepared.kinds_[name] in AS_WORDS):
        texts = dict.fromkeys(str(value).strip() for value in columns[name][:ENOUGH])
        found += currencies([text for text in texts if text not in MISSING], name)
    if X_new is not None:
        if y is not None and y_new is not None:
            later, known = _targets(y_new)
            found += copies(M[there], y[there], prepared.transform(X_new)[known], later[known])
        kept = [name for name in names if name not in prepared.left_out_]
        new = _columns(X_new, names)
        found += drift(profile({name: columns[name] for name in kept}), {name: new[name] for name in kept})
    return TableCheck(dict(prepared.kinds_), dict(prepared.left_out_), found)


def are_classes(numbers: np.ndarray) -> bool:
    """Whether numbers are classes: whole, at most ten different ones, and not nearly all different; NaN is none."""
    there = numbers[np.isfinite(numbers)]
    distinct = np.unique(there)
    few = len(distinct) <= FEW and len(distinct) <= max(2, NAMES * len(there))
    return bool(few and (distinct == np.round(distinct)).all())


def _targets(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Targets as an array, of floats where they are numbers, and which of them are there."""
    series = nw.from_native(y, series_only=True, pass_through=True)
    column = read(series) if isinstance(series, nw.Series) else None
    given = np.asarray(y)
    if column is None and given.ndim == 1:
        column = read_array(given)
    if column is None:
        return given, np.ones(len(given), bool)
    if column.type == "number" and column.floats is not None:
        return column.floats, ~np.isnan(column.floats)
    return given, column.there


def _columns(X: Any, names: list[str]) -> dict[str, np.ndarray]:
    """The columns of a frame, or of an array, by name."""
    frame = frame_of(X)
    if frame is None:
        return dict(zip(names, np.asarray(X).T, strict=True))
    return {str(name): np.asarray(column.to_numpy()) for name, column in columns_of(frame).items()}

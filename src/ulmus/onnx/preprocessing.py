"""Preprocessing in ONNX operators: one row of :data:`TRANSFORMERS` each; what is not there goes through skl2onnx.

The steps of everyday tables are written here, because they must compute in double precision (a year less its mean, in
float32, has lost its digits) and treat missing and unknown categories as scikit-learn does.
"""

import warnings
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

from ulmus.features.dates import PERIODS, DateParts
from ulmus.features.table_encoder import TableEncoder
from ulmus.models._adaptive import AdaptiveModel
from ulmus.models.learned_metric import LearnedMetric
from ulmus.onnx.graph import ML, ML_OPSET, OPSET, Graph, check

#: Operator sets of the parts that skl2onnx makes.
TARGET = {"": OPSET, ML: ML_OPSET}


@dataclass(frozen=True)
class Portion:
    """Columns beside each other in one tensor, all numbers or all strings."""

    value: str
    kind: str
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.names[0]


Columns = list[Portion]


def read_columns(g: Graph, steps: Sequence[Any], dtype: Any, given: dict[str, str] | None) -> Columns:
    """The inputs: one matrix, or one column each when some of them are strings."""
    first = next(step for step in steps if step is not None and not isinstance(step, str))
    names = _inputs(first)
    kinds = dict.fromkeys(names, "number") | _kinds(first, names)
    kinds.update(given or {})
    if set(kinds.values()) == {"number"}:
        X = g.number(g.declare("X", dtype, [None, len(names)]))
        return [Portion(X, "number", names)]
    parts = []
    for name in names:
        value = g.declare(name, str if kinds[name] == "string" else dtype, [None, 1])
        parts.append(Portion(value if kinds[name] == "string" else g.number(value), kinds[name], (name,)))
    return parts


def _inputs(step: Any) -> tuple[str, ...]:
    """Names of the columns that a step takes; those that an encoder leaves out are none."""
    encoder = step.encoder_ if isinstance(step, AdaptiveModel) else step
    if isinstance(encoder, TableEncoder):
        return tuple(reader.name for reader in encoder.readers_)
    return tuple(str(n) for n in getattr(step, "feature_names_in_", range(step.n_features_in_)))


def _kinds(step: Any, names: Sequence[str]) -> dict[str, str]:
    """Which columns the first encoder or imputer that sees them takes for strings."""
    if isinstance(step, Pipeline):
        return _kinds(step.steps[0][1], names)
    if isinstance(step, ColumnTransformer):
        found: dict[str, str] = {}
        for _, inner, columns in step.transformers_:
            some = [names[i] for i in _indices(columns, names)]
            found |= {} if isinstance(inner, str) else _kinds(inner, some)
        return found
    if isinstance(step, OneHotEncoder | OrdinalEncoder):
        return {n: "string" for n, c in zip(names, step.categories_, strict=True) if c.dtype.kind in "OUS"}
    if isinstance(step, AdaptiveModel):
        return _kinds(step.encoder_, names)
    if isinstance(step, TableEncoder):
        return {reader.name: "string" for reader in step.readers_ if reader.levels is not None}
    if isinstance(step, SimpleImputer) and np.asarray(step.statistics_).dtype.kind in "OUS":
        return dict.fromkeys(names, "string")
    return {}


def _indices(columns: Any, names: Sequence[str]) -> list[int]:
    """Positions of columns given by name, number, slice or mask."""
    if isinstance(columns, str | int):
        columns = [columns]
    if isinstance(columns, slice):
        ends: list[Any] = [names.index(e) if isinstance(e, str) else e for e in (columns.start, columns.stop)]
        if isinstance(columns.stop, str):
            ends[1] += 1
        return list(range(*slice(ends[0], ends[1], columns.step).indices(len(names))))
    if columns and all(isinstance(c, bool | np.bool_) for c in columns):
        return [i for i, c in enumerate(columns) if c]
    place = {name: i for i, name in enumerate(names)}
    return [place[c] if isinstance(c, str) else int(c) for c in columns]


def select(g: Graph, block: Columns, which: Sequence[int]) -> Columns:
    """Some columns, in this order; neighbours from one tensor stay together."""
    where = [(part, j) for part in block for j in range(len(part.names))]
    found: Columns = []
    run: list[int] = []
    for k, i in enumerate(which):
        part, j = where[i]
        run.append(j)
        last = k + 1 == len(which) or where[which[k + 1]][0] is not part
        if last:
            whole = run == list(range(len(part.names)))
            value = part.value if whole else g.columns(part.value, run)
            found.append(Portion(value, part.kind, tuple(part.names[r] for r in run)))
            run = []
    return found


def _numbers(g: Graph, block: Columns, step: Any) -> str:
    text = [part.name for part in block if part.kind != "number"]
    if text:
        raise TypeError(f"{type(step).__name__} was given the text column {text[0]!r}")
    return g.join(*(part.value for part in block))


def _names(block: Columns) -> tuple[str, ...]:
    return tuple(name for part in block for name in part.names)


def _affine(centre: str, scale: str) -> Callable[[Graph, Columns, Any], Columns]:
    """``(x − centre) / scale``, each where the step has it."""

    def convert(g: Graph, block: Columns, step: Any) -> Columns:
        x = _numbers(g, block, step)
        for operator, attribute in ((g.Sub, centre), (g.Div, scale)):
            value = getattr(step, attribute, None) if attribute else None
            if value is not None and getattr(step, "with_mean", True) >= (attribute == "mean_"):
                x = operator(x, value)
        return [Portion(x, "number", _names(block))]

    return convert


def _min_max(g: Graph, block: Columns, step: MinMaxScaler) -> Columns:
    x = g.Add(g.Mul(_numbers(g, block, step), step.scale_), step.min_)
    if step.clip:
        x = g.Max(g.Min(x, float(step.feature_range[1])), float(step.feature_range[0]))
    return [Portion(x, "number", _names(block))]


def _impute(g: Graph, block: Columns, step: SimpleImputer) -> Columns:
    names = _names(block)
    fill = np.asarray(step.statistics_)
    if fill.dtype.kind in "OUS":
        if step.indicator_ is not None:
            raise TypeError("SimpleImputer with add_indicator=True on text cannot be exported")
        x = g.join(*(part.value for part in block))
        empty = g.constant(np.array([""]))
        return [Portion(g.Where(g.Equal(x, empty), g.constant(fill.astype(str)), x), "string", names)]
    if not (isinstance(step.missing_values, float) and np.isnan(step.missing_values)):
        raise TypeError(f"SimpleImputer with missing_values={step.missing_values!r} cannot be exported, only NaN")
    x = _numbers(g, block, step)
    missing = g.IsNaN(x)
    fill = fill.astype(float)
    kept = np.flatnonzero(~np.isnan(fill))
    parts = [Portion(g.Where(missing, np.where(np.isnan(fill), 0.0, fill), x), "number", names)]
    if len(kept) < len(names):
        parts = select(g, parts, kept.tolist())
    if step.indicator_ is not None and len(step.indicator_.features_):
        chosen = step.indicator_.features_
        flags = g.columns(g.number(missing), chosen)
        parts.append(Portion(flags, "number", tuple(f"{names[i]} missing" for i in chosen)))
    return parts


def _hits(g: Graph, part: Portion, categories: np.ndarray) -> str:
    """0/1 columns: which category it is. Missing is ``""`` in text, NaN in numbers."""
    if part.kind == "string":
        texts = np.array([c if isinstance(c, str) else "" for c in categories.tolist()])
        return g.number(g.Equal(part.value, g.constant(texts[None])))
    values = categories.astype(float)
    hit = g.number(g.Equal(part.value, np.where(np.isnan(values), 0.0, values)[None]))
    if not np.isnan(values).any():
        return hit
    nan = np.isnan(values).astype(float)[None]
    return g.Add(g.Mul(hit, 1.0 - nan), g.Mul(g.number(g.IsNaN(part.value)), nan))


def _encode(g: Graph, block: Columns, step: Any, rows_of: Callable[[int, np.ndarray], np.ndarray]) -> Columns:
    """Every category becomes its row of a matrix that the encoder itself gave; an unknown one, the last row."""
    parts = []
    for i, categories in enumerate(step.categories_):
        (part,) = select(g, block, [i])
        M = rows_of(i, categories)
        value = g.Add(g.MatMul(_hits(g, part, categories), M[:-1] - M[-1]), M[-1])
        parts.append(Portion(value, "number", (part.name,) * M.shape[1]))
    return parts


def _probe(step: Any, i: int, categories: np.ndarray) -> np.ndarray:
    """Rows that hold each category of column ``i`` once, then something unknown if the encoder takes that."""
    first = [c[:1] for c in step.categories_]
    rows = np.empty((len(categories) + 1, len(first)), dtype=object)
    for j, value in enumerate(first):
        rows[:, j] = value
    rows[:-1, i] = categories
    if step.handle_unknown != "error":
        rows[-1, i] = (
            "\0 unknown" if categories.dtype.kind in "OUS" else np.nextafter(np.nanmax(categories) + 1, np.inf)
        )
    return rows


def _one_hot(g: Graph, block: Columns, step: OneHotEncoder) -> Columns:
    step = _nameless(step)
    names = step.get_feature_names_out([str(i) for i in range(len(step.categories_))])
    owner = np.array([int(name.split("_", 1)[0]) for name in names])

    def rows_of(i: int, categories: np.ndarray) -> np.ndarray:
        M = _quietly(step, _probe(step, i, categories))
        M = np.asarray(M.toarray() if hasattr(M, "toarray") else M, dtype=float)[:, owner == i]
        if step.handle_unknown == "error":
            M[-1] = 0.0
        return M

    return _encode(g, block, step, rows_of)


def _ordinal(g: Graph, block: Columns, step: OrdinalEncoder) -> Columns:
    step = _nameless(step)

    def rows_of(i: int, categories: np.ndarray) -> np.ndarray:
        M = np.asarray(_quietly(step, _probe(step, i, categories)), dtype=float)[:, i : i + 1]
        if step.handle_unknown == "error":
            M[-1] = -1.0
        return M

    return _encode(g, block, step, rows_of)


def _nameless(step: Any) -> Any:
    """The same encoder, for rows without column names."""
    step = copy(step)
    vars(step).pop("feature_names_in_", None)
    return step


def _quietly(step: Any, rows: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return step.transform(rows)


def _by_columns(g: Graph, block: Columns, step: ColumnTransformer) -> Columns:
    names = list(_names(block))
    parts: Columns = []
    for _, inner, columns in step.transformers_:
        which = _indices(columns, names)
        if which and not (isinstance(inner, str) and inner == "drop"):
            parts += transform(g, select(g, block, which), inner)
    return parts


def _in_turn(g: Graph, block: Columns, step: Pipeline) -> Columns:
    for _, inner in step.steps:
        block = transform(g, block, inner)
    return block


def _side_by_side(g: Graph, block: Columns, step: FeatureUnion) -> Columns:
    return [part for _, inner in step.transformer_list for part in transform(g, block, inner)]


def _unchanged(g: Graph, block: Columns, step: FunctionTransformer) -> Columns:
    if step.func is not None:
        raise TypeError(f"FunctionTransformer({step.func!r}) cannot be exported: ONNX has no Python functions")
    return block


def dates(g: Graph, block: Columns, step: DateParts) -> Columns:
    """Dates come in as numbers, days since 1970."""
    x = _numbers(g, block, step)
    parts = []
    for i, periods in enumerate(step.periods_):
        day = g.columns(x, [i])
        parts.append(day)
        for name in periods:
            period = PERIODS[name]
            phase = g.Sub(day, g.Mul(g.Floor(g.Div(day, period)), period))
            angle = g.Mul(phase, 2 * np.pi / period)
            parts += [g.Sin(angle), g.Cos(angle)]
    return [Portion(g.join(*parts), "number", tuple(step.get_feature_names_out(_names(block))))]


def _metric(g: Graph, block: Columns, step: LearnedMetric) -> Columns:
    x = _numbers(g, block, step)
    x = g.Mul(x, step.metric_) if step.metric_.ndim == 1 else g.MatMul(x, step.metric_)
    return [Portion(x, "number", tuple(step.get_feature_names_out(_names(block))))]


TRANSFORMERS: dict[type, Callable[[Graph, Columns, Any], Columns]] = {
    ColumnTransformer: _by_columns,
    DateParts: dates,
    FeatureUnion: _side_by_side,
    FunctionTransformer: _unchanged,
    LearnedMetric: _metric,
    MaxAbsScaler: _affine("", "scale_"),
    MinMaxScaler: _min_max,
    OneHotEncoder: _one_hot,
    OrdinalEncoder: _ordinal,
    Pipeline: _in_turn,
    RobustScaler: _affine("center_", "scale_"),
    SimpleImputer: _impute,
    StandardScaler: _affine("mean_", "scale_"),
}


def transform(g: Graph, block: Columns, step: Any) -> Columns:
    """What a fitted preprocessing step makes of columns."""
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return block
    row = TRANSFORMERS.get(type(step))
    return row(g, block, step) if row is not None else _foreign(g, block, step)


def _foreign(g: Graph, block: Columns, step: Any) -> Columns:
    """A step that skl2onnx converts."""
    try:
        from skl2onnx import to_onnx
        from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType
    except ImportError as error:
        raise ImportError(
            f'{type(step).__name__} is converted by skl2onnx; get it with pip install "ulmus[onnx]"'
        ) from error
    names = _names(block)
    x = _numbers(g, block, step)
    kinds = {np.dtype(np.float64): DoubleTensorType, np.dtype(np.float32): FloatTensorType}
    for dtype in dict.fromkeys((g.dtype, np.dtype(np.float32))):  # some of its converters know float32 only
        try:
            made = to_onnx(step, initial_types=[("X", kinds[dtype]([None, len(names)]))], target_opset=TARGET)
            check(made)
        except Exception as error:
            reason = error
            continue
        found = tuple(str(n) for n in step.get_feature_names_out(getattr(step, "feature_names_in_", None)))
        return [Portion(g.number(g.inline(made, {"X": g.cast(x, dtype)})), "number", found)]
    raise TypeError(f"{type(step).__name__} cannot be exported: skl2onnx says {reason}") from reason

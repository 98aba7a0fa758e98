"""Columns of tables in ONNX operators: what :class:`~ulmus.TableEncoder` reads, and the preparation of it.

Coordinates of adaptive models are rounded to float32 and cut into leaves, so they must come out to the last bit: every
step is the same arithmetic in the same order as ours, and what depends on a category alone is looked up in a table that
we computed. Intervals of a curve are found by walking trees.
"""

from collections.abc import Sequence

import numpy as np

from ulmus.features.columns import Reader
from ulmus.features.cuts import SIZE
from ulmus.features.preparation import MISSING as NO_LEVEL
from ulmus.features.preparation import Columns as Curves
from ulmus.features.preparation import Preparation
from ulmus.features.spelling import codes_of
from ulmus.features.table_encoder import TableEncoder
from ulmus.features.written import MISSING as NA
from ulmus.onnx.graph import Graph
from ulmus.onnx.preprocessing import TRANSFORMERS, Columns, Portion, dates, select
from ulmus.onnx.trees import search_tree, walk

#: Levels in words by the place of their column; other categories go by numbers.
Texts = dict[int, Reader]


def encoded(g: Graph, block: Columns, encoder: TableEncoder) -> tuple[Columns, Texts]:
    """The numbers of an encoder, before they are prepared; categories of words stay words."""
    main: Columns = []
    beside: Columns = []
    texts: Texts = {}
    for k, reader in enumerate(encoder.readers_):
        if not reader.has_main:
            raise TypeError(
                f"column {reader.name!r} holds {reader.kind.name}, which ONNX has no operators for; drop it"
            )
        (part,) = select(g, block, [k])
        if reader.levels is not None:
            texts[len(main)] = reader
        main.append(part)
        if reader.dates is not None and reader.dates.periods_[0]:
            parts = dates(g, [part], reader.dates)
            beside += select(g, parts, list(range(1, 1 + len(reader.extra_names()))))
        elif reader.extra_names():
            angle = g.Mul(_number(part), 2 * np.pi)
            beside += [Portion(turn(angle), "number", (reader.name,)) for turn in (g.Sin, g.Cos)]
    return [*main, *beside], texts


def _number(part: Portion) -> str:
    if part.kind != "number":
        raise TypeError(f"column {part.name!r} held numbers in training and is text here")
    return part.value


def prepared(g: Graph, block: Columns, preparation: Preparation, texts: Texts) -> str:
    """:meth:`ulmus.features.preparation.Preparation.transform`."""
    parts, means = [], []
    if len(preparation.numeric):
        numbers = select(g, block, preparation.numeric.tolist())
        X, gaps = g.join(*(_number(part) for part in numbers)), preparation.gaps
        missing = g.IsNaN(X)
        filled, cuts = g.Where(missing, gaps.fills, X), preparation.cuts
        parts.append(_curves(g, filled, preparation.columns))
        parts += [g.number(g.columns(missing, gaps.shown))] if len(gaps.shown) else []
        if cuts is not None:
            parts.append(g.Mul(g.number(g.Greater(g.columns(filled, cuts.column), cuts.at)), SIZE))
    for j, dummies, smoothed in _tables(preparation):
        (part,) = select(g, block, [int(j)])
        place = _place(g, part, preparation, int(j), texts.get(int(j)))
        parts.append(g.Gather(dummies, place))
        means += [g.Gather(smoothed, place)] if smoothed.shape[1] else []
    return g.join(*parts, *means)


def _curves(g: Graph, X: str, curves: Curves) -> str:
    """Prepared numbers: :meth:`ulmus.features.preparation.Columns.transform`."""
    if curves.kind == "quantile":
        Z = _interpolated(g, X, curves)
    else:
        Z = g.Div(g.Sub(X, curves.centre), curves.scale)
        if curves.kind == "clip":
            third = g.Div(Z, 3.0)
            Z = g.Div(Z, g.Sqrt(g.Add(g.Mul(third, third), 1.0)))
    return Z if curves.deviation is None else g.Div(Z, curves.deviation)


def _interpolated(g: Graph, X: str, curves: Curves) -> str:
    """``slope (x − knot) + value`` in the interval of x; flat beyond the ends."""
    trees, tables, first = [], [], [0]
    for j, (k, v) in enumerate(zip(curves.knots, curves.values, strict=True)):
        with np.errstate(over="ignore"):
            steep = np.diff(v) / np.diff(k)
        slope = np.concatenate([[0.0], np.where(np.isfinite(steep), steep, 0.0), [0.0]])
        tables.append(np.array([np.append(k[0], k), slope, np.append(v[0], v)]))
        trees.append(search_tree(k, j))
        first.append(first[-1] + len(k) + 1)
    knots, slopes, values = (g.constant(row.astype(g.dtype)) for row in np.concatenate(tables, axis=1))
    place = g.Add(walk(g, X, trees), g.integers(*first[:-1]))
    return g.Add(g.Mul(g.Gather(slopes, place), g.Sub(X, g.Gather(knots, place))), g.Gather(values, place))


def _tables(preparation: Preparation) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Of every category its column, and what its levels become; the first row is for a level never seen."""
    found, start = [], 0
    for j, category in zip(preparation.categorical, preparation.categories, strict=True):
        codes = np.append(category.levels.max() + 1, category.levels)
        smoothed = np.empty((len(codes), 0))
        if category.has_means:
            stop = start + len(category.overall)
            smoothed = category.means(codes) / preparation.mean_deviation[start:stop]
            start = stop
        found.append((j, category.dummies(codes), smoothed))
    return found


def _place(g: Graph, part: Portion, preparation: Preparation, j: int, reader: Reader | None) -> str:
    """The number of the level in a column, from 1; 0 for one never seen."""
    levels = preparation.categories[list(preparation.categorical).index(j)].levels
    rank = np.arange(1.0, len(levels) + 1)
    if (part.kind == "string") != (reader is not None):
        was, now = ("text", "numbers") if reader is not None else ("numbers", "text")
        raise TypeError(f"column {part.name!r} held {was} in training and holds {now} here")
    if reader is None:
        value = g.Where(g.IsNaN(part.value), NO_LEVEL, part.value) if NO_LEVEL in levels else part.value
        hit = g.Equal(value, levels[None])
    else:
        words: Sequence[str] = reader.levels or ()
        known = ["" if code == NO_LEVEL else words[int(code)] for code in levels]
        missing = np.flatnonzero(levels == reader.missing)  # a level of its own name, in files of before
        known += [""] * len(missing)
        rank = np.append(rank, rank[missing])
        by_code = {int(code): each for code, each in zip(levels, rank, strict=False) if code != NO_LEVEL}
        others = {word: code for word, code in codes_of(tuple(words)).items() if code in by_code and word not in words}
        known, rank = known + list(others), np.append(rank, [by_code[code] for code in others.values()])
        if reader.na and NO_LEVEL in levels:
            (none,) = rank[: len(levels)][levels == NO_LEVEL]
            known, rank = known + sorted(NA - {""}), np.append(rank, [none] * (len(NA) - 1))
        hit = g.Equal(part.value, g.constant(np.array([known])))
    place = g.ReduceMax(g.Mul(g.number(hit), rank), g.integers(1), keepdims=0)
    return g.cast(place, np.int64)


def _table(g: Graph, block: Columns, step: TableEncoder) -> Columns:
    numbers, texts = encoded(g, block, step)
    if step.preparation_ is None:
        raise TypeError("a TableEncoder(prepared=False) is exported as part of an adaptive model, not by itself")
    return [Portion(prepared(g, numbers, step.preparation_, texts), "number", tuple(step.get_feature_names_out()))]


TRANSFORMERS[TableEncoder] = _table

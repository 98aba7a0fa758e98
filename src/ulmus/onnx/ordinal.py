"""Ordered classes in ONNX operators: from bits to a class, and to probabilities."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ulmus.codings import DECODERS
from ulmus.onnx.graph import Graph
from ulmus.onnx.probabilities import probabilities

#: Bits beyond this are as sure as they get: the exponential of twice as much still fits into float32.
_SURE = 40.0


def _sinh(g: Graph, o: str) -> str:
    """``sinh(o)``, divided by a factor that all bits of a row share where it is too large."""
    excess = g.Max(g.Sub(g.ReduceMax(g.Abs(o), g.integers(1), keepdims=1), _SURE), 0.0)
    return g.Mul(g.Sub(g.Exp(g.Sub(o, excess)), g.Exp(g.Sub(g.Neg(o), excess))), 0.5)


def _arcsinh(g: Graph, v: str) -> str:
    size = g.Abs(v)
    return g.Mul(g.Sign(v), g.Log(g.Add(size, g.Sqrt(g.Add(g.Mul(v, v), 1.0)))))


def _descending(g: Graph, o: str, width: int) -> str:
    values, places = g.name("sorted"), g.name("places")
    g.node("TopK", [o, g.integers(width)], [values, places], axis=1, largest=1, sorted=1)
    return values


def _decreasing_fit(g: Graph, V: str, weight: np.ndarray) -> str:
    """``g_j = min_{a ≤ j} max_{b ≥ j} (weighted mean of v_a … v_b)``."""
    k = len(weight)
    low, high = -1e300 if g.dtype == np.float64 else -1e30, 1e300 if g.dtype == np.float64 else 1e30
    found = ""
    for a in range(k):
        # means[b] of v_a … v_b, for b ≥ a
        span = np.where((np.arange(k)[:, None] >= a) & (np.arange(k)[:, None] <= np.arange(k)), weight[:, None], 0.0)
        mass = np.maximum(span.sum(axis=0), np.finfo(float).tiny)
        means = g.MatMul(V, np.where(np.arange(k) >= a, span / mass, 0.0))
        # highest[j] = max over b ≥ max(j, a); nothing for j < a
        shut = np.where(np.arange(k)[None, :] >= np.maximum(np.arange(k)[:, None], a), 0.0, low)[None]
        highest = g.ReduceMax(
            g.Add(g.Unsqueeze(means, g.integers(1)), g.constant(shut.astype(g.dtype))), g.integers(2), keepdims=0
        )
        highest = g.Add(highest, np.where(np.arange(k) >= a, 0.0, high)[None])
        found = highest if not found else g.Min(found, highest)
    return found


def _where_broken(g: Graph, o: str, k: int, repair: Callable[[str], str]) -> str:
    """Repaired bits of the rows that need it; the others as they are."""
    if k < 2:
        return o
    rise = g.Sub(g.columns(o, range(1, k)), g.columns(o, range(k - 1)))
    broken = g.Greater(g.ReduceMax(rise, g.integers(1), keepdims=1), 0.0)
    return g.Where(broken, repair(o), o)


def _by_loss(g: Graph, o: str, gaps: np.ndarray) -> str:
    def repair(o: str) -> str:
        clipped = g.Max(g.Min(o, _SURE), -_SURE)
        sinh = g.Mul(g.Sub(g.Exp(clipped), g.Exp(g.Neg(clipped))), 0.5)
        return _arcsinh(g, _decreasing_fit(g, sinh, gaps))

    return _where_broken(g, o, len(gaps), repair)


#: Name of a decoder → its steps and its repair, as in ``codings.DECODERS``.
STEPS: dict[str, Callable[[Graph, str, np.ndarray], str]] = {
    "loss": lambda g, o, gaps: _sinh(g, o),
    "hamming": lambda g, o, gaps: g.Sign(o),
    "threshold": lambda g, o, gaps: _descending(g, o, len(gaps)),
}
REPAIRS: dict[str, Callable[[Graph, str, np.ndarray], str]] = {
    "loss": _by_loss,
    "hamming": lambda g, o, gaps: _where_broken(g, o, len(gaps), lambda o: _decreasing_fit(g, o, gaps)),
    "threshold": lambda g, o, gaps: _descending(g, o, len(gaps)),
}
assert set(STEPS) == set(REPAIRS) == set(DECODERS)


def _sums(gaps: np.ndarray) -> np.ndarray:
    """Matrix that sums ``gap · bit`` up to every class; the lowest has none."""
    k = len(gaps)
    return np.where(np.arange(k)[:, None] < np.arange(k + 1), gaps[:, None], 0).astype(float)


def ordinal_outputs(g: Graph, bits: str, model: Any) -> dict[str, tuple[str, Any, int | None]]:
    """Label and probabilities."""
    classes, present = np.asarray(model.classes_), np.asarray(model.present_)
    gaps = np.diff(present).astype(float)
    if len(present) < len(classes):
        bits = g.columns(bits, (present[1:] - 1).tolist())  # only bits of classes that were seen are read
    repaired = REPAIRS[model.decoding](g, bits, gaps)
    floor = getattr(model, "floor_", None)
    floor = model.fitted_.certainty.floor_at(present) if floor is None else floor[present]
    if getattr(model, "loss", "squared") == "logistic":
        reached = g.Mul(g.Add(g.Tanh(g.Mul(repaired, 0.5)), 1.0), 0.5)
        padded = g.join(g.rows_of(bits, 1, 1.0), reached, g.rows_of(bits, 1, 0.0))
        k = len(gaps) + 1
        step = g.Sub(g.columns(padded, range(k)), g.columns(padded, range(1, k + 1)))
        share = g.Add(g.Mul(step, 1.0 - floor.sum()), floor)
    else:
        ladder = g.MatMul(repaired, _sums(gaps))
        logits = g.MatMul(repaired, model.temperature_ * _sums(gaps))
        share = probabilities(g, ladder, logits, floor)
    place = np.zeros((len(present), len(classes)))
    place[np.arange(len(present)), present] = 1.0
    P = share if len(present) == len(classes) else g.MatMul(g.Max(share, 0.0), place)
    if model.cost_matrix is not None:
        best = g.ArgMin(g.MatMul(P, np.asarray(model.cost_matrix, float)), axis=1, keepdims=0)
        label = g.Gather(g.constant(classes), best)
    else:
        best = g.ArgMax(g.MatMul(STEPS[model.decoding](g, bits, gaps), _sums(gaps)), axis=1, keepdims=0)
        label = g.Gather(g.constant(classes[present]), best)
    return {"label": (label, classes.dtype, None), "probabilities": (P, g.dtype, len(classes))}

"""Probabilities of classes from their scores."""

import numpy as np

from ulmus.calibration.temperature import AHEAD
from ulmus.onnx.graph import Graph


def probabilities(g: Graph, scores: str, logits: str, floor: np.ndarray | None, *, by_score: bool = True) -> str:
    """``softmax(logits)`` over a floor, the class of the largest score ahead (:mod:`ulmus.calibration.temperature`)."""
    share = g.Softmax(logits, axis=1)
    if floor is None:
        return share
    P = g.Add(g.Mul(share, 1.0 - floor.sum()), floor)
    if not by_score:
        return P
    top, first = (g.ReduceMax(x, g.integers(1), keepdims=1) for x in (P, scores))
    behind = g.And(g.Equal(scores, first), g.Less(P, top))
    raised = g.Where(behind, g.Mul(top, 1.0 + AHEAD), P)
    return g.Div(raised, g.ReduceSum(raised, g.integers(1), keepdims=1))

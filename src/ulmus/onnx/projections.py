"""Discriminant projections in ONNX operators: one row of :data:`PROJECTIONS` each."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ulmus.features.activations import ACTIVATIONS
from ulmus.models._heads import Means
from ulmus.models.enda import ENDA
from ulmus.models.enda_ensemble import ENDAEnsemble
from ulmus.models.klda import KLDA
from ulmus.models.nnda import NNDA
from ulmus.onnx.features import features
from ulmus.onnx.graph import Graph
from ulmus.onnx.probabilities import probabilities


def _linear(g: Graph, Phi: str, weights: np.ndarray, offset: np.ndarray) -> str:
    return g.Add(g.MatMul(Phi, weights), offset)


def _nnda(g: Graph, X: str, model: NNDA) -> str:
    hidden = ACTIVATIONS[model.activation].onnx(g, _linear(g, X, model.coefs_[0], model.intercepts_[0]))
    return _linear(g, hidden, np.asarray(model.coefs_[1], float), model.intercepts_[1])


def _ensemble(g: Graph, X: str, model: ENDAEnsemble) -> str:
    return g.Sum(*(g.MatMul(projection(g, X, member), a * Q) for a, member, Q in model.fitted_.weights.combination))


PROJECTIONS: dict[type, Callable[[Graph, str, Any], str]] = {
    ENDA: lambda g, X, m: _linear(g, features(g, X, m.map_), m.weights_, -(m.centre_ @ m.weights_)),
    ENDAEnsemble: _ensemble,
    KLDA: lambda g, X, m: _linear(g, features(g, X, m.cross_kernel_), m.alpha_, np.asarray(m.offset_)),
    NNDA: _nnda,
}


def projection(g: Graph, X: str, model: Any) -> str:
    """The discriminant coordinates of rows."""
    return PROJECTIONS[type(model)](g, X, model)


def discriminant_outputs(g: Graph, X: str, model: Any) -> dict[str, tuple[str, Any, int | None]]:
    """The projection; label and probabilities where they have a closed form, by class means."""
    Z = projection(g, X, model)
    outputs: dict[str, tuple[str, Any, int | None]] = {"projection": (Z, g.dtype, model.n_components_)}
    head = getattr(model, "head_", None)
    if not isinstance(head, Means):
        return outputs
    classes = np.asarray(model.classes_)
    present = np.flatnonzero(~np.isnan(head.means).any(axis=1))
    distance = g.distances(Z, head.means[present], squared=True)
    floor = None if head.floor is None else head.floor[present]
    share = probabilities(g, g.Neg(distance), g.Mul(distance, -head.sharpness), floor, by_score=False)
    place = np.eye(len(classes))[present]
    probability = share if len(present) == len(classes) else g.MatMul(g.Max(share, 0.0), place)
    label = g.Gather(g.constant(classes), g.ArgMax(probability, axis=1, keepdims=0))
    return outputs | {
        "label": (label, classes.dtype, None),
        "probabilities": (probability, g.dtype, len(classes)),
    }

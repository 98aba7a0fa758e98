"""Models in ONNX operators: weights on features, and what a task makes of the scores (:data:`TASKS`)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ulmus.labels import refuse_several
from ulmus.models._classification import Classification
from ulmus.models._ordinal import Ordinal
from ulmus.models._regression import Regression
from ulmus.onnx.adaptive import boosted_trees, local_kernels
from ulmus.onnx.features import FEATURES, features
from ulmus.onnx.graph import Graph
from ulmus.onnx.ordinal import ordinal_outputs
from ulmus.onnx.probabilities import probabilities
from ulmus.onnx.projections import PROJECTIONS, discriminant_outputs

#: Outputs of a graph: name → result, type, number of columns (None for one number or label a row).
Outputs = dict[str, tuple[str, Any, int | None]]


def _form(model: Any) -> tuple[Any, np.ndarray]:
    """The feature map of a model, and the weights on those features."""
    return model.fitted_.weights.form()


def _regression(g: Graph, scores: str, model: Any) -> Outputs:
    if model.fitted_.targets.single:
        return {"prediction": (g.Squeeze(scores, g.integers(1)), g.dtype, None)}
    return {"prediction": (scores, g.dtype, len(np.ravel(model.intercept_)))}


def _classification(g: Graph, scores: str, model: Any) -> Outputs:
    refuse_several(model.fitted_.targets, "the export to ONNX")
    classes = np.asarray(model.classes_)
    if len(classes) == 2:
        scores = g.join(g.Neg(scores), scores)
    by_score, logits = getattr(model, "loss_", "squared") == "squared", g.Mul(scores, model.temperature_)
    probability = probabilities(g, scores, logits, getattr(model, "floor_", None), by_score=by_score)
    label = g.Gather(g.constant(classes), _decided(g, scores, probability, model))
    return {"label": (label, classes.dtype, None), "probabilities": (probability, g.dtype, len(classes))}


def _decided(g: Graph, scores: str, probability: str, model: Any) -> str:
    """Places of the classes that are decided for (:mod:`ulmus.calibration.decisions`)."""
    decision = getattr(model, "decision", "accuracy")
    if not isinstance(decision, str):
        return str(g.ArgMin(g.MatMul(probability, np.asarray(decision, float)), axis=1, keepdims=0))
    if decision == "balanced":
        return str(g.ArgMax(g.Div(probability, model.class_prior_[None]), axis=1, keepdims=0))
    by_score = getattr(model, "loss_", "squared") == "squared"
    return str(g.ArgMax(scores if by_score else probability, axis=1, keepdims=0))


#: Task → what it makes of scores.
TASKS: dict[type, Callable[[Graph, str, Any], Outputs]] = {
    Regression: _regression,
    Classification: _classification,
    Ordinal: ordinal_outputs,
}


def convert(g: Graph, X: str, model: Any) -> Outputs:
    """The outputs of a fitted model or feature map for the rows ``X``, as its features take them."""
    if type(model) in FEATURES:
        return {"features": (features(g, X, model), g.dtype, model.n_features_out)}
    metric = getattr(model, "metric_", None)
    if metric is not None:
        X = g.Mul(X, metric) if metric.ndim == 1 else g.MatMul(X, metric)
    if type(model) in PROJECTIONS:
        return discriminant_outputs(g, X, model)
    task = next((row for kind, row in TASKS.items() if isinstance(model, kind)), None)
    if task is None:
        raise TypeError(f"{type(model).__name__} cannot be exported: it is neither a model nor a feature map of Ulmus")
    fitted, weights = _form(model)
    Phi = features(g, X, fitted)
    if len(weights) == 1:  # two halves: a single constant factor would be rounded, see Graph
        Phi, weights = g.join(Phi, Phi), np.vstack([weights, weights]) / 2
    scores = g.Add(g.MatMul(Phi, weights), np.atleast_1d(model.intercept_))
    if getattr(model, "local_", None) is not None:
        scores = g.Add(scores, local_kernels(g, X, model.local_))
    if getattr(model, "trees_", None) is not None:
        scores = g.Add(scores, boosted_trees(g, X, model.trees_))
    return dict(task(g, scores, model))

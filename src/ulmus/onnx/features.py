"""Feature maps in ONNX operators: one row of :data:`FEATURES` each."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ulmus.features.activations import ACTIVATIONS
from ulmus.features.kernels import CrossKernel
from ulmus.features.nystrom import NystromMap
from ulmus.features.random_layer import RandomLayer
from ulmus.onnx.graph import Graph


def _largest(g: Graph, U: str, floor: float) -> str:
    return g.Max(g.ReduceMax(g.Abs(U), g.integers(1), keepdims=1), floor)


def _inner(g: Graph, X: str, k: CrossKernel) -> str:
    assert k.kernel is not None
    right = k.embedded_rows.T * (k.parameters.gamma if "gamma" in k.kernel.uses else 1.0)
    return g.MatMul(X, right) if len(right) > 1 else g.Mul(X, right)


def _angle(g: Graph, X: str, k: CrossKernel) -> str:
    tiny = float(np.finfo(g.dtype).tiny)
    U = g.Div(X, _largest(g, X, tiny))
    return g.MatMul(g.Div(U, g.Sqrt(g.Max(g.squared_norms(U), tiny))), k.embedded_rows.T)


def _arc(g: Graph, X: str, k: CrossKernel) -> str:
    """``√(2/(3 + 2‖u‖²)) [u, 1]``, with ``u = t v`` and ``|v| ≤ 1``."""
    u = g.Mul(X, np.sqrt(k.parameters.gamma))
    t = _largest(g, u, 1.0)
    v = g.Div(u, t)
    factor = g.Sqrt(g.Div(2.0, g.Add(g.Div(3.0, g.Mul(t, t)), g.Mul(g.squared_norms(v), 2.0))))
    return g.MatMul(g.Mul(g.join(v, g.Div(1.0, t)), factor), k.embedded_rows[:, :-1].T)


def _distance(g: Graph, X: str, k: CrossKernel) -> str:
    """``−‖u − v‖²``: from one product, or from differences for kernels that take its root."""
    assert k.kernel is not None
    V, s, right = g.Sub(X, k.centre), k.scale, k.embedded_rows
    if k.kernel.exact_distance:
        return g.Neg(g.distances(g.Mul(V, s), right[:, :-2] / 2, squared=True))
    return g.Sub(g.Add(g.MatMul(V, s * right[:, :-2].T), right[:, -1]), g.Mul(g.squared_norms(V), s**2))


def _cityblock(g: Graph, X: str, k: CrossKernel) -> str:
    return g.distances(g.Mul(X, k.parameters.gamma), k.embedded_rows, squared=False)


#: Embedding of a kernel → the product that its ``finish`` is given.
PRODUCTS: dict[str, Callable[[Graph, str, CrossKernel], str]] = {
    "inner": _inner,
    "angle": _angle,
    "arc": _arc,
    "distance": _distance,
    "cityblock": _cityblock,
}


def cross_kernel(g: Graph, X: str, k: CrossKernel) -> str:
    """``κ(X, Z)``."""
    if k.kernel is None:
        raise TypeError(
            "a model with a callable kernel cannot be exported: ONNX has no Python functions; use a named kernel"
        )
    return str(k.kernel.onnx(g, PRODUCTS[k.kernel.embedding](g, X, k), k.parameters))


def nystrom_map(g: Graph, X: str, features: NystromMap) -> str:
    """``κ(X, Z) R⁻ᵀ``, or ``κ(X, Z) U S^{−1/2}``."""
    K = cross_kernel(g, X, features.cross_kernel_)
    if features.triangular:
        return g.solve_lower_transposed(K, features.whitening_)
    return g.MatMul(K, features.whitening_)


def random_layer(g: Graph, X: str, layer: RandomLayer) -> str:
    """``g(slope (w·x + b))`` or ``g(slope ‖x − c‖/r)``, behind the inputs themselves under ``direct_links``."""
    activation = ACTIVATIONS[layer.activation]
    standard = g.Mul(g.Sub(X, layer.mean_), layer.unit_)
    if activation.argument == "distance":
        argument = g.Mul(cross_kernel(g, standard, layer.centre_distance_), layer.slope / layer.widths_)
    else:
        argument = g.Add(g.MatMul(g.Sub(X, layer.mean_), layer.weights_), layer.centred_biases_)
    nodes = activation.onnx(g, argument)
    return g.join(standard, nodes) if layer.direct_links else str(nodes)


FEATURES: dict[type, Callable[[Graph, str, Any], str]] = {
    CrossKernel: cross_kernel,
    NystromMap: nystrom_map,
    RandomLayer: random_layer,
}


def features(g: Graph, X: str, fitted: Any) -> str:
    """The features of the rows ``X`` under a fitted map."""
    return FEATURES[type(fitted)](g, X, fitted)

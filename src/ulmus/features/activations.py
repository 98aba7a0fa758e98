"""Activations as a table: what a hidden node does to its pre-activation, in place."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Activation:
    """An activation ``g``.

    ``apply`` works in place. ``argument`` says what it is given: ``"affine"`` is ``slope (w·x + b)``, ``"distance"``
    is ``slope ‖x − c‖ / r`` with centre ``c`` and width ``r`` drawn from the data. ``onnx(g, A)`` is the same in ONNX
    operators, where ``g.Tanh(A)`` adds an operator to the graph ``g``. ``steep`` is ``apply`` in half the time where
    pre-activations are not all near 0: it has as many digits of 1, and fewer of a small value.
    """

    name: str
    apply: Callable[[np.ndarray], None]
    onnx: Callable[[Any, Any], Any]
    argument: str = "affine"
    bounded: bool = True
    steep: Callable[[np.ndarray], None] | None = None


def _sigmoid(A: np.ndarray) -> None:
    # 1/(1 + e^-a), where an exponential that overflows gives 0
    np.negative(A, out=A)
    with np.errstate(over="ignore"):
        np.exp(A, out=A)
    A += 1
    np.reciprocal(A, out=A)


def _steep_tanh(A: np.ndarray) -> None:
    # 1 - 2/(1 + e^2a): processors have quick exponentials
    A *= 2
    np.exp(A, out=A)
    A += 1
    np.divide(-2, A, out=A)
    A += 1


def _hard_limit(A: np.ndarray) -> None:
    np.greater_equal(A, 0, out=A, casting="unsafe")


def _softplus(A: np.ndarray) -> None:
    np.logaddexp(A, A.dtype.type(0), out=A)


def _gaussian(A: np.ndarray) -> None:
    np.multiply(A, A, out=A)
    np.negative(A, out=A)
    np.exp(A, out=A)


def _multiquadric(A: np.ndarray) -> None:
    np.multiply(A, A, out=A)
    A += 1
    np.sqrt(A, out=A)


def _mexican_hat(A: np.ndarray) -> None:
    # (1 − a²) e^(−a²/2)
    np.multiply(A, A, out=A)
    np.minimum(A, 1e4, out=A)  # where e^(−a²/2) is 0 already, so that it is not met by an infinity
    E = np.exp(-0.5 * A)
    np.subtract(1, A, out=A)
    A *= E


def _relu(A: np.ndarray) -> None:
    np.maximum(A, 0, out=A)


def _identity(_: np.ndarray) -> None: ...


def _onnx_softplus(g: Any, A: Any) -> Any:
    # max(a, 0) + log(1 + e^-|a|), as runtimes have no Softplus in double precision
    return g.Add(g.Max(A, 0.0), g.Log(g.Add(g.Exp(g.Neg(g.Abs(A))), 1.0)))


def _onnx_mexican_hat(g: Any, A: Any) -> Any:
    S = g.Min(g.Mul(A, A), 1e4)
    return g.Mul(g.Sub(1.0, S), g.Exp(g.Mul(S, -0.5)))


ACTIVATIONS: dict[str, Activation] = {
    a.name: a
    for a in (
        Activation("sigmoid", _sigmoid, lambda g, A: g.Mul(g.Add(g.Tanh(g.Mul(A, 0.5)), 1.0), 0.5)),
        Activation("tanh", lambda A: np.tanh(A, out=A), lambda g, A: g.Tanh(A), steep=_steep_tanh),
        Activation("sine", lambda A: np.sin(A, out=A), lambda g, A: g.Sin(A)),
        Activation("cosine", lambda A: np.cos(A, out=A), lambda g, A: g.Cos(A)),
        Activation("hardlim", _hard_limit, lambda g, A: g.number(g.GreaterOrEqual(A, 0.0))),
        Activation("relu", _relu, lambda g, A: g.Relu(A), bounded=False),
        Activation("softplus", _softplus, _onnx_softplus, bounded=False),
        Activation("mexican_hat", _mexican_hat, _onnx_mexican_hat),
        Activation("identity", _identity, lambda g, A: A, bounded=False),
        Activation("gaussian", _gaussian, lambda g, A: g.Exp(g.Neg(g.Mul(A, A))), argument="distance"),
        Activation(
            "multiquadric",
            _multiquadric,
            lambda g, A: g.Sqrt(g.Add(g.Mul(A, A), 1.0)),
            argument="distance",
            bounded=False,
        ),
    )
}

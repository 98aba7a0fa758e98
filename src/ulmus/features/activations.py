"""Activations as a table: what a hidden node does to its pre-activation, in place."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Activation:
    """An activation ``g``.

    ``apply`` works in place. ``argument`` says what it is given: ``"affine"`` is ``slope (w·x + b)``, ``"distance"``
    is ``slope ‖x − c‖ / r`` with centre ``c`` and width ``r`` drawn from the data.
    """

    name: str
    apply: Callable[[np.ndarray], None]
    argument: str = "affine"
    bounded: bool = True


def _sigmoid(A: np.ndarray) -> None:
    # 1/(1 + e^-a) = (1 + tanh(a/2))/2, which never overflows.
    A *= 0.5
    np.tanh(A, out=A)
    A += 1
    A *= 0.5


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


ACTIVATIONS: dict[str, Activation] = {
    a.name: a
    for a in (
        Activation("sigmoid", _sigmoid),
        Activation("tanh", lambda A: np.tanh(A, out=A)),
        Activation("sine", lambda A: np.sin(A, out=A)),
        Activation("cosine", lambda A: np.cos(A, out=A)),
        Activation("hardlim", _hard_limit),
        Activation("relu", _relu, bounded=False),
        Activation("softplus", _softplus, bounded=False),
        Activation("mexican_hat", _mexican_hat),
        Activation("identity", _identity, bounded=False),
        Activation("gaussian", _gaussian, argument="distance"),
        Activation("multiquadric", _multiquadric, argument="distance", bounded=False),
    )
}

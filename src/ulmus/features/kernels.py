r"""Kernels as a table.

Every kernel but the L1-Laplacian is a function of one inner product between embedded rows,
:math:`\kappa(x, z) = g(a(x) \cdot b(z))`, so that a block is one matrix product and one pass in place:

* inner-product kernels embed :math:`a(x) = \gamma x` and :math:`b(z) = z`;
* distance kernels embed :math:`u = s (x - c)` as :math:`[u, -\|u\|^2, 1]` and :math:`v = s (z - c)` as
  :math:`[2 v, 1, -\|v\|^2]`, whose product is :math:`-\|u - v\|^2`. The centre ``c`` is the mean of the landmarks
  (it cancels, and keeps the digits of data that lie far from the origin).

``gamma`` enters as the scale ``s`` of the rows: a kernel sees ``x → s x``, of which a full metric ``x → A x`` is
the general case.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ulmus.features.distances import cityblock

#: Squared distances below this fraction of the squared norms are recomputed from differences.
CANCELLATION = {np.dtype(np.float64): 1e-7, np.dtype(np.float32): 1e-4}
#: The same where the distance itself is the exponent, so that it loses three digits at most in float64.
ROOTED = {np.dtype(np.float64): 1e-3, np.dtype(np.float32): 1e-4}
#: Round-off of an exponent that may stay.
HARMLESS = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-4}
#: Rows whose diagonal comes from one call of a callable kernel.
_DIAGONAL_ROWS = 4


@dataclass(frozen=True)
class KernelParameters:
    """The numbers a kernel may use; each kernel says which."""

    gamma: float = 1.0
    degree: float = 3
    coef0: float = 1.0


@dataclass(frozen=True)
class Kernel:
    """A kernel: how rows are embedded and what is done to the inner product.

    ``embedding`` is ``"inner"``, ``"distance"``, ``"angle"``, ``"arc"`` or ``"cityblock"``; ``finish`` turns the
    product into kernel values in place; ``scale`` turns ``gamma`` into the factor on the rows of distance kernels;
    ``onnx(g, P, parameters)`` is ``finish`` in ONNX operators, where ``g.Exp(P)`` adds an operator to the graph ``g``.
    With ``exact_distance`` it falls like the distance near 0, not like its square, and round-off must not be rooted.
    """

    name: str
    embedding: str
    finish: Callable[[np.ndarray, KernelParameters], None]
    onnx: Callable[[Any, Any, KernelParameters], Any]
    scale: Callable[[float], float] = float
    uses: tuple[str, ...] = ("gamma",)
    positive_definite: bool = True
    exact_distance: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        return kernel_named, (self.name,)

    def values(self, P: np.ndarray, parameters: KernelParameters, narrower: float = 1.0) -> None:
        """Kernel values over the distances or products ``P``; distances may be seen by a gamma so much larger."""
        if narrower != 1.0:
            scale = float(self.scale(narrower * parameters.gamma)) / float(self.scale(parameters.gamma))
            P *= {"cityblock": scale, "distance": scale**2}[self.embedding]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            self.finish(P, parameters)


def _nothing(_: np.ndarray, __: KernelParameters) -> None: ...


def _polynomial(P: np.ndarray, p: KernelParameters) -> None:
    P += p.coef0
    if p.degree != int(p.degree) and P.min(initial=0.0) < 0:
        raise ValueError(
            f'kernel "poly" with degree={p.degree} takes a fractional power of a negative number, gamma x·z + coef0 = '
            f"{P.min():.3g}; choose a whole degree or a larger coef0"
        )
    np.power(P, P.dtype.type(p.degree) if p.degree != int(p.degree) else int(p.degree), out=P)


def _sigmoid(P: np.ndarray, p: KernelParameters) -> None:
    P += p.coef0
    np.tanh(P, out=P)


def _rbf(P: np.ndarray, _: KernelParameters) -> None:
    np.exp(P, out=P)


def _root(P: np.ndarray, _: KernelParameters) -> None:
    np.abs(P, out=P)
    np.sqrt(P, out=P)


def _laplacian(P: np.ndarray, p: KernelParameters) -> None:
    _root(P, p)
    np.negative(P, out=P)
    np.exp(P, out=P)


def _matern32(P: np.ndarray, p: KernelParameters) -> None:
    _root(P, p)
    E = np.negative(P)
    np.exp(E, out=E)
    P += 1
    P *= E


def _arcsine(P: np.ndarray, _: KernelParameters) -> None:
    np.clip(P, -1, 1, out=P)
    np.arcsin(P, out=P)
    P *= 2 / np.pi


def _cityblock(P: np.ndarray, _: KernelParameters) -> None:
    np.negative(P, out=P)
    np.exp(P, out=P)


def _onnx_root(g: Any, P: Any) -> Any:
    return g.Sqrt(g.Abs(P))


def _onnx_matern32(g: Any, P: Any, _: KernelParameters) -> Any:
    r = _onnx_root(g, P)
    return g.Mul(g.Add(r, 1.0), g.Exp(g.Neg(r)))


KERNELS: dict[str, Kernel] = {
    k.name: k
    for k in (
        Kernel("linear", "inner", _nothing, lambda g, P, _: P, uses=()),
        Kernel(
            "poly",
            "inner",
            _polynomial,
            lambda g, P, p: g.Pow(g.Add(P, p.coef0), p.degree),
            uses=("gamma", "degree", "coef0"),
        ),
        Kernel(
            "sigmoid",
            "inner",
            _sigmoid,
            lambda g, P, p: g.Tanh(g.Add(P, p.coef0)),
            uses=("gamma", "coef0"),
            positive_definite=False,
        ),
        Kernel("cosine", "angle", _nothing, lambda g, P, _: P, uses=()),
        Kernel("arcsine", "arc", _arcsine, lambda g, P, _: g.arcsin(P, 2 / np.pi)),
        Kernel("rbf", "distance", _rbf, lambda g, P, _: g.Exp(g.Min(P, 0.0)), scale=np.sqrt),
        Kernel(
            "laplacian", "distance", _laplacian, lambda g, P, _: g.Exp(g.Neg(_onnx_root(g, P))), exact_distance=True
        ),
        Kernel("matern32", "distance", _matern32, _onnx_matern32, scale=lambda g: np.sqrt(3) * g),
        Kernel("laplacian_l1", "cityblock", _cityblock, lambda g, P, _: g.Exp(g.Neg(P))),
    )
}

#: Not a kernel: the plain distance, for nodes that need it.
DISTANCE = Kernel("distance", "distance", _root, lambda g, P, _: _onnx_root(g, P), exact_distance=True)


def kernel_named(name: str) -> Kernel:
    """A row of the table, or the plain distance."""
    return DISTANCE if name == DISTANCE.name else KERNELS[name]


KernelLike = str | Kernel | Callable[..., np.ndarray]


def dense(X: Any, dtype: Any) -> np.ndarray:
    """Rows as a dense array of this type."""
    return (X.toarray() if sparse.issparse(X) else np.asarray(X)).astype(dtype, copy=False)


def squared_norms(U: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", U, U)


class CrossKernel:
    """``κ(·, Z)`` for fixed rows ``Z``: turns a block of rows into a block of kernel values.

    Parameters
    ----------
    kernel : str, Kernel or callable
        A name from :data:`KERNELS`, or ``k(X, Z)`` returning an array of shape ``(len(X), len(Z))``.
    Z : array of shape (n_features_out, n_features)
    parameters : KernelParameters

    Attributes
    ----------
    centre, scale : ndarray, float
        What rows are centred and scaled by before their distances are taken (of named kernels).
    """

    def __init__(self, kernel: KernelLike, Z: np.ndarray, parameters: KernelParameters) -> None:
        self._arguments = kernel, Z, parameters
        self.kernel: Kernel | None = KERNELS[kernel] if isinstance(kernel, str) else None
        self.function: Callable[..., np.ndarray] | None = None
        if isinstance(kernel, Kernel):
            self.kernel = kernel
        elif not isinstance(kernel, str):
            self.function = kernel
        self.parameters = parameters
        self.Z = Z
        self.n_features_out = Z.shape[0]
        self._right: dict[Any, np.ndarray] = {}
        if self.kernel is not None:
            Z = Z.astype(np.float64, copy=False)
            self.scale = float(self.kernel.scale(parameters.gamma))
            self.centre = Z.mean(axis=0) if self.kernel.embedding == "distance" else np.zeros(Z.shape[1])
            right = np.ascontiguousarray(self._embed(Z, np.float64, left=False))
            if not np.isfinite(right).all():
                raise ValueError(overflow(Z))
            with np.errstate(over="ignore"):
                self._right = {np.dtype(np.float64): right, np.dtype(np.float32): right.astype(np.float32)}

    def __reduce__(self) -> tuple[Any, ...]:
        return CrossKernel, self._arguments

    @property
    def embedded_rows(self) -> np.ndarray:
        """``b(Z)``, the right side of the product that a named kernel is a function of, in float64."""
        return self._right[np.dtype(np.float64)]

    def _embed(self, X: Any, dtype: Any, *, left: bool) -> np.ndarray:
        """``a(X)`` for the left side of the product, ``b(X)`` for the right."""
        assert self.kernel is not None
        embedding, gamma = self.kernel.embedding, self.parameters.gamma
        if embedding == "inner":
            factor = gamma if left and "gamma" in self.kernel.uses else 1.0
            if sparse.issparse(X):
                return X.astype(dtype) * np.dtype(dtype).type(factor) if factor != 1.0 else X.astype(dtype)
            return np.multiply(X, factor, dtype=dtype)
        U = dense(X, dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            if embedding == "cityblock":
                return U.astype(np.float64) * gamma
            if embedding == "angle":
                U = U / _largest(U, floor=np.finfo(dtype).tiny)
                return U / np.sqrt(np.maximum(squared_norms(U), np.finfo(dtype).tiny))[:, None]
            out = np.empty((U.shape[0], U.shape[1] + 2), dtype)
            u = out[:, :-2]
            if embedding == "arc":
                # √(2/(3 + 2‖u‖²)) [u, 1, 0], with u = t v and |v| ≤ 1 so that the squares do not overflow
                np.multiply(U, np.sqrt(gamma), out=u)
                t = _largest(u, floor=1.0)
                u /= t
                out[:, -2], out[:, -1] = 1.0 / t[:, 0], 0.0
                out *= np.sqrt(2.0 / (3.0 / t[:, 0] ** 2 + 2.0 * squared_norms(u)))[:, None]
                return out
            np.subtract(U, self.centre, out=u, casting="same_kind")
            u *= self.scale
            norms = squared_norms(u)
            if left:
                out[:, -2], out[:, -1] = -norms, 1.0
            else:
                u *= 2.0
                out[:, -2], out[:, -1] = 1.0, -norms
            return out

    def transform_block(self, X: Any, out: np.ndarray, columns: slice = slice(None)) -> None:
        """Write ``κ(X, Z[columns])`` into ``out``."""
        if self.kernel is None:
            out[:] = self._call(X, columns)
            return
        self.arguments(X, out, columns)
        self.kernel.values(out, self.parameters)
        with np.errstate(over="ignore", invalid="ignore"):
            finite = self.kernel.embedding == "distance" or np.isfinite(out.sum()) or np.isfinite(out).all()
        if not finite:
            raise ValueError(overflow(X, self.Z))

    def arguments(self, X: Any, out: np.ndarray, columns: slice = slice(None)) -> None:
        """Write what the kernel is a function of (products or distances) into ``out``."""
        assert self.kernel is not None
        left = self._embed(X, out.dtype, left=True)
        right = self._right[out.dtype][columns]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            if self.kernel.embedding == "cityblock":
                cityblock(left, self._right[np.dtype(np.float64)][columns], out)
            elif sparse.issparse(left):
                out[:] = left @ right.T
            else:
                np.matmul(left, right.T, out=out)
            if self.kernel.embedding == "distance":
                size = -(left[:, -2].min() + right[:, -1].min())
                if not np.isfinite(2 * size):
                    raise ValueError(overflow(X, self.Z))
                self._repair(left, right, out, size)

    def _repair(self, left: np.ndarray, right: np.ndarray, out: np.ndarray, size: float) -> None:
        """Mend the negative squared distances that cancellation has spoiled; ``size`` bounds the squared norms.

        What is left of it in an exponential is harmless while the norms are moderate; a square root magnifies it.
        """
        assert self.kernel is not None
        if not self.kernel.exact_distance and np.finfo(out.dtype).eps * size < HARMLESS[out.dtype]:
            return
        share = (ROOTED if self.kernel.exact_distance else CANCELLATION)[out.dtype]
        near = np.flatnonzero(out.max(axis=1, initial=-np.inf) > -share * size)  # most rows are far from all of Z
        i, j = np.nonzero(out[near] > share * (left[near, -2, None] + right[:, -1]))
        i = near[i]
        for part in range(0, len(i), 65_536):
            a, b = i[part : part + 65_536], j[part : part + 65_536]
            out[a, b] = -squared_norms(left[a, :-2] - right[b, :-2] / 2)

    def _call(self, X: Any, columns: slice) -> np.ndarray:
        assert self.function is not None
        Z = self.Z[columns]
        K = np.asarray(self.function(X, Z))
        expected = (X.shape[0], Z.shape[0])
        if K.shape != expected:
            raise ValueError(
                f"a callable kernel must return an array of shape (len(X), len(Z)) = {expected}, got {K.shape}"
            )
        if not np.isfinite(K).all():
            raise ValueError("the callable kernel returned NaN or infinity")
        return K

    def diagonal(self, X: Any) -> np.ndarray:
        """``κ(x, x)`` of every row."""
        out = np.empty(X.shape[0])
        if self.kernel is None:
            assert self.function is not None
            for start in range(0, len(out), _DIAGONAL_ROWS):
                few = X[start : start + _DIAGONAL_ROWS]
                out[start : start + _DIAGONAL_ROWS] = np.diag(np.asarray(self.function(few, few)))
            return out
        if self.kernel.embedding in ("distance", "cityblock"):
            out[:] = 1.0
            return out
        left = dense(self._embed(X, np.float64, left=True), np.float64)
        right = dense(self._embed(X, np.float64, left=False), np.float64)
        out[:] = np.einsum("ij,ij->i", left, right)
        self.kernel.finish(out, self.parameters)
        return out

    @property
    def largest(self) -> float:
        """The largest kernel value of a row ``z`` with itself."""
        return float(np.abs(self.diagonal(self.Z)).max())


def _largest(U: np.ndarray, floor: float) -> np.ndarray:
    """The largest absolute entry of every row, as a column."""
    return np.maximum(np.abs(U).max(axis=1, initial=0.0), floor)[:, None]


def overflow(*rows: Any) -> str:
    top = max(float(abs(X).max()) for X in rows)
    scale = "Standardise the features (sklearn.preprocessing.StandardScaler) or choose a smaller gamma"
    if top > 1e150:  # whose squares overflow in a scaler, too
        scale = f"Divide the features by {top:.0e}, which no scaler can as it squares them"
    return f"kernel values overflow: the largest entry of the rows is {top:.3g}. {scale}"


def gram_matrix(kernel: KernelLike, Z: np.ndarray, parameters: KernelParameters) -> np.ndarray:
    """``κ(Z, Z)``, exactly symmetric, in float64."""
    cross = CrossKernel(kernel, Z, parameters)
    K = np.empty((Z.shape[0], Z.shape[0]))
    cross.transform_block(Z, K)
    K = (K + K.T) / 2
    np.fill_diagonal(K, cross.diagonal(Z))
    return K


def uses_gamma(kernel: KernelLike) -> bool:
    """Whether ``gamma`` means anything to this kernel."""
    return isinstance(kernel, str) and "gamma" in KERNELS[kernel].uses

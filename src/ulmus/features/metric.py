r"""The learned metric: how much a fitted predictor moves with each feature.

A kernel predictor :math:`f(x) = \sum_j \kappa(x, z_j)\,w_j` has its gradient in closed form. The average outer product
of its gradients (AGOP), :math:`M = \operatorname{mean}_x \nabla f(x)\,\nabla f(x)^T`, is large along directions that
matter; a kernel that sees :math:`x \to A x` with :math:`A = M^{1/2}` looks closely there and overlooks the rest.

Every kernel but the L1-Laplacian has :math:`\nabla_x\kappa(x, z) = a\,z + b\,x` with numbers a and b that depend on the
pair, so the gradients of a block are two matrix products.

References
----------
A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin (2024). Mechanism for feature learning in neural networks and
backpropagation-free machine learning models. Science 383, 1461-1467.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.features.kernels import CrossKernel, dense, squared_norms

#: Kernel values (or what they are made of) and rows → ``a`` and ``b`` of every pair.
Coefficients = tuple[np.ndarray, np.ndarray]

#: Steps to an octave in which a diagonal metric is rounded: finer ones would be noise, and carry round-off along.
STEPS = 16
#: Smallest entry of a diagonal metric, relative to the largest: no feature is lost for good.
FLOOR = 1e-4
#: Share of all deviations that columns may make up together and be left out.
NEGLIGIBLE = 0.005


def _distances(cross: CrossKernel, X: np.ndarray) -> np.ndarray:
    """``s ‖x − z‖`` of every pair."""
    s = float(cross.kernel.scale(cross.parameters.gamma))  # type: ignore[union-attr]
    U, V = s * X, s * dense(cross.Z, np.float64)
    centre = V.mean(axis=0)
    U, V = U - centre, V - centre
    squares = squared_norms(U)[:, None] + squared_norms(V) - 2 * U @ V.T
    return np.sqrt(np.maximum(squares, 0.0))


def _radial(slope_over_r: Callable[[np.ndarray], np.ndarray]) -> Callable[[CrossKernel, np.ndarray], Coefficients]:
    """For ``κ = g(r)``, ``r = s‖x − z‖``: ``∇κ = s² (g'(r)/r) (x − z)``."""

    def coefficients(cross: CrossKernel, X: np.ndarray) -> Coefficients:
        s = float(cross.kernel.scale(cross.parameters.gamma))  # type: ignore[union-attr]
        b = s * s * slope_over_r(_distances(cross, X))
        return -b, b

    return coefficients


def _laplacian_slope(r: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(r > 1e-12, -np.exp(-r) / r, 0.0)  # a corner at r = 0: the mean of its slopes is 0


def _inner(slope: Callable[[np.ndarray, Any], np.ndarray]) -> Callable[[CrossKernel, np.ndarray], Coefficients]:
    """For ``κ = g(γ x·z)``: ``∇κ = γ g' z``."""

    def coefficients(cross: CrossKernel, X: np.ndarray) -> Coefficients:
        gamma = cross.parameters.gamma if "gamma" in cross.kernel.uses else 1.0  # type: ignore[union-attr]
        a = gamma * slope(gamma * X @ dense(cross.Z, np.float64).T, cross.parameters)
        return a, np.zeros_like(a)

    return coefficients


def _cosine(cross: CrossKernel, X: np.ndarray) -> Coefficients:
    """``κ = x·z / (‖x‖‖z‖)``: ``∇κ = z/(‖x‖‖z‖) − κ x/‖x‖²``."""
    Z = dense(cross.Z, np.float64)
    tiny = np.finfo(float).tiny
    nx, nz = np.sqrt(np.maximum(squared_norms(X), tiny)), np.sqrt(np.maximum(squared_norms(Z), tiny))
    a = 1.0 / np.outer(nx, nz)
    return a, -(X @ Z.T) * a / (nx**2)[:, None]


def _arcsine(cross: CrossKernel, X: np.ndarray) -> Coefficients:
    """``κ = (2/π) asin q``, ``q = 2(1 + γ x·z)/√(D(x)D(z))``, ``D(x) = 3 + 2γ‖x‖²``."""
    Z, gamma = dense(cross.Z, np.float64), cross.parameters.gamma
    Dx, Dz = 3.0 + 2.0 * gamma * squared_norms(X), 3.0 + 2.0 * gamma * squared_norms(Z)
    root = np.sqrt(np.outer(Dx, Dz))
    q = 2.0 * (1.0 + gamma * X @ Z.T) / root
    outer = (2.0 / np.pi) / np.sqrt(np.maximum(1.0 - q * q, np.finfo(float).eps))
    return outer * 2.0 * gamma / root, -outer * 2.0 * gamma * q / Dx[:, None]


#: Kernel → coefficients of its gradient.
GRADIENTS: dict[str, Callable[[CrossKernel, np.ndarray], Coefficients]] = {
    "linear": _inner(lambda P, _: np.ones_like(P)),
    "poly": _inner(lambda P, p: p.degree * (P + p.coef0) ** (p.degree - 1)),
    "sigmoid": _inner(lambda P, p: 1.0 - np.tanh(P + p.coef0) ** 2),
    "cosine": _cosine,
    "arcsine": _arcsine,
    "rbf": _radial(lambda r: -2.0 * np.exp(-(r**2))),
    "laplacian": _radial(_laplacian_slope),
    "matern32": _radial(lambda r: -np.exp(-r)),
}


def gradients(cross: CrossKernel, X: Any, weights: np.ndarray) -> np.ndarray:
    """``∇f(x)`` of every row, ``[row, feature, output]``, for ``f(x) = κ(x, Z) · weights``.

    Parameters
    ----------
    cross : CrossKernel
        A kernel of the table; a callable one has no known gradient.
    X : array of shape (n_samples, n_features)
    weights : ndarray of shape (n_landmarks, n_outputs)
    """
    if cross.kernel is None:
        raise ValueError("a callable kernel has no gradient that is known here; name a kernel of the table instead")
    X, Z = dense(X, np.float64), dense(cross.Z, np.float64)
    out = np.empty((X.shape[0], X.shape[1], weights.shape[1]))
    name = cross.kernel.name

    def work(tile: slice) -> None:
        x = X[tile]
        if name == "laplacian_l1":
            out[tile] = _cityblock_gradients(cross, x, Z, weights)
            return
        a, b = GRADIENTS[name](cross, x)
        along = b @ weights
        for k in range(weights.shape[1]):
            out[tile, :, k] = (a * weights[:, k]) @ Z + along[:, k, None] * x

    engine.on_threads(work, list(engine.pieces(X.shape[0], engine.tile_rows(len(Z), np.float64))))
    return out


def _cityblock_gradients(cross: CrossKernel, X: np.ndarray, Z: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """``∂κ/∂x_j = −γ sign(x_j − z_j) κ``."""
    K = np.empty((len(X), len(Z)))
    cross.transform_block(X, K)
    out = np.empty((X.shape[0], X.shape[1], weights.shape[1]))
    with np.errstate(over="ignore"):
        x, z = X.astype(np.float32), Z.astype(np.float32)
    if not (np.array_equal(x, X) and np.array_equal(z, Z)):  # signs are those of all digits
        x, z = X, Z
    top = np.abs(weights).max(initial=np.finfo(float).tiny)
    K, weights, D = K.astype(x.dtype), (weights / top).astype(x.dtype), np.empty(K.shape, x.dtype)
    for j, landmarks in enumerate(np.ascontiguousarray(z.T)):
        np.subtract(x[:, j, None], landmarks, out=D)
        with np.errstate(over="ignore"):
            D *= np.finfo(D.dtype).max
        np.clip(D, -1, 1, out=D)  # the sign, in half of the time of np.sign
        D *= K
        out[:, j] = D @ weights
    out *= -cross.parameters.gamma * top
    return out


def average_outer_product(G: np.ndarray, weight: np.ndarray | None = None, *, diagonal: bool = True) -> np.ndarray:
    """``mean ∇f ∇fᵀ``, summed over outputs: its diagonal, or all of it."""
    w = np.ones(len(G)) if weight is None else weight
    w = w / w.sum()
    if diagonal:
        return np.einsum("i,ijk,ijk->j", w, G, G)
    flat = np.concatenate([np.sqrt(w)[:, None] * G[:, :, k] for k in range(G.shape[2])])
    return flat.T @ flat


def sharpened(A: np.ndarray, M: np.ndarray) -> np.ndarray:
    """The next metric, from the metric in which gradients were taken and their average outer product.

    Gradients with respect to ``A x`` are carried back to ``x``: a diagonal ``A`` becomes ``√(A² M)``, a full one the
    symmetric root of ``Aᵀ M A``. The largest entry is 1, the smallest not below :data:`FLOOR`.
    """
    if A.ndim == 1:
        a = A * np.sqrt(np.maximum(M, 0.0))
        top = a.max(initial=0.0)
        return 2.0 ** (np.round(STEPS * np.log2(np.maximum(a / top, FLOOR))) / STEPS) if top > 0 else np.ones_like(A)
    s, V = np.linalg.eigh(A.T @ M @ A)
    root = np.sqrt(np.maximum(s, 0.0))
    top = root.max(initial=0.0)
    if top == 0:
        return np.eye(len(M))
    return (V * np.maximum(root / top, FLOOR)) @ V.T


def low_rank(A: np.ndarray, rank: int) -> np.ndarray:
    """The leading ``rank`` directions of a full metric, as columns: rows become ``x @ low_rank(A, rank)``."""
    s, V = np.linalg.eigh((A + A.T) / 2)
    keep = np.argsort(-np.abs(s))[:rank]
    return V[:, keep] * np.abs(s[keep])


def pruned(A: np.ndarray, X: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """A diagonal metric without the columns that together make up less than :data:`NEGLIGIBLE` of the deviations."""
    mean = np.average(X, axis=0, weights=weight)
    reach = A * np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    order = np.argsort(reach, kind="stable")
    out = A.copy()
    out[order[np.cumsum(reach[order]) <= NEGLIGIBLE * reach.sum()]] = 0.0
    return out if out.any() else A


def seen_columns(A: np.ndarray) -> int:
    """How many columns rows have as the metric shows them."""
    return int(A.shape[1] if A.ndim == 2 else np.count_nonzero(A))


def through(X: np.ndarray, A: np.ndarray) -> np.ndarray:
    """Rows as the metric shows them, to the digits of float32: what differs by round-off alone becomes equal.

    Columns that a diagonal metric sets to 0 are left out. Samples and landmarks are drawn by what rows are
    (:mod:`ulmus.features.sampling`), so they must not hang on round-off.
    """
    seen = slice(None) if A.ndim == 2 or A.all() else A > 0
    out = np.empty((len(X), seen_columns(A)))

    def work(tile: slice) -> None:
        out[tile] = (X[tile] @ A if A.ndim == 2 else X[tile, seen] * A[seen]).astype(np.float32)

    engine.on_threads(work, engine.pieces(len(X), engine.block_rows(X.shape[1], np.float64)))
    return out

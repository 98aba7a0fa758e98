"""Feature maps on the device: what a block of rows becomes there, in float64 or float32.

Each class of maps has a row in :data:`FEATURE_MAPS`; a map without one (a callable kernel, say) is evaluated on the CPU
and its features are sent.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.devices.accelerator import Accelerator
from ulmus.devices.differences import values
from ulmus.features.activations import ACTIVATIONS
from ulmus.features.kernels import CANCELLATION, HARMLESS, ROOTED, CrossKernel
from ulmus.features.nystrom import NystromMap
from ulmus.features.random_layer import RandomLayer

#: ``transform(X)``: a block of rows on the device → a block of features, in the type asked for when it was made.
TensorMap = Callable[[Any], Any]


def map_on(accelerator: Accelerator, features: Any, dtype: Any = None) -> TensorMap:
    """The feature map as a function of blocks on the device."""
    dtype = dtype or accelerator.torch.float64
    for kind, make in FEATURE_MAPS.items():
        if type(features) is kind:
            return make(accelerator, features, dtype)
    return _from_host(accelerator, features, dtype)


def _from_host(accelerator: Accelerator, features: Any, dtype: Any) -> TensorMap:
    def transform(X: Any) -> Any:
        return accelerator.tensor(engine.transform_rows(features, accelerator.numpy(X)), dtype)

    return transform


# Kernels


def _harmless(torch: Any, U: Any, V: Any) -> bool:
    """Whether round-off of the squared distances is nothing to an exponential."""
    size = float((U * U).sum(1).max() + (V * V).sum(1).max())
    return torch.finfo(U.dtype).eps * size < HARMLESS[np.dtype(np.float64)]


def _repaired(torch: Any, P: Any, left: Any, right: Any, U: Any, V: Any, exact: bool) -> Any:
    """Mend ``P = −‖u − v‖²`` in place where cancellation has spoiled it, as the CPU does (``CrossKernel._repair``)."""
    kind = np.dtype(str(P.dtype).removeprefix("torch."))
    size = -float(left.min() + right.min())
    if not np.isfinite(2 * size):
        raise ValueError("kernel values overflow on the device: standardise the features or choose a smaller gamma")
    if exact or torch.finfo(P.dtype).eps * size >= HARMLESS[kind]:
        share = (ROOTED if exact else CANCELLATION)[kind]
        spoiled = (share * (left[:, None] + right[None, :]) < P).nonzero()
        for part in spoiled.split(2**20):
            i, j = part.T
            P[i, j] = -((U[i] - V[j]) ** 2).sum(1)
        P.clamp_(max=0.0)
    return P


def _cross_kernel(accelerator: Accelerator, cross: CrossKernel, dtype: Any) -> TensorMap:
    torch, kernel, p = accelerator.torch, cross.kernel, cross.parameters
    if kernel is not None and kernel.embedding == "cityblock":
        right = (accelerator.tensor(cross.Z, dtype) * p.gamma).T.contiguous()[None]
        return lambda X: values(accelerator, kernel.name, (X.to(dtype) * p.gamma).T.contiguous()[None], right)[0]
    if kernel is None or kernel.embedding not in _EMBEDDED:
        return _from_host(accelerator, cross, dtype)
    Z = accelerator.tensor(cross.Z, dtype)
    finish = _FINISH[kernel.name]
    if kernel.embedding == "distance":
        centre, scale = accelerator.tensor(cross.centre, dtype), cross.scale
        V = (Z - centre) * scale
        right = torch.cat([2 * V, torch.ones_like(V[:, :1]), -(V * V).sum(1, keepdim=True)], dim=1).T.contiguous()

        tiles = None
        if dtype == torch.float64 and accelerator.is_gpu and kernel.name == "rbf":
            from ulmus.devices.iterative import FusedKernel, fusable

            tiles = FusedKernel(accelerator, cross) if fusable(accelerator, cross) else None

        def transform(X: Any) -> Any:
            U = (X.to(dtype) - centre) * scale
            if tiles is not None and _harmless(torch, U, V):
                return tiles.values(X)
            left = torch.cat([U, -(U * U).sum(1, keepdim=True), torch.ones_like(U[:, :1])], dim=1)
            P = _repaired(torch, left @ right, left[:, -2], right[-1], U, V, kernel.exact_distance)
            return finish(torch, P, p)

        return transform
    embed = _EMBEDDED[kernel.embedding]
    assert embed is not None
    B = embed(torch, Z, p, kernel.uses, False).T.contiguous()
    return lambda X: finish(torch, embed(torch, X.to(dtype), p, kernel.uses, True) @ B, p)


def _inner(torch: Any, X: Any, p: Any, uses: tuple[str, ...], left: bool) -> Any:
    return X * p.gamma if left and "gamma" in uses else X


def _angle(torch: Any, X: Any, p: Any, uses: tuple[str, ...], left: bool) -> Any:
    tiny = torch.finfo(X.dtype).tiny
    X = X / X.abs().amax(1, keepdim=True).clamp(min=tiny)
    return X / X.norm(dim=1, keepdim=True).clamp(min=tiny**0.5)


def _arc(torch: Any, X: Any, p: Any, uses: tuple[str, ...], left: bool) -> Any:
    U = X * p.gamma**0.5
    t = U.abs().amax(1, keepdim=True).clamp(min=1.0)
    U = torch.cat([U / t, 1.0 / t], dim=1)
    return U * (2.0 / (1.0 / t**2 + 2.0 * (U * U).sum(1, keepdim=True))).sqrt()


_EMBEDDED: dict[str, Any] = {"inner": _inner, "angle": _angle, "arc": _arc, "distance": None}


def _matern32(torch: Any, P: Any, p: Any) -> Any:
    r = P.abs_().sqrt_()  # round-off may have left a square below 0
    E = torch.exp(-r)
    return r.add_(1.0).mul_(E)


#: What a kernel makes of its inner products (or of minus the squared distances), in place.
_FINISH: dict[str, Callable[[Any, Any, Any], Any]] = {
    "linear": lambda torch, P, p: P,
    "cosine": lambda torch, P, p: P,
    "poly": lambda torch, P, p: P.add_(p.coef0).pow_(int(p.degree) if p.degree == int(p.degree) else p.degree),
    "sigmoid": lambda torch, P, p: P.add_(p.coef0).tanh_(),
    "arcsine": lambda torch, P, p: P.clamp_(-1, 1).asin_().mul_(2 / np.pi),
    "rbf": lambda torch, P, p: P.exp_(),
    "laplacian": lambda torch, P, p: P.neg_().sqrt_().neg_().exp_(),
    "matern32": _matern32,
    "distance": lambda torch, P, p: P.neg_().sqrt_(),
}


# Maps


def _nystrom(accelerator: Accelerator, features: NystromMap, dtype: Any) -> TensorMap:
    cross = map_on(accelerator, features.cross_kernel_, dtype)
    W = accelerator.tensor(features.whitening_, dtype)
    return whitened(accelerator, cross, W) if features.triangular else lambda X: cross(X) @ W


def whitened(accelerator: Accelerator, cross: TensorMap, R: Any) -> TensorMap:
    """``k_xz R⁻ᵀ``, for a lower triangular ``R`` on the device."""
    solve = accelerator.torch.linalg.solve_triangular
    return lambda X: solve(R.T, cross(X), upper=True, left=False)


def _random_layer(accelerator: Accelerator, layer: RandomLayer, dtype: Any) -> TensorMap:
    torch = accelerator.torch
    mean, unit = accelerator.tensor(layer.mean_, dtype), accelerator.tensor(layer.unit_, dtype)
    activation = ACTIVATIONS[layer.activation]
    activate = _ACTIVATE[activation.name]
    if activation.argument == "distance":
        distance = map_on(accelerator, layer.centre_distance_, dtype)
        factor = accelerator.tensor(layer.slope / layer.widths_, dtype)

        def nodes(X: Any) -> Any:
            return activate(torch, distance((X.to(dtype) - mean) * unit) * factor)
    else:
        W, b = accelerator.tensor(layer.weights_, dtype), accelerator.tensor(layer.centred_biases_, dtype)

        def nodes(X: Any) -> Any:
            return activate(torch, torch.addmm(b, X.to(dtype) - mean, W))

    def transform(X: Any) -> Any:
        H = nodes(X)
        if not bool(torch.isfinite(H.sum())) and not bool(torch.isfinite(H).all()):
            raise ValueError(
                f"hidden nodes overflow: the largest entry of the rows is {float(X.abs().max()):.3g}; "
                "standardise the features"
            )
        return torch.cat([(X.to(dtype) - mean) * unit, H], dim=1) if layer.direct_links else H

    return transform


def _mexican_hat(torch: Any, A: Any) -> Any:
    A = A.square_().clamp_(max=1e4)
    return (1 - A) * torch.exp(-0.5 * A)


#: The activations of :data:`ulmus.features.activations.ACTIVATIONS`, on tensors.
_ACTIVATE: dict[str, Callable[[Any, Any], Any]] = {
    "sigmoid": lambda torch, A: A.sigmoid_(),
    "tanh": lambda torch, A: A.tanh_(),
    "sine": lambda torch, A: A.sin_(),
    "cosine": lambda torch, A: A.cos_(),
    "hardlim": lambda torch, A: (A >= 0).to(A.dtype),
    "relu": lambda torch, A: A.relu_(),
    "softplus": lambda torch, A: torch.logaddexp(A, torch.zeros_like(A)),
    "mexican_hat": _mexican_hat,
    "identity": lambda torch, A: A,
    "gaussian": lambda torch, A: A.square_().neg_().exp_(),
    "multiquadric": lambda torch, A: A.square_().add_(1.0).sqrt_(),
}

FEATURE_MAPS: dict[type, Callable[[Accelerator, Any, Any], TensorMap]] = {
    CrossKernel: _cross_kernel,
    NystromMap: _nystrom,
    RandomLayer: _random_layer,
}

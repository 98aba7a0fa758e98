r"""Softmax and logistic regression with features and scores on the device (:mod:`ulmus.solvers.softmax`).

Features are evaluated once, whitened, and stay; weights, which are few, are on the CPU. A pass over the rows is two
products; the metric is summed over all rows and factored, with a factor for every class, on the device.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.devices.accelerator import Accelerator
from ulmus.devices.feature_maps import TensorMap
from ulmus.devices.log_loss import curvature, losses, proportions, turned
from ulmus.devices.tensors import DeviceRows, HostView, block_rows
from ulmus.engine import Precomputed
from ulmus.features.nystrom import NystromMap
from ulmus.solvers.log_loss import targets
from ulmus.solvers.log_metric import JITTER, MAX_JITTERS, NOTHING
from ulmus.solvers.softmax import LogProblem
from ulmus.tuning.log_held import posed

#: Features up to which a problem is left to the CPU.
SMALL = 2**21
#: Features from which on they are kept in single precision, as the CPU keeps them: a pass waits for memory.
MANY = 2**27
#: Share of the free memory that features in double precision may take, where they are asked for.
SHARE = 0.3
#: Passes over the rows in the time of a new metric.
METRIC_COST = 20.0


@dataclass(frozen=True)
class DeviceLogProblem(LogProblem):
    """A problem whose features are on the device."""

    accelerator: Any = None

    def objective(self, gram: Any = None) -> Any:
        """The objective, on the device."""
        return DeviceObjective(self, gram)


def log_problem(
    accelerator: Accelerator,
    transform: TensorMap,
    features: NystromMap,
    rows: DeviceRows,
    max_bytes: float,
    n_jobs: int | None,
    *,
    exact: bool = False,
) -> LogProblem:
    """The problem on features of the rows, evaluated once; ``exact`` ones are in double precision where they fit."""
    torch, n, L = accelerator.torch, len(rows), features.n_features_out
    if n * L <= SMALL:
        return posed(features, rows.rows, max_bytes, n_jobs)
    double = (exact or n * L <= MANY) and 8.0 * n * L <= SHARE * accelerator.free_bytes()
    accelerator.require(
        (8 if double else 4) * n * L + 2**31,
        f"the log loss with {L} features of {n} rows",
        'take effort="fast", loss="squared", or device="cpu"',
    )
    Phi = torch.empty((n, L), dtype=torch.float64 if double else torch.float32, device=accelerator.device)
    for piece, X, _, _ in rows.blocks(block_rows(L)):
        Phi[piece] = transform(X)
    X = HostView(Phi)
    return DeviceLogProblem(Precomputed(L), replace(rows.rows, X=X), 1.0, n_jobs=n_jobs, accelerator=accelerator)


class DeviceObjective:
    """The objective on features; vectors ``[β; b]`` are arrays, scores are tensors."""

    metric_cost = METRIC_COST
    is_large = False

    def __init__(self, problem: DeviceLogProblem, gram: Any = None) -> None:
        a, rows = problem.accelerator, problem.rows
        self.problem, self.accelerator, self.torch = problem, a, a.torch
        self.Phi, self.Y, self.w = rows.X.tensor, a.tensor(targets(rows.T)), a.tensor(problem.weight)
        self.offset = None if problem.offset is None else a.tensor(problem.offset)
        self.L, self.m = problem.features.n_features_out, rows.T.shape[1]
        self.size = self.L + problem.fit_intercept
        self.penalty = np.full(self.size, 1.0 / problem.C)
        self.penalty[self.L :] = 0.0
        self.gram = gram
        self.M: DeviceMetric | None = None
        self._at: tuple[Any, Any] | None = None
        if gram is not None:
            mean = (self.w @ self.Y) / self.w.sum()
            self._factor(mean.expand(self.Y.shape))

    def fetched(self, F: Any) -> np.ndarray:
        return np.asarray(self.accelerator.numpy(F))

    # passes over the rows

    def _image(self, v: np.ndarray) -> Any:
        """``Φβ + b``."""
        V = self.accelerator.tensor(v)
        out = (self.Phi @ V[: self.L].to(self.Phi.dtype)).double()
        return out + V[self.L] if self.problem.fit_intercept else out

    def _sum(self, E: Any) -> np.ndarray:
        """``[Φ 1]ᵀE``."""
        G = (self.Phi.T @ E.to(self.Phi.dtype)).double()
        if self.problem.fit_intercept:
            G = self.torch.cat([G, E.sum(0, keepdim=True)])
        return np.asarray(self.accelerator.numpy(G))

    def scores(self, v: np.ndarray) -> Any:
        F = self._image(v)
        return F if self.offset is None else F + self.offset

    def gradient(self, F: Any, v: np.ndarray) -> np.ndarray:
        return self._sum(self.pull(F)) + self.penalty[:, None] * v

    def curve(self, F: Any, d: np.ndarray) -> tuple[np.ndarray, Any]:
        if self._at is None or self._at[0] is not F:  # a direction takes many products at one point
            self._at = F, proportions(self.torch, F)
        image = self._image(d)
        return self._sum(self.w[:, None] * turned(self._at[1], image)) + self.penalty[:, None] * d, image

    # sums over the scores

    def loss(self, F: Any) -> float:
        return float(self.w @ losses(self.torch, self.Y, F))

    def pull(self, F: Any) -> Any:
        return (proportions(self.torch, F) - self.Y) * self.w[:, None]

    def slope(self, F: Any, shift: Any) -> float:
        return float((self.pull(F) * shift).sum())

    def inner(self, u: np.ndarray, v: np.ndarray) -> float:
        return float(self.penalty @ (u * v).sum(axis=1))

    def pair(self, g: np.ndarray, v: np.ndarray) -> float:
        return float(np.vdot(g, v))

    # the metric

    def finer(self) -> bool:
        return False

    def direction(self, g: np.ndarray) -> np.ndarray:
        assert self.M is not None
        return self.M.inverse(g)

    def metric(self, F: Any) -> None:
        P = proportions(self.torch, F)
        root = (self.w * curvature(P)).sqrt().to(self.Phi.dtype)[:, None]
        G = self.accelerator.tensor(self.torch.zeros((self.size, self.size)))
        for piece in engine.pieces(len(root), block_rows(2 * self.L)):
            V = self.Phi[piece] * root[piece]
            if self.problem.fit_intercept:
                V = self.torch.cat([V, root[piece]], dim=1)
            G += (V.T @ V).double()
        self.gram = G
        self._factor(P)

    def _factor(self, P: Any) -> None:
        assert self.gram is not None
        wP, total = self.w[:, None] * P, float(self.w @ curvature(P))
        S = wP.T @ (1.0 - P) if self.m == 1 else self.torch.diag(wP.sum(0)) - wP.T @ P
        S = np.asarray(self.accelerator.numpy(S))
        S = S / total if total > 0 else np.eye(self.m) / self.m
        self.M = DeviceMetric(self.accelerator, self.gram, S, self.penalty)


class DeviceMetric:
    """``S ⊗ G + diag(penalty)`` (:class:`ulmus.solvers.log_metric.KroneckerMetric`), all its inverses made at once."""

    def __init__(self, accelerator: Accelerator, G: Any, S: np.ndarray, penalty: np.ndarray) -> None:
        self.accelerator, torch = accelerator, accelerator.torch
        s, self.V = np.linalg.eigh(S)
        self.known = s > NOTHING * s[-1]
        self.free = np.where(penalty > 0, penalty, np.inf)[:, None]
        A = accelerator.tensor(s[self.known])[:, None, None] * G
        diagonal = A.diagonal(dim1=1, dim2=2)
        diagonal += accelerator.tensor(penalty)
        top = diagonal.amax(1, keepdim=True).clamp(min=1e-300)
        factors, info = torch.linalg.cholesky_ex(A)
        jitter = JITTER
        for _ in range(MAX_JITTERS):
            if not bool(info.any()):
                break
            diagonal += jitter * top
            factors, info = torch.linalg.cholesky_ex(A)
            jitter *= 10
        else:
            raise np.linalg.LinAlgError("the curvature of the loss has no Cholesky factor; are the features finite?")
        # a direction is asked for in every pass, and solves of one column hardly use the device: products do
        every = torch.eye(len(G), dtype=G.dtype, device=G.device).expand_as(A)
        self.inverses = torch.cholesky_solve(every, factors)

    def inverse(self, g: np.ndarray) -> np.ndarray:
        r = g @ self.V
        known = self.accelerator.tensor(np.ascontiguousarray(r.T[self.known]))[:, :, None]
        solved = self.accelerator.numpy((self.inverses @ known)[:, :, 0])
        r[:, self.known], r[:, ~self.known] = solved.T, r[:, ~self.known] / self.free
        return np.asarray(r @ self.V.T)

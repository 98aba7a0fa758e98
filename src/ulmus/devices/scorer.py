"""Scoring every C on the device: the path of ridge solutions, and predictions of rows that models did not see."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ulmus import engine
from ulmus.devices.tensors import block_rows
from ulmus.engine import Rows
from ulmus.features.kernels import dense
from ulmus.solvers.path import Spectrum
from ulmus.solvers.ridge import leave_out
from ulmus.tuning import GCV, Scorer


class TensorPath:
    """Ridge solutions for every C from one decomposition (:class:`ulmus.solvers.path.RidgePath`), on the device."""

    def __init__(self, stats: Any, fit_intercept: bool) -> None:
        self.accelerator, self.fit_intercept = stats.accelerator, fit_intercept
        torch = self.accelerator.torch
        used, self.centre, self.target_mean = stats.about_means(fit_intercept)
        self.constant = 1.0 / stats.weight if fit_intercept else 0.0
        s, self.U = torch.linalg.eigh(used.gram)
        self.s = s.clamp(min=0.0)
        self.Z = self.U.T @ used.cross
        self.total = stats.weight
        self.target_square = self.accelerator.numpy(used.target.diagonal().contiguous())

    @property
    def spectrum(self) -> Spectrum:
        """The eigenvalues in NumPy."""
        a = self.accelerator
        return Spectrum(
            a.numpy(self.s), a.numpy(self.Z), self.target_square, self.total, fit_intercept=self.fit_intercept
        )

    def predictions(self, Phi: Any, C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Fitted values ``[C, row, output]`` and leverages ``[C, row]``."""
        a = self.accelerator
        A = (Phi - self.centre) @ self.U
        shrink = 1.0 / (self.s[:, None] + a.tensor(1.0 / np.asarray(C, dtype=float))[None, :])
        shrunk = (self.Z[:, None, :] * shrink[:, :, None]).reshape(len(self.s), -1)
        fitted = (A @ shrunk).reshape(len(A), len(C), -1).permute(1, 0, 2) + self.target_mean
        return a.numpy(fitted.contiguous()), a.numpy((A.square_() @ shrink).T.contiguous()) + self.constant


@dataclass(frozen=True)
class DeviceScorer(Scorer):
    """A scorer whose paths and held-out predictions are computed on the device."""

    driver: Any = field(default=None, repr=False)

    def by_factors(self, size: int) -> bool:
        """A decomposition is quick here."""
        return False

    def _paths(self, summary: Any, size: int) -> Any:
        trained = [summary.total - part for part in summary.folds] or [summary.total]
        return [TensorPath(stats.prefix(size), self.fit_intercept) for stats in trained]

    def precomputed(self, features: Any, *, raw: bool = False, stay: bool = False) -> tuple["DeviceScorer", Any]:
        """Features are cheap here, and sending them is not: rows stay rows."""
        return self, features

    def _row_losses(self, asked: Any, features: Any) -> list[np.ndarray]:
        if self.criterion == GCV:
            return [self._gcv(surface.paths[0].spectrum, 2.0**more) for surface, more in asked]
        index, most = self.scored_rows, max(len(more) for _, more in asked)
        out = [np.empty((len(more), len(index))) for _, more in asked]
        transform, a = self.driver.feature_map(features), self.driver.accelerator
        for piece in engine.pieces(len(index), block_rows(max(features.n_features_out, most * self.rows.T.shape[1]))):
            chosen = index[piece]
            rows = self.rows.take(chosen)
            Phi = transform(a.torch.from_numpy(np.ascontiguousarray(dense(rows.X, np.float64))).to(a.device))
            for losses, (surface, more) in zip(out, asked, strict=True):
                if len(more):
                    P = self._held_out_there(surface.paths, Phi[:, : surface.size], rows, chosen, 2.0**more)
                    losses[:, piece] = self.coding.losses(rows.T, P, self.criterion)
        return out

    def _held_out_there(self, paths: Any, Phi: Any, rows: Rows, chosen: np.ndarray, C: np.ndarray) -> np.ndarray:
        """Predictions ``[C, row, output]`` of rows by models that did not see them."""
        if self.folds is None:
            fitted, h = paths[0].predictions(Phi, C)
            return leave_out(rows.T, rows.T - fitted, 1.0 - (h if rows.unit is None else rows.unit * h))
        P = np.empty((len(C), *rows.T.shape))
        a = self.driver.accelerator
        for k in np.unique(self.folds[chosen]):
            tested = np.flatnonzero(self.folds[chosen] == k)
            P[:, tested] = paths[k].predictions(Phi[a.tensor(tested, a.torch.int64)], C)[0]
        return P

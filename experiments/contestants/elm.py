"""What a user could pick instead; where a package cannot be imported, its algebra, labelled as such."""

import io
import warnings
from contextlib import redirect_stdout
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack
from scipy.special import expit
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from ulmus import RandomLayer


def nystroem_ridge(n_landmarks: int, gamma: float, C: float) -> Any:
    """scikit-learn's way to what NKELM computes."""
    return make_pipeline(
        Nystroem(gamma=gamma, n_components=n_landmarks, random_state=0),
        Ridge(alpha=1 / C, fit_intercept=False, solver="cholesky"),
    )


class OnLayer:
    """Sigmoid nodes with given weights, ``H = g(XW + b)``, and output weights ``beta``."""

    def __init__(self, layer: RandomLayer) -> None:
        self.W, self.b = layer.weights_, layer.biases_

    def hidden(self, X: np.ndarray) -> np.ndarray:
        return expit(X @ self.W + self.b)


class Pinv(OnLayer):
    """What GFDL computes without a ridge: ``pinv(H) @ T``, with its cut of singular values."""

    name = "NumPy pinv(H) @ T (GFDL's algebra)"

    def fit(self, X: np.ndarray, T: np.ndarray) -> "Pinv":
        self.beta = np.linalg.pinv(self.hidden(X), rtol=None) @ T  # type: ignore[call-overload]
        return self


class Gfdl:
    """GFDL itself; it draws its own weights."""

    name = "GFDL"

    def __init__(self, layer: RandomLayer) -> None:
        from gfdl.model import GFDLRegressor

        self.model = GFDLRegressor((layer.n_hidden,), activation="sigmoid", direct_links=False, seed=0)

    def fit(self, X: np.ndarray, T: np.ndarray) -> "Gfdl":
        self.model.fit(X, T)
        self.beta = self.model.coeff_.reshape(-1, T.shape[1])
        return self

    def hidden(self, X: np.ndarray) -> np.ndarray:
        return expit(X @ self.model.W_[0].T + self.model.b_[0])


class SyrkCholesky(OnLayer):
    """What hpelm computes: batches of 1000 rows into ``HᵀH`` by syrk, 50 eps on the diagonal, Cholesky."""

    name = "syrk + Cholesky (hpelm's algebra)"
    batch = 1000

    def fit(self, X: np.ndarray, T: np.ndarray) -> "SyrkCholesky":
        L = len(self.b)
        G = np.asfortranarray(50 * np.finfo(float).eps * np.eye(L))
        B = np.zeros((L, T.shape[1]))
        for start in range(0, len(X), self.batch):
            rows = slice(start, start + self.batch)
            H = self.hidden(X[rows])
            G = blas.dsyrk(1.0, H.T, 1.0, G, overwrite_c=1)
            B += H.T @ T[rows]
        _, self.beta, info = lapack.dposv(G, B)
        if info:
            self.beta = np.linalg.lstsq(np.triu(G) + np.triu(G, 1).T, B, rcond=None)[0]
        return self


class Hpelm(OnLayer):
    """hpelm itself, given the same weights (its sigmoid is ``1/(1 + exp(XW + b))``, hence the signs)."""

    name = "hpelm"

    def __init__(self, layer: RandomLayer) -> None:
        from hpelm import ELM

        super().__init__(layer)
        self.ELM = ELM

    def fit(self, X: np.ndarray, T: np.ndarray) -> "Hpelm":
        model = self.ELM(X.shape[1], T.shape[1])
        model.add_neurons(len(self.b), "sigm", -self.W, -self.b)
        with redirect_stdout(io.StringIO()) as said:
            model.train(X, T, "r")
        if said.getvalue():
            warnings.warn(said.getvalue(), stacklevel=2)
        self.beta = model.nnet.get_B()
        return self


#: (package, its wrapper, what stands in for it).
ELM_RIVALS: tuple[tuple[str, Any, Any], ...] = (("gfdl", Gfdl, Pinv), ("hpelm", Hpelm, SyrkCholesky))


def elm_rivals(layer: RandomLayer) -> tuple[list[Any], list[str]]:
    """The rivals of ELM that can be had here, and a sentence for each that cannot."""
    rivals, missing = [], []
    for package, wrapper, stand_in in ELM_RIVALS:
        try:
            rivals.append(wrapper(layer))
        except ImportError as error:
            rivals.append(stand_in(layer))
            missing.append(f"{package} cannot be imported here ({error}); {stand_in.name} of the same size stands in.")
    return rivals, missing

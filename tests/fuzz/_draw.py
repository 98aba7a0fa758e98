"""Drawn problems, and how far an answer may be from the exact one.

The rule of the tolerance: **an answer may miss the exact one by what the exact one moves when its inputs move by their
round-off**, times a factor that grows with the number of operations (:data:`SLACK`), and by what the library says that
it leaves, :data:`PROMISE` of the fitted values' size. Sums of squares may cost as many digits as round-off times the
condition number κ of the normal equations, while that is below :data:`CORRECTED`: beyond it they are corrected.

For a ridge model an error of the weights that is a share s of the fitted values' size ‖√w T‖ moves a prediction by no
more than s √h(x) ‖√w T‖, with the leverage h (Cauchy and Schwarz). So the shares above are multiplied by that.
"""

from dataclasses import dataclass, replace

import mpmath
import numpy as np
from scipy import sparse

from ._exact import exactly, rounded

EPS = float(np.finfo(float).eps)
EPS32 = float(np.finfo(np.float32).eps)
SLACK = 8.0
#: What corrections leave of the fitted values' size; weights that are folded into kernel values add as much.
PROMISE = 2e-9
CORRECTED = 1e-6


@dataclass
class Case:
    """Inputs, targets, weights (or None) and queries, with words that describe them."""

    X: np.ndarray
    T: np.ndarray
    w: np.ndarray | None
    Q: np.ndarray
    unit: float
    words: str

    @property
    def y(self):
        return self.T[:, 0] if self.T.shape[1] == 1 else self.T

    @property
    def weight(self):
        return np.ones(len(self.X)) if self.w is None else self.w

    @property
    def fitted_size(self):
        """‖√w T‖, per output."""
        return np.sqrt((self.weight[:, None] * self.T**2).sum(axis=0))


def problem(rng, *, rows=(4, 36), columns=(1, 5), outputs=2, units=8.0, copies=True):
    """Rows of any size and unit, with constant and repeated columns, repeated rows, outliers and weights."""
    n, m, s = int(rng.integers(*rows)), int(rng.integers(*columns)), int(rng.integers(1, outputs + 1))
    X = rng.normal(size=(n + 5, m))
    words = [f"{n} rows, {m} columns, {s} outputs"]

    def sometimes(p, text):
        if rng.random() < p:
            words.append(text)
            return True
        return False

    if sometimes(0.2, "levels"):
        X = np.round(X)
    if copies and sometimes(0.2, "repeated rows"):
        X[rng.integers(n, size=n // 3)] = X[rng.integers(n, size=n // 3)]
    if m > 1 and sometimes(0.15, "a repeated column"):
        X[:, 1] = X[:, 0]
    if m > 1 and sometimes(0.15, "a constant column"):
        X[:, -1] = rng.normal()
    if sometimes(0.2, "columns of other sizes"):
        X *= 10.0 ** rng.uniform(-3, 3, size=m)
    if sometimes(0.3, "far from 0"):
        X += 10.0 ** rng.uniform(0, 4) * np.abs(X).max()
    unit = 10.0 ** rng.uniform(-units, units) if sometimes(0.4, "other units") else 1.0
    X *= unit
    T = np.column_stack([np.sin(X[:, 0] / unit) + 0.3 * rng.normal(size=n + 5) for _ in range(s)])
    if sometimes(0.2, "an outlier"):
        T[0] += 100.0
    if sometimes(0.3, "targets far from 0"):
        T += 10.0 ** rng.uniform(0, 4)
    T *= 10.0 ** rng.uniform(-units, units) if sometimes(0.4, "targets in other units") else 1.0
    w = None
    if sometimes(0.2, "weights of other sizes"):
        w = 10.0 ** rng.uniform(-4, 4, size=n)
    elif sometimes(0.3, "weights"):
        w = rng.integers(1, 4, size=n).astype(float)
    return Case(X[:n], T[:n], w, X[n:], unit, ", ".join(words))


def as_given(rng, X):
    """Rows as an array, sometimes as CSR; the same numbers."""
    return sparse.csr_array(X) if rng.random() < 0.25 else X


def nudged(rng, A, eps, axis=0):
    """``A`` moved by round-off: each entry by ``eps`` of the largest of its column (``axis=None``: of its own)."""
    size = np.abs(A) if axis is None else np.abs(A).max(axis=axis, keepdims=True, initial=0.0)
    return A + eps * rng.uniform(-1, 1, size=A.shape) * size


def nudged_exactly(rng, A, eps, axis=0):
    """The same for exact numbers, which keep what the floats would lose."""
    size = np.abs(rounded(A)) if axis is None else np.abs(rounded(A)).max(axis=axis, keepdims=True, initial=0.0)
    return A + exactly(rng.uniform(-1, 1, size=A.shape) * size)[0] * mpmath.mpf(eps)


def moved(answer, inputs, nudge, times=2):
    """The exact answer (arrays), and how far it moves when its inputs do, in ``times`` draws."""
    found = answer(*inputs)
    far = [np.zeros(np.shape(a)) for a in found]
    for _ in range(times):
        other = answer(*nudge(*inputs))
        far = [np.maximum(f, np.abs(rounded(b - a))) for f, a, b in zip(far, found, other)]
    return [rounded(a) for a in found], far


def left_out_residuals(model):
    """Studentised residuals of rows left out, in order, by all of their variances: intervals may believe a part."""
    return np.sort(replace(model.spread_.rows, share=1.0).studentised, axis=0)


def compare(what, given, exact, allowed, words):
    """Assert entrywise agreement."""
    given, exact, allowed = np.broadcast_arrays(np.asarray(given, float), exact, allowed)
    assert np.isfinite(given).all(), f"{what} is not finite: {given[~np.isfinite(given)][:3]} for {words}"
    worse = np.abs(given - exact) - allowed
    if (worse > 0).any():
        at = np.unravel_index(np.argmax(np.abs(given - exact) / np.maximum(allowed, 1e-300)), given.shape)
        raise AssertionError(
            f"{what} is {given[at]!r}, exactly {exact[at]!r}: off by {abs(given[at] - exact[at]):.2e}, allowed "
            f"{allowed[at]:.2e}, at {tuple(int(i) for i in at)}; {words}"
        )

"""Distances that are no product of matrices: compiled where they can be, by SciPy elsewhere, to the same bits."""

import numpy as np
from scipy.spatial.distance import cdist

from ulmus._compiled import core


def cityblock(X: np.ndarray, Z: np.ndarray, out: np.ndarray) -> None:
    """Write ``Σ_j |x_j − z_j|`` of all rows of ``X`` and ``Z``, in double precision, into ``out``."""
    exact = out if out.dtype == np.float64 and out.flags.c_contiguous else np.empty(out.shape)
    if core is None:
        cdist(X, Z, "cityblock", out=exact)
    else:
        core.cityblock(*(np.ascontiguousarray(each, dtype=np.float64) for each in (X, Z)), exact)
    if exact is not out:
        out[:] = exact

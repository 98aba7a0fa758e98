"""Models and solvers agree with multiple precision and with scikit-learn, to what conditioning allows.

The rule of the tolerances is in :mod:`._draw`: an answer may miss the exact one by what that moves when its inputs move
by round-off, and by what the library promises.
"""

import mpmath
import numpy as np

from . import _kernels, _linear, _newton, _sklearn
from ._exact import DIGITS

KINDS = (
    *(_linear.ridge, _linear.elm, _linear.recursion),
    *(_kernels.kernel, _kernels.kelm, _kernels.nkelm),
    *(_newton.robust, _newton.logistic, _newton.ordinal, _newton.enda),
    *(_sklearn.kernel_ridge, _sklearn.nystroem, _sklearn.ridge_on_features, _sklearn.logistic_regression),
)


def check(seed):
    rng = np.random.default_rng(seed)
    kind = KINDS[int(rng.integers(len(KINDS)))]
    with mpmath.workdps(DIGITS):
        return kind(rng)

r"""How much of the variances that C stands for the errors of rows left out bear out.

A model is the mean of a Gaussian process whose prior is C times as wide as the noise. Under a C that was given, and is
orders too large, rows far from landmarks and from others would have errors of that size, and have not. Intervals
therefore take :math:`1 + \lambda v` for :math:`1 + v`, :math:`v = h_- + C r`, with the largest λ that the errors do not
refute. They are taken for those of a Laplace law of scale :math:`s\sqrt{1 + \lambda v}`, whose likelihood is

.. math:: \ell(\lambda) = -\sum w \log\sum w\frac{|e|}{\sqrt{1 + \lambda v}} - \tfrac12\sum w\log(1 + \lambda v),

and refuted is what is less likely than the best by four deviations, :math:`\ell(\lambda) < \max\ell - 4^2/2`.
"""

import numpy as np

from ulmus.calibration.held_out import HeldOut

SHARES = 16.0 ** -np.arange(11.0)
EVIDENCE = 8.0


def share_borne_out(held_out: HeldOut, weight: np.ndarray) -> np.ndarray:
    """λ of every output; errors count with ``weight[row, output]``."""
    error = np.abs(held_out.T - held_out.P)
    variance = np.broadcast_to(held_out.variance.reshape(len(error), -1), error.shape)
    return np.array([_share(*columns) for columns in zip(error.T, variance.T, weight.T, strict=True)])


def _share(e: np.ndarray, v: np.ndarray, w: np.ndarray) -> float:
    if not e.any() or not v.any():
        return 1.0
    e = e / e.max()
    deviation = np.sqrt(1.0 + SHARES[:, None] * v)
    likelihood = -w.sum() * np.log((e / deviation) @ w) - np.log(deviation) @ w
    return float(SHARES[np.argmax(likelihood >= likelihood.max() - EVIDENCE)])

"""What an adaptive model has fitted in its view: a global model, a local stage, and answers of rows held out."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ulmus.calibration import HeldOut
from ulmus.features.nystrom import NystromMap
from ulmus.solvers.local import LocalKernels


@dataclass(frozen=True)
class Stages:
    """Landmarks, C, weights and constants of the global model, the local stage, and predictions of rows left out."""

    landmark_map: NystromMap
    C: float
    beta: np.ndarray
    intercept: np.ndarray
    local: LocalKernels | None
    held_out: HeldOut
    leverage: Any = None

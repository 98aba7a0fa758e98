"""Probabilities and intervals from predictions of rows by models that did not see them."""

from ulmus.calibration.decisions import decide
from ulmus.calibration.distribution import PredictiveDistribution
from ulmus.calibration.held_out import (
    CALIBRATION_ROWS,
    LEAST_REMAINDER,
    FoldModels,
    FoldWeights,
    HeldOut,
    calibration_sample,
    fold_sample,
    leave_one_out,
    leave_one_out_sample,
    parts_of_few,
    refitted,
    residual_kernel,
    variance_terms,
)
from ulmus.calibration.intervals import IntervalRequest, New, RobustSpread, Spread
from ulmus.calibration.jackknife import FoldLeaning, MapLeaning
from ulmus.calibration.scale import Scale
from ulmus.calibration.sets import LabelScores
from ulmus.calibration.temperature import (
    LogOdds,
    LogScores,
    Temperature,
    checked_floor,
    fit_temperature,
    probabilities,
)

__all__ = [
    "CALIBRATION_ROWS",
    "LEAST_REMAINDER",
    "FoldLeaning",
    "FoldModels",
    "FoldWeights",
    "HeldOut",
    "IntervalRequest",
    "LabelScores",
    "LogOdds",
    "LogScores",
    "MapLeaning",
    "New",
    "PredictiveDistribution",
    "RobustSpread",
    "Scale",
    "Spread",
    "Temperature",
    "calibration_sample",
    "checked_floor",
    "decide",
    "fit_temperature",
    "fold_sample",
    "leave_one_out",
    "leave_one_out_sample",
    "parts_of_few",
    "probabilities",
    "refitted",
    "residual_kernel",
    "variance_terms",
]

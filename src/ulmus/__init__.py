"""Extreme learning machines: non-linear models for tables whose weights are one closed-form solve."""

from ulmus import datasets
from ulmus.exceptions import NumericalWarning
from ulmus.features.nystrom import NystromMap
from ulmus.features.random_layer import RandomLayer
from ulmus.models.elm import ELMClassifier, ELMRegressor
from ulmus.models.kelm import KELMClassifier, KELMRegressor
from ulmus.models.nkelm import NKELMClassifier, NKELMRegressor
from ulmus.models.robust import RobustELMRegressor, RobustNKELMRegressor
from ulmus.plots import ResidualsDisplay, TuningDisplay

__version__ = "0.1.0"

__all__ = [
    "ELMClassifier",
    "ELMRegressor",
    "KELMClassifier",
    "KELMRegressor",
    "NKELMClassifier",
    "NKELMRegressor",
    "NumericalWarning",
    "NystromMap",
    "RandomLayer",
    "ResidualsDisplay",
    "RobustELMRegressor",
    "RobustNKELMRegressor",
    "TuningDisplay",
    "datasets",
]

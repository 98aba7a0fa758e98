"""Extreme learning machines: non-linear models for tables whose weights are one closed-form solve."""

from ulmus import datasets, metrics
from ulmus.exceptions import NumericalWarning
from ulmus.features.nystrom import NystromMap
from ulmus.features.random_layer import RandomLayer
from ulmus.models.elm import ELMClassifier, ELMRegressor
from ulmus.models.kelm import KELMClassifier, KELMRegressor
from ulmus.models.nkelm import NKELMClassifier, NKELMRegressor
from ulmus.models.online import OSELMClassifier, OSELMRegressor
from ulmus.models.online_ordinal import OSELMOrdinalClassifier
from ulmus.models.ordinal import ELMOrdinalClassifier, KELMOrdinalClassifier, NKELMOrdinalClassifier
from ulmus.plots import TuningDisplay

__version__ = "0.1.0"

__all__ = [
    "ELMClassifier",
    "ELMOrdinalClassifier",
    "ELMRegressor",
    "KELMClassifier",
    "KELMOrdinalClassifier",
    "KELMRegressor",
    "NKELMClassifier",
    "NKELMOrdinalClassifier",
    "NKELMRegressor",
    "NumericalWarning",
    "NystromMap",
    "OSELMClassifier",
    "OSELMOrdinalClassifier",
    "OSELMRegressor",
    "RandomLayer",
    "TuningDisplay",
    "datasets",
    "metrics",
]

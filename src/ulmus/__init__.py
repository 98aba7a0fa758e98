"""Extreme learning machines: non-linear models for tables whose weights are one closed-form solve."""

from ulmus import datasets, metrics, onnx
from ulmus.exceptions import NumericalWarning
from ulmus.features.nystrom import NystromMap
from ulmus.features.random_layer import RandomLayer
from ulmus.models.elm import ELMClassifier, ELMRegressor
from ulmus.models.enda import ENDA
from ulmus.models.enda_ensemble import ENDAEnsemble
from ulmus.models.kelm import KELMClassifier, KELMRegressor
from ulmus.models.klda import KLDA
from ulmus.models.nkelm import NKELMClassifier, NKELMRegressor
from ulmus.models.nnda import NNDA
from ulmus.models.ordinal import ELMOrdinalClassifier, KELMOrdinalClassifier, NKELMOrdinalClassifier
from ulmus.persistence import LoadError, load, save
from ulmus.plots import TuningDisplay
from ulmus.report import report

__version__ = "0.1.0"

__all__ = [
    "ENDA",
    "KLDA",
    "NNDA",
    "ELMClassifier",
    "ELMOrdinalClassifier",
    "ELMRegressor",
    "ENDAEnsemble",
    "KELMClassifier",
    "KELMOrdinalClassifier",
    "KELMRegressor",
    "LoadError",
    "NKELMClassifier",
    "NKELMOrdinalClassifier",
    "NKELMRegressor",
    "NumericalWarning",
    "NystromMap",
    "RandomLayer",
    "TuningDisplay",
    "datasets",
    "load",
    "metrics",
    "onnx",
    "report",
    "save",
]

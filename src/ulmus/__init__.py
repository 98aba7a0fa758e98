"""Extreme learning machines: non-linear models for tables whose weights are one closed-form solve."""

from importlib import import_module
from types import ModuleType

from ulmus import datasets, metrics, onnx
from ulmus.exceptions import NumericalWarning
from ulmus.features.nystrom import NystromMap
from ulmus.features.random_layer import RandomLayer
from ulmus.models.adaptive import AdaptiveClassifier, AdaptiveRegressor
from ulmus.models.adaptive_ordinal import AdaptiveOrdinalClassifier
from ulmus.models.elm import ELMClassifier, ELMRegressor
from ulmus.models.enda import ENDA
from ulmus.models.enda_ensemble import ENDAEnsemble
from ulmus.models.kelm import KELMClassifier, KELMRegressor
from ulmus.models.klda import KLDA
from ulmus.models.learned_metric import LearnedMetric
from ulmus.models.nkelm import NKELMClassifier, NKELMRegressor
from ulmus.models.nnda import NNDA
from ulmus.models.online import OSELMClassifier, OSELMRegressor
from ulmus.models.online_ordinal import OSELMOrdinalClassifier
from ulmus.models.ordinal import ELMOrdinalClassifier, KELMOrdinalClassifier, NKELMOrdinalClassifier
from ulmus.models.robust import RobustELMRegressor, RobustNKELMRegressor
from ulmus.persistence import LoadError, load, save
from ulmus.plots import ProjectionDisplay, ResidualsDisplay, TuningDisplay
from ulmus.report import report

__version__ = "0.1.0"

__all__ = [
    "ENDA",
    "KLDA",
    "NNDA",
    "AdaptiveClassifier",
    "AdaptiveOrdinalClassifier",
    "AdaptiveRegressor",
    "ELMClassifier",
    "ELMOrdinalClassifier",
    "ELMRegressor",
    "ENDAEnsemble",
    "KELMClassifier",
    "KELMOrdinalClassifier",
    "KELMRegressor",
    "LearnedMetric",
    "LoadError",
    "NKELMClassifier",
    "NKELMOrdinalClassifier",
    "NKELMRegressor",
    "NumericalWarning",
    "NystromMap",
    "OSELMClassifier",
    "OSELMOrdinalClassifier",
    "OSELMRegressor",
    "ProjectionDisplay",
    "RandomLayer",
    "ResidualsDisplay",
    "RobustELMRegressor",
    "RobustNKELMRegressor",
    "TuningDisplay",
    "datasets",
    "distributed",
    "load",
    "metrics",
    "onnx",
    "report",
    "save",
    "streaming",
]


def __getattr__(name: str) -> ModuleType:
    """The drivers, loaded when they are first named."""
    if name in ("distributed", "streaming"):
        return import_module(f"ulmus.{name}")
    raise AttributeError(f"module 'ulmus' has no attribute {name!r}")

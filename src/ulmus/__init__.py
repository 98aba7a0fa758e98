"""Extreme learning machines: non-linear models for tables whose weights are one closed-form solve."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ulmus.report import report

if TYPE_CHECKING:  # what is loaded when it is first named: the same names as in HOMES
    from ulmus import datasets, distributed, explain, metrics, onnx, streaming
    from ulmus.exceptions import (
        DataWarning,
        DateWarning,
        DriftWarning,
        DuplicateWarning,
        LeakWarning,
        LeftOutWarning,
        NumericalWarning,
        PartWarning,
        PlaceholderWarning,
        ScaleWarning,
        SpellingWarning,
        UnansweredWarning,
        UnreadableWarning,
        UnseenLevelWarning,
    )
    from ulmus.features.examine import TableCheck, check_table
    from ulmus.features.nystrom import NystromMap
    from ulmus.features.random_layer import RandomLayer
    from ulmus.features.table_encoder import TableEncoder
    from ulmus.models.adaptive import AdaptiveClassifier, AdaptiveOrdinalClassifier, AdaptiveRegressor
    from ulmus.models.elm import ELMClassifier, ELMRegressor
    from ulmus.models.enda import ENDA
    from ulmus.models.enda_ensemble import ENDAEnsemble
    from ulmus.models.kelm import KELMClassifier, KELMRegressor
    from ulmus.models.klda import KLDA
    from ulmus.models.learned_metric import LearnedMetric
    from ulmus.models.nkelm import NKELMClassifier, NKELMRegressor
    from ulmus.models.nnda import NNDA
    from ulmus.models.online import OSELMClassifier, OSELMOrdinalClassifier, OSELMRegressor
    from ulmus.models.ordinal import ELMOrdinalClassifier, KELMOrdinalClassifier, NKELMOrdinalClassifier
    from ulmus.models.robust_elm import RobustELMRegressor, RobustNKELMRegressor
    from ulmus.persistence import LoadError, load, save
    from ulmus.plots import (
        BeeswarmDisplay,
        EffectsDisplay,
        ProjectionDisplay,
        ResidualsDisplay,
        TuningDisplay,
        WaterfallDisplay,
    )

__version__ = "0.2.0"

__all__ = [
    "ENDA",
    "KLDA",
    "NNDA",
    "AdaptiveClassifier",
    "AdaptiveOrdinalClassifier",
    "AdaptiveRegressor",
    "BeeswarmDisplay",
    "DataWarning",
    "DateWarning",
    "DriftWarning",
    "DuplicateWarning",
    "ELMClassifier",
    "ELMOrdinalClassifier",
    "ELMRegressor",
    "ENDAEnsemble",
    "EffectsDisplay",
    "KELMClassifier",
    "KELMOrdinalClassifier",
    "KELMRegressor",
    "LeakWarning",
    "LearnedMetric",
    "LeftOutWarning",
    "LoadError",
    "NKELMClassifier",
    "NKELMOrdinalClassifier",
    "NKELMRegressor",
    "NumericalWarning",
    "NystromMap",
    "OSELMClassifier",
    "OSELMOrdinalClassifier",
    "OSELMRegressor",
    "PartWarning",
    "PlaceholderWarning",
    "ProjectionDisplay",
    "RandomLayer",
    "ResidualsDisplay",
    "RobustELMRegressor",
    "RobustNKELMRegressor",
    "ScaleWarning",
    "SpellingWarning",
    "TableCheck",
    "TableEncoder",
    "TuningDisplay",
    "UnansweredWarning",
    "UnreadableWarning",
    "UnseenLevelWarning",
    "WaterfallDisplay",
    "check_table",
    "datasets",
    "distributed",
    "explain",
    "load",
    "metrics",
    "onnx",
    "report",
    "save",
    "streaming",
]

#: Module → the public names that live there.
HOMES = {
    "ulmus.exceptions": (
        "DataWarning",
        "DateWarning",
        "DriftWarning",
        "DuplicateWarning",
        "LeakWarning",
        "LeftOutWarning",
        "NumericalWarning",
        "PartWarning",
        "PlaceholderWarning",
        "ScaleWarning",
        "SpellingWarning",
        "UnansweredWarning",
        "UnreadableWarning",
        "UnseenLevelWarning",
    ),
    "ulmus.features.examine": ("TableCheck", "check_table"),
    "ulmus.features.nystrom": ("NystromMap",),
    "ulmus.features.random_layer": ("RandomLayer",),
    "ulmus.features.table_encoder": ("TableEncoder",),
    "ulmus.models.adaptive": (
        "AdaptiveClassifier",
        "AdaptiveOrdinalClassifier",
        "AdaptiveRegressor",
    ),
    "ulmus.models.elm": (
        "ELMClassifier",
        "ELMRegressor",
    ),
    "ulmus.models.enda": ("ENDA",),
    "ulmus.models.enda_ensemble": ("ENDAEnsemble",),
    "ulmus.models.kelm": (
        "KELMClassifier",
        "KELMRegressor",
    ),
    "ulmus.models.klda": ("KLDA",),
    "ulmus.models.learned_metric": ("LearnedMetric",),
    "ulmus.models.nkelm": (
        "NKELMClassifier",
        "NKELMRegressor",
    ),
    "ulmus.models.nnda": ("NNDA",),
    "ulmus.models.online": (
        "OSELMClassifier",
        "OSELMOrdinalClassifier",
        "OSELMRegressor",
    ),
    "ulmus.models.ordinal": (
        "ELMOrdinalClassifier",
        "KELMOrdinalClassifier",
        "NKELMOrdinalClassifier",
    ),
    "ulmus.models.robust_elm": (
        "RobustELMRegressor",
        "RobustNKELMRegressor",
    ),
    "ulmus.persistence": (
        "LoadError",
        "load",
        "save",
    ),
    "ulmus.plots": (
        "BeeswarmDisplay",
        "EffectsDisplay",
        "ProjectionDisplay",
        "ResidualsDisplay",
        "TuningDisplay",
        "WaterfallDisplay",
    ),
}
_HOME = {name: module for module, names in HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Public names and modules, loaded when they are first named."""
    if name in _HOME:
        found = getattr(import_module(_HOME[name]), name)
        globals()[name] = found
        return found
    if not name.startswith("_") and find_spec(f"ulmus.{name}") is not None:
        return import_module(f"ulmus.{name}")
    raise AttributeError(f"module 'ulmus' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What users call, and no name that this file needs for itself."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])

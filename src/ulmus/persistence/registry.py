"""What may stand in a file: an explicit table of classes and of named objects. Everything else is refused.

A class is written by the state of its instances, and comes back without its constructor being run; one that defines
``__reduce__`` as ``(class, arguments)`` is built from its arguments. A new model is a new line here.
"""

from functools import cache
from importlib import import_module
from typing import Any

_OURS = {
    "calibration": "FoldWeights HeldOut LabelScores LogOdds LogScores RobustSpread Spread Temperature",
    "calibration.curves": "Curves",
    "calibration.labels": "LabelTemperatures",
    "codings": "Numbers OneVsAll Ordered",
    "engine": "Rows",
    "features.columns": "Reader",
    "features.cuts": "Cuts",
    "features.kernels": "CrossKernel KernelParameters",
    "features.nystrom": "NystromMap",
    "features.partition": "Partition",
    "features.preparation": "Columns Gaps Preparation",
    "features.random_layer": "RandomLayer",
    "features.table_encoder": "TableEncoder",
    "features.text": "TextFeatures",
    "features.written": "Kind",
    "labels": "SeveralLabels",
    "models._heads": "Means Neighbours",
    "models._references": "References",
    "models.adaptive": "AdaptiveClassifier AdaptiveRegressor",
    "models.adaptive_fit": "AdaptiveFit TableColumns",
    "models.elm": "ELMClassifier ELMRegressor",
    "models.enda": "ENDA",
    "models.choice": "Choice",
    "models.fitted": "Fitted KernelFit Learned NystromFit RandomFit RobustFit",
    "models.discriminant_fit": "HeadFit Indicators KernelProjection MapProjection NetworkProjection",
    "models.enda_ensemble": "ENDAEnsemble Members",
    "models.kelm": "KELMClassifier KELMRegressor",
    "models.klda": "KLDA",
    "models.learned_metric": "LearnedMetric",
    "models.monotone_grid": "MonotoneGrid",
    "models.nkelm": "NKELMClassifier NKELMRegressor",
    "models.nnda": "NNDA",
    "models.online": "OSELMClassifier OSELMRegressor",
    "models.ordinal": "ELMOrdinalClassifier KELMOrdinalClassifier NKELMOrdinalClassifier",
    "solvers.boosted": "BoostedTrees",
    "solvers.covariance": "Covariance",
    "solvers.local": "LocalKernels",
    "solvers.newton": "NewtonPath",
    "solvers.recursive": "Information Shape",
    "solvers.ridge": "Leverage",
    "solvers.square_root": "SquareRoot",
    "statistics": "Extent Statistics Summary TriangularStatistics",
    "tuning.search": "Tuning",
    "tuning.views": "View",
}
#: Names in files of classes that have moved or are called otherwise since: a file outlives both.
_MOVED = {
    "ulmus.features.preparation.Category": ("ulmus.features.category", "Category"),
    "ulmus.models._memory.Memory": ("ulmus.online.memory", "Memory"),
    "ulmus.models._stream.Stream": ("ulmus.online.learner", "Learner"),
    "ulmus.models.adaptive_ordinal.AdaptiveOrdinalClassifier": ("ulmus.models.adaptive", "AdaptiveOrdinalClassifier"),
    "ulmus.models.online_ordinal.OSELMOrdinalClassifier": ("ulmus.models.online", "OSELMOrdinalClassifier"),
    "ulmus.models.robust.RobustELMRegressor": ("ulmus.models.robust_elm", "RobustELMRegressor"),
    "ulmus.models.robust.RobustNKELMRegressor": ("ulmus.models.robust_elm", "RobustNKELMRegressor"),
    "ulmus.solvers.certificate.Certificate": ("ulmus.solvers.nystrom_ridge", "Certificate"),
    "ulmus.tables.dates.DateParts": ("ulmus.features.dates", "DateParts"),
    "ulmus.tuning.judge.Trial": ("ulmus.tuning.surface", "Trial"),
    "ulmus.tuning.robust.RobustTuning": ("ulmus.tuning.robust_choice", "RobustTuning"),
}
#: Of scikit-learn: transformers whose fitted state is arrays, numbers and strings, what holds them together, and
#: splitters, which may be the value of ``cv``. None of them carries a function: a FunctionTransformer is what
#: ``"passthrough"`` becomes, and may have none (``checks.FIXED``).
_SKLEARN = {
    "compose": "ColumnTransformer TransformedTargetRegressor",
    "decomposition": "PCA",
    "feature_selection": "VarianceThreshold",
    "impute": "MissingIndicator SimpleImputer",
    "model_selection": "GroupKFold KFold StratifiedGroupKFold StratifiedKFold",
    "pipeline": "FeatureUnion Pipeline",
    "preprocessing": "FunctionTransformer KBinsDiscretizer LabelBinarizer LabelEncoder MaxAbsScaler MinMaxScaler "
    "Normalizer OneHotEncoder "
    "OrdinalEncoder PolynomialFeatures PowerTransformer QuantileTransformer RobustScaler "
    "StandardScaler TargetEncoder",
}


_QUANTILES = {"loss": "squared", "quantiles": (0.05, 0.5, 0.95)}
#: What files of earlier versions do not have: parameters and attributes that came later, as those models had them.
LATER: dict[str, dict[str, Any]] = {
    "AdaptiveClassifier": {"loss": "squared", "decision": "accuracy", "encoder": None, "trees": True},
    "AdaptiveFit": {"grid": None},
    "AdaptiveOrdinalClassifier": {"encoder": None},
    "AdaptiveRegressor": {"encoder": None, **_QUANTILES, "monotonic_cst": None, "trees": True},
    "ELMClassifier": {"loss": "squared", "decision": "accuracy", "monotonic_cst": None},
    "ELMRegressor": {**_QUANTILES, "monotonic_cst": None},
    "KELMClassifier": {"loss": "squared", "decision": "accuracy"},
    "NKELMClassifier": {"loss": "squared", "decision": "accuracy", "monotonic_cst": None},
    "NKELMRegressor": {**_QUANTILES, "monotonic_cst": None},
    "OSELMClassifier": {"decision": "accuracy"},
    "Preparation": {"cuts": None},
}
#: Attributes that are called otherwise since, by class.
RENAMED: dict[str, dict[str, str]] = {"Memory": {"births": "feature_starts"}}


def _table() -> dict[str, tuple[str, str]]:
    """Name in a file → module and class. scikit-learn's classes go by their public place, which outlives moves."""
    rows = [(f"ulmus.{m}", c) for m, names in _OURS.items() for c in names.split()]
    rows += [(f"sklearn.{m}", c) for m, names in _SKLEARN.items() for c in names.split()]
    return {f"{module}.{name}": (module, name) for module, name in rows} | _MOVED


CLASSES = _table()


@cache
def class_of(name: str) -> type | None:
    """The class that a file calls by this name; None when the table has no such line."""
    if name not in CLASSES:
        return None
    module, attribute = CLASSES[name]
    found = getattr(import_module(module), attribute)
    assert isinstance(found, type)
    return found


@cache
def name_of(cls: type) -> str | None:
    """The name of a class in files; None when the table has no line for it."""
    if cls.__module__.partition(".")[0] not in ("ulmus", "sklearn"):
        return None
    return next(
        (name for name, (_, attribute) in CLASSES.items() if cls.__name__ == attribute and class_of(name) is cls), None
    )


@cache
def named_objects() -> dict[str, Any]:
    """Rows of our tables that fitted models point to: they hold functions, so that a file holds their names."""
    from ulmus.features.kernels import DISTANCE, KERNELS

    return {f"kernel {kernel.name}": kernel for kernel in (*KERNELS.values(), DISTANCE)}

"""What the state of a class may be. A file is data of these shapes or it is refused.

An estimator has its parameters, valid by its own constraints, and fitted attributes: names that end in ``_``, and those
that its class keeps to itself. No name may hide what the class defines, but for the default of an attribute. A
dataclass has its fields, of their types. Parameters by which a file could make later work do something else than
predict (write to a folder, call a function) have one value only.
"""

import dataclasses
import types
from functools import cache
from inspect import signature
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import InvalidParameterError, validate_parameter_constraints

#: Parameter → its only value, for classes of any name: a folder that ``fit`` would write pickles to, and functions.
FIXED = {"memory": None, "func": None, "inverse_func": None, "kw_args": None, "inv_kw_args": None}
#: What scikit-learn's classes keep beside parameters and fitted attributes.
PRIVATE = {
    "": "_sklearn_version _sklearn_output_config",
    "ColumnTransformer": "_columns _remainder _transformer_to_input_indices _transformers_feature_names_out",
    "KBinsDiscretizer": "_encoder",
    "MissingIndicator": "_precomputed _n_features",
    "OneHotEncoder": "_infrequent_enabled _infrequent_indices _default_to_infrequent_mappings _n_features_outs "
    "_drop_idx_after_grouping _missing_indices",
    "OrdinalEncoder": "_infrequent_enabled _infrequent_indices _default_to_infrequent_mappings _missing_indices",
    "PCA": "_fit_svd_solver",
    "PolynomialFeatures": "_min_degree _max_degree _n_out_full",
    "PowerTransformer": "_scaler",
    "SimpleImputer": "_fit_dtype _fill_dtype _fill_value",
    "TargetEncoder": "_infrequent_enabled",
    "TransformedTargetRegressor": "_training_dim",
}
#: Numbers of NumPy stand for those of Python.
NUMBERS: dict[Any, tuple[type, ...]] = {
    float: (float, int, np.floating, np.integer),
    int: (int, np.integer),
    bool: (bool, np.bool_),
}
#: What models have in experiments, and in no file.
TRANSIENT = ("_plan",)
#: Ways in which a transformer may be set to give its columns.
CONTAINERS = ("default", "pandas", "polars")


class StateError(ValueError):
    """A state is not one of its class; the message says why."""


def check_state(cls: Any, state: dict[str, Any]) -> None:
    """Refuse a state that objects of this class do not have."""
    if dataclasses.is_dataclass(cls):
        _check_fields(cls, state)
        return
    parameters = _parameters(cls)
    missing = parameters - set(state)
    strange = {key for key in state if key not in parameters and not _may_hold(cls, key)}
    if missing or strange:
        raise StateError(
            f"the state of {cls.__name__} lacks {sorted(missing)} or has unknown entries {sorted(strange)}"
        )
    given = {key: state[key] for key in parameters}
    check_parameters(cls, given)
    _check_known(cls, state)


def migrated(cls: Any, state: dict[str, Any]) -> dict[str, Any]:
    """A state as objects of this class have it now; what an older version kept apart is put together and checked.

    A field that came later, with a default, has that.
    """
    if dataclasses.is_dataclass(cls):
        later = {f.name: f.default for f in dataclasses.fields(cls) if f.default is not dataclasses.MISSING}
        state = {**later, **state}
    move = getattr(cls, "_migrated", None)
    if move is None:
        return state
    now: dict[str, Any] = move(state)
    for name in now.keys() - state.keys():
        _check_made(now[name])
    return now


def _check_made(value: Any) -> None:
    """Refuse what was put together of parts that do not fit, down to its parts."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        state: Any = value.__getstate__()
        check_state(type(value), state)
        for part in state.values():
            _check_made(part)


def check_parameters(cls: Any, given: dict[str, Any]) -> None:
    """Refuse parameters that are not valid, or that a file may not set."""
    for name, only in FIXED.items():
        if name in given and given[name] is not only:
            raise StateError(
                f"{cls.__name__}({name}={given[name]!r}): a file may not name functions, nor folders to write to; "
                f"{name} must be {only}"
            )
    try:
        validate_parameter_constraints(getattr(cls, "_parameter_constraints", {}), given, caller_name=cls.__name__)
    except InvalidParameterError as error:
        raise StateError(str(error)) from None


@cache
def _parameters(cls: Any) -> frozenset[str]:
    """Names of the parameters of an estimator, or of a splitter of scikit-learn."""
    if issubclass(cls, BaseEstimator):
        return frozenset(cls._get_param_names())
    if cls.__module__.startswith("sklearn."):
        return frozenset(signature(cls.__init__).parameters) - {"self", "args", "kwargs"}
    return frozenset()


@cache
def _may_hold(cls: Any, key: str) -> bool:
    if not key.isidentifier() or key.startswith("__") or (hasattr(cls, key) and not _is_default(cls, key)):
        return False
    if not cls.__module__.startswith("sklearn."):
        return not issubclass(cls, BaseEstimator) or key.endswith("_") or key.startswith("_")
    own = f"{PRIVATE['']} {PRIVATE.get(cls.__name__, '')}".split()
    return key in own or (issubclass(cls, BaseEstimator) and key.endswith("_") and not key.startswith("_"))


def _is_default(cls: Any, key: str) -> bool:
    """Whether what a class defines under a name is only what its objects have unless they say otherwise."""
    owner = next(each for each in cls.__mro__ if key in vars(each))
    note = vars(owner).get("__annotations__", {}).get(key)
    constant = note is None or "ClassVar" in str(note)
    return (
        not constant
        and key not in TRANSIENT
        and isinstance(vars(owner)[key], bool | int | float | str | tuple | type(None))
    )


def _check_known(cls: Any, state: dict[str, Any]) -> None:
    """Attributes that mean the same everywhere."""
    n_features = state.get("n_features_in_", 0)
    names = state.get("feature_names_in_", np.empty(0, object))
    output = state.get("_sklearn_output_config", {})
    good = {
        "n_features_in_": type(n_features) is int and n_features >= 0,
        "feature_names_in_": isinstance(names, np.ndarray)
        and names.ndim == 1
        and all(isinstance(name, str) for name in names.tolist()),
        "_sklearn_output_config": type(output) is dict
        and set(output) <= {"transform"}
        and all(isinstance(kind, str) and kind in CONTAINERS for kind in output.values()),
    }
    wrong = [name for name, fine in good.items() if not fine]
    if wrong:
        raise StateError(f"{cls.__name__}.{wrong[0]} has an invalid value: {state[wrong[0]]!r:.60}")


def _check_fields(cls: Any, state: dict[str, Any]) -> None:
    fields = {f.name for f in dataclasses.fields(cls)}
    missing, strange = fields - set(state), set(state) - fields
    if missing or strange:
        raise StateError(
            f"the state of {cls.__name__} lacks {sorted(missing)} or has unknown entries {sorted(strange)}"
        )
    for name, kind in _hints(cls).items():
        if name in state and not _is(state[name], kind):
            raise StateError(f"{cls.__name__}.{name} must be {kind}, got a {type(state[name]).__name__}")
    if hasattr(cls, "__post_init__"):  # values that check themselves as they are made
        try:
            cls(**state)
        except ValueError as error:
            raise StateError(f"{cls.__name__}: {error}") from None


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return {name: kind for name, kind in get_type_hints(cls).items() if get_origin(kind) is not ClassVar}


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of an annotated type."""
    origin, inside = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_is(value, one) for one in inside)
    if origin is tuple and inside[1:] == (...,):
        return isinstance(value, tuple) and all(_is(v, inside[0]) for v in value)
    if kind is None or kind is type(None):
        return value is None
    return isinstance(value, NUMBERS.get(kind, origin or kind))

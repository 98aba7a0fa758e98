"""What a value is, as one short text: equal for equal state, in this process and in the next.

Fitted transformers, feature maps and parameters are compared by it. Arrays go in by type, shape and bytes; functions by
their code and what they close over; other objects by the state that pickling would keep, without being pickled. Order
counts in sequences and does not in sets and dictionaries.
"""

import hashlib
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from scipy import sparse

#: Attributes that do not change what an estimator computes once it is fitted.
INDIFFERENT = frozenset({"n_jobs", "random_state", "verbose"})


def fingerprint(value: Any) -> str:
    """32 hexadecimal digits; TypeError for what has no state that could be compared (an open file, a lock)."""
    return _digest(value, {}).hex()[:32]


def differing(a: Any, b: Any) -> str | None:
    """The first parameter or fitted attribute in which two estimators of one class differ; None when none does."""
    names = [name for name in {**vars(a), **vars(b)} if not name.startswith("_") and name not in INDIFFERENT]
    gone = object()
    for name in names:
        mine, its = vars(a).get(name, gone), vars(b).get(name, gone)
        if mine is gone or its is gone or (mine is not its and fingerprint(mine) != fingerprint(its)):
            return name
    return None


def _digest(value: Any, above: dict[int, int]) -> bytes:
    """``above`` numbers the objects that hold this one, by their ids: a cycle ends where it closes."""
    if id(value) in above:
        return f"above {above[id(value)]}".encode()
    above = {**above, id(value): len(above)}
    kind, parts = _parts(value)
    found = hashlib.blake2b(kind.encode() + b"\0", digest_size=32)
    for part in parts:
        raw = part if isinstance(part, bytes | memoryview) else _digest(part, above)
        found.update(len(raw).to_bytes(8, "little"))
        found.update(raw)
    return found.digest()


def _parts(value: Any) -> tuple[str, Any]:
    """What kind a value is, and bytes and values that make it up."""
    cls = type(value)
    if value is None or cls in (bool, int, float, complex, str):
        return cls.__name__, [repr(value).encode()]
    if isinstance(value, bytes | bytearray):
        return "bytes", [bytes(value)]
    if isinstance(value, np.ndarray) and value.dtype != object:
        kind = f"{value.dtype.str} {value.shape}".encode()
        return "array", [kind, np.ascontiguousarray(value).reshape(-1).view(np.uint8).data]
    if isinstance(value, np.ndarray):
        return f"objects {value.shape}", value.reshape(-1).tolist()
    if isinstance(value, np.generic | np.dtype):
        return str(cls), [repr(value).encode()]
    if isinstance(value, type | BuiltinFunctionType | np.ufunc | ModuleType):
        return "name", [f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', repr(value))}".encode()]
    if sparse.issparse(value):
        rows = value.tocsr()
        return f"sparse {value.shape}", [rows.data, rows.indices, rows.indptr]
    if cls in (list, tuple):
        return cls.__name__, value
    if cls in (set, frozenset):
        return cls.__name__, sorted(_digest(item, {}) for item in value)
    if cls is dict:
        order = sorted(value, key=lambda key: _digest(key, {}))
        return "dict", [part for key in order for part in (key, value[key])]
    if isinstance(value, CodeType):
        # names and constants, not line numbers or paths
        return "code", [value.co_code, list(value.co_names), list(value.co_consts)]
    if isinstance(value, FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or ()]
        return f"function {value.__module__}", [value.__code__, value.__defaults__, value.__kwdefaults__, held]
    if isinstance(value, MethodType):
        return "method", [value.__func__, value.__self__]
    return _reduced(value)


def _reduced(value: Any) -> tuple[str, Any]:
    cls = type(value)
    try:
        reduced = value.__reduce_ex__(4)
    except Exception as error:
        raise TypeError(f"a {cls.__module__}.{cls.__qualname__} has no state that can be compared ({error})") from error
    if isinstance(reduced, str):
        return "name", [f"{cls.__module__}.{reduced}".encode()]
    made, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    name = f"{cls.__module__}.{cls.__qualname__}"
    return name, [made, list(arguments), state, list(items or ()), dict(pairs or ())]

"""Objects ↔ JSON and arrays.

A model becomes a list of objects, each before those that hold it, so that a reference points backwards and a file
cannot describe a cycle; what is shared stays shared. In the JSON, ``null``, booleans, integers, finite floats, strings
and lists are themselves; every other value is a one-key object from the table in :class:`StateDecoder`.
"""

import dataclasses
import json
import math
from collections import UserList
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ulmus.features.kernels import Kernel, KernelParameters
from ulmus.persistence.budget import GENERATOR, LoadBudget, container_cost, extent, kernel_cost, sparse_cost, text_cost
from ulmus.persistence.checks import StateError, check_parameters, check_state, migrated
from ulmus.persistence.registry import LATER, RENAMED, class_of, name_of, named_objects

#: Kinds of arrays whose bytes are stored; dates as the integers they are.
RAW = "biufc"
DATES = "mM"
#: Safetensors' types, by NumPy's name.
STORED = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)
#: Who watches a fit is no part of the model.
WATCHING = ("_progress", "_skl_callbacks")
#: Deepest nesting of lists and mappings in the state of one object.
DEPTH = 64
MT19937_WORDS = 624


class LoadError(ValueError):
    """A file is not a model that this version can load; the message says why."""


class StateEncoder:
    """Collects the objects and arrays of a model."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        self.arrays: dict[str, np.ndarray] = {}
        self._seen: dict[int, dict[str, Any]] = {}
        self._kept_alive: list[Any] = []
        self._open: set[int] = set()
        #: Memory that loading takes beyond the bytes of the file.
        self.cost = 0

    def encode(self, value: Any, where: str) -> Any:
        """JSON for a value; ``where`` names it in errors."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, UserList):  # columns that are left, in scikit-learn 1.6
            value = value.data
        if type(value) is list:
            return [self.encode(v, f"{where}[{i}]") for i, v in enumerate(value)]
        if id(value) in self._seen:
            return self._seen[id(value)]
        code = self._encode_other(value, where)
        if not isinstance(value, type):
            self._seen[id(value)] = code
            self._kept_alive.append(value)
        return code

    def _encode_other(self, value: Any, where: str) -> dict[str, Any]:
        if type(value) in (tuple, set, frozenset):
            return {type(value).__name__: [self.encode(v, f"{where}[{i}]") for i, v in enumerate(value)]}
        if type(value) is dict:
            pairs = [[self.encode(k, where), self.encode(v, f"{where}[{k!r}]")] for k, v in value.items()]
            return {"dict": pairs}
        if type(value) is slice:
            return {"slice": [self.encode(v, where) for v in (value.start, value.stop, value.step)]}
        if isinstance(value, np.ndarray):
            return {"array": self._array(value, where)}
        if isinstance(value, np.generic):
            return {"scalar": self._array(np.asarray(value), where)}
        if isinstance(value, np.dtype):
            return {"dtype": value.str if value.kind in RAW + DATES + "OU" else self._refuse(value, where)}
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"number": np.dtype(value).name}
        if isinstance(value, type) and value in (float, int, object):
            return {"number": value.__name__}
        if isinstance(value, np.random.RandomState):
            return {"random": self.encode(list(value.get_state(legacy=True)), where)}
        if isinstance(value, sparse.csr_matrix | sparse.csr_array):
            parts = [self.encode(p, where) for p in (value.data, value.indices, value.indptr, list(value.shape))]
            return {"csr": [type(value).__name__, *parts]}
        for name, known in named_objects().items():
            if value is known:
                return {"named": name}
        return self._object(value, where)

    def _array(self, array: np.ndarray, where: str) -> dict[str, Any]:
        array = np.asarray(array) if isinstance(array, np.memmap) else array  # its numbers, wherever they are
        code: dict[str, Any] = {"dtype": array.dtype.str, "shape": list(array.shape)}
        if array.dtype.kind in "OU":
            self.cost += text_cost(array.dtype, array.shape)
            return {**code, "values": [self.encode(v, where) for v in array.ravel().tolist()]}
        plain = array.view(np.int64) if array.dtype.kind in DATES else array
        if plain.dtype.name not in STORED or type(array) is not np.ndarray:
            self._refuse(array, f"{where} (an array of {array.dtype})")
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        name = f"{len(self.arrays)}"
        self.arrays[name] = np.ascontiguousarray(plain.T if order == "F" else plain).reshape(-1)
        return {**code, "order": order, "data": name}

    def _object(self, value: Any, where: str) -> dict[str, Any]:
        cls: Any = type(value)
        name = name_of(cls)
        if name is None:
            self._refuse(value, where)
        if id(value) in self._open:
            raise TypeError(f"cannot save {where}: it contains itself")
        self._open.add(id(value))
        entry: dict[str, Any]
        if "__reduce__" in cls.__dict__:
            built, arguments = value.__reduce__()
            assert built is cls
            self.cost += kernel_cost(arguments[1])
            entry = {"class": name, "arguments": [self.encode(a, f"{where}({i})") for i, a in enumerate(arguments)]}
        else:
            state = {k: v for k, v in value.__getstate__().items() if k not in WATCHING}
            self._check(cls, state, where)
            entry = {"class": name, "state": {k: self.encode(v, f"{where}.{k}") for k, v in sorted(state.items())}}
        self._open.discard(id(value))
        self.objects.append(entry)
        return {"object": len(self.objects) - 1}

    @staticmethod
    def _check(kind: Any, state: dict[str, Any], where: str) -> None:
        """Refuse at saving what would be refused at loading."""
        if not dataclasses.is_dataclass(kind) and issubclass(kind, BaseEstimator):
            try:
                check_parameters(kind, {name: state[name] for name in kind._get_param_names()})
            except StateError as error:
                raise TypeError(f"cannot save {where}: {error}") from None

    @staticmethod
    def _refuse(value: Any, where: str) -> Any:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise TypeError(
            f"cannot save {where}, a {kind}: a file holds data, not code. Saved are Ulmus models, the scikit-learn "
            "transformers named in docs/saving.md, arrays, numbers and strings; a callable kernel cannot be saved, the "
            "named ones can"
        )


class StateDecoder:
    """Rebuilds the objects from their JSON; refuses what the table does not list."""

    def __init__(self, objects: list[Any], arrays: dict[str, np.ndarray], budget: LoadBudget | None = None) -> None:
        self.arrays = arrays
        self.budget = budget or LoadBudget(sum(a.nbytes for a in arrays.values()))
        self.objects: list[Any] = []
        self._shared: dict[Any, np.ndarray] = {}
        self._read = {
            "float": lambda v, _: float({"nan": "nan", "inf": "inf", "-inf": "-inf"}[v]),
            "tuple": lambda v, d: tuple(self._list(v, d, "tuple")),
            "set": lambda v, d: {_key(x) for x in self._list(v, d, "set")},
            "frozenset": lambda v, d: frozenset(_key(x) for x in self._list(v, d, "frozenset")),
            "dict": self._dict,
            "slice": self._slice,
            "array": self._array,
            "scalar": lambda v, d: self._array(v, d)[()],
            "dtype": lambda v, _: _dtype(v),
            "number": lambda v, _: {"float": float, "int": int, "object": object}.get(v) or _dtype(v).type,
            "random": self._random,
            "csr": self._csr,
            "named": lambda v, _: _look_up(named_objects(), v, "named object"),
            "object": lambda v, _: self.objects[_index(v, len(self.objects))],
        }
        for entry in objects:
            self.objects.append(self._object(entry))

    def decode(self, code: Any, depth: int = 0) -> Any:
        """The value of its JSON."""
        if depth > DEPTH:
            raise LoadError(f"values are nested more than {DEPTH} deep")
        if code is None or isinstance(code, bool | int | float | str):
            return code
        if isinstance(code, list):
            return self._list(code, depth)
        if not isinstance(code, dict) or len(code) != 1:
            raise LoadError("a value is not encoded as this format encodes values")
        ((tag, content),) = code.items()
        return _look_up(self._read, tag, "kind of value")(content, depth + 1)

    def _list(self, codes: Any, depth: int, kind: str = "list") -> list[Any]:
        if not isinstance(codes, list):
            raise LoadError("a list was expected")
        self.budget.charge(container_cost(kind, len(codes)), f"a {kind} of {len(codes)} values")
        return [self.decode(c, depth + 1) for c in codes]

    def _dict(self, pairs: Any, depth: int) -> dict[Any, Any]:
        self.budget.charge(container_cost("dict", len(pairs)), f"a dict of {len(pairs)} values")
        return {_key(self.decode(k, depth)): self.decode(v, depth) for k, v in pairs}

    def _slice(self, codes: Any, depth: int) -> slice:
        parts = self._list(codes, depth)
        if len(parts) != 3 or not all(p is None or isinstance(p, int | str) for p in parts):
            raise LoadError("a slice must have a start, a stop and a step, each a number or a name")
        return slice(*parts)

    def _array(self, code: Any, depth: int) -> np.ndarray:
        dtype, shape = _dtype(code["dtype"]), tuple(code["shape"])
        if not all(type(s) is int and s >= 0 for s in shape):
            raise LoadError(f"an array cannot have the shape {shape}")
        size = math.prod(shape)
        if "values" in code:
            values = self._list(code["values"], depth)
            if len(values) != size or dtype.kind not in "OU":
                raise LoadError("an array of values does not have the size it claims")
            if dtype.kind == "U" and not all(isinstance(v, str) for v in values):
                raise LoadError("an array of strings holds something else")
            self.budget.charge(text_cost(dtype, shape), f"an array of {dtype} of shape {shape}")
            flat = np.empty(size, dtype)
            for i, value in enumerate(values):  # one by one: an array among them stays one value
                flat[i] = value
            return flat.reshape(shape)
        self.budget.check(extent(shape, dtype.itemsize), f"an array of shape {shape}")
        key = (code["data"], dtype, shape, code["order"])
        if key not in self._shared:
            self._shared[key] = self._stored(*key)
        return self._shared[key]

    def _stored(self, name: Any, dtype: np.dtype, shape: tuple[int, ...], order: Any) -> np.ndarray:
        flat = _look_up(self.arrays, name, "array")
        stored = np.dtype(np.int64) if dtype.kind in DATES else dtype
        if flat.dtype != stored or flat.ndim != 1 or flat.size != math.prod(shape) or order not in ("C", "F"):
            raise LoadError(f"array {name!r} is not the {dtype} array of shape {shape} that was announced")
        flat = flat.view(dtype)
        return flat.reshape(shape[::-1]).T if order == "F" else flat.reshape(shape)

    def _random(self, codes: Any, depth: int) -> np.random.RandomState:
        kind, words, position, has_gauss, gauss = self._list(codes, depth)
        words = np.asarray(words)
        good = kind == "MT19937" and words.shape == (MT19937_WORDS,) and words.dtype == np.uint32
        if not (good and type(position) is int and 0 <= position <= MT19937_WORDS and has_gauss in (0, 1)):
            raise LoadError("the state of a random generator is invalid")
        self.budget.charge(GENERATOR, "a random generator")
        state = np.random.RandomState(0)
        state.set_state((kind, words, position, has_gauss, float(gauss)))
        return state

    def _csr(self, codes: Any, depth: int) -> Any:
        name, data, indices, indptr, shape = self._list(codes, depth)
        if len(shape) != 2 or not all(type(s) is int and s >= 0 for s in shape):
            raise LoadError(f"a sparse matrix cannot have the shape {shape}")
        self.budget.charge(sparse_cost((data, indices, indptr), shape), f"a sparse matrix of shape {shape}")
        built = {"csr_matrix": sparse.csr_matrix, "csr_array": sparse.csr_array}[name]((data, indices, indptr), shape)
        built.check_format(full_check=True)  # an index beyond the end would be followed
        return built

    def _kernel(self, kernel: Any, Z: Any, parameters: Any) -> tuple[Any, ...]:
        """The arguments of the one class that is built by its constructor, a kernel with its rows."""
        numbers = isinstance(Z, np.ndarray) and Z.ndim == 2 and Z.dtype in (np.float32, np.float64)
        if not (numbers and isinstance(kernel, str | Kernel) and isinstance(parameters, KernelParameters)):
            raise LoadError("a kernel is a name or a row of the table, with rows of numbers and parameters")
        self.budget.charge(kernel_cost(Z), f"the kernel of rows of shape {Z.shape}")
        return kernel, Z, parameters

    def _object(self, entry: Any) -> Any:
        name = entry["class"]
        cls: Any = class_of(name) if isinstance(name, str) else None
        if cls is None:
            raise LoadError(f"the file asks for a {name!r}, which is not a type that may be loaded")
        if "__reduce__" in cls.__dict__:
            return cls(*self._kernel(*self._list(entry["arguments"], 0)))
        called = RENAMED.get(cls.__name__, {})
        state = {called.get(k, k): self.decode(v) for k, v in entry["state"].items()}
        state = {**LATER.get(cls.__name__, {}), **state}
        state = migrated(cls, state)
        check_state(cls, state)
        built = cls.__new__(cls)
        for key, value in state.items():
            object.__setattr__(built, key, value)
        return built


def _key(value: Any) -> Any:
    """A member of a set, or a key: plain, so that its hash takes no longer than it is long."""
    if isinstance(value, tuple):
        return tuple(_key(v) for v in value)
    if value is not None and not isinstance(value, str | int | float | bool | np.generic | type):
        raise LoadError(f"a {type(value).__name__} cannot be a key")
    return value


def _dtype(text: Any) -> np.dtype:
    dtype = np.dtype(text) if isinstance(text, str) else None
    if dtype is None or dtype.kind not in RAW + DATES + "OU" or dtype.names or dtype.shape:
        raise LoadError(f"{text!r} is not a type of numbers or strings")
    return dtype


def _index(value: Any, end: int) -> int:
    if type(value) is not int or not 0 <= value < end:
        raise LoadError(f"a reference points to object {value!r}, of {end} so far")
    return value


def _look_up(table: dict[str, Any], key: Any, what: str) -> Any:
    if not isinstance(key, str) or key not in table:
        raise LoadError(f"the file asks for the {what} {key!r}, which this version does not know")
    return table[key]


def dumps(value: Any) -> str:
    """Canonical JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)

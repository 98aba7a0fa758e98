"""The file: safetensors, whose metadata hold a JSON description and a checksum of all content."""

import hashlib
import json
import os
import struct
import warnings
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
import sklearn
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.pipeline import Pipeline

from ulmus._files import write_bytes
from ulmus.persistence.budget import BudgetError, LoadBudget, json_cost
from ulmus.persistence.checks import StateError
from ulmus.persistence.codec import LoadError, StateDecoder, StateEncoder, dumps

#: Raised when a file can no longer be read by older versions.
FORMAT = 2
#: Largest header that is read: that of safetensors itself.
MAX_HEADER = 100_000_000
#: Bytes by which a file is recognised.
START = 1 << 16
_NAMES = {"BOOL": "bool", "F16": "float16", "F32": "float32", "F64": "float64"} | {
    f"{letter}{bits}": f"{kind}{bits}" for letter, kind in (("I", "int"), ("U", "uint")) for bits in (8, 16, 32, 64)
}


@dataclass(frozen=True)
class Description:
    """What a file says of itself, without the model being built.

    Attributes
    ----------
    format : int
        Version of the file format.
    versions : dict of str to str
        Of Ulmus, scikit-learn and NumPy, at the time of saving.
    model : str
        Class of the model, or of the last step of a pipeline.
    schema : dict
        What the model was trained on: number and names of features, classes, number of outputs.
    notes : dict
        What ``save`` was given as ``notes``.
    checksum : str
        SHA-256 of the content.
    """

    format: int
    versions: dict[str, str]
    model: str
    schema: dict[str, Any]
    notes: dict[str, Any] = field(default_factory=dict)
    checksum: str = ""


def save(model: Any, path: str | os.PathLike[str], *, notes: dict[str, Any] | None = None) -> None:
    """Save a model, or a pipeline that ends in one, to one file.

    The file holds data only: arrays and a JSON description, in the safetensors format. It carries the version of the
    library, the training schema and a checksum. It is written beside its place and then moved there: a save that is
    interrupted, or finds the disk full, leaves the old file whole, and threads may save to one path.

    Parameters
    ----------
    model : estimator
        Of Ulmus, or a scikit-learn ``Pipeline`` or ``ColumnTransformer`` of the transformers in ``docs/saving.md``.
    path : str or path-like
    notes : dict, optional
        Anything that JSON can hold, kept with the model and found again by :func:`ulmus.persistence.describe`.

    Raises
    ------
    TypeError
        When the model holds what a file cannot: a function, or an object of an unknown class.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, ulmus
    >>> X = np.linspace(-3, 3, 100)[:, None]
    >>> model = ulmus.KELMRegressor(gamma=1.0, C=1e3).fit(X, np.sin(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "sine.ulmus"
    ...     ulmus.save(model, path)
    ...     again = ulmus.load(path)
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    write_bytes(path, to_bytes(model, notes=notes))


def load(path: str | os.PathLike[str]) -> Any:
    """Load what :func:`save` wrote. No code from the file is run.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    estimator
        The same model, bit for bit: predictions are equal, and online models continue as if nothing had happened.

    Raises
    ------
    LoadError
        When the file is not a model, is truncated or altered, holds a type that is not in the table of known types, or
        was written by a newer format.
    """
    return from_bytes(_read(path), str(path))


def describe(path: str | os.PathLike[str]) -> Description:
    """What a file says of itself; the checksum is verified, the model is not built.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    Description
    """
    return _guarded(lambda data: _open(data)[0], _read(path), str(path))


def to_bytes(model: Any, *, notes: dict[str, Any] | None = None) -> bytes:
    """The content of the file that :func:`save` writes."""
    try:
        dumps(notes or {})
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"notes must be what JSON can hold, which has no NaN, no infinity and no arrays: {error}"
        ) from None
    encoder = StateEncoder()
    root = encoder.encode(model, type(model).__name__)
    if "object" not in root:
        raise TypeError(f"save takes a model or a pipeline, got {model!r}")
    content = {
        "format": FORMAT,
        "versions": {"ulmus": library_version(), "scikit-learn": sklearn.__version__, "numpy": np.__version__},
        "model": type(_last(model)).__name__,
        "schema": schema_of(model),
        "notes": notes or {},
        "body": {"root": root, "objects": encoder.objects},
    }
    data = pack(content, encoder.arrays)
    LoadBudget(len(data)).charge(encoder.cost, "what is saved")
    return data


def from_bytes(data: bytes, source: str = "the data") -> Any:
    """The model in the content of a file."""

    def build(data: bytes) -> Any:
        budget = LoadBudget(len(data))
        description, body, arrays = _open(data, budget)
        if not isinstance(body["root"], dict) or "object" not in body["root"]:
            raise LoadError("the file holds no model")
        model = StateDecoder(body["objects"], arrays, budget).decode(body["root"])
        then = description.versions["scikit-learn"]
        if then != sklearn.__version__ and any(e["class"].startswith("sklearn.") for e in body["objects"]):
            warnings.warn(
                InconsistentVersionWarning(
                    estimator_name=description.model,
                    current_sklearn_version=sklearn.__version__,
                    original_sklearn_version=then,
                ),
                stacklevel=4,
            )
        return model

    return _guarded(build, data, source)


def schema_of(model: Any) -> dict[str, Any]:
    """What the model was trained on."""
    last = _last(model)
    schema: dict[str, Any] = {}
    for holder in (last, model):
        if hasattr(holder, "n_features_in_"):
            schema["n_features"] = int(holder.n_features_in_)
        if hasattr(holder, "feature_names_in_"):
            schema["features"] = [str(name) for name in holder.feature_names_in_]
    if getattr(last, "classes_", None) is not None:
        schema["classes"] = [str(c) for c in np.asarray(last.classes_).tolist()]
    return schema


def pack(content: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """Seal a description and arrays into the bytes of a file: the same bytes for the same content."""
    sealed = {**content, "sha256": checksum(content, arrays)}
    return bytes(_safetensors("numpy").save(arrays, {"ulmus": dumps(sealed)}))


def checksum(content: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    """SHA-256 of the canonical JSON and of the arrays, each behind its name, type and length."""
    text = dumps(content).encode()
    digest = hashlib.sha256(f"{len(text)}\n".encode() + text)
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()


def _read(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file; of one that cannot be a model, the first ones only."""
    with open(path, "rb") as file:
        start = file.read(START)
        if len(start) < START or not _begins(start):
            return start
        return start + file.read()


def _begins(data: bytes) -> bool:
    """Whether bytes begin as those of a safetensors file do: the length of the header, and the header."""
    return struct.unpack("<Q", data[:8])[0] <= MAX_HEADER and data[8:9] == b"{"


def _guarded(read: Any, data: bytes, source: str) -> Any:
    """Run a reader; whatever goes wrong in it is the file's fault, and is said as one kind of error."""
    try:
        return read(data)
    except LoadError as error:
        raise LoadError(f"{source}: {error}") from None
    except (ImportError, MemoryError):
        raise
    except (BudgetError, StateError) as error:
        raise LoadError(f"{source}: {error}") from None
    except (Exception, RecursionError) as error:
        raise LoadError(
            f"{source}: not a model of a form that can be read ({type(error).__name__}: {error})"
        ) from error


def _open(data: bytes, budget: LoadBudget | None = None) -> tuple[Description, Any, dict[str, np.ndarray]]:
    """Verified description, body and arrays."""
    budget = budget or LoadBudget(len(data))
    if len(data) < 8:
        raise LoadError(f"the file is empty or truncated: {len(data)} bytes")
    (length,) = struct.unpack("<Q", data[:8])
    if not _begins(data):
        raise LoadError("not a file that ulmus.save wrote")
    if 8 + length > len(data):
        raise LoadError(f"the file is truncated: its header has {length} bytes, the file {len(data)}")
    header = data[8 : 8 + length]
    charged = json_cost(header)
    budget.charge(charged, "the description")
    text = json.loads(header).get("__metadata__", {}).get("ulmus")
    del header
    if text is None:
        raise LoadError("a safetensors file, but not one that ulmus.save wrote")
    budget.charge(max(0, json_cost(text) - charged), "the description")
    content = json.loads(text)
    del text
    if not isinstance(content["format"], int) or content["format"] > FORMAT:
        raise LoadError(
            f"the file has format {content['format']!r}, Ulmus {library_version()} reads formats up to {FORMAT}; "
            f"it was written by version {content.get('versions', {}).get('ulmus')!r}: update to that or a newer one"
        )
    seal = content.pop("sha256")
    arrays = {name: _array(tensor) for name, tensor in _safetensors().deserialize(data)}
    if checksum(content, arrays) != seal:
        raise LoadError("the checksum does not match: the file was altered or damaged after it was written")
    body = content.pop("body")
    return Description(**content, checksum=seal), body, arrays


def _array(tensor: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(tensor["data"], dtype=_NAMES[tensor["dtype"]]).reshape(tensor["shape"])


def _last(model: Any) -> Any:
    return model.steps[-1][1] if isinstance(model, Pipeline) else model


@cache
def library_version() -> str:
    """The version of Ulmus."""
    return version("ulmus")


def _safetensors(part: str = "") -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as error:
        raise ImportError('saving and loading need safetensors; get it with pip install "ulmus[save]"') from error
    return safetensors.numpy if part else safetensors

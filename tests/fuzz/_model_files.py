"""Model files that were damaged, crafted or made greedy, and what loading them may not do (see ``files``).

``python -m tests.fuzz._model_files 7000 3500`` tries so many damaged and crafted ones in a process with little memory,
and prints the counts as JSON.
"""

import copy
import json
import random
import resource
import struct
import sys
import threading
import tracemalloc
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import ulmus
from ulmus.persistence.budget import allowance
from ulmus.persistence.file import _open, from_bytes, pack, to_bytes
from ulmus.persistence.registry import CLASSES, class_of, name_of, named_objects

FORBIDDEN = ("exec", "import", "open", "os.", "subprocess.", "socket.", "ctypes.", "pickle.", "shutil.")
BIG = 2**27
#: Whether memory is measured; else the process has little of it.
MEASURED, MEMORY = True, 1 << 31


@cache
def models() -> list[tuple[Any, Any]]:
    """Small models of several kinds, with rows that they predict."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(12, 2))
    y, labels = X[:, 0] * X[:, 1], np.array(["no", "yes"])[(X[:, 0] > 0).astype(int)]
    unfolded = ulmus.NKELMRegressor(5, gamma=1.0, C=1.0, random_state=np.random.RandomState(1)).fit(X, y)
    weights = replace(unfolded.fitted_.weights, folds_in=())
    unfolded.fitted_ = replace(unfolded.fitted_, weights=weights)
    columns = ColumnTransformer([("scale", StandardScaler(), [0])], remainder="passthrough")
    names = OneHotEncoder(sparse_output=False)
    return [
        (ulmus.KELMClassifier(gamma=1.0, C=1.0).fit(X, labels), X),
        (unfolded, X),
        (ulmus.ELMRegressor(4, slope=1.0, C=1.0, activation="gaussian", random_state=0).fit(X, y), X),
        (make_pipeline(columns, ulmus.NKELMClassifier(4, random_state=0)).fit(X, labels), X),
        (make_pipeline(names, ulmus.KELMRegressor(gamma=1.0, C=1.0)).fit(labels[:, None], y), labels[:, None]),
    ]


_watching = threading.local()


def _audit(event: str, arguments: Any) -> None:
    if getattr(_watching, "on", False) and event.startswith(FORBIDDEN):
        _watching.on = False
        raise AssertionError(f"a load caused {event}{arguments}")


@cache
def _ready() -> list[tuple[bytes, Any]]:
    """Files of the models; all that loading needs is imported, and from now on watched."""
    for name in CLASSES:
        class_of(name)
    named_objects()
    files = [(to_bytes(model), X) for model, X in models()]
    for data, _ in files:
        from_bytes(data)
    sys.addaudithook(_audit)
    return files


def attempt(data: bytes, words: str) -> Any:
    """The loaded model, or None when it was refused; with the memory that the file may take, and no more."""
    _ready()
    if MEASURED:
        tracemalloc.start()
    _watching.on = True
    try:
        return from_bytes(data)
    except ulmus.LoadError:
        return None
    finally:
        _watching.on = False
        peak = tracemalloc.get_traced_memory()[1]  # 0 when it is not measured
        tracemalloc.stop()
        assert peak <= allowance(len(data)), f"{words}: {len(data):,} bytes took {peak:,}"


def damaged(rng: random.Random) -> str:
    """A file that was changed by chance."""
    whole, _ = rng.choice(_ready())
    data, kind = bytearray(whole), rng.randrange(6)
    if kind == 0:
        for _ in range(rng.choice((1, 1, 2, 8, 64))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[rng.randrange(len(data)) :]
    elif kind == 2:
        data += bytes(rng.randrange(256) for _ in range(rng.randrange(1, 64)))
    elif kind == 3:
        a, b, c = sorted(rng.sample(range(len(data)), 3))
        data[a:c] = data[b:c] + data[a:b]
    elif kind == 4:
        lengths = (0, 1, 10**8, 10**8 + 1, 2**63, 2**64 - 1, rng.randrange(2 * len(data)))
        data[:8] = struct.pack("<Q", rng.choice(lengths))
    else:
        i = rng.randrange(len(data))
        data[i : i + rng.randrange(1, 40)] = bytes(rng.randrange(256) for _ in range(rng.randrange(40)))
    found = attempt(bytes(data), f"damage {kind}")
    assert found is None or to_bytes(found) == whole, f"damage {kind} loads to another model"
    return f"damaged {'refused' if found is None else 'same'}"


def _stored(shape: list[int], data: str = "0", dtype: str = "<f8") -> dict[str, Any]:
    return {"array": {"dtype": dtype, "shape": shape, "order": "C", "data": data}}


#: Values that a file might hold in place of what was there.
NASTY: tuple[Any, ...] = (
    *(None, True, -1, 2**63, 10**30, -(2**31), 0.5, 1e308, "", "__class__", "__reduce__", "a" * 10_000, [], {}, [[[]]]),
    *({"object": 0}, {"object": -1}, {"object": 10**9}, {"array": {}}, {"float": "1e400"}, {"dtype": "V8"}),
    *({"dtype": "i4,(1000000000,)i8"}, {"named": "os.system"}, {"number": "eval"}, {"number": "object"}),
    *({"class": "os.system", "arguments": ["true"]}, {"tuple": "abc"}, {"slice": [[], {}, "a"]}),
    *({"dict": [[[], 1]]}, {"dict": [[{"tuple": [[1]]}, 1]]}, {"set": [{"object": 0}]}, {"dict": [[{"object": 0}, 1]]}),
    *(_stored([10**9, 10**9]), _stored([0, BIG]), _stored([BIG, 0, BIG]), _stored([0], dtype="<M8[ns]")),
    {"array": {"dtype": "<U1000000000", "shape": [1], "values": ["a"]}},
    {"array": {"dtype": "<U10000", "shape": [2000], "values": ["a"] * 2000}},
    {"array": {"dtype": "|O", "shape": [0, 2**62], "values": []}},
    {"scalar": {"dtype": "<M8[ns]", "shape": [], "order": "C", "data": "0"}},
    {"random": ["MT19937", _stored([1], dtype="<u4"), 10**6, 0, 0.0]},
    {"csr": ["csr_matrix", _stored([0]), _stored([0]), _stored([1]), [0, 2**62]]},
)
TYPES = (
    *("os.system", "builtins.eval", "subprocess.Popen", "numpy.load", "pickle.loads", "ulmus.load", "ulmus.demo.main"),
    *("sklearn.svm.SVC", "ulmus.models.nkelm.partial", "__main__.NASTY", ""),
    *CLASSES,
)
#: Names that the state of an object might hide, or carry to a later fit.
NAMES = (
    *("predict", "fit", "__class__", "__dict__", "_parameter_constraints", "_repr_html_", "_doc_link_template"),
    *("memory", "func", "inverse_func", "_sklearn_output_config", "n_features_in_", "classes_", "kernel", "anything_"),
)


def _places(node: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON tree."""
    found: list[tuple[Any, Any]] = []
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    for key, child in pairs:
        found.append((node, key))
        if isinstance(child, dict | list):
            found += _places(child)
    return found


def _change(content: Any, arrays: dict[str, Any], rng: random.Random) -> None:
    """One change by somebody who knows the format."""
    kind = rng.randrange(7)
    places = _places(content)
    node, key = rng.choice(places)
    if kind == 0:
        node[key] = copy.deepcopy(rng.choice(NASTY))
    elif kind == 1:
        objects = [n for n, k in places if k == "class"]
        if objects:
            rng.choice(objects)["class"] = rng.choice(TYPES)
    elif kind == 2:
        other, its = rng.choice(places)
        node[key] = copy.deepcopy(other[its])
    elif kind == 3:
        del node[key]
    elif kind == 4 and arrays:
        name = rng.choice(sorted(arrays))
        array = arrays[name]
        arrays[name] = rng.choice((array[:-1], array.view(np.uint8), np.zeros((2, 2)), np.full_like(array, 200)))
    elif kind == 5:
        states = [n["state"] for n, k in places if k == "state" and isinstance(n["state"], dict)]
        if states:
            rng.choice(states)[rng.choice(NAMES)] = copy.deepcopy(rng.choice((*NASTY, "/tmp/elsewhere")))
    else:
        deep: Any = "x"
        for _ in range(rng.choice((10, 100, 500))):
            deep = [deep]
        node[key] = deep


def crafted(rng: random.Random) -> str:
    """A file that was changed and sealed again."""
    whole, X = rng.choice(_ready())
    description, body, arrays = _open(whole)
    content = {k: v for k, v in vars(description).items() if k != "checksum"} | {"body": body}
    arrays = dict(arrays)  # the content was parsed just now, and is nobody else's
    try:
        for _ in range(rng.choice((1, 1, 1, 3))):
            _change(content, arrays, rng)
        data = pack(content, arrays)
    except (RecursionError, ValueError, OverflowError, TypeError, KeyError, IndexError):
        return "crafted unwritable"
    found = attempt(data, "crafted")
    if found is None:
        return "crafted refused"
    assert name_of(type(found)), f"a file loads to a {type(found)}"
    assert getattr(found, "memory", None) is None, "a forged folder"
    if hasattr(found, "predict") and data != whole:
        with suppress(Exception):  # a Python error is fine; a crash of the process is not
            found.predict(X)
    return "crafted loaded"


def greedy(rng: random.Random) -> str:
    """A small file that declares much: repeated, shared or wide pieces."""
    n = rng.choice((10, 300, 3_000))
    rows = rng.choice(([0, BIG], [BIG, 0], [50, 50], [2500, 1], [1, 2500]))
    pieces = (
        *([], [[[]]], [[], [[]]], {"set": []}, {"dict": []}, {"tuple": [0, 1000]}, {"dict": [[0, []]]}, 0.25, "é"),
        *("\U0001f333" * rng.randrange(9), _stored([2500]), _stored(rows), {"slice": [None, 1000, None]}),
        *({"set": list(range(1000, 1000 + rng.randrange(40)))}, {"scalar": _stored([])["array"]}),
        {"array": {"dtype": f"<U{rng.choice((1, 100, 10**5))}", "shape": [3], "values": ["", "x" * 100, ""]}},
        {"csr": ["csr_array", _stored([0]), _stored([0]), _stored([1], "1", "<i8"), [0, rng.choice((3, BIG))]]},
        {"random": ["MT19937", _stored([624], "2", "<u4"), 0, 0, 0.0]},
    )
    cells = [rng.choice(pieces) for _ in range(3)]
    values = [copy.deepcopy(rng.choice(cells)) for _ in range(n)]
    array = {"array": {"dtype": rng.choice(("|O", "<U9")), "shape": [n], "values": values}}
    objects: list[Any] = [
        {"class": "ulmus.features.kernels.KernelParameters", "state": {"gamma": 1.0, "degree": 3, "coef0": 1.0}}
    ]
    kernel = {"class": "ulmus.features.kernels.CrossKernel", "arguments": ["rbf", _stored(rows), {"object": 0}]}
    objects += [kernel] * rng.choice((0, 1, n))
    objects.append({"class": "sklearn.preprocessing.LabelEncoder", "state": {"classes_": array}})
    content = {
        **{"format": 1, "versions": {"ulmus": "0", "scikit-learn": "0", "numpy": "0"}, "model": "m", "schema": {}},
        **{"notes": {"n": values[:1]}, "body": {"root": {"object": len(objects) - 1}, "objects": objects}},
    }
    arrays = {"0": np.zeros(2500), "1": np.zeros(1, np.int64), "2": np.zeros(624, np.uint32)}
    found = attempt(pack(content, arrays), f"greedy {cells}, {n} times, rows {rows}")
    return f"greedy {'refused' if found is None else 'loaded'}"


def main(n_damaged: int, n_crafted: int) -> None:
    """Many of them, with one seed."""
    global MEASURED  # noqa: PLW0603
    MEASURED = False
    warnings.simplefilter("ignore")
    _ready()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    rng = random.Random(0)
    count = Counter(damaged(rng) for _ in range(n_damaged)) + Counter(crafted(rng) for _ in range(n_crafted))
    print(json.dumps(count))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

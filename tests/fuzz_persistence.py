"""Feeds mutated files to the loader; run by test_persistence in a process of its own, with little memory.

Broken files (``wild``) must be refused by ``LoadError`` or load to the same model. Files that were changed by somebody
who knows the format and sealed them again (``crafted``) must be refused or load to known types. Nothing may be
imported, opened or executed by a load. Prints the counts as JSON.
"""

import copy
import json
import random
import resource
import struct
import sys
import warnings
from contextlib import suppress

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import ulmus
from ulmus.persistence.file import _open, checksum, from_bytes, pack, to_bytes
from ulmus.persistence.registry import CLASSES, class_of, name_of, named_objects

MEMORY = 1 << 31
FORBIDDEN = ("exec", "import", "open", "os.", "subprocess.", "socket.", "ctypes.", "pickle.", "shutil.")
NASTY = (
    *(None, True, -1, 2**63, 10**30, -(2**31), 0.5, 1e308, "", "__class__", "__reduce__", "a" * 10_000, [], {}, [[[]]]),
    *(
        {"object": 0},
        {"object": -1},
        {"object": 10**9},
        {"array": {}},
        {"float": "1e400"},
        {"dtype": "V8"},
        {"dtype": "i4,(1000000000,)i8"},
    ),
    *({"named": "os.system"}, {"number": "eval"}, {"class": "os.system", "arguments": ["true"]}, {"tuple": "abc"}),
    {"array": {"dtype": "<f8", "shape": [10**9, 10**9], "order": "C", "data": "0"}},
    {"array": {"dtype": "<U1000000000", "shape": [1], "values": ["a"]}},
    {"array": {"dtype": "|O", "shape": [0, 2**62], "values": []}},
    {"scalar": {"dtype": "<M8[ns]", "shape": [], "order": "C", "data": "0"}},
    {"random": ["MT19937", {"array": {"dtype": "<u4", "shape": [1], "order": "C", "data": "0"}}, 10**6, 0, 0.0]},
    {"slice": [[], {}, "a"]},
    {"dict": [[[], 1]]},
    {"dict": [[{"tuple": [[1]]}, 1]]},
)
TYPES = (
    *("os.system", "builtins.eval", "subprocess.Popen", "numpy.load", "pickle.loads", "ulmus.load", "ulmus.demo.main"),
    *(
        "sklearn.preprocessing.FunctionTransformer",
        "sklearn.svm.SVC",
        "ulmus.models.nkelm.partial",
        "__main__.NASTY",
        "",
    ),
    *CLASSES,
)

watching = []


def audit(event, arguments):
    if watching and event.startswith(FORBIDDEN):
        raise SystemExit(f"a load caused {event}{arguments}")


def models():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(12, 2))
    y, labels = X[:, 0] * X[:, 1], np.array(["no", "yes"])[(X[:, 0] > 0).astype(int)]
    unfolded = ulmus.NKELMRegressor(5, gamma=1.0, C=1.0, random_state=np.random.RandomState(1)).fit(X, y)
    unfolded._folds_in = ()
    yield ulmus.KELMClassifier(gamma=1.0, C=1.0).fit(X, labels), X
    yield unfolded, X
    yield ulmus.ELMRegressor(4, slope=1.0, C=1.0, activation="gaussian", random_state=0).fit(X, y), X
    yield make_pipeline(StandardScaler(), ulmus.NKELMClassifier(4, random_state=0)).fit(X, labels), X
    yield (
        make_pipeline(OneHotEncoder(sparse_output=False), ulmus.KELMRegressor(gamma=1.0, C=1.0)).fit(
            labels[:, None], y
        ),
        labels[:, None],
    )


def wild(data, rng):
    """A file that was damaged."""
    data = bytearray(data)
    kind = rng.randrange(6)
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
        data[:8] = struct.pack(
            "<Q", rng.choice((0, 1, 10**8, 10**8 + 1, 2**63, 2**64 - 1, rng.randrange(2 * len(data))))
        )
    else:
        i = rng.randrange(len(data))
        data[i : i + rng.randrange(1, 40)] = bytes(rng.randrange(256) for _ in range(rng.randrange(40)))
    return bytes(data)


def places(node):
    """Every (container, key) of a JSON tree."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in pairs:
        yield node, key
        yield from places(child)


def crafted(content, arrays, rng):
    """A file that was changed and sealed again."""
    content, arrays = copy.deepcopy(content), dict(arrays)
    for _ in range(rng.choice((1, 1, 1, 3))):
        kind = rng.randrange(6)
        node, key = rng.choice(list(places(content)))
        if kind == 0:
            node[key] = copy.deepcopy(rng.choice(NASTY))
        elif kind == 1:
            objects = [n for n, k in places(content) if k == "class"]
            if objects:
                rng.choice(objects)["class"] = rng.choice(TYPES)
        elif kind == 2:
            other, its = rng.choice(list(places(content)))
            node[key] = copy.deepcopy(other[its])
        elif kind == 3:
            del node[key]
        elif kind == 4 and arrays:
            name = rng.choice(sorted(arrays))
            arrays[name] = rng.choice(
                (arrays[name][:-1], arrays[name].view(np.uint8), np.zeros((2, 2)), np.full_like(arrays[name], 200))
            )
        else:
            deep = "x"
            for _ in range(rng.choice((10, 100, 500))):
                deep = [deep]
            node[key] = deep
    return pack(content, arrays)


def attempt(data):
    """The loaded model, or None when it was refused."""
    watching.append(True)
    try:
        return from_bytes(data)
    except ulmus.LoadError:
        return None
    finally:
        watching.pop()


def main(n_wild, n_crafted):
    warnings.simplefilter("ignore")
    for name in CLASSES:
        class_of(name)
    named_objects()
    rng = random.Random(0)
    files = [(to_bytes(model), X) for model, X in models()]
    for data, _ in files:
        attempt(data)  # imports what loading needs
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.addaudithook(audit)
    count = {"refused": 0, "same": 0, "other": 0, "crafted_refused": 0, "crafted_loaded": 0}
    for i in range(n_wild):
        data, _ = files[i % len(files)]
        found = attempt(wild(data, rng))
        kind = "refused" if found is None else "same" if to_bytes(found) == data else "other"
        count[kind] += 1
    for i in range(n_crafted):
        data, X = files[i % len(files)]
        description, body, arrays = _open(data)
        content = {k: v for k, v in vars(description).items() if k != "checksum"} | {"body": body}
        assert checksum(content, arrays) == description.checksum
        try:
            changed = crafted(content, arrays, rng)
        except (RecursionError, ValueError, OverflowError):
            continue
        found = attempt(changed)
        count["crafted_refused" if found is None else "crafted_loaded"] += 1
        if found is not None and hasattr(found, "predict"):
            assert name_of(type(found)), type(found)
            with suppress(Exception):  # a Python error is fine; a crash of the process is not
                found.predict(X)
    print(json.dumps(count))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

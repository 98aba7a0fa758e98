"""A fingerprint is the same for the same state, in any process, and another for any other state."""

import subprocess
import sys
import threading

import numpy as np
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from ulmus._fingerprint import differing, fingerprint

X = np.random.RandomState(0).normal(size=(60, 3))


def shifted(by):
    return lambda A: A + by


class Node:
    """An object that holds itself."""

    def __init__(self, value):
        self.value, self.me = value, self


PAIRS = {
    "values": (np.ones(3), np.nextafter(np.ones(3), 2)),
    "shapes": (np.zeros((2, 3)), np.zeros((3, 2))),
    "types": (np.zeros(3), np.zeros(3, np.int64)),
    "numbers": (1, 1.0),
    "order": ([1, 2], [2, 1]),
    "nesting": (["ab", "c"], ["a", "bc"]),
    "keys": ({"a": 1}, {"a": 2}),
    "sparse": (sparse.csr_array(np.eye(3)), sparse.csr_array(2 * np.eye(3))),
    "scalers": (StandardScaler().fit(X), StandardScaler().fit(X + 1)),
    "fitted or not": (StandardScaler(), StandardScaler().fit(X)),
    "pipelines": (make_pipeline(StandardScaler(), PCA(2)).fit(X), make_pipeline(StandardScaler(), PCA(2)).fit(X**3)),
    "columns": tuple(
        ColumnTransformer([("a", OneHotEncoder(), [0]), ("b", StandardScaler(), [1])]).fit(np.round(A)) for A in (X, -X)
    ),
    "trees": tuple(RandomForestRegressor(2, random_state=s).fit(X, X[:, 0]) for s in (0, 1)),
    "code": (FunctionTransformer(lambda A: A + 1), FunctionTransformer(lambda A: A * 1)),
    "constants": (lambda A: A + 1, lambda A: A + 2),
    "closures": (shifted(1), shifted(2)),
    "cycles": (Node(1), Node(2)),
    "generators": (np.random.RandomState(0), np.random.RandomState(1)),
}


@pytest.mark.parametrize("what", PAIRS)
def test_other_state_has_another_fingerprint(what):
    a, b = PAIRS[what]
    assert fingerprint(a) == fingerprint(a)
    assert fingerprint(a) != fingerprint(b)


def test_equal_state_has_one_fingerprint():
    assert fingerprint(StandardScaler().fit(X)) == fingerprint(StandardScaler().fit(X.copy()))
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint(shifted(1)) == fingerprint(shifted(1))
    assert fingerprint(np.asfortranarray(X)) == fingerprint(X)


CHILD = """
from sklearn.preprocessing import OrdinalEncoder
import numpy as np
from ulmus._fingerprint import fingerprint
rows = np.array([["b", 1], ["a", 2]], dtype=object)
def f(x, names={"x", "y", "z"}):
    return x
print(fingerprint([OrdinalEncoder().fit(rows), {"red", "green", "blue"}, f]))
"""


def test_the_next_process_gives_the_same(capsys):
    """Under another seed of the hashes that order sets."""
    exec(CHILD, {"__name__": "__main__"})
    here = capsys.readouterr().out
    environment = {"PYTHONHASHSEED": "1", "PYTHONPATH": ":".join(sys.path)}
    run = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True, env=environment)
    assert here == run.stdout
    assert len(here.strip()) == 32


def test_what_has_no_state_is_refused_by_name():
    with pytest.raises(TypeError, match=r"a _thread\.lock has no state that can be compared"):
        fingerprint({"held": threading.Lock()})


def test_the_attribute_that_differs_is_named_and_threads_do_not_count():
    a, b = (PCA(2, svd_solver="full", random_state=s).fit(X) for s in (0, 1))
    assert differing(a, b) is None
    assert differing(a, PCA(2, svd_solver="full").fit(X + 1)) == "mean_"
    assert differing(a, PCA(2, svd_solver="auto").fit(X)) == "svd_solver"

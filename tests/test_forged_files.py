"""Files made by somebody who knows the format: bounded in memory, refused where a state is not one of its class."""

import json
import os
import re
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, LabelEncoder, StandardScaler

import ulmus
from data import regression
from ulmus.persistence.budget import allowance
from ulmus.persistence.file import FORMAT, _open, from_bytes, pack, to_bytes

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


def forged(objects, root=-1, arrays=None):
    """The bytes of a file that somebody made who knows the format."""
    content = {
        "format": FORMAT,
        "versions": {"ulmus": ulmus.__version__, "scikit-learn": sklearn.__version__, "numpy": np.__version__},
        "model": "forged",
        "schema": {},
        "notes": {},
        "body": {"root": {"object": root % len(objects)}, "objects": objects},
    }
    return pack(content, arrays or {})


def state_of(model):
    return _open(to_bytes(model))[1]["objects"]


PARAMETERS = {"class": "ulmus.features.kernels.KernelParameters", "state": {"gamma": 1.0, "degree": 3, "coef0": 1.0}}


def kernel_of(shape, data="0"):
    array = {"array": {"dtype": "<f8", "shape": shape, "order": "C", "data": data}}
    return {"class": "ulmus.features.kernels.CrossKernel", "arguments": ["rbf", array, {"object": 0}]}


def text(width, values):
    array = {"array": {"dtype": f"<U{width}", "shape": [len(values)], "values": values}}
    return [{"class": "sklearn.preprocessing.LabelEncoder", "state": {"classes_": array}}]


def wide(cell, n):
    """A LabelEncoder whose classes are n copies of a piece of JSON."""
    array = {"array": {"dtype": "|O", "shape": [n], "values": [cell] * n}}
    return [{"class": "sklearn.preprocessing.LabelEncoder", "state": {"classes_": array}}]


GREEDY = {
    "no rows of 2²⁷ columns": lambda: forged([PARAMETERS] + [kernel_of([0, 2**27])] * 3, arrays={"0": np.empty(0)}),
    "one long text": lambda: forged(text(100_000, ["x" * 100_000] + [""] * 5000)),
    "a wide type": lambda: forged(text(10**8, [""])),
    "kernels of the same rows": lambda: forged(
        [PARAMETERS] + [kernel_of([500, 500])] * 500, arrays={"0": np.zeros(250_000)}
    ),
    "an array many times": lambda: forged(
        wide({"array": {"dtype": "<f8", "shape": [50_000], "order": "C", "data": "0"}}, 2_000),
        arrays={"0": np.zeros(50_000)},
    ),
    "many columns of a sparse matrix": lambda: forged(
        [
            {
                "class": "sklearn.preprocessing.LabelEncoder",
                "state": {
                    "classes_": {
                        "csr": [
                            "csr_matrix",
                            *(
                                {"array": {"dtype": "<i8", "shape": [n], "order": "C", "data": name}}
                                for n, name in ((0, "0"), (0, "0"), (1, "1"))
                            ),
                            [0, 2**40],
                        ]
                    }
                },
            }
        ],
        arrays={"0": np.zeros(0, np.int64), "1": np.zeros(1, np.int64)},
    ),
}
#: Of so many small things each a little more is taken; a share of them.
MANY = {
    "empty lists": lambda share: forged(wide([], 400_000 // share)),
    "lists in lists": lambda share: forged(wide([[[[]]]], 300_000 // share)),
    "empty sets": lambda share: forged(wide({"set": []}, 200_000 // share)),
    "sets": lambda share: forged(wide({"set": [1000, 2000, 3000, 4000, 5000]}, 50_000 // share)),
    "generators": lambda share: forged(
        wide(
            {"random": ["MT19937", {"array": {"dtype": "<u4", "shape": [624], "order": "C", "data": "0"}}, 0, 0, 0.0]},
            2_000 // share,
        ),
        arrays={"0": np.zeros(624, np.uint32)},
    ),
    "letters of four bytes": lambda share: forged(wide("🌳", 300_000 // share)),
}


def assert_within_the_allowance(data):
    tracemalloc.start()
    try:
        with suppress(ulmus.LoadError):
            from_bytes(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= allowance(len(data))


@pytest.mark.parametrize("case", GREEDY)
def test_loading_takes_at_most_the_stated_multiple_of_the_file(case):
    assert_within_the_allowance(GREEDY[case]())


@pytest.mark.parametrize(
    ("case", "share"),
    [
        *((case, 8) for case in MANY if case != "lists in lists"),
        pytest.param("lists in lists", 8, marks=pytest.mark.slow),
        *(pytest.param(case, 3, marks=pytest.mark.slow) for case in MANY),
        pytest.param("lists in lists", 1, marks=pytest.mark.slow),  # so many that they are refused
    ],
)
def test_loading_many_small_things_takes_at_most_the_stated_multiple_of_the_file(case, share):
    assert_within_the_allowance(MANY[case](share))


def test_security_md_states_the_multiple_that_is_allowed():
    promise = (Path(__file__).parents[1] / "SECURITY.md").read_text()
    multiple, base = re.search(
        r"at most (\d+) bytes for each byte of the file, and (\d+) MiB besides", promise
    ).groups()
    assert allowance(1000) == int(multiple) * 1000 + int(base) * 2**20


def test_what_needs_more_memory_than_its_file_may_take_is_refused_at_saving():
    labels = np.array(["x" * 50_000, *(f"{i}" for i in range(200))])
    model = LabelEncoder().fit(labels)
    with pytest.raises(ValueError, match="more memory than a file of this size may"):
        to_bytes(model)


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        (make_pipeline(StandardScaler()), {"memory": "/tmp/elsewhere"}, "nor folders to write to; memory must be None"),
        (FunctionTransformer(), {"func": {"number": "object"}}, "func must be None"),
        (TransformedTargetRegressor(), {"inverse_func": {"number": "float"}}, "inverse_func must be None"),
        (StandardScaler(), {"with_mean": "yes"}, "'with_mean' parameter of StandardScaler must be"),
        (ulmus.KELMRegressor(), {"kernel": 3}, "kernel"),
        (StandardScaler(), {"_doc_link_template": "javascript:alert(1)"}, "_doc_link_template"),
        (StandardScaler(), {"_anything": 1}, "_anything"),
        (StandardScaler(), {"_sklearn_output_config": {"dict": [["transform", "os"]]}}, "_sklearn_output_config"),
        (StandardScaler(), {"n_features_in_": -1}, "n_features_in_"),
        (ulmus.KELMRegressor(), {"_parameter_constraints": {"dict": []}}, "_parameter_constraints"),
        (ulmus.NKELMRegressor(cv=StratifiedKFold(3)), {"split": 1}, "lacks|unknown entries"),
    ],
    ids=lambda v: next(iter(v)) if isinstance(v, dict) else None,
)
def test_a_forged_state_is_refused(model, change, message):
    objects = state_of(model)
    place = 0 if "split" in change else -1
    objects[place]["state"].update(change)
    with pytest.raises(ulmus.LoadError, match=message):
        from_bytes(forged(objects))


def test_a_forged_field_of_another_type_is_refused():
    model = ulmus.NKELMRegressor(5, random_state=0).fit(*regression(60))
    _, body, arrays = _open(to_bytes(model))
    tuning = next(o for o in body["objects"] if o["class"] == "ulmus.tuning.search.Tuning")
    tuning["state"]["trials"] = {"tuple": [1, 2]}
    with pytest.raises(ulmus.LoadError, match=r"Tuning\.trials must be"):
        from_bytes(forged(body["objects"], arrays=arrays))


def test_a_pipeline_that_would_write_to_a_folder_is_not_saved(tmp_path):
    model = make_pipeline(StandardScaler(), ulmus.KELMRegressor(), memory=str(tmp_path))
    with pytest.raises(TypeError, match="memory must be None"):
        to_bytes(model)


def test_keys_that_hold_objects_are_refused():
    """Their hash could take exponentially long."""
    array = {"array": {"dtype": "|O", "shape": [1], "values": [{"set": [{"tuple": [{"object": 0}]}]}]}}
    objects = [PARAMETERS, {"class": "sklearn.preprocessing.LabelEncoder", "state": {"classes_": array}}]
    with pytest.raises(ulmus.LoadError, match="cannot be a key"):
        from_bytes(forged(objects))


@pytest.mark.parametrize(("damaged", "crafted"), [(400, 200), pytest.param(7000, 3500, marks=pytest.mark.slow)])
def test_mutated_files_are_refused_or_load_to_the_same(damaged, crafted):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.fuzz._model_files", f"{damaged}", f"{crafted}"]
    root = Path(__file__).parents[1]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=root)
    assert run.returncode == 0, run.stderr[-2000:]
    count = json.loads(run.stdout)
    assert count["damaged refused"] + count.get("damaged same", 0) == damaged
    assert sum(count.values()) == damaged + crafted
    assert count["crafted refused"] > 0.28 * crafted

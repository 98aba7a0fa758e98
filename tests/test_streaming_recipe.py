"""The recipe of docs/streaming.md on other engines: processes that share nothing stand for Spark and Ray."""

import pickle
import re
import textwrap
from concurrent.futures import ProcessPoolExecutor
from functools import partial, reduce
from multiprocessing import get_context
from operator import add
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd

import fixed
from data import classification, regression, relative_error
from ulmus.streaming import Steps

X, Y = regression(800)
LABELS = classification(800)[1]


def summarise(steps, part):
    return pickle.dumps(steps.summarise(steps.rows(*part)))


def test_sums_that_were_made_in_other_processes_give_the_fitted_model():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for make, y in ((fixed.NKELMRegressor, Y), (fixed.ELMClassifier, LABELS)):
            model = make(C=10.0, random_state=0)
            steps = Steps(model)
            steps.begin(steps.read(X[::4], y[::4], y if y is LABELS else None))
            parts = [(X[k : k + 150], y[k : k + 150]) for k in range(0, 800, 150)]
            total = reduce(add, map(pickle.loads, pool.map(partial(summarise, steps), parts)))
            steps.finish(total)
            Phi, T = model.map_.transform(X), steps.rows(X, y).T
            beta = np.linalg.solve(Phi.T @ Phi + np.eye(Phi.shape[1]) / 10.0, Phi.T @ T)
            assert relative_error(model._scores_of(X), Phi @ beta) <= 1e-9  # of a plain solve


class FakeFrame:
    """What the recipe asks of a Spark frame; partitions are pickled on their way, as a cluster does."""

    def __init__(self, parts):
        self.parts = parts

    def mapInPandas(self, function, schema):
        assert schema == "sums binary"
        return FakeFrame([f for part in self.parts for f in function(iter([pickle.loads(pickle.dumps(part))]))])

    def toPandas(self):
        return pd.concat(self.parts)


class FakeRay:
    """What the recipe asks of Ray."""

    @staticmethod
    def remote(function):
        return SimpleNamespace(remote=lambda part: pickle.dumps(function(part)))

    @staticmethod
    def get(pickled):
        return [pickle.loads(found) for found in pickled]


def test_the_lines_for_spark_and_ray_give_what_the_plain_loop_gives():
    """The very lines of docs/streaming.md, run by stand-ins for the two engines."""
    text = (Path(__file__).parent.parent / "docs" / "streaming.md").read_text()
    names = {}
    code = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    exec("\n".join([code[0], code[-1]]), names)
    expected = names["total"].total.moments
    recipe = text[text.index("## Spark, Ray") :]
    blocks = [
        textwrap.dedent(block) for block in re.findall(r"(?:^    \S.*\n)+", recipe.split("```")[-1], re.MULTILINE)
    ]
    assert len(blocks) == 2
    empty = names["partitions"][0][:0]
    for block, engine in zip(blocks, ("df", "ray"), strict=True):
        names.update(total=None, df=FakeFrame([*names["partitions"], empty]), ray=FakeRay)
        assert engine in block
        exec(block, names)
        assert relative_error(names["total"].total.moments, expected) <= 1e-13
        assert names["total"].total.n_rows == 2000

"""Data, models and blocks that tests of streams share."""

from itertools import pairwise

import numpy as np
import pytest

from data import classification, regression

X, Y = regression(700)
LABELS = classification(700)[1]
WEIGHT = np.random.RandomState(1).randint(1, 4, 700).astype(float)
#: Nothing left to the data: the recursion of the literature, from the first row.
GIVEN = {"scale": 1.0, "slope": 1.0, "C": 100.0, "fit_intercept": False, "random_state": 0}

ONLINE = pytest.mark.parametrize("form", ["root", "covariance", "information"])


def blocks(n, sizes):
    """Consecutive slices of these sizes; the last takes what is left."""
    cuts = np.minimum(np.cumsum([0, *sizes, n]), n)
    return [slice(a, b) for a, b in pairwise(cuts) if b > a]


def streamed(model, y, sizes, weight=None, **first):
    """A model that has learned ``X`` and ``y`` in blocks of these sizes."""
    for i, part in enumerate(blocks(len(y), sizes)):
        w = None if weight is None else weight[part]
        model.partial_fit(X[part], y[part], sample_weight=w, **(first if i == 0 else {}))
    return model

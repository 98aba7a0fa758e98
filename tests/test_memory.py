"""Memory: prediction and fitting never hold the rows times the features, an exact kernel holds one square."""

import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.base import clone

from data import cases, rows
from fixed import ELMClassifier, ELMRegressor, KELMRegressor, NKELMClassifier, NKELMRegressor
from ulmus import NystromMap, engine
from ulmus.features import sampling

MB = 2**20


@contextmanager
def peak():
    """The most memory that was held at a time inside, above what was held before; NumPy reports its arrays."""
    measured = {}
    tracemalloc.start()
    try:
        yield measured
        measured["bytes"] = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def table(n, m=4, classes=None):
    X = rows(n, m)
    return X, (np.sin(X[:, 0]) if classes is None else np.digitize(X[:, 0], [-0.5, 0.5]))


MODELS = {
    "elm": ELMRegressor(300, C=8.0, random_state=0, n_jobs=2),
    "rvfl": ELMRegressor(300, C=8.0, direct_links=True, random_state=0, n_jobs=2),
    "elm-classifier": ELMClassifier(300, C=8.0, random_state=0, n_jobs=2),
    "nkelm": NKELMRegressor(300, gamma=0.5, C=8.0, random_state=0, n_jobs=2),
    "nkelm-smooth": NKELMRegressor(300, gamma=0.02, C=8.0, random_state=0, n_jobs=2),
    "nkelm-rank": NKELMRegressor(300, gamma=0.5, C=8.0, rank=200, random_state=0, n_jobs=2),
    "nkelm-classifier": NKELMClassifier(300, gamma=0.5, C=8.0, random_state=0, n_jobs=2),
}


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
@pytest.mark.parametrize("name", MODELS)
def test_predicting_never_holds_rows_times_features(name):
    X, y = table(1000, classes=3 if "classifier" in name else None)
    model = MODELS[name].fit(X, y)
    Q = rows(50_000, 4, seed=1)
    product = 8 * len(Q) * 300
    with peak() as held:
        predicted = model.predict(Q)
    # scores and answers are a few numbers per row; tiles are what else there is
    assert held["bytes"] < 8 * len(Q) * 12 + 2 * 6 * engine.TILE_BYTES < product / 5
    assert len(predicted) == len(Q)


def test_an_exact_kernel_predicts_without_a_rectangle():
    X, T = table(1500)
    model = KELMRegressor(gamma=0.5, C=8.0, n_jobs=2).fit(X, T)
    Q = rows(10_000, 4, seed=1)
    with peak() as held:
        model.predict(Q)
    assert held["bytes"] < 8 * len(Q) * 12 + 2 * 6 * engine.TILE_BYTES < 8 * len(Q) * len(X) / 5


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian_l1"])
def test_an_exact_kernel_is_fitted_with_one_square_alive(kernel, fit_intercept):
    n = 2500
    X, T = table(n)
    square = 8 * n * n
    with peak() as held:
        KELMRegressor(kernel=kernel, gamma=0.5, C=8.0, fit_intercept=fit_intercept, n_jobs=2).fit(X, T)
    # the square, and per thread two blocks of 256 rows
    assert square < held["bytes"] < square + 2 * 2 * (8 * 256 * n) + 4 * MB < 1.5 * square


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
@pytest.mark.parametrize("name", cases([name for name in MODELS if "classifier" not in name], "nkelm"))
def test_fitting_holds_blocks_and_squares_whatever_the_number_of_rows(monkeypatch, name):
    # small blocks, so that few rows fill them
    monkeypatch.setattr(engine, "BLOCK_BYTES", 2 * MB)
    monkeypatch.setattr(sampling, "PIECE_ROWS", 2**14)
    held = {}
    for n in (60_000, 200_000):
        X, T = table(n)
        with peak() as measured:
            MODELS[name].fit(X, T)
        held[n] = measured["bytes"]
    # two threads with a block and a few tiles each, some L × L squares, and the keys by which landmarks are drawn
    bound = 2 * (2 * MB + 4 * engine.TILE_BYTES) + 14 * 8 * 310**2 + 64 * 2**14
    assert held[60_000] < bound < 8 * 60_000 * 300 / 5
    assert held[200_000] < bound + 2 * 8 * 140_000


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
@pytest.mark.parametrize("name", cases(["elm", "rvfl", "nkelm", "nkelm-smooth", "nkelm-rank"], "elm"))
def test_what_grows_with_the_rows_is_one_number_for_each(monkeypatch, name):
    # on one thread: the peaks of two need not meet
    monkeypatch.setattr(engine, "BLOCK_BYTES", 2 * MB)
    monkeypatch.setattr(sampling, "PIECE_ROWS", 2**14)
    held = {}
    for n in (60_000, 200_000):
        X, T = table(n)
        model = clone(MODELS[name]).set_params(n_jobs=1)
        with peak() as measured:
            model.fit(X, T)
        held[n] = measured["bytes"]
    assert held[200_000] - held[60_000] < 2 * 8 * 140_000


def test_transforming_holds_its_answer_and_tiles():
    X = rows(30_000, 4)
    phi = NystromMap(100, gamma=0.5, random_state=0, n_jobs=2).fit(X[:1000])
    answer = 8 * 30_000 * 100
    with peak() as held:
        phi.transform(X)
    assert held["bytes"] < answer + 2 * 6 * engine.TILE_BYTES

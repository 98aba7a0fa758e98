"""The choice of a view: kernels are compared with landmarks enough for the rougher one."""

import numpy as np
import pytest

from ulmus.codings import Plain
from ulmus.engine import Rows
from ulmus.tuning.views import KERNELS, Budget, View, ViewSearch


def search(X, T, **budget):
    numbers, rng = np.zeros(X.shape[1], bool), np.random.RandomState(0)
    coding = Plain(T.std(axis=0))
    return ViewSearch(Rows(X, T), coding, numbers, rng, fit_intercept=True, budget=Budget(**budget))


def rough(n=900):
    """A smooth surface and the fields of a board: the rougher kernel is better, once it has landmarks enough."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, size=(n, 2))
    board = np.floor(2 * X).sum(axis=1, keepdims=True) % 2
    return X, np.sin(3 * X[:, :1]) + X[:, 1:] ** 2 + 0.5 * board + 0.02 * rng.normal(size=(n, 1))


def test_the_rougher_kernel_wins_when_there_are_landmarks_enough():
    X, T = rough()
    few = {"rows": 900, "landmarks": 30, "metric_rows": 900, "metric_landmarks": 30, "rounds": 1}
    as_few, as_many = (search(X, T, **few, final_landmarks=count) for count in (30, 450))
    assert as_few.choose().kernel == "matern32"
    assert as_many.choose().kernel == "laplacian_l1" == KERNELS[0]
    # the last two trials are those of the two kernels with more landmarks
    assert max(trial.best_loss for trial in as_many.trials[-2:]) < min(trial.best_loss for trial in as_few.trials[-2:])


def test_losses_with_more_landmarks_are_those_of_refits_without_the_row():
    X, T = rough(120)
    found = search(X, T, rows=120, landmarks=60, metric_rows=120, metric_landmarks=60, rounds=1, final_landmarks=400)
    view = View(found.whole, np.array([1.0, 0.5]), "laplacian_l1", 0.7)
    loss = found._with_more_landmarks(Rows(X, T), [view], [8.0])["laplacian_l1"]
    C, U, rest = found.trials[-1].best_C, X * view.metric, ~np.eye(120, dtype=bool)
    K = np.exp(-view.gamma * np.abs(U[:, None] - U).sum(axis=-1))
    errors = []
    for i in range(120):
        A = np.ones((120, 120))
        A[:119, :119], A[119, 119] = K[rest[i]][:, rest[i]] + np.eye(119) / C, 0.0
        solved = np.linalg.solve(A, np.append(T[rest[i]], 0.0))
        errors.append(T[i, 0] - K[i, rest[i]] @ solved[:-1] - solved[-1])
    assert loss == pytest.approx(np.mean(np.square(errors)) / T.var(), rel=1e-5)

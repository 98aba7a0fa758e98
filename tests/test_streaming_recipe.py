"""The recipe of docs/streaming.md on other engines: processes that share nothing stand for Spark and Ray."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from functools import partial, reduce
from multiprocessing import get_context
from operator import add

import numpy as np

import fixed
from data import classification, regression, relative_error
from ulmus.engine import Rows

X, Y = regression(800)
LABELS = classification(800)[1]


def summarise(model, part):
    inputs, targets = part
    return pickle.dumps(model._summarise(Rows(inputs, model._encode_more(targets)[0])))


def test_sums_that_were_made_in_other_processes_give_the_fitted_model():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for make, y in ((fixed.NKELMRegressor, Y), (fixed.ELMClassifier, LABELS)):
            model = make(C=10.0, random_state=0)
            _, labels = model._validate(X[::4], y[::4])
            model._encode(np.unique(y) if y is LABELS else labels, None)
            sample = Rows(X[::4], model._encode_more(labels)[0])
            rng = np.random.RandomState(0)
            model._begin(sample, None, rng)
            parts = [(X[k : k + 150], y[k : k + 150]) for k in range(0, 800, 150)]
            total = reduce(add, map(pickle.loads, pool.map(partial(summarise, model), parts)))
            model._finish(total, sample, rng)
            Phi, T = model.map_.transform(X), model._encode_more(y)[0]
            beta = np.linalg.solve(Phi.T @ Phi + np.eye(Phi.shape[1]) / 10.0, Phi.T @ T)
            assert relative_error(model._scores_of(X), Phi @ beta) <= 1e-9  # of a plain solve

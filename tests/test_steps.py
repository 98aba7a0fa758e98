"""Begin, summarise, finish: sums of blocks give the model that a fit of all rows gives."""

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fixed
import reference
import ulmus
from data import classification, regression, relative_error
from ulmus import engine
from ulmus.engine import Rows
from ulmus.solvers.ridge import fit_sums
from ulmus.statistics import Extent, Statistics
from ulmus.streaming import Steps

X, Y = regression(400)
LABELS = classification(400)[1]
WEIGHT = np.random.RandomState(1).randint(1, 4, 400).astype(float)

MODELS = pytest.mark.parametrize(
    ("make", "y"),
    [
        (lambda: fixed.ELMRegressor(C=100.0, random_state=0), Y),
        (lambda: fixed.ELMRegressor(C=100.0, fit_intercept=True, random_state=0), np.column_stack([Y, 7 - Y])),
        (lambda: fixed.ELMClassifier(C=100.0, random_state=0), LABELS),
        (lambda: fixed.NKELMRegressor(C=100.0, fit_intercept=True, random_state=0), Y),
        (lambda: fixed.NKELMClassifier(C=100.0, random_state=0), LABELS),
    ],
    ids=["ELM", "ELM two outputs", "ELM classes", "NKELM", "NKELM classes"],
)


def in_steps(model, y, sizes, weight=None):
    """The three steps, the rows cut into blocks of these sizes."""
    steps = Steps(model)
    steps.read(X, y)
    rows = steps.rows(X, y, weight)
    steps.begin(rows)
    cuts = np.cumsum([0, *sizes, len(y)])
    blocks = [rows[slice(a, b)] for a, b in zip(cuts, np.minimum(cuts[1:], len(y)))]
    return steps.finish(reduce(add, map(steps.summarise, blocks)))


@MODELS
@settings(max_examples=5)
@given(sizes=st.lists(st.integers(0, 150), max_size=5), weighted=st.booleans())
def test_sums_of_blocks_give_the_weights_of_one_fit(make, y, sizes, weighted):
    weight = WEIGHT if weighted else None
    whole, steps = make().fit(X, y, weight), in_steps(make(), y, sizes, weight)
    # C times the largest eigenvalue is some 1e5: round-off of the sums times that
    assert relative_error(steps.beta_, whole.beta_) <= 1e-9
    assert relative_error(steps._scores_of(X), whole._scores_of(X)) <= 1e-10


@MODELS
def test_a_model_in_steps_is_calibrated_like_a_fitted_one(make, y):
    whole, steps = make().fit(X, y), in_steps(make(), y, [100, 50])
    if hasattr(whole, "temperature_"):
        assert steps.temperature_ == pytest.approx(whole.temperature_, rel=1e-6)
    else:
        assert relative_error(steps.predict_interval(X), whole.predict_interval(X)) <= 1e-8
        assert relative_error(steps.predict(X, return_std=True)[1], whole.predict(X, return_std=True)[1]) <= 1e-8


def test_error_bound_from_sums_is_that_of_the_rows_or_a_little_more():
    whole = fixed.NKELMRegressor(C=0.01, random_state=0).fit(X, Y)
    steps = in_steps(fixed.NKELMRegressor(C=0.01, random_state=0), Y, [100, 7])
    assert relative_error(steps.error_bound(X), whole.error_bound(X)) <= 1e-8


def test_C_and_size_left_open_are_chosen_on_all_rows_from_their_sums():
    model = ulmus.NKELMRegressor(gamma=0.3, random_state=0)
    steps = Steps(model)
    rows, folds, T = steps.read(X, Y), np.arange(len(Y)) % 4, Y[:, None]
    steps.begin(rows[:100], oversize=True)
    offered = steps.plan.features.n_features_out
    blocks = [slice(0, 100), slice(100, 101), slice(101, 400)]
    summary = reduce(add, (steps.summarise(rows[b], folds[b], 4) for b in blocks))
    steps.finish(summary, rows, folds, choose=True)
    trial = next(t for t in reversed(model.tuning_.trials) if t.size == model.map_.n_features_out)
    assert model.n_landmarks_ in (offered // 4, offered // 2, offered)
    # the loss of the choice, by brute force: every fold predicted by the model of the others
    Phi, errors = model.map_.transform(X), np.empty(len(Y))
    for k in range(4):
        beta, b = reference.ridge(Phi[folds != k], T[folds != k], model.C_, fit_intercept=True)
        errors[folds == k] = (Phi[folds == k] @ beta + b - T[folds == k])[:, 0]
    assert trial.best_loss == pytest.approx(np.mean(errors**2) / Y.var(), rel=1e-6)
    assert trial.best_C == model.C_


def test_left_out_rows_from_sums_are_those_of_models_without_them():
    model = ulmus.ELMRegressor(30, slope=1.0, random_state=0)
    steps, T = Steps(model), Y[:, None]
    rows = steps.read(X, Y)
    steps.begin(rows[:200])
    steps.finish(steps.summarise(rows), rows[:50], choose=True)
    H, errors = model.map_.transform(X), []
    for i in range(50):
        others = np.arange(len(Y)) != i
        beta, b = reference.ridge(H[others], T[others], model.C_, fit_intercept=True)
        errors.append((H[i] @ beta + b - T[i])[0])
    assert model.tuning_.loss == pytest.approx(np.mean(np.square(errors)) / Y[:50].var(), rel=1e-6)


@dataclass
class Again:
    """A second pass over the rows, block by block."""

    features: object
    rows: Rows
    C: float
    fit_intercept: bool = False

    def gradient(self, beta, intercept):
        blocks = (self.rows[s] for s in engine.pieces(len(self.rows), 70))
        total = sum(engine.gradient(self.features, block, beta, intercept) for block in blocks)
        return total[:-1] - beta / self.C, total[-1]


def test_corrections_from_the_rows_win_back_the_digits_of_sums():
    C = 1e10
    layer = ulmus.RandomLayer(60, activation="sigmoid", random_state=0).fit(X)
    rows = Rows(X, Y[:, None])
    stats = engine.gram_statistics(layer, rows)
    with pytest.warns(ulmus.NumericalWarning, match="lost digits"):
        rough = fit_sums(stats, C, fit_intercept=False)
    exact = reference.ridge(layer.transform(X), Y, C)[0]
    fitted = layer.transform(X) @ exact
    corrected = fit_sums(stats, C, False, Again(layer, rows, C))
    assert relative_error(layer.transform(X) @ corrected.beta, fitted) <= 1e-10
    assert relative_error(layer.transform(X) @ rough.beta, fitted) > 1e-10


def test_sums_without_a_penalty_and_without_full_rank_give_the_smallest_weights():
    H = np.random.RandomState(0).normal(size=(50, 6))
    H[:, 5] = H[:, 0]
    T = H @ np.arange(6.0)[:, None]
    with pytest.warns(ulmus.NumericalWarning):
        found = fit_sums(Statistics.of(H, T), None, fit_intercept=False)
    assert relative_error(found.beta, np.linalg.pinv(H) @ T) <= 1e-6


def test_recoded_targets_are_what_the_rows_would_give():
    Phi, T = X[:, :2], np.column_stack([Y, LABELS])
    M = np.random.RandomState(0).normal(size=(3, 4))
    expected = Statistics.of(Phi, np.column_stack([T, np.ones(len(Y))]) @ M)
    assert relative_error(Statistics.of(Phi, T).recoded(M).moments, expected.moments) <= 1e-13


def test_extent_of_blocks_is_that_of_all_rows():
    T, d, w = np.column_stack([Y, -Y]), np.abs(X[:, 0]), WEIGHT
    blocks = [Extent.of(T[s], d[s], w[s]) for s in (slice(0, 3), slice(3, 3), slice(3, 400))]
    whole, added = Extent.of(T, d, w), reduce(add, blocks)
    assert (added.low == whole.low).all()
    assert (added.high == whole.high).all()
    assert added.diagonal_max == whole.diagonal_max
    assert added.diagonal_sum == pytest.approx(whole.diagonal_sum)
    assert added.target_bound == np.abs(Y).max()


def test_a_label_that_was_never_announced_is_refused():
    steps = Steps(fixed.ELMClassifier(C=1.0).fit(X, LABELS))
    with pytest.raises(ValueError, match="labels \\[7\\] are not among the known classes"):
        steps.rows(X[:3], np.array([0, 7, 1]))

"""Newton's method where the penalty is beyond the digits of sums: on the directions that rows reach."""

import mpmath
import numpy as np
import pytest

from ulmus.engine import Rows
from ulmus.losses import LOSSES
from ulmus.solvers.newton import NewtonOptions, newton
from ulmus.solvers.newton_rows import HeldRows
from ulmus.solvers.span import TINY, Span, beyond_digits, minimise

WEIGHT = np.array([0.3, 600.0, 5000.0, 800.0])


def held(n, copies=1, intercept=False, D=6, seed=0):
    """Rows of a tanh layer, each so many times with targets of its own."""
    rng = np.random.RandomState(seed)
    Phi = np.repeat(np.tanh(rng.normal(size=(n, D))), copies, axis=0)
    weight = np.resize(WEIGHT, len(Phi)) if copies == 1 else np.exp(rng.normal(size=len(Phi)))
    return HeldRows(Phi, Rows(None, rng.normal(size=(len(Phi), 1)), weight), intercept, 1)


def solve(rows, name, C, by=minimise, c=1.0, options=None):
    start = np.zeros((rows.n_features, 1)), np.zeros(1)
    return by(rows, LOSSES[name], np.array([c]), np.array([C]), *start, options or NewtonOptions())[0]


@pytest.mark.parametrize("name", ["squared", "huber", "logcosh"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("C", [1e7, 2e15])
def test_fewer_rows_than_features_are_met_by_weights_of_smallest_norm(C, intercept, name):
    rows = held(4, intercept=intercept)
    result = solve(rows, name, C)
    assert result.converged
    assert len(result.path.step_length) <= 12
    t = rows.rows.T[:, 0]
    np.testing.assert_allclose(rows.Phi @ result.beta + result.intercept, t, atol=1e-4)
    away = rows.Phi - intercept * rows.Phi.mean(axis=0)
    least = np.linalg.lstsq(away, t - intercept * t.mean(), rcond=None)[0]
    assert np.linalg.norm(result.beta - least) <= 1e-4 * np.linalg.norm(least)


@pytest.mark.parametrize("name", ["squared", "huber"])
@pytest.mark.parametrize("intercept", [False, True])
def test_copies_that_contradict_each_other_leave_no_weight_where_no_row_reaches(intercept, name):
    rows = held(4, copies=7, intercept=intercept)
    result = solve(rows, name, 2e15)
    assert result.converged
    assert len(result.path.step_length) <= 12
    reached = np.linalg.svd(rows.Phi - intercept * rows.Phi.mean(axis=0))[2][: 4 - intercept]
    unreached = result.beta - reached.T @ (reached @ result.beta)
    assert np.linalg.norm(unreached) <= 1e-12 * np.linalg.norm(result.beta)
    # every row is met as well as its copies allow: pulls of copies cancel
    loss, w = LOSSES[name], rows.rows.weight
    pulls = (w * loss.slope(rows.Phi @ result.beta + result.intercept - rows.rows.T[:, 0], 1.0)).reshape(4, 7)
    assert np.abs(pulls.sum(axis=1)).max() <= 1e-9 * np.abs(pulls).sum()


@pytest.mark.parametrize(("n", "copies", "D"), [(40, 10, 60), (120, 1, 150)])
@pytest.mark.parametrize("intercept", [False, True])
def test_more_rows_find_their_span_where_the_penalty_is_lost_and_only_there(intercept, n, copies, D):
    rows = held(n, copies, intercept, D)
    assert len(rows.Phi) * D * min(len(rows.Phi), D) > TINY
    assert not beyond_digits(rows, 1e6)
    assert not beyond_digits(held(300, 1, intercept, 60), 1e10)
    result = solve(rows, "huber", 1e15)
    assert rows.spans
    assert result.converged
    assert len(result.path.step_length) <= 30


@pytest.mark.parametrize("copies", [1, 7])
@pytest.mark.parametrize("intercept", [False, True])
def test_leverages_are_exact_within_and_beyond_what_rows_reach(intercept, copies):
    rows, C = held(4, copies, intercept), 1e12
    found = solve(rows, "squared", C)
    assert beyond_digits(rows, C)
    queries = np.vstack([rows.Phi[:2], np.random.RandomState(1).normal(size=(3, 6))])
    w, F = rows.rows.weight, mpmath.matrix(rows.Phi.tolist())
    with mpmath.workdps(60):
        mean = mpmath.matrix([mpmath.fsum(w[i] * F[i, j] for i in range(len(w))) for j in range(6)]) / mpmath.fsum(w)
        mean = mean * int(intercept)
        away = mpmath.matrix([[F[i, j] - mean[j] for j in range(6)] for i in range(len(w))])
        inverse = (away.T * mpmath.diag(w.tolist()) * away + mpmath.eye(6) / mpmath.mpf(C)) ** -1
        exact = []
        for query in queries:
            v = mpmath.matrix(query.tolist()) - mean
            exact.append(float((v.T * inverse * v)[0] + intercept / mpmath.fsum(w)))
    np.testing.assert_allclose(found.leverage(queries), exact, rtol=1e-6)


@pytest.mark.parametrize("name", ["squared", "huber", "logcosh"])
@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("intercept", [False, True])
def test_on_the_span_the_minimum_is_the_same(monkeypatch, intercept, penalty, name):
    rows, options = held(40, intercept=intercept), NewtonOptions(tol=1e-12, bias_penalty=penalty)
    plain = solve(rows, name, 5.0, newton, options=options)
    monkeypatch.setattr("ulmus.solvers.span.beyond_digits", lambda rows, C: True)
    turned = solve(rows, name, 5.0, options=options)
    assert isinstance(rows.spans[intercept and not penalty], Span)
    np.testing.assert_allclose(turned.beta, plain.beta, atol=1e-9)
    assert turned.intercept == pytest.approx(plain.intercept, abs=1e-9)
    np.testing.assert_allclose(turned.residual, plain.residual, atol=1e-9)
    np.testing.assert_allclose(turned.leverage(rows.Phi), plain.leverage(rows.Phi), rtol=1e-6)
    v = np.random.RandomState(2).normal(size=(6, 2))
    np.testing.assert_allclose(turned.leverage.inverse(v), plain.leverage.inverse(v), rtol=1e-6, atol=1e-12)

"""The sums: they add, scale, subtract and nest, in Gram and in triangular form."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data import examples, relative_error
from ulmus.statistics import Statistics, TriangularStatistics, design_matrix

# Sums of up to a few hundred products of standard normal numbers: round-off is some 1e-14 of the largest moment.
TOLERANCE = 1e-12


@st.composite
def tables(draw, min_rows=1):
    """Feature rows, targets, integer weights and a generator."""
    rng = np.random.RandomState(draw(st.integers(0, 2**31 - 1)))
    n, D, s = draw(st.integers(min_rows, 40)), draw(st.integers(1, 6)), draw(st.integers(1, 3))
    size = 10.0 ** draw(st.integers(-3, 3))
    return size * rng.normal(size=(n, D)), rng.normal(size=(n, s)), rng.randint(1, 4, n), rng


def triangular(Phi, T, weight=None):
    stats = TriangularStatistics.zeros(Phi.shape[1], T.shape[1])
    stats.add_rows(design_matrix(Phi, T, weight))
    return stats


def same(a, b):
    """Same moments, entry by entry, on the scale of the diagonal."""
    if isinstance(a, TriangularStatistics):
        a, b = a.to_gram(), b.to_gram()
    scale = np.sqrt(np.maximum(np.diag(b.moments), np.finfo(float).tiny))
    return np.abs((a.moments - b.moments) / np.outer(scale, scale)).max() <= TOLERANCE and a.n_rows == b.n_rows


FORMS = pytest.mark.parametrize("form", [Statistics.of, triangular], ids=["gram", "triangular"])
checked = settings(max_examples=examples(50))


def merged(a, b):
    if isinstance(a, Statistics):
        return a + b
    total = TriangularStatistics(a.factor, a.n_outputs, a.n_rows)
    total += b
    return total


@checked
@given(table=tables())
def test_blocks_of_the_moments_are_what_their_names_say(table):
    Phi, T, w, _ = table
    stats = Statistics.of(Phi, T, w)
    W = np.diag(w.astype(float))
    for actual, expected in (
        (stats.gram, Phi.T @ W @ Phi),
        (stats.cross, Phi.T @ W @ T),
        (stats.target, T.T @ W @ T),
        (stats.feature_mean * stats.weight, w @ Phi),
        (stats.target_mean * stats.weight, w @ T),
        (np.array([stats.weight]), np.array([float(w.sum())])),
    ):
        assert np.abs(actual - expected).max() <= TOLERANCE * max(1e-6, np.abs(Phi).max() ** 2, 1.0) * w.sum()


@FORMS
@checked
@given(table=tables(min_rows=3), cuts=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_merge_is_associative_and_equals_one_pass(form, table, cuts):
    Phi, T, w, _ = table
    i, j = sorted(1 + int(c * (len(T) - 2)) for c in cuts)
    a, b, c = (form(Phi[s], T[s], w[s]) for s in (slice(0, i), slice(i, max(j, i + 1)), slice(max(j, i + 1), None)))
    whole = form(Phi, T, w)
    assert same(merged(merged(a, b), c), whole)
    assert same(merged(a, merged(b, c)), whole)
    assert same(merged(b, a), merged(a, b))


@FORMS
@checked
@given(table=tables())
def test_permuting_rows_changes_nothing(form, table):
    Phi, T, w, rng = table
    order = rng.permutation(len(T))
    assert same(form(Phi[order], T[order], w[order]), form(Phi, T, w))


@FORMS
@checked
@given(table=tables())
def test_weights_equal_repeats(form, table):
    Phi, T, w, _ = table
    weighted, repeated = form(Phi, T, w), form(np.repeat(Phi, w, axis=0), np.repeat(T, w, axis=0))
    repeated.n_rows = weighted.n_rows
    assert same(weighted, repeated)


@FORMS
@checked
@given(table=tables(), factor=st.floats(1e-3, 1e3))
def test_scaling_is_a_weight_on_every_row(form, table, factor):
    Phi, T, w, _ = table
    assert same(form(Phi, T, w).scaled(factor), form(Phi, T, factor * w))


@checked
@given(table=tables(min_rows=2))
def test_subtracting_rows_unlearns_them(table):
    Phi, T, w, _ = table
    k = len(T) // 2
    whole, part, rest = (Statistics.of(Phi[s], T[s], w[s]) for s in (slice(None), slice(k), slice(k, None)))
    difference = whole - part
    assert difference.n_rows == rest.n_rows
    assert relative_error(difference.moments, rest.moments) <= TOLERANCE * max(
        1.0, np.abs(whole.moments).max() / np.abs(rest.moments).max()
    )


@checked
@given(table=tables())
def test_triangular_form_is_the_factor_of_the_gram_form(table):
    Phi, T, w, _ = table
    assert same(triangular(Phi, T, w).to_gram(), Statistics.of(Phi, T, w))


@checked
@given(table=tables())
def test_prefix_is_the_statistics_of_the_first_features(table):
    Phi, T, w, _ = table
    stats = Statistics.of(Phi, T, w)
    for k in range(Phi.shape[1] + 1):
        assert same(stats.prefix(k), Statistics.of(Phi[:, :k], T, w))


@checked
@given(table=tables())
def test_centred_statistics_are_those_of_centred_rows(table):
    Phi, T, w, _ = table
    centred = Statistics.of(Phi, T, w).centred()
    expected = Statistics.of(Phi - np.average(Phi, axis=0, weights=w), T - np.average(T, axis=0, weights=w), w)
    size = np.abs(Statistics.of(Phi, T, w).moments).max()
    assert np.abs(centred.moments - expected.moments).max() <= TOLERANCE * size


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_many_features_are_whitened_in_panels(n_jobs, monkeypatch):
    rng = np.random.RandomState(0)
    Phi, T = rng.normal(size=(400, 70)), rng.normal(size=(400, 2))
    R = np.linalg.cholesky(np.cov(rng.normal(size=(70, 200))))
    at_once = Statistics.of(Phi, T).whitened(R)
    monkeypatch.setattr("ulmus.statistics.WHITENED_AT_ONCE", 32)
    in_panels = Statistics.of(Phi, T).whitened(R, n_jobs)
    assert relative_error(in_panels.moments, at_once.moments) < TOLERANCE
    np.testing.assert_array_equal(in_panels.moments, in_panels.moments.T)


@checked
@given(table=tables(min_rows=8))
def test_whitened_statistics_are_those_of_whitened_rows(table):
    Phi, T, w, rng = table
    D = Phi.shape[1]
    R = np.tril(0.3 * rng.normal(size=(D, D)), -1) + np.diag(rng.uniform(1, 2, D))
    white = np.linalg.solve(R, Phi.T).T
    assert same(Statistics.of(Phi, T, w).whitened(R), Statistics.of(white, T, w))


@checked
@given(table=tables(min_rows=3))
def test_triangular_residuals_are_those_of_the_rows(table):
    Phi, T, w, rng = table
    stats = triangular(Phi, T, w)
    beta = rng.normal(size=(Phi.shape[1], T.shape[1])) / np.abs(Phi).max()
    for centred in (False, True):
        A, Y = stats.least_squares(centred)
        mean_phi, mean_t = (np.average(M, axis=0, weights=w) if centred else 0.0 for M in (Phi, T))
        residual = np.sqrt(w)[:, None] * ((Phi - mean_phi) @ beta - (T - mean_t))
        assert np.linalg.norm(A @ beta - Y) == pytest.approx(np.linalg.norm(residual), rel=1e-9, abs=1e-9)
    for actual, M in zip(stats.means(), (Phi, T)):
        assert np.allclose(actual, np.average(M, axis=0, weights=w), rtol=1e-9, atol=1e-12 * np.abs(M).max())


def test_triangular_form_keeps_the_digits_that_squaring_loses():
    rng = np.random.RandomState(0)
    Phi = rng.normal(size=(50, 2))
    Phi[:, 1] = Phi[:, 0] + 1e-9 * Phi[:, 1]
    expected = np.linalg.svd(Phi, compute_uv=False)[1]
    A, _ = triangular(Phi, np.ones((50, 1))).least_squares(centred=False)
    assert np.linalg.svd(A, compute_uv=False)[1] == pytest.approx(expected, rel=1e-5)
    G = Statistics.of(Phi, np.ones((50, 1))).gram
    lost = np.sqrt(np.abs(np.linalg.eigvalsh(G)[0]))
    assert abs(lost / expected - 1) > 0.1

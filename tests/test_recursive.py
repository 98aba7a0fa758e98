"""Three forms of one recursion: any split, any order, fading, removal and merging, against brute force."""

import copy
import os
import subprocess
import sys
import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from data import cases, examples, relative_error
from ulmus.engine import Rows
from ulmus.solvers.covariance import Covariance
from ulmus.solvers.recursive import Information, NotDefiniteError, Shape, keep_ridge, start_of
from ulmus.solvers.ridge import Problem
from ulmus.solvers.square_root import SquareRoot
from ulmus.statistics import Statistics, TriangularStatistics, design_matrix

FORMS = pytest.mark.parametrize("form", [Information, Covariance, SquareRoot], ids=lambda form: form.form)
# K has a condition number of at most some 1e4 here.
TOLERANCE = 1e-10
checked = settings(max_examples=examples(30))


@st.composite
def streams(draw, min_rows=1):
    """Features, targets, weights, the penalty, whether there is a constant, and block sizes (many of them 1)."""
    rng = np.random.RandomState(draw(st.integers(0, 2**31 - 1)))
    n, D, s = draw(st.integers(min_rows, 60)), draw(st.integers(1, 8)), draw(st.integers(1, 3))
    C, intercept = 10.0 ** draw(st.integers(-2, 2)), draw(st.booleans())
    sizes = draw(st.lists(st.sampled_from([1, 1, 1, 2, 7, 40]), min_size=1, max_size=60))
    return rng.normal(size=(n, D)), rng.normal(size=(n, s)) + 3.0, rng.uniform(0.5, 3, n), C, intercept, sizes, rng


def blocks(rows, sizes):
    cuts = np.minimum(np.cumsum([0, *sizes, len(rows)]), len(rows))
    return [rows[a:b] for a, b in pairwise(cuts) if b > a]


def learned(form, Phi, T, weight, C, intercept, sizes, forgetting=1.0):
    recursion = form(Shape(Phi.shape[1], T.shape[1], C, intercept))
    for block in blocks(design_matrix(Phi, T, weight), sizes):
        recursion.add(block, forgetting)
    return recursion


def same(recursion, Phi, T, weight, C, intercept, tolerance=TOLERANCE):
    beta, b = reference.ridge(Phi, T, C, weight, intercept)
    found = recursion.solution()
    scale = max(np.abs(beta).max(), np.abs(b).max(), 1e-3)
    return max(np.abs(found.beta - beta).max(), np.abs(found.intercept - b).max()) <= tolerance * scale


@FORMS
@checked
@given(stream=streams())
def test_any_split_gives_the_batch_solution(form, stream):
    Phi, T, w, C, intercept, sizes, _ = stream
    assert same(learned(form, Phi, T, w, C, intercept, sizes), Phi, T, w, C, intercept)


@FORMS
@checked
@given(stream=streams())
def test_the_order_of_rows_does_not_matter(form, stream):
    Phi, T, w, C, intercept, sizes, rng = stream
    order = rng.permutation(len(T))
    assert same(learned(form, Phi[order], T[order], w[order], C, intercept, sizes), Phi, T, w, C, intercept)


@FORMS
@checked
@given(stream=streams())
def test_a_block_equals_its_rows_one_by_one(form, stream):
    Phi, T, w, C, intercept, _, _ = stream
    block, rows = (learned(form, Phi, T, w, C, intercept, sizes) for sizes in ([len(T)], [1] * len(T)))
    assert relative_error(block.solution().beta, rows.solution().beta) <= TOLERANCE
    assert relative_error(block.to_statistics().gram, rows.to_statistics().gram) <= TOLERANCE


@checked
@given(stream=streams())
def test_P_is_the_inverse_of_K_at_every_step_symmetric_definite_and_falling(stream):
    Phi, T, w, C, _, sizes, _ = stream
    recursion, K = Covariance(Shape(Phi.shape[1], T.shape[1], C, False)), np.eye(Phi.shape[1]) / C
    before = recursion._full()
    for block in blocks(design_matrix(Phi, T, w), sizes):
        recursion.add(block)
        H = block[:, : Phi.shape[1]]
        K += H.T @ H
        P = recursion._full()
        assert relative_error(P @ K, np.eye(len(K))) <= 1e-9
        assert np.linalg.eigvalsh(P).min() > 0
        assert np.linalg.eigvalsh(before - P).min() >= -1e-12 * np.abs(before).max()
        before = P


@checked
@given(stream=streams())
def test_gain_identities(stream):
    Phi, T, _, C, _, _, _ = stream
    start = learned(Covariance, Phi[:1], T[:1], None, C, False, [1])._full()
    for H in (Phi, Phi[:1]):
        P = start - start @ H.T @ np.linalg.solve(np.eye(len(H)) + H @ start @ H.T, H @ start)
        gain = start @ H.T @ np.linalg.inv(np.eye(len(H)) + H @ start @ H.T)
        assert np.abs(P @ H.T - gain).max() <= 1e-9 * max(np.abs(gain).max(), 1e-3 * C)


@FORMS
@checked
@given(stream=streams(), forgetting=st.sampled_from([0.5, 0.9, 0.99, 0.999]))
def test_forgetting_is_ridge_with_fading_weights_and_a_penalty_that_does_not_fade(form, stream, forgetting):
    Phi, T, w, C, intercept, sizes, _ = stream
    recursion = learned(form, Phi, T, w, C, intercept, sizes, forgetting)
    fading = w * forgetting ** np.arange(len(T) - 1, -1, -1)
    assert same(recursion, Phi, T, fading, C, intercept, tolerance=1e-9)
    Q = Phi[:5]
    h = learned(Information, Phi, T, fading, C, intercept, [len(T)]).solution().leverage(Q)
    assert relative_error(recursion.solution().leverage(Q), h) <= 1e-8


@FORMS
@checked
@given(stream=streams(min_rows=4), share=st.floats(0.1, 0.9))
def test_removal_equals_a_fit_without_the_rows(form, stream, share):
    Phi, T, w, C, intercept, sizes, rng = stream
    gone = rng.permutation(len(T))[: max(1, int(share * (len(T) - 2)))]
    left = np.setdiff1d(np.arange(len(T)), gone)
    recursion = learned(form, Phi, T, w, C, intercept, sizes)
    recursion.remove(design_matrix(Phi, T, w)[gone])
    # C up to 100 and few rows left: 1 − h may be 1e-4, so that four digits go
    assert same(recursion, Phi[left], T[left], w[left], C, intercept, tolerance=1e-7)


@FORMS
@pytest.mark.parametrize("forgetting", [1.0, 0.9])
def test_merged_runs_equal_one_run_of_all_rows(form, forgetting):
    rng = np.random.RandomState(0)
    Phi, T, w = rng.normal(size=(90, 5)), rng.normal(size=(90, 2)), rng.uniform(0.5, 2, 90)
    parts = [slice(0, 40), slice(40, 41), slice(41, 90)]
    first, *others = (learned(form, Phi[s], T[s], w[s], 10.0, True, [1] * 9, forgetting) for s in parts)
    for other in others:
        first.merge(other)
    fading = np.concatenate([w[s] * forgetting ** np.arange(len(w[s]) - 1, -1, -1) for s in parts])
    assert same(first, Phi, T, fading, 10.0, True)


@FORMS
def test_rows_that_are_not_there_cannot_be_removed(form):
    rng = np.random.RandomState(0)
    Phi, T = rng.normal(size=(30, 4)), rng.normal(size=(30, 1))
    recursion = learned(form, Phi, T, None, 10.0, False, [1] * 30)
    before = recursion.solution().beta
    with pytest.raises(NotDefiniteError):
        recursion.remove(design_matrix(100 * Phi[:1], T[:1]))
    assert (recursion.solution().beta == before).all()


def test_where_only_round_off_would_be_left_rows_stay_and_otherwise_what_is_left_is_definite():
    refused, seeds = 0, (*range(40), 83, 140, 165, 275, 286)
    for seed in seeds:
        rng = np.random.RandomState(seed)
        Phi, T = rng.normal(size=(6, 8)) * 10.0 ** rng.uniform(-2, 2, (6, 1)), rng.normal(size=(6, 1))
        gone = design_matrix(Phi, T)[rng.permutation(6)[:2]]
        recursion = learned(Covariance, Phi, T, None, 6e6, False, [2, 2, 2])
        P, beta = recursion._full(), recursion.beta.copy()
        try:
            recursion.remove(gone)
        except NotDefiniteError:
            assert (recursion._full() == P).all()
            assert (recursion.beta == beta).all()
            refused += 1
        else:
            assert np.linalg.eigvalsh(recursion._full()).min() > 0
            recursion.add(gone)  # and goes on learning
    assert 0 < refused < len(seeds)


@FORMS
@pytest.mark.parametrize("kind", ["sums", "factor"])
@checked
@given(stream=streams(min_rows=3))
def test_a_batch_by_its_sums_equals_its_rows(form, kind, stream):
    Phi, T, w, C, intercept, sizes, _ = stream
    half = len(T) // 2
    recursion = learned(form, Phi[:half], T[:half], w[:half], C, intercept, sizes)
    sums = Statistics.of(Phi[half:], T[half:], w[half:])
    if kind == "factor":
        sums = TriangularStatistics.zeros(Phi.shape[1], T.shape[1])
        sums.add_rows(design_matrix(Phi[half:], T[half:], w[half:]))
    recursion.add_statistics(sums, 0.5)
    assert same(recursion, Phi, T, w * np.where(np.arange(len(T)) < half, 0.5, 1.0), C, intercept, 1e-9)


def test_batches_are_squared_only_where_that_keeps_the_digits():
    rng = np.random.RandomState(0)
    Phi, T = rng.normal(size=(500, 6)), rng.normal(size=(500, 1))
    easy, hard = SquareRoot(Shape(6, 1, 10.0, False)), SquareRoot(Shape(6, 1, 1e12, False))
    # rotated: Cholesky does not mind the scale of single columns
    steep = (Phi * np.logspace(0, -7, 6)) @ np.linalg.qr(rng.normal(size=(6, 6)))[0]
    for recursion, rows in ((easy, Phi), (hard, steep)):
        sums = Statistics.of(rows, T)
        assert bool(recursion.squarable(sums)) is (recursion is easy)
    easy.add_statistics(Statistics.of(Phi, T))
    assert same(easy, Phi, T, None, 10.0, False)
    assert not hard.squares
    exact = reference.ridge(steep, T, 1e12)[0]
    hard.add_statistics(Statistics.of(steep, T))
    kept = learned(SquareRoot, steep, T, None, 1e12, False, [500]).weights()
    assert relative_error(kept[:, :1], exact) <= 1e-8
    assert relative_error(hard.weights()[:, :1], exact) > 1e-6


@FORMS
@checked
@given(stream=streams())
def test_recoded_targets_are_those_of_a_run_that_knew_them(form, stream):
    Phi, T, w, C, intercept, sizes, rng = stream
    M = rng.normal(size=(T.shape[1] + 1, 4))
    recursion = learned(form, Phi, T, w, C, intercept, sizes)
    recursion.recode(M)
    T = np.column_stack([T, np.ones(len(T))]) @ M
    assert same(recursion, Phi, T, w, C, intercept, 1e-9)
    recursion.add(design_matrix(Phi, T, w))
    assert same(recursion, np.vstack([Phi, Phi]), np.vstack([T, T]), np.r_[w, w], C, intercept, 1e-9)


@FORMS
@pytest.mark.parametrize("forgetting", [1.0, 0.97])
def test_a_feature_that_comes_later_is_one_that_was_zero_before(form, forgetting):
    rng = np.random.RandomState(0)
    Phi, T = rng.normal(size=(90, 5)), rng.normal(size=(90, 2))
    Phi[:40, 4] = 0.0
    recursion = learned(form, Phi[:40, :4], T[:40], None, 10.0, True, [7] * 9, forgetting)
    recursion.widen()
    recursion.add(design_matrix(Phi[40:], T[40:]), forgetting)
    fading = forgetting ** np.arange(89, -1, -1)
    assert same(recursion, Phi, T, fading, 10.0, True)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("n", [6, 80])
def test_a_batch_solution_can_be_gone_on_from(n, intercept):
    class Identity:
        n_features_out = 9

        def transform_block(self, X, out):
            out[:] = X

    rng = np.random.RandomState(0)
    Phi, T, w = rng.normal(size=(100, 9)), rng.normal(size=(100, 2)) + 5, rng.uniform(0.5, 2, 100)
    solution = Problem(Identity(), Rows(Phi[:n], T[:n], w[:n]), 10.0, intercept).solve()
    shape = Shape(9, 2, 10.0, intercept)
    recursion = SquareRoot(shape, start_of(solution, shape, w[:n].sum()))
    assert same(recursion, Phi[:n], T[:n], w[:n], 10.0, intercept)
    recursion.add(design_matrix(Phi[n:], T[n:], w[n:]))
    assert same(recursion, Phi, T, w, 10.0, intercept)


def test_kept_ridge_is_that_of_a_dense_solve():
    rng = np.random.RandomState(0)
    A = rng.normal(size=(20, 8))
    K, mu, beta = A.T @ A, np.r_[0.0, rng.uniform(0, 3, 7)], rng.normal(size=(8, 3))
    expected = np.linalg.solve(K + np.diag(mu), K @ beta)
    assert relative_error(keep_ridge(beta, mu, lambda x: np.linalg.solve(K, x)), expected) <= 1e-12


def bits_differ_by_questions(form, D, forgetting=1.0):
    """Whether weights are other bits where somebody has asked for some before."""
    rng = np.random.default_rng(D)
    asked, quiet = (form(Shape(D, 1, 10.0, fit_intercept=True)) for _ in range(2))
    rows = design_matrix(rng.normal(size=(300, D)), rng.normal(size=(300, 1)))
    for block in blocks(rows, [50, 1, 1, 3, 1, 40, 2, *[1] * 90, 7, 70]):
        for recursion in (asked, quiet):
            recursion.add(block, forgetting)
        if rng.random() < 0.4 and (asked.solution().beta != copy.deepcopy(quiet).solution().beta).any():
            return True
    return False


@FORMS
@pytest.mark.parametrize("D", cases([6, 15, 200], 6, 200))
@pytest.mark.parametrize("forgetting", [1.0, 0.99])
def test_weights_do_not_depend_on_when_they_are_asked_for(form, D, forgetting):
    assert not bits_differ_by_questions(form, D, forgetting)


def test_nor_do_they_where_blas_rounds_by_the_number_of_columns():
    # OpenBLAS's kernels for Haswell do, those for AVX-512 do not; other processors ignore the name
    script = (
        "import test_recursive as t\n"
        "print([(f.form, D) for f in (t.Information, t.Covariance, t.SquareRoot) for D in (6, 15, 200)"
        " if t.bits_differ_by_questions(f, D)])"
    )
    environment = {**os.environ, "OPENBLAS_CORETYPE": "Haswell", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("n", cases([20_000, 100_000]))
def test_long_runs_on_an_ill_conditioned_layer_keep_their_digits_in_the_default_form(n, capsys):
    rng = np.random.RandomState(0)
    D, C = 10, 1e14
    Q, _ = np.linalg.qr(rng.normal(size=(D, D)))
    Phi = (rng.normal(size=(n, D)) * np.logspace(0, -6, D)) @ Q
    T = Phi @ rng.normal(size=(D, 1)) + 1e-3 * rng.normal(size=(n, 1))
    assert np.linalg.cond(Phi.T @ Phi + np.eye(D) / C) >= 1e8
    fitted = Phi @ reference.ridge(Phi, T, C)[0]
    errors = {}
    rows = design_matrix(Phi, T)
    for form in (SquareRoot, Covariance):
        recursion = form(Shape(D, 1, C, False))
        for i in range(n):
            recursion.add(rows[i : i + 1])
        errors[form.form] = relative_error(Phi @ recursion.weights()[:, :1], fitted)
    with capsys.disabled():
        print(f"\n[{n:,} single rows, condition 1e12: relative error of fitted values {errors}]")
    assert errors["root"] <= 1e-8


@FORMS
def test_forgetting_on_constant_input_does_not_wind_up(form):
    n, D, C = 100_000, 4, 100.0
    row = design_matrix(np.array([[1.0, -2.0, 0.5, 0.0]]), np.array([[3.0]]))
    recursion = form(Shape(D, 1, C, False))
    for _ in range(n if form is SquareRoot else n // 10):
        recursion.add(row, 0.999)
    P = np.linalg.inv(recursion.to_statistics().gram + np.eye(D) / C)
    assert np.linalg.eigvalsh(P).max() <= C * (1 + 1e-6)
    found = recursion.solution().beta
    assert found[:3, 0] @ row[0, :3] == pytest.approx(3.0, rel=1e-3)
    assert found[3, 0] == 0.0


def test_the_covariance_form_subtracts_and_the_root_form_does_not():
    rng = np.random.RandomState(0)
    C, scale = 1e14, np.logspace(0, -6, 6)
    Phi = rng.normal(size=(200, 6)) * scale
    T = (Phi / scale) @ np.ones((6, 1))
    exact = reference.ridge(Phi, T, C)[0]
    errors = [
        relative_error(Phi @ learned(form, Phi, T, None, C, False, [1] * 200).weights()[:, :1], Phi @ exact)
        for form in (SquareRoot, Covariance)
    ]
    assert errors[0] <= 1e-11
    assert errors[1] >= 100 * errors[0]


def test_the_covariance_form_says_how_many_digits_its_inverse_has_lost():
    rng = np.random.default_rng(0)
    H, t = rng.normal(size=(40, 6)), rng.normal(size=40)
    for size, lost in ((1.0, False), (1e5, True)):
        rows = np.column_stack([size * H, t, np.ones(40)])
        rows[:, 1] = rows[:, 0] + 1e-6 * rows[:, 1]
        found = Covariance(Shape(6, 1, 1e3, False))
        found.add(rows)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found.solution()
        assert [("condition number" in str(w.message)) for w in told] == [True] * lost

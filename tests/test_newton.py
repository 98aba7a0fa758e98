"""Newton's method on features: the claims of section 5 of the document."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize, root

import reference
from data import cases
from ulmus import RandomLayer, engine
from ulmus.engine import Rows
from ulmus.losses import LOSSES
from ulmus.solvers import newton_rows
from ulmus.solvers.line_search import WolfePowell
from ulmus.solvers.newton import NewtonOptions, newton
from ulmus.solvers.newton_rows import HeldRows, StreamedRows
from ulmus.solvers.ridge import Problem
from ulmus.solvers.robust import Penalty, fit_robust

ROBUST = [name for name, loss in LOSSES.items() if loss.parameter]
SMOOTH = [name for name in ROBUST if LOSSES[name].twice]
EXACT = NewtonOptions(tol=1e-10)


def problem(n=200, D=20, outputs=1, intercept=True, weighted=False, outliers=10, seed=0):
    """Noisy targets on a random layer; one in ``outliers`` of them is a gross outlier."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 3))
    T = np.column_stack([np.sin((j + 1) * X).sum(axis=1) + 5 * j for j in range(outputs)])
    T += 0.1 * rng.normal(size=T.shape)
    T[: n // outliers] += rng.choice([-20, 20], size=(n // outliers, outputs))
    weight = rng.randint(1, 4, n).astype(float) if weighted else None
    layer = RandomLayer(D, random_state=seed, n_jobs=1).fit(X)
    return Problem(layer, Rows(X, T, weight), None, intercept, 1)


def solve(rows, name, c=0.2, C=5.0, options=EXACT, start=None):
    s, D = rows.rows.T.shape[1], rows.n_features
    beta, b = (np.zeros((D, s)), np.zeros(s)) if start is None else start
    return newton(rows, LOSSES[name], np.full(s, c), np.full(s, float(C)), beta, b, options)


def objective(held, name, c, C, penalty=0.0, output=0):
    """L (7) of ``[β, b]`` with its gradient and Hessian, written out."""
    Phi = np.column_stack([held.Phi, np.full(len(held.Phi), float(held.fit_intercept))])
    w = np.ones(len(Phi)) if held.rows.weight is None else held.rows.weight
    P = np.append(np.ones(held.n_features), penalty if held.fit_intercept else 1.0)
    loss, t = LOSSES[name], held.rows.T[:, output]

    def value(v):
        return 0.5 * v @ (P * v) + C * w @ loss.value(Phi @ v - t, c)

    def gradient(v):
        return P * v + C * Phi.T @ (w * loss.slope(Phi @ v - t, c))

    def hessian(v):
        return np.diag(P) + C * Phi.T @ (Phi * (w * loss.curvature(Phi @ v - t, c))[:, None])

    return value, gradient, hessian


def vector(result):
    return np.append(result.beta, result.intercept)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", SMOOTH)
def test_the_minimiser_is_that_of_a_general_optimiser(name, intercept, weighted):
    held = HeldRows.of(problem(intercept=intercept, weighted=weighted))
    result = solve(held, name)[0]
    value, gradient, hessian = objective(held, name, 0.2, 5.0)
    found = minimize(value, np.zeros(21), jac=gradient, hess=hessian, method="trust-exact")
    # trust regions stop at the round-off of the value; the root of the gradient has more digits
    expected = root(gradient, found.x, jac=hessian, tol=1e-14).x
    assert np.linalg.norm(found.x - expected) <= 1e-3 * np.linalg.norm(expected)
    assert np.linalg.norm(vector(result) - expected) <= 1e-10 * np.linalg.norm(expected)


@pytest.mark.parametrize("name", LOSSES)
def test_the_hessian_is_at_least_the_identity_and_directions_go_down(name):
    held = HeldRows.of(problem(intercept=False))
    _, gradient, hessian = objective(held, name, 0.2, 5.0)
    for seed in range(5):
        v = np.random.RandomState(seed).normal(size=21)
        assert np.linalg.eigvalsh(hessian(v)).min() >= 1 - 1e-9
        assert gradient(v) @ np.linalg.solve(hessian(v), -gradient(v)) < 0


@pytest.mark.parametrize("name", [name for name in ROBUST if LOSSES[name].reweightable])
def test_reweighted_least_squares_goes_down_where_the_loss_says_so(name):
    held = HeldRows.of(problem(intercept=False))
    value, _, _ = objective(held, name, 0.2, 5.0)
    loss, v = LOSSES[name], np.random.RandomState(0).normal(size=20)
    for _ in range(20):
        before = value(np.append(v, 0))
        weight = loss.weight(held.Phi @ v - held.rows.T[:, 0], 0.2)
        v = reference.ridge(held.Phi, held.rows.T, 5.0, weight)[0][:, 0]
        assert value(np.append(v, 0)) <= before * (1 + 1e-12)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("n", [200, 30])
def test_squared_loss_is_tikhonov_in_one_step(intercept, n):
    held = HeldRows.of(problem(n, D=40, intercept=intercept, weighted=True))
    result = solve(held, "squared", c=1.0, C=8.0)[0]
    beta, b = reference.ridge(held.Phi, held.rows.T, 8.0, held.rows.weight, intercept)
    np.testing.assert_allclose(result.beta, beta[:, 0], atol=1e-8)
    assert result.intercept == pytest.approx(b[0], abs=1e-8)
    assert len(result.path.step_length) == 1


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("name", SMOOTH)
def test_primal_equals_dual(monkeypatch, name, penalty):
    held = HeldRows.of(problem(60, D=30))
    options = replace(EXACT, bias_penalty=penalty)
    dual = []
    original = newton_rows._Dual.of.__func__
    monkeypatch.setattr(
        newton_rows._Dual, "of", classmethod(lambda cls, *a: dual.append(len(a[1])) or original(cls, *a))
    )
    primal = solve(held, name, options=options)[0]
    wide = replace(held, Phi=np.hstack([held.Phi, np.zeros((60, 100))]))
    other = solve(wide, name, options=options)[0]
    assert dual
    np.testing.assert_allclose(other.beta[:30], primal.beta, atol=1e-8)
    assert other.intercept == pytest.approx(primal.intercept, abs=1e-8)


@pytest.mark.parametrize("name", SMOOTH)
def test_a_bias_column_is_a_constant_with_penalty_one(name):
    # the document appends 1 to the features and penalises its weight like the others
    held = HeldRows.of(problem(intercept=True))
    result = solve(held, name, options=replace(EXACT, bias_penalty=1.0))[0]
    column = replace(held, Phi=np.column_stack([held.Phi, np.ones(len(held.Phi))]), fit_intercept=False)
    np.testing.assert_allclose(vector(result), solve(column, name)[0].beta, atol=1e-8)


@pytest.mark.parametrize("name", ROBUST)
def test_any_start_leads_to_the_same_weights(name):
    held = HeldRows.of(problem())
    zero = solve(held, name)[0]
    for seed in range(3):
        rng = np.random.RandomState(seed)
        start = (10 * rng.normal(size=(20, 1)), rng.normal(size=1))
        other = solve(held, name, start=start)[0]
        assert np.abs(vector(other) - vector(zero)).max() < 1e-7


@pytest.mark.parametrize("name", ROBUST)
def test_every_step_goes_down_and_meets_both_wolfe_conditions(name):
    held = HeldRows.of(problem())
    start = (5 * np.random.RandomState(0).normal(size=(20, 1)), np.zeros(1))
    path = solve(held, name, start=start, options=NewtonOptions(tol=1e-6))[0].path
    search = WolfePowell()
    assert (path.slope < 0).all()
    fall = np.diff(path.objective)
    slack = 1e-13 * path.objective[:-1]
    assert (fall <= search.delta1 * path.step_length * path.slope + slack).all()
    assert (path.end_slope >= search.delta2 * path.slope).all()


@pytest.mark.parametrize("name", SMOOTH)
def test_convergence_is_quadratic_near_the_end(name):
    held = HeldRows.of(problem())
    path = solve(held, name, options=NewtonOptions(tol=1e-12))[0].path
    norm = path.gradient_norm
    quick = [k for k in range(len(norm) - 1) if 1e-5 < norm[k] < 1e-1 * norm[0] and path.step_length[k] == 1]
    assert quick
    # ‖g'‖ ≤ K ‖g‖² with one K for all of them: the last ones gain as many digits as they have
    assert norm[quick[-1] + 1] <= 50 * norm[quick[-1]] ** 2 / norm[0] + 1e-9
    assert norm[-1] < 1e-7


@pytest.mark.parametrize("name", SMOOTH)
def test_few_steps_are_needed_from_tikhonov_and_not_many_from_anywhere(name):
    # the document's kind of run took 4 from Tikhonov and 15 to 20 from a random start
    for seed in range(5):
        held = HeldRows.of(problem(intercept=False, outliers=100, seed=seed))
        tikhonov, _ = reference.ridge(held.Phi, held.rows.T, 5.0)
        residual = held.Phi @ tikhonov - held.rows.T
        c = LOSSES[name].efficient * 1.4826 * np.median(np.abs(residual))
        options = NewtonOptions(tol=1e-8)
        assert solve(held, name, c=c, start=(tikhonov, np.zeros(1)), options=options)[0].n_iter <= 10
        far = 10 * np.random.RandomState(seed).normal(size=(20, 1))
        assert solve(held, name, c=c, start=(far, np.zeros(1)), options=options)[0].n_iter <= 20


@pytest.mark.parametrize("name", ROBUST)
def test_one_row_moves_the_weights_by_a_bounded_amount(name):
    # 1-strong convexity and |f'| ≤ 1: deletion moves β by at most C‖φ‖, replacement by 2C‖φ‖, whatever the target
    held = HeldRows.of(problem(intercept=False))
    C = 0.05
    base = solve(held, name, C=C)[0].beta
    for i in (0, 50, 199):
        reach = C * np.linalg.norm(held.Phi[i])
        left_out = np.arange(200) == i
        assert np.linalg.norm(solve(held.without(left_out), name, C=C)[0].beta - base) <= reach
        T = held.rows.T.copy()
        T[i] = 1e9
        moved = solve(held.with_targets(T), name, C=C)[0].beta
        assert np.linalg.norm(moved - base) <= 2 * reach


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_curvature_that_vanishes_everywhere_is_survived(name, intercept):
    # the start is so far away that no residual is inside the transition: f'' = 0 for every row
    held = HeldRows.of(problem(intercept=intercept))
    c = 1e-3 if LOSSES[name].parameter else 1.0
    start = (np.zeros((20, 1)), np.full(1, 1e4 * intercept))
    result = solve(held, name, c=c, start=start, options=NewtonOptions(tol=1e-7, max_iter=300))[0]
    assert result.converged
    value, gradient, _ = objective(held, name, c, 5.0)
    other = solve(held, name, c=c, options=NewtonOptions(tol=1e-7, max_iter=300))[0]
    assert value(vector(result)) == pytest.approx(value(vector(other)), rel=1e-9)
    assert np.isfinite(gradient(vector(result))).all()


@pytest.mark.parametrize("name", cases(["polynomial", "sqrt", "huber"], "sqrt", "huber"))
@pytest.mark.parametrize("intercept", [False, True])
def test_streamed_rows_lead_where_held_rows_lead(monkeypatch, name, intercept):
    monkeypatch.setattr(engine, "BLOCK_BYTES", 2**15)
    monkeypatch.setattr(engine, "TILE_BYTES", 2**13)
    posed = problem(3000, outputs=2, intercept=intercept, weighted=True)
    held = solve(HeldRows.of(posed), name)
    for stride in (1, 3):  # curvature from every third row points the way as well
        monkeypatch.setattr(StreamedRows, "stride", stride)
        for a, b in zip(solve(StreamedRows(posed), name), held, strict=True):
            np.testing.assert_allclose(vector(a), vector(b), atol=1e-7)
            np.testing.assert_allclose(a.residual, b.residual, atol=1e-7)


def test_streamed_sums_do_not_depend_on_the_number_of_threads():
    posed = problem(3000, outputs=2)
    one, two = (solve(StreamedRows(replace(posed, n_jobs=k)), "sqrt") for k in (1, 2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(vector(a), vector(b))


def test_outputs_side_by_side_are_outputs_alone():
    held = HeldRows.of(problem(outputs=3))
    for j, together in enumerate(solve(held, "cubic")):
        alone = solve(held.with_targets(held.rows.T[:, [j]]), "cubic")[0]
        np.testing.assert_allclose(vector(together), vector(alone), atol=1e-12)


def test_weights_are_repetitions():
    held = HeldRows.of(problem(weighted=True))
    times = held.rows.weight.astype(int)
    repeated = replace(held, Phi=np.repeat(held.Phi, times, 0), rows=Rows(None, np.repeat(held.rows.T, times, 0)))
    object.__setattr__(repeated.rows, "X", repeated.Phi)
    np.testing.assert_allclose(vector(solve(held, "sqrt")[0]), vector(solve(repeated, "sqrt")[0]), atol=1e-9)


def test_a_sample_first_leads_where_all_rows_lead(monkeypatch):
    from ulmus.solvers import robust

    posed = problem(6000, D=15)
    options = NewtonOptions(tol=1e-9)
    whole = fit_robust(posed, LOSSES["sqrt"], np.array([0.2]), Penalty(5.0), options, np.random.RandomState(0))
    monkeypatch.setattr(robust, "FEWEST_ROWS", 200)
    monkeypatch.setattr(robust, "HELD_BYTES", 1000)
    sampled = fit_robust(posed, LOSSES["sqrt"], np.array([0.2]), Penalty(5.0), options, np.random.RandomState(0))
    np.testing.assert_allclose(sampled.beta, whole.beta, atol=1e-7)


# The search


@pytest.mark.parametrize("search", [WolfePowell(), WolfePowell(0.1, 0.2, beta=7.0, rho=0.3, rho1=0.8)])
@given(minimum=st.floats(1e-4, 1e4), power=st.sampled_from([2, 4]))
def test_the_search_meets_both_conditions_on_convex_functions(search, minimum, power):
    def phi(alpha):
        return abs(alpha - minimum) ** power, power * np.sign(alpha - minimum) * abs(alpha - minimum) ** (power - 1)

    step = search.search(phi)
    assert step.end_value <= step.value + search.delta1 * step.length * step.slope + 1e-12 * step.value
    assert step.end_slope >= search.delta2 * step.slope


def test_the_full_step_is_taken_when_it_will_do():
    assert WolfePowell().search(lambda a: ((a - 0.9) ** 2, 2 * (a - 0.9))).length == 1.0


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"delta1": 0.6}, "delta1 must lie between 0 and 0.5, got 0.6"),
        ({"delta1": 0.4, "delta2": 0.3}, "delta2 must lie between delta1=0.4 and 1, got 0.3"),
        ({"beta": 0.0}, "beta must be positive, got 0.0"),
        ({"rho": 1.0}, "rho must lie between 0 and 1, got 1.0"),
        ({"rho1": -1.0}, "rho1 must lie between 0 and 1, got -1.0"),
    ],
)
def test_a_search_that_cannot_work_is_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        WolfePowell(**bad)

"""Robust models: outliers do not pull, are found, and have no say in the choices."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import KFold

from data import cases, regression
from ulmus import (
    ELMRegressor,
    NKELMRegressor,
    NumericalWarning,
    RobustELMRegressor,
    RobustNKELMRegressor,
    datasets,
    engine,
)
from ulmus.features import sampling
from ulmus.losses import LOSSES
from ulmus.solvers import robust as robust_solver
from ulmus.solvers.robust import deviations, tempered, weighted_median
from ulmus.tuning.robust_choice import Pilot

ROBUST = [name for name, loss in LOSSES.items() if loss.parameter]
MODELS = {"elm": RobustELMRegressor, "nkelm": RobustNKELMRegressor}
#: Nothing left to choose but the scale of the loss.
FIXED = {
    "elm": RobustELMRegressor(30, slope=1.0, C=10.0, random_state=0),
    "nkelm": RobustNKELMRegressor(30, gamma=0.5, C=10.0, random_state=0),
}


def fixed(family, **options):
    return clone(FIXED[family]).set_params(**options)


def spoilt(n=400, share=0.1, seed=0, m=2):
    """Smooth targets of which a share is replaced by gross outliers; which, and the truth."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2, 2, (n, m))
    truth = np.sin(2 * X).sum(axis=1)
    y = truth + 0.1 * rng.normal(size=n)
    bad = np.zeros(n, bool)
    bad[rng.permutation(n)[: int(share * n)]] = True
    y[bad] = rng.choice([-1, 1], bad.sum()) * rng.uniform(10, 50, bad.sum())
    return X, y, bad, truth


# The document's example


def sinc_errors(name, seed):
    """Test RMSE of Tikhonov and of a robust loss with the settings that the claim was checked with."""
    X, y = datasets.make_sinc(300, noise=0.1, outliers=True, random_state=seed)
    Q = np.linspace(-15, 15, 3001)[:, None]
    truth = np.sinc(Q[:, 0] / np.pi)
    parameter = LOSSES[name].parameter
    scale = {"h": {"h": 2.0}, "tau": {"tau": 0.01}}[parameter]
    layer = {"slope": 4.0, "random_state": seed, "C": 1e3}
    robust = RobustELMRegressor(100, loss=name, **scale, **layer).fit(X, y)
    plain = ELMRegressor(100, fit_intercept=True, **layer).fit(X, y)
    return [np.sqrt(np.mean((model.predict(Q) - truth) ** 2)) for model in (plain, robust)]


@pytest.mark.parametrize("name", cases(ROBUST, "quartic", "huber"))
def test_on_sinc_with_two_outliers_every_robust_loss_beats_tikhonov(name):
    errors = np.array([sinc_errors(name, seed) for seed in range(20)])
    assert (errors[:, 1] < errors[:, 0]).sum() >= 19
    assert np.median(errors[:, 1]) < 0.75 * np.median(errors[:, 0])


@pytest.mark.parametrize("family", cases(MODELS, "nkelm"))
@pytest.mark.usefixtures("unscored")
def test_without_arguments_sinc_with_outliers_is_fitted_better_than_by_tikhonov(family):
    plain = {"elm": ELMRegressor, "nkelm": NKELMRegressor}[family]
    Q = np.linspace(-15, 15, 1001)[:, None]
    truth = np.sinc(Q[:, 0] / np.pi)
    wins = 0
    for seed in range(3):
        X, y = datasets.make_sinc(300, noise=0.1, outliers=True, random_state=seed)
        models = (MODELS[family](random_state=seed), plain(random_state=seed))
        robust, tikhonov = (np.mean((m.fit(X, y).predict(Q) - truth) ** 2) for m in models)
        wins += robust < tikhonov
    assert wins == 3


# What a fit is


@pytest.mark.parametrize("family", FIXED)
def test_squared_loss_is_the_ridge_model(family):
    X, y = regression(300)
    robust = fixed(family, loss="squared").fit(X, y)
    plain = {
        "elm": ELMRegressor(30, slope=1.0, C=10.0, fit_intercept=True, random_state=0),
        "nkelm": NKELMRegressor(30, gamma=0.5, C=10.0, fit_intercept=True, random_state=0),
    }[family].fit(X, y)
    np.testing.assert_allclose(robust.predict(X), plain.predict(X), atol=1e-8)
    np.testing.assert_allclose(robust.weights_, 1)
    # leave-one-out is exact for squares, so the interval's leverage is that of the ridge model too
    np.testing.assert_allclose(robust._variance_factors(X)[0][:, 0], plain._variance_factors(X)[0], atol=1e-8)


@pytest.mark.parametrize("name", cases(LOSSES, "quartic"))
@pytest.mark.parametrize("family", cases(FIXED, "elm"))
def test_targets_in_other_units_give_predictions_in_other_units(family, name):
    # f is c F(x/c): with the scale from the data, y → 1000 y + 7 moves C with it, and C="auto" follows
    X, y, _, _ = spoilt(150)
    model = clone(FIXED[family]).set_params(C="auto", loss=name, tol=1e-9)
    np.testing.assert_allclose(
        model.fit(X, 1000 * y + 7).predict(X), 1000 * clone(model).fit(X, y).predict(X) + 7, rtol=1e-5
    )


@pytest.mark.parametrize("family", FIXED)
def test_the_scale_is_that_of_the_clean_rows(family):
    X, y, _, _ = spoilt(1000)
    for name in ROBUST:
        model = fixed(family, loss=name, C=1e3).set_params(
            **{"n_hidden": 100} if family == "elm" else {"n_landmarks": 100}
        )
        model.fit(X, y)
        assert model.transition_ == pytest.approx(LOSSES[name].efficient * 0.1, rel=0.3)
        parameter = LOSSES[name].parameter
        assert getattr(model, f"{parameter}_") == pytest.approx(LOSSES[name].parameter_at(model.transition_))


@pytest.mark.parametrize("family", FIXED)
def test_a_given_scale_is_used(family):
    X, y = regression(200)
    assert fixed(family, loss="polynomial", h=4.0).fit(X, y).transition_ == 0.25
    assert fixed(family, loss="sqrt", tau=0.04).fit(X, y).transition_ == pytest.approx(0.2)


@pytest.mark.parametrize("family", FIXED)
def test_several_outputs_are_outputs_one_by_one(family):
    X, T = regression(200, outputs=2)
    T[:20, 1] = 1e3
    together = fixed(family).fit(X, T)
    assert together.weights_.shape == T.shape
    assert together.predict_interval(X).shape == (200, 2, 2)
    for j in range(2):
        alone = fixed(family).fit(X, T[:, j])
        np.testing.assert_allclose(together.predict(X)[:, j], alone.predict(X), atol=1e-6)
        assert together.tau_[j] == pytest.approx(alone.tau_, rel=1e-6)


@pytest.mark.parametrize("family", FIXED)
def test_weights_of_rows_are_kept_in_their_places(family):
    X, y, _, _ = spoilt(200)
    weight = np.ones(200)
    weight[::7] = 0.0
    model = fixed(family).fit(X, y, sample_weight=weight)
    assert model.weights_.shape == (200,)
    assert not model.weights_[::7].any()
    seen = weight > 0
    np.testing.assert_allclose(model.weights_[seen], fixed(family).fit(X[seen], y[seen]).weights_, atol=1e-6)


@pytest.mark.parametrize("family", FIXED)
def test_sparse_and_narrow_rows_give_the_same_model(family):
    X, y, _, _ = spoilt(200)
    X = np.where(X < -1.5, 0.0, X).astype("f4").astype("f8")  # the same numbers in both types
    dense = fixed(family).fit(X, y).predict(X)
    np.testing.assert_allclose(fixed(family).fit(sparse.csr_array(X), y).predict(sparse.csr_array(X)), dense, atol=1e-6)
    np.testing.assert_allclose(fixed(family).fit(X.astype("f4"), y).predict(X.astype("f4")), dense, atol=1e-3)


@pytest.mark.parametrize("family", FIXED)
def test_fits_are_the_same_for_any_number_of_threads(monkeypatch, family):
    monkeypatch.setattr(robust_solver, "HELD_BYTES", 1000)
    X, y, _, _ = spoilt(6000)
    one, two = (fixed(family, n_jobs=k).fit(X, y) for k in (1, 2))
    np.testing.assert_array_equal(one.predict(X[:100]), two.predict(X[:100]))


# Outliers


@pytest.mark.parametrize("family", cases(MODELS, "nkelm"))
@pytest.mark.parametrize("share", cases([0.3, 0.1]))
@pytest.mark.usefixtures("unscored")
def test_the_choices_and_the_fit_resist_gross_outliers(family, share):
    X, y, bad, truth = spoilt(600, share)
    dirty = MODELS[family](random_state=0).fit(X, y)
    clean = MODELS[family](random_state=0).fit(X[~bad], y[~bad])
    error = [np.sqrt(np.mean((m.predict(X) - truth) ** 2)) for m in (dirty, clean)]
    # outliers still pull with a force of 1: the loss in accuracy is theirs, not that of wrong choices
    assert error[0] < (1.5 if share == 0.1 else 2.5) * error[1]
    plain = {"elm": ELMRegressor, "nkelm": NKELMRegressor}[family](random_state=0).fit(X, y)
    assert error[0] < 0.2 * np.sqrt(np.mean((plain.predict(X) - truth) ** 2))


@pytest.mark.parametrize("family", MODELS)
def test_outliers_have_high_scores_and_low_weights(family):
    X, y, bad, _ = spoilt(600)
    model = MODELS[family](random_state=0).fit(X, y)
    scores = model.outlier_scores(X, y)
    assert scores[bad].min() > 20
    assert scores[~bad].max() < 6
    assert np.median(scores[~bad]) == pytest.approx(0.6745, abs=0.15)  # half of Gaussian errors are below
    assert model.weights_[bad].max() < 0.05
    assert model.weights_[~bad].min() > 0.2
    with pytest.raises(ValueError, match=r"shape of the predictions, \(600,\), got \(5,\)"):
        model.outlier_scores(X, y[:5])


@pytest.mark.parametrize("family", cases(MODELS, "nkelm"))
@pytest.mark.parametrize("share", cases([0.0, 0.1], 0.1))
def test_intervals_hold_clean_rows_whatever_the_outliers(family, share):
    X, y, _, _ = spoilt(800, share)
    Q, t, _, _ = spoilt(2000, 0.0, seed=1)
    low, high = MODELS[family](random_state=0).fit(X, y).predict_interval(Q, coverage=0.9).T
    assert np.mean((low <= t) & (t <= high)) == pytest.approx(0.9, abs=0.05)
    assert np.median(high - low) < 0.5  # 2 · 1.645 · 0.1 and a little for the fit


@pytest.mark.usefixtures("unscored")
def test_clean_gaussian_rows_cost_next_to_nothing():
    ratios = []
    for seed in range(3):
        X, y, _, truth = spoilt(250, 0.0, seed)
        models = (RobustNKELMRegressor(random_state=0), NKELMRegressor(random_state=0))
        robust, plain = (np.sqrt(np.mean((m.fit(X, y).predict(X) - truth) ** 2)) for m in models)
        ratios.append(robust / plain)
    # 95 % efficiency is 1/√0.95 = 1.026 in the deviation of the fit
    assert np.median(ratios) < 1.1


# Leave-one-out and C


@pytest.mark.parametrize("name", cases(["polynomial", "quartic", "sqrt", "logcosh"], "quartic", "sqrt"))
def test_one_newton_step_is_close_to_leaving_a_row_out(name):
    X, y, _, _ = spoilt(120)
    model = fixed("elm", loss=name, **{LOSSES[name].parameter: LOSSES[name].parameter_at(0.3)}, tol=1e-10)
    full = model.fit(X, y)
    from ulmus.solvers.newton import NewtonOptions
    from ulmus.solvers.robust import Penalty, fit_robust

    problem = full._family.problems(full, full.map_, engine.Rows(X, y[:, None]))[0]
    solution = fit_robust(problem, LOSSES[name], np.array([0.3]), Penalty(10.0), NewtonOptions(), None)
    approximate = solution.leave_one_out(full.map_.transform(X), solution.residual, None)[0][:, 0]
    exact = np.empty(120)
    for i in range(120):
        rest = np.arange(120) != i
        part = full._family.problems(full, full.map_, engine.Rows(X[rest], y[rest, None]))[0]
        found = fit_robust(part, LOSSES[name], np.array([0.3]), Penalty(10.0), NewtonOptions(), None)
        exact[i] = (full.map_.transform(X[[i]]) @ found.beta + found.intercept)[0, 0] - y[i]
    # the step is exact where f'' is constant; it is compared by what it is used for, the loss
    a, b = (np.mean(LOSSES[name].value(e, 0.3)) for e in (approximate, exact))
    assert a == pytest.approx(b, rel=0.02)
    assert np.corrcoef(approximate, exact)[0, 1] > 0.999


def test_c_by_approximate_leave_one_out_is_about_as_good_as_c_by_folds():
    X, y, _, truth = spoilt(400)
    model = RobustELMRegressor(100, slope=1.0, random_state=0)
    left_out = clone(model).fit(X, y)
    folded = clone(model).set_params(cv=KFold(5, shuffle=True, random_state=0)).fit(X, y)
    error = [np.sqrt(np.mean((m.predict(X) - truth) ** 2)) for m in (left_out, folded)]
    assert error[0] < 1.15 * error[1]
    # and the two curves of loss have their lowest point within a factor of 16 in C
    assert abs(np.log2((left_out.C_ / left_out.transition_) / (folded.C_ / folded.transition_))) <= 4
    assert len(left_out.penalty_tuning_.C) == len(left_out.penalty_tuning_.loss) >= 3


def test_groups_are_kept_together():
    X, y, _, _ = spoilt(300)
    model = RobustELMRegressor(50, slope=1.0, random_state=0).fit(X, y, groups=np.arange(300) // 10)
    assert model.C_ > 0


# Memory


@pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
@pytest.mark.parametrize("family", cases(FIXED, "nkelm"))
def test_what_grows_with_the_rows_is_a_few_numbers_for_each(monkeypatch, family):
    from test_memory import MB, peak

    monkeypatch.setattr(engine, "BLOCK_BYTES", 2 * MB)
    monkeypatch.setattr(robust_solver, "HELD_BYTES", 2 * MB)
    monkeypatch.setattr(sampling, "PIECE_ROWS", 2**14)
    held = {}
    for n in (40_000, 120_000):
        X, y, _, _ = spoilt(n, m=4)
        model = fixed(family, n_jobs=1, C=10.0)
        with peak() as measured:
            model.fit(X, y)
        assert model.converged_
        held[n] = measured["bytes"]
    per_row = (held[120_000] - held[40_000]) / 80_000 / 8
    assert per_row < 20  # residuals at both ends of a step, their difference, f and f' of them; features are 30 a row


# Bad input and bad luck


@pytest.mark.parametrize("family", FIXED)
def test_what_makes_no_sense_is_refused(family):
    X, y = regression(50)
    for bad in ({"loss": "sqrt", "h": 2.0}, {"loss": "cubic", "tau": 1.0}, {"loss": "squared", "tau": 1.0}):
        with pytest.raises(ValueError, match="has no meaning for loss"):
            fixed(family, **bad).fit(X, y)
    for bad in ({"h": 0.0}, {"h": -1.0}, {"tau": 0.0}, {"tau": -2}, {"loss": "absolute"}, {"C": None}, {"rho": 1.0}):
        with pytest.raises(ValueError, match=f"The '{next(iter(bad))}' parameter of"):
            fixed(family, **bad).fit(X, y)
    with pytest.raises(ValueError, match="delta2 must lie between delta1"):
        fixed(family, delta1=0.4, delta2=0.3).fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        fixed(family).fit(X, np.where(np.arange(50) == 3, np.nan, y))


@pytest.mark.parametrize("name", cases(LOSSES, "huber"))
@pytest.mark.parametrize("family", cases(MODELS, "elm"))
def test_constant_targets_are_predicted(family, name):
    X, _ = regression(40)
    model = MODELS[family](loss=name, random_state=0).fit(X, np.full(40, 3.0))
    np.testing.assert_allclose(model.predict(X), 3.0, atol=1e-6)


@pytest.mark.parametrize("name", cases(LOSSES, "huber"))
@pytest.mark.parametrize("family", cases(MODELS, "nkelm"))
def test_nothing_but_outliers_still_gives_a_finite_answer(family, name):
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(60, 2)), rng.standard_cauchy(60) * 1e6
    model = MODELS[family](loss=name, random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert np.isfinite(model.predict_interval(X)).all()


@pytest.mark.parametrize("family", FIXED)
def test_a_tiny_scale_makes_the_median_and_not_a_mess(family):
    # C so small that only the constant is left: with h → ∞ it is the median of the targets
    X, y, _, _ = spoilt(201)
    model = fixed(family, loss="polynomial", h=1e4, C=1e-9).fit(X, y)
    assert model.intercept_[0] == pytest.approx(np.median(y), abs=1e-3)


@pytest.mark.parametrize("family", FIXED)
def test_a_run_that_stops_early_says_so_with_numbers(family):
    X, y, _, _ = spoilt(300)
    with pytest.warns(NumericalWarning, match=r"stopped after 1 steps: .* above tol.*raise max_iter=1"):
        model = fixed(family, max_iter=1, tol=1e-12).fit(X, y)
    assert not model.converged_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fixed(family).fit(X, y)
    assert model.converged_
    assert model.n_iter_ == len(model.path_.objective) == len(model.path_.gradient_norm)
    assert (np.diff(model.path_.objective) <= 1e-12 * model.path_.objective[0]).all()


def test_a_step_beyond_the_full_one_is_believed_only_where_the_rows_confirm_it():
    # the last step is below the round-off of the loss; extrapolated eight million times, it seemed to go down
    X, y = datasets.make_sinc(300, noise=0.1, outliers=True, random_state=0)
    model = RobustELMRegressor(random_state=0).fit(X, y)
    assert model.converged_
    assert (np.diff(model.path_.objective) <= 1e-12 * model.path_.objective[0]).all()


def test_a_robust_model_has_no_error_bound():
    X, y = regression(60)
    assert not hasattr(fixed("nkelm").fit(X, y), "error_bound")


# The small parts


def test_the_weighted_median_is_that_of_repeated_rows():
    rng = np.random.RandomState(0)
    for n in range(1, 12):
        values, weight = rng.normal(size=n), rng.randint(1, 4, n)
        assert weighted_median(values, weight.astype(float)) == np.median(np.repeat(values, weight))


def test_gross_outliers_do_not_stretch_the_deviation():
    rng = np.random.RandomState(0)
    e = rng.normal(size=(2000, 1))
    e[:800] = 1e3
    assert deviations(e, None)[0] == pytest.approx(1.0, abs=0.05)
    assert deviations(rng.normal(size=(2000, 1)), None)[0] == pytest.approx(1.0, abs=0.05)


def test_deviations_fall_back_where_half_of_the_values_are_equal():
    E = np.column_stack([np.r_[np.zeros(8), 1.0, -1.0], np.zeros(10), np.arange(10.0)])
    np.testing.assert_allclose(deviations(E, None), [0.2, 1.0, 1.4826 * 2.5])


def test_tempering_leaves_what_is_near():
    T = np.r_[np.linspace(-1, 1, 99), 1e6][:, None]
    mild = tempered(T, None)
    np.testing.assert_allclose(mild[:-1], T[:-1])
    assert 2 < mild[-1] < 5


@pytest.mark.parametrize("weight", [None, np.full(1001, 2.0)])
def test_a_single_value_any_distance_away_does_not_stretch_the_deviation(weight):
    e = np.random.RandomState(0).normal(size=(1001, 1))
    clean = deviations(e, weight)[0]
    for far in (1e3, 1e9, 1e14, 1e200):
        e[0] = far
        assert deviations(e, weight)[0] == pytest.approx(clean, rel=0.01)


def test_values_of_which_most_are_equal_have_the_mean_distance_as_deviation():
    e = np.full((100, 1), 3.0)
    e[:10] = 5.0
    assert deviations(e, None)[0] == pytest.approx(0.2)
    assert deviations(e + 1e-15 * np.arange(100)[:, None], None)[0] == pytest.approx(0.2)


@pytest.mark.parametrize("loss", ["sqrt", "polynomial", "huber"])
def test_the_scale_is_that_of_the_noise_whatever_a_single_target_is(loss):
    rng = np.random.RandomState(0)
    X = rng.uniform(-3, 3, (400, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=400)
    y[7] = 1e14
    model = RobustELMRegressor(40, slope=1.0, C=10.0, loss=loss, random_state=0).fit(X, y)
    assert model.transition_ < 1
    assert np.abs(model.predict(X) - np.sin(X[:, 0])).mean() < 0.1


def test_features_do_not_depend_on_how_much_the_rough_fit_before_them_draws(monkeypatch):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(120, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=120)
    model = RobustELMRegressor(20, C=10.0, random_state=0).fit(X, y)
    choose = Pilot.choose

    def drawing_more(self, *args, **options):
        self.rng.rand(7)
        return choose(self, *args, **options)

    monkeypatch.setattr(Pilot, "choose", drawing_more)
    again = RobustELMRegressor(20, C=10.0, random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.map_.transform(X), model.map_.transform(X))

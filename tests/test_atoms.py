"""Targets that many rows share: intervals that reach one hold it, and other intervals are what they were."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.datasets import load_diabetes

from ulmus import AdaptiveRegressor, ELMRegressor, KELMRegressor, NKELMRegressor, RobustNKELMRegressor, load, save
from ulmus.calibration.atoms import atoms_of, high_end, low_end
from ulmus.calibration.intervals import Spread

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")

COVERAGES = np.array([0.1, 0.3, 0.5, 0.8, 0.9, 0.95])
MODELS = {
    "adaptive": lambda: AdaptiveRegressor(effort="fast", random_state=0),
    "nkelm": lambda: NKELMRegressor(random_state=0),
    "kelm": KELMRegressor,
    "elm": lambda: ELMRegressor(random_state=0),
}


def claims(seed, n, share, test=1000):
    """Targets of which all but a share are 0, whatever the rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + test, 3))
    y = (rng.random(n + test) < share) * np.exp(rng.normal(size=n + test) + 2)
    return X[:n], y[:n], X[n:], y[n:]


def covered(ends, y):
    return ((ends[..., 0] <= y[:, None]) & (y[:, None] <= ends[..., 1])).mean(axis=0)


def least(n, test=1000, chance=1e-4):
    """Coverage that a perfect interval falls short of once in 10,000 times, by chance in both sets of rows."""
    spread = np.sqrt(COVERAGES * (1 - COVERAGES) * (1 / n + 1 / test))
    return np.minimum(COVERAGES - 3.7 * spread, binom.ppf(chance, test, COVERAGES) / test)


@pytest.mark.parametrize("share", [0.01, 0.03, 0.08])
@pytest.mark.parametrize("name", MODELS)
def test_intervals_cover_where_nearly_all_targets_are_equal(name, share):
    for seed in range(4):
        X, y, Q, target = claims(seed, 400, share)
        ends = MODELS[name]().fit(X, y).predict_interval(Q, COVERAGES)
        assert (covered(ends, target) >= least(400)).all()


@pytest.mark.parametrize(
    ("make", "asked"),
    [
        (lambda: NKELMRegressor(random_state=0), {"method": "plain"}),
        (lambda: NKELMRegressor(random_state=0), {"tails": "symmetric"}),
        (lambda: NKELMRegressor(random_state=0), {"groups": lambda X: X[:, 0] > 0}),
        (lambda: NKELMRegressor(random_state=0, cv=5), {}),
        (lambda: NKELMRegressor(random_state=0, cv=5), {"method": "cv+"}),
        (lambda: AdaptiveRegressor(effort="fast", random_state=0), {"method": "jackknife+"}),
        (lambda: RobustNKELMRegressor(random_state=0), {}),
        (lambda: NKELMRegressor(loss="quantile", random_state=0), {}),
        (lambda: AdaptiveRegressor(loss="quantile", effort="fast", random_state=0), {}),
    ],
)
@pytest.mark.parametrize("share", [0.01, 0.05])
def test_so_do_those_of_other_methods_and_losses(make, asked, share):
    X, y, Q, target = claims(1, 600, share)
    assert (covered(make().fit(X, y).predict_interval(Q, COVERAGES, **asked), target) >= least(300)).all()


@pytest.mark.parametrize("share", [0.01, 0.05])
def test_distributions_have_the_atom_and_the_ends_of_intervals(share):
    X, y, Q, _ = claims(1, 400, share)
    model = NKELMRegressor(random_state=0).fit(X, y)
    distribution = model.predict_distribution(Q)
    ends, quantiles = model.predict_interval(Q, 0.9), distribution.ppf([0.05, 0.5, 0.95])
    np.testing.assert_array_equal(ends, quantiles[:, [0, 2]])
    assert (np.diff(quantiles) >= 0).all()
    up_to = np.column_stack([distribution.cdf(at) for at in (-1.0, -1e-9, 0.0, 1e-9, 1.0, 100.0)])
    assert (np.diff(up_to) >= 0).all()
    if share == 0.01:
        assert up_to[:, 2].min() > 0.98
        assert up_to[:, 1].max() < 0.02


@pytest.mark.parametrize("name", MODELS)
def test_intervals_of_a_higher_coverage_hold_those_of_a_lower_one(name):
    X, y, Q, _ = claims(2, 400, 0.05)
    low, high = np.moveaxis(MODELS[name]().fit(X, y).predict_interval(Q, np.linspace(0.02, 0.98, 49)), -1, 0)
    assert (np.diff(low) <= 0).all()
    assert (np.diff(high) >= 0).all()


def test_symmetric_intervals_stay_symmetric():
    X, y, Q, _ = claims(1, 400, 0.01)
    model = NKELMRegressor(random_state=0).fit(X, y)
    ends, P = model.predict_interval(Q, tails="symmetric"), model.predict(Q)
    np.testing.assert_allclose(P - ends[:, 0], ends[:, 1] - P, rtol=1e-12)


def test_weights_are_repetitions_and_the_order_of_rows_is_none():
    X, y, Q, _ = claims(3, 150, 0.04)
    w = np.random.RandomState(0).randint(1, 4, 150)
    given = {"gamma": 0.1, "C": 1e-3, "fit_intercept": True}
    order = np.random.RandomState(1).permutation(w.sum())
    copies = [np.repeat(v, w, axis=0)[order] for v in (X, y)]
    one, other = KELMRegressor(**given).fit(X, y, w), KELMRegressor(**given).fit(*copies)
    for model in (one, other):
        assert model.predict_distribution(Q).atoms is not None
    np.testing.assert_allclose(one.predict_interval(Q), other.predict_interval(Q), atol=1e-8)


def test_saved_models_have_the_same_intervals(tmp_path):
    X, y, Q, _ = claims(1, 400, 0.01)
    for name, make in MODELS.items():
        model = make().fit(X, y)
        save(model, tmp_path / name)
        np.testing.assert_array_equal(
            load(tmp_path / name).predict_interval(Q, [0.5, 0.9]), model.predict_interval(Q, [0.5, 0.9])
        )


def test_targets_without_ties_have_the_intervals_that_they_had(monkeypatch):
    X, y = load_diabetes(return_X_y=True)
    y = y + np.random.RandomState(0).normal(size=len(y))
    model = NKELMRegressor(random_state=0).fit(X[:300], y[:300])
    now = model.predict_interval(X[300:])
    monkeypatch.setattr(Spread, "atoms", lambda self, new: None)
    np.testing.assert_array_equal(now, model.predict_interval(X[300:]))


def test_whole_numbers_hardly_widen_intervals(monkeypatch):
    X, y = load_diabetes(return_X_y=True)
    y = np.round(y / 50)
    model = NKELMRegressor(random_state=0).fit(X[:300], y[:300])
    assert model.predict_distribution(X[:2]).atoms is not None
    now = model.predict_interval(X[300:], [0.5, 0.9])
    monkeypatch.setattr(Spread, "atoms", lambda self, new: None)
    before = model.predict_interval(X[300:], [0.5, 0.9])
    assert (np.diff(now).mean(axis=0) <= 1.005 * np.diff(before).mean(axis=0)).all()


def test_an_atom_has_a_hundredth_of_the_weight_and_five_rows():
    T = np.repeat([3.0, 1.0, 2.0], [4, 6, 990])[:, None]
    np.testing.assert_array_equal(atoms_of(T, np.ones(T.shape))[0], [2.0])
    np.testing.assert_array_equal(atoms_of(T[:100], np.ones((100, 1)))[0], [1.0, 2.0])
    np.testing.assert_array_equal(atoms_of(T[:11], np.array([[1.0]] * 4 + [[2.0]] * 7))[0], [1.0])


def test_ends_go_outwards_to_the_farthest_atom_within_reach_and_no_farther():
    values = np.array([0.0, 1.0])
    ends, reach = np.array([1.2, 1.2, 0.1, -0.5, -np.inf]), np.array([0.9, -0.1, 0.05, -0.7, -np.inf])
    np.testing.assert_array_equal(low_end(values, ends, reach), [1.0, 0.0, 0.1, -0.5, -np.inf])
    np.testing.assert_array_equal(high_end(-values[::-1], -ends, -reach), [-1.0, 0.0, -0.1, 0.5, np.inf])


@pytest.mark.parametrize("make", [NKELMRegressor, AdaptiveRegressor])
def test_predictions_of_a_quantile_loss_lie_inside_their_intervals(make):
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(300, 3)), rng.normal(size=(1000, 3))
    y = np.exp(2 * rng.normal(size=300) + X[:, 0])
    given = {"effort": "fast"} if make is AdaptiveRegressor else {}
    model = make(loss="quantile", random_state=0, **given).fit(X, y)
    ends, P = model.predict_interval(Q, COVERAGES), model.predict(Q)[:, None]
    assert ((ends[..., 0] <= P) & (ends[..., 1] >= P)).all()
    np.testing.assert_array_equal(model.predict_quantiles(Q, [0.45, 0.55]), model.predict_interval(Q, 0.1))
    assert (np.diff(model.predict_quantiles(Q, np.linspace(0.01, 0.99, 51))) >= 0).all()

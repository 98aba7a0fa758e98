"""Coverage within groups, and for rows that come from elsewhere."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from data import cases
from ulmus import (
    AdaptiveRegressor,
    ELMRegressor,
    KELMRegressor,
    LeftOutWarning,
    NKELMRegressor,
    OSELMRegressor,
    TableEncoder,
)
from ulmus.calibration.conformal import lower, upper
from ulmus.calibration.shift import checked_ratio, density_ratio, effective_count

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


def of_three(seed, n):
    """Three groups with errors of different shape, told apart by the second column."""
    rng = np.random.RandomState(seed)
    X = np.column_stack([rng.uniform(-1, 1, n), rng.randint(3, size=n)]).astype(float)
    noise = np.where(
        X[:, 1] == 0, rng.standard_t(2, n), np.where(X[:, 1] == 1, rng.uniform(-1, 1, n), 0.1 * rng.normal(size=n))
    )
    return X, X[:, 0] + 0.3 * noise


@pytest.mark.parametrize("method", ["plain", "normalised", "jackknife+"])
def test_every_group_is_covered(method):
    (X, y), (Q, t) = of_three(0, 1500), of_three(1, 6000)
    model = NKELMRegressor(60, random_state=0).fit(X, y)
    low, high = model.predict_interval(Q, 0.8, method=method, groups=1).T
    inside = (low <= t) & (t <= high)
    for k in range(3):
        assert abs(inside[Q[:, 1] == k].mean() - 0.8) < 0.06


def test_quantiles_of_a_group_are_those_of_its_rows():
    X, y = of_three(2, 400)
    model = KELMRegressor(gamma=1.0, C=1.0).fit(X, y)
    ends = model.predict_interval(X, 0.8, method="plain", groups=lambda rows: rows[:, 1] > 0)
    scores = model.spread_.rows.studentised[:, 0]
    width = np.sqrt(1.0 + sum(model._variance_factors(X)))
    for label in (False, True):
        held, new = (model.spread_.rows.X[:, 1] > 0) == label, (X[:, 1] > 0) == label
        low, high = (
            lower(scores[held], np.ones(held.sum()), np.array([0.1])),
            upper(scores[held], np.ones(held.sum()), np.array([0.9])),
        )
        expected = model.predict(X)[:, None] + width[:, None] * np.column_stack([low, high])
        np.testing.assert_allclose(ends[new], expected[new])


def test_groups_of_few_rows_are_given_what_all_rows_say():
    X, y = of_three(3, 300)
    X[:4, 1] = 7
    model = ELMRegressor(30, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match=r"2 groups have too few held-out rows .* \(7\.0, 9\.0\)"):
        ends = model.predict_interval([[0.0, 7.0], [0.0, 9.0], [0.0, 1.0]], groups=1)
    np.testing.assert_allclose(ends[:2], model.predict_interval([[0.0, 7.0], [0.0, 9.0]]))


def test_columns_of_frames_are_groups_by_name():
    X, y = of_three(4, 400)
    frame = pd.DataFrame({"x": X[:, 0], "kind": np.array(["a", "b", "c"])[X[:, 1].astype(int)]})
    frame["hole"] = np.where(X[:, 0] > 0.5, np.nan, 1.0)
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(frame, y)
    ends = model.predict_interval(frame, groups="kind", method="plain")
    width = np.round(ends[:, 1] - ends[:, 0], 9)
    assert [len(np.unique(width[X[:, 1] == k])) for k in range(3)] == [1, 1, 1]
    assert len(np.unique(width)) == 3
    assert np.isfinite(model.predict_interval(frame, 0.5, groups=["kind", "hole"])).all()
    with pytest.raises(ValueError, match="groups must name a column of X"):
        model.predict_interval(frame, groups="colour")


@pytest.mark.parametrize("kind", cases(["pandas", "polars"], "polars"))
def test_groups_are_found_beside_columns_that_were_left_out(kind):
    X, y = of_three(8, 600)
    levels = np.array(["a", "b", "c"])[X[:, 1].astype(int)]
    plain = {"x": X[:, 0], "kind": levels}
    beside = {
        "number": [f"c{i:04d}" for i in range(600)],  # an identifier, left out
        "same": ["one"] * 600,
        "note": [f"{word} was sold in a street of {word} houses" for word in levels],
        **plain,
        "day": np.datetime64("2024-01-01") + np.arange(600) % 9,
    }
    native = pd.DataFrame if kind == "pandas" else pytest.importorskip("polars").DataFrame
    encoder = TableEncoder(kinds={"note": "text", "kind": "category"})
    with pytest.warns(LeftOutWarning):
        model = AdaptiveRegressor(effort="fast", encoder=encoder, random_state=0).fit(native(beside), y)
    asked = {"method": "plain", "coverage": 0.8}
    by_name = model.predict_interval(native(beside), groups="kind", **asked)
    width = np.round(by_name[:, 1] - by_name[:, 0], 9)
    assert [len(np.unique(width[levels == level])) for level in "abc"] == [1, 1, 1]
    assert len(np.unique(width)) == 3
    by_number = model.predict_interval(native(beside), groups=4, **asked)
    by_function = model.predict_interval(native(beside), groups=lambda rows: rows["kind"], **asked)
    by_array = model.predict_interval(native(beside), groups=lambda rows: np.asarray(rows["x"]) * 0, **asked)
    np.testing.assert_array_equal(by_number, by_name)
    np.testing.assert_array_equal(by_function, by_name)
    np.testing.assert_array_equal(by_array, model.predict_interval(native(beside), **asked))
    days = model.predict_interval(native(beside), groups=["kind", "day"], **asked)
    assert np.isfinite(days).all()
    for column, why in (("number", "left out, as it looks like an identifier"), ("note", "it holds text")):
        with pytest.raises(ValueError, match=f"column '{column}' cannot form groups: .*{why}"):
            model.predict_interval(native(beside), groups=column, **asked)


def test_groups_that_are_too_small_are_called_by_their_levels():
    X, y = of_three(9, 300)
    levels = np.where(X[:, 1] == 0, "common", "frequent").astype(object)
    levels[:3], levels[3:6] = "rare", None
    frame = pd.DataFrame({"x": X[:, 0], "kind": levels})
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(frame, y)
    with pytest.warns(UserWarning, match=r"3 groups .* \(\(missing\), \(not seen in training\), rare\)"):
        some = model.predict_interval(pd.DataFrame({"x": 0.0, "kind": ["rare", None, "new", "common"]}), groups="kind")
    with pytest.warns(UserWarning, match=r"3 groups .*"):
        same = model.predict_interval(
            pd.DataFrame({"x": 0.0, "kind": ["rare", None, "new", "common"]}), groups=lambda rows: rows["kind"]
        )
    np.testing.assert_array_equal(same, some)


def test_the_ratio_of_two_gaussians_is_found():
    rng = np.random.RandomState(5)
    old, new = rng.normal(0.0, 1.0, (1500, 1)), rng.normal(0.7, 0.8, (1500, 1))
    centres = np.linspace(-3, 3, 30)
    r = density_ratio(*(np.exp(-((v - centres) ** 2)) if v.ndim == 2 else v for v in (old, np.ones(1500), new)))[0]
    exact = norm.pdf(old[:, 0], 0.7, 0.8) / norm.pdf(old[:, 0])
    assert np.corrcoef(r, exact)[0, 1] > 0.97
    assert abs(np.average(r) - 1.0) < 1e-9


def test_rows_from_the_same_place_have_ratios_near_one():
    rng = np.random.RandomState(6)
    A, B = rng.normal(size=(800, 5)), rng.normal(size=(800, 5))
    r = density_ratio(A, np.ones(800), B)[0]
    assert effective_count(r) > 700


@pytest.mark.parametrize("method", ["plain", "jackknife+"])
def test_shifted_rows_are_covered_by_their_ratio_and_by_an_estimate_of_it(method):
    rng = np.random.RandomState(7)

    def truth(X):
        return np.sin(X[:, 0]) + 0.3 * np.exp(0.5 * X[:, 0]) * rng.normal(size=len(X))

    X, Q = rng.normal(0, 1, (1500, 1)), rng.normal(1, 0.7, (6000 if method == "plain" else 2000, 1))
    y, t = truth(X), truth(Q)
    model = NKELMRegressor(50, random_state=0).fit(X, y)

    def ratio(rows):
        return norm.pdf(rows[:, 0], 1, 0.7) / norm.pdf(rows[:, 0])

    inside = {}
    for shift in (None, ratio, "estimate"):
        low, high = model.predict_interval(Q, 0.9, method=method, shift=shift).T
        inside[shift] = np.mean((low <= t) & (t <= high))
    assert inside[None] < 0.86
    assert abs(inside[ratio] - 0.9) < 0.025
    assert abs(inside["estimate"] - 0.9) < 0.03


def test_a_constant_ratio_changes_nothing():
    X, y = of_three(8, 300)
    model = NKELMRegressor(30, random_state=0).fit(X, y)
    for method in ("plain", "normalised", "jackknife+"):
        plain = model.predict_interval(X, 0.8, method=method)
        np.testing.assert_allclose(
            model.predict_interval(X, 0.8, method=method, shift=lambda rows: np.ones(rows.shape[0])), plain
        )


@pytest.mark.parametrize("given", ["auto", 3.0])
def test_a_shift_that_is_none_is_refused(given):
    X, y = of_three(9, 60)
    with pytest.raises(ValueError, match="shift must be None"):
        KELMRegressor(gamma=1.0, C=1.0).fit(X, y).predict_interval(X, shift=given)


@pytest.mark.parametrize("given", [np.ones(3), -np.ones(4), np.full(4, np.nan), np.zeros(4)])
def test_ratios_that_are_none_are_refused(given):
    with pytest.raises(ValueError, match="shift must give 4 numbers"):
        checked_ratio(given, 4)


def test_a_stream_follows_noise_that_moves():
    rng = np.random.RandomState(10)
    model = OSELMRegressor(40, forgetting=0.995, warm_up=200, random_state=0)

    def block(which):
        X = rng.uniform(-1, 1, (200, 2))
        return X, X[:, 0] + np.where(X[:, which] > 0, 1.0, 0.1) * rng.normal(size=200)

    corners, widths = np.array([[0.7, -0.7], [-0.7, 0.7]]), []
    for which in (0, 1):
        for _ in range(12):
            model.partial_fit(*block(which))
        widths.append(np.diff(model.predict_interval(corners), axis=1)[:, 0])
    assert widths[0][0] > 2 * widths[0][1]
    assert widths[1][1] > 2 * widths[1][0]

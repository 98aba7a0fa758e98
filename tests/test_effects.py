"""Effects of inputs: equal to what scikit-learn computes by brute force, and to their definitions."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.inspection import partial_dependence

from tests.test_explain import table
from ulmus import (
    AdaptiveClassifier,
    AdaptiveRegressor,
    EffectsDisplay,
    ELMRegressor,
    KELMClassifier,
    KELMRegressor,
    NKELMClassifier,
    NKELMRegressor,
)
from ulmus.explain.effects import Effect
from ulmus.plots.effects import _bunch

RNG = np.random.RandomState(0)
X = RNG.normal(size=(150, 4))
Y = np.sin(2 * X[:, 0]) * X[:, 1] + X[:, 2] + 0.3 * RNG.normal(size=150)
GIVEN = {"gamma": 0.2, "C": 10.0}

MODELS = [
    lambda: KELMRegressor(**GIVEN),
    lambda: KELMRegressor(kernel="laplacian_l1", metric=[1.0, 2.0, 0.5, 0.0], **GIVEN),
    lambda: KELMRegressor(kernel="matern32", **GIVEN),
    lambda: NKELMRegressor(40, metric=np.eye(4) + 0.1, random_state=0, **GIVEN),
    lambda: ELMRegressor(40, random_state=0),
    lambda: AdaptiveRegressor(random_state=0),
]
IDS = ["kelm", "metric", "matern32", "full metric", "elm", "adaptive"]


@pytest.mark.parametrize("make", MODELS, ids=IDS)
def test_partial_dependence_is_that_of_scikit_learn(make):
    model = make().fit(X, Y)
    theirs = partial_dependence(model, X, [1], grid_resolution=20, kind="both", method="brute")
    grid = theirs["grid_values"][0]
    found = model.partial_dependence(X, 1, grid=grid, individual=True)
    np.testing.assert_allclose(found.average, theirs["average"][0], atol=1e-9)
    np.testing.assert_allclose(found.individual, theirs["individual"][0], atol=1e-9)
    np.testing.assert_allclose(model.partial_dependence(X, "x1", grid=grid).average, found.average, atol=1e-10)
    pair = partial_dependence(model, X, [(0, 2)], grid_resolution=7, method="brute")
    ours = model.partial_dependence(X, (0, 2), grid=pair["grid_values"])
    np.testing.assert_allclose(ours.average, pair["average"][0], atol=1e-9)


def test_weights_count_as_copies():
    model = KELMRegressor(**GIVEN).fit(X, Y)
    times = RNG.randint(1, 4, 150)
    copies = np.repeat(X, times, axis=0)
    for call in ("partial_dependence", "accumulated_effects"):
        options = {"grid": np.linspace(-1, 1, 5)} if call == "partial_dependence" else {"bins": 1}
        one = getattr(model, call)(X, 0, sample_weight=times, **options)
        other = getattr(model, call)(copies, 0, **options)
        np.testing.assert_allclose(one.average, other.average, atol=1e-10)


def test_a_frame_of_every_kind_is_set_to_levels_dates_and_numbers():
    frame, y = table()
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(frame, y)
    towns = model.partial_dependence(frame, "town")
    assert towns.grid[0].tolist() == sorted("uvwxyz")
    for value, mean in zip(*towns.grid, towns.average, strict=True):
        assert mean == pytest.approx(model.predict(frame.assign(town=value)).mean(), abs=1e-9)
    days = model.partial_dependence(frame, "day", resolution=4)
    for value, mean in zip(*days.grid, days.average, strict=True):
        then = pd.Timestamp("1970-01-01") + pd.to_timedelta(value, "D").round("us")
        assert mean == pytest.approx(model.predict(frame.assign(day=then)).mean(), abs=1e-6)
    numbers = model.partial_dependence(frame, ("number", "twice"), resolution=3)
    assert numbers.average.shape == (3, 2)
    low = model.predict(frame.assign(number=numbers.grid[0][0], twice="no")).mean()
    assert numbers.average[0, 0] == pytest.approx(low, abs=1e-9)
    with pytest.raises(ValueError, match="holds categories"):
        model.accumulated_effects(frame, "town")
    assert model.accumulated_effects(frame, "gaps", bins=5).average.shape == (6,)
    display = EffectsDisplay.from_estimator(model, frame, ["number", "town", ("number", "gaps")], resolution=5)
    assert len(display.effects_) == 3
    for pair in (("number", "town"), ("town", "number"), ("town", "twice")):
        display = EffectsDisplay.from_estimator(model, frame, [pair], resolution=20)
        (axes,) = (each for each in np.ravel(display.axes_) if each is not None)
        labels = [[label.get_text() for label in ticks] for ticks in (axes.get_yticklabels(), axes.get_xticklabels())]
        levels = labels[pair.index("town")]
        assert sorted(levels) == sorted("uvwxyz")
        assert display.effects_[0].average.shape == tuple(len(each) for each in labels)


def test_cells_of_years_have_names_of_their_own():
    years, towns = np.arange(2010.0, 2020.0), np.array(["u", "v"])
    effect = Effect("partial", ("year", "town"), (years, towns), np.zeros((10, 2)))
    assert _bunch(effect, 0).grid_values[0].tolist() == [str(int(year)) for year in years]


def accumulated_by_definition(predict, rows, j, edges):
    """Apley and Zhu, equation (15), row by row."""
    place = np.clip(np.searchsorted(edges, rows[:, j], side="left"), 1, len(edges) - 1)
    steps = []
    for k in range(1, len(edges)):
        high, low = rows[place == k].copy(), rows[place == k].copy()
        high[:, j], low[:, j] = edges[k], edges[k - 1]
        steps.append((predict(high) - predict(low)).mean() if len(high) else 0.0)
    total = np.append(0.0, np.cumsum(steps))
    middle = (total[:-1] + total[1:]) / 2
    return total - np.average(middle, weights=[(place == k).sum() for k in range(1, len(edges))])


@pytest.mark.parametrize("make", MODELS, ids=IDS)
def test_accumulated_effects_follow_their_definition(make):
    model = make().fit(X, Y)
    found = model.accumulated_effects(X, 0, bins=8)
    assert len(found.grid[0]) == 9
    expected = accumulated_by_definition(model.predict, X, 0, found.grid[0])
    np.testing.assert_allclose(found.average, expected, atol=1e-9)


def test_accumulated_effects_of_a_linear_function_are_its_line_though_inputs_hang_together():
    rng = np.random.RandomState(0)
    first = rng.uniform(-1, 1, 300)
    rows = np.column_stack([first, first + 0.05 * rng.normal(size=300)])
    model = KELMRegressor(kernel="linear", C=1e6).fit(rows, 2 * rows[:, 0] - rows[:, 1])
    found = model.accumulated_effects(rows, 0, bins=10)
    slope = np.polyfit(found.grid[0], found.average, 1)[0]
    assert slope == pytest.approx(2.0, abs=1e-3)


def test_classifiers_have_an_effect_for_every_score():
    labels = np.digitize(Y, [-0.7, 0.7])
    model = KELMClassifier(**GIVEN).fit(X, labels)
    found = model.partial_dependence(X, 0, resolution=6)
    assert found.average.shape == (6, 3)
    moved = X.copy()
    moved[:, 0] = found.grid[0][2]
    np.testing.assert_allclose(found.average[2], model.decision_function(moved).mean(axis=0), atol=1e-10)


@pytest.mark.parametrize("kind", ["average", "both", "individual", "accumulated"])
def test_the_display_is_that_of_scikit_learn(kind):
    model = KELMRegressor(**GIVEN).fit(X, Y)
    display = EffectsDisplay.from_estimator(model, X, [0, 1], kind=kind, resolution=7, bins=6)
    curve = display.lines_[0, 0]
    shown = curve if kind in ("average", "accumulated") else curve[-1] if kind == "both" else None
    if shown is not None:
        np.testing.assert_allclose(shown.get_ydata(), display.effects_[0].average)
    label = display.axes_.ravel()[0].get_ylabel()
    assert label == ("Accumulated effect" if kind == "accumulated" else "Partial dependence")


@pytest.mark.parametrize(
    "make",
    [
        lambda: KELMRegressor(fit_intercept=True, **GIVEN),
        lambda: NKELMRegressor(30, landmarks=X[::5] + 0.01, **GIVEN),
    ],
    ids=["kelm", "nkelm"],
)
def test_importances_are_those_of_models_without_each_row(make):
    rows, target = X[:25], Y[:25]
    model = make().fit(rows, target)
    found = model.left_out_importances(rows, target, n_repeats=2, random_state=3)
    rng = np.random.RandomState(3)
    rng.permutation(25)  # which rows are asked: all
    others = [make().fit(np.delete(rows, i, 0), np.delete(target, i)) for i in range(25)]
    before = np.mean([(m.predict(rows[i : i + 1])[0] - target[i]) ** 2 for i, m in enumerate(others)])
    for turn in range(2):
        order = rng.permutation(25)
        for g in range(4):
            mixed = rows.copy()
            mixed[:, g] = rows[order, g]
            after = np.mean([(m.predict(mixed[i : i + 1])[0] - target[i]) ** 2 for i, m in enumerate(others)])
            assert found.importances[g, turn] == pytest.approx(after - before, abs=1e-8)


def test_importances_are_not_all_zero_under_imbalance():
    rng = np.random.RandomState(0)
    rows = rng.normal(size=(600, 4))
    labels = (rows[:, 0] + 0.4 * rng.normal(size=600) > 2.0).astype(int)  # some 3 of 100
    assert 5 < labels.sum() < 40
    for model in (
        NKELMClassifier(80, random_state=0),
        KELMClassifier(random_state=0),
        AdaptiveClassifier(loss="squared", random_state=0),
    ):
        found = model.fit(rows, labels).left_out_importances(rows, labels)
        assert found.importances_mean.argmax() == 0
        assert found.importances_mean[0] > 3 * found.importances_std[0] > 0


def test_adaptive_importances_are_those_of_the_columns_of_the_table():
    frame, y = table()
    model = AdaptiveRegressor(random_state=0).fit(frame, y)
    found = model.left_out_importances(frame, y, n_repeats=2, max_rows=200)
    assert found.importances_mean.shape == (5,)
    assert set(np.argsort(found.importances_mean)[-3:]) == {0, 2, 3}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.partial_dependence(X, "area"), "no input 'area'"),
        (lambda m: m.partial_dependence(X, 7), "numbered from 0 to 3"),
        (lambda m: m.partial_dependence(X, (1, 1)), "different inputs"),
        (lambda m: m.partial_dependence(X, (0, 1), individual=True), "a single input and a single output"),
        (lambda m: m.partial_dependence(X, (0, 1), grid=[1.0, 2.0, 3.0]), "values of 2 inputs"),
        (lambda m: m.accumulated_effects(X, (0, 1)), "1 different inputs"),
        (lambda m: m.accumulated_effects(np.ones((9, 4)), 0), "two different numbers"),
        (lambda m: m.accumulated_effects(X, 0, bins=0), "at least 1"),
        (lambda m: m.left_out_importances(X, Y, n_repeats=0), "at least 1"),
        (lambda m: EffectsDisplay.from_estimator(m, X, [0], kind="all"), "kind must be"),
    ],
    ids=["name", "number", "twice", "individual", "grid", "pair", "constant", "bins", "repeats", "kind"],
)
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(KELMRegressor(**GIVEN).fit(X, Y))


def test_a_first_row_with_a_hole_is_no_drift_on_a_grid():
    X = pd.DataFrame(np.random.RandomState(0).normal(size=(80, 2)), columns=["a", "b"])
    y = X["a"] + X["b"] ** 2
    X.loc[::7, "b"] = np.nan
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.partial_dependence(X, "a", grid=np.linspace(-1, 1, 40))
    expected = [model.predict(X.assign(a=value)).mean() for value in found.grid[0]]
    np.testing.assert_allclose(found.average, expected, rtol=1e-9)

"""Adaptive models: what is learned, what must not leak, and which tables they take."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from data import cases, classification, regression
from ulmus import AdaptiveClassifier, AdaptiveRegressor, NKELMRegressor, datasets
from ulmus.backend import Host
from ulmus.codings import Plain
from ulmus.engine import Rows
from ulmus.features import kept as features_kept
from ulmus.features.sampling import distinct_pairs
from ulmus.models import _stages
from ulmus.models._effort import EFFORTS
from ulmus.models._global import GlobalModel
from ulmus.models._stages import Work
from ulmus.solvers.nystrom_ridge import NystromProblem


def bumps(n, seed=0):
    """A smooth trend in two features, fine structure in them, and three features of noise."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-1, 1, (n, 5))
    fine = np.sign(np.sin(10 * X[:, 0]) * np.sin(10 * X[:, 1]))
    return X, X[:, 0] + X[:, 1] ** 2 + 0.7 * fine + 0.05 * rng.normal(size=n)


def mixed(n, seed=0):
    """A frame with numbers, text and booleans, all of which matter."""
    rng = np.random.RandomState(seed)
    town = rng.choice(["Ulm", "Bonn", "Trier", "Jena"], n)
    frame = pd.DataFrame({"size": rng.normal(size=n), "town": town, "new": rng.uniform(size=n) < 0.5})
    price = {"Ulm": 2.0, "Bonn": 0.0, "Trier": -1.0, "Jena": 1.0}
    y = frame["size"] + frame["town"].map(price) + 2.0 * frame["new"] + 0.1 * rng.normal(size=n)
    return frame, y.to_numpy()


@cache
def fitted_to_bumps(n):
    """The first rows of 6000, by a model that several tests read."""
    X, y = bumps(6000)
    return AdaptiveRegressor(effort="fast", random_state=0).fit(X[:n], y[:n])


def test_the_local_stage_finds_what_the_global_model_leaves():
    X, y = bumps(6000)
    model = fitted_to_bumps(5000)
    plain = NKELMRegressor(random_state=0, max_landmarks=500).fit(X[:5000], y[:5000])
    assert model.local_ is not None
    assert 1 - model.score(X[5000:], y[5000:]) < 0.8 * (1 - plain.score(X[5000:], y[5000:]))


def test_importances_separate_signal_from_noise_and_sum_to_one():
    model = fitted_to_bumps(3000)
    assert_allclose(model.feature_importances_.sum(), 1.0)
    assert model.feature_importances_[:2].sum() > 0.75


def test_a_permuted_target_is_not_predicted_better_than_by_its_mean():
    X, y = mixed(3000)
    X["code"] = np.random.RandomState(1).randint(0, 300, 3000).astype(str)  # many levels: target means would leak
    y = np.random.RandomState(2).permutation(y)
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(X[:2000], y[:2000])
    assert -0.1 < model.score(X[2000:], y[2000:]) < 0.02
    # and the model knows it: what it expects of its own error is the deviation of the target
    assert model.spread_.noise[0] > 0.95 * y[:2000].std()


def test_rows_that_score_the_local_stage_are_in_none_of_the_fits_that_they_score(monkeypatch):
    X, y = bumps(2000)
    X = np.concatenate([X, X[:300]])  # copies must stay on one side
    y = np.concatenate([y, y[:300]])
    seen = {}

    def spy(kernel, gamma, data, *others, **more):
        seen.update(data=data)
        return LocalSearch(kernel, gamma, data, *others, **more)

    LocalSearch = _stages.LocalSearch
    monkeypatch.setattr(_stages, "LocalSearch", spy)
    AdaptiveRegressor(effort="fast", random_state=0).fit(X, y)
    learned = {row.tobytes() for row in seen["data"].U}
    scored = {row.tobytes() for row in seen["data"].U_held}
    assert len(scored) >= 200
    assert not learned & scored
    assert len(learned | scored) == 2000


def global_model(rows, view, size):
    scored = distinct_pairs(rows, 500, np.random.RandomState(0))
    given = (rows, view, None, Plain.of(rows.T, None), "auto", np.inf, None, Host(2))
    return GlobalModel.of(Work(*given, say=str, enter=str), size, 0, scored, fit_intercept=True)


@pytest.mark.parametrize("kept", [True, False])
def test_the_global_model_without_the_held_out_rows_is_a_refit(kept, monkeypatch):
    X, y = (part[:3000] for part in bumps(6000))
    fitted = fitted_to_bumps(3000)
    rows = Rows(fitted.view_.transform(X), y[:, None])
    monkeypatch.setattr(features_kept, "KEPT_BYTES", 2**28 if kept else 0)
    model = global_model(rows, fitted.view_, 200)
    assert (model.features is model.landmark_map) != kept
    held = np.arange(len(y)) < 300
    refit = NystromProblem(model.landmark_map, rows.take(~held), model.trial.best_C, fit_intercept=True).solve()
    first, second = model.predictions(model.without(held), refit)
    assert_allclose(first, second, rtol=1e-6, atol=1e-7)
    assert_allclose(second, model.landmark_map.transform(rows.X) @ refit.beta + refit.intercept, rtol=1e-8, atol=1e-8)


def test_more_landmarks_are_wanted_where_they_gain():
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, (3000, 2))
    fine = Rows(X, np.sign(np.sin(9 * X[:, :1]) * np.sin(9 * X[:, 1:])))
    linear = Rows(X, X[:, :1] + 0.1 * rng.normal(size=(3000, 1)))
    assert global_model(fine, SimpleNamespace(kernel="matern32", gamma=3.0), 100).wants_more
    assert not global_model(linear, SimpleNamespace(kernel="matern32", gamma=0.3), 100).wants_more


def test_the_global_model_grows_where_leaves_do_not_pay(monkeypatch):
    # five additive steps: leaves see few rows each, more landmarks are more knots
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, (6000, 5))
    y = np.sign(np.sin(12 * X)).sum(axis=1) + rng.normal(size=6000)
    small = replace(EFFORTS["fast"], landmarks=100, partitions=0, grows=True, tree_parts=0)
    monkeypatch.setattr(AdaptiveRegressor, "_plan", small)
    grown = AdaptiveRegressor(random_state=0).fit(X[:5000], y[:5000])
    assert grown.local_ is None
    assert len(grown.map_.landmarks_) == 200
    monkeypatch.setattr(AdaptiveRegressor, "_plan", replace(small, grows=False))
    assert len(AdaptiveRegressor(random_state=0).fit(X[:5000], y[:5000]).map_.landmarks_) == 100
    monkeypatch.setattr(AdaptiveRegressor, "_plan", small)
    monkeypatch.setattr(GlobalModel, "wants_more", False)
    as_small = AdaptiveRegressor(random_state=0).fit(X[:5000], y[:5000])
    assert len(as_small.map_.landmarks_) == 100
    assert grown.score(X[5000:], y[5000:]) > as_small.score(X[5000:], y[5000:])


def test_the_prediction_is_the_same_for_any_number_of_threads():
    X, y = bumps(3000)
    one = AdaptiveRegressor(effort="fast", random_state=0, n_jobs=1).fit(X, y)
    two = AdaptiveRegressor(effort="fast", random_state=0, n_jobs=2).fit(X, y)
    assert one.local_ is not None
    assert_allclose(one.predict(X[:200]), two.predict(X[:200]), rtol=1e-10)


def test_intervals_cover_new_rows():
    X, y = bumps(6000)
    low, high = fitted_to_bumps(5000).predict_interval(X[5000:], coverage=0.9).T
    assert 0.86 < np.mean((low <= y[5000:]) & (y[5000:] <= high)) < 0.96


@pytest.mark.parametrize("frame_of", [lambda f: f, pl.from_pandas, lambda f: f.astype({"town": "category"})])
def test_frames_with_text_and_booleans_are_taken_as_they_are(frame_of):
    X, y = mixed(800)
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(frame_of(X[:600]), y[:600])
    assert model.score(frame_of(X[600:]), y[600:]) > 0.95
    assert_array_equal(model.feature_names_in_, ["size", "town", "new"])
    assert model.feature_importances_.shape == (3,)


def test_a_level_that_is_new_at_prediction_gets_an_answer_in_range():
    X, y = mixed(600)
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(X, y)
    strange = X[:5].assign(town="Atlantis")
    assert (np.abs(model.predict(strange)) < 2 * np.abs(y).max()).all()


def test_numbers_named_as_categories_are_treated_as_levels():
    rng = np.random.RandomState(0)
    codes = rng.randint(0, 12, 1500)
    value = rng.permutation(12)  # no order among the codes
    X, y = np.column_stack([codes, rng.normal(size=1500)]), value[codes] + 0.1 * rng.normal(size=1500)
    model = AdaptiveRegressor(effort="fast", categorical_features=[0], random_state=0).fit(X[:1000], y[:1000])
    assert model.score(X[1000:], y[1000:]) > 0.99


@pytest.mark.parametrize(
    ("given", "message"),
    [(["colour"], "names the column 'colour'"), ([7], "names column 7, but there are 3 columns")],
)
def test_categories_that_are_not_there_are_named(given, message):
    X, y = mixed(50)
    with pytest.raises(ValueError, match=message):
        AdaptiveRegressor(categorical_features=given).fit(X, y)


def test_a_column_of_numbers_that_turns_into_text_is_named():
    X, y = mixed(100)
    model = AdaptiveRegressor(effort="fast").fit(X, y)
    with pytest.raises(ValueError, match="column 'size' contained numbers in training"):
        model.predict(X.assign(size="large"))


def test_memory_is_stated_and_bounded():
    X, y = (part[:3000] for part in bumps(6000))
    free = fitted_to_bumps(3000)
    assert free.local_ is not None
    assert free.memory_ > free.local_.nbytes > X.nbytes
    tight = AdaptiveRegressor(effort="fast", max_memory=1.05 * X.nbytes / 1e9, random_state=0).fit(X, y)
    assert tight.local_ is None


def test_probabilities_follow_predictions_and_are_calibrated():
    X, y = datasets.make_spirals(3000, noise=0.05, random_state=0)
    model = AdaptiveClassifier(effort="fast", random_state=0).fit(X[:2000], y[:2000])
    P = model.predict_proba(X[2000:])
    assert_allclose(P.sum(axis=1), 1.0)
    assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X[2000:]))
    assert abs(P.max(axis=1).mean() - model.score(X[2000:], y[2000:])) < 0.03


def test_weights_equal_repetition_through_both_stages():
    X, y = bumps(2000)
    w = np.random.RandomState(1).randint(1, 3, 2000)
    weighted = AdaptiveRegressor(effort="fast", random_state=1).fit(X, y, sample_weight=w)
    repeated = AdaptiveRegressor(effort="fast", random_state=1).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert weighted.local_ is not None
    assert_allclose(weighted.predict(X[:100]), repeated.predict(X[:100]), rtol=1e-6, atol=1e-8)


SMALL_TABLES = {
    "few rows": regression(12),
    "one feature": regression(300, m=1),
    "a constant column": (np.column_stack([regression(100)[0], np.full(100, 7.0)]), regression(100)[1]),
    "only constant columns": (np.ones((60, 2)), np.arange(60.0)),
    "many features": regression(150, m=300),
    "more features than rows": regression(60, m=90),
    "a constant target": (regression(80)[0], np.full(80, 3.0)),
    "heavy duplicates": (np.repeat(regression(20)[0], 100, axis=0), np.repeat(regression(20)[1], 100)),
    "two outputs": regression(100, outputs=2),
}


@pytest.mark.parametrize("name", cases(SMALL_TABLES, *(name for name in SMALL_TABLES if name != "many features")))
def test_odd_tables_get_finite_answers(name):
    X, y = SMALL_TABLES[name]
    P = AdaptiveRegressor(effort="fast", random_state=0).fit(X, y).predict(X)
    assert P.shape == np.shape(y)
    assert np.isfinite(P).all()


def test_a_level_too_rare_for_the_samples_of_the_search_has_its_columns():
    rng = np.random.RandomState(0)
    n = 6000
    X = np.column_stack([rng.normal(size=n), rng.randint(0, 4, n)])
    X[:3, 1] = 9  # three rows of 6000: no sample need have them
    y = X[:, 0] + np.sin(X[:, 1])
    model = AdaptiveRegressor(effort="fast", categorical_features=[1], random_state=0).fit(X, y)
    assert model.score(X, y) > 0.98


def test_only_categories_are_enough():
    rng = np.random.RandomState(0)
    X = pd.DataFrame({"a": rng.choice(list("xyz"), 400), "b": rng.choice(list("uvw"), 400)})
    y = ((X["a"] == "x") & (X["b"] != "u")).astype(int)
    for seed in range(5):  # nine rows of many copies: no target mean may hang on the part of a row
        assert AdaptiveClassifier(effort="fast", random_state=seed).fit(X, y).score(X, y) == 1.0


def test_equal_inputs_with_other_labels_all_count():
    # nine cells in which one label in three is another: what is right for the first row of a cell may be wrong for most
    rng = np.random.RandomState(0)
    X = rng.randint(0, 3, (6000, 2)).astype(float)
    most = (X.sum(axis=1) % 2).astype(int)
    y = np.where(rng.uniform(size=6000) < 1 / 3, 1 - most, most)
    for seed in range(3):
        model = AdaptiveClassifier(effort="fast", random_state=seed).fit(X[:5000], y[:5000])
        assert_array_equal(model.predict(X[5000:]), most[5000:])


def test_many_classes_are_distinguished():
    X, y = classification(2000, classes=12)
    model = AdaptiveClassifier(effort="fast", random_state=0).fit(X[:1500], y[:1500])
    assert model.score(X[1500:], y[1500:]) > 0.7


def test_findings_are_printed_on_request(capsys):
    AdaptiveRegressor(effort="fast", random_state=0, verbose=True).fit(*bumps(2000))
    told = capsys.readouterr().out
    assert all(word in told for word in ("view:", "global model:", "local stage:", "done:"))


def test_a_mask_of_categories_is_a_mask():
    X, y = mixed(400)
    X = X.assign(town=X["town"].astype("category").cat.codes.astype(float), new=X["new"].astype(float))
    by_place = AdaptiveRegressor(effort="fast", categorical_features=[1], random_state=0).fit(X, y)
    by_mask = AdaptiveRegressor(effort="fast", categorical_features=[False, True, False], random_state=0).fit(X, y)
    assert_array_equal(by_mask.predict(X), by_place.predict(X))
    with pytest.raises(ValueError, match="mask of 2 columns, but there are 3"):
        AdaptiveRegressor(categorical_features=[False, True]).fit(X, y)


def test_the_deviation_grows_away_from_the_data():
    X, y = bumps(1000)
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(X, y)
    near, far = (model.predict(rows, return_std=True)[1] for rows in (X[:50], X[:50] + 100))
    assert (near > 0).all()
    assert far.min() > 1.5 * near.max()


def test_one_leaf_is_fitted_once_and_few_rows_have_wide_leaves():
    effort = EFFORTS["default"]
    assert effort.leaf(20_000) == effort.wide_leaf_rows > effort.leaf_rows == effort.leaf(20_001)
    model = AdaptiveRegressor(random_state=0).fit(*bumps(1500))
    assert model.local_ is not None
    assert [partition.n_leaves for partition in model.local_.partitions] == [1]


def test_the_kernel_of_coordinates_is_that_of_the_global_model():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 3))
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(X, X[:, 0] + np.sin(X[:, 1]))
    K = pairwise_kernel(model.coordinates(X[:5]), model.map_.landmarks_, model.view_)
    expected = K @ model.map_.weight_to_landmarks(model.beta_) + model.intercept_
    if model.local_ is not None:
        expected += model.local_(model.coordinates(X[:5]))
    np.testing.assert_allclose(model.predict(X[:5]), expected[:, 0], rtol=1e-8)


def pairwise_kernel(U, Z, view):
    """The two kernels of views, from their formulas."""
    if view.kernel == "laplacian_l1":
        return np.exp(-view.gamma * np.abs(U[:, None] - Z).sum(axis=2))
    r = np.sqrt(3.0) * view.gamma * np.sqrt(((U[:, None] - Z) ** 2).sum(axis=2))
    return (1 + r) * np.exp(-r)


def test_labels_of_few_rows_get_fewer_landmarks_and_numbers_do_not():
    effort = EFFORTS["default"]
    few, many = (effort.search(n, numbers=False) for n in (1_000, 5_000))
    assert (few.landmarks, few.metric_landmarks, few.final_landmarks) == (100, 125, (250, 250))
    assert many == effort.budget  # and the lean one is that of labels, too
    assert effort.search(100, numbers=False).final_landmarks == (100, 100)
    assert effort.search(100, numbers=True) == effort.search(20_000, numbers=True) == effort.numbers
    assert effort.search(20_001, numbers=True, trees=True) == replace(effort.budget, lean=None)


def test_numbers_that_trees_answer_too_are_seen_without_cuts_and_additive_views():
    effort = EFFORTS["default"]
    with_trees = replace(effort.numbers, cuts=False, additive=False)
    assert effort.search(50, numbers=True, trees=True) == effort.search(20_000, numbers=True, trees=True) == with_trees
    assert effort.search(49, numbers=True, trees=True) == effort.numbers  # too few for trees
    labels = effort.search(50, numbers=False)
    assert labels.additive
    assert effort.search(50, numbers=False, trees=True) == replace(labels, additive=False)
    assert effort.search(49, numbers=False, trees=True) == effort.search(49, numbers=False)


@pytest.mark.parametrize("labels", [False, True])
def test_noise_gets_a_lean_search_and_fewer_landmarks(labels):
    rng = np.random.RandomState(0)
    X, kind = rng.normal(size=(1_800, 5)), AdaptiveClassifier if labels else AdaptiveRegressor
    trials, sizes = [], []
    for noise in (0.1, 2.0):
        y = np.sin(2 * X[:, 0]) + X[:, 1] + noise * rng.normal(size=1_800)
        fitted = kind(trees=False, random_state=0).fit(X, y > 0 if labels else y)
        trials.append(sum(trial.metric == "learned" for trial in fitted.trials_))
        sizes.append(len(fitted.map_.landmarks_))
    assert trials[1] < trials[0]
    assert sizes in ([600, 400], [300, 400], [600, 200], [300, 200])  # half of them where these are as good


def test_predictions_are_those_of_what_was_fitted_whatever_is_set_afterwards():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(200, 3))
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(X, X[:, 0])
    before = model.predict(X), model.predict_interval(X)
    model.set_params(effort="bogus", loss="quantile", monotonic_cst=[1, 0, 0])
    for found, expected in zip((model.predict(X), model.predict_interval(X)), before, strict=True):
        np.testing.assert_array_equal(found, expected)

"""Learned cuts of numbers, and where adaptive models take them."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.tree import DecisionTreeRegressor

from ulmus import AdaptiveClassifier, AdaptiveRegressor, load, save
from ulmus.features.cuts import SIZE, Cuts
from ulmus.features.preparation import Preparation


def drawn(n=600, d=3, seed=0):
    rng = np.random.RandomState(seed)
    return rng.normal(size=(n, d)), rng


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("levels", [12, None])
def test_cuts_are_the_thresholds_of_a_tree_grown_best_first(outputs, levels):
    X, rng = drawn(120)  # fewer values than intervals: every cut is compared exactly
    if levels:
        X = np.digitize(X, np.linspace(-2, 2, levels - 1)).astype(float)
    T = np.sin(2 * X[:, :1]) * (X[:, 1:2] > 0) + 0.1 * rng.normal(size=(120, outputs))
    tree = DecisionTreeRegressor(max_leaf_nodes=9, min_samples_leaf=5, random_state=0).fit(X, T).tree_
    expected = sorted({(j, t) for j, t in zip(tree.feature, tree.threshold, strict=True) if j >= 0})
    found = Cuts.of(X, T, None, numeric=3, most=8)
    assert_array_equal(found.column, [j for j, _ in expected])
    np.testing.assert_allclose(found.at, [t for _, t in expected], rtol=1e-6)  # the tree reads float32


def test_a_weight_counts_as_repetition_and_constants_are_not_cut():
    X, rng = drawn(300)
    X[:, 2] = 1.0
    T, k = np.sign(X[:, :1] + X[:, 1:2]) + 0.1 * rng.normal(size=(300, 1)), rng.randint(1, 5, 300)
    weighted = Cuts.of(X, T, k.astype(float), 3)
    repeated = Cuts.of(np.repeat(X, k, axis=0), np.repeat(T, k, axis=0), None, 3)
    assert_array_equal(weighted.column, repeated.column)
    assert_array_equal(weighted.at, repeated.at)
    assert len(weighted) > 2
    assert 2 not in weighted.column
    assert len(Cuts.of(X[:, 2:], T, None, 1)) == 0
    assert len(Cuts.of(X, np.zeros((300, 1)), None, 3)) == 0


def test_both_values_beside_a_cut_are_distinguished_even_where_nothing_lies_between():
    low = 1.0
    X = np.where(np.arange(200) % 4 < 2, low, np.nextafter(low, 2.0))[:, None]
    X[:20] = 5.0  # a third value: two of them are a step already
    T = np.where(np.nextafter(low, 2.0) == X, 1.0, 0.0)
    cuts = Cuts.of(X, T, None, 1)
    told = cuts.transform(np.array([[low], [np.nextafter(low, 2.0)], [5.0]]))
    assert len(np.unique(told, axis=0)) == 3
    assert set(np.unique(told)) == {0.0, SIZE}


def test_columns_of_cuts_stand_after_marks_and_belong_to_their_input():
    X, rng = drawn(200)
    X[::7, 1] = np.nan
    X[:, 2] = rng.randint(3, size=200)
    T, categorical = (X[:, :1] > 0.3) * 1.0 + (X[:, 2:] == 1), np.array([False, False, True])
    plain = Preparation.of("clip", X, T, None, categorical)
    cuts = plain.learn_cuts(X, T, None)
    assert len(cuts) > 0
    prepared = Preparation.of("clip", X, T, None, categorical, cuts=cuts)
    Z, without = prepared.transform(X), plain.transform(X)
    assert_array_equal(np.delete(Z, np.s_[3 : 3 + len(cuts)], axis=1), without)
    assert_array_equal(prepared.sources()[3 : 3 + len(cuts)], cuts.column)
    filled = np.where(np.isnan(X), np.append(plain.gaps.fills, 0.0), X)
    assert_array_equal(Z[:, 3 : 3 + len(cuts)], SIZE * (filled[:, cuts.column] > cuts.at))


def ruled(n=1500, seed=0):
    """A label by a rule on two of six numbers, a few of them wrong."""
    X, rng = drawn(n, 6, seed)
    return X, rule(X) ^ (rng.random_sample(n) < 0.02)


def rule(X):
    return (X[:, 0] > 0.5) & (X[:, 1] < 0.2)


@pytest.fixture(scope="module")
def with_cuts():
    return AdaptiveClassifier(effort="fast", trees=False, random_state=0).fit(*ruled())


def test_rules_get_cuts_and_a_smooth_target_gets_none(with_cuts):
    X, _ = ruled()
    cuts = with_cuts.view_.preparation.cuts
    assert cuts is not None
    for column, at in ((0, 0.5), (1, 0.2)):
        assert np.abs(cuts.at[cuts.column == column] - at).min() < 0.03
    smooth = AdaptiveRegressor(effort="fast", trees=False, random_state=0).fit(X, np.sin(X[:, 0]) + X[:, 1])
    assert smooth.view_.preparation.cuts is None


def test_cuts_lower_the_error_of_rules_on_new_rows(with_cuts):
    X, y = ruled()
    Q = drawn(4000, 6, 1)[0]
    plain = AdaptiveClassifier(effort="fast", trees=False, random_state=0)
    plan = plain._spent
    plain._plan = replace(plan, budget=replace(plan.budget, cuts=False))
    cut, uncut = (np.mean(model.predict(Q) != rule(Q)) for model in (with_cuts, plain.fit(X, y)))
    assert cut < 0.7 * uncut


def test_a_model_with_cuts_is_saved_and_loaded(tmp_path):
    X, y = ruled(800)
    model = AdaptiveClassifier(effort="fast", trees=False, random_state=0).fit(X, y)
    assert model.view_.preparation.cuts is not None
    save(model, tmp_path / "m.ulmus")
    assert_array_equal(load(tmp_path / "m.ulmus").predict_proba(X), model.predict_proba(X))


def test_cuts_of_a_column_share_its_weight():
    cuts = Cuts(np.array([0, 2, 2, 2]), np.zeros(4))
    assert_array_equal(cuts.shares(np.array([0.5, 1.0, 0.75])), [0.5, 0.25, 0.25, 0.25])
    assert len(Cuts(np.array([], dtype=int), np.array([])).shares(np.ones(3))) == 0


def test_several_cuts_of_a_column_that_matters_are_found_worth_having():
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 1, (1200, 6))
    steps = (np.floor(6 * X[:, 0]) % 2 + (X[:, 1] > 0.5)) % 2  # seven cuts, six of them in one column
    model = AdaptiveClassifier(effort="fast", trees=False, random_state=0).fit(X[:800], steps[:800].astype(int))
    assert len(model.view_.preparation.cuts) >= 6
    assert model.score(X[800:], steps[800:].astype(int)) > 0.9

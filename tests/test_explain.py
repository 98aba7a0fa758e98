"""Shapley values: equal to their definition, and to the package shap."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from data import examples
from tests.games import coalition_scores, interactions_by_definition, shapley_by_definition
from ulmus import (
    AdaptiveClassifier,
    AdaptiveRegressor,
    BeeswarmDisplay,
    ELMRegressor,
    KELMClassifier,
    KELMRegressor,
    NKELMClassifier,
    NKELMRegressor,
    NumericalWarning,
    OSELMRegressor,
    RobustNKELMRegressor,
    WaterfallDisplay,
    load,
    save,
)
from ulmus.explain import explain
from ulmus.explain.game import Comparison, Products, local_products
from ulmus.explain.permutations import sampled_interactions
from ulmus.explain.shapley import shapley_values
from ulmus.features.dates import DateParts
from ulmus.features.partition import random_partition
from ulmus.models._games import game_of
from ulmus.solvers.local import LocalKernels

RNG = np.random.RandomState(0)
X = RNG.normal(size=(200, 6))
Y = np.sin(2 * X[:, 0]) * X[:, 1] + X[:, 2] + 0.3 * RNG.normal(size=200)
BACKGROUND = X[100:107]
ALONE = [[j] for j in range(6)]


def by_definition(model, rows, background, weight=None):
    game = game_of(model)
    U, B = game.see(rows), game.see(background)
    groups = [list(columns) for columns in game.players()[1]]
    weight = np.full(len(B), 1 / len(B)) if weight is None else weight
    return coalition_scores(game.score, groups, U, B, weight)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian_l1"])
@pytest.mark.parametrize(
    "make",
    [
        lambda kernel: KELMRegressor(kernel=kernel, gamma=0.1, C=10.0),
        lambda kernel: NKELMRegressor(60, kernel=kernel, gamma=0.1, C=10.0, random_state=0),
        lambda kernel: NKELMRegressor(60, kernel=kernel, metric=[1.0, 2.0, 0.5, 1.0, 0.1, 0.0], random_state=0),
        lambda kernel: NKELMRegressor(60, kernel=kernel, solver="iterative", gamma=0.1, C=10.0, random_state=0),
        lambda kernel: RobustNKELMRegressor(60, kernel=kernel, gamma=0.1, C=10.0, random_state=0),
    ],
    ids=["kelm", "nkelm", "metric", "iterative", "robust"],
)
def test_values_of_product_kernels_equal_all_coalitions(make, kernel):
    model = make(kernel).fit(X, Y)
    found = model.explain(X[:4], BACKGROUND)
    assert found.exact
    expected = shapley_by_definition(by_definition(model, X[:4], BACKGROUND))[..., 0]
    np.testing.assert_allclose(found.values, expected, atol=1e-10)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 7, 10])
def test_values_equal_all_coalitions_for_any_number_of_players(d):
    rng = np.random.RandomState(d)
    Z, U, B = rng.normal(size=(9, d)), rng.normal(size=(3, d)), rng.normal(size=(4, d))
    part = Products("rbf", 0.3, Z, rng.normal(size=(9, 2)))
    weight = np.array([0.1, 0.2, 0.3, 0.4])

    def score(V):
        return np.exp(-0.3 * ((V[:, None] - Z) ** 2).sum(-1)) @ part.weights

    groups = [np.array([j]) for j in range(d)]
    found = shapley_values((part,), Comparison(groups, U, B, weight))
    expected = shapley_by_definition(coalition_scores(score, groups, U, B, weight))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_interactions_equal_all_coalitions_and_rows_add_up_to_values():
    model = NKELMRegressor(60, gamma=0.1, C=10.0, random_state=0).fit(X, Y)
    found = model.explain(X[:3], BACKGROUND, interactions=True)
    expected = interactions_by_definition(by_definition(model, X[:3], BACKGROUND))[..., 0] / 2
    off = ~np.eye(6, dtype=bool)
    np.testing.assert_allclose(found.interactions[:, off], expected[:, off], atol=1e-10)
    np.testing.assert_allclose(found.interactions.sum(axis=2), found.values, atol=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: KELMRegressor(kernel="matern32", gamma=0.1, C=10.0),
        lambda: NKELMClassifier(40, kernel="matern32", gamma=0.1, C=10.0, random_state=0),
    ],
    ids=["matern32", "classes"],
)
def test_interactions_of_other_kernels_are_sampled_with_an_error(make):
    y = Y if "Regressor" in type(make()).__name__ else np.digitize(Y, [-0.5, 0.5])
    model, background = make().fit(X, y), X[100:140]
    found = model.explain(X[:3], background, interactions=True, rounds=4)
    expected = interactions_by_definition(by_definition(model, X[:3], background)) / 2
    pairs, errors = (each.reshape(expected.shape) for each in (found.interactions, found.interaction_errors))
    off = ~np.eye(6, dtype=bool)
    assert (np.abs(pairs - expected)[:, off] <= 4 * errors[:, off] + 1e-12).all()
    assert np.abs(pairs - expected)[:, off].mean() < 0.1 * np.abs(expected[:, off]).max()
    np.testing.assert_allclose(found.interactions.sum(axis=2), found.values, atol=1e-12)
    one = found[1] if found.values.ndim == 2 else found[1, :, 2]
    assert one.interactions.shape == one.interaction_errors.shape == (6, 6)


def test_sampled_interactions_of_pairs_are_exact():
    rng = np.random.RandomState(0)
    U, B, weight = rng.normal(size=(3, 4)), rng.normal(size=(9, 4)), rng.dirichlet(np.ones(9))

    def score(V):
        return np.column_stack([V[:, 0] * V[:, 1] + V[:, 2], np.sin(V[:, 1] + V[:, 3])])

    groups = [[j] for j in range(4)]
    found, errors = sampled_interactions(score, Comparison(groups, U, B, weight), 1, np.random.RandomState(1))
    expected = interactions_by_definition(coalition_scores(score, groups, U, B, weight))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert (errors[:, [0, 1], [1, 0], 0] > 0).all()


def table(n=400):
    rng = np.random.RandomState(1)
    frame = pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "gaps": np.where(rng.uniform(size=n) < 0.1, np.nan, rng.exponential(size=n)),
            "town": rng.choice(list("uvwxyz"), n),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.randint(0, 1000, n), "D"),
            "twice": rng.choice(["yes", "no"], n),
        }
    )
    y = np.floor(3 * frame["number"]) % 2 + (frame["town"] < "w") * frame["number"] + frame["day"].dt.month / 6
    return frame, (y + 0.1 * rng.normal(size=n)).to_numpy()


def test_adaptive_values_are_those_of_the_columns_of_the_table():
    frame, y = table()
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(frame, y)
    assert model.view_.kernel == "laplacian_l1", "another view would be sampled"
    found = model.explain(frame[:3], frame[50:55])
    expected = shapley_by_definition(by_definition(model, frame[:3], frame[50:55]))[..., 0]
    present = game_of(model).players()[0]
    assert found.exact
    assert found.feature_names == list(frame.columns)
    np.testing.assert_allclose(found.values[:, present], expected, atol=1e-10)
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, model.predict(frame[:3]), atol=1e-10)
    np.testing.assert_allclose(found.base_values, model.predict(frame[50:55]).mean(), atol=1e-10)


def test_polars_frames_are_explained_as_pandas_frames_are():
    frame, y = table()
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(frame, y)
    same = pytest.importorskip("polars").from_pandas(frame)
    found, expected = model.explain(same[:3], same[50:55]), model.explain(frame[:3], frame[50:55])
    np.testing.assert_allclose(found.values, expected.values, atol=1e-12)
    assert found.data.shape == expected.data.shape


def test_what_is_usual_is_taken_from_all_rows_that_a_model_holds():
    rng = np.random.RandomState(4)
    rows = np.sort(rng.exponential(size=(1_000, 1)), axis=0)  # in order, and few of them far away
    model = KELMRegressor(gamma=1.0, C=10.0).fit(rows, rows[:, 0])
    told = model.explain(rows[:1])
    np.testing.assert_allclose(told.base_values[0], model.predict(rows[::10]).mean(), atol=1e-9)
    frame = pd.DataFrame({"carat": rng.lognormal(size=1_500), "cut": rng.choice(list("abcde"), 1_500)})
    price = (3_000 * frame["carat"] * (1 + (frame["cut"] < "c"))).to_numpy()
    adaptive = AdaptiveRegressor(effort="fast", random_state=0).fit(frame, price)
    error = price.std() / 10  # of the mean of 100 rows
    assert abs(adaptive.explain(frame[:1]).base_values[0] - price.mean()) < 3 * error


def test_an_explanation_is_printed_in_a_line():
    model = KELMRegressor(gamma=0.1, C=10.0).fit(X, Y)
    found = model.explain(X[:3], BACKGROUND)
    order = [f"x{j}" for j in np.argsort(-found.importance())[:3]]
    assert repr(found) == f"<Explanation of 3 rows by 6 inputs (exact); largest on average: {', '.join(order)}>"
    assert repr(found[0]).startswith("<Explanation of 1 rows by 6 inputs (exact)")
    several = KELMClassifier(kernel="matern32").fit(X, np.digitize(Y, [-1, 1])).explain(X[:2], BACKGROUND)
    assert "2 rows by 6 inputs, 3 outputs (sampled, standard errors up to" in repr(several)
    assert "1 rows by 6 inputs, 3 outputs" in repr(several[1])


@pytest.mark.parametrize("kernel", ["rbf", "laplacian_l1"])
def test_leaves_of_a_local_stage_are_products_too(kernel):
    rng = np.random.RandomState(3)
    V = rng.normal(size=(120, 5))
    partitions = tuple(random_partition(V, 20, rng) for _ in range(2))
    local = LocalKernels(kernel, 0.2, V, partitions, tuple(rng.normal(size=(120, 2)) for _ in range(2)))
    parts, groups = local_products(local), [[0, 3], [1], [2], [4]]
    assert sum(len(part.Z) for part in parts) == 240
    U, B, weight = rng.normal(size=(4, 5)), rng.normal(size=(6, 5)), np.full(6, 1 / 6)
    found = shapley_values(parts, Comparison([np.array(g) for g in groups], U, B, weight))
    expected = shapley_by_definition(coalition_scores(local.predict, groups, U, B, weight))
    np.testing.assert_allclose(found, expected, atol=1e-11)


def test_leaves_with_oblique_cuts_are_sampled():
    rng = np.random.RandomState(3)
    V = (rng.uniform(size=(120, 6)) < 0.1).astype(float)  # columns that are cut lopsidedly
    partitions = tuple(random_partition(V, 20, rng) for _ in range(3))
    local = LocalKernels("rbf", 0.2, V, partitions, tuple(rng.normal(size=(120, 1)) for _ in range(3)))
    assert any(len(p.directions) for p in partitions)
    assert local_products(local) is None


@pytest.mark.parametrize(
    "model",
    [KELMClassifier(), NKELMClassifier(80, random_state=0), AdaptiveClassifier(random_state=0)],
    ids=lambda m: type(m).__name__,
)
def test_classifiers_are_explained_class_by_class(model):
    data, target = load_iris(return_X_y=True)
    model.fit(data, np.array(["setosa", "versicolor", "virginica"])[target])
    found = model.explain(data[::30], data[::10])
    assert found.output_names == ["setosa", "versicolor", "virginica"]
    assert found.values.shape == (5, 4, 3)
    np.testing.assert_allclose(
        found.values.sum(axis=1) + found.base_values, model.decision_function(data[::30]), atol=1e-10
    )
    assert found[:, :, "virginica"].values.tolist() == found.values[..., 2].tolist()
    assert found[2].values.shape == (4, 3)
    with pytest.raises(IndexError, match="no output 'rose'"):
        found[:, :, "rose"]


def test_two_classes_have_one_score():
    model = KELMClassifier(gamma=0.1, C=1.0).fit(X, Y > 0)
    found = model.explain(X[:3], BACKGROUND)
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, model.decision_function(X[:3]), atol=1e-12)
    assert found.output_names is None


def test_several_outputs_have_values_of_their_own():
    both = np.column_stack([Y, -2 * Y])
    found = KELMRegressor(gamma=0.1, C=1.0).fit(X, both).explain(X[:2], BACKGROUND)
    np.testing.assert_allclose(found.values[..., 1], -2 * found.values[..., 0], atol=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: KELMRegressor(kernel="matern32", gamma=0.3, C=10.0),
        lambda: KELMRegressor(gamma=0.1, C=10.0, metric=np.eye(6) + 0.1),
        lambda: ELMRegressor(50, random_state=0),
        lambda: OSELMRegressor(50, random_state=0),
        lambda: AdaptiveRegressor(effort="fast", random_state=0),
    ],
    ids=["matern32", "full metric", "elm", "oselm", "adaptive"],
)
def test_other_models_are_sampled_with_an_error_that_holds(make):
    model = make().fit(X, Y)
    expected = shapley_by_definition(by_definition(model, X[:8], BACKGROUND))[..., 0]
    found = model.explain(X[:8], BACKGROUND, rounds=4, method="sampled")
    assert not found.exact
    errors = np.maximum(found.errors, 1e-12)
    assert np.mean(np.abs(found.values - expected) < 2 * errors) > 0.9
    assert (np.abs(found.values - expected) < 5 * errors).all()
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, model.predict(X[:8]), atol=1e-9)
    more = model.explain(X[:8], BACKGROUND, rounds=64, method="sampled", random_state=1)
    assert more.errors.mean() < 0.3 * found.errors.mean()
    again = model.explain(X[:8], BACKGROUND, rounds=4, method="sampled")
    assert again.values.tolist() == found.values.tolist()


def test_one_pair_of_orders_does_not_pass_for_exact():
    model = KELMRegressor(kernel="matern32", gamma=0.3, C=10.0).fit(X, Y)
    found = model.explain(X[:2], X[100:101], interactions=True)
    assert not found.exact
    assert np.isnan(found.errors).all()
    assert np.isnan(found.interaction_errors).all()
    assert np.isfinite(model.explain(X[:2], X[100:101], rounds=2).errors).all()
    uneven = model.explain(X[:40], X[100:102], background_weight=[0.95, 0.05], rounds=1)
    expected = shapley_by_definition(by_definition(model, X[:40], X[100:102], [0.95, 0.05]))[..., 0]
    assert np.mean(np.abs(uneven.values - expected) < 2 * uneven.errors) > 0.8
    two = KELMRegressor(kernel="matern32", gamma=0.3, C=10.0).fit(X[:, :2], Y)
    assert two.explain(X[:2, :2], X[100:101, :2]).exact


def test_sampled_values_of_sums_of_pairs_have_no_error():
    model = KELMRegressor(kernel="poly", degree=2, gamma=0.3, C=1.0).fit(X, Y)
    found = model.explain(X[:4], BACKGROUND)
    expected = shapley_by_definition(by_definition(model, X[:4], BACKGROUND))[..., 0]
    np.testing.assert_allclose(found.values, expected, atol=1e-9)


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 2**31 - 1), d=st.integers(2, 9), scale=st.sampled_from([1e-3, 0.3, 10.0, 300.0]))
def test_efficiency_symmetry_and_null_player_hold(seed, d, scale):
    rng = np.random.RandomState(seed)
    kernel = ["rbf", "laplacian_l1"][seed % 2]
    Z, U, B = rng.normal(size=(20, d)), rng.normal(size=(3, d)), rng.normal(size=(5, d))
    Z[:, 1], U[:, 1], B[:, 1] = Z[:, 0], U[:, 0], B[:, 0]  # twins
    U[:, -1] = B[:, -1] = 0.7 if d > 2 else U[0, 0]  # the same in all rows, and so worth nothing
    if d == 2:
        U[:, 0], B[:, 0] = U[:, 1], B[:, 1]
    part = Products(kernel, scale, Z, rng.normal(size=(20, 1)))
    groups, weight = [np.array([j]) for j in range(d)], np.full(5, 0.2)
    values = shapley_values((part,), Comparison(groups, U, B, weight))[..., 0]

    def score(V):
        return part.factors(V, groups).prod(axis=1).T @ part.weights[:, 0]

    np.testing.assert_allclose(values.sum(axis=1), score(U) - score(B).mean(), atol=1e-12)
    np.testing.assert_allclose(values[:, 0], values[:, 1], atol=1e-13)
    assert np.abs(values[:, -1]).max() <= 1e-15 * max(1.0, np.abs(values).max())


def test_weights_of_the_background_count_as_copies():
    model = KELMRegressor(gamma=0.1, C=10.0).fit(X, Y)
    weighted = model.explain(X[:3], BACKGROUND[:3], background_weight=[1, 2, 3])
    copied = model.explain(X[:3], BACKGROUND[[0, 1, 1, 2, 2, 2]])
    np.testing.assert_allclose(weighted.values, copied.values, atol=1e-12)
    np.testing.assert_allclose(weighted.base_values, copied.base_values, atol=1e-12)


def test_many_rows_and_threads_and_background_blocks_change_nothing():
    model = NKELMRegressor(60, gamma=0.1, C=10.0, random_state=0, n_jobs=1).fit(X, Y)
    many = np.random.RandomState(5).normal(size=(300, 6))
    whole = model.explain(X, many)
    alone = model.set_params(n_jobs=2).explain(X[17:18], many)
    np.testing.assert_allclose(whole.values[17:18], alone.values, atol=1e-12)


def test_a_kernel_model_brings_its_background_and_others_ask_for_one(tmp_path):
    model = NKELMRegressor(60, gamma=0.1, C=10.0, random_state=0).fit(X, Y)
    own = model.explain(X[:3])
    save(model, tmp_path / "model.ulmus")
    assert load(tmp_path / "model.ulmus").explain(X[:3]).values.tolist() == own.values.tolist()
    np.testing.assert_allclose(own.values, model.explain(X[:3], model.map_.landmarks_).values, atol=1e-12)
    with pytest.raises(ValueError, match="keeps no rows that could serve as the background"):
        ELMRegressor(20, random_state=0).fit(X, Y).explain(X[:3])


def test_groups_are_one_player():
    model = KELMRegressor(gamma=0.1, C=10.0).fit(X, Y)
    groups = [[0, 3], [1, 2, 5], [4]]
    number = np.array([0, 1, 1, 0, 2, 1])
    found = model.explain(X[:3], BACKGROUND, groups=number)
    game = game_of(model)
    scores = coalition_scores(game.score, groups, X[:3], BACKGROUND, np.full(7, 1 / 7))
    np.testing.assert_allclose(found.values, shapley_by_definition(scores)[..., 0], atol=1e-12)


def test_a_pipeline_is_explained_in_the_columns_of_its_table():
    frame, y = table()
    frame["words"] = np.where(frame["town"] < "w", "red wine", "green tea")
    frame["unused"] = 1.0
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), ["number", "gaps"]),
            ("levels", OneHotEncoder(min_frequency=60, drop="first", sparse_output=False), ["town", "twice"]),
            ("dates", DateParts(), ["day"]),
            ("text", CountVectorizer(), "words"),
        ],
        sparse_threshold=0.0,
    )
    pipeline = make_pipeline(columns, StandardScaler(), NKELMRegressor(60, gamma=0.05, C=10.0, random_state=0))
    pipeline.fit(frame, y)
    rows, background = frame[:2], frame[50:53]
    found = explain(pipeline, rows, background)
    assert found.exact
    assert found.feature_names == list(frame.columns)

    def score(places):
        both = pd.concat([rows, background])
        mixed = {name: both[name].to_numpy()[places[:, j].astype(int)] for j, name in enumerate(frame.columns)}
        return pipeline.predict(pd.DataFrame(mixed))[:, None]

    places = np.tile(np.arange(5.0)[:, None], (1, 7))
    scores = coalition_scores(score, [[j] for j in range(7)], places[:2], places[2:], np.full(3, 1 / 3))
    np.testing.assert_allclose(found.values, shapley_by_definition(scores)[..., 0], atol=1e-10)
    assert found.values[:, 6].tolist() == [0.0, 0.0]
    assert explain(pipeline, rows, interactions=True).interactions.shape == (2, 7, 7)


def test_a_pipeline_that_mixes_columns_is_sampled_on_the_table_itself():
    pipeline = make_pipeline(StandardScaler(), PCA(3), NKELMRegressor(60, gamma=0.1, C=10.0, random_state=0)).fit(X, Y)
    found = explain(pipeline, X[:4], BACKGROUND, rounds=32)
    scores = coalition_scores(lambda V: pipeline.predict(V)[:, None], ALONE, X[:4], BACKGROUND, np.full(7, 1 / 7))
    expected = shapley_by_definition(scores)[..., 0]
    assert (np.abs(found.values - expected) < 5 * found.errors + 1e-12).all()
    with pytest.raises(ValueError, match="mixes columns"):
        explain(pipeline, X[:4])


def test_large_weights_are_reported_and_values_still_add_up():
    smooth = np.linspace(-1, 1, 60)[:, None] * [1.0, 0.5]
    model = KELMRegressor(gamma=1e-4, C=1e12).fit(smooth, np.sin(3 * smooth[:, 0]))
    with pytest.warns(NumericalWarning, match="lose digits"):
        found = model.explain(smooth[:5], smooth[::7])
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, model.predict(smooth[:5]), atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "best"}, "method must be"),
        ({"background": np.empty((0, 6))}, "background|0 sample"),
        ({"background_weight": [1.0]}, "background_weight must be 7"),
        ({"background_weight": -np.ones(7)}, "none negative"),
        ({"groups": [0, 1]}, "groups must be 6 whole numbers"),
    ],
    ids=lambda v: str(v)[:20] if isinstance(v, str) else ",".join(v),
)
def test_what_cannot_be_is_refused(options, message):
    model = KELMRegressor(gamma=0.1, C=10.0).fit(X, Y)
    with pytest.raises(ValueError, match=message):
        model.explain(X[:2], **{"background": BACKGROUND, **options})


def test_pictures_show_what_the_explanation_says():
    frame, y = table()
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(frame, y)
    found = model.explain(frame[:30], frame[50:60])
    one = WaterfallDisplay.from_explanation(found, row=2, max_display=3)
    assert len(one.values) == 3
    assert one.names[-1] == "3 others"
    assert one.values.sum() + one.base_value == pytest.approx(model.predict(frame[2:3])[0])
    lefts = [bar.get_x() for bar in one.bars_]
    assert min(lefts) <= one.base_value
    many = BeeswarmDisplay.from_explanation(found)
    assert sorted(many.names) == sorted(frame.columns)
    assert many.names[0] == frame.columns[np.abs(found.values).mean(axis=0).argmax()]
    assert many.ax_.get_xlabel()
    frame_of_values = found.to_frame()
    assert list(frame_of_values.columns) == ["base value", *frame.columns]


def test_several_scores_ask_which_one_is_drawn():
    data, target = load_iris(return_X_y=True)
    found = KELMClassifier(gamma=0.1, C=1.0).fit(data, target).explain(data[:4], data[::20])
    with pytest.raises(ValueError, match=r"choose one with output=, one of \['0', '1', '2'\]"):
        WaterfallDisplay.from_explanation(found)
    assert WaterfallDisplay.from_explanation(found, output="1").values.shape == (4,)


def test_the_package_shap_finds_the_same_in_its_limit():
    shap = pytest.importorskip("shap")
    model = NKELMRegressor(60, gamma=0.1, C=10.0, random_state=0).fit(X, Y)
    kernel = shap.KernelExplainer(model.predict, BACKGROUND)
    theirs = kernel.shap_values(X[:3], nsamples=2**6 - 2, silent=True, l1_reg=False)
    found = model.explain(X[:3], BACKGROUND)
    np.testing.assert_allclose(found.values, theirs, atol=1e-8)
    made = found.to_shap()
    assert isinstance(made, shap.Explanation)
    shap.plots.waterfall(made[0], show=False)
    shap.plots.beeswarm(made, show=False)

"""The random layer: its nodes are what the formula says, nest, and are scaled to the data."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import reference
from data import relative_error, rows, sparse_rows
from fixed import ELMRegressor
from ulmus import NumericalWarning, RandomLayer
from ulmus.features.activations import ACTIVATIONS
from ulmus.features.random_layer import WEIGHTS, weighted_moments

AFFINE = [name for name, a in ACTIVATIONS.items() if a.argument == "affine"]
RADIAL = [name for name, a in ACTIVATIONS.items() if a.argument == "distance"]


def pre_activations(layer, X):
    return X @ layer.weights_ + layer.biases_


# ----------------------------------------------------------------------------------------------------- the formula


@pytest.mark.parametrize("scale", ["auto", 0.5])
@pytest.mark.parametrize("activation", AFFINE)
def test_nodes_are_the_activation_of_an_affine_map(activation, scale):
    X = 3.0 + 2.0 * rows(50, 4)
    layer = RandomLayer(15, activation=activation, scale=scale, slope=1.5, random_state=0).fit(X)
    expected = reference.hidden_layer(activation, X, layer.weights_, layer.biases_)
    assert relative_error(layer.transform(X), expected) < 1e-12


@pytest.mark.parametrize("scale", ["auto", 1.0])
@pytest.mark.parametrize("activation", RADIAL)
def test_radial_nodes_are_the_activation_of_a_distance_in_widths(activation, scale):
    X = 3.0 + 2.0 * rows(50, 4)
    layer = RandomLayer(15, activation=activation, scale=scale, slope=1.5, random_state=0).fit(X)
    U = (X - X.mean(axis=0)) / X.std(axis=0) if scale == "auto" else X
    expected = reference.radial_layer(activation, U, layer.centres_, layer.widths_, slope=1.5)
    assert relative_error(layer.transform(X), expected) < 1e-12


def test_centres_are_rows_and_widths_are_distances_between_rows():
    X = rows(30, 3)
    layer = RandomLayer(40, activation="gaussian", scale=1.0, random_state=0).fit(X)
    between = np.linalg.norm(X[:, None] - X, axis=2)
    assert (np.abs(layer.centres_[:, None] - X).sum(axis=2).min(axis=1) < 1e-12).all()
    assert (np.abs(layer.widths_[:, None] - between.ravel()).min(axis=1) < 1e-12).all()
    assert (layer.widths_ > 0).all()


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
@pytest.mark.parametrize("direct_links", [False, True])
def test_sparse_rows_give_the_features_of_dense_rows(activation, direct_links):
    X = sparse_rows(60, 12)
    layer = RandomLayer(15, activation=activation, direct_links=direct_links, random_state=0)
    from_dense, from_sparse = clone(layer).fit(X), clone(layer).fit(sparse.csr_array(X))
    expected = from_dense.transform(X)
    for actual in (from_dense.transform(sparse.csr_array(X)), from_sparse.transform(X)):
        assert relative_error(actual, expected) < 1e-10


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("activation", ["sigmoid", "gaussian"])
def test_the_floating_type_of_the_rows_is_kept(activation, kind, dtype):
    X = rows(40, 4)
    layer = RandomLayer(10, activation=activation, random_state=0).fit(X)
    H = layer.transform(kind(X.astype(dtype)))
    assert H.dtype == dtype
    assert relative_error(H, layer.transform(X)) < (1e-14 if dtype == np.float64 else 1e-5)


def test_integer_rows_become_float64():
    X = np.arange(40).reshape(10, 4)
    assert RandomLayer(5, random_state=0).fit_transform(X).dtype == np.float64


def test_single_precision_survives_an_offset_of_the_rows():
    # mean 1e4, deviation 1: the folded bias is 1e4 as well and would leave three digits of seven
    X = (1e4 + rows(200, 3)).astype(np.float32)
    layer = RandomLayer(20, random_state=0).fit(X)
    assert relative_error(layer.transform(X), layer.transform(X.astype(np.float64))) < 1e-5


# --------------------------------------------------------------------------------------------------------- nesting


@pytest.mark.parametrize("weights", sorted(WEIGHTS))
@pytest.mark.parametrize("activation", ["sigmoid", "gaussian", "multiquadric"])
@pytest.mark.parametrize("direct_links", [False, True])
def test_the_first_nodes_are_the_smaller_layer(activation, weights, direct_links):
    X = rows(40, 3)
    options = {"activation": activation, "weights": weights, "direct_links": direct_links, "random_state": 4}
    wide = RandomLayer(20, **options).fit_transform(X)
    for n_hidden in (1, 7, 19):
        narrow = RandomLayer(n_hidden, **options).fit_transform(X)
        # the order of summation inside a product may depend on its shape
        assert relative_error(wide[:, : narrow.shape[1]], narrow) < 1e-13


# ------------------------------------------------------------------------------------------------ weights and scale


@pytest.mark.parametrize("weights", sorted(WEIGHTS))
@pytest.mark.parametrize("m", [1, 3, 10])
def test_biases_are_independent_of_the_weights_and_of_one_another(weights, m):
    X = rows(50, m)
    layer = RandomLayer(200, weights=weights, scale=1.0, random_state=0).fit(X)
    W, b = layer.weights_, layer.biases_
    assert len(np.unique(b)) == 200
    assert not np.isin(b, W).any()
    correlation = [np.corrcoef(row, b)[0, 1] for row in W if np.ptp(row) > 0]
    assert np.abs(correlation).max(initial=0.0) < 0.25  # 3.5 deviations of a correlation of 200 pairs


@pytest.mark.parametrize(("weights", "low", "high"), [("uniform", -1, 1), ("uniform01", 0, 1)])
def test_uniform_weights_fill_their_interval(weights, low, high):
    W = RandomLayer(500, weights=weights, scale=1.0, random_state=0).fit(rows(20, 4)).weights_
    assert low <= W.min() < low + 0.02 * (high - low)
    assert high - 0.02 * (high - low) < W.max() <= high


def test_normal_weights_have_unit_variance():
    W = RandomLayer(2000, weights="normal", scale=1.0, random_state=0).fit(rows(20, 4)).weights_
    assert W.std() == pytest.approx(1.0, abs=0.03)
    assert W.mean() == pytest.approx(0.0, abs=0.03)


@pytest.mark.parametrize("m", [2, 5])
def test_orthogonal_weights_are_orthogonal_in_blocks_of_the_number_of_features(m):
    W = RandomLayer(3 * m + 1, weights="orthogonal", scale=1.0, random_state=0).fit(rows(20, m)).weights_
    for start in range(0, 3 * m, m):
        block = W[:, start : start + m]
        assert relative_error(block.T @ block, m * np.eye(m)) < 1e-12
    assert np.linalg.norm(W[:, -1]) == pytest.approx(np.sqrt(m))


def test_a_number_for_scale_multiplies_the_weights_as_drawn():
    X = 7.0 + 3.0 * rows(20, 4)
    one, two = (RandomLayer(10, scale=s, random_state=0).fit(X) for s in (1.0, 2.5))
    assert relative_error(two.weights_, 2.5 * one.weights_) < 1e-15
    assert np.array_equal(one.biases_, two.biases_)


@pytest.mark.parametrize("weights", sorted(WEIGHTS))
@pytest.mark.parametrize("m", [1, 4, 50])
def test_auto_scale_gives_pre_activations_of_unit_variance(weights, m):
    X = 5.0 + 10.0 ** np.linspace(-6, 6, m) * rows(400, m)
    layer = RandomLayer(1000, weights=weights, random_state=0).fit(X)
    variance = pre_activations(layer, X).var(axis=0)
    # a mean over 1000 nodes; with one feature a uniform weight squared varies most, by 0.9
    assert variance.mean() == pytest.approx(1.0, abs=0.15)


def test_auto_scale_makes_units_of_the_features_irrelevant():
    X = rows(60, 3)
    plain = RandomLayer(20, random_state=0).fit_transform(X)
    scaled = RandomLayer(20, random_state=0).fit_transform(X * [1e-6, 1.0, 1e6] + [1e-6, 5, -1e6])
    assert relative_error(scaled, plain) < 1e-9
    outside = make_pipeline(StandardScaler(), RandomLayer(20, random_state=0)).fit_transform(X)
    assert relative_error(outside, plain) < 1e-12


def test_auto_scale_measures_radial_nodes_in_deviations():
    X = rows(60, 3) * [1e-6, 1.0, 1e6] + [1e-6, 5, -1e6]
    layer = RandomLayer(200, activation="gaussian", random_state=0).fit(X)
    # two independent rows of three standardised features are √6 apart, in the mean square
    assert np.sqrt((layer.widths_**2).mean()) == pytest.approx(np.sqrt(6), rel=0.1)
    assert 0.1 < layer.transform(X).mean() < 0.9


def test_constant_features_do_not_move_the_nodes():
    X = rows(60, 3)
    padded = np.column_stack([X, np.full(60, 0.1), np.full(60, 1e9)])
    for kind in (np.asarray, sparse.csr_array):
        layer = RandomLayer(20, random_state=0).fit(kind(padded))
        assert not layer.weights_[3:].any()
        variance = pre_activations(layer, padded).var(axis=0)
        assert variance.mean() == pytest.approx(1.0, abs=0.4)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_moments_are_the_weighted_ones(kind):
    X, w = 4.0 + rows(5000, 3), np.random.RandomState(1).uniform(0, 2, 5000)
    for weight in (None, w):
        mean, deviation = weighted_moments(kind(X), weight)
        expected = np.average(X, axis=0, weights=weight)
        assert relative_error(mean, expected) < 1e-12
        assert relative_error(deviation**2, np.average((X - expected) ** 2, axis=0, weights=weight)) < 1e-10


@pytest.mark.parametrize("activation", ["sigmoid", "gaussian", "multiquadric"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_weights_of_rows_equal_repeats(activation, kind):
    X, w = rows(40, 3), np.random.RandomState(1).randint(0, 4, 40)
    repeated = np.repeat(X, w, axis=0)
    order = np.random.RandomState(2).permutation(len(repeated))
    layer = RandomLayer(20, activation=activation, random_state=0)
    a = clone(layer).fit(kind(X), sample_weight=w.astype(float)).transform(X)
    b = clone(layer).fit(kind(repeated[order])).transform(X)
    assert relative_error(a, b) < 1e-12


# -------------------------------------------------------------------------------------------------- direct links


@pytest.mark.parametrize("scale", ["auto", 1.0])
@pytest.mark.parametrize("activation", ["sigmoid", "gaussian"])
def test_direct_links_stand_in_front_of_the_nodes(activation, scale):
    X = 3.0 + 2.0 * rows(40, 3)
    options = {"activation": activation, "scale": scale, "random_state": 0}
    H = RandomLayer(10, direct_links=True, **options).fit_transform(X)
    inputs = StandardScaler().fit_transform(X) if scale == "auto" else X
    assert relative_error(H[:, :3], inputs) < 1e-12
    assert relative_error(H[:, 3:], RandomLayer(10, **options).fit_transform(X)) < 1e-14


def test_direct_links_learn_a_linear_function_exactly_with_one_node():
    X = rows(60, 4)
    T = X @ [1.0, -2.0, 3.0, 0.5] + 4.0
    model = ELMRegressor(1, direct_links=True, fit_intercept=True, C=None, random_state=0).fit(X, T)
    assert relative_error(model.predict(rows(20, 4, seed=2)), rows(20, 4, seed=2) @ [1, -2, 3, 0.5] + 4.0) < 1e-9


# --------------------------------------------------------------------------------------------------- what it learns


#: Distributions that cannot bend: thresholds all on one side of the mean, or one frequency only.
CANNOT = {("uniform01", "relu"), ("uniform01", "hardlim"), ("orthogonal", "sine"), ("orthogonal", "cosine")}


@pytest.mark.parametrize(
    ("weights", "activation"),
    [(w, a) for w in sorted(WEIGHTS) for a in sorted(ACTIVATIONS) if a != "identity" and (w, a) not in CANNOT],
)
def test_a_parabola_is_learnable(activation, weights):
    x = np.linspace(-1, 1, 300)[:, None]
    model = ELMRegressor(100, activation=activation, weights=weights, C=2.0**20, random_state=0).fit(x, x[:, 0] ** 2)
    # steps of height 1 at 100 random places leave gaps
    assert model.score(x, x[:, 0] ** 2) > (0.95 if activation == "hardlim" else 0.999)


def test_the_identity_is_a_linear_model():
    x = np.linspace(-1, 1, 300)[:, None]
    with pytest.warns(NumericalWarning, match="rank"):
        model = ELMRegressor(100, activation="identity", C=None, random_state=0).fit(x, x[:, 0] ** 2)
    assert abs(model.score(x, x[:, 0] ** 2)) < 0.01


def test_more_nodes_do_not_make_the_layer_linear():
    # what is left of the nodes after the best affine fit, per node
    X = rows(300, 5)
    A = np.column_stack([X, np.ones(300)])
    curved = []
    for n_hidden in (10, 100, 1000):
        H = RandomLayer(n_hidden, random_state=0).fit_transform(X)
        residual = H - A @ np.linalg.lstsq(A, H, rcond=None)[0]
        curved.append((residual.var(axis=0) / H.var(axis=0)).mean())
    assert min(curved) > 0.01
    assert max(curved) / min(curved) < 2


def test_feature_names_count_the_columns():
    layer = RandomLayer(3, direct_links=True, random_state=0).fit(rows(10, 2))
    assert list(layer.get_feature_names_out()) == [f"randomlayer{i}" for i in range(5)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_moments_of_sparse_rows_are_those_of_dense_rows_also_for_constant_columns_far_from_zero(dtype):
    rng = np.random.RandomState(0)
    X = sparse_rows(60, 5).astype(dtype)
    X = np.column_stack([X, np.full(60, 1.3e5), 1e6 + rng.normal(size=60), np.zeros(60)]).astype(dtype)
    for weight in (None, 10.0 ** rng.uniform(-4, 4, size=60)):
        dense, from_sparse = weighted_moments(X, weight), weighted_moments(sparse.csr_array(X), weight)
        for actual, expected in zip(from_sparse, dense, strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-10)
        assert (from_sparse[1][[5, 7]] == 0).all()

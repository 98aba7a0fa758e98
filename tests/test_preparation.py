"""Columns and categories prepared for a kernel."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm, rankdata

from ulmus import engine
from ulmus.features import preparation
from ulmus.features.category import LEVELS, PRIOR, Category
from ulmus.features.metric import through
from ulmus.features.piecewise_linear import MANY, STRETCHES, interpolated
from ulmus.features.preparation import PREPARATIONS, Columns, Preparation
from ulmus.features.ranks import column_quantiles, quantiles

RNG = np.random.RandomState(0)


@pytest.mark.parametrize("kind", PREPARATIONS)
def test_prepared_columns_have_unit_deviation_and_keep_the_order(kind):
    X = np.exp(RNG.normal(size=(500, 2))) * [1.0, 1e6]
    Z = Columns.of(kind, X, None).transform(X)
    assert_allclose(Z.std(axis=0), 1.0, rtol=1e-10)
    for j in range(2):
        assert (np.diff(Z[np.argsort(X[:, j]), j]) >= 0).all()


@pytest.mark.parametrize("kind", PREPARATIONS)
def test_a_weight_is_a_repetition(kind):
    X, w = RNG.normal(size=(40, 3)), RNG.randint(1, 5, 40)
    Q = RNG.normal(size=(20, 3)) * 2
    weighted = Columns.of(kind, X, w.astype(float)).transform(Q)
    assert_allclose(weighted, Columns.of(kind, np.repeat(X, w, axis=0), None).transform(Q), rtol=1e-10)


@pytest.mark.parametrize("kind", PREPARATIONS)
@pytest.mark.parametrize("value", [0.0, 3.0, 1e300, 0.1])
def test_a_constant_column_becomes_zero(kind, value):
    X = np.column_stack([np.full(30, value), RNG.normal(size=30)])
    Z = Columns.of(kind, X, None).transform(X)
    assert_array_equal(Z[:, 0], 0.0)
    assert np.isfinite(Z).all()


def test_quantile_columns_are_normal_quantiles_of_mid_ranks():
    x = RNG.randint(0, 30, 200).astype(float)
    Z = Columns.of("quantile", x[:, None], None).transform(x[:, None])[:, 0]
    expected = norm.ppf(np.clip((rankdata(x) - 0.5) / 200, 0.001, 0.999))
    assert_allclose(Z, expected / expected.std(), rtol=1e-10)


def test_thinned_curves_stay_close_to_the_whole_one():
    x = RNG.normal(size=(20_000, 1))
    Z = Columns.of("quantile", x, None).transform(x)[:, 0]
    expected = norm.ppf(np.clip((rankdata(x[:, 0]) - 0.5) / len(x), 0.001, 0.999))
    assert np.abs(Z - expected / expected.std()).max() < 0.05
    assert np.abs(Z - expected / expected.std()).mean() < 1e-3


CURVES = {
    "normal": np.sort(RNG.normal(size=1000)),
    "long tails": np.sort(RNG.standard_cauchy(size=1000)),
    "two": np.array([-1.0, 2.0]),
    "one": np.array([0.5]),
    "far away": 1e15 + np.arange(50.0),
    "next to each other": np.append(0.0, np.nextafter(1.0, 2.0) ** np.arange(1, 40)),
    "all there is": np.array([-1.7e308, 0.0, 1.7e308]),
    "hardly apart": np.array([0.0, 5e-324, 1.0]),
}


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("missing", [False, True])
def test_a_curve_at_many_points_has_the_bits_of_interp(name, missing):
    knots = CURVES[name]
    values = np.sort(RNG.normal(size=len(knots)))
    with np.errstate(over="ignore"):
        between = knots[0] + (knots[-1] / 2 - knots[0] / 2) * 2 * RNG.uniform(size=MANY * STRETCHES)
    x = np.concatenate([between, knots, np.nextafter(knots, np.inf), np.nextafter(knots, -np.inf), [-np.inf, np.inf]])
    x = np.append(x, np.nan) if missing else x
    before = x.copy()
    assert_array_equal(interpolated(x, knots, values), np.interp(x, knots, values))
    assert_array_equal(x, before)


def test_clipped_columns_are_bounded():
    x = np.append(RNG.normal(size=99), 1e9)[:, None]
    Z = Columns.of("clip", x, None).transform(x)
    assert Z.max() < 6


def test_rare_ones_of_many_levels_get_no_column_and_levels_of_one_size_do():
    rare = np.concatenate([np.zeros(151), np.arange(1.0, 50.0)])
    category = Category.of(rare, np.empty((200, 0)), np.ones(200))
    assert category.shown.tolist() == [0.0]
    assert category.dummies(np.array([0.0, 7.0, 99.0])).tolist() == [[1.0], [0.0], [0.0]]
    even = np.repeat(np.arange(50.0), 4)
    assert len(Category.of(even, np.empty((200, 0)), np.ones(200)).shown) == LEVELS
    few = np.array([0.0] * 30 + [1.0, 2.0])
    assert Category.of(few, np.empty((32, 0)), np.ones(32)).shown.tolist() == [0.0, 1.0, 2.0]
    # a weight is so many rows, and weights of another scale say the same
    for scale in (1.0, 1e-3):
        weighed = Category.of(np.arange(50.0), np.empty((50, 0)), scale * np.array([151.0] + [1.0] * 49))
        assert weighed.shown.tolist() == [0.0]


def test_target_means_are_smoothed_group_means():
    codes, t = np.array([0.0, 0.0, 1.0, 2.0]), np.array([[1.0], [3.0], [5.0], [7.0]])
    category = Category.of(codes, t, np.ones(4))
    assert_allclose(category.means(np.array([0.0, 2.0, 9.0]))[:, 0], [(4 + 80) / 22, (7 + 80) / 21, 4.0])
    assert PRIOR == 20.0


def test_target_means_of_learned_rows_never_use_their_own_part():
    n = 300
    X = np.column_stack([RNG.normal(size=n), RNG.randint(0, 6, n)])
    T, part = RNG.normal(size=(n, 1)), RNG.randint(0, 5, n)
    preparation = Preparation.of("standard", X, T, None, np.array([False, True]))
    learned = preparation.transform_learned(X, T, None, part)[:, -1] * preparation.mean_deviation[0]
    for i in range(0, n, 17):
        others = (part != part[i]) & (X[:, 1] == X[i, 1])
        assert_allclose(learned[i], (T[others, 0].sum() + PRIOR * T.mean()) / (others.sum() + PRIOR), rtol=1e-10)


def test_columns_know_where_they_come_from():
    X = np.column_stack([np.arange(12) % 2, RNG.normal(size=12), np.arange(12) % 4])
    T = RNG.normal(size=(12, 2))
    preparation = Preparation.of("clip", X, T, None, np.array([True, False, True]))
    assert_array_equal(preparation.sources(), [1, 0, 2, 2, 2, 2, 2, 2])
    assert preparation.transform(X).shape[1] == len(preparation.sources())


def test_an_unknown_level_has_no_column_and_the_overall_mean():
    X, T = np.array([[0.0], [1.0], [2.0]] * 5), np.arange(15.0)[:, None]
    preparation = Preparation.of("standard", X, T, None, np.array([True]))
    row = preparation.transform(np.array([[-1.0]]))[0]
    assert_array_equal(row[:3], 0.0)
    assert_allclose(row[3] * preparation.mean_deviation[0], 7.0)


@pytest.mark.parametrize("levels", [0, 7], ids=["continuous", "few levels"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_columns_of_very_many_rows_are_learned_from_every_so_manyth(monkeypatch, levels, weighted):
    rng = np.random.RandomState(0)
    x = rng.randint(0, levels, 40_000).astype(float) if levels else rng.standard_exponential(40_000)
    X, T, w = x[:, None], np.zeros((len(x), 1)), rng.randint(1, 4, len(x)).astype(float) if weighted else None
    X[7] = np.nan  # a row that is passed over, and still tells that numbers may be missing
    given = [(kind, X, T, w, np.array([False])) for kind in ("standard", "clip", "quantile")]
    exact = [Preparation.of(*each).transform(X) for each in given]
    monkeypatch.setattr(preparation, "MOST_LEARNED", 4_000)
    for each, Z in zip(given, exact, strict=True):
        found = Preparation.of(*each)
        assert_array_equal(found.gaps.shown, [0])
        central = np.abs(Z[:, 0]) < 2
        # four standard errors of a quantile of 4,000 rows, in units of the density two deviations from the middle
        bound = 4 * 0.5 / np.sqrt(4_000) / norm.pdf(2.0)
        assert np.abs(found.transform(X) - Z)[central].max() < bound


def test_target_means_of_a_row_left_out_are_those_of_the_other_rows():
    rng = np.random.RandomState(6)
    X, T = np.column_stack([rng.normal(size=40), rng.randint(4, size=40)]), rng.normal(size=(40, 2))
    categorical = np.array([False, True])
    whole = Preparation.of("standard", X, T, None, categorical)
    told = whole.transform_left_out(X, T, np.ones(40))
    assert_allclose(told[:, :-2], whole.transform(X)[:, :-2])
    for i in range(40):
        others = (X[:, 1] == X[i, 1]) & (np.arange(40) != i)
        mean = (T[others].sum(axis=0) + PRIOR * T.mean(axis=0)) / (others.sum() + PRIOR)
        assert_allclose(told[i, -2:], mean / whole.mean_deviation, rtol=1e-10)


def test_rows_of_numbers_are_prepared_without_asking_for_their_parts():
    X, T = RNG.normal(size=(50, 2)), RNG.normal(size=(50, 1))
    prepared = Preparation.of("quantile", X, T, None, np.zeros(2, bool))
    parts = RNG.randint(0, 5, 50)
    by_parts = prepared.transform_without(X, parts, dict.fromkeys(range(5), ()))
    assert_array_equal(prepared.transform_learned(X, T, None, parts), by_parts)


@pytest.mark.parametrize("means", [False, True])
@pytest.mark.parametrize("metric", [np.array([1.0, 0.0, 0.5, 2.0]), RNG.normal(size=(4, 2))], ids=["diagonal", "full"])
def test_rows_are_prepared_and_shown_tile_by_tile(monkeypatch, means, metric):
    """Nothing but what the metric shows is held of all rows, and that is the same as in two steps."""
    rng, n = np.random.RandomState(0), 1_000
    X = np.column_stack([rng.normal(size=(n, 3)), rng.randint(0, LEVELS + 5 if means else 2, n)])
    X[::9, 1] = np.nan
    T, part = rng.normal(size=(n, 1)), np.arange(n) % 3
    prepared = Preparation.of("quantile", X, T, None, np.array([False, False, False, True]))
    assert prepared.has_means == means
    width = prepared.transform(X).shape[1]
    A = np.resize(metric, (width, *metric.shape[1:]))
    new, learned = (through(Z, A) for Z in (prepared.transform(X), prepared.transform_learned(X, T, None, part)))
    monkeypatch.setattr(engine, "BLOCK_BYTES", 100 * 8 * 4)
    assert_array_equal(prepared.transform(X, A), new)
    assert_array_equal(prepared.transform_learned(X, T, None, part, A), learned)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 40, 301])
def test_quantiles_of_many_columns_are_those_of_each(n):
    rng = np.random.default_rng(0)
    for X in (rng.normal(size=(n, 300)), np.round(rng.normal(size=(n, 30)), 1), np.exp(9 * rng.normal(size=(n, 50)))):
        for w in (None, rng.integers(1, 3, n).astype(float)):
            each = [quantiles(x, w, (0.25, 0.5, 0.75)) for x in X.T]
            assert_array_equal(column_quantiles(X, w, (0.25, 0.5, 0.75)), each)

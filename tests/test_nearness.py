"""Rows left out that have errors of a similar size count for more, against sums over all rows one by one."""

from dataclasses import replace

import numpy as np
import pytest

import ulmus
from data import cases
from ulmus import (
    AdaptiveRegressor,
    ELMRegressor,
    NKELMRegressor,
    OSELMRegressor,
    RobustNKELMRegressor,
)
from ulmus.calibration.nearness import CLASSES, ENOUGH, LEAST, REACH, SAME, Nearness, near_parts, ranks
from ulmus.persistence.file import _open, from_bytes, pack

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


def noisy(seed, n, outputs=1):
    """Noise whose size and shape change along the first input."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-1, 1, (n, 2))
    noise = np.where(rng.uniform(size=n) < 0.5 + X[:, 0] / 2, 1.0, rng.standard_t(3, n)) * np.exp(X[:, 0])
    Y = np.column_stack([np.sin(3 * X[:, 1]) + 0.3 * (k + 1) * noise for k in range(outputs)])
    return X, Y[:, 0] if outputs == 1 else Y


def brute_weights(held, weight, size):
    """Weights of the rows left out for one new row, row by row."""

    def rank(s):
        return weight @ np.clip((1 + np.log(s / held) / SAME) / 2, 0.0, 1.0) / weight.sum()

    middle = (min(int(CLASSES * rank(size)), CLASSES - 1) + 0.5) / CLASSES
    share = np.array([LEAST + (1 - LEAST) * max(0.0, 1 - abs(rank(h) - middle) / REACH) for h in held])
    return weight * share / share[weight > 0].max()


def brute_quantile(scores, weight, level, own=1.0):
    """The least score with so much weight up to it, that of the new row included; below the median its mirror image."""
    if level < 0.5:
        return -brute_quantile(-scores, weight, 1 - level, own)
    for s in np.sort(scores[weight > 0]):
        if weight[scores <= s].sum() >= level * (weight.sum() + own) - 1e-9:
            return s
    return scores[weight > 0].max()


def test_ranks_are_shares_of_smaller_sizes_and_parts_of_nearly_equal_ones():
    sizes, weight = np.array([2.0, 1.0, 2.0, 5.0]), np.array([1.0, 2.0, 3.0, 4.0])
    new = np.array([0.1, 1.0, 1.5, 2.0, 2.0 * np.exp(SAME / 2), 9.0])
    np.testing.assert_allclose(ranks(sizes, weight, new), [0.0, 0.1, 0.2, 0.4, 0.5, 1.0], atol=1e-14)


def test_errors_of_one_size_are_covered():
    """Left-out sizes differ by what the row itself adds to their mean: they would tell its error."""
    rng = np.random.RandomState(18)
    X, Q = rng.uniform(-1, 1, (1500, 2)), rng.uniform(-1, 1, (6000, 2))
    y, t = (np.sin(2 * each[:, 0]) + 0.3 * rng.normal(size=len(each)) for each in (X, Q))
    told = NKELMRegressor(40, random_state=0).fit(X, y).predict_distribution(Q)
    assert np.ptp(np.log(told.near.held)) < 0.05  # nothing was learned of sizes
    for low, high in ((0.25, 0.75), (0.1, 0.9), (0.05, 0.95)):
        inside = [
            ((q[:, 0] <= t) & (t <= q[:, 1])).mean()
            for q in (each.ppf([low, high]) for each in (told, replace(told, near=None)))
        ]
        assert abs(inside[0] - (high - low)) < 0.025
        assert abs(inside[0] - inside[1]) < 0.003  # where all rows count alike


def test_rows_of_folds_count_alike():
    X, y = noisy(12, 800)
    told = NKELMRegressor(40, cv=5, random_state=0).fit(X, y).predict_distribution(X[:5])
    assert told.near is None


def test_weights_are_those_of_rows_one_by_one():
    rng = np.random.RandomState(0)
    held, new = rng.choice(300, (ENOUGH + 100, 1)) / 100.0 + 0.01, rng.choice(400, (40, 1)) / 100.0 + 0.01
    weight = rng.randint(0, 3, len(held)).astype(float)
    found = np.full((len(new), len(held)), np.nan)
    for rows, counted in Nearness(held, new, (True,)).parts(0, weight):
        found[rows] = counted
    for i, size in enumerate(new[:, 0]):
        np.testing.assert_allclose(found[i], brute_weights(held[:, 0], weight, size), rtol=1e-12)


def test_a_weight_is_as_many_copies():
    rng = np.random.RandomState(1)
    held, new, w = rng.exponential(size=(400, 1)), rng.exponential(size=(30, 1)), rng.randint(0, 5, 400)
    one = list(Nearness(held, new, (True,)).parts(0, w.astype(float)))
    copies = list(Nearness(np.repeat(held, w, axis=0), new, (True,)).parts(0, np.ones(w.sum())))
    assert len(one) == len(copies) > 5
    of = np.repeat(np.arange(400), w)
    for (rows, counted), (same, each) in zip(one, copies, strict=True):
        np.testing.assert_array_equal(rows, same)
        np.testing.assert_allclose(np.bincount(of, each, 400), counted, rtol=1e-12)


@pytest.mark.parametrize("case", ["few", "few of a group", "not learned", "no sizes", "one size"])
def test_where_sizes_say_nothing_all_rows_count_alike(case):
    rng = np.random.RandomState(2)
    held, new = rng.exponential(size=(ENOUGH, 1)), rng.exponential(size=(9, 1))
    weight, factor = np.ones(ENOUGH), 1.0
    near = Nearness(held, new, (case != "not learned",))
    if case == "few":
        weight[0] = 0.5
    elif case == "few of a group":
        factor = (np.arange(ENOUGH) > 10).astype(float)
    elif case == "one size":
        near = Nearness(np.ones_like(held), np.array([[1.0], [0.3], [7.0]]), (True,))
    parts = list(near_parts(None if case == "no sizes" else near, 0, weight, factor))
    for _, counted in parts:
        np.testing.assert_allclose(counted, factor * weight)
    assert len(parts) == (3 if case == "one size" else 1)


@pytest.fixture(scope="module")
def models():
    X, y = noisy(3, 750)
    made = {
        "nkelm": NKELMRegressor(60, random_state=0),
        "robust": RobustNKELMRegressor(60, random_state=0),
        "adaptive": AdaptiveRegressor(effort="fast", random_state=0, n_jobs=1),
    }
    return {name: model.fit(X, y) for name, model in made.items()}


def by_hand(model, X, levels, groups=None, ratio=None, symmetric=False):
    """Ends for every row on its own, from the scores, sizes and weights of the rows left out."""
    told, rows = model.predict_distribution(X), model.spread_.rows
    held, scores, weight = told.near.held[:, 0], told.scores[:, 0], told.weight[:, 0]
    np.testing.assert_allclose(scores * held, (rows.T - rows.P)[:, 0], rtol=1e-9, atol=1e-12)
    out = np.empty((len(X), len(levels)))
    for i, row in enumerate(X):
        factor, own = np.ones(len(weight)), 1.0
        if groups is not None:
            factor = (groups(rows.X) == groups(row[None])).astype(float)
        if ratio is not None:
            factor, own = ratio(rows.X), float(ratio(row[None])[0])
        counted = factor * weight
        if counted.sum() >= ENOUGH * factor.max():
            counted = brute_weights(held, counted, told.width[i, 0])
        if symmetric:
            most = brute_quantile(np.abs(scores), counted, levels[1])
            found = np.array([-most, most])
        else:
            found = np.array([brute_quantile(scores, counted, level, own) for level in levels])
        out[i] = told.location[i, 0] + told.width[i, 0] * found
    return out


@pytest.mark.parametrize("name", cases(["nkelm", "robust", "adaptive"], "nkelm", "adaptive"))
def test_ends_are_those_of_every_row_on_its_own(models, name):
    model, X = models[name], noisy(4, 6)[0]
    ends = model.predict_interval(X, [0.5, 0.9]).reshape(6, 4)
    np.testing.assert_allclose(ends, by_hand(model, X, [0.25, 0.75, 0.05, 0.95]), rtol=1e-9)
    one_sided = model.predict_interval(X, 0.8, tails=0.25)
    np.testing.assert_allclose(one_sided, by_hand(model, X, [0.05, 0.85]), rtol=1e-9)
    same = model.predict_interval(X, 0.8, tails="symmetric")
    np.testing.assert_allclose(same, by_hand(model, X, [0.2, 0.8], symmetric=True), rtol=1e-9)
    np.testing.assert_allclose(same.mean(axis=1), model.predict(X))
    np.testing.assert_array_equal(model.predict_quantiles(X, [0.05, 0.95]), model.predict_interval(X, 0.9))


def test_ends_of_groups_and_of_shifted_rows_are_those_of_every_row_on_its_own(models):
    model, X = models["nkelm"], noisy(5, 6)[0]

    def groups(rows):
        return rows[:, 0] > -0.4  # more than 500 rows, and fewer

    def ratio(rows):
        return 1.0 + 0.3 * rows[:, 1]

    ends = model.predict_interval(X, 0.8, groups=groups)
    np.testing.assert_allclose(ends, by_hand(model, X, [0.1, 0.9], groups=groups), rtol=1e-9)
    ends = model.predict_interval(X, 0.8, shift=ratio)
    np.testing.assert_allclose(ends, by_hand(model, X, [0.1, 0.9], ratio=ratio), rtol=1e-9)


def test_distributions_are_those_of_every_row_on_its_own(models):
    model, (X, y) = models["nkelm"], noisy(6, 8)
    told = model.predict_distribution(X)
    assert told.near is not None
    drawn = told.sample(20_000, random_state=0)
    for i in range(8):
        w = brute_weights(told.near.held[:, 0], told.weight[:, 0], told.width[i, 0])
        p, points = w / w.sum(), told.location[i, 0] + told.width[i, 0] * told.scores[:, 0]
        assert told.cdf(y)[i] == pytest.approx(p[points <= y[i]].sum())
        mean = p @ points
        assert told.mean()[i] == pytest.approx(mean)
        assert told.std()[i] == pytest.approx(np.sqrt(p @ (points - mean) ** 2))
        among = p @ np.abs(points[:, None] - points) @ p
        assert told.crps(y)[i] == pytest.approx(p @ np.abs(points - y[i]) - among / 2)
        assert abs(drawn[i].mean() - mean) < 0.05 * told.std()[i]


def test_two_outputs_have_neighbours_of_their_own():
    X, Y = noisy(7, 800, outputs=2)
    both = NKELMRegressor(50, gamma=1.0, C=1.0, random_state=0).fit(X, Y)
    for j in range(2):
        alone = NKELMRegressor(50, gamma=1.0, C=1.0, random_state=0).fit(X, Y[:, j])
        np.testing.assert_allclose(both.predict_interval(X[:50])[:, j], alone.predict_interval(X[:50]), rtol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        ELMRegressor(60, random_state=0),
        NKELMRegressor(80, random_state=0),
        OSELMRegressor(60, random_state=0),
        AdaptiveRegressor(effort="fast", random_state=0, n_jobs=1),
    ],
)
def test_every_size_is_covered(model):
    (X, y), (Q, t) = noisy(8, 1500), noisy(9, 8000)
    if isinstance(model, OSELMRegressor):
        for some in np.array_split(np.arange(1500), 5):
            model.partial_fit(X[some], y[some])
    else:
        model.fit(X, y)
    told = model.predict_distribution(Q)
    assert told.near is not None
    worst, order = [], np.argsort(told.width[:, 0])
    for low, high in (model.predict_interval(Q).T, replace(told, near=None).ppf([0.05, 0.95]).T):
        inside = (low <= t) & (t <= high)
        assert abs(inside.mean() - 0.9) < 0.02
        worst.append(min(inside[part].mean() for part in np.array_split(order, 5)))
    assert worst[0] > 0.85
    assert worst[0] > worst[1]


def test_a_file_keeps_the_neighbours_and_one_of_before_has_none(models, tmp_path):
    model, X = models["nkelm"], noisy(10, 30)[0]
    ulmus.save(model, tmp_path / "model.ulmus")
    np.testing.assert_array_equal(ulmus.load(tmp_path / "model.ulmus").predict_interval(X), model.predict_interval(X))
    description, body, arrays = _open((tmp_path / "model.ulmus").read_bytes())
    (spread,) = (entry for entry in body["objects"] if entry["class"].endswith("Spread"))
    assert spread["state"].pop("local") is True
    content = {k: v for k, v in vars(description).items() if k != "checksum"} | {"body": body}
    before = from_bytes(pack(content, arrays))
    told = model.predict_distribution(X)
    expected = told.location + told.width * [
        brute_quantile(told.scores[:, 0], told.weight[:, 0], level) for level in (0.05, 0.95)
    ]
    np.testing.assert_allclose(before.predict_interval(X), expected)
    assert np.abs(before.predict_interval(X) - model.predict_interval(X)).max() > 0

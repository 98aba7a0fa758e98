"""Counterfactuals: on the other side, valid, and as near as a search by brute force finds."""

import numpy as np
import pandas as pd
import pytest

from data import cases
from ulmus import (
    AdaptiveClassifier,
    AdaptiveRegressor,
    ELMRegressor,
    KELMClassifier,
    KELMRegressor,
    LeftOutWarning,
    NKELMRegressor,
    TableEncoder,
    UnansweredWarning,
)
from ulmus.explain.counterfactual import Nearest
from ulmus.models import _counterfactuals
from ulmus.models._games import game_of, slopes_of

RNG = np.random.RandomState(0)
X = RNG.uniform(-2, 2, size=(300, 2))
Y = X[:, 0] ** 2 + np.sin(2 * X[:, 1])


def nearest_on_a_grid(model, rows, threshold, unit):
    side = np.linspace(-2, 2, 401)
    grid = np.column_stack([axis.ravel() for axis in np.meshgrid(side, side)])
    above = model.predict(grid) >= threshold
    wanted = [grid[above if answer < threshold else ~above] for answer in model.predict(rows)]
    return np.array([np.sqrt((((w - row) / unit) ** 2).sum(axis=1).min()) for w, row in zip(wanted, rows, strict=True)])


@pytest.mark.parametrize(
    "make",
    [
        lambda: KELMRegressor(gamma=0.5, C=100.0),
        lambda: NKELMRegressor(60, kernel="matern32", gamma=0.5, C=100.0, random_state=0),
        lambda: NKELMRegressor(60, gamma=0.5, C=100.0, metric=np.eye(2) + 0.2, random_state=0),
        lambda: ELMRegressor(60, random_state=0),
    ],
    ids=["kelm", "matern32", "full metric", "elm"],
)
def test_the_row_found_crosses_and_is_near_the_nearest(make):
    model, unit = make().fit(X, Y), X.std(axis=0)
    rows = X[:8]
    found = model.counterfactuals(rows, X, threshold=1.5)
    assert ((model.predict(rows) > 1.5) != (model.predict(found) > 1.5)).all()
    assert (found >= X.min(axis=0)).all()
    assert (found <= X.max(axis=0)).all()
    ours = np.sqrt((((found - rows) / unit) ** 2).sum(axis=1))
    best = nearest_on_a_grid(model, rows, 1.5, unit)
    assert np.mean(ours <= 1.1 * best + 0.01) >= 0.75
    assert (ours <= 1.5 * best + 0.02).all()


def test_a_search_asks_the_model_a_few_times():
    asked = []

    def margin(rows, takes):
        asked.append(len(rows))
        return rows[:, 0] + 0.3 * np.sin(3 * rows[:, 1]) - 1.0

    def slope(row, takes):
        return np.array([1.0, 0.9 * np.cos(3 * row[1])])

    own = np.array([-1.0, 0.3])
    search = Nearest(own, np.full(2, -2.0), np.full(2, 2.0), np.ones(2), np.zeros(2, bool))
    found, _ = search.search(np.array([1.9, -1.0]), np.zeros(0, int), margin, slope)
    assert margin(found[None], None)[0] == pytest.approx(0.0, abs=1e-9)
    assert np.linalg.norm(found - own) < 1.77  # the nearest is at 1.712, where both numbers change
    assert len(asked) < 100  # of frames every question costs milliseconds


def test_numbers_that_would_hardly_change_stay_as_they_are():
    steep = np.array([1.0, 0.08, -0.05, 0.6])
    search = Nearest(np.zeros(4), np.full(4, -3.0), np.full(4, 3.0), np.ones(4), np.zeros(4, bool))
    margin, slope = (lambda rows, takes: rows @ steep - 1.0), (lambda row, takes: steep)
    found, _ = search.search(np.full(4, 2.0), np.zeros(0, int), margin, slope)
    assert margin(found[None], None)[0] >= 0
    assert np.flatnonzero(found).tolist() == [0, 3]
    assert np.linalg.norm(found) <= 1.05 / np.linalg.norm(steep) + 1e-9


def test_whole_numbers_come_near_the_nearest_of_all():
    """Beside every point of a lattice: far starts, and answers that wave."""
    ratios = []
    for seed in range(60):
        rng = np.random.RandomState(seed)
        a, (b, c), own = rng.normal(size=3), 0.7 * rng.normal(size=(2, 3)), rng.randint(-5, 6, 3).astype(float)
        least = 1.5 * rng.uniform(1.5, 3.0) * np.linalg.norm(a)

        def margin(rows, takes, a=a, b=b, c=c, least=least):
            return rows @ a + 2 * np.sin(rows @ b) + 2 * np.cos(rows @ c) - least

        def slope(row, takes, a=a, b=b, c=c):
            return a + 2 * np.cos(row @ b) * b - 2 * np.sin(row @ c) * c

        lattice = np.stack(np.meshgrid(*[np.arange(-8.0, 9.0)] * 3), axis=-1).reshape(-1, 3)
        there = lattice[margin(lattice, None) >= 0]
        away = ((there - own) ** 2).sum(axis=1)
        if margin(own[None], None)[0] >= 0 or not len(there):
            continue
        search = Nearest(own, np.full(3, -8.0), np.full(3, 8.0), np.ones(3), np.ones(3, bool))
        far = there[np.argsort(away, kind="stable")][len(there) // 3 :]
        found = [search.search(row, np.zeros(0, int), margin, slope)[0] for row in far[:: max(1, len(there) // 12)][:8]]
        assert all((row == np.round(row)).all() and margin(row[None], None)[0] >= 0 for row in found)
        ratios.append(np.sqrt(min(((row - own) ** 2).sum() for row in found) / away.min()))
    assert len(ratios) > 40
    assert (
        np.mean(np.array(ratios) < 1 + 1e-9) > 0.4
    )  # the nearest point of all; 0.2 where whole numbers were not sought
    assert np.median(ratios) < 1.1


def people(n=250):
    rng = np.random.RandomState(1)
    frame = pd.DataFrame(
        {
            "income": rng.lognormal(3, 0.5, n),
            "children": rng.randint(0, 4, n),
            "job": rng.choice(["nurse", "clerk", "smith", "none"], n),
            "since": pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.randint(0, 3000, n), "D"),
        }
    )
    score = np.log(frame["income"]) - 0.3 * frame["children"] + (frame["job"] == "nurse") - (frame["job"] == "none")
    return frame, np.where(score + 0.1 * rng.normal(size=n) > 2.7, "granted", "refused")


def test_rows_of_a_table_stay_valid():
    frame, y = people()
    model = AdaptiveClassifier(effort="fast", random_state=0).fit(frame, y)
    refused = frame[model.predict(frame) == "refused"][:4].reset_index(drop=True)
    refused.loc[0, "income"] = np.nan
    found = model.counterfactuals(refused, frame, target="granted", fixed=["since"])
    assert (model.predict(found) == "granted").all()
    assert set(found["job"]) <= set(frame["job"])
    assert (found["children"] == found["children"].round()).all()
    assert found["since"].tolist() == refused["since"].tolist()
    assert found["income"].dropna().between(frame["income"].min(), frame["income"].max()).all()
    changed = (found.astype(str) != refused.astype(str)).sum(axis=1)
    assert changed.min() >= 1
    assert changed.mean() < 3
    two = model.counterfactuals(refused[1:3], frame)  # the other class
    assert (model.predict(two) == "granted").all()


@pytest.mark.parametrize("rows", cases([1, 5]))
def test_frames_are_searched_as_the_numbers_that_they_become(rows, monkeypatch):
    frame, y = people()
    frame["same"], frame["word"] = 7, [f"a {job} of {k % 9} years and more" for k, job in enumerate(frame["job"])]
    frame.loc[::7, "income"] = np.nan
    encoder = TableEncoder(kinds={"word": "text"})
    with pytest.warns(LeftOutWarning):
        model = AdaptiveClassifier(effort="fast", encoder=encoder, random_state=0).fit(frame, y)
    refused = frame[model.predict(frame) == "refused"][:rows]
    found = model.counterfactuals(refused, frame, target="granted")
    monkeypatch.setattr(_counterfactuals._Encoded, "of", lambda *given: None)  # a frame for every trial
    pd.testing.assert_frame_equal(found, model.counterfactuals(refused, frame, target="granted"))


@pytest.mark.parametrize("kind", cases(["pandas", "polars"], "polars"))
def test_columns_keep_their_types_where_some_rows_stay_as_they_are(kind):
    frame, y = people()
    frame["children"] = frame["children"].astype("int32")
    native = frame if kind == "pandas" else pytest.importorskip("polars").from_pandas(frame)
    model = AdaptiveClassifier(effort="fast", random_state=0).fit(native, y)
    answers = model.predict(native)
    some = np.sort(np.concatenate([np.flatnonzero(answers == label)[:2] for label in ("granted", "refused")]))
    rows = native.iloc[some] if kind == "pandas" else native[some]
    found = model.counterfactuals(rows, native, target="granted")
    assert list(found.dtypes) == list(rows.dtypes)
    assert (model.predict(found) == "granted").all()


def test_rows_that_lack_a_value_lend_none():
    rng = np.random.RandomState(0)
    data = rng.uniform(0, 4, (200, 2))
    y = 2 * data[:, 0]
    data[::3, 0] = np.nan  # such rows are near any row in what they have, and answers are in the middle
    y[::3] = 4.0
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(data, y)
    row = np.array([[3.8, 2.0]])
    found = model.counterfactuals(row, data, threshold=4.5)
    assert model.predict(row)[0] > 4.5 > model.predict(found)[0]
    assert 1.5 < found[0, 0] < 2.6


def test_rows_that_are_there_already_stay_as_they_are():
    labels = np.digitize(Y, [0.5, 2.0])
    model = KELMClassifier(gamma=0.5, C=100.0).fit(X, labels)
    there = X[model.predict(X) == 2][:3]
    assert model.counterfactuals(there, X, target=2).tolist() == there.tolist()
    away = X[model.predict(X) == 0][:3]
    assert model.predict(model.counterfactuals(away, X, target=2)).tolist() == [2, 2, 2]


@pytest.mark.parametrize("make", [
    lambda: KELMRegressor(gamma=0.5, C=100.0),
    lambda: KELMRegressor(kernel="laplacian_l1", gamma=0.5, C=100.0, metric=[1.0, 0.5]),
    lambda: AdaptiveRegressor(random_state=0),
    lambda: ELMRegressor(60, random_state=0),
], ids=["kelm", "metric", "adaptive", "elm"])  # fmt: skip
def test_slopes_are_those_of_differences(make):
    model = make().fit(X, Y + (np.floor(3 * X[:, 0]) % 2))
    game = game_of(model)
    U = game.see(X[:5] + 0.0123)
    found, h = slopes_of(model)(U), 1e-6
    for j in range(U.shape[1]):
        step = h * np.eye(U.shape[1])[j]
        np.testing.assert_allclose(found[:, j], (game.score(U + step) - game.score(U - step)) / (2 * h), atol=2e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs threshold="),
        ({"threshold": 1.0, "target": "a"}, "predictions must cross"),
        ({"threshold": 1e6}, "no row of data has the prediction"),
        ({"threshold": 1.5, "fixed": [0, 1]}, "fix fewer"),
        ({"threshold": 1.5, "fixed": ["x7"]}, "no input 'x7'"),
    ],
    ids=["nothing", "class", "out of reach", "all fixed", "unknown"],
)
def test_what_cannot_be_is_refused(options, message):
    model = KELMRegressor(gamma=0.5, C=100.0).fit(X, Y)
    with pytest.raises(ValueError, match=message):
        model.counterfactuals(X[:2], X, **options)


def test_classes_have_to_be_known():
    model = KELMClassifier(gamma=0.5, C=1.0).fit(X, np.digitize(Y, [0.5, 2.0]))
    for options in ({}, {"target": "a"}, {"threshold": 1.0}):
        with pytest.raises(ValueError, match="needs target="):
            model.counterfactuals(X[:2], X, **options)


def flats(n=400):
    rng = np.random.RandomState(0)
    frame = pd.DataFrame({"town": rng.choice(["A", "B", "C", "D"], n), "area": rng.uniform(20, 180, n)})
    frame["rooms"] = rng.randint(1, 7, n)
    rate = 1500 + 600 * frame["town"].map({"A": 0, "B": 1, "C": 2, "D": 3})
    return frame, rate * frame["area"] + 8000 * frame["rooms"] + 9000 * rng.normal(size=n)


@pytest.mark.parametrize("encoded", cases([True, False], True))
def test_what_is_fixed_is_put_back_before_starts_are_chosen(encoded, monkeypatch):
    """Large flats of other towns are nearer, and none of them is as dear in this one."""
    frame, y = flats()
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(frame, y)
    if not encoded:
        monkeypatch.setattr(_counterfactuals._Encoded, "of", lambda *given: None)
    rows = frame[(frame["town"] == "A") & (frame["area"] < 120)][:4]
    found = model.counterfactuals(rows, frame, threshold=250_000, fixed=["town"])
    assert (found["town"] == "A").all()
    assert (model.predict(found) > 250_000).all()


def test_starts_are_near_in_words_too():
    """Numbers written as text count as words: with the others fixed, all rows were as near, and the first taken."""
    frame, y = flats()
    middling = (frame["town"] == "D") & frame["area"].between(80, 110)  # these cross by town and area together
    order = np.argsort(~middling, kind="stable")
    frame, y = frame.iloc[order], y.iloc[order]
    rows = ((frame["town"] == "A") & (frame["area"] < 60)).to_numpy()
    frame["area"] = [f"{area:.2f}".replace(".", ",") for area in frame["area"]]
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(frame, y)
    found = model.counterfactuals(frame[rows][:5], frame, threshold=240_000, fixed=["rooms"])
    assert (model.predict(found) > 240_000).all()
    assert ((found != frame[rows][:5]).sum(axis=1) == 1).all()


def test_rows_without_an_answer_are_named_and_the_others_answered():
    frame, y = flats()
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(frame, y)
    rows = frame[frame["area"] < 100][:3].copy()
    rows["area"] = [25.0, 160.0, 30.0]
    rows["town"], rows["rooms"] = ["A", "D", "A"], [1, 6, 1]  # only the dear town crosses by its rooms
    limit = model.predict(rows)[1] - 3000
    with pytest.warns(UnansweredWarning, match=r"2 of 3 rows stay .*positions 0, 2.*fix fewer") as caught:
        found = model.counterfactuals(rows, frame, threshold=limit, fixed=["town", "area"])
    assert caught[0].message.rows == [0, 2]
    assert caught[0].filename == __file__
    pd.testing.assert_frame_equal(found.iloc[[0, 2]], rows.iloc[[0, 2]])
    assert model.predict(found)[1] <= limit

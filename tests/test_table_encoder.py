"""Columns of every kind as numbers: TableEncoder, and what it tells columns by."""

import datetime
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline

import ulmus
from data import cases
from ulmus import AdaptiveRegressor, TableEncoder
from ulmus.features.columns import kind_of
from ulmus.features.frames import read_array
from ulmus.features.text import BUCKETS, TextFeatures
from ulmus.features.written import Kind, dates, durations, kind_of_texts, numbers, times

N = 240
RNG = np.random.RandomState(0)
WORDS = [
    "small",
    "large",
    "red",
    "green",
    "old",
    "new",
    "quiet",
    "loud",
    "sunny",
    "dark",
    "flat",
    "house",
    "near",
    "far",
    "river",
    "park",
    "station",
    "school",
]
TITLES = [" ".join(RNG.choice(WORDS, 4, replace=False)) + f" {i}" for i in range(N)]
TAGS = ["|".join(sorted(set(RNG.choice(["drama", "crime", "comedy", "war", "love", "music"], 3)))) for _ in range(N)]
FLAG = RNG.rand(N) < 0.5
PRICE = RNG.randint(5, 9000, N) + RNG.randint(0, 100, N) / 100


def messy(n=N):
    """One column of every kind, as people write them."""
    day = np.datetime64("2023-01-01") + (np.arange(N) * 3).astype("timedelta64[D]")
    return pd.DataFrame(
        {
            "id": [f"K{i:05d}x" for i in range(N)],
            "price": [f"€ {p:,.2f}" for p in PRICE],
            "share": [f"{p / 100:.1f}%" for p in PRICE],
            "weight": [f"{int(p)} kg" for p in PRICE],
            "comma": [f"{p:.2f}".replace(".", ",") for p in PRICE],
            "plain": PRICE,
            "flag": FLAG,
            "when": [str(d) for d in day],
            "hour": [f"{h:02d}:30" for h in np.arange(N) % 24],
            "took": [f"{30 + i}:10:00" for i in range(N)],
            "town": np.array(["Rome", "Oslo", "Bern"])[np.arange(N) % 3],
            "tags": [f"{t}|{i % 40}" for i, t in enumerate(TAGS)],
            "title": TITLES,
            "same": 7,
            "nothing": [None] * N,
        }
    ).iloc[:n]


KINDS = {
    "id": "id",
    **dict.fromkeys(["price", "share", "weight", "comma", "plain"], "number"),
    **{"flag": "boolean", "when": "date", "hour": "time", "took": "duration", "town": "category", "tags": "tags"},
    **{"title": "text", "same": "constant", "nothing": "empty"},
}


@pytest.fixture(scope="module")
def encoder():
    with pytest.warns(ulmus.LeftOutWarning, match="3 of 15 columns are left out: 'id' looks like an identifier"):
        return TableEncoder(prepared=False, random_state=0).fit(messy())


def test_columns_are_distinguished(encoder):
    assert encoder.kinds_ == KINDS
    assert encoder.left_out_ == {
        "id": "looks like an identifier: 240 distinct values in 240 rows",
        "same": "has only one value",
        "nothing": "has no values",
    }


def test_amounts_are_the_numbers_that_were_written(encoder):
    found = pd.DataFrame(encoder.transform(messy()), columns=encoder.get_feature_names_out())
    assert_array_equal(found["price"], PRICE)
    assert_array_equal(found["comma"], PRICE)
    assert_allclose(found["share"], PRICE / 100, atol=0.051)
    assert_array_equal(found["weight"], PRICE.astype(int))
    assert_allclose(found["hour"], (np.arange(N) % 24 + 0.5) / 24)
    assert_allclose(found["hour sine of the day"], np.sin(2 * np.pi * found["hour"]))
    assert_allclose(found["took"], (30 + np.arange(N) + 1 / 6) / 24)
    assert_array_equal(found["when"], 19358 + 3 * np.arange(N))
    assert_array_equal(found["tags: drama"], ["drama" in t for t in TAGS])


def test_pandas_and_polars_give_the_same_numbers(encoder):
    rows = messy().drop(columns="nothing")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ulmus.DataWarning)
        other = TableEncoder(prepared=False, random_state=0).fit(pl.from_pandas(rows))
        first = TableEncoder(prepared=False, random_state=0).fit(rows)
    assert_array_equal(other.transform(pl.from_pandas(rows)), first.transform(rows))
    for library in ("pandas", "polars"):
        shown = clone(first).set_params(prepared=True).set_output(transform=library).fit_transform(rows)
        assert list(shown.columns) == list(clone(first).set_params(prepared=True).fit(rows).get_feature_names_out())
        assert "town = Oslo" in shown.columns


def test_prepared_numbers_are_filled_and_standardised():
    rows = messy()[["price", "town"]].copy()
    rows.loc[::7, "price"] = None
    out = TableEncoder().set_output(transform="pandas").fit_transform(rows)
    assert list(out.columns) == ["price", "price is missing", "town = Bern", "town = Oslo", "town = Rome"]
    filled = np.where(np.arange(N) % 7 == 0, np.nan, PRICE)
    filled = np.where(np.isnan(filled), np.nanmedian(filled), filled)
    assert_allclose(out["price"], (filled - filled.mean()) / filled.std(), atol=1e-12)
    assert_array_equal(out["price is missing"], np.arange(N) % 7 == 0)
    assert_array_equal(out["town = Oslo"], np.arange(N) % 3 == 1)


@pytest.mark.filterwarnings("ignore::ulmus.LeftOutWarning")
@pytest.mark.parametrize("prepared", [True, False])
def test_copies_survive_files_pickles_and_clones(prepared, tmp_path):
    one = TableEncoder(prepared=prepared, random_state=0, kinds={"town": "text"}).fit(messy())
    ulmus.save(one, tmp_path / "encoder.ulmus")
    for again in (
        ulmus.load(tmp_path / "encoder.ulmus"),
        pickle.loads(pickle.dumps(one)),
        clone(one).fit(messy()),
    ):
        assert_array_equal(again.transform(messy(20)), one.transform(messy(20)))
        assert again.kinds == {"town": "text"}


@pytest.mark.filterwarnings("ignore::ulmus.LeftOutWarning")
def test_a_weight_is_so_many_copies():
    rows = messy()[["price", "when", "town", "tags", "title"]]
    weight = RNG.randint(1, 4, N)
    copies = rows.loc[rows.index.repeat(weight)]
    weighed = TableEncoder(random_state=0, kinds={"title": "text"}).fit(rows, sample_weight=weight)
    copied = TableEncoder(random_state=0, kinds={"title": "text"}).fit(copies)
    assert weighed.kinds_ == copied.kinds_
    assert_allclose(weighed.transform(rows), copied.transform(rows), atol=1e-9)


def test_text_spans_the_plane_of_a_singular_value_decomposition():
    options = {"n_features": BUCKETS // 2, "alternate_sign": False, "norm": None, "strip_accents": "unicode"}
    words = HashingVectorizer(token_pattern=r"(?u)\S+", **options).transform(TITLES)
    letters = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 4), **options).transform(TITLES)
    counts = sparse.hstack([words, letters], format="csr")
    recurs = np.flatnonzero(np.asarray((counts > 0).sum(axis=0)).ravel() > 1)  # n-grams of one text tell it alone
    A = TfidfTransformer().fit_transform(counts[:, recurs])
    theirs = TruncatedSVD(5, algorithm="arpack", random_state=0).fit(A)
    ours = TextFeatures.of(TITLES, np.ones(N), 5, np.random.RandomState(0))
    Z = ours.transform(TITLES)
    assert_allclose((Z**2).sum(), (theirs.singular_values_**2).sum(), rtol=1e-3)  # no plane holds more
    assert_allclose(Z[:, 0], A @ theirs.components_[0], atol=1e-5)


def test_text_that_gives_the_target_away_is_learned():
    rng = np.random.RandomState(0)
    words = np.array(WORDS)
    picks = np.array([rng.choice(len(words), 5, replace=False) for _ in range(600)])
    worth = rng.normal(size=len(words))
    y = worth[picks].sum(axis=1) + 0.1 * rng.normal(size=600)
    rows = pd.DataFrame({"title": [" ".join(words[p]) for p in picks], "noise": rng.normal(size=600)})
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(rows[:450], y[:450])
    assert model.encoder_.kinds_["title"] == "text"
    by_hand = np.zeros((600, len(words)))
    np.put_along_axis(by_hand, picks, 1.0, axis=1)
    hand = AdaptiveRegressor(effort="fast", random_state=0).fit(by_hand[:450], y[:450]).score(by_hand[450:], y[450:])
    assert model.score(rows[450:], y[450:]) > hand - 0.1  # a 0/1 column for each word, which nobody has told it
    assert model.score(rows[450:], y[450:]) > 0.8


@pytest.mark.filterwarnings("ignore::ulmus.LeftOutWarning")
def test_a_pipeline_takes_frames_as_they_are():
    model = make_pipeline(TableEncoder(random_state=0), Ridge()).fit(messy(), PRICE)
    assert model.score(messy(), PRICE) > 0.999


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["true", "False"], Kind("boolean")),
        (["1", "2.5", "-3e2"], Kind("number", "plain")),
        (["1,234", "12,345.5", "7"], Kind("number", "thousands")),
        (["1.234,5", "7", "3,25"], Kind("number", "decimal comma")),
        (["1 234", "12 345", "999"], Kind("number", "plain")),
        (["1'234.50", "12'345.00"], Kind("number", "plain")),
        (["€ 12.30", "€9", "-€ 4"], Kind("number", "plain: €#")),
        (["12,30 €", "1.009,00 €"], Kind("number", "decimal comma: #€")),
        (["$1,200", "($35.10)", "$7"], Kind("number", "thousands: $#")),
        (["42.1%", "7 %", "-3%"], Kind("number", "plain: #%")),
        (["36 months", "60 months"], Kind("number", "plain: #months")),
        (["USD 12", "USD 1,200,000.00"], Kind("number", "thousands: USD#")),
        (["2024-01-31", "2024-02-01T10:00:00Z"], Kind("date")),
        (["31/01/2024", "01/02/2024"], Kind("date", "%d/%m/%Y")),
        (["01/31/2024", "02/01/2024"], Kind("date", "%m/%d/%Y")),
        (["3 Jan 2024", "14 Feb 2023"], Kind("date", "%d %b %Y")),
        (["14:05", "7:30", "23:59:59"], Kind("time")),
        (["2:05 pm", "11:59 AM"], Kind("time")),
        (["1h 30m", "2d 4h"], Kind("duration")),
        (["1 days 02:00:00", "-1 days +23:00:00"], Kind("duration")),
        (["PT15M", "P1DT2H"], Kind("duration")),
        (["30:00:00", "12:10:00"], Kind("duration")),
        (["00012", "12"], None),
        (["A1", "A2", "A3"], None),
        (["Q1", "Q2"], None),
        (["€ 12", "$ 12"], None),
        (["5 kg", "7 lb"], None),
        (["red", "blue"], None),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_texts_are_read_as_they_are_written(texts, kind):
    assert kind_of_texts(texts, np.ones(len(texts))) == kind


def test_values_of_texts():
    assert_array_equal(numbers(["€ 12.30", "(€ 5)", "9", "$ 4"], "plain: €#"), [12.3, -5, 9, np.nan])
    assert_array_equal(numbers(["42.1%", "42.1"], "plain: #%"), [42.1, np.nan])  # one of them is a hundred times larger
    assert_array_equal(numbers(["1.234,5", "1,234.5"], "decimal comma"), [1234.5, np.nan])
    assert_array_equal(numbers(["−3", "1 234 567"], "plain"), [-3, 1234567])
    assert_array_equal(dates(["1970-01-02", "1970-01-01T06:00:00+06:00", "soon"], ""), [1, 0, np.nan])
    assert_array_equal(times(["12:00", "12:00 am", "24:00"]), [0.5, 0, np.nan])
    assert_array_equal(durations(["24:00:00", "-12:00", "1 days 12:00:00", "P1W", "36h 0m"]), [1, -0.5, 1.5, 7, 1.5])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.arange(60.0), "number"),
        (RNG.permutation(60), "number"),
        ([[1, 2], [2], None], "tags"),
        ([datetime.date(2024, 1, 1), None, datetime.date(2025, 1, 1)], "date"),
        ([1, 2.5, None], "number"),
        ([True, None, False], "boolean"),
        ([f"INV-{i:04d}" for i in range(60)], "id"),
        ([f"house {i}" for i in range(60)], "id"),
        (["a", "b"] * 60, "category"),
    ],
    ids=["count", "numbers", "lists", "dates", "mixed numbers", "booleans", "invoices", "houses", "levels"],
)
def test_arrays_of_objects_are_distinguished(values, kind):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    assert kind_of("x", read_array(column), np.ones(len(values))).name == kind


@pytest.mark.parametrize(
    ("name", "kind"), [("customer_id", "id"), ("customerId", "id"), ("Unnamed: 0", "id"), ("age", "number")]
)
def test_whole_numbers_are_ids_by_their_name(name, kind):
    assert kind_of(name, read_array(np.arange(80)), np.ones(80)).name == kind
    assert kind_of(name, read_array(np.arange(80) / 3), np.ones(80)).name == "number"


def test_what_cannot_be_read_is_reported_with_its_number():
    rows = pd.DataFrame({"price": ["€ 1", "€ 2", "€ 3"] * 20})
    model = TableEncoder(prepared=False).fit(rows)
    rows.loc[[3, 7], "price"] = "on request"
    with pytest.warns(
        ulmus.UnreadableWarning, match="'price': 2 of 60 values are not numbers, starting with 'on request'"
    ):
        assert np.isnan(model.transform(rows)).sum() == 2
    rows["price"] = "on request"
    with pytest.raises(ValueError, match="'price' contained numbers in training and contains"):
        model.transform(rows)


def test_levels_never_seen_are_reported_where_they_are_more_than_one_expects():
    rows = pd.DataFrame({"town": ["Rome", "Oslo"] * 30})
    model = TableEncoder(prepared=False).fit(rows)
    with pytest.warns(ulmus.UnseenLevelWarning, match="30 of 60 values were not seen in training"):
        model.transform(rows.replace("Oslo", "Bern"))
    many = pd.DataFrame({"name": [f"n{i // 2}" for i in range(60)] + [f"m{i}" for i in range(40)]})
    alone = TableEncoder(prepared=False, kinds={"name": "category"}).fit(many)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone.transform(many.replace("m3", "m99"))  # 40 of 100 were alone: new ones come


def test_kinds_are_checked():
    rows = pd.DataFrame({"a": [1, 2, 3]})
    with pytest.raises(ValueError, match="kinds names the column 'b', but the columns are"):
        TableEncoder(kinds={"b": "text"}).fit(rows)
    with pytest.raises(ValueError, match=r"kinds\['a'\] must be one of number"):
        TableEncoder(kinds={"a": "money"}).fit(rows)
    assert TableEncoder(kinds={"a": "category"}, prepared=False).fit(rows).categorical_.tolist() == [True]


def test_importances_of_an_adaptive_model_are_those_of_the_columns_given():
    rows = messy()[["id", "plain", "title", "town"]].assign(id=lambda f: [f"K{i}" for i in range(N)])
    with pytest.warns(ulmus.LeftOutWarning):
        model = AdaptiveRegressor(effort="fast", random_state=0).fit(rows, PRICE)
    assert len(model.feature_importances_) == 4
    assert model.feature_importances_[0] == 0
    assert model.feature_importances_.argmax() == 1


@pytest.mark.parametrize("name", cases(["adaptive", "nkelm", "elm"], "adaptive", "nkelm"))
def test_columns_of_one_value_and_names_that_never_recur_do_not_hurt(name):
    """In each of three, 151 rows hold the same and 49 a name of their own; new rows have new names."""
    models = {
        "adaptive": lambda: AdaptiveRegressor(effort="fast", random_state=0),
        "nkelm": lambda: make_pipeline(TableEncoder(random_state=0), ulmus.NKELMRegressor(random_state=0)),
        "elm": lambda: make_pipeline(TableEncoder(random_state=0), ulmus.ELMRegressor(random_state=0)),
    }
    lost = []
    for seed in range(4):
        rng = np.random.RandomState(seed)
        X = pd.DataFrame(rng.normal(size=(400, 4)), columns=list("abcd"))
        y = X["a"] - X["b"] / 2 + 2 * rng.normal(size=400)
        odd = X.copy()
        for name_of_junk in ("e", "f", "g"):
            junk = np.array(["none given"] * 400, dtype=object)
            for i in np.concatenate([rng.permutation(200)[:49], 200 + rng.permutation(200)[:49]]):
                junk[i] = f"r{rng.randint(10**6):06d}"
            odd[name_of_junk] = junk
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ulmus.UnseenLevelWarning)
            with_, without = (
                r2_score(y[200:], models[name]().fit(rows[:200], y[:200]).predict(rows[200:])) for rows in (odd, X)
            )
        lost.append(without - with_)
    assert np.mean(lost) < 0.05

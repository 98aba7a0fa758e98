"""Frames with dates: whatever their type, adaptive models see what the command line sees."""

import datetime
import pickle

import numpy as np
import onnxruntime
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

import ulmus
from data import cases
from ulmus import AdaptiveClassifier, AdaptiveOrdinalClassifier, AdaptiveRegressor
from ulmus.features.frames import columns_of, days_of, frame_of, kind_of
from ulmus.tables.read import read_table
from ulmus.tables.schema import frame, learn
from ulmus.tables.vectorise import encoder

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")

N = 700
RNG = np.random.RandomState(0)
DAY = np.datetime64("2021-03-01") + RNG.permutation(1000)[:N].astype("timedelta64[D]")
NUMBER = RNG.normal(size=N)
SINCE = DAY.astype(float)
TARGET = (
    3 * np.sin(2 * np.pi * SINCE / 365.2425) + 2.0 * ((SINCE + 3) % 7 >= 5) + NUMBER + 0.1 * RNG.normal(size=N)
)  # a season and weekends

FORMS = {
    "datetime64[ns]": lambda: pd.DataFrame({"when": DAY.astype("datetime64[ns]")}),
    "datetime64[s]": lambda: pd.DataFrame({"when": DAY.astype("datetime64[s]")}),
    "with a zone": lambda: pd.DataFrame({"when": pd.Series(DAY.astype("datetime64[ns]")).dt.tz_localize("UTC")}),
    "another zone": lambda: pd.DataFrame(
        {"when": pd.Series(DAY.astype("datetime64[ns]")).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")}
    ),
    "date": lambda: pd.DataFrame({"when": [day.item() for day in DAY]}),
    "Timestamp": lambda: pd.DataFrame({"when": pd.Series([pd.Timestamp(day) for day in DAY], dtype=object)}),
    "aware objects": lambda: pd.DataFrame(
        {"when": pd.Series([pd.Timestamp(day, tz="UTC").to_pydatetime() for day in DAY], dtype=object)}
    ),
    "Period": lambda: pd.DataFrame({"when": pd.PeriodIndex(DAY.astype("datetime64[ns]"), freq="D")}),
    "arrow": lambda: pd.DataFrame({"when": pd.Series(DAY.astype("datetime64[us]")).astype("timestamp[us][pyarrow]")}),
    "polars Date": lambda: pl.DataFrame({"when": DAY}),
    "polars Datetime": lambda: pl.DataFrame({"when": DAY.astype("datetime64[ms]")}),
    "polars with a zone": lambda: pl.DataFrame({"when": DAY.astype("datetime64[us]")}).with_columns(
        pl.col("when").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
    ),
}


def table(form):
    when = FORMS[form]()
    return when.with_columns(number=pl.Series(NUMBER)) if "polars" in form else when.assign(number=NUMBER)


@pytest.fixture(scope="module")
def model():
    return AdaptiveRegressor(effort="fast", random_state=0).fit(table("datetime64[ns]")[:500], TARGET[:500])


@pytest.mark.parametrize("form", FORMS)
def test_dates_of_every_type_are_dates(form, model):
    rows = table(form)
    assert kind_of(columns_of(frame_of(rows))["when"]) == "date"
    assert_array_equal(days_of(columns_of(frame_of(rows))["when"]), SINCE)
    assert_array_equal(model.predict(rows[500:]), model.predict(table("datetime64[ns]")[500:]))


@pytest.mark.parametrize("form", cases(["date", "with a zone", "polars Date"], "with a zone", "polars Date"))
def test_a_model_learns_the_same_from_dates_of_other_types(form, model):
    other = AdaptiveRegressor(effort="fast", random_state=0).fit(table(form)[:500], TARGET[:500])
    assert_array_equal(other.predict(table(form)[500:]), model.predict(table("datetime64[ns]")[500:]))


def test_season_and_week_are_learned_from_a_date(model):
    assert model.score(table("datetime64[ns]")[500:], TARGET[500:]) > 0.9
    assert model.n_features_in_ == 2
    assert len(model.feature_importances_) == 2
    assert model.feature_importances_[0] > 0.5
    assert_allclose(model.feature_importances_.sum(), 1.0)


def test_frames_give_the_features_of_the_command_line(tmp_path):
    moments = DAY.astype("datetime64[s]") + RNG.randint(0, 86_400, N).astype("timedelta64[s]")
    rows = pd.DataFrame({"when": moments, "number": NUMBER})
    rows.loc[5, "when"] = pd.NaT
    rows.assign(y=TARGET).to_csv(tmp_path / "rows.csv", index=False)
    batch = read_table(str(tmp_path / "rows.csv"))
    schema = learn(batch, "y")
    told = encoder(schema.columns, prepared=False).fit_transform(frame(batch, schema, print))
    ours = ulmus.TableEncoder(prepared=False).fit_transform(rows)
    assert_array_equal(ours, told)
    assert ours.shape[1] == 2 + 6  # year, week and day, a sine and a cosine each


def test_a_missing_date_is_filled_and_marked():
    rows = table("datetime64[ns]")[:500]
    rows.loc[::10, "when"] = pd.NaT
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(rows, TARGET[:500])
    assert np.isfinite(model.predict(rows)).all()
    assert len(model.view_.preparation.gaps.shown) == 5  # the day, and two cycles of two


def test_a_date_missing_for_the_first_time_is_the_middle(model):
    rows = table("datetime64[ns]")[500:510]
    gone = model.predict(rows.assign(when=pd.NaT))
    assert np.isfinite(gone).all()
    assert_array_equal(gone, model.predict(rows.assign(when=None)))


def test_a_column_that_is_no_date_any_more_is_reported(model):
    rows = table("datetime64[ns]")[:5]
    assert_array_equal(model.predict(rows.assign(when=rows["when"].astype(str))), model.predict(rows))
    for wrong in (["soon"] * 5, np.arange(5)):
        with pytest.raises(ValueError, match="column 'when' contained dates in training and contains"):
            model.predict(rows.assign(when=wrong))
    with pytest.raises(ValueError, match="column 'number' contained numbers in training and contains"):
        model.predict(rows.assign(number=rows["when"]))


def test_a_column_too_many_or_too_few_is_named_as_such(model):
    rows = table("datetime64[ns]")[:5]
    with pytest.raises(ValueError, match="unseen at fit time"):
        model.predict(rows.assign(more="text"))
    with pytest.raises(ValueError, match="now missing"):
        model.predict(rows[["number"]])


def test_columns_may_be_numbered():
    rows = pd.DataFrame({0: np.array(["a", "b"])[np.arange(200) % 2], 1: np.arange(200.0)})
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(rows, np.arange(200) % 2.0)
    assert model.score(rows, np.arange(200) % 2.0) > 0.99


def test_a_date_that_is_named_a_category_is_one():
    rows = pd.DataFrame({"when": np.array(["2024-01-01", "2024-02-01"], "datetime64[ns]")[np.arange(200) % 2]})
    model = AdaptiveRegressor(effort="fast", categorical_features=["when"]).fit(rows, np.arange(200) % 2.0)
    assert model.fitted_.weights.columns.categorical.tolist() == [True]
    assert model.view_.preparation.categories[0].levels.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("frames", cases([pd.DataFrame, pl.DataFrame], pl.DataFrame))
def test_durations_and_times_are_numbers(frames):
    hours = RNG.randint(0, 24, 200)
    rows = frames(
        {
            "length": [datetime.timedelta(hours=int(h)) for h in hours],
            "hour": [datetime.time(int(h)) for h in hours],
        }
    )
    columns = columns_of(frame_of(rows))
    assert [kind_of(column) for column in columns.values()] == ["duration", "time"]
    for column in columns.values():
        assert_allclose(days_of(column), hours / 24, rtol=1e-15)
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(rows, (hours - 12.0) ** 2)
    assert not model.fitted_.weights.columns.categorical.any()
    assert model.score(rows, (hours - 12.0) ** 2) > 0.99


def test_dates_survive_files_and_pickles(model, tmp_path):
    rows = table("datetime64[ns]")[500:]
    ulmus.save(model, tmp_path / "dates.ulmus")
    for again in (ulmus.load(tmp_path / "dates.ulmus"), pickle.loads(pickle.dumps(model))):
        assert_array_equal(again.predict(rows), model.predict(rows))


def test_dates_go_to_onnx_as_days(model):
    session = onnxruntime.InferenceSession(ulmus.onnx.export(model, dtype="float64").SerializeToString())
    (found,) = session.run(["prediction"], {"X": np.column_stack([SINCE, NUMBER])[500:]})
    assert_allclose(np.ravel(found), model.predict(table("datetime64[ns]")[500:]), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("estimator", [AdaptiveRegressor, AdaptiveClassifier, AdaptiveOrdinalClassifier])
def test_a_model_that_was_not_fitted_says_so(estimator):
    for rows in (table("datetime64[ns]"), table("polars Date"), np.zeros((3, 2))):
        with pytest.raises(NotFittedError):
            estimator().predict(rows)

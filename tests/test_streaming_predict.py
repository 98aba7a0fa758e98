"""Predictions to Parquet: those of the model, in order, complete or not there."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import fixed
from data import classification, regression
from ulmus import ELMRegressor, streaming
from ulmus.streaming import SourceError

N = 500
X, Y = regression(N)
LABELS = np.array(["red", "green", "blue"])[classification(N)[1]]


def write_rows(folder):
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y, id=np.arange(N), name=[f"row {k}" for k in range(N)])
    for k, (start, stop) in enumerate([(0, 200), (200, 200), (200, N)]):
        table[start:stop].to_parquet(folder / f"{k}.parquet", row_group_size=70)
    return table


@pytest.mark.parametrize("batch_rows", [64, 1000])
def test_predictions_of_files_are_those_of_the_model_beside_the_columns_that_were_kept(batch_rows, tmp_path):
    table = write_rows(tmp_path)
    model = fixed.NKELMRegressor(C=10.0, random_state=0).fit(table[["c", "a"]], Y)
    out = streaming.predict(model, tmp_path, tmp_path / "out.pq", keep=["id", "name"], batch_rows=batch_rows)
    back = pq.read_table(out).to_pandas()
    assert list(back) == ["id", "name", "prediction"]
    assert (back["id"] == table["id"]).all()
    assert (back["name"] == table["name"]).all()
    np.testing.assert_allclose(back["prediction"], model.predict(table[["c", "a"]]), rtol=1e-12)


@pytest.mark.parametrize("source", [(X,), lambda: iter([X[:100], X[100:]]), X])
def test_arrays_and_batches_are_predicted(source, tmp_path):
    model = fixed.ELMRegressor(C=10.0, random_state=0).fit(X, np.column_stack([Y, -Y]))
    back = pq.read_table(streaming.predict(model, source, tmp_path / "out.parquet", batch_rows=60)).to_pandas()
    np.testing.assert_allclose(back[["prediction_0", "prediction_1"]], model.predict(X), rtol=1e-12)


def test_labels_and_probabilities_of_classes_are_columns(tmp_path):
    model = fixed.ELMClassifier(C=10.0, random_state=0).fit(X, LABELS)
    labels = pq.read_table(streaming.predict(model, (X,), tmp_path / "labels.parquet"))
    assert (np.array(labels["prediction"]) == model.predict(X)).all()
    shares = pq.read_table(streaming.predict(model, (X,), tmp_path / "p.parquet", method="predict_proba")).to_pandas()
    assert list(shares) == ["prediction_blue", "prediction_green", "prediction_red"]
    np.testing.assert_allclose(shares, model.predict_proba(X), rtol=1e-12)


def test_a_million_rows_go_to_parquet_and_back(tmp_path):
    def rows():
        for k in range(10):
            yield np.random.RandomState(k).normal(size=(100_000, 3))

    model = fixed.ELMRegressor(10, C=10.0, random_state=0).fit(X, Y)
    reports = []
    out = streaming.predict(model, rows, tmp_path / "out.parquet", progress=reports.append)
    assert reports[-1].rows == pq.ParquetFile(out).metadata.num_rows == 1_000_000
    back = pq.read_table(out)["prediction"].to_numpy()
    np.testing.assert_allclose(back, np.concatenate([model.predict(part) for part in rows()]), rtol=1e-12)


def test_a_file_is_complete_or_not_there(tmp_path):
    def broken():
        yield X
        raise SourceError("b.parquet cannot be read")

    model = fixed.ELMRegressor(C=10.0, random_state=0).fit(X, Y)
    with pytest.raises(SourceError, match=r"b\.parquet"):
        streaming.predict(model, broken, tmp_path / "out.parquet", batch_rows=100)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_named_by_the_file_that_did_not_fit(tmp_path, full_disk):
    many = np.random.RandomState(0).normal(size=(20_000, 3))
    model = fixed.ELMRegressor(5, C=1.0, random_state=0).fit(X, Y)
    with full_disk(50_000), pytest.raises(OSError, match=r"out\.parquet"):
        streaming.predict(model, (many,), tmp_path / "out.parquet")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("method", "source", "error"),
    [("predict_proba", (X,), ValueError), ("predict", lambda: iter([X[:0]]), SourceError)],
)
def test_what_cannot_be_predicted_is_refused(method, source, error, tmp_path):
    model = fixed.ELMRegressor(C=10.0, random_state=0).fit(X, Y)
    with pytest.raises(error, match="predict"):
        streaming.predict(model, source, tmp_path / "out.parquet", method=method)


def test_a_name_that_promises_another_format_is_refused(tmp_path):
    X = np.random.RandomState(0).normal(size=(60, 3))
    model = ELMRegressor(10, C=1.0, random_state=0).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"name the file out\.parquet"):
        streaming.predict(model, (X,), tmp_path / "out.csv")

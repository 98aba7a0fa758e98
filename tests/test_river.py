"""OS-ELM inside river's pipelines, through river's own adapter for scikit-learn models."""

import numpy as np
import pytest

from data import classification, regression
from ulmus import OSELMClassifier, OSELMRegressor

pytest.importorskip("river")
from river import compat, evaluate, metrics, preprocessing, stream


def test_a_classifier_learns_row_by_row_in_a_river_pipeline():
    X, y = classification(900)
    rows = stream.iter_array(X, y.tolist(), feature_names=["a", "b", "c"])
    model = preprocessing.StandardScaler() | compat.convert_sklearn_to_river(
        OSELMClassifier(40, slope=1.0, C=100.0, warm_up=100, random_state=0), classes=[0, 1, 2]
    )
    found = evaluate.progressive_val_score(rows, model, metrics.Accuracy())
    assert found.get() > 0.75
    x = dict(zip("abc", X[0].tolist()))
    assert model.predict_proba_one(x).keys() == {0, 1, 2}


def test_a_regressor_learns_row_by_row_in_a_river_pipeline():
    X, y = regression(500)
    rows = stream.iter_array(X, y.tolist(), feature_names=["a", "b", "c"])
    model = preprocessing.StandardScaler() | compat.convert_sklearn_to_river(
        OSELMRegressor(40, warm_up=200, forgetting=0.9999, random_state=0)
    )
    error = evaluate.progressive_val_score(rows, model, metrics.RMSE())
    assert error.get() < 0.6 * y.std()


def test_mini_batches_of_river_are_blocks():
    pd = pytest.importorskip("pandas")
    X, y = regression(600)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = compat.convert_sklearn_to_river(OSELMRegressor(40, random_state=0))
    for start in range(0, 600, 100):
        model.learn_many(frame[start : start + 100], pd.Series(y[start : start + 100]))
    whole = OSELMRegressor(40, random_state=0).partial_fit(frame[:500], y[:500]).partial_fit(frame[500:], y[500:])
    assert np.allclose(model.predict_many(frame), whole.predict(frame))

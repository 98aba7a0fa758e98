"""The picture of residuals shows what the model says."""

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ulmus import ELMRegressor, ResidualsDisplay, RobustELMRegressor


@pytest.fixture(scope="module")
def spoilt():
    rng = np.random.RandomState(0)
    X = rng.uniform(-2, 2, (200, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
    y[:5] += 100
    return X, y, RobustELMRegressor(20, slope=1.0, C=100.0, random_state=0).fit(X, y)


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_rows_beyond_the_threshold_are_marked(spoilt):
    X, y, model = spoilt
    display = ResidualsDisplay.from_estimator(model, X, y, threshold=5)
    np.testing.assert_array_equal(display.outliers_, model.outlier_scores(X, y) > 5)
    assert display.outliers_[:5].all()
    marked = np.asarray(display.marks_.get_offsets())
    np.testing.assert_allclose(marked[:, 0], model.predict(X)[display.outliers_])
    np.testing.assert_allclose(marked[:, 1], (y - model.predict(X))[display.outliers_])
    assert len(display.points_.get_offsets()) + len(marked) == 200
    assert display.ax_.get_yscale() == "symlog"


def test_clean_rows_are_drawn_on_a_plain_scale_on_the_axes_given(spoilt):
    X, y, model = spoilt
    ax = plt.subplots()[1]
    display = ResidualsDisplay.from_estimator(model, X[5:], y[5:], ax=ax)
    assert display.ax_ is ax
    assert ax.get_yscale() == "linear"
    assert {"predicted", "target − predicted"} == {ax.get_xlabel(), ax.get_ylabel()}


def test_pipelines_and_single_outputs_of_several(spoilt):
    X, y, _ = spoilt
    model = make_pipeline(StandardScaler(), RobustELMRegressor(20, slope=1.0, C=100.0, random_state=0))
    model.fit(X, np.column_stack([y, np.roll(y, 7)]))
    display = ResidualsDisplay.from_estimator(model, X, np.column_stack([y, np.roll(y, 7)]), output=1)
    assert display.outliers_[7:12].all()


def test_what_cannot_be_drawn_is_refused(spoilt):
    X, y, model = spoilt
    with pytest.raises(TypeError, match="ELMRegressor has no outlier scores"):
        ResidualsDisplay.from_estimator(ELMRegressor(5, C=1.0, slope=1.0).fit(X, y), X, y)
    with pytest.raises(ValueError, match="threshold must be positive, got 0"):
        ResidualsDisplay.from_estimator(model, X, y, threshold=0)

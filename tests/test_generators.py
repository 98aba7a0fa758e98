"""Artificial data hold what they promise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier

from ulmus import datasets

MAKERS = (datasets.make_sinc, datasets.make_rings, datasets.make_spirals, datasets.make_drift)


@pytest.mark.parametrize("make", MAKERS)
def test_the_same_seed_gives_the_same_data(make):
    for first, again, other in zip(make(50, random_state=3), make(50, random_state=3), make(50, random_state=4)):
        assert_array_equal(first, again)
        assert (first != other).any()


def test_sinc_without_noise_is_the_curve_and_outliers_are_the_documents():
    X, y = datasets.make_sinc(100, noise=0.0, outliers=True, random_state=0)
    assert_allclose(y[:100], np.sin(X[:100, 0]) / X[:100, 0], rtol=1e-12)
    assert_array_equal(X[100:, 0], [-11.0, 0.0])
    assert_array_equal(y[100:], [2.5, -1.5])
    assert datasets.sinc(0.0) == 1.0


@pytest.mark.parametrize("make", [datasets.make_rings, datasets.make_spirals])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_rings_and_spirals_defeat_straight_lines_but_not_neighbours(make, n_classes):
    X, y = make(1200, n_classes=n_classes, random_state=0)
    assert np.bincount(y).tolist() == [1200 // n_classes] * n_classes
    train, test = slice(None, 800), slice(800, None)
    assert KNeighborsClassifier(3).fit(X[train], y[train]).score(X[test], y[test]) > 0.95
    assert LinearDiscriminantAnalysis().fit(X[train], y[train]).score(X[test], y[test]) < 0.65


@pytest.mark.parametrize("kind", ["gradual", "abrupt"])
def test_what_was_learned_early_is_wrong_late(kind):
    X, y = datasets.make_drift(8000, kind=kind, noise=0.0, n_features=2, random_state=0)
    early = KNeighborsClassifier(5).fit(X[:1000], y[:1000])
    assert early.score(X[1000:1200], y[1000:1200]) > 0.85
    assert early.score(X[-1000:], y[-1000:]) < 0.3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"task": "ranking"}, 'task must be "classification" or "regression", got \'ranking\''),
        ({"kind": "slow"}, 'kind must be "gradual" or "abrupt", got \'slow\''),
        ({"n_features": 1}, "n_features must be at least 2"),
    ],
)
def test_wrong_arguments_of_the_stream_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        datasets.make_drift(**wrong)

"""The arithmetic of the robust benchmarks."""

import numpy as np
import pytest

from experiments.sections import robust_data
from experiments.tasks import Task


def task(n=200):
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(n, 2)), rng.uniform(size=n)
    return Task("", "regression", X, y, X, y)


@pytest.mark.parametrize("one_sided", [False, True])
def test_the_share_of_outliers_is_what_was_asked_for(one_sided):
    clean = task()
    spoilt = robust_data.contaminated(clean, 0.1, 0, one_sided=one_sided)
    moved = spoilt.y != clean.y
    assert moved.sum() == 20
    assert (np.abs(spoilt.y[moved] - 0.5) >= 2).all()
    assert (spoilt.y[moved].min() < 0) != one_sided
    np.testing.assert_array_equal(spoilt.y_test, clean.y_test)


def test_no_outliers_means_no_change():
    np.testing.assert_array_equal(robust_data.contaminated(task(), 0.0, 0).y, task().y)


def test_rmse_is_the_documents():
    assert robust_data.rmse(task(), task().y_test + 0.3) == pytest.approx(0.3)


def test_the_sizes_of_the_document_fill_its_sets():
    # Table 1: training and test rows add up to the set
    totals = {name: facts.n_train + facts.n_test for name, facts in robust_data.SETS.items()}
    assert totals["Breast Cancer"] == 194
    assert totals["Delta elevators"] == 9517
    assert totals["Cal housing"] == 20640
    assert len(totals) == 10

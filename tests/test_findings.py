"""What is odd about a table is told with its number."""

import numpy as np
import pytest

import ulmus
from ulmus.features.findings import copies, drift, leaks, profile, scales

RNG = np.random.RandomState(0)
N = 400
X = RNG.normal(size=(N, 3))
Y = X[:, 0] + RNG.normal(size=N)


def test_a_column_that_gives_the_target_away_is_named():
    M = np.column_stack([X, 3 * Y - 1])
    (found,) = leaks(M, list("abcd"), np.arange(4), Y, classes=False)
    assert found.kind is ulmus.LeakWarning
    assert found.text.startswith("column 'd' predicts the target on its own (R² 0.99")
    label = Y > 1
    codes = np.where(label, 7.0, 2.0)
    (found,) = leaks(np.column_stack([X, codes]), list("abcd"), np.arange(4), label, classes=True)
    assert "column 'd' predicts the target on its own (balanced accuracy 1.0000" in found.text
    assert not leaks(X, list("abc"), np.arange(3), Y, classes=False)
    assert not leaks(M[:40], list("abcd"), np.arange(4), Y[:40], classes=False)  # of few rows one cannot say


def test_a_frequent_class_is_no_leak_of_a_column_without_information():
    rare = np.arange(N) % 200 == 0
    assert not leaks(X, list("abc"), np.arange(3), rare, classes=True)


def test_copies_of_rows_across_a_split_are_counted():
    (found,) = copies(X[:300], Y[:300], np.concatenate([X[300:], X[:50]]), np.concatenate([Y[300:], Y[:50]]))
    assert found.kind is ulmus.DuplicateWarning
    assert found.text.startswith("50 of 150 held-out rows duplicate")
    assert not copies(X[:300], Y[:300], X[300:], Y[300:])
    assert not copies(X[:300], Y[:300], X[:100], Y[:100] + 1)  # the same inputs with other targets are no copies
    few = RNG.randint(0, 2, (N, 2)).astype(float)
    assert not copies(few[:300], few[:300, 0], few[300:], few[300:, 0])  # levels meet by chance


def test_missing_values_are_equal_to_missing_values():
    M = X.copy()
    M[:, 1] = np.nan
    assert copies(M[:300], Y[:300], M[:100], Y[:100])[0].text.startswith("100 of 100")


def test_a_column_that_dwarfs_the_others_is_reported():
    (found,) = scales(X * [1, 1e6, 1], ["a", "b", "c"])
    assert found.kind is ulmus.ScaleWarning
    assert f"column 'b' has a standard deviation of {1e6 * X[:, 1].std():.3g}, all others" in found.text
    assert not scales(X * [1, 50, 1])
    assert not scales(X[:, :1] * 1e6)
    assert not scales(np.column_stack([X[:, 0], np.zeros((N, 2))]))


@pytest.mark.parametrize("model", [ulmus.KELMRegressor(gamma=1.0, C=1.0), ulmus.NKELMRegressor(20, gamma=1.0, C=1.0)])
def test_plain_kernels_warn_of_columns_that_dwarf_the_others(model):
    with pytest.warns(ulmus.ScaleWarning, match="it dominates all distances"):
        model.fit(X * [1, 1e6, 1], Y)


def test_the_stability_index_is_that_of_the_formula():
    was = profile({"a": X[:, 0], "town": np.array(["Rome", "Oslo"] * 200, dtype=object)})
    assert not drift(was, {"a": X[:, 0], "town": np.array(["Rome", "Oslo"] * 200, dtype=object)})
    moved = X[:, 0] + 1
    (found,) = drift(was, {"a": moved})
    assert found.kind is ulmus.DriftWarning
    edges = np.quantile(X[:, 0], np.linspace(0, 1, 11)[1:-1])
    p = np.array([np.mean(np.digitize(X[:, 0], edges) == k) for k in range(10)])
    q = np.maximum([np.mean(np.digitize(moved, edges) == k) for k in range(10)], 0.5 / N)
    assert f"stability index {np.sum((q - p) * np.log(q / p)):.2f}" in found.text
    assert f"the median was {np.median(X[:, 0]):.4g} and is {np.median(moved):.4g}" in found.text
    (found,) = drift(was, {"town": np.array(["Bern"] * 200, dtype=object)})
    assert "its categories have different frequencies" in found.text
    assert not drift(was, {"a": moved[:50]})  # of few rows one cannot say

"""ENDA from blocks of rows: the answer of all rows at once, classes that come late, and bounded memory."""

import numpy as np
import pytest

from data import classification, rows
from discriminants import PLAIN, incremental
from ulmus import ENDA
from ulmus.models.enda import penalty_by_gcv
from ulmus.statistics import Statistics
from ulmus.streaming import Steps


@incremental
def test_blocks_one_after_the_other_give_what_all_rows_give(features):
    X, y = classification(300, classes=4)
    options = {"scale": 1.0, "landmarks": X[:20], "n_neighbors": 3, **PLAIN}
    whole = ENDA(20, features=features, **options).fit(X, y)
    parts = ENDA(20, features=features, **options)
    for k in range(0, 300, 100):
        parts.partial_fit(X[k : k + 100], y[k : k + 100])
    np.testing.assert_allclose(parts.eigenvalues_, whole.eigenvalues_, rtol=1e-7)
    np.testing.assert_allclose(parts.transform(X), whole.transform(X), atol=1e-7)
    Q = rows(100, 3, seed=4)
    np.testing.assert_allclose(parts.predict_proba(Q), whole.predict_proba(Q), atol=1e-12)


@pytest.mark.parametrize("head", ["knn", "mean"])
def test_a_class_may_come_late(head):
    X, y = classification(300, classes=4)
    late = y == 1
    options = {"scale": 1.0, "head": head, **PLAIN}
    parts = ENDA(20, **options).partial_fit(X[~late], y[~late])
    assert list(parts.classes_) == [0, 2, 3]
    parts.partial_fit(X[late], y[late])
    assert list(parts.classes_) == [0, 1, 2, 3]
    whole = ENDA(20, **options).fit(X, y)
    np.testing.assert_allclose(parts.transform(X), whole.transform(X), atol=1e-7)
    np.testing.assert_array_equal(parts.predict(X), whole.predict(X))


def test_classes_may_be_announced():
    X, y = classification(300, classes=4)
    early = y < 2
    announced = ENDA(20, scale=1.0, n_components=3, **PLAIN).partial_fit(X[early], y[early], classes=[0, 1, 2, 3])
    assert announced.transform(X).shape == (300, 3)
    assert set(announced.predict(X)) <= {0, 1}
    announced.partial_fit(X[~early], y[~early])
    np.testing.assert_allclose(announced.transform(X), ENDA(20, scale=1.0, **PLAIN).fit(X, y).transform(X), atol=1e-7)


def test_after_the_first_block_the_penalty_is_chosen_from_the_sums_alone():
    X, y = classification(400, classes=3)
    auto = ENDA(20, slope=1.0, random_state=0).partial_fit(X[:200], y[:200])
    assert auto.C_ == ENDA(20, slope=1.0, random_state=0).fit(X[:200], y[:200]).C_
    auto.partial_fit(X[200:], y[200:])
    H, T = auto.map_.transform(X), np.eye(3)[y]
    assert penalty_by_gcv(Statistics.of(H, T)) == auto.C_

    def gcv(C):  # n ‖e‖² / (n − tr)², with the smoother written out
        Hc = H - H.mean(axis=0)
        S = Hc @ np.linalg.solve(Hc.T @ Hc + np.eye(20) / C, Hc.T) + 1 / 400
        return 400 * ((T - S @ T) ** 2).sum() / (400 - np.trace(S)) ** 2

    assert gcv(auto.C_) <= 1.001 * min(gcv(C) for C in 2.0 ** np.arange(-10, 26)) * (1 + 1e-6)


@incremental
def test_the_steps_of_a_fit_taken_one_by_one_give_the_fit(features):
    X, y = classification(300, classes=4)
    whole = ENDA(20, features=features, **PLAIN).fit(X, y)
    steps = Steps(ENDA(20, features=features, **PLAIN))
    every = steps.read(X, y)
    steps.begin(every)
    model = steps.finish(steps.summarise(every[:100]) + steps.summarise(every[100:]))
    np.testing.assert_allclose(model.transform(X), whole.transform(X), atol=1e-8)
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    np.testing.assert_array_equal(steps.rows(X[:5], y[:5]).T, np.eye(4)[y[:5]])
    with pytest.raises(ValueError, match=r"labels \[9\] are not among the known classes"):
        steps.rows(X[:2], np.array([0, 9]))


def test_a_driver_may_leave_size_and_penalty_to_the_sums_of_all_rows():
    X, y = classification(2000, classes=3)
    model = ENDA(max_hidden=64, slope=1.0, random_state=0)
    steps = Steps(model)
    rows_ = steps.read(X, y)
    steps.begin(rows_[:300], oversize=True)
    have = steps.plan.features.n_features_out
    steps.finish(steps.summarise(rows_), choose=True)
    assert model.n_hidden_ in model.map_.prefix_sizes()
    assert model.n_hidden_ <= have
    assert model.statistics_.n_rows == 2000
    assert model.score(X, y) > 0.85


def test_rows_kept_for_the_neighbours_are_bounded_and_do_not_depend_on_their_order():
    X, y = classification(300, classes=3)
    options = {"scale": 1.0, "max_references": 50, **PLAIN}
    one = ENDA(20, **options).fit(X, y)
    order = np.random.RandomState(1).permutation(300)
    other = ENDA(20, **options).fit(X[order], y[order])
    assert one.head_.references.shape == (50, 2)
    np.testing.assert_allclose(one.head_.references, other.head_.references, atol=1e-8)
    assert one.statistics_.n_rows == 300
    parts = ENDA(20, **options).partial_fit(X[:150], y[:150]).partial_fit(X[150:], y[150:])
    np.testing.assert_allclose(parts.head_.references, one.head_.references, atol=1e-8)

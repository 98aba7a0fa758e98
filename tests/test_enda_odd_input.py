"""The discriminant models and odd input: it works, or an error says why not."""

import numpy as np
import pytest

from data import classification, rows
from discriminants import PLAIN, model, models, quiet
from ulmus import ENDA, KLDA, NumericalWarning, engine


@models
def test_one_class_is_refused(name):
    with pytest.raises(ValueError, match="at least two classes"):
        model(name).fit(rows(20, 3), np.zeros(20))


@models
def test_more_components_than_classes_allow_are_refused(name):
    X, y = classification(60, classes=3)
    with pytest.raises(ValueError, match="n_components=3 is too many: 3 classes have at most 2"):
        model(name, n_components=3).fit(X, y)


@quiet
@models
def test_a_class_of_one_row_works(name):
    X, y = classification(60, classes=3)
    y[y == 2] = 1
    y[7] = 2
    fitted = model(name).fit(X, y)
    assert np.isfinite(fitted.transform(X)).all()
    assert set(fitted.predict(X)) <= {0, 1, 2}


@quiet
@models
def test_a_constant_feature_changes_nothing_and_constant_rows_do_not_break_the_fit(name):
    X, y = classification(60)
    fitted = model(name).fit(np.column_stack([X, np.ones(60)]), y)
    assert np.isfinite(fitted.transform(np.column_stack([X, np.ones(60)]))).all()
    nothing = model(name).fit(np.ones((60, 2)), y)
    assert np.isfinite(nothing.transform(np.ones((60, 2)))).all()
    assert set(nothing.predict(np.ones((60, 2)))) <= {0, 1, 2}


@quiet
@pytest.mark.parametrize("C", [1.0, 2.0**20, "auto"])
def test_rows_that_are_all_equal_have_no_coordinates(C):
    y = np.arange(60) % 3
    for constant in (KLDA(C=C, random_state=0), ENDA(20, C=C, random_state=0)):
        fitted = constant.fit(np.ones((60, 2)), y)
        np.testing.assert_allclose(fitted.transform(np.ones((5, 2))), 0.0, atol=1e-6)
        np.testing.assert_allclose(fitted.eigenvalues_, 0.0, atol=1e-9)


@quiet
@pytest.mark.parametrize("C", [1.0, 2.0**30, "auto", None])
def test_more_nodes_than_rows_work(C):
    X, y = classification(30)
    fitted = ENDA(200, slope=1.0, C=C, random_state=0).fit(X, y)
    assert np.isfinite(fitted.transform(X)).all()
    assert fitted.score(X, y) > 0.6


def test_without_a_penalty_a_singular_scatter_is_reported():
    X, y = classification(30)
    with pytest.warns(NumericalWarning, match="within-class scatter is singular"):
        ENDA(200, slope=1.0, C=None, random_state=0).fit(X, y)


@quiet
def test_fewer_nodes_than_directions_work():
    X, y = classification(100, classes=5)
    fitted = ENDA(2, **PLAIN).fit(X, y)
    assert fitted.transform(X).shape == (100, 4)
    assert np.count_nonzero(fitted.eigenvalues_) == 2


@quiet
@pytest.mark.parametrize("head", ["knn", "mean"])
def test_two_rows_are_enough(head):
    fitted = ENDA(5, head=head, random_state=0).fit([[0.0], [1.0]], [0, 1])
    np.testing.assert_array_equal(fitted.predict([[0.0], [1.0]]), [0, 1])


def test_klda_says_what_it_would_need_before_it_allocates(monkeypatch):
    monkeypatch.setattr(engine, "physical_memory", lambda: 2**30)
    X = np.zeros((20_000, 1))
    with pytest.raises(MemoryError, match=r"KLDA of 20000 rows needs 3\.0 GiB .* has 1\.0 GiB; use ENDA"):
        KLDA(gamma=1.0, C=1.0).fit(X, np.arange(20_000) % 2)


def test_sigma_and_gamma_together_are_refused():
    X, y = classification(30)
    with pytest.raises(ValueError, match="sigma is the width of the Gaussian kernel in place of gamma"):
        KLDA(sigma=1.0, gamma=1.0).fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": -1.0}, "'C' parameter"),
        ({"features": "fourier"}, "'features' parameter"),
        ({"head": "tree"}, "'head' parameter"),
        ({"n_neighbors": 0}, "'n_neighbors' parameter"),
        ({"n_components": 0}, "'n_components' parameter"),
    ],
)
def test_parameters_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ENDA(**options).fit(*classification(30))

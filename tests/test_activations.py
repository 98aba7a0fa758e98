"""Activations against their definitions."""

import numpy as np
import pytest

import reference
from ulmus import RandomLayer
from ulmus.features.activations import ACTIVATIONS


def test_every_activation_has_a_reference():
    assert set(ACTIVATIONS) == set(reference.ACTIVATIONS)


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-14), (np.float32, 1e-5)])
def test_activation_equals_its_definition(name, dtype, tolerance):
    a = np.concatenate([np.linspace(-6, 6, 101), [0.0, -30.0, 30.0, 1e-3]]).astype(dtype)
    A = np.tile(a, (2, 1))
    ACTIVATIONS[name].apply(A)
    assert A.dtype == dtype
    expected = reference.activate(name, a)
    np.testing.assert_allclose(A, np.tile(expected, (2, 1)), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", [name for name, a in ACTIVATIONS.items() if a.bounded])
def test_bounded_activations_stay_bounded_and_finite(name):
    A = np.array([[-1e300, -1e10, -800.0, 0.0, 800.0, 1e10, 1e300]])
    with np.errstate(over="ignore"):
        ACTIVATIONS[name].apply(A)
    assert np.isfinite(A).all()
    assert np.abs(A).max() <= 1.0 + 1e-15


@pytest.mark.parametrize("name", [name for name, a in ACTIVATIONS.items() if a.steep])
def test_steep_forms_have_the_digits_of_one_and_the_same_limits(name):
    a = np.concatenate([np.linspace(-30, 30, 2001), [-1e300, -800.0, 800.0, 1e300, np.inf, -np.inf]])
    A, expected = a[None].copy(), a[None].copy()
    with np.errstate(over="ignore"):
        ACTIVATIONS[name].steep(A)
    ACTIVATIONS[name].apply(expected)
    np.testing.assert_allclose(A, expected, rtol=0, atol=5e-16)


def test_layers_near_zero_keep_their_digits():
    X = np.random.RandomState(0).normal(size=(200, 3))
    layer = RandomLayer(20, slope=1e-8, random_state=0).fit(X)
    expected = np.tanh((X - layer.mean_) @ layer.weights_ + (layer.biases_ + layer.mean_ @ layer.weights_))
    np.testing.assert_allclose(layer.transform(X), expected, rtol=1e-11)

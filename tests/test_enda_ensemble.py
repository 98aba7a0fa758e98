"""The ensemble: its weights are the optimum of the convex programme, its picture the agreement of its members."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import ortho_group

from data import cases, classification, rows
from ulmus import ENDA, ENDAEnsemble, datasets
from ulmus.solvers.convex import combine, error_products
from ulmus.solvers.procrustes import align, distance

FIXED = ENDA(25, slope=1.0, C=4.0)


def errors(seed, members=6, outputs=40):
    """Errors of members of different quality that have something in common."""
    rng = np.random.RandomState(seed)
    return rng.uniform(0.5, 2, (members, 1)) * (rng.normal(size=(members, outputs)) + rng.normal(size=outputs))


def objective(a, S, kappa):
    return kappa * a @ S @ a + (1 - kappa) * a @ np.diag(S)


@given(st.integers(0, 2**31 - 1), st.sampled_from([0.05, 0.5, 1.0, 2.0, 5.0]))
def test_weights_are_the_optimum_of_the_convex_programme(seed, kappa):
    E = errors(seed)
    S = E @ E.T
    a = combine(S, kappa)
    assert a.min() >= 0
    assert a.sum() == pytest.approx(1)
    # a convex programme over the simplex: at the optimum no vertex lies downhill
    slope = 2 * kappa * S @ a + (1 - kappa) * np.diag(S)
    assert (slope - slope @ a).min() > -1e-6 * np.abs(slope).max()


def test_weights_agree_with_a_general_solver():
    S = errors(0) @ errors(0).T
    for kappa in (0.5, 1.0, 3.0):
        simplex = {"type": "eq", "fun": lambda a: a.sum() - 1}
        given = minimize(
            objective, np.full(6, 1 / 6), (S, kappa), "SLSQP", bounds=[(0, 1)] * 6, constraints=simplex, tol=1e-14
        )
        np.testing.assert_allclose(combine(S, kappa), given.x, atol=1e-4)


def test_error_of_a_combination_is_accuracy_less_diversity():
    rng = np.random.RandomState(0)
    P, Y = rng.dirichlet(np.ones(3), (4, 20)), np.eye(3)[rng.randint(3, size=20)]
    a = rng.dirichlet(np.ones(4))
    mean = np.tensordot(a, P, axes=1)
    accuracy = sum(w * ((Y - p) ** 2).sum() for w, p in zip(a, P))
    diversity = sum(w * ((p - mean) ** 2).sum() for w, p in zip(a, P))
    E = (P - Y).reshape(4, -1)
    assert ((Y - mean) ** 2).sum() == pytest.approx(accuracy - diversity) == pytest.approx(a @ E @ E.T @ a)


def test_less_diversity_prunes_more_until_the_best_member_is_left():
    E = errors(1, members=10)
    S = E @ E.T
    kept = [np.count_nonzero(combine(S, kappa) > 1e-9) for kappa in (5.0, 1.0, 0.1, 0.0)]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] > 1
    np.testing.assert_array_equal(combine(S, 0.0), np.eye(10)[np.diag(S).argmin()])
    np.testing.assert_allclose(combine(S, 1e-3), combine(S, 0.0), atol=1e-9)


def test_equal_members_share_and_perfect_members_share_alike():
    E = np.tile(errors(0)[:1], (3, 1))
    np.testing.assert_allclose(combine(E @ E.T, 1.0), 1 / 3, atol=1e-4)
    np.testing.assert_allclose(combine(np.zeros((4, 4)), 1.0), 0.25)


def test_products_of_errors_are_shrunk_by_the_share_that_chance_explains(monkeypatch):
    rng = np.random.RandomState(0)
    E, mass = rng.normal(size=(5, 40, 3)) + rng.normal(size=(40, 3)), rng.uniform(0.5, 2, 40)
    m = mass / mass.sum()
    P = np.einsum("qic,ric->iqr", E, E)
    S = np.tensordot(m, P, axes=1)
    np.testing.assert_allclose(error_products(E, mass, 0.0)[0], S)
    # towards one value on the diagonal and one beside it
    T, one = error_products(E, mass, 1.0)
    own = np.eye(5, dtype=bool)
    np.testing.assert_allclose(T[own], np.diag(S).mean())
    np.testing.assert_allclose(T[~own], S[~own].mean())
    assert one == 1.0
    np.testing.assert_allclose(combine(T, 1.0), 0.2)
    # the variance of the entries of S - T over rows, against their squares
    D = P - np.where(own, P[:, own].mean(axis=1)[:, None, None], P[:, ~own].mean(axis=1)[:, None, None])
    mean = np.tensordot(m, D, axes=1)
    chance = (m[:, None, None] ** 2 * (D**2 - mean**2)).sum()
    mixed, delta = error_products(E, mass)
    assert delta == pytest.approx(min(1.0, chance / (mean**2).sum()))
    np.testing.assert_allclose(mixed, delta * T + (1 - delta) * S)
    monkeypatch.setattr("ulmus.solvers.convex.PIECE_ROWS", 7)
    np.testing.assert_allclose(error_products(E, mass)[0], mixed)


def test_members_that_differ_by_chance_share_alike_and_better_ones_get_more():
    rng = np.random.RandomState(0)
    E, mass = rng.normal(size=(6, 400, 2)) + 2 * rng.normal(size=(400, 2)), np.ones(400)
    S, delta = error_products(E, mass)
    assert delta > 0.7
    measured = error_products(E, mass, 0.0)[0]
    assert np.abs(combine(S, 1.0) - 1 / 6).max() < 0.5 * np.abs(combine(measured, 1.0) - 1 / 6).max()
    E[0] *= 0.3
    S, delta = error_products(E, mass)
    assert delta < 0.05
    assert combine(S, 1.0)[0] > 0.6
    S, delta = error_products(E[:1], mass)
    assert delta == 1.0
    assert S.shape == (1, 1)


def test_copies_are_shrunk_as_weights_are():
    X, y = classification(120, classes=3)
    weight = np.random.RandomState(0).randint(1, 4, 120)
    again = np.repeat(np.arange(120), weight)
    weighed = ENDAEnsemble(FIXED, 4, random_state=0).fit(X, y, weight)
    copied = ENDAEnsemble(FIXED, 4, random_state=0).fit(X[again], y[again])
    assert 0 < weighed.shrinkage_ == pytest.approx(copied.shrinkage_)
    np.testing.assert_allclose(weighed.member_weights_, copied.member_weights_, atol=1e-9)


def test_turned_copies_are_turned_back():
    Z = rows(50, 3)
    Z -= Z.mean(axis=0)
    turned = np.stack([Z @ ortho_group.rvs(3, random_state=s) for s in range(5)])
    together = turned @ align(turned, np.full(5, 0.2), np.ones(50))
    np.testing.assert_allclose(together, np.broadcast_to(together[0], together.shape), atol=1e-10)
    scatter = together[0].T @ together[0]
    np.testing.assert_allclose(scatter, np.diag(np.sort(np.diag(scatter))[::-1]), atol=1e-9)


def test_procrustes_distance_ignores_place_size_and_turn():
    Z = rows(50, 3)
    assert distance(Z, 2 * Z @ ortho_group.rvs(3, random_state=0) + 1) == pytest.approx(0, abs=1e-12)
    assert distance(Z, rows(50, 3, seed=1)) > 0.8


def test_probabilities_are_the_weighted_mean_of_the_members():
    X, y = classification(120, classes=4)
    model = ENDAEnsemble(FIXED, 4, random_state=0).fit(X, y)
    kept = model.member_weights_[model.member_weights_ > 0]
    expected = sum(a * member.predict_proba(X) for a, member in zip(kept, model.members_, strict=True))
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-12)
    assert len(model.member_weights_) == 4


def test_one_member_projects_as_it_does_alone():
    X, y = classification(120, classes=4)
    model = ENDAEnsemble(FIXED, 1, random_state=0).fit(X, y)
    assert distance(model.transform(X), model.members_[0].transform(X)) < 1e-12


def test_members_are_pruned_and_never_do_worse_on_the_rows_that_chose_them():
    X, y = classification(300, classes=4)
    errors_ = {}
    for kappa in (0.0, 1.0):
        model = ENDAEnsemble(FIXED, 6, kappa=kappa, shrinkage=0.0, random_state=0).fit(X, y)
        errors_[kappa] = model.held_out_error_
        assert len(model.members_) == np.count_nonzero(model.member_weights_)
    assert errors_[1.0] <= errors_[0.0]
    assert len(ENDAEnsemble(FIXED, 6, kappa=0.0, random_state=0).fit(X, y).members_) == 1


def test_what_is_left_open_is_chosen_once_for_all_members():
    wine = datasets.load("wine")
    model = ENDAEnsemble(ENDA(max_hidden=64), 3, kappa=5.0, random_state=0).fit(wine.data, wine.target)
    assert len({(m.n_hidden_, m.slope_, m.C_) for m in model.members_}) == 1
    assert len({tuple(m.map_.weights_[0]) for m in model.members_}) == len(model.members_) > 1


@pytest.mark.parametrize("count", cases([2, 6]))
def test_two_ensembles_agree_far_better_than_two_single_models(count):
    wine = datasets.load("wine")
    single = [ENDA(30, slope=1.0, C=4.0, random_state=s).fit(wine.data, wine.target) for s in range(count)]
    several = [
        ENDAEnsemble(ENDA(30, slope=1.0, C=4.0), 10, kappa=2.0, random_state=s).fit(wine.data, wine.target)
        for s in range(count)
    ]

    def apart(models):
        Z = [model.transform(wine.data) for model in models]
        return np.mean([distance(Z[i], Z[i + 1]) for i in range(0, count, 2)])

    assert apart(several) < 0.5 * apart(single)


def test_more_components_than_the_members_have_are_refused():
    X, y = classification(100, classes=4)
    with pytest.raises(ValueError, match="n_components=3 is more than the 2 directions of the members"):
        ENDAEnsemble(ENDA(20, n_components=2, slope=1.0, C=1.0), 2, n_components=3, random_state=0).fit(X, y)
    model = ENDAEnsemble(ENDA(20, slope=1.0, C=1.0), 2, n_components=2, random_state=0).fit(X, y)
    assert model.transform(X).shape == (100, 2)


def test_members_must_be_enda_models():
    with pytest.raises(ValueError, match="'estimator' parameter"):
        ENDAEnsemble("ENDA").fit(*classification(30))

"""Rows that leave log models by a Newton step, and ordinal ones in closed form, beside real refits."""

from dataclasses import replace

import numpy as np
import pytest

from ulmus import (
    AdaptiveClassifier,
    AdaptiveOrdinalClassifier,
    ELMClassifier,
    ELMOrdinalClassifier,
    KELMClassifier,
    KELMOrdinalClassifier,
    NKELMClassifier,
    NKELMOrdinalClassifier,
)

RNG = np.random.RandomState(0)
X = RNG.normal(size=(80, 3))
LATENT = np.sin(2 * X[:, 0]) + X[:, 1] + 0.4 * RNG.normal(size=80)
CLASSES = np.digitize(LATENT, [-0.7, 0.7])
TWO = CLASSES > 0
NEW = RNG.normal(size=(6, 3))
LANDMARKS = X[::3] + 0.01
WEIGHT = RNG.choice([0.5, 1.0, 2.0], size=80)
KERNEL = {"gamma": 0.4, "C": 2.0}
NODES = {"C": 2.0, "scale": 1.0, "slope": 1.0, "random_state": 0}


def scores(model, rows):
    """Log-odds, or bits, as the model has them."""
    found = model.explain(rows, rows[:1])
    return found.values.sum(axis=1) + found.base_values


def effects_of_refits(make, y, weight):
    model = make().fit(X, y, sample_weight=weight)
    out = []
    for i in range(0, 80, 8):
        without = np.ones(80) if weight is None else weight.copy()
        without[i] = 0.0
        out.append(scores(model, NEW) - scores(make().fit(X, y, sample_weight=without), NEW))
    return model, np.stack(out, axis=1)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: NKELMClassifier(20, landmarks=LANDMARKS, loss="log", **KERNEL),
        lambda: KELMClassifier(loss="log", **KERNEL),
        lambda: ELMClassifier(15, loss="log", **NODES),
    ],
    ids=["nkelm", "kelm", "elm"],
)
def test_a_newton_step_of_two_classes_is_near_the_refit(make, weight):
    model, real = effects_of_refits(make, TWO, weight)
    step = model.influences(NEW, X, TWO, weight)[:, ::8]
    assert np.abs(step - real).max() < 0.1 * np.abs(real).max()
    assert np.corrcoef(step.ravel(), real.ravel())[0, 1] > 0.99


def test_a_newton_step_of_several_classes_points_where_the_refit_goes():
    model, real = effects_of_refits(
        lambda: NKELMClassifier(20, landmarks=LANDMARKS, loss="log", **KERNEL), CLASSES, None
    )
    step = model.influences(NEW, X, CLASSES)[:, ::8]
    assert step.shape == real.shape == (6, 10, 3)
    centred = [a - a.mean(axis=2, keepdims=True) for a in (step, real)]  # softmax knows differences of scores alone
    assert np.corrcoef(centred[0].ravel(), centred[1].ravel())[0, 1] > 0.95


@pytest.mark.parametrize(
    "make",
    [
        lambda: NKELMOrdinalClassifier(20, landmarks=LANDMARKS, **KERNEL),
        lambda: KELMOrdinalClassifier(**KERNEL),
        lambda: ELMOrdinalClassifier(15, **NODES),
    ],
    ids=["nkelm", "kelm", "elm"],
)
def test_rows_leave_ordinal_models_exactly(make):
    model, real = effects_of_refits(make, CLASSES, None)
    np.testing.assert_allclose(model.influences(NEW, X, CLASSES)[:, ::8], real, atol=1e-8)


def test_bits_by_the_logistic_loss_leave_by_a_step():
    model, real = effects_of_refits(
        lambda: NKELMOrdinalClassifier(20, landmarks=LANDMARKS, loss="logistic", **KERNEL), CLASSES, None
    )
    step = model.influences(NEW, X, CLASSES)[:, ::8]
    assert np.abs(step - real).max() < 0.12 * np.abs(real).max()


def test_reasons_of_ordinal_models_are_those_of_classes_that_are_reached():
    model = NKELMOrdinalClassifier(20, random_state=0, **KERNEL).fit(X, CLASSES)
    told = model.explain(NEW, X[:20])
    assert told.values.shape == (6, 3, 2)
    assert list(told.output_names) == ["≥ 1", "≥ 2"]
    two = NKELMOrdinalClassifier(20, random_state=0, **KERNEL).fit(X, TWO.astype(int))
    told = two.explain(NEW, X[:20])
    np.testing.assert_allclose(told.values.sum(axis=1) + told.base_values, two.decision_function(NEW), atol=1e-9)


def test_reasons_of_log_models_are_log_odds():
    model = AdaptiveClassifier(effort="fast", random_state=0).fit(X, TWO)
    told = model.explain(NEW, X[:20])
    np.testing.assert_allclose(told.values.sum(axis=1) + told.base_values, model.decision_function(NEW), atol=1e-8)


def test_row_values_are_the_losses_of_rows_left_out():
    model = NKELMClassifier(20, landmarks=LANDMARKS, loss="log", **KERNEL).fit(X, TWO)
    values = model.row_values(X, TWO)
    own = np.full(80, np.nan)
    for i in range(0, 80, 4):
        others = np.arange(80) != i
        without = NKELMClassifier(20, landmarks=LANDMARKS, loss="log", **KERNEL).fit(X[others], TWO[others])
        p = model.fitted_.certainty.probabilities(np.column_stack([-(f := without.decision_function(X[[i]])), f]))
        own[i] = -np.log(p[0, int(TWO[i])])
    # the lowest values are those of rows that the others do not expect
    assert np.corrcoef(values[::4], -own[::4])[0, 1] > 0.9


@pytest.mark.parametrize(
    "make",
    [
        lambda: NKELMClassifier(60, loss="log", gamma=0.2, C=1.0, random_state=0),
        lambda: KELMOrdinalClassifier(random_state=0),
        lambda: AdaptiveOrdinalClassifier(effort="fast", random_state=0),
        lambda: AdaptiveClassifier(effort="fast", random_state=0),
    ],
    ids=["log", "ordinal", "adaptive ordinal", "adaptive log"],
)
def test_mislabelled_rows_have_the_lowest_values(make):
    rng = np.random.RandomState(1)
    rows = rng.normal(size=(200, 2))
    labels = (rows[:, 0] + rows[:, 1] > 0).astype(int)
    flipped = rng.choice(np.flatnonzero(np.abs(rows.sum(axis=1)) > 1.5), 10, replace=False)
    labels[flipped] = 1 - labels[flipped]
    worst = np.argsort(make().fit(rows, labels).row_values(rows, labels))[:10]
    assert len(np.intersect1d(worst, flipped)) >= 8


def test_rows_of_log_models_that_are_nearly_certain_are_known_again():
    rng = np.random.RandomState(3)
    rows = rng.uniform(0.1, 1, (600, 1))
    labels = np.digitize(rows[:, 0] * np.exp(0.1 * rng.normal(size=600)), [0.25, 0.5])
    model = AdaptiveClassifier(effort="fast", random_state=0).fit(rows, labels)  # scores may go far, shares may not
    assert model.local_ is None
    assert np.abs(model.influences(rows[:3], rows, labels)).max() > 0
    with pytest.raises(ValueError, match="not those that the model was fitted to"):
        model.influences(rows[:3], rows[:300], labels[:300])


def test_local_stages_of_a_log_loss_and_other_rows_are_refused():
    model = NKELMClassifier(20, landmarks=LANDMARKS, loss="log", **KERNEL).fit(X, TWO)
    with pytest.raises(ValueError, match="not those that the model was fitted to"):
        model.influences(NEW, X, ~TWO)
    local = AdaptiveClassifier(effort="fast", random_state=0).fit(X, TWO)
    local.fitted_ = replace(local.fitted_, weights=replace(local.fitted_.weights, local=object()))
    with pytest.raises(ValueError, match="has a local stage behind it"):
        local.influences(NEW, X, TWO)

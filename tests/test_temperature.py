"""Probabilities: a temperature that outliers do not move, over a floor at the frequencies of the classes."""

import warnings

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import log_loss

from data import cases
from ulmus import ELMClassifier, KELMClassifier, NKELMClassifier, NumericalWarning
from ulmus.calibration import fit_temperature, probabilities


def scored(rng, n=400, a=3.0, classes=4):
    """Scores, and labels that are drawn from softmax(a · scores)."""
    scores = rng.normal(size=(n, classes))
    P = softmax(a * scores, axis=1)
    return scores, (P.cumsum(axis=1) > rng.uniform(size=(n, 1))).argmax(axis=1)


def frequencies_loss(y, weight=None):
    share = np.bincount(y, weight) / (len(y) if weight is None else weight.sum())
    return -float(np.sum(share[share > 0] * np.log(share[share > 0])))


def test_temperature_and_share_are_the_most_likely_ones():
    rng = np.random.RandomState(0)
    scores, y = scored(rng)
    y[:120] = rng.randint(4, size=120)
    w = rng.uniform(0.5, 3.0, 400)
    a, floor = fit_temperature(scores, y, w)
    frequency = floor / floor.sum()

    def loss(a, share):
        P = share * frequency + (1 - share) * softmax(a * scores, axis=1)
        return -np.average(np.log(P[np.arange(400), y]), weights=w)

    tried = [loss(b, share) for b in np.geomspace(0.01, 100, 60) for share in np.linspace(1 / w.sum(), 1, 60)]
    assert loss(a, floor.sum()) <= min(tried)
    np.testing.assert_allclose(frequency, np.bincount(y, w) / w.sum(), atol=1 / 400)


def test_the_temperature_of_clean_scores_is_found_whatever_their_unit():
    scores, y = scored(np.random.RandomState(1), n=4000)
    for unit in (1e-12, 1.0, 1e9):
        a, floor = fit_temperature(unit * scores, y, np.ones(4000))
        assert a * unit == pytest.approx(3.0, rel=0.1)
        assert floor.sum() < 0.05


def test_scores_that_are_far_off_do_not_move_the_temperature():
    rng = np.random.RandomState(2)
    scores, y = scored(rng, n=1000)
    clean, _ = fit_temperature(scores, y, np.ones(1000))
    scores[:50] *= 1e4
    y[:50] = scores[:50].argmin(axis=1)
    a, floor = fit_temperature(scores, y, np.ones(1000))
    assert a == pytest.approx(clean, rel=0.3)  # softmax alone: 0.001
    assert 0.04 < floor.sum() < 0.2


@pytest.mark.parametrize("seed", range(5))
def test_log_loss_on_the_rows_that_score_is_never_above_that_of_the_frequencies(seed):
    rng = np.random.RandomState(seed)
    n, classes = rng.randint(8, 200), rng.randint(2, 12)
    y = np.append(np.arange(classes), rng.choice(classes, n, p=rng.dirichlet(np.full(classes, 0.3))))
    scores = rng.standard_t(1, size=(len(y), classes)) * 10.0 ** rng.randint(-5, 6)
    w = rng.randint(1, 4, len(y)).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        a, floor = fit_temperature(scores, y, w)
    P = floor + (1 - floor.sum()) * softmax(a * scores, axis=1)
    loss = log_loss(y, P, sample_weight=w, labels=range(classes))
    # frequencies are those of one row more, which is of every class
    assert loss <= frequencies_loss(y, w) + np.log1p(1 / w.sum())


def test_scores_that_say_nothing_are_warned_of():
    rng = np.random.RandomState(3)
    scores, y = rng.normal(size=(300, 3)), np.repeat([0, 0, 0, 1, 2], 60)
    scores[np.arange(300), y] -= 2.0  # wrong more often than not
    with pytest.warns(NumericalWarning, match="no more informative than the class frequencies"):
        _, floor = fit_temperature(scores, y, np.ones(300))
    np.testing.assert_allclose(floor, [0.6, 0.2, 0.2], atol=0.01)
    with pytest.warns(NumericalWarning, match="no more informative than the class frequencies"):
        fit_temperature(np.zeros((300, 3)), y, np.ones(300))


def test_a_weight_counts_as_copies():
    rng = np.random.RandomState(4)
    scores, y = scored(rng, n=80)
    w = rng.randint(1, 5, 80)
    a, floor = fit_temperature(scores, y, w.astype(float))
    b, copied = fit_temperature(np.repeat(scores, w, axis=0), np.repeat(y, w), np.ones(w.sum()))
    assert a == pytest.approx(b, rel=1e-4)
    np.testing.assert_allclose(floor, copied, rtol=1e-4)


def test_so_does_one_of_rows_of_balanced_classes_where_right_rows_weigh_less_than_their_number():
    rng = np.random.RandomState(0)
    y = np.repeat([0, 1], [50, 16])
    side = np.where(y == 0, 1.0, -1.0) * rng.uniform(0.5, 2.0, 66)
    side[-6:] *= -5.0  # of the few, some are far on the other side
    scores = np.column_stack([side, -side])
    count = rng.randint(1, 4, 66)
    total = np.bincount(y, count)
    balanced = total.sum() / (2 * total)[y]
    by_weight = fit_temperature(scores, y, count * balanced)
    copied = fit_temperature(*(np.repeat(a, count, axis=0) for a in (scores, y, balanced)))
    np.testing.assert_allclose(by_weight[0], copied[0], rtol=1e-6)
    np.testing.assert_allclose(by_weight[1], copied[1], rtol=1e-6)


def test_the_class_of_the_largest_score_is_the_most_probable_one():
    rng = np.random.RandomState(5)
    scores = rng.normal(size=(500, 4))
    for share in (0.0, 0.3, 1.0):
        P = probabilities(scores, 1.5, share * np.array([0.85, 0.1, 0.04, 0.01]))
        np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_array_equal(P.argmax(axis=1), scores.argmax(axis=1))


@pytest.mark.parametrize("make", [ELMClassifier, KELMClassifier, NKELMClassifier])
@pytest.mark.parametrize("seed", cases([0, 3, 5], 0))
def test_rare_marks_do_not_make_all_classes_equally_probable(make, seed):
    rng = np.random.RandomState(seed)
    X = np.column_stack([rng.normal(size=(800, 5)), rng.uniform(size=(800, 40)) < 0.006])
    y = np.digitize(X[:, 0] + 0.5 * X[:, 1], [-0.8, -0.2, 0.4, 1.0])
    deviation = X[:400].std(axis=0)
    X = (X - X[:400].mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    model = make(random_state=0).fit(X[:400], y[:400])
    P = model.predict_proba(X[400:])
    # confidence was 0.21 for an accuracy of 0.5 to 0.6
    assert P.max(axis=1).mean() == pytest.approx(model.score(X[400:], y[400:]), abs=0.1)
    assert log_loss(y[400:], P) < 0.85 * frequencies_loss(y[:400])


def test_rows_that_are_right_beyond_all_measure_do_not_make_others_unsure():
    rng = np.random.RandomState(0)
    scores, true = rng.normal(size=(400, 3)), rng.choice(3, 400)
    scores[np.arange(400), true] += 2.0
    plain, _ = fit_temperature(scores, true, np.ones(400))
    sure = scores.copy()
    sure[np.arange(5), true[:5]] = 1e5
    told, floor = fit_temperature(sure, true, np.ones(400))
    assert told == pytest.approx(plain, rel=0.1)
    assert floor.sum() < 0.1


def test_a_rare_class_among_noise_costs_no_more_than_its_frequency():
    rng = np.random.RandomState(6)
    X, y = rng.normal(size=(1500, 8)), rng.choice(4, 1500, p=[0.52, 0.4, 0.06, 0.02])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        model = NKELMClassifier(random_state=0).fit(X[:500], y[:500])
    share = np.bincount(y[:500]) / 500
    least = -np.log(share[y[500:]]).mean()
    assert log_loss(y[500:], model.predict_proba(X[500:])) < least + 0.03


@pytest.mark.parametrize("n", [20, 200, 2000])
@pytest.mark.parametrize("classes", [2, 5])
def test_where_no_row_is_wrong_the_chance_of_an_error_is_that_of_half_a_row(n, classes):
    """All rows alike: P(another class) is 1/(2n + 2), not 0, but for the floor."""
    y = np.arange(n) % classes
    scores = np.where(y[:, None] == np.arange(classes), 1.0, -1.0)
    a, _ = fit_temperature(scores, y, np.ones(n))
    wrong = 1 - softmax(a * scores, axis=1)[np.arange(n), y]
    np.testing.assert_allclose(wrong, 1 / (2 * n + 2), rtol=1e-6)
    assert a < np.log((2 * n + 2.0) * classes)  # without the bound: as large as the search goes


def test_the_bound_of_the_temperature_is_that_of_platts_targets_on_rows_that_are_right():
    rng = np.random.RandomState(3)
    margin = rng.uniform(0.2, 2.0, 300)
    y = rng.randint(2, size=300)
    scores = np.column_stack([-margin, margin]) * np.where(y == 1, 1.0, -1.0)[:, None]
    a, _ = fit_temperature(scores, y, np.ones(300))
    target, tried = 1 - 1 / 602, np.linspace(0.5, 1.5, 2001)

    def loss(b):
        p = 1 / (1 + np.exp(-2 * b * margin))
        return -(target * np.log(p) + (1 - target) * np.log1p(-p)).mean()

    assert a == pytest.approx(a * tried[np.argmin([loss(a * t) for t in tried])], rel=1e-3)


def test_a_test_row_that_is_wrong_costs_less_where_the_scoring_rows_were_all_right():
    """Margins of some rows are small: after 500 right ones, a wrong one among them is no wonder."""
    rng = np.random.RandomState(4)
    margin, y = rng.beta(6, 1.5, 500), rng.randint(2, size=500)
    scores = np.column_stack([-margin, margin]) * np.where(y == 1, 1.0, -1.0)[:, None]
    a, floor = fit_temperature(scores, y, np.ones(500))
    wrong = probabilities(np.array([[0.1, -0.1]]), a, floor)[0, 1]
    assert wrong > 0.1

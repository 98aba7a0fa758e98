"""Rows taken out again, models put together, landmarks that come later: exactly, or with an error that says why."""

import copy
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import fixed
import reference
import ulmus
from data import relative_error
from streams import GIVEN, LABELS, WEIGHT, X, Y, streamed
from ulmus import OSELMClassifier, OSELMRegressor, streaming


def through_a_file(model):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.ulmus"
        ulmus.save(model, path)
        return ulmus.load(path)


# Unlearning and merging

LEARNERS = [
    *[lambda form=form: OSELMRegressor(15, form=form, **GIVEN) for form in ("root", "covariance", "information")],
    lambda: fixed.ELMRegressor(C=100.0, random_state=0),
    lambda: fixed.NKELMRegressor(C=100.0, fit_intercept=True, random_state=0),
]


@pytest.mark.parametrize("make", LEARNERS)
def test_unlearning_equals_a_fit_without_the_rows(make):
    gone, left = np.arange(50, 150), np.r_[0:50, 150:700]
    model = streamed(make(), Y, [200] * 3, WEIGHT)
    model.unlearn(X[gone], Y[gone], WEIGHT[gone])
    Phi = model.map_.transform(X)
    beta, b = reference.ridge(Phi[left], Y[left], 100.0, WEIGHT[left], model._intercept)
    assert relative_error(model.predict(X), (Phi @ beta + b)[:, 0]) <= 1e-8
    sample = model.stream_.memory.rows(1.0)
    assert not any((x == sample.X).all(axis=1).any() for x in X[gone])


@pytest.mark.parametrize("make", LEARNERS)
def test_unlearning_twice_or_what_was_never_learned_is_refused_and_changes_nothing(make):
    model = streamed(make(), Y, [200] * 3)
    model.unlearn(X[:10], Y[:10])
    before = model.predict(X)
    with pytest.raises(ValueError, match="never learned"):
        model.unlearn(X[5:15], Y[5:15])
    with pytest.raises(ValueError, match="never learned"):
        model.unlearn(X[20:21], Y[20:21] + 1)
    with pytest.raises(ValueError, match="never learned"):
        model.unlearn(X[20:21], Y[20:21], [2.0])
    assert (model.predict(X) == before).all()


def test_oselm_remembers_the_rows_of_a_fit():
    model = OSELMRegressor(15, **GIVEN).fit(X, Y).unlearn(X[:5], Y[:5])
    H = model.map_.transform(X)
    assert relative_error(model.predict(X), (H @ reference.ridge(H[5:], Y[5:], 100.0)[0])[:, 0]) <= 1e-8
    with pytest.raises(ValueError, match="never learned"):
        model.unlearn(X[:1], Y[:1])


FITTED = {
    "ELM": (lambda: fixed.ELMRegressor(C=100.0, random_state=0), Y),
    "ELM, classes": (lambda: fixed.ELMClassifier(C=100.0, class_weight={0: 1, 1: 2, 2: 1}, random_state=0), LABELS),
    "NKELM": (lambda: fixed.NKELMRegressor(C=100.0, fit_intercept=True, random_state=0), Y),
    "NKELM, ordered": (lambda: ulmus.NKELMOrdinalClassifier(20, gamma=1.0, C=100.0, random_state=0), LABELS),
    "OSELM": (lambda: OSELMRegressor(15, **GIVEN), Y),
}


def later(y):
    """A target that is not the row's."""
    return y + 1.0 if y is Y else (y + 1) % 3


@pytest.mark.parametrize("name", FITTED)
@pytest.mark.parametrize("kind", ["float64", "float32", "csr"])
def test_rows_of_a_fit_are_remembered_too(name, kind):
    """Unlearned exactly, refused when they were never learned, twice unlearned, or weigh something else."""
    make, y = FITTED[name]
    inputs = sparse.csr_array(X) if kind == "csr" else X.astype(kind)
    model = make().fit(inputs, y, WEIGHT)
    before = model._scores_of(X)
    for wrong in (
        (inputs[:2] * 1.5, y[:2], WEIGHT[:2]),
        (inputs[:2], later(y)[:2], WEIGHT[:2]),
        (inputs[:2], y[:2], [9, 9]),
    ):
        with pytest.raises(ValueError, match=r"2 of 2 rows were never learned .* the model is unchanged"):
            model.unlearn(*wrong)
    assert relative_error(model._scores_of(X), before) <= 1e-9
    gone = np.arange(50, 150)
    model.unlearn(inputs[gone], y[gone], WEIGHT[gone])
    with pytest.raises(ValueError, match="100 of 100 rows were never learned"):
        model.unlearn(inputs[gone], y[gone], WEIGHT[gone])
    refit = make()
    refit.fit(inputs, y, WEIGHT)  # the same map
    refit.unlearn(inputs[150:], y[150:], WEIGHT[150:]).partial_fit(inputs[150:], y[150:], sample_weight=WEIGHT[150:])
    refit.unlearn(inputs[gone], y[gone], WEIGHT[gone])
    assert relative_error(model._scores_of(X), refit._scores_of(X)) <= 1e-7
    model.partial_fit(inputs[gone], y[gone], sample_weight=WEIGHT[gone])
    assert relative_error(model._scores_of(X), before) <= 1e-7


def test_unlearning_what_was_fitted_equals_a_fit_without_it():
    model = fixed.NKELMRegressor(C=100.0, fit_intercept=True, random_state=0).fit(X, Y, WEIGHT)
    model.unlearn(X[50:150], Y[50:150], WEIGHT[50:150])
    left, Phi = np.r_[0:50, 150:700], model.map_.transform(X)
    beta, b = reference.ridge(Phi[left], Y[left], 100.0, WEIGHT[left], True)
    assert relative_error(model.predict(X), (Phi @ beta + b)[:, 0]) <= 1e-8


@pytest.mark.parametrize(
    "copied", [lambda m: m, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), through_a_file]
)
def test_what_is_remembered_survives_copies_files_and_merging(copied):
    first = fixed.ELMRegressor(C=100.0, random_state=0).fit(X[:400], Y[:400])
    second = copied(first.blank_copy().partial_fit(X[400:], Y[400:]))
    merged = copied(copied(first).merge(second))
    with pytest.raises(ValueError, match="1 of 1 rows were never learned"):
        merged.unlearn(X[:1] + 1.0, Y[:1])
    merged.unlearn(X[[0, 399, 400, 699]], Y[[0, 399, 400, 699]])
    with pytest.raises(ValueError, match="2 of 2 rows were never learned"):
        merged.unlearn(X[[0, 699]], Y[[0, 699]])


def test_copies_of_a_row_are_unlearned_one_by_one():
    twice = np.r_[0:100, 0:100]
    model = fixed.ELMRegressor(C=100.0, random_state=0).fit(X[twice], Y[twice])
    for _ in range(2):
        model.unlearn(X[:1], Y[:1])
    with pytest.raises(ValueError, match="never learned"):
        model.unlearn(X[:1], Y[:1])
    with pytest.raises(ValueError, match="1 of 3 rows were never learned"):
        model.unlearn(X[[5, 5, 5]], Y[[5, 5, 5]])


def forgetful(monkeypatch):
    monkeypatch.setattr("ulmus.models.incremental.REMEMBERED", 100)
    return fixed.ELMRegressor(C=1e8, random_state=0).fit(X, Y)


@pytest.mark.parametrize("fit", [forgetful, lambda _: streaming.fit(fixed.ELMRegressor(C=1e8, random_state=0), (X, Y))])
def test_a_fit_that_remembers_no_rows_says_so_and_still_refuses_where_nothing_would_be_left(monkeypatch, fit):
    model = fit(monkeypatch)
    assert model.fitted_.keys is None
    with pytest.warns(UserWarning, match=r"1 of 1 rows were ever learned is not known.*partial_fit remembers"):
        model.unlearn(X[:1], Y[:1])
    with pytest.warns(UserWarning, match="is not known"), pytest.raises(ValueError, match="not positive definite"):
        model.unlearn(1e3 * np.ones((1, 3)), [0.0], [1e6])


def test_a_refit_remembers_its_own_rows_only():
    model = fixed.ELMRegressor(C=100.0, random_state=0).fit(X[:300], Y[:300]).fit(X[300:], Y[300:])
    with pytest.raises(ValueError, match="never learned"):
        model.unlearn(X[:1], Y[:1])
    model.unlearn(X[300:301], Y[300:301])


def test_unlearning_knows_how_far_a_row_has_faded():
    model = streamed(OSELMRegressor(10, forgetting=0.99, **GIVEN), Y, [1] * 100)
    model.unlearn(X[600:650], Y[600:650])
    H = model.map_.transform(X)
    fading = 0.99 ** np.arange(len(Y) - 1, -1, -1)
    fading[600:650] = 0.0
    beta, _ = reference.ridge(H, Y, 100.0, fading)
    assert relative_error(model.predict(X), (H @ beta)[:, 0]) <= 1e-8


@pytest.mark.parametrize("make", LEARNERS)
def test_models_that_learned_apart_merge_into_one_that_learned_all(make):
    first = make().partial_fit(X[:600], Y[:600], sample_weight=WEIGHT[:600])
    second = first.blank_copy().partial_fit(X[600:650], Y[600:650], sample_weight=WEIGHT[600:650])
    third = first.blank_copy().partial_fit(X[650:], Y[650:], sample_weight=WEIGHT[650:])
    merged = first.merge([second, third])
    Phi = merged.map_.transform(X)
    beta, b = reference.ridge(Phi, Y, 100.0, WEIGHT, merged._intercept)
    assert relative_error(merged.predict(X), (Phi @ beta + b)[:, 0]) <= 1e-8
    merged.unlearn(X[600:610], Y[600:610], WEIGHT[600:610])


def test_merging_unites_classes():
    first = OSELMClassifier(20, **GIVEN).partial_fit(X[LABELS < 2], LABELS[LABELS < 2])
    second = first.blank_copy()
    second.partial_fit(X[LABELS > 0], LABELS[LABELS > 0])
    first.unlearn(X[LABELS == 1], LABELS[LABELS == 1])
    first.merge(second)
    whole = OSELMClassifier(20, **GIVEN).partial_fit(X, LABELS)
    assert (first.classes_ == whole.classes_).all()
    assert relative_error(first.decision_function(X), whole.decision_function(X)) <= 1e-8


def test_models_with_other_maps_do_not_merge():
    first, second = (OSELMRegressor(15, **{**GIVEN, "random_state": seed}).partial_fit(X, Y) for seed in (0, 1))
    with pytest.raises(ValueError, match="the maps differ"):
        first.merge(second)
    with pytest.raises(ValueError, match=r"C is 100.0 here and 1.0 there"):
        first.merge(OSELMRegressor(15, **{**GIVEN, "C": 1.0}).partial_fit(X, Y))
    with pytest.raises(ValueError, match="the models differ"):
        first.merge(fixed.ELMRegressor(15, C=100.0).fit(X, Y))


# Landmarks that come later


def test_a_map_grows_by_the_rows_that_its_landmarks_leave_out():
    near, far = X[:200], X[:50] + 6.0
    small = ulmus.NystromMap(15, gamma=0.5, random_state=0).fit(near)
    grown = small.grown(far, 0.3, 60)
    assert 15 < grown.n_features_out < 60
    assert relative_error(grown.transform(near)[:, :15], small.transform(near)) <= 1e-12
    assert (grown.residual_kernel(far) <= 0.3 + 1e-12).all()
    # the map that has had these landmarks from the start
    whole = ulmus.NystromMap(gamma=0.5, landmarks=grown.landmarks_).fit(near)
    K = whole.transform(far) @ whole.transform(far).T
    assert relative_error(grown.transform(far) @ grown.transform(far).T, K) <= 1e-10
    assert small.grown(near[:1], 0.9, 40) is small


def test_new_landmarks_are_exact_for_the_future_and_zero_for_the_past():
    model = fixed.NKELMRegressor(15, C=100.0, fit_intercept=True, random_state=0).partial_fit(X[:600], Y[:600])
    away, y_away = X[600:] + 6.0, Y[600:] + 1.0
    model.partial_fit(away[:60], y_away[:60], novelty=0.5)
    model.partial_fit(away[60:], y_away[60:])
    assert model.n_landmarks_ == model.map_.n_features_out > 15
    Phi = np.vstack([model.map_.transform(X[:600]), model.map_.transform(away)])
    Phi[:600, 15:] = 0.0
    y = np.r_[Y[:600], y_away]
    beta, _ = reference.ridge(Phi, y, 100.0, fit_intercept=True)
    assert relative_error(model.beta_, beta) <= 1e-7
    model.unlearn(X[:100], Y[:100])
    beta, _ = reference.ridge(Phi[100:], y[100:], 100.0, fit_intercept=True)
    assert relative_error(model.beta_, beta) <= 1e-7
    with pytest.raises(ValueError, match="novelty must lie between"):
        model.partial_fit(away, y_away, novelty=2.0)


def test_growing_landmarks_learn_where_the_first_ones_saw_nothing():
    errors = []
    for novelty in (None, 0.3):
        model = ulmus.NKELMRegressor(50, gamma=1.0, C=100.0, random_state=0).partial_fit(X[:600], Y[:600])
        for start in range(0, 700, 100):
            model.partial_fit(X[start : start + 100] + 8.0, Y[start : start + 100], novelty=novelty)
        errors.append(np.mean((model.predict(X + 8.0) - Y) ** 2))
    assert errors[1] < 0.3 * errors[0]


def test_a_refused_block_leaves_the_landmarks_alone():
    model = fixed.NKELMClassifier(15, C=100.0, random_state=0).partial_fit(X[:600], LABELS[:600], classes=[0, 1, 2])
    before = model.decision_function(X)
    with pytest.raises(ValueError, match="not among the known classes"):
        model.partial_fit(X[:5] + 9.0, [0, 1, 2, 3, 0], novelty=0.5)
    assert (model.decision_function(X) == before).all()


@pytest.mark.parametrize("kind", [ulmus.OSELMRegressor, ulmus.NKELMRegressor, ulmus.ELMClassifier])
def test_a_blank_copy_does_not_predict(kind):
    X = np.random.RandomState(0).normal(size=(600, 3))
    y = X[:, 0] if "Regressor" in kind.__name__ else (X[:, 0] > 0).astype(int)
    model = kind(20, random_state=0).partial_fit(X, y)
    blank = model.blank_copy()
    with pytest.raises(NotFittedError, match="blank copy"):
        blank.predict(X[:2])
    blank.partial_fit(X, y).predict(X[:2])
    assert len(model.predict(X[:2])) == 2


def test_maps_with_the_same_arrays_and_another_activation_or_kernel_do_not_merge():
    first, second = (
        OSELMRegressor(15, **GIVEN, activation=name).partial_fit(X[:100], Y[:100]) for name in ("tanh", "relu")
    )
    assert (first.map_.weights_ == second.map_.weights_).all()
    with pytest.raises(ValueError, match=r"the maps differ \(in activation\)"):
        first.merge(second)
    with_links = OSELMRegressor(12, **GIVEN, direct_links=True).partial_fit(X[:100], Y[:100])
    with pytest.raises(ValueError, match=r"the maps differ \(in n_hidden\)"):
        first.merge(with_links)
    Z = X[:15]
    first, second = (
        ulmus.NKELMRegressor(15, landmarks=Z, kernel="poly", coef0=c, C=1.0, gamma=1.0).partial_fit(X[:600], Y[:600])
        for c in (1.0, 1.0 + 1e-12)
    )
    with pytest.raises(ValueError, match=r"the maps differ \(in coef0\)"):
        first.merge(second)


def test_copies_that_run_on_other_threads_merge():
    first = fixed.ELMRegressor(C=100.0, random_state=0, n_jobs=1).partial_fit(X, Y)
    second = through_a_file(first.blank_copy())
    second.map_.n_jobs = second.n_jobs = 2
    first.merge(second.partial_fit(X[:10], Y[:10])).unlearn(X[:10], Y[:10])


@pytest.mark.parametrize("form", ["root", "covariance", "information"])
def test_unlearning_under_forgetting_keeps_the_penalty_whenever_it_comes(form):
    """The recursion mends its penalty now and then; rows are taken out just before and just after."""
    H = OSELMRegressor(15, **GIVEN).partial_fit(X, Y).map_.transform(X)
    for n in range(40, 130, 7):
        model = OSELMRegressor(15, form=form, forgetting=0.98, **GIVEN).partial_fit(X[:n], Y[:n])
        model.unlearn(X[:5], Y[:5])
        fading = 0.98 ** np.arange(n - 1, -1, -1.0)
        beta, _ = reference.ridge(H[5:n], Y[5:n], 100.0, fading[5:])
        assert relative_error(model.predict(X), (H @ beta)[:, 0]) <= 1e-9


@pytest.mark.parametrize("form", ["root", "covariance", "information"])
def test_rows_of_merged_models_fade_from_when_each_learned_them(form):
    first = OSELMRegressor(15, form=form, forgetting=0.97, **GIVEN).partial_fit(X[:60], Y[:60])
    second = first.blank_copy().partial_fit(X[60:90], Y[60:90])
    first.merge(second).partial_fit(X[90:100], Y[90:100])
    age = np.r_[np.arange(69, 9, -1), np.arange(39, 9, -1), np.arange(9, -1, -1)]
    gone, left = [3, 65, 95], np.setdiff1d(np.arange(100), [3, 65, 95])
    first.unlearn(X[gone], Y[gone])
    H = first.map_.transform(X)
    beta, _ = reference.ridge(H[left], Y[left], 100.0, 0.97 ** age[left])
    assert relative_error(first.predict(X), (H @ beta)[:, 0]) <= 1e-9


def test_copies_and_merged_models_know_which_rows_were_learned_without_a_landmark():
    """Rows of a blank copy had every landmark, those of the model from the time it came; each goes as it came."""
    base = fixed.NKELMRegressor(15, C=100.0, fit_intercept=True, random_state=0).partial_fit(X[:600], Y[:600])
    away, y_away = X[600:] + 6.0, Y[600:] + 1.0
    base.partial_fit(away[:60], y_away[:60], novelty=0.5)
    apart = base.blank_copy().partial_fit(np.vstack([X[:50], away]), np.r_[Y[:50], y_away])
    Phi = [base.map_.transform(A) for A in (X[:600], away[:60], X[:50], away)]
    Phi[0][:, 15:] = 0.0
    y = [Y[:600], y_away[:60], Y[:50], y_away]
    alone = copy.deepcopy(apart).unlearn(away[:20], y_away[:20])
    beta, _ = reference.ridge(np.vstack([Phi[2], Phi[3][20:]]), np.r_[y[2], y[3][20:]], 100.0, fit_intercept=True)
    assert relative_error(alone.beta_, beta) <= 1e-7
    merged = through_a_file(base.merge(apart))
    # the latest copy goes first: X[:50] and away[:60] of this model, then those of the other
    merged.unlearn(np.vstack([X[:5], away[:5], away[:5]]), np.r_[Y[:5], y_away[:5], y_away[:5]])
    parts = [Phi[0][5:], Phi[1][5:], Phi[2], Phi[3][5:]]
    beta, _ = reference.ridge(np.vstack(parts), np.r_[y[0][5:], y[1][5:], y[2], y[3][5:]], 100.0, fit_intercept=True)
    assert relative_error(merged.beta_, beta) <= 1e-7


def test_models_that_cannot_be_merged_are_told_how_they_could_be():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(80, 2)), rng.normal(size=80)
    for one, other in ((1.0, 2.0), (1.0, 1.0)):
        models = [OSELMRegressor(5, slope=1.0, C=C, random_state=k).fit(X, y) for k, C in enumerate((one, other))]
        with pytest.raises(ValueError, match=r"cannot merge: .*copies of one model, see blank_copy\(\)"):
            models[0].merge(models[1])
    with pytest.raises(ValueError, match=r"has none yet: it takes \d+ rows\. Models .* see blank_copy\(\)"):
        models[0].merge(OSELMRegressor(5))

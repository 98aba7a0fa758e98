"""What cannot be meant is refused, or told, in words that name it."""

from dataclasses import replace

import numpy as np
import pytest

from ulmus import (
    ENDA,
    AdaptiveClassifier,
    AdaptiveOrdinalClassifier,
    AdaptiveRegressor,
    KELMRegressor,
    NKELMClassifier,
    NKELMOrdinalClassifier,
    NKELMRegressor,
    NumericalWarning,
    OSELMClassifier,
)
from ulmus.cli.main import main
from ulmus.features.preparation import Columns

RNG = np.random.RandomState(0)
X = RNG.normal(size=(60, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=60)
LABELS = (Y > 0).astype(int)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ENDA(20, random_state=0),
        lambda: NKELMClassifier(20, gamma=0.3, C=1.0, random_state=0),
        lambda: OSELMClassifier(20, slope=1.0, random_state=0),
    ],
)
def test_text_among_labels_that_are_numbers_is_refused_and_nothing_changes(make):
    model = make().partial_fit(X, LABELS)
    before = model.predict(X)
    with pytest.raises(ValueError, match=r"labels \['a', 'b'\] are text.*\[0, 1\], are numbers"):
        model.partial_fit(X[:2], ["a", "b"])
    assert model.classes_.tolist() == [0, 1]
    np.testing.assert_array_equal(model.predict(X), before)


def test_few_groups_are_folds_of_their_own_and_one_group_is_refused():
    groups = np.arange(60) % 2
    two = NKELMRegressor(random_state=0).fit(X, Y, groups=groups)
    again = NKELMRegressor(
        random_state=0, cv=[(np.flatnonzero(groups == k), np.flatnonzero(groups != k)) for k in (0, 1)]
    )
    assert two.C_ == again.fit(X, Y).C_
    with pytest.raises(ValueError, match="at least two groups, got one"):
        NKELMRegressor().fit(X, Y, groups=np.zeros(60))


@pytest.mark.parametrize(("n", "most"), [(1, "0.00"), (10, "0.82")])
def test_intervals_of_few_rows_say_what_they_bear(n, most):
    model = NKELMRegressor(random_state=0).fit(X[:n], Y[:n])
    with pytest.warns(UserWarning, match=f"the coverage is at most {most}"):
        model.predict_interval(X, coverage=0.9)


def test_intervals_of_enough_rows_say_nothing(recwarn):
    model = NKELMRegressor(random_state=0).fit(X[:19], Y[:19])
    recwarn.clear()
    model.predict_interval(X, coverage=0.9)
    assert not [w for w in recwarn if "coverage" in str(w.message)]


@pytest.mark.parametrize("coverage", ["a", None, 0, 1.0, [0.5, 1.0]])
def test_a_coverage_that_is_none_is_refused(coverage):
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        NKELMRegressor(random_state=0).fit(X, Y).predict_interval(X, coverage=coverage)


def test_more_neighbours_than_rows_are_refused():
    with pytest.raises(ValueError, match="n_neighbors=1000 is more than the 60 rows"):
        ENDA(20, n_neighbors=1000).fit(X, LABELS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["reproduce"], "name a document"),
        (["reproduce", "enda", "--jobs", "0"], "--jobs"),
        (["reproduce", "enda", "--data", "no such folder"], "--data names no such folder"),
        (["bench", "--quick", "--out", "{file}/under"], "cannot be made a folder"),
    ],
)
def test_wrong_use_of_the_experiments_exits_with_2(arguments, said, tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    assert main([word.format(file=file) for word in arguments]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("make", [lambda: NKELMRegressor(random_state=0), lambda: ENDA(features="nystrom")])
def test_rows_that_differ_by_less_than_a_kernel_can_see_are_reported(make):
    with pytest.warns(NumericalWarning, match="differ by at most .*e-300, too little for the kernel 'rbf'"):
        make().fit(1e-300 * X, LABELS)


def test_displays_take_one_coordinate_and_say_what_they_cannot_draw():
    plots = pytest.importorskip("ulmus.plots")
    plt = pytest.importorskip("matplotlib.pyplot")
    display = plots.ProjectionDisplay.from_estimator(ENDA(20, random_state=0).fit(X, LABELS), X, LABELS, components=0)
    plt.close(display.figure_)
    model = AdaptiveRegressor(effort="fast", random_state=0).fit(X, Y)
    trials = tuple(replace(trial, preparation="") for trial in model.trials_)  # as files of before have them
    model.fitted_ = replace(model.fitted_, weights=replace(model.fitted_.weights, trials=trials))
    with pytest.raises(ValueError, match="kept no trials; fit it again"):
        plots.TuningDisplay.from_estimator(model)


@pytest.mark.parametrize("make", [NKELMRegressor, KELMRegressor, AdaptiveRegressor, AdaptiveClassifier, ENDA])
@pytest.mark.parametrize("size", [1e14, 1e300])
def test_weights_of_more_rows_than_can_be_counted_are_refused(make, size):
    with pytest.raises(ValueError, match=r"add up to more than 1e.15 rows.*divide the weights by their mean"):
        make().fit(X, LABELS, sample_weight=np.full(len(X), size))


def test_so_are_weights_of_classes():
    with pytest.raises(ValueError, match="divide the weights of classes by the largest"):
        NKELMClassifier(class_weight={0: 1e300, 1: 1}).fit(X, LABELS, sample_weight=np.full(len(X), 1e10))


@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore::ulmus.NumericalWarning")
@pytest.mark.parametrize("make", [NKELMOrdinalClassifier, AdaptiveOrdinalClassifier])
def test_ordinal_models_take_weights_of_very_different_sizes(make):
    for weight in (
        np.where(np.arange(len(X)) == 3, 1e12, 1.0),
        10 ** np.random.default_rng(0).uniform(-12, 12, len(X)),
    ):
        model = make(random_state=0).fit(X, np.digitize(Y, [-0.5, 0.5]), sample_weight=weight)
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("make", [AdaptiveRegressor, AdaptiveClassifier])
@pytest.mark.parametrize(
    ("size", "advice"), [(1e155, "divide"), (1e300, "divide"), (5e307, "divide"), (1e-310, "multiply .* by 1e300")]
)
def test_columns_that_float64_cannot_square_are_refused_and_others_are_not(make, size, advice):
    with pytest.raises(ValueError, match=f"the largest value of column 1 of X .* is .*{advice}"):
        make(effort="fast").fit(X * [1.0, size, 1.0], LABELS)
    near = 1e150 if size > 1 else 1e-299
    score = make(effort="fast", random_state=0).fit(X * [near, 1.0, 1.0], LABELS).score(X * [near, 1.0, 1.0], LABELS)
    assert score > 0.5


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_values_as_far_out_as_can_be_are_clipped_to_the_farthest_place():
    columns = Columns.of("clip", X, None)
    far, farther = (columns.transform(np.full((1, 3), value)) for value in (1e100, 1e300))
    np.testing.assert_allclose(far, farther)


def test_the_advice_for_numbers_that_no_scaler_can_square_is_to_divide():
    with pytest.raises(ValueError, match=r"Divide the features by .*, which no scaler can"):
        NKELMRegressor(random_state=0).fit(1e300 * X, Y)

"""Pictures of a search: the lines are the trials, the star is the choice, and the errors help."""

import sys
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from data import cases, classification, regression
from ulmus import (
    ELMClassifier,
    ELMRegressor,
    KELMClassifier,
    KELMRegressor,
    NKELMClassifier,
    NKELMRegressor,
    TuningDisplay,
)
from ulmus.tuning import Trial, Tuning

mpl.use("Agg")
import matplotlib.pyplot as plt

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")

#: model → name of its width, of its size
FAMILIES = {
    ELMRegressor: ("slope", "hidden nodes"),
    ELMClassifier: ("slope", "hidden nodes"),
    KELMRegressor: ("gamma", "landmarks of the search"),
    KELMClassifier: ("gamma", "landmarks of the search"),
    NKELMRegressor: ("gamma", "landmarks"),
    NKELMClassifier: ("gamma", "landmarks"),
}


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def fitted(model_class, n=300, **options):
    data = classification if model_class.__name__.endswith("Classifier") else regression
    return model_class(random_state=0, **options).fit(*data(n))


def stars(ax):
    """Where the stars are."""
    return [line.get_xydata()[0].tolist() for line in ax.lines if line.get_marker() == "*"]


@pytest.mark.parametrize("model_class", cases(FAMILIES, ELMRegressor, KELMClassifier))
def test_every_model_that_tuned_itself_is_drawn(model_class):
    model = fitted(model_class)
    display = TuningDisplay.from_estimator(model)
    display.figure_.canvas.draw()
    width, size = FAMILIES[model_class]
    assert [ax.get_xlabel() for ax in display.axes_] == ["C", size, width]
    assert all(ax.get_ylabel().startswith("held-out") and ax.get_title() for ax in display.axes_)
    assert stars(display.axes_[0]) == [[model.C_, model.tuning_.loss]]
    assert stars(display.axes_[1]) == [[model.tuning_.size, model.tuning_.loss]]


def test_there_is_one_line_per_size_with_its_losses_and_its_name():
    model = fitted(NKELMRegressor, 700)
    display = TuningDisplay.from_estimator(model)
    trials = {t.size: t for t in model.tuning_.trials if t.stage == "size"}
    assert len(trials) >= 3
    lines = display.lines_["C"]
    assert [line.get_label() for line in lines] == [str(size) for size in sorted(trials)]
    for line, size in zip(lines, sorted(trials)):
        np.testing.assert_array_equal(line.get_xydata(), np.column_stack([trials[size].C, trials[size].loss]))
    assert {text.get_text() for text in display.axes_[0].texts} == {str(size) for size in trials}
    (curve,) = display.lines_["size"]
    expected = [[size, trials[size].best_loss] for size in sorted(trials)]
    np.testing.assert_array_equal(curve.get_xydata(), expected)


def test_lines_can_be_distinguished_without_colour():
    display = TuningDisplay.from_estimator(fitted(NKELMRegressor, 700))
    looks = [(line.get_linestyle(), line.get_marker()) for line in display.lines_["C"]]
    assert len({style for style, _ in looks}) == len({marker for _, marker in looks}) == len(looks)


def test_labels_have_the_colour_of_their_line_and_do_not_overlap():
    display = TuningDisplay.from_estimator(fitted(NKELMRegressor, 700))
    display.figure_.canvas.draw()
    texts = display.axes_[0].texts
    colours = {line.get_label(): to_hex(line.get_color()) for line in display.lines_["C"]}
    assert {text.get_text(): to_hex(text.get_color()) for text in texts} == colours
    boxes = sorted((Text.get_window_extent(text) for text in texts), key=lambda box: box.y0)
    # the frame of a text is higher than its digits by more than these two pixels
    assert all(above.y0 > below.y1 - 2 for below, above in pairwise(boxes))


def test_widths_are_drawn_by_sample_in_order_with_the_choice():
    model = fitted(ELMRegressor, 5000, n_hidden=40)
    display = TuningDisplay.from_estimator(model)
    trials = [t for t in model.tuning_.trials if t.stage == "width"]
    lines = display.lines_["width"]
    assert len(lines) == len({(t.n_rows, t.size) for t in trials}) == 2
    assert sum(len(line.get_xdata()) for line in lines) == len(trials)
    for line in lines:
        assert (np.diff(line.get_xdata()) > 0).all()
    assert lines[0].get_label() == "1500 rows, hidden nodes: 40"
    legend = [text.get_text() for text in display.axes_[2].get_legend().get_texts()]
    assert legend[-1] == f"chosen: {model.slope_:.3g}"


@pytest.mark.parametrize(
    ("options", "panel", "note"),
    [
        ({"gamma": 0.5}, 2, "gamma was not searched"),
        ({"n_landmarks": 50}, 1, "the size was not searched"),
    ],
)
def test_what_was_given_is_said_to_be_so(options, panel, note):
    display = TuningDisplay.from_estimator(fitted(NKELMRegressor, **options))
    assert [text.get_text() for text in display.axes_[panel].texts] == [note]


def test_one_C_is_drawn_too():
    display = TuningDisplay.from_estimator(fitted(NKELMClassifier, C=8.0))
    assert all(line.get_xdata().tolist() == [8.0] for line in display.lines_["C"])


@pytest.mark.parametrize(
    ("model_class", "criterion", "name"),
    [
        (NKELMRegressor, "auto", "held-out squared error / variance"),
        (NKELMRegressor, "absolute", "held-out absolute error / deviation"),
        (NKELMClassifier, "auto", "held-out error, soft at the margin"),
        (NKELMClassifier, "error", "held-out error"),
        (NKELMClassifier, "squared", "held-out squared error of the scores"),
    ],
)
def test_the_loss_is_named_for_what_it_is(model_class, criterion, name):
    display = TuningDisplay.from_estimator(fitted(model_class, criterion=criterion, n_landmarks=20, gamma=0.5))
    assert {ax.get_ylabel() for ax in display.axes_} == {name}


@pytest.mark.parametrize(("losses", "scale"), [([0.1, 0.5], "linear"), ([0.1, 5.0], "log"), ([0.0, 5.0], "linear")])
def test_only_losses_that_span_a_decade_are_drawn_on_a_logarithmic_scale(losses, scale):
    trial = Trial("C", 0.5, 10, 100, np.array([1.0, 2.0]), np.array(losses), np.zeros(100))
    tuning = Tuning((trial,), 0.5, 10, 1.0, losses[0], 0.0)
    display = TuningDisplay(tuning, width_name="gamma", size_name="landmarks", loss_name="loss").plot()
    assert display.axes_[0].get_yscale() == scale


def test_a_pipeline_that_ends_in_a_model_is_drawn():
    X, y = regression(200)
    pipeline = make_pipeline(StandardScaler(), NKELMRegressor(random_state=0)).fit(X, y)
    assert TuningDisplay.from_estimator(pipeline).tuning is pipeline[-1].tuning_


def test_given_axes_are_drawn_on():
    _, axes = plt.subplots(3, 1)
    display = TuningDisplay.from_estimator(fitted(NKELMRegressor), ax=axes)
    assert display.axes_.tolist() == axes.tolist()
    assert display.figure_ is axes[0].figure
    with pytest.raises(ValueError, match=r"three matplotlib Axes .* got 1"):
        TuningDisplay.from_estimator(fitted(NKELMRegressor), ax=axes[0])


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (NKELMRegressor(20, gamma=0.5, C=1.0), r"NKELMRegressor\(C=1.0, gamma=0.5\)"),
        (ELMRegressor(20, C=None), r"ELMRegressor\(C=None, slope='auto'\)"),
        (Ridge(), r"Ridge\(\)"),
    ],
)
def test_a_model_that_chose_nothing_says_so(model, given):
    with pytest.raises(ValueError, match=f"nothing was tuned: {given} has no record of a search"):
        TuningDisplay.from_estimator(model.fit(*regression(60)))


def test_an_unfitted_model_is_refused():
    with pytest.raises(NotFittedError):
        TuningDisplay.from_estimator(NKELMRegressor())


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    model = fitted(NKELMRegressor)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "ulmus\[plot\]"'):
        TuningDisplay.from_estimator(model)

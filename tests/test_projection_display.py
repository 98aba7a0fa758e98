"""Pictures of projections: every row is drawn where the model puts it, and classes can be told apart."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from data import classification
from ulmus import ENDA, ENDAEnsemble, ProjectionDisplay
from ulmus.plots.projection import COLOURS, MARKERS, default_models, style

mpl.use("Agg")
import matplotlib.pyplot as plt

PLAIN = {"slope": 1.0, "C": 4.0, "random_state": 0}


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def drawn(display):
    """Points by label."""
    return {label: np.asarray(points.get_offsets()) for label, points in display.points_.items()}


def test_every_row_is_drawn_where_the_model_puts_it():
    X, y = classification(100, classes=4)
    model = ENDA(20, **PLAIN).fit(X, y)
    display = ProjectionDisplay.from_estimator(model, X, y)
    for label, points in drawn(display).items():
        np.testing.assert_allclose(points, model.transform(X)[y == label][:, :2])
    assert display.ax_.get_xlabel() == "enda0"
    assert [t.get_text() for t in display.legend_.get_texts()] == ["0", "1", "2", "3"]


def test_other_components_and_three_of_them():
    X, y = classification(100, classes=4)
    model = ENDA(20, **PLAIN).fit(X, y)
    flat = ProjectionDisplay.from_estimator(model, X, y, components=(2, 0))
    np.testing.assert_allclose(drawn(flat)[1], model.transform(X)[y == 1][:, [2, 0]])
    assert (flat.ax_.get_xlabel(), flat.ax_.get_ylabel()) == ("enda2", "enda0")
    deep = ProjectionDisplay.from_estimator(model, X, y, components=(0, 1, 2))
    assert deep.ax_.get_zlabel() == "enda2"
    heights = np.asarray(deep.points_[1]._offsets3d[2])
    np.testing.assert_allclose(heights, model.transform(X)[y == 1][:, 2])


def test_two_classes_are_drawn_on_lines():
    X, y = classification(60, classes=2)
    display = ProjectionDisplay.from_estimator(ENDA(20, **PLAIN).fit(X, y), X, y)
    points = drawn(display)
    assert (abs(points[0][:, 1]) < 0.5).all()
    assert (abs(points[1][:, 1] - 1) < 0.5).all()


@pytest.mark.parametrize("head", ["knn", "mean"])
def test_regions_are_the_classes_that_the_model_predicts(head):
    X, y = classification(100)
    model = ENDA(20, head=head, **PLAIN).fit(X, y)
    display = ProjectionDisplay.from_estimator(model, X, y, regions=True)
    image, (left, right, low, high) = np.asarray(display.regions_.get_array()), display.regions_.get_extent()
    i, j = 70, 120
    point = [[left + (right - left) * j / (len(image) - 1), low + (high - low) * i / (len(image) - 1)]]
    predicted = model.head_.probabilities(np.array(point)).argmax()
    expected = 1 - 0.22 * (1 - np.array(to_rgb(style(predicted)["color"])))
    np.testing.assert_allclose(image[i, j], expected)
    assert len(np.unique(image.reshape(-1, 3), axis=0)) == 3


def test_a_projection_without_classifier_gets_regions_from_its_rows():
    X, y = classification(100)
    display = ProjectionDisplay.from_estimator(PCA(2).fit(X), X, y, regions=True)
    assert display.regions_ is not None


def test_pipelines_and_ensembles_are_drawn():
    X, y = classification(80)
    pipeline = make_pipeline(StandardScaler(), ENDA(20, **PLAIN)).fit(X, y)
    np.testing.assert_allclose(
        drawn(ProjectionDisplay.from_estimator(pipeline, X, y))[0], pipeline.transform(X)[y == 0]
    )
    ensemble = ENDAEnsemble(ENDA(20, **PLAIN), 3, random_state=0).fit(X, y)
    assert ProjectionDisplay.from_estimator(ensemble, X, y, regions=True).ax_.get_title() == "ENDAEnsemble"


def test_a_class_keeps_its_look_when_others_are_not_shown():
    X, y = classification(100, classes=4)
    model = ENDA(20, **PLAIN).fit(X, y)
    every, few = (ProjectionDisplay.from_estimator(model, X[m], y[m]) for m in (y >= 0, y >= 2))
    assert set(few.points_) == {2, 3}
    for label, points in few.points_.items():
        np.testing.assert_array_equal(points.get_facecolor(), every.points_[label].get_facecolor())


def test_classes_can_be_distinguished():
    looks = {tuple(style(i).values()) for i in range(len(COLOURS) * len(MARKERS))}
    assert len(looks) == 63


#: How dichromats see linear RGB (F. Viénot, H. Brettel, J. Mollon, 1999).
DICHROMATS = {
    "protan": np.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]]),
    "deutan": np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]]),
}


@pytest.mark.parametrize("sight", DICHROMATS)
def test_colours_differ_for_every_colour_vision(sight):
    seen = [np.clip(DICHROMATS[sight] @ np.array(to_rgb(c)) ** 2.2, 0, 1) ** (1 / 2.2) for c in COLOURS]
    apart = [np.linalg.norm(a - b) for i, a in enumerate(seen) for b in seen[:i]]
    assert min(apart) > 0.1  # of √3: a step that is seen on a screen


def test_without_colour_markers_distinguish_nine_classes():
    assert len({style(i)["marker"] for i in range(9)}) == 9


def test_models_are_compared_side_by_side_with_one_legend():
    X, y = classification(60)
    models = {name: m for name, m in default_models(3).items() if name in ("LDA", "PCA")}
    models["ENDA"] = ENDA(10, **PLAIN)
    displays = ProjectionDisplay.compare(X, y, models)
    assert list(displays) == ["LDA", "PCA", "ENDA"]
    figure = displays["LDA"].figure_
    assert len({id(d.figure_) for d in displays.values()}) == 1
    assert len(figure.legends) == 1
    assert [d.ax_.get_title() for d in displays.values()] == list(displays)
    assert list(default_models(3)) == ["NNDA", "ENDA", "KLDA", "LDA", "PCA"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"components": (0, 5)}, "components takes one, two or three numbers of coordinates below 3"),
        ({"components": (0, 1, 2, 0)}, "components takes one, two or three"),
        ({"components": (0, 1, 2), "regions": True}, "regions are drawn in two coordinates"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options, message):
    X, y = classification(60, classes=4)
    model = ENDA(10, **PLAIN).fit(X, y)
    with pytest.raises(ValueError, match=message):
        ProjectionDisplay.from_estimator(model, X, y, **options)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="1, 2 or 3 coordinates"):
        ProjectionDisplay(np.zeros((5, 4)), np.zeros(5))
    with pytest.raises(ValueError, match="5 rows and y has 4 labels"):
        ProjectionDisplay(np.zeros((5, 2)), np.zeros(4))
    _, flat = plt.subplots()
    with pytest.raises(ValueError, match="need 3-D Axes"):
        ProjectionDisplay(np.zeros((5, 3)), np.zeros(5)).plot(ax=flat)


def test_an_unfitted_model_is_refused():
    with pytest.raises(NotFittedError):
        ProjectionDisplay.from_estimator(ENDA(), *classification(20))


def test_the_library_is_imported_without_matplotlib():
    code = "import sys, ulmus; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)

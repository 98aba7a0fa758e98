"""Names with dollar signs are names: no picture and no page reads them as formulas."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import ulmus
from ulmus import AdaptiveClassifier, AdaptiveRegressor, BeeswarmDisplay, EffectsDisplay, WaterfallDisplay
from ulmus.plots import ProjectionDisplay

mpl.use("Agg")
NAMES = ("cost_$_in_$", "rate_$^$")
RNG = np.random.default_rng(0)
N = 120
X = pd.DataFrame({NAMES[0]: RNG.normal(size=N), NAMES[1]: RNG.normal(size=N), "town": ["$_a_$", "$^b$"] * (N // 2)})
Y = X[NAMES[0]].to_numpy() + (X["town"] == "$_a_$")


@pytest.fixture(scope="module")
def model():
    return AdaptiveRegressor(effort="fast", random_state=0).fit(X, Y)


def test_a_report_shows_them_as_they_are(model, tmp_path):
    ulmus.report(model, X, Y, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert all(f">{name}<" in page for name in NAMES)
    assert r"\$" not in page


def test_a_report_of_classes_does_too(tmp_path):
    labels = np.where(Y > 0.5, "$_high_$", "$^low$")
    model = AdaptiveClassifier(effort="fast", random_state=0).fit(X, labels)
    ulmus.report(model, X, labels, tmp_path / "page.html")
    assert "$_high_$" in (tmp_path / "page.html").read_text()


def test_displays_show_them_as_they_are(model):
    reasons = model.explain(X[:20])
    kept = [
        WaterfallDisplay.from_explanation(reasons, row=0).ax_,
        BeeswarmDisplay.from_explanation(reasons).ax_,
        *np.ravel(EffectsDisplay.from_estimator(model, X, [NAMES[0], "town"]).axes_),
        ProjectionDisplay(RNG.normal(size=(20, 2)), ["$_a", "b_$"] * 10, names=NAMES).plot().ax_,
    ]
    for ax in kept:
        ax.figure.canvas.draw()


def test_powers_on_a_logarithmic_axis_stay_formulas():
    ax = mpl.figure.Figure().add_subplot()
    ax.semilogx([1, 100], [0, 1])
    ulmus.plots.axes.as_written(ax)
    ax.figure.canvas.draw()
    assert any("10^" in text.get_text() and text.get_parse_math() for text in ax.get_xticklabels())

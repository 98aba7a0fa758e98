"""A fit tells callbacks and people how far it has come, and nobody who has not asked."""

import builtins
import sys

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ulmus
from data import classification, regression
from ulmus import ENDA, AdaptiveClassifier, AdaptiveRegressor, NKELMRegressor
from ulmus.models import progress

STAGES = ["view", "global model", "local stage"]
X, Y = regression(150)


class Recorder:
    """A callback that keeps what it is told."""

    def __init__(self):
        self.told, self.models = [], []

    def setup(self, estimator, context):
        self.told.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.told.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        self.told.append(f"end {context.task_name}")
        self.models.append(fitted_estimator)

    def teardown(self, estimator, context):
        self.told.append("teardown")


def callbacks():
    return pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (AdaptiveRegressor(effort="fast", random_state=0), Y),
        (AdaptiveClassifier(effort="fast", random_state=0), Y > 0),
        (AdaptiveClassifier(effort="fast", loss="auto", random_state=0), Y > 0),
    ],
    ids=["regressor", "classifier", "either loss"],
)
def test_callbacks_see_every_stage_once_and_are_given_the_fitted_model(model, y):
    callbacks()
    recorder = Recorder()
    model.set_callbacks(recorder).fit(X, y)
    inside = [f"{what} {stage}" for stage in STAGES for what in ("begin", "end")]
    assert recorder.told == ["setup", "begin fit", *inside, "end fit", "teardown"]
    np.testing.assert_array_equal(recorder.models[-1].predict(X), model.predict(X))
    assert not {"_progress", "_callback_fit_ctx"} & vars(model).keys()


def test_scikit_learns_bar_shows_fits_inside_a_pipeline(capsys):
    bar = callbacks().ProgressBar()
    make_pipeline(StandardScaler(), NKELMRegressor(20, gamma=1.0, C=1.0)).set_callbacks(bar).fit(X, Y)
    assert "NKELMRegressor - fit" in capsys.readouterr().out


def test_a_fit_that_fails_ends_with_its_callbacks(monkeypatch):
    callbacks()
    recorder = Recorder()
    model = AdaptiveRegressor(effort="fast").set_callbacks(recorder)
    monkeypatch.setattr(AdaptiveRegressor, "_stages", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.fit(X, Y)
    assert recorder.told[-1] == "teardown"
    assert "_progress" not in vars(model)


def test_callbacks_are_no_part_of_a_file(tmp_path):
    callbacks()
    model = NKELMRegressor(20, gamma=1.0, C=1.0).set_callbacks(Recorder()).fit(X, Y)
    ulmus.save(model, tmp_path / "model.ulmus")
    np.testing.assert_array_equal(ulmus.load(tmp_path / "model.ulmus").predict(X), model.predict(X))


@pytest.mark.parametrize(
    "model", [AdaptiveRegressor(effort="fast"), NKELMRegressor(), ENDA()], ids=lambda m: type(m).__name__
)
def test_nothing_is_printed_unless_asked_for(model, capsys):
    model.set_params(random_state=0).fit(*classification(80))
    assert capsys.readouterr() == ("", "")


def test_lines_are_printed_where_nobody_looks_at_a_terminal(capsys):
    AdaptiveRegressor(effort="fast", verbose=True, random_state=0).fit(X, Y)
    out, err = capsys.readouterr()
    assert [line.partition("] ")[2].partition(":")[0] for line in out.splitlines()][:2] == ["view", "global model"]
    assert not err


def test_a_bar_names_the_stage_its_share_and_the_time_left(monkeypatch):
    shown = []
    monkeypatch.setattr(progress, "_watched", lambda: True)
    monkeypatch.setattr(progress._Bar, "show", lambda self, *told: shown.append(told))
    AdaptiveRegressor(effort="fast", verbose=True, random_state=0).fit(X, Y)
    assert [stage for stage, _, _ in shown] == STAGES
    shares = [share for _, share, _ in shown]
    assert shares[0] == 0.0
    assert shares == sorted(set(shares))
    assert [left is None for _, _, left in shown] == [True, False, False]


def test_time_left_is_in_proportion_to_what_was_done():
    class Model:
        verbose = False

    told = progress.FitProgress(Model(), {"a": 1.0, "b": 3.0})
    told.enter("a")
    told.enter("b")
    told._began = (told._began[0] - 10.0, 0.0)
    assert told.share == 0.25
    assert told.left == pytest.approx(30.0, rel=1e-3)


def test_without_rich_there_is_no_bar(monkeypatch):
    real = builtins.__import__

    def no_rich(name, *more, **options):
        if name.startswith("rich"):
            raise ImportError(name)
        return real(name, *more, **options)

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(builtins, "__import__", no_rich)
    assert not progress._watched()

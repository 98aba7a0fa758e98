"""The report is whole, needs no network, and can be read on a phone and at a desk."""

import json
import re
from functools import cache

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ulmus
from data import cases, classification, regression
from pages import requests_of_the_page
from ulmus._numbers import number
from ulmus.measures import LABELS, ORDINAL, TWO_CLASSES, Answers, Score, _balanced, interval, scored
from ulmus.report.baselines import Contender, verdict
from ulmus.report.importance import importance_section
from ulmus.report.map import _halves, _mark, project, shown
from ulmus.report.page import cell
from ulmus.report.subject import Subject
from ulmus.scores import scores

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")

SECTIONS = (
    *("scores", "data", "choice", "errors", "parts", "calibration", "learning", "importance", "dependence", "what_if"),
    *("change", "map", "unsure", "behind", "second_look", "again"),
)
NASTY = '<script>alert("x")</script>'


def model_and_rows(task):
    if task == "regression":
        X, y = regression(240)
        model = make_pipeline(StandardScaler(), ulmus.NKELMRegressor(random_state=0))
    else:
        X, y = classification(240, classes=3)
        y = np.array(["low", "mid", NASTY])[y] if task == "classification" else y
        kind = ulmus.NKELMClassifier if task == "classification" else ulmus.NKELMOrdinalClassifier
        model = make_pipeline(StandardScaler(), kind(random_state=0))
    X = pd.DataFrame(X, columns=["one", NASTY, "three"])
    if task == "adaptive":
        X[NASTY] = np.where(X[NASTY] > 0, NASTY, "plain")
        model = ulmus.AdaptiveClassifier(effort="fast", random_state=0)
    return model.fit(X[:160], y[:160]), X[160:], y[160:]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The page of a task, made when it is first asked for."""
    folder = tmp_path_factory.mktemp("report")

    @cache
    def page(task):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ulmus.measures.RESAMPLES", 20)
            ulmus.report(*model_and_rows(task), folder / f"{task}.html")
        return folder / f"{task}.html"

    return page


@pytest.mark.parametrize("task", cases(["classification", "regression", "ordinal"], "classification", "regression"))
def test_every_section_is_there_and_filled(pages, task):
    page = pages(task).read_text(encoding="utf-8")
    found = dict(re.findall(r'<section id="([\w-]+)"><h2>[^<]*</h2>(.*?)</section>', page, re.DOTALL))
    assert tuple(found) == SECTIONS
    for key in ("choice", "errors", "calibration", "learning", "importance", "map"):
        assert "<svg" in found[key], key
    assert all(len(body) > 100 for body in found.values())


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("task", cases(["regression", "ordinal"]))
def test_rows_unlike_those_of_the_training_are_counted(tmp_path, task):
    model, X, y = model_and_rows(task)
    away = X.copy()
    away.iloc[:7] += 40.0
    count = int(model[-1].is_far(model[0].transform(away)).sum())
    assert count >= 7
    ulmus.report(model, away, y, tmp_path / "page.html")
    assert f"{count} of 80 rows are unlike any training row" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("task", ["classification", "adaptive"])
def test_texts_of_the_table_are_not_markup(pages, task):
    page = pages(task).read_text(encoding="utf-8")
    assert NASTY not in page
    assert page.count("<script") == 1


def test_nothing_is_fetched_from_elsewhere(pages):
    page = pages("regression").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!#|data:)""", re.sub(r"xlink:href", "href", page))
    assert not re.search(r"url\((?!#|&quot;#)", page)
    assert "@import" not in page


@pytest.mark.usefixtures("undrawn")
def test_bare_arrays_models_without_a_search_and_seen_rows_are_reported(tmp_path):
    X, y = regression(60)
    path = tmp_path / "plain.html"
    model = ulmus.ELMRegressor(20, slope=1.0, C=10.0, random_state=None).fit(X, y)
    ulmus.report(model, X, y, path, seen=True, title="Plain & simple")
    page = path.read_text(encoding="utf-8")
    assert "Plain &amp; simple" in page
    assert "optimistic" in page
    assert "nothing was searched" in page
    assert "another fit will differ" in page


@pytest.mark.usefixtures("undrawn", "few_resamples")
def test_several_outputs_are_reported(tmp_path):
    X, Y = regression(80, outputs=2)
    ulmus.report(ulmus.NKELMRegressor(20, random_state=0).fit(X, Y), X, Y, tmp_path / "two.html")


def test_rows_and_targets_must_fit():
    X, y = regression(30)
    with pytest.raises(ValueError, match="same number of rows, got 30 and 29"):
        ulmus.report(ulmus.KELMRegressor(gamma=1.0, C=1.0).fit(X, y), X, y[1:], "never.html")


def test_scores_are_those_of_the_definitions_and_their_intervals_hold_them():
    model, X, y = model_and_rows("regression")
    found = {s.name: s for s in scores(model, X, y)}
    error = y - model.predict(X)
    assert np.isclose(found["R²"].value, model.score(X, y))
    assert np.isclose(found["root mean squared error"].value, np.sqrt((error**2).mean()))
    assert all(s.low <= s.value <= s.high for s in found.values())
    # the bootstrap's interval of a mean is its standard error's
    width = found["mean absolute error"].high - found["mean absolute error"].low
    assert np.isclose(width, 2 * 1.96 * np.abs(error).std() / np.sqrt(len(y)), rtol=0.25)


SIZES = {"phone": (390, 844), "desk": (1200, 900)}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("task", cases(["classification", "regression", "adaptive"], "classification"))
def test_a_browser_shows_the_page_without_errors_and_without_sideways_scrolling(pages, browser, tmp_path, task, size):
    page, (width, height) = pages(task).read_text(encoding="utf-8"), SIZES[size]
    probe = (
        "<script>addEventListener('load',function(){"
        "var d=document.documentElement,m=document.querySelector('[data-tip]');"
        "d.setAttribute('data-wide',d.scrollWidth-d.clientWidth);"
        "m.dispatchEvent(new MouseEvent('click',{bubbles:true}));"
        "d.setAttribute('data-told',document.getElementById('tip').textContent.length)})</script>"
    )
    copy = tmp_path / "probed.html"
    copy.write_text(page.replace("</body>", probe + "</body>"), encoding="utf-8")
    log = tmp_path / "net.json"
    run = browser(f"--window-size={width},{height}", f"--log-net-log={log}", "--dump-dom", url=copy.as_uri())
    assert "CONSOLE" not in run.stderr, run.stderr
    assert all(f'<section id="{key}">' in run.stdout for key in SECTIONS)
    assert 'data-wide="0"' in run.stdout
    assert int(re.search(r'data-told="(\d+)"', run.stdout)[1]) > 10
    assert requests_of_the_page(log) == []


def test_a_request_would_have_been_seen(browser, tmp_path):
    page, log = tmp_path / "asks.html", tmp_path / "net.json"
    page.write_text('<img src="http://127.0.0.1:9/picture.png">')
    browser(f"--log-net-log={log}", "--dump-dom", url=page.as_uri())
    assert set(requests_of_the_page(log)) == {"http://127.0.0.1:9/picture.png"}


@pytest.mark.parametrize("width", [390, 1200], ids=["phone", "desk"])
def test_a_screenshot_shows_text_and_figures_down_the_page(pages, browser, tmp_path, width):
    picture = tmp_path / "page.png"
    browser(f"--window-size={width},4000", f"--screenshot={picture}", url=pages("classification").as_uri())
    ink = imread(picture)[..., :3].min(axis=2) < 0.5
    assert ink.shape[1] == width
    assert all(band.mean() > 1e-3 for band in np.array_split(ink, 8))


def test_the_page_prints(pages, browser, tmp_path):
    paper = tmp_path / "page.pdf"
    browser(f"--print-to-pdf={paper}", "--no-pdf-header-footer", url=pages("regression").as_uri())
    assert paper.read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("seed", range(5))
def test_the_interval_of_a_score_holds_it_and_is_centred_where_resamples_are_biased(seed):
    """A class of four rows is missing from some resamples, so that their balanced accuracy is too high or too low."""
    rng = np.random.RandomState(seed)
    truth = np.r_[np.zeros(200, int), np.ones(200, int), np.full(4, 2)]
    right = np.r_[rng.random_sample(400) < 0.9, [True, False, False, False]]
    answers = Answers(truth, np.where(right, truth, (truth + 1) % 3))
    draws = [_balanced(answers.take(rng.randint(404, size=404))) for _ in range(400)]
    low, high = interval(_balanced(answers), draws, 1.0, "higher")
    assert low <= _balanced(answers) <= high <= 1.0
    spread = np.std(draws)
    assert 2.5 * spread < high - low < 4.5 * spread


@pytest.mark.parametrize("measures", [TWO_CLASSES, ORDINAL])
def test_scores_without_a_wrong_row_are_not_sure_to_have_none_ever(measures):
    y = np.repeat([0, 1], [50, 10])
    found = {s.name: s for s in scored(Answers(y, y, np.linspace(0.8, 1, 60), np.where(y, 0.9, 0.1)), measures)}
    for score in found.values():
        assert score.low < score.high, score
        assert score.low <= score.value <= score.high
    exact = 0.025 ** (1 / 60)  # the end of Clopper and Pearson's interval
    assert found["accuracy"].low == pytest.approx(exact, abs=2e-3)
    assert found["accuracy"].high == 1
    if measures is TWO_CLASSES:  # the rarer class has the say
        assert found["balanced accuracy"].low == pytest.approx((1 + 0.025 ** (1 / 10)) / 2)
        assert found["area under the ROC curve"].low < 0.8


def test_scores_of_labels_that_are_all_right_or_all_wrong_have_an_interval():
    Y = np.random.RandomState(0).randint(0, 2, (40, 3))
    for predicted in (Y, 1 - Y):
        for score in scored(Answers(Y, predicted), LABELS):
            assert score.high - score.low == pytest.approx(1 - 0.025 ** (1 / 40))


def test_a_score_close_to_one_is_not_shown_as_one():
    assert [number(v) for v in (0.99994, 0.99996, 0.9999977, -0.99999, 1 - 1e-15, 1.0)] == [
        *("0.9999", "0.99996", "0.999998", "-0.99999", "1", "1")
    ]


def test_a_baseline_of_the_same_score_is_not_ahead():
    same = [Score("R²", -0.0098, -0.1, 0.1)]
    entries = [Contender("constant", same, 0.1), Contender("ulmus", same, 0.2, ours=True)]
    assert verdict(entries, "R²") == ""
    entries[0] = Contender("constant", [Score("R²", 0.2, 0.1, 0.3)], 0.1)
    assert verdict(entries, "R²").startswith("constant scored better")


def test_a_score_that_is_not_defined_has_no_interval_and_can_be_written():
    X, y = regression(40)
    model = ulmus.KELMRegressor(gamma=1.0, C=1.0).fit(X, y)
    found = scores(model, X[:10], np.full(10, 3.0))
    assert np.isnan([found[0].value, found[0].low, found[0].high]).all()
    assert np.isfinite(found[1].value)
    assert json.dumps([s.to_json() for s in found], allow_nan=False).startswith('[{"name": "R\\u00b2", "value": null')


def test_importance_is_seen_under_imbalance():
    """15 rows of 3,000: accuracy does not move when their column is shuffled, the likelihood does."""
    rng = np.random.RandomState(0)
    X = pd.DataFrame(rng.normal(size=(3000, 2)), columns=["tells", "noise"])
    X.loc[::200, "tells"] += 8
    y = np.where(np.arange(3000) % 200 == 0, "rare", "common")
    model = ulmus.NKELMClassifier(50, random_state=0).fit(X, y)
    section = importance_section(Subject.of(model, X, y, seen=True))
    values = dict(re.findall(r"<td>(tells|noise)</td><td class=\"n\">([-\d.e]+)</td>", section))
    assert float(values["tells"]) > 0.1
    assert float(values["tells"]) > 10 * abs(float(values["noise"]))


def test_a_map_draws_rows_by_which_its_plane_was_not_found():
    """Labels at random cannot be told apart on other rows, though they can on those that found the plane."""
    rng = np.random.RandomState(0)
    X, index = rng.normal(size=(400, 40)), rng.randint(2, size=400)
    fitted, drawn = _halves(400)
    assert not set(fitted) & set(drawn)
    picture = project(X, ["a", "b"], index, pd.DataFrame(X[:, :1], columns=["x"]), {})
    marks = re.findall(r'translate\(([\d.]+),[\d.]+\)" data-tip="row (\d+): (a|b)', picture)
    assert {int(row) for _, row, _ in marks} == set(drawn)
    x, group = np.array([float(m[0]) for m in marks]), np.array([m[2] == "b" for m in marks])
    best = max(max(((x > c) == group).mean(), ((x <= c) == group).mean()) for c in x)
    assert best < 0.65
    assert "200 of 400 rows are drawn" in shown(400)


def test_sixty_classes_have_different_marks():
    assert len({_mark(k) for k in range(60)}) == 60


def test_money_is_written_without_an_exponent():
    assert cell(29791.3) == "29,791"
    assert cell(0.012) == "0.012"

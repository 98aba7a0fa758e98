"""What a report is asked: which rows and parts are missed, what a threshold costs, what if a value were another."""

import json
import re
from html import unescape

import numpy as np
import pandas as pd
import pytest
from sklearn.inspection import partial_dependence

import ulmus
from ulmus.report.dependence import answers, grid
from ulmus.report.subgroups import losses, subgroup_section
from ulmus.report.subject import Context, Subject
from ulmus.report.what_if import what_if_section

N = 240


def rows(seed=0):
    rng = np.random.RandomState(seed)
    frame = pd.DataFrame(
        {
            "age": rng.randint(18, 80, N).astype(float),
            "town": rng.choice(["Rome", "Oslo", "Bern"], N),
            "noise": rng.normal(size=N),
        }
    )
    y = (
        (frame["age"] - 50) / 10
        + 2 * (frame["town"] == "Rome")
        + rng.normal(size=N) * np.where(frame["town"] == "Oslo", 3, 0.1)
    )
    return frame, y.to_numpy()


@pytest.fixture(scope="module")
def subject():
    frame, y = rows()
    model = ulmus.AdaptiveRegressor(effort="fast", random_state=0).fit(*rows(1))
    return Subject.of(model, frame, y, seen=False)


@pytest.fixture(scope="module")
def two_classes(tmp_path_factory):
    frame, y = rows()
    model = ulmus.AdaptiveClassifier(effort="fast", random_state=0)
    other, z = rows(1)
    model.fit(other, np.where(z > 0, "yes", "no"))
    page = tmp_path_factory.mktemp("two") / "report.html"
    context = Context(
        target="churn",
        file="customers.csv",
        n_rows=300,
        n_fitted=N,
        left_out={"id": "names the rows"},
        findings=("column 'x' predicts the target on its own",),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ulmus.measures.RESAMPLES", 20)
        ulmus.report(model, frame, np.where(y > 0, "yes", "no"), page, context=context)
    return page, model, frame, np.where(y > 0, "yes", "no")


def test_the_part_with_the_noise_comes_first(subject):
    text = subgroup_section(subject)
    cells = re.findall(r"<td[^>]*>(.*?)</td>", text)
    assert cells[:2] == ["town", "Oslo"]
    error, _ = losses(subject)
    oslo = (subject.frame["town"] == "Oslo").to_numpy()
    assert float(cells[3]) == pytest.approx(error[oslo].mean(), rel=1e-3)
    assert float(cells[4]) == pytest.approx(error[oslo].mean() / error.mean(), rel=1e-3)
    assert int(cells[5]) == np.flatnonzero(oslo)[error[oslo].argmax()]


def test_partial_dependence_is_that_of_scikit_learn(subject):
    values = grid(subject.frame["age"], 5)
    ours = [answers(subject, subject.frame.assign(age=value)).mean() for value in values]
    theirs = partial_dependence(
        subject.model, subject.frame, ["age"], custom_values={"age": np.array(values)}, kind="average"
    )
    np.testing.assert_allclose(ours, theirs["average"][0])


def test_what_if_answers_are_those_of_the_model(subject):
    text = what_if_section(subject)
    data = json.loads(unescape(re.search(r'data-answers="([^"]*)"', text)[1]))
    names = re.findall(r"<label>(\w+) <input type=\"range\"", text)
    assert set(names) <= {"age", "town", "noise"}
    labels = [int(k) for k in re.findall(r"row (\d+)</option>", text)]
    for r, i in enumerate(labels):
        sizes = [len(choice) for choice in data["values"][r]]
        assert len(data["answered"][r]) == np.prod(sizes)
        own = data["answered"][r][np.ravel_multi_index(data["at"][r], sizes)]
        assert float(own.replace(",", "")) == pytest.approx(subject.predicted[i], rel=1e-3, abs=1e-3)
        town = names.index("town")
        place = list(data["at"][r])
        place[town] = data["values"][r][town].index("Rome")
        told = data["answered"][r][np.ravel_multi_index(place, sizes)]
        expected = subject.model.predict(subject.frame.iloc[[i]].assign(town="Rome"))[0]
        assert float(told.replace(",", "")) == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_a_report_names_file_and_target_and_what_is_odd(two_classes):
    text = two_classes[0].read_text(encoding="utf-8")
    for words in (
        "Report on churn",
        "classification of churn, on 240 rows of customers.csv",
        "column &#x27;x&#x27; predicts the target on its own",
        "names the rows",
        "area under the ROC curve",
        "average precision",
        "prefers-color-scheme:dark",
    ):
        assert words in text, words


def test_marks_and_their_legend_have_the_same_colours_in_the_dark(two_classes, browser, tmp_path):
    probe = (
        "<script>addEventListener('load',function(){var f=[].map.call(document.querySelectorAll('.map svg'),"
        "function(s){return getComputedStyle(s).filter});document.documentElement.setAttribute('data-filters',"
        "JSON.stringify(f))})</script>"
    )
    page = tmp_path / "dark.html"
    page.write_text(two_classes[0].read_text(encoding="utf-8").replace("</body>", probe + "</body>"), encoding="utf-8")
    shown = browser("--blink-settings=preferredColorScheme=0", "--dump-dom", url=page.as_uri()).stdout
    filters = json.loads(unescape(re.search(r'data-filters="([^"]*)"', shown)[1]))
    assert len(filters) >= 3
    assert set(filters) == {"invert(1) hue-rotate(180deg)"}


def test_the_page_finds_the_threshold_of_least_cost(two_classes, browser, tmp_path):
    page, model, frame, y = two_classes
    p, truth = model.predict_proba(frame)[:, 1].round(4), y == "yes"
    thresholds = np.arange(201) / 200

    def cost(alarm, miss):
        return np.array([(alarm * ((p >= t) & ~truth).sum() + miss * ((p < t) & truth).sum()) / N for t in thresholds])

    probe = (
        "<script>addEventListener('load',function(){var m=document.getElementById('cost-miss');m.value=5;"
        "m.dispatchEvent(new Event('input'));document.documentElement.setAttribute('data-told',"
        "document.getElementById('threshold-out').textContent)})</script>"
    )
    probed = tmp_path / "probed.html"
    probed.write_text(page.read_text(encoding="utf-8").replace("</body>", probe + "</body>"), encoding="utf-8")
    told = re.search(r'data-told="([^"]*)"', browser("--dump-dom", url=probed.as_uri()).stdout)[1]
    assert f"cost per row {cost(1, 5).min():.4f}" in told
    assert f"threshold {thresholds[cost(1, 5).argmin()]:.3f}" in told


def test_what_if_moves_in_a_browser(two_classes, browser, tmp_path):
    probe = (
        "<script>addEventListener('load',function(){var o=document.getElementById('what-if-out'),a=o.textContent,"
        "s=document.querySelector('#what-if-box input[type=range]');s.value=+s.value?0:+s.max;"
        "s.dispatchEvent(new Event('input'));"
        "document.documentElement.setAttribute('data-told',a+'|'+o.textContent)})</script>"
    )
    probed = tmp_path / "probed.html"
    text = two_classes[0].read_text(encoding="utf-8").replace("</body>", probe + "</body>")
    probed.write_text(text, encoding="utf-8")
    shown = browser("--dump-dom", url=probed.as_uri())
    before, after = re.search(r'data-told="([^"]*)"', shown.stdout)[1].split("|")
    assert before.startswith("probability of yes: ")
    assert before.endswith("(as it is)")
    assert after.startswith("probability of yes: ")
    assert not after.endswith("(as it is)")

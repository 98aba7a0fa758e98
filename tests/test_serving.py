"""A model behind HTTP: a form, uploads and JSON, in the words of the command line."""

import asyncio
import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("starlette")
import httpx

import ulmus
from ulmus.cli import main
from ulmus.cli.console import OK
from ulmus.cli.models import model_for
from ulmus.persistence import describe
from ulmus.serving import Limits, application
from ulmus.serving.answers import Predictor, Question
from ulmus.tables.read import read_table
from ulmus.tables.schema import Schema, frame, target

pytestmark = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")
N = 200


def people(seed=0):
    rng = np.random.RandomState(seed)
    frame = pd.DataFrame(
        {
            "age": rng.randint(18, 90, N),
            "fee": [f"€ {p:.2f}" for p in rng.gamma(2, 20, N)],
            "town": rng.choice(["Rome", "Köln", "Oslo"], N),
            "since": (np.datetime64("2020-01-01") + rng.randint(0, 900, N)).astype(str),
        }
    )
    frame["price"] = (frame["age"] / 3 + 5 * (frame["town"] == "Rome") + rng.normal(size=N)).round(2)
    frame["kind"] = np.where(frame["price"] > 20, "dear", "cheap")
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    people().drop(columns="kind").to_csv(folder / "price.csv", index=False)
    people().drop(columns="price").to_csv(folder / "kind.csv", index=False)
    for name in ("price", "kind"):
        fit = ["fit", str(folder / f"{name}.csv"), "--target", name, "--effort", "fast", "--no-baselines"]
        assert main([*fit, "-o", str(folder / f"{name}.ulmus")]) == OK
    return folder


def app_of(folder, name="price", **options):
    path = folder / f"{name}.ulmus"
    return application(ulmus.load(path), Schema.from_json(describe(path).notes["table"], str(path)), **options)


def ask(app, *requests, host="localhost"):
    """Answers to (method, path, options), all asked at once."""

    async def run():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
            return await asyncio.gather(*(client.request(m, path, **more) for m, path, more in requests))

    return asyncio.run(run())


def row(frame, i):
    return json.loads(frame.drop(columns=["price", "kind"]).iloc[[i]].to_json(orient="records"))[0]


def by_command(folder, name, frame, *options):
    """What the command line predicts for these rows."""
    given, out = folder / "given.csv", folder / "out.csv"
    frame.to_csv(given, index=False)
    assert main(["predict", str(folder / f"{name}.ulmus"), str(given), "-o", str(out), *options]) == OK
    return pd.read_csv(out)


def test_answers_are_those_of_the_command_line(folder):
    new = people(1)
    expected = by_command(folder, "price", new[:40], "--interval", "0.9")
    one = [("POST", "/predict", {"json": row(new, i)}) for i in range(40)]
    several = ("POST", "/predict", {"json": {"rows": [row(new, i) for i in range(40)], "interval": 0.9}})
    *single, together = ask(app_of(folder), *one, several)
    found = [answer.json()["predictions"][0] for answer in single]
    np.testing.assert_allclose(found, expected["prediction"], rtol=1e-9)
    np.testing.assert_allclose(together.json()["predictions"], expected["prediction"], rtol=1e-9)
    np.testing.assert_allclose(together.json()["intervals"], expected[["low", "high"]], rtol=1e-9)


def test_classes_come_with_their_probabilities(folder):
    new = people(1)
    expected = by_command(folder, "kind", new[:5], "--proba")
    (answer,) = ask(
        app_of(folder, "kind"), ("POST", "/predict", {"json": {"rows": [row(new, i) for i in range(5)], "proba": True}})
    )
    told = answer.json()
    assert told["classes"] == ["cheap", "dear"]
    assert told["predictions"] == expected["prediction"].tolist()
    np.testing.assert_allclose(np.array(told["probabilities"])[:, 1], expected["probability of dear"], rtol=1e-9)


def test_bad_rows_are_answered_in_the_words_of_the_command_line(folder, capsys):
    good, bad = row(people(), 0), {**row(people(), 1), "age": "old"}
    fine, wrong = ask(app_of(folder), ("POST", "/predict", {"json": good}), ("POST", "/predict", {"json": bad}))
    assert fine.status_code == 200  # though they were asked together
    assert wrong.status_code == 422
    lines = folder / "bad.jsonl"
    lines.write_text(json.dumps(bad))
    capsys.readouterr()
    assert main(["predict", str(folder / "price.ulmus"), str(lines)]) == 3
    said = capsys.readouterr().err.replace("\n", "").partition(": ")[2]
    told, way = wrong.json()["error"].split("; ", 1)
    assert told in said.replace(f"{lines}, ", "")
    assert way == "send numbers, or write them as in training; send null where a value is not known"
    assert (wrong.json()["row"], wrong.json()["column"]) == (1, "age")


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ({"content": b"{"}, 400, "not JSON"),
        ({"content": b"3"}, 400, "a request is a row"),
        ({"json": []}, 422, "no rows"),
        ({"json": [3]}, 422, "a row must be a JSON object"),
        ({"json": {"age": 3}}, 422, "column 'fee': no such column, nor 'town', 'since'; there are 'age'"),
        ({"json": {"age": [[3]]}}, 422, "a value must be a number, a text, true, false, null, or a list of these"),
        ({"json": {"rows": [], "wish": 1}}, 400, "not 'wish'"),
        ({"json": {"rows": [{}], "proba": True}}, 422, "proba is for classes"),
        ({"json": {"rows": [{}], "interval": 2}}, 422, "between 0 and 1"),
        ({"json": [{}] * 11}, 413, "11 rows are more than the 10"),
        ({"content": b" " * 3000}, 413, "longer than 2,000 bytes"),
    ],
    ids=str,
)
def test_what_cannot_be_answered_is_said(folder, options, code, words):
    (answer,) = ask(app_of(folder, limits=Limits(2000, 10)), ("POST", "/predict", options))
    assert answer.status_code == code
    assert words in answer.json()["error"]


def test_files_come_back_with_predictions(folder):
    new = people(1)
    expected = by_command(folder, "price", new, "--keep")
    body = new.to_csv(index=False).encode()
    good, bad = ask(app_of(folder), ("POST", "/csv", {"content": body}), ("POST", "/csv", {"content": b"a,b\n1\n"}))
    (folder / "back.csv").write_bytes(good.content)
    pd.testing.assert_frame_equal(pd.read_csv(folder / "back.csv"), expected)
    assert "Ulmus-Warnings" not in good.headers
    assert bad.status_code == 422
    assert bad.json()["error"].startswith("the file, row 2: the header has 2 fields but this row has 1")
    odd = new.astype({"age": object})
    odd.loc[3, "age"] = "älter"
    (answer,) = ask(app_of(folder), ("POST", "/csv", {"content": odd.to_csv(index=False).encode()}))
    (told,) = json.loads(answer.headers["Ulmus-Warnings"])
    assert told == "the file, row 5, column 'age': 'älter' is not a number; it counts as missing"


def test_dates_of_another_form_are_told_with_those_that_can_be_read(folder):
    wrong = {**row(people(), 0), "since": "2.7.20"}
    (answer,) = ask(app_of(folder), ("POST", "/predict", {"json": wrong}))
    said = "row 1, column 'since': '2.7.20' is not a date like 2024-12-31; send null where a value is not known"
    assert answer.json()["error"] == said
    file = pd.DataFrame([wrong] * 3).to_csv(index=False).encode()
    (answer,) = ask(app_of(folder), ("POST", "/csv", {"content": file}))
    assert "--force" not in answer.json()["error"]


def test_other_hosts_are_refused(folder):
    (answer,) = ask(app_of(folder), ("GET", "/schema", {}), host="evil.example")
    assert answer.status_code == 400
    (answer,) = ask(app_of(folder, hosts=("here.example",)), ("GET", "/schema", {}), host="here.example")
    assert answer.json()["target"] == "price"
    assert [column["kind"] for column in answer.json()["columns"]] == ["number", "number", "category", "date"]


def test_questions_that_wait_are_answered_together(folder):
    path = folder / "price.ulmus"
    predictor = Predictor(ulmus.load(path), Schema.from_json(describe(path).notes["table"], str(path)))
    questions = [Question([row(people(), i)], interval=level) for i, level in enumerate([None, 0.9, 0.5, None])]
    for question, answer in zip(questions, predictor.answer_together(questions), strict=True):
        alone = predictor.answer(question)
        np.testing.assert_allclose(answer.predictions, alone.predictions, rtol=1e-9)
        assert (answer.intervals is None) == (question.interval is None)
        if answer.intervals is not None:
            np.testing.assert_allclose(answer.intervals, alone.intervals, rtol=1e-9)


@pytest.mark.parametrize("kind", ["adaptive", "nkelm"])
@pytest.mark.parametrize(
    "change",
    [
        *({}, {"age": 41.5}, {"age": "41"}, {"age": None}, {"fee": 12}, {"fee": None}, {"town": " Rome "}),
        *({"town": "N/A"}, {"town": "Bern"}, {"town": None}, {"since": "2021-02-28"}, {"since": None}),
        {"town": "Köln", "more": [1]},
    ],
    ids=str,
)
def test_rows_read_without_a_frame_give_the_same_answers(folder, kind, change):
    predictor = served(folder, kind)
    questions = [Question([{**row(people(), i), **change}]) for i in range(3)]
    joined = predictor._joined(questions)
    assert joined is not None
    for question, answer in zip(questions, predictor.answer_together(questions), strict=True):
        assert answer.warnings == []
        np.testing.assert_allclose(answer.predictions, predictor.answer(question).predictions, rtol=1e-9)


@pytest.mark.parametrize("change", [{"town": ["Rome"]}, {"age": 10**20}, {"town": 3}, {"since": 2021}], ids=str)
def test_a_question_is_not_read_by_the_values_of_another(folder, change):
    predictor, plain = served(folder, "adaptive"), Question([row(people(), 1)])
    _, answer = predictor.answer_together([Question([{**row(people(), 0), **change}]), plain])
    np.testing.assert_allclose(answer.predictions, predictor.answer(plain).predictions, rtol=1e-9)


@lru_cache
def served(folder, kind):
    path = folder / "price.ulmus"
    schema = Schema.from_json(describe(path).notes["table"], str(path))
    if kind == "adaptive":
        return Predictor(ulmus.load(path), schema)
    batch = read_table(str(folder / "price.csv"))
    X, y = frame(batch, schema, pytest.fail), target(batch, schema, pytest.fail)[0]
    return Predictor(model_for(schema, "nkelm", effort="fast", seed=0, threads=1).fit(X, y), schema)


@pytest.fixture
def server(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "ulmus", "serve", str(folder / "price.ulmus"), "--port", str(port)],
        stderr=subprocess.PIPE,
    )
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/schema", timeout=1).read()
            break
        except OSError:
            time.sleep(0.1)
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait(timeout=30)


def test_the_form_predicts_in_a_browser(server, browser, folder, tmp_path):
    page = urllib.request.urlopen(server).read().decode()
    assert 'name="town"' in page
    probe = (
        "<script>addEventListener('load',function(){var f=document.getElementById('row');f.elements['age'].value='50';"
        "f.elements['fee'].value='€ 20';f.elements['town'].value='Rome';f.elements['since'].value='2021-05-01';"
        "document.body.setAttribute('data-notes',getComputedStyle(document.getElementById('notes')).display);"
        "f.requestSubmit()})</script>"
    )
    # the page is served again with the probe, and its requests go to the server
    probed = tmp_path / "probed.html"
    text = page.replace("</body>", probe + "</body>").replace("connect-src 'self'", f"connect-src {server}")
    probed.write_text(text.replace("fetch('", f"fetch('{server}/"), encoding="utf-8")
    shown = browser(
        "--disable-web-security",
        f"--user-data-dir={tmp_path}",
        "--virtual-time-budget=20000",
        "--dump-dom",
        url=probed.as_uri(),
    )
    told = re.search(r'<output id="answer"[^>]*>(.*?)</output>', shown.stdout, re.DOTALL)[1]
    body = json.dumps({"age": 50, "fee": "€ 20", "town": "Rome", "since": "2021-05-01"}).encode()
    request = urllib.request.Request(f"{server}/predict", body, {"Content-Type": "application/json"})
    expected = json.loads(urllib.request.urlopen(request).read())["predictions"][0]
    assert float(told.split()[0]) == pytest.approx(expected, rel=1e-4)
    assert "(90 %:" in told
    assert 'data-notes="none"' in shown.stdout  # no empty bar where there is nothing to note

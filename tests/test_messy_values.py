"""Values as people write them: multiples, months of other languages, merged cells, targets and frames with holes."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import ulmus
from ulmus.cli import main
from ulmus.cli.console import FAILED, OK, guarded
from ulmus.exceptions import DriftWarning
from ulmus.features.written import Kind, dates, kind_of_texts, numbers
from ulmus.report.figures import shortened
from ulmus.tables import TableError
from ulmus.tables.read import read_table
from ulmus.tables.schema import frame, learn, target

N = 60
ROWS = np.arange(N)


def learned(tmp_path, goal, text):
    file = tmp_path / "table.csv"
    file.write_text(text, encoding="utf-8")
    batch = read_table(str(file))
    schema, said = learn(batch, goal), []
    return schema, frame(batch, schema, said.append), target(batch, schema, said.append)[0], said


def money(x):
    return f"${x / 1e6:.3f}M" if x >= 1e6 else f"${x / 1e3:.0f}K" if x >= 1e3 else f"${x:.0f}"


AMOUNTS = np.round(10 ** (2 + ROWS / 12))
AMOUNTS = np.where(AMOUNTS >= 1e3, np.round(AMOUNTS, -3), AMOUNTS)


@pytest.mark.parametrize(
    ("write", "values"),
    [
        (lambda i: money(AMOUNTS[i]), AMOUNTS),
        (lambda i: money(AMOUNTS[i]).strip("$"), AMOUNTS),
        (
            lambda i: f"{i + 1},5 Mrd. €" if i % 2 else f"{i + 1} Mio. €",
            (ROWS + 1 + ROWS % 2 / 2) * np.tile([1e6, 1e9], N // 2),
        ),
        (lambda i: f"£{i + 1}m", (ROWS + 1) * 1e6),
        (lambda i: f"{i + 1}k", (ROWS + 1) * 1e3),
        (lambda i: f"{i + 1} kg" if i % 2 else f"{i + 1} g", (ROWS + 1) * np.tile([1, 1e3], N // 2)),
        (lambda i: f"{i + 1} MB" if i % 2 else f"{i + 1} B", (ROWS + 1) * np.tile([1, 1e6], N // 2)),
        (lambda i: f"{i + 1} kg", ROWS + 1),
        (lambda i: f"{i + 1} m", ROWS + 1),
        (lambda i: f"{i + 1}M", ROWS + 1),
        (lambda i: f"{i + 1}/10", ROWS + 1),
    ],
    ids=[
        "dollars",
        "counts",
        "billions and millions in German",
        "pounds",
        "thousands",
        "weights",
        "sizes of files",
        "one unit",
        "metres",
        "one letter",
        "points of ten",
    ],
)
def test_multiples_are_read_in_one_unit(tmp_path, write, values):
    schema, X, y, said = learned(tmp_path, "y", "a;y\n" + "".join(f"{write(i)};{write(i)}\n" for i in range(N)))
    assert (schema.columns["a"].name, schema.task, said) == ("number", "regression", [])
    np.testing.assert_allclose(X["a"], values, rtol=1e-12)
    np.testing.assert_allclose(y, values, rtol=1e-12)
    texts = pd.DataFrame({"a": [write(i) for i in range(N)]})
    np.testing.assert_allclose(ulmus.TableEncoder(prepared=False).fit_transform(texts)[:, 0], values, rtol=1e-12)


def test_few_multiples_among_plain_numbers_are_not_lost(tmp_path):
    text = "a,y\n" + "".join(f"{'1.2K' if i == 7 else 100 + i},{i}.5\n" for i in range(N))
    _, X, _, said = learned(tmp_path, "y", text)
    assert (X["a"][7], X["a"][8], said) == (1200, 108, [])


def test_a_number_without_a_unit_among_several_units_is_missing_and_told(tmp_path):
    text = "a,y\n" + "".join(f"{'5' if i == 7 else f'{i} kg' if i % 2 else f'{i} g'},{i}.5\n" for i in range(N))
    _, X, _, said = learned(tmp_path, "y", text)
    assert np.isnan(X["a"][7])
    assert "row 9, column 'a': '5' is not a number" in said[0]


def test_a_multiple_without_a_unit_among_several_units_is_missing():
    np.testing.assert_array_equal(numbers(["5 m", "2 km", "5M", "5k"], "plain: #m×"), [5, 2000, np.nan, np.nan])
    np.testing.assert_array_equal(numbers(["$5", "2M", "5k"], "plain: $#×"), [5, 2e6, 5e3])


def test_numbers_in_parentheses_are_negative_with_a_minus_too():
    np.testing.assert_array_equal(numbers(["(5)", "(-5)", "-5", "($5)", "(-$5)"], "plain: $#"), -5.0)


@pytest.mark.parametrize(
    ("texts", "days"),
    [
        (["15 juillet 1993", "1er août 2023", "3 mai 2020"], ["1993-07-15", "2023-08-01", "2020-05-03"]),
        (["15. März 2023", "3. September 2022", "24. Dez. 2021"], ["2023-03-15", "2022-09-03", "2021-12-24"]),
        (["15 de marzo de 2023", "2 de enero de 2020"], ["2023-03-15", "2020-01-02"]),
        (["3 Jan. 2021", "14 Feb. 2022", "1 Sept. 2020"], ["2021-01-03", "2022-02-14", "2020-09-01"]),
        (["May 3rd, 2021", "June 21st, 2020"], ["2021-05-03", "2020-06-21"]),
        (["2024/05/28 10:03:00 PM GMT+1", "2024/01/06 11:53:54 AM GMT+1"], ["2024-05-28T21:03", "2024-01-06T10:53:54"]),
        (["2024-05-28 10:03:00 UTC", "2024-05-29 11:03:00 UTC"], ["2024-05-28T10:03", "2024-05-29T11:03"]),
        (["5/28/2024, 10:03:00 PM", "1/6/2024, 1:00:01 AM"], ["2024-05-28T22:03", "2024-01-06T01:00:01"]),
        (["Mon, 15 Jan 2024 10:00:00 +0100", "Tue, 16 Jan 2024 10:00:00 +0000"], ["2024-01-15T09", "2024-01-16T10"]),
        (["03.2024", "12.2023"], ["2024-03-01", "2023-12-01"]),
        (["03/2024", "12/2023"], ["2024-03-01", "2023-12-01"]),
    ],
)
def test_dates_are_read_as_they_are_written(tmp_path, texts, days):
    kind = kind_of_texts(texts, np.ones(len(texts)))
    assert kind.name == "date"
    wanted = np.array(days, "datetime64[s]")
    np.testing.assert_allclose(dates(texts, kind.form), wanted.astype(np.int64) / 86400, atol=1e-9)
    rows = [f'"{texts[i % len(texts)]}";{i}.5\n' for i in range(N)]
    schema, X, _, _ = learned(tmp_path, "y", "when;y\n" + "".join(rows))
    assert schema.columns["when"].name == "date"
    np.testing.assert_array_equal(X["when"][: len(days)].to_numpy().astype("datetime64[s]"), wanted)


@pytest.mark.parametrize("form", ["%d.%m.%Y", "%m/%d/%Y", "%d %B %Y", "%d.%m.%Y %H:%M"])
def test_dates_of_iso_8601_are_read_whatever_form_is_known(tmp_path, form):
    days = pd.Series(pd.date_range("2020-01-01", periods=N, freq="17D"))
    schema = learned(tmp_path, "y", "when;y\n" + "".join(f"{d.strftime(form)};{i}.5\n" for i, d in enumerate(days)))[0]
    assert schema.columns["when"].form
    file = tmp_path / "new.csv"
    file.write_text("when\n" + "\n".join(days.dt.strftime("%Y-%m-%d")), encoding="utf-8")
    X = frame(read_table(str(file)), schema, pytest.fail)
    assert X["when"].tolist() == days.tolist()
    encoder = ulmus.TableEncoder().fit(pd.DataFrame({"when": days.dt.strftime(form), "a": ROWS + 0.5}))
    iso, own = (pd.DataFrame({"when": days.dt.strftime(f), "a": ROWS + 0.5}) for f in ("%Y-%m-%d", form))
    np.testing.assert_array_equal(encoder.transform(iso), encoder.transform(own))


def test_dates_that_cannot_be_read_are_told_with_forms_that_can(tmp_path):
    days = [f"{1 + i % 28:02d}.07.2020" for i in range(N)]
    schema = learned(tmp_path, "y", "when;y\n" + "".join(f"{d};{i}.5\n" for i, d in enumerate(days)))[0]
    file = tmp_path / "new.csv"
    file.write_text("when\n" + "\n".join(day[:-4] + "20" for day in days), encoding="utf-8")
    said = r"'01\.07\.20' is not a date like 31\.12\.2024 or 2024-12-31, nor are 59 of the other 59 values; predict"
    with pytest.raises(TableError, match=said):
        frame(read_table(str(file)), schema, print)
    encoder = ulmus.TableEncoder().fit(pd.DataFrame({"when": days, "a": ROWS + 0.5}))
    said = r"contains text now: 'soon' and 59 more values cannot be read; .* as 31\.12\.2024 or 2024-12-31"
    with pytest.raises(ValueError, match=said):
        encoder.transform(pd.DataFrame({"when": ["soon"] * N, "a": ROWS + 0.5}))


def test_a_name_that_comes_twice_is_told(tmp_path):
    text = "area;town;area;x;y\n" + "".join(f"{i};a;{i % 7}.5;{i % 3};{i}.5\n" for i in ROWS)
    schema, _, _, said = learned(tmp_path, "y", text)
    assert "area.1" in schema.columns
    assert any("several columns are called 'area'; the one in place 3 is called 'area.1' here" in note for note in said)


def test_numbers_like_months_are_numbers():
    assert kind_of_texts(["3.2024", "12.2023"], np.ones(2)).name == "number"
    assert kind_of_texts(["03.20", "12.30"], np.ones(2)).name == "number"


def test_whole_numbers_of_json_keep_digits_that_floats_have_not(tmp_path):
    file, numbers = tmp_path / "rows.jsonl", [12345678901234567890, 12345678901234567891, 7]
    file.write_text("".join(f'{{"id": {number}, "y": 1.5}}\n' for number in numbers))
    assert read_table(str(file)).column("id").to_pylist() == [str(number) for number in numbers]


def test_merged_cells_hold_for_all_their_rows(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet["A1"] = "Shops, 2024"
    sheet.merge_cells("A1:C1")
    sheet.append(["region", "share", "turnover"])
    for i in range(N):
        sheet.append(["North" if i == 0 else "South" if i == N // 2 else None, i / 10, i])
    sheet.merge_cells(f"A3:A{2 + N // 2}")
    sheet.merge_cells(f"A{3 + N // 2}:A{2 + N}")
    sheet[f"A{3 + N}"] = "a note"
    sheet.merge_cells(f"A{3 + N}:C{4 + N}")  # with nothing below it
    book.save(tmp_path / "shops.xlsx")
    batch = read_table(str(tmp_path / "shops.xlsx"))
    assert batch.column("region").to_pylist() == ["North"] * (N // 2) + ["South"] * (N // 2) + ["a note"]
    assert any(
        "column 'region': merged cells were filled down (2; the first spans rows 3 to 32)" in t for t in batch.notes
    )
    assert batch.column("share").to_pylist() == [*(i / 10 for i in range(N)), None]


def test_a_few_numbers_that_are_all_different_are_no_classes(tmp_path):
    assert learned(tmp_path, "y", "x,y\n" + "".join(f"{i},{2 * i}\n" for i in range(6)))[0].task == "regression"
    assert learned(tmp_path, "y", "x,y\n" + "".join(f"{i},{i % 3}\n" for i in range(6)))[0].task == "classification"
    assert learned(tmp_path, "y", "x,y\n1,0\n2,1\n")[0].task == "classification"


def test_another_decimal_separator_keeps_what_stands_beside_numbers(tmp_path):
    file = tmp_path / "train.csv"
    file.write_text("a;y\n" + "".join(f"{i},5 %;{i}\n" for i in range(N)), encoding="utf-8")
    schema = learn(read_table(str(file)), "y")
    file.write_text("a;y\n" + "".join(f"{i}.5 %;{i}\n" for i in range(N)), encoding="utf-8")
    with pytest.raises(TableError, match=r"\(number \(decimal comma, %\)\), nor are 59 of the other 59 values"):
        frame(read_table(str(file)), schema, print)
    X = frame(read_table(str(file)), schema, pytest.fail, decimal=".")
    np.testing.assert_array_equal(X["a"], ROWS + 0.5)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Kind("number", "plain"), "number"),
        (Kind("number", "decimal comma: #€"), "number (decimal comma, €)"),
        (Kind("number", "plain: $#×"), "number (multiples of $)"),
        (Kind("date", "%d.%m.%Y|"), "date (%d.%m.%Y, ISO 8601)"),
        (Kind("text"), "text"),
    ],
)
def test_kinds_are_told_in_words(kind, words):
    assert str(kind) == words


def test_a_column_that_turns_empty_is_told_in_frames_too():
    X = pd.DataFrame({"a": ROWS / 7, "b": np.sin(ROWS), "c": np.where(ROWS % 3, np.nan, ROWS)})
    model = ulmus.AdaptiveRegressor(effort="fast", random_state=0).fit(X, ROWS)
    with pytest.warns(DriftWarning, match="column 'b': 60 of 60 values are missing, where 0 % were in training"):
        model.predict(X.assign(b=np.nan))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DriftWarning)
        model.predict(X.assign(b=X["b"].where(ROWS % 2 == 0), c=np.nan))
        model.predict(X.assign(b=np.nan)[:10])


@pytest.mark.parametrize("model", [ulmus.AdaptiveClassifier(), ulmus.NKELMClassifier(), ulmus.ENDA()])
def test_a_class_that_is_not_there_is_told_with_its_row(model):
    y = np.array(["a", "b"] * (N // 2), dtype=object)
    y[3] = None
    with pytest.raises(ValueError, match=r"missing \(None\) in 1 of 60 rows, first in row 3"):
        model.fit(ROWS[:, None] / N, y)


@pytest.mark.parametrize("make", [np.asarray, pd.Series, list], ids=["array", "series", "list"])
def test_a_label_that_is_no_number_is_told_to_be_one_of_y(make):
    y = np.array(["a", "b"] * (N // 2), dtype=object)
    y[[3, 5]] = np.nan
    for model in (ulmus.NKELMClassifier(), ulmus.KLDA(), ulmus.OSELMClassifier()):
        with pytest.raises(ValueError, match=r"y is missing \(NaN\) in 2 of 60 rows, first in row 3"):
            model.fit(ROWS[:, None] / N, make(y))


def test_columns_left_out_are_told_with_the_line_of_the_program_and_advice_that_helps():
    X = pd.DataFrame({"a": ROWS % 7 + 0.5, "same": 1.0})
    with pytest.warns(ulmus.LeftOutWarning, match="'same' has only one value$") as caught:
        ulmus.AdaptiveRegressor(effort="fast", random_state=0).fit(X, ROWS / N)
    assert caught[0].filename == __file__
    with pytest.warns(ulmus.LeftOutWarning, match="kinds={'id': \"category\"}"):
        ulmus.TableEncoder().fit(X.assign(id=[f"k{i}" for i in ROWS]))


def test_two_columns_of_one_name_are_told_with_it():
    X = pd.DataFrame(np.column_stack([ROWS, ROWS]), columns=["a", "a"])
    with pytest.raises(ValueError, match="2 columns of the frame are called 'a'"):
        ulmus.AdaptiveRegressor().fit(X, ROWS)


@pytest.mark.usefixtures("undrawn")
def test_a_report_of_numbers_calls_things_what_they_are(tmp_path):
    rng = np.random.RandomState(0)
    towns = np.array(["Rome", "Oslo", "Bern"])[ROWS % 3]
    pd.DataFrame({"x": rng.normal(size=N), "town": towns, "y": ROWS % 3 + rng.normal(size=N)}).to_csv(
        tmp_path / "t.csv", index=False
    )
    options = ["--target", "y", "--model", "nkelm", "--no-baselines", "--report", str(tmp_path / "t.html")]
    assert main(["fit", str(tmp_path / "t.csv"), *options]) == OK
    page = (tmp_path / "t.html").read_text(encoding="utf-8")
    assert re.search(r"<td[^>]*>town</td>\s*<td[^>]*>category</td>", page)
    assert "best separates the ranges of the target" in page


def test_names_beside_an_axis_are_cut_where_they_end():
    assert shortened("probability of Rome", 36) == "probability of Rome"
    assert shortened("probability of species with a long name", 20) == "probability of spec…"


def test_a_full_disk_is_told_without_the_number_of_the_error(capsys):
    def full():
        raise OSError(28, "out.csv cannot be written: No space left on device; the file that was there is kept")

    assert guarded(full) == FAILED
    assert capsys.readouterr().err.startswith("error: out.csv cannot be written: No space left")

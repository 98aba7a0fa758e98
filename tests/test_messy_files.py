"""Files as they come from offices: what they hold is read, and what cannot be meant is told with its row."""

import sys
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ulmus
from ulmus.features.frames import columns_of, frame_of, read
from ulmus.tables import TableError
from ulmus.tables.doubtful import date_notes, without_totals
from ulmus.tables.read import read_table
from ulmus.tables.schema import frame, learn, target
from ulmus.tables.vectorise import encoder

N = 60
RNG = np.random.RandomState(0)


def learned(tmp_path, goal, text, encoding="utf-8"):
    file = tmp_path / "table.csv"
    file.write_bytes(text.encode(encoding))
    batch = read_table(str(file))
    schema, said = learn(batch, goal), []
    return schema, frame(batch, schema, said.append), target(batch, schema, said.append)[0], said


def lines(header, row):
    return header + "\n" + "".join(row(i) + "\n" for i in range(N))


def test_byte_order_mark_semicolons_decimal_commas_and_points_for_thousands(tmp_path):
    text = "\ufeff" + lines("id;größe;price", lambda i: f"{i:05d};{i},5;1.{i + 100},25")
    schema, X, y, said = learned(tmp_path, "price", text)
    assert (schema.task, schema.left_out.keys(), said) == ("regression", {"id"}, [])
    np.testing.assert_array_equal(X["größe"], np.arange(N) + 0.5)
    np.testing.assert_array_equal(y, 1100.25 + np.arange(N))


def test_repeated_and_empty_names_and_empty_columns(tmp_path):
    schema, X, _, _ = learned(tmp_path, "y", lines("a,a,,y,", lambda i: f"{i},{2 * i},,{i % 7}.5,"))
    assert list(schema.columns) == ["a", "a.1"]
    assert set(schema.left_out) == {"column 3", "column 5"}
    np.testing.assert_array_equal(X["a.1"], 2 * X["a"])


def test_blanks_around_names_and_classes_make_no_other_ones(tmp_path):
    text = lines(" age , churn ", lambda i: f" {i} , {('yes', 'yes ', ' no', 'no')[i % 4]} ")
    schema, _, y, _ = learned(tmp_path, "churn", text)
    assert (schema.task, sorted(set(y.tolist()))) == ("classification", ["no", "yes"])


def test_yes_and_no_of_other_languages_are_classes(tmp_path):
    text = lines("alter,gekauft,für", lambda i: f"{i},{('ja', 'nein')[i % 2]},Müller")
    schema, _, y, _ = learned(tmp_path, "gekauft", text, "cp1252")
    assert (schema.task, sorted(set(y.tolist()))) == ("classification", ["ja", "nein"])


def test_units_percents_blanks_for_thousands_and_line_breaks_in_quotes(tmp_path):
    text = lines("note,length,share,kg", lambda i: f'"one\nand {i % 3}, two",{i}.5 m,{i}.1 %,1 {100 + i} kg')
    schema, X, y, said = learned(tmp_path, "kg", text)
    assert {name: kind.name for name, kind in schema.columns.items()} == {
        "note": "category",
        "length": "number",
        "share": "number",
    }
    np.testing.assert_array_equal(X["length"], np.arange(N) + 0.5)
    np.testing.assert_array_equal(y, 1100.0 + np.arange(N))
    assert said == []


@pytest.mark.parametrize(("total", "left_out"), [("1770", True), ("29.5", True), ("17", False)])
def test_a_total_below_the_rows_is_left_out_where_it_adds_up_and_reported_with_its_row(tmp_path, total, left_out):
    file = tmp_path / "table.csv"
    text = lines("region,sales", lambda i: f"R{i % 4},{i}")
    file.write_text(f"{text}Summe,{total}\n")
    batch, (told,) = without_totals(read_table(str(file)))
    assert f"row {N + 2}, column 'region': 'Summe' looks like a total" in told
    assert (batch.n_rows, "was skipped" in told) == ((N, True) if left_out else (N + 1, False))
    assert batch.at(batch.n_rows - 1)["row"] == batch.n_rows + 1
    file.write_text(text)
    assert without_totals(read_table(str(file)))[1] == []


NOTES = ["Source: the office", "As of 12 March;;"]


@pytest.mark.parametrize("below", [NOTES[:1], NOTES, [NOTES[0], "", "checked twice"]], ids=["one", "padded", "blocks"])
def test_notes_below_a_blank_line_are_left_out_and_reported_with_their_row(tmp_path, below):
    text = lines("gross;tax;net", lambda i: f"{i};{i % 5};{2 * i}")
    _, X, y, _ = learned(tmp_path, "net", text + "\n" + "\n".join(below))
    np.testing.assert_array_equal(X["gross"], np.arange(N))
    np.testing.assert_array_equal(y, 2.0 * np.arange(N))
    notes = [(N + 3 + k, note.strip(";")) for k, note in enumerate(below) if note]
    told = read_table(str(tmp_path / "table.csv")).notes
    assert [f"row {row}: {note!r} is a note below the table" in text for (row, note), text in zip(notes, told)] == [
        True
    ] * len(notes)


@pytest.mark.parametrize(
    ("below", "row"),
    [("17;\n", N + 2), ("Ber\n", N + 2), ("\nBer\n1;2;3\n", N + 3), ("a note\n\na note\n", N + 2), ("\n17\n", N + 3)],
    ids=["cut off", "a word cut off", "rows follow", "the same above", "a number"],
)
def test_a_short_row_that_may_be_one_of_the_table_is_an_error_with_its_row(tmp_path, below, row):
    with pytest.raises(TableError, match=rf"row {row}: the header has 3 fields"):
        learned(tmp_path, "net", lines("gross;tax;net", lambda i: f"{i};{i % 5};{2 * i}") + below)


@pytest.mark.parametrize(("bad", "fields"), [(b"5,x,1,K\xc3", 4), (b"# K\xc3", 1)])
def test_half_a_character_in_a_bad_row_is_an_error_with_its_row_and_no_traceback(tmp_path, monkeypatch, bad, fields):
    """Far below what the encoding is told by; a comment is there, so that bad rows are looked at by our own code."""
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)  # where a traceback goes that nobody can catch
    good = "".join(f"{i},Köln,{i % 2}\n" for i in range(30_000)).encode()
    (tmp_path / "t.csv").write_bytes(b"a,b,c\n" + good + b"# total\n" + bad + b"\n6,x,1\n")
    with pytest.raises(TableError, match=rf"row 30003: the header has 3 fields but this row has {fields}"):
        read_table(str(tmp_path / "t.csv"))
    assert not seen


def test_rows_of_one_value_below_a_blank_line_are_rows(tmp_path):
    file = tmp_path / "table.csv"
    file.write_text("city,price\nBerlin,\n\nBonn,\n")
    batch = read_table(str(file))
    assert (batch.n_rows, batch.notes) == (2, ())


@pytest.mark.parametrize(
    "above",
    ["Quarter 1,,\n", "Report of sales 2024\n", "\n\nReport, 2024\n\nby region\n", "\r\n", "sep=,\n\n"],
    ids=["a merged cell", "a title", "titles and blank lines", "a blank line", "a separator that is named"],
)
def test_what_stands_above_the_header_is_left_out_and_reported(tmp_path, above):
    text = above + lines("gross,tax,net", lambda i: f"{i},{i % 5},{2 * i}")
    schema, X, y, said = learned(tmp_path, "net", text)
    assert list(schema.columns) == ["gross", "tax"]
    np.testing.assert_array_equal(X["gross"], np.arange(N))
    np.testing.assert_array_equal(y, 2.0 * np.arange(N))
    titles = [line.split(",")[0] for line in above.splitlines() if line.strip(",") and not line.startswith("sep=")]
    assert [f"{title!r} is above the header" in told for title, told in zip(titles, said, strict=True)] == [True] * len(
        titles
    )


def test_a_first_row_that_may_be_a_header_is_the_header(tmp_path):
    """An index without a name, columns without names: what is below are rows."""
    for header, row in (
        (",y", lambda i: f"name {i % 7},{('yes', 'no')[i % 2]}"),
        ("y,,", lambda i: f"{('yes', 'no')[i % 2]},red,{('b', 'c')[i // 2 % 2]}"),
        ("y,,", lambda i: f"{('yes', 'no')[i % 2]},{i},{i + 1}"),
    ):
        _, X, y, said = learned(tmp_path, "y", lines(header, row))
        assert (len(X), len(y), said) == (N, N, [])


def test_a_name_that_stands_below_the_first_row_is_shown_where_it_stands(tmp_path):
    file = tmp_path / "table.csv"
    file.write_text("1,2,3\n" + lines("gross,tax,net", lambda i: f"{i},{i % 5},{2 * i}"))
    with pytest.raises(TableError, match="The name stands in row 2: take out what is above it"):
        read_table(str(file)).column("net")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_blank_lines_are_rows_as_a_spreadsheet_counts(tmp_path, separator, end):
    """The number that is told of a row is its place among the rows of the file, whatever is blank."""
    rows, blank = ["a,b", "", "1,x", '2,"two\nlines"', "", "", "3,y", "oops,z", ""], np.random.RandomState(0)
    rows += [f"{i},w" if blank.rand() < 0.7 else "" for i in range(60)]
    file = tmp_path / "table.csv"
    file.write_bytes(end.join(rows).replace(",", separator).encode())
    batch = read_table(str(file))
    assert batch.n_rows == sum(map(bool, rows)) - 1
    for i in range(batch.n_rows):
        assert rows[batch.at(i)["row"] - 1].split(",")[0] == batch.columns["a"][i].as_py()
    said = []
    frame(batch, learn(batch, "b"), said.append)
    assert said == [f"{file}, row 8, column 'a': 'oops' is not a number; it counts as missing"]
    file.write_bytes((end.join(rows) + f"{end}1,2,3{end}").replace(",", separator).encode())
    with pytest.raises(TableError, match=f"row {len(rows) + 1}: the header has 2 fields but this row has 3"):
        read_table(str(file))


def test_blank_rows_of_other_formats_are_counted_as_well(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"a": 1}\n\n{"a": 2}\n\n\n{"a": 3}\n')
    assert read_table(str(tmp_path / "t.jsonl")).numbers.tolist() == [1, 3, 6]
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row, value in ((2, "a"), (4, 1), (5, 2), (9, 3)):
        book.active.cell(row, 1, value)
    book.save(tmp_path / "t.xlsx")
    assert read_table(str(tmp_path / "t.xlsx")).numbers.tolist() == [4, 5, 9]
    for row, cells in enumerate((["Sales"], [], ["a", "b"], [1, 2], [3, 4]), 1):
        for column, value in enumerate([*cells, None, None][:2], 1):
            book.active.cell(row, column, value)
    book.save(tmp_path / "t.xlsx")
    batch = read_table(str(tmp_path / "t.xlsx"))
    assert (list(batch.columns), batch.numbers.tolist()) == (["a", "b"], [4, 5, 9])
    assert "row 1: 'Sales' is above the header" in batch.notes[0]


@pytest.mark.parametrize(
    ("header", "row"),
    [("a,b,y", "{0},x,{0}.5,"), ("a,b,y,", "{0},x,{0}.5,"), ("a,b,y,,", "{0},x,{0}.5")],
    ids=["rows", "both", "header"],
)
def test_separators_at_the_end_make_no_columns_that_count(tmp_path, header, row):
    schema, X, y, said = learned(tmp_path, "y", lines(header, row.format))
    assert (list(schema.columns) == ["a"], set(schema.left_out) - {"column 4"}, said) == (True, {"b"}, [])
    np.testing.assert_array_equal(X["a"], np.arange(N))
    np.testing.assert_array_equal(y, np.arange(N) + 0.5)


def test_a_name_over_two_lines_is_one_name(tmp_path):
    schema, _, _, _ = learned(tmp_path, "net price", lines('"gross\nprice","net\r\nprice"', lambda i: f"{i},{i}.5"))
    assert list(schema.columns) == ["gross price"]


def test_a_quote_too_many_is_reported(tmp_path):
    text = lines("a,note,y", lambda i: f'{i},"note {i}",{i % 7}.5')
    with pytest.raises(TableError, match=rf"row {N + 2}: this quote is never closed"):
        learned(tmp_path, "y", text + '1,"cut of')
    broken = text.replace('"note 7"', '"note 7', 1)
    file = tmp_path / "table.csv"
    file.write_text(broken.replace('"note 9"', 'note 9"', 1))
    (told,) = read_table(str(file)).notes
    assert "row 9, column 'note': a value of 2 lines that read like rows" in told
    file.write_text(lines("a,note,y", lambda i: f'{i},"Dear all,\nthis, and that\nYours",{i % 7}.5'))
    assert read_table(str(file)).notes == ()


def test_a_header_that_comes_again_is_left_out_and_reported_with_its_row(tmp_path):
    text = lines("a,y", lambda i: f"{i},{i}.5")
    _, X, y, said = learned(tmp_path, "y", text + text + text)
    assert (len(X), len(y)) == (3 * N, 3 * N)
    more = "; so do 1 more, which were skipped too"
    assert said == [f"{tmp_path}/table.csv, row {N + 2}: the row repeats the header and was skipped{more}"]
    batch = read_table(str(tmp_path / "table.csv"))
    assert batch.numbers.tolist() == [i for i in range(2, 3 * N + 4) if i not in (N + 2, 2 * N + 3)]


DAYS = pd.date_range("2023-01-01", periods=90, freq="5D")
FORMS = ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y")


def test_a_column_with_dates_in_three_forms_is_one_of_dates(tmp_path):
    """No form is that of most, and each date is read by the one that it is written in."""
    texts = [day.strftime(FORMS[i % 3]) for i, day in enumerate(DAYS)]
    text = "day,y\n" + "".join(f"{t},{i}.5\n" for i, t in enumerate(texts))
    schema, X, _, said = learned(tmp_path, "y", text)
    assert (schema.columns["day"].name, said) == ("date", [])
    np.testing.assert_array_equal(X["day"].to_numpy().astype("datetime64[D]"), DAYS.to_numpy().astype("datetime64[D]"))
    ours = ulmus.TableEncoder(prepared=False).fit(pd.DataFrame({"day": texts}))
    assert ours.kinds_ == {"day": "date"}
    expected = DAYS.to_numpy().astype("datetime64[D]").astype(float)
    np.testing.assert_array_equal(ours.transform(pd.DataFrame({"day": texts}))[:, 0], expected)


def test_days_and_months_that_may_be_exchanged_are_reported_and_first_days_of_months_are_known(tmp_path):
    months = pd.date_range("2020-01-01", periods=N, freq="MS")
    for form, order in (("%m/%d/%Y", "month.day"), ("%d/%m/%Y", "day.month")):
        texts = [day.strftime(form) for day in months]
        file = tmp_path / "table.csv"
        file.write_text("day,y\n" + "".join(f"{t},{i}.5\n" for i, t in enumerate(texts)))
        batch = read_table(str(file))
        schema = learn(batch, "y")
        (told,) = date_notes(batch, schema)
        assert f"are read as {order}.year" in told
        X = frame(batch, schema, lambda _: None)
        np.testing.assert_array_equal(X["day"].to_numpy().astype("datetime64[D]"), months.to_numpy("datetime64[D]"))
        with pytest.warns(ulmus.DateWarning, match=f"column 'day': .* are read as {order}.year"):
            ulmus.TableEncoder().fit(pd.DataFrame({"day": texts}))
    file.write_text("day,y\n" + "".join(f"{d.strftime('%d/%m/%Y')},{i}.5\n" for i, d in enumerate(DAYS)))
    batch = read_table(str(file))
    assert date_notes(batch, learn(batch, "y")) == []


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        ([10**19 + 7919 * 10**12 * i for i in range(N)], "id"),
        ([4 * 10**15 + 7 * (i % 9) for i in range(N)], "category"),
        ([1_700_000_000_000_000_000 + 10**12 * i for i in range(N)], "number"),
        ([10**i for i in range(18)] * 4, "number"),
    ],
    ids=["20 digits", "16 digits that recur", "nanoseconds", "amounts"],
)
def test_numbers_with_more_digits_than_a_float_holds_are_names(tmp_path, numbers, kind):
    text = "order,b,y\n" + "".join(f"{n},{i % 7},{i % 5}.5\n" for i, n in enumerate(numbers))
    schema, _, _, _ = learned(tmp_path, "y", text)
    found = {name: each.name for name, each in schema.columns.items()}.get("order", "id")
    assert found == kind
    for column in (np.array(numbers, dtype=np.uint64), [str(n) for n in numbers]):
        rows = pd.DataFrame({"order": column, "b": np.arange(len(numbers)) % 7})
        ours = ulmus.TableEncoder()
        with pytest.warns(ulmus.LeftOutWarning) if kind == "id" else warnings.catch_warnings():
            assert ours.fit(rows).kinds_["order"] == kind


def test_words_for_missing_values_make_no_column_of_words(tmp_path):
    """A third of the numbers is missing, in as many words as people have for that; in files and in frames."""
    words = ["n.a.", "-", "#DIV/0!", "k.A.", " NA ", "--", "."]
    cells = [words[i // 3 % 7] if i % 3 == 0 else f"{i}.5" for i in range(N)]
    expected = np.array([np.nan if i % 3 == 0 else i + 0.5 for i in range(N)])
    schema, X, _, said = learned(tmp_path, "y", lines("a,y", lambda i: f"{cells[i]},{i % 5}.5"))
    assert (schema.columns["a"].name, said) == ("number", [])
    np.testing.assert_array_equal(X["a"], expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = ulmus.TableEncoder(prepared=False).fit(pd.DataFrame({"a": cells}))
        np.testing.assert_array_equal(ours.transform(pd.DataFrame({"a": cells}))[:, 0], expected)


@pytest.mark.parametrize(
    ("write", "kind"),
    [
        (lambda i: f"<{i}.5" if i % 9 == 0 else f"{i}.5", "number"),
        (lambda i: f"ca. {i}.5 m²" if i % 9 == 0 else f"{i}.5 m2", "number"),
        (lambda i: f"${i}.5/mo", "number"),
        (lambda i: f"{i}.5 g/dL", "number"),
        (lambda i: f"{i}.5 kg" if i % 2 else f"{i}.5", "number"),
        (lambda i: f"'{i}.5", "number"),
        (lambda i: f"'00{i % 7}", "category"),
        (lambda i: f"{('5 mg', '10 ml', '0.5 IU')[i % 3]}", "category"),
        (lambda i: f"{('<5', '5-10', '>10')[i % 3]}", "category"),
    ],
    ids=[
        "a bound",
        "about",
        "a month",
        "a quotient",
        "half of them bare",
        "an apostrophe",
        "codes",
        "several units",
        "ranges",
    ],
)
def test_numbers_are_read_with_what_stands_beside_them(tmp_path, write, kind):
    schema, X, _, said = learned(tmp_path, "y", lines("a,y", lambda i: f"{write(i)},{i % 5}.5"))
    assert (schema.columns["a"].name, said) == (kind, [])
    if kind == "number":
        np.testing.assert_array_equal(X["a"], np.arange(N) + 0.5)


def test_signs_behind_and_no_cents_are_read(tmp_path):
    text = lines("a;b;y", lambda i: f"1.{100 + i},25-;{i},-;{i % 5},5")
    _, X, _, said = learned(tmp_path, "y", text)
    np.testing.assert_array_equal(X["a"], -1100.25 - np.arange(N))
    np.testing.assert_array_equal(X["b"], np.arange(N))
    assert said == []


def test_a_few_words_among_many_numbers_are_missing_numbers_and_are_reported(tmp_path):
    cells = [("refused", "N.C.")[i % 2] if i % 4 == 0 else str(i) for i in range(N)]
    schema, X, _, said = learned(tmp_path, "y", lines("a,y", lambda i: f"{cells[i]},{i % 5}.5"))
    assert schema.columns["a"].name == "number"
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(X["a"])), np.arange(0, N, 4))
    (told,) = said
    assert "row 2, column 'a': 'refused' is not a number; it counts as missing (and 14 more)" in told
    levels = lines("a,y", lambda i: f"{('1', '2', '3', 'many')[i % 4]},{i % 5}.5")
    assert learned(tmp_path, "y", levels)[0].columns["a"].name == "category"


@pytest.mark.parametrize("name", ["N° dossier", "Kundennummer", "order no.", "Nr", "account number"])
def test_numbers_of_rows_are_known_by_their_names(tmp_path, name):
    schema, _, _, _ = learned(tmp_path, "y", lines(f"{name},b,y", lambda i: f"{1000 + 3 * i},{i % 7},{i % 5}.5"))
    assert list(schema.left_out) == [name]


def test_names_of_several_patterns_are_texts(tmp_path):
    """The number of a receipt names it; who wrote it does not."""
    text = lines("a,y", lambda i: f"{('COFFEE bar', 'RENT of', 'ACME inc')[i % 3]} {i},{i % 3}.5")
    assert learned(tmp_path, "y", text)[0].columns["a"].name == "text"
    schema = learned(tmp_path, "y", lines("a,b,y", lambda i: f"house {i},{i % 7},{i % 3}.5"))[0]
    assert list(schema.left_out) == ["a"]


def test_a_target_of_times_asks_for_numbers(tmp_path):
    with pytest.raises(TableError, match="row 2, column 'y': regression needs numbers, got '00:00:07'"):
        learned(tmp_path, "y", lines("a,y", lambda i: f"{i},00:{i:02d}:07"))


def test_words_for_missing_levels_are_missing_in_frames_as_in_files(tmp_path):
    """One level, however it is written; a reader of before, which knew such words as levels, knows them still."""
    cells = [("red", "blue", "none", "n/a", "")[i % 5] for i in range(N)]
    schema, X, _, _ = learned(tmp_path, "y", lines("a,b,y", lambda i: f"{cells[i]},{i},{i % 5}.5"))
    told = encoder(schema.columns, prepared=False).fit_transform(X)
    raw = pd.DataFrame({"a": [cell or None for cell in cells], "b": np.arange(N)})
    ours = ulmus.TableEncoder(prepared=False).fit(raw)
    np.testing.assert_array_equal(ours.transform(raw), told)
    assert np.isnan(told[:, 0]).sum() == 3 * N // 5
    (reader, _) = ours.readers_
    assert reader.levels == ("blue", "red")
    before = replace(reader, na=False, levels=("blue", "n/a", "none", "red"))
    codes, _ = before.read(read(columns_of(frame_of(raw))["a"]))
    np.testing.assert_array_equal(codes[:5], [3, 0, 2, 1, np.nan])


def test_two_encodings_in_one_file_are_reported_with_the_first_row_of_the_other(tmp_path):
    rows = [f"{('Köln', 'Bonn')[i % 2]},{i % 5}.5\n" for i in range(N)]
    file = tmp_path / "table.csv"
    file.write_bytes(b"city,y\n" + "".join(rows[:30]).encode("cp1252") + "".join(rows[30:]).encode())
    (told,) = read_table(str(file)).notes
    assert "row 32, column 'city': 'KÃ¶ln' is 'Köln' in UTF-8, and other rows are in cp1252" in told
    file.write_bytes(b"city,y\n" + "".join(rows).encode("cp1252"))
    assert read_table(str(file)).notes == ()


def test_lakhs_and_dates_with_times_in_four_forms_are_read(tmp_path):
    forms = ("%Y-%m-%d %H:%M", "%d %b %Y %H:%M", "%Y-%m-%dT%H:%M:%SZ", "%d.%m.%Y %H:%M")
    days = pd.date_range("2021-01-13 14:05", periods=N, freq="37h")
    text = lines("when;price;y", lambda i: f"{days[i].strftime(forms[i % 4])};₹12,{30 + i // 2},{100 + i};{i % 5}.5")
    schema, X, _, said = learned(tmp_path, "y", text)
    assert ([kind.name for kind in schema.columns.values()], said) == (["date", "number"], [])
    np.testing.assert_array_equal(X["when"], days)
    np.testing.assert_array_equal(X["price"], [1_200_000 + 1_000 * (30 + i // 2) + 100 + i for i in range(N)])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<html><table><tr><td>1</td></tr></table></html>", "a web page"),
        ("<?xml version='1.0'?><rows/>", "an XML document"),
        (lines("town   wind  y", lambda i: f"T{i}   {i}  3" + i % 2 * "  4"), "Blanks do not divide these rows evenly"),
        (lines("1.5,2.5,3.5", lambda i: f"{i},{i}.5,3"), "The first row reads like values"),
        (lines("a,b,y", lambda i: rf'{i},"say \"hi\", {i}",3'), "quotes in values must be doubled"),
        ("@RELATION t\n@ATTRIBUTE a NUMERIC\n@DATA\n1\n", "an ARFF file; scipy.io.arff.loadarff reads it"),
        ("1.5 1:2 7:3\n2.5 2:1\n", "svmlight file; sklearn.datasets.load_svmlight_file reads it"),
        ('{"x": {"0": 1, "1": 2}, "y": {"0": 3, "1": 4}}', "one JSON object holds all rows; write one object per line"),
        ('{"data": [{"x": 1, "y": 2}]}', "column 'data': a value must be .*; if it holds the rows, write"),
        ("ARROW1\0\0", "an Arrow or Feather file; save it as Parquet"),
        ("r\x01\x01\0", "neither text nor Parquet; save it as CSV or Parquet"),
    ],
)
def test_what_is_no_table_of_ours_is_reported_with_what_to_do(tmp_path, text, words):
    with pytest.raises(TableError, match=words):
        learned(tmp_path, "y", text)

"""Files as they come from offices: what they hold is read, and what cannot be meant is told with its row."""

import numpy as np
import pytest

from ulmus.tables import TableError
from ulmus.tables.read import read_table
from ulmus.tables.schema import frame, learn, target
from ulmus.tables.totals import told_totals

N = 60
RNG = np.random.RandomState(0)


def learned(tmp_path, goal, text, encoding="utf-8"):
    file = tmp_path / "table.csv"
    file.write_bytes(text.encode(encoding))
    batch = read_table(str(file))
    schema, said = learn(batch, goal), []
    return schema, frame(batch, schema, said.append), target(batch, schema)[0], said


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


def test_a_total_below_the_rows_is_told_with_its_row(tmp_path):
    file = tmp_path / "table.csv"
    text = lines("region,sales", lambda i: f"R{i % 4},{i}")
    file.write_text(text + "Summe,1770\n")
    (told,) = told_totals(read_table(str(file)))
    assert f"row {N + 2}, column 'region': 'Summe' reads like a total" in told
    file.write_text(text)
    assert told_totals(read_table(str(file))) == []


@pytest.mark.parametrize(
    "above",
    ["Quarter 1,,\n", "Report of sales 2024\n", "\n\nReport, 2024\n\nby region\n", "\r\n", "sep=,\n\n"],
    ids=["a merged cell", "a title", "titles and blank lines", "a blank line", "a separator that is named"],
)
def test_what_stands_above_the_header_is_left_out_and_told(tmp_path, above):
    text = above + lines("gross,tax,net", lambda i: f"{i},{i % 5},{2 * i}")
    schema, X, y, said = learned(tmp_path, "net", text)
    assert list(schema.columns) == ["gross", "tax"]
    np.testing.assert_array_equal(X["gross"], np.arange(N))
    np.testing.assert_array_equal(y, 2.0 * np.arange(N))
    titles = [line.split(",")[0] for line in above.splitlines() if line.strip(",") and not line.startswith("sep=")]
    assert [f"{title!r} stands above the header" in told for title, told in zip(titles, said, strict=True)] == [
        True
    ] * len(titles)


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
    with pytest.raises(TableError, match=f"row {len(rows) + 1}: the header has 2 fields and this row 3"):
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
    assert "row 1: 'Sales' stands above the header" in batch.told[0]


@pytest.mark.parametrize(
    ("header", "row"),
    [("a,b,y", "{0},x,{0}.5,"), ("a,b,y,", "{0},x,{0}.5,"), ("a,b,y,,", "{0},x,{0}.5")],
    ids=["rows", "both", "header"],
)
def test_separators_at_the_end_make_no_columns_that_count(tmp_path, header, row):
    schema, X, y, said = learned(tmp_path, "y", lines(header, lambda i: row.format(i)))
    assert (list(schema.columns) == ["a"], set(schema.left_out) - {"column 4"}, said) == (True, {"b"}, [])
    np.testing.assert_array_equal(X["a"], np.arange(N))
    np.testing.assert_array_equal(y, np.arange(N) + 0.5)


def test_a_name_over_two_lines_is_one_name(tmp_path):
    schema, _, _, _ = learned(tmp_path, "net price", lines('"gross\nprice","net\r\nprice"', lambda i: f"{i},{i}.5"))
    assert list(schema.columns) == ["gross price"]


def test_a_quote_too_many_is_told(tmp_path):
    text = lines("a,note,y", lambda i: f'{i},"note {i}",{i % 7}.5')
    with pytest.raises(TableError, match=rf"row {N + 2}: a quote is left open here"):
        learned(tmp_path, "y", text + '1,"cut of')
    broken = text.replace('"note 7"', '"note 7', 1)
    file = tmp_path / "table.csv"
    file.write_text(broken.replace('"note 9"', 'note 9"', 1))
    (told,) = read_table(str(file)).told
    assert "row 9, column 'note': a value of 2 lines that read like rows" in told
    file.write_text(lines("a,note,y", lambda i: f'{i},"Dear all,\nthis, and that\nYours",{i % 7}.5'))
    assert read_table(str(file)).told == ()


def test_a_header_that_comes_again_is_told_with_its_row(tmp_path):
    text = lines("a,y", lambda i: f"{i},{i}.5")
    with pytest.raises(TableError, match=f"row {N + 2}, column 'y': 'y' is not a number"):
        learned(tmp_path, "y", text + text)

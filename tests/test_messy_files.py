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
    ("above", "row"), [("Quarter 1,,\n", 2), ("Report of sales 2024\n", 2)], ids=["two headers", "a title"]
)
def test_a_header_that_is_not_in_the_first_row_is_found(tmp_path, above, row):
    file = tmp_path / "table.csv"
    file.write_text(above + lines("gross,tax,net", lambda i: f"{i},{i % 5},{2 * i}"))
    with pytest.raises(TableError, match=f"The name stands in row {row}: take out what is above it"):
        read_table(str(file)).column("net")


def test_a_header_that_comes_again_is_told_with_its_row(tmp_path):
    text = lines("a,y", lambda i: f"{i},{i}.5")
    with pytest.raises(TableError, match=f"row {N + 2}, column 'y': 'y' is not a number"):
        learned(tmp_path, "y", text + text)

"""Tables of every make are read as what they are, or refused with file, row and column."""

import bz2
import csv
import gzip
import io
import json
import lzma

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from data import examples
from ulmus.tables import DateParts, TableError
from ulmus.tables.kinds import infer, values, written
from ulmus.tables.read import read_batches, read_table, unique_names
from ulmus.tables.schema import frame, learn, target
from ulmus.tables.sniff import best_separator, detect_encoding
from ulmus.tables.write import Writer

TABLE = "age,town,when,member,price\n31,Köln,2024-01-05,true,1.5\n,Ulm,2024-02-01,false,2.5\n44,,,,-3e2\n"


@pytest.fixture
def put(tmp_path):
    def write(data, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return str(path)

    return write


def kinds_of(path):
    return {name: infer(column).name for name, column in read_table(path).columns.items()}


def column(path, name):
    found = read_table(path).columns[name]
    return values(found, infer(found)).values


KINDS = {"age": "number", "town": "category", "when": "date", "member": "boolean", "price": "number"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_encodings_and_separators_are_found(put, encoding, separator):
    path = put(TABLE.replace(",", separator).encode(encoding))
    assert kinds_of(path) == KINDS
    assert column(path, "town").tolist() == ["Köln", "Ulm", ""]
    np.testing.assert_array_equal(column(path, "price"), [1.5, 2.5, -300.0])


@pytest.mark.parametrize(
    "compress", [gzip.compress, bz2.compress, lzma.compress, lambda d: pa.compress(d, "zstd", asbytes=True)]
)
def test_compressed_files_are_opened_whatever_their_name(put, compress):
    assert kinds_of(put(compress(TABLE.encode()), "table.data")) == KINDS


def test_parquet_and_json_lines_say_the_same_as_csv(put, tmp_path):
    path = put(TABLE)
    batch = read_table(path)
    columns = {n: values(c, infer(c)).values for n, c in batch.columns.items()}
    typed = pd.DataFrame(columns).assign(member=[True, False, None])
    parquet.write_table(pa.Table.from_pandas(typed), tmp_path / "table.parquet")
    lines = typed.assign(when=typed["when"].dt.strftime("%Y-%m-%d")).to_dict("records")
    text = "\n".join(json.dumps({k: None if pd.isna(v) or v == "" else v for k, v in row.items()}) for row in lines)
    for other in (str(tmp_path / "table.parquet"), put(text, "table.jsonl")):
        assert kinds_of(other) == KINDS
        schema = learn(read_table(path), "price")
        pd.testing.assert_frame_equal(
            frame(read_table(other), schema, pytest.fail), frame(batch, schema, pytest.fail), check_dtype=False
        )


@pytest.mark.parametrize(
    ("texts", "kind", "expected"),
    [
        (["1", "2.5", "-3e2", "+4"], "number", [1, 2.5, -300, 4]),
        (["1,5", "2", "-0,25"], "number", [1.5, 2, -0.25]),
        (["1.234,50", "2,5"], "number", [1234.5, 2.5]),
        (["1,234.50", "12,345,678"], "number", [1234.5, 12345678]),
        ([" 7 ", "8"], "number", [7, 8]),
        (["TRUE", "False"], "boolean", [1, 0]),
        (["01", "02", "x"], "category", ["01", "02", "x"]),
        (["31.12.2020", "01.02.2021"], "date", ["2020-12-31", "2021-02-01"]),
        (["12/31/2020", "02/01/2021"], "date", ["2020-12-31", "2021-02-01"]),
        (["2020-12-31T10:30:00", "2021-01-01T00:00:00"], "date", ["2020-12-31T10:30", "2021-01-01"]),
        (["2020-12-31T10:30:00Z", "2021-01-01T00:00:00Z"], "date", ["2020-12-31T10:30", "2021-01-01"]),
    ],
)
def test_forms_of_values_are_known(put, texts, kind, expected):
    path = put("x;y\n" + "".join(f'"{t}";0\n' for t in texts))
    assert kinds_of(path)["x"] == kind
    found = column(path, "x")
    wanted = np.array(expected, dtype="datetime64[us]") if kind == "date" else np.array(expected, dtype=found.dtype)
    np.testing.assert_array_equal(found, wanted)


def test_a_few_wrong_values_count_as_missing_and_the_first_is_reported(put):
    path = put("x,y\n" + "".join(f"{i},0\n" for i in range(30)) + "oops,1\nhuh,1\n")
    said = []
    X = frame(read_table(path), learn(read_table(path), "y"), said.append)
    assert said == [f"{path}, row 32, column 'x': 'oops' is not a number; it counts as missing (and 1 more)"]
    assert np.isnan(X["x"].to_numpy()[-2:]).all()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "the file is empty"),
        ("a,b\n", "no rows, only a header"),
        ("a,b\n1,2\n1,2,3\n", "row 3: the header has 2 fields but this row has 3"),
        ('a,b\n"x\ny",2\n1\n', "row 3: the header has 2 fields but this row has 1"),
        ('"a' + "\n" * 60 + 'b",c\n1,2\n', "row 1: a column name spans many lines"),
        ('a,b\n1,2\n\n3,"4\n5,6\n', "row 4: this quote is never closed"),
        (b"\x00\x01\x02\x03" * 50, "neither text nor Parquet"),
        (b"PAR1 and then nothing", "not a whole Parquet file"),
        (gzip.compress(TABLE.encode(), mtime=0)[:-20], "damaged|cannot be read"),
        ('{"a": 1}\n{"a": }\n', "row 2: not a line of JSON"),
        ('{"a": [[1]]}\n', "row 1, column 'a': a value must be"),
        ('{"b": {"a": [{"c": 1}]}}\n', "row 1, column 'b.a': a value must be"),
    ],
)
def test_what_is_not_a_table_is_refused_with_its_place(put, data, message):
    path = put(data)
    with pytest.raises(TableError, match=message) as caught:
        read_table(path)
    assert str(caught.value).startswith(path)


def test_a_missing_file_and_a_missing_column_are_named(put, tmp_path):
    with pytest.raises(TableError, match=r"nowhere\.csv: cannot be read"):
        read_table(str(tmp_path / "nowhere.csv"))
    with pytest.raises(TableError, match="column 'prise': no such column; did you mean 'price'"):
        learn(read_table(put(TABLE)), "prise")


def test_empty_and_repeated_names_become_unique(put):
    assert unique_names(["a", "a", "", "a.1", ""]) == ["a", "a.2", "column 3", "a.1", "column 5"]
    assert list(read_table(put("a,a,,b\n1,2,3,4\n")).columns) == ["a", "a.1", "column 3", "b"]


def test_twenty_thousand_columns_are_read(put):
    m = 20_000
    path = put(",".join(f"c{j}" for j in range(m)) + "\n" + "\n".join(",".join(["1.5"] * m) for _ in range(3)) + "\n")
    batch = read_table(path)
    assert len(batch.columns) == m
    assert batch.n_rows == 3


def test_batches_know_where_they_are(put, monkeypatch):
    monkeypatch.setattr("ulmus.tables.pieces.BATCH", 1 << 10)
    path = put("x\n" + "".join(f"{i}\n" for i in range(1000)))
    batches = list(read_batches(path))
    assert len(batches) > 2
    assert [b.numbers[0] for b in batches] == (2 + np.cumsum([0] + [b.n_rows for b in batches[:-1]])).tolist()
    assert all(values(b.columns["x"], written(b.columns["x"])).values[0] == b.numbers[0] - 2 for b in batches)


def test_json_lines_come_in_batches_and_names_may_come_later(put, monkeypatch):
    monkeypatch.setattr("ulmus.tables.pieces.BATCH", 1 << 8)
    rows = [{"x": i, "mixed": i if i < 30 else f"t{i}"} | ({"late": i / 2} if i >= 60 else {}) for i in range(90)]
    path = put("\n".join(json.dumps(row) for row in rows), "rows.jsonl")
    batches = list(read_batches(path))
    assert len(batches) > 5
    assert [b.numbers[0] for b in batches] == (1 + np.cumsum([0] + [b.n_rows for b in batches[:-1]])).tolist()
    whole = read_table(path)
    assert whole.columns["x"].to_pylist() == list(range(90))
    assert whole.columns["mixed"].to_pylist() == [str(i) if i < 30 else f"t{i}" for i in range(90)]
    assert whole.columns["late"].to_pylist() == [None] * 60 + [i / 2 for i in range(60, 90)]


@pytest.mark.parametrize(
    ("goal", "task"),
    [
        (["a", "b"] * 20, "classification"),
        ([0, 1] * 20, "classification"),
        (list(range(40)), "regression"),
        ([0.5, 1] * 20, "regression"),
        (["true", "false"] * 20, "classification"),
    ],
)
def test_the_task_follows_from_the_target(put, goal, task):
    path = put("x,y\n" + "".join(f"{i},{v}\n" for i, v in enumerate(goal)))
    assert learn(read_table(path), "y").task == task


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("x,y\n1,a\n2,b\n", {"task": "regression"}, "row 2, column 'y': regression needs numbers, got 'a'"),
        ("x,y\n1,a\n2,b\n", {"task": "ordinal"}, "lowest first: --categories"),
        ("x,y\n1,\n2,\n", {}, "column 'y': the target has no values"),
        ("y\n1\n2\n", {}, "no column is left to learn from"),
        (
            "x,y\n1,low\n2,hihg\n",
            {"categories": ["low", "high"]},
            "row 3, column 'y': 'hihg' is not among the categories",
        ),
    ],
)
def test_targets_that_cannot_be_learnt_say_why(put, data, options, message):
    batch = read_table(put(data))
    with pytest.raises(TableError, match=message):
        target(batch, learn(batch, "y", **options), print)


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.jsonl", "out.parquet", "out.csv.gz", "out.jsonl.zst"])
def test_what_is_written_is_read_again(tmp_path, name):
    path = str(tmp_path / name)
    parts = [pa.table({"word": ["a, b", 'say "x"'], "number": [1.5, -2.0]}), pa.table({"word": ["c"], "number": [3.0]})]
    with Writer(path) as writer:
        for part in parts:
            writer.write(part)
    assert column(path, "word").tolist() == ["a, b", 'say "x"', "c"]
    np.testing.assert_array_equal(column(path, "number"), [1.5, -2.0, 3.0])


def test_a_name_without_a_format_is_refused():
    with pytest.raises(TableError, match="unknown output format"):
        Writer("predictions.xls")


def test_dates_give_the_phases_that_the_data_span():
    days = np.datetime64("2020-01-01") + np.arange(0, 1000, 10)
    parts = DateParts().fit(pd.DataFrame({"when": days}))
    assert parts.periods_ == [["year", "week"]]
    Z = parts.transform(pd.DataFrame({"when": days}))
    assert list(parts.get_feature_names_out())[:3] == ["when", "when sine of the year", "when cosine of the year"]
    np.testing.assert_array_equal(Z, parts.transform(days.astype("datetime64[D]").astype(float)[:, None]))
    assert np.isnan(parts.transform(np.array([["NaT"]], dtype="datetime64[D]"))).all()
    assert len(np.unique(Z[:, 3])) == 7  # a Monday is a Monday, to the last bit
    assert len(np.unique(Z[:, 4])) == 7


cells = st.one_of(
    st.none(),
    st.integers(-(10**6), 10**6).map(str),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
    st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=8),
    st.sampled_from(["true", "NA", "1,5", "2020-01-01", '"', "a\nb", " ", ";", "-", "é", "1e400", "inf", "="]),
)


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data(), separator=st.sampled_from([",", ";", "\t", "|"]), bom=st.booleans(), m=st.integers(1, 5))
def test_any_quoted_table_is_read_or_refused_with_an_error_of_ours(tmp_path, data, separator, bom, m):
    names = data.draw(
        st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), max_size=6), min_size=m, max_size=m)
    )
    rows = data.draw(st.lists(st.lists(cells, min_size=m, max_size=m), max_size=12))
    out = io.StringIO()
    writer = csv.writer(
        out, delimiter=separator, quoting=data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    )
    writer.writerow(names)
    writer.writerows([["" if c is None else c for c in row] for row in rows])
    path = tmp_path / "any.csv"
    path.write_bytes((b"\xef\xbb\xbf" if bom else b"") + out.getvalue().encode())
    try:
        batch = read_table(str(path))
        schema = learn(batch, list(batch.columns)[-1])
        X, (y, there) = frame(batch, schema, lambda _: None), target(batch, schema, lambda _: None)
    except TableError:
        return
    assert len(X) == len(y) == len(there) == batch.n_rows
    assert not np.isinf(X.select_dtypes("number").to_numpy()).any()


@given(st.binary(max_size=400))
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_read_or_refused_with_an_error_of_ours(tmp_path, data):
    path = tmp_path / "any"
    path.write_bytes(data)
    try:
        batch = read_table(str(path))
        for found in batch.columns.values():
            values(found, infer(found))
    except TableError:
        pass


def test_detection_of_text_of_other_scripts():
    russian = "имя;город\nИван;Москва\nАнна;Санкт-Петербург\n" * 20
    assert russian.encode("cp1251").decode(detect_encoding(russian.encode("cp1251"), True)) == russian
    assert detect_encoding("naïve café au lait".encode("cp1252"), True) == "cp1252"
    assert best_separator("a;b\n1,5;2\n2,5;3\n")[1] == ";"
    assert best_separator("just one column\n1\n2\n")[1] == ","
    assert best_separator("price\n1,5\n2,5\n")[1] == ";"
    assert best_separator("a,b\n1,2\n1,2\n1;2;3\n")[1] == ","
    assert best_separator("name, first;age\nx;3\ny;4\n")[1] == ";"


def test_few_whole_numbers_with_one_text_among_them_are_numbers(put):
    path = put("rooms,y\n" + "\n".join(f"{k % 3 + 1},{k}" for k in range(40)) + "\nunknown,41\n")
    assert kinds_of(path)["rooms"] == "number"
    assert np.isnan(column(path, "rooms")[-1])

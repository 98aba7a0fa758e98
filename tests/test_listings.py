"""Listings of programs: columns apart by blanks, comments and drawn lines among rows, words and nines for no number."""

import json

import numpy as np
import pandas as pd
import pytest

import ulmus
from ulmus.cli import main
from ulmus.cli.console import BAD_TABLE, OK
from ulmus.tables import TableError
from ulmus.tables.doubtful import merged_notes
from ulmus.tables.read import read_table
from ulmus.tables.schema import frame, learn

N = 60
TOWNS = ("New York", "Los Angeles", "Rome")
A, B, C = [1.5 * i + 3 for i in range(N)], [(7 * i) % 11 / 4 for i in range(N)], [TOWNS[i % 3] for i in range(N)]


def table(tmp_path, text):
    file = tmp_path / "table.txt"
    file.write_text(text, encoding="utf-8")
    return read_table(str(file))


def numbers(batch, name):
    return [None if value is None else float(value) for value in batch.columns[name].to_pylist()]


def rows(header, row):
    return "".join(line + "\n" for line in [header, *(row(i) for i in range(N))])


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (rows("a  b  town", lambda i: f"{A[i]:g}   {B[i]}  {C[i].split()[-1]}"), []),
        (rows("# a b town", lambda i: f"  {A[i]:g} {B[i]}   {C[i].split()[-1]}"), []),
        (rows('"a" "b" "town"', lambda i: f'"{i + 1}" {A[i]:g} {B[i]} "{C[i]}"'), ["column 1"]),
        (rows(f"{'a':>8}{'b':>7} town", lambda i: f"{A[i]:8.2f}{B[i]:7.2f} {C[i]}"), []),
    ],
    ids=["words", "comment", "write.table", "places"],
)
def test_columns_that_stand_apart_by_blanks_are_read(tmp_path, text, first):
    batch = table(tmp_path, text)
    assert list(batch.columns) == [*first, "a", "b", "town"]
    assert numbers(batch, "a") == pytest.approx(A)
    assert numbers(batch, "b") == pytest.approx(B)
    assert {town.split()[-1] for town in batch.columns["town"].to_pylist()} == {"York", "Angeles", "Rome"}
    assert batch.numbers.tolist() == list(range(2, N + 2))


def test_holes_at_fixed_places_are_missing_and_names_may_have_blanks(tmp_path):
    text = rows(
        f"{'town':<12}{'unit price':>11}{'y':>7}",
        lambda i: f"{C[i]:<12}{'' if i % 7 == 0 else format(A[i], '.1f'):>11}{B[i]:7.2f}",
    )
    batch = table(tmp_path, text)
    assert batch.columns["town"].to_pylist() == C
    assert numbers(batch, "unit price") == [None if i % 7 == 0 else pytest.approx(A[i]) for i in range(N)]
    assert numbers(batch, "y") == pytest.approx(B)


def test_a_value_across_two_columns_is_an_error_with_its_row_and_one_that_grows_is_none(tmp_path):
    head = f"{'town':<13} {'a':>7}{'y':>8}"
    wide = rows(head, lambda i: f"{C[i]:<13} {A[i]:7.1f}{B[i]:8.2f}")
    assert read_many(tmp_path, wide, f"{'Rome':<13} {123.4:9.1f}{1:6.2f}")[-1] == 123.4
    with pytest.raises(TableError, match=rf"row {100 * N + 2}: '1234567891234567.0' spans two columns"):
        read_many(tmp_path, wide, f"{'Rome':<7}{1234567891234567:18.1f}{1:6.2f}")


def read_many(tmp_path, text, last):
    """The places are told from a sample, which the last line is no part of."""
    head, _, body = text.partition("\n")
    file = tmp_path / "many.txt"
    file.write_text(f"{head}\n{100 * body}{last}\n")
    assert file.stat().st_size > 1.5 * len(head) * 100 * N / 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ulmus.tables.sniff.SAMPLE", 50 * len(text))
        return numbers(read_table(str(file)), "a")


@pytest.mark.parametrize(
    "text",
    [
        rows("full name", lambda i: f"Jo{i} Smith"),
        rows("review", lambda i: f"it was {C[i]} and {A[i]} stars {'or so ' * (i % 3)}of five"),
    ],
)
def test_words_are_no_columns_where_none_is_of_numbers(tmp_path, text):
    assert len(table(tmp_path, text).columns) == 1


@pytest.mark.parametrize(
    ("above", "among", "below", "skipped"),
    [
        ("a,b,town", {10: "# restarted", 40: "# again, at noon"}, [], 2),
        ("a|b|town", {0: "----+----+-----"}, ["(60 rows)", ""], 2),
        ("a|b|town", {0: ":---|---:|---"}, [], 0),
    ],
    ids=["comments", "psql", "markdown"],
)
def test_comments_and_drawn_lines_are_no_rows_and_rows_keep_their_numbers(tmp_path, above, among, below, skipped):
    separator = above[1]
    lines, at = [above], []
    for i in range(N):
        lines += [among[i]] if i in among else []
        lines.append(separator.join((f"{A[i]:g}", str(B[i]), C[i])))
        at.append(len(lines))
    batch = table(tmp_path, "\n".join([*lines, *below]) + "\n")
    assert numbers(batch, "a") == pytest.approx(A)
    assert batch.numbers.tolist() == at
    said = [text for text in batch.notes if "is not a row and was skipped" in text]
    assert len(said) == bool(skipped)
    if skipped:
        first = min(among)
        assert f"row {at[first] - 1}: {among[first]!r} is not a row and was skipped (and 1 more)" in said[0]


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_bad_byte_in_a_row_of_another_width_is_an_error_and_no_traceback(tmp_path):
    file = tmp_path / "table.csv"
    file.write_bytes(b"\xef\xbb\xbfa,b\n" + 30 * b"1,x\n" + b"5,caf\xebs,7\n")
    with pytest.raises(TableError, match="row 32: the header has 2 fields but this row has 3"):
        read_table(str(file))


def test_files_that_were_put_together_have_a_mark_before_the_second_header(tmp_path):
    half = [rows("a,b", lambda i: f"{A[i]:g},{B[i]}") for _ in range(2)]
    batch = table(tmp_path, "\ufeff".join(["", *half]))
    assert numbers(batch, "a") == pytest.approx(2 * A)
    assert batch.notes == (f"{tmp_path / 'table.txt'}, row {N + 2}: the row repeats the header and was skipped",)


def test_an_array_of_json_objects_is_read_and_its_rows_are_counted(tmp_path):
    content = [{"a": A[i], "b": {"c": str(B[i])}, "d": ["x"] if i % 2 else None} for i in range(N)]
    file = tmp_path / "table.json"
    file.write_text(json.dumps(content, indent=1))
    batch = read_table(str(file))
    assert list(batch.columns) == ["a", "b.c", "d"]
    assert batch.columns["a"].to_pylist() == A
    assert batch.numbers.tolist() == list(range(1, N + 1))
    for broken, words in (([*content[:3], 5], "row 4: a row must be a JSON object"), ([[1, 2]], "row 1: a row must")):
        file.write_text(json.dumps(broken))
        with pytest.raises(TableError, match=words):
            read_table(str(file))
    file.write_text(json.dumps(content)[:-9])
    with pytest.raises(TableError, match="not a JSON array: "):
        read_table(str(file))


def test_a_few_words_in_a_target_of_numbers_are_left_out_and_reported_and_many_are_refused(tmp_path, capsys):
    def fitted(every):
        price = ["on request" if i % every == every - 1 else f"$ {1000 + 10 * A[i]:.0f}" for i in range(N)]
        pd.DataFrame({"a": A, "b": B, "price": price}).to_csv(tmp_path / "t.csv", index=False)
        asked = ["--task", "regression", "--model", "nkelm", "--no-baselines"]
        return main(["fit", str(tmp_path / "t.csv"), "--target", "price", *asked]), " ".join(
            capsys.readouterr().err.split()
        )

    code, said = fitted(12)
    assert code == OK
    assert "row 13, column 'price': 'on request' is not a number (and 4 more); it counts as missing" in said
    assert "rows without a value of 'price' are left out: 5" in said
    file = tmp_path / "t.csv"
    asking = file.read_text()
    for written in ("£ 1030", "$ 1030 a week", "$ 1.030.0"):  # a number is in it, and which one is not known
        file.write_text(asking.replace("$ 1030", written, 1))
        assert main(["fit", str(file), "--target", "price", "--task", "regression"]) == BAD_TABLE
        assert f"row 2, column 'price': '{written}' is not a number" in " ".join(capsys.readouterr().err.split())
    code, said = fitted(2)
    assert code == BAD_TABLE
    assert "use --task classification" in said


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (np.where(np.arange(N) % 9 == 0, -999.0, A), "column 'x' is -999 in 7 rows"),
        (np.where(np.arange(N) % 9 == 0, 99999.0, A), "column 'x' is 99999 in 7 rows"),
        (np.where(np.arange(N) == 3, -999.0, A), None),  # once
        (np.where(np.arange(N) % 9 == 0, 99.0, A), None),  # among the others
        (np.where(np.arange(N) % 9 == 0, -1000.0, A), None),
    ],
)
def test_nines_far_from_all_others_are_reported(values, found):
    check = ulmus.check_table(pd.DataFrame({"x": values, "b": B}))
    told = [finding.text for finding in check.findings if finding.kind is ulmus.PlaceholderWarning]
    assert [text.startswith(found) for text in told] == [True] if found else told == []
    goal = ulmus.check_table(pd.DataFrame({"b": B}), values, task="regression").findings
    assert any("the target is" in finding.text for finding in goal) == bool(found)


def test_a_word_above_empty_cells_may_be_meant_for_them(tmp_path):
    town = [C[i // 20] if i % 20 == 0 else "" for i in range(N)]
    batch = table(tmp_path, rows("town,a,y", lambda i: f"{town[i]},{A[i]},{B[i]}"))
    (told,) = merged_notes(batch, learn(batch, "y"))
    assert "column 'town': 3 values stand once each, above 57 empty cells" in told
    filled = table(tmp_path, rows("town,a,y", lambda i: f"{C[i // 20]},{A[i]},{B[i]}"))
    assert merged_notes(filled, learn(filled, "y")) == []


def test_the_error_for_a_folder_of_folders_names_patterns(tmp_path):
    for year in (2021, 2022):
        (tmp_path / f"year={year}").mkdir()
        (tmp_path / f"year={year}" / "part.csv").write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match=r"use a pattern, such as '.*/\*/\*'"):
        read_table(str(tmp_path))
    assert read_table(f"{tmp_path}/*/*").n_rows == 2


def test_a_few_numbers_large_enough_for_a_comma_are_numbers(tmp_path):
    """Nine in ten read without one; the largest must not be lost for that."""
    net = [("({:,.2f})" if i % 3 else "{:,.2f}").format(40.5 * (i % 26)) for i in range(N)]
    assert 0 < sum("," in text for text in net) < N / 10
    batch = table(tmp_path, rows("net;y", lambda i: f"{net[i]};{B[i]}"))
    schema, said = learn(batch, "y"), []
    found = frame(batch, schema, said.append)["net"]
    assert said == []
    np.testing.assert_allclose(found, [(-1 if i % 3 else 1) * 40.5 * (i % 26) for i in range(N)])

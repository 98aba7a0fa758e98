"""Files as other programs export them: points for thousands, rows of units below the header, headers in groups."""

import numpy as np
import pandas as pd
import pytest
from openpyxl import Workbook

import ulmus
from ulmus.cli import main
from ulmus.cli.console import OK
from ulmus.tables.doubtful import separator_notes
from ulmus.tables.read import read_table
from ulmus.tables.schema import frame, learn, target

RNG = np.random.RandomState(0)
PEOPLE = np.exp(RNG.uniform(5, 11, 60)).astype(int)
AREA = RNG.uniform(3, 90, 60)


def german(value, digits=0):
    return f"{value:,.{digits}f}".translate(str.maketrans(",.", ".,"))


def file_of(tmp_path, columns, separator=";"):
    path = tmp_path / "t.csv"
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join(separator.join(row) for row in (tuple(columns), *rows)), encoding="utf-8")
    return read_table(str(path))


def known(batch, goal, **options):
    schema = learn(batch, goal, "regression", **options)
    return schema, frame(batch, schema, print), target(batch, schema, print)[0]


def test_points_for_thousands_are_known_by_decimal_commas_beside_them(tmp_path):
    big = [value for value in PEOPLE if 1000 <= value < 1_000_000]  # every number has a point
    columns = {"people": list(map(german, big)), "area": [german(a, 1) for a in AREA[: len(big)]]}
    batch = file_of(tmp_path, columns | {"tax": [german(3 * value) for value in big]})
    schema, X, y = known(batch, "tax")
    assert X["people"].tolist() == big
    assert y.tolist() == [3 * value for value in big]
    first = german(big[0])
    assert f"{first!r} is read as {big[0]}; if that is wrong, use --decimal ." in separator_notes(batch, schema)[0]
    encoder = ulmus.TableEncoder(prepared=False).fit(pd.DataFrame(columns))
    assert encoder.transform(pd.DataFrame(columns))[:, 0].tolist() == big


def test_points_for_thousands_are_known_by_numbers_without_one(tmp_path):
    assert (PEOPLE < 1000).sum() >= 3
    texts = list(map(german, PEOPLE))
    assert known(file_of(tmp_path, {"people": texts, "y": texts}), "y")[1]["people"].tolist() == PEOPLE.tolist()
    assert (
        ulmus.TableEncoder(prepared=False).fit_transform(pd.DataFrame({"n": texts}))[:, 0].tolist() == PEOPLE.tolist()
    )
    marked = [f"{text} €" for text in texts]
    assert known(file_of(tmp_path, {"fee": marked, "y": texts}), "y")[1]["fee"].tolist() == PEOPLE.tolist()


@pytest.mark.parametrize(
    ("texts", "beside", "first"),
    [
        (["1,234", "2,345", "5,678"], "0,5", 1.234),
        (["1,234", "2,345", "5,678"], "0.5", 1234.0),
        (["1.234", "2.345", "5.678"], "0.5", 1.234),
        (["1.234", "2.345", "5.678"], "7", 1.234),  # nothing shows what the point is
        (["1.234", "2.345", "5.678", "0"], "7", 1.234),  # a zero is none of the numbers below a thousand
        (["1.234", "2.345", "0.678", "5", "6", "7"], "7", 1.234),
    ],
)
def test_three_digits_behind_a_separator_are_decimals_where_the_table_shows_no_thousands(
    tmp_path, texts, beside, first
):
    texts = texts * 10
    others = [beside, *"12345678901234567890"][: len(texts)] * 20
    batch = file_of(tmp_path, {"x": texts, "other": others[: len(texts)], "y": [str(k) for k in range(len(texts))]})
    assert known(batch, "y")[1]["x"].iloc[0] == first


def test_a_decimal_separator_that_is_given_is_taken(tmp_path):
    texts = list(map(german, PEOPLE))
    X = known(file_of(tmp_path, {"x": texts, "y": [str(v) for v in PEOPLE]}), "y", decimal=".")[1]
    assert X["x"].max() < 1000


LABELS = (["°C", "m/s", "", "kWh"], ["how warm was it?", "how windy (0-10)?", "which state?", "used"])


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_rows_of_labels_below_the_header_are_left_out_and_reported(tmp_path, count, ending):
    rows = [[f"{k / 7:.2f}", f"{k % 5}", "ok" if k % 3 else "off", f"{k}.5"] for k in range(40)]
    rows[7][1] = "calm"
    path = tmp_path / f"t.{ending}"
    names = ["temp", "wind", "state", "use"]
    if ending == "csv":
        path.write_text("\n".join(map(",".join, [names, *LABELS[:count], *rows])), encoding="utf-8")
    else:
        book = Workbook()
        for row in (names, *LABELS[:count]):
            book.active.append(row)
        for temp, wind, state, use in rows:
            book.active.append([float(temp), wind if wind == "calm" else int(wind), state, float(use)])
        book.save(path)
    batch = read_table(str(path))
    assert batch.n_rows == 40
    assert batch.numbers[0] == 2 + count
    assert [f"row {2 + k}: " in text and "below the header" in text for k, text in enumerate(batch.notes)] == [
        True
    ] * count


@pytest.mark.parametrize(
    "first",
    [
        ["refused", "refused", "off", "3"],  # a number is there
        ["<0.5", "ca. 3", "off", "4 kWh"],  # numbers, as they are written
        ["n/a", "-", "off", "?"],  # missing ones
        ["calm", "calm", "off", "calm"],  # words that come again
    ],
)
def test_a_first_row_of_odd_values_is_a_row(tmp_path, first):
    rows = [[f"{k / 7:.2f}", f"{k % 5}", "ok" if k % 3 else "off", f"{k}.5"] for k in range(40)]
    rows[7] = ["calm", "calm", "ok", "calm"]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(map(",".join, [["temp", "wind", "state", "use"], first, *rows])), encoding="utf-8")
    assert read_table(str(path)).n_rows == 41


def test_groups_above_the_names_are_titles_even_where_the_first_has_none(tmp_path):
    book = Workbook()
    for row in (
        ["Report"],
        [None, "Place", None, "Sales", None, "Costs"],
        ["town", "land", "kind", "plan", "real", "all"],
    ):
        book.active.append(row)
    for k in range(30):
        book.active.append([f"t{k % 4}", f"l{k % 3}", "ab"[k % 2], k / 2, k / 3, k * 1.5])
    book.save(tmp_path / "t.xlsx")
    batch = read_table(str(tmp_path / "t.xlsx"))
    assert list(batch.columns) == ["town", "land", "kind", "plan", "real", "all"]
    assert batch.numbers[0] == 4
    assert "row 2: 'Place' is above the header" in batch.notes[1]


def test_an_export_with_units_and_thousands_is_fitted_and_predicted_row_by_row(tmp_path, capsys):
    rows = [f"{german(n)};{german(a, 1)};{german(2 * n + 10 * a, 1)}" for n, a in zip(PEOPLE, AREA, strict=True)]
    data, out = tmp_path / "t.csv", tmp_path / "p.csv"
    data.write_text("\n".join(["people;area;tax", "persons;km²;EUR", *rows]), encoding="utf-8")
    options = ["--target", "tax", "--model", "nkelm", "--no-baselines", "-o", str(tmp_path / "m.ulmus")]
    assert main(["fit", str(data), *options]) == OK
    assert "below the header" in capsys.readouterr().err
    assert main(["predict", str(tmp_path / "m.ulmus"), str(data), "-o", str(out)]) == OK
    predicted = pd.read_csv(out)["prediction"].to_numpy()
    assert len(predicted) == 60
    assert np.corrcoef(predicted, 2 * PEOPLE + 10 * AREA)[0, 1] > 0.99


def test_amounts_in_several_currencies_are_told_in_files_and_frames(tmp_path, capsys):
    prices = [f"{'€$'[k % 3 == 0]}{1000 / (k + 3):.2f}" for k in range(60)]
    towns = ["", "Rome", "Oslo"] * 20
    batch = file_of(tmp_path, {"price": prices, "town": towns, "y": [str(k) for k in range(60)]})
    schema = learn(batch, "y", "regression")
    assert "price" in schema.left_out
    assert main(["fit", str(tmp_path / "t.csv"), "--target", "y", "--model", "nkelm", "--no-baselines"]) == OK
    words = (
        "column 'price': amounts in several currencies ('$333.33', '€250.00') are read as words; convert them to one"
    )
    assert words in " ".join(capsys.readouterr().err.split())
    rows = pd.DataFrame({"price": prices, "town": towns})
    assert [(f.kind, f.column) for f in ulmus.check_table(rows).findings] == [(ulmus.UnreadableWarning, "price")]
    assert ulmus.check_table(rows.assign(price=[text.replace("$", "€") for text in prices])).findings == []

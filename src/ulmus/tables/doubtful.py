"""What may be meant otherwise: totals below the rows, merged cells, dates whose day and month may be exchanged."""

import re

import numpy as np

from ulmus.features.columns import doubt
from ulmus.features.findings import currencies
from ulmus.features.written import READ, ambiguous
from ulmus.tables.errors import TableError
from ulmus.tables.kinds import HEAD, distinct_texts, in_two_ways, values, written
from ulmus.tables.read import TableBatch
from ulmus.tables.schema import Schema

#: How a total is called in the languages that tables come in most.
TOTAL = re.compile(
    r"^(grand |sub-?)?(totals?|sums?|summe|gesamt|insgesamt|zusammen|totales?|suma|somme|totaal|razem)\b:?$",
    re.IGNORECASE,
)
#: Last rows that are looked at.
LAST = 3
#: Kinds of columns that may have merged cells.
WORDS = ("category", "text")


def without_totals(batch: TableBatch) -> tuple[TableBatch, list[str]]:
    """The rows without those at the end that are totals of the others, and warnings about them.

    A row that reads like one is one where a number in it is the sum, or the mean, of those above; else it stays,
    with a warning.
    """
    texts, totals = [], []
    for i, name, value in _called_totals(batch):
        sure = _adds_up(batch, i)
        totals += [i] if sure else []
        what = (
            "is the sum of the rows above and was skipped" if sure else "was kept as a row; remove it if it is a total"
        )
        texts.append(str(TableError(f"{value!r} looks like a total: it {what}", **batch.at(i), column=name)))
    return batch.without(totals), texts


def _adds_up(batch: TableBatch, i: int) -> bool:
    """Whether a number in a row is the sum, or the mean, of those above it, as far as it is written."""
    for column in batch.columns.values():
        above = column[:i]
        kind = written(above)
        if kind.name != "number":
            continue
        numbers, (total,) = values(above, kind).values, values(column[i : i + 1], kind).values
        there = numbers[~np.isnan(numbers)]
        expected = np.array([there.sum(), there.mean()]) if len(there) > 1 else np.zeros(0)
        if np.isfinite(total) and total and np.isclose(expected, total, rtol=1e-3, atol=0).any():
            return True
    return False


def _called_totals(batch: TableBatch) -> list[tuple[int, str, str]]:
    """Last rows that read like totals, with the column and the value that say so."""
    found = []
    for i in range(max(0, batch.n_rows - LAST), batch.n_rows):
        for name, column in batch.columns.items():
            value = column[i].as_py()
            if isinstance(value, str) and TOTAL.match(value.strip()):
                found.append((i, name, value.strip()))
                break
    return found


def merged_notes(batch: TableBatch, schema: Schema) -> list[str]:
    """Warnings about words that stand once each, above empty cells: each may be meant for all rows below."""
    found = []
    for name, kind in schema.columns.items():
        column = batch.columns[name]
        words = [word for word in column.drop_null().to_pylist() if isinstance(word, str)] if kind.name in WORDS else []
        if column[0].as_py() is not None and 2 <= len(words) == len(set(words)) <= column.null_count / 2:
            text = (
                f"{len(words)} values stand once each, above {column.null_count} empty cells; if a value is meant for "
            )
            text += "the rows below it, as merged cells are, fill it down"
            found.append(str(TableError(text, file=batch.file, column=name)))
    return found


def separator_notes(batch: TableBatch, schema: Schema) -> list[str]:
    """Warnings about numbers like 12.345 in a table with decimal commas: thousands, or decimals after all?"""
    kinds = {**schema.columns, schema.target: schema.target_kind}
    commas = {name for name, kind in kinds.items() if kind.name == "number" and kind.form.startswith("decimal comma")}
    found = []
    for name, kind in kinds.items():
        texts = in_two_ways(batch.columns[name]) if kind.is_single and commas else []
        first = next((text for text in texts if "." in text or "," in text), "")
        if first:
            value = READ["number"]([first], kind.form)[0]
            other = "." if name in commas else ","
            text = f"{first!r} is read as {value:.10g}; if that is wrong, use --decimal {other}"
            found.append(str(TableError(text, file=batch.file, column=name)))
    return found


def currency_notes(batch: TableBatch, schema: Schema) -> list[str]:
    """Warnings about columns that are left out, and are amounts in several currencies."""
    texts = {name: distinct_texts(batch.columns[name][:HEAD]) for name in schema.left_out if name in batch.columns}
    found = [currencies(values, name) for name, values in texts.items()]
    return [f"{batch.file}, {one.text}" for some in found for one in some]


def date_notes(batch: TableBatch, schema: Schema) -> list[str]:
    """Warnings about columns of dates that may be read in two ways."""
    found = []
    for name, kind in schema.columns.items():
        text = ambiguous(distinct_texts(batch.columns[name]), kind.form) if kind.name == "date" and kind.form else ""
        if text:
            found.append(f"{batch.file}, {doubt(name, text, kind.form)}")
    return found

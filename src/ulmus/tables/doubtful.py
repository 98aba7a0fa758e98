"""What may be meant otherwise: totals below the rows, dates whose day and month may be exchanged."""

import re

from ulmus.features.columns import doubt
from ulmus.features.written import ambiguous
from ulmus.tables.errors import TableError
from ulmus.tables.kinds import distinct_texts
from ulmus.tables.read import TableBatch
from ulmus.tables.schema import Schema

#: How a total is called in the languages that tables come in most.
TOTAL = re.compile(
    r"^(grand |sub-?)?(totals?|sums?|summe|gesamt|insgesamt|zusammen|totales?|suma|somme|totaal|razem)\b:?$",
    re.IGNORECASE,
)
#: Last rows that are looked at.
LAST = 3


def told_totals(batch: TableBatch) -> list[str]:
    """What is to be told of rows at the end that read like totals of the others: a model would learn from them."""
    found = []
    for i in range(max(0, batch.n_rows - LAST), batch.n_rows):
        for name, column in batch.columns.items():
            value = column[i].as_py()
            if isinstance(value, str) and TOTAL.match(value.strip()):
                text = f"{value.strip()!r} reads like a total of the rows above, and is taken for a row; take it out"
                found.append(str(TableError(text, **batch.at(i), column=name)))
                break
    return found


def told_dates(batch: TableBatch, schema: Schema) -> list[str]:
    """What is to be told of columns of dates that may be read in two ways."""
    found = []
    for name, kind in schema.columns.items():
        text = ambiguous(distinct_texts(batch.columns[name]), kind.form) if kind.name == "date" and kind.form else ""
        if text:
            found.append(f"{batch.file}, {doubt(name, text, kind.form)}")
    return found

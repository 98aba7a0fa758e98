"""``ulmus project``."""

import numpy as np

from ulmus._files import write_text
from ulmus.cli.console import check_outputs, say, working
from ulmus.cli.fit import rows_of
from ulmus.report.map import grouped, shown
from ulmus.report.map import project as draw
from ulmus.report.page import Section, page, paragraph
from ulmus.tables import TableError
from ulmus.tables.read import read_table
from ulmus.tables.schema import learn
from ulmus.tables.vectorise import encoder

#: Rows that are looked at, at most.
MAX_ROWS = 5_000


def project(data: str, goal: str, output: str, *, seed: int) -> None:
    """A map of the rows of a table, as a page."""
    check_outputs({"-o": output}, [data])
    with working(f"mapping {data}"):
        batch = read_table(data)
        schema = learn(batch, goal)
        X, y = rows_of(batch, schema, data)
        order = np.random.RandomState(seed).permutation(len(y))[:MAX_ROWS]
        X, y = X.iloc[order], y[order]
        features = np.asarray(encoder(schema.columns).fit_transform(X), dtype=float)
        picture = draw(features, *grouped(y, None if schema.task == "regression" else np.unique(y)), X, {})
    if picture is None:
        raise TableError("there is only one class, so there is nothing to separate", file=data, column=goal)
    text = (
        f"The plane that tells the values of {goal} apart best (ENDA). Point at a mark, or tap it, for its values. "
        f"{shown(len(y))}"
    )
    write_text(output, page(f"Map of {data}", paragraph(text), [Section("map", goal, picture)]))
    say(f"map: {output}")

"""``ulmus info``."""

import os

from ulmus._numbers import number
from ulmus.cli.console import show
from ulmus.cli.models import load_model
from ulmus.models.summary import chosen
from ulmus.tables.schema import Schema


def info(file: str) -> None:
    """What a model file holds."""
    found, model = load_model(file)
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    versions = ", ".join(f"{name} {number}" for name, number in found.versions.items())
    rows = [
        ("model", found.model),
        ("file", f"{os.path.getsize(file) / 1e6:.2f} MB, format {found.format}, SHA-256 {found.checksum[:16]}…"),
        ("made with", versions),
        *chosen(last).items(),
    ]
    if "table" in found.notes:
        schema = Schema.from_json(found.notes["table"], file)
        rows.append(("target", f"{schema.target}: {schema.task}"))
        rows.append(("trained on", f"{found.notes.get('rows', 0):,} rows"))
        rows += [("column", f"{name}: {kind}") for name, kind in list(schema.columns.items())[:50]]
        rows += [
            ("score", f"{s['name']} {number(s['value'])} ({number(s['low'])} … {number(s['high'])})")
            for s in found.notes["scores"]
        ]
    else:
        rows += [(key, f"{value}"[:200]) for key, value in found.schema.items()]
    if "classes" in found.schema:
        rows.append(("classes", ", ".join(found.schema["classes"][:20])))
    show(file, rows)

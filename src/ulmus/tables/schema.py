"""The training schema: which columns a model takes, what they are, and what it predicts. Kept in the model's file."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ulmus.features.columns import ENOUGH, LEFT_OUT, MOST, NEARLY_ALL
from ulmus.features.examine import NAMES, are_classes
from ulmus.features.written import DATES, MOSTLY, NUMBERS, dates_like
from ulmus.tables.errors import TableError
from ulmus.tables.kinds import DECIMALS, Kind, Values, distinct_texts, infer, names_rows, unambiguous, values, written
from ulmus.tables.read import TableBatch

#: Kind → the forms in which it may be written.
FORMS = {"number": tuple(NUMBERS), "date": DATES, "time": ("",), "duration": ("",)}
TASKS = ("classification", "regression", "ordinal")
#: A number as it is written in most places.
PLAIN = Kind("number", "plain")
#: What a value was expected to be, in messages.
_CALLED = {
    **{"number": "a number", "boolean": "true or false", "date": "a date"},
    **{"time": "a time of the day", "duration": "a length of time"},
}

#: Share of a target's values that may be words where it is to be a number.
FEW_WORDS = 0.3

Warn = Callable[[str], None]


@dataclass(frozen=True)
class Schema:
    """Columns by name and kind, the target with its kind, the task, and which share of a column was missing."""

    target: str
    task: str
    target_kind: Kind
    columns: dict[str, Kind]
    left_out: dict[str, str] = field(default_factory=dict)
    categories: list[str] | None = None
    missing: dict[str, float] = field(default_factory=dict)
    #: What the columns looked like (:func:`ulmus.features.findings.profile`).
    profile: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For a file; columns as a list, which keeps their order."""
        return {**asdict(self), "columns": [[name, asdict(kind)] for name, kind in self.columns.items()]}

    @classmethod
    def from_json(cls, content: Any, file: str) -> "Schema":
        try:
            columns = {str(name): Kind(**kind) for name, kind in content["columns"]}
            return cls(**{**content, "target_kind": Kind(**content["target_kind"]), "columns": columns})
        except (TypeError, KeyError, ValueError):
            raise TableError(
                "the model was not made by `ulmus fit`, so its columns are unknown; use it from Python",
                file=file,
            ) from None


def learn(
    batch: TableBatch,
    target: str,
    task: str = "auto",
    categories: list[str] | None = None,
    decimal: str = "auto",
    roles: dict[str, str] | None = None,
) -> Schema:
    """The schema of a training table; ``roles`` says what some columns are, or that they are left out."""
    column = batch.column(target)
    others = {name: _told(batch, name, (roles or {}).get(name), decimal) for name in batch.columns if name != target}
    kind = _target_kind(column, decimal)
    if decimal == "auto":
        known = unambiguous(batch.columns, {**others, target: kind})
        kind = known.pop(target, kind)
        others |= known
    if task == "regression" and kind.name == "category" and not len(values(column, PLAIN).wrong):
        kind = PLAIN  # codes that are to be numbers
    if kind.name == "empty":
        raise TableError("the target has no values", file=batch.file, column=target)
    if task == "auto":
        task = "ordinal" if categories else _task(column, kind)
    if task not in TASKS:
        raise TableError(f"task must be auto or one of {', '.join(TASKS)}, got {task!r}")
    if task == "regression" and kind.name != "number":
        _refuse_target(batch, target, column, kind)
    if task == "ordinal" and not categories and kind.name != "number":
        raise TableError(
            "the order of these categories is not known; name them, lowest first: --categories low,mid,high",
            file=batch.file,
            column=target,
        )
    if task == "classification" and kind.name == "category":
        _refuse_names(batch, target, column)
    columns: dict[str, Kind] = {}
    left_out: dict[str, str] = {}
    for name, found in others.items():
        if found.name in LEFT_OUT:
            left_out[name] = _reason(batch.columns[name], found)
        else:
            columns[name] = found
    if not columns:
        why = "; ".join(f"{name!r} {reason}" for name, reason in list(left_out.items())[:5])
        raise TableError(f"no column is left to learn from ({why or 'there is only the target'})", file=batch.file)
    missing = {name: float(_missing(values(batch.columns[name], kind).values).mean()) for name, kind in columns.items()}
    return Schema(target, task, kind, columns, left_out, categories, missing)


def _task(column: Any, kind: Kind) -> str:
    if kind.name in ("category", "boolean"):
        return "classification"
    found = values(column, kind).values
    if kind.name != "number":
        return "regression"
    return "classification" if are_classes(found) else "regression"


def _refuse_target(batch: TableBatch, target: str, column: Any, kind: Kind) -> None:
    wrong = values(column, PLAIN).wrong
    row = int(wrong[0]) if len(wrong) else 0
    raise TableError(
        f"regression needs numbers, got {column[row].as_py()!r}; for classes use --task classification",
        **batch.at(row),
        column=target,
    )


def _refuse_names(batch: TableBatch, target: str, column: Any) -> None:
    """A target whose values are nearly all different names rows; no class has rows to learn from."""
    distinct, n_rows = len(distinct_texts(column)), np.count_nonzero(values(column, Kind("category")).values != "")
    if distinct > max(2, NAMES * n_rows):
        raise TableError(
            f"the target is text with {distinct} distinct values in {n_rows} rows: these look like "
            "identifiers, not classes; choose another --target",
            file=batch.file,
            column=target,
        )


def _target_kind(column: Any, decimal: str) -> Kind:
    """Of a target only whether it is a number, a truth value, or words counts."""
    kind = written(column, decimal)
    return Kind("category") if kind.name in ("text", "tags") else kind


def _told(batch: TableBatch, name: str, role: str | None, decimal: str) -> Kind:
    """What a column is: as it was asked for, in the form in which it is written."""
    found = infer(batch.columns[name], decimal, name)
    if role is None or role == found.name:
        return found
    if role in ("number", "date", "time", "duration"):
        column = batch.columns[name]
        for form in FORMS[role]:
            known = values(column, Kind(role, form))
            given = len(column) - int(_missing(known.values).sum()) + len(known.wrong)
            if len(known.wrong) <= (1 - MOSTLY) * given:
                return Kind(role, form)
        first = next((value for value in column.to_pylist() if value is not None), None)
        raise TableError(
            f"--{role if role != 'number' else 'numeric'} cannot read {first!r} and others",
            file=batch.file,
            column=name,
        )
    return Kind(role, "|" if role == "tags" else "")


def _reason(column: Any, kind: Kind) -> str:
    """Why a column is left out."""
    if kind.name != "id":
        return LEFT_OUT[kind.name]
    return f"looks like an identifier: {len(distinct_texts(column))} distinct values in {len(column)} rows"


#: What to do with a column that cannot be read: on the command line, and for rows that come over the wire.
BY_COMMAND = {
    "unread": "predict --force treats them as missing",
    "number": "if they are numbers, say how they are written with --decimal , or --decimal .; ",
    "empty": "is it the right column? predict --force continues anyway",
}
BY_REQUEST = {
    "unread": "send null where a value is not known",
    "number": "send numbers, or write them as in training; ",
    "empty": "is it the right column?",
}


def frame(
    batch: TableBatch,
    schema: Schema,
    warn: Warn,
    *,
    decimal: str = "auto",
    force: bool = False,
    advice: dict[str, str] = BY_COMMAND,
) -> Any:
    """The columns of the schema as a pandas frame.

    A value that is not what its column is counts as missing, with a warning. Where most are, the column is written
    differently from how it was in training: an error, unless ``force`` is set.
    """
    import pandas as pd

    found = {}
    for text in batch.notes:
        warn(text)
    batch.require(schema.columns)
    for name, kind in schema.columns.items():
        column = batch.column(name)
        written = _with_decimal(kind, decimal)
        known = values(column, written)
        found[name] = known.values
        if not force:
            _refuse_turned(batch, schema, name, written, known, advice)
        if len(known.wrong):
            first = int(known.wrong[0])
            more = f" (and {len(known.wrong) - 1} more)" if len(known.wrong) > 1 else ""
            text = f"{column[first].as_py()!r} is not {_CALLED[kind.name]}{_written_like(kind)}"
            text += f"; it counts as missing{more}"
            warn(str(TableError(text, **batch.at(first), column=name)))
    return pd.DataFrame(found, copy=False)


def _with_decimal(kind: Kind, decimal: str) -> Kind:
    """The same with another decimal separator; what stands beside the numbers stays."""
    if kind.name != "number" or decimal == "auto":
        return kind
    mark = kind.form.partition(": ")[2]
    return Kind("number", DECIMALS[decimal][-1] + (f": {mark}" if mark else ""))


def columns_as_arrays(X: Any) -> dict[str, np.ndarray]:
    """The columns of a frame of :func:`frame`."""
    return {str(name): X[name].to_numpy() for name in X.columns}


def _refuse_turned(
    batch: TableBatch, schema: Schema, name: str, kind: Kind, known: Values, advice: dict[str, str]
) -> None:
    """Refuse a column that is not what it was: of another kind or form, or all but empty where it had values."""
    n_missing = int(np.count_nonzero(_missing(known.values)))
    given = len(known.values) - n_missing + len(known.wrong)
    if len(known.wrong) > MOST * given:
        first = int(known.wrong[0])
        form = _written_like(kind) or f" as in training ({kind})"
        others = f", nor are {len(known.wrong) - 1} of the other {given - 1} values" if len(known.wrong) > 1 else ""
        raise TableError(
            f"{batch.column(name)[first].as_py()!r} is not {_CALLED[kind.name]}{form}{others}; "
            f"{advice['number'] if kind.name == 'number' else ''}{advice['unread']}",
            **batch.at(first),
            column=name,
        )
    many = n_missing > NEARLY_ALL * len(known.values) and len(known.values) >= ENOUGH
    if many and name in schema.missing and schema.missing[name] < MOST:
        raise TableError(
            f"{n_missing} of {len(known.values)} values are missing, where {100 * schema.missing[name]:.0f} % were in "
            f"training; {advice['empty']}",
            file=batch.file,
            column=name,
        )


def _written_like(kind: Kind) -> str:
    """How a date has to be written; nothing for other kinds."""
    return f" like {dates_like(kind.form)}" if kind.name == "date" else ""


def row_names(batch: TableBatch, schema: Schema) -> np.ndarray:
    """What rows are called: their numbers in the file, with the value of a column that names them, if there is one."""
    numbers = _row_numbers(batch)
    for name in schema.left_out:
        names = names_rows(batch.columns[name]) if name in batch.columns else None
        if names is not None:
            return np.asarray([f"{row} ({text})" for row, text in zip(numbers, names, strict=True)], object)
    return numbers


def _row_numbers(batch: TableBatch) -> np.ndarray:
    """Numbers of the rows, with the file where there are several."""
    if len({file for file, _ in batch.files}) == 1:
        return np.asarray([str(row) for row in batch.numbers], dtype=object)
    names = [Path(file).name for file, count in batch.files for _ in range(count)]
    return np.asarray([f"{name} {row}" for name, row in zip(names, batch.numbers, strict=True)], dtype=object)


def _missing(found: np.ndarray) -> np.ndarray:
    """Which values are missing."""
    if found.dtype == object:
        return np.array([value is None or (isinstance(value, str) and value == "") for value in found], bool)
    return np.asarray(np.isnat(found) if found.dtype.kind in "mM" else np.isnan(found))


def target(batch: TableBatch, schema: Schema, warn: Warn) -> tuple[np.ndarray, np.ndarray]:
    """The target, and which rows have one. Where it is to be a number, a few words count as missing, with a warning."""
    column = batch.column(schema.target)
    kind = schema.target_kind
    if schema.task == "regression":
        known = values(column, kind)
        if len(known.wrong):
            digits = [i for i in known.wrong.tolist() if any(c.isdigit() for c in str(column[i].as_py()))]
            row, more = (
                (digits or known.wrong.tolist())[0],
                f" (and {len(known.wrong) - 1} more)" if len(known.wrong) > 1 else "",
            )
            place, text = {**batch.at(row), "column": schema.target}, f"{column[row].as_py()!r} is not a number{more}"
            if digits:  # a number in another form
                raise TableError(
                    f"{text} in the format of the others; use one format for all, or clear the cell", **place
                )
            if len(known.wrong) > FEW_WORDS * np.count_nonzero(column.is_valid()):
                raise TableError(f"{text}; clear such cells, or predict classes with --task classification", **place)
            warn(str(TableError(f"{text}; it counts as missing", **place)))
        return known.values, np.isfinite(known.values)
    if kind.name == "number" and schema.categories is None:
        numbers = values(column, kind).values
        there = np.isfinite(numbers)
        whole = (numbers[there] == np.round(numbers[there])).all()
        return (np.where(there, numbers, 0).astype(np.int64) if whole else numbers.astype(str)), there
    labels = values(column, Kind("category")).values
    there = labels != ""
    if schema.categories is not None:
        strange = np.flatnonzero(there & ~np.isin(labels, schema.categories))
        if len(strange):
            raise TableError(
                f"{labels[strange[0]]!r} is not among the categories {', '.join(schema.categories)}",
                **batch.at(int(strange[0])),
                column=schema.target,
            )
    return labels.astype(str), there

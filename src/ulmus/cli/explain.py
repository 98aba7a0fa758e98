"""``ulmus explain``: by columns, by training rows, or by what would change a prediction."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier

from ulmus.cli.console import UsageError, check_outputs, console, say, warn, working
from ulmus.cli.fit import rows_and_extras
from ulmus.cli.models import load_model
from ulmus.cli.roles import Roles
from ulmus.exceptions import UnansweredWarning
from ulmus.explain import Explanation
from ulmus.explain import explain as explained
from ulmus.explain.values import BACKGROUND
from ulmus.models._reasons import TrainingRows
from ulmus.tables.doubtful import without_totals
from ulmus.tables.read import read_batches, read_table
from ulmus.tables.schema import Schema, frame, row_names, target
from ulmus.tables.write import Kept, Writer, written_as_text

#: Rows that are explained at a time.
ROWS = 500
#: Method → options that it takes, of those that not all take.
OPTIONS = {
    "shapley": ("background",),
    "influences": ("train", "weight"),
    "row-values": ("weight",),
    "counterfactuals": ("train", "to", "fixed"),
}


@dataclass(frozen=True)
class Asked:
    """What is explained of which model, how tables are read, and how the columns of a table are kept beside it."""

    model: Any
    schema: Schema
    data: str
    given: dict[str, Any]
    top: int
    decimal: str
    force: bool
    keeper: Kept | None

    def batches(self) -> Iterator[tuple[Any, Any]]:
        """Batches of the table, and their rows as the model takes them."""
        for batch in read_batches(self.data):
            yield batch, self.frame(batch)

    def frame(self, batch: Any) -> Any:
        return frame(batch, self.schema, warn, decimal=self.decimal, force=self.force)

    def kept(self, batch: Any) -> dict[str, Any]:
        return {} if self.keeper is None else self.keeper.columns(batch)

    def training(self, file: str) -> tuple[pd.Series, TrainingRows, dict[str, Any]]:
        """Targets of the fit by the names of rows, what rows do to predictions, and the columns kept of them."""
        batch = without_totals(read_table(file))[0]
        X, y, extras = rows_and_extras(batch, self.schema, file, self.decimal, Roles(weight=self.given["weight"]))
        there = target(batch, self.schema, lambda _: None)[1]
        weighty = np.ones(len(y), bool) if extras.weight is None else extras.weight > 0
        columns = {name: np.asarray(column)[there][weighty] for name, column in self.kept(batch).items()}
        try:
            known = TrainingRows.of(self.model[-1], self.prepared(X), y, extras.weight)
        except (ValueError, np.linalg.LinAlgError) as error:
            raise UsageError(str(error)) from error
        return pd.Series(y[weighty], index=X.index[weighty]), known, columns

    def prepared(self, X: Any) -> Any:
        """Rows as the last step sees them."""
        return self.model[:-1].transform(X) if len(self.model.steps) > 1 else X


def explain(
    file: str,
    data: str,
    output: str,
    *,
    method: str,
    given: dict[str, Any],
    top: int,
    keep: bool,
    decimal: str,
    force: bool,
    threads: int,
) -> None:
    """Explanations of a file's rows, some rows at a time."""
    for option, value in given.items():
        if value is not None and option not in OPTIONS[method]:
            methods = " and ".join(name for name, taken in OPTIONS.items() if option in taken)
            raise UsageError(f"--{option} goes with --method {methods}, got --method {method}")
    if given["train"] is None and "train" in OPTIONS[method]:
        raise UsageError(f"--method {method} needs --train, the table that the model was fitted to")
    if top < 1:
        raise UsageError(f"--top takes a number of rows, at least 1, got {top}")
    check_outputs({"-o": output}, [file, data, given["background"], given["train"]])
    about, model = load_model(file)
    model[-1].n_jobs = threads
    keeper = Kept(typed=not written_as_text(output), decimal=decimal) if keep else None
    asked = Asked(model, Schema.from_json(about.notes.get("table"), file), data, given, top, decimal, force, keeper)
    rows, told = 0, ""
    with Writer(output) as writer, working(f"explaining {data}") as progress:
        for table, count, note in METHODS[method](asked):
            writer.write(table)
            rows, told = rows + count, note
            progress.update(progress.task_ids[0], description=f"explaining {data}: {rows:,} rows")
    if output != "-" or console.is_terminal:
        say(f"{rows:,} {told}: {'standard output' if output == '-' else output}")


#: Arrow tables, how many rows of the data each explains, and what has been explained so far, in words.
Tables = Iterator[tuple[Any, int, str]]


def _by_columns(asked: Asked) -> Tables:
    """Shapley values."""
    usual, worst = None, 0.0
    if asked.given["background"] is not None:
        usual = asked.frame(read_table(asked.given["background"]))[:BACKGROUND]
    for batch, X in asked.batches():
        parts = [explained(asked.model, X[start : start + ROWS], usual) for start in range(0, len(X), ROWS)]
        worst = max(worst, *(float(part.errors.max(initial=0.0)) for part in parts), 0.0)
        how = f"sampled, standard errors up to {worst:.2g}" if worst else "exact"
        yield _values(asked.model, X, asked.kept(batch), parts), len(X), f"predictions with their reasons ({how})"


def _values(model: Any, X: Any, columns: dict[str, Any], parts: list[Explanation]) -> Any:
    import pyarrow as pa

    predicted = model.predict(X)
    columns["prediction"] = _array(predicted)
    values = np.concatenate([part.values for part in parts]) if parts else np.empty((0, X.shape[1]))
    base = np.concatenate([part.base_values for part in parts]) if parts else np.empty(0)
    if values.ndim == 3:  # of the class that is predicted
        which = np.searchsorted(model[-1].classes_, predicted) if is_classifier(model[-1]) else np.zeros(len(X), int)
        values, base = values[np.arange(len(X)), :, which], base[np.arange(len(X)), which]
    elif is_classifier(model[-1]):  # one score, which speaks for the second class and against the first
        sign = np.where(predicted == model[-1].classes_[-1], 1.0, -1.0)
        values, base = sign[:, None] * values, sign * base
    columns["base value"] = base
    return pa.table(columns | {f"reason {name}": values[:, j] for j, name in enumerate(X.columns)})


def _by_rows(asked: Asked) -> Tables:
    """Influences: for every row the training rows without which its prediction would differ most."""
    import pyarrow as pa

    targets, known, kept = asked.training(asked.given["train"])
    note = "predictions with the training rows behind them"
    if known.trees:
        note += f" (boosted trees, {100 * known.trees:.0f} % of the scores, are held fixed)"
    step = max(1, 2_000_000 // (len(targets) * known.rows.T.shape[1]))
    for batch, X in asked.batches():
        names = row_names(batch, asked.schema)
        for start in range(0, len(X), step):
            part = X[start : start + step]
            predicted = asked.model.predict(part)
            without = known.answers_without(asked.prepared(part))
            if is_classifier(asked.model[-1]):
                classes = asked.model[-1].classes_.tolist()
                which = np.array([classes.index(label) for label in predicted.tolist()])
                now = asked.model.predict_proba(part)[np.arange(len(part)), which]
                found = without[np.arange(len(part)), :, which]
            else:
                now, found = predicted, without[:, :, 0]
            effect = now[:, None] - found
            most = np.argsort(-np.abs(effect), axis=1, kind="stable")[:, : asked.top]
            row, j = np.repeat(np.arange(len(part)), most.shape[1]), most.ravel()
            columns = {
                "row": _array(names[start : start + step][row]),
                "prediction": _array(predicted[row]),
                "training row": _array(targets.index.to_numpy()[j]),
                "target": _array(targets.to_numpy()[j]),
                f"{_quantity(asked)} without it": found[row, j],
                "effect": effect[row, j],
            }
            yield pa.table(columns | {name: _array(column[j]) for name, column in kept.items()}), len(part), note


def _by_values(asked: Asked) -> Tables:
    """Values of the training rows, the lowest first."""
    import pyarrow as pa

    targets, known, kept = asked.training(asked.data)
    values = known.values
    order = np.argsort(values, kind="stable")
    targets, answers = targets.iloc[order], known.left_out[order]
    columns = {"row": _array(targets.index.to_numpy()), "target": _array(targets.to_numpy())}
    if is_classifier(asked.model[-1]):
        classes = asked.model[-1].classes_.tolist()
        own = [classes.index(label) for label in targets.tolist()]
        columns["prediction without it"] = _array(asked.model[-1].classes_[answers.argmax(axis=1)])
        columns["probability of its target"] = answers[np.arange(len(own)), own]
    else:
        columns["prediction without it"] = answers[:, 0]
    columns |= {"value": values[order]} | {name: _array(column[order]) for name, column in kept.items()}
    yield pa.table(columns), len(values), "training rows, the most harmful first"


def _by_changes(asked: Asked) -> Tables:
    """Counterfactuals: the nearest rows with another prediction; a row for which none is found stays as it is."""
    import pyarrow as pa

    model = asked.model[-1]
    if not hasattr(model, "counterfactuals") or len(asked.model.steps) > 1:
        raise UsageError(
            "--method counterfactuals needs a model fitted with --model adaptive to numbers or unordered classes"
        )
    possible, wanted = asked.frame(read_table(asked.given["train"])), _wanted(asked)
    none = 0
    for batch, X in asked.batches():
        before, names = asked.model.predict(X), row_names(batch, asked.schema)
        changed, left, why = _changed(model, X, possible, wanted)
        if len(left) and not none:
            warn(f"row {names[left[0]]} stays as it is: {why}")
        none += len(left)
        pairs = [(name, X[name], changed[name]) for name in X.columns]
        changes = [
            ", ".join(str(name) for name, old, new in pairs if _differ(old.iloc[i], new.iloc[i])) for i in range(len(X))
        ]
        columns = {
            "row": _array(names),
            "prediction": _array(before),
            "counterfactual prediction": _array(asked.model.predict(changed)),
            "changed": _array(np.array(changes, dtype=object)),
        }
        columns |= {str(name): _array(changed[name].to_numpy()) for name in changed.columns}
        yield pa.table(columns), len(X), f"rows with the nearest one that is predicted otherwise ({none:,} not found)"


def _changed(model: Any, X: Any, possible: Any, wanted: dict[str, Any]) -> tuple[Any, list[int], str]:
    """Counterfactuals of rows, the positions of those that stay as they are, and why."""
    if not len(X):
        return X, [], ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnansweredWarning)
        try:
            changed = model.counterfactuals(X, possible, **wanted)
        except ValueError as error:
            return X, list(range(len(X))), str(error)
    said = [w.message for w in caught if isinstance(w.message, UnansweredWarning)]
    return changed.astype(X.dtypes.to_dict()), *((said[0].rows, said[0].why) if said else ([], ""))


def _wanted(asked: Asked) -> dict[str, Any]:
    """Options of ``counterfactuals``."""
    to, model = asked.given["to"], asked.model[-1]
    fixed = [name.strip() for given in asked.given["fixed"] or () for name in given.split(",")]
    unknown = [name for name in fixed if name not in asked.schema.columns]
    if unknown:
        raise UsageError(f"--fixed takes names of columns that the model uses, got {unknown[0]!r}")
    if not is_classifier(model):
        try:
            return {"threshold": float(to), "fixed": fixed}
        except (TypeError, ValueError):
            raise UsageError(f"--to takes the number that predictions have to cross, got {to!r}") from None
    labels = {str(label): label for label in model.classes_.tolist()}
    if to is None and len(labels) == 2:
        return {"fixed": fixed}
    if to not in labels:
        raise UsageError(f"--to takes the class that is wanted, one of {', '.join(labels)}, got {to!r}")
    return {"target": labels[to], "fixed": fixed}


def _differ(old: Any, new: Any) -> bool:
    return not (old == new or (pd.isna(old) and pd.isna(new)))


def _quantity(asked: Asked) -> str:
    return "probability" if is_classifier(asked.model[-1]) else "prediction"


def _array(values: np.ndarray) -> Any:
    """Values as Arrow takes them: words and missing ones from lists, days without an hour."""
    import pyarrow as pa

    if values.dtype.kind == "M" and (values == values.astype("datetime64[D]"))[~np.isnat(values)].all():
        values = values.astype("datetime64[D]")
    return pa.array(values.tolist() if values.dtype.kind in "UO" else values, from_pandas=True)


METHODS: dict[str, Callable[[Asked], Tables]] = {
    "shapley": _by_columns,
    "influences": _by_rows,
    "row-values": _by_values,
    "counterfactuals": _by_changes,
}

"""``ulmus fit``."""

import resource
import time
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from ulmus._numbers import number
from ulmus.cli.console import UsageError, check_outputs, say, show, warn, working
from ulmus.cli.memory import too_large
from ulmus.cli.models import chosen_model, model_for, settled
from ulmus.models._summary import summary
from ulmus.models.fitted import keep_tuning
from ulmus.persistence import save
from ulmus.report import ready
from ulmus.scores import Score, scores
from ulmus.tables import TableError
from ulmus.tables.read import read_table
from ulmus.tables.schema import Schema, frame, learn, row_names, target

#: Rows below which none are set aside for scores: the leave-one-out loss has to do.
FEW_ROWS = 50


def fit(
    data: str,
    goal: str,
    *,
    task: str,
    categories: str | None,
    model: str,
    effort: str,
    test: str | None,
    holdout: float,
    output: str | None,
    report: str | None,
    decimal: str,
    seed: int,
    threads: int,
    verbose: bool,
    stream: bool,
) -> None:
    """Fit, score, save and report."""
    began = time.perf_counter()
    order = [c.strip() for c in categories.split(",")] if categories else None
    _check(data, test, order, model, holdout, output, report, stream)
    if not stream and model != "adaptive" and too_large(data):
        say(f"{data} is large beside the free memory: it is streamed, as with --stream", "yellow")
        stream = True
    if stream:
        from ulmus.cli.stream import fit_stream

        fit_stream(
            data,
            goal,
            task=task,
            categories=order,
            test=test,
            output=output,
            report=report,
            decimal=decimal,
            seed=seed,
            threads=threads,
            verbose=verbose,
        )
        return
    with working(f"reading {data}"):
        batch = read_table(data)
        schema = learn(batch, goal, task, order, decimal)
        X, y = rows_of(batch, schema, data, decimal)
        if schema.task != "regression" and len(np.unique(y)) < 2:
            raise TableError(
                f"all rows have the same value, {y[0]}: there is nothing to tell apart", file=data, column=goal
            )
        other = rows_of(read_table(test), schema, test, decimal) if test else None
        del batch
    described(schema, X, y)
    none = _undivided(y, schema, holdout)
    if other is None and not none:
        X_fit, X_test, y_fit, y_test = _divided(X, y, schema, holdout, seed)
    else:
        X_fit, y_fit = X, y
        X_test, y_test = other if other is not None else (None, None)
    name = chosen_model(model, schema)
    pipeline = model_for(schema, name, effort=effort, seed=seed, threads=threads, verbose=verbose)
    with working(f"fitting {len(y_fit):,} rows"):
        pipeline.fit(X_fit, y_fit)
    found: list[Score] = [] if X_test is None else scores(pipeline, X_test, y_test)
    shown(found, "the test file" if test else f"{len(y_test):,} rows set aside" if found else none, len(y_fit))
    final = pipeline
    if other is None and found:
        with working(f"fitting all {len(y):,} rows"):
            final = settled(pipeline).fit(X, y)
            if hasattr(pipeline[-1], "tuning_"):
                keep_tuning(final[-1], pipeline[-1].tuning_)
        say(f"fitted again to all {len(y):,} rows; the scores are those of the model of {len(y_fit):,}")
    chosen(final[-1])
    about = (X_test, y_test) if found else (X_fit, y_fit)
    options = f"--model {name}" + (f" --effort {effort}" if name == "adaptive" else "")
    command = command_line(data, schema, seed, options)
    finished(pipeline, final, schema, len(y), found, about, output, report, command, began)


def _check(
    data: str,
    test: str | None,
    order: list[str] | None,
    model: str,
    holdout: float,
    output: str | None,
    report: str | None,
    stream: bool,
) -> None:
    """Refuse what would fail in the end, before any work is done."""
    if order is not None and len(set(order)) < max(2, len(order)):
        raise UsageError(f"--categories takes at least two different names, lowest first, got {','.join(order)!r}")
    if output == "-":
        raise UsageError("a model is a file: name one with -o; only tables go to standard output")
    if stream and model == "adaptive":
        raise UsageError("--stream cannot fit an adaptive model, which holds its rows; leave --model out, or use nkelm")
    if stream and data == "-":
        raise UsageError("--stream reads the table twice, and standard input can be read once; save it to a file first")
    if not 0 <= holdout < 1:
        raise UsageError(f"--holdout is a share of the rows, at least 0 and below 1, got {holdout}")
    check_outputs({"-o": output, "--report": report}, [data, test])
    if report:
        ready()


def finished(
    model: Any,
    final: Any,
    schema: Schema,
    n_rows: int,
    found: list[Score],
    about: tuple[Any, Any],
    output: str | None,
    report: str | None,
    command: str,
    began: float,
) -> None:
    """Save the final model, report on it with the scores of the one that was scored, and tell what it took."""
    if output:
        notes = {"table": schema.to_json(), "rows": n_rows, "scores": [score.to_json() for score in found]}
        save(final, output, notes=notes)
        say(f"model: {output}")
    if report:
        from ulmus.report import report as write_report

        with working("writing the report"):
            write_report(model, *about, report, seen=not found, command=command, saved=final)
        say(f"report: {report}")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    say(f"{time.perf_counter() - began:.1f} s, at most {memory:,.0f} MB")


def rows_of(batch: Any, schema: Schema, file: str, decimal: str = "auto") -> tuple[Any, np.ndarray]:
    """Features and target of a table, without the rows that have no target; the index says which rows they are."""
    X, (y, there) = frame(batch, schema, warn, decimal=decimal), target(batch, schema)
    X.index = row_names(batch, schema)
    if not there.all():
        warn(f"{file}: {np.count_nonzero(~there)} rows have no {schema.target!r} and are left out")
        X, y = X[there], y[there]
    if not len(y):
        raise TableError("no row has a target", file=file, column=schema.target)
    return X, y


def _undivided(y: np.ndarray, schema: Schema, holdout: float) -> str:
    """Why no rows are set aside; empty when some are."""
    if not holdout:
        return "--holdout is 0"
    if len(y) < FEW_ROWS:
        return f"there are only {len(y)} rows"
    if round(holdout * len(y)) < 1 or round((1 - holdout) * len(y)) < 2:
        return f"--holdout {holdout} of {len(y)} rows leaves too few on one side"
    if schema.task != "regression":
        labels, counts = np.unique(y, return_counts=True)
        if len(counts) == 2 and counts.min() == 1:  # both classes must be fitted
            return f"class {labels[counts.argmin()]} has a single row, which the model needs"
    return ""


def _divided(X: Any, y: np.ndarray, schema: Schema, holdout: float, seed: int) -> Any:
    counts = np.unique(y, return_counts=True)[1] if schema.task != "regression" else np.array([2])
    fair = y if schema.task != "regression" and counts.min() >= 2 and len(counts) <= holdout * len(y) else None
    return train_test_split(X, y, test_size=holdout, random_state=seed, stratify=fair)


def described(schema: Schema, X: Any, y: np.ndarray, title: str = "") -> None:
    kinds: dict[str, list[str]] = {}
    for name, kind in schema.columns.items():
        kinds.setdefault(kind.name, []).append(name)
    rows = [(f"{len(names)} × {kind}", _few(names)) for kind, names in kinds.items()]
    rows += [("left out", f"{name} ({reason})") for name, reason in list(schema.left_out.items())[:5]]
    if len(schema.left_out) > 5:
        rows.append(("left out", f"and {len(schema.left_out) - 5} more"))
    goal = f"{schema.target}: {schema.task}"
    if schema.task != "regression":
        goal += f", {len(np.unique(y))} classes"
    show(title or f"{len(y):,} rows", [*rows, ("target", goal)])


def _few(names: list[str], count: int = 6) -> str:
    return ", ".join(names[:count]) + (f", … ({len(names) - count} more)" if len(names) > count else "")


def chosen(model: Any) -> None:
    say(f"{type(model).__name__}: " + ", ".join(f"{name} = {value}" for name, value in summary(model).items()))


def shown(found: list[Score], where: str, n_fit: int) -> None:
    if not found:
        say(f"no rows were set aside, so there are no scores: {where}; use --test", "yellow")
        return
    rows = [(s.name, number(s.value), f"{number(s.low)} … {number(s.high)}") for s in found]
    show(f"scores on {where}, fitted to {n_fit:,}", rows, ("", "value", "95 % interval"))


def command_line(data: str, schema: Schema, seed: int, options: str) -> str:
    order = f" --categories {','.join(schema.categories)}" if schema.categories else ""
    return f"ulmus fit {data} --target {schema.target!r} --task {schema.task}{order} {options} --seed {seed}"

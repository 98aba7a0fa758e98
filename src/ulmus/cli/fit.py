"""``ulmus fit``."""

import resource
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus._numbers import number
from ulmus.cli.console import UsageError, check_outputs, say, show, warn, working
from ulmus.cli.free_memory import too_large
from ulmus.cli.models import chosen_model, model_for, with_chosen
from ulmus.cli.roles import CRITERIA, METRICS, Extras, Roles, divided
from ulmus.cli.watch import unwatched, watched
from ulmus.features.examine import check_table
from ulmus.features.findings import profile
from ulmus.models.fitted import keep_tuning
from ulmus.models.summary import chosen as chosen_values
from ulmus.persistence import save
from ulmus.report import ready
from ulmus.report.baselines import FIRST, Contender, baselines, ranked, verdict
from ulmus.report.subject import Context
from ulmus.scores import Score, scores
from ulmus.tables import TableError
from ulmus.tables.doubtful import currency_notes, date_notes, merged_notes, separator_notes, without_totals
from ulmus.tables.read import files_of, read_table
from ulmus.tables.schema import Schema, columns_as_arrays, frame, learn, row_names, target
from ulmus.tables.vectorise import encoder

#: Rows below which none are set aside for scores: the leave-one-out loss has to do.
FEW_ROWS = 50


@dataclass(frozen=True)
class FitRequest:
    """What ``ulmus fit`` was asked for; ``order`` are the ordered classes, lowest first."""

    data: str
    goal: str
    task: str
    order: list[str] | None
    model: str
    effort: str
    test: str | None
    holdout: float
    output: str | None
    report: str | None
    decimal: str
    seed: int
    threads: int
    verbose: bool
    roles: Roles
    compare: bool


def fit(request: FitRequest, *, stream: bool) -> None:
    """Fit, score, save and report."""
    data, roles, seed, effort, began = request.data, request.roles, request.seed, request.effort, time.perf_counter()
    _check(request, stream)
    if not stream and too_large(data):
        say(f"{data} is large compared with free memory; streaming it, as with --stream", "yellow")
        stream = True
    if stream and roles != Roles():
        raise UsageError("--stream does not support column roles; drop --stream, or prepare the table first")
    if stream:
        from ulmus.cli.stream import fit_stream

        fit_stream(request)
        return
    read = _read(request)
    schema, X, y, measure = read.schema, read.X, read.y, read.measure
    described(schema, X, y)
    fitted, X_test, y_test, none = _held_out(read, request.holdout, seed)
    X_fit, y_fit = X.iloc[fitted], y[fitted]
    if schema.task != "regression" and len(np.unique(y_fit)) < 2:
        raise TableError("the training rows have only one class", file=data, column=request.goal)
    name = chosen_model(request.model, schema)
    pipeline = model_for(schema, name, effort=effort, seed=seed, threads=request.threads, verbose=request.verbose)
    pipeline[-1].set_params(**scored_by(roles, name, schema.task), **directed(roles, schema, name))
    odd = findings(schema, X_fit, y_fit, X_test, y_test)
    began_fit = time.perf_counter()
    with working(task := f"fitting {len(y_fit):,} rows") as progress:
        watched(pipeline, progress, task).fit(X_fit, y_fit, **read.extras.take(fitted).fit_options(pipeline))
    unwatched(pipeline)
    seconds = time.perf_counter() - began_fit
    found: list[Score] = [] if X_test is None else scores(pipeline, X_test, y_test)
    found.sort(key=lambda score: score.name != measure)
    where = "the test file" if request.test else f"{len(y_test):,} held-out rows" if found else none
    shown(found, where, len(y_fit))
    rows = (X_fit, y_fit, X_test, y_test)
    entries = compared(schema, found, seconds, rows, measure) if found and request.compare else []
    final = pipeline
    if read.other is None and found:
        with working(task := f"fitting all {len(y):,} rows") as progress:
            final = watched(with_chosen(pipeline), progress, task).fit(X, y, **read.extras.fit_options(pipeline))
            unwatched(final)
            if hasattr(pipeline[-1], "tuning_"):
                keep_tuning(final[-1], pipeline[-1].tuning_)
        say(f"refitted to all {len(y):,} rows; the scores are those of the model trained on {len(y_fit):,}")
    chosen(final[-1])
    about = (X_test, y_test) if found else (X_fit, y_fit)
    options = f"--model {name}" + (f" --effort {effort}" if name == "adaptive" else "")
    options += "".join(f" --monotone {given!r}" for given in roles.monotone)
    context = Context(
        target=request.goal,
        file=data,
        n_rows=len(y),
        n_fitted=len(y_fit),
        where=where,
        left_out=schema.left_out,
        findings=tuple(odd),
        entries=tuple(entries),
        measure=measure,
    )
    command, weight = command_line(data, schema, seed, options), read.extras.take(fitted).weight
    finished(request, pipeline, final, schema, len(y), found, about, command, began, context, (X_fit, y_fit, weight))


def _held_out(read: "Read", holdout: float, seed: int) -> tuple[np.ndarray, Any, Any, str]:
    """Rows to fit, rows and targets for the scores, and why there are none."""
    everything, none = np.arange(len(read.y)), _undivided(read.y, read.schema, holdout)
    if read.other is not None:
        return everything, *read.other, none
    if none:
        return everything, None, None, none
    fitted, held = divided(read.y, read.extras, read.schema.task, holdout, seed)
    return fitted, read.X.iloc[held], read.y[held], ""


@dataclass(frozen=True)
class Read:
    """A table that was read: what it is, rows and targets, and those of a second one; what models are ranked by."""

    schema: Schema
    X: Any
    y: np.ndarray
    extras: Extras
    other: tuple[Any, np.ndarray] | None
    measure: str


def _read(request: FitRequest) -> Read:
    data, goal, test, decimal, roles = request.data, request.goal, request.test, request.decimal, request.roles
    with working(f"reading {data}"):
        batch, notes = without_totals(read_table(data))
        for text in notes:
            warn(text)
        schema = roles.noted(learn(batch, goal, request.task, request.order, decimal, roles.by_name(batch, goal)))
        for notes_of in (date_notes, separator_notes, currency_notes, merged_notes):
            for text in notes_of(batch, schema):
                warn(text)
        measure = measured_by(roles, schema)
        X, y, extras = rows_and_extras(batch, schema, data, decimal, roles)
        schema = replace(schema, profile=profile(columns_as_arrays(X)))
        if schema.task != "regression" and len(np.unique(y)) < 2:
            raise TableError(
                f"all rows have the same value, {y[0]}, so there is nothing to predict", file=data, column=goal
            )
        return Read(schema, X, y, extras, rows_of(read_table(test), schema, test, decimal) if test else None, measure)


def _check(request: FitRequest, stream: bool) -> None:
    """Refuse what would fail in the end, before any work is done."""
    order, data, holdout, output, report = request.order, request.data, request.holdout, request.output, request.report
    if order is not None and len(set(order)) < max(2, len(order)):
        raise UsageError(f"--categories takes at least two different names, lowest first, got {','.join(order)!r}")
    if output == "-":
        raise UsageError("a model is a file: name one with -o; only tables go to standard output")
    if stream and data == "-":
        raise UsageError(
            "--stream reads the table several times, and standard input can be read once; save it to a file first"
        )
    if not 0 <= holdout < 1:
        raise UsageError(f"--holdout is a share of the rows, at least 0 and below 1, got {holdout}")
    inputs = [file for path in (data, request.test) if path is not None for file in files_of(path)]
    check_outputs({"-o": output, "--report": report}, inputs)
    if report:
        ready()


def finished(
    request: FitRequest,
    model: Any,
    final: Any,
    schema: Schema,
    n_rows: int,
    found: list[Score],
    about: tuple[Any, Any],
    command: str,
    began: float,
    context: Context | None = None,
    training: tuple[Any, Any, Any] = (None, None, None),
) -> None:
    """Save the final model, report on it with the scores of the one that was scored, and print what it took."""
    output, report = request.output, request.report
    if output:
        notes = {"table": schema.to_json(), "rows": n_rows, "scores": [score.to_json() for score in found]}
        if context is not None and context.entries:
            notes["baselines"] = [entry.to_json() for entry in context.entries]
        save(final, output, notes=notes)
        say(f"model: {output}")
    if report:
        from ulmus.report import report as write_report

        with working("writing the report"):
            options: dict[str, Any] = dict(zip(("X_train", "y_train", "sample_weight"), training, strict=True))
            options |= {"seen": not found, "command": command, "saved": final, "context": context}
            write_report(model, *about, report, **options)
        say(f"report: {report}")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    say(f"{time.perf_counter() - began:.1f} s, at most {memory:,.0f} MB")


def rows_of(batch: Any, schema: Schema, file: str, decimal: str = "auto") -> tuple[Any, np.ndarray]:
    """Features and target of a table, without the rows that have no target; the index says which rows they are."""
    return rows_and_extras(batch, schema, file, decimal, Roles())[:2]


def rows_and_extras(
    batch: Any, schema: Schema, file: str, decimal: str, roles: Roles
) -> tuple[Any, np.ndarray, Extras]:
    """The same, with weights, groups and times."""
    X, (y, there) = frame(batch, schema, warn, decimal=decimal), target(batch, schema, warn)
    X.index = row_names(batch, schema)
    if not there.all():
        warn(f"{file}: rows without a value of {schema.target!r} are left out: {np.count_nonzero(~there):,}")
        X, y = X[there], y[there]
    if not len(y):
        raise TableError("no row has a target", file=file, column=schema.target)
    return X, y, Extras.of(batch, roles, schema, there)


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


def measured_by(roles: Roles, schema: Schema) -> str:
    """The name of the score by which models are ranked."""
    if roles.metric is None:
        return FIRST[schema.task]
    name, regression, classification = METRICS[roles.metric]
    wanted = regression if schema.task == "regression" else classification
    if not wanted or (schema.task == "ordinal" and roles.metric not in ("accuracy", "log_loss")):
        raise UsageError(f"--metric {roles.metric} is not a metric for {schema.task}")
    return name


def scored_by(roles: Roles, name: str, task: str) -> dict[str, str]:
    """Parameters by which a model is chosen for the metric that was asked for, where it can be."""
    if roles.metric is None:
        return {}
    criterion = next(each for each in METRICS[roles.metric][1:] if each)
    return {"criterion": criterion} if criterion in CRITERIA.get((name, task), ()) else {}


def directed(roles: Roles, schema: Schema, name: str) -> dict[str, Any]:
    """Parameters of a model whose answers must not fall, or rise, along some columns."""
    directions = roles.directions(schema, name)
    return {"monotonic_cst": directions} if directions else {}


def findings(schema: Schema, X: Any, y: np.ndarray, X_test: Any, y_test: Any) -> list[str]:
    """Print what is odd about the table: columns that give the target away, copies among held-out rows, drift."""
    task = "regression" if schema.task == "regression" else "classification"
    found = check_table(X, y, X_test, y_test, task=task, encoder=encoder(schema.columns)).findings
    for finding in found:
        warn(finding.text)
    return [finding.text for finding in found]


def compared(schema: Schema, found: list[Score], seconds: float, rows: Any, measure: str) -> list[Contender]:
    """Ours among the baselines, as a small table."""
    with working("fitting baselines"):
        kinds = encoder(schema.columns).kinds
        entries = baselines(*rows, classes=schema.task != "regression", kinds=kinds)
    entries.append(Contender("ulmus", found, seconds, ours=True))
    ordered = ranked(entries, measure)
    lines = [(e.name, number(e.shown(measure)), f"{e.seconds:.1f} s") for e in ordered]
    show("baselines on the same rows", lines, ("", measure, "time"))
    said = verdict(entries, measure)
    if said:
        say(said, "yellow")
    return ordered


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
    say(f"{type(model).__name__}: " + ", ".join(f"{name} = {value}" for name, value in chosen_values(model).items()))


def shown(found: list[Score], where: str, n_fit: int) -> None:
    if not found:
        say(f"no rows were held out, so there are no scores: {where}; use --test", "yellow")
        return
    rows = [(s.name, number(s.value), f"{number(s.low)} … {number(s.high)}") for s in found]
    show(f"scores on {where}, trained on {n_fit:,}", rows, ("", "value", "95 % interval"))


def command_line(data: str, schema: Schema, seed: int, options: str) -> str:
    order = f" --categories {','.join(schema.categories)}" if schema.categories else ""
    return f"ulmus fit {data} --target {schema.target!r} --task {schema.task}{order} {options} --seed {seed}"

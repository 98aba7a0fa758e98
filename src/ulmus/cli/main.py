"""The commands and their options; what they do is in the file of their name."""

import sys
from importlib.metadata import version
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, Parameter

from ulmus.cli.console import USAGE, guarded
from ulmus.cli.export import export

#: A file that may be -.
File = Annotated[str, Parameter(allow_leading_hyphen=True)]
Output = Parameter(alias="-o", allow_leading_hyphen=True)
Metric = Literal["r2", "rmse", "mae", "accuracy", "balanced_accuracy", "log_loss", "auc", "average_precision", "f1"]
app = App(
    name="ulmus",
    help="Non-linear models for tables whose weights are one closed-form solve. "
    "Files are CSV, TSV, JSON lines or Parquet, compressed or not; - is standard input or output.",
    version=version("ulmus"),
)


@app.command
def fit(
    data: File,
    /,
    *,
    target: str,
    task: Literal["auto", "classification", "regression", "ordinal"] = "auto",
    test: str | None = None,
    categories: str | None = None,
    model: Literal["auto", "adaptive", "nkelm"] = "auto",
    effort: Literal["fast", "default", "best"] = "default",
    output: Annotated[str | None, Output] = None,
    report: str | None = None,
    holdout: float = 0.2,
    decimal: Literal["auto", ".", ","] = "auto",
    seed: int = 0,
    threads: int = -1,
    stream: Annotated[bool, Parameter(negative="")] = False,
    verbose: Annotated[bool, Parameter(negative="")] = False,
    drop: list[str] | None = None,
    categorical: list[str] | None = None,
    numeric: list[str] | None = None,
    text: list[str] | None = None,
    date: list[str] | None = None,
    id: list[str] | None = None,
    weight: str | None = None,
    group: str | None = None,
    time: str | None = None,
    metric: Metric | None = None,
    monotone: list[str] | None = None,
    baselines: bool = True,
) -> None:
    """Fit a model to a table, and say how good it is.

    Parameters
    ----------
    data
        The table: a file, a folder of tables, a pattern such as 'day-*.csv', or - for standard input.
    target
        The column to predict.
    task
        What to predict: classes, numbers, or classes with an order. Inferred from the column by default.
    test
        A second table, for the scores. Without it a part of the rows is set aside for them, and the model is then
        fitted anew to all rows.
    categories
        Ordered classes, lowest first, separated by commas.
    model
        The most accurate one (adaptive) or a small one that can learn on (nkelm). By default adaptive, and nkelm for
        tables of more than 1,000 columns.
    effort
        How long an adaptive model searches.
    output
        Where to save the model.
    report
        Where to write the report, one HTML page.
    holdout
        Share of the rows that is set aside when there is no test table.
    decimal
        How numbers are written: with a decimal point (1,234.5) or a comma (1.234,5). Inferred by default.
    seed
        Makes the fit repeatable.
    threads
        How many threads; -1 is all.
    stream
        Read the table batch by batch, several times; scores are then on --test only. Tables that take more than an
        eighth of the free memory are streamed in any case.
    verbose
        Tell what the search for parameters finds.
    drop
        Columns to leave out; repeat the option, or separate names by commas.
    categorical
        Columns that hold categories.
    numeric
        Columns that hold numbers.
    text
        Columns that hold free text.
    date
        Columns that hold dates.
    id
        Columns that name the rows: they are left out, and rows are called by them in the report.
    weight
        The column that holds the weights of the rows; scores are of rows that count alike.
    group
        The column that names groups of rows; whole groups are held out, for scores and for the choice of parameters.
    time
        A column of dates or numbers; the latest rows are held out for the scores.
    metric
        What the model is scored by: the first score, the order of the leaderboard, and, where the model can, the choice
        of its parameters.
    monotone
        Columns along which predictions must not fall, such as area=1, or must not rise, such as age=-1; repeat the
        option, or separate several by commas. Adaptive models of numbers take it.
    baselines
        Whether a constant, a linear model and boosted trees are fitted too, for comparison.
    """
    from ulmus.cli.fit import fit as run
    from ulmus.cli.roles import Roles

    asked = {"drop": drop, "category": categorical, "number": numeric, "text": text, "date": date, "id": id}
    run(
        data,
        target,
        task=task,
        categories=categories,
        model=model,
        effort=effort,
        test=test,
        holdout=holdout,
        output=output,
        report=report,
        decimal=decimal,
        seed=seed,
        threads=threads,
        verbose=verbose,
        stream=stream,
        roles=Roles(
            {kind: names for kind, names in asked.items() if names}, weight, group, time, metric, tuple(monotone or ())
        ),
        compare=baselines,
    )


@app.command
def predict(
    model: str,
    data: File,
    /,
    *,
    output: Annotated[str, Output] = "-",
    proba: Annotated[bool, Parameter(negative="")] = False,
    interval: float | None = None,
    quantiles: str | None = None,
    sets: float | None = None,
    keep: Annotated[bool, Parameter(negative="")] = False,
    decimal: Literal["auto", ".", ","] = "auto",
    force: Annotated[bool, Parameter(negative="")] = False,
    threads: int = -1,
) -> None:
    """Predict the rows of a table, a batch at a time.

    Parameters
    ----------
    model
        A file that ``ulmus fit`` saved.
    data
        The table: a file, a folder of tables, a pattern such as 'day-*.csv', or - for standard input.
    output
        Where the predictions go; - is standard output, as CSV.
    proba
        Give the probability of every class as well.
    interval
        Give an interval as well that holds the truth with this probability, such as 0.9.
    quantiles
        Give these quantiles as well, separated by commas, such as 0.05,0.5,0.95.
    sets
        Give a set of classes as well that holds the true one with this probability, such as 0.95.
    keep
        Keep the columns of the table beside the predictions.
    decimal
        How numbers are written here, with a decimal point or a comma; by default as they were in training.
    force
        Predict although a column is not what it was in training; what cannot be read counts as missing.
    threads
        How many threads; -1 is all.
    """
    from ulmus.cli.predict import predict as run

    run(
        model,
        data,
        output,
        proba=proba,
        interval=interval,
        quantiles=quantiles,
        sets=sets,
        keep=keep,
        decimal=decimal,
        force=force,
        threads=threads,
    )


@app.command
def explain(
    model: str,
    data: File,
    /,
    *,
    output: Annotated[str, Output] = "-",
    background: str | None = None,
    keep: Annotated[bool, Parameter(negative="")] = False,
    decimal: Literal["auto", ".", ","] = "auto",
    force: Annotated[bool, Parameter(negative="")] = False,
    threads: int = -1,
) -> None:
    """Show how much every column moves the predictions of a table's rows (Shapley values), a batch at a time.

    Parameters
    ----------
    model
        A file that ``ulmus fit`` saved.
    data
        The table: a file, or - for standard input.
    output
        Where the reasons go; - is standard output, as CSV.
    background
        A table of rows that stand for what is usual; the first 100 are taken. By default rows that the model holds.
    keep
        Keep the columns of the table beside the reasons.
    decimal
        How numbers are written here, with a decimal point or a comma; by default as they were in training.
    force
        Go on although a column is not what it was in training; what cannot be read counts as missing.
    threads
        How many threads; -1 is all.
    """
    from ulmus.cli.explain import explain as run

    run(model, data, output, background=background, keep=keep, decimal=decimal, force=force, threads=threads)


@app.command
def reproduce(
    *documents: Literal["nkelm", "enda", "oselm", "kelmor", "newton", "all"],
    quick: Annotated[bool, Parameter(negative="")] = False,
    data: str | None = None,
    out: str = "reproduced",
    jobs: int = 1,
) -> None:
    """Run the documents' experiments, and show what they print, what comes out here, and today's rivals.

    Parameters
    ----------
    documents
        Which of them.
    quick
        Few repetitions, on the data that come with the package: a minute or two.
    data
        The folder of Parquet files, in place of ULMUS_DATA.
    out
        Where results.json and index.html go; an interrupted run goes on from there.
    jobs
        Measurements at a time, each on one core: sooner done, but every time is then that of one core.
    """
    from ulmus.cli.experiments import reproduce as run

    run(documents, quick=quick, data=data, out=out, jobs=jobs)


@app.command
def bench(
    *,
    suite: Literal["arena", "core", "tabular", "ablation", "ordinal", "online", "robust"] = "tabular",
    contestant: list[str] | None = None,
    dataset: list[str] | None = None,
    quick: Annotated[bool, Parameter(negative="")] = False,
    data: str | None = None,
    out: str = "bench",
    jobs: int = 1,
    inner: Annotated[bool, Parameter(negative="")] = False,
    confirm: Annotated[bool, Parameter(negative="")] = False,
    curves: Annotated[bool, Parameter(negative="")] = False,
    once: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Compare our models with what you would pick otherwise, on this machine.

    Parameters
    ----------
    suite
        Which models and data sets.
    contestant
        Only this one; may be given several times.
    dataset
        Only this set; may be given several times.
    quick
        The data that come with the package, one split.
    data
        The folder of Parquet files, in place of ULMUS_DATA.
    out
        Where results.json and index.html go; an interrupted run goes on from there.
    jobs
        Measurements at a time, each on one core: sooner done, but every time is then that of one core.
    inner
        Of the arena: split the training rows once more and leave test rows alone; decisions are made here.
    confirm
        Of the arena: run the confirmation tables as well, when a version is done.
    curves
        Of the arena: measure learning curves as well.
    once
        Of the arena: one split of each table, on one thread alone.
    """
    from ulmus.cli.experiments import bench as run

    protocol = {"inner": inner, "confirm": confirm, "curves": curves, "once": once}
    run(suite, contestant, dataset, protocol, quick=quick, data=data, out=out, jobs=jobs)


@app.command
def project(data: File, /, *, target: str, output: Annotated[str, Output] = "map.html", seed: int = 0) -> None:
    """Draw the rows of a table in the plane that separates its classes best (ENDA), as an HTML page.

    Parameters
    ----------
    data
        The table: a file, or - for standard input.
    target
        The column that holds the classes; a numeric one is divided into fifths.
    output
        The page.
    seed
        Makes the picture repeatable.
    """
    from ulmus.cli.project import project as run

    run(data, target, output, seed=seed)


@app.command
def info(model: str, /) -> None:
    """Tell what a model file holds.

    Parameters
    ----------
    model
        A file that ``ulmus fit`` or ``ulmus.save`` wrote.
    """
    from ulmus.cli.info import info as run

    run(model)


@app.command
def serve(
    model: str,
    /,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    threads: int = 1,
    max_bytes: int = 16 << 20,
) -> None:
    """Answer questions over HTTP: a page with a form, tables to upload, and JSON.

    Parameters
    ----------
    model
        A file that ``ulmus fit`` saved.
    host
        Where to listen; only this machine reaches the default. There is no password: put a proxy before others.
    port
        The port.
    threads
        Threads of one prediction.
    max_bytes
        The longest request.
    """
    from ulmus.cli.serve import serve as run

    run(model, host=host, port=port, threads=threads, max_bytes=max_bytes)


app.command(export)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; its exit code."""
    try:
        command, bound, _ = app.parse_args(arguments, exit_on_error=False, print_error=True)
    except CycloptsError:
        return USAGE
    return guarded(lambda: command(*bound.args, **bound.kwargs))


def entry() -> None:
    """The console script."""
    sys.exit(main())

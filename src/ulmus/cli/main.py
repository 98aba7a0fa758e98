"""The commands and their options; what they do is in the file of their name."""

from importlib.metadata import version
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, Parameter

from ulmus.cli.clone import bench, reproduce
from ulmus.cli.console import USAGE, guarded
from ulmus.cli.export import export
from ulmus.cli.options import File, Flag, Output

Metric = Literal["r2", "rmse", "mae", "accuracy", "balanced_accuracy", "log_loss", "auc", "average_precision", "f1"]
app = App(
    name="ulmus",
    help="Accurate models for tables, with intervals, reasons and a report. Tables are CSV, TSV, columns divided by "
    "blanks, JSON, Parquet or Excel workbooks, compressed or not; - stands for standard input or output.",
    version=version("ulmus"),
    default_parameter=Parameter(negative_iterable=()),
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
    stream: Flag = False,
    verbose: Flag = False,
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
    """Fit a model to a table and report how good it is.

    Parameters
    ----------
    data
        The table: a file, a folder of tables, a pattern such as 'day-*.csv', or - for standard input.
    target
        The column to predict.
    task
        What to predict: classes, numbers, or classes with an order. By default inferred from the column.
    test
        A second table, to score the model on. Without it some rows are held out for the scores, and the model is then
        refitted to all rows.
    categories
        The ordered classes, lowest first, separated by commas.
    model
        adaptive is the most accurate, nkelm is small and can be updated with new rows. By default adaptive, or nkelm
        for tables with more than 1,000 columns.
    effort
        How thoroughly an adaptive model searches for its parameters.
    output
        File to save the model to.
    report
        File to write the report to, a single HTML page.
    holdout
        Share of the rows that is held out for the scores when there is no --test.
    decimal
        How numbers are written: with a decimal point (1,234.5) or a comma (1.234,5). By default
        inferred from the columns.
    seed
        Random seed: the same seed gives the same model.
    threads
        Number of threads; -1 uses all cores.
    stream
        Read the table in batches, several times; scores then need --test. Tables larger than an eighth of the free
        memory are streamed automatically.
    verbose
        Show the search for parameters.
    drop
        Columns to leave out; repeat the option, or separate names with commas.
    categorical
        Columns that hold categories.
    numeric
        Columns that hold numbers.
    text
        Columns that hold free text.
    date
        Columns that hold dates.
    id
        Columns that name the rows: the model does not use them, the report calls rows by them.
    weight
        The column that holds the weights of the rows; the scores are unweighted.
    group
        The column that names groups of rows; groups are held out whole, for the scores and for choosing parameters.
    time
        A column of dates or numbers; the latest rows are held out for the scores.
    metric
        What the model is scored by: the score shown first, the order of the leaderboard and, where the model supports
        it, the choice of its parameters.
    monotone
        Columns along which predictions must not fall, such as area=1, or must not rise, such as age=-1; repeat the
        option, or separate several with commas. Adaptive regression models support it.
    baselines
        Whether to fit a constant, a linear model and boosted trees as well, for comparison.
    """
    from ulmus.cli.fit import FitRequest
    from ulmus.cli.fit import fit as run
    from ulmus.cli.roles import Roles

    kinds = {"drop": drop, "category": categorical, "number": numeric, "text": text, "date": date, "id": id}
    given = {kind: names for kind, names in kinds.items() if names}
    roles = Roles(given, weight, group, time, metric, tuple(monotone or ()))
    order = [name.strip() for name in categories.split(",")] if categories else None
    search = (task, order, model, effort, test, holdout)
    run(
        FitRequest(data, target, *search, output, report, decimal, seed, threads, verbose, roles, baselines),
        stream=stream,
    )


@app.command
def predict(
    model: str,
    data: File,
    /,
    *,
    output: Annotated[str, Output] = "-",
    proba: Flag = False,
    interval: float | None = None,
    quantiles: str | None = None,
    sets: float | None = None,
    keep: Flag = False,
    decimal: Literal["auto", ".", ","] = "auto",
    force: Flag = False,
    threads: int = -1,
) -> None:
    """Predict the rows of a table, a batch at a time.

    Parameters
    ----------
    model
        A model file written by ``ulmus fit``.
    data
        The table: a file, a folder of tables, a pattern such as 'day-*.csv', or - for standard input.
    output
        File for the predictions; - is standard output, as CSV.
    proba
        Add the probability of every class.
    interval
        Add an interval that holds the true value with this probability, such as 0.9.
    quantiles
        Add these quantiles, separated by commas, such as 0.05,0.5,0.95.
    sets
        Add a set of classes that holds the true one with this probability, such as 0.95.
    keep
        Write the columns of the table beside the predictions.
    decimal
        How numbers are written here, with a decimal point or a comma; by default as they were in training.
    force
        Predict even if a column is not what it was in training; values that cannot be read count as missing.
    threads
        Number of threads; -1 uses all cores.
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
    method: Literal["shapley", "influences", "row-values", "counterfactuals"] = "shapley",
    background: str | None = None,
    train: str | None = None,
    weight: str | None = None,
    top: int = 5,
    to: str | None = None,
    fixed: list[str] | None = None,
    keep: Flag = False,
    decimal: Literal["auto", ".", ","] = "auto",
    force: Flag = False,
    threads: int = -1,
) -> None:
    """Explain predictions: by columns, by training rows, or by what would change them.

    Parameters
    ----------
    model
        A model file written by ``ulmus fit``.
    data
        The table: a file, or - for standard input. For row-values, the table that the model was fitted to.
    output
        File for the explanations; - is standard output, as CSV.
    method
        shapley: how much every column contributes to a prediction. influences: the training rows without which it would
        differ most. row-values: what every training row is worth, the most harmful and mislabelled ones first.
        counterfactuals: the nearest row with another prediction.
    background
        shapley: a table of typical rows to compare with, of which the first 100 are used. By default rows kept in the
        model.
    train
        influences: the table that the model was fitted to. counterfactuals: a table of rows that say what is possible.
    weight
        influences, row-values: the column with the weights of the training rows, if the model was fitted with one.
    top
        influences: how many training rows to list for each prediction.
    to
        counterfactuals: the class that is wanted, or the number that predictions have to cross. By default the other of
        two classes.
    fixed
        counterfactuals: columns that cannot change, separated by commas or as repeated options.
    keep
        Write the columns of the table beside the explanations; for influences those of the training rows.
    decimal
        How numbers are written here, with a decimal point or a comma; by default as they were in training.
    force
        Continue even if a column is not what it was in training; values that cannot be read count as missing.
    threads
        Number of threads; -1 uses all cores.
    """
    from ulmus.cli.explain import explain as run

    run(
        model,
        data,
        output,
        method=method,
        given={"background": background, "train": train, "weight": weight, "to": to, "fixed": fixed},
        top=top,
        keep=keep,
        decimal=decimal,
        force=force,
        threads=threads,
    )


@app.command
def project(data: File, /, *, target: str, output: Annotated[str, Output] = "map.html", seed: int = 0) -> None:
    """Draw a map of the rows that separates the classes best (ENDA), as an HTML page.

    Parameters
    ----------
    data
        The table: a file, or - for standard input.
    target
        The column that holds the classes; a numeric one is divided into fifths.
    output
        The HTML page.
    seed
        Random seed: the same seed gives the same map.
    """
    from ulmus.cli.project import project as run

    run(data, target, output, seed=seed)


@app.command
def info(model: str, /) -> None:
    """Show what a model file contains.

    Parameters
    ----------
    model
        A model file written by ``ulmus fit`` or ``ulmus.save``.
    """
    from ulmus.cli.info import info as run

    run(model)


@app.command
def serve(
    model: str, /, *, host: str = "127.0.0.1", port: int = 8000, threads: int = 1, max_bytes: int = 16 << 20
) -> None:
    """Serve predictions over HTTP: a page with a form, upload of tables, and a JSON endpoint.

    Parameters
    ----------
    model
        A model file written by ``ulmus fit``.
    host
        Address to listen on; by default only this machine can connect. There is no password: use a proxy for others.
    port
        Port to listen on.
    threads
        Threads per prediction.
    max_bytes
        Size of the largest request, in bytes.
    """
    from ulmus.cli.serve import serve as run

    run(model, host=host, port=port, threads=threads, max_bytes=max_bytes)


for command in (export, reproduce, bench):
    app.command(command)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; its exit code."""
    try:
        command, bound, _ = app.parse_args(arguments, exit_on_error=False, print_error=True)
    except CycloptsError:
        return USAGE
    return guarded(lambda: command(*bound.args, **bound.kwargs))

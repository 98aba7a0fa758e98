"""Predictions of a source, written to Parquet batch by batch."""

import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from ulmus._files import failed, refuse_inputs, replacing
from ulmus.streaming._extras import need
from ulmus.streaming.batches import batches, read_ahead
from ulmus.streaming.errors import SourceError
from ulmus.streaming.progress import Progress, Show
from ulmus.streaming.sources import Names, open_source

#: Rows that are predicted at a time.
PREDICTED_ROWS = 2**16
#: Endings that promise something else than Parquet.
OTHER_FORMATS = frozenset({".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".feather", ".arrow", ".gz"})


def predict(
    model: Any,
    source: Any,
    out: str | Path,
    *,
    features: Names = None,
    keep: Names = None,
    method: str = "predict",
    batch_rows: int = PREDICTED_ROWS,
    progress: Show = None,
) -> Path:
    """Predict all rows of a source into a Parquet file, in constant memory.

    The file appears under its name when it is complete; it may not be one of the files that are read.

    Parameters
    ----------
    model : fitted model or pipeline
        Anything with the method asked for.
    source : path, folder, glob, list of paths, pyarrow dataset, array, or re-iterable of ``X``
        As for :func:`fit`, without targets.
    out : path
        The Parquet file to write; rows are in the order of the source.
    features : list of column names, optional
        Default: the names that the model was fitted with; else all columns but those in ``keep``.
    keep : list of column names, optional
        Columns of the source that are copied beside the predictions, such as a row number.
    method : {"predict", "predict_proba", "decision_function", "transform"}, default="predict"
        Several columns are named after the classes, or numbered.
    batch_rows : int, default=65536
    progress : bool, "rich", "plain", callable or None, default=None
        See :func:`fit`.

    Returns
    -------
    pathlib.Path
        ``out``.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, pyarrow.parquet as pq
    >>> from ulmus import ELMRegressor, streaming
    >>> X = np.random.RandomState(0).normal(size=(200, 2))
    >>> model = ELMRegressor(20, C=1.0, random_state=0).fit(X, X[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = streaming.predict(model, (X,), pathlib.Path(folder) / "predicted.parquet")
    ...     pq.read_table(path)["prediction"].to_numpy().shape
    (200,)
    """
    pa, parquet = need("pyarrow", "stream"), need("pyarrow.parquet", "stream")
    answer = getattr(model, method, None)
    if answer is None:
        raise ValueError(f"{type(model).__name__} has no {method}()")
    if features is None and _has_columns(source):
        names = getattr(model, "feature_names_in_", None)
        features = None if names is None else list(names)
    # a pipeline may begin with columns that are not numbers
    opened = open_source(source, features=features, keep=keep, raw=hasattr(model, "steps"), labelled=False)
    target = Path(out)
    if target.suffix.lower() in OTHER_FORMATS:
        raise ValueError(f"predictions are written as Parquet; name the file {target.with_suffix('.parquet').name}")
    refuse_inputs(target, _files(opened), "out")
    writer = None
    try:
        with replacing(target) as file, ExitStack() as stack, Progress(method, opened.n_rows, progress) as bar:
            for batch in read_ahead(batches(opened, batch_rows), 2):
                table = pa.table({**batch.kept, **_columns(_answered(answer, batch.X), model)})
                if writer is None:
                    writer = stack.enter_context(parquet.ParquetWriter(file, table.schema))
                writer.write_table(table)
                bar.advance(len(batch))
            if writer is None:
                raise SourceError("the source has no rows to predict")
    except OSError as error:
        raise failed(target, error) from error
    return target


def _files(opened: Any) -> list[str]:
    """The files behind a source, mapped arrays included."""
    mapped = (getattr(getattr(opened, name, None), "filename", None) for name in ("X", "y"))
    return [file.path for file in getattr(opened, "files", ())] + [str(path) for path in mapped if path is not None]


def _has_columns(source: Any) -> bool:
    """Whether columns of the source are asked for by name: files and datasets."""
    return isinstance(source, str | Path | list) or hasattr(source, "get_fragments")


def _answered(answer: Any, X: Any) -> Any:
    """Predictions of a batch; its columns were picked by name, so that they need not be checked again."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return answer(X)


def _columns(answer: Any, model: Any) -> dict[str, Any]:
    """Predictions as named columns."""
    answer = np.asarray(answer)
    if answer.ndim == 1:
        return {"prediction": answer if answer.dtype != object else answer.astype(str)}
    names: Any = getattr(model, "classes_", ())
    if len(names) != answer.shape[1]:
        names = range(answer.shape[1])
    return {f"prediction_{name}": answer[:, j] for j, name in enumerate(names)}

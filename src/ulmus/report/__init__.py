"""Reports: one HTML page about one model. Needs matplotlib and pandas."""

import os
from importlib import import_module
from typing import Any


def report(
    model: Any,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    seen: bool = False,
    command: str = "",
    saved: Any = None,
    context: Any = None,
    X_train: Any = None,
    y_train: Any = None,
    sample_weight: Any = None,
) -> None:
    """Write a report on a fitted model: one HTML page that needs no network.

    It tells what the data are, what was chosen and why, how good the model is and how sure that is, where it errs and
    where it is unsure, which columns matter, what would change a prediction, which training rows are behind one and
    which of them look wrong, and how to do it again.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted model of Ulmus, or a pipeline that ends in one.
    X : array or frame of shape (n_samples, n_features)
        Rows that the model has not seen, as it takes them.
    y : array of shape (n_samples,)
        Their targets.
    path : str or path-like
        Where to write.
    title : str, optional
    seen : bool, default=False
        Whether the model was fitted to these rows; the report then says that its scores flatter.
    command : str, optional
        The command that made the model, for the section on how to do it again.
    saved : estimator or Pipeline, optional
        The model as it is kept, where that is not ``model`` but one fitted to more rows. What was chosen is then read
        of it; scores, errors and importances are those of ``model``, and the report says so.
    context : ulmus.report.subject.Context, optional
        What is known beside the rows: file and target, columns that were left out, what is odd, other models.
    X_train, y_train : array or frame, and array, optional
        The rows and targets that ``model`` was fitted to, all of them: for the training rows behind a prediction, and
        those worth a second look.
    sample_weight : array, optional
        Their weights, where the fit had some.

    Examples
    --------
    >>> import pathlib, tempfile, ulmus
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = ulmus.NKELMClassifier(random_state=0).fit(X[::2], y[::2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "iris.html"
    ...     ulmus.report(model, X[1::2], y[1::2], path)
    ...     "Confusion" in path.read_text()
    True
    """
    ready()
    from ulmus._files import write_text
    from ulmus.report.document import document

    if (X_train is None) != (y_train is None):
        raise ValueError("X_train and y_train go together: pass the rows and the targets of the fit, or neither")
    training = None if X_train is None else (X_train, y_train, sample_weight)
    given: dict[str, Any] = {"title": title, "seen": seen, "command": command, "saved": saved, "context": context}
    write_text(path, document(model, X, y, **given, training=training))


def ready() -> None:
    """Say what is missing before a long fit, not after it."""
    try:
        for needed in ("matplotlib.figure", "pandas"):
            import_module(needed)
    except ImportError as error:
        raise ImportError('reports need pandas and matplotlib; get them with pip install "ulmus[report]"') from error


__all__ = ["report"]

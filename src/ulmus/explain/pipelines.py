"""Reasons in the columns of the table, for models behind transformers."""

from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from ulmus.explain.explanation import Explanation
from ulmus.explain.game import Game
from ulmus.explain.origins import sources
from ulmus.explain.values import explained
from ulmus.features.frames import columns_of, frame_of, values_of


def explain(estimator: Any, X: Any, background: Any = None, **options: Any) -> Explanation:
    """Explain the predictions of a model, or of a pipeline that ends in one, in the columns of the table.

    What several features were made of is one input: the 0/1 columns of a category, the parts of a date, the words of a
    text. Where a step mixes columns (a PCA, say) values are sampled by exchanging values of the table itself, which
    needs a background.

    Parameters
    ----------
    estimator : estimator or Pipeline
        Fitted; a model of Ulmus, or a pipeline whose last step is one.
    X : array or frame of shape (n_samples, n_columns)
    background : array or frame of shape (n_background, n_columns), optional
    **options
        As of ``model.explain``.

    Returns
    -------
    Explanation

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.compose import make_column_transformer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder, StandardScaler
    >>> from ulmus import NKELMRegressor
    >>> from ulmus.explain import explain
    >>> X = pd.DataFrame({"area": [50.0, 60, 70, 80, 90, 100], "town": ["A", "B", "C"] * 2})
    >>> columns = make_column_transformer((StandardScaler(), ["area"]), (OneHotEncoder(), ["town"]))
    >>> model = make_pipeline(columns, NKELMRegressor(gamma=0.1, C=10.0, random_state=0)).fit(X, [5, 5, 9, 8, 8, 12])
    >>> explain(model, X[:1]).feature_names
    ['area', 'town']
    """
    if not isinstance(estimator, Pipeline):
        return estimator.explain(X, background, **options)
    model, steps = estimator[-1], estimator[:-1]
    if "groups" in options:
        raise ValueError(
            "the columns of a pipeline are grouped automatically; leave groups out, or explain the last step"
        )
    names, data = table_of(X)
    owner = sources(steps, len(names)) if len(steps) else np.arange(len(names))
    if owner is None:
        return _by_exchange(estimator, X, background, names, data, **options)
    found = model.explain(
        steps.transform(X) if len(steps) else X,
        steps.transform(background) if background is not None and len(steps) else background,
        groups=owner,
        **options,
    )
    wide = len(names) - found.values.shape[1]
    if wide:  # the last columns are not used
        found = replace(found, **_padded(found, wide))
    return replace(found, feature_names=names, data=data)


def _padded(found: Explanation, wide: int) -> dict[str, Any]:
    def more(array: np.ndarray, axes: int) -> np.ndarray:
        pad = [(0, wide if 0 < axis <= axes else 0) for axis in range(array.ndim)]
        return np.pad(array, pad)

    pairs = {"interactions": found.interactions, "interaction_errors": found.interaction_errors}
    return {"values": more(found.values, 1), "errors": more(found.errors, 1)} | {
        name: None if array is None else more(array, 2) for name, array in pairs.items()
    }


def table_of(X: Any) -> tuple[list[str], np.ndarray]:
    frame = frame_of(X)
    if frame is not None:
        return [str(name) for name in frame.columns], np.asarray(values_of(frame), dtype=object)
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    return [f"x{j}" for j in range(X.shape[1])], X


def _by_exchange(
    estimator: Any,
    X: Any,
    background: Any,
    names: list[str],
    data: np.ndarray,
    **options: Any,
) -> Explanation:
    """Sampled values; a coordinate is the row, of X and then of the background, that a value is taken from."""
    if background is None:
        raise ValueError(
            "a step of the pipeline mixes columns, so the background cannot be taken from the model; pass some "
            "training rows, e.g. background=X_train[:100]"
        )
    n, B, width = len(data), len(table_of(background)[1]), len(names)

    named = ("decision_function", "predict_proba") if is_classifier(estimator) else ("predict",)
    scores = getattr(estimator, next(name for name in named if hasattr(estimator, name)))

    def score(U: np.ndarray) -> np.ndarray:
        out = np.asarray(scores(_exchanged(X, background, U.astype(np.intp))), dtype=np.float64)
        return out.reshape(len(out), -1)

    places = np.repeat(np.arange(n + B, dtype=np.float64)[:, None], width, axis=1)
    game = Game(lambda which: places[which], np.arange(width), score, np.zeros(score(places[:1]).shape[1]))
    outputs = len(game.constant)
    classes = [str(label) for label in estimator.classes_] if is_classifier(estimator) else None
    return explained(
        *(game, slice(0, n), slice(n, n + B)),
        n_inputs=width,
        names=names,
        data=data,
        output_names=classes if classes is not None and len(classes) == outputs else None,
        single=outputs == 1,
        **options,
    )


def _exchanged(X: Any, background: Any, place: np.ndarray) -> Any:
    """Rows whose j-th value is that of row ``place[i, j]`` of both tables, one after the other."""
    first, second = frame_of(X), frame_of(background)
    if first is None or second is None:
        rows = np.concatenate([np.asarray(X), np.asarray(background)])
        return rows[place, np.arange(place.shape[1])]
    both = columns_of(nw.concat([first, second.select(first.columns)]))
    return nw.from_dict({name: column[place[:, j]] for j, (name, column) in enumerate(both.items())}).to_native()

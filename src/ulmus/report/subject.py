"""What a report is about: a fitted model, rows, and what the model says of them, computed once."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from ulmus.models._ordinal import Ordinal

#: Rows behind figures and importances, at most.
MAX_ROWS = 2_000


@dataclass(frozen=True)
class Context:
    """Where the rows come from and what is known beside them; everything may be left out."""

    target: str = ""
    file: str = ""
    n_rows: int = 0
    n_fitted: int = 0
    where: str = ""
    left_out: dict[str, str] = field(default_factory=dict)
    findings: tuple[str, ...] = ()
    entries: tuple[Any, ...] = ()
    measure: str = ""


@dataclass(frozen=True)
class TrainingTable:
    """The rows that a model was fitted to, as they were given, without those of weight 0; ``names`` label them."""

    frame: pd.DataFrame
    y: np.ndarray
    names: np.ndarray
    weight: np.ndarray | None = None

    @classmethod
    def of(cls, estimator: Any, X: Any, y: Any, weight: Any = None) -> "TrainingTable":
        frame, names = framed(estimator, X)
        y, there = np.asarray(y), slice(None)
        if len(frame) != len(y):
            raise ValueError(f"X_train and y_train must have the same number of rows, got {len(frame)} and {len(y)}")
        if weight is not None:
            weight = np.asarray(weight, dtype=np.float64)
            there = weight > 0
            frame, weight = frame[there].reset_index(drop=True), weight[there]
        return cls(frame, y[there], names[there], weight)


def framed(estimator: Any, X: Any) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows as a frame, and what they are called: the index of a frame, or positions."""
    if not isinstance(X, pd.DataFrame):
        X = X.to_pandas() if hasattr(X, "to_pandas") else X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        columns = getattr(estimator, "feature_names_in_", None)
        if not isinstance(X, pd.DataFrame):
            X = pd.DataFrame(X, columns=columns if columns is not None else [f"x{j}" for j in range(X.shape[1])])
    return X.reset_index(drop=True), np.asarray(X.index, dtype=object)


@dataclass(frozen=True)
class Subject:
    """``frame`` holds the rows as given, ``y`` their targets; ``seen`` tells that the model was fitted to them.

    ``names`` are the labels of the rows: the index of a frame, or positions. ``saved`` is the model that is kept, where
    that is another than the one that was scored, and ``training`` what the scored one was fitted to, where that is
    known.
    """

    estimator: Any
    frame: pd.DataFrame
    y: np.ndarray
    seen: bool
    names: np.ndarray
    saved: Any = None
    context: Context = field(default_factory=Context)
    training: TrainingTable | None = None

    @classmethod
    def of(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        seen: bool,
        saved: Any = None,
        context: Context | None = None,
        training: TrainingTable | None = None,
    ) -> "Subject":
        (frame, names), y = framed(estimator, X), np.asarray(y)
        if training is None and seen:
            training = TrainingTable(frame, y, names)
        return cls(estimator, frame, y, seen, names, saved, context or Context(), training)

    @property
    def model(self) -> Any:
        """The last step."""
        return self.estimator[-1] if isinstance(self.estimator, Pipeline) else self.estimator

    @property
    def refitted(self) -> bool:
        """Whether another model is kept than the one that was scored."""
        return self.saved is not None and self.saved is not self.estimator

    @property
    def kept(self) -> Any:
        """The last step of the model that is kept."""
        whole = self.saved if self.saved is not None else self.estimator
        return whole[-1] if isinstance(whole, Pipeline) else whole

    @property
    def kind(self) -> str:
        if isinstance(self.model, Ordinal):
            return "ordinal"
        return "classification" if is_classifier(self.model) else "regression"

    @property
    def one_output(self) -> bool:
        return self.y.ndim == 1

    def rows(self, X: pd.DataFrame) -> Any:
        """Rows as the model takes them: with names if it was fitted with names."""
        return X if hasattr(self.estimator, "feature_names_in_") else X.to_numpy()

    @cached_property
    def features(self) -> Any:
        """Rows as the last step sees them."""
        return self.prepared(self.frame)

    def prepared(self, frame: pd.DataFrame) -> Any:
        """Rows of a table as the last step sees them."""
        X = self.rows(frame)
        if isinstance(self.estimator, Pipeline):
            for _, step in self.estimator.steps[:-1]:
                X = X if step is None or isinstance(step, str) else step.transform(X)
        return X

    @cached_property
    def feature_names(self) -> list[str]:
        """Names of the features that the last step sees."""
        if isinstance(self.estimator, Pipeline) and len(self.estimator.steps) > 1:
            try:
                return [str(name) for name in self.estimator[:-1].get_feature_names_out()]
            except (AttributeError, ValueError):
                return [f"x{j}" for j in range(self.features.shape[1])]
        return [str(name) for name in self.frame.columns]

    def coordinates(self, rows: np.ndarray) -> np.ndarray:
        """Rows as numbers of comparable scale, as the model sees them where it prepares them itself."""
        X = self.features.iloc[rows] if hasattr(self.features, "iloc") else self.features[rows]
        if hasattr(self.model, "coordinates"):
            return np.asarray(self.model.coordinates(X))
        return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float)

    @cached_property
    def predicted(self) -> np.ndarray:
        return np.asarray(self.model.predict(self.features))

    @cached_property
    def probability(self) -> np.ndarray:
        return np.asarray(self.model.predict_proba(self.features))

    @cached_property
    def shuffled(self) -> Any:
        """Permutation importances of the columns; None where they are too many."""
        from ulmus.report.importance import shuffled

        return shuffled(self)

    @cached_property
    def training_rows(self) -> Any:
        """What the training rows do to predictions (``TrainingRows``), or a sentence why that is not known."""
        from ulmus.report.behind import training_rows

        return training_rows(self)

    @cached_property
    def sample(self) -> np.ndarray:
        """Positions of at most ``MAX_ROWS`` rows."""
        if len(self.y) <= MAX_ROWS:
            return np.arange(len(self.y))
        return np.sort(np.random.RandomState(0).choice(len(self.y), MAX_ROWS, replace=False))

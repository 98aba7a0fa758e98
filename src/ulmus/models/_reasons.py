"""The reasons of a model, as methods: each sees to what was given, and leaves the work to :mod:`ulmus.explain`."""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from ulmus.exceptions import PartWarning
from ulmus.features.frames import frame_of, values_of
from ulmus.models._games import game_of
from ulmus.models._without_rows import coordinates, without_rows

if TYPE_CHECKING:
    from ulmus.engine import Rows
    from ulmus.explain import Explanation
    from ulmus.explain.influence import LeavesRows


@dataclass(frozen=True)
class TrainingRows:
    """What training rows do to the answers of a model: everything is read off one factor.

    Answers are those of regressors, ``[.., output]``, and the probabilities of classes, ``[.., class]``.
    """

    model: Any
    leaving: "LeavesRows"
    rows: "Rows"

    @classmethod
    def of(cls, model: Any, X_train: Any = None, y_train: Any = None, sample_weight: Any = None) -> "TrainingRows":
        """The rows and targets of the fit; those of weight 0 are left out."""
        return cls(model, *without_rows(model, X_train, y_train, sample_weight))

    @property
    def trees(self) -> float:
        """The share of boosted trees, which rows do not leave, in the scores."""
        return float(getattr(self.leaving, "share", 0.0))

    def effects(self, X: Any) -> np.ndarray:
        """``f(x) - f₋ᵢ(x)`` of the scores: ``[row, training row, output]``."""
        return self.leaving.effects(coordinates(self.model, X))

    def answers_without(self, X: Any) -> np.ndarray:
        """Answers of the models without each training row: ``[row, training row, ..]``."""
        effects = self.effects(X)
        scores = np.asarray(self.model._scores_of(X)).reshape(len(effects), 1, -1)
        found = self._answers((scores - effects).reshape(-1, effects.shape[2]))
        return found.reshape(*effects.shape[:2], -1)

    @property
    def left_out(self) -> np.ndarray:
        """Answers to the training rows by the models without them: ``[training row, ..]``."""
        return self._answers(self.rows.T - self.leaving.left_out)

    @property
    def values(self) -> np.ndarray:
        """By how much the left-out loss would rise without each row."""
        from ulmus.explain.influence import row_values

        w = self.rows.weights
        return row_values(self.leaving, self.rows.T, w, self.model._row_loss(self.rows.T))

    def _answers(self, scores: np.ndarray) -> np.ndarray:
        if not is_classifier(self.model):
            return scores
        return np.asarray(self.model._class_probabilities(self.model._now("certainty"), scores))


def explain(
    self: Any,
    X: Any,
    background: Any = None,
    *,
    background_weight: Any = None,
    groups: Any = None,
    interactions: bool = False,
    method: str = "auto",
    rounds: int = 1,
    random_state: Any = 0,
) -> "Explanation":
    r"""How much every input moves the predictions: Shapley values, exact for product kernels.

    The value of an input is what the score rises by when the input becomes known, averaged over all orders in which
    inputs may become known and over the background rows that stand for the inputs that are not (the interventional
    value of the package ``shap``). Values and base value add up to the score: the prediction of a regressor, the
    ``decision_function`` of a classifier (log-odds under a log loss), the bits of an ordinal model, one for every class
    that may be reached, the class probabilities of a discriminant model. They are exact, in time that grows with the
    square of the inputs, for ``kernel="rbf"`` and ``"laplacian_l1"`` with no metric or a diagonal one; for other models
    they are sampled.

    Parameters
    ----------
    X : array or frame of shape (n_samples, n_features)
        Rows to explain.
    background : array or frame of shape (n_background, n_features), optional
        Rows that stand for what is usual: some 100 training rows, say. By default 100 of those that a kernel model
        holds (landmarks, or training rows). Time is proportional to their number.
    background_weight : array of shape (n_background,), optional
        Their weights.
    groups : array of int of shape (n_features,), optional
        Columns of one number are one input, such as the 0/1 columns of a category: 0, 1, …; -1 leaves a column out.
    interactions : bool, default=False
        Values of pairs of inputs too; some 20 times as long for 30 inputs. Exact where values are, else sampled.
    method : {"auto", "exact", "sampled"}, default="auto"
        Exact where that is possible; or sampled in any case.
    rounds : int, default=1
        Of sampled values: pairs of opposite orders for each background row. The standard errors, in ``errors`` and
        ``interaction_errors``, fall with the root of it.
    random_state : int or RandomState, default=0
        Of sampled values.

    Returns
    -------
    Explanation
        ``values``, ``base_values``, ``data``, ``feature_names``, ``errors``; see :class:`ulmus.explain.Explanation`.
    """
    from ulmus.explain.values import explained

    check_is_fitted(self)
    game, n = game_of(self), self.n_features_in_
    names = [str(name) for name in getattr(self, "feature_names_in_", [f"x{j}" for j in range(n)])]
    frame = frame_of(X)
    data = values_of(frame) if frame is not None else np.asarray(X.toarray() if hasattr(X, "toarray") else X)
    if groups is not None:
        game, n = game.grouped(groups, n), int(np.max(groups, initial=-1)) + 1
        names, data = [f"group {g}" for g in range(n)], np.full((len(data), n), np.nan)
    classes = [str(label) for label in self.classes_] if is_classifier(self) else None
    outputs = len(game.constant)
    return explained(
        *(game, X, background, background_weight),
        n_inputs=n,
        names=names,
        data=data,
        output_names=_score_names(classes, outputs),
        single=_one_score(self, outputs),
        interactions=interactions,
        method=method,
        rounds=rounds,
        random_state=random_state,
        n_jobs=getattr(self, "n_jobs", None),
    )


def influences(self: Any, X: Any, X_train: Any = None, y_train: Any = None, sample_weight: Any = None) -> np.ndarray:
    r"""Effect of every training row on the predictions: :math:`f(x) - f_{-i}(x)`, without a refit.

    ``predict(X) - influences(X, ...)[:, i]`` is what a model fitted without row i would answer (``decision_function``
    of classifiers). It is exact: equal to a fit without the row, with the same parameters (C, gamma, nodes, landmarks,
    metric, class weights). Under a log loss it is one Newton step towards that fit, and approximate. Of adaptive models
    both stages are fitted without the row, in the same view, with the same landmarks and partitions. Where boosted
    trees stand beside them (``trees_``), these and their weight are held fixed: effects are those of the kernels, and a
    :class:`~ulmus.PartWarning` says what share of the scores that is.

    Parameters
    ----------
    X : array or frame of shape (n_samples, n_features)
        Rows whose answers are asked about.
    X_train, y_train : array or frame, and array
        The rows and targets of the fit, all of them. Models with an exact kernel hold them and need not be given any.
    sample_weight : array, optional
        Their weights, where the fit had some. A row leaves with all its weight.

    Returns
    -------
    ndarray of shape (n_samples, n_train) or (n_samples, n_train, n_outputs)
        Positive where the row raises the answer; 0 of rows of weight 0.
    """
    known = TrainingRows.of(self, X_train, y_train, sample_weight)
    out = _of_all(known.effects(X), sample_weight, 1)
    if known.trees:
        warnings.warn(
            f"rows leave the kernels of this model, and its boosted trees, {100 * known.trees:.0f} % of the scores, "
            "are held fixed: effects are those of the kernels. A fit with trees=False has none",
            PartWarning,
            stacklevel=2,
        )
    return out[:, :, 0] if _one_score(self, out.shape[2]) else out


def row_values(self: Any, X_train: Any = None, y_train: Any = None, sample_weight: Any = None) -> np.ndarray:
    r"""Value of every training row: by how much the held-out loss would rise without it.

    .. math:: v_i = \sum_{j \ne i} w_j\left[\ell_j(f_{-ij}) - \ell_j(f_{-j})\right] - w_i\,\ell_i(f_{-i}),

    what the row does for others less what itself is missed by, with the squared error of regressors and the log loss of
    a classifier's probabilities, all of it by models that never saw the row they answer, in closed form. Mislabelled
    rows have the lowest values: look at ``np.argsort(values)[:20]``. A negative value alone says little: where targets
    are noisy, what most rows are missed by is more than what they do for others.
    Of adaptive models the loss of the row itself is that of both stages, and others feel its absence through the global
    model alone. Boosted trees are grown again without each of several parts of the rows, and answer the rows that they
    did not see; others feel nothing through them.

    Parameters
    ----------
    X_train, y_train : array or frame, and array
        The rows and targets of the fit, all of them. Models with an exact kernel hold them and need not be given any.
    sample_weight : array, optional
        Their weights, where the fit had some.

    Returns
    -------
    ndarray of shape (n_train,)
        0 of rows of weight 0.
    """
    return _of_all(TrainingRows.of(self, X_train, y_train, sample_weight).values, sample_weight, 0)


def _of_all(found: np.ndarray, sample_weight: Any, axis: int) -> np.ndarray:
    """What rows do, of all that were given: those of weight 0 do nothing."""
    if sample_weight is None:
        return found
    some = np.flatnonzero(np.asarray(sample_weight, dtype=np.float64).ravel() > 0)
    shape = [*found.shape]
    shape[axis] = int(np.size(sample_weight))
    out = np.zeros(shape)
    out[(slice(None),) * axis + (some,)] = found
    return out


def _score_names(classes: list[str] | None, outputs: int) -> list[str] | None:
    """The classes, or of ordinal models the classes that are reached; none of a single score."""
    if classes is None or outputs == 1:
        return None
    return classes if len(classes) == outputs else [f"≥ {label}" for label in classes[1:]]


def _one_score(model: Any, n_outputs: int) -> bool:
    return n_outputs == 1 and (is_classifier(model) or bool(model.fitted_.targets.single))

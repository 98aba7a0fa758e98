"""The reasons of a model, as methods: each sees to what was given, and leaves the work to :mod:`ulmus.explain`."""

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from ulmus import engine
from ulmus.devices.tensors import received
from ulmus.features.kernels import dense
from ulmus.models._assembly import rechecked
from ulmus.models._between import reads

if TYPE_CHECKING:
    from ulmus.explain import Explanation
    from ulmus.explain.game import Game


@reads
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
    ``decision_function`` of a classifier. They are exact, in time that grows with the square of the inputs, for
    ``kernel="rbf"`` and ``"laplacian_l1"`` with no metric or a diagonal one; for other models they are sampled.

    Parameters
    ----------
    X : array or frame of shape (n_samples, n_features)
        Rows to explain.
    background : array or frame of shape (n_background, n_features), optional
        Rows that stand for what is usual: some 100 training rows, say. By default 100 of those that a kernel model
        holds (its first landmarks). Time is proportional to their number.
    background_weight : array of shape (n_background,), optional
        Their weights.
    groups : array of int of shape (n_features,), optional
        Columns of one number are one input, such as the 0/1 columns of a category: 0, 1, …; -1 leaves a column out.
    interactions : bool, default=False
        Tell of pairs of inputs too; some 20 times as long for 30 inputs.
    method : {"auto", "exact", "sampled"}, default="auto"
        Exact where that is possible; or sampled in any case.
    rounds : int, default=1
        Of sampled values: pairs of opposite orders for each background row. The standard error, in ``errors``, falls
        with the root of it.
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
    data = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
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
        output_names=classes if classes is not None and len(classes) == outputs else None,
        single=outputs == 1 and (classes is not None or self._single_output),
        interactions=interactions,
        method=method,
        rounds=rounds,
        random_state=random_state,
        n_jobs=self.n_jobs,
    )


def game_of(model: Any) -> "Game":
    """The scores of a fitted model as a game of its inputs."""
    if hasattr(model, "view_"):
        return _view_game(model)
    if hasattr(model, "alpha_"):
        return _kernel_game(model, model.cross_kernel_, model.alpha_)
    if hasattr(model, "landmark_weights_"):
        return _kernel_game(model, model.cross_kernel_, model.landmark_weights_)
    return _plain_game(model)


def _inputs(model: Any, X: Any) -> np.ndarray:
    return dense(rechecked(model, received(X, model.device)), np.float64)


def _plain_game(model: Any) -> "Game":
    """Inputs as they are."""
    from ulmus.explain.game import Game

    def score(X: np.ndarray) -> np.ndarray:
        return model._outputs(model._shown(X)) + model.intercept_

    return Game(lambda X: _inputs(model, X), np.arange(model.n_features_in_), score, model.intercept_)


def _kernel_game(model: Any, cross: Any, weights: np.ndarray) -> "Game":
    """Inputs as a diagonal metric shows them, which the kernel takes one by one."""
    from ulmus.explain.game import Game, kernel_products

    metric = getattr(model, "_metric", None)
    if metric is not None and metric.ndim == 2:
        return _plain_game(model)

    def score(U: np.ndarray) -> np.ndarray:
        return model._outputs(U) + model.intercept_

    return Game(
        lambda X: dense(model._shown(_inputs(model, X)), np.float64),
        np.arange(model.n_features_in_),
        score,
        model.intercept_,
        kernel_products(cross, weights),
        dense(cross.Z, np.float64),
    )


def _view_game(model: Any) -> "Game":
    """Inputs as the view of an adaptive model shows them: each may have become several coordinates."""
    from ulmus.explain.game import Game, kernel_products, local_products

    view, local, cross = model.view_, model.local_, model.map_.cross_kernel_
    weights = model.map_.weight_to_landmarks(model.beta_)
    products = kernel_products(cross, weights)
    if products is not None and local is not None:
        leaves = local_products(local)
        products = None if leaves is None else products + leaves

    def see(X: Any) -> np.ndarray:
        return np.asarray(view.transform(np.asarray(model._checked(X), dtype=np.float64)))

    def score(U: np.ndarray) -> np.ndarray:
        out = engine.apply(cross, U, weights, n_jobs=model.n_jobs)
        return (out if local is None else out + local.predict(U, model.n_jobs)) + model.intercept_

    owner = model._inputs[view.preparation.sources()[view.metric > 0]]
    return Game(see, owner, score, model.intercept_, products, np.asarray(cross.Z, np.float64))

"""Blocks of rows that a model learns: which are plain, which models go together, and the model of the rows so far."""

from math import isfinite
from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from ulmus import engine
from ulmus._fingerprint import differing
from ulmus.backend import Host
from ulmus.codings import Numbers
from ulmus.models.fitted import Fitted
from ulmus.models.reading import is_plain as is_plain_table
from ulmus.online import Learner

#: Fewest rows from which parameters are chosen during the warm-up.
FEW = 20
#: What to do with models that cannot be merged.
COPIES = "models that are to be merged must be copies of one model, see blank_copy()"


def is_plain(model: Any, X: Any, y: Any) -> bool:
    """Whether neither rows nor targets need a conversion: what single rows are asked."""
    return (
        type(y) is np.ndarray
        and is_plain_table(model, X)
        and len(X) == len(y)
        and y.ndim == 1
        and y.dtype.kind in "iufb"
        and (y.dtype.kind != "f" or isfinite(np.vdot(y, y)))
        and (y.dtype.kind != "f" or isinstance(model._known("targets"), Numbers) or bool((y == np.floor(y)).all()))
    )


def check_announced(model: Any, classes: np.ndarray) -> None:
    """Refuse classes where there are none, and others than those that the model knows."""
    if is_regressor(model):
        raise ValueError("classes are for classifiers; a regressor takes weights by name, sample_weight=...")
    targets = model._known("targets")
    if targets is not None and set(classes.tolist()) != set(targets.classes.tolist()):
        raise ValueError(
            f"classes={np.unique(classes).tolist()} differ from those that the model knows, "
            f"{targets.classes.tolist()}; leave classes out: unless the first call announced them all, new ones "
            "are learned when they come"
        )


def check_same(model: Any, learner: Learner, other: Any, its: Learner) -> None:
    """Whether two models speak of the same features."""
    for name in ("n_features", "C", "fit_intercept"):
        mine, there = getattr(learner.recursion.shape, name), getattr(its.recursion.shape, name)
        if mine != there:
            raise ValueError(f"cannot merge: {name} is {mine} here and {there} there; {COPIES}")
    if model.forgetting != other.forgetting or model.form != other.form:
        raise ValueError(f"cannot merge models with different forgetting or form; {COPIES}")
    mine, there = learner.plan.features, its.plan.features
    found = differing(mine, there) if type(mine) is type(there) else "their class"
    if found is not None:
        raise ValueError(f"cannot merge: the maps differ (in {found}); {COPIES}")


def derived(model: Any, learner: Learner, needs: tuple[str, ...], known: Fitted | None) -> Fitted:
    """The model of the rows so far, with the parts that are needed."""
    if not learner.learning:
        return _provisional(model, learner)
    known = known or Fitted(None, learner.targets, learner.certainty, learner.metric)
    plan, weights, certainty = learner.plan, known.weights, known.certainty
    quick = None if "factor" in needs or weights is not None else learner.quick_weights()
    if quick is not None and model._family.predicts_by_beta:
        weights = model._family.of_beta(plan, *quick, 0.0, route=learner.recursion.form)
    elif weights is None or not known.has("factor"):
        weights = model._family.weights(model, plan, learner.solution(), learner.summary())
    if "certainty" in needs and certainty is None:
        sample = learner.memory.rows(model.forgetting)
        if sample is None:
            raise NotFittedError(f"this {type(model).__name__} keeps no rows to calibrate on")
        rng = check_random_state(0)
        held_out = Host(model.n_jobs).left_out(plan.features, sample, learner.solution(), rng, plan.C)
        certainty = model._certainty(learner.targets, held_out, sample)
    return Fitted(weights, learner.targets, certainty, learner.metric)


def _provisional(model: Any, learner: Learner) -> Fitted:
    """A model of the rows so far, during the warm-up."""
    targets = learner.targets
    if len(getattr(targets, "classes", "ab")) < 2:
        raise NotFittedError(
            f"{type(model).__name__} has seen one class only, {targets.classes.tolist()[0]!r}; learn another, or "
            "announce all with partial_fit(..., classes=[...])"
        )
    assert learner.waiting is not None
    assert learner.labels is not None
    rows = model._coded(targets, learner.waiting, learner.labels)
    learner.n_provisional = len(rows)
    fitting = model
    if len(rows) < FEW:
        plain = {k: v for k, v in model._family.plain.items() if isinstance(getattr(model, k), str)}
        fitting = clone(model).set_params(**plain)
    with engine.threads_for(len(rows)):
        rng = check_random_state(model.random_state)
        training = fitting._training(targets, rows, None, rng, metric=learner.metric)
        found = fitting._family.plain_fit(fitting, training)
    return Fitted(found.weights, targets, model._certainty(targets, found.held_out, rows), learner.metric)

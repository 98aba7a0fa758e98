"""One screen about a fitted model: what was fitted on what, what was chosen against what, and how well it does."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from ulmus._layout import html_table, text_table
from ulmus._numbers import number
from ulmus.labels import SeveralLabels
from ulmus.measures import (
    AREA,
    CLASSIFICATION,
    LABELS,
    ORDINAL,
    PRECISION,
    REGRESSION,
    TWO_CLASSES,
    Answers,
    Score,
    scored,
)
from ulmus.tuning import Tuning
from ulmus.tuning.comparisons import Decision, of_search, of_views

#: Attributes that hold a choice.
NAMES = ("n_landmarks_", "n_hidden_", "gamma_", "slope_", "C_", "n_components_", "n_neighbors_")
#: Parameters that are listed as they were given.
GIVEN = ("kernel", "activation", "loss", "effort", "features", "head", "decoding", "forgetting")
#: Attribute that tells the family → names of its width and its size.
WIDTHS = {"n_hidden_": ("slope", "n_hidden"), "n_landmarks_": ("gamma", "n_landmarks")}
#: Inputs and names that are shown, at most, and the length of a bar.
INPUTS, FEW, BAR = 8, 6, 24
#: Rows of a class below which their number is told.
RARE = 10
FLATTERS = "These rows also took part in tuning, so new rows may do slightly worse; score a test set to be sure."


@dataclass(frozen=True)
class FitSummary:
    """What is to be said of a fitted model; it prints as one screen, and shows as HTML in a notebook.

    ``str(model.summary())`` is the screen as text, to be searched or saved.

    Attributes
    ----------
    title : str
        The model.
    fitted : list of (name, value)
        What was fitted on what.
    chosen : list of Decision
        What was chosen, its held-out loss, and the losses of what else was tried.
    scores : list of Score
        On rows that were left out, with 95 % intervals.
    left_out : str
        Which rows these are.
    inputs : list of (name, share)
        The leading inputs.
    """

    title: str
    fitted: list[tuple[str, str]]
    chosen: list[Decision]
    scores: list[Score]
    left_out: str
    inputs: list[tuple[str, float]] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [text_table(rows, header) for _, rows, header in self._tables()]
        width = min(max(len(line) for part in parts for line in part), 120)
        lines = [self.title, "=" * width]
        for (caption, _, _), part in zip(self._tables(), parts, strict=True):
            lines += [*([caption] if caption else []), *part, "-" * width]
        return "\n".join([*lines[:-1], "=" * width, *([FLATTERS] if self.scores else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        tables = "".join(
            (f"<p><em>{caption}</em></p>" if caption else "") + html_table(rows, head)
            for caption, rows, head in self._tables()
        )
        return f"<div><h4>{self.title}</h4>{tables}{f'<p>{FLATTERS}</p>' if self.scores else ''}</div>"

    def _tables(self) -> list[tuple[str, Sequence[tuple[str, ...]], tuple[str, ...]]]:
        """Caption, rows and header of each part."""
        chosen = [
            (d.name, d.chosen, "" if np.isnan(d.loss) else number(d.loss), d.against, d.where) for d in self.chosen
        ]
        tables: list[Any] = [("", self.fitted, ())]
        if chosen:
            tables.append(("", chosen, ("chosen", "value", "loss", "against", "scored on")))
        sure = [(s.name, number(s.value), f"{number(s.low)} … {number(s.high)}") for s in self.scores]
        if sure:
            tables.append((self.left_out, sure, ("", "value", "95 % interval")))
        else:
            tables.append(("", [(self.left_out,)], ()))
        if self.inputs:
            most = max(share for _, share in self.inputs) or 1.0
            bars = [(name, f"{share:.3f}", "#" * round(BAR * share / most)) for name, share in self.inputs]
            tables.append(("", bars, ("inputs", "share", "")))
        return tables


def summarised(model: Any) -> FitSummary:
    """One screen about the fitted model; it prints as text (``str`` gives that), and shows as HTML in a notebook.

    What was fitted on what, what was chosen against which alternatives, scores of rows that were left out, and the
    leading inputs.

    Returns
    -------
    FitSummary
    """
    check_is_fitted(model)
    answers, left_out = answers_left_out(model)
    measures: Any = REGRESSION
    if is_classifier(model):
        measures = TWO_CLASSES if len(model.classes_) == 2 else CLASSIFICATION
        measures = ORDINAL if hasattr(model, "present_") else measures
        measures = LABELS if answers is not None and answers.y.ndim == 2 else measures
    found = [] if answers is None else scored(answers, measures)
    if answers is not None and measures is TWO_CLASSES:
        found, words = _ranked(found, answers, [str(label) for label in model.classes_])
        left_out += words
    return FitSummary(type(model).__name__, _fitted(model), decisions(model), found, left_out, _inputs(model))


def _ranked(found: list[Score], answers: Answers, labels: list[str]) -> tuple[list[Score], str]:
    """Scores, and what is to be said of those that rank rows.

    Where a model hardly varies, the mean without a row is all that a left-out score says, and that is the lower, the
    higher the target of the very row: the rows are ranked backwards, which new rows are not.
    """
    counts = np.bincount(answers.y, minlength=2)[:2]
    rarer = int(np.argmin(counts))
    words = f"; {counts[rarer]} of them are {labels[rarer]!r}" if counts[rarer] < RARE else ""
    area = next(score for score in found if score.name == AREA)
    if not area.value < 0.5 or (area.high >= 0.5 and not words):
        return found, words
    kept = [score for score in found if score.name not in (AREA, PRECISION)]
    return kept, f"{words}; scores without a row rank the rows backwards, so no {AREA} is shown: score new rows"


def html_view(model: Any, diagram: str) -> str:
    """What a notebook shows of a model: scikit-learn's diagram, and the summary where there is something to say."""
    return diagram + summarised(model)._repr_html_() if hasattr(model, "fitted_") else diagram


def html_inner(model: Any) -> str:
    """``_repr_html_inner`` of estimators."""
    return html_view(model, BaseEstimator._repr_html_inner(model))


def mime_bundle(model: Any, **options: Any) -> dict[str, str]:
    """``_repr_mimebundle_`` of estimators."""
    shown = BaseEstimator._repr_mimebundle_(model, **options)
    return {kind: html_view(model, text) if kind == "text/html" else text for kind, text in shown.items()}


def chosen(model: Any) -> dict[str, str]:
    """Name → value of all that a fitted model has chosen, or was given in its place."""
    values = {name.rstrip("_"): getattr(model, name, None) for name in NAMES}
    found = {name: f"{value:.4g}" for name, value in values.items() if isinstance(value, Real)}
    if getattr(model, "loss_", "squared") != "squared":
        found["loss"] = model.loss_
    return {**_view(model), **found, **_local(model)} if hasattr(model, "view_") else found


def decisions(model: Any) -> list[Decision]:
    """What was chosen, beside what else was tried; what was given has no loss."""
    known, tuning = list[Decision](), getattr(model, "tuning_", None)
    if isinstance(tuning, Tuning):
        width, size = next((names for name, names in WIDTHS.items() if hasattr(model, name)), ("gamma", "landmarks"))
        known = of_search(tuning, width, size)
    if hasattr(model, "view_"):
        view = chosen(model)
        known = of_views(model.trials_, view["columns"], view["kernel"], view["metric"]) + _stages(model)
    given = model.get_params(deep=False)
    rest = {name: str(given[name]) for name in GIVEN if isinstance(given.get(name), str | float)} | chosen(model)
    searched = {d.name for d in known}
    return known + [
        Decision(name, value, np.nan, why="from the data" if given.get(name, "auto") == "auto" else "given")
        for name, value in rest.items()
        if name not in searched
    ]


def answers_left_out(model: Any) -> tuple[Answers | None, str]:
    """Answers of rows by models that did not hold them, and which rows these are."""
    fitted = model._now("weights", "certainty")
    if is_classifier(model):
        held = getattr(fitted.certainty, "left_out", None)
        if held is None:
            return None, "No row was left out: score rows that the model has not seen."
        if isinstance(fitted.targets, SeveralLabels):
            return Answers(held.true, fitted.targets.decode(held.scores), weight=held.weight), _which(held)
        P = model._class_probabilities(fitted, held.scores)
        how = (
            f"{len(held.true):,} rows, classified as if they were new" if hasattr(model, "transform") else _which(held)
        )
        return Answers.of_classes(held.true, P.argmax(axis=1), P, held.weight), how
    rows = getattr(fitted.certainty, "rows", None)
    if rows is None:
        return None, "The file of an earlier version keeps no rows that were left out: score new ones."
    return Answers(rows.T, rows.P, weight=rows.weight), _which(rows)


def _which(held: Any) -> str:
    """How rows were left out."""
    how = "by models that did not see them"
    if getattr(held, "one_by_one", False):
        how = "one by one, exactly"
    elif getattr(held, "fold", None) is not None:
        how = "with their fold"
    return f"{len(held.weight):,} rows left out, {how}"


def _fitted(model: Any) -> list[tuple[str, str]]:
    facts = [("rows", _count(n_rows(model))), ("columns", _columns(model))]
    encoder = getattr(model, "encoder_", None)
    if encoder is not None and encoder.left_out_:
        left = [f"{name} ({why})" for name, why in encoder.left_out_.items()]
        facts.append(("left out", "; ".join(left[:FEW]) + ("; …" if len(left) > FEW else "")))
    if is_classifier(model):
        several = isinstance(getattr(getattr(model, "fitted_", None), "targets", None), SeveralLabels)
        facts.append(
            (
                "labels" if several else "classes",
                f"{len(model.classes_)}: {_few([str(label) for label in model.classes_])}",
            )
        )
    if hasattr(model, "memory_"):
        facts.append(("size", f"{model.memory_ / 1e6:.1f} MB"))
    return facts


def n_rows(model: Any) -> int | None:
    """Rows that a model was fitted to, as far as it knows."""
    learner = getattr(model, "stream_", None)
    if learner is not None:
        return int(learner.n_rows if learner.waiting is None else len(learner.waiting))
    fitted = getattr(model, "fitted_", None)
    learned = getattr(getattr(fitted, "weights", None), "learned", None)
    found = getattr(fitted, "n_rows", None)
    return found if learned is None or found is not None else int(learned.n_rows)


def _count(n: int | None) -> str:
    return "not known" if n is None else f"{n:,}"


def _columns(model: Any) -> str:
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    kinds = getattr(getattr(model, "encoder_", None), "kinds_", None)
    if kinds:
        counts = Counter(kinds.values())
        return f"{model.n_features_in_}: " + ", ".join(f"{count} × {kind}" for kind, count in counts.items())
    return f"{model.n_features_in_}" + (f": {_few(names)}" if names else "")


def _few(names: list[str]) -> str:
    return ", ".join(names[:FEW]) + (f", … ({len(names) - FEW} more)" if len(names) > FEW else "")


def _inputs(model: Any) -> list[tuple[str, float]]:
    shares = getattr(model, "feature_importances_", None)
    if shares is None:
        return []
    names = getattr(model, "feature_names_in_", [f"x{k}" for k in range(len(shares))])
    return [(str(names[k]), float(shares[k])) for k in np.argsort(-shares, kind="stable")[:INPUTS] if shares[k] > 0]


def _view(model: Any) -> dict[str, str]:
    view = model.view_
    metric = "learned" if (view.metric != 1).any() else "plain"
    return {
        "columns": view.preparation.columns.kind,
        **({"cuts": f"{len(view.preparation.cuts)}"} if view.preparation.cuts is not None else {}),
        "metric": metric,
        "kernel": view.kernel,
        "gamma": f"{view.gamma:.4g}",
        "n_landmarks": f"{model.map_.n_features_out}",
        **({"loss": model.loss_} if hasattr(model, "loss_") else {}),
    }


def _local(model: Any) -> dict[str, str]:
    if model.local_ is None:
        return {"local stage": "left out"}
    leaves, partitions = sum(part.n_leaves for part in model.local_.partitions), len(model.local_.partitions)
    words = f"{leaves:,} {'leaf' if leaves == 1 else 'leaves'} in {partitions} partition{'s' * (partitions != 1)}"
    return {"local stage": words}


def _stages(model: Any) -> list[Decision]:
    """Whether an adaptive model has a local stage, or trees, and which loss it has."""
    found, losses = [], getattr(model, "local_losses_", None)
    if losses is not None:
        stage, own = _local(model)["local stage"], 0 if model.local_ is not None else 1
        other = ("without it", "with it")[own]
        found.append(Decision("local stage", stage, losses[own], ((other, losses[1 - own]),), "rows held out"))
    with_trees = getattr(model, "tree_losses_", None)
    if with_trees is not None:
        own = 0 if model.trees_ is not None else 1
        stage = "left out" if own else f"{len(model.trees_):,} boosted trees, weight {model.tree_weight_:.2g}"
        other = ("without them", "with them")[own]
        found.append(Decision("trees", stage, with_trees[own], ((other, with_trees[1 - own]),), "rows held out"))
    by_loss = getattr(model, "losses_", None)
    if by_loss:
        others = tuple((name, loss) for name, loss in by_loss.items() if name != model.loss_)
        found.append(Decision("loss", model.loss_, by_loss[model.loss_], others, "rows held out"))
    return found

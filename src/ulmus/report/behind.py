"""Training rows: those that moved a prediction most, and those that look wrong. All without a refit."""

from typing import Any

import numpy as np

from ulmus.models._reasons import TrainingRows
from ulmus.report import figures as draw
from ulmus.report.dependence import leading
from ulmus.report.page import cell, figure, figures, paragraph, plain, table
from ulmus.report.subgroups import losses
from ulmus.report.subject import Subject

#: Training rows beyond which a factor of them takes too long: of exact kernels, which need one as large, and of others.
MOST_OF_KERNEL, MOST = 3_000, 10_000
#: Pairs of training rows, times outputs, beyond which their values take too long.
MOST_PAIRS = 60_000_000
#: Training rows and columns that are listed; rows that look wrong.
ROWS, COLUMNS, WORST = 8, 6, 10


def training_rows(s: Subject) -> TrainingRows | str:
    """What training rows do to predictions, or a sentence why that is not known."""
    if not s.one_output:
        return "Not computed for models with several outputs."
    if not hasattr(s.model, "influences"):
        return "Not computed: models of this kind are no weighted sums of training targets."
    if s.training is None:
        return (
            "Not computed: the report was not given the training rows. From Python, pass X_train= and y_train= to "
            "ulmus.report; from the command line, fit in memory, without --stream."
        )
    n, most = len(s.training.y), MOST_OF_KERNEL if hasattr(s.model, "alpha_") else MOST
    if n > most:
        return (
            f"Not computed: for the {n:,} training rows of this model it would take long; the report does it for up to "
            f"{most:,}. model.influences and model.row_values have no such limit."
        )
    given = s.prepared(s.training.frame), s.training.y, s.training.weight
    try:
        return TrainingRows.of(s.model, *given)
    except (ValueError, np.linalg.LinAlgError) as error:
        return f"Not computed for this model: {error}."


def behind_section(s: Subject) -> str:
    """For the row that was missed most and for another one: what their predictions owe to single training rows."""
    known = s.training_rows
    if isinstance(known, str):
        return paragraph(known)
    worst = int(losses(s)[0].argmax())
    chosen = dict([_another(s), (worst, "the row with the largest error")][::-1])
    rows = list(chosen)
    without = known.answers_without(draw.some_of(s.features, np.array(rows)))
    how = "approximately, by one Newton step" if approximate(s) else "exactly"
    text = (
        f"What a prediction would be without one of the {len(known.rows):,} training rows is known {how}, without a "
        "refit (influences). The effect of a training row is the prediction less that without it."
    )
    if known.trees:
        text += (
            f" The model has boosted trees beside its kernels, {100 * known.trees:.0f} % of its scores; they are held "
            "fixed, so these are effects through the kernels."
        )
    parts, drawn = [], []
    for i, answers in zip(rows, without, strict=True):
        now, found, called = _with_and_without(s, i, answers)
        effect = now - found
        most = np.argsort(-np.abs(effect), kind="stable")[:ROWS]
        what = f"row {plain(s.names[i])}, {chosen[i]}"
        drawn.append(_bars(s, most, effect[most], f"Effects on {what}", called))
        first = int(most[0])
        sentence = (
            f"R{what[1:]}: predicted {_answer(s, i)}, true {plain(s.y[i])}. Without training row {_named(s, first)[0]} "
            f"the {called} would be {_number(s, found[first])}."
        )
        lines = [(*_named(s, j), _number(s, found[j]), _signed(s, effect[j]), *_values(s, j)) for j in most]
        header = ("training row", "target", f"{called} without it", "effect", *map(str, _columns(s)))
        parts.append(paragraph(sentence) + table(header, lines))
    return paragraph(text) + figures(*drawn) + "".join(parts)


def second_look_section(s: Subject) -> str:
    """The training rows with the lowest values: harmful ones, and those whose targets the others contradict."""
    known = s.training_rows
    if isinstance(known, str):
        return paragraph(known)
    n, outputs = known.rows.T.shape
    if n**2 * outputs > MOST_PAIRS:
        return paragraph(
            f"Not computed: values come from pairs of training rows, and for {n:,} rows and {outputs} "
            f"score{'s' if outputs > 1 else ''} a row that would take long; model.row_values has no such limit."
        )
    values, left_out = known.values, known.left_out
    lines = []
    for j in np.argsort(values, kind="stable")[:WORST]:
        lines.append((*_named(s, int(j)), *_contradicted(s, int(j), left_out[j]), float(values[j]), *_values(s, j)))
    loss = "squared error" if s.kind == "regression" else "log loss"
    text = (
        f"The training rows with the lowest values (row_values). The value of a row is by how much the total {loss} of "
        "the other rows, each predicted without itself, would rise if the row were gone, less the loss of the row "
        "itself. Wrong targets are found here first; where targets are noisy, rows with the most noise look the same."
    )
    if known.trees:
        text += (
            " Boosted trees answer rows that they did not see; other rows feel the absence of one through the kernels."
        )
    note = "Noise alone makes most values negative: it is their order that tells."
    answers = ("prediction without it",) if s.kind == "regression" else ("prediction without it", "share of its target")
    header = ("training row", "target", *answers, "value", *map(str, _columns(s)))
    return paragraph(f"{text} {note}") + table(header, lines)


def approximate(s: Subject) -> bool:
    """Whether answers without a row are those of one Newton step."""
    return getattr(s.model, "loss_", None) == "log" or getattr(s.model, "loss", None) == "logistic"


def _another(s: Subject) -> tuple[int, str]:
    """A row with a typical error, or that whose two most likely classes are closest."""
    if s.kind == "regression":
        return int(np.argsort(losses(s)[0], kind="stable")[len(s.y) // 2]), "a typical row"
    top = np.sort(s.probability, axis=1)
    return int((top[:, -1] - top[:, -2]).argmin()), "the least certain row"


def _with_and_without(s: Subject, i: int, answers: np.ndarray) -> tuple[float, np.ndarray, str]:
    """The answer to a row, the answers without each training row, and what they are called."""
    if s.kind == "regression":
        return float(s.predicted[i]), answers[:, 0], "prediction"
    k = s.model.classes_.tolist().index(s.predicted[i])
    return float(s.probability[i, k]), answers[:, k], f"probability of {s.predicted[i]}"


def _answer(s: Subject, i: int) -> str:
    if s.kind == "regression":
        return plain(s.predicted[i])
    k = s.model.classes_.tolist().index(s.predicted[i])
    return f"{s.predicted[i]} ({cell(100 * float(s.probability[i, k]))} %)"


def _number(s: Subject, value: float) -> str:
    return cell(float(value)) if s.kind == "regression" else f"{cell(100 * float(value))} %"


def _signed(s: Subject, value: float) -> str:
    sign = "+" if value > 0 else ""
    return sign + (cell(float(value)) if s.kind == "regression" else f"{cell(100 * float(value))} points")


def _contradicted(s: Subject, j: int, answer: np.ndarray) -> tuple[str, ...]:
    """What the model without a training row predicts for it; of classes, with the probability that its own has."""
    assert s.training is not None
    if s.kind == "regression":
        return (cell(float(answer[0])),)
    classes = s.model.classes_.tolist()
    best, own = int(answer.argmax()), classes.index(s.training.y[j])
    return f"{classes[best]} ({100 * answer[best]:.1f} %)", f"{100 * answer[own]:.1f} %"


def _columns(s: Subject) -> list[Any]:
    return leading(s, COLUMNS) or list(s.frame.columns[:COLUMNS])


def _named(s: Subject, j: int) -> tuple[str, str]:
    assert s.training is not None
    return plain(s.training.names[j]), plain(s.training.y[j])


def _values(s: Subject, j: int) -> list[str]:
    assert s.training is not None
    return [plain(s.training.frame.at[j, column]) for column in _columns(s)]


def _bars(s: Subject, rows: np.ndarray, effects: np.ndarray, title: str, called: str) -> str:
    drawing, ax = draw.axes("", f"effect on the {draw.shortened(called, 40)}", "", (4.6, 0.32 * len(rows) + 1.2))
    place = np.arange(len(rows))[::-1]
    ax.barh(place, effects, color=np.where(effects > 0, "#d9e8f5", draw.INK), edgecolor=draw.INK)
    names = [_named(s, int(j)) for j in rows]
    ax.set_yticks(place, [draw.shortened(f"{name}: {target}", 28) for name, target in names])
    ax.axvline(0, color="0.3", lw=1)
    note = f"{title}. Training rows with their targets; bars to the right raise the {called}."
    return figure(drawing, title, note)

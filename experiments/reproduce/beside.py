"""Tables that put the document's figure beside ours, mark where they differ, and say why."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

import numpy as np

from experiments.reproduce.printed import Figure
from experiments.runner import Results, Settings, Table

#: What a document says of one cell: a figure, a word such as "overflow", or nothing.
Said = Figure | str | None
HEADER = ("data set", "method", "document", "here: mean ± deviation")


def reasons_for(settings: Settings, reasons: Mapping[str, str]) -> Mapping[str, str]:
    """Why figures differ: in a quick run, because it is quick."""
    return {"*": "a quick run has fewer rows or fewer tests."} if settings.quick else reasons


def differs(said: Said, values: np.ndarray) -> str:
    """``higher`` or ``lower`` where our mean lies beyond the spread: the larger deviation, the document's or ours."""
    if said is None or isinstance(said, str) or not len(values):
        return ""
    mean, deviation = said
    off = float(values.mean()) - mean
    if abs(off) <= max(float(values.std()), deviation or 0.0):
        return ""
    return "higher" if off > 0 else "lower"


def beside(
    title: str,
    results: Results,
    rows: Iterable[tuple[str, str, str, Said]],
    key: str,
    form: str,
    *,
    reasons: Mapping[str, str] | None = None,
    notes: Iterable[str] = (),
) -> Table:
    """One row for each ``(set, method, prefix of its cells, said)``.

    Parameters
    ----------
    title : str
    results : Results
    rows : iterable of tuple
    key : str
        The number of an answer that is compared.
    form : str
        Its format.
    reasons : mapping, optional
        Pattern of ``set/method`` → sentence. With it, rows whose figures differ beyond the spread are marked, and the
        sentence of the first pattern that fits becomes a note; without it (times) nothing is marked.
    notes : iterable of str

    Returns
    -------
    Table
    """
    lines = []
    found: dict[str, list[str]] = {}
    for name, method, prefix, said in rows:
        shown = "-" if said is None else said if isinstance(said, str) else _figure(said, form)
        line = [name, method, shown, results.mean(prefix, key, form)]
        if reasons is not None:
            off = differs(said, results.numbers(prefix, key))
            line.append(off)
            if off:
                why = next((text for pattern, text in reasons.items() if fnmatchcase(f"{name}/{method}", pattern)), "")
                found.setdefault(why or "No reason is known.", []).append(f"{name} {method} ({off})")
        lines.append(line)
    header = HEADER if reasons is None else (*HEADER, "beyond the spread")
    explained = [f"{', '.join(cells)}: {text}" for text, cells in found.items()]
    return Table(title, header, lines, [*notes, *explained])


def _figure(said: Figure, form: str) -> str:
    mean, deviation = said
    return form.format(mean) if deviation is None else f"{form.format(mean)} ± {form.format(deviation)}"

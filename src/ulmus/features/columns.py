"""One column of a table, read: what it is, and the numbers it becomes.

A column has at most one *main* number (the number, the day, the code of a level), and more beside it: where a date
stands in its year, week and day, the features of a text, one 0/1 number for every frequent tag.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulmus.exceptions import DateWarning, DriftWarning, UnreadableWarning, UnseenLevelWarning, warn
from ulmus.features.dates import DateParts
from ulmus.features.frames import Column
from ulmus.features.separators import in_doubt
from ulmus.features.spelling import codes_of
from ulmus.features.text import TextFeatures
from ulmus.features.words import kind_of_words, numbers_rows, tags_of
from ulmus.features.written import MISSING, READ, Kind, ambiguous, dates_like, kind_of_texts

#: Code of a level that was not there in training.
UNKNOWN = -1.0
#: Tags with a number of their own, at most.
TAGS = 32
#: Share of unseen levels that is warned of, beyond twice what training lets one expect, and rows from which on it is.
UNSEEN, ENOUGH = 0.05, 20
#: Shares of unreadable and of missing values beyond which a column is not what it was.
MOST, NEARLY_ALL = 0.5, 0.9
#: Kinds that a column may be, by its reader or by order; and those that leave it out, with the reason.
KINDS = ("number", "boolean", "date", "time", "duration", "category", "tags", "text")
LEFT_OUT = {
    "id": "looks like an identifier",
    "constant": "has only one value",
    "empty": "has no values",
    "drop": "as asked",
}
CALLED = {
    **{"number": "numbers", "boolean": "truth values", "date": "dates", "duration": "durations", "time": "times"},
    **{"category": "categories", "tags": "tags", "text": "texts"},
}


def kind_of(name: str, column: Column, weight: np.ndarray, decimal: str = "auto") -> Kind:
    """What a column is, by its type and all its values; a weight of k counts as k rows."""
    column = without_na(column)
    there = column.there
    if not there.any():
        return Kind("empty")
    if there.all() and _is_constant(column):
        return Kind("constant")
    kind = written_as(column, weight, decimal)
    if kind is None:
        return kind_of_words(column.distinct, _counts(column, weight))
    if kind.name == "number" and there.all():
        values = column.floats if column.floats is not None else READ["number"](column.distinct, kind.form)
        if numbers_rows(name, values, float(weight.sum())):
            return Kind("id")
    return kind


def kinds_of(columns: dict[str, Column], weight: np.ndarray, given: dict[str, Kind]) -> dict[str, Kind]:
    """What the columns of a table are, but for those that are ``given``."""
    found = {name: given.get(name) or kind_of(name, column, weight) for name, column in columns.items()}
    texts = {
        name: column.distinct
        for name, column in columns.items()
        if column.type == "words" and name not in given and found[name].is_single
    }
    doubtful, decimal = in_doubt(texts)
    for name in doubtful if decimal else ():
        found[name] = kind_of(name, columns[name], weight, decimal)
    return found


def without_na(column: Column) -> Column:
    """The same with words such as "n/a" as missing values."""
    if column.place is None or column.type == "list" or MISSING.isdisjoint(column.distinct):
        return column
    kept = [k for k, value in enumerate(column.distinct) if value not in MISSING]
    place = np.full(len(column.distinct) + 1, -1)
    place[kept] = np.arange(len(kept))
    words = tuple(column.distinct[k] for k in kept)
    return replace(column, type=column.type if words else "empty", distinct=words, place=place[column.place])


def written_as(column: Column, weight: np.ndarray, decimal: str = "auto") -> Kind | None:
    """What the values are by their type, or by how they are written; None for words."""
    if column.floats is not None:
        return Kind(column.type)
    if column.type in ("list", "level"):
        return Kind("tags" if column.type == "list" else "category")
    return kind_of_texts(column.distinct, _counts(column, weight), decimal)


def _is_constant(column: Column) -> bool:
    return len(column.distinct) == 1 if column.floats is None else bool(np.ptp(column.floats) == 0)


@dataclass(frozen=True)
class Reader:
    """How the values of one column become numbers.

    ``levels`` are those of a category, or the frequent tags; a category of numbers has none, its numbers are its codes.
    ``missing`` is the code of a missing level, ``rare`` the share of rows whose level was theirs alone; ``na`` says
    that words such as "n/a" are missing values, as they are in files; ``absent`` is the share of missing values.
    """

    name: str
    kind: Kind
    typed: bool = True
    levels: tuple[str, ...] | None = None
    missing: float = float("nan")
    rare: float = 0.0
    dates: Any = None
    text: TextFeatures | None = None
    na: bool = False
    absent: float = 1.0

    @classmethod
    def of(
        cls, name: str, kind: Kind, column: Column, weight: np.ndarray, n_text: int, rng: np.random.RandomState
    ) -> "Reader":
        """Learn a column of this kind."""
        column = without_na(column)
        absent = float(weight[~column.there].sum() / max(weight.sum(), 1e-300))
        plain = cls(name, kind, column.floats is not None, na=True, absent=absent)
        if kind.name == "date":
            plain._tell_doubt(column)
            return replace(plain, dates=DateParts().fit(plain._numbers(column)[:, None]))
        if kind.name == "category":
            if column.type == "number":
                return plain
            words = column.as_words()
            counts = _counts(words, weight)
            alone = float(counts[counts <= 1].sum() / max(counts.sum(), 1e-300))
            return replace(plain, levels=tuple(sorted(words.distinct)), rare=alone)
        if kind.name == "tags":
            words = column.as_words()
            mass: dict[str, float] = {}
            for value, count in zip(words.distinct, _counts(words, weight), strict=True):
                for tag in set(plain._tags(value)):
                    mass[tag] = mass.get(tag, 0.0) + float(count)
            frequent = sorted(mass, key=lambda tag: (-mass[tag], tag))[:TAGS]
            return replace(plain, levels=tuple(frequent))
        if kind.name == "text":
            words = column.as_words()
            counts = _counts(words, weight)
            seen = np.flatnonzero(counts > 0)
            order = sorted(seen, key=lambda i: words.distinct[i])
            texts = [words.distinct[i] for i in order]
            return replace(plain, text=TextFeatures.of(texts, counts[order], n_text, rng))
        return plain

    @property
    def is_code(self) -> bool:
        """Whether the main number is the code of a level."""
        return self.kind.name in ("category", "boolean")

    @property
    def has_main(self) -> bool:
        return self.kind.name not in ("tags", "text")

    def extra_names(self) -> list[str]:
        """Names of what stands beside the main number."""
        if self.dates is not None:
            return [str(name) for name in self.dates.get_feature_names_out([self.name])[1:]]
        if self.kind == Kind("time"):
            return [f"{self.name} {part} of the day" for part in ("sine", "cosine")]
        if self.text is not None:
            return [f"{self.name} {k + 1}" for k in range(self.text.n_features)]
        return [f"{self.name}: {tag}" for tag in self.levels or ()] if self.kind.name == "tags" else []

    def read(self, column: Column) -> tuple[np.ndarray, np.ndarray]:
        """The main number, and what stands beside it, of every row."""
        column = without_na(column) if self.na else column
        self._tell_absent(column)
        if self.kind.name in READ:
            main = self._numbers(column)
            if self.dates is not None:
                return main, np.asarray(self.dates.cycles(main[:, None]))
            turns = [np.sin(2 * np.pi * main), np.cos(2 * np.pi * main)] if self.kind == Kind("time") else []
            return main, np.column_stack([np.empty((len(main), 0)), *turns])
        if self.kind.name == "category" and self.levels is None:
            return self._numbers(column), np.empty((len(column), 0))
        if column.type == "empty":
            column = replace(column, place=np.full(len(column), -1))
        return WORDS[self.kind.name](self, column.as_words())

    def _numbers(self, column: Column) -> np.ndarray:
        if not column.there.any():
            return np.full(len(column), np.nan)
        if column.floats is not None:
            accepted = {self.kind.name, "number"} if self.kind.name in ("boolean", "category") else {self.kind.name}
            accepted |= {"boolean"} if self.kind.name in ("number", "category") else set()
            if not self.typed and self.kind.name != "date":
                accepted.add("number")
            if column.type not in accepted:
                raise self._turned(column)
            return column.floats
        if self.kind.name not in READ or column.type not in ("words", "level"):
            raise self._turned(column)
        values = READ[self.kind.name](column.distinct, self.kind.form)
        assert column.place is not None
        found = np.append(values, np.nan)[column.place]
        wrong = np.flatnonzero(np.isnan(found) & (column.place >= 0))
        if len(wrong):
            there = np.count_nonzero(column.place >= 0)
            first = column.distinct[column.place[wrong[0]]]
            if len(wrong) > MOST * there:
                raise self._turned(column, first, len(wrong) - 1)
            warn(
                f"column {self.name!r}: {len(wrong)} of {there} values are not {CALLED[self.kind.name]}, starting "
                f"with {first!r}; they count as missing",
                UnreadableWarning,
            )
        return found

    def _tell_absent(self, column: Column) -> None:
        """Warn of a column that is nearly empty where it had values."""
        gone = len(column) - int(np.count_nonzero(column.there))
        if len(column) >= ENOUGH and gone > NEARLY_ALL * len(column) and self.absent < MOST:
            warn(
                f"column {self.name!r}: {gone} of {len(column)} values are missing, where {100 * self.absent:.0f} % "
                "were in training; is it the right column?",
                DriftWarning,
            )

    def _tell_doubt(self, column: Column) -> None:
        """Warn of dates whose day and month may be exchanged."""
        text = ambiguous(column.distinct, self.kind.form) if column.floats is None else ""
        if text:
            warn(doubt(self.name, text, self.kind.form), DateWarning)

    def _turned(self, column: Column, first: str | None = None, more: int = 0) -> ValueError:
        was = "numbers" if self.kind.name == "category" else CALLED[self.kind.name]
        now = column.dtype if first is None else "text"
        text = f"column {self.name!r} contained {was} in training and contains {now} now"
        if first is not None:
            text += f": {first!r} {f'and {more} more values ' if more else ''}cannot be read"
        if self.kind.name == "date":
            text += f"; give dates as a type of the frame, or write them as {dates_like(self.kind.form)}"
        return ValueError(text)

    def _tags(self, value: Any) -> list[str]:
        return list(value) if isinstance(value, tuple) else tags_of(value, self.kind.form or "|")


def doubt(name: str, text: str, form: str) -> str:
    """Warnings about dates whose day and month may be exchanged."""
    order = "day.month" if form.index("%d") < form.index("%m") else "month.day"
    return (
        f"column {name!r}: {text!r} and all other dates are ambiguous and are read as {order}.year; write them as "
        "2024-12-31 to be safe"
    )


def _counts(words: Column, weight: np.ndarray) -> np.ndarray:
    assert words.place is not None
    there = words.place >= 0
    return np.bincount(words.place[there], weights=weight[there], minlength=len(words.distinct))


def _category(reader: Reader, words: Column) -> tuple[np.ndarray, np.ndarray]:
    code = codes_of(reader.levels or ())
    codes = np.array([float(code.get(str(value), UNKNOWN)) for value in words.distinct] + [reader.missing])
    assert words.place is not None
    found = codes[words.place]
    unseen, there = np.count_nonzero(found == UNKNOWN), np.count_nonzero(words.place >= 0)
    expected = min(UNSEEN + 2 * reader.rare, 1.0)
    all_new = 0 < there == unseen and expected**there <= UNSEEN  # of few rows, only what chance does not explain
    if all_new or (there >= ENOUGH and unseen > expected * there):
        first = next(str(value) for value in words.distinct if str(value) not in code)
        warn(
            f"column {reader.name!r}: {unseen} of {there} values were not seen in training, starting "
            f"with {first!r}; they are treated as an unknown level",
            UnseenLevelWarning,
        )
    return found, np.empty((len(found), 0))


def _tagged(reader: Reader, words: Column) -> tuple[np.ndarray, np.ndarray]:
    where = codes_of(reader.levels or ())
    marks = np.zeros((len(words.distinct) + 1, len(reader.levels or ())))
    for i, value in enumerate(words.distinct):
        marks[i, [where[tag] for tag in reader._tags(value) if tag in where]] = 1.0
    assert words.place is not None
    return np.empty(0), marks[words.place]


def _worded(reader: Reader, words: Column) -> tuple[np.ndarray, np.ndarray]:
    assert reader.text is not None
    assert words.place is not None
    texts = [" ".join(value) if isinstance(value, tuple) else value for value in words.distinct]
    features = np.vstack([reader.text.transform(texts), np.zeros((1, reader.text.n_features))])
    return np.empty(0), features[words.place]


WORDS: dict[str, Callable[[Reader, Column], tuple[np.ndarray, np.ndarray]]] = {
    "category": _category,
    "tags": _tagged,
    "text": _worded,
}

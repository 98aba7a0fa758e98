"""Codings: labels → target columns, scores → labels, and how wrong a score is.

A coding scores predictions by ``losses(T, P, criterion)``: targets ``T[row, output]``, predictions
``P[..., row, output]``, one loss per row. That is what tuning minimises. Codings are values: one that knows more labels
is another one (``grown``), with the matrix M that turns the known columns into its own, ``[t 1] M``.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol
from zlib import crc32

import numpy as np
from scipy.special import expit

from ulmus.statistics import root_mean_square

#: Softness of the error count, on ±1 codes: a margin of ±MARGIN counts as 27 % or 73 % of an error.
MARGIN = 0.1


class Coding(Protocol):
    """What tuning needs to know of the task. Losses that have no bound say so: ``bounded = False``."""

    def numbers(self, T: np.ndarray) -> np.ndarray | None:
        """The class of every row, by its columns; None where there are no classes."""

    def losses(self, T: np.ndarray, P: np.ndarray, criterion: str) -> np.ndarray:
        """One loss per row."""


def one_kind(known: np.ndarray, labels: np.ndarray) -> None:
    """Refuse text among numbers, and numbers among text: NumPy would turn all of them into text."""
    kinds = ["numbers" if np.asarray(a).dtype.kind in "biuf" else "text" for a in (known, labels)]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"labels {np.unique(labels).tolist()[:5]} are {kinds[1]}, but the classes that the model knows, "
            f"{np.asarray(known).tolist()[:5]}, are {kinds[0]}"
        )


def names_of(classes: np.ndarray) -> np.ndarray:
    """A number for each label that depends on the label alone."""
    return np.array([crc32(repr(label).encode()) for label in classes.tolist()], dtype=np.float64)


@dataclass(frozen=True)
class Plain:
    """Targets as they are, scored in units of each output's deviation."""

    deviation: np.ndarray

    bounded: ClassVar[bool] = False
    criteria: ClassVar[dict[str, Callable[[np.ndarray], np.ndarray]]] = {"squared": np.square, "absolute": np.abs}

    @classmethod
    def of(cls, T: np.ndarray, weight: np.ndarray | None) -> "Plain":
        mean = np.average(T, axis=0, weights=weight)
        deviation = root_mean_square(T - mean, weight)
        return cls(np.where(deviation > 0, deviation, 1.0))

    def numbers(self, T: np.ndarray) -> None:
        return None

    def losses(self, T: np.ndarray, P: np.ndarray, criterion: str) -> np.ndarray:
        error = (P - T) / self.deviation
        return self.criteria["squared" if criterion == "auto" else criterion](error).mean(axis=-1)


@dataclass(frozen=True)
class Numbers:
    """Targets of a regression: one column of numbers (``single``), or several."""

    single: bool

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Target columns."""
        return y.reshape(len(y), -1)

    def shaped(self, columns: np.ndarray) -> np.ndarray:
        """Columns in the shape in which targets came."""
        return columns[:, 0] if self.single else columns

    def identity(self, T: np.ndarray) -> np.ndarray:
        """Numbers that tell targets apart."""
        return T

    def knows(self, y: np.ndarray) -> bool:
        """Whether these are targets of the kind: all numbers are."""
        return True

    def seen(self, y: np.ndarray) -> "Numbers":
        """What is known when these have come."""
        return self


@dataclass(frozen=True)
class OneVsAll:
    """±1 per class; two classes need one column."""

    classes: np.ndarray

    def indices(self, y: np.ndarray) -> np.ndarray:
        """Class indices of labels, all of which must be known."""
        found = np.minimum(np.searchsorted(self.classes, y), len(self.classes) - 1)
        unknown = np.unique(y[self.classes[found] != y])
        if len(unknown):
            raise ValueError(f"labels {unknown.tolist()} are not among the known classes {self.classes.tolist()}")
        return found

    def identity(self, T: np.ndarray) -> np.ndarray:
        """Numbers that tell targets apart, whatever other labels are known."""
        return names_of(self.classes)[self.numbers(T)][:, None]

    def knows(self, y: np.ndarray) -> bool:
        """Whether all labels are among the classes."""
        return bool(np.isin(y, self.classes).all())

    def seen(self, y: np.ndarray) -> "OneVsAll":
        """What is known when these labels have come."""
        return self

    def grown(self, labels: np.ndarray) -> "tuple[OneVsAll, np.ndarray | None]":
        """The coding that knows these labels as well; a class that is new was −1 so far.

        M is None where the columns stay what they are, and where there were none: one class needs no column.
        """
        one_kind(self.classes, labels)
        old, classes = self.classes, np.unique(np.concatenate([self.classes, labels]))
        if len(old) < 2 or len(old) == len(classes):
            return OneVsAll(classes), None
        known = np.array([[-1.0, 1.0]]) if len(old) == 2 else np.eye(len(old))
        M = np.zeros((len(known) + 1, len(classes)))
        M[-1] = -1.0
        place = np.searchsorted(classes, old)
        M[:-1, place], M[-1, place] = known, 0.0
        return OneVsAll(classes), M

    def encode(self, indices: np.ndarray) -> np.ndarray:
        """Target columns of class indices."""
        if len(self.classes) == 2:
            return np.where(indices[:, None] == 1, 1.0, -1.0)
        return np.where(indices[:, None] == np.arange(len(self.classes)), 1.0, -1.0)

    def numbers(self, T: np.ndarray) -> np.ndarray:
        return self.class_scores(T).argmax(axis=1)

    def decode(self, scores: np.ndarray) -> np.ndarray:
        """Labels of the largest score."""
        return self.classes[self.class_scores(scores).argmax(axis=-1)]

    @staticmethod
    def class_scores(scores: np.ndarray) -> np.ndarray:
        """One score per class, also for two classes."""
        return scores if scores.shape[-1] > 1 else np.concatenate([-scores, scores], axis=-1)

    def losses(self, T: np.ndarray, P: np.ndarray, criterion: str) -> np.ndarray:
        """``"auto"`` is a smoothed error rate: nearly the error, without its jumps.

        It is one minus the softmax of the true class, with scores in units of :data:`MARGIN`. Equal scores count as the
        error of guessing: a model that says nothing must not look better than one that is often wrong.
        """
        if criterion == "squared":
            return ((P - T) ** 2).mean(axis=-1)
        if T.shape[-1] == 1:
            margin = (2 * T * P)[..., 0]
            return (margin <= 0).astype(float) if criterion == "error" else expit(-margin / MARGIN)
        true = np.broadcast_to(T.argmax(axis=-1)[:, None], (*P.shape[:-1], 1))
        right = np.take_along_axis(P, true, axis=-1)
        others = P - right
        np.put_along_axis(others, true, -np.inf, axis=-1)
        best = others.max(axis=-1)
        if criterion == "error":
            return (best >= 0).astype(float)
        others -= best[..., None]
        others /= MARGIN
        return expit(best / MARGIN + np.log(np.exp(others, out=others).sum(axis=-1)))


#: The largest exponent that is used: sums of some thousand exponentials of it are finite.
_LARGEST = 700.0


def decreasing_fit(V: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The non-increasing sequence nearest to each row of ``V[..., j]``, by weighted squares.

    ``g_j = min_{a ≤ j} max_{b ≥ j} (weighted mean of v_a … v_b)``, for the rows that need it: what pooling adjacent
    violators gives, for all rows at once.
    """
    broken = (np.diff(V, axis=-1) > 0).any(axis=-1)
    if not broken.any():
        return V
    v = V[broken]
    g = np.full_like(v, np.inf)
    for a in range(v.shape[-1]):
        means = np.cumsum(v[:, a:] * weight[a:], axis=-1) / np.cumsum(weight[a:])
        highest = np.maximum.accumulate(means[:, ::-1], axis=-1)[:, ::-1]
        np.minimum(g[:, a:], highest, out=g[:, a:])
    fitted = V.copy()
    fitted[broken] = g
    return fitted


def _scaled_sinh(o: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``sinh(o) e^-x`` and the x of each row, which is 0 unless sinh(o) is too large."""
    x = np.maximum(np.abs(o).max(axis=-1, keepdims=True, initial=0.0) - _LARGEST, 0.0)
    return 0.5 * (np.exp(np.minimum(o - x, _LARGEST)) - np.exp(np.minimum(-o - x, _LARGEST))), x


def _repaired_by_loss(o: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """``arcsinh`` of the non-increasing fit of ``sinh``."""
    broken = (np.diff(o, axis=-1) > 0).any(axis=-1)
    repaired = o.copy()
    v, x = _scaled_sinh(o[broken])
    v = decreasing_fit(v, weight)
    with np.errstate(divide="ignore"):
        log = np.log(np.abs(v)) + x
    size = np.where(log > 20.0, log + np.log(2.0), np.arcsinh(np.exp(np.minimum(log, 20.0))))
    repaired[broken] = np.sign(v) * size
    return repaired


def _descending(o: np.ndarray) -> np.ndarray:
    return np.sort(o, axis=-1)[..., ::-1]


def positions_in(order: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Where each label stands in the order; an error names those that do not."""
    labels, which = np.unique(y, return_inverse=True)
    where = {label: k for k, label in enumerate(order.tolist())}
    unknown = [label for label in labels.tolist() if label not in where]
    if unknown:
        raise ValueError(
            f"y has labels {unknown[:5]} that are not among the categories {order.tolist()}; add them at their "
            "place in the order"
        )
    return np.array([where[label] for label in labels.tolist()])[which]


@dataclass(frozen=True)
class Decoder:
    """From bits to a class: the class k whose sum of ``steps`` up to bit k is the largest.

    ``repair(o, weight)`` are bits in the order they should have; for the loss-based and the counting decoder the class
    is the number of positive ones.
    """

    steps: Callable[[np.ndarray], np.ndarray]
    repair: Callable[[np.ndarray, np.ndarray], np.ndarray]


DECODERS: dict[str, Decoder] = {
    "loss": Decoder(lambda o: _scaled_sinh(o)[0], _repaired_by_loss),
    "hamming": Decoder(np.sign, decreasing_fit),
    "threshold": Decoder(_descending, lambda o, weight: _descending(o)),
}


@dataclass(frozen=True)
class Ordered:
    r"""Ordered classes: bit j says whether the class is at least the j-th; ``+1`` up to the class, ``-1`` after.

    The bit of the lowest class is +1 for every row and left out: M classes have M − 1 bits. Two codes differ in as many
    bits as their classes are apart.

    *Loss-based* decoding takes the class with the smallest :math:`D_k = \sum_j e^{-o_j c^{(k)}_j}`. Because
    :math:`D_k - D_{k-1} = -2\sinh o_k`, that is the class with the largest sum of :math:`\sinh o_j` up to its bit.
    Decoding by *Hamming* distance sums signs instead, and *threshold* counts positive bits.

    ``classes`` are all labels in their order, ``present`` the positions of those that were seen: only their bits are
    read, and only they are predicted. The bit between two neighbours that are g apart counts g times. An order that was
    ``declared`` holds all labels that may come.
    """

    classes: np.ndarray
    present: np.ndarray
    decoding: str = "loss"
    declared: bool = False

    @cached_property
    def gaps(self) -> np.ndarray:
        """How many classes each bit climbs."""
        return np.diff(self.present)

    def __getstate__(self) -> dict[str, Any]:
        """What the code is, without what is derived from it."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def encode(self, indices: np.ndarray) -> np.ndarray:
        """Bits of positions in ``classes``."""
        return np.where(indices[:, None] >= np.arange(1, len(self.classes)), 1.0, -1.0)

    def positions(self, T: np.ndarray) -> np.ndarray:
        """Positions in ``classes`` of codes."""
        return (T > 0).sum(axis=-1)

    numbers = positions

    def indices(self, y: np.ndarray) -> np.ndarray:
        """Where each label stands in the order; an error names those that do not."""
        return positions_in(self.classes, y)

    identity = OneVsAll.identity

    knows = OneVsAll.knows

    def seen(self, y: np.ndarray) -> "Ordered":
        """What is known when these labels have come."""
        return self.seeing(self.indices(y))

    def seeing(self, indices: np.ndarray) -> "Ordered":
        """The same order, with these classes among those that were seen."""
        return replace(self, present=np.union1d(self.present, indices).astype(int))

    def grown(self, labels: np.ndarray) -> "tuple[Ordered, np.ndarray | None]":
        """The coding in which these labels have their place in the order; none of the new ones was seen so far."""
        if self.declared:
            positions_in(self.classes, labels)
            return self, None
        classes = np.unique(np.concatenate([self.classes, labels]))
        if len(classes) == len(self.classes):
            return self, None
        more = replace(self, classes=classes, present=np.searchsorted(classes, self.classes[self.present]))
        return more, more.recoded(self.classes) if len(self.classes) > 1 else None

    def recoded(self, old: np.ndarray) -> np.ndarray:
        """M such that ``[t 1] M`` are the bits, where t are those of the fewer classes ``old``.

        No row so far was of a class between two old ones, so its bit is that of the next old class above; below all of
        them it is 1, and above all of them −1.
        """
        M = np.zeros((len(old), len(self.classes) - 1))
        for j, k in enumerate(np.searchsorted(old, self.classes[1:])):
            if 0 < k < len(old):
                M[k - 1, j] = 1.0
            else:
                M[-1, j] = 1.0 if k == 0 else -1.0
        return M

    def read(self, bits: np.ndarray) -> np.ndarray:
        """The bits of classes that were seen."""
        return bits if len(self.present) == len(self.classes) else bits[..., self.present[1:] - 1]

    def best(self, bits: np.ndarray) -> np.ndarray:
        """Position in ``classes`` of the class that bits (all of them) are decoded to.

        Sums start anew at every class that beats all before it, so that a large step hides no small one.
        """
        steps = self._steps(bits)
        best, ahead = np.zeros(bits.shape[:-1], dtype=int), np.zeros(bits.shape[:-1])
        for j, gap in enumerate(self.gaps):
            ahead = ahead + gap * steps[..., j]
            better = ahead > 0
            best[better], ahead[better] = j + 1, 0.0
        return self.present[best]

    def _steps(self, bits: np.ndarray) -> np.ndarray:
        return DECODERS[self.decoding].steps(self.read(bits))

    def decode(self, bits: np.ndarray) -> np.ndarray:
        """Labels of bits."""
        return self.classes[self.best(bits)]

    def class_scores(self, bits: np.ndarray) -> np.ndarray:
        """One score per class, 0 for the decoded one and less for the others: sums of steps away from it.

        For loss-based decoding that is half of how much smaller the best loss is, ``(min D − D_k) / 2``.
        """
        steps = self._steps(bits)
        below, above = self.present[0], len(self.classes) - 1 - self.present[-1]
        sure = np.sinh(1.0)
        every = np.repeat(steps, self.gaps, axis=-1)
        every = np.pad(every, ((0, 0), (below, above)), constant_values=((0, 0), (sure, -sure)))
        chosen = self.best(bits)[:, None] > np.arange(len(self.classes) - 1)
        scores = np.zeros((len(bits), len(self.classes)))
        scores[:, :-1] -= np.cumsum(np.where(chosen, every, 0.0)[:, ::-1], axis=1)[:, ::-1]
        scores[:, 1:] += np.cumsum(np.where(chosen, 0.0, every), axis=1)
        scores = np.minimum(scores, -np.finfo(float).tiny)  # ties and round-off do not overrule the decoder
        np.put_along_axis(scores, chosen.sum(axis=1)[:, None], 0.0, axis=1)
        return scores

    def repaired(self, bits: np.ndarray) -> np.ndarray:
        """Bits of the classes that were seen, not increasing: the higher the class, the less likely it is reached."""
        return DECODERS[self.decoding].repair(self.read(bits), self.gaps)

    def ladder(self, bits: np.ndarray) -> np.ndarray:
        """One score per class that was seen: sums of repaired bits up to it, largest where they change sign."""
        return np.insert(np.cumsum(self.repaired(bits) * self.gaps, axis=-1), 0, 0.0, axis=-1)

    def losses(self, T: np.ndarray, P: np.ndarray, criterion: str) -> np.ndarray:
        """``"auto"`` is the absolute error in ranks with soft edges: each repaired bit is wrong a little or wholly."""
        if criterion == "squared":
            return self.read((P - T) ** 2) @ self.gaps
        if criterion == "auto":
            return expit(-2.0 * self.read(T) * self.repaired(P) / MARGIN) @ self.gaps
        error = np.abs(self.best(P) - self.positions(T))
        return (error if criterion == "absolute" else error > 0).astype(float)

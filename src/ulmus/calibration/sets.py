"""Sets of classes that hold the true one with a stated probability, from probabilities of rows left out.

A class is in the set of a row where its score, how badly it fits the row, is no larger than a conformal quantile of the
scores of true classes of rows left out. Scores of probabilities P:

=============  =================================================================================================
``adaptive``   the probability of all classes that are likelier: sets of hard rows are large, and none is empty
``threshold``  1 − P of the class itself: the smallest sets on average, some of which may be empty
``ordered``    1/2 less the probability at or beyond the class, on its rarer side: sets without gaps, in an order
=============  =================================================================================================
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ulmus.calibration.conformal import borne, coverages, upper


@dataclass(frozen=True)
class LabelScores:
    """Scores ``[row, column]`` of rows left out, positions of their classes, weights, and variances ``h + C r``."""

    scores: np.ndarray
    true: np.ndarray
    weight: np.ndarray
    variance: np.ndarray


def check_method(method: str, allowed: tuple[str, ...]) -> None:
    """Refuse a kind of set that a model does not have."""
    if method not in allowed:
        raise ValueError(f"method must be one of {allowed}, got {method!r}")


def class_scores(P: np.ndarray, method: str) -> np.ndarray:
    """The score of every class, ``[row, class]``."""
    if method == "threshold":
        return 1.0 - P
    if method == "ordered":
        up_to = np.cumsum(P, axis=1)
        return np.maximum(0.5 - np.minimum(up_to, 1.0 - up_to + P), 0.0)
    order = np.argsort(-P, axis=1, kind="stable")
    ranked = np.take_along_axis(P, order, axis=1)
    ahead = np.cumsum(ranked, axis=1) - ranked
    out = np.empty(P.shape)
    np.put_along_axis(out, order, ahead, axis=1)
    return out


def prediction_sets(
    P: np.ndarray, P_held: np.ndarray, held: LabelScores, coverage: Any, method: str, by_class: bool
) -> np.ndarray:
    """Which classes are in the set of every row: ``[row, class]``, from probabilities of new and of left-out rows.

    Several coverages give ``[row, coverage, class]``. With ``by_class`` the quantile of every class is that of rows of
    this class, so that each is covered.
    """
    levels, one = coverages(coverage)
    scores = class_scores(P, method)
    of_true = class_scores(P_held, method)[np.arange(len(held.true)), held.true]
    limits = np.full((len(levels), P.shape[1]), np.inf)
    every: list[Any] = list(range(P.shape[1])) if by_class else [slice(None)]
    for limit, level in zip(limits, levels, strict=True):
        few = 0
        for k in every:
            w = np.where(held.true == k, held.weight, 0.0) if by_class else held.weight
            if borne(float(w.sum()), np.array([[1.0 - level, 1.0]])):
                limit[k] = upper(of_true, w, np.array([level]))[0, 0]
            else:
                few += 1
        if few:
            which = f"{few} {'class has' if few == 1 else 'classes have'}" if by_class else "there are"
            they = "this class is" if few == 1 else "these classes are"
            warnings.warn(
                f"{which} too few held-out rows for a coverage of {level:g}; "
                f"{they if by_class else 'every class is'} in every set",
                stacklevel=4,
            )
    inside = scores[:, None] <= limits + 1e-12
    return inside[:, 0] if one else inside

"""Few rows and much to choose: a model adapts to the errors that choose it, and other fits must score it."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor

from ulmus.calibration import parts_of_few, refitted
from ulmus.engine import Rows
from ulmus.exceptions import NumericalWarning
from ulmus.models.choice import Training
from ulmus.models.fitted import Outcome

#: Where rows are fewer, intervals and probabilities stand on whole fits, each without one of these parts of the rows.
FEW_ROWS, PARTS = 500, 5
#: The same where weights have hardly fewer degrees of freedom than there are rows: leave-one-out errors are then made
#: of the few directions that features hardly have, and targets may be lucky there. (The search takes 2,000 nodes
#: at most.)
CROWDED_ROWS = 2_500


def scored_by_others(model: Any, training: Training, found: Outcome) -> Outcome:
    """The outcome with answers of rows left out of whole fits, where rows are few or weights crowded.

    Intervals take the worse of these errors and of those of rows left out one by one; probabilities take these. Classes
    that have weights of their own are left to leave-one-out: of a part, weights no longer add up to its rows.
    """
    rows = training.rows
    weighed = getattr(model, "class_weight", None) is not None
    whole = training.folds is None and not weighed and not training.backend.is_gpu
    crowded = model._family.is_crowded(found.held_out)
    few = CROWDED_ROWS if crowded else FEW_ROWS
    part = parts_of_few(rows, few, PARTS, by_label=is_classifier(model)) if whole else None
    if part is None:
        return found
    seed, quiet = int(training.rng.randint(2**31 - 1)), clone(model).set_params(verbose=0)

    def fit(some: Rows) -> Any:
        chance = np.random.RandomState(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            again = quiet._training(training.targets, some, None, chance, None, training.metric)
            weights = quiet._by_family(again).weights

        def answer(X: Any) -> tuple[np.ndarray, np.ndarray]:
            h, rest = weights.variance_factors(X, model.n_jobs)
            return weights.scores(X, "cpu", model.n_jobs) + weights.intercept, np.reshape(h + rest, (len(h), -1))

        return answer

    one_by_one = found.held_out if is_regressor(model) else None
    held_out = refitted(rows, part, fit, one_by_one)
    if not crowded:  # what was chosen was chosen on rows that jackknife+ leaves out
        held_out = replace(held_out, alone=None)
    return replace(found, held_out=held_out)

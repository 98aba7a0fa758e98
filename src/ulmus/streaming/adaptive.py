"""Adaptive models by passes: view on a sample, target means, sums, regions, then leaves from rows on disk.

==============  =====================================================================================================
pass            what it comes to
==============  =====================================================================================================
``survey``      counts, classes, and a sample, on which the view is chosen
``categories``  target means of categories, where there are some
``sums-1``      the sums of the global model by squares; ``correction-1`` and on, where they lost digits
``newton-1``…   the log loss and its gradient, instead of sums, until the global log model is found
``regions``     the rows of some small parts of the coordinates, on which the local stage is scored
``rows``        every row, with what the global model says of it, on disk by cell
==============  =====================================================================================================

Then cells are read, cut into leaves and solved, one after the other (:mod:`ulmus.solvers.cells`).
"""

from typing import Any, Protocol

import numpy as np

from ulmus.calibration import HeldOut
from ulmus.engine import Rows
from ulmus.features.sampling import left_out_together
from ulmus.models.adaptive_steps import AdaptiveSteps, Counts
from ulmus.persistence.codec import StateDecoder, StateEncoder
from ulmus.solvers.local import LocalKernels
from ulmus.streaming.adaptive_passes import (
    CategoryAccumulator,
    InRegions,
    OfCategories,
    RegionAccumulator,
    Seen,
    ViewPasses,
)
from ulmus.streaming.journal import Journal, Saved
from ulmus.streaming.sums import Encoder
from ulmus.streaming.survey import Survey
from ulmus.tuning.local import LocalChoice


class MakeLeaves(Protocol):
    """What makes the local stage of all rows."""

    @property
    def mapped(self) -> bool:
        """Whether it stays in files, whatever its size."""

    def __call__(
        self, steps: AdaptiveSteps, seen: Seen, choice: LocalChoice, rounds: int, backend: Any
    ) -> LocalKernels: ...


def fit_adaptive(
    steps: AdaptiveSteps,
    stream: Any,
    journal: Journal,
    survey: Survey,
    encoder: Encoder,
    rng: np.random.RandomState,
    backend: Any,
    leaves: MakeLeaves,
) -> None:
    """Fit an adaptive model; ``leaves`` makes the local stage of all rows, where one pays.

    Leaves, those that teach a metric too, and the model of a sample that is whole are made by the ``backend``; passes
    are summed on the CPU.
    """
    sample = _sampled(encoder, survey)
    if survey.whole:
        steps.fit_whole(sample, rng, backend)
        return
    chosen, rng = _recalled(journal, "view", rng)
    steps.look(sample, rng, Counts(survey.n_rows, survey.n_distinct, survey.weight), chosen, backend)
    _remember(journal, "view", chosen, (steps.seen, steps.rng))
    if steps.has_means:
        accumulator = CategoryAccumulator(len(steps.coordinates.view.preparation.categories))
        found = stream.reduce("categories", accumulator, OfCategories(encoder, steps.coordinates))
        steps.coordinates = steps.coordinates.with_categories(found.parts)
    chosen, steps.rng = _recalled(journal, "global", steps.rng)
    steps.begin(chosen)
    _remember(journal, "global", chosen, (steps.chosen, steps.rng))
    seen = Seen(encoder, steps.coordinates)
    passes = ViewPasses(stream, steps, seen, sample.T.shape[1])
    steps.stage.fit(passes)
    rounds = steps.rounds(np.inf if leaves.mapped else steps.max_bytes)
    scored = _scored(steps, stream, encoder, sample) if rounds else None
    if scored is None:
        steps.stage.grown(passes)
        steps.finish(None, None)
        return
    choice, held_out = scored
    steps.finish(leaves(steps, seen, choice, rounds, backend), held_out)


def _sampled(encoder: Encoder, survey: Survey) -> Rows:
    """The rows of the sample, as a fit in memory would have them."""
    order = np.argsort(survey.number, kind="stable")  # that of the source: sums of the same rows are then the same
    X, y = survey.X[order], np.asarray(survey.y)[order]
    weight = None if survey.sample_weight is None else survey.sample_weight[order]
    labels = y if encoder.classes is None else np.searchsorted(encoder.classes, y)
    unit = left_out_together(X, labels.reshape(len(y), -1).astype(np.float64), weight)
    return encoder.encode(X, y, weight, unit, "the sample")


def _scored(steps: AdaptiveSteps, stream: Any, encoder: Encoder, sample: Rows) -> tuple[LocalChoice, HeldOut] | None:
    """The local stage that pays on all rows of some regions."""
    accumulator = RegionAccumulator(sample.X.shape[1], sample.T.shape[1])
    work = InRegions(encoder, steps.coordinates, *steps.regions())
    return steps.score(stream.reduce("regions", accumulator, work).rows)


def _recalled(journal: Journal, name: str, rng: np.random.RandomState) -> tuple[Any, np.random.RandomState]:
    """What was decided before, and chance as it was afterwards; None, and chance as it is, where nothing was."""
    saved = journal.load(name)
    if saved is None:
        return None, rng
    decided: tuple[Any, np.random.RandomState] = StateDecoder(saved.notes["objects"], saved.arrays).decode(
        saved.notes["state"]
    )
    return decided


def _remember(journal: Journal, name: str, known: Any, decided: tuple[Any, np.random.RandomState]) -> None:
    """Save what was decided, unless it was known."""
    if journal.folder is None or known is not None:
        return
    encoder = StateEncoder()
    state = encoder.encode(decided, "the model")
    journal.save(name, Saved(0, True, encoder.arrays, {"objects": encoder.objects, "state": state}))

"""How much the search for a view may spend."""

from dataclasses import dataclass, replace

from ulmus.features.preparation import PREPARATIONS

#: What a search begins with, at least, where few rows and landmarks have seen nothing, and with which width: where all
#: losses are those of a constant, there is no slope to climb.
MANY_ROWS, MANY_LANDMARKS, NARROW = 4_000, 600, 4.0
#: How many times the lowest loss of few rows a smoother view may have to be tried further; and where leaves will tell.
REACH, WIDE_REACH = 1.05, 1.2
#: Rows for a landmark of the first trials, of the metric's and of the last, at least, where labels are few; and
#: landmarks that are never too many (for the last, twice as many).
ROWS_EACH, FEWEST = (10, 8, 4), 50


@dataclass(frozen=True)
class Budget:
    """How much is spent on the choice; whether there is an ``additive`` candidate, ``fresh`` rows compare views, and
    ``cuts`` are tried; whether the metric goes on from ``leaves``.

    ``final_landmarks``: landmarks with which views are compared, on rows that the metrics know and on fresh ones.
    Widths are tried from ``first_width`` on, in units of the heuristic one. A smoother view is tried further where few
    rows lose less than :attr:`reach` times the least with it: more with ``leaves``. Where the first trials miss more
    than the share ``noise`` of what a constant misses, little is left to be found, and the search goes on with the
    ``lean`` budget.
    """

    rows: int = 2_000
    landmarks: int = 150
    metric_rows: int = 4_000
    metric_landmarks: int = 250
    rounds: int = 5
    rounds_again: int = 2
    final_landmarks: tuple[int, int] = (600, 600)
    kernels: int = 2
    additive: bool = True
    fresh: bool = True
    cuts: bool = True
    leaves: bool = False
    preparations: tuple[str, ...] = PREPARATIONS
    first_width: float = 1.0
    noise: float = 1.0
    lean: "Budget | None" = None

    @property
    def reach(self) -> float:
        """How many times the lowest loss of few rows a smoother view may have to be tried further."""
        return WIDE_REACH if self.leaves else REACH

    def of_labels(self, n_rows: int) -> "Budget":
        """The same for labels of this many rows: metrics of many landmarks follow the noise of few labels."""
        first, metric, last = (n_rows // rows for rows in ROWS_EACH)
        known, fresh = self.final_landmarks
        return replace(
            self,
            landmarks=min(self.landmarks, max(first, FEWEST)),
            metric_landmarks=min(self.metric_landmarks, max(metric, FEWEST)),
            final_landmarks=(min(known, max(last, 2 * FEWEST)), min(fresh, max(last, 2 * FEWEST))),
            lean=self.lean and self.lean.of_labels(n_rows),
        )

    @property
    def wider(self) -> "Budget":
        """The same with many rows and landmarks, and a narrower kernel, from the first on."""
        rows, landmarks = max(self.metric_rows, MANY_ROWS), max(self.final_landmarks[0], MANY_LANDMARKS)
        return replace(
            self,
            rows=rows,
            landmarks=landmarks,
            metric_rows=rows,
            metric_landmarks=landmarks,
            first_width=NARROW,
            lean=None,
        )

"""``partial_fit`` of Nyström models: rows that are far from all landmarks may become landmarks."""

from copy import deepcopy
from typing import Any

from ulmus.models._between import learns
from ulmus.models._metric import metric_for_blocks
from ulmus.models._sequential import Sequential


@learns
def partial_fit(
    self: Any, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, *, novelty: float | None = None
) -> Any:
    """Learn a block of rows, or one row.

    Landmarks and all else that is open are chosen from the first 500 rows (more, if there are to be more landmarks)
    or from those of an earlier ``fit``; until then predictions come from a model of the rows so far.

    Parameters
    ----------
    X, y, classes, sample_weight : arrays
        As :meth:`OSELMClassifier.partial_fit` takes them; ``classes`` are all that will come, if they are known.
    novelty : float, optional
        After the warm-up, rows of which the landmarks leave more than this share of κ(x,x) unexplained
        (:meth:`residual_kernel`) become landmarks first, up to ``max_landmarks``. Rows learned before count as 0 in
        the new features: approximate for the past, exact from here on.

    Returns
    -------
    self
    """
    if getattr(self, "solver", "auto") == "iterative":
        raise ValueError(
            'partial_fit adds to sums, which are those of the direct route, got solver="iterative"; set '
            'solver="auto" or "direct", or call fit with all rows'
        )
    if not hasattr(self, "_metric"):
        self._metric = metric_for_blocks(self)
    if novelty is None or "stream_" not in self.__dict__ or self.stream_.recursion is None:
        return Sequential.partial_fit(self, X, y, classes, sample_weight)
    if not 1e-3 <= novelty < 1:
        raise ValueError(f"novelty must lie between 0.001 and 1, got {novelty!r}")
    rows, _ = self._block(X, y, sample_weight)
    stream, features = self.stream_, self.map_.grown(rows.X, novelty, self.max_landmarks)
    if features is self.map_:
        return Sequential.partial_fit(self, X, y, classes, sample_weight)
    before, state = dict(self.__dict__), deepcopy(stream)
    new = features.n_lifted - self.map_.n_lifted
    for _ in range(new):
        stream.recursion.widen()
    stream.memory.widen(new)
    self.map_, self.n_landmarks_ = features, len(features.landmarks_)
    try:
        return Sequential.partial_fit(self, X, y, classes, sample_weight)
    except Exception:
        self.__dict__.clear()
        self.__dict__.update(before, stream_=state)
        raise

"""Reasons for answers: which inputs, and which training rows, are behind a prediction.

Models offer them as methods (``model.explain(X)`` and others); here is what does the work. It sees models as games and
as sums of weighted kernels. :func:`explain` is for pipelines: it answers in the columns of the table.
"""

from ulmus.explain.effects import Effect
from ulmus.explain.explanation import Explanation
from ulmus.explain.pipelines import explain

__all__ = ["Effect", "Explanation", "explain"]

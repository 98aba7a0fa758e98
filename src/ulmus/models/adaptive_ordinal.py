"""The adaptive model for labels that have an order."""

from typing import Any, ClassVar

from ulmus.models._docs import documented
from ulmus.models._ordinal import ORDINAL_CONSTRAINTS, Ordinal
from ulmus.models._tables import TableInput
from ulmus.models.adaptive import AdaptiveFamily


@documented("adaptive", "ordinal", "repeatable")
class AdaptiveOrdinalClassifier(TableInput, Ordinal, AdaptiveFamily):
    """Ordinal regression that learns its metric from the data and corrects itself locally.

    The bits of the ordered code (:class:`NKELMOrdinalClassifier`), fitted as :class:`AdaptiveRegressor` fits.

    It needs no scaling of the inputs and takes text, categories and dates in frames. The local stage keeps the training
    rows: for a small model take :class:`NKELMOrdinalClassifier`.

    Parameters
    ----------
    <parameters>

    Attributes
    ----------
    classes_ : ndarray
        All classes, lowest first.
    view_ : View
        How the kernel sees the table: preparation, metric, kernel, gamma.
    local_ : LocalKernels or None
        The local stage; None where it did not pay.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each input in the mean squared slope of the global model.
    memory_ : int
        Bytes that the model holds.

    Examples
    --------
    >>> import numpy as np
    >>> from ulmus import AdaptiveOrdinalClassifier
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-1, 1, (400, 3))
    >>> rank = np.digitize(X[:, 0] + X[:, 1] ** 2, [-0.3, 0.3, 0.8])
    >>> model = AdaptiveOrdinalClassifier(effort="fast", random_state=0).fit(X[:300], rank[:300])
    >>> bool(abs(model.predict(X[300:]) - rank[300:]).mean() < 0.2)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AdaptiveFamily._parameter_constraints,
        **{name: allowed for name, allowed in ORDINAL_CONSTRAINTS.items() if name != "loss"},
    }
    loss: ClassVar[str] = "squared"

    def __init__(
        self,
        *,
        effort: str = "default",
        categorical_features: Any = "from_dtype",
        criterion: str = "auto",
        decoding: str = "loss",
        categories: Any = "auto",
        cost_matrix: Any = None,
        class_weight: Any = None,
        max_memory: float = 2.0,
        random_state: Any = None,
        n_jobs: int | None = -1,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            effort=effort,
            categorical_features=categorical_features,
            criterion=criterion,
            max_memory=max_memory,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.decoding = decoding
        self.categories = categories
        self.cost_matrix = cost_matrix
        self.class_weight = class_weight

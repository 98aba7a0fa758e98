"""A picture of residuals, with the outliers marked. Needs matplotlib, which is imported when drawing."""

from typing import Any, Self

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ulmus.plots.axes import axes_for, readable

#: How rows and outliers are drawn: they differ by shape as well as by colour.
_ROWS = {"marker": "o", "s": 14, "color": "tab:blue", "alpha": 0.5, "linewidths": 0}
_OUTLIERS = {"marker": "x", "s": 36, "color": "tab:red"}


class ResidualsDisplay:
    """Residuals of a robust model against its predictions, with the band of its noise and the outliers beyond.

    Create it with :meth:`from_estimator`.

    Parameters
    ----------
    predicted, residual : ndarray of shape (n_samples,)
        Predictions, and targets less predictions.
    noise : float
        Deviation of clean rows.
    threshold : float, default=3.0
        Rows farther than this many deviations from the model are marked.

    Attributes
    ----------
    outliers_ : ndarray of bool
        The rows that are marked.
    ax_, figure_ : matplotlib Axes and Figure
    points_, marks_ : matplotlib PathCollection
        The rows, and the outliers.

    Examples
    --------
    >>> from ulmus import ResidualsDisplay, RobustELMRegressor, datasets
    >>> X, y = datasets.make_sinc(outliers=True, random_state=0)
    >>> model = RobustELMRegressor(50, random_state=0).fit(X, y)
    >>> display = ResidualsDisplay.from_estimator(model, X, y, threshold=5)
    >>> [int(i) for i in display.outliers_.nonzero()[0]]
    [300, 301]
    """

    def __init__(self, predicted: np.ndarray, residual: np.ndarray, noise: float, *, threshold: float = 3.0) -> None:
        self.predicted = predicted
        self.residual = residual
        self.noise = noise
        self.threshold = threshold

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, threshold: float = 3.0, output: int = 0, ax: Any = None
    ) -> Self:
        """Draw the residuals of rows.

        Parameters
        ----------
        estimator : estimator or Pipeline
            A fitted robust model, or a pipeline that ends in one.
        X : array or sparse matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,) or (n_samples, n_outputs)
        threshold : float, default=3.0
            Rows with a higher outlier score are marked.
        output : int, default=0
            Which output, where there are several.
        ax : matplotlib Axes, optional
            Where to draw. A new figure when not given.

        Returns
        -------
        ResidualsDisplay
        """
        model = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        check_is_fitted(model)
        if not hasattr(model, "outlier_scores"):
            raise TypeError(
                f"{type(model).__name__} has no outlier scores; fit a robust model, e.g. RobustELMRegressor"
            )
        if not threshold > 0:
            raise ValueError(f"threshold must be positive, got {threshold!r}")
        predicted = np.asarray(estimator.predict(X))
        residual = np.asarray(y, dtype=float) - predicted
        if predicted.ndim == 2:
            predicted, residual = predicted[:, output], residual[:, output]
        noise = float(model.spread_.noise[output])
        return cls(predicted, residual, noise, threshold=threshold).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        self
        """
        ax = axes_for("ResidualsDisplay", ax, 4.6)
        self.ax_, self.figure_ = ax, ax.figure
        reach = self.threshold * self.noise
        self.outliers_ = np.abs(self.residual) > reach
        near = ~self.outliers_
        self.points_ = ax.scatter(self.predicted[near], self.residual[near], label=f"{near.sum()} rows", **_ROWS)
        label = f"{self.outliers_.sum()} beyond {self.threshold:g} deviations"
        self.marks_ = ax.scatter(self.predicted[~near], self.residual[~near], label=label, **_OUTLIERS)
        ax.axhspan(-reach, reach, color="0.5", alpha=0.12, zorder=0)
        ax.axhline(0.0, color="0.3", linewidth=1, zorder=0)
        # gross outliers would flatten everything else: a scale that is linear in the band and logarithmic beyond
        if len(self.residual) and np.abs(self.residual).max() > 20 * reach:
            ax.set_yscale("symlog", linthresh=reach)
        ax.set(xlabel="predicted", ylabel="target − predicted", title="Residuals")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(fontsize="small", frameon=False)
        readable(ax)
        return self

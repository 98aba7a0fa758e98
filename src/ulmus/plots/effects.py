"""Pictures of partial dependence and accumulated effects, as scikit-learn draws them."""

from typing import Any, Self

import numpy as np
from sklearn.inspection import PartialDependenceDisplay
from sklearn.utils import Bunch

from ulmus._numbers import number
from ulmus.explain.effects import Effect
from ulmus.plots.axes import as_written, axes_for

#: Values of a number beside the levels of a category: each is a column of cells.
CELLS = 10


class EffectsDisplay(PartialDependenceDisplay):
    """How the answers of a model move with its inputs, drawn as scikit-learn draws partial dependence.

    Create it with :meth:`from_estimator`. It is a ``PartialDependenceDisplay`` whose numbers are ours: in closed form
    for product kernels, and for ``kind="accumulated"`` those of Apley and Zhu (2020).

    Attributes
    ----------
    effects_ : list of Effect
        What is drawn.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from ulmus import EffectsDisplay, NKELMRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = NKELMRegressor(random_state=0).fit(X, y)
    >>> display = EffectsDisplay.from_estimator(model, X, ["bmi", "bp", ("bmi", "bp")])
    >>> [effect.average.shape for effect in display.effects_]
    [(50,), (50,), (50, 50)]
    """

    effects_: list[Effect]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        features: Any,
        *,
        kind: str = "average",
        output: int = 0,
        resolution: int = 50,
        bins: int = 20,
        sample_weight: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw the effects of some inputs.

        Parameters
        ----------
        estimator : estimator
            A fitted regressor or classifier of Ulmus.
        X : array or frame of shape (n_samples, n_features)
        features : list of int, str or pairs of them
        kind : {"average", "individual", "both", "accumulated"}, default="average"
            Partial dependence of all rows, of each row, or both; or accumulated effects.
        output : int, default=0
            Which score, where there are several.
        resolution : int, default=50
            Values of an input on the grid; at most 10 of a number beside a category, which are drawn as cells.
        bins : int, default=20
            Of accumulated effects.
        sample_weight : array of shape (n_samples,), optional
        ax : matplotlib Axes or array of them, optional
        **options
            For ``PartialDependenceDisplay.plot``.

        Returns
        -------
        EffectsDisplay
        """
        kinds = ("average", "individual", "both", "accumulated")
        if kind not in kinds:
            raise ValueError(f"kind must be one of {kinds}, got {kind!r}")
        lines = kind in ("individual", "both")
        if kind == "accumulated":
            found = [
                estimator.accumulated_effects(X, each, bins=bins, sample_weight=sample_weight) for each in features
            ]
        else:
            asked = {"individual": lines, "sample_weight": sample_weight}
            found = [estimator.partial_dependence(X, each, resolution=resolution, **asked) for each in features]
            found = [
                estimator.partial_dependence(X, effect.features, resolution=min(resolution, CELLS), **asked)
                if _mixed(effect)
                else effect
                for effect in found
            ]
        names = sorted({name for effect in found for name in effect.features})
        display = cls(
            [_bunch(effect, output) for effect in found],
            features=[tuple(names.index(name) for name in effect.features) for effect in found],
            feature_names=names,
            target_idx=0,
            deciles=_deciles(found),
            kind=kind if lines else "average",
            is_categorical=[tuple(_mixed(effect) or _levels(values) for values in effect.grid) for effect in found],
        )
        display.effects_ = found
        display.plot(ax=axes_for("EffectsDisplay", ax, 4.0), **options)
        drawn = [axes for axes in np.ravel(display.axes_) if axes is not None]
        as_written(*drawn)
        if kind == "accumulated":
            for axes in drawn:
                if axes.get_ylabel():
                    axes.set_ylabel("Accumulated effect")
        return display


def _bunch(effect: Effect, output: int) -> Bunch:
    several = effect.average.ndim > len(effect.grid)
    average = effect.average[..., output] if several else effect.average
    each = None if effect.individual is None else effect.individual[None]
    grid = [
        np.array([number(v) for v in values]) if _mixed(effect) and not _levels(values) else values
        for values in effect.grid
    ]
    return Bunch(average=average[None], individual=each, grid_values=grid)


def _mixed(effect: Effect) -> bool:
    """Whether one of two inputs holds numbers and the other levels: drawn as cells, for which numbers become levels."""
    return len({_levels(values) for values in effect.grid}) > 1


def _levels(values: np.ndarray) -> bool:
    return values.dtype.kind not in "fiu"


def _deciles(found: list[Effect]) -> dict[int, np.ndarray]:
    """Ticks below the curves: where the grid lies."""
    names = sorted({name for effect in found for name in effect.features})
    out = {}
    for effect in found:
        for name, values in zip(effect.features, effect.grid, strict=True):
            if not _levels(values):
                out[names.index(name)] = np.quantile(values.astype(float), np.arange(0.1, 1.0, 0.1))
    return out

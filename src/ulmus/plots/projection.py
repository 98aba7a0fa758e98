"""Pictures of a projection: classes in two or three coordinates. Needs matplotlib, which is imported when drawing."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ulmus.models.enda import ENDA
from ulmus.models.klda import KLDA
from ulmus.models.nnda import NNDA
from ulmus.plots.axes import as_written, pyplot

#: Colours that readers with any colour vision can tell apart (M. Okabe, K. Ito, 2008; without yellow, which is too
#: light on white).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
#: Markers; their number shares no factor with that of the colours, so that 63 classes look different.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
#: Points along each side of the grid on which regions are drawn.
GRID = 200
#: Neighbours for regions of a projection that has no classifier of its own.
NEIGHBOURS = 5
#: Entries in one column of the legend.
_LEGEND_ROWS = 15


def style(i: int) -> dict[str, str]:
    """Colour and marker of class number i."""
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}


class ProjectionDisplay:
    """Rows in the coordinates of a projection, one colour and marker for each class.

    Create it with :meth:`from_estimator`, or several side by side with :meth:`compare`.

    Parameters
    ----------
    Z : array of shape (n_samples, 1, 2 or 3)
        Coordinates to show.
    y : array of shape (n_samples,)
        Class labels.
    classes : array, optional
        All classes, in the order of their colours; those of ``y`` by default.
    names : sequence of str, optional
        Names of the axes.
    title : str, optional
    classify : callable, optional
        Class numbers of points ``[point, coordinate]``, for regions.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    points_ : dict of label to matplotlib collection
    regions_ : matplotlib image or None
    legend_ : matplotlib Legend or None

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from ulmus import ENDA, ProjectionDisplay
    >>> X, y = load_wine(return_X_y=True)
    >>> model = ENDA(50, random_state=0).fit(X, y)
    >>> display = ProjectionDisplay.from_estimator(model, X, y, regions=True)
    >>> display.ax_.get_xlabel(), [text.get_text() for text in display.legend_.get_texts()]
    ('enda0', ['0', '1', '2'])
    """

    def __init__(
        self,
        Z: Any,
        y: Any,
        *,
        classes: Any = None,
        names: Sequence[str] | None = None,
        title: str | None = None,
        classify: Any = None,
    ) -> None:
        self.Z, self.y = np.asarray(Z, dtype=np.float64), np.asarray(y)
        if self.Z.ndim != 2 or not 1 <= self.Z.shape[1] <= 3:
            raise ValueError(f"a projection is drawn in 1, 2 or 3 coordinates, got an array of shape {self.Z.shape}")
        if len(self.Z) != len(self.y):
            raise ValueError(f"Z has {len(self.Z)} rows and y has {len(self.y)} labels")
        self.classes = np.unique(self.y) if classes is None else np.asarray(classes)
        self.names = [f"coordinate {j}" for j in range(self.Z.shape[1])] if names is None else list(names)
        self.title = title
        self.classify = classify

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        components: int | Sequence[int] | None = None,
        regions: bool = False,
        ax: Any = None,
        title: str | None = None,
        **options: Any,
    ) -> Self:
        """Draw rows as a fitted model projects them.

        Parameters
        ----------
        estimator : estimator or Pipeline
            A fitted model with ``transform``: ENDA, ENDAEnsemble, KLDA, NNDA, or any transformer of scikit-learn.
        X : array or sparse matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        components : int, or sequence of one, two or three, optional
            Which coordinates to show; three make a picture in space. The first two by default.
        regions : bool, default=False
            Colour the plane by the class that would be predicted there (two coordinates only). That is the model's
            own classifier where it works in just these two coordinates, and otherwise that of the five nearest rows
            shown (as many as the model uses, where it says so).
        ax : matplotlib Axes, optional
            A new figure when not given.
        title : str, optional
            The name of the model by default.
        **options
            For matplotlib's ``scatter``.

        Returns
        -------
        ProjectionDisplay
        """
        check_is_fitted(estimator)
        model = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        Z = np.asarray(estimator.transform(X))
        shown = list(range(min(2, Z.shape[1]))) if components is None else np.atleast_1d(components).tolist()
        if not 1 <= len(shown) <= 3 or not all(0 <= j < Z.shape[1] for j in shown):
            raise ValueError(
                f"components takes one, two or three numbers of coordinates below {Z.shape[1]}, got {components!r}"
            )
        classes = np.unique(y)
        if hasattr(model, "classes_") and np.isin(classes, model.classes_).all():
            classes = model.classes_
        classify = _classifier(model, Z[:, shown], y, classes, whole=shown == list(range(Z.shape[1])))
        names = [str(name) for name in np.asarray(model.get_feature_names_out())[shown]]
        title = type(model).__name__ if title is None else title
        display = cls(Z[:, shown], y, classes=classes, names=names, title=title, classify=classify)
        return display.plot(ax=ax, regions=regions, **options)

    @classmethod
    def compare(
        cls,
        X: Any,
        y: Any,
        models: Mapping[str, Any] | None = None,
        *,
        regions: bool = False,
        random_state: Any = 0,
        **options: Any,
    ) -> dict[str, Self]:
        """Draw one data set as several models project it, side by side with one legend.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Standardise the features first.
        y : array of shape (n_samples,)
        models : dict of name to estimator, optional
            Models to fit; NNDA, ENDA, KLDA, linear discriminant analysis and principal components by default.
        regions : bool, default=False
        random_state : int, RandomState or None, default=0
            For the default models.
        **options
            For matplotlib's ``scatter``.

        Returns
        -------
        dict of name to ProjectionDisplay
        """
        plt = pyplot("ProjectionDisplay")
        models = default_models(len(np.unique(y)), random_state) if models is None else dict(models)
        columns = min(3, len(models))
        lines = -(-len(models) // columns)
        size = (4.6 * columns, 4.2 * lines)
        _, axes = plt.subplots(lines, columns, figsize=size, layout="constrained", squeeze=False)
        displays = {}
        for (name, model), ax in zip(models.items(), axes.ravel(), strict=False):
            model.fit(X, y)
            displays[name] = cls.from_estimator(model, X, y, regions=regions, ax=ax, title=name, **options)
            displays[name].legend_.remove()
        for ax in axes.ravel()[len(models) :]:
            ax.set_axis_off()
        next(iter(displays.values()))._legend(axes.ravel()[0].figure, loc="outside right center")
        as_written(axes.ravel()[0])
        return displays

    def plot(self, *, ax: Any = None, regions: bool = False, **options: Any) -> Self:
        """Draw the points, and the regions behind them.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        regions : bool, default=False
        **options
            For matplotlib's ``scatter``.

        Returns
        -------
        self
        """
        plt = pyplot("ProjectionDisplay")
        dimensions = self.Z.shape[1]
        if ax is None:
            kind = {"projection": "3d"} if dimensions == 3 else {}
            ax = plt.subplots(figsize=(7.5, 5.5), layout="constrained", subplot_kw=kind)[1]
        if dimensions == 3 and not hasattr(ax, "set_zlabel"):
            raise ValueError('three coordinates need 3-D Axes: plt.subplots(subplot_kw={"projection": "3d"})')
        if regions and (dimensions != 2 or self.classify is None):
            raise ValueError(f"regions are drawn in two coordinates, by a classifier; this picture has {dimensions}")
        self.ax_, self.figure_ = ax, ax.figure
        self.points_ = {}
        drawn = {"s": 14, "alpha": 0.75, "linewidths": 0, **options}
        for i, label in enumerate(self.classes):
            points = self.Z[self.y == label]
            if len(points):
                self.points_[label] = ax.scatter(*_spread(points, i).T, label=str(label), **style(i), **drawn)
        self.regions_ = self._draw_regions() if regions else None
        self._dress()
        self.legend_ = self._legend(ax)
        as_written(ax)
        return self

    def _draw_regions(self) -> Any:
        """The class of every point of a grid, as a tint."""
        from matplotlib.colors import to_rgb

        (left, right), (low, high) = self.ax_.get_xlim(), self.ax_.get_ylim()
        across, up = np.meshgrid(np.linspace(left, right, GRID), np.linspace(low, high, GRID))
        index = self.classify(np.column_stack([across.ravel(), up.ravel()]))
        tints = 1 - 0.22 * (1 - np.array([to_rgb(style(i)["color"]) for i in range(len(self.classes))]))
        image = tints[index].reshape(GRID, GRID, 3)
        extent = (left, right, low, high)
        return self.ax_.imshow(image, extent=extent, origin="lower", aspect="auto", zorder=0, interpolation="nearest")

    def _dress(self) -> None:
        ax = self.ax_
        ax.set(xlabel=self.names[0], ylabel=self.names[1] if len(self.names) > 1 else "class")
        if len(self.names) == 3:
            ax.set_zlabel(self.names[2])
        else:
            ax.spines[["top", "right"]].set_visible(False)
        if len(self.names) == 1:
            ax.set_yticks(range(len(self.classes)), [str(label) for label in self.classes])
        if self.title:
            ax.set_title(self.title)

    def _legend(self, owner: Any, **place: Any) -> Any:
        """Classes in columns beside the picture."""
        place = place or {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)}
        handles = list(self.points_.values())
        legend = owner.legend(
            handles=handles,
            labels=[str(label) for label in self.points_],
            frameon=False,
            fontsize="small",
            ncols=-(-len(handles) // _LEGEND_ROWS),
            **place,
        )
        for handle in legend.legend_handles:
            handle.set(sizes=[28], alpha=1.0)
        return legend


def _spread(points: np.ndarray, i: int) -> np.ndarray:
    """Points as they are; on a line, rows of class i are spread around height i so that they do not hide each other."""
    if points.shape[1] > 1:
        return points
    return np.column_stack([points[:, 0], i + np.random.RandomState(0).uniform(-0.3, 0.3, len(points))])


def _classifier(model: Any, Z: np.ndarray, y: Any, classes: np.ndarray, *, whole: bool) -> Any:
    """Class numbers of points: by the model's head where it works in these coordinates, else by the rows shown."""
    if whole and hasattr(model, "head_"):
        return lambda points: model.head_.probabilities(points).argmax(axis=1)
    k = min(len(Z), getattr(model, "n_neighbors_", NEIGHBOURS))
    rule = KNeighborsClassifier(k).fit(Z, np.searchsorted(classes, np.asarray(y)))
    return rule.predict


def default_models(n_classes: int, random_state: Any = 0) -> dict[str, Any]:
    """The models of a comparison: two directions each, or one where there are two classes."""
    p = min(2, n_classes - 1)
    return {
        "NNDA": NNDA(n_components=p, max_iter=500, random_state=random_state),
        "ENDA": ENDA(n_components=p, random_state=random_state),
        "KLDA": KLDA(n_components=p, random_state=random_state),
        "LDA": LinearDiscriminantAnalysis(n_components=p),
        "PCA": PCA(n_components=2),
    }

"""How the answers of a model move with its inputs: sees to what was given, and leaves the work to ``explain``."""

import warnings
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from sklearn.utils import Bunch, check_random_state
from sklearn.utils.validation import check_is_fitted

from ulmus._sklearn import check_sample_weight
from ulmus.exceptions import DriftWarning
from ulmus.features.frames import IN_DAYS, columns_of, days_of, frame_of, kind_of
from ulmus.models._games import game_of
from ulmus.models._without_rows import without_rows

if TYPE_CHECKING:
    from ulmus.explain.effects import Effect


def partial_dependence(
    self: Any,
    X: Any,
    features: Any,
    *,
    grid: Any = None,
    resolution: int = 50,
    percentiles: tuple[float, float] = (0.05, 0.95),
    individual: bool = False,
    sample_weight: Any = None,
) -> "Effect":
    r"""Mean predictions with one input, or two, set to the values of a grid (Friedman 2001).

    In closed form for product kernels (``kernel="rbf"``, ``"laplacian_l1"``): the kernel of a row is computed once, and
    not once for every value. Answers are those of ``predict``, or of ``decision_function`` for classifiers.

    Parameters
    ----------
    X : array or frame of shape (n_samples, n_features)
        Rows over which answers are averaged.
    features : int, str or a pair of them
        The inputs.
    grid : array or tuple of arrays, optional
        Values of each input. By default its distinct values where these are few, as those of categories are, else
        ``resolution`` equal steps.
    resolution : int, default=50
    percentiles : pair of float, default=(0.05, 0.95)
        Between which the grid lies.
    individual : bool, default=False
        Keep the answers of single rows as well (of one input and one output).
    sample_weight : array of shape (n_samples,), optional

    Returns
    -------
    Effect
        ``grid``, ``average`` and ``individual``; drawn by :class:`ulmus.EffectsDisplay`.
    """
    from ulmus.explain.effects import Effect, answers_on_grid, mean_on_grid

    game, names, places = _named_game(self, X, features, (1, 2))
    weight = _mean_weight(sample_weight, X)
    given = [grid] if grid is not None and len(places) == 1 else grid
    if given is not None and len(given) != len(places):
        raise ValueError(f"grid must have the values of {len(places)} inputs, got {len(given)}")
    values = [
        _grid(X, j, resolution, percentiles) if given is None else np.asarray(given[k]) for k, j in enumerate(places)
    ]
    mesh = [m.ravel() for m in np.meshgrid(*values, indexing="ij")]
    V, columns = _seen_with(game, X, places, mesh), np.flatnonzero(np.isin(game.owner, places))
    shape = tuple(len(v) for v in values)
    U = game.see(X)
    if individual:
        if len(places) > 1 or len(game.constant) > 1:
            raise ValueError("individual=True supports a single input and a single output")
        each = answers_on_grid(game, U, columns, V)[..., 0]
        return Effect("partial", (names[places[0]],), tuple(values), weight @ each, each)
    mean = mean_on_grid(game, U, weight, columns, V).reshape(*shape, -1)
    return Effect("partial", tuple(names[j] for j in places), tuple(values), _without_last(mean))


def accumulated_effects(self: Any, X: Any, feature: Any, *, bins: int = 20, sample_weight: Any = None) -> "Effect":
    r"""Accumulated local effects of one input: local changes of the predictions, added up (Apley and Zhu 2020).

    Where inputs hang together, partial dependence asks the model about rows that do not exist; these effects compare
    each row only with itself at the ends of its own bin. They are centred: their mean over the rows is 0.

    Parameters
    ----------
    X : array or frame of shape (n_samples, n_features)
    feature : int or str
        An input of numbers or dates; categories have no order along which effects could add up.
    bins : int, default=20
        Bins, with as many rows in each.
    sample_weight : array of shape (n_samples,), optional

    Returns
    -------
    Effect
        ``grid`` holds the edges of the bins, ``average`` the effects there.
    """
    from ulmus.explain.effects import Effect, accumulated, bin_of, changes, quantile_edges

    game, names, places = _named_game(self, X, feature, (1,))
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    (j,) = places
    numbers = _numbers(X, j)
    if numbers is None:
        raise ValueError(
            f"accumulated effects need an order, and {names[j]!r} holds categories; see partial_dependence"
        )
    there = np.isfinite(numbers)
    edges = quantile_edges(numbers, bins)
    place = bin_of(numbers[there], edges)
    columns = np.flatnonzero(game.owner == j)
    V = _seen_with(game, X, [j], [edges])
    change = changes(game, game.see(X)[there], columns, V[place], V[place + 1])
    found = accumulated(change, place, _mean_weight(sample_weight, X)[there], len(edges) - 1)
    return Effect("accumulated", (names[j],), (edges,), _without_last(found))


def left_out_importances(
    self: Any,
    X_train: Any = None,
    y_train: Any = None,
    sample_weight: Any = None,
    *,
    n_repeats: int = 5,
    max_rows: int = 1_000,
    random_state: Any = 0,
) -> Bunch:
    """Permutation importance of the inputs on held-out rows: no test rows are needed, and scores are not too good.

    A row with an input of another row is answered by the model that never saw the row, in closed form; the importance
    is the rise of the mean squared error, or of the log loss of a classifier's probabilities, which moves under
    imbalance too, where accuracy often does not.

    Parameters
    ----------
    X_train, y_train : array or frame, and array
        The rows and targets of the fit, all of them. Models with an exact kernel hold them and need not be given any.
    sample_weight : array, optional
        Their weights, where the fit had some.
    n_repeats : int, default=5
        Times that every input is shuffled.
    max_rows : int, default=1000
        Rows that are asked, at most.
    random_state : int or RandomState, default=0

    Returns
    -------
    Bunch
        ``importances_mean``, ``importances_std`` and ``importances``, as those of scikit-learn's
        ``permutation_importance``.
    """
    from ulmus.explain.importance import permutation_importances

    if n_repeats < 1 or max_rows < 2:
        raise ValueError(f"n_repeats must be at least 1 and max_rows at least 2, got {n_repeats} and {max_rows}")
    model, rows = without_rows(self, X_train, y_train, sample_weight)
    game = game_of(self)
    present, groups = game.players()
    rng = check_random_state(random_state)
    w = rows.weights
    found = np.zeros((self.n_features_in_, n_repeats))
    found[present] = permutation_importances(
        *(model, game.score, rows.X, rows.T, w, groups, self._row_loss(rows.T), n_repeats, max_rows, rng)
    )
    return Bunch(importances_mean=found.mean(axis=1), importances_std=found.std(axis=1), importances=found)


def _named_game(model: Any, X: Any, features: Any, counts: tuple[int, ...]) -> tuple[Any, list[str], list[int]]:
    from ulmus.explain.effects import positions

    check_is_fitted(model)
    names = [str(n) for n in getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)])]
    places = positions(features, names)
    if len(places) not in counts or len(set(places)) < len(places):
        many = " or ".join(map(str, counts))
        raise ValueError(f"features must name {many} different inputs, got {features!r}")
    return game_of(model), names, places


def _without_last(found: np.ndarray) -> np.ndarray:
    return found[..., 0] if found.shape[-1] == 1 else found


def _mean_weight(weight: Any, X: Any) -> np.ndarray:
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if weight is None:
        return np.full(n, 1.0 / n)
    w = check_sample_weight(weight, np.empty((n, 1)), dtype=np.float64, ensure_non_negative=True)
    return w / w.sum()


def _column(X: Any, j: int) -> Any:
    frame = frame_of(X)
    if frame is not None:
        return list(columns_of(frame).values())[j]
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X)[:, j]


def _numbers(X: Any, j: int) -> np.ndarray | None:
    """An input as numbers, dates as days; None for categories."""
    column = _column(X, j)
    if isinstance(column, np.ndarray):
        return column.astype(np.float64)
    kind = kind_of(column)
    if kind == "number":
        return np.asarray(column.to_numpy(), dtype=np.float64)
    return days_of(column) if kind in IN_DAYS else None


def _grid(X: Any, j: int, resolution: int, percentiles: tuple[float, float]) -> np.ndarray:
    from ulmus.explain.effects import number_grid

    numbers = _numbers(X, j)
    if numbers is not None:
        return number_grid(numbers, resolution, percentiles)
    levels = [value for value in _column(X, j).to_list() if value is not None and value == value]  # noqa: PLR0124 (NaN)
    return np.array(sorted(set(levels), key=str), dtype=object)


def _seen_with(game: Any, X: Any, places: list[int], values: list[np.ndarray]) -> Any:
    """The first row with these values, as the model sees it: what is missing in it is no drift of the column."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DriftWarning)
        return game.see(_with_values(X, places, values))


def _with_values(X: Any, places: list[int], values: list[np.ndarray]) -> Any:
    """The first row as often as there are values, with these in their columns."""
    n = len(values[0])
    frame = frame_of(X)
    if frame is None:
        row = np.asarray(X[:1].toarray() if hasattr(X, "toarray") else np.asarray(X)[:1], dtype=np.float64)
        out = np.repeat(row, n, axis=0)
        out[:, places] = np.column_stack(values)
        return out
    known = columns_of(frame)
    columns = {name: column[[0] * n] for name, column in known.items()}
    for j, given in zip(places, values, strict=True):
        name = frame.columns[j]
        columns[name] = of_kind(known[name], given, frame.implementation)
    return nw.from_dict(columns).to_native()


def of_kind(column: Any, values: np.ndarray, backend: Any) -> Any:
    """A column of these values, of the kind of another; days become dates again."""
    kind = kind_of(column)
    if kind == "number":
        return nw.new_series(column.name, values.astype(np.float64), nw.Float64, backend=backend)
    if kind in IN_DAYS and values.dtype.kind == "f":
        micro = np.round(values * 86_400e6).astype(np.int64)
        as_time = micro.astype("timedelta64[us]" if kind == "duration" else "datetime64[us]")
        return nw.new_series(column.name, as_time, backend=backend)
    return nw.new_series(column.name, values.tolist(), backend=backend)

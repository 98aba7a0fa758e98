"""Learning from rows that come in blocks or one by one: ``partial_fit``, ``unlearn``, ``merge``.

A stream begins with a warm-up: rows are kept until the map can be drawn and its parameters chosen from them. From then
on rows go into a recursion (:mod:`ulmus.solvers.recursive`), and weights, leverages and calibration are computed when
somebody asks for them.
"""

from copy import deepcopy
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import LinAlgError
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from ulmus import engine
from ulmus._sklearn import check_sample_weight
from ulmus.backend import Host
from ulmus.calibration import CALIBRATION_ROWS, HeldOut
from ulmus.engine import Rows
from ulmus.models._between import derive, is_view, learns, side_of
from ulmus.models._features import MappedFamily
from ulmus.models._memory import Memory, stacked
from ulmus.models._stream import FORMS, Exchange, OnlineState, check_announced, check_rank, deficient, is_plain
from ulmus.models.choice import Training
from ulmus.solvers.recursive import Information, Shape, start_of, sums_of
from ulmus.solvers.ridge import Solution
from ulmus.solvers.square_root import SquareRoot
from ulmus.statistics import Extent, Statistics, Summary, design_matrix

#: Rows that go through the batch engine together.
BATCH = 1_000
#: Fewest rows from which parameters are chosen during the warm-up, and how much more there must be to choose again.
FEW, MORE = 20, 1.5
#: Rows of a ``fit`` of which hashes are kept, at most: 8 bytes of each, in memory and in files.
REMEMBERED = 2_000_000
#: Rows that have to come after a ``fit`` before its calibration is replaced.
RECALIBRATE = 200


class Sequential(Exchange):
    """What a family needs in order to learn on."""

    #: What is derived from the recursion, when asked for: weights, what leans on their factor, calibration.
    _weight_names: ClassVar[tuple[str, ...]] = ("beta_", "intercept_", "route_", "_narrow")
    _factor_names: ClassVar[tuple[str, ...]] = ("_leverage",)
    _calibration_names: ClassVar[tuple[str, ...]] = ("temperature_", "floor_", "spread_", "left_out_")
    #: Values that stand in for "auto" while there are hardly any rows.
    _plain: ClassVar[dict[str, Any]] = {}
    beta_: np.ndarray
    intercept_: np.ndarray
    #: Rows of the warm-up.
    _warm_up_rows: int = 500
    _form: str = "information"
    _forgetting: float = 1.0

    @learns
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn a block of rows, or one row.

        The map and all that is left to the data are chosen from the first 500 rows (or the first block, if it has
        more, or the rows of an earlier ``fit``); until there are so many, predictions come from a model of the rows so
        far. A block that is refused leaves the model as it was.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,) or (n_samples, n_outputs)
        classes : array, optional
            All classes that will come, for the first call of a classifier. Without it classes may appear later.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        if classes is not None:
            check_announced(self, np.asarray(classes))
        if not hasattr(self, "stream_"):
            self._validate_params()
            return self._first(X, y, classes, sample_weight)
        rows, new = self._block(X, y, sample_weight)
        self._learn_block(rows, new)
        return self

    def _first(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Self:
        """The first block; a refusal leaves no trace."""
        before = dict(self.__dict__)
        fitted = "map_" in before
        try:
            stream = OnlineState(self._new_memory(), classes is not None)
            if fitted:
                self._go_on_from_fit(stream)
            elif classes is not None:
                self._grow(np.asarray(classes))
            self.stream_ = stream
            rows, new = self._block(X, y, sample_weight, reset=not fitted)
            self._learn_block(rows, new)
        except Exception:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _new_memory(self) -> Memory:
        return Memory(CALIBRATION_ROWS, latest=self._forgetting < 1.0)

    def _go_on_from_fit(self, stream: OnlineState) -> None:
        """A recursion that stands where ``fit`` has left the model."""
        if not hasattr(self, "_fitted_on"):
            raise ValueError(
                f"the route {self.route_!r} keeps no sums that more rows could be added to or taken from; fit with "
                'solver="direct", or start a new model with partial_fit'
            )
        n, weight, stream.extent = self._fitted_on
        assert stream.extent is not None
        shape = Shape(self.map_.n_lifted, len(stream.extent.low), self.C_, self._intercept)
        route = "eigenvalues" if self._leverage.spectral else self.route_
        solution = Solution(self.beta_, self.intercept_, route, np.nan, self._leverage)
        try:
            R, z = start_of(solution, shape, weight)
        except LinAlgError as error:
            raise deficient(self, n) from error
        if self._form == "root":
            stream.recursion = SquareRoot(shape, (R, z))
        else:
            sums = sums_of(R.T @ R - np.diag(shape.ridge), R.T @ z, shape)
            sums.moments[-1, -1], sums.n_rows = weight, n
            stream.recursion = FORMS[self._form](shape, sums)  # type: ignore[call-arg]
        keys = self.__dict__.pop("_fitted_keys", None)
        if keys is not None:
            stream.memory.know(keys)
        stream.n_rows, stream.complete = n, keys is not None

    def _train(self, training: Training) -> HeldOut:
        for name in ("stream_", "_fitted_keys"):
            self.__dict__.pop(name, None)
        held_out, rows = super()._train(training), training.rows
        if len(rows) <= REMEMBERED:
            self._fitted_keys = Memory.hashes(rows, self._identity(rows.T), self.n_jobs)
        return held_out

    def _checked(self, X: Any) -> Any:
        stream = self.__dict__.get("stream_")
        if stream is not None and stream.recursion is not None and not stream.n_rows:
            raise NotFittedError(
                f"this {type(self).__name__} is a blank copy that has learned no row; call partial_fit, or merge it "
                "with one that has, before it predicts"
            )
        return super()._checked(X)

    # Taking rows in

    def _block(self, X: Any, y: Any, sample_weight: Any, reset: bool = False) -> tuple[Rows, np.ndarray]:
        """Checked rows, without target columns yet, and their labels (or targets) as they came."""
        if reset or not is_plain(self, X, y):
            X, y = self._validate(X, y, reset=reset)
            y = np.asarray(y)
        X = self._shown(X)
        weight = None
        if sample_weight is not None:
            weight = check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            seen = weight > 0
            if not seen.all():
                X, y, weight = X[seen], y[seen], weight[seen]
        return Rows(X, np.empty((len(y), 0)), weight, None if weight is None else np.minimum(weight, 1.0)), y

    def _learn_block(self, rows: Rows, y: np.ndarray) -> None:
        waits = self.stream_.recursion is None
        known = ("present_",) if waits else ("classes_", "present_", "floor_")
        before = {name: value for name, value in vars(self).items() if name in known}
        try:
            if waits:
                self._wait_with(rows, y)
                return
            M = self._known(y)
            coded = self._coded(rows, y)
            taken = self._material(coded)
        except Exception:
            for name in known:
                self.__dict__.pop(name, None)
            self.__dict__.update(before)
            raise
        if M is not None:
            self._recode(M)
        self._learn(coded, taken)

    def _recode(self, M: np.ndarray) -> None:
        stream = self.stream_
        stream.recursion.recode(M)
        stream.memory.recode(M)
        stream.extent = Extent(np.full(M.shape[1], -1.0), np.full(M.shape[1], 1.0))

    def _known(self, y: np.ndarray) -> np.ndarray | None:
        """See to it that all labels are known: refuse those not announced, or grow."""
        if not hasattr(self, "classes_") or self.stream_.announced:
            return None
        if np.isin(y, self.classes_).all():
            return None
        return self._grow(y)

    def _coded(self, rows: Rows, y: np.ndarray) -> Rows:
        T, balance = self._encode_more(y)
        recursion = self.stream_.recursion
        if recursion is not None and is_regressor(self) and T.shape[1] != recursion.shape.n_outputs:
            raise ValueError(f"y has {T.shape[1]} outputs, but the model has learned {recursion.shape.n_outputs}")
        rows = replace(rows, T=np.asarray(T, dtype=np.float64))
        return rows if balance is None else rows.reweighted(balance)

    def _wait_with(self, rows: Rows, y: np.ndarray) -> None:
        """The warm-up: keep the rows, and begin when there are enough."""
        stream = self.stream_
        if is_classifier(self):
            if stream.announced:
                self._encode_more(y)
            else:
                self._grow(y)
        else:
            self._encode(y, None)
        labels = y if stream.labels is None else np.concatenate([stream.labels, y])
        waiting = rows if stream.waiting is None else stacked([stream.waiting, rows])
        stream.waiting, stream.labels = waiting, labels
        ready = len(waiting) >= self._warm_up() and len(getattr(self, "classes_", "ab")) >= 2
        if ready:
            self._start(self._coded(waiting, labels))
        elif len(waiting) >= MORE * stream.n_provisional:
            self._outdated()
            self.__dict__.pop("map_", None)

    def _warm_up(self) -> int:
        """Rows of the warm-up; none where nothing is left to them."""
        return int(self._recipe.warm_up(self._warm_up_rows, self.C))

    def _start(self, rows: Rows, folds: np.ndarray | None = None, rng: Any = None) -> None:
        """Fix the map, and learn the rows so far."""
        stream = self.stream_
        rng = check_random_state(self.random_state) if rng is None else rng
        self._begin(self._training(self._aged(rows), folds, rng))
        if self.C_ is None:
            check_rank(self, rows)
        shape = Shape(self.map_.n_lifted, rows.T.shape[1], self.C_, self._intercept)
        stream.recursion, stream.waiting, stream.labels, stream.extent = FORMS[self._form](shape), None, None, None
        self._learn(rows, self._material(rows))

    def _aged(self, rows: Rows) -> Rows:
        """Rows with the weights that forgetting leaves them."""
        if self._forgetting == 1.0:
            return rows
        return rows.reweighted(self._forgetting ** np.arange(len(rows) - 1, -1, -1.0))

    def _material(self, rows: Rows) -> Any:
        """What the recursion takes in of coded rows: all that can fail is done here."""
        weighed = self._weighed(rows)
        if len(rows) < BATCH:
            Phi = np.empty((len(rows), self.map_.n_lifted))
            self.map_.lift(rows.X, Phi)
            taken = design_matrix(Phi, weighed.T, weighed.weight)
            with np.errstate(over="ignore"):
                size = np.vdot(taken, taken)
            if not np.isfinite(size):
                raise ValueError(f"squares of features or targets overflow: {np.abs(taken).max():.3g}; rescale them")
            return taken
        if self._forgetting < 1.0:
            age = self._forgetting ** np.arange(len(rows) - 1, -1, -1)
            w = age if weighed.weight is None else weighed.weight * age
            weighed = replace(weighed, weight=w).take(w > np.finfo(float).tiny)
        return self._sums(weighed)

    def _learn(self, rows: Rows, taken: Any) -> None:
        """Let the recursion have coded rows."""
        stream = self.stream_
        recursion, n = stream.recursion, len(rows)
        if not n:
            return
        if isinstance(taken, np.ndarray):
            recursion.add(taken, self._forgetting)
        else:
            recursion.add_statistics(taken, self._forgetting**n)
        extent = self._extent(rows)
        stream.extent = extent if stream.extent is None else stream.extent + extent
        stream.memory.add(rows, self._identity(rows.T))
        stream.n_rows += n
        self._outdated()

    def _weighed(self, rows: Rows) -> Rows:
        """Rows with the weights under which they are learned."""
        return rows

    def _sums(self, rows: Rows) -> Any:
        """A batch of rows as sums, squared where that keeps the digits."""
        recursion = self.stream_.recursion
        if not isinstance(recursion, SquareRoot):
            return self._statistics(self.map_, rows)
        if recursion.squares:
            sums = self._statistics(self.map_, rows)
            if recursion.squarable(sums):
                return sums
        return engine.triangular_statistics(self.map_, rows, n_jobs=self.n_jobs)

    # What is derived when asked for

    def _outdated(self) -> None:
        stream = self.stream_
        names = self._weight_names + self._factor_names
        if stream.recursion is None or stream.memory.n_sampled >= min(RECALIBRATE, stream.n_rows):
            names += self._calibration_names
        for name in names:
            self.__dict__.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        if name in self._derived_names and "stream_" in self.__dict__:
            if is_view(self):
                return derive(self, name)
            with side_of(self).lock:
                if name not in self.__dict__:
                    self._derive(name)
                if name in self.__dict__:
                    return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def _derived_names(self) -> tuple[str, ...]:
        return ("map_", *self._weight_names, *self._factor_names, *self._calibration_names)

    def _derive(self, name: str) -> None:
        stream = self.stream_
        if stream.recursion is None:
            self._provide()
        elif name in self._calibration_names:
            sample = stream.memory.rows(self._forgetting)
            if sample is not None:
                rng = check_random_state(0)
                self._calibrate(Host(self.n_jobs).left_out(self.map_, sample, self._solution(), rng, self.C_))
        elif name in self._weight_names and hasattr(stream.recursion, "weights"):
            shape = stream.recursion.shape
            beta = stream.recursion.weights()[:, : shape.n_outputs]
            self.beta_, self.intercept_ = (
                (beta[1:], beta[0]) if shape.fit_intercept else (beta, np.zeros(beta.shape[1]))
            )
            self.route_ = stream.recursion.form
            self._narrow = False
        else:
            self._settle(self._solution(), self._summary())

    def _solution(self) -> Any:
        assert self.stream_.recursion is not None
        return self.stream_.recursion.solution()

    def _summary(self) -> Summary:
        recursion = self.stream_.recursion
        assert recursion is not None
        held = isinstance(recursion, Information)
        total = recursion.to_statistics() if held else Statistics.zeros(0, recursion.shape.n_outputs)
        return Summary(total, (), self.stream_.extent)

    def _provide(self) -> None:
        """A model of the rows so far, during the warm-up."""
        stream = self.stream_
        if len(getattr(self, "classes_", "ab")) < 2:
            raise NotFittedError(
                f"{type(self).__name__} has seen one class only, {self.classes_.tolist()[0]!r}; learn another, or "
                "announce all with partial_fit(..., classes=[...])"
            )
        assert stream.waiting is not None
        assert stream.labels is not None
        rows = self._coded(stream.waiting, stream.labels)
        stream.n_provisional = len(rows)
        model: Any = self
        if len(rows) < FEW:
            plain = {k: v for k, v in self._plain.items() if isinstance(getattr(self, k), str)}
            model = clone(self).set_params(**plain)
            model.__dict__.update({k: v for k, v in vars(self).items() if k not in model.get_params(deep=False)})
        with engine.threads_for(len(rows)):
            training = model._training(rows, None, check_random_state(self.random_state))
            held_out = MappedFamily._train(model, training)
        model._calibrate(held_out)
        if model is not self:
            parameters = set(model.get_params(deep=False))
            self.__dict__.update({k: v for k, v in vars(model).items() if k not in parameters})

    def __getstate__(self) -> dict[str, Any]:
        with side_of(self).lock:
            state = dict(super().__getstate__())
            if "stream_" in state:  # copied, because another thread may learn on while this is written
                self.stream_.memory.settle()
                state["stream_"] = deepcopy(self.stream_)
        return state

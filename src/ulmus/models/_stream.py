"""Where a model stands in its stream, and how it gives and takes what it has learned: ``unlearn``, ``merge``."""

import warnings
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.linalg import LinAlgError
from sklearn.base import is_regressor
from sklearn.exceptions import NotFittedError

from ulmus import engine
from ulmus._fingerprint import differing
from ulmus.codings import positions_in
from ulmus.engine import Rows
from ulmus.models._between import learns
from ulmus.models._features import MappedFamily
from ulmus.models._memory import Memory
from ulmus.solvers.covariance import Covariance
from ulmus.solvers.recursive import Information, NotDefiniteError, Recursion
from ulmus.solvers.square_root import SquareRoot
from ulmus.statistics import Extent, design_matrix

FORMS: dict[str, type[Recursion]] = {form.form: form for form in (Information, Covariance, SquareRoot)}


@dataclass
class OnlineState:
    """Where a model stands in its stream."""

    memory: Memory
    announced: bool
    recursion: Any = None
    extent: Extent | None = None
    waiting: Rows | None = None
    labels: np.ndarray | None = None
    n_provisional: int = 0
    n_rows: int = 0
    complete: bool = True


def check_announced(model: Any, classes: np.ndarray) -> None:
    """Refuse classes where there are none, and others than those that the model knows."""
    if is_regressor(model):
        raise ValueError("classes are for classifiers; a regressor takes weights by name, sample_weight=...")
    known = getattr(model, "classes_", None)
    if known is not None and set(classes.tolist()) != set(known.tolist()):
        raise ValueError(
            f"classes={np.unique(classes).tolist()} differ from those that the model knows, {known.tolist()}; "
            "leave classes out: unless the first call announced them all, new ones are learned when they come"
        )


def check_rank(model: Any, rows: Rows) -> None:
    """Refuse first rows whose features have not full rank, where no penalty holds the weights."""
    H = engine.transform(model.map_, rows.X, np.empty((len(rows), model.map_.n_lifted)), n_jobs=model.n_jobs)
    if model._intercept:
        H = np.column_stack([np.ones(len(H)), H])
    if len(H) < H.shape[1] or np.linalg.matrix_rank(H) < H.shape[1]:
        raise deficient(model, len(H))


def deficient(model: Any, n: int) -> ValueError:
    """What to say of them."""
    return ValueError(
        f"C=None needs a first block whose hidden layer has full rank {model.map_.n_lifted}, and its {n} rows "
        "do not give that; start with more (and different) rows, use fewer nodes, or give a penalty such as C=1e6"
    )


def is_plain(model: Any, X: Any, y: Any) -> bool:
    """Whether rows need no conversion, only a look at their shape and for NaN: what single rows are asked."""
    return (
        type(X) is type(y) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and X.shape[1] == model.n_features_in_
        and len(X) == len(y) > 0
        and not hasattr(model, "feature_names_in_")
        and y.ndim == 1
        and y.dtype.kind in "iufb"
        and bool(np.isfinite(X).all())
        and bool(np.isfinite(y).all())
        and (y.dtype.kind != "f" or is_regressor(model) or bool((y == np.floor(y)).all()))
    )


class Exchange(MappedFamily):
    """Taking rows out again, and models together."""

    stream_: OnlineState
    _form: str
    _forgetting: float

    @learns
    def unlearn(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Take rows out again, exactly: the model is then that of the other rows.

        Parameters
        ----------
        X, y, sample_weight : as they were learned
            A row that was learned several times loses its latest copy. One that was never learned is refused: eight
            bytes are kept of every row. After a fit of more than two million rows at once, or of a stream of files,
            they are not, and a warning says that only the definiteness of what is left was checked.

        Returns
        -------
        self
        """
        if "stream_" not in self.__dict__:
            if not hasattr(self, "map_"):
                raise NotFittedError(f"{type(self).__name__} has not learned anything yet; there is nothing to unlearn")
            stream = OnlineState(self._new_memory(), announced=False)
            self._go_on_from_fit(stream)
            self.stream_ = stream
        stream = self.stream_
        rows, labels = self._block(X, y, sample_weight)
        if stream.recursion is None:
            raise ValueError(
                f"unlearn works after the warm-up, and of its {self._warm_up()} rows {len(stream.waiting or [])} have "
                "come so far; fit a new model without these rows"
            )
        rows = self._coded(rows, labels)
        places = stream.memory.find(Memory.hashes(rows, self._identity(rows.T)))
        unknown = np.flatnonzero(places < 0)
        if stream.complete and len(unknown):
            raise ValueError(
                f"{len(unknown)} of {len(rows)} rows were never learned with this target and weight, or are unlearned "
                f"already (the first is row {unknown[0]} of the block); the model is unchanged"
            )
        if len(unknown):
            warnings.warn(
                f"whether {len(unknown)} of {len(rows)} rows were ever learned cannot be told: the model was fitted to "
                "more rows at once than it remembers, or to a stream of files; partial_fit remembers every row",
                UserWarning,
                stacklevel=2,
            )
        if len(unknown) and stream.memory.births.shape[1] and len(stream.memory.starts) > 1:
            raise ValueError(
                f"{len(unknown)} of {len(rows)} rows are not remembered, and the merged models got landmarks at "
                "different times, so that it cannot be told with which features these rows were learned; fit a new "
                "model without them"
            )
        Phi = np.empty((len(rows), self.map_.n_lifted))
        self.map_.lift(rows.X, Phi)
        unborn = stream.memory.unborn(places)
        Phi[:, Phi.shape[1] - unborn.shape[1] :][unborn] = 0.0
        weight = rows.weight
        if self._forgetting < 1.0:
            if not stream.complete:
                raise ValueError("unlearn with forgetting needs a model that learned all its rows by partial_fit")
            age = self._forgetting ** stream.memory.age(places)
            weight = age if weight is None else weight * age
        try:
            stream.recursion.remove(design_matrix(Phi, rows.T, weight))
        except (NotDefiniteError, LinAlgError) as error:
            raise ValueError(
                f"these rows cannot be unlearned: without them the system is not positive definite ({error}). They "
                "were not learned with these values, or they are all that the model knows of a direction; the model "
                "is unchanged"
            ) from error
        stream.memory.remove(places[places >= 0])
        stream.n_rows -= len(rows)
        self._outdated()
        return self

    def merge(self, models: Any) -> Self:
        """Learn all that other models have learned, exactly, without their rows.

        Parameters
        ----------
        models : model or iterable of models
            Of the same class, with the same map and penalty: copies (see :meth:`blank_copy`) that have learned apart.

        Returns
        -------
        self
        """
        # copied first, so that no lock of another model is waited for under this one's
        copies = [deepcopy(other) for other in (models if isinstance(models, Iterable) else [models])]
        self._merge(copies)
        return self

    @learns
    def _merge(self, copies: list[Any]) -> None:
        stream = self._mergeable(self).stream_
        for other in copies:
            self._check_same(self._mergeable(other))
        seen = [one.classes_[one.present_] for one in (self, *copies)] if hasattr(self, "present_") else []
        for other in copies:
            if hasattr(self, "classes_"):
                for one, labels in ((self, other.classes_), (other, self.classes_)):
                    M = one._grow(labels)
                    if M is not None:
                        one._recode(M)
            stream.recursion.merge(other.stream_.recursion)
            stream.memory.merge(other.stream_.memory)
            stream.extent = _joined(stream.extent, other.stream_.extent)
            stream.n_rows += other.stream_.n_rows
            stream.complete &= other.stream_.complete
        if seen:
            self.present_ = np.unique(positions_in(self.classes_, np.concatenate(seen)))
        self._outdated()

    @staticmethod
    def _mergeable(model: Any) -> Any:
        if "stream_" not in model.__dict__ and hasattr(model, "map_"):
            stream = OnlineState(model._new_memory(), announced=False)
            model._go_on_from_fit(stream)
            model.stream_ = stream
        if "stream_" not in model.__dict__ or model.stream_.recursion is None:
            raise ValueError(f"merge needs models whose map is fixed; this {type(model).__name__} has none yet")
        return model

    def _check_same(self, other: Any) -> None:
        """Whether two models speak of the same features."""
        if type(other) is not type(self):
            raise ValueError(f"cannot merge {type(other).__name__} into {type(self).__name__}: the models differ")
        mine, its = self.stream_.recursion.shape, other.stream_.recursion.shape
        for name in ("n_features", "C", "fit_intercept"):
            if getattr(mine, name) != getattr(its, name):
                raise ValueError(f"cannot merge: {name} is {getattr(mine, name)} here and {getattr(its, name)} there")
        if self._forgetting != other._forgetting or self._form != other._form:
            raise ValueError("cannot merge models with different forgetting or form")
        same_class = type(self.map_) is type(other.map_)
        found = differing(self.map_, other.map_) if same_class else "their class"
        if found is not None:
            raise ValueError(
                f"cannot merge: the maps differ (in {found}); models that are to be merged must be copies of one "
                "model, see blank_copy()"
            )

    @learns
    def blank_copy(self) -> Self:
        """A model with the same map and parameters that has learned nothing: for rows elsewhere, to be merged later.

        Returns
        -------
        model of the same class
        """
        copy = deepcopy(self._mergeable(self))
        stream = copy.stream_
        shape = stream.recursion.shape
        if shape.C is None:
            raise ValueError("a blank copy needs a penalty: without one a model cannot stand on no rows")
        stream.recursion = FORMS[self._form](shape)
        stream.memory, stream.extent, stream.n_rows, stream.complete = self._new_memory(), None, 0, True
        copy._outdated()
        return copy


def _joined(a: Extent | None, b: Extent | None) -> Extent | None:
    return a + b if a is not None and b is not None else (a or b)

"""Learning from rows that come in blocks or one by one: ``partial_fit``, ``unlearn``, ``merge``.

A stream begins with a warm-up: rows are kept until the map can be drawn and its parameters chosen from them. From then
on rows go into the model's learner (:mod:`ulmus.online`), and weights, leverages and calibration are computed when
somebody asks for them.
"""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from ulmus.backend import Host
from ulmus.calibration import CALIBRATION_ROWS
from ulmus.codings import Numbers
from ulmus.engine import Rows
from ulmus.features.sampling import row_hashes
from ulmus.models._metric import metric_for_blocks
from ulmus.models.base import Model
from ulmus.models.blocks import COPIES, check_announced, check_same, derived, is_plain
from ulmus.models.choice import Choice
from ulmus.models.fitted import Derived, Fitted
from ulmus.models.reading import checked_weight, of_positive_weight, seen_through
from ulmus.online import FORMS, Learner, Memory, check_rank, guard_of, stacked, teaching
from ulmus.online.learner import aged
from ulmus.solvers.recursive import Shape

#: How much more rows there must be, during the warm-up, to choose again.
MORE = 1.5
#: Rows of a ``fit`` of which hashes are kept, at most: 8 bytes of each, in memory and in files.
REMEMBERED = 2_000_000
#: Rows that have to come after a ``fit`` before its calibration is replaced.
RECALIBRATE = 200


class Incremental(Model):
    """What a model with a feature map offers that owns a learner (``stream_``)."""

    stream_: Learner
    fitted_ = Derived()
    #: How a model learns on that has no parameters for it: rows of the warm-up, form of the recursion, forgetting.
    warm_up: ClassVar[Any] = 500
    form: ClassVar[Any] = "information"
    forgetting: ClassVar[Any] = 1.0

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
        with teaching(self):
            self._learn_block(X, y, classes, sample_weight)
        return self

    def unlearn(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Remove rows, exactly: what is left is the model of the other rows.

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
        with teaching(self):
            self._refuse("unlearn")
            learner = self._learner_now()
            if learner is None:
                raise NotFittedError(f"{type(self).__name__} has not learned anything yet; there is nothing to unlearn")
            rows, labels = self._block(learner, X, y, sample_weight)
            if not learner.learning:
                raise ValueError(
                    f"unlearn works after the warm-up, and of its {self._warm_up_rows()} rows "
                    f"{len(learner.waiting or [])} have come so far; fit a new model without these rows"
                )
            learner.remove(self._coded(learner.targets.seen(labels), rows, labels, learner), self.forgetting)
            self._go_on(learner)
        return self

    def merge(self, models: Any) -> Self:
        """Add what other models have learned, exactly, without their rows.

        Parameters
        ----------
        models : model or iterable of models
            Of the same class, with the same map and penalty: copies (see :meth:`blank_copy`) that have learned apart.

        Returns
        -------
        self
        """
        self._refuse("merge")
        # copied first, so that no lock of another model is waited for under this one's
        copies = [deepcopy(other) for other in (models if isinstance(models, Iterable) else [models])]
        with teaching(self):
            learner, others = self._mergeable(), []
            for other in copies:
                if type(other) is not type(self):
                    raise ValueError(
                        f"cannot merge {type(other).__name__} into {type(self).__name__}: the models differ; {COPIES}"
                    )
                others.append(other._mergeable())
                check_same(self, learner, other, others[-1])
            before = learner.targets
            for each in others:
                learner.merge(each)
            self._go_on(learner, before)
        return self

    def blank_copy(self) -> Self:
        """A copy with the same map and parameters that has learned no rows, to be trained elsewhere and merged later.

        Returns
        -------
        model of the same class
        """
        with teaching(self):
            copy = deepcopy(self)
        copy.stream_ = copy._mergeable().blank(self.form, self._new_memory())
        copy._forget("fitted_")
        return copy

    # Taking rows in

    def _learn_block(self, X: Any, y: Any, classes: Any, sample_weight: Any, learner: Learner | None = None) -> None:
        """Learn rows, into a copy of the learner where one is given; what is refused changes nothing."""
        self._refuse("partial_fit")
        if classes is not None:
            check_announced(self, np.asarray(classes))
        blank = "stream_" not in vars(self) and "fitted_" not in vars(self)
        if "stream_" not in vars(self):
            self._validate_params()
        learner = learner or self._learner_now() or self._new_learner(classes)
        try:
            rows, labels = self._block(learner, X, y, sample_weight, reset=blank)
            before = learner.targets
            if learner.learning:
                self._go_on(self._taught(learner, rows, labels), before)
            else:
                self._wait(learner, rows, labels, y)
        except Exception:
            if blank:
                self._forget("n_features_in_", "feature_names_in_")
            raise

    def _block(
        self, learner: Learner, X: Any, y: Any, sample_weight: Any, reset: bool = False
    ) -> tuple[Rows, np.ndarray]:
        """Checked rows, without target columns yet, and their labels (or targets) as they came."""
        if reset or not is_plain(self, X, y):
            X, y = self._validate(X, y, reset=reset)
            y = np.asarray(y)
        X = seen_through(learner.metric, X)
        weight, X, y = of_positive_weight(checked_weight(sample_weight, X), X, y)
        return Rows(X, np.empty((len(y), 0)), weight, None if weight is None else np.minimum(weight, 1.0)), y

    def _coded(self, targets: Any, rows: Rows, y: np.ndarray, learner: Learner | None = None) -> Rows:
        """Rows with target columns, and the weights of their classes."""
        T, balance = self._code(targets, y, None, block=True)
        if learner is not None and learner.learning and isinstance(targets, Numbers):
            known = learner.recursion.shape.n_outputs
            if T.shape[1] != known:
                raise ValueError(f"y has {T.shape[1]} outputs, but the model has learned {known}")
        rows = Rows(rows.X, np.asarray(T, dtype=np.float64), rows.weight, rows.unit)
        return rows if balance is None else rows.reweighted(balance)

    def _taught(self, learner: Learner, rows: Rows, labels: np.ndarray) -> Learner:
        """The learner with these rows in its recursion."""
        targets, M = learner.targets, None
        if not (learner.announced or targets.knows(labels)):
            targets, M = targets.grown(labels)
        targets = targets.seen(labels)
        rows = self._coded(targets, rows, labels, learner)
        weighed, errors = self._weighed(learner, rows)
        taken, extent = self._material(learner, weighed), self._family.extent(learner.plan.features, rows)
        # nothing fails from here on
        learner.recode(targets, M)
        learner.errors = errors
        learner.add(rows, taken, extent, self.forgetting)
        return learner

    def _material(self, learner: Learner, weighed: Rows) -> Any:
        sums = partial(Host(self.n_jobs).statistics, learner.plan.features)
        return learner.material(weighed, self.forgetting, self.n_jobs, sums)

    def _weighed(self, learner: Learner, rows: Rows) -> tuple[Rows, np.ndarray | None]:
        """Rows with the weights under which they are learned, and recent errors where these decide about them."""
        return rows, None

    def _wait(self, learner: Learner, rows: Rows, labels: np.ndarray, given: Any) -> None:
        """The warm-up: keep the rows, and begin when there are enough."""
        targets = learner.targets
        if targets is None:
            targets = self._targets_of(labels, given)
        elif is_classifier(self):
            targets = (targets if learner.announced else targets.grown(labels)[0]).seen(labels)
        several = len(getattr(targets, "classes", "ab")) >= 2
        if several or is_regressor(self):
            self._code(targets, labels, None, block=True)
        waiting = rows if learner.waiting is None else stacked([learner.waiting, rows])
        labels = labels if learner.labels is None else np.concatenate([learner.labels, labels])
        if len(waiting) >= self._warm_up_rows() and several:
            learner = replace(learner, targets=targets, waiting=None, labels=None)
            self._go_on(self._started(learner, self._coded(targets, waiting, labels)))
            return
        self.stream_ = replace(learner, targets=targets, waiting=waiting, labels=labels)
        if len(waiting) >= MORE * learner.n_provisional:
            self._forget("fitted_")

    def _warm_up_rows(self) -> int:
        """Rows of the warm-up; none where nothing is left to them."""
        return int(self._family.recipe(self).warm_up(self.warm_up, self.C))

    def _started(self, learner: Learner, rows: Rows, folds: np.ndarray | None = None, rng: Any = None) -> Learner:
        """The learner with its map fixed on these rows, which it has learned."""
        rng = check_random_state(self.random_state) if rng is None else rng
        sample = self._training(learner.targets, aged(rows, self.forgetting), folds, rng, metric=learner.metric)
        plan: Choice = replace(self._family.begin(self, sample), statistics=None)
        if plan.C is None:
            check_rank(plan.features, rows, self._intercept, self.n_jobs)
        shape = Shape(plan.features.n_features_out, rows.T.shape[1], plan.C, self._intercept)
        learner = replace(learner, plan=plan, recursion=FORMS[self.form](shape), extent=None)
        weighed, learner.errors = self._weighed(learner, rows)
        extent = self._family.extent(plan.features, rows)
        learner.add(rows, self._material(learner, weighed), extent, self.forgetting)
        return learner

    # The learner

    def _new_memory(self) -> Memory:
        return Memory(CALIBRATION_ROWS, latest=self.forgetting < 1.0)

    def _new_learner(self, classes: Any = None) -> Learner:
        learner = Learner(self._new_memory(), classes is not None, metric=metric_for_blocks(self))
        learner.targets = None if classes is None else self._announced(classes)
        return learner

    def _learner_now(self) -> Learner | None:
        """The learner of this model, or one that stands where ``fit`` has left it; None where nothing was learned."""
        learner, fitted = vars(self).get("stream_"), vars(self).get("fitted_")
        if learner is not None or fitted is None:
            return learner
        if fitted.weights.learned is None:
            raise ValueError(
                f"the route {fitted.weights.route!r} keeps no sums that more rows could be added to or taken from; fit "
                'with solver="direct", or start a new model with partial_fit'
            )
        w = fitted.weights
        plan = Choice(w.width, w.C, w.features, tuning=w.tuning)
        learner = Learner(self._new_memory(), announced=False, plan=plan, targets=fitted.targets, metric=fitted.metric)
        learner.certainty = fitted.certainty
        return learner.going_on_from(w, fitted.keys, self.form, self._intercept)

    def _mergeable(self) -> Learner:
        learner = self._learner_now()
        if learner is None or not learner.learning:
            raise ValueError(
                f"merge needs models whose map is fixed; this {type(self).__name__} has none yet: it takes "
                f"{self._warm_up_rows()} rows. M{COPIES[1:]}"
            )
        return learner

    # What is derived when asked for

    def _go_on(self, learner: Learner, before: Any = None) -> None:
        """Be a model whose learner has moved on; what was derived from its earlier state is gone."""
        known, kept = vars(self).get("fitted_"), learner.certainty
        if kept is None and known is not None:
            kept, before = known.certainty, known.targets
        if learner.memory.n_sampled >= min(RECALIBRATE, learner.n_rows):
            kept = None
        classes = getattr(learner.targets, "classes", None)
        if classes is not None and kept is not None and before is not None and len(before.classes) < len(classes):
            kept = kept.placed(np.searchsorted(classes, before.classes), len(classes))
        learner.certainty = kept
        self.stream_ = learner
        self._forget("fitted_")

    def _now(self, *needs: str) -> Fitted:
        known: Fitted | None = vars(self).get("fitted_")  # one look: the state between two blocks
        if known is not None and known.has(*needs):
            return known
        if "stream_" not in vars(self):
            return super()._now(*needs)
        if self._is_blank:
            raise NotFittedError(
                f"this {type(self).__name__} is a blank copy that has learned no row; call partial_fit, or merge it "
                "with one that has, before it predicts"
            )
        guard = guard_of(self)
        with guard.lock:
            guard.check()
            known = vars(self).get("fitted_")
            if known is None or not known.has(*needs):
                known = derived(self, self.stream_, needs, known)
                self.fitted_ = known
            return known

    def _adopt(self, fitted: Fitted, rows: Rows | None = None, learner: Learner | None = None) -> None:
        if learner is not None:
            learner = replace(learner, targets=fitted.targets, metric=fitted.metric)
        elif rows is not None and fitted.weights.learned is not None and len(rows) <= REMEMBERED:
            identity = fitted.targets.identity(rows.T)
            fitted = replace(fitted, keys=row_hashes(rows, identity, self.n_jobs))
        self.fitted_ = fitted
        if learner is not None:
            self.stream_ = learner
        else:
            self._forget("stream_")

    @property
    def _is_blank(self) -> bool:
        stream = vars(self).get("stream_")
        return stream is not None and stream.learning and not stream.n_rows

    def _known(self, name: str) -> Any:
        held = {"weights": "plan"}.get(name, name)
        return getattr(self.stream_, held) if "stream_" in vars(self) else super()._known(name)

    def __getstate__(self) -> dict[str, Any]:
        with guard_of(self).lock:
            state = dict(super().__getstate__())
            if "stream_" in state:  # copied, because another thread may learn on while this is written
                self.stream_.memory.flush()
                state["stream_"] = deepcopy(self.stream_)
        return state

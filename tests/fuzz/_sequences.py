"""Online models under any sequence of events, against a refit from the rows that are left."""

import copy
import pickle
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import ulmus


@dataclass
class Row:
    """A row that was learned: its age counts the rows after it, ``width`` the features that it was learned with."""

    x: np.ndarray
    y: float
    w: float
    age: int
    width: int


class Twin:
    """A model, and the rows that it has, in the order in which it remembers them."""

    def __init__(self, model, rows=()):
        self.model, self.rows = model, list(rows)

    def copied(self, model):
        return Twin(model, [copy.copy(row) for row in self.rows])

    def learn(self, X, y, w, **options):
        self.model.partial_fit(X, y, sample_weight=w, **options)
        width = self.model.map_.n_features_out
        for row in self.rows:
            row.age += len(y)
        weights = np.ones(len(y)) if w is None else w
        self.rows += [Row(X[i], y[i], weights[i], len(y) - 1 - i, width) for i in range(len(y))]

    def unlearn(self, rng):
        """Some rows; of equal ones the latest goes."""
        count = int(rng.integers(1, max(2, len(self.rows) // 3)))
        gone = sorted(rng.choice(len(self.rows), min(count, len(self.rows) - 1), replace=False))
        picked = [self.rows[i] for i in gone]
        X, y, w = (np.array([getattr(r, name) for r in picked]) for name in ("x", "y", "w"))
        before = self.answers()
        try:
            self.model.unlearn(X, y, w)
        except ValueError as error:
            if "cannot be unlearned" not in str(error):
                raise
            np.testing.assert_array_equal(self.answers(), before)
            return False
        for row in picked:
            same = [i for i, r in enumerate(self.rows) if (r.x == row.x).all() and (r.y, r.w) == (row.y, row.w)]
            del self.rows[same[-1]]
        return True

    def merge(self, other):
        self.model.merge(other.model)
        self.rows = [copy.copy(row) for row in other.rows] + self.rows

    def answers(self):
        Q = np.random.default_rng(0).normal(size=(20, 3)) * 2.0
        return self.model._scores_of(Q)

    def expected(self, forgetting, C, intercept):
        """Ridge on the rows that are left, each with its features and its weight."""
        Q = np.random.default_rng(0).normal(size=(20, 3)) * 2.0
        features = self.model.map_
        X = np.array([r.x for r in self.rows])
        Phi = features.transform(X)
        for i, row in enumerate(self.rows):
            Phi[i, row.width :] = 0.0
        w = np.array([r.w * forgetting**r.age for r in self.rows])
        T = self.targets()
        A, PQ, penalty = Phi, features.transform(Q), np.full(Phi.shape[1], 1.0 / C)
        if intercept:
            A, PQ = np.column_stack([np.ones(len(A)), A]), np.column_stack([np.ones(len(Q)), PQ])
            penalty = np.append(0.0, penalty)
        # the penalty as rows, so that no digit is lost to squaring
        root = np.sqrt(w)[:, None]
        stacked, targets = (
            np.vstack([root * A, np.diag(np.sqrt(penalty))]),
            np.vstack([root * T, np.zeros((len(penalty), T.shape[1]))]),
        )
        beta = np.linalg.lstsq(stacked, targets, rcond=None)[0]
        condition = np.linalg.cond(stacked)
        return PQ @ beta, condition

    def targets(self):
        y = np.array([r.y for r in self.rows])
        if not hasattr(self.model, "classes_"):
            return y[:, None]
        classes = self.model.classes_
        if len(classes) == 2:
            return np.where(y == classes[1], 1.0, -1.0)[:, None]
        return np.where(y[:, None] == classes, 1.0, -1.0)


def drawn_model(rng):
    forgetting = float(rng.choice([1.0, 1.0, 0.999, 0.98, 0.9, 0.6]))
    C = float(10.0 ** rng.uniform(-2, 3))
    intercept = bool(rng.random() < 0.5)
    seed = int(rng.integers(1000))
    size = int(rng.integers(2, 25))
    kind = str(rng.choice(["OSELM", "OSELM", "OSELM classes", "ELM", "NKELM", "NKELM"]))
    common = {"C": C, "fit_intercept": intercept, "random_state": seed, "n_jobs": 1}
    if kind.startswith("OSELM"):
        form = str(rng.choice(["root", "root", "covariance", "information"]))
        cls = ulmus.OSELMClassifier if "classes" in kind else ulmus.OSELMRegressor
        warm_up = int(rng.choice([1, 20, 50]))
        model = cls(size, slope=1.0, form=form, forgetting=forgetting, warm_up=warm_up, **common)
        return model, f"{kind} {form}", forgetting, C, intercept, warm_up
    if kind == "ELM":
        return ulmus.ELMRegressor(size, slope=1.0, **common), kind, 1.0, C, intercept, 500
    return ulmus.NKELMRegressor(size, gamma=0.3, **common), kind, 1.0, C, intercept, 500


def block(rng, twin, labels):
    n = int(rng.choice([1, 1, 2, 5, 20, 60, 300]))
    X = rng.normal(size=(n, 3))
    if twin.rows and rng.random() < 0.2:  # copies of rows that are known
        X = np.array([twin.rows[i].x for i in rng.integers(len(twin.rows), size=n)])
    y = np.sin(X[:, 0]) + X[:, 1] if labels is None else rng.choice(labels, n)
    w = None if rng.random() < 0.6 else rng.integers(1, 4, n).astype(float)
    return X, y, w


def through_a_file(model):
    with tempfile.TemporaryDirectory() as folder:
        ulmus.save(model, Path(folder) / "model.ulmus")
        return ulmus.load(Path(folder) / "model.ulmus")


COPIES = (copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), through_a_file)


def online_sequence(rng):
    """After every few events the answers are those of a refit."""
    model, kind, forgetting, C, intercept, warm_up = drawn_model(rng)
    labels = np.arange(2) if "classes" in kind else None
    n = max(warm_up, 30) + int(rng.integers(0, 100))
    X = rng.normal(size=(n, 3))
    y = np.sin(X[:, 0]) + X[:, 1] if labels is None else np.arange(n) % 2
    twin, told = Twin(model), [f"{kind} C={C:.3g} forgetting={forgetting} intercept={intercept}"]
    twin.learn(X, y, None)
    others, largest = [], 1.0
    for _ in range(int(rng.integers(2, 12))):
        event = str(rng.choice(["learn", "learn", "learn", "unlearn", "merge", "copy", "novelty", "class", "read"]))
        told.append(event)
        if event == "learn":
            twin.learn(*block(rng, twin, labels))
        elif event == "unlearn" and len(twin.rows) > 2:
            twin.unlearn(rng)
        elif event == "merge":
            other = Twin(twin.model.blank_copy())
            for _ in range(int(rng.integers(1, 3))):
                other.learn(*block(rng, twin, labels))
            others.append(other)
            twin.merge(other)
        elif event == "copy":
            twin = twin.copied(COPIES[rng.integers(3)](twin.model))
        elif event == "novelty" and kind == "NKELM":
            far, y_far, w = block(rng, twin, None)
            twin.learn(far * 3.0, y_far, w, novelty=float(rng.uniform(0.05, 0.9)))
        elif event == "class" and labels is not None:
            labels = np.append(labels, labels[-1] + 1)
            twin.learn(*block(rng, twin, labels))
        elif event == "read":
            twin.answers()
        if rng.random() < 0.5 or event == "unlearn":
            largest = max(largest, agree(twin, forgetting, C, intercept, told))
    agree(twin, forgetting, C, intercept, told)
    for other in others[-1:]:  # a merged model stays what it was
        agree(other, forgetting, C, intercept, [*told, "the other"])
    return kind


def agree(twin, forgetting, C, intercept, told):
    expected, condition = twin.expected(forgetting, C, intercept)
    found = twin.answers()
    size = np.abs(expected).max() + np.abs(twin.targets()).max()
    # covariance and information square the condition, and the covariance's round-off grows from step to step
    bound = 1e-9 + 100 * np.finfo(float).eps * condition**2
    error = np.abs(found - expected).max() / size
    assert error <= bound, f"off by {error:.2e} (bound {bound:.1e}, condition {condition:.1e}): {', '.join(told)}"
    return condition

"""Ridge on features in all forms, ELM models, and the recursion, against multiple precision."""

import warnings

import mpmath
import numpy as np

import ulmus
from ulmus.engine import Precomputed, Rows
from ulmus.features.sampling import left_out_together
from ulmus.models.families import CROWDED
from ulmus.solvers.covariance import Covariance
from ulmus.solvers.path import RidgePath
from ulmus.solvers.recursive import Information, NotDefiniteError, Shape
from ulmus.solvers.ridge import Problem, fit_dual, fit_gram, fit_sums, fit_triangular
from ulmus.solvers.square_root import SquareRoot
from ulmus.statistics import Statistics, design_matrix

from ._draw import (
    CORRECTED,
    EPS,
    EPS32,
    PROMISE,
    SLACK,
    as_given,
    compare,
    left_out_residuals,
    moved,
    nudged,
    nudged_exactly,
    problem,
)
from ._exact import Ridge, exact_sqrt, exactly, left_out, rounded
from ._exact import studentised as exact_studentised

PROMISE32 = 1e-3


class Expected:
    """Exact predictions at Q, leverages there, and rows left out, with what each may be off by.

    ``wobble`` is the round-off of the features; below ``least`` they are 0. ``squared`` says that sums of squares were
    solved, ``corrected`` that corrections came where the condition number asks for them.
    """

    def __init__(self, rng, Phi, T, w, Q, C, intercept, *, unit=None, eps=EPS, promise=PROMISE, wobble=EPS, least=0.0):
        self.n, D = Phi.shape
        self.p = self.n + D
        weight = np.ones(self.n) if w is None else w
        self.size = np.sqrt((weight[:, None] * T**2).sum(axis=0))
        Phi_, T_, Q_, w_ = exactly(Phi, T, Q, weight)
        root = exact_sqrt(w_)[:, None]
        one = exactly(np.ones((self.n, 1)), np.ones((len(Q), 1)))
        M, Q_ = (np.concatenate([one[0], Phi_], 1), np.concatenate([one[1], Q_], 1)) if intercept else (Phi_, Q_)
        penalty = exactly(np.concatenate([[0.0] * intercept, np.ones(D)]))[0] * (0 if C is None else 1 / mpmath.mpf(C))
        u_ = exactly(weight if unit is None else unit)[0]
        self.which = rng.choice(self.n, size=min(3, self.n), replace=False) if unit is not None else []

        def answer(M, T):
            found = Ridge(M, T, penalty)
            out = [left_out(M, T, penalty, w_, u_, i) for i in self.which]
            kept = np.array(out, dtype=object).reshape(len(out), T.shape[1])
            left = [1 - u_[i] / w_[i] * (M[i] @ found.inverse @ M[i]) for i in self.which]
            return found.predict(Q_), found.leverage(Q_), kept, np.array(left, dtype=object)

        def nudge(M, T):
            return nudged_exactly(rng, M, max(eps, wobble)), nudged_exactly(rng, T, eps)

        inputs = (root * M, root * T_)
        (self.f, self.h, self.kept, self.left), self.move = moved(answer, inputs, nudge)
        found = Ridge(*inputs, penalty)
        inverse, K = rounded(found.inverse)[intercept:, intercept:], rounded(found.K)[intercept:, intercept:]
        self.condition = float(np.abs(K).sum(axis=0).max() * np.abs(inverse).sum(axis=0).max())
        self.whole_condition = float(np.linalg.norm(rounded(found.K), 1) * np.linalg.norm(rounded(found.inverse), 1))
        self.beta = rounded(found.beta)
        self.dot = EPS * self.p * (np.abs(rounded(Q_)) @ np.abs(self.beta)) + least * np.abs(self.beta).sum(axis=0)
        self.loss, self.promise, self.eps = EPS * self.condition, promise, eps

    def share(self, squared, corrected):
        """Of the fitted values' size, what weights may be off by."""
        costly = squared and (not corrected or self.loss <= 10 * CORRECTED)
        return self.promise + (self.p * self.eps * self.condition if costly else 0.0)

    def predictions(self, given, words, squared=True, corrected=True):
        reach = np.sqrt(np.maximum(self.h, 0.0))[:, None] * self.size
        allowed = SLACK * self.p * self.move[0] + reach * self.share(squared, corrected) + self.dot
        compare("a prediction", np.reshape(given, self.f.shape), self.f, allowed, self.told(words))

    def leverages(self, given, words, squared=True, cancelled=0.0):
        """``cancelled`` is the size of what the dual form subtracts, ``C ‖φ‖²``."""
        relative = self.promise + (self.p * self.eps * self.condition if squared else 0.0)
        allowed = SLACK * self.p * self.move[1] + relative * self.h + self.p * self.eps * cancelled
        compare("a leverage", given, self.h, allowed, self.told(words))

    def rows_left_out(self, given, words, squared=True):
        """Predictions of ``which`` by models without them."""
        if (self.left < 1e-6).any():
            return  # the row is all that is known of a direction: what is left is round-off
        relative = self.promise + (self.p * self.eps * self.condition if squared else 0.0)
        reach = np.sqrt(np.maximum(1.0 - self.left, 0.0) + 1.0)[:, None] * self.size / self.left[:, None] ** 2
        allowed = SLACK * self.p * self.move[2] + relative * reach
        compare("a row left out", given, self.kept, allowed, self.told(words))

    def told(self, words):
        return f"{words}; condition {self.condition:.1e}"


def _features(rng, case):
    """Features of rows and queries with a drawn spectrum, and their number."""
    D = int(rng.integers(1, 9))
    A = rng.normal(size=(len(case.X) + len(case.Q), D))
    A = A @ np.diag(10.0 ** -rng.uniform(0, rng.uniform(0, 6), size=D)) @ np.linalg.qr(rng.normal(size=(D, D)))[0]
    if rng.random() < 0.2:
        A += 10.0 ** rng.uniform(0, 3)
    A *= case.unit
    return A[: len(case.X)], A[len(case.X) :], D


def _penalty(rng, size, n):
    """C over all regimes: from weights that vanish to rows that are interpolated."""
    return float(10.0 ** rng.uniform(-4, 10) / (size**2 * n))


def ridge(rng):
    case = problem(rng)
    Phi, Q, D = _features(rng, case)
    C, intercept = _penalty(rng, np.abs(Phi).max(), len(Phi)), bool(rng.random() < 0.5)
    rows = Rows(Phi, case.T, case.w, None if case.w is None else np.minimum(case.w, 1.0))
    unit = np.ones(len(Phi)) if rows.unit is None else rows.unit
    expected = Expected(rng, Phi, case.T, case.w, Q, C, intercept, unit=unit)
    form = rng.choice(["gram", "dual", "triangular", "sums", "auto", "path"])
    words = f"ridge, form {form}, {D} features, C {C:.2e}, intercept {intercept}, {case.words}"
    problem_ = Problem(Precomputed(D), rows, C, intercept, n_jobs=1)
    if form == "path":
        path = RidgePath(Statistics.of(Phi, case.T, case.w), fit_intercept=intercept)
        beta, b = path.weights(np.array([C]))
        expected.predictions(Q @ beta[:, 0] + b[0], words, corrected=False)
        P, _ = path.leave_one_out(np.array([C]))(Phi, case.T, rows.unit)
        expected.rows_left_out(P[0][expected.which], words)
        return "ridge path"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if form == "sums":
            found = fit_sums(Statistics.of(Phi, case.T, case.w), C, intercept)
        else:
            fit = {"gram": fit_gram, "dual": fit_dual, "triangular": fit_triangular, "auto": Problem.solve}[form]
            found = fit(problem_)
    if found is None:
        assert expected.loss > 1e-4, f"sums of squares were given up for nothing; {expected.told(words)}"
        return "ridge gram given up"
    squared, corrected = form != "triangular", form != "sums"
    if form == "sums" and expected.loss > 100 * CORRECTED:
        assert told, f"lost digits were not told; {expected.told(words)}"
    expected.predictions(Q @ found.beta + found.intercept, words, squared, corrected)
    cancelled = C * (np.square(Q) + np.square(Phi).max(axis=0)).sum(axis=1) if found.form == "dual" else 0.0
    expected.leverages(found.leverage(Q), words, squared, cancelled)
    return f"ridge {form}"


ACTIVATIONS = ("tanh", "sigmoid", "sine", "relu", "softplus", "gaussian", "multiquadric")


def elm(rng):
    case = problem(rng)
    single = rng.random() < 0.25
    X, Q = (A.astype(np.float32) for A in (case.X, case.Q)) if single else (case.X, case.Q)
    C, intercept = float(10.0 ** rng.uniform(-3, 8)), bool(rng.random() < 0.5)
    options = {
        "n_hidden": int(rng.integers(1, 12)),
        "activation": str(rng.choice(ACTIVATIONS)),
        "direct_links": bool(rng.random() < 0.2),
        "slope": float(10.0 ** rng.uniform(-1, 1)),
    }
    words = f"ELM {options}, C {C:.2e}, intercept {intercept}, float32 {single}, {case.words}"
    model = ulmus.ELMRegressor(**options, C=C, fit_intercept=intercept, random_state=int(rng.integers(99)), n_jobs=1)
    model.fit(as_given(rng, X), case.y, sample_weight=case.w)
    Phi, at = (model.map_.transform(A.astype(float)) for A in (X, Q))
    unit = left_out_together(X, case.T, case.w)
    kind = {"eps": EPS32, "promise": PROMISE32, "least": float(np.finfo(np.float32).tiny)} if single else {}
    kind["wobble"] = wobble = feature_round_off(rng, model.map_, X, Phi, kind.get("eps", EPS))
    expected = Expected(rng, Phi, case.T, case.w, at, C, intercept, **kind)
    expected.predictions(model.predict(Q), words)
    if not single and len(model.spread_.residuals) == len(Phi):  # of much weight a sample is taken
        studentised(rng, model, Phi, case, C, intercept, unit, wobble, words)
    return "ELM float32" if single else "ELM"


def feature_round_off(rng, features, X, Phi, eps):
    """How far features move, as a share of the largest, when inputs move by round-off."""
    other = features.transform(nudged(rng, X.astype(float), eps))
    return float(np.abs(other - Phi).max() / np.abs(Phi).max(initial=1e-300))


def studentised(rng, model, Phi, case, C, intercept, unit, wobble, words):
    """``e₋ᵢ / √(1 + h₋ᵢ)`` of models without the row, sorted, is what the intervals of a regressor stand on.

    Where weights have hardly fewer degrees of freedom than rows, other fits may be worse, and none is better.
    """
    unit = np.ones(len(Phi)) if unit is None else unit
    expected = Expected(rng, Phi, case.T, case.w, Phi, C, intercept, wobble=wobble)
    left = 1 - unit * expected.h
    if (left < 1e-6).any():
        return
    M = np.column_stack([np.ones((len(Phi), int(intercept))), Phi])
    M_, T_, w_, u_ = exactly(M, case.T, case.weight, unit)
    penalty = exactly(np.concatenate([[0.0] * intercept, np.ones(Phi.shape[1])]))[0] / mpmath.mpf(C)
    root = exact_sqrt(w_)[:, None]
    exact = rounded(exact_studentised(root * M_, root * T_, penalty, w_, u_))
    relative = expected.share(True, True) + expected.p * EPS * expected.condition
    worst = SLACK * expected.p * (expected.move[0] + expected.size * expected.move[1][:, None]) / left[:, None] ** 1.5
    allowed = worst.max(axis=0) + relative * (expected.size / left.min() ** 1.5) + expected.dot.max(axis=0)
    given, words = left_out_residuals(model), expected.told(words)
    if 1 - left.mean() <= CROWDED:
        compare("a residual left out", given, np.sort(exact, axis=0), allowed, words)
        return
    given, exact = np.sort(np.abs(given), axis=0), np.sort(np.abs(exact), axis=0)
    compare("a residual left out, at least", np.minimum(given, exact), exact, allowed, words)


FORMS = {"information": Information, "covariance": Covariance, "root": SquareRoot}


class Life:
    """A recursion, and how much of every row is left in it."""

    def __init__(self, rng, learner, case, Phi, forgetting):
        self.rng, self.learner, self.case, self.Phi, self.forgetting = rng, learner, case, Phi, forgetting
        self.alive = np.zeros(len(Phi))
        self.refused = 0

    def design(self, which, faded=1.0):
        return design_matrix(self.Phi[which], self.case.T[which], self.case.weight[which] * faded)

    def learn(self, block):
        if self.forgetting == 1.0 and self.alive.any() and self.rng.random() < 0.15:
            other = type(self.learner)(self.learner.shape)
            other.add(self.design(block))
            self.learner.merge(other)
        else:
            self.learner.add(self.design(block), self.forgetting)
        self.alive *= self.forgetting ** len(block)
        self.alive[block] = self.forgetting ** np.arange(len(block) - 1, -1, -1.0)

    def unlearn(self):
        gone = self.rng.choice(np.flatnonzero(self.alive), size=int(self.rng.integers(1, 3)), replace=False)
        try:
            self.learner.remove(self.design(gone, self.alive[gone]))
            self.alive[gone] = 0.0
        except (NotDefiniteError, np.linalg.LinAlgError):  # all that is known of a direction; nothing has changed
            self.refused += 1


def recursion(rng):
    """Rows come, fade, are taken out and are merged; the weights are those of the rows that are left."""
    case = problem(rng, rows=(6, 40), units=2.0)
    Phi, Q, D = _features(rng, case)
    C, intercept = _penalty(rng, np.abs(Phi).max(), len(Phi)), bool(rng.random() < 0.5)
    forgetting, form = float(rng.choice([1.0, 1.0, 0.999, 0.98, 0.9, 0.7])), str(rng.choice(list(FORMS)))
    life = Life(rng, FORMS[form](Shape(D, case.T.shape[1], C, intercept)), case, Phi, forgetting)
    at = 0
    while at < len(Phi):
        k = int(rng.choice([1, 1, 2, 5, 17]))
        life.learn(np.arange(at, min(at + k, len(Phi))))
        at += k
        if rng.random() < 0.3 and np.count_nonzero(life.alive) > 3:
            life.unlearn()
        if rng.random() < 0.2:
            life.learner.solution()  # looking changes nothing
    live = life.alive > 0
    w = (case.weight * life.alive)[live]
    expected = Expected(rng, Phi[live], case.T[live], w, Q, C, intercept)
    # rows that have gone, or faded, left their round-off behind: it is that of all rows ever learned
    ever, now = ((v[:, None] * A**2).sum() for v, A in ((case.weight, Phi), (w, Phi[live])))
    scale = max(1.0, float(ever * C), float(ever / max(now, 1e-300)))
    expected.size = np.maximum(expected.size, case.fitted_size)
    if form == "root":
        expected.promise = max(PROMISE, expected.p * EPS * np.sqrt(expected.condition) * scale)
    else:
        expected.condition = max(expected.whole_condition, scale) * (1.0 + scale)
    if form == "covariance" and intercept:  # P begins as large as the weight of the first row is small
        expected.condition *= case.weight.sum() / case.weight[0]
    words = f"recursion {form}, forgetting {forgetting}, {D} features, C {C:.2e}, intercept {intercept}, {case.words}"
    found = life.learner.solution()
    expected.predictions(Q @ found.beta + found.intercept, words, squared=form != "root", corrected=False)
    fading = ", forgetting" if forgetting < 1 else ""
    return f"recursion {form}{fading}{', a removal refused' if life.refused else ''}"

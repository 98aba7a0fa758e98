"""Robust models and logistic bits stand at the minimum, ordinal codes and discriminant directions are what they say."""

import mpmath
import numpy as np
from scipy.linalg import subspace_angles
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import ulmus
from ulmus.codings import Ordered
from ulmus.engine import Precomputed, Rows
from ulmus.solvers.discriminant import solve_discriminant
from ulmus.solvers.logistic import FeatureRidge, fit_logistic
from ulmus.statistics import Statistics

from ._draw import EPS, as_given, problem
from ._exact import SLOPES, exactly, mpf, root, rounded, solve

#: A minimum is met where the next Newton step would move predictions by no more than this share of what they are.
STATIONARY = 1e-6


def _pulls(loss, e, c):
    """``f'(e)`` and ``f''(e)`` of exact residuals."""
    slope, bend = SLOPES[loss]
    t = [(v / c) for v in e]
    first = mpf([mpmath.sign(v) * slope(abs(v)) for v in t])
    return first, mpf([bend(abs(v)) / c for v in t])


def robust(rng):
    """The gradient of ``‖β‖²/2 + C Σ w f(φβ + b − t)`` vanishes: the exact Newton step from the weights is short."""
    case = problem(rng, rows=(12, 40), outputs=1, units=8.0)
    loss, C = str(rng.choice(list(SLOPES))), float(10.0 ** rng.uniform(-2, 4))
    size = float(np.median(np.abs(case.T - np.median(case.T))) or np.abs(case.T).max() or 1.0)
    c = float(size * 10.0 ** rng.uniform(-0.5, 1))
    scale = {} if loss == "squared" else {"tau": c**2} if loss == "sqrt" else {"h": 1 / c}
    C = C / size  # f grows like |x|, so that C in units of 1/t is the same problem
    D, intercept = int(rng.integers(1, 8)), bool(rng.random() < 0.7)
    words = f"robust {loss}, c {c:.2e}, {D} nodes, C {C:.2e}, intercept {intercept}, {case.words}"
    model = ulmus.RobustELMRegressor(
        D,
        slope=1.0,
        loss=loss,
        C=C,
        fit_intercept=intercept,
        max_iter=500,
        random_state=int(rng.integers(99)),
        n_jobs=1,
        **scale,
    )
    model.fit(as_given(rng, case.X), case.y, sample_weight=case.w)
    if not model.converged_:
        return f"robust {loss}, told that it has not converged"
    M, w_, t_ = exactly(model.map_.transform(case.X), case.weight, case.T[:, 0])
    beta = exactly(model.beta_[:, 0])[0]
    penalty = mpf(np.ones(D))
    if intercept:
        M = np.concatenate([mpf(np.ones((len(M), 1))), M], 1)
        beta, penalty = np.concatenate([exactly(model.intercept_)[0], beta]), np.concatenate([mpf([0.0]), penalty])
    pull, bend = _pulls(loss, M @ beta - t_, mpmath.mpf(1.0 if loss == "squared" else c))
    gradient = penalty * beta + mpf(C) * (M.T @ (w_ * pull))
    H = np.diag(penalty) + mpf(C) * (M.T @ ((w_ * bend)[:, None] * M))
    if intercept:  # f'' may vanish for every row
        H[0, 0] += mpf(C) * sum(w_) / mpf(c) * mpf(1e-12)
    step = solve(H, gradient[:, None])[:, 0]
    moves, sizes = np.abs(rounded(M @ step)).max(), max(np.abs(rounded(M @ beta)).max(), np.abs(case.T).max())
    condition = np.linalg.cond(rounded(H))
    allowed = (STATIONARY + len(M) * EPS * condition) * sizes
    # where f'' is almost 0 a long step changes hardly anything: the objective's fall counts as well
    fall = float(gradient @ step) / 2
    value = float(sum(w_ * abs(M @ beta - t_)) * C + beta @ beta / 2)
    held = moves <= allowed or fall <= STATIONARY**2 * value
    assert held, (
        f"Newton's step would move predictions by {moves:.2e} of {sizes:.2e} (condition {condition:.1e}); {words}"
    )
    return f"robust {loss}"


def logistic(rng):
    """The gradient of the logistic loss vanishes at the weights of a bit."""
    case = problem(rng, outputs=1)
    n, D = len(case.X), int(rng.integers(1, 8))
    Phi, C = rng.normal(size=(n, D)) * 10.0 ** rng.uniform(-2, 2, size=D), float(10.0 ** rng.uniform(-3, 4))
    t = np.where(rng.random(n) < rng.uniform(0.1, 0.9), 1.0, -1.0)
    intercept = bool(rng.random() < 0.5) and len(np.unique(t)) == 2
    words = f"logistic, {n} rows, {D} features, C {C:.2e}, intercept {intercept}, weights {case.w is not None}"
    ridge = FeatureRidge(Precomputed(D), intercept, n_jobs=1)
    found = fit_logistic(ridge, Rows(Phi, t[:, None], case.w, None), C)
    M, t_, w_ = exactly(Phi, t, case.weight)
    beta, penalty = exactly(found.at.weights)[0], mpf(np.ones(D))
    if intercept:
        M = np.concatenate([mpf(np.ones((n, 1))), M], 1)
        beta, penalty = np.concatenate([mpf([found.at.intercept]), beta]), np.concatenate([mpf([0.0]), penalty])
    p = mpf([1 / (1 + mpmath.exp(v)) for v in t_ * (M @ beta)])
    gradient = penalty * beta - mpf(C) * (M.T @ (w_ * t_ * p))
    H = np.diag(penalty) + mpf(C) * (M.T @ ((w_ * p * (1 - p))[:, None] * M))
    step = solve(H, gradient[:, None])[:, 0]
    value = float(beta @ (penalty * beta) / 2 + mpf(C) * sum(w_ * mpf([-mpmath.log(1 - v) for v in p])))
    fall = float(gradient @ step) / 2
    assert fall <= 1e-9 * max(value, 1e-300), f"the objective can fall by {fall / value:.1e} of itself; {words}"
    return "logistic bit"


def ordinal(rng):
    """Decoding is the smallest ``D_k``, over all classes that were seen, and the code's bits count distances."""
    classes = int(rng.integers(2, 9))
    present = np.sort(rng.choice(classes, size=int(rng.integers(2, classes + 1)), replace=False))
    decoding = str(rng.choice(["loss", "hamming", "threshold"]))
    code = Ordered(np.arange(classes) * 10, present, decoding)
    T = code.encode(np.arange(classes))
    assert (
        np.abs(T[:, None] - T[None]).sum(axis=2) / 2 == np.abs(np.arange(classes)[:, None] - np.arange(classes))
    ).all()
    bits = rng.normal(size=(20, classes - 1)) * 10.0 ** rng.uniform(-3, 2.5)
    given = code.decode(bits)
    for row, label in zip(bits, given):
        o = exactly(row[present[1:] - 1])[0]
        gaps = np.diff(present)
        if decoding == "threshold":
            o = np.array(sorted(o, reverse=True), dtype=object)
        step = {"loss": lambda v: mpmath.exp(-v) - mpmath.exp(v), "hamming": lambda v: -mpmath.sign(v)}.get(
            decoding, lambda v: -v
        )
        D = [mpmath.mpf(0)]
        for g, v in zip(gaps, o):
            D.append(D[-1] + int(g) * step(v))
        chosen = int(np.searchsorted(present, label // 10))
        assert D[chosen] == min(D) or D[chosen] - min(D) <= 1e-12 * max(abs(d) for d in D), (
            f"decoded to the class {label // 10} of {present.tolist()} by {decoding}, but D is {[float(d) for d in D]}"
        )
    return f"ordinal {decoding}"


def enda(rng):
    """Directions solve ``S_b w = λ (S_w + γI) w``, ``Wᵀ(S_w + γI)W = I``; without a penalty they are those of LDA."""
    n, D, k = int(rng.integers(12, 40)), int(rng.integers(1, 8)), int(rng.integers(2, 5))
    y = rng.permutation(np.arange(n) % k)
    Phi = rng.normal(size=(n, D)) * 10.0 ** rng.uniform(-2, 2, size=D) + rng.normal(size=(k, D))[y]
    Phi = Phi * 10.0 ** rng.uniform(-6, 6) + (10.0 ** rng.uniform(0, 2) if rng.random() < 0.3 else 0.0)
    w = rng.integers(1, 4, size=n).astype(float) if rng.random() < 0.4 else None
    gamma = float(10.0 ** rng.uniform(-6, 2) * np.square(Phi - Phi.mean(0)).sum())
    words = f"discriminant, {n} rows, {D} features, {k} classes, gamma {gamma:.2e}, weights {w is not None}"
    T = np.eye(k)[y]
    found = solve_discriminant(Statistics.of(Phi, T, w), gamma)
    Phi_, T_, w_, W = exactly(Phi, T, np.ones(n) if w is None else w, found.weights)
    counts = T_.T @ w_
    means = (T_ * w_[:, None]).T @ Phi_ / counts[:, None]
    within = Phi_ - T_ @ means
    S = (within * w_[:, None]).T @ within + np.diag(mpf(np.full(D, found.gamma)))
    G = (means - (w_ @ Phi_ / sum(w_))[None]) * mpf([mpmath.sqrt(c) for c in counts])[:, None]
    lam = exactly(found.eigenvalues)[0]
    R = root(S)
    residual = rounded(solve(R, (G.T @ (G @ W)) - S @ W * lam))
    largest = max(float(found.eigenvalues.max(initial=0.0)), 1e-300)
    raw = np.abs(Phi.T @ ((np.ones(n) if w is None else w)[:, None] * Phi)).sum(axis=0).max() + gamma
    loss = 8 * (n + D) * EPS * raw * np.linalg.norm(np.linalg.inv(rounded(S)), 2)
    assert np.abs(residual).max() <= (1e-12 + loss) * largest + loss, (
        f"the eigenproblem is off by {np.abs(residual).max():.1e} for λ up to {largest:.1e}, loss {loss:.1e}; {words}"
    )
    kept = found.eigenvalues > 0
    gram = rounded(W.T @ S @ W)[np.ix_(kept, kept)]
    small = max(float(found.eigenvalues[kept].min(initial=1.0)) / largest, 1e-300)
    assert np.abs(gram - np.eye(kept.sum())).max(initial=0.0) <= 1e-10 + loss / small, (
        f"not orthonormal: {gram}; {words}"
    )
    return _as_lda(Phi, y, k, D, words) if w is None and n > 3 * D and k <= D else "discriminant directions"


def _as_lda(Phi, y, k, D, words):
    """Without a penalty, scikit-learn's LDA spans the same."""
    Phi = (Phi - Phi.mean(axis=0)) / Phi.std(axis=0)
    ours = solve_discriminant(Statistics.of(Phi, np.eye(k)[y]), 1e-13 * len(Phi))
    theirs = LinearDiscriminantAnalysis(solver="eigen", n_components=k - 1).fit(Phi, y).scalings_[:, : k - 1]
    lam = ours.eigenvalues
    if lam[-1] > 1e-6 * lam[0]:
        angle = subspace_angles(ours.weights, theirs).max()
        assert angle <= 1e-7, f"{angle:.1e} away from the span of LDA; {words}"
    return "discriminant beside LDA"

"""The same models by scikit-learn: KernelRidge, Ridge on the same features, Nystroem, LogisticRegression."""

import numpy as np
from scipy.special import expit
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge

import ulmus

from ._draw import EPS, as_given, compare, problem

SAME = {"rbf": "rbf", "laplacian_l1": "laplacian", "linear": "linear", "cosine": "cosine", "poly": "poly"}
#: Both lose digits; what is left is compared while round-off times condition number is below this.
LOST = 1e-5
#: Singular values of kernel values that are raised to this by scikit-learn, whatever units they are in.
CLIPPED = 1e-12


def _told(rng, case):
    name = str(rng.choice(list(SAME)))
    spread = np.abs(case.X[:, None] - case.X[None]).sum(axis=2)
    size = (np.median(spread) or 1.0) if name in ("rbf", "laplacian_l1") else np.linalg.norm(case.X, axis=1).max()
    gamma = float(10.0 ** rng.uniform(-1, 1) / (size or 1.0) ** (1 if name == "laplacian_l1" else 2))
    C = float(10.0 ** rng.uniform(-2, 4))
    return name, gamma, C, f"kernel {name}, gamma {gamma:.2e}, C {C:.2e}, {case.words}"


def kernel_ridge(rng):
    case = problem(rng, rows=(5, 60))
    name, gamma, C, words = _told(rng, case)
    options = {"kernel": name, "gamma": gamma}
    ours = ulmus.KELMRegressor(**options, C=C, fit_intercept=False, n_jobs=1)
    theirs = KernelRidge(kernel=SAME[name], gamma=gamma, degree=3, coef0=1, alpha=1 / C)
    theirs.X_fit_ = case.X
    K = theirs._get_kernel(case.X)
    loss = (
        len(K) * EPS * (1 + C * np.linalg.norm(K * np.sqrt(np.outer(case.weight, case.weight)), 2)) * case.weight.max()
    )
    if loss > LOST:
        return "KernelRidge, too few digits to compare"
    ours.fit(as_given(rng, case.X), case.y, sample_weight=case.w)
    theirs.fit(case.X, case.y, sample_weight=case.w)
    size = np.abs(case.T).max() * np.sqrt(np.linalg.norm(theirs._get_kernel(case.Q), axis=1).max() * C + 1)
    shift = _kernel_loss(case, name)
    compare("a prediction", ours.predict(case.Q), theirs.predict(case.Q), (PLAIN + loss + C * shift) * size, words)
    return "KernelRidge"


PLAIN = 1e-9


def _kernel_loss(case, name):
    """Round-off of distances of rows far from 0, which scikit-learn takes about 0."""
    if name != "rbf":
        return 1e3 * EPS
    spread = np.median(np.abs(case.X[:, None] - case.X[None]).sum(axis=2)) or 1.0
    return 1e3 * EPS * (np.abs(case.X).max() / spread) ** 2


def nystroem(rng):
    case = problem(rng, rows=(8, 60), copies=False)
    name, gamma, C, words = _told(rng, case)
    L = int(rng.integers(1, max(2, len(case.X) // 3)))
    Z = case.X[rng.choice(len(case.X), size=L, replace=False)]
    ours = ulmus.NKELMRegressor(kernel=name, gamma=gamma, C=C, landmarks=Z, fit_intercept=False, n_jobs=1)
    map_ = Nystroem(kernel=SAME[name], gamma=gamma, degree=3, coef0=1, n_components=L)
    map_.fit(Z)
    try:
        ours.fit(as_given(rng, case.X), case.y, sample_weight=case.w)
    except ValueError as error:
        if "no landmark has a positive kernel value" not in str(error):
            raise
        return "Nystroem, rows of zeros"
    if ours.map_.n_dropped_ or ours.map_.condition_ > 1e6:
        return "Nystroem, too few digits to compare"
    if 1 / np.linalg.norm(map_.normalization_, 2) ** 2 < 2 * CLIPPED:
        return "Nystroem, kernel values that are zero to scikit-learn"
    F = map_.transform(case.X)
    theirs = Ridge(alpha=1 / C, fit_intercept=False, solver="svd").fit(F, case.y, sample_weight=case.w)
    weight = case.weight
    loss = len(F) * EPS * ours.map_.condition_ * (1 + np.sqrt(C * weight.sum()) * np.linalg.norm(F, 2))
    size = np.abs(case.T).max() * (
        1 + np.sqrt(C) * np.linalg.norm(map_.transform(case.Q), axis=1).max() * np.sqrt(weight.sum())
    )
    shift = _kernel_loss(case, name) * ours.map_.condition_ * (1 + C)
    if loss + shift > LOST:
        return "Nystroem, too few digits to compare"
    compare(
        "a prediction",
        ours.predict(case.Q),
        theirs.predict(map_.transform(case.Q)),
        (PLAIN + loss + shift) * size,
        words,
    )
    return "Nystroem and Ridge"


def ridge_on_features(rng):
    case = problem(rng, rows=(5, 60))
    C, intercept = float(10.0 ** rng.uniform(-2, 5)), bool(rng.random() < 0.5)
    D = int(rng.integers(1, 30))
    words = f"Ridge on {D} nodes, C {C:.2e}, intercept {intercept}, {case.words}"
    ours = ulmus.ELMRegressor(D, slope=1.0, C=C, fit_intercept=intercept, random_state=0, n_jobs=1)
    ours.fit(case.X, case.y, sample_weight=case.w)
    H = ours.map_.transform(case.X)
    theirs = Ridge(alpha=1 / C, fit_intercept=intercept, solver="cholesky" if len(H) > D else "svd")
    theirs.fit(H, case.y, sample_weight=case.w)
    weight = case.weight
    condition = 1 + C * weight.sum() * np.square(H).sum(axis=1).max()
    loss = (len(H) + D) * EPS * condition
    if loss > LOST:
        return "Ridge, too few digits to compare"
    reach = np.sqrt(C * weight.sum()) * np.linalg.norm(ours.map_.transform(case.Q), axis=1).max() + 1
    allowed = (PLAIN + loss) * reach * np.abs(case.T).max()
    compare("a prediction", ours.predict(case.Q), theirs.predict(ours.map_.transform(case.Q)), allowed, words)
    return "Ridge on the same features"


def logistic_regression(rng):
    """Cumulative probabilities of two ordered classes are those of LogisticRegression on the same features."""
    case = problem(rng, rows=(12, 60), outputs=1)
    n, C, D = len(case.X), float(10.0 ** rng.uniform(-2, 2)), int(rng.integers(1, 12))
    y = (rng.random(n) < 0.5).astype(int)
    y[:2] = 0, 1
    words = f"LogisticRegression on {D} nodes, C {C:.2e}, {case.words}"
    intercept = bool(rng.random() < 0.5)
    ours = ulmus.ELMOrdinalClassifier(
        D, slope=1.0, C=C, loss="logistic", fit_intercept=intercept, random_state=0, n_jobs=1
    )
    ours.fit(case.X, y, sample_weight=case.w)
    H, Q = ours.map_.transform(case.X), ours.map_.transform(case.Q)
    if np.linalg.norm(H, 2) ** 2 * C * case.weight.sum() > 1e7:
        return "LogisticRegression, too few digits to compare"
    theirs = LogisticRegression(C=C, fit_intercept=intercept, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    theirs.fit(H, y, sample_weight=case.w)
    o = Q @ ours.beta_[:, 0] + ours.intercept_[0]
    compare("a probability", expit(o), theirs.predict_proba(Q)[:, 1], 1e-4, words)
    return "LogisticRegression"

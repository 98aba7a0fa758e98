"""Kernel values, KELM and NKELM with its whitening, leave-one-out and error bound, against multiple precision."""

import numpy as np

import ulmus
from ulmus.features.kernels import ROOTED, CrossKernel, KernelParameters
from ulmus.features.sampling import left_out_together

from ._draw import EPS, PROMISE, SLACK, as_given, compare, left_out_residuals, moved, nudged_exactly, problem
from ._exact import KERNELS, exact_sqrt, exactly, kernel_matrix, kernel_ridge, kernel_studentised, mpf, rounded, solve

DISTANCES = {"rbf": 2, "laplacian": 1, "laplacian_l1": 1, "matern32": 1}


def _width(rng, name, X):
    """gamma near the kernel's own scale: a hundredth to thirty times the inverse of a usual distance or product."""
    if name in DISTANCES:
        apart = np.median(np.abs(X[:, None] - X[None]).sum(axis=2)) or np.abs(X).max() or 1.0
        return float(10.0 ** rng.uniform(-2, 1.5) / apart ** DISTANCES[name])
    return float(10.0 ** rng.uniform(-2, 1) / (np.square(X).sum(axis=1).max() or 1.0))


def _drawn(rng, **options):
    case = problem(rng, rows=(4, 17), **options)
    name = str(rng.choice(list(KERNELS)))
    gamma = _width(rng, name, case.X)
    return case, name, gamma, f"kernel {name}, gamma {gamma:.2e}, {case.words}"


def _square(A):
    return float(np.square(A).sum(axis=1).max())


class Kernel:
    """Exact kernel values between rows, and how far those of the library may be from them."""

    def __init__(self, rng, name, gamma, words):
        self.rng, self.name, self.gamma, self.words = rng, name, gamma, words

    def between(self, A, B, check=True):
        """Exact values, and the round-off of ours."""
        A_, B_ = exactly(A, B)

        def answer(A, B):
            return (kernel_matrix(self.name, A, B, self.gamma),)

        def nudge(A, B):
            return tuple(nudged_exactly(self.rng, M, EPS, axis=None) for M in (A, B))

        (rough,), (far,) = moved(answer, (A_, B_), nudge, times=2)
        if check:
            ours = np.empty((len(A), len(B)))
            CrossKernel(self.name, np.array(B), KernelParameters(self.gamma, 3, 1.0)).transform_block(np.array(A), ours)
            exponent = -np.log(np.maximum(np.abs(rough), 1e-300)) if self.name in DISTANCES else 1.0
            m = A.shape[1] + 4
            # squared distances are sums of squares about the mean of B; the kernels that are smooth at 0 take those
            spread = self.gamma ** (2 / DISTANCES.get(self.name, 1)) * max(
                _square(A - B.mean(0)), _square(B - B.mean(0))
            )
            cancelled = {"rbf": 1.0, "matern32": 1.5}.get(self.name, 0.0) * spread
            if self.name == "laplacian":  # a root of sums that cancel by three digits at most
                about = np.add.outer(*(np.square(M - B.mean(0)).sum(axis=1) for M in (A, B)))
                apart = np.maximum(np.square(A[:, None] - B).sum(axis=2), ROOTED[np.dtype(np.float64)] * about)
                cancelled = exponent * about / np.maximum(apart, 1e-300) / 2
            allowed = SLACK * m * far + 4 * m * EPS * (1 + np.abs(exponent) + cancelled) * np.abs(rough) + 1e-300
            if self.name == "laplacian_l1":  # round-off of the inputs, at most: two draws of it may cancel
                sizes = np.add.outer(*(np.abs(M).sum(axis=1) for M in (A, B)))
                allowed = allowed + EPS * self.gamma * sizes * np.abs(rough)
            compare("a kernel value", ours, rough, allowed, self.words)
        else:
            cancelled = 1.0
        return answer(A_, B_)[0], np.maximum(far, EPS * (1 + cancelled) * np.abs(rough))


def kernel(rng):
    case, name, gamma, words = _drawn(rng)
    Kernel(rng, name, gamma, words).between(case.Q, case.X)
    return f"kernel {name}"


def _symmetric(rng, K, far):
    shift = np.triu(rng.uniform(-1, 1, size=K.shape))
    shift = shift + np.triu(shift, 1).T
    return K + mpf(shift * far)


def _shifted(rng, K, far):
    return K + mpf(rng.uniform(-1, 1, size=K.shape) * far)


def kelm(rng):
    case, name, gamma, words = _drawn(rng)
    n, C, intercept = len(case.X), float(10.0 ** rng.uniform(-3, 7)), bool(rng.random() < 0.4)
    words = f"KELM, C {C:.2e}, intercept {intercept}, {words}"
    model = ulmus.KELMRegressor(kernel=name, gamma=gamma, C=C, fit_intercept=intercept, n_jobs=1)
    values = Kernel(rng, name, gamma, words)
    try:
        model.fit(as_given(rng, case.X), case.y, sample_weight=case.w)
    except np.linalg.LinAlgError as error:
        largest = max(abs(float(v)) for v in np.diag(values.between(case.X, case.X)[0])) * C * case.weight.max()
        if "choose a smaller C" not in str(error) or largest * EPS < 1e-3:
            raise
        return "KELM refused: singular in float64"
    (K, K_far), (K_q, q_far) = values.between(case.X, case.X), values.between(case.Q, case.X)
    T_, w_ = exactly(case.T, case.weight)
    ridge = 1 / (mpf(C) * w_)
    unit = left_out_together(case.X, case.T, case.w)
    u_ = exactly(np.ones(n) if unit is None else unit)[0]
    share = u_ / w_

    def answer(K, K_q, T):
        alpha, b, inverse, _ = kernel_ridge(K, T, ridge, intercept)
        remainder = np.maximum(1 - share + share * np.diag(inverse) * ridge, mpf(1e-30))
        return K_q @ alpha + b, kernel_studentised(K, T, mpf(C), w_, u_, intercept), remainder

    def nudge(K, K_q, T):
        return _symmetric(rng, K, K_far), _shifted(rng, K_q, q_far), nudged_exactly(rng, T, EPS)

    (f, left, remainder), far = moved(answer, (K, K_q, T_), nudge)
    alpha, _, inverse, constant = kernel_ridge(K, T_, ridge, intercept)
    p, A = 2 * n, rounded(K + np.diag(ridge))
    # backward stability: the solve is exact for a system that is off by E, round-off of its norm, and answers move by
    # (k_x ∂α/∂T + ∂b/∂T) E α
    off = p * EPS * np.linalg.norm(A, 2) * np.linalg.norm(rounded(alpha), axis=0)
    reach = np.linalg.norm(rounded(K_q @ inverse + constant), axis=1)[:, None]
    dot = EPS * p * (np.abs(rounded(K_q)) @ np.abs(rounded(alpha)) + np.abs(case.T).max(axis=0))
    compare("a prediction", model.predict(case.Q).reshape(f.shape), f, SLACK * p * far[0] + reach * off + dot, words)
    if (remainder > 1e-6).all():
        row = rounded(ridge)[:, None] * np.linalg.norm(rounded(inverse), axis=1)[:, None]
        worst = SLACK * p * far[1] + row * off / remainder[:, None] ** 1.5 + PROMISE * np.abs(left)
        worst += (
            p * EPS * np.linalg.norm(A, 2) * np.linalg.norm(rounded(inverse), 2) * np.abs(left) / remainder[:, None]
        )
        given, allowed = left_out_residuals(model), np.broadcast_to(worst.max(axis=0), left.shape)
        if len(given) == n:
            compare("a residual left out", given, np.sort(left, axis=0), allowed, words)
    return f"KELM {name}"


def nkelm(rng):
    case, name, gamma, words = _drawn(rng)
    n, C, intercept = len(case.X), float(10.0 ** rng.uniform(-3, 7)), bool(rng.random() < 0.4)
    L = int(rng.integers(1, n + 3))
    words = f"NKELM, {L} landmarks, C {C:.2e}, intercept {intercept}, {words}"
    seed = int(rng.integers(99))
    model = ulmus.NKELMRegressor(L, kernel=name, gamma=gamma, C=C, fit_intercept=intercept, random_state=seed, n_jobs=1)
    try:
        model.fit(as_given(rng, case.X), case.y, sample_weight=case.w)
    except ValueError as error:
        if "no landmark has a positive kernel value" not in str(error):
            raise
        return "NKELM refused rows of zeros"
    Z = model.map_.landmarks_
    values = Kernel(rng, name, gamma, words)
    parts = [values.between(*pair) for pair in ((case.X, Z), (Z, Z), (case.Q, Z))]
    (K_xz, x_far), (K_zz, z_far), (K_qz, q_far) = parts
    diagonal = mpf([values.between(q[None], q[None], check=False)[0][0, 0] for q in case.Q])
    T_, w_ = exactly(case.T, case.weight)
    root = exact_sqrt(w_)[:, None]
    k, one = len(Z), exactly(np.ones((n, 1)), np.ones((len(case.Q), 1)))

    def answer(K_xz, K_zz, K_qz, T):
        M, Q, P = K_xz, K_qz, K_zz / mpf(C)
        if intercept:
            M, Q = np.concatenate([one[0], M], 1), np.concatenate([one[1], Q], 1)
            P = np.concatenate([mpf(np.zeros((1, k + 1))), np.concatenate([mpf(np.zeros((k, 1))), P], 1)])
        S = P + (root * M).T @ (root * M)
        found = solve(S, np.concatenate([(root * M).T @ (root * T), Q.T], 1))
        a, back = found[:, : T.shape[1]], found[:, T.shape[1] :]
        left = diagonal - np.einsum("ij,ji->i", K_qz, solve(K_zz, K_qz.T))
        return Q @ a, np.einsum("ij,ji->i", Q, back), left

    def nudge(K_xz, K_zz, K_qz, T):
        return (
            _shifted(rng, K_xz, x_far),
            _symmetric(rng, K_zz, np.maximum(z_far, k * EPS * np.diag(rounded(K_zz)).max())),
            _shifted(rng, K_qz, q_far),
            nudged_exactly(rng, T, EPS),
        )

    try:
        (f, h, left), far = moved(answer, (K_xz, K_zz, K_qz, T_), nudge)
    except ZeroDivisionError:
        return "NKELM exactly singular"
    words = f"{words}; route {model.route_}, condition of K_zz {model.map_.condition_:.1e}"
    p = n + k
    F = model.map_.transform(case.X)
    centred = F - np.average(F, axis=0, weights=case.weight) if intercept else F
    raw, G = ((case.weight[:, None] * A).T @ A + np.eye(F.shape[1]) / C for A in (F, centred))
    # round-off is that of the sums before the means are taken out
    condition = float(np.linalg.norm(raw, 1) * np.linalg.norm(np.linalg.inv(G), 1))
    # a sum that is whitened after it was squared multiplies round-off by both condition numbers
    loss = EPS * condition * (model.map_.condition_ if model.map_.condition_ <= 1e5 else 1.0)
    share = PROMISE + (p * loss if loss <= 1e-5 else 0.0)
    reach = np.sqrt(np.maximum(h, 0.0))[:, None] * case.fitted_size
    allowed = SLACK * p * far[0] + reach * share + PROMISE * np.abs(case.T).max(axis=0)
    compare("a prediction", model.predict(case.Q).reshape(f.shape), f, allowed, words)
    size = rounded(diagonal)
    slack = SLACK * p * far[2] + p * EPS * np.sqrt(model.map_.condition_) * size
    compare("a residual kernel", model.residual_kernel(case.Q), np.maximum(left, 0.0), slack, words)
    _bounded(rng, model, case, values, C, intercept, f, allowed, words)
    return f"NKELM {name}"


def _bounded(rng, model, case, values, C, intercept, f, allowed, words):
    """The exact kernel model is no further away than ``error_bound`` says."""
    K, K_q = (values.between(A, case.X, check=False)[0] for A in (case.X, case.Q))
    T_, w_ = exactly(case.T, case.weight)
    alpha, b, *_ = kernel_ridge(K, T_, 1 / (mpf(C) * w_), intercept)
    apart = np.linalg.norm(f - rounded(K_q @ alpha + b), axis=1)
    bound = model.error_bound(case.Q) * (1 + 1e-9) + np.linalg.norm(allowed, axis=1)
    at = int(np.argmax(apart - bound))
    assert (apart <= bound).all(), f"the exact model is {apart[at]:.3e} away, the bound says {bound[at]:.3e}; {words}"

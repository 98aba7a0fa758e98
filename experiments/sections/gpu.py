"""Sections (v) to (z): the GPU routes, which need a CUDA GPU, PyTorch and Triton.

Times hold everything from the call of ``fit`` to its return: checks, landmarks, transfers, solve and calibration.
PyTorch, CUDA and the Triton kernels are warmed up on a small problem first.
"""

import gc
import warnings
from collections.abc import Callable
from time import perf_counter

import numpy as np
import torch

from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section
from experiments.sections.gpu_common import GAMMA, device_facts, problem, target, warm_up
from ulmus import ELMRegressor, KELMRegressor, NKELMClassifier, NKELMRegressor
from ulmus.devices import iterative as devices_iterative
from ulmus.devices import triton_kernels as fused
from ulmus.devices.accelerator import on_device
from ulmus.devices.iterative import DeviceNormal
from ulmus.devices.tensors import DeviceRows
from ulmus.engine import Rows
from ulmus.features.kernels import CrossKernel, KernelParameters
from ulmus.solvers.conjugate_gradients import conjugate_gradients


def median_seconds(work: Callable[..., object], *given: object) -> float:
    """Median over events on the device, after a warm-up."""
    for _ in range(2):
        work(*given)
    times = []
    for _ in range(9):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work(*given)
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) / 1e3)
    return float(np.median(times))


def products(section: Section, options: Options) -> None:
    words, limit = device_facts()
    section.say(f"{words}. Special-function limit {limit:.3g} values/s. K is n × 10,000, n = {options.rows(2**20)}.")
    n, L = options.rows(2**20), 10_000
    lines, slowest = [], np.inf
    for d in (3, 9, 28, 32):
        torch.manual_seed(d)
        X, Z = (torch.randn(k, d, device="cuda", dtype=torch.float64) * (2 / d) ** 0.5 for k in (n, L))
        v, u = (torch.randn(k, 1, device="cuda", dtype=torch.float64) for k in (L, n))
        V = torch.randn(L, 16, device="cuda", dtype=torch.float64)
        left, right = fused.Side(X, left=True), fused.Side(Z, left=False)
        wide = fused.ExactSide(X[:2048], left=True), fused.ExactSide(Z, left=False)
        for kind in ("rbf", "laplacian", "matern32") if d == 28 else ("rbf",):
            reference = fused.exact_product(*wide, v, kind)
            error = float((fused.product(left, right, v, kind)[:2048] - reference).norm() / reference.norm())
            jobs = {"K v": (left, right, v), "Kᵀ u": (right, left, u), "K V, 16 sides": (left, right, V)}
            for name, given in jobs.items():
                rate = n * L / median_seconds(fused.product, *given, kind)
                slowest = min(slowest, rate) if kind == "rbf" and "16" not in name else slowest
                lines.append((d, kind, name, f"{rate:.3g}", f"{rate / limit:.0%}", f"{error:.1e}"))
        wide = fused.ExactSide(X[: n // 8], left=True), fused.ExactSide(Z, left=False)
        rate = n // 8 * L / median_seconds(fused.exact_product, *wide, v, "rbf")
        lines.append((d, "rbf", "K v, float64", f"{rate:.3g}", f"{rate / limit:.0%}", ""))
    head = ("features", "kernel", "product", "values/s", "of the limit", "error of K v beside float64")
    section.say(markdown(head, lines))
    section.claim(
        "slowest rbf product with one side, d ≤ 32, values/s", slowest, 2e12, at_least=True, quick=options.quick
    )


def direct(section: Section, options: Options) -> None:
    words, _ = device_facts()
    n, L, d = options.rows(10**7), options.rows(10_000), 28
    X, y, X_test, f_test = problem(n, d)
    warm_up(d)
    section.say(f"{words}. n = {n}, d = {d}, L = {L}, gamma = {GAMMA}, float64, C chosen among 36 by leave-one-out.")
    model = NKELMRegressor(L, gamma=GAMMA, device="cuda", solver="direct", random_state=0, verbose=True)
    start = perf_counter()
    model.fit(X, y)
    seconds = perf_counter() - start
    error = np.sqrt(np.mean((model.predict(X_test) - f_test) ** 2))
    sums = n * float(L) ** 2
    head = ("seconds", "route", "C", "cond(K_zz)", "nL² in TFLOP/s", "RMSE to the generating function")
    line = (f"{seconds:.1f}", model.route_, f"{model.C_:.3g}", f"{model.map_.condition_:.1e}")
    section.say(markdown(head, [(*line, f"{sums / seconds / 1e12:.1f}", f"{error:.4f}")]))
    section.claim("seconds, with the whole C path", seconds, 27, at_least=False, quick=options.quick)
    given = NKELMRegressor(
        L, gamma=GAMMA, C=model.C_, fit_intercept=True, device="cuda", solver="iterative", random_state=0, verbose=True
    )
    start = perf_counter()
    given.fit(X, y)
    other = perf_counter() - start
    apart = np.abs(given.predict(X_test) - model.predict(X_test)).max() / np.abs(f_test).max()
    section.say(
        f"The iterative route at the same C: {other:.1f} s, {given.n_iter_} iterations, verified residual "
        f"{given.residual_:.1e}, predictions apart by {apart:.1e}."
    )


def iterative(section: Section, options: Options) -> None:
    words, _ = device_facts()
    n, L, d = options.rows(10**7), options.rows(100_000), 28
    X, y, X_test, f_test = problem(n, d)
    warm_up(d)
    section.say(f"{words}. n = {n}, d = {d}, L = {L}, gamma = {GAMMA}, C = 1, tol = 1e-6.")
    model = NKELMRegressor(L, gamma=GAMMA, C=1.0, device="cuda", solver="iterative", random_state=0, verbose=True)
    start = perf_counter()
    model.fit(X, y)
    seconds = perf_counter() - start
    start = perf_counter()
    error = np.sqrt(np.mean((model.predict(X_test) - f_test) ** 2))
    predicting = perf_counter() - start
    head = ("seconds", "iterations", "verified residual", "RMSE to the generating function", "10,000 predictions, s")
    line = (f"{seconds:.1f}", model.n_iter_, f"{model.residual_:.1e}", f"{error:.4f}", f"{predicting:.2f}")
    section.say(markdown(head, [line]))
    section.claim("seconds", seconds, 150, at_least=False, quick=options.quick)
    section.claim("verified relative residual", model.residual_, 1e-6, at_least=False, quick=options.quick)


def billion(section: Section, options: Options) -> None:
    words, _ = device_facts()
    n, L, d = options.rows(10**9), options.rows(10_000), 9
    warm_up(d)
    generator = torch.Generator(device="cuda").manual_seed(0)
    X = torch.empty((n, d), device="cuda").normal_(generator=generator)
    y = torch.empty(n, device="cuda")
    for first in range(0, n, 2**26):
        part = slice(first, first + 2**26)
        noise = torch.empty(len(y[part]), device="cuda").normal_(generator=generator)
        y[part] = target(X[part], torch) + 0.5 * noise
    X_test = np.random.default_rng(1).standard_normal((100_000, d))
    f_test = target(X_test)
    section.say(f"{words}. n = {n}, d = {d}, float32, made on the device, L = {L}, gamma = 0.2, C = 1e7/n.")
    lines = []
    model = NKELMRegressor(L, gamma=0.2, C=1e7 / n, device="cuda", tol=1e-4, random_state=0, verbose=True)
    start = perf_counter()
    model.fit(X, y)
    seconds = perf_counter() - start
    error = np.sqrt(np.mean((model.predict(X_test) - f_test) ** 2))
    lines.append((f"{n:.0e}", f"{seconds:.1f}", model.route_, model.n_iter_, f"{model.residual_:.1e}", f"{error:.5f}"))
    few = n // 1000
    small = NKELMRegressor(L, gamma=0.2, C=1e7 / few, device="cuda", tol=1e-4, random_state=0).fit(X[:few], y[:few])
    error = np.sqrt(np.mean((small.predict(X_test) - f_test) ** 2))
    lines.append((f"{few:.0e}", "", small.route_, "", "", f"{error:.5f}"))
    section.say(
        markdown(("rows", "seconds", "route", "iterations", "residual", "RMSE to the generating function"), lines)
    )
    section.claim("seconds", seconds, 480, at_least=False, quick=options.quick)


def agreement(section: Section, options: Options) -> None:
    words, _ = device_facts()
    n = options.rows(40_000)
    X, y, X_test, _ = problem(n, 8)
    labels = (y > 0).astype(int) + (y > 1)
    section.say(f"{words}. n = {n}, 8 features; the same seed on both devices.")
    cases = {
        "NKELM, direct, C chosen": (NKELMRegressor, {"n_landmarks": 500, "gamma": 0.05}, y),
        "NKELM, nothing given": (NKELMRegressor, {}, y),
        "NKELM, iterative, tol = 1e-8": (
            NKELMRegressor,
            {"n_landmarks": 500, "gamma": 0.05, "C": 1.0, "solver": "iterative", "tol": 1e-8},
            y,
        ),
        "NKELM, laplacian, iterative, tol = 1e-8": (
            NKELMRegressor,
            {
                "n_landmarks": 500,
                "gamma": 0.3,
                "C": 1.0,
                "kernel": "laplacian",
                "solver": "iterative",
                "tol": 1e-8,
            },
            y,
        ),
        "NKELM, matern32, iterative, tol = 1e-8": (
            NKELMRegressor,
            {"n_landmarks": 500, "gamma": 0.2, "C": 1.0, "kernel": "matern32", "solver": "iterative", "tol": 1e-8},
            y,
        ),
        "NKELM classifier": (NKELMClassifier, {"n_landmarks": 500, "gamma": 0.05}, labels),
        "NKELM classifier, iterative, tol = 1e-8": (
            NKELMClassifier,
            {"n_landmarks": 500, "gamma": 0.05, "C": 1.0, "solver": "iterative", "tol": 1e-8},
            labels,
        ),
        "KELM, 4,000 rows": (KELMRegressor, {"gamma": 0.05, "C": 10.0}, y),
        "ELM, C chosen": (ELMRegressor, {"n_hidden": 500}, y),
    }
    lines, worst = [], 0.0
    for name, (kind, given, goal) in cases.items():
        rows = slice(4_000 if kind is KELMRegressor else n)
        fits = [kind(random_state=0, device=device, **given).fit(X[rows], goal[rows]) for device in ("cpu", "cuda")]
        outputs = [(m.predict if goal is y else m.decision_function)(X_test) for m in fits]
        apart = float(np.abs(outputs[0] - outputs[1]).max() / np.abs(outputs[0]).max())
        worst = max(worst, apart)
        lines.append((name, f"{apart:.1e}", getattr(fits[1], "route_", "dual")))
    X_device, y_device = (torch.from_numpy(a).cuda() for a in (X, y))
    given = {"n_landmarks": 500, "gamma": 0.05, "C": 1.0, "random_state": 0, "device": "cuda"}
    pair = NKELMRegressor(**given).fit(X_device, y_device), NKELMRegressor(**given).fit(X, y)
    apart = float(np.abs(pair[0].predict(X_test) - pair[1].predict(X_test)).max())
    lines.append(("CUDA tensors beside arrays", f"{apart:.1e}", pair[0].route_))
    section.say(markdown(("model", "largest difference of predictions, relative", "route on the GPU"), lines))
    section.claim("largest relative difference", max(worst, apart), 1e-6, at_least=False, quick=options.quick)
    _longer(section, X, y, options)
    _errors(section, X_device, y)


def _longer(section: Section, X: np.ndarray, y: np.ndarray, options: Options) -> None:
    """Float32 iterations ten times longer than needed: the verified residual does not rise."""
    lines = []
    devices_iterative.SAMPLE = 0  # the preconditioner of K_zz alone, which leaves iterations something to do
    with on_device("cuda") as accelerator:
        X, y, _, _ = problem(len(X), 28)
        cross = CrossKernel("rbf", X[:2000].copy(), KernelParameters(0.05))
        system = DeviceNormal(accelerator, cross, DeviceRows(accelerator, Rows(X, y[:, None])), 1.0)
        system.widen = lambda: False  # float32 products to the end
        short = conjugate_gradients(system, tolerance=1e-6)
        for factor in (1, 10):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                long = conjugate_gradients(system, tolerance=1e-15, max_iter=factor * short.n_iter)
            lines.append((f"{factor} ×", long.n_iter, f"{long.residual:.1e}"))
        del system
    section.say(markdown(("float32 products", "iterations", "verified residual"), lines))


def _errors(section: Section, X: torch.Tensor, y: np.ndarray) -> None:
    """What goes wrong says so, and leaves no memory behind."""
    torch.cuda.empty_cache()
    spoiled = X.clone()
    spoiled[5, 3] = float("nan")
    many = np.random.default_rng(0).standard_normal((400_000, 2))
    cases = {
        "more landmarks than memory": lambda: NKELMRegressor(
            300_000, gamma=1.0, C=1.0, device="cuda", solver="iterative"
        ).fit(many, many[:, 0]),
        "more rows than an exact model fits": lambda: KELMRegressor(gamma=1.0, C=1.0, device="cuda").fit(
            many, many[:, 0]
        ),
        "CUDA tensor, CPU model": lambda: NKELMRegressor(50, device="cpu").fit(X, y),
        "NaN in a CUDA tensor": lambda: NKELMRegressor(50, device="cuda").fit(spoiled, y),
    }
    before = torch.cuda.memory_allocated()
    lines = []
    for name, case in cases.items():
        try:
            case()
            said = "NO ERROR"
        except (ValueError, MemoryError, RuntimeError) as error:
            said = f"{type(error).__name__}: {error}"
        gc.collect()
        lines.append((name, said, torch.cuda.memory_allocated() - before))
    held = torch.empty(int(torch.cuda.mem_get_info()[0] * 0.995), dtype=torch.uint8, device="cuda")
    try:
        NKELMRegressor(3_000, gamma=0.1, C=1.0, device="cuda", solver="direct").fit(X, y)
        said = "NO ERROR"
    except MemoryError as error:
        said = f"MemoryError: {error}"
    del held
    gc.collect()
    torch.cuda.empty_cache()
    lines.append(("memory held by others", said, torch.cuda.memory_allocated() - before))
    section.say(markdown(("case", "error", "bytes left on the GPU"), lines))

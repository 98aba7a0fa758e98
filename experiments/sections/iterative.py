"""Section (cpu): the iterative route on the CPU.

Direct, iterative and ``"auto"`` on the same problem. The direct route is left out where its sums would not fit into
memory beside the rest.
"""

from time import perf_counter

import numpy as np

from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section
from ulmus import NKELMRegressor, engine
from ulmus.devices.routes import choose_route, direct_bytes, estimates


def problem(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    f = np.sin(X[:, 0] + X[:, 1]) + np.cos(X[:, 2] * X[:, 3]) + 0.5 * np.tanh(X[:, 4:8].sum(1))
    return X, f + 0.5 * rng.standard_normal(n)


def routes(section: Section, options: Options) -> None:
    n, d = options.rows(100_000), 28
    X, y = problem(n, d)
    section.say(f"n = {n}, d = {d}, gamma = 0.02, C = 1, tol = 1e-6.")
    lines, worst = [], 0.0
    for L in (options.rows(8_000), options.rows(20_000)):
        memory = engine.physical_memory() or 2**40
        plan, expected = choose_route(n, L, memory=memory), estimates(n, L)
        seconds: dict[str, float] = {}
        predictions: dict[str, np.ndarray] = {}
        for solver in ("iterative", "direct"):
            if solver == "direct" and direct_bytes(L) > 0.9 * memory:
                lines.append((L, solver, "does not fit into memory", "", "", "", ""))
                continue
            start = perf_counter()
            model = NKELMRegressor(L, gamma=0.02, C=1.0, solver=solver, random_state=0).fit(X, y)
            seconds[solver] = perf_counter() - start
            predictions[solver] = model.predict(X[:2_000])
            apart = np.abs(predictions[solver] - predictions["iterative"]).max() / np.abs(y).max()
            taken = "taken by auto" if plan.route == solver else ""
            facts = (getattr(model, "n_iter_", ""), f"{getattr(model, 'residual_', 0.0):.1e}", f"{apart:.1e}", taken)
            lines.append((L, solver, f"{seconds[solver]:.1f} ({expected[solver].seconds:.0f} estimated)", *facts))
            print(lines[-1], flush=True)
        if len(seconds) == 2:
            worst = max(worst, seconds[plan.route] / min(seconds.values()))
    head = ("L", "route", "seconds", "iterations", "verified residual", "from the iterative one", "")
    section.say(markdown(head, lines))
    section.claim("auto beside the better route, time ratio", worst, 1.2, at_least=False, quick=options.quick)

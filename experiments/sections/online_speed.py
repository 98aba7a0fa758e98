"""Section (i): rows per second of OS-ELM, single rows and blocks, beside pyoselm and the floor of the memory."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from experiments.runner.measure import interleave
from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section
from ulmus import ELMRegressor, OSELMRegressor, engine
from ulmus.engine import Rows

N_FEATURES, BLOCK, BATCH = 20, 100, 20_000
SIZES = (200, 1000)
#: Nodes at which the growth of the cost of a row is measured.
GROWTH = (250, 500, 1000, 2000)
GIVEN = {"scale": 1.0, "slope": 1.0, "C": 1.0, "fit_intercept": False, "random_state": 0}


def rows_of(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.RandomState(seed)
    X = rng.uniform(-1, 1, (n, N_FEATURES))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]


def speed(section: Section, options: Options) -> None:
    against_pyoselm(section, options)
    growth_and_floor(section, options)
    batches(section, options)


def learner(model: Any, X: np.ndarray, y: np.ndarray, size: int, *, ask: bool = False) -> Callable[[], Any]:
    """Learn all rows in blocks of this size, then (or after every block) ask for the weights."""

    def work() -> Any:
        for start in range(0, len(y), size):
            model.partial_fit(X[start : start + size], y[start : start + size])
            if ask:
                _ = model.beta_
        return getattr(model, "beta_", None)

    return work


def prequential(model: Any, X: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    """Predict every row before it is learned."""

    def work() -> Any:
        for start in range(len(y)):
            row = slice(start, start + 1)
            model.predict(X[row])
            model.partial_fit(X[row], y[row])

    return work


def pyoselm(L: int) -> Any:
    """pyoselm with its own random layer, begun on as many rows as it needs."""
    from pyoselm import OSELMRegressor as Theirs

    X, y = rows_of(int(1.2 * L) + 1, seed=1)
    return Theirs(n_hidden=L, activation_func="tanh", random_state=0).fit(X, y)


def ours(L: int, **options: Any) -> OSELMRegressor:
    X, y = rows_of(int(1.2 * L) + 1, seed=1)
    return OSELMRegressor(L, **GIVEN, **options).partial_fit(X, y)


def against_pyoselm(section: Section, options: Options) -> None:
    section.say(
        f"Rows per second, {N_FEATURES} inputs, one output. Every model has begun on 1.2 L rows and goes on from "
        "there; weights are asked for at the end of every repetition. *Predicted* means that every row is predicted "
        "before it is learned. pyoselm learns fewer rows per repetition where it is slow; rates are per row."
    )
    lines, ratios, rates = [], {}, {}
    for L in SIZES if not options.quick else (50,):
        many, few = (options.rows(2_000), max(2, options.rows(200 if L < 500 else 20)))
        try:
            theirs = pyoselm(L)
        except ImportError as error:
            section.say(f"pyoselm cannot be imported here ({error}).")
            return
        X, y = rows_of(max(many, 100 * BLOCK), seed=2)
        blocks = max(2, options.rows(100)) * BLOCK
        few_blocks = max(1, options.rows(20 if L < 500 else 4)) * BLOCK
        jobs = {
            "root, single rows": (learner(ours(L), X[:many], y[:many], 1), many),
            "covariance, single rows": (learner(ours(L, form="covariance"), X[:many], y[:many], 1), many),
            "root, predicted": (prequential(ours(L), X[:few], y[:few]), few),
            "covariance, predicted": (prequential(ours(L, form="covariance"), X[:few], y[:few]), few),
            "pyoselm, single rows": (learner(theirs, X[:few], y[:few], 1), few),
            "root, blocks": (learner(ours(L), X[:blocks], y[:blocks], BLOCK), blocks),
            "covariance, blocks": (learner(ours(L, form="covariance"), X[:blocks], y[:blocks], BLOCK), blocks),
            **{
                f"{form}, blocks, weights after each": (
                    learner(ours(L, form=form), X[:few_blocks], y[:few_blocks], BLOCK, ask=True),
                    few_blocks,
                )
                for form in ("root", "covariance", "information")
            },
            "pyoselm, blocks": (learner(pyoselm(L), X[:few_blocks], y[:few_blocks], BLOCK), few_blocks),
        }
        timings = interleave({name: job for name, (job, _) in jobs.items()}, options.repeats)
        rate = rates[L] = {name: jobs[name][1] / timing.median for name, timing in timings.items()}
        spread = {n: (jobs[n][1] / max(t.seconds), jobs[n][1] / min(t.seconds)) for n, t in timings.items()}
        lines += [(L, n, f"{r:,.0f}", f"{spread[n][0]:,.0f}..{spread[n][1]:,.0f}") for n, r in rate.items()]
        for kind, bound in (("single rows", 2), ("blocks", 3)):
            ratios[f"L = {L}, {kind}: root / pyoselm"] = (rate[f"root, {kind}"] / rate[f"pyoselm, {kind}"], bound)
    cheaper = {
        L: float(
            rates[L]["covariance, blocks, weights after each"] / rates[L]["information, blocks, weights after each"]
        )
        for L in rates
    }
    section.say(markdown(("L", f"what (blocks of {BLOCK})", "rows / s", "range"), lines))
    for L, ratio in cheaper.items():
        ratios[f"L = {L}, blocks of {BLOCK} < L with weights after each: covariance / information"] = (ratio, 1)
    for text, (ratio, bound) in ratios.items():
        section.claim(text, ratio, bound, at_least=True, quick=options.quick)


def touch(L: int, repeats: int) -> float:
    """Seconds to read and write the L(L+1)/2 numbers of a triangle once, in place."""
    triangle = np.ones(L * (L + 1) // 2)
    best = np.inf
    for _ in range(20 * repeats):
        start = perf_counter()
        np.multiply(triangle, 1.0000001, out=triangle)
        best = min(best, perf_counter() - start)
    return best


def growth_and_floor(section: Section, options: Options) -> None:
    section.say(
        "Cost of a single row in the default form as L grows, beside the time to touch an L × L triangle once (read "
        "and write in place, one thread, least of many)."
    )
    sizes = GROWTH if not options.quick else (30, 60, 90)
    n = max(10, options.rows(1_500))
    X, y = rows_of(n, seed=3)
    timings = interleave({str(L): learner(ours(L), X, y, 1) for L in sizes}, options.repeats)
    cost = {L: timings[str(L)].median / n for L in sizes}
    floor = {L: touch(L, options.repeats) for L in sizes}
    rows = [(L, f"{1e6 * cost[L]:.1f}", f"{1e6 * floor[L]:.1f}", f"{100 * floor[L] / cost[L]:.0f} %") for L in sizes]
    section.say(markdown(("L", "µs per row", "floor, µs", "of the floor's rate"), rows))
    slope = np.polyfit(np.log(sizes[1:]), np.log([cost[L] for L in sizes[1:]]), 1)[0]
    section.say(f"Slope of log cost over log L from L = {sizes[1]}: {slope:.2f}.")
    section.claim("slope", slope, 2.2, at_least=False, quick=options.quick)
    if 1000 in cost:
        share = 100 * floor[1000] / cost[1000]
        section.claim("L = 1000, % of the floor's rate", share, 50, at_least=True, quick=options.quick)


def batches(section: Section, options: Options) -> None:
    n = options.rows(BATCH)
    section.say(
        f"One batch of {n} rows by `partial_fit`, beside the sums of the batch engine alone (`engine.gram_statistics`) "
        "on the same layer. The well-conditioned layer (C = 0.01) is squared; the other (C = 1e6) is taken in by QR, "
        "as `engine.triangular_statistics` does."
    )
    X, y = rows_of(n, seed=4)
    lines = []
    for L in SIZES if not options.quick else (50,):
        for C in (0.01, 1e6):
            model = OSELMRegressor(L, **{**GIVEN, "C": C}).partial_fit(X[:200], y[:200])
            elm = ELMRegressor(L, **{**GIVEN, "C": C}).partial_fit(X[:200], y[:200])
            rows = Rows(X, y[:, None])
            jobs = {
                "OSELM.partial_fit": lambda model=model: model.partial_fit(X, y),
                "ELM.partial_fit": lambda elm=elm: elm.partial_fit(X, y),
                "gram_statistics": lambda model=model, rows=rows: engine.gram_statistics(model.map_, rows),
                "triangular_statistics": lambda model=model, rows=rows: engine.triangular_statistics(model.map_, rows),
            }
            timings = interleave(jobs, options.repeats)
            squared = model.stream_.recursion.squares
            base = timings["gram_statistics" if squared else "triangular_statistics"]
            lines.append(
                (L, f"{C:g}", "squared" if squared else "QR", *(f"{n / t.median:,.0f}" for t in timings.values()))
            )
            section.claim(
                f"L = {L}, C = {C:g}, OSELM.partial_fit / engine in time",
                timings["OSELM.partial_fit"].ratio_to(base),
                1.25,
                at_least=False,
                quick=options.quick,
            )
    section.say(markdown(("L", "C", "route", "OSELM", "ELM", "engine, Gram", "engine, QR"), lines))

"""Section (ad): what threads are worth on small products.

A search fits hundreds of small models, each of them some milliseconds of matrix products. The same product is cut into
eight pieces and given to one thread, to threads that are made for it, and to the engine's, which wait from call to
call; and to the engine's again after another product, where threads of BLAS may still spin.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from joblib import effective_n_jobs

from experiments.runner.measure import interleave
from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section
from ulmus import engine

ROWS, COLUMNS, PIECES, CALLS = 4_000, 350, 8, 40


def ways(rows: int, n_jobs: int) -> dict[str, Callable[[], None]]:
    """The same product in every way, as often as makes a time."""
    rng = np.random.RandomState(0)
    A, B = rng.standard_normal((rows, COLUMNS)), rng.standard_normal((COLUMNS, COLUMNS))
    pieces, out = list(engine.pieces(rows, -(-rows // PIECES))), np.empty_like(A)

    def work(piece: slice) -> None:
        np.matmul(A[piece], B, out=out[piece])

    def on(threads: int) -> None:
        for _ in engine.ordered_map(work, pieces, threads):
            pass

    def calls(each: Callable[[], object], order: int = 1) -> Callable[[], None]:
        def run() -> None:
            with engine.threads_for(order):
                for _ in range(CALLS):
                    each()

        return run

    def fresh() -> None:
        with ThreadPoolExecutor(n_jobs) as pool:
            list(pool.map(work, pieces))

    def after_another() -> None:
        B @ B
        on(n_jobs)

    return {
        "one thread": calls(lambda: on(1)),
        "threads made for it": calls(fresh),
        "the engine's": calls(lambda: on(n_jobs)),
        "a small product, then the engine's": calls(after_another),
        "a small product on BLAS's threads, then the engine's": calls(after_another, engine.SMALL + 1),
    }


def small_products(section: Section, options: Options) -> None:
    """One table."""
    n_jobs = effective_n_jobs(-1)
    timings = interleave(ways(options.rows(ROWS), n_jobs), options.repeats)
    base = timings["one thread"]
    rows = [
        (name, f"{1e3 * timing.median / CALLS:.2f}", f"{1 / timing.ratio_to(base):.2f}")
        for name, timing in timings.items()
    ]
    section.say(
        f"{options.rows(ROWS):,} × {COLUMNS} by {COLUMNS} × {COLUMNS}, in {PIECES} pieces; {n_jobs} threads, BLAS on "
        f"one each. The small product is {COLUMNS} × {COLUMNS} by itself."
    )
    section.say(markdown(("who", "ms", "times as fast as one thread"), rows))

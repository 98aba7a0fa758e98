"""Section (ai): how the cost of an adaptive model grows with the rows.

Ten features of section (ag), waves of four of them with noise: seconds, memory and the error on fresh rows, by ``fit``,
by ``streaming.fit`` from Parquet files, on a GPU, and by LightGBM with 500 trees. Seconds are those of one processor,
on a GPU those of a clock, after a warm-up; memory is what comes on top of the rows, on a GPU all that is held there.
Every figure comes from a process of its own. ``--repeats N`` takes the first N sizes; one way and one size alone is

    python -m experiments.sections.growth WAY ROWS

with a way among memory, stream, cuda and lightgbm. Measurements are kept in docs/results/growth.json, from which
``python docs/pictures.py growth`` draws.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.runner.facts import machine
from experiments.runner.measure import peak_above_now
from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section, in_a_process
from experiments.sections.adaptive_streams import NAMES, NOISE, ROWS_PER_FILE, TEST_ROWS, WIDTH, block, generate
from ulmus import AdaptiveRegressor, streaming

SIZES = (10**4, 3 * 10**4, 10**5, 3 * 10**5, 10**6, 3 * 10**6, 10**7)
#: Rows up to which a way is tried, and what it needs.
WAYS = {
    "memory": (10**6, "ulmus"),
    "stream": (10**7, "pyarrow"),
    "lightgbm": (10**7, "lightgbm"),
    "cuda": (10**7, "torch"),
}
#: Gigabytes that a model may hold.
MAX_MEMORY = 8.0
KEPT = Path(__file__).parents[2] / "docs" / "results" / "growth.json"


def table(n: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows of :func:`generate`, in memory."""
    blocks = [block(k, min(ROWS_PER_FILE, n - start)) for k, start in enumerate(range(0, n, ROWS_PER_FILE))]
    return np.concatenate([X for X, _ in blocks]), np.concatenate([y for _, y in blocks])


def contestant(way: str, n: int, folder: Path) -> tuple[Callable[[], Any], Callable[[np.ndarray], np.ndarray]]:
    """What is to be timed, and who predicts afterwards."""
    if way == "lightgbm":
        import lightgbm

        boosted = lightgbm.LGBMRegressor(n_estimators=500, learning_rate=0.05, n_jobs=1, random_state=0, verbose=-1)
        X, y = table(n)
        return lambda: boosted.fit(X, y), lambda rows: np.asarray(boosted.predict(rows))
    options: dict[str, Any] = {"device": "cuda"} if way == "cuda" else {"n_jobs": 1}
    model = AdaptiveRegressor(max_memory=MAX_MEMORY, random_state=0, **options)
    if way == "stream":
        generate(folder, n)
        return (
            lambda: streaming.fit(model, folder, target="y", progress=False),
            lambda rows: model.predict(pd.DataFrame(rows, columns=NAMES)),
        )
    X, y = table(n)
    if way == "cuda":
        few = table(60_000)
        AdaptiveRegressor(device="cuda", random_state=0).fit(*few).predict(few[0])
        import torch

        torch.cuda.reset_peak_memory_stats()
    return lambda: model.fit(X, y), model.predict


def job(way: str, rows: str) -> dict[str, Any]:
    """One fit."""
    n = int(rows)
    with tempfile.TemporaryDirectory() as folder:
        fit, predict = contestant(way, n, Path(folder))
        wall, processor = time.perf_counter(), time.process_time()
        peak = peak_above_now(fit)
        seconds = time.perf_counter() - wall if way == "cuda" else time.process_time() - processor
    if way == "cuda":
        import torch

        peak = torch.cuda.max_memory_allocated() / 1e6
    X, y = block(10**6, TEST_ROWS)
    error = float(np.sqrt(np.mean((predict(X) - y) ** 2)))
    return {"way": way, "rows": n, "seconds": seconds, "peak": peak, "error": error, "machine": machine()}


def here(way: str) -> bool:
    """Whether this machine has what a way needs."""
    if find_spec(WAYS[way][1]) is None:
        return False
    if way != "cuda":
        return True
    import torch

    return bool(torch.cuda.is_available())


def keep(found: list[dict[str, Any]]) -> None:
    """Put measurements into the file of all, in place of those of the same way and size."""
    known = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else []
    every = {(one["way"], one["rows"]): one for one in [*known, *found]}
    KEPT.write_text(json.dumps([every[key] for key in sorted(every)], indent=1) + "\n", encoding="utf-8")


def growth(section: Section, options: Options) -> None:
    """All ways that are here, up to their sizes."""
    found = []
    for way, (most, needs) in WAYS.items():
        if not here(way):
            section.say(f"Not here: {way}, which needs {needs}.")
            continue
        sizes = [options.rows(n) for n in SIZES[: options.repeats] if n <= most]
        found += [section.kept(f"{way}/{n}", lambda way=way, n=n: in_a_process("growth", way, n)) for n in sizes]
    section.say(f"{WIDTH} features, noise of deviation {NOISE}; models of at most {MAX_MEMORY:g} GB.")
    rows = [
        (
            *(one["way"], f"{one['rows']:,}", f"{one['seconds']:.3g}", f"{1e6 * one['seconds'] / one['rows']:.3g}"),
            *(f"{one['peak']:,.0f}", f"{one['error']:.4f}"),
        )
        for one in found
    ]
    section.say(markdown(("way", "rows", "seconds", "µs per row", "memory, MB", "error (RMSE)"), rows))
    if not options.quick:
        keep(found)


if __name__ == "__main__":
    print(json.dumps(job(*sys.argv[1:])))

"""Section (ag): adaptive models past memory.

Rows of ten features are written to Parquet files under the folder that ULMUS_BENCH_DATA names (a temporary one by
default), fitted by ``streaming.fit`` and, loaded, by ``fit``: processor seconds on one thread, peak memory above what
the process held before, and the error on rows that were held back. Every figure comes from a process of its own.
Rows of 28 features, of which ten million are to take 4 GB at most and 1.3 times as much a row as a million, are

    python -m experiments.sections.adaptive_streams wide ROWS
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from experiments.runner.measure import peak_above_now
from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section, in_a_process
from ulmus import AdaptiveRegressor, streaming

WIDTH, NOISE, TEST_ROWS = 10, 0.3, 20_000
ROWS_PER_FILE, MAX_MEMORY = 250_000, 2.0
NAMES = [f"x{j}" for j in range(WIDTH)]
#: Features of many rows, and gigabytes of their model.
WIDE, WIDE_MEMORY = 28, 3.0


def block(number: int, rows: int, width: int = WIDTH) -> tuple[np.ndarray, np.ndarray]:
    """Uniform features and waves of four of them, with noise."""
    rng = np.random.default_rng(number)
    X = rng.uniform(-1, 1, (rows, width))
    clean = np.sin(6 * X[:, 0]) * np.cos(4 * X[:, 1]) + X[:, 2] * X[:, 3]
    return X, clean + NOISE * rng.standard_normal(rows)


def named(X: np.ndarray) -> pd.DataFrame:
    """Rows as a frame."""
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])


def generate(folder: Path, n: int, width: int = WIDTH) -> None:
    """The first ``n`` rows as files."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, start in enumerate(range(0, n, ROWS_PER_FILE)):
        X, y = block(k, min(ROWS_PER_FILE, n - start), width)
        named(X).assign(y=y).to_parquet(folder / f"{k:03}.parquet", row_group_size=2**16)


def job(way: str, folder: str, effort: str) -> dict[str, Any]:
    """One fit."""
    model = AdaptiveRegressor(effort=effort, max_memory=MAX_MEMORY, random_state=0, n_jobs=1)
    rows = None
    if way == "memory":
        frame = pq.read_table(folder).to_pandas()
        rows = frame[NAMES].to_numpy(), frame["y"].to_numpy()
        del frame

    def fit() -> None:
        if rows is None:
            streaming.fit(model, folder, target="y", progress=False)
        else:
            model.fit(*rows)

    began = time.process_time()
    peak = peak_above_now(fit)
    seconds = time.process_time() - began
    X, y = block(10**6, TEST_ROWS)
    P = model.predict(named(X) if rows is None else X)
    error = float(np.sqrt(np.mean((P - y) ** 2)))
    return {"seconds": seconds, "peak": peak, "error": error, "model": model.memory_ / 1e6}


def wide_job(rows: str) -> dict[str, Any]:
    """One fit from files, on all processors."""
    n = int(rows)
    model = AdaptiveRegressor(max_memory=WIDE_MEMORY, random_state=0)
    with tempfile.TemporaryDirectory(dir=os.environ.get("ULMUS_BENCH_DATA")) as folder:
        generate(Path(folder), n, WIDE)
        clock, began = time.perf_counter(), time.process_time()
        peak = peak_above_now(lambda: streaming.fit(model, folder, target="y", progress=False))
        seconds = {"clock": time.perf_counter() - clock, "seconds": time.process_time() - began}
    X, y = block(10**6, TEST_ROWS, WIDE)
    error = float(np.sqrt(np.mean((model.predict(named(X)) - y) ** 2)))
    rounds = 0 if model.local_ is None else len(model.local_.partitions)
    return {"rows": n, **seconds, "peak": peak, "error": error, "model": model.memory_ / 1e6, "partitions": rounds}


def past_memory(section: Section, options: Options) -> None:
    sizes = [options.rows(10**5), options.rows(5 * 10**5)]
    found: dict[tuple[str, int], dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(os.environ.get("ULMUS_BENCH_DATA", temporary))
        for n in sizes:
            folder = root / f"adaptive-{n}"
            generate(folder, n)
            for way in ("stream", "memory"):
                found[way, n] = in_a_process("adaptive_streams", way, folder.resolve(), "default")
    rows = []
    for (way, n), r in found.items():
        cost = f"{1e6 * r['seconds'] / n:.0f}"
        about = (f"{r['peak']:,.0f}", f"{r['model']:,.0f}", f"{r['error']:.4f}")
        rows.append((way, f"{n:,}", f"{r['seconds']:.3g}", cost, *about))
    section.say(
        f"`AdaptiveRegressor()`, {WIDTH} features, noise of deviation {NOISE}, Parquet files of {ROWS_PER_FILE:,} "
        "rows, one thread. In memory the rows were loaded before; the peak is what came on top."
    )
    heads = ("way", "rows", "processor s", "µs per row", "peak above start, MB", "model, MB", "error (RMSE)")
    section.say(markdown(heads, rows))
    small, large = (found["stream", n]["seconds"] / n for n in sizes)
    errors = [found[way, sizes[-1]]["error"] for way in ("stream", "memory")]
    quick = options.quick
    section.claim("Cost per row at five times the rows", large / small, 1.3, at_least=False, quick=quick)
    section.claim("Error over that of memory", errors[0] / errors[1], 1.01, at_least=False, quick=quick)


if __name__ == "__main__":
    print(json.dumps(wide_job(sys.argv[2]) if sys.argv[1] == "wide" else job(*sys.argv[1:])))

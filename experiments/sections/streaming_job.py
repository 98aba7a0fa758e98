"""One measurement in a process of its own, ``python -m experiments.sections.streaming_job JOB FOLDER ROWS [BYTES]``.

Jobs: ``stream`` fits the Parquet files of a folder, ``memory`` loads the same rows and fits them, ``limited`` streams
with an address space of so many bytes, ``predict`` writes predictions of the files to Parquet.
"""

import json
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from experiments.runner.measure import Resident
from ulmus import NKELMRegressor, streaming

WIDTH, LANDMARKS = 28, 500
ROWS_PER_FILE = 1_000_000


def names() -> list[str]:
    return [f"x{j}" for j in range(WIDTH)]


def block(number: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal features and a target that depends on a few of them."""
    rng = np.random.default_rng(number)
    X = rng.standard_normal((rows, WIDTH))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(rows)
    return X, y


def generate(folder: Path, n: int, threads: int = 1) -> None:
    """The first ``n`` rows as files of a million; files that are there already stay."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(threads) as pool:
        starts = range(0, n, ROWS_PER_FILE)
        list(pool.map(lambda k: write(folder, k, min(ROWS_PER_FILE, n - starts[k])), range(len(starts))))


def write(folder: Path, k: int, rows: int) -> None:
    """One file."""
    path = folder / f"part-{k:03}.parquet"
    if path.exists() and pq.ParquetFile(path).metadata.num_rows == rows:
        return
    X, y = block(k, rows)
    columns = {name: X[:, j] for j, name in enumerate(names())} | {"y": y}
    pq.write_table(pa.table(columns), path, row_group_size=2**17, use_dictionary=False)


def model() -> NKELMRegressor:
    return NKELMRegressor(LANDMARKS, gamma=0.5 / WIDTH, C=1.0, random_state=0)


def in_memory(folder: Path, n: int) -> tuple[np.ndarray, np.ndarray]:
    """All rows, file by file into arrays that were allocated once."""
    X, y, row = np.empty((n, WIDTH)), np.empty(n), 0
    for path in sorted(folder.glob("*.parquet")):
        for part in pq.ParquetFile(path).iter_batches(2**16):
            stop = row + part.num_rows
            for j, name in enumerate(names()):
                X[row:stop, j] = part.column(name).to_numpy(zero_copy_only=False)
            y[row:stop] = part.column("y").to_numpy(zero_copy_only=False)
            row = stop
    return X, y


def main() -> None:
    job, folder, n = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    given = in_memory(folder, n) if job == "memory" else None
    if job == "limited":
        resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[4]), int(sys.argv[4])))
    extra: dict[str, Any] = {}
    if job == "predict":
        X, y = block(0, 20_000)
        fitted = model().fit(X, y)
    with Resident() as resident:
        start = time.perf_counter()
        if given is not None:
            fitted = model().fit(*given)
        elif job == "predict":
            out = streaming.predict(fitted, folder, folder.parent / "predicted.parquet", features=names(), keep=["y"])
        else:
            fitted = streaming.fit(model(), folder, target="y")
        seconds = time.perf_counter() - start
    if job == "predict":
        back = pq.read_table(out)
        X, y = block(0, min(n, ROWS_PER_FILE))
        extra["kept"] = bool((back["y"].to_numpy()[: len(y)] == y).all())
        extra["error"] = float(np.abs(back["prediction"].to_numpy()[:1000] - fitted.predict(X[:1000])).max())
        out.unlink()
    probe = np.random.default_rng(99).standard_normal((5, WIDTH))
    answers = fitted.predict(probe).tolist()
    condition = float(fitted.map_.condition_)
    print(json.dumps({"seconds": seconds, "peak": resident.peak, "answers": answers, "condition": condition, **extra}))


if __name__ == "__main__":
    main()

"""Sections (t) and (u): streams and clusters.

Section t writes 10⁷ rows of 28 features to Parquet files under the folder that ULMUS_BENCH_DATA names (some 2.3 GB; a
temporary one by default), fits NKELM with 500 landmarks to them in constant memory, and compares with the same fit to
rows in memory. Every figure comes from a process of its own. Section u fits on a Dask cluster of one and two workers.
"""

import os
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone

from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section, in_a_process
from experiments.sections.streaming_job import LANDMARKS, WIDTH, generate, model
from ulmus import AdaptiveRegressor

#: Partitions on a cluster.
PARTS = 32


def measured(job: str, folder: Path, n: int, *extra: object) -> dict[str, Any]:
    return in_a_process("streaming_job", job, folder.resolve(), n, *extra)


def parquet(section: Section, options: Options) -> None:
    large = options.rows(10**7)
    small = large // 10
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(os.environ.get("ULMUS_BENCH_DATA", temporary))
        folders = {n: root / f"rows-{n}" / "rows" for n in (small, large)}
        for n, folder in folders.items():
            generate(folder, n)
        repeats = max(1, options.repeats)
        found: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for _ in range(repeats):
            for job, n in (("stream", small), ("stream", large), ("memory", large)):
                found.setdefault((job, n), []).append(measured(job, folders[n], n))
        rows = []
        for (job, n), runs in found.items():
            seconds, peak = median(r["seconds"] for r in runs), max(r["peak"] for r in runs)
            rows.append((job, f"{n:,}", f"{seconds:.3g}", f"{n / seconds:,.0f}", f"{peak:,.0f}"))
        section.say(
            f"NKELM, {LANDMARKS} landmarks, {WIDTH} features in float64, Parquet files of a million rows. Streamed "
            "times hold all reading (twice) and choosing; in-memory times begin when the rows are loaded. "
            f"Condition of K_zz {found['stream', large][0]['condition']:.3g}."
        )
        section.say(markdown(("job", "rows", "seconds", "rows/s", "peak RSS, MB"), rows))
        pairs = zip(found["memory", large], found["stream", large], strict=True)
        ratio = median(m["seconds"] / s["seconds"] for m, s in pairs)
        peaks = {n: max(r["peak"] for r in found["stream", n]) for n in (small, large)}
        answers = [np.array(found[job, large][0]["answers"]) for job in ("stream", "memory")]
        limit = int(2.5 * 2**30)
        starved = measured("limited", folders[large], large, limit)
        quick = options.quick
        section.claim("Rows per second over those in memory", ratio, 0.8, at_least=True, quick=quick)
        section.claim("Peak resident memory, GB", peaks[large] / 1e3, 2.0, at_least=False, quick=quick)
        change = abs(peaks[large] / peaks[small] - 1)
        section.claim("Change of the peak from a tenth of the rows to all", change, 0.1, at_least=False, quick=quick)
        section.say(
            f"Largest difference of predictions to the model in memory, whose landmarks are another sample: "
            f"{np.abs(answers[0] - answers[1]).max():.2g}. With an address space limited to {limit / 2**30:.2g} GiB "
            f"(RLIMIT_AS) the same fit took {starved['seconds']:.3g} s and gave "
            f"{'the same bits' if starved['answers'] == found['stream', large][0]['answers'] else 'OTHER BITS'}."
        )
        written = measured("predict", folders[small], small)
        section.say(
            f"{small:,} predictions to Parquet and back: {small / written['seconds']:,.0f} rows/s, peak "
            f"{written['peak']:,.0f} MB, largest difference to `predict` {written['error']:.2g}, kept column "
            f"{'equal' if written['kept'] else 'DIFFERENT'}."
        )


def dask_scaling(section: Section, options: Options) -> None:
    """NKELM and adaptive models by one worker and by two."""
    fits = ("first", "second")
    n, columns = options.rows(2 * 10**6), WIDTH
    seconds, weights = _by_workers(model(), n, columns, fits, options.repeats)
    rows = [(w, fit, f"{median(s):.3g}", f"{n / median(s):,.0f}") for (w, fit), s in seconds.items()]
    section.say(
        f"NKELM, {LANDMARKS} landmarks, {n:,} rows × {columns} in {PARTS} partitions in worker memory. "
        "Workers are new; in their first fit each imports the library, which no second worker makes shorter."
    )
    section.say(markdown(("workers", "fit", "seconds", "rows/s"), rows))
    times = {fit: median(a / b for a, b in zip(seconds[1, fit], seconds[2, fit], strict=True)) for fit in fits}
    section.say(f"Two workers, first fit: {times['first']:.3g} times as fast as one.")
    section.claim("Two workers, times as fast as one", times["second"], 1.7, at_least=True, quick=options.quick)
    same = bool((weights[1].beta_ == weights[2].beta_).all())
    section.say(f"Weights are {'the same to the last bit' if same else 'DIFFERENT'}.")

    n, columns = options.rows(10**6), 10
    seconds, _ = _by_workers(AdaptiveRegressor(random_state=0), n, columns, ("whole",), 1)
    one, two = (seconds[workers, "whole"][0] for workers in (1, 2))
    section.say(
        f"AdaptiveRegressor, {n:,} rows × {columns}, one fit by workers that know the library: {one:.3g} and "
        f"{two:.3g} s. The view is chosen by the client, which is the same work for any number of workers."
    )
    section.claim("Adaptive, two workers", one / two, 1.7, at_least=True, quick=options.quick)


def _by_workers(
    model: Any, n: int, columns: int, fits: tuple[str, ...], repeats: int
) -> tuple[dict[tuple[int, str], list[float]], dict[int, Any]]:
    """Seconds of fits, by workers and which fit it was, and the models fitted last."""
    import dask.array as da
    from distributed import Client, LocalCluster

    from ulmus import distributed

    chunk = max(1, n // PARTS)
    seconds: dict[tuple[int, str], list[float]] = {(workers, fit): [] for workers in (1, 2) for fit in fits}
    models = {}
    for _ in range(max(1, repeats)):
        for workers in (1, 2):
            with (
                LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
                Client(cluster) as client,
            ):
                X = da.random.default_rng(0).standard_normal((n, columns), chunks=(chunk, columns)).persist()
                y = (da.sin(2 * X[:, 0]) * X[:, 1] + da.absolute(X[:, 2])).persist()
                da.compute(X.sum(), y.sum())
                if fits[0] != "first":
                    distributed.fit(clone(model), X[: n // 16], y[: n // 16], client=client)
                for fit in fits:
                    start = perf_counter()
                    models[workers] = distributed.fit(clone(model), X, y, client=client)
                    seconds[workers, fit].append(perf_counter() - start)
    return seconds, models

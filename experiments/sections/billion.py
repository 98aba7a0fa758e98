"""Section (aj): what an adaptive model of a billion rows would cost on 32 workers, from rates that are measured here.

``distributed.fit`` runs on one thread, without a cluster, on a table of 28 features; processor seconds of every kind of
task are summed: passes over the rows, merges, rows divided among cells, leaves, and what is left for the client. What a
task gives is pickled, as it would travel, and counted. Rates are scaled to 10⁹ rows in partitions of a million, passes
and tasks to what that many rows and partitions make of them; the network is not measured but assumed.
"""

import pickle
from collections import defaultdict
from collections.abc import Callable
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np

from experiments.runner.protocol import markdown
from experiments.runner.report import Options, Section
from ulmus import AdaptiveRegressor, distributed
from ulmus.streaming.leaves import CELL_ROWS

ROWS, PARTITIONS, SAMPLE = 200_000, 8, 20_000
#: What is asked about, and a network of 10 Gbit a second for each worker.
BILLION, ROWS_EACH, WORKERS, BYTES_A_SECOND = 10**9, 10**6, 32, 1.25e9


class Spent:
    """Processor seconds, calls and bytes of results of every kind of task."""

    def __init__(self) -> None:
        self.seconds = defaultdict[str, float](float)
        self.calls, self.bytes = defaultdict[str, int](int), defaultdict[str, int](int)
        self.now = ""

    def of(self, kind: Callable[[], str], work: Callable[..., Any]) -> Callable[..., Any]:
        """The same work, counted."""

        def counted(*given: Any) -> Any:
            began = process_time()
            found = work(*given)
            self.seconds[kind()] += process_time() - began
            self.calls[kind()] += 1
            self.bytes[kind()] += len(pickle.dumps(found, 5))
            return found

        return counted


def table(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal rows of 28 features, waves of some of them, noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 28))
    return X, np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + np.tanh(X[:, 2:6].sum(1)) + 0.3 * rng.standard_normal(n)


def rates(n: int, partitions: int, sample: int) -> tuple[Spent, float, Any]:
    """One fit: what its tasks took, what the client took, and the model."""
    import dask
    import dask.array as da

    X, y = table(n)
    rows = -(-n // partitions)
    spent, reduce = Spent(), distributed.Partitions.reduce

    def named(self: Any, name: str, *given: Any) -> Any:
        spent.now = name
        return reduce(self, name, *given)

    patches = {
        (distributed.Partitions, "reduce"): named,
        (distributed.Task, "run"): spent.of(lambda: spent.now, distributed.Task.run),
        (distributed.Task, "merge"): spent.of(lambda: f"merge, {spent.now}", distributed.Task.merge),
        (distributed.CellTask, "divide"): spent.of(lambda: "divide", distributed.CellTask.divide),
        (distributed.CellTask, "solve"): spent.of(lambda: "leaves", distributed.CellTask.solve),
    }
    with dask.config.set(scheduler="synchronous"):
        for (owner, name), made in patches.items():
            patch.object(owner, name, made).start()
        try:
            model = AdaptiveRegressor(random_state=0, n_jobs=1, max_memory=1e3)
            began = process_time()
            chunks = da.from_array(X, chunks=(rows, 28)), da.from_array(y, chunks=rows)
            distributed.fit(model, *chunks, sample_rows=sample, progress=False)
            total = process_time() - began
        finally:
            patch.stopall()
    return spent, total - sum(spent.seconds.values()), model


def billion(section: Section, options: Options) -> None:
    """Rates, and what they come to."""
    n = options.rows(ROWS)
    spent, client, model = rates(n, PARTITIONS, SAMPLE if not options.quick else n // 10)
    parts, rounds = BILLION // ROWS_EACH, len(model.local_.partitions)
    section.say(
        f"`distributed.fit(AdaptiveRegressor(), …)` of {n:,} × 28 in {PARTITIONS} partitions, one thread; the client "
        f"took {client:.3g} s, most of it for the view."
    )
    passes = [name for name in spent.seconds if name not in ("divide", "leaves") and not name.startswith("merge")]
    rows, total = [], client
    for name in [*passes, "divide", "leaves"]:
        each = spent.seconds[name] / n
        seconds = each * BILLION / WORKERS
        total += seconds
        sent = spent.bytes[name] / (spent.calls[name] if name in passes else n)
        much = sent * (parts if name in passes else BILLION)
        count = parts if name != "leaves" else min(parts, rounds * BILLION // CELL_ROWS)
        rows.append((name, f"{1e6 * each:.3g}", f"{seconds:,.0f}", f"{count:,}", f"{much / 1e9:.3g}"))
    section.say(markdown(("task", "µs per row", f"10⁹ rows on {WORKERS}, s", "tasks", "results, GB"), rows))
    shuffled = spent.bytes["divide"] / n * BILLION
    network, groups = shuffled / (WORKERS * BYTES_A_SECOND), min(parts, rounds * BILLION // CELL_ROWS)
    section.say(
        f"Merges: {spent.seconds['merge, sums-1'] / spent.calls['merge, sums-1']:.2g} s each; of {parts:,} partitions "
        f"{-(-(parts - 1) // 7)} for a pass. Rows that travel: {shuffled / 1e9:,.0f} GB in up to {parts * groups:,} "
        f"messages, {network:,.0f} s at {BYTES_A_SECOND / 1e9:g} GB a second for each worker (assumed). The leaves, "
        f"{spent.bytes['leaves'] / n * BILLION / 1e9:,.0f} GB, come back to one machine: "
        f"{spent.bytes['leaves'] / n * BILLION / BYTES_A_SECOND:,.0f} s. Together {total + network:,.0f} s, and that."
    )


__all__ = ["billion", "rates"]

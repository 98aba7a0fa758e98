"""Cells one after the other, or several at a time in processes of their own, each on one core."""

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from threadpoolctl import ThreadpoolController

from experiments.runner.guard import guarded
from experiments.runner.protocol import Answer, Cell

#: What is asked right before a cell would start: an answer that needs no work, or None.
Known = Callable[[Cell], Answer | None]
#: What libraries of numbers read their number of threads from.
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def computed(cells: Iterable[Cell], known: Known, jobs: int = 1) -> Iterator[tuple[Cell, Answer]]:
    """Cells and their answers, as they come: first those that run side by side on one core each."""
    side: list[Cell] = []
    alone: list[Cell] = []
    for cell in cells:
        (side if cell.cores == "one" or (jobs > 1 and cell.cores == "any") else alone).append(cell)
    if side:
        yield from _side_by_side(side, known, jobs)
    for cell in alone:
        answer = known(cell)
        yield cell, guarded(cell) if answer is None else answer


def _side_by_side(cells: Iterable[Cell], known: Known, jobs: int) -> Iterator[tuple[Cell, Answer]]:
    """The same with so many processes. They live on between cells, and so does what a cell has kept for the next."""
    context = multiprocessing.get_context("spawn")
    places = context.SimpleQueue()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    for k in range(jobs):
        places.put(cores[k % len(cores)] if cores else None)
    pool = ProcessPoolExecutor(jobs, context, _settle, (places,))
    running: dict[Future[Answer], Cell] = {}
    try:
        for cell in cells:
            answer = known(cell)
            if answer is not None:
                yield cell, answer
                continue
            running[pool.submit(guarded, cell)] = cell
            if len(running) == jobs:
                yield from _finished(running)
        while running:
            yield from _finished(running)
    except BrokenProcessPool:
        lost = ", ".join(cell.key for cell in running.values())
        raise MemoryError(
            f"a process ended by itself, perhaps for want of memory, with {lost}; what was done is kept: run the same "
            "command with fewer --jobs"
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()


def _finished(running: dict[Future[Answer], Cell]) -> Iterator[tuple[Cell, Answer]]:
    """Wait for one cell or more, and take them out."""
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        answer = future.result()
        yield running.pop(future), answer


def _settle(places: Any) -> None:
    """Keep this process, and those that it starts, to one core and one thread."""
    core = places.get()
    if core is not None:
        os.sched_setaffinity(0, {core})
    os.environ.update(dict.fromkeys(VARIABLES, "1"))
    ThreadpoolController().limit(limits=1)

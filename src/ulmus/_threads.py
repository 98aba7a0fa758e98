"""The engine's threads, and how many BLAS uses while they work: one."""

import os
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache, partial
from multiprocessing import current_process
from typing import Any, Generic, TypeVar

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Pools of one size that are kept; calls that overlap take one each.
MOST_IDLE = 4


@cache
def _pools() -> tuple[list[Any], list[Any]]:
    """Libraries whose number of threads is the process's, and those (OpenMP) where every thread has its own number."""
    libraries = [lib for lib in ThreadpoolController().lib_controllers if lib.num_threads is not None]
    own = [lib for lib in libraries if "openmp" in (lib.user_api, getattr(lib, "threading_layer", ""))]
    return [lib for lib in libraries if lib not in own], own


def _set_threads(library: Any, count: int) -> None:
    """For the process, whoever asks: by itself threadpoolctl obeys only the thread that came first, and so nobody else.

    A fit on a thread of Dask or of joblib would then wake all BLAS threads under each of its workers.
    """
    getattr(library, "_real_set_num_threads", library.set_num_threads)(count)


def limit_own() -> None:
    """One thread, for what is counted by threads."""
    for library in _pools()[1]:
        library.set_num_threads(1)


class _OneThread:
    """BLAS on one thread for as long as anybody asks for it.

    The number of BLAS threads is the process's, and callers in several threads overlap: the first to come sets it, the
    last to leave restores it. Otherwise the first to leave would wake all BLAS threads under the others, and the last
    would leave the process with one.
    """

    def __init__(self) -> None:
        self._lock, self._users = threading.Lock(), 0
        self._before: list[int] = []
        self._kept = False
        self._local = threading.local()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._alone)

    def _alone(self) -> None:
        """In a forked process: other threads are gone, and with them what they asked for and the lock they may hold.

        If they had BLAS on one thread, what there was before them is remembered, and restored after the next use.
        """
        self._lock = threading.Lock()
        mine = len(getattr(self._local, "before", []))
        self._kept = self._users > mine == 0
        self._users = mine

    def __enter__(self) -> None:
        shared, own = _pools()
        with self._lock:
            if not self._users:
                if not self._kept:
                    self._before = [library.num_threads for library in shared]
                self._kept = False
                for library in shared:
                    _set_threads(library, 1)
            self._users += 1
        self._local.before = [*getattr(self._local, "before", []), [library.num_threads for library in own]]
        limit_own()

    def __exit__(self, *_: object) -> None:
        shared, own = _pools()
        with self._lock:
            self._users -= 1
            if not self._users:
                for library, count in zip(shared, self._before, strict=True):
                    _set_threads(library, count)
        if getattr(self._local, "before", []):  # a generator may be closed on another thread than began it
            for library, count in zip(own, self._local.before.pop(), strict=True):
                library.set_num_threads(count)


one_thread = _OneThread()


class _ThreadPools:
    """Threads that wait for the next call.

    Fresh ones often share a core until the system spreads them, which takes longer than most calls do
    (``experiments/sections/threads.py``). Each call has a pool to itself, so that calls may be nested.
    """

    def __init__(self) -> None:
        self.forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)  # a forked process has none of its parent's threads

    def forget(self) -> None:
        self._lock = threading.Lock()
        self._idle: defaultdict[int, list[ThreadPoolExecutor]] = defaultdict(list)

    @contextmanager
    def of(self, size: int) -> Iterator[ThreadPoolExecutor]:
        """A pool of this many; whoever asks waits for what it has begun, or cancels it."""
        with self._lock:
            idle = self._idle[size]
            pool = idle.pop() if idle else ThreadPoolExecutor(size, "ulmus", initializer=limit_own)
        try:
            yield pool
        finally:
            with self._lock:
                kept = len(idle) < MOST_IDLE
                if kept:
                    idle.append(pool)
            if not kept:
                pool.shutdown(wait=False)


thread_pools = _ThreadPools()


class _Task(Generic[Result]):
    """A call that is made once, by whoever comes first: a thread of the pool, or who waits for the result."""

    def __init__(self, pool: Executor, call: Callable[[], Result]) -> None:
        self._call, self._begun, self.result = call, threading.Lock(), Future[Result]()
        self.offered = pool.submit(self.run)

    def claim(self) -> bool:
        """Whether nobody has begun it; nobody else will."""
        return self._begun.acquire(blocking=False)

    def run(self) -> None:
        if not self.claim():
            return
        try:
            self.result.set_result(self._call())
        except BaseException as error:
            if not self.result.done():  # an interrupt may come when the result is there already
                self.result.set_exception(error)
            if not isinstance(error, Exception):  # an interrupt does not wait for its turn
                raise


def _first(tasks: deque[_Task[Result]], helping: bool) -> Result:
    """The result of the first task; who waits for it may work on it, or on the next ones, meanwhile."""
    for task in tasks if helping else ():
        if tasks[0].result.done():
            break
        task.run()
    return tasks.popleft().result.result()


def ordered_map(
    work: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None = -1
) -> Generator[Result, None, None]:
    """``map(work, items)`` on threads with single-threaded BLAS; results in order, few in flight."""
    items = list(items) if not isinstance(items, Iterator) else items
    few = isinstance(items, list) and len(items) <= 1
    # a worker of a cluster or a pool has one; joblib asks the operating system, and would warn there
    threads = 1 if few or current_process().daemon else effective_n_jobs(n_jobs)
    if isinstance(items, list):
        threads = min(threads, len(items))
    if threads <= 1:
        with one_thread:
            yield from map(work, items)
        return
    helping = isinstance(items, list)  # this thread, too; otherwise it has the next items to fetch
    with one_thread, thread_pools.of(threads - helping) as pool:
        tasks: deque[_Task[Result]] = deque()
        try:
            for item in items:
                tasks.append(_Task(pool, partial(work, item)))
                if len(tasks) > threads:
                    yield _first(tasks, helping)
            while tasks:
                yield _first(tasks, helping)
        finally:  # an error, or nobody wants the rest: it is not begun, and what the pool has begun is waited for
            for task in tasks:
                task.claim()
            wait([task.offered for task in tasks])


def on_threads(work: Callable[[Item], None], items: Iterable[Item], n_jobs: int | None = -1) -> None:
    """``work`` on every item, for what it writes (:func:`ordered_map`)."""
    for _ in ordered_map(work, items, n_jobs):
        pass


@contextmanager
def aside(work: Callable[[], Result], n_jobs: int | None) -> Iterator[Callable[[], Result]]:
    """What ``work`` comes to, for who asks: begun at once on another thread where there is one, else when asked for."""
    if current_process().daemon or effective_n_jobs(n_jobs) <= 1:
        yield work
        return
    with thread_pools.of(1) as pool:
        task = _Task(pool, work)

        def result() -> Result:
            task.run()  # where nobody has begun it
            return task.result.result()

        try:
            yield result
        finally:  # what is not begun is not wanted any more, and what is has to end
            task.claim()
            wait([task.offered])

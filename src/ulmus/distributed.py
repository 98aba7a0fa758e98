"""Fits and predictions on Dask collections: one task per partition, sums merged in a tree, an ordinary model back."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ulmus import engine
from ulmus.backend import Host
from ulmus.models.adaptive_steps import AdaptiveSteps
from ulmus.models.reading import columns_restored
from ulmus.solvers.cells import Cell, CellSolver
from ulmus.solvers.local import LocalKernels
from ulmus.streaming._extras import need
from ulmus.streaming.adaptive_passes import Recorded, Seen
from ulmus.streaming.arrays import joined, taken
from ulmus.streaming.batches import BATCH_ROWS, Batch
from ulmus.streaming.errors import SourceError
from ulmus.streaming.fitting import check_model, fit_stream, random_numbers, steps_of, survey_for
from ulmus.streaming.journal import Journal
from ulmus.streaming.leaves import CELL_ROWS
from ulmus.streaming.progress import Progress, Show
from ulmus.streaming.shelves import divided, rows_of
from ulmus.streaming.stream import AnyAccumulator
from ulmus.streaming.survey import SAMPLE_ROWS
from ulmus.streaming.transformer import Sample

#: Results that are merged by one task.
FAN_IN = 8
#: Cells of a partition of the local stage, at least, where rows are many: more than a few workers have to do at once.
CELLS = 16


def fit(
    model: Any,
    X: Any,
    y: Any,
    *,
    client: Any = None,
    sample_weight: Any = None,
    sample_rows: int = SAMPLE_ROWS,
    progress: Show = None,
) -> Any:
    """Fit a model to a Dask array or dataframe.

    Partitions are read twice, where they are: once to count and to draw a sample, on which the feature map is chosen
    here; once to sum. What travels is the sample and, per partition, a matrix of the order of the number of features.
    A partition whose worker is lost is summed again elsewhere; sums are merged in a fixed order, so that the result is
    the same to the last bit. Data that are slow to make should be persisted first.

    Rows of an adaptive model travel once for every partition of its local stage, to where their leaf is solved; leaves
    come back here.

    Parameters
    ----------
    model : estimator
        As for :func:`ulmus.streaming.fit`; it is fitted in place and stays an ordinary local model.
    X : dask array of shape (n_samples, n_features), or dask dataframe
        Adaptive models read columns of every kind of a dataframe; others want numbers.
    y : dask array, series or dataframe, or str
        With the partitions of ``X``; arrays are rechunked. The name of a column of ``X`` stands for that column, which
        is then no input.
    client : distributed.Client, optional
        Default: the current one, or Dask's local scheduler when there is none.
    sample_weight : dask array or series, or str, optional
        The name of a column of ``X`` stands for that column.
    sample_rows : int, default=65536
    progress : bool, "rich", "plain", callable or None, default=None
        See :func:`ulmus.streaming.fit`.

    Returns
    -------
    estimator
        The model, fitted.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> from ulmus import NKELMRegressor, distributed
    >>> X = da.random.default_rng(0).uniform(-3, 3, size=(1000, 1), chunks=(250, 1))
    >>> model = distributed.fit(NKELMRegressor(20, gamma=1.0, C=1e3, random_state=0), X, da.sin(X[:, 0]))
    >>> bool(abs(model.predict([[1.0]])[0] - np.sin(1.0)) < 0.01)
    True
    """
    check_model(model)
    if getattr(model, "device", "cpu") == "cuda":
        raise ValueError(
            'the workers of a cluster sum on their CPUs, got device="cuda"; set device="cpu" (or "auto"), or fit the '
            "rows on one machine with streaming.fit, which sums on its GPU"
        )
    partitions = Partitions.of(*_named(X, y, sample_weight), client, progress)
    journal = Journal(None, {})
    rng, seed = random_numbers(model, journal)
    names = partitions.names
    steps = steps_of(model)
    if isinstance(steps, AdaptiveSteps) and names is not None:
        steps.encoder, names = partitions.fitted(steps.table_encoder(names), sample_rows, seed), None
        partitions.prepare = steps.encoder.transform
    survey = survey_for(model, sample_rows, seed, names)
    if partitions.n_rows is not None:
        survey.expect(partitions.n_rows)
    with columns_restored(model):
        fit_stream(steps, partitions, journal, rng, survey, names, leaves=LeavesOnCluster(partitions))
    return model


def _named(X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Columns that are named, taken out of the inputs."""
    names = [name for name in (y, weight) if isinstance(name, str)]
    for name in names:
        if name not in getattr(X, "columns", ()):
            raise ValueError(f"X has no column {name!r}; it has {[str(c) for c in getattr(X, 'columns', ())]}")
    y, weight = (X[name] if isinstance(name, str) else name for name in (y, weight))
    return (X.drop(columns=names) if names else X), y, weight


def predict(model: Any, X: Any, *, method: str = "predict") -> Any:
    """Predictions of a Dask array or dataframe, lazily: a Dask array (or series) with the partitions of ``X``.

    Parameters
    ----------
    model : fitted estimator
    X : dask array or dataframe
    method : str, default="predict"
        Any method of the model that takes rows, such as ``"predict_proba"``.

    Returns
    -------
    dask array, series or dataframe
        Nothing is computed yet.
    """
    dask = need("dask", "dask")
    held = dask.delayed(model, pure=False, traverse=False)
    probe = np.zeros((1, model.n_features_in_))
    if hasattr(X, "map_partitions"):
        meta = _framed(model, X._meta_nonempty, method).iloc[:0]
        return X.map_partitions(lambda part, m: _framed(m, part, method), held, meta=meta)
    array = need("dask.array", "dask")
    example = _answers(model, probe, method)
    rows = X.rechunk({1: -1})
    options: dict[str, Any] = {"dtype": example.dtype, "meta": example[:0]}
    if example.ndim == 1:
        options["drop_axis"] = 1
    else:
        options["chunks"] = (rows.chunks[0], (example.shape[1],))
    return array.map_blocks(_block_answers, rows, method=method, model=held, **options)


def _block_answers(X: Any, *, model: Any, method: str) -> np.ndarray:
    return _answers(model, X, method)


def _answers(model: Any, X: Any, method: str) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        warnings.filterwarnings("ignore", "Inside a Dask worker")  # which runs several partitions beside each other
        return np.asarray(getattr(model, method)(X))


def _framed(model: Any, X: Any, method: str) -> Any:
    """Answers with the index of their rows."""
    pandas = need("pandas", "dask")
    answers = _answers(model, X, method) if len(X) else _answers(model, np.zeros((1, X.shape[1])), method)[:0]
    if answers.ndim == 1:
        return pandas.Series(answers, index=X.index, name="prediction")
    return pandas.DataFrame(answers, index=X.index)


@dataclass
class Partitions:
    """The partitions of a collection, as :func:`ulmus.streaming.fitting.fit_stream` reads a stream."""

    parts: list[tuple[Any, Any, Any]]
    names: list[str] | None
    n_rows: int | None
    lengths: tuple[int, ...] | None = None
    client: Any = None
    progress: Show = None
    prepare: Callable[[Any], Any] | None = None

    @classmethod
    def of(cls, X: Any, y: Any, weight: Any, client: Any, progress: Show) -> "Partitions":
        """Pair the partitions of inputs, targets and weights."""
        need("dask", "dask")
        frame = hasattr(X, "npartitions") and hasattr(X, "columns")
        if not (frame or hasattr(X, "to_delayed")):
            raise TypeError(f"X must be a dask array or dataframe, got {type(X).__name__}; for others call model.fit")
        names = [str(c) for c in X.columns] if frame else None
        if not frame and X.ndim != 2:
            raise ValueError(f"X must have two dimensions, got shape {X.shape}")
        rows = None if frame else tuple(X.chunks[0])
        known = rows is not None and not any(np.isnan(r) for r in rows)
        columns = [None if a is None else _blocks(a, rows if known else None) for a in (X, y, weight)]
        count = len(columns[0] or [])
        for name, blocks in (("y", columns[1]), ("sample_weight", columns[2])):
            if blocks is not None and len(blocks) != count:
                raise ValueError(f"{name} has {len(blocks)} partitions, X has {count}; make them the same")
        whole = [blocks if blocks is not None else [None] * count for blocks in columns]
        lengths = rows if known else None
        n_rows = None if lengths is None else int(sum(lengths))
        return cls(list(zip(*whole, strict=True)), names, n_rows, lengths, client or _current_client(), progress)

    def reduce(self, name: str, accumulator: AnyAccumulator, work: Callable[[Batch], Any]) -> AnyAccumulator:
        """One task per partition, then a tree of merges in a fixed order; one state comes back."""
        dask = need("dask", "dask")
        held = dask.delayed(Task(accumulator, work, self.prepare), pure=False, traverse=False)
        label = f"ulmus-{name}"
        leaves = [dask.delayed(Task.run, name=label)(held, k, *part) for k, part in enumerate(self.parts)]
        level = leaves
        while len(level) > 1:
            groups = [level[k : k + FAN_IN] for k in range(0, len(level), FAN_IN)]
            level = [g[0] if len(g) == 1 else dask.delayed(Task.merge, name="ulmus-merge")(held, g) for g in groups]
        with warnings.catch_warnings():
            # a map with many features is large, and travels once
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            arrays, notes = self._compute(name, leaves, level[0])
        accumulator.restore(arrays, notes)
        return accumulator

    def fitted(self, encoder: Any, sample_rows: int, seed: int) -> Any:
        """An encoder of frames, fitted to a sample of about this many rows."""
        dask = need("dask", "dask")
        each = min(sample_rows, max(1_000, 4 * sample_rows // max(len(self.parts), 1)))
        found = [dask.delayed(_sampled)(k, X, each, seed) for k, (X, _, _) in enumerate(self.parts)]
        samples = [one for one in self.gathered("columns", found, "partitions") if len(one[0])]
        if not samples:
            raise SourceError("the source has no rows")
        order = np.argsort(np.concatenate([keys for keys, _ in samples]), kind="stable")[:sample_rows]
        return encoder.fit(taken(joined([frame for _, frame in samples]), order))

    def gathered(self, name: str, tasks: list[Any], unit: str) -> list[Any]:
        """Results of all tasks, which are counted as they end."""
        return self._computed(name, tasks, tasks, (1,) * len(tasks), unit)

    def _compute(self, name: str, leaves: list[Any], root: Any) -> Any:
        """The root's result; leaves are counted as they end, by their rows where those are known."""
        lengths = self.lengths or (1,) * len(leaves)
        return self._computed(name, [root], leaves, lengths, "rows" if self.lengths else "partitions")[0]

    def _computed(
        self, name: str, wanted: list[Any], counted: list[Any], lengths: tuple[int, ...], unit: str
    ) -> list[Any]:
        rows = {task.key: int(length) for task, length in zip(counted, lengths, strict=True)}
        with Progress(name, sum(lengths), self.progress, unit=unit) as bar:
            if self.client is None:
                callbacks, dask = need("dask.callbacks", "dask"), need("dask", "dask")
                with callbacks.Callback(posttask=lambda key, *_: bar.advance(rows.get(key, 0))):
                    return list(dask.compute(*wanted))
            distributed = need("distributed", "dask")
            futures = self.client.compute([*wanted, *counted])
            for future in distributed.as_completed(futures[len(wanted) :], loop=self.client.loop):
                bar.advance(rows[future.key])
            return [future.result() for future in futures[: len(wanted)]]


def _current_client() -> Any:
    """The current client of a cluster, if there is one."""
    try:
        return need("distributed", "dask").default_client()
    except (ImportError, ValueError):
        return None


def _blocks(collection: Any, rows: tuple[int, ...] | None) -> list[Any]:
    """Delayed partitions: of an array in blocks of whole rows, with the chunks of ``X`` where they are known."""
    if hasattr(collection, "rechunk"):
        chunks = {0: rows} if rows is not None else {}
        if collection.ndim == 2:
            chunks[1] = -1  # type: ignore[assignment]
        return list(collection.rechunk(chunks).to_delayed().ravel())
    if not hasattr(collection, "to_delayed"):
        raise TypeError(f"y and sample_weight must be dask collections like X, got {type(collection).__name__}")
    # not optimised: Dask would join small partitions of files by the columns that are read, those of X otherwise than
    # those of y; simplified: only these columns are read
    simple = collection.simplify() if hasattr(collection, "simplify") else collection
    return list(simple.to_delayed(optimize_graph=False))


@dataclass(frozen=True)
class Task:
    """What is done with a partition, and with the results of several."""

    accumulator: Any
    work: Callable[[Batch], Any]
    prepare: Callable[[Any], Any] | None = None

    def run(self, number: int, X: Any, y: Any, weight: Any) -> Any:
        """The dumped accumulator of one partition."""
        mine = self.accumulator.fresh()
        for part in engine.ordered_map(self.work, _batches(self.prepare, number, X, y, weight), 1):
            mine.add(part)
        return mine.dump()

    def merge(self, dumps: list[Any]) -> Any:
        """The dumped accumulator of several, in their order."""
        total = self.accumulator.fresh()
        for arrays, notes in dumps:
            other = self.accumulator.fresh()
            other.restore(arrays, notes)
            total.merge(other)
        return total.dump()


def _batches(prepare: Callable[[Any], Any] | None, number: int, X: Any, y: Any, weight: Any) -> Iterator[Batch]:
    """The rows of a partition, as numbers."""
    X = prepare(X) if prepare is not None and len(X) else X
    X = X.tocsr() if sparse.issparse(X) else np.asarray(X)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    y, weight = np.asarray(y), None if weight is None else np.asarray(weight, dtype=np.float64).ravel()
    if len(y) != X.shape[0]:
        raise ValueError(f"partition {number} has {X.shape[0]} rows of X and {len(y)} of y")
    for s in engine.pieces(X.shape[0], BATCH_ROWS):
        w = None if weight is None else weight[s]
        yield Batch(X[s], y[s], w, s.start, f"partition {number}", part=number)


def _sampled(number: int, X: Any, count: int, seed: int) -> tuple[np.ndarray, Any]:
    """Keys and rows of a sample of a partition."""
    sample = Sample(count, seed)
    sample.add(Batch(X, None, None, 0, f"partition {number}", part=number))
    return sample.keys, X if sample.X is None else sample.X


@dataclass(frozen=True)
class LeavesOnCluster:
    """The local stage of an adaptive model: rows go to where their cells are solved, leaves come back.

    Cells are dealt to groups. A task for every partition divides its rows among the groups, one for every group puts
    together what it was given, in the order of the partitions, and solves its cells.
    """

    partitions: Partitions
    mapped: ClassVar[bool] = False

    def __call__(self, steps: AdaptiveSteps, seen: Seen, choice: Any, rounds: int, backend: Any) -> LocalKernels:
        dask = need("dask", "dask")
        cell_rows = float(np.clip(steps.counts.n_distinct / CELLS, 4 * steps.leaf_rows, CELL_ROWS))
        parts, tops, solver = self.partitions.parts, steps.tops(rounds, cell_rows), steps.solver(choice)
        cells = [(p, cell) for p, top in enumerate(tops) for cell in range(top.n_leaves)]
        count = min(len(cells), max(FAN_IN, len(parts)))
        work = CellTask(Recorded.of(steps, seen, tops), solver, [cells[g::count] for g in range(count)])
        held = dask.delayed(work, pure=False, traverse=False)
        prepare = dask.delayed(self.partitions.prepare, pure=False, traverse=False)
        parted = [
            dask.delayed(CellTask.divide, name="ulmus-divide", nout=count)(held, prepare, k, *part)
            for k, part in enumerate(parts)
        ]
        with dask.annotate(priority=1):  # first: a worker that is solving would keep others waiting for its rows
            given = [[several[g] for several in parted] for g in range(count)]
        tasks = [dask.delayed(CellTask.solve, name="ulmus-leaves")(held, g, rows) for g, rows in enumerate(given)]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            solved = self.partitions.gathered("leaves", tasks, "cells")
        found = {name: Cell.restored(arrays) for group in solved for name, arrays in group.items()}
        n_rows = sum(len(found[0, cell].numbers) for cell in range(tops[0].n_leaves))
        return solver.together(tops, ([found[p, c] for c in range(top.n_leaves)] for p, top in enumerate(tops)), n_rows)


@dataclass(frozen=True)
class CellTask:
    """What is done with the rows of a partition, and with those of a group of cells."""

    recorded: Recorded
    solver: CellSolver
    groups: list[list[tuple[int, int]]]

    def divide(self, prepare: Any, number: int, X: Any, y: Any, weight: Any) -> list[list[np.ndarray]]:
        """The records of a partition, by group and cell."""
        work = engine.ordered_map(self.recorded, _batches(prepare, number, X, y, weight), 1)
        found = list(work)
        if not found:
            return [[] for _ in self.groups]
        records = np.concatenate([rows for rows, _ in found])
        by_cell = [
            divided(records, np.concatenate([cells[p] for _, cells in found]), top.n_leaves)
            for p, top in enumerate(self.recorded.tops)
        ]
        return [[by_cell[p][cell] for p, cell in group] for group in self.groups]

    def solve(self, number: int, parted: list[list[np.ndarray]]) -> dict[tuple[int, int], dict[str, np.ndarray]]:
        """The leaves of a group of cells, whose rows come from all partitions."""
        solved = {}
        for k, (p, cell) in enumerate(self.groups[number]):
            rows = rows_of(np.concatenate([part[k] for part in parted if part]))
            solved[p, cell] = self.solver.solve(rows, p, cell, Host(1)).dump()
        return solved


__all__ = ["fit", "predict"]

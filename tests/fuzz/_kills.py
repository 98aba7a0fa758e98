"""Streams that are broken off, and begun again with the same source or with another one."""

import json
import tempfile
import threading
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler

import ulmus
from ulmus import streaming
from ulmus.streaming import CheckpointError, SourceError
from ulmus.streaming.journal import Journal
from ulmus.streaming.stream import Stream


class Killed(BaseException):
    """The end of a run, as abrupt as an exception can be."""


class Points:
    """Counts the places at which a run may end, and ends it at the one that is asked for."""

    def __init__(self, at=None, kind=Killed):
        self.at, self.kind, self.count = at, kind, 0
        self._lock = threading.Lock()

    def __call__(self):
        with self._lock:
            self.count += 1
            if self.count == self.at:
                raise self.kind(f"at point {self.at}")

    def __enter__(self):
        self._write, self._read = Journal._write, Stream._prepared
        write, read, point = self._write, self._read, self

        def dying_write(journal, path, data):
            point()  # before anything is there
            write(journal, path, data)
            point()  # when all of it is

        def dying_read(stream, batch):
            point()
            return read(stream, batch)

        Journal._write, Stream._prepared = dying_write, dying_read
        return self

    def __exit__(self, *_):
        Journal._write, Stream._prepared = self._write, self._read


MODELS = {
    "ELM": lambda r: ulmus.ELMRegressor(12, C=10.0, slope=1.0, random_state=r),
    "ELM auto": lambda r: ulmus.ELMRegressor(max_hidden=16, cv=2, random_state=r),
    "ELM triangular": lambda r: ulmus.ELMRegressor(6, C=None, slope=1.0, random_state=r),
    "NKELM": lambda r: ulmus.NKELMRegressor(10, gamma=0.5, C=100.0, fit_intercept=True, random_state=r),
    "NKELM corrected": lambda r: ulmus.NKELMRegressor(15, gamma=1e-3, C=1e8, random_state=r),
    "NKELM auto": lambda r: ulmus.NKELMRegressor(max_landmarks=12, gamma=0.5, random_state=r),
    "classes": lambda r: ulmus.NKELMClassifier(10, gamma=0.5, C=10.0, random_state=r),
    "robust": lambda r: ulmus.RobustELMRegressor(8, C=10.0, slope=1.0, random_state=r),
}


class Problem:
    """Rows in one of the forms that a source may have, and a model for them."""

    def __init__(self, rng, folder):
        self.rng, self.folder = rng, Path(folder)
        n = int(rng.integers(30, 400))
        self.X = rng.normal(size=(n, 3))
        if rng.random() < 0.3:  # rows that repeat
            self.X = self.X[rng.integers(max(1, n // 8), size=n)]
        self.name = str(rng.choice(list(MODELS)))
        self.y = np.sin(self.X[:, 0]) + self.X[:, 1]
        if self.name == "classes":
            self.y = np.digitize(self.X[:, 0], [-0.5, 0.5])
            self.y[:3] = [0, 1, 2]
        self.form = str(rng.choice(["arrays", "mapped", "function", "files"]))
        self.seed = None if rng.random() < 0.3 else int(rng.integers(100))
        cuts = np.sort(rng.integers(0, n + 1, int(rng.integers(0, 4))))
        self.parts = [slice(a, b) for a, b in zip([0, *cuts], [*cuts, n]) if b > a]
        self.options = {
            "batch_rows": int(rng.integers(7, 150)),
            "sample_rows": int(rng.choice([20, 50, 1000])),
            "checkpoint_rows": int(rng.integers(1, 200)),
            "checkpoint_seconds": None,
            "progress": False,
        }
        self.scaled = self.form == "files" and rng.random() < 0.5
        self.words = f"{self.name}, {n} rows as {self.form}, {self.options}, seed {self.seed}, scaled {self.scaled}"

    def source(self, X=None, y=None, order=1):
        """The rows (or others) as a source."""
        X, y = self.X if X is None else X, self.y if y is None else y
        if self.form == "arrays":
            return (X, y), {}
        if self.form == "mapped":
            path = self.folder / "rows.npy"
            if not path.exists() or X is not self.X:
                np.save(path, X)
            return (np.load(path, mmap_mode="r"), y), {}
        if self.form == "function":
            return (lambda: iter([(X[s], y[s]) for s in self.parts[::order]])), {}
        paths = []
        for k, part in enumerate(self.parts):
            paths.append(str(self.folder / f"{k}.parquet"))
            if not Path(paths[-1]).exists():
                pd.DataFrame(X[part], columns=list("abc")).assign(y=y[part]).to_parquet(paths[-1], row_group_size=40)
        preprocess = StandardScaler().fit(pd.DataFrame(self.X, columns=list("abc"))) if self.scaled else None
        return paths[::order], {"target": "y", "preprocess": preprocess}

    def fit(self, checkpoint, source=None, **options):
        rows, named = self.source() if source is None else source
        model = MODELS[self.name](self.seed)
        model.n_jobs = int(self.rng.integers(1, 3))
        return streaming.fit(model, rows, checkpoint=checkpoint, **{**self.options, **named, **options})

    def digest(self, model):
        model = model[-1] if hasattr(model, "steps") else model
        about = model.predict_proba if self.name == "classes" else model.predict_interval
        return model.beta_.tobytes() + np.asarray(about(self.X[:5])).tobytes()


def stream_broken_off(rng):
    """Broken off at drawn points, one after the other, a run ends with the bits of one that never was."""
    with tempfile.TemporaryDirectory() as folder:
        problem = Problem(rng, folder)
        state = Path(folder) / "state"
        with Points() as points:
            expected = problem.digest(problem.fit(state))
        for path in state.glob("*.npz"):
            if path.stem != "seed":  # which a model without one keeps
                path.unlink()
        ends, died = int(rng.integers(1, 4)), 0
        for _ in range(ends):
            at, kind = int(rng.integers(1, points.count + 1)), [Killed, MemoryError, OSError][rng.integers(3)]
            try:
                with Points(at, kind):
                    problem.fit(state)
            except (Killed, MemoryError, OSError, CheckpointError, SourceError):
                died += 1
            if rng.random() < 0.3:
                (state / "sums.npz.1.partial").write_bytes(b"half of a file")
        found = problem.digest(problem.fit(state))
        assert found == expected, f"other bits after {died} ends: {problem.words}"
        assert not list(state.glob("*.partial")), problem.words
        assert not (state / "lock").exists(), problem.words
    left = [t.name for t in threading.enumerate() if t.name == "ulmus-read-ahead"]
    assert not left, f"{len(left)} readers left: {problem.words}"
    return f"{problem.name}, {problem.form}"


def other_source(rng):
    """Rows that differ in one number, files in another order, or another scaler: refused, wherever the run ended."""
    with tempfile.TemporaryDirectory() as folder:
        problem = Problem(rng, folder)
        state = Path(folder) / "state"
        first = problem.source()
        try:
            with Points(int(rng.integers(3, 60))):
                problem.fit(state, first)
        except Killed:
            pass
        if not (state / "survey.npz").exists():  # nothing was read yet, so that nothing can be mixed
            return "nothing read"
        with np.load(state / "survey.npz") as archive:
            survey = json.loads(archive["header"].tobytes())
        options = {}
        if problem.scaled:
            other, options = (
                first,
                {"preprocess": StandardScaler().fit(pd.DataFrame(1 + problem.X, columns=list("abc")))},
            )
        elif problem.form == "files":
            if len(problem.parts) < 2:
                return "one file"
            if not survey["rows"]:  # the pass was begun, and no row is in it
                return "nothing read of what is other"
            other = problem.source(order=-1)
        else:
            X = problem.X.copy()
            row = int(rng.integers(len(X)))
            X[row, rng.integers(3)] += 1.0
            other = problem.source(X)
            if problem.form == "function" and not survey["done"] and row >= max(survey["rows"], problem.parts[0].stop):
                return "nothing read of what is other"
        try:
            problem.fit(state, other, **options)
        except (CheckpointError, SourceError):
            return f"refused, {problem.form}"
        raise AssertionError(f"another source was accepted: {problem.words}")

"""Two processes on one path: whoever comes second, what lies there is what one of them wrote, whole."""

import random
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import ulmus
from ulmus import streaming

ROWS = np.random.default_rng(0).normal(size=(60, 2))
#: Seconds after which two processes count as stuck; fewer than a case of the runner has, so that this is what it says.
PATIENCE = 240.0


@cache
def model(k: int) -> Any:
    """One of two models that differ in all that they say."""
    return ulmus.NKELMRegressor(8, gamma=0.5, C=10.0, random_state=k, n_jobs=1).fit(ROWS, ROWS[:, 0] + 10 * k)


def save(folder: Path, k: int) -> str:
    for _ in range(8):
        ulmus.save(model(k), folder / "model.ulmus")
    return "saved"


def load(folder: Path, k: int) -> str:
    """Every load is one of the two models, to the last bit."""
    expected = [model(j).predict(ROWS).tobytes() for j in (0, 1)]
    for _ in range(12):
        found = ulmus.load(folder / "model.ulmus").predict(ROWS).tobytes()
        assert found in expected, "loaded a model that nobody saved"
    return "loaded"


def predict(folder: Path, k: int) -> str:
    for _ in range(4):
        streaming.predict(model(k), (ROWS,), folder / "rows.parquet", batch_rows=7)
    return "predicted"


def command(folder: Path, k: int) -> str:
    """``ulmus predict MODEL TABLE -o TABLE``, of a model by ``ulmus fit``."""
    from ulmus.cli.main import main

    table, saved = folder.parent / f"{k}.csv", folder.parent / f"{k}.ulmus"
    lines = (f"{a},{b},{a + 10 * k}" for a, b in ROWS.tolist())
    table.write_text("\n".join(["a,b,y", *lines]) + "\n")
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as told:
        fitted = main(["fit", str(table), "--target", "y", "--model", "nkelm", "--threads", "1", "-o", str(saved)])
        codes = [main(["predict", str(saved), str(table), "-o", str(folder / "out.csv"), "--force"]) for _ in range(3)]
    assert [fitted, *codes] == [0] * 4, told.getvalue()
    return "predicted"


def checkpoint(folder: Path, k: int) -> str:
    """A run ends as if it were alone, or is told who holds the folder."""
    fresh = ulmus.ELMRegressor(10, C=10.0, slope=1.0, random_state=0, n_jobs=1)
    options: dict[str, Any] = {"batch_rows": 5, "checkpoint_rows": 5, "checkpoint_seconds": None}
    try:
        found = streaming.fit(fresh, (ROWS, ROWS[:, 0]), checkpoint=folder / "state", **options)
    except streaming.CheckpointError as error:
        return "refused" if "process" in str(error) else f"refused without saying who holds it: {error}"
    alone = streaming.fit(
        ulmus.ELMRegressor(10, C=10.0, slope=1.0, random_state=0, n_jobs=1), (ROWS, ROWS[:, 0]), batch_rows=5
    )
    assert found.beta_.tobytes() == alone.beta_.tobytes(), "another model than that of a run alone"
    return "fitted"


def whole_model(folder: Path) -> None:
    assert [file.name for file in folder.iterdir()] == ["model.ulmus"], "something is left beside the model"
    load(folder, 0)


def whole_parquet(folder: Path) -> None:
    import pyarrow.parquet as pq

    assert [file.name for file in folder.iterdir()] == ["rows.parquet"], "something is left beside the table"
    found = pq.read_table(folder / "rows.parquet").to_pandas().iloc[:, -1].to_numpy()
    assert any(np.allclose(found, model(k).predict(ROWS), rtol=1e-9) for k in (0, 1)), "rows of both"


def whole_table(folder: Path) -> None:
    assert [file.name for file in folder.iterdir()] == ["out.csv"], "something is left beside the table"
    found = (folder / "out.csv").read_bytes()
    alone = folder.parent / "alone"
    alone.mkdir()
    for k in (0, 1):
        command(alone, k)
        if (alone / "out.csv").read_bytes() == found:
            return
    raise AssertionError("rows of both")


def whole_state(folder: Path) -> None:
    assert checkpoint(folder, 0) == "fitted", "nobody holds the folder any longer"


Act = Callable[[Path, int], str]
#: What two processes do to one folder, and what must hold when both have ended.
CASES: dict[str, tuple[Act, Act, Callable[[Path], None]]] = {
    "save and save": (save, save, whole_model),
    "save and load": (save, load, whole_model),
    "predict and predict": (predict, predict, whole_parquet),
    "predict -o twice": (command, command, whole_table),
    "one checkpoint folder": (checkpoint, checkpoint, whole_state),
}


def _run(act: Act, folder: Path, k: int, barrier: Any, answers: Any) -> None:
    try:
        model(k)
        barrier.wait(PATIENCE)
        answers.put(("held", act(folder, k)))
    except BaseException as error:
        answers.put(("failed", f"{type(error).__name__}: {error}"))


def two_processes(rng: random.Random) -> str:
    """Two of them at once, forked or spawned."""
    name, start = rng.choice(list(CASES)), rng.choice(("fork", "fork", "spawn"))
    first, second, holds = CASES[name]
    context = get_context(start)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "shared"
        folder.mkdir()
        if second is load:
            ulmus.save(model(0), folder / "model.ulmus")
        barrier, answers = context.Barrier(2), context.Queue()
        acts = ((first, 0), (second, 1))
        both = [context.Process(target=_run, args=(act, folder, k, barrier, answers)) for act, k in acts]
        for process in both:
            process.start()
        said = [answers.get(timeout=PATIENCE) for _ in both]
        for process in both:
            process.join(PATIENCE)
            assert process.exitcode == 0, f"{name}, {start}: a process ended with {process.exitcode}"
        assert all(kind == "held" for kind, _ in said), f"{name}, {start}: {said}"
        assert {"refused"} != {words for _, words in said}, f"{name}, {start}: both were refused"
        assert not any("without" in words for _, words in said), f"{name}, {start}: {said}"
        holds(folder)
    return f"processes {name}, {start}"

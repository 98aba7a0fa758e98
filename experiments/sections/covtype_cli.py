"""Section (aa): one command from a file of 581,012 rows to a model, its scores and a report: ``ulmus fit`` on CovType.

Reads covtype.parquet in the folder ULMUS_DATA. A fifth of the rows, drawn at random, is the test table. Each command
runs in a process of its own; time and peak memory are those of the whole process, reading and the report included.
``--repeats N`` takes the first N commands. A quick run takes 600 rows.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow.parquet as pq

import ulmus
from experiments.runner.protocol import NotHere, markdown
from experiments.runner.report import Options, Section
from ulmus.persistence import describe

#: What is asked beside ``ulmus fit train.parquet --target target --test test.parquet``.
COMMANDS: tuple[list[str], ...] = ([], ["--effort", "fast"], ["--model", "nkelm"], ["--stream"])
QUICK_ROWS = 600


def write_tables(folder: Path, options: Options) -> tuple[int, int]:
    """Training and test table as Parquet files; their numbers of rows."""
    source = Path(os.environ.get("ULMUS_DATA", ".")) / "covtype.parquet"
    if not source.exists():
        raise NotHere
    whole = pq.read_table(source)
    whole = whole.drop_columns([name for name in whole.column_names if name.startswith("split")])
    order = np.random.RandomState(0).permutation(len(whole))[: QUICK_ROWS if options.quick else None]
    n_test = len(order) // 5
    pq.write_table(whole.take(np.sort(order[n_test:])), folder / "train.parquet")
    pq.write_table(whole.take(np.sort(order[:n_test])), folder / "test.parquet")
    return len(order) - n_test, n_test


def run(arguments: list[str], folder: Path) -> tuple[float, float]:
    """Seconds and peak megabytes of one command; what it says goes on to the terminal."""
    here = {**os.environ, "PYTHONPATH": str(Path(ulmus.__file__).parents[1])}  # the code of this script, not another
    start = perf_counter()
    child = subprocess.Popen([sys.executable, "-m", "ulmus", *arguments], cwd=folder, env=here)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"ulmus {' '.join(arguments)} ended with {child.returncode}")
    return perf_counter() - start, usage.ru_maxrss / 1024


def whole_way(section: Section, options: Options) -> None:
    """Fit, score, save and report."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        n, n_test = write_tables(folder, options)
        section.say(f"{n:,} rows to learn from and {n_test:,} to be tested on, in Parquet files.")
        rows = []
        for extra in COMMANDS[: options.repeats]:
            fit = ["fit", "train.parquet", "--target", "target", "--test", "test.parquet"]
            fit += ["-o", "covtype.ulmus", "--report", "covtype.html", *extra]
            print(f"\n$ ulmus {' '.join(fit)}", flush=True)
            seconds, peak = run(fit, folder)
            about = describe(folder / "covtype.ulmus")
            accuracy = next(s for s in about.notes["scores"] if s["name"] == "accuracy")
            interval = f"{100 * accuracy['low']:.2f} … {100 * accuracy['high']:.2f}"
            size = (folder / "covtype.ulmus").stat().st_size / 1e6
            asked = " ".join(extra) or "(nothing)"
            accurate = f"{100 * accuracy['value']:.2f}"
            rows.append(
                (asked, about.model, f"{seconds:.1f}", f"{peak:,.0f}", f"{accurate} ({interval})", f"{size:.1f}")
            )
            page = (folder / "covtype.html").stat().st_size
            assert page > 10_000
        section.say(
            "`ulmus fit train.parquet --target target --test test.parquet -o covtype.ulmus --report covtype.html`"
        )
        section.say(
            markdown(("and", "model", "seconds", "peak MB", "accuracy, % (95 % interval)", "model file, MB"), rows)
        )

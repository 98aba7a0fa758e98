"""Finds harnesses, tries seeds in processes of their own, and counts.

A case that raises, that takes longer than its limit or that ends the process is a failure; the run goes on after it.
"""

import json
import os
import pkgutil
import sys
import time
import traceback
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path

HERE = Path(__file__).parent
CORPUS = HERE / "corpus.json"
OPEN = HERE / "open.json"
#: Failures of a harness that are shown with their traceback; of more, the seed and the last line.
SHOWN = 5

if str(HERE.parent) not in sys.path:  # harnesses use the brute force of tests/reference.py
    sys.path.insert(0, str(HERE.parent))


def harnesses():
    """Name → ``check`` of every harness in this package."""
    modules = {
        m.name: import_module(f".{m.name}", __package__)
        for m in pkgutil.iter_modules([str(HERE)])
        if not m.name.startswith("_")
    }
    return {name: module.check for name, module in sorted(modules.items()) if hasattr(module, "check")}


def corpus():
    """Name of a harness → seeds that once failed."""
    return json.loads(CORPUS.read_text())


def open_cases():
    """Name of a harness → seeds that fail still, with what is known of them."""
    return {
        name: {int(seed): why for seed, why in cases.items()} for name, cases in json.loads(OPEN.read_text()).items()
    }


def attempt(check, seed):
    """The key of one case. NumPy's RuntimeWarnings fail it, as they fail a test; a NumericalWarning does not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        key = check(seed)
    assert isinstance(key, str), f"check({seed}) gave {key!r} for a key"
    return key


@dataclass
class Count:
    """What a harness has seen: cases by key, and the seeds that failed."""

    seed: int
    seconds: float = 0.0
    processor: float = 0.0
    cases: int = 0
    keys: Counter = field(default_factory=Counter)
    failed: list = field(default_factory=list)


def _work(name, channel):
    """Try every seed that comes in; the parent hears the key, or the traceback, and the seconds of processor time."""
    check = import_module(f".{name}", __package__).check
    while (seed := channel.recv()) is not None:
        before = sum(os.times()[:4])
        try:
            answer = ("held", attempt(check, seed))
        except BaseException:
            answer = ("failed", traceback.format_exc())
        channel.send((*answer, sum(os.times()[:4]) - before))


class Worker:
    """A process that tries one seed after the other."""

    def __init__(self, name):
        context = get_context("spawn")
        self.channel, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(name, theirs))
        self.process.start()
        theirs.close()

    def begin(self, seed, limit):
        self.seed, self.deadline = seed, time.monotonic() + limit
        self.channel.send(seed)

    def answer(self):
        try:
            return self.channel.recv()
        except (EOFError, OSError):
            self.process.join()
            return ("died", f"the process ended with {self.process.exitcode}\n", 0.0)

    def end(self):
        """Ask it to go, and make it go."""
        with suppress(OSError):
            self.channel.send(None)
        self.process.join(2)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def run(name, seed, *, seconds=float("inf"), processor=0.0, cases=None, jobs=1, limit=300.0, tell=print):
    """Try seeds from ``seed`` on, for so many cases, or for so many seconds, of which so many are processor time."""
    count, begun, started = Count(seed), 0, time.monotonic()
    idle, busy = [Worker(name) for _ in range(jobs)], []
    try:
        while True:
            over = begun > 0 and time.monotonic() - started >= seconds and count.processor >= processor
            while idle and (cases is None or begun < cases) and not over:
                worker = idle.pop()
                worker.begin(seed + begun, limit)
                begun += 1
                busy.append(worker)
            if not busy:
                return count
            patience = min(worker.deadline for worker in busy) - time.monotonic()
            ready = wait([worker.channel for worker in busy], max(patience, 0.0))
            for worker in [w for w in busy if w.channel in ready or time.monotonic() > w.deadline]:
                busy.remove(worker)
                timed_out = worker.channel not in ready
                late = ("late", f"no answer within {limit:g} s\n", 0.0)
                kind, text, spent = late if timed_out else worker.answer()
                count.cases += 1
                count.processor += spent
                if kind == "held":
                    count.keys[text] += 1
                else:
                    count.failed.append(worker.seed)
                    _tell_failure(name, worker.seed, text, len(count.failed), tell)
                if kind in ("late", "died"):
                    worker.process.kill()
                    worker.process.join()
                idle.append(worker if worker.process.is_alive() else Worker(name))
    except KeyboardInterrupt:
        tell("interrupted")
        return count
    finally:
        count.seconds = time.monotonic() - started
        for worker in idle + busy:
            worker.end()


def _tell_failure(name, seed, text, nth, tell):
    lines = text.rstrip().splitlines() or [""]
    tell(f"FAILED {name}, seed {seed}: {lines[-1]}")
    if nth <= SHOWN:
        tell(text.rstrip())
    tell(f"  repeat it: {command(name, seed)}")


def command(name, seed):
    """How to try one case again."""
    return f"python -m tests.fuzz --harness {name} --seed {seed} --cases 1"


def written(counts):
    """Counts as JSON."""
    return json.dumps({name: vars(count) for name, count in counts.items()}, indent=1, sort_keys=True) + "\n"


def table(files):
    """The counts of files, added up, as Markdown; keys are gathered by their first word."""
    total = {}
    for file in files:
        for name, count in json.loads(Path(file).read_text()).items():
            known = total.setdefault(name, Count(0))
            known.cases += count["cases"]
            known.seconds += count["seconds"]
            known.processor += count["processor"]
            known.keys.update(count["keys"])
            known.failed += count["failed"]
    lines = ["| harness | kind of case | tried | did not hold |", "|---|---|---|---|"]
    for name, count in sorted(total.items()):
        lines.append(
            f"| **{name}** | all, in {count.seconds / 60:.0f} minutes, {count.processor / 60:.0f} of them processor "
            f"time | {count.cases:,} | {len(count.failed):,} |"
        )
        groups = Counter()
        for key, n in count.keys.items():
            groups[key.split()[0].rstrip(",:")] += n
        lines += [f"| | {group} | {n:,} | |" for group, n in groups.most_common()]
    return "\n".join(lines)

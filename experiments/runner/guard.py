"""Run one cell: what is missing, fails or takes too long is an answer too.

As a program, ``python -m experiments.runner.guard SECONDS`` runs the pickled work that it reads from standard input:
work that cannot be interrupted (a support vector machine inside its library) is ended with its process.
"""

import json
import pickle
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable

from experiments.runner.cache import plain
from experiments.runner.facts import environment
from experiments.runner.protocol import Answer, Cell, NotHere, Unavailable, clock

#: How the reason of a cell that was given up begins.
OUT_OF_TIME = "took more than"
#: Clock time that a cell may take, over the processor time that it may take: other work may be running.
PATIENCE = 5


def guarded(cell: Cell) -> Answer:
    """The answer of a cell, within its limit."""
    return within(cell.run, cell.limit) if cell.limit is not None else attempt(cell.run)


def attempt(work: Callable[[], Answer]) -> Answer:
    """What comes of it. ``failed`` marks what another try may answer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return work()
        except ImportError as error:
            return {"missing": f"not installed ({error.name})", "failed": True}
        except NotHere as error:
            return {"missing": str(error), "failed": True}
        except Unavailable as error:
            return {"missing": str(error)}
        except Exception as error:
            return {"missing": f"failed ({type(error).__name__}: {error})"[:200], "failed": True}


def within(work: Callable[[], Answer], limit: float) -> Answer:
    """What comes of it in a process of its own that may use so many seconds of processor time."""
    command = [sys.executable, "-m", "experiments.runner.guard", str(limit)]
    late: Answer = {"missing": f"{OUT_OF_TIME} {clock(limit)}"}
    try:
        done = subprocess.run(
            command,
            input=pickle.dumps(work),
            capture_output=True,
            timeout=PATIENCE * limit,
            check=False,
            env=environment(),
        )
    except subprocess.TimeoutExpired:
        return late
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    return (
        late
        if -done.returncode == getattr(signal, "SIGXCPU", None)
        else {"missing": "failed (its process ended)", "failed": True}
    )


def main() -> None:
    """Run what standard input holds, and print the answer as JSON."""
    try:
        import resource

        seconds = max(1, round(float(sys.argv[1])))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    except ImportError:  # no such limits on this system: the clock ends it
        pass
    print(json.dumps(plain(attempt(pickle.load(sys.stdin.buffer)))))


if __name__ == "__main__":
    main()

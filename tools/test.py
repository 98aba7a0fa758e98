"""Run the tests, one pytest process per core: ``python tools/test.py [options of pytest]``.

Every process runs its share of the tests (``tests/conftest.py``). The output of the first is shown as it comes, that of
the others when they have ended.
"""

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack

#: More processes would spend their time on collecting the same tests.
MOST = 4


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def main(arguments: list[str]) -> int:
    n, codes = min(cores(), MOST), []
    command = [sys.executable, "-m", "pytest", *arguments]
    with ExitStack() as stack:
        logs = [None, *(stack.enter_context(tempfile.TemporaryFile()) for _ in range(n - 1))]
        shares = [
            subprocess.Popen(command, env={**os.environ, "TEST_SHARE": f"{k}/{n}"}, stdout=log, stderr=log)
            for k, log in enumerate(logs)
        ]
        for share, log in zip(shares, logs, strict=True):
            codes.append(share.wait())
            if log is not None:
                log.seek(0)
                sys.stdout.buffer.write(log.read())
                sys.stdout.flush()
    # a share without tests (5) has not failed
    return max(0 if code == 5 else abs(code) for code in codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

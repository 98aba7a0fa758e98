"""``python -m tests.fuzz``: try drawn cases of every harness, or of those named."""

import argparse
import secrets
import signal
import sys
from pathlib import Path

from .runner import harnesses, run, table, written

MARKS = ("<!-- counts -->", "<!-- end of counts -->")


def arguments():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--harness", nargs="+", metavar="NAME", help="harnesses to run; all, unless given")
    parser.add_argument("--minutes", type=float, default=2.0, help="for each harness (2)")
    parser.add_argument(
        "--processor", type=float, default=0.0, metavar="MINUTES", help="go on until it had so much processor time (0)"
    )
    parser.add_argument(
        "--seed", type=int, help="the first seed; drawn, unless given. The next cases take the next seeds"
    )
    parser.add_argument("--cases", type=int, help="stop after so many cases of each harness")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that one case may take (300)")
    parser.add_argument("--out", type=Path, help="write the counts there, as JSON")
    parser.add_argument(
        "--table", nargs="+", type=Path, metavar="COUNTS", help="show counts as a table, and run nothing"
    )
    parser.add_argument("--into", type=Path, help="put the table between the marks of this document")
    return parser.parse_args()


def show_table(files, into):
    lines = table(files)
    if into is None:
        print(lines)
        return
    before, rest = into.read_text().split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    into.write_text(f"{before}{MARKS[0]}\n\n{lines}\n\n{MARKS[1]}{after}")


def main():
    for asked in (signal.SIGINT, signal.SIGTERM):  # end, and tell what was counted; also in the background
        signal.signal(asked, signal.default_int_handler)
    options = arguments()
    if options.table:
        show_table(options.table, options.into)
        return 0
    found = harnesses()
    names = options.harness or list(found)
    unknown = [name for name in names if name not in found]
    if unknown:
        print(f"no harness {', '.join(unknown)}; there are {', '.join(found)}", file=sys.stderr)
        return 2
    counts = {}
    for name in names:
        seed = options.seed if options.seed is not None else secrets.randbelow(2**31)
        print(f"{name}: seeds from {seed} on, for {options.minutes:g} minutes", flush=True)
        counts[name] = count = run(
            name,
            seed,
            seconds=60 * options.minutes,
            processor=60 * options.processor,
            cases=options.cases,
            jobs=options.jobs,
            limit=options.limit,
            tell=lambda text: print(text, flush=True),
        )
        print(
            f"{name}: {count.cases:,} cases in {count.seconds:.0f} s, {count.processor:.0f} s of them processor time, "
            f"{len(count.failed):,} did not hold",
            flush=True,
        )
        for key, n in count.keys.most_common():
            print(f"  {n:>7,}  {key}", flush=True)
        if options.out is not None:
            options.out.write_text(written(counts))
    failed = {name: count.failed for name, count in counts.items() if count.failed}
    for name, seeds in failed.items():
        print(f"did not hold: {name}, seeds {', '.join(map(str, seeds[:20]))}{' …' if len(seeds) > 20 else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

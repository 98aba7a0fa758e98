"""Run sections, print them, and write them where told to."""

import argparse
import sys
import traceback
from functools import partial
from importlib import import_module
from pathlib import Path

from experiments.runner import Answer, Cache, Cell, answers_of
from experiments.runner.facts import commit, machine, versions
from experiments.runner.report import Options, Section, write_section
from experiments.sections import SECTIONS, __doc__


def measured(key: str, options: Options, cache: Cache) -> Answer:
    """A section's text, measured now."""
    entry = SECTIONS[key]
    section = Section(key, entry.title, cache)
    print(f"\n\n{section.heading}")
    try:
        work = getattr(import_module(f"experiments.sections.{entry.module}"), entry.function)
        work(section, options)
    except Exception:
        traceback.print_exc()
        raise
    return section.answer(" ".join(["python -m experiments.sections", *sys.argv[1:]]))


def main() -> int:
    """Run what is asked for; one that fails is named and leaves the others alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SECTIONS), help="letters of the sections, separated by commas")
    parser.add_argument("--quick", action="store_true", help="few rows, to try a section; nothing is judged")
    parser.add_argument("--repeats", type=int, help="repetitions of every measurement, seeds or splits")
    parser.add_argument("--out", type=Path, help="also put the sections into this Markdown file")
    parser.add_argument("--cells", type=Path, help="keep here what is measured, and take what this commit measured")
    given = parser.parse_args()
    keys = given.only.split(",")
    if unknown := [key for key in keys if key not in SECTIONS]:
        parser.error(f"--only takes letters among {','.join(SECTIONS)}, got {unknown[0]!r}")
    print(f"{machine()}\n{versions()}")
    failed = {}
    for key in keys:
        options = Options(given.quick, given.repeats or SECTIONS[key].repeats)
        cache = Cache(given.cells, f"{commit()} {options}")
        answer = answers_of("sections", [Cell(key, partial(measured, key, options, cache))], cache)[key]
        if "missing" in answer:
            failed[key] = answer["missing"]
        elif given.out:
            write_section(given.out, key, answer["text"])
    for key, reason in failed.items():
        print(f"({key}) was not measured: {reason}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())

"""The core beside its rivals: ``python benchmarks/core.py [--only a,b,...] [--quick] [--repeats N] [--out FILE]``.

All contestants run on all cores, in turns, in one process; memory is measured in a process of its own for each figure.
Ratios are medians of the ratios within a repetition. Real data come from the folder that ULMUS_DATA names; where a set
is not there the section says what was used instead. Nothing is written without ``--out``, which puts every section that
ran into a Markdown file, in place of the section with the same letter.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

from core_exact import elm, kelm
from core_nystrom import float32, memory, nkelm
from harness import Options, Section, machine, versions, write_section

SECTIONS: dict[str, tuple[str, Callable[[Section, Options], None]]] = {
    "a": ("NKELM at CovType's shape", nkelm),
    "b": ("Peak memory of NKELM", memory),
    "c": ("float32 beside float64", float32),
    "d": ("KELM beside KernelRidge", kelm),
    "e": ("ELM beside GFDL and hpelm", elm),
}


def main() -> None:
    """Run the sections asked for, print them, and write them where told to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SECTIONS), help="letters of the sections, e.g. a,b")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the rows, to try the script")
    parser.add_argument("--repeats", type=int, default=5, help="repetitions of every timing (default 5)")
    parser.add_argument("--out", type=Path, help="also put the sections into this Markdown file")
    given = parser.parse_args()
    keys = given.only.split(",")
    if not set(keys) <= set(SECTIONS):
        parser.error(f"--only takes letters among {','.join(SECTIONS)}, got {given.only}")
    options = Options(given.quick, given.repeats)
    print(f"{machine()}\n{versions()}")
    for key in keys:
        title, work = SECTIONS[key]
        section = Section(key, title)
        print(f"\n\n{section.heading}")
        work(section, options)
        if given.out:
            write_section(given.out, section)


if __name__ == "__main__":
    main()

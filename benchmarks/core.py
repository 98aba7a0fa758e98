"""The core beside its rivals: ``python benchmarks/core.py [--only a,b,...] [--quick] [--repeats N] [--out FILE]``.

All contestants run on all cores, in turns, in one process; memory is measured in a process of its own for each figure.
Ratios are medians of the ratios within a repetition. Real data come from the folder that ULMUS_DATA names; where a set
is not there the section says what was used instead. Nothing is written without ``--out``, which puts every section that
ran into a Markdown file, in place of the section with the same letter.
"""

from collections.abc import Callable

from core_exact import elm, kelm
from core_nystrom import float32, memory, nkelm
from harness import Options, Section, command_line

SECTIONS: dict[str, tuple[str, Callable[[Section, Options], None]]] = {
    "a": ("NKELM at CovType's shape", nkelm),
    "b": ("Peak memory of NKELM", memory),
    "c": ("float32 beside float64", float32),
    "d": ("KELM beside KernelRidge", kelm),
    "e": ("ELM beside GFDL and hpelm", elm),
}


if __name__ == "__main__":
    command_line(__doc__, SECTIONS, repeats=5)

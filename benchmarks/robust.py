"""Robust regression: ``python benchmarks/robust.py [--only k,l,m] [--quick] [--repeats N] [--out FILE]``.

Real data come from the folder that ULMUS_DATA names; sets that are not there are named and left out. ``--repeats``
counts random splits (sections k and l) and repetitions of a timing (section m). Nothing is written without
``--out benchmarks/RESULTS.md``, except the two figures of section k. ``--quick`` tries the script on a few rows.
"""

from collections.abc import Callable

from harness import Options, Section, command_line
from robust_document import document
from robust_outliers import outliers
from robust_speed import speed

SECTIONS: dict[str, tuple[str, Callable[[Section, Options], None]]] = {
    "k": ("The robust document's ten sets, SinC and Motorcycle", document),
    "l": ("Gross outliers among the targets", outliers),
    "m": ("Time and memory of robust fits", speed),
}

if __name__ == "__main__":
    command_line(__doc__, SECTIONS, repeats=20)

"""Discriminant analysis: ``python benchmarks/enda.py [--only n,o,p] [--quick] [--repeats N] [--figures FOLDER]``.

Section n is the ENDA document's Table 2, and ``--figures`` draws its Figures 2 to 5; o is the stability of single
models and of ensembles over draws; p is speed and memory. Letter and Sensorless come from the folder that ULMUS_DATA
names; sets that are not there are named and left out. ``--repeats`` counts tests (section n) and timings (section p).
Nothing is written without ``--out benchmarks/RESULTS.md``. What section n has measured is kept in
``benchmarks/.enda_table`` and not measured again, so that a long run can be interrupted; remove the folder to start
anew.
"""

from collections.abc import Callable

from enda_speed import speed
from enda_stability import stability
from enda_table import table_two
from harness import Options, Section, command_line

SECTIONS: dict[str, tuple[str, Callable[[Section, Options], None]]] = {
    "n": ("The ENDA document's Table 2", table_two),
    "o": ("Stability of ENDA over draws", stability),
    "p": ("Speed and memory of ENDA", speed),
}

if __name__ == "__main__":
    command_line(__doc__, SECTIONS, repeats=10, figures=True)

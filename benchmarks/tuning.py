"""Self-tuning beside searches: ``python benchmarks/tuning.py [--only f,g,h] [--quick] [--repeats N] [--out FILE]``.

Models are called without arguments on standardised inputs. Real data come from the folder that ULMUS_DATA names; sets
that are not there are named and left out. ``--repeats`` counts seeds (section f) and random splits (sections g and h).
Nothing is written without ``--out benchmarks/RESULTS.md``; the letters go on from those of ``core.py``, so that both
can write into one file. ``--quick`` tries the script on a few rows and judges nothing.
"""

from collections.abc import Callable

from harness import Options, Section, command_line
from tuning_accuracy import accuracy
from tuning_calibration import calibration
from tuning_search import search

SECTIONS: dict[str, tuple[str, Callable[[Section, Options], None]]] = {
    "f": ("Defaults beside exhaustive search", search),
    "g": ("Accuracy on the document's five sets, and the time of SVC", accuracy),
    "h": ("Coverage of intervals and calibration of probabilities", calibration),
}

if __name__ == "__main__":
    command_line(__doc__, SECTIONS, repeats=3)

"""Learning from streams: ``python benchmarks/online.py [--only i,j] [--quick] [--repeats N] [--out FILE]``.

Section i is about speed, side by side with pyoselm; section j streams real sets in random order beside river's linear
models and trees. Real data come from the folder that ULMUS_DATA names; sets that are not there are named and left out.
Nothing is written without ``--out benchmarks/RESULTS.md``. ``--quick`` tries the script on a few rows and judges
nothing.
"""

from collections.abc import Callable

from harness import Options, Section, command_line
from online_accuracy import accuracy
from online_speed import speed

SECTIONS: dict[str, tuple[str, Callable[[Section, Options], None]]] = {
    "i": ("Rows per second of recursive learning", speed),
    "j": ("Prequential accuracy on real sets, beside river", accuracy),
}

if __name__ == "__main__":
    command_line(__doc__, SECTIONS, repeats=5)

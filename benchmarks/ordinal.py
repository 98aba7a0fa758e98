"""Ordinal regression: the document's experiment, real sets with official splits, and scale.

    python benchmarks/ordinal.py [--only q,r,s] [--quick] [--repeats 20] [--out benchmarks/RESULTS.md]

Sections q and r take the accuracy of every method on the same splits; s is timed. The rivals are those of the
``bench`` extra.
"""

from harness import command_line
from ordinal_accuracy import document_experiment, real_sets
from ordinal_scale import scale

if __name__ == "__main__":
    command_line(
        __doc__ or "",
        {
            "q": ("Ordinal regression: the document's experiment", document_experiment),
            "r": ("Ordinal regression: real sets with official splits", real_sets),
            "s": ("Ordinal regression: scale", scale),
        },
        repeats=20,
    )

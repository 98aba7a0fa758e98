"""Data: a few real sets come with the package, any other is read from a folder or fetched; some are made to measure."""

from ulmus.datasets.catalogue import CATALOGUE, Entry
from ulmus.datasets.generators import make_drift, make_rings, make_sinc, make_spirals, sinc
from ulmus.datasets.loader import Dataset, Part, load
from ulmus.datasets.loader import available as list

__all__ = [
    "CATALOGUE",
    "Dataset",
    "Entry",
    "Part",
    "list",
    "load",
    "make_drift",
    "make_rings",
    "make_sinc",
    "make_spirals",
    "sinc",
]

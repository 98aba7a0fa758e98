"""Real data sets: a few come with the package, any other is read from the folder that ``ULMUS_DATA`` names."""

from ulmus.datasets.catalogue import CATALOGUE, Entry
from ulmus.datasets.loader import Dataset, Part, load
from ulmus.datasets.loader import available as list

__all__ = ["CATALOGUE", "Dataset", "Entry", "Part", "list", "load"]

"""The documents' experiments, by one command each, beside what the documents print and today's rivals.

>>> from ulmus.reproduce import EXPERIMENTS
>>> sorted(EXPERIMENTS)
['enda', 'kelmor', 'newton', 'nkelm', 'oselm']
"""

from ulmus.reproduce.enda import ENDA_EXPERIMENT
from ulmus.reproduce.kelmor import KELMOR
from ulmus.reproduce.newton import NEWTON
from ulmus.reproduce.nkelm import NKELM
from ulmus.reproduce.oselm import OSELM
from ulmus.reproduce.protocol import Cell, Experiment, Results, Settings, Table, Unavailable
from ulmus.reproduce.run import run

EXPERIMENTS = {e.name: e for e in (NKELM, ENDA_EXPERIMENT, OSELM, KELMOR, NEWTON)}

__all__ = ["EXPERIMENTS", "Cell", "Experiment", "Results", "Settings", "Table", "Unavailable", "run"]

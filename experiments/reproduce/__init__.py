"""The documents' experiments, by one command each, beside what the documents print and today's rivals."""

from experiments.reproduce.enda import ENDA_EXPERIMENT
from experiments.reproduce.kelmor import KELMOR
from experiments.reproduce.newton import NEWTON
from experiments.reproduce.nkelm import NKELM
from experiments.reproduce.oselm import OSELM

EXPERIMENTS = {e.name: e for e in (NKELM, ENDA_EXPERIMENT, OSELM, KELMOR, NEWTON)}

__all__ = ["EXPERIMENTS"]

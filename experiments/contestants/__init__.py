"""The one list of who takes part: a name, and how its model is made for a task and a seed.

Methods that a document prescribes, with its parameters, stand with that document in ``reproduce``; the algebra of other
ELM packages is in ``elm``.
"""

from experiments.contestants.common import Make
from experiments.contestants.ours import ABLATIONS, OURS
from experiments.contestants.rivals import RIVALS
from experiments.contestants.streams import STREAMS

CONTESTANTS: dict[str, Make] = {**OURS, **RIVALS, **STREAMS}

__all__ = ["ABLATIONS", "CONTESTANTS", "Make"]

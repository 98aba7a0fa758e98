"""The discriminant models with nothing left to choose, for all tests of them."""

import pytest
from sklearn.base import clone

from ulmus import ENDA, KLDA, NNDA, ENDAEnsemble

PLAIN = {"slope": 1.0, "gamma": 0.5, "C": 16.0, "random_state": 0}
MODELS = {
    "enda": ENDA(20, **PLAIN),
    "enda-mean": ENDA(20, head="mean", **PLAIN),
    "enda-nystrom": ENDA(20, features="nystrom", **PLAIN),
    "klda": KLDA(gamma=0.5, C=16.0, random_state=0),
    "nnda": NNDA(10, max_iter=20, random_state=0),
    "ensemble": ENDAEnsemble(ENDA(20, **PLAIN), n_members=3, random_state=0),
}
models = pytest.mark.parametrize("name", MODELS)
weighable = pytest.mark.parametrize("name", [name for name in MODELS if name != "nnda"])
incremental = pytest.mark.parametrize("features", ["random", "nystrom"])
quiet = pytest.mark.filterwarnings("ignore::ulmus.NumericalWarning")


def model(name, **options):
    return clone(MODELS[name]).set_params(**options)

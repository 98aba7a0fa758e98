"""The ten regression sets of the robust document, with its sizes, and gross outliers for their targets."""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.preprocessing import StandardScaler

from experiments.reproduce.printed import NEWTON, NEWTON_COLUMNS
from experiments.tasks import Task, random_split


@dataclass(frozen=True)
class Published:
    """Sizes, test RMSE and training seconds of the document: Tikhonov, SVR, Newton A, Newton B; NaN where lost."""

    name: str
    n_train: int
    n_test: int
    rmse: tuple[float, ...]
    seconds: tuple[float, ...]


_LOST = (np.nan,) * len(NEWTON_COLUMNS)

#: Name in the document → what it says.
SETS = {
    title: Published(said.source, said.n_train, said.n_test, said.rmse or _LOST, said.seconds or _LOST)
    for title, said in NEWTON.items()
}


def split(name: str, seed: int, n_train: int | None = None, n_test: int | None = None) -> Task | None:
    """A random split with targets scaled to [0, 1] over the set, as in the document, and inputs standardised."""
    facts = SETS[name]
    task = random_split(facts.name, seed, n_train or facts.n_train, n_test or facts.n_test)
    if task is None:
        return None
    whole = random_split(facts.name, seed, 10**9)
    assert whole is not None
    low, high = whole.y.min(), whole.y.max()
    scaler = StandardScaler().fit(task.X)
    return replace(
        task,
        X=scaler.transform(task.X),
        X_test=scaler.transform(task.X_test),
        y=(task.y - low) / (high - low),
        y_test=(task.y_test - low) / (high - low),
    )


def contaminated(task: Task, share: float, seed: int, *, one_sided: bool = False) -> Task:
    """Replace this share of the training targets by values 2 to 10 ranges away, above or (unless one-sided) below."""
    rng = np.random.RandomState(seed)
    y = task.y.copy()
    which = rng.permutation(len(y))[: round(share * len(y))]
    side = np.ones(len(which)) if one_sided else rng.choice([-1.0, 1.0], len(which))
    y[which] = 0.5 + side * rng.uniform(2, 10, len(which))
    return replace(task, y=y)


def rmse(task: Task, predicted: np.ndarray) -> float:
    """Test RMSE in the units of the scaled targets (12)."""
    return float(np.sqrt(np.mean((predicted - task.y_test) ** 2)))

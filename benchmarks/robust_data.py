"""The ten regression sets of the robust document, with its sizes, and gross outliers for their targets."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from problems import Task, random_split


@dataclass(frozen=True)
class Published:
    """Sizes (Table 1; four rows from the ELM literature), test RMSE (Table 4) and training seconds (Table 3).

    Columns: Tikhonov, SVR, Newton A, Newton B; NaN where the document's cell is lost.
    """

    name: str
    n_train: int
    n_test: int
    rmse: tuple[float, float, float, float]
    seconds: tuple[float, float, float, float]


_LOST = (np.nan,) * 4

#: Name in the document → what it says. Its 0.535 for Machine CPU is almost surely a misprint of 0.0535.
SETS = {
    "Auto Price": Published("auto_price", 80, 79, (0.0944, 0.0937, 0.0963, 0.0958), (0.0012, 0.0042, 0.0015, 0.0018)),
    "Breast Cancer": Published(
        "wisconsin_prognostic", 100, 94, (0.2623, 0.2643, 0.2622, 0.2678), (0.0006, 0.0064, 0.0006, 0.0013)
    ),
    "Triazines": Published("triazines", 100, 86, (0.2004, 0.1829, 0.1990, 0.2000), (0.0016, 0.0086, 0.0019, 0.0019)),
    "Machine CPU": Published(
        "machine_cpu", 100, 109, (0.0535, 0.0811, 0.0533, 0.0564), (0.0012, 0.0018, 0.0024, 0.0015)
    ),
    "Abalone": Published("abalone", 2000, 2177, (0.0768, 0.0784, 0.0771, 0.0768), (0.0115, 1.6123, 0.0250, 0.0435)),
    "Delta ailerons": Published(
        "delta_ailerons", 3000, 4129, (0.0391, 0.0429, 0.0390, 0.0392), (0.0165, 0.6726, 0.0640, 0.0992)
    ),
    "CPU activity": Published(
        "cpu_small", 4000, 4192, (0.0345, 0.0470, 0.0347, 0.0344), (0.1416, 1.0149, 0.6435, 2.0120)
    ),
    "Delta elevators": Published(
        "delta_elevators", 4000, 5517, (0.0531, 0.0540, 0.0533, 0.0531), (0.0988, 1.121, 0.3321, 0.5058)
    ),
    "Cal housing": Published(
        "cal_housing", 8000, 12640, (0.1269, 0.1180, 0.1268, 0.1274), (0.1960, 74.184, 0.9913, 2.2597)
    ),
    "Census": Published("house_8L", 10000, 12784, _LOST, _LOST),
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


def remembered(key: str, work: Callable[[], Any]) -> Any:
    """What ``work`` gives, kept in the folder that ULMUS_BENCH_CACHE names: a run that was cut short can go on."""
    folder = os.environ.get("ULMUS_BENCH_CACHE")
    if folder is None:
        return work()
    path = Path(folder) / f"{key}.json"
    if not path.exists():
        path.write_text(json.dumps(work()))
    return json.loads(path.read_text())

"""Adaptive classifiers by squares and by log loss, on rows that no report uses.

    python -m experiments.sections.class_losses [--seeds 1 2] [table ...]

Tables of the arena, split once more inside their training rows: log loss, error and processor seconds of both losses,
and of LightGBM with its defaults where it is installed, as means over the seeds.
"""

import argparse
import importlib.util
import warnings
from time import process_time
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from experiments.runner.protocol import markdown
from experiments.tables import load_table
from ulmus import AdaptiveClassifier

TABLES = (
    *("ann_thyroid", "attrition", "orca_car", "churn", "contraceptive"),
    *("credit_data", "mfeat_zernike", "phoneme", "satimage", "wine_quality_white"),
)


def contestants(seed: int) -> dict[str, Any]:
    """Name → unfitted model."""
    models: dict[str, Any] = {
        loss: AdaptiveClassifier(loss=loss, random_state=seed, n_jobs=1) for loss in ("squared", "log")
    }
    if importlib.util.find_spec("lightgbm") is not None:
        from lightgbm import LGBMClassifier

        models["LightGBM"] = LGBMClassifier(n_jobs=1, verbose=-1, random_state=seed)
    return models


def measured(name: str, seed: int) -> dict[str, np.ndarray]:
    """Log loss, error in percent and processor seconds of every contestant."""
    task: Any = load_table(name, seed, inner=True)
    found = {}
    for who, model in contestants(seed).items():
        began = process_time()
        model.fit(task.X, task.y)
        seconds = process_time() - began
        P = np.asarray(model.predict_proba(task.X_test))
        wrong = 100 * np.mean(P.argmax(axis=1) != task.y_test)
        found[who] = np.array([log_loss(task.y_test, P, labels=np.arange(P.shape[1])), wrong, seconds])
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=TABLES)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2])
    given = parser.parse_args()
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in given.tables:
            seen = [measured(name, seed) for seed in given.seeds]
            mean = {who: np.mean([each[who] for each in seen], axis=0) for who in seen[0]}
            rows.append((name, *(f"{loss:.4f}, {wrong:.2f} %, {time:.1f} s" for loss, wrong, time in mean.values())))
    print(markdown(("table", *contestants(0)), rows))


if __name__ == "__main__":
    main()

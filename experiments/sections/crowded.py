"""Intervals of random layers with hardly fewer nodes than rows, without a penalty: what 90 % cover.

python -m experiments.sections.crowded [--seeds 6]
"""

import argparse
import warnings

import numpy as np

from experiments.runner.protocol import markdown
from ulmus import ELMRegressor

SIZES = ((100, 80), (100, 90), (100, 95), (100, 99), (60, 58), (400, 390))
NEW, COVERAGE = 1_500, 0.9


def drawn(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Three inputs, noise of deviation 0.3."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=6)
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore")
    lines = []
    for n, nodes in SIZES:
        told: dict[str, list[tuple[float, float]]] = {"normalised": [], "jackknife+": []}
        for seed in range(seeds):
            (X, y), (Q, t) = drawn(n, seed), drawn(NEW, 100 + seed)
            model = ELMRegressor(nodes, C=None, random_state=seed, n_jobs=1).fit(X, y)
            for method, found in told.items():
                low, high = model.predict_interval(Q, COVERAGE, method=method).T
                found.append((float(((low <= t) & (t <= high)).mean()), float(np.median(high - low))))
        both = {method: np.array(found) for method, found in told.items()}
        cells = [f"{100 * each[:, 0].mean():.0f} %, {100 * each[:, 0].min():.0f} %" for each in both.values()]
        wider = np.median(both["jackknife+"][:, 1] / both["normalised"][:, 1])
        lines.append((n, nodes, *cells, f"{wider:.1f}"))
    print(markdown(("rows", "nodes", "normalised: mean, least", "jackknife+", "times as wide"), lines))


if __name__ == "__main__":
    main()

"""
Where landmarks go
==================

Five ways to choose landmark rows, on a set whose density varies.
"""

import matplotlib.pyplot as plt
import numpy as np

from ulmus import NystromMap

rng = np.random.RandomState(0)
X = np.concatenate([rng.normal(0, 0.3, (900, 2)), rng.normal([3, 2], 0.8, (100, 2))])
labels = np.repeat([0, 1], [900, 100])

figure, axes = plt.subplots(1, 5, figsize=(14, 3), sharex=True, sharey=True, constrained_layout=True)
for ax, strategy in zip(axes, ("uniform", "kmeans", "rpcholesky", "leverage", "balanced"), strict=True):
    found = NystromMap(25, gamma=1.0, landmarks=strategy, random_state=0).fit(X, labels)
    ax.plot(*X.T, ".", color="lightgray", markersize=3)
    ax.plot(*found.landmarks_.T, "o", color="black", markersize=5, mfc="gold")
    ax.set_title(strategy)
plt.show()

"""
Five ways to choose landmarks
=============================

Landmarks of 800 abalones, drawn in two of their columns; heavy animals are rare. ``"uniform"``, the default, samples
rows; the others spread out more.
"""

import matplotlib.pyplot as plt
from sklearn.preprocessing import StandardScaler

from ulmus import NystromMap, datasets

abalone = datasets.load("abalone")
columns = [abalone.feature_names.index("Diameter"), abalone.feature_names.index("Whole weight")]
X = StandardScaler().fit_transform(abalone.data[:800, columns])
labels = abalone.target[:800] > 9

figure, axes = plt.subplots(1, 5, figsize=(14, 3), sharex=True, sharey=True, layout="constrained")
for ax, strategy in zip(axes, ("uniform", "kmeans", "rpcholesky", "leverage", "balanced"), strict=True):
    found = NystromMap(25, gamma=1.0, landmarks=strategy, random_state=0).fit(X, labels)
    ax.plot(*X.T, ".", color="lightgray", markersize=3)
    ax.plot(*found.landmarks_.T, "o", color="black", markersize=5, mfc="gold")
    ax.set_title(strategy)
    ax.set_xlabel("diameter")
axes[0].set_ylabel("weight")
plt.show()

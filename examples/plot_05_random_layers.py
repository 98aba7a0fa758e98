"""
Random layers: the slope matters more than the number of nodes
==============================================================

The same 100 random nodes with three slopes, and the slope that leave-one-out chooses, on accelerations of a helmet
after an impact.
"""

import matplotlib.pyplot as plt
import numpy as np

from ulmus import ELMRegressor, datasets

helmet = datasets.load("mcycle")
X, y = helmet.data, helmet.target
grid = np.linspace(X.min(), X.max(), 400)[:, None]
figure, axes = plt.subplots(1, 4, figsize=(14, 3.2), sharey=True, layout="constrained")
for ax, slope in zip(axes, (0.2, 4.0, 200.0, "auto"), strict=True):
    model = ELMRegressor(100, slope=slope, random_state=0).fit(X, y)
    ax.plot(X, y, ".", color="lightgray")
    ax.plot(grid, model.predict(grid), color="black")
    ax.set_title(f"slope {slope}" if slope != "auto" else f'slope "auto": {model.slope_:.2g}')
    ax.set_xlabel("milliseconds")
axes[0].set_ylabel("acceleration, g")
plt.show()
